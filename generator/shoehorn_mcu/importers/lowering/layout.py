"""Converters of ONNX's ops that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.geometry import WINDOW_LIMIT, axis_of
from shoehorn_mcu.importers.lowering.movers import joined, padded, shaped, sliced
from shoehorn_mcu.importers.lowering.site import NHWC, Site, Value, as_plain, common_order
from shoehorn_mcu.ir import Tensor
from shoehorn_mcu.ir.orders import reshaped

MOST_PARTS = 64
"""Slices that stand for one op."""
FEW_RUNS = 4
"""Parts of a dimension that are moved one by one rather than by a table of indices."""


def concat(site: Site) -> Value:
    """Concat along any axis."""
    values = [site.value(place) for place in range(len(site.node.inputs))]
    order = common_order(*values)
    axis = axis_of(site.attribute("axis", 0), len(order))
    tensors = [site.ordered(value, order) for value in values if value.tensor.type.elements] or [values[0].tensor]
    return Value(joined(site, tensors, order.index(axis)), order)


def transpose(site: Site) -> Value:
    """No elements move: the same tensor, whose dimensions now have other numbers in the model."""
    x = site.value(0)
    perm = permutation(site, x.rank)
    return Value(x.tensor, tuple(perm.index(dimension) for dimension in x.order))


def permutation(site: Site, rank: int) -> tuple[int, ...]:
    """That of a Transpose of so many dimensions."""
    perm = site.attribute("perm", tuple(reversed(range(rank))))
    if sorted(perm) != list(range(rank)):
        raise ImportFault(f"its perm {perm} is no order of {rank} dimensions; export it again")
    return perm


def reshape(site: Site) -> Value:
    """Reshape to a constant shape; 0 keeps a size, -1 stands for what is left."""
    x, asked = site.value(0), site.integers(1, "shape")
    shape = [
        x.shape[i] if n == 0 and i < x.rank and not site.attribute("allowzero", 0) else n for i, n in enumerate(asked)
    ]
    if shape.count(-1) == 1:
        known = prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = x.tensor.type.elements // known if known > 0 else 0
    return _reshaped(site, x, tuple(shape))


def flatten(site: Site) -> Value:
    """Flatten to two dimensions."""
    x = site.value(0)
    axis = site.attribute("axis", 1)
    axis = axis if axis == x.rank else axis_of(axis, x.rank)
    return _reshaped(site, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def squeeze(site: Site) -> Value:
    """Squeeze of the given axes, or of all of size 1."""
    x = site.value(0)
    axes = {axis_of(a, x.rank) for a in site.integers(1, "axes")} if site.given(1) else set(range(x.rank))
    if site.given(1) and any(x.shape[axis] != 1 for axis in axes):
        raise ImportFault(f"it squeezes axes {sorted(axes)} of {x.shape}; export it again")
    return _reshaped(site, x, tuple(n for i, n in enumerate(x.shape) if i not in axes or n != 1))


def unsqueeze(site: Site) -> Value:
    """Unsqueeze: new dimensions of size 1 at these places of the result."""
    x, asked = site.value(0), site.integers(1, "axes")
    rank = x.rank + len(asked)
    axes, sizes = {axis_of(a, rank) for a in asked}, iter(x.shape)
    return _reshaped(site, x, tuple(1 if place in axes else next(sizes, 1) for place in range(rank)))


def _reshaped(site: Site, x: Value, shape: tuple[int, ...]) -> Value:
    """x in another shape. Pixels of which only the channels are parted or joined stay where they are."""
    before, after = _orders(x, shape)
    held = site.ordered(x, before)
    return Value(shaped(site, held, tuple(shape[dimension] for dimension in after)), after)


def _orders(x: Value, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The orders of dimensions in memory that make a reshape of x a view, of x and of the result.

    Dimensions that become others together must lie side by side. Where they do, such groups stay in the order in which
    they are; else all dimensions are brought to the model's order, or an image's to that of images.
    """
    if prod(shape) == x.tensor.type.elements and all(shape):
        before, after, beside = reshaped(x.shape, x.order, shape)
        if beside or after == NHWC:
            return before, after
    return tuple(range(x.rank)), tuple(range(len(shape)))


def slice_(site: Site) -> Value:
    """Slice with constant bounds, which are cut to the dimension as numpy does it."""
    x = site.value(0)
    starts, ends = site.integers(1, "starts"), site.integers(2, "ends")
    axes = site.integers(3, "axes") if site.given(3) else tuple(range(len(starts)))
    steps = site.integers(4, "steps") if site.given(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ImportFault("its starts, ends, axes and steps do not fit each other; export it again")
    taken = [range(n) for n in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_of(axis, x.rank)
        taken[place] = range(x.shape[place])[start:end:step]
    return _taken(site, x, taken)


def _taken(site: Site, x: Value, taken: Sequence[range]) -> Value:
    """The elements at these places of the model's dimensions."""
    return Value(sliced(site, x.tensor, [taken[dimension] for dimension in x.order]), x.order)


def pad(site: Site) -> Value:
    """Pad around a value, or of negative widths: with a constant, the border's elements, or mirrored ones."""
    x, pads = site.value(0), site.integers(1, "pads")
    axes = site.integers(3, "axes") if site.given(3) else tuple(range(x.rank))
    if len(pads) != 2 * len(axes):
        raise ImportFault(f"its {len(pads)} pads do not fit {len(axes)} axes; export it again")
    if any(abs(n) > WINDOW_LIMIT for n in pads):
        raise Unsupported(f"its pads are {pads}, up to {WINDOW_LIMIT} are supported")
    before, after = [0] * x.rank, [0] * x.rank
    for axis, first, last in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        place = x.order.index(axis_of(axis, x.rank))
        before[place], after[place] = first, last
    cut = [range(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, x.tensor.type.shape, strict=True)]
    if not all(cut):
        raise Unsupported("its result is empty")
    inside = sliced(site, x.tensor, cut)
    before, after = [max(0, b) for b in before], [max(0, a) for a in after]
    mode = site.attribute("mode", "constant")
    if mode == "constant":
        return Value(padded(site, inside, before, after, _fill(site, inside)), x.order)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        inside = _extended(site, inside, axis, first, last, mode)
    return Value(inside, x.order)


def _fill(site: Site, x: Tensor) -> float:
    """The stored value that a Pad adds."""
    value = site.constant(2, "value").reshape(-1)[:1].tolist() if site.given(2) else []
    if x.type.quant is None:
        return value[0] if value else 0
    if any(value):
        raise Unsupported("it pads with another value than 0")
    return x.type.quant.zero_point


def _extended(site: Site, x: Tensor, axis: int, first: int, last: int, mode: str) -> Tensor:
    """x with elements of its own around it along an axis, as numpy.pad places them."""
    if not first and not last:
        return x
    if mode not in ("edge", "reflect", "wrap"):
        raise Unsupported(f"it pads in mode {mode}")
    places: np.ndarray = np.pad(np.arange(x.type.shape[axis]), (first, last), mode=mode)  # type: ignore[call-overload]
    return picked(site, x, axis, places.tolist())


def picked(site: Site, x: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """These places of an axis, in this order: slices, one after the other."""
    runs = _runs(places)
    if len(runs) > MOST_PARTS:
        raise Unsupported(f"it takes {len(runs)} separate parts of a dimension, {MOST_PARTS} are supported")
    whole = [range(n) for n in x.type.shape]
    return joined(site, [sliced(site, x, [*whole[:axis], run, *whole[axis + 1 :]]) for run in runs], axis)


def runs_of(indices: np.ndarray) -> int:
    """How many slices take these places."""
    return len(_runs(indices.reshape(-1).tolist()))


def _runs(places: Sequence[int]) -> list[range]:
    """The places as few ranges of equal steps."""
    runs: list[range] = []
    for place in places:
        last = runs[-1] if runs else None
        if last is not None and len(last) == 1 and place != last[0]:
            runs[-1] = range(last[0], place + (1 if place > last[0] else -1), place - last[0])
        elif last is not None and len(last) > 1 and place == last[-1] + last.step:
            runs[-1] = range(last[0], place + (1 if last.step > 0 else -1), last.step)
        else:
            runs.append(range(place, place + 1))
    return runs


def split(site: Site) -> tuple[Value, ...]:
    """Split along an axis, of given lengths or in equal parts, the last of which may be shorter."""
    x, count = site.value(0), len(site.node.outputs)
    axis = axis_of(site.attribute("axis", 0), x.rank)
    each = -(-x.shape[axis] // count)
    lengths = (
        site.integers(1, "split") if site.given(1) else (each,) * (count - 1) + (x.shape[axis] - each * (count - 1),)
    )
    if sum(lengths) != x.shape[axis] or len(lengths) != count:
        raise ImportFault(f"it splits {x.shape[axis]} elements into {lengths}; export it again")
    ends = np.cumsum(lengths).tolist()
    whole = [range(n) for n in x.shape]
    return tuple(
        _taken(site, x, [*whole[:axis], range(end - length, end), *whole[axis + 1 :]])
        for length, end in zip(lengths, ends, strict=True)
    )


def repeated(site: Site, x: Tensor, axis: int, count: int) -> Tensor:
    """x so many times along an axis; 2, 4, 8 ... times first, so that few ops do it."""
    if count == 1:
        return x
    half = repeated(site, x, axis, count // 2)
    return joined(site, [half, half] + ([x] if count % 2 else []), axis)


def tile(site: Site) -> Value:
    """Tile by constant numbers."""
    x, counts = site.value(0), site.integers(1, "repeats")
    if len(counts) != x.rank or min(counts, default=1) < 1:
        raise Unsupported(f"it repeats {x.rank} dimensions {counts} times")
    made = x.tensor
    for dimension, count in enumerate(counts):
        made = repeated(site, made, x.order.index(dimension), count)
    return Value(made, x.order)


def expand(site: Site) -> Value:
    """Expand to a constant shape."""
    x, shape = site.value(0), site.integers(1, "shape")
    wide = site.raised(x, max(x.rank, len(shape)))
    asked = (1,) * (wide.rank - len(shape)) + shape
    made = wide.tensor
    for dimension, (have, want) in enumerate(zip(wide.shape, asked, strict=True)):
        if (1 not in (have, want) and have != want) or want < 1:
            raise Unsupported(f"it expands {x.shape} to {shape}")
        if have == 1:
            made = repeated(site, made, wide.order.index(dimension), want)
    return Value(made, wide.order)


def gather(site: Site) -> Value:
    """Gather of constant places."""
    x, places = site.value(0), site.constant(1, "indices")
    axis = axis_of(site.attribute("axis", 0), x.rank)
    if not places.size:
        raise Unsupported("its indices are empty")
    size = x.shape[axis]
    if places.min() < -size or places.max() >= size:
        raise ImportFault(f"it takes places {places.min()}..{places.max()} of {size}; export it again")
    taken = picked(site, x.tensor, x.order.index(axis), (places.reshape(-1) % size).tolist())
    if places.ndim == 1:
        return Value(taken, x.order)
    plain = site.plain(Value(taken, x.order))
    return as_plain(shaped(site, plain, (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])))


def depth_to_space(site: Site) -> Value:
    """DepthToSpace: blocks of channels become blocks of pixels."""
    x, b = site.image(site.value(0)), site.attribute("blocksize", 1)
    n, h, w, c = x.type.shape
    if b < 1 or c % (b * b):
        raise ImportFault(f"{c} channels in blocks of {b} x {b}; export it again")
    left = c // (b * b)
    # The channels are b, b, left of them, or left, b, b.
    by_column = site.attribute("mode", "DCR") == "CRD"
    perm = (0, 1, 4, 2, 5, 3) if by_column else (0, 1, 3, 2, 4, 5)
    parts = (n, h, w, left, b, b) if by_column else (n, h, w, b, b, left)
    moved = site.transposed(shaped(site, x, parts), perm)
    return site.imaged(shaped(site, moved, (n, h * b, w * b, left)), 4)


def space_to_depth(site: Site) -> Value:
    """SpaceToDepth: blocks of pixels become blocks of channels."""
    x, b = site.image(site.value(0)), site.attribute("blocksize", 1)
    n, h, w, c = x.type.shape
    if b < 1 or h % b or w % b:
        raise ImportFault(f"{h} x {w} pixels in blocks of {b} x {b}; export it again")
    perm = (0, 1, 3, 5, 2, 4) if site.attribute("mode", "DCR") == "CRD" else (0, 1, 3, 2, 4, 5)
    moved = site.transposed(shaped(site, x, (n, h // b, b, w // b, b, c)), perm)
    return site.imaged(shaped(site, moved, (n, h // b, w // b, c * b * b)), 4)


def reverse_sequence(site: Site) -> Value:
    """ReverseSequence: the first elements of each sequence in reverse; their numbers are constant."""
    x, lengths = site.value(0), site.integers(1, "sequence_lens")
    batch, time = axis_of(site.attribute("batch_axis", 1), x.rank), axis_of(site.attribute("time_axis", 0), x.rank)
    if len(lengths) != x.shape[batch] or not all(0 <= n <= x.shape[time] for n in lengths):
        raise ImportFault(f"{len(lengths)} lengths of {x.shape[batch]} sequences; export it again")
    return reversed_sequences(site, x, lengths, batch, time)


def reversed_sequences(site: Site, x: Value, lengths: Sequence[int], batch: int, time: int) -> Value:
    """The first `lengths[b]` elements of sequence b in reverse, the others as they are; axes are those of the model."""
    parts = []
    for number, length in enumerate(lengths):
        taken = [range(n) for n in x.shape]
        taken[batch] = range(number, number + 1)
        one = _taken(site, x, taken)
        places = [*range(length - 1, -1, -1), *range(length, x.shape[time])]
        parts.append(picked(site, one.tensor, x.order.index(time), places))
    return Value(joined(site, parts, x.order.index(batch)), x.order)
