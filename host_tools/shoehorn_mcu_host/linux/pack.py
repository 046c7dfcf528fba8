"""The files of a library's folder with what is compiled for Linux: the shared library and the wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shoehorn_mcu_host.base.about import About
from shoehorn_mcu_host.linux.compiled import compiled
from shoehorn_mcu_host.linux.targets import Target
from shoehorn_mcu_host.linux.wheel import file_name, wheel

_PYTHON = "linux/python/"


@dataclass(frozen=True)
class Packed:
    """All files of the folder, and the paths of those that were compiled."""

    files: Mapping[str, bytes]
    library: str
    wheel: str


def packed(files: Mapping[str, bytes], about: About, target: Target) -> Packed:
    """Compiles the library of the folder `files` and packs its Python files; BuildError where zig cannot.

    `about.name` is the model's name: that of the module, of the library, and the prefix of its functions.
    """
    made = compiled(files, about.name, target)
    python = {path.removeprefix(_PYTHON): data for path, data in files.items() if path.startswith(_PYTHON)}
    python[f"{about.name}/_native.abi3.so"] = made.module
    library, name = f"linux/lib/lib{about.name}.so", file_name(about, target.platforms)
    more = {library: made.library, name: wheel(about, target.platforms, python)}
    return Packed({**files, **more}, library, name)
