"""Which instruction sets there are kernels for, by the op of a format and the element type that it computes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.importers import Form, Importer, In, Kind
from shoehorn_mcu.ir import Op
from shoehorn_mcu.kernels import CATALOGUE, Contract
from shoehorn_mcu.machine.targets import Isa

_SUFFIXES = {"s8": Kind.INT8, "8": Kind.INT8, "s16": Kind.INT16, "f32": Kind.FLOAT32}
"""Parts of a contract's name, the ones that decide first."""

Row = Mapping[Kind, Sequence[Isa]]
"""By element type; one that is missing has no kernels and needs some."""


def table(importer: Importer) -> Mapping[str, Row]:
    """The row of each op. No instruction sets: the op computes nothing."""
    return {
        code: {kind: isas(form, kind) for kind in Kind if (form := by_kind.get(kind)) is not None}
        for code, by_kind in sorted(importer.forms().items())
    }


def isas(form: Form, kind: Kind) -> Sequence[Isa]:
    """The instruction sets with kernels for any op of the form, in the order of `Isa`."""
    pairs = [(each.op, each.kind) if isinstance(each, In) else (each, kind) for each in form]
    found = {variant.isa for variant in CATALOGUE for op, of in pairs if _computes(variant.contract, op, of)}
    if all(of is not Kind.FLOAT32 for _, of in pairs):
        found -= {Isa.FPU}  # a kernel for any element type uses it for float32 alone
    return [isa for isa in Isa if isa in found]


def _computes(contract: Contract, op: type[Op], kind: Kind) -> bool:
    return element(contract) in (None, kind) and any(
        issubclass(op, each) or issubclass(each, op) for each in contract.ops
    )


def element(contract: Contract) -> Kind | None:
    """The element type that a contract is of, which its name ends with; None: any."""
    parts = contract.name.split("_")
    return next((kind for suffix, kind in _SUFFIXES.items() if suffix in parts), None)
