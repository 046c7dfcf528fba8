"""All contracts, with their variants and oracles."""

from __future__ import annotations

from collections.abc import Mapping

from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import (
    conv,
    depthwise,
    detection,
    elementwise,
    formulas,
    layout,
    mve_depthwise,
    mve_linear,
    neon_depthwise,
    neon_linear,
    packed_conv,
    packed_dense,
    partial,
    pool,
    real,
    recurrent,
    resize,
    signal,
    sums,
    svdf,
    thumb_conv,
    thumb_dense,
    thumb_depthwise,
    unary,
    wide_linear,
)
from shoehorn_mcu.kernels.base import Contract, Oracle, Variant
from shoehorn_mcu.kernels.known import known
from shoehorn_mcu.targets import Isa

CATALOGUE: tuple[Variant, ...] = (
    *conv.VARIANTS,
    *packed_conv.VARIANTS,
    *mve_linear.VARIANTS,
    *neon_linear.VARIANTS,
    *packed_dense.VARIANTS,
    *thumb_conv.VARIANTS,
    *thumb_dense.VARIANTS,
    *thumb_depthwise.VARIANTS,
    *depthwise.VARIANTS,
    *mve_depthwise.VARIANTS,
    *neon_depthwise.VARIANTS,
    *partial.VARIANTS,
    *wide_linear.VARIANTS,
    *sums.VARIANTS,
    *elementwise.VARIANTS,
    *formulas.VARIANTS,
    *unary.VARIANTS,
    *pool.VARIANTS,
    *resize.VARIANTS,
    *layout.VARIANTS,
    *signal.VARIANTS,
    *detection.VARIANTS,
    *real.VARIANTS,
    *recurrent.VARIANTS,
    *svdf.VARIANTS,
)
"""Every variant. Where two are predicted to be equally fast, the first is chosen."""

ORACLE: Mapping[str, Oracle] = {v.contract.name: Oracle(v.contract) for v in CATALOGUE}
"""By contract: the plain C whose bytes all variants must equal."""

PORTABLE: Mapping[str, Variant] = {v.contract.name: v for v in CATALOGUE if (v.isa, v.suffix) == (Isa.C, "c")}
"""By contract: the variant that runs on any core and computes every node."""


class KernelError(ShoehornError):
    """No kernel computes an op with its element types, or the kernel that was asked for does not."""


@known
def contract_of(node: Node) -> Contract:
    """The contract that covers the node. Raises KernelError, which names the node and its types."""
    for oracle in ORACLE.values():
        if oracle.contract.covers(node):
            return oracle.contract
    types = ", ".join(str(t.type) for t in node.inputs)
    raise KernelError(
        f"op '{node.op.name}' ({type(node.op).__name__}): no kernel computes {node.output.type} from {types}; "
        "kernels are for int8, with uint8 and float32 at the model's ends, and for float32 models of a few ops"
    )


def oracle(node: Node) -> Oracle:
    """The oracle of the node's contract."""
    return ORACLE[contract_of(node).name]
