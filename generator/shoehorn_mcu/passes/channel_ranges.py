"""The range of stored values of every channel of every tensor, for any input: interval arithmetic.

Each op computes the range of its output from those of its operands (`Op.ranges`). That is sound if its arithmetic is
exact: no sum leaves int32. Linear ops check that per channel; any other op that may overflow gets the full range.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from shoehorn_mcu.ir import DType, Graph, Range, Tensor
from shoehorn_mcu.ops import LinearOp
from shoehorn_mcu.ops.channels import over_channels


@lru_cache(maxsize=1)  # the passes that ask follow each other, mostly with an unchanged graph
def ranges(graph: Graph) -> Mapping[str, Range]:
    """The range of every tensor that ops read by rows or write."""
    found = {name: Range.of_type(graph.tensors[name].type) for name in graph.sources}
    for node in graph.nodes():
        operands = [found.setdefault(t.name, _held(t)) for t in node.row_inputs]
        integer = node.output.type.dtype is not DType.FLOAT32
        known = integer and (isinstance(node.op, LinearOp) or node.op.overflow(node) is None)
        found[node.output.name] = node.op.ranges(node, operands) if known else Range.of_type(node.output.type)
    return found


def _held(tensor: Tensor) -> Range:
    """The range of a constant that an op reads by rows."""
    if tensor.data is None or tensor.data.dtype.kind not in "iu":
        return Range.of_type(tensor.type)
    return over_channels([tensor.data], tensor.type.nhwc[3])
