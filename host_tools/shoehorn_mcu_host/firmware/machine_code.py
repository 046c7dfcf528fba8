"""Decodes just enough of Arm's instruction sets to find calls without relocations: through registers, or recursive.

Encodings: Arm Architecture Reference Manuals (BLX and BX register, BL immediate; A64 BLR, BR, BL).
On other machines (native) such calls are not found.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# relocations of branches with and without link, by ELF machine (Arm AAELF, AAELF64; x86-64 psABI: PC32, PLT32)
_CALLS = {
    "EM_ARM": {1, 10, 28, 29, 30, 51, 102, 103},
    "EM_AARCH64": {279, 280, 282, 283},
    "EM_X86_64": {4},
}


@dataclass(frozen=True)
class Found:
    """Calls and stack use of a function that its relocations do not show."""

    calls_pointer: bool
    calls_itself: bool


def is_call(machine: str, relocation: int) -> bool:
    """Whether a relocation of code is a call or a jump (else the address is taken)."""
    return relocation in _CALLS.get(machine, set())


def _ranges(size: int, marks: list[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    """(start, end, kind) of each marked piece."""
    ends = [offset for offset, _ in marks[1:]] + [size]
    for (start, kind), end in zip(marks, ends, strict=False):
        yield start, end, kind


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _thumb(data: bytes, start: int, end: int) -> Iterator[tuple[int, bool, int | None]]:
    """(offset, through a register, target of a BL) of each call."""
    at = start
    while at + 2 <= end:
        (half,) = struct.unpack_from("<H", data, at)
        wide = half >> 11 in (0b11101, 0b11110, 0b11111)
        if half & 0xFF87 == 0x4780 or (half & 0xFF87 == 0x4700 and half >> 3 & 15 != 14):
            yield at, True, None
        elif wide and half & 0xF800 == 0xF000 and at + 4 <= end:
            (low,) = struct.unpack_from("<H", data, at + 2)
            if low & 0xD000 == 0xD000:
                sign = half >> 10 & 1
                i1, i2 = (~(low >> bit ^ sign) & 1 for bit in (13, 11))
                field = sign << 24 | i1 << 23 | i2 << 22 | (half & 0x3FF) << 12 | (low & 0x7FF) << 1
                yield at, False, at + 4 + _signed(field, 25)
        at += 4 if wide else 2


def _arm(data: bytes, start: int, end: int) -> Iterator[tuple[int, bool, int | None]]:
    for at in range(start, end - 3, 4):
        (word,) = struct.unpack_from("<I", data, at)
        if word & 0x0FFFFFF0 == 0x012FFF30 or (word & 0x0FFFFFF0 == 0x012FFF10 and word & 15 != 14):
            yield at, True, None
        elif word & 0x0F000000 == 0x0B000000:
            yield at, False, at + 8 + 4 * _signed(word & 0xFFFFFF, 24)


def _a64(data: bytes, start: int, end: int) -> Iterator[tuple[int, bool, int | None]]:
    for at in range(start, end - 3, 4):
        (word,) = struct.unpack_from("<I", data, at)
        if word & 0xFFFFFC1F in (0xD63F0000, 0xD61F0000):
            yield at, True, None
        elif word >> 26 == 0b100101:
            yield at, False, at + 4 * _signed(word & 0x3FFFFFF, 26)


_DECODERS = {"t": _thumb, "a": _arm, "x": _a64}


def scan(machine: str, data: bytes, marks: list[tuple[int, str]], patched: set[int]) -> Found:
    """Decodes one function's bytes; `marks` are Arm's mapping symbols, `patched` the offsets with relocations."""
    if machine not in ("EM_ARM", "EM_AARCH64"):
        return Found(calls_pointer=False, calls_itself=False)
    pointer = itself = False
    for start, end, kind in _ranges(len(data), marks):
        for at, register, target in _DECODERS[kind](data, start, end) if kind in _DECODERS else ():
            pointer |= register
            itself |= target == 0 and at not in patched
    return Found(pointer, itself)
