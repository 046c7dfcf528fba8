"""What the bindings say of a model alike: its inputs and outputs, and names that another language has taken."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import TensorType


@dataclass(frozen=True)
class End:
    """An input or output."""

    suffix: str  # of its C names: `input`, `input_1`, `output`
    tensor: str
    type: TensorType
    by_rows: bool  # it arrives, or is handed out, row by row

    @property
    def is_input(self) -> bool:
        return self.suffix.startswith("input")

    @property
    def shown(self) -> str:
        """The tensor's name for a text in Markdown between backticks."""
        return c.quoted(c.plain(self.tensor, but="`"))[1:-1]

    @property
    def row_elements(self) -> int:
        return self.type.row_bytes // self.type.dtype.bytes


def ends(unit: Unit) -> list[End]:
    """Every input, then every output, in the order of the C names."""
    whole = set(unit.whole_ends())
    return [End(suffix, name, unit.type(name), (suffix, name) not in whole) for suffix, name in unit.ends()]


def free_name(name: str, taken: Collection[str]) -> str:
    """The model's name, or with an ending where the language or its system has it already."""
    return f"{name}_model" if name in taken else name
