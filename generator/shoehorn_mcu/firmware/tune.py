"""The measurements behind `gen tune`: which kernels can compute each layer, and images that run them on the board.

A layer is all ops of a model with one contract key: they differ in constants only, so one is measured for all. An image
is a firmware whose ops are candidates for layers, each on an input in RAM as in the model: a padding op writes it,
because the board's flash may be slower. Tensors are whole, so rows that can be one call are. Times are compared per row
of the output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.project import project
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.estimate import flash
from shoehorn_mcu.firmware.report import report, timeless
from shoehorn_mcu.ir import Array, DType, Graph, GraphError, Node, Op, Tensor, TensorType, verify
from shoehorn_mcu.kernels import Instance, choices, choose, contract_of, cost
from shoehorn_mcu.kernels.base.contract import array_bytes
from shoehorn_mcu.machine.targets import Board, Machine
from shoehorn_mcu.ops import Pad, Reshape
from shoehorn_mcu.planner import make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.runs import joined, longest
from shoehorn_mcu.schedule.stage import computes, stage_of, stages

LIBRARY = "candidates"  # name of the library in an image
_MOST_CONSTANTS = 4 << 20  # bytes in one image: they are compiled from text
_FLASH_SHARE = 0.95  # of what the estimate leaves
_RAM_SHARE = 0.8  # of what the application leaves; the rest is scratch and stack
_STACK_ALIGNMENT = 8  # bytes, of Arm's procedure call standard
_STEPS = 2  # of a trial, by estimate: its op, and one that pads its input
_X = TensorType((1, 4), DType.INT8)


@dataclass(frozen=True, eq=False)
class Layer:
    """Ops with one contract key; `candidates` compute each of them."""

    key: str
    nodes: tuple[Node, ...]
    candidates: tuple[Instance, ...]
    chosen: str  # the folder's kernel
    measured: Node  # the first of the nodes, with fewer rows where the board has no room for all

    @property
    def rows(self) -> int:
        """Rows that one inference computes."""
        return sum(node.output.type.rows for node in self.nodes)

    def predicted(self, kernel: Instance, cpu: str, unit: cost.Unit) -> float:
        """The predicted cost of one inference's rows in a unit of the core, where they lie side by side."""
        made = (longest(stage_of(0, node, Machine.of(cpu), lambda *_: kernel)) for node in self.nodes)
        return sum(stage.row_cost_in(unit) * stage.node.output.type.rows for stage in made)


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate for a layer."""

    layer: Layer
    kernel: Instance

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of the constants that the kernel reads."""
        node = self.layer.measured
        by_rows = sum(tensor.data.nbytes for tensor in node.row_inputs if tensor.data is not None)
        return array_bytes(self.kernel.params(node)) + by_rows


def layers(graph: Graph, board: Board, chosen: Mapping[str, str]) -> list[Layer]:
    """The layers in the order of their first ops; `chosen`: op -> the folder's kernel.

    Views and ops that share rows are no layers.
    A candidate computes all ops of a layer: whether one is exact may depend on the constants.
    """
    alike = by_key((contract_of(node).key(node), node) for node in graph.nodes() if computes(node))
    found = []
    for key, nodes in alike.items():
        common = set.intersection(*({k.name for k in choices(node, board.cpu.isas)} for node in nodes))
        kernels = tuple(k for k in choices(nodes[0], board.cpu.isas) if k.name in common)
        measured = fitting(nodes[0], int(_RAM_SHARE * board.arena_limit_bytes))
        found.append(Layer(key, tuple(nodes), kernels, chosen[nodes[0].op.name], measured))
    return found


def fitting(node: Node, most_bytes: int) -> Node:
    """The node, with half as many rows of input until its tensors fit into these bytes or its key would change."""
    key = contract_of(node).key(node)
    while sum(t.type.bytes for t in (*node.row_inputs, node.output) if t.data is None) > most_bytes:
        fewer = _half(node)
        if fewer is None or contract_of(fewer).key(fewer) != key:
            break
        node = fewer
    return node


def _half(node: Node) -> Node | None:
    """The node with inputs of half the height, or None where there is no such node."""
    heights = {tensor.type.nhwc[1] for tensor in node.row_inputs}
    if len(heights) != 1 or heights == {1} or any(t.data is not None for t in node.row_inputs):
        return None
    read = len(node.row_inputs)
    inputs = tuple(_lower(t) if i < read else t for i, t in enumerate(node.inputs))
    try:
        shape = node.op.infer(tuple(t.type for t in inputs))
        made = Node(node.op, inputs, replace(node.output, type=replace(node.output.type, shape=shape)))
        node.op.check(made)
    except GraphError:
        return None
    return made if 0 < made.output.type.rows < node.output.type.rows else None


def _lower(tensor: Tensor) -> Tensor:
    shape = tensor.type.shape
    lower_shape = (*shape[:-3], shape[-3] // 2, *shape[-2:])
    return replace(tensor, type=replace(tensor.type, shape=lower_shape))


def groups(trials: Sequence[Trial], board: Board) -> Iterator[list[Trial]]:
    """Trials in as few images as the board's flash allows by estimate, in order; one that alone is too large, alone."""
    room = _FLASH_SHARE * (board.spec.flash_bytes - flash.application_bytes(board.spec.cpu) - flash.ERROR_BYTES)
    group: list[Trial] = []
    for trial in trials:
        constant, code = _sizes([*group, trial], board.spec.cpu)
        if group and (constant + code > room or constant > _MOST_CONSTANTS):
            yield group
            group = []
        group.append(trial)
    if group:
        yield group


def _sizes(group: Sequence[Trial], cpu: str) -> tuple[int, float]:
    """Estimated bytes of constants and of code."""
    steps = _STEPS * len(group)
    code = cost.code_bytes((trial.kernel for trial in group), cpu) + flash.plan_bytes(steps, steps, cpu)
    return sum(trial.constant_bytes for trial in group), code


def image(group: Sequence[Trial], board: Board) -> Bundle:
    """The project folder that runs the trials: op `trial_<i>` of its plan is number i.

    DoesNotFit where the board's RAM is too small for one of them.
    """
    graph = _graph(group)
    kernels = {f"trial_{i}": trial.kernel for i, trial in enumerate(group)}
    machine = Machine.of(board.spec.cpu)
    made = stages(graph, machine, lambda node, _: kernels.get(node.op.name) or choose(node, machine))
    problem = lower(graph, made, board.arena_limit_bytes)
    long, plan = joined(problem, made, make_plan(problem))
    unit = Unit(LIBRARY, graph, long, plan)
    found = constants(unit)
    said = report(graph, board, (), plan, long, (found.bytes, 0, None))
    return project(unit, found, _with_stack(board, plan.arena_bytes), "none", timeless(said))


def _with_stack(board: Board, arena_bytes: int) -> Board:
    """The board with all RAM that the arena leaves as the stack: candidates may need more than the model's kernels."""
    left = (board.arena_limit_bytes - arena_bytes) // _STACK_ALIGNMENT * _STACK_ALIGNMENT
    return replace(board, spec=board.spec.model_copy(update={"stack_bytes": board.spec.stack_bytes + max(0, left)}))


def _graph(group: Sequence[Trial]) -> Graph:
    """All trials side by side; those of one layer read the same inputs. The model's input is its output."""
    tensors = {"x": Tensor("x", _X), "y": Tensor("y", replace(_X, shape=(4, 1)))}
    ops: list[Op] = []
    inputs: dict[str, tuple[str, ...]] = {}
    for i, trial in enumerate(group):
        node, key = trial.layer.measured, trial.layer.key
        if key not in inputs:
            names = []
            for j, tensor in enumerate(node.inputs):
                for made, op in _source(tensor, f"{len(inputs)}_{j}"):
                    tensors[made.name] = made
                    ops += [op] if op else []
                names.append(made.name)
            inputs[key] = tuple(names)
        output = f"y_{i}"
        tensors[output] = replace(node.output, name=output)
        ops.append(replace(node.op, name=f"trial_{i}", inputs=inputs[key], output=output))
    ops.append(Reshape(name="ends", inputs=("x",), output="y", shape=(4, 1)))
    return verify(Graph(LIBRARY, tensors, tuple(ops), ("x",), ("y",)))


def _source(tensor: Tensor, number: str) -> Iterator[tuple[Tensor, Op | None]]:
    """The tensors that give an operand its values, that operand last: a constant row, and an op that pads it with rows.

    More than four dimensions cannot be padded; such an operand is a constant as it is.
    """
    name, shape = f"x_{number}", tensor.type.shape
    if tensor.data is not None:
        yield replace(tensor, name=name), None
        return
    if len(shape) > 4:
        yield Tensor(name, tensor.type, _random(tensor.type, shape)), None
        return
    row = tuple(1 if i < len(shape) - 2 else size for i, size in enumerate(shape))
    yield Tensor(f"row_{number}", replace(tensor.type, shape=row), _random(tensor.type, row)), None
    zero = tensor.type.quant.zero_points[0] if tensor.type.quant else 0
    after = tuple(size - one for size, one in zip(shape, row, strict=True))
    pad = Pad(
        name=f"fill_{number}",
        inputs=(f"row_{number}",),
        output=name,
        before=(0,) * len(shape),
        after=after,
        value=zero,
    )
    yield replace(tensor, name=name), pad


def _random(kind: TensorType, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(0)
    if kind.dtype is DType.FLOAT32:
        return rng.standard_normal(shape).astype(np.float32)
    low, high = (0, 2) if kind.dtype is DType.BOOL else kind.dtype.limits
    bound = 1 << 16  # sums, such as a partial one, are far from their type's ends
    return rng.integers(max(low, -bound), min(high, bound), shape).astype(kind.dtype.numpy)


def trials(of: Iterable[Layer], known: Mapping[str, Collection[str]]) -> list[Trial]:
    """The candidates that were not measured yet; a layer with one candidate has nothing to compare."""
    return [
        Trial(layer, kernel)
        for layer in of
        if len(layer.candidates) > 1
        for kernel in layer.candidates
        if kernel.name not in known.get(layer.key, ())
    ]
