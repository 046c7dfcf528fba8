"""Moves of elements in any number of dimensions, made of ops with four: dimensions that move together become one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from shoehorn_mcu.importers.lowering.site import Site
from shoehorn_mcu.ir import Tensor
from shoehorn_mcu.ops import Concat, Pad, Reshape, Slice

MOST = 4
"""Dimensions of the ops."""


def shaped(site: Site, x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape: a view, another constant, or x itself."""
    if x.type.shape == tuple(shape):
        return x
    return site.emit(Reshape, x, shape=tuple(shape))


def sliced(site: Site, x: Tensor, taken: Sequence[range]) -> Tensor:
    """The elements at these places of each dimension; x itself where that is all of them."""
    sizes = x.type.shape
    cut = [place for place, (r, n) in enumerate(zip(taken, sizes, strict=True)) if r != range(n)]
    if not cut:
        return x
    if not all(taken):  # a Concat leaves such a value out
        return site.weights(np.zeros([len(r) for r in taken], x.type.dtype.numpy), x.type.quant)
    if len(sizes) <= MOST:
        begin, step = tuple(r[0] for r in taken), tuple(r.step if len(r) > 1 else 1 for r in taken)
        return site.emit(Slice, x, begin=begin, size=tuple(map(len, taken)), step=step)
    for axis in cut:
        shape = x.type.shape
        folded = shaped(site, x, _around(shape, axis))
        part = sliced(site, folded, [range(folded.type.shape[0]), taken[axis], range(folded.type.shape[2])])
        x = shaped(site, part, (*shape[:axis], len(taken[axis]), *shape[axis + 1 :]))
    return x


def padded(site: Site, x: Tensor, before: Sequence[int], after: Sequence[int], value: float) -> Tensor:
    """x with so many elements of this value around it; x itself where there are none."""
    if not any(before) and not any(after):
        return x
    if len(x.type.shape) <= MOST:
        return site.emit(Pad, x, before=tuple(before), after=tuple(after), value=value)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        shape = x.type.shape
        folded = shaped(site, x, _around(shape, axis))
        part = padded(site, folded, (0, first, 0), (0, last, 0), value)
        x = shaped(site, part, (*shape[:axis], first + shape[axis] + last, *shape[axis + 1 :]))
    return x


def joined(site: Site, parts: Sequence[Tensor], axis: int) -> Tensor:
    """The parts one after the other along an axis; the part itself where there is but one."""
    if len(parts) == 1:
        return parts[0]
    shape = parts[0].type.shape
    if len(shape) <= MOST:
        return site.emit(Concat, *parts, axis=axis)
    made = site.emit(Concat, *(shaped(site, part, _around(part.type.shape, axis)) for part in parts), axis=1)
    return shaped(site, made, (*shape[:axis], made.type.shape[1], *shape[axis + 1 :]))


def _around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """The shape as one dimension before the axis, the axis, and one behind it."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
