"""Converters of TFLite's ops that move elements and compute nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.geometry import WINDOW_LIMIT, axis_of
from shoehorn_mcu.importers.tflite.options import Options
from shoehorn_mcu.importers.tflite.site import Part, Site, plain
from shoehorn_mcu.ir import DType, Op, Quant, Tensor
from shoehorn_mcu.ops import Clamp, Concat, MaxPool2d, Pad, Reshape, Slice, Table, Transpose
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.ops.unary import round_away


def _moved(site: Site, place: int = 0) -> Tensor:
    """The operand whose elements are moved unchanged, of any type; 8-bit ones have a scale."""
    x = site.input(place, "input")
    if x.type.dtype in (DType.INT8, DType.UINT8) and x.type.quant is None:
        raise Unsupported(f"its input {quoted(x.name)} has no scale")
    return x


def reshape(site: Site) -> Part:
    """RESHAPE to the shape that an operand, the options or else the output has; one size may be -1, the rest."""
    x, options = _moved(site), site.options
    given = site.optional(1)
    if given is not None and given.data is not None:
        shape = site.integers(1, "shape")
    elif given is None and options.shape is not None:
        shape = () if options.shape == (0,) else options.shape
    elif site.open:
        raise Unsupported("its shape is computed, it must be constant")
    else:
        shape = site.output.type.shape
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        shape = tuple(x.type.elements // max(1, known) if size == -1 else size for size in shape)
    if min(shape, default=0) < 0:
        raise ImportFault(f"its shape is {shape}; convert it again")
    return site.part(Reshape, x, shape=shape)


def squeeze(site: Site) -> Part:
    """SQUEEZE: without these dimensions of size 1, or without any of that size."""
    x, shape = _moved(site), site.input(0, "input").type.shape
    axes = {axis_of(a, len(shape)) for a in site.options.axes}
    axes = axes or {axis for axis, size in enumerate(shape) if size == 1}
    return site.part(Reshape, x, shape=tuple(size for axis, size in enumerate(shape) if axis not in axes))


def expand_dims(site: Site) -> Part:
    """EXPAND_DIMS: with one more dimension of size 1."""
    x, axes = _moved(site), site.integers(1, "axis")
    if len(axes) != 1:
        raise ImportFault(f"its axis is {axes}, not one number; convert it again")
    axis = axis_of(axes[0], len(x.type.shape) + 1)
    return site.part(Reshape, x, shape=(*x.type.shape[:axis], 1, *x.type.shape[axis:]))


def transpose(site: Site) -> Part:
    """TRANSPOSE by a constant permutation."""
    x, perm = _moved(site), site.integers(1, "permutation")
    rank = len(x.type.shape)
    axes = tuple(axis_of(a, rank) for a in perm)
    if sorted(axes) != list(range(rank)):
        raise ImportFault(f"{perm} is no permutation of {rank} dimensions; convert it again")
    return site.part(Transpose, x, perm=axes)


def concatenation(site: Site) -> Part:
    """CONCATENATION of at least one input, all of one quantisation but where the options say otherwise."""
    options = site.options
    plain(options.activation)
    inputs = [_moved(site, place) for place in range(len(site.inputs))]
    axis = axis_of(options.axis, len(inputs[0].type.shape))
    tables, made = list[Op](), list[Tensor]()
    if options.rescales:
        for number, x in enumerate(inputs):
            if (values := _rescaled(x.type.quantised, site.output.type.quantised)) is not None:
                held = None if x.data is None else np.array(values, np.int8)[x.data.astype(np.int64) + 128]
                inputs[number] = y = Tensor(next(site.fresh), replace(x.type, quant=site.output.type.quant), held)
                made.append(y)
                if held is None:
                    tables.append(site.op(Table, x, output=y, suffix=f"_{number}", values=values))
    return Part((*tables, site.op(Concat, *inputs, axis=axis)), tuple(made))


def _rescaled(of: Quant, to: Quant) -> tuple[int, ...] | None:
    """What each stored value of uint8, held as int8, is in another scale; None for the same scale.

    In single precision: reference/concatenation.h, ConcatenationWithScaling.
    """
    if of == to:
        return None
    scale = np.float32(of.scale) * (np.float32(1) / np.float32(to.scale))
    offset = np.float32(-(of.zero_point + 128)) * scale
    values = round_away(np.arange(256, dtype=np.float32) * scale + offset) + (to.zero_point + 128)
    return tuple(int(v) - 128 for v in np.clip(values, 0, 255))


def pad(site: Site) -> Part:
    """PAD and PADV2: the value is the zero point (of float32: 0), or a constant with x's quantisation."""
    x, amounts = _moved(site), site.integers(1, "padding")
    rank = len(x.type.shape)
    if len(amounts) != 2 * rank or min(amounts, default=0) < 0:
        raise ImportFault(f"a padding of {amounts} for {rank} dimensions; two per dimension are needed, none below 0")
    value = x.type.zero
    if (given := site.optional(2)) is not None:
        if x.type.dtype is DType.FLOAT32:
            raise Unsupported(f"its input {quoted(x.name)} is float32 and its value is not 0 by definition")
        if (given.type.dtype, given.type.quant) != (x.type.dtype, x.type.quant):
            raise Unsupported(f"its value {quoted(given.name)} does not have the type and scale of {quoted(x.name)}")
        if given.data is None or given.data.size != 1:
            raise Unsupported(f"its value {quoted(given.name)} is not one constant")
        value = int(given.data.reshape(-1)[0])
    return site.part(Pad, x, before=amounts[::2], after=amounts[1::2], value=value)


def split(site: Site) -> Part:
    """SPLIT (axis, x) into equal parts: one slice per output."""
    axes, x = site.integers(0, "axis"), _moved(site, 1)
    count, shape = len(site.outputs), x.type.shape
    if len(axes) != 1:
        raise ImportFault(f"its axis is {axes}, not one number; convert it again")
    axis = axis_of(axes[0], len(shape))
    if site.options.parts != count or shape[axis] % count:
        raise ImportFault(f"{count} outputs do not divide axis {axis} of {x.type}; convert it again")
    part = shape[axis] // count
    return Part(tuple(_cut(site, x, i, axis, i * part, part) for i in range(count)))


def split_v(site: Site) -> Part:
    """SPLIT_V (x, sizes, axis): one slice per output; one size may be -1, the rest."""
    x, sizes, axes = _moved(site), site.integers(1, "sizes"), site.integers(2, "axis")
    if len(axes) != 1 or len(sizes) != len(site.outputs) or sizes.count(-1) > 1:
        raise ImportFault(f"sizes {sizes} along axis {axes} for {len(site.outputs)} outputs; convert it again")
    axis = axis_of(axes[0], len(x.type.shape))
    rest = x.type.shape[axis] - sum(s for s in sizes if s != -1)
    whole = tuple(rest if s == -1 else s for s in sizes)
    if min(whole) < 1 or sum(whole) != x.type.shape[axis]:
        raise ImportFault(f"sizes {sizes} do not divide axis {axis} of {x.type}; convert it again")
    return Part(tuple(_cut(site, x, i, axis, sum(whole[:i]), size) for i, size in enumerate(whole)))


def _cut(site: Site, x: Tensor, i: int, axis: int, begin: int, size: int) -> Op:
    """Output i: `size` elements along one axis."""
    first = tuple(begin if d == axis else 0 for d in range(len(x.type.shape)))
    sizes = tuple(size if d == axis else whole for d, whole in enumerate(x.type.shape))
    step = (1,) * len(first)
    return site.op(Slice, x, output=site.outputs[i], suffix=f"_{i}", begin=first, size=sizes, step=step)


def tile(site: Site) -> Part:
    """TILE (x, multiples): per repeated axis a Concat of one tensor with itself, between reshapes.

    Dimensions from that axis on are treated as channels, those before it as rows.
    """
    x, multiples, shape = _moved(site), site.integers(1, "multiples"), list(site.input(0, "input").type.shape)
    if len(multiples) != len(shape) or min(multiples, default=1) < 1:
        raise ImportFault(f"multiples {multiples} of {x.type}; one per dimension is needed, from 1: convert it again")
    chain = _Chain(site, x)
    for axis, times in reversed(list(enumerate(multiples))):
        if times > 1:
            rows, channels = math.prod(shape[:axis]), math.prod(shape[axis:])
            chain.reshape((1, rows, 1, channels))
            chain.add((1, rows, 1, times * channels), Concat, times, axis=3)
            shape[axis] *= times
    return chain.part(tuple(shape))


def is_pool(site: Site) -> bool:
    """Whether REDUCE_MAX is over neighbouring axes and not too many elements, as `reduce_max` needs it."""
    shape, axes = site.input(0, "input").type.shape, site.axes()
    near = bool(axes) and axes == tuple(range(axes[0], axes[-1] + 1))
    return near and math.prod(shape[axis] for axis in axes) <= WINDOW_LIMIT


def reduce_max(site: Site) -> Part:
    """REDUCE_MAX over neighbouring axes: one MaxPool2d over all of them, between reshapes."""
    x, axes = _moved(site), site.axes()
    shape = x.type.shape
    chain = _Chain(site, x)
    if len(shape) == 4 and axes[0] >= 1 and axes[-1] <= 2:
        kernel = (shape[1] if 1 in axes else 1, shape[2] if 2 in axes else 1)
        pooled: tuple[int, ...] = (shape[0], shape[1] // kernel[0], shape[2] // kernel[1], shape[3])
    else:
        images, behind = math.prod(shape[: axes[0]]), math.prod(shape[axes[-1] + 1 :])
        kernel = (math.prod(shape[axes[0] : axes[-1] + 1]), 1)
        chain.reshape((images, kernel[0], 1, behind))
        pooled = (images, 1, 1, behind)
    bounds = Clamp(*x.type.dtype.limits) if x.type.quant is not None else Clamp()
    chain.add(pooled, MaxPool2d, kernel=kernel, stride=kernel, clamp=bounds)
    kept = [1] if site.options.keep_dims else []
    return chain.part(tuple(n for d, size in enumerate(shape) for n in (kept if d in axes else [size])))


class _Chain:
    """Ops that follow each other, from x to the site's output, with tensors of x's type between them."""

    def __init__(self, site: Site, x: Tensor) -> None:
        self._site, self._x = site, x
        self._ops: list[Op] = []
        self._made: list[Tensor] = []

    def reshape(self, shape: tuple[int, ...]) -> None:
        """Appends a view, if the shape differs."""
        if shape != self._x.type.shape:
            self.add(shape, Reshape, shape=shape)

    def add(self, shape: tuple[int, ...], kind: type[Op], times: int = 1, /, **attributes: object) -> None:
        """Appends an op that reads the last tensor `times` times."""
        made = Tensor(next(self._site.fresh), replace(self._x.type, shape=shape))
        reads, suffix = [self._x] * times, f"_{len(self._ops)}"
        self._ops.append(self._site.op(kind, *reads, output=made, suffix=suffix, **attributes))
        self._made.append(made)
        self._x = made

    def part(self, shape: tuple[int, ...]) -> Part:
        """The whole chain, whose last op writes the output in this shape (through a view, if it has another)."""
        if not self._ops or self._x.type.shape != shape:
            self.add(shape, Reshape, shape=shape)
        last = replace(self._ops[-1], output=self._site.output.name)
        return Part((*self._ops[:-1], last), tuple(self._made[:-1]))


def slice_(site: Site) -> Part:
    """SLICE (x, begin, size); a size of -1 means up to the end."""
    x, begin, size = _moved(site), site.integers(1, "begin"), site.integers(2, "size")
    shape = x.type.shape
    if not len(begin) == len(size) == len(shape):
        raise ImportFault(f"begin {begin} and size {size} for {len(shape)} dimensions; convert it again")
    sizes = tuple(d - b if s == -1 else s for d, b, s in zip(shape, begin, size, strict=True))
    if 0 in sizes:
        raise ImportFault(f"begin {begin} and size {size} select nothing of {x.type}; convert it again")
    if any(b < 0 or s < 0 or b + s > d for d, b, s in zip(shape, begin, sizes, strict=True)):
        raise ImportFault(f"begin {begin} and size {size} leave {x.type}; convert it again")
    return site.part(Slice, x, begin=begin, size=sizes, step=(1,) * len(shape))


def strided_slice(site: Site) -> Part:
    """STRIDED_SLICE: a Slice, then a Reshape where axes are shrunk or new ones made."""
    x, options = _moved(site), site.options
    if options.offset:
        raise Unsupported("its end counts from its begin")
    bounds = [site.integers(i, role) for i, role in ((1, "begin"), (2, "end"), (3, "strides"))]
    if len({len(b) for b in bounds}) != 1:
        raise ImportFault("its begin, end and strides differ in length; convert it again")
    ranges, shape = _ranges(x.type.shape, list(zip(*bounds, strict=True)), options)
    size = tuple(len(r) for r in ranges)
    cut = site.output if shape == size else Tensor(next(site.fresh), replace(x.type, shape=size))
    begin, step = tuple(r.start for r in ranges), tuple(r.step for r in ranges)
    taken = site.op(Slice, x, output=cut, begin=begin, size=size, step=step)
    if cut is site.output:
        return Part((taken,))
    return Part((taken, site.op(Reshape, cut, suffix="_shape", shape=shape)), (cut,))


def _ranges(
    shape: tuple[int, ...], places: list[tuple[int, ...]], options: Options
) -> tuple[list[range], tuple[int, ...]]:
    """The selected indices of each input dimension, and the output's shape.

    An entry (begin, end, stride) selects from one input dimension; the ellipsis from all that remain, a new axis from
    none. Dimensions after the last entry are selected whole.
    """
    ellipsis = options.ellipsis_mask & ((1 << len(places)) - 1)
    new = options.new_axis_mask & ~ellipsis
    named = sum(1 for i in range(len(places)) if not (new | ellipsis) >> i & 1)
    if named > len(shape) or ellipsis & (ellipsis - 1):
        raise ImportFault(f"{len(places)} places for {len(shape)} dimensions; convert it again")
    ranges: list[range] = []
    kept: list[int] = []
    for i, place in enumerate(places):
        if ellipsis >> i & 1:
            whole = shape[len(ranges) : len(ranges) + len(shape) - named]
            ranges += [range(d) for d in whole]
            kept += whole
        elif new >> i & 1:
            kept.append(1)
        else:
            ranges.append(_range(shape[len(ranges)], i, place, options))
            kept += [] if options.shrink_axis_mask >> i & 1 else [len(ranges[-1])]
    rest = shape[len(ranges) :]
    return [*ranges, *(range(d) for d in rest)], (*kept, *rest)


def _range(size: int, i: int, place: tuple[int, ...], options: Options) -> range:
    """The indices that entry i selects of a dimension: as Python's slices, but a masked bound is open."""
    begin, end, step = place
    if step == 0:
        raise ImportFault("a stride of 0; convert it again")
    first = None if options.begin_mask >> i & 1 else begin
    last = None if options.end_mask >> i & 1 else end
    taken = range(*slice(first, last, step).indices(size))
    if options.shrink_axis_mask >> i & 1:
        taken = range(taken.start, taken.start + 1)  # the end does not matter
    if not taken or not 0 <= taken[0] < size:
        raise ImportFault(f"it selects nothing of a dimension of {size}; convert it again")
    return taken
