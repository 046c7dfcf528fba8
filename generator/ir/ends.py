"""Inputs and outputs as the model's file has them."""

from __future__ import annotations

from dataclasses import dataclass

from shoehorn_mcu.ir.types import TensorType


@dataclass(frozen=True)
class FileTensor:
    """A tensor as the file has it: dimension d of the graph's tensor is the file's dimension `order[d]`.

    Where element type or quantisation differ from the graph's, the real values are equal.
    """

    name: str
    type: TensorType
    order: tuple[int, ...]
