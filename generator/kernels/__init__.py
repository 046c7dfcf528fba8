"""The catalogue: which C function runs which op on which instruction set, and the parameters it gets."""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import conv, elementwise, layout, partial, pool, resize, unary
from shoehorn_mcu.kernels.base import Kernel, Value
from shoehorn_mcu.targets import Isa

# Rows of one op and instruction set are tried in order: special cases stand above the general row.
CATALOGUE: tuple[Kernel, ...] = (
    *conv.KERNELS,
    *partial.KERNELS,
    *elementwise.KERNELS,
    *unary.KERNELS,
    *pool.KERNELS,
    *resize.KERNELS,
    *layout.KERNELS,
)


class KernelError(ShoehornError):
    """No kernel runs an op on its element types."""


def choose(node: Node, isas: Sequence[Isa]) -> Kernel:
    """The first kernel that accepts the node, by instruction set (best first), then by order of the catalogue."""
    for isa in isas:
        for kernel in CATALOGUE:
            if kernel.op is type(node.op) and kernel.isa is isa and kernel.accepts(node):
                return kernel
    takes = ", ".join(str(t.type) for t in node.inputs)
    raise KernelError(
        f"op '{node.op.name}' ({type(node.op).__name__}): no kernel takes {takes} to {node.output.type}; "
        "kernels are for int8, with uint8 and float32 at the model's ends"
    )


__all__ = ["CATALOGUE", "Kernel", "KernelError", "Value", "choose"]
