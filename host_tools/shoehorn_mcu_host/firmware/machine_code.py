"""Decodes just enough of Arm's and RISC-V's instructions to find calls without relocations, and moves of the stack
pointer.

Calls: through registers, or recursive. Moves: those that assembly makes in a function are in no frame size of a
compiler. Encodings: Arm Architecture Reference Manuals (BLX and BX register, BL immediate; A64 BLR, BR, BL; PUSH, POP,
STM, LDM, STR, LDR, VPUSH, VPOP, SUB and ADD of SP in T32 and A32); The RISC-V Instruction Set Manual, Volume I (JAL and
JALR in 2.5, their link registers in table 3; C.J, C.JAL, C.JR, C.JALR, C.ADDI and C.ADDI16SP in the chapter on C). On
other machines (native) neither is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

# relocations of branches with and without link, by ELF machine (Arm AAELF, AAELF64; x86-64 psABI: PC32, PLT32)
_CALLS = {
    "EM_ARM": {1, 10, 28, 29, 30, 51, 102, 103},
    "EM_AARCH64": {279, 280, 282, 283},
    "EM_X86_64": {4},
    "EM_RISCV": {16, 17, 18, 19, 44, 45},  # RISC-V psABI: BRANCH, JAL, CALL, CALL_PLT, RVC_BRANCH, RVC_JUMP
}


@dataclass(frozen=True)
class Found:
    """Calls and stack use of a function that its relocations do not show."""

    calls_pointer: bool
    calls_itself: bool
    moves: tuple[int, ...] = ()  # bytes by which the stack grows, negative where it shrinks, in the order of the code


def is_call(machine: str, relocation: int) -> bool:
    """Whether a relocation of code is a call or a jump (else the address is taken)."""
    return relocation in _CALLS.get(machine, set())


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


_Call = tuple[int, bool, int | None]
"""Its offset, whether it is through a register, and the target of one that links without a relocation."""


def _halves(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(offset, first half, second half) of each instruction of T32; the second is 0 where there is none."""
    at = start
    while at + 2 <= end:
        half = int.from_bytes(data[at : at + 2], "little")
        wide = half >> 11 in (0b11101, 0b11110, 0b11111)
        yield at, half, int.from_bytes(data[at + 2 : at + 4], "little") if wide and at + 4 <= end else 0
        at += 4 if wide else 2


def _words(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(offset, bits) of each instruction of A32 or A64."""
    for at in range(start, end - 3, 4):
        yield at, int.from_bytes(data[at : at + 4], "little")


def _thumb(data: bytes, start: int, end: int) -> Iterator[_Call]:
    for at, half, low in _halves(data, start, end):
        if half & 0xFF87 == 0x4780 or (half & 0xFF87 == 0x4700 and half >> 3 & 15 != 14):
            yield at, True, None
        elif half & 0xF800 == 0xF000 and low & 0xD000 == 0xD000:
            sign = half >> 10 & 1
            i1, i2 = (~(low >> bit ^ sign) & 1 for bit in (13, 11))
            field = sign << 24 | i1 << 23 | i2 << 22 | (half & 0x3FF) << 12 | (low & 0x7FF) << 1
            yield at, False, at + 4 + _signed(field, 25)


def _arm(data: bytes, start: int, end: int) -> Iterator[_Call]:
    for at, word in _words(data, start, end):
        if word & 0x0FFFFFF0 == 0x012FFF30 or (word & 0x0FFFFFF0 == 0x012FFF10 and word & 15 != 14):
            yield at, True, None
        elif word & 0x0F000000 == 0x0B000000:
            yield at, False, at + 8 + 4 * _signed(word & 0xFFFFFF, 24)


# By how many bytes the stack grows: (mask, value) of the instruction's first half and of its second one, then its size.
_Move = tuple[int, int, int, int, Callable[[int, int], int]]
_THUMB_MOVES: tuple[_Move, ...] = (
    (0xFE00, 0xB400, 0, 0, lambda half, low: 4 * (half & 0x1FF).bit_count()),  # PUSH
    (0xFE00, 0xBC00, 0, 0, lambda half, low: -4 * (half & 0x1FF).bit_count()),  # POP
    (0xFF80, 0xB080, 0, 0, lambda half, low: 4 * (half & 0x7F)),  # SUB SP
    (0xFF80, 0xB000, 0, 0, lambda half, low: -4 * (half & 0x7F)),  # ADD SP
    (0xFFFF, 0xE92D, 0, 0, lambda half, low: 4 * low.bit_count()),  # PUSH.W
    (0xFFFF, 0xE8BD, 0, 0, lambda half, low: -4 * low.bit_count()),  # POP.W
    (0xFFBF, 0xED2D, 0x0E00, 0x0A00, lambda half, low: 4 * (low & 0xFF)),  # VPUSH
    (0xFFBF, 0xECBD, 0x0E00, 0x0A00, lambda half, low: -4 * (low & 0xFF)),  # VPOP
    (0xFFFF, 0xF84D, 0x0FFF, 0x0D04, lambda half, low: 4),  # STR, pre-indexed
    (0xFFFF, 0xF85D, 0x0FFF, 0x0B04, lambda half, low: -4),  # LDR, post-indexed
    (0xFBEF, 0xF1AD, 0x8F00, 0x0D00, lambda half, low: _thumb_immediate(half, low)),  # SUB.W
    (0xFBEF, 0xF10D, 0x8F00, 0x0D00, lambda half, low: -_thumb_immediate(half, low)),  # ADD.W
    (0xFBFF, 0xF2AD, 0x8F00, 0x0D00, lambda half, low: _thumb_field(half, low)),  # SUBW
    (0xFBFF, 0xF20D, 0x8F00, 0x0D00, lambda half, low: -_thumb_field(half, low)),  # ADDW
)


def _moves_thumb(data: bytes, start: int, end: int) -> Iterator[int]:
    for _, half, low in _halves(data, start, end):
        for mask, value, low_mask, low_value, size in _THUMB_MOVES:
            if half & mask == value and low & low_mask == low_value:
                yield size(half, low)


def _thumb_field(half: int, low: int) -> int:
    """The 12 bits of an immediate of T32."""
    return (half >> 10 & 1) << 11 | (low >> 12 & 7) << 8 | low & 0xFF


def _thumb_immediate(half: int, low: int) -> int:
    """The constant of a modified immediate of T32 (A5.3.2)."""
    field = _thumb_field(half, low)
    if field >> 10:
        return _rotated(0x80 | field & 0x7F, field >> 7)
    byte = field & 0xFF
    return (byte, byte << 16 | byte, byte << 24 | byte << 8, byte * 0x01010101)[field >> 8 & 3]


def _rotated(value: int, by: int) -> int:
    """32 bits rotated to the right."""
    return (value >> by | value << 32 - by) & 0xFFFFFFFF


def _moves_arm(data: bytes, start: int, end: int) -> Iterator[int]:
    for _, word in _words(data, start, end):
        if word & 0x0FFF0000 in (0x092D0000, 0x08BD0000):
            yield (4 if word & 0x01000000 else -4) * (word & 0xFFFF).bit_count()
        elif word & 0x0FFF0FFF in (0x052D0004, 0x049D0004):
            yield 4 if word & 0x01000000 else -4
        elif word & 0x0FBF0E00 in (0x0D2D0A00, 0x0CBD0A00):
            yield (4 if word & 0x01000000 else -4) * (word & 0xFF)
        elif word & 0x0FFFF000 in (0x024DD000, 0x028DD000):
            size = _rotated(word & 0xFF, 2 * (word >> 8 & 15))
            yield size if word & 0x00400000 else -size


def _a64(data: bytes, start: int, end: int) -> Iterator[_Call]:
    for at, word in _words(data, start, end):
        if word & 0xFFFFFC1F in (0xD63F0000, 0xD61F0000):
            yield at, True, None
        elif word >> 26 == 0b100101:
            yield at, False, at + 4 * _signed(word & 0x3FFFFFF, 26)


_RA = 1  # the link register: a jump through it returns


def _instructions(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(offset, bits) of each instruction of RISC-V; one of 16 bits does not end in 11."""
    at = start
    while at + 2 <= end:
        wide = data[at] & 3 == 3
        if wide and at + 4 > end:
            return
        yield at, int.from_bytes(data[at : at + (4 if wide else 2)], "little")
        at += 4 if wide else 2


def _riscv(data: bytes, start: int, end: int) -> Iterator[_Call]:
    """A JALR behind an AUIPC of its register goes where that one's relocation says, so it is not through a register."""
    pair = -1  # the register that the instruction before, an AUIPC, has written
    for at, word in _instructions(data, start, end):
        wide, to, through = word & 3 == 3, word >> 7 & 31, word >> 15 & 31
        if wide and word & 0x707F == 0x67:
            if through != pair and (to != 0 or through != _RA):
                yield at, True, None
        elif not wide and word & 0xE07F == 0x8002 and to != 0:
            if word & 0x1000 or to != _RA:
                yield at, True, None
        elif wide and word & 0x7F == 0x6F and to == _RA:
            fields = (word >> 31) << 20, (word >> 12 & 0xFF) << 12, (word >> 20 & 1) << 11, (word >> 21 & 0x3FF) << 1
            yield at, False, at + _signed(sum(fields), 21)
        elif not wide and word & 0xE003 == 0x2001:
            yield at, False, at + _signed(_jump(word), 12)
        pair = to if wide and word & 0x7F == 0x17 else -1


def _jump(word: int) -> int:
    """The immediate of C.JAL, imm[11|4|9:8|10|6|7|3:1|5], which is in bits 12 to 2 of the instruction."""
    return sum((word >> 12 - place & 1) << bit for place, bit in enumerate((11, 4, 9, 8, 10, 6, 7, 3, 2, 1, 5)))


def _moves_riscv(data: bytes, start: int, end: int) -> Iterator[int]:
    """C.ADDI and ADDI of SP, and C.ADDI16SP, whose immediate is imm[9], then imm[4|6|8:7|5]."""
    for _, word in _instructions(data, start, end):
        if word & 0xFFFFF == 0x10113:
            yield -_signed(word >> 20, 12)
        elif word & 0xEF83 == 0x0101:
            yield -_signed((word >> 12 & 1) << 5 | word >> 2 & 31, 6)
        elif word & 0xEF83 == 0x6101:
            low = (word >> 6 & 1) << 4 | (word >> 5 & 1) << 6 | (word >> 3 & 3) << 7 | (word >> 2 & 1) << 5
            yield -_signed((word >> 12 & 1) << 9 | low, 10)


_DECODERS = {"t": _thumb, "a": _arm, "x": _a64, "riscv": _riscv}
_MOVES = {"t": _moves_thumb, "a": _moves_arm, "riscv": _moves_riscv}


def scan(machine: str, data: bytes, marks: list[tuple[int, str]], patched: set[int]) -> Found:
    """Decodes one function's bytes; `marks` are Arm's mapping symbols, `patched` the offsets with relocations."""
    if machine == "EM_RISCV":
        marks = [(0, "riscv")]
    elif machine not in ("EM_ARM", "EM_AARCH64"):
        return Found(calls_pointer=False, calls_itself=False)
    pointer = itself = False
    moves: list[int] = []
    for (start, kind), (end, _) in pairwise([*marks, (len(data), "")]):
        for at, register, target in _DECODERS[kind](data, start, end) if kind in _DECODERS else ():
            pointer |= register
            itself |= target == 0 and at not in patched
        moves += _MOVES[kind](data, start, end) if kind in _MOVES else ()
    return Found(pointer, itself, tuple(moves))
