# SPDX-License-Identifier: 0BSD
"""Converts firmware.elf to the image that is flashed."""

import shutil
from pathlib import Path

import esp
import uf2
from elftools.elf.elffile import ELFFile


def contents(elf_path: Path) -> list[tuple[int, bytes]]:
    """The contents of flash, section by section, as (load address, bytes), lowest first."""
    with elf_path.open("rb") as file:
        elf = ELFFile(file)
        parts = []
        for section in elf.iter_sections("SHT_PROGBITS"):
            if section["sh_size"] == 0:
                continue
            for segment in elf.iter_segments("PT_LOAD"):
                if segment.section_in_segment(section):
                    parts.append((segment["p_paddr"] + section["sh_offset"] - segment["p_offset"], section.data()))
        return sorted(parts)


def binary(parts: list[tuple[int, bytes]]) -> bytes:
    """The bytes from the lowest address on, gaps as zeros."""
    origin = parts[0][0]
    whole = bytearray(parts[-1][0] + len(parts[-1][1]) - origin)
    for address, data in parts:
        whole[address - origin : address - origin + len(data)] = data
    return bytes(whole)


def _record(kind: int, address: int, data: bytes) -> str:
    body = bytes((len(data), address >> 8 & 255, address & 255, kind)) + data
    return ":" + (body + bytes((-sum(body) & 255,))).hex().upper() + "\n"


def intel_hex(parts: list[tuple[int, bytes]]) -> str:
    """Intel HEX: 16 bytes a line, an address record where the upper half changes."""
    lines = []
    upper = -1
    for start, data in parts:
        at = start
        while at < start + len(data):
            if at >> 16 != upper:
                upper = at >> 16
                lines.append(_record(4, 0, upper.to_bytes(2, "big")))
            count = min(16 - at % 16, start + len(data) - at)
            lines.append(_record(0, at & 0xFFFF, data[at - start : at - start + count]))
            at += count
    return "".join(lines) + _record(1, 0, b"")


def _number(value: int | str) -> int:
    """A manifest's number, which may be a text such as "0xE48BFF56"."""
    return int(value, 16) if isinstance(value, str) else value


def write(elf_path: Path, spec: dict, board_folder: Path) -> None:
    """Writes spec["image"] (none: the ELF is the image) beside the ELF, and for a Pi config.txt, for an ESP32-C the
    image of an application, application.bin. ImageError: the flash has no room for it.
    """
    name = spec.get("image", "")
    if not name:
        return
    parts = contents(elf_path)
    target = elf_path.with_name(name)
    if spec["flash_tool"] == "esptool":
        with elf_path.open("rb") as file:
            entry = ELFFile(file)["e_entry"]
        application = esp.application(parts, entry, spec["family"], spec["partition_bytes"])
        target.write_bytes(esp.direct(parts, spec["flash_bytes"]))
        target.with_name("application.bin").write_bytes(application)
    elif target.suffix == ".hex":
        target.write_text(intel_hex(parts))
    elif target.suffix == ".uf2":
        target.write_bytes(uf2.uf2(parts, _number(spec["uf2_family"])))
    else:
        target.write_bytes(binary(parts))
    if (board_folder / "config.txt").is_file():
        shutil.copy(board_folder / "config.txt", target.with_name("config.txt"))
