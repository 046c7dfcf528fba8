"""Shapes of linear ops that kernels are compared by; costs are not fitted to them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.micro_graph import NONE, SAME, graph_of, s8
from bench.micro_linear import in_parts, linear
from shoehorn_mcu import ops
from shoehorn_mcu.ir import Graph

# height, width, channels in, out, kernel, padding, groups
CONVS = (
    (1, 14, 8, 1, 1, NONE, 1),
    (1, 14, 8, 2, 1, NONE, 1),
    (1, 14, 8, 3, 1, NONE, 1),
    (1, 28, 16, 8, 1, NONE, 1),
    (1, 14, 12, 48, 1, NONE, 1),
    (1, 14, 48, 12, 1, NONE, 1),
    (1, 4, 160, 40, 1, NONE, 1),
    (1, 14, 33, 5, 1, NONE, 1),
    (3, 14, 3, 16, 3, SAME, 1),
    (3, 7, 16, 16, 3, SAME, 1),
    (3, 7, 16, 3, 3, SAME, 1),
    (8, 6, 1, 8, 8, SAME, 1),
    (1, 14, 12, 12, 1, NONE, 3),
)
# height, width, channels, multiplier, kernel, stride, padding
DEPTHWISE = (
    (3, 14, 1, 1, 3, 1, SAME),
    (3, 14, 3, 1, 3, 1, SAME),
    (3, 14, 4, 1, 3, 1, SAME),
    (3, 14, 8, 1, 3, 1, SAME),
    (3, 14, 12, 1, 3, 1, SAME),
    (3, 14, 16, 1, 3, 1, SAME),
    (5, 9, 16, 1, 3, 2, SAME),
    (3, 5, 24, 1, 3, 1, NONE),
    (3, 8, 30, 1, 3, 1, SAME),
    (3, 8, 32, 1, 3, 1, SAME),
    (3, 8, 48, 1, 3, 1, NONE),
    (5, 5, 40, 1, 5, 1, SAME),
    (3, 6, 96, 1, 3, 1, SAME),
    (7, 3, 32, 1, 7, 1, NONE),
    (3, 14, 1, 8, 3, 1, SAME),
    (3, 14, 4, 3, 3, 1, SAME),
)
# inputs, outputs
DENSE = (
    (8, 10),
    (64, 1),
    (64, 2),
    (64, 3),
    (64, 4),
    (64, 5),
    (64, 6),
    (64, 7),
    (64, 12),
    (250, 2),
    (250, 3),
    (12, 30),
    (128, 16),
)
# height, width, channels in, out, kernel, padding
PARTIALS = (
    (1, 10, 8, 24, 1, NONE),
    (1, 14, 32, 16, 1, NONE),
    (3, 7, 8, 16, 3, SAME),
    (1, 8, 12, 3, 1, NONE),
)


def shapes() -> Iterator[tuple[str, Graph]]:
    """Each graph, by the name of its shape."""
    rng = np.random.default_rng(0)
    for h, w, c, o, k, pad, groups in CONVS:
        across = min(k, w + pad.left + pad.right)
        made = linear(rng, s8(1, h, w, c), (o, k, across, c // groups), o)
        name = f"conv {h}x{w}x{c} to {o}, {k}x{k}" + (f", {groups} groups" if groups > 1 else "")
        yield (
            name,
            graph_of(ops.Conv2d, made, s8(scale=0.5), stride=(1, 1), dilation=(1, 1), padding=pad),
        )
    for h, w, c, m, k, stride, pad in DEPTHWISE:
        made = linear(rng, s8(1, h, w, c), (1, k, min(k, w + pad.left + pad.right), c * m), c * m)
        name = f"depthwise {h}x{w}x{c}" + (f" by {m}" if m > 1 else "") + f", {k}x{k} step {stride}"
        yield name, graph_of(ops.DepthwiseConv2d, made, s8(scale=0.5), stride=(stride, stride), padding=pad)
    for i, o in DENSE:
        yield f"dense {i} to {o}", graph_of(ops.Dense, linear(rng, s8(1, i), (o, i), o), s8(scale=0.5))
    for h, w, c, o, k, pad in PARTIALS:
        yield f"partial {h}x{w}x{c} to {o}, {k}x{k}", in_parts(rng, s8(1, h, w, c), (o, k, k, c), pad)
