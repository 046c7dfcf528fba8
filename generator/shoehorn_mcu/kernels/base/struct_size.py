"""The flash that the struct of a kernel instance takes, found once for each op."""

from __future__ import annotations

from typing import NamedTuple

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Instance, array_bytes
from shoehorn_mcu.kernels.base.known import known


class StructSize(NamedTuple):
    """What an instance's struct takes of the flash."""

    members: int
    constant_bytes: int  # of the arrays that members point to


@known
def struct_size(node: Node, kernel: Instance) -> StructSize:
    """The size of an instance's struct for a node."""
    values = kernel.params(node)
    return StructSize(len(values), array_bytes(values))
