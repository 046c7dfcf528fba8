"""Facts about a built firmware from its ELF file: the bytes of RAM and flash that it needs, addresses of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from shoehorn_mcu_host.base.errors import HostError


@dataclass(frozen=True)
class Sizes:
    """Bytes: `ram` is statics and the reserved stack, `flash` is code, constants and initial data."""

    ram_bytes: int
    flash_bytes: int


def sizes(path: Path, stack_bytes: int) -> Sizes:
    """The sizes of an ELF, those of the board's main memory; `stack_bytes` counts where the linker script reserves no
    stack of its own (native). Sections of other memories are named `.memory.NAME`.
    """
    try:
        with path.open("rb") as file:
            sections = [s for s in ELFFile(file).iter_sections() if s["sh_flags"] & SH_FLAGS.SHF_ALLOC]
            written = [s for s in sections if s["sh_flags"] & SH_FLAGS.SHF_WRITE and not s.name.startswith(".memory.")]
            stack = 0 if any(s.name == ".stack" for s in written) else stack_bytes
            return Sizes(
                ram_bytes=sum(s["sh_size"] for s in written) + stack,
                flash_bytes=sum(s["sh_size"] for s in sections if s["sh_type"] != "SHT_NOBITS"),
            )
    except (OSError, ELFError) as error:
        raise HostError(f"{path}: not a firmware: {error}; build it again") from error


def functions(path: Path, names: Sequence[str]) -> list[int]:
    """The addresses of these functions, in Thumb code without its bit 0. HostError where one is missing."""
    try:
        with path.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            found = [table.get_symbol_by_name(name) for name in names] if isinstance(table, SymbolTableSection) else []
    except (OSError, ELFError) as error:
        raise HostError(f"{path}: not a firmware: {error}; build it again") from error
    if not found or not all(found):
        raise HostError(f"{path}: lacks one of the functions {', '.join(names)}; build it again")
    return [symbols[0]["st_value"] & ~1 for symbols in found if symbols]


def loaded(path: Path) -> tuple[int, list[tuple[int, bytes]]]:
    """Where the image begins to run, and what is written where before that. HostError: it is damaged."""
    try:
        with path.open("rb") as file:
            image = ELFFile(file)
            parts = [(s["p_paddr"], s.data()) for s in image.iter_segments("PT_LOAD") if s["p_filesz"]]
            return image["e_entry"], parts
    except (OSError, ELFError) as error:
        raise HostError(f"{path}: not a firmware: {error}; build it again") from error
