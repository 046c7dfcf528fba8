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
    """A variant of contract `<name>.h`: the body `<name>_<suffix>.inc` in `runtime_c/kernels/<name>`.

    A library compiles the body under a name of its own (`instance`). Beside it is the oracle `<name>_ref.c`, plain C
    that is compiled for the reference runtime and never for a board.
    """

    op: type[Op]
    name: str
    params: Callable[[Node], Mapping[str, Value]]  # members of struct sh_<name>
    work: Callable[[Node], Work]  # of one row; see cost.py
    isa: Isa = Isa.C
    suffix: str = "c"
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
        """Readable name; the C function has the library's prefix before it."""
        return f"{self.name}_{self.suffix}"

    @property
    def oracle(self) -> str:
        """The C function of the oracle."""
        return f"sh_{self.name}_ref"

    def symbol(self, prefix: str) -> str:
        """The C function in a library of this prefix."""
        return f"{prefix}_{self.function}"

    def instance(self, prefix: str, runtime: str) -> str:
        """The C file that compiles the body for one library; `runtime` is the path from it to runtime_c, or ""."""
        return (
            f"// {self.function} for {prefix}. Generated; do not edit.\n"
            f"#define SH_NAME {self.symbol(prefix)}\n"
            f'#include "{runtime}{self.source}"\n'
        )

    @property
    def header(self) -> str:
        """Path below runtime_c."""
        return f"kernels/{self.name}/{self.name}.h"

    @property
    def source(self) -> str:
        """Path below runtime_c."""
        return f"kernels/{self.name}/{self.name}_{self.suffix}.inc"
