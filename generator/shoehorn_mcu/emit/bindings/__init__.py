"""The library for builds that are no C projects: a table of frameworks, and the files of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from shoehorn_mcu.emit.bindings import cmsis_pack, micropython, rust
from shoehorn_mcu.emit.bindings.about import About as About
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.templates import TemplateError
from shoehorn_mcu.emit.unit import Unit

NONE = "none"


@dataclass(frozen=True)
class Binding:
    """A framework. The functions take the key of CPUS that the kernels are for, None of portable C."""

    files: Callable[[Unit, Constants, str | None, About], Bundle]
    faults: Callable[[Unit, str | None], Iterator[str]]  # why there is none, each with the cure


BINDINGS: Mapping[str, Binding] = {
    "rust": Binding(rust.crate, rust.faults),
    "micropython": Binding(micropython.module, micropython.faults),
    "cmsis-pack": Binding(cmsis_pack.pack, cmsis_pack.faults),
}
CHOICES = (NONE, *BINDINGS)


def binding(unit: Unit, found: Constants, framework: str, cpu: str | None, about: About | None = None) -> Bundle:
    """Every file of the folder, by path; TemplateError says why there is none. `framework` is a key of BINDINGS."""
    row = BINDINGS[framework]
    for fault in row.faults(unit, cpu):
        raise TemplateError(f"--framework {framework}: {fault}")
    return row.files(unit, found, cpu, about or About())
