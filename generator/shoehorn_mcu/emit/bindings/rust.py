"""The library as a Rust crate without `std`: `extern "C"` declarations, and a `Model` that cannot be misused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoehorn_mcu.emit.bindings.about import About
from shoehorn_mcu.emit.bindings.ends import free_name
from shoehorn_mcu.emit.bindings.rust_source import Source
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.single_file import single_file
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.templates import filled
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.machine.targets import Isa

_WORDS = """
as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub
ref return self static struct super trait true type unsafe use where while
abstract become box do final gen macro override priv try typeof unsized virtual yield
"""
_CRATES = "alloc core proc_macro std test"  # which every program has
_REFUSED = "build deps examples incremental"  # by Cargo
_TAKEN = frozenset(f"{_WORDS} {_CRATES} {_REFUSED}".split())
# By key of CPUS: the core as C compilers call it, and Rust's name of its architecture.
_CORES: Mapping[str, tuple[str, str]] = {
    "host": ("", ""),
    "cortex-m0": ("cortex-m0", "arm"),
    "cortex-m3": ("cortex-m3", "arm"),
    "cortex-m4f": ("cortex-m4", "arm"),
    "cortex-m7": ("cortex-m7", "arm"),
    "cortex-m33": ("cortex-m33", "arm"),
    "cortex-m55": ("cortex-m55", "arm"),
    "arm1176": ("arm1176jzf-s", "arm"),
    "cortex-a53": ("cortex-a53", "aarch64"),
    "rv32imc": ("rv32imc", "riscv32"),
    "rv32imac": ("rv32imac", "riscv32"),
    "rv32imafc": ("rv32imafc", "riscv32"),
}


def faults(unit: Unit, cpu: str | None) -> Iterator[str]:
    """Why there is no crate of the model, each with the cure."""
    if unit.cores > 1:
        yield "a model of a crate runs on one core; leave --cores out"
    if cpu is not None and cpu not in _CORES:
        yield f"no target of Rust is known for {cpu}; leave --cpu out for portable C"
    if len({*unit.graph.inputs}) < len(unit.graph.inputs):
        yield "two inputs of the model are one tensor, which Rust lends once; convert the model with one input for both"


def crate(unit: Unit, found: Constants, cpu: str | None, about: About) -> Bundle:
    """Every file of the folder, by path. `cpu` is the key of CPUS that the kernels are for, None of portable C."""
    core, architecture = _CORES[cpu or "host"]
    name = free_name(unit.name, _TAKEN)
    writer = Source(unit, name)
    fpu = any(stage.kernel.variant.isa is Isa.FPU for stage in unit.stages)
    values = {
        "NAME": unit.name,
        "CRATE": name,
        "VERSION": about.version,
        "URL": about.url,
        "DESCRIPTION": f"The network {unit.name} as static C: no heap, an arena of {unit.plan.total_bytes} bytes.",
        "CORE": core,
        "ARCHITECTURE": architecture,
        "FPU": "true" if fpu else "false",
        "EXAMPLE": "\n".join(writer.example()),
        "ARENA": "" if unit.caller_arena else f"\n`-D{unit.upper}_ARENA_SECTION=...` in `CFLAGS` places the arena.\n",
    }
    files = {f"c/{path}": data for path, data in single_file(unit, found).items()}
    files |= filled("bindings/rust", values)
    files["src/lib.rs"] = writer.text().encode()
    return dict(sorted(files.items()))
