"""Converters of TFLite's ops that move elements and compute nothing."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.tflite_options import ConcatOptions, SplitOptions, StridedSliceOptions
from shoehorn_mcu.importers.tflite_site import Part, Site, axis_of, plain, quantised, same_quant
from shoehorn_mcu.importers.tflite_tensors import quoted
from shoehorn_mcu.ir import DType, Tensor
from shoehorn_mcu.ops import Concat, Pad, Reshape, Slice, Transpose

MOVABLE = (DType.INT8, DType.UINT8, DType.FLOAT32)


def _moved(site: Site, place: int = 0) -> Tensor:
    """The operand whose elements go to every output unchanged."""
    x = site.input(place, "input")
    if x.type.dtype not in MOVABLE:
        raise Unsupported(f"its input {quoted(x.name)} is {x.type.dtype.value}")
    if x.type.dtype is not DType.FLOAT32:
        quantised(x, "input")
    for output in site.outputs:
        same_quant(x, output)
    return x


def reshape(site: Site) -> Part:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the output's own shape says all there is."""
    x = _moved(site)
    return Part((Reshape(name=site.name, inputs=(x.name,), output=site.output.name, shape=site.output.type.shape),))


def transpose(site: Site) -> Part:
    """TRANSPOSE by a constant permutation."""
    x, perm = _moved(site), site.integers(1, "permutation")
    rank = len(x.type.shape)
    axes = tuple(axis_of(a, rank) for a in perm)
    if sorted(axes) != list(range(rank)):
        raise ImportFault(f"{perm} is no permutation of {rank} dimensions; convert it again")
    return Part((Transpose(name=site.name, inputs=(x.name,), output=site.output.name, perm=axes),))


def concatenation(site: Site) -> Part:
    """CONCATENATION of at least one input, all of one quantisation."""
    options = site.want(ConcatOptions)
    plain(options.activation)
    inputs = [_moved(site, place) for place in range(len(site.inputs))]
    axis = axis_of(options.axis, len(inputs[0].type.shape))
    op = Concat(name=site.name, inputs=tuple(x.name for x in inputs), output=site.output.name, axis=axis)
    return Part((op,))


def pad(site: Site) -> Part:
    """PAD and PADV2: the value is the zero point, or a constant with x's quantisation."""
    x, amounts = _moved(site), site.integers(1, "padding")
    rank = len(x.type.shape)
    if len(amounts) != 2 * rank or min(amounts, default=0) < 0:
        raise ImportFault(f"a padding of {amounts} for {rank} dimensions; it takes two per dimension, none below 0")
    if x.type.quant is None:
        raise Unsupported(f"its input {quoted(x.name)} is {x.type.dtype.value}")
    value = x.type.quant.zero_point
    if (given := site.optional(2)) is not None:
        same_quant(given, x)
        if given.data is None or given.data.size != 1:
            raise Unsupported(f"its value {quoted(given.name)} is not one constant")
        value = int(given.data.reshape(-1)[0])
    op = Pad(
        name=site.name,
        inputs=(x.name,),
        output=site.output.name,
        before=amounts[::2],
        after=amounts[1::2],
        value=value,
    )
    return Part((op,))


def split(site: Site) -> Part:
    """SPLIT (axis, x) into equal parts: one slice per output."""
    axes, x = site.integers(0, "axis"), _moved(site, 1)
    count, shape = len(site.outputs), x.type.shape
    if len(axes) != 1:
        raise ImportFault(f"its axis is {axes}, not one number; convert it again")
    axis = axis_of(axes[0], len(shape))
    if site.want(SplitOptions).parts != count or shape[axis] % count:
        raise ImportFault(f"{count} outputs do not divide axis {axis} of {x.type}; convert it again")
    part = shape[axis] // count
    size = (*shape[:axis], part, *shape[axis + 1 :])
    return Part(
        tuple(
            Slice(
                name=f"{site.name}_{i}",
                inputs=(x.name,),
                output=output.name,
                begin=tuple(i * part if d == axis else 0 for d in range(len(shape))),
                size=size,
                step=(1,) * len(shape),
            )
            for i, output in enumerate(site.outputs)
        )
    )


def slice_(site: Site) -> Part:
    """SLICE (x, begin, size); a size of -1 reaches to the end."""
    x, begin, size = _moved(site), site.integers(1, "begin"), site.integers(2, "size")
    shape = x.type.shape
    if not len(begin) == len(size) == len(shape):
        raise ImportFault(f"begin {begin} and size {size} for {len(shape)} dimensions; convert it again")
    sizes = tuple(d - b if s == -1 else s for d, b, s in zip(shape, begin, size, strict=True))
    if any(b < 0 or s < 1 or b + s > d for d, b, s in zip(shape, begin, sizes, strict=True)):
        raise ImportFault(f"begin {begin} and size {size} leave {x.type}; convert it again")
    op = Slice(
        name=site.name,
        inputs=(x.name,),
        output=site.output.name,
        begin=begin,
        size=sizes,
        step=(1,) * len(shape),
    )
    return Part((op,))


def strided_slice(site: Site) -> Part:
    """STRIDED_SLICE: a Slice, then a Reshape where axes are shrunk or new ones made."""
    x, options = _moved(site), site.want(StridedSliceOptions)
    if options.offset:
        raise Unsupported("its end counts from its begin")
    bounds = [site.integers(i, role) for i, role in ((1, "begin"), (2, "end"), (3, "strides"))]
    if len({len(b) for b in bounds}) != 1:
        raise ImportFault("its begin, end and strides differ in length; convert it again")
    ranges, shape = _ranges(x.type.shape, list(zip(*bounds, strict=True)), options)
    size = tuple(len(r) for r in ranges)
    cut = site.output if shape == size else Tensor(next(site.fresh), replace(x.type, shape=size))
    taken = Slice(
        name=site.name,
        inputs=(x.name,),
        output=cut.name,
        begin=tuple(r.start for r in ranges),
        size=size,
        step=tuple(r.step for r in ranges),
    )
    if cut is site.output:
        return Part((taken,))
    shaped = Reshape(name=f"{site.name}_shape", inputs=(cut.name,), output=site.output.name, shape=shape)
    return Part((taken, shaped), (cut,))


def _ranges(
    shape: tuple[int, ...], places: list[tuple[int, ...]], options: StridedSliceOptions
) -> tuple[list[range], tuple[int, ...]]:
    """The indices taken of each input dimension, and the output's shape.

    A place, (begin, end, stride), stands for one input dimension, but for the ellipsis (as many as are left)
    and new axes (none). Dimensions behind the last place are taken whole.
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


def _range(size: int, i: int, place: tuple[int, ...], options: StridedSliceOptions) -> range:
    """The indices that place i takes of a dimension: Python's slices, but a masked bound is open."""
    begin, end, step = place
    if step == 0:
        raise ImportFault("a stride of 0; convert it again")
    first = None if options.begin_mask >> i & 1 else begin
    last = None if options.end_mask >> i & 1 else end
    taken = range(*slice(first, last, step).indices(size))
    if options.shrink_axis_mask >> i & 1:
        taken = range(taken.start, taken.start + 1)  # the end does not matter
    if not taken or not 0 <= taken[0] < size:
        raise ImportFault(f"it takes nothing of a dimension of {size}; convert it again")
    return taken
