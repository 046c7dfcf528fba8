"""One ONNX op with its operands looked up, the ops that its converter makes, and the order of dimensions in memory.

ONNX has channels first, kernels have them last. A value of the model is held as a tensor with its dimensions in another
`order`; converters say which order they need, and only where an op mixes dimensions does a Transpose move elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import ImportFault, NeedsConstant, Unsupported
from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.ir import Array, DType, GraphError, Op, Quant, State, Tensor, TensorType, too_large
from shoehorn_mcu.ir.edit import numbered_name
from shoehorn_mcu.ir.orders import channels_last
from shoehorn_mcu.ops import Formulaic, LinearOp, Reshape, Slice, Softmax, Transpose
from shoehorn_mcu.ops.laws import quoted

T = TypeVar("T")

MOST_DIMENSIONS = 4  # of a Transpose

NHWC = (0, 2, 3, 1)
"""The order of images: which of ONNX's dimensions N, C, H, W each dimension in memory is."""


@dataclass(frozen=True)
class Value:
    """A value of the model: dimension d of the tensor is the model's dimension order[d]."""

    tensor: Tensor
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the model's own order."""
        sizes = self.tensor.type.shape
        return tuple(sizes[self.order.index(dimension)] for dimension in range(len(sizes)))

    @property
    def rank(self) -> int:
        return len(self.order)


def common_order(*values: Value) -> tuple[int, ...]:
    """The order to which operands of as many dimensions are brought: of images channels last where one has it, as the
    ops behind mostly need it, else that of the first that is computed.
    """
    computed = [value for value in values if value.tensor.data is None] or list(values)
    last = channels_last(computed[0].rank)
    image = computed[0].rank == len(NHWC)
    return last if image and any(value.order == last for value in computed) else computed[0].order


@dataclass
class Builder:
    """The tensors and ops made so far."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of the ops
    infinite: set[str] = field(default_factory=set)  # tensors in which infinities are meant, such as those of masks
    states: list[State] = field(default_factory=list)

    def add(self, tensor: Tensor) -> Tensor:
        """The tensor itself, which the graph now has. Raises ImportFault where kernels cannot count its bytes."""
        if (fault := too_large(tensor)) is not None:
            raise ImportFault(f"{fault}; export the model with smaller dimensions")
        self.tensors[tensor.name] = tensor
        return tensor

    def cut(self, count: int) -> None:
        """Takes back the ops behind the first `count` ones."""
        self.names -= {op.name for op in self.ops[count:]}
        del self.ops[count:]

    def free(self, name: str) -> str:
        """The name itself, or with a number behind it where a tensor has it already."""
        return numbered_name(self.tensors, name)


@dataclass(frozen=True)
class Site:
    """An op of the file: its operands, and the means to make ops in its place."""

    node: RawNode
    values: Mapping[str, Value]  # that earlier ops or the inputs gave
    constants: Mapping[str, Array]
    builder: Builder
    stored: bool = False  # formulas take the stored values of what is quantised

    def attribute(self, name: str, default: T) -> T:
        """The attribute, of the default's type."""
        value: Any = self.node.attributes.get(name, default)
        if not isinstance(value, type(default)):
            raise ImportFault(f"its attribute '{name}' is {value!r}; export it again")
        return value

    def given(self, place: int) -> bool:
        """Whether the op has this operand."""
        return place < len(self.node.inputs) and self.node.inputs[place] != ""

    def is_constant(self, place: int) -> bool:
        return self.given(place) and self.node.inputs[place] in self.constants

    def constant(self, place: int, role: str) -> Array:
        """An operand that is known before the model runs."""
        if not self.given(place):
            raise ImportFault(f"it lacks its {role}; export it again")
        name = self.node.inputs[place]
        if name not in self.constants:
            raise NeedsConstant(f"its {role} {quoted(name)} is computed, it must be constant", name)
        return self.constants[name]

    def real(self, place: int, role: str) -> NDArray[np.float32]:
        """A constant of real numbers, in float32."""
        found = self.constant(place, role)
        if found.dtype.kind != "f":
            raise Unsupported(f"its {role} {quoted(self.node.inputs[place])} is {found.dtype}, float32 is needed")
        return found.astype(np.float32, copy=False)

    def integers(self, place: int, role: str) -> tuple[int, ...]:
        """A constant list of integers."""
        found = self.constant(place, role)
        if found.dtype.kind not in "iu" or found.ndim > 1:
            raise Unsupported(f"its {role} {quoted(self.node.inputs[place])} is no list of integers")
        return tuple(int(v) for v in found.reshape(-1).tolist())

    def value(self, place: int, role: str = "input") -> Value:
        """An operand that is computed; a constant becomes a tensor in the model's order."""
        if not self.given(place):
            raise ImportFault(f"it lacks its {role}; export it again")
        name = self.node.inputs[place]
        if name in self.constants:
            return as_plain(self.weights(self.constants[name]))
        return self.values[name]

    def weights(self, data: Array, quant: Quant | None = None) -> Tensor:
        """A constant tensor, as it is; real numbers are held as float32."""
        if data.dtype.kind == "f":
            data = data.astype(np.float32, copy=False)
        try:
            dtype = DType(data.dtype.name)
        except ValueError:
            raise Unsupported(f"it reads constants of type {data.dtype}") from None
        name = self.builder.free(f"{self.node.outputs[0]}_constant")
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            self.builder.infinite.add(name)
        return self.builder.add(
            Tensor(name, TensorType(data.shape, dtype, quant), np.ascontiguousarray(data).reshape(data.shape))
        )

    def state(self, initial: Array) -> tuple[Tensor, Tensor]:
        """A tensor that keeps its value between inferences, and its first value; `builder.states` must name both."""
        first = self.weights(initial)
        return self.builder.add(Tensor(self.builder.free(f"{self.node.outputs[0]}_before"), first.type)), first

    def emit(
        self,
        make: Callable[..., Op],
        *inputs: Tensor,
        quant: Quant | None = None,
        dtype: DType | None = None,
        **fields: Any,
    ) -> Tensor:
        """Makes an op of this class and these fields.

        Its output has the first input's element type and quantisation, if no others are given. Its name is the one that
        the file gives it, with a number where an op of the file becomes several. A constant that is only reshaped or
        transposed is another constant.
        """
        if self.stored and isinstance(make, type) and issubclass(make, Formulaic):
            fields["stored"] = True
        name = self.node.outputs[0]
        code = self.node.code.rsplit(".", 1)[-1]
        op = make(
            name=numbered_name(self.builder.names, f"{code}_{self.node.index}"),
            inputs=tuple(tensor.name for tensor in inputs),
            output=self.builder.free(name),
            **fields,
        )
        try:
            shape = op.infer(tuple(tensor.type for tensor in inputs))
        except GraphError as error:
            raise ImportFault(f"{getattr(error, 'why', error)}; export it again") from error
        if isinstance(op, Reshape | Transpose) and (moved := _moved(inputs[0], op)) is not None:
            return self.weights(*moved)
        self.builder.ops.append(op)
        self.builder.names.add(op.name)
        if not isinstance(op, LinearOp | Softmax) and (
            any(tensor.name in self.builder.infinite for tensor in inputs) or "inf" in str(fields.get("formula", ""))
        ):
            self.builder.infinite.add(op.output)
        first = inputs[0].type
        kind = TensorType(shape, dtype or first.dtype, first.quant if quant is None and dtype is None else quant)
        return self.builder.add(Tensor(op.output, kind))

    def by_formula(self, tensor: Tensor) -> bool:
        """Whether an op made here computes the tensor by a formula, whose results may be quantised in any way."""
        return any(op.output == tensor.name and isinstance(op, Formulaic) for op in self.builder.ops)

    def in_one_order(self, a: Value, b: Value) -> tuple[Tensor, Tensor, tuple[int, ...]]:
        """Two values of equal rank in one order of dimensions, and that order (see `common_order`)."""
        order = common_order(a, b)
        return self.ordered(a, order), self.ordered(b, order), order

    def ordered(self, value: Value, order: Sequence[int]) -> Tensor:
        """The value's elements in this order of dimensions; a Transpose only where elements move."""
        order = tuple(order)
        if value.order == order:
            return value.tensor
        return self.transposed(value.tensor, tuple(value.order.index(dimension) for dimension in order))

    def transposed(self, x: Tensor, perm: tuple[int, ...]) -> Tensor:
        """Output dimension d is dimension perm[d] of x. A view where no element moves.

        Above four dimensions those that stay side by side are one, and those of size 1 are left out; where more than
        four are left, one after another is brought to its place.
        """
        sizes = x.type.shape
        long = [place for place in perm if sizes[place] > 1]
        shape = tuple(sizes[place] for place in perm)
        if long == sorted(long):
            return x if shape == sizes else self.emit(Reshape, x, shape=shape)
        if len(sizes) <= MOST_DIMENSIONS:
            return self.emit(Transpose, x, perm=perm)
        blocks = _blocks(long)
        size = {block: math.prod(sizes[place] for place in block) for block in blocks}
        held = sorted(blocks)
        for place, block in enumerate(blocks):
            ahead, rest = held[:place], held[place:]
            first = (math.prod(size[b] for b in ahead),) if ahead else ()
            if len(first) + len(rest) <= MOST_DIMENSIONS:
                x = self.emit(Reshape, x, shape=(*first, *(size[b] for b in rest)))
                moved = (rest.index(b) + len(first) for b in blocks[place:])
                x = self.emit(Transpose, x, perm=(*range(len(first)), *moved))
                break
            if (now := rest.index(block)) > 0:
                groups = (ahead, rest[:now], [block], rest[now + 1 :])
                x = self.emit(Reshape, x, shape=tuple(math.prod(size[b] for b in group) for group in groups))
                x = self.emit(Transpose, x, perm=(0, 2, 1, 3))
                held = [*ahead, block, *rest[:now], *rest[now + 1 :]]
        return self.emit(Reshape, x, shape=shape)

    def copied(self, tensor: Tensor) -> Tensor:
        """A tensor of its own with the same elements."""
        shape = tensor.type.shape
        flat = tensor if len(shape) in range(1, 5) else self.emit(Reshape, tensor, shape=(tensor.type.elements,))
        sizes = flat.type.shape
        made = self.emit(Slice, flat, begin=(0,) * len(sizes), size=sizes, step=(1,) * len(sizes))
        return made if flat is tensor else self.emit(Reshape, made, shape=shape)

    def plain(self, value: Value) -> Tensor:
        """The value's elements in the model's own order."""
        return self.ordered(value, range(value.rank))

    def raised(self, value: Value, rank: int) -> Value:
        """The value with further dimensions of size 1 ahead, so many in all."""
        more = rank - value.rank
        if more <= 0:
            return value
        made = self.emit(Reshape, value.tensor, shape=(1,) * more + value.tensor.type.shape)
        return Value(made, (*range(more), *(dimension + more for dimension in value.order)))

    def last(self, value: Value) -> Tensor:
        """The value with its channels, dimension 1, last: N, C, W as N, W, C."""
        return self.ordered(value, channels_last(value.rank))

    def image(self, value: Value) -> Tensor:
        """The value as N, H, W, C; N, C, W has the height 1."""
        if value.rank not in (3, 4):
            raise Unsupported(f"its input has {value.rank} dimensions, 3 and 4 are supported")
        x = self.last(value)
        return x if value.rank == 4 else self.emit(Reshape, x, shape=(x.type.shape[0], 1, *x.type.shape[1:]))

    def imaged(self, made: Tensor, rank: int) -> Value:
        """A tensor N, H, W, C as a value of so many dimensions."""
        if rank == 3:
            n, _, w, c = made.type.shape
            made = self.emit(Reshape, made, shape=(n, w, c))
        return Value(made, channels_last(rank))


def _moved(x: Tensor, op: Reshape | Transpose) -> tuple[Array, Quant | None] | None:
    """The elements of a constant after the op, and their quantisation; None for what is computed."""
    quant = x.type.quant
    if x.data is None:
        return None
    if isinstance(op, Transpose):
        along = None if quant is None or quant.axis is None else op.perm.index(quant.axis)
        return x.data.transpose(op.perm), quant and replace(quant, axis=along)
    return None if quant is not None and quant.axis is not None else (x.data.reshape(op.shape), quant)


def _blocks(perm: Sequence[int]) -> list[tuple[int, ...]]:
    """The dimensions in this order, those side by side before and after in one block."""
    blocks: list[tuple[int, ...]] = []
    known = sorted(perm)
    for place in perm:
        if blocks and known.index(place) == known.index(blocks[-1][-1]) + 1:
            blocks[-1] += (place,)
        else:
            blocks.append((place,))
    return blocks


def as_plain(tensor: Tensor) -> Value:
    """A tensor in the model's own order."""
    return Value(tensor, tuple(range(len(tensor.type.shape))))


def as_image(tensor: Tensor) -> Value:
    """A tensor whose dimensions are N, H, W, C."""
    return Value(tensor, NHWC)


def renamed(op: Op, names: Mapping[str, str]) -> Op:
    """The op with other names for its tensors."""
    return replace(
        op, inputs=tuple(names.get(name, name) for name in op.inputs), output=names.get(op.output, op.output)
    )
