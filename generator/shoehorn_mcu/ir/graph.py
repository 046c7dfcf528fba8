"""Ops over named tensors, in an order that runs: the value that importers make and passes rewrite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, Self
from weakref import WeakKeyDictionary

from typing_extensions import TypeIs, TypeVar

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir.facts import Range, Tie
from shoehorn_mcu.ir.types import Array, Bools, TensorType

if TYPE_CHECKING:
    from builtins import property as operand  # mypy holds which nodes have it
else:
    from functools import cached_property as operand  # kernels ask for operands very often


class GraphError(ShoehornError):
    """The graph breaks a law of the IR; the message names the op or tensor."""


class OpFault(GraphError):
    """An op does not fit its operands; `why` is the reason without the op's name."""

    def __init__(self, op: Op, why: str) -> None:
        super().__init__(f"op '{op.name}' ({type(op).__name__}): {why}")
        self.why = why


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named value; `data` is there when it is a constant."""

    name: str
    type: TensorType
    data: Array | None = None


@dataclass(frozen=True)
class Signature:
    """The types that one op reads and writes."""

    inputs: tuple[TensorType, ...]
    output: TensorType


@dataclass(frozen=True, eq=False)
class Channels:
    """Which channels an op ties together, and the op once some of them are dropped.

    `ties` has one entry per row input. `cut(operands, output)` gets, per row input and for the output, which channels
    are kept (consistent with the ties), and returns the op with its attributes adapted.
    """

    ties: tuple[Tie, ...]
    cut: Callable[[Sequence[Bools], Bools], Op]


@dataclass(frozen=True)
class RowPart:
    """The part of each output row that the kernel of an op writes, in elements."""

    start: int  # from the row's start
    step: int | None  # from a pixel to the next; None: the part is in one piece
    onto: int | None  # the place of the operand whose rows have the other elements; None: they are unspecified


@dataclass(frozen=True, kw_only=True, eq=False)
class Op:
    """One operation: attributes are the subclass's fields, operands are tensor names.

    Every op writes exactly one tensor (an importer splits what its format writes as several).
    The first `row_inputs` inputs are read by rows; the others (weights, bias) are constants that a
    kernel packs. None: all inputs are read by rows.

    A subclass must give `infer`, `check`, `rows` and `reference`. The other methods are facts that passes ask for;
    their defaults assume the worst, so an op that says nothing is never optimised wrongly.
    """

    name: str
    inputs: tuple[str, ...]
    output: str

    row_inputs: ClassVar[int | None] = None
    carries: ClassVar[bool] = False  # output row y also reads earlier rows of the output, as the last entry of `rows`
    view: ClassVar[bool] = False  # the output is input 0 with another shape: no kernel runs, both share their bytes
    any_shape: ClassVar[bool] = False  # operands may have any shape: an element is made of those at its place in them
    spaced: ClassVar[bool] = False  # kernels can leave gaps between the output's pixels, for what other ops write there
    no_overflow: ClassVar[bool] = False  # it is proven for every input that no sum or product leaves int32

    @property
    def by_rows(self) -> int | None:
        """How many inputs are read by rows, the first ones; None: all."""
        return self.row_inputs

    @property
    def shares_rows(self) -> bool:
        """Whether ops read the rows of this op's inputs in place of its output's rows: no kernel runs."""
        return False

    def row_start(self, sig: Signature) -> int | None:
        """The byte of an input row at which an output row begins, where each output row is a part of one input row."""
        return None

    def row_part(self, output: TensorType) -> RowPart | None:
        """The part of its output's rows that the op's kernel writes; None: all of them."""
        return None

    def computed(self, node: Node) -> Node:
        """The node that kernels are chosen for, where the op's kernel is that of another op."""
        return node

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        """The output's shape; raises GraphError where the inputs do not fit the attributes."""
        raise NotImplementedError

    def check(self, node: Node[Self]) -> None:
        """Raises OpFault where element types, quantisations or constants break the op's laws (not shapes)."""
        raise NotImplementedError

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        """For output row y (of N*H), the rows that are read, one tuple per row input, then one for what it carries.

        The length of each tuple does not depend on y; None stands for a row of padding (or for a place
        that this y does not use) and reaches the kernel as a null pointer.
        """
        raise NotImplementedError

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        """The output for whole inputs (constants included), computed in numpy, exactly."""
        raise NotImplementedError

    def macs(self, sig: Signature) -> int:
        """Multiply-accumulates of one inference; 0 for ops that have none."""
        return 0

    def overflow(self, node: Node[Self]) -> str | None:
        """Which sum or product can leave int32 for some input, in words; None: proven that none can."""
        return None if self.no_overflow else f"no bound is known for the int32 arithmetic of {type(self).__name__}"

    def ranges(self, node: Node[Self], operands: Sequence[Range]) -> Range:
        """Bounds of the output, per channel, from those of the row inputs. Only called where nothing overflows."""
        return Range.of_type(node.output.type)

    def pixelwise(self, sig: Signature) -> bool:
        """Whether output pixel i, of N*H*W, depends on pixel i of each row input alone, or on the one pixel it has."""
        return False

    def part(self, rows: range, sig: Signature, apart: int = 1) -> Op | None:
        """The op that computes these output rows (of one image of NHWC) alone; None: it is computed whole.

        Its operands are the rows that `rows` names for them, from the first to the last of each operand, with `apart`
        only each so many-th. An op with parts computes every row by the same function of the rows that are named.
        """
        return self if apart == 1 and self.pixelwise(sig) else None

    def channels(self, node: Node[Self]) -> Channels | None:
        """How channels depend on each other; None: all channels of all operands are kept or dropped together."""
        return None

    def per_channel(self, node: Node) -> bool:
        """Whether output channel c depends on input channel c alone (of one row input), and `channels` can cut it.

        Where the output has m times as many channels, its channel c depends on input channel c // m.
        """
        return False


class Weighted(Op):
    """An op with constant weights among its operands."""

    weights_place: ClassVar[int] = 1


class Biased(Weighted):
    """An op with constant weights and a bias among its operands."""

    bias_place: ClassVar[int] = 2


class Pairwise(Op):
    """An op with the operands (a, b)."""


OpT = TypeVar("OpT", bound=Op, covariant=True, default=Op)
"""The class of a node's op. What a function asks of its node is in its type: `Node[Conv2d]`, and `Node` of any op."""

KindT = TypeVar("KindT", bound=Op)


@dataclass(frozen=True)
class Node(Generic[OpT]):
    """An op with its operands looked up, which have names where the class of the op says what they are."""

    op: OpT
    inputs: tuple[Tensor, ...]
    output: Tensor

    @operand
    def x(self) -> Tensor:
        """The first operand."""
        return self.inputs[0]

    @operand
    def weights(self: Node[Weighted]) -> Tensor:
        return self.inputs[self.op.weights_place]

    @operand
    def bias(self: Node[Biased]) -> Tensor:
        return self.inputs[self.op.bias_place]

    @operand
    def a(self: Node[Pairwise]) -> Tensor:
        return self.inputs[0]

    @operand
    def b(self: Node[Pairwise]) -> Tensor:
        return self.inputs[1]

    @property
    def computed(self) -> Node:
        """The node that kernels are chosen for (see Op.computed)."""
        return self._computed or self

    @cached_property
    def _computed(self) -> Node | None:
        """The same where it is another node, so that a node does not refer to itself."""
        found = self.op.computed(self)
        return None if found is self else found

    @property
    def row_part(self) -> RowPart | None:
        """The part of the output's rows that the kernel writes (see Op.row_part)."""
        return self.op.row_part(self.output.type)

    @cached_property
    def sig(self) -> Signature:
        return Signature(tuple(t.type for t in self.inputs), self.output.type)

    @property
    def row_inputs(self) -> tuple[Tensor, ...]:
        """The operands that are read by rows (see Op.row_inputs)."""
        return self.inputs[: self.op.by_rows]

    @property
    def row_operands(self) -> tuple[Tensor, ...]:
        """The tensors whose rows `Op.rows` names: the row inputs, and the output where earlier rows of it are read."""
        return (*self.row_inputs, *((self.output,) if self.op.carries else ()))


def is_a(node: Node, kind: type[KindT]) -> TypeIs[Node[KindT]]:
    """Whether the node's op is of that class."""
    return isinstance(node.op, kind)


@dataclass(frozen=True)
class State:
    """A tensor that keeps its value between inferences.

    Ops read `read`; `write`, computed by the same inference, becomes the value of `read` in the next one. The first
    inference reads the constant `initial`. All three name tensors of one type.

    Where `write` has fewer rows, the state is a ring (see Graph.is_ring): its next value is what is left of it without
    as many rows at its front, then those of `write`.
    """

    read: str
    write: str
    initial: str


@dataclass(frozen=True, eq=False)
class Graph:
    """A model: `tensors` by name, `ops` in a runnable order, names of inputs and outputs, and its states."""

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[State, ...] = ()

    def node(self, op: Op) -> Node:
        found = self._nodes.get(op)
        if found is None:
            found = self._nodes[op] = Node(op, tuple(self.tensors[n] for n in op.inputs), self.tensors[op.output])
        return found

    @cached_property
    def _nodes(self) -> dict[Op, Node]:
        """The nodes that were asked for, by op."""
        return {}

    def nodes(self) -> Iterator[Node]:
        """Every op with its operands, in order."""
        return map(self.node, self.ops)

    @cached_property
    def macs(self) -> int:
        return sum(n.op.macs(n.sig) for n in self.nodes())

    @property
    def sources(self) -> tuple[str, ...]:
        """Tensors that have a value before the first op: inputs and the states that are read."""
        return (*self.inputs, *(state.read for state in self.states))

    @property
    def results(self) -> tuple[str, ...]:
        """Tensors that are used after the last op, so they keep name and shape: outputs and the states' next values."""
        return (*self.outputs, *(state.write for state in self.states))

    def initial(self, state: State) -> Array:
        """The first values of a state."""
        data = self.tensors[state.initial].data
        assert data is not None  # verify
        return data

    def is_ring(self, state: State) -> bool:
        """Whether the state drops its first rows for new ones, so that the others need not be moved."""
        return self.tensors[state.write].type.rows < self.tensors[state.read].type.rows

    @property
    def views(self) -> Mapping[str, str]:
        """Tensors written by views, each with the tensor that it is a view of (which may be a view itself)."""
        return {op.output: op.inputs[0] for op in self.ops if op.view}


_MOST_BYTES = (1 << 31) - 1

_KEPT: WeakKeyDictionary[Op, tuple[tuple[Tensor, ...], Tensor]] = WeakKeyDictionary()
"""By op: the operands with which it last kept its own laws. Most passes leave most ops as they are."""


def too_large(tensor: Tensor) -> str | None:
    """What is wrong with the size of a tensor, if something is."""
    if tensor.type.bytes <= _MOST_BYTES:
        return None
    return f"'{tensor.name}' is {tensor.type}, {tensor.type.bytes:,} bytes; at most 2^31 - 1 are possible"


def verify(graph: Graph) -> Graph:
    """The graph itself, or GraphError where it breaks a law.

    Names are unique, operands are written before they are read, shapes are as inferred, every op's own laws about
    types, quantisations and constants hold (`Op.check`), and states are read, written and begun with one type, but for
    the rows of a ring. A tensor has at most 2^31 - 1 bytes, for kernels count in int32.
    """
    constants = {n for n, t in graph.tensors.items() if t.data is not None}
    written = {*graph.sources, *constants}
    names: set[str] = set()
    for tensor in graph.tensors.values():
        if tensor.data is not None and tensor.data.shape != tensor.type.shape:
            raise GraphError(
                f"{graph.name}: constant '{tensor.name}' holds {tensor.data.shape}, its type says {tensor.type}"
            )
        if (fault := too_large(tensor)) is not None:
            raise GraphError(f"{graph.name}: {fault}")
    for op in graph.ops:
        _verify_op(graph, op, names, written)
        names.add(op.name)
        written.add(op.output)
    if missing := [n for n in graph.outputs if n not in written]:
        raise GraphError(f"{graph.name}: outputs that nothing writes: {', '.join(missing)}")
    for state in graph.states:
        _verify_state(graph, state)
    return graph


def _verify_op(graph: Graph, op: Op, names: set[str], written: set[str]) -> None:
    """Raises GraphError unless the op fits the graph so far."""
    where = f"{graph.name}: op '{op.name}' ({type(op).__name__})"
    if op.name in names:
        raise GraphError(f"{where}: another op has this name")
    if unknown := [n for n in (*op.inputs, op.output) if n not in graph.tensors]:
        raise GraphError(f"{where}: names tensors that do not exist: {', '.join(unknown)}")
    if missing := [n for n in op.inputs if n not in written]:
        raise GraphError(f"{where}: reads {', '.join(missing)} before anything writes it")
    if op.output in written:
        raise GraphError(f"{where}: writes '{op.output}', which is written already")
    node = graph.node(op)
    operands = node.inputs, node.output
    if _KEPT.get(op) == operands:
        return
    try:
        shape = op.infer(node.sig.inputs)
        op.check(node)
    except OpFault as fault:
        raise GraphError(f"{where}: {fault.why}") from fault
    if shape != node.output.type.shape:
        raise GraphError(f"{where}: gives shape {shape}, but '{op.output}' has {node.output.type.shape}")
    _KEPT[op] = operands


def _verify_state(graph: Graph, state: State) -> None:
    """Raises GraphError unless the state's three tensors exist, play their parts and have one type."""
    where = f"{graph.name}: state '{state.read}'"
    if unknown := [n for n in (state.read, state.write, state.initial) if n not in graph.tensors]:
        raise GraphError(f"{where}: names tensors that do not exist: {', '.join(unknown)}")
    if state.read in graph.inputs or [s.read for s in graph.states].count(state.read) > 1:
        raise GraphError(f"{where}: is an input or another state as well")
    if state.write not in {op.output for op in graph.ops}:
        raise GraphError(f"{where}: '{state.write}' is to be its next value, but no op writes it")
    if graph.tensors[state.initial].data is None:
        raise GraphError(f"{where}: its initial value '{state.initial}' is not a constant")
    read, write, initial = (graph.tensors[n].type for n in (state.read, state.write, state.initial))
    if read != initial or read not in (write, replace(write, shape=_with_rows_of(read, write))):
        raise GraphError(f"{where}: is {read}, written as {write}, begun as {initial}; all must be one type")


def _with_rows_of(read: TensorType, write: TensorType) -> tuple[int, ...]:
    """The shape of `write` with as many rows as `read`, where that is one image of more rows."""
    images, rows = read.shape[:1], read.shape[1:2]
    more = len(read.shape) == len(write.shape) == 4 and images == (1,) and rows > write.shape[1:2]
    return (*write.shape[:1], *rows, *write.shape[2:]) if more else write.shape
