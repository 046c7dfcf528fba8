"""A pool of stride 1 in front of a 1x1 convolution goes.

> y = conv_1x1(max_pool_3x3(x, stride 1))
< y = conv_1x1(x)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.ir.edit import only_reader, readers
from shoehorn_mcu.ops.pool import Pool2d
from shoehorn_mcu.slim.layers import constants, is_dense_convolution, kernel, rewritten, weights_of
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.sites import labels


def unpool(graph: Graph) -> Iterator[Moved | None]:
    """Each such pool."""
    pools = {node.output.name: node for node in graph.nodes() if isinstance(node.op, Pool2d)}
    read_by = readers(graph)
    for node in graph.nodes():
        if not is_dense_convolution(node) or kernel(node) != (1, 1) or node.x.name not in pools:
            continue
        pool, op = pools[node.x.name], node.op
        same = pool.x.type.shape == pool.output.type.shape
        if not same or only_reader(graph, read_by, pool.output.name) is not op:
            continue
        layer = replace(op, inputs=(pool.x.name, *constants(op.name)))
        made = rewritten(graph, [pool.op.name], [layer], {op.name: weights_of(node)})
        part = Part(node.output.type.shape[3], node.output.name, 0, (op.name,))
        site = " + ".join(labels([pool, node]))
        yield Moved.of(graph, made, "unpool", site, (Born(op.name, (part,)),))
