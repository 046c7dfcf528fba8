"""The library as a CMSIS-Pack: a folder with its description (.pdsc), and the .pack made of it.

The description is that of the Open-CMSIS-Pack specification, schema version 1.7.36, the first with `csolution`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit.bindings.about import About
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.readme import example, use
from shoehorn_mcu.emit.folder.single_file import single_file
from shoehorn_mcu.emit.model.forms import Forms
from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.templates import filled
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.machine.targets import CPUS, Isa
from shoehorn_mcu.machine.targets import cpu as key_of

CORES: Mapping[str, str] = {
    "Cortex-M0": "ARMCM0",
    "Cortex-M0+": "ARMCM0P",
    "Cortex-M1": "ARMCM1",
    "Cortex-M3": "ARMCM3",
    "Cortex-M4": "ARMCM4",
    "Cortex-M7": "ARMCM7",
    "Cortex-M23": "ARMCM23",
    "Cortex-M33": "ARMCM33",
    "Cortex-M35P": "ARMCM35P",
    "Cortex-M55": "ARMCM55",
    "Cortex-M85": "ARMCM85",
}
"""The cores of a condition, and the device of ARM::Cortex_DFP that has each."""
_ANY = "Cortex-M4"  # of the program, where the code is portable
# What a chip with the core may lack, and the attributes of one that does not.
_OPTIONAL: Mapping[Isa, Mapping[str, Sequence[tuple[str, str]]]] = {
    Isa.SIMD32: dict.fromkeys(("Cortex-M33", "Cortex-M35P"), (("Ddsp", "DSP"),)),
    Isa.MVE: dict.fromkeys(("Cortex-M55", "Cortex-M85"), (("Dmve", "MVE"), ("Dmve", "FP_MVE"))),
}
_CLASS, _GROUP = "Machine Learning", "Shoehorn"
_LONGEST = 32  # characters of a component's name


def faults(unit: Unit, cpu: str | None) -> Iterator[str]:
    """Why there is no pack of the model, each with the cure."""
    if unit.cores > 1:
        yield "the program of a pack runs on one core; leave --cores out"
    if cpu is not None and cpu not in {key_of(core) for core in CORES}:
        yield f"a pack is for Cortex-M, and {cpu} is none; name one by --cpu, or leave it out for portable C"


def pack(unit: Unit, found: Constants, cpu: str | None, about: About) -> Bundle:
    """Every file of the folder, by path, and below `<vendor>.<model>.<version>.pack` an archive of all of them."""
    cores = [core for core in CORES if _runs(unit, core)]
    device = next((core for core in cores if cpu == key_of(core)), _ANY)
    form, part = Forms(unit), unit.name[:_LONGEST]
    values = {
        "NAME": unit.name,
        "VENDOR": about.vendor,
        "VERSION": about.version,
        "DEVICE": CORES[device],
        "URL": escape(about.url),
        "GENERATOR": __version__,
        "SAID": f"The network {unit.name} as static C: no heap, an arena of {unit.plan.total_bytes} bytes",
        **{"CLASS": _CLASS, "GROUP": _GROUP, "PART": part},
        "COMPONENT": f"{about.vendor}::{_CLASS}:{_GROUP}:{part}",
        **_conditions(unit, cores),
        "CORES": "every Cortex-M" if len(cores) == len(CORES) else ", ".join(cores),
        "EXAMPLE": "\n".join(example(unit)),
        "ARENAS": form.arenas.readme,
        "USE": "\n".join(use(unit)),
    }
    templates = {
        path.replace("model.", f"{unit.name}."): data for path, data in filled("bindings/cmsis-pack", values).items()
    }
    files = {**templates, **{f"src/{path}": data for path, data in single_file(unit, found).items()}}
    files[f"{about.vendor}.{unit.name}.pdsc"] = files.pop(f"{unit.name}.pdsc")
    files = dict(sorted(files.items()))
    return {**files, f"{about.vendor}.{unit.name}.{about.version}.pack": _archive(files)}


def _runs(unit: Unit, core: str) -> bool:
    """Whether a core runs the kernels; those of Armv6-M run on every Cortex-M."""
    has = {*CPUS[key_of(core)].isas, Isa.THUMB}
    return all(stage.kernel.variant.isa in has for stage in unit.stages)


def _conditions(unit: Unit, cores: Sequence[str]) -> dict[str, str]:
    """The lines of the description that are about chips, where not every Cortex-M runs the kernels."""
    if len(cores) == len(CORES):
        return {"CONDITION": "", "REQUIRED": ""}
    chips = (" ".join(f'{key}="{value}"' for key, value in each.items()) for each in _accepted(unit, cores))
    rows = "".join(f"      <accept {chip} />\n" for chip in chips)
    return {
        "CONDITION": f'    <condition id="cores">\n{rows}    </condition>\n',
        "REQUIRED": '      <require condition="cores" />\n',
    }


def _accepted(unit: Unit, cores: Sequence[str]) -> Iterator[dict[str, str]]:
    """The attributes of chips that run the kernels."""
    used = {stage.kernel.variant.isa for stage in unit.stages}
    for core in cores:
        lacking = [
            _OPTIONAL[isa][core] for isa in sorted(used, key=lambda i: i.value) if core in _OPTIONAL.get(isa, {})
        ]
        yield from ({"Dcore": core, key: value} for key, value in (lacking[0] if lacking else [("Dcore", core)]))


def _archive(files: Bundle) -> bytes:
    """A zip file of the files, the same for the same files: not compressed, because a zlib may do so in another way."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data)
    return made.getvalue()
