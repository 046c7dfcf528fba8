"""A row of the kernel catalogue: one C function that can run one op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shoehorn_mcu.ir import Array, Node, Op
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.targets import Isa

Value = int | float | Array | None
"""A member of a parameters struct: a number, a constant array, or a null pointer."""


def _any(node: Node) -> bool:
    return True


def _nowhere(node: Node) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True)
class Kernel:
    """`sh_<name>_<suffix>` in `runtime_c/kernels/<name>/<name>_<suffix>.c`, contract in `<name>.h`."""

    op: type[Op]
    name: str
    params: Callable[[Node], Mapping[str, Value]]  # members of struct sh_<name>
    work: Callable[[Node], Work]  # of one row; see cost.py
    isa: Isa = Isa.C
    suffix: str = "ref"
    accepts: Callable[[Node], bool] = _any
    takes_row: bool = False  # the contract takes the number of the output row (before scratch)
    scratch_bytes: Callable[[Node], int] | None = None  # None: the contract takes no scratch
    # Row inputs of which row y may begin where output row y begins: each byte is read before it is overwritten.
    in_places: Callable[[Node], tuple[int, ...]] = _nowhere

    def in_place(self, node: Node) -> int | None:
        """The first of `in_places`, or None."""
        return next(iter(self.in_places(node)), None)

    @property
    def struct(self) -> str:
        return f"sh_{self.name}"

    @property
    def function(self) -> str:
        return f"sh_{self.name}_{self.suffix}"

    @property
    def header(self) -> str:
        """Path below runtime_c."""
        return f"kernels/{self.name}/{self.name}.h"

    @property
    def source(self) -> str:
        """Path below runtime_c."""
        return f"kernels/{self.name}/{self.name}_{self.suffix}.c"
