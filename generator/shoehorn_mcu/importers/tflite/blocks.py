"""TFLite's ops between blocks of pixels and channels or images."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.movers import padded, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.tflite.by_onnx import of_image
from shoehorn_mcu.importers.tflite.site import Site


def blocks(code: str, site: Site, there: onnx.Site) -> Value:
    """DEPTH_TO_SPACE and its reverse: TFLite's images have their channels last."""
    if (rank := there.value(0).rank) != 4:
        raise Unsupported(f"its input has {rank} dimensions, 4 are needed")
    return as_plain(of_image(there, code, 0, (), {"blocksize": site.options.block_size}))


def pairs(site: Site, place: int, role: str, count: int) -> NDArray[np.int64]:
    """A constant operand of so many pairs of numbers from 0 on."""
    given = site.integers(place, role)
    if len(given) != 2 * count or min(given, default=0) < 0:
        raise ImportFault(f"its {role} are {given}; {count} pairs of numbers from 0 on are needed: convert it again")
    return np.array(given, np.int64).reshape(count, 2)


def _blocks_of(site: Site, rank: int) -> tuple[int, ...]:
    """The sizes of blocks, one for each of the dimensions behind the first one."""
    blocks = site.integers(1, "block shape")
    if not 1 <= len(blocks) < rank or min(blocks) < 1:
        raise ImportFault(f"its block shape is {blocks} for {rank} dimensions; convert it again")
    return blocks


def space_to_batch(site: Site, there: onnx.Site) -> Value:
    """Blocks of pixels become images: y[(by * bw + bx) * N + n, i, j] = x[n, i * bh + by, j * bw + bx].

    The border is 0, in quantised tensors the zero point; tflite-micro leaves that one to chance.
    """
    blocks = _blocks_of(site, there.value(0).rank)
    pads = pairs(site, 2, "paddings", len(blocks))
    x = there.plain(there.value(0))
    rest = (0,) * (len(x.type.shape) - 1 - len(blocks))
    x = padded(there, x, (0, *pads[:, 0].tolist(), *rest), (0, *pads[:, 1].tolist(), *rest), x.type.zero)
    n, *sizes = x.type.shape
    count = len(blocks)
    if any(size % block for size, block in zip(sizes, blocks, strict=False)):
        raise ImportFault(f"its sizes {sizes} are no multiples of its blocks {blocks}; convert it again")
    split = [part for size, block in zip(sizes, blocks, strict=False) for part in (size // block, block)]
    wide = shaped(there, x, (n, *split, *sizes[count:]))
    perm = (*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, len(wide.type.shape)))
    moved = there.transposed(wide, perm)
    few = [size // block for size, block in zip(sizes, blocks, strict=False)]
    return as_plain(shaped(there, moved, (n * math.prod(blocks), *few, *sizes[count:])))


def batch_to_space(site: Site, there: onnx.Site) -> Value:
    """The reverse of SPACE_TO_BATCH_ND, with borders cut off."""
    blocks = _blocks_of(site, there.value(0).rank)
    crops = pairs(site, 2, "crops", len(blocks))
    x = there.plain(there.value(0))
    n, *sizes = x.type.shape
    count, images = len(blocks), n // math.prod(blocks)
    if n % math.prod(blocks) or any(
        size * block <= sum(cut) for size, block, cut in zip(sizes, blocks, crops.tolist(), strict=False)
    ):
        raise ImportFault(f"blocks {blocks} and crops {crops.tolist()} do not fit {x.type}; convert it again")
    wide = shaped(there, x, (*blocks, images, *sizes))
    perm = [count]
    for place in range(count):
        perm += [count + 1 + place, place]
    perm += range(2 * count + 1, len(wide.type.shape))
    moved = there.transposed(wide, tuple(perm))
    whole = [size * block for size, block in zip(sizes, blocks, strict=False)]
    wide = shaped(there, moved, (images, *whole, *sizes[count:]))
    kept = [range(first, size - last) for size, (first, last) in zip(whole, crops.tolist(), strict=True)]
    return as_plain(sliced(there, wide, [range(images), *kept, *(range(s) for s in sizes[count:])]))
