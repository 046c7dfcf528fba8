"""All contracts, with their variants and oracles."""

from __future__ import annotations

from collections.abc import Mapping

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import detection, layout, real
from shoehorn_mcu.kernels.base.contract import Contract, Variant
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.oracle import Oracle
from shoehorn_mcu.kernels.depthwise import mve, neon, riscv, simd32, thumb
from shoehorn_mcu.kernels.element import elementwise, formulas, unary
from shoehorn_mcu.kernels.linear import (
    conv,
    neon_lanes,
    packed_conv,
    packed_dense,
    partial,
    phases,
    row_conv,
    strided_toom_cook,
    thumb_conv,
    thumb_dense,
    toom_cook,
    wide,
)
from shoehorn_mcu.kernels.linear import mve as mve_linear
from shoehorn_mcu.kernels.linear import neon as neon_linear
from shoehorn_mcu.kernels.linear import riscv as riscv_linear
from shoehorn_mcu.kernels.sequence import recurrent, signal, svdf
from shoehorn_mcu.kernels.window import pool, resize, sums
from shoehorn_mcu.machine.targets import Isa

CATALOGUE: tuple[Variant, ...] = (
    *conv.VARIANTS,
    *packed_conv.VARIANTS,
    *row_conv.VARIANTS,
    *toom_cook.VARIANTS,
    *strided_toom_cook.VARIANTS,
    *mve_linear.VARIANTS,
    *neon_linear.VARIANTS,
    *neon_lanes.VARIANTS,
    *phases.VARIANTS,
    *riscv_linear.VARIANTS,
    *packed_dense.VARIANTS,
    *thumb_conv.VARIANTS,
    *thumb_dense.VARIANTS,
    *thumb.VARIANTS,
    *simd32.VARIANTS,
    *mve.VARIANTS,
    *neon.VARIANTS,
    *riscv.VARIANTS,
    *partial.VARIANTS,
    *wide.VARIANTS,
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
