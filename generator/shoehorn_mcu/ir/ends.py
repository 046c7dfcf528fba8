"""Inputs and outputs as the model's file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoehorn_mcu.ir.types import TensorType


@dataclass(frozen=True)
class FileTensor:
    """A tensor as the file has it: dimension d of the graph's tensor is the file's dimension `order[d]`.

    Where element type or quantisation differ from the graph's, the real values are equal.
    """

    name: str
    type: TensorType
    order: tuple[int, ...]

    @classmethod
    def alike(cls, name: str, kind: TensorType) -> FileTensor:
        """A tensor that the file has as the graph has it."""
        return cls(name, kind, tuple(range(len(kind.shape))))

    @property
    def back(self) -> tuple[int, ...]:
        """The other way round: dimension d of the file's tensor is the graph's dimension `back[d]`."""
        return tuple(self.order.index(dimension) for dimension in range(len(self.order)))


Ends = Mapping[str, FileTensor]
"""Inputs and outputs that differ in the model's file, by their names in the graph."""


@dataclass(frozen=True)
class Origin:
    """The file that a model is from, with its inputs and outputs, and what the user's options make of them."""

    file: str = ""  # its name without folders; empty where no single file is the model
    sha256: str = ""
    others: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of files with its constants, by name
    why: str = ""  # why there is no such file
    inputs: tuple[FileTensor, ...] = ()
    outputs: tuple[FileTensor, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)  # inputs that read what outputs gave one inference before
    pixels: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # means and deviations, where the input is pixels
    stateless: bool = False  # every inference begins with the first values of the file's own states
