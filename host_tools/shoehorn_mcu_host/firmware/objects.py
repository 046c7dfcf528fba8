"""The functions of object files: their stack frames, their calls, and the addresses of functions that they take.

Needs -ffunction-sections (one function per section) and -fstack-size-section (Clang's machine-readable twin of
-fstack-usage: a `.stack_sizes` section linked to each function's section; none for a frame of unknown size).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from shoehorn_mcu_host.firmware import machine_code

_NO_CODE_POINTERS = (".vectors", ".stack_sizes", ".ARM.exidx", ".llvm_addrsig", ".eh_frame", ".debug")


@dataclass
class Function:
    """A function; `frame` in bytes, None where the compiler does not say. Local names carry their file."""

    name: str
    frame: int | None
    weak: bool
    calls: set[str] = field(default_factory=set)
    calls_pointer: bool = False


@dataclass
class Code:
    """All functions by name, and the names of functions whose address is taken."""

    functions: dict[str, Function] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def add(self, function: Function) -> None:
        """Adds a function; a strong definition replaces a weak one."""
        old = self.functions.get(function.name)
        if old is None or old.weak:
            self.functions[function.name] = function


def _uleb128(data: bytes) -> int:
    value = 0
    for i, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            break
    return value


class _Object:
    """One object file."""

    def __init__(self, name: str, elf: ELFFile) -> None:
        self.file = name
        self.elf = elf
        self.machine: str = elf["e_machine"]
        self.sections: list[Section] = list(elf.iter_sections())
        table = elf.get_section_by_name(".symtab")
        self.symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
        self.by_section = {s["st_shndx"]: s for s in self.symbols if s["st_info"]["type"] == "STT_FUNC"}

    def name(self, symbol: object) -> str | None:
        """The function that a relocation's symbol refers to; None for data."""
        info = symbol["st_info"]  # type: ignore[index]
        if info["type"] == "STT_SECTION":
            symbol = self.by_section.get(symbol["st_shndx"])  # type: ignore[index]
            return None if symbol is None else self.name(symbol)
        if info["type"] == "STT_FUNC" and info["bind"] == "STB_LOCAL":
            return f"{symbol.name} ({self.file})"  # type: ignore[attr-defined]
        known = info["type"] == "STT_FUNC" or symbol["st_shndx"] == "SHN_UNDEF"  # type: ignore[index]
        return symbol.name if known else None  # type: ignore[attr-defined]

    def frames(self) -> dict[int, int]:
        """Section index -> bytes of frame."""
        pointer = self.elf.elfclass // 8
        stacks = (s for s in self.sections if s.name == ".stack_sizes")
        return {s["sh_link"]: _uleb128(s.data()[pointer:]) for s in stacks}

    def relocations(self) -> Iterator[tuple[int, int, int, str]]:
        """(patched section, offset in it, type, target function)."""
        for table in self.sections:
            if not isinstance(table, RelocationSection):
                continue
            for entry in table.iter_relocations():
                name = self.name(self.symbols[entry["r_info_sym"]])
                if name is not None:
                    yield table["sh_info"], entry["r_offset"], entry["r_info_type"], name

    def mapping(self, section: int) -> list[tuple[int, str]]:
        """Arm's marks of code and data in a section: (offset, "a", "t", "x" or "d")."""
        own = (s for s in self.symbols if s["st_shndx"] == section)
        return sorted((s["st_value"], s.name[1]) for s in own if re.match(r"\$[atxd]", s.name))


def code_of(name: str, content: bytes) -> Code:
    """Every function of an object file of this name."""
    obj, code = _Object(name, ELFFile(BytesIO(content))), Code()
    frames = obj.frames()
    functions = {}
    for index, symbol in obj.by_section.items():
        own = obj.name(symbol)
        assert own is not None
        functions[index] = Function(own, frames.get(index), symbol["st_info"]["bind"] == "STB_WEAK")
    patched: defaultdict[int, set[int]] = defaultdict(set)
    for section, offset, kind, target in obj.relocations():
        patched[section].add(offset)
        if section in functions and machine_code.is_call(obj.machine, kind):
            functions[section].calls.add(target)
        elif not obj.sections[section].name.startswith(_NO_CODE_POINTERS):
            code.taken.add(target)
    for index, function in functions.items():
        found = machine_code.scan(obj.machine, obj.sections[index].data(), obj.mapping(index), patched[index])
        function.calls_pointer = found.calls_pointer
        if function.frame is not None:
            function.frame = deepest(function.frame, found.moves)
        if found.calls_itself:
            function.calls.add(function.name)
        code.add(function)
    return code


def deepest(frame: int, moves: Sequence[int]) -> int:
    """The bytes of stack of a function, with what its assembly pushes beyond the compiler's `frame`.

    The moves are followed in the order of the code. What comes after the function's own pushes has at least the frame:
    the end of one path through the function is no end of the next one in the code.
    """
    now = most = 0
    for move in moves:
        inside = now >= frame
        now = max(now + move, frame) if inside else now + move
        most = max(most, now)
    return max(frame, most)


def read(files: list[Path]) -> Code:
    """Every function of the object files."""
    code = Code()
    for file in sorted(files):
        found = code_of(file.name, file.read_bytes())
        code.taken |= found.taken
        for function in found.functions.values():
            code.add(function)
    code.taken &= set(code.functions)
    return code
