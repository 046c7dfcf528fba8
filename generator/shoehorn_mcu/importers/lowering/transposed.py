"""Converters of ONNX's ops that become a convolution of another input or with other weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.linear import bias_of, conv, convolved, pair
from shoehorn_mcu.importers.lowering.maps import mapped
from shoehorn_mcu.importers.lowering.movers import padded, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import DType, Tensor
from shoehorn_mcu.ops import Padding


def conv_transpose(site: Site) -> Value:
    """ConvTranspose: a convolution with the mirrored weights, of x with zeros between its pixels."""
    value, weights = site.value(0), site.real(1, "weights")
    if weights.ndim != value.rank or value.rank not in (3, 4):
        raise Unsupported(f"its weights have {weights.ndim} dimensions, its input {value.rank}; 3 or 4 are supported")
    x, groups = site.image(value), site.attribute("group", 1)
    weights = weights.reshape(*weights.shape[:2], -1, weights.shape[-1])
    if groups < 1 or len(weights) != x.type.shape[3] or len(weights) % groups:
        raise ImportFault(f"its weights {weights.shape} do not fit {x.type.shape[3]} channels; export it again")
    before, after = transposed_pads(site, x.type.shape[1:3], weights.shape[2:])
    for axis, stride in ((1, pair(site, "strides")[0]), (2, pair(site, "strides")[1])):
        x = _apart(site, x, axis, stride)
    reach = [(k - 1) * d for k, d in zip(weights.shape[2:], pair(site, "dilations"), strict=True)]
    first, last = ([r - cut for r, cut in zip(reach, side, strict=True)] for side in (before, after))
    (height, width), shape = x.type.shape[1:3], x.type.shape
    cut = [range(max(0, -f), n - max(0, -b)) for f, b, n in zip(first, last, (height, width), strict=True)]
    if not all(cut):
        raise Unsupported("its result is empty")
    x = sliced(site, x, [range(shape[0]), *cut, range(shape[3])])
    top, left, bottom, right = (max(0, v) for v in (*first, *last))
    # CIHW by groups of inputs becomes OIHW by groups of outputs.
    by_group = weights.reshape(groups, -1, *weights.shape[1:]).swapaxes(1, 2)[..., ::-1, ::-1]
    mirrored = by_group.reshape(-1, *by_group.shape[2:])
    options = {"dilation": pair(site, "dilations"), "stride": (1, 1), "padding": Padding(top, bottom, left, right)}
    bias = bias_of(site, 2, len(mirrored))
    return site.imaged(convolved(site, x, mirrored, bias, options), value.rank)


def col2im(site: Site) -> Value:
    """Col2Im of images: a ConvTranspose that puts each element of a block to its place."""
    value, size, block = site.value(0), site.integers(1, "image shape"), site.integers(2, "block shape")
    if value.rank != 3 or len(size) != 2 or len(block) != 2:
        raise Unsupported(f"its blocks have shape {block}, images of two dimensions are supported")
    strides, dilations, pads = pair(site, "strides"), pair(site, "dilations"), site.attribute("pads", (0,) * 4)
    each = zip(size, block, strides, dilations, pads[:2], pads[2:], strict=True)
    counts = [(n + first + last - (k - 1) * d - 1) // s + 1 for n, k, s, d, first, last in each]
    n, channels, places = value.shape[0], value.shape[1] // math.prod(block), value.shape[2]
    if math.prod(counts) != places or channels * math.prod(block) != value.shape[1]:
        raise ImportFault(f"its blocks {value.shape} do not fit an image {size}; export it again")
    x = as_plain(shaped(site, site.plain(value), (n, value.shape[1], *counts)))
    whole = np.eye(math.prod(block), dtype=np.float32).reshape(-1, 1, *block)
    each = zip(size, block, strides, dilations, pads[:2], pads[2:], counts, strict=True)
    more = tuple(m + first + last - (c - 1) * s - (k - 1) * d - 1 for m, k, s, d, first, last, c in each)
    node = replace(
        site.node,
        inputs=("image", "weights"),
        attributes={**site.node.attributes, "group": channels, "output_padding": more},
    )
    inside = replace(site, node=node, values={"image": x}, constants={"weights": np.tile(whole, (channels, 1, 1, 1))})
    return conv_transpose(inside)


def conv_integer(site: Site) -> Value:
    """ConvInteger with constant weights, in float32, which holds sums of so few products exactly."""
    zero = (
        site.constant(3, "zero point of the weights").astype(np.float32) if site.given(3) else np.zeros(1, np.float32)
    )
    weights = site.constant(1, "weights").astype(np.float32)
    weights = weights - zero.reshape(-1, *(1 for _ in weights.shape[1:]))
    if math.prod(weights.shape[1:]) * 255 * 255 >= 1 << 24:
        raise Unsupported(f"its weights have shape {weights.shape}, whose sums do not fit into float32")
    x = site.value(0)
    if site.given(2):
        x = mapped(site, lambda t, z: t.cast(DType.FLOAT32) - z.cast(DType.FLOAT32), x, site.value(2))
    else:
        x = mapped(site, lambda t: t.cast(DType.FLOAT32), x)
    node = replace(site.node, inputs=("image", "weights"))
    made = conv(replace(site, node=node, values={"image": x}, constants={"weights": weights}))
    return mapped(site, lambda t: t.cast(DType.INT32), made)


def _apart(site: Site, x: Tensor, axis: int, stride: int) -> Tensor:
    """x with zeros between its elements along an axis."""
    if stride == 1:
        return x
    shape = x.type.shape
    ahead, behind = math.prod(shape[: axis + 1]), math.prod(shape[axis + 1 :])
    wide = padded(site, shaped(site, x, (ahead, 1, behind)), (0, 0, 0), (0, stride - 1, 0), 0)
    size = shape[axis] * stride
    whole = shaped(site, wide, (*shape[:axis], size, *shape[axis + 1 :]))
    return sliced(site, whole, [range(n - (stride - 1) * (a == axis)) for a, n in enumerate(whole.type.shape)])


def transposed_pads(site: Site, size: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """What a ConvTranspose cuts from its full result, before and after, by height and width; below 0: it adds."""
    strides, dilations, rank = pair(site, "strides"), pair(site, "dilations"), len(size)
    more, asked = site.attribute("output_padding", (0,) * rank), site.attribute("output_shape", ())
    auto, pads = site.attribute("auto_pad", "NOTSET"), site.attribute("pads", (0,) * 2 * rank)
    more, asked = (0,) * (rank - len(more)) + more, asked and (1,) * (rank - len(asked)) + asked[-rank:]
    pads = (0, pads[0], 0, pads[1]) if len(pads) == 2 else pads
    before, after = list(pads[:rank]), [p - m for p, m in zip(pads[rank:], more, strict=True)]
    for place, (n, k) in enumerate(zip(size, kernel, strict=True)):
        full = strides[place] * (n - 1) + (k - 1) * dilations[place] + 1
        if asked or auto in ("SAME_UPPER", "SAME_LOWER"):
            want = asked[place] if asked else n * strides[place]
            total = full + more[place] - want
            less = total // 2 if auto == "SAME_UPPER" else total - total // 2
            before[place], after[place] = less, total - less - more[place]
        elif auto == "VALID":
            before[place], after[place] = 0, -more[place]
    return before, after
