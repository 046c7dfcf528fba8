"""Estimated cycles: tables of cores against sums by hand from Arm's manuals, flash, marks, and boards in QEMU."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compilers import GCC, HOST, WARNINGS, ZIG
from conftest import Gen
from elftools.elf.elffile import ELFFile

import shoehorn_mcu
from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board import cycles
from shoehorn_mcu_host.board.cycles import PLUGIN, Count, Mark
from shoehorn_mcu_host.firmware.elf import functions
from tests.shared import MODELS, needs_shared

needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is not installed")

M0, M0PLUS, M3, M4, M33, M7, M55 = (f"cortex-{name}" for name in ("m0", "m0plus", "m3", "m4", "m33", "m7", "m55"))
A53 = "cortex-a53"
TRIPLES = {
    M0: "thumbv6m-none-eabi",
    M0PLUS: "thumbv6m-none-eabi",
    M33: "thumbv8m.main-none-eabihf",
    M55: "thumbv8.1m.main-none-eabihf",
    A53: "aarch64-none-elf",
}

DECODERS = [PLUGIN / name for name in ("thumb.c", "mve.c", "a64.c")]


@pytest.fixture(scope="module")
def cores() -> cbuild.Library:
    return cbuild.load("cores", PLUGIN / "cores.h", [PLUGIN / "cores.c", PLUGIN / "a53.c", *DECODERS])


def assembled(core: str, text: str, folder: Path) -> bytes:
    """The machine code of instructions that are separated by semicolons."""
    target = f"--target={TRIPLES.get(core, 'thumbv7em-none-eabihf')}"
    source, made = folder / "code.s", folder / "code.o"
    mode = "" if core == A53 else ".syntax unified\n.thumb\n"
    source.write_text(f"{mode}start:\n" + text.replace(";", "\n") + "\n")
    command = [sys.executable, "-m", "ziglang", "clang", target, f"-mcpu={core}", "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    with made.open("rb") as file:
        return bytes(ELFFile(file).get_section_by_name(".text").data())


def priced(cores: cbuild.Library, core: str, code: bytes, first: int = 0, multiply: int = 0) -> Any:
    halves = cores.ffi.from_buffer("uint16_t[]", code)
    named = cores.lib.sh_core_named(core.encode(), multiply)
    return cores.lib.sh_price(named, halves, len(halves), first)


@pytest.mark.parametrize(
    ("core", "code", "insns", "expected"),
    [
        # DDI0432C, table 3-1
        (M0, "ldr r0, [r1]; adds r0, #1; str r0, [r1]", 3, 2 + 1 + 2),
        (M0, "push {r4, r5, lr}", 1, 1 + 3),
        (M0, "ldmia r0!, {r1-r4}; stmia r1!, {r2, r3}", 2, (1 + 4) + (1 + 2)),
        (M0, "muls r0, r1, r0; rsbs r0, r0, #0; uxtb r0, r0; rev r0, r0", 4, 4),
        (M0, "dsb; mrs r0, primask", 2, 4 + 4),
        # DDI0484C, table 3-1
        (M0PLUS, "ldrb r0, [r1, r2]; strh r0, [r1, #2]; mrs r0, primask", 3, 2 + 2 + 3),
        (M0PLUS, "pop {r4, r5}", 1, 1 + 2),
        # DDI0337I, table 3-1 and 3.3.2
        (M3, "mla r0, r1, r2, r3; mul r0, r1, r2; smull r0, r1, r2, r3", 3, 2 + 1 + 4),
        (M3, "ldr r0, [r1]; ldr r1, [r2]", 2, 3),
        (M3, "ldr r0, [r1, r5]; ldr r1, [r2]; ldr r2, [r3, #4]", 3, 4),
        (M3, "ldr r0, [r1, r2]; str r0, [r3, #20]", 2, 3),
        (M3, "ldr r0, [r1, r2]; str r1, [r3, r2]", 2, 3),
        # DDI0439D, table 3-1, 3.3.2 and 7.2.3
        (M4, "smlad r0, r1, r2, r3; smlal r0, r1, r2, r3; mls r0, r1, r2, r3; ssat r0, #8, r1", 4, 4),
        (M4, "ldr r0, [r1]; ldr r2, [r0]", 2, 2 + 2),
        (M4, "add r1, r1, r2; ldr r0, [r1]", 2, 1 + 2 + 1),
        (M4, "add r1, r1, r2; ldr r0, [r3]", 2, 1 + 2),
        (M4, "add r1, r1, r2; strb r0, [r3, r1]", 2, 1 + 2 + 1),
        (M4, "ldr r0, [r1], #4; ldr r2, [r1], #4", 2, 2 + 2),
        (M4, "ldrd r0, r1, [r2]; strd r0, r1, [r2, #8]; ldm r2, {r3-r7}", 3, 3 + 3 + 6),
        (M4, "str r0, [r1]; ldr r0, [r1, #4]; str r0, [r1, r2]", 3, 1 + 2 + 1),
        (M4, "udiv r0, r1, r2", 1, 7),
        (M4, "cmp r0, #0; it eq; moveq r1, #0", 3, 1 + 0 + 1),
        (M4, "cmp.w r0, #0; it eq; moveq r1, #0", 3, 1 + 1 + 1),
        (M4, "vldr s0, [r0]; vmla.f32 s0, s1, s2; vdiv.f32 s0, s1, s2; vsqrt.f32 s0, s1", 4, 2 + 3 + 14 + 14),
        (M4, "vldr d0, [r0]; vpush {s0-s3}; vmov r0, s0; vmov s0, s1, r0, r1", 4, 3 + 5 + 1 + 1),
        # estimates: pairs of 16-bit instructions, loads that are waited for
        (M33, "adds r0, #1; adds r1, #1", 2, 1),
        (M33, "adds r0, #1; adds r0, #1", 2, 2),
        (M33, "add.w r0, r0, r2; add.w r1, r1, r2", 2, 2),
        (M33, "ldr r0, [r2]; ldr r1, [r2, #4]", 2, 2),
        (M33, "ldr r0, [r2]; adds r0, #1", 2, 3),
        (M33, "ldr r0, [r2]; adds r1, #1; adds r0, #1", 3, 3),
        (M33, "smlad r0, r1, r2, r0; smlad r0, r3, r4, r0", 2, 2),
        # estimates: any two instructions with units of their own
        (M7, "add.w r0, r0, r2; add.w r1, r1, r2; add r3, r2; add r4, r2", 4, 2),
        (M7, "add.w r0, r0, r2; add.w r1, r1, r0", 2, 2),
        (M7, "smlad r0, r1, r2, r0; ldr r3, [r4]", 2, 1),
        (M7, "smlad r0, r1, r2, r0; smlad r3, r1, r2, r3", 2, 2),
        (M7, "ldr r0, [r2]; ldr r1, [r3]", 2, 1),
        (M7, "ldr r0, [r2]; str r1, [r3]", 2, 2),
        (M7, "ldrd r0, r1, [r2]; adds r3, #1", 2, 1),
        (M7, "ldr r0, [r2]; adds r0, #1", 2, 3),
        (M7, "sxtb16 r0, r1; sxtb16 r2, r3", 2, 2),
        (M7, "ldr r0, [r2]; sxtb16 r0, r0", 2, 4),
        # an estimate from LLVM's model: the second beat of a vector runs beside the first one of another unit
        (M55, "vldrw.u32 q0, [r0]; vadd.i32 q1, q2, q3; vmul.i32 q4, q5, q6; vstrw.32 q7, [r1]", 4, 4),
        (M55, "vldrw.u32 q0, [r0]; vldrb.u8 q1, [r1]; vadd.i32 q4, q2, q3; vstrw.32 q7, [r1]", 4, 5),
        (M55, "vmladava.s8 r0, q0, q1; vmladava.s8 r2, q0, q1; vmladava.s8 r4, q0, q1", 3, 5),
        (M55, "vldrb.u8 q0, [r0], #16; vmladava.s8 r2, q0, q1; vldrb.u8 q0, [r1], #16; vmladava.s8 r4, q0, q1", 4, 4),
        (M55, "vmul.i32 q0, q1, q2; vadd.i32 q0, q0, q3", 2, 3),
        (M55, "vmovnt.i32 q0, q1; vstrw.32 q0, [r0]", 2, 4),
        (M55, "vaddv.s32 r0, q0; adds r0, #1", 2, 3),
        (M55, "vpst; vaddt.i32 q0, q1, q2; vctp.8 r0", 3, 3),
        (M55, "adds r0, #1; adds r1, r1, r2", 2, 1),
        (M55, "ldr r0, [r2]; adds r1, #1; adds r0, r0, r3", 3, 3),
        (M55, "adds r1, r1, r2; adds r3, r3, r2", 2, 2),
        (M55, "adds r1, r1, r2; add.w r3, r3, #1", 2, 2),
        (M55, "add.w r0, r1, r2, lsl #2; adds r0, #1", 2, 3),
        (M55, "csel r0, r1, r2, eq; cset r3, ne", 2, 2),
    ],
)
def test_a_run_of_instructions_takes_the_cycles_of_the_manual(
    core: str, code: str, insns: int, expected: int, cores: cbuild.Library, tmp_path: Path
):
    found = priced(cores, core, assembled(core, code, tmp_path))

    assert (found.insns, found.cycles) == (insns, expected)


@pytest.mark.parametrize(
    ("core", "loop", "expected"),
    [
        (M0, "subs r0, #1; bne start", 1 + 3),
        (M0PLUS, "subs r0, #1; bne start", 1 + 2),
        (M4, "subs r0, #1; bne start", 1 + 2),
        (M3, "subs r0, #1; bne.w start", 1 + 2),
        (M0, "bl start", 4),
        (M0PLUS, "bl start", 3),
        (M0, "bx lr", 3),
        (M0PLUS, "blx r3", 2),
        (M0, "mov pc, lr", 3),
        (M0, "pop {r4, r5, pc}", 4 + 3),
        (M0PLUS, "pop {pc}", 3 + 1),
        (M4, ".short 0xb108", 1 + 1),  # cbz r0, 2 bytes further than the next instruction
        (M4, "ldr pc, [r0]", 2 + 3),
        (M4, "pop {r4, pc}", 1 + 2 + 3),
        (M4, "tbb [r0, r1]", 6),
        # Nordic's nrf_delay_us: a microsecond at 16 MHz, from a flash without wait states
        (M0, "subs r0, #1;" + "nop;" * 12 + "bne start", 16),
    ],
)
def test_a_taken_branch_costs_the_refill_of_the_pipeline(
    core: str, loop: str, expected: int, cores: cbuild.Library, tmp_path: Path
):
    named = cores.lib.sh_core_named(core.encode(), 0)
    code = assembled(core, loop, tmp_path)
    block = priced(cores, core, code, 0x100)
    behind = priced(cores, core, code, 0x100 + len(code))

    assert block.cycles + cores.lib.sh_refill(named, [block], [block]) == expected
    assert cores.lib.sh_refill(named, [block], [behind]) == 0


VECTORS = {
    "vabd.s8 q0, q1, q2": ("INTEGER", 0, {"q0", "q1", "q2"}, {"q0"}),
    "vadd.i32 q7, q5, r9": ("INTEGER", 0, {"q7", "q5", "r9"}, {"q7"}),
    "vmax.u16 q1, q6, q3": ("INTEGER", 0, {"q1", "q6", "q3"}, {"q1"}),
    "vshl.s32 q2, q4, q6": ("INTEGER", 0, {"q2", "q4", "q6"}, {"q2"}),
    "vrshl.s32 q2, q4, q6": ("INTEGER", 1, {"q2", "q4", "q6"}, {"q2"}),
    "vrshl.s32 q2, r4": ("INTEGER", 1, {"q2", "r4"}, {"q2"}),
    "vshr.s32 q2, q5, #7": ("INTEGER", 0, {"q2", "q5"}, {"q2"}),
    "vrshr.s32 q2, q5, #7": ("INTEGER", 1, {"q2", "q5"}, {"q2"}),
    "vmovlt.s8 q3, q6": ("INTEGER", 0, {"q3", "q6"}, {"q3"}),
    "vqmovnb.s32 q3, q6": ("INTEGER", 2, {"q3", "q6"}, {"q3"}),
    "vqrshrnt.s16 q3, q6, #3": ("INTEGER", 2, {"q3", "q6"}, {"q3"}),
    "vidup.u32 q4, r6, #4": ("INTEGER", 0, {"q4", "r6"}, {"q4", "r6"}),
    "vmaxv.s8 r4, q5": ("INTEGER", 1, {"r4", "q5"}, {"r4"}),
    "vminv.u32 r4, q5": ("INTEGER", 3, {"r4", "q5"}, {"r4"}),
    "vabav.s16 r4, q5, q2": ("INTEGER", 2, {"r4", "q5", "q2"}, {"r4"}),
    "vmov q2[2], q2[0], r3, r8": ("INTEGER", 0, {"q2", "r3", "r8"}, {"q2"}),
    "vmov r3, r8, q2[2], q2[0]": ("PRODUCTS", 0, {"q2"}, {"r3", "r8"}),
    "vmov.i32 q6, #0": ("PRODUCTS", 1, {"q6"}, {"q6"}),
    "vmul.i32 q6, q1, q3": ("PRODUCTS", 1, {"q6", "q1", "q3"}, {"q6"}),
    "vmullb.s8 q6, q1, q3": ("PRODUCTS", 1, {"q6", "q1", "q3"}, {"q6"}),
    "vqrdmulh.s32 q6, q1, r10": ("PRODUCTS", 1, {"q6", "q1", "r10"}, {"q6"}),
    "vqdmlah.s32 q6, q1, r10": ("PRODUCTS", 1, {"q6", "q1", "r10"}, {"q6"}),
    "vmladava.s8 r6, q1, q3": ("PRODUCTS", 1, {"r6", "q1", "q3"}, {"r6"}),
    "vmlalva.s16 r6, r9, q1, q3": ("PRODUCTS", 1, {"r6", "r9", "q1", "q3"}, {"r6", "r9"}),
    "vaddva.s32 r6, q3": ("PRODUCTS", 1, {"r6", "q3"}, {"r6"}),
    "vaddlv.s32 r6, r9, q3": ("PRODUCTS", 1, {"r6", "r9", "q3"}, {"r6", "r9"}),
    "vcmp.s32 gt, q3, r7": ("PRODUCTS", 0, {"q3", "r7"}, set()),
    "vcmp.i8 eq, q3, q6": ("PRODUCTS", 0, {"q3", "q6"}, set()),
    "vadd.f32 q6, q1, q3": ("PRODUCTS", 0, {"q6", "q1", "q3"}, {"q6"}),
    "vfma.f32 q6, q1, r3": ("PRODUCTS", 1, {"q6", "q1", "r3"}, {"q6"}),
    "vcvt.f32.s32 q6, q1": ("PRODUCTS", 1, {"q6", "q1"}, {"q6"}),
    "vcvtb.f16.f32 q6, q1": ("PRODUCTS", 2, {"q6", "q1"}, {"q6"}),
    "vpst; vaddt.i32 q0, q0, q0": ("CONTROL", 0, set(), set()),
    "vldrb.u8 q5, [r9], #16": ("MEMORY", 0, {"r9"}, {"q5", "r9"}),
    "vldrb.s32 q5, [r3, #4]": ("MEMORY", 0, {"r3"}, {"q5"}),
    "vldrb.u8 q5, [r9, q6]": ("MEMORY", 1, {"r9", "q6"}, {"q5"}),
    "vldrw.u32 q5, [q6, #8]": ("MEMORY", 1, {"q6"}, {"q5"}),
    "vld20.32 {q5, q6}, [r9]!": ("MEMORY", 0, {"r9"}, {"q5", "r9"}),
    "vstrb.16 q5, [r3, #4]!": ("MEMORY", 0, {"r3", "q5"}, {"r3"}),
    "vstrw.32 q5, [r9, q6]": ("MEMORY", 0, {"r9", "q5", "q6"}, set()),
}


def test_an_instruction_on_vectors_has_its_unit_and_its_registers(tmp_path: Path):
    thumb = cbuild.load("thumb", PLUGIN / "thumb.h", DECODERS)
    names = [*(f"r{number}" for number in range(16)), *(f"q{number}" for number in range(8))]

    def registers(mask: int) -> set[str]:
        return {name for bit, name in enumerate(names) if mask >> bit & 1}

    for text, expected in VECTORS.items():
        halves = np.frombuffer(assembled(M55, text, tmp_path), "<u2")
        found = thumb.lib.sh_decode(int(halves[0]), int(halves[1]))
        unit = thumb.ffi.string(thumb.ffi.cast("sh_unit", found.unit)).removeprefix("SH_")
        assert (unit, found.wait, registers(found.reads), registers(found.writes)) == expected, text


A64 = {  # unit, cycles that it is held, cycles to the result, registers read, written, and updated
    "add x3, x4, x5": ("ALU", 1, 3, {"x4", "x5"}, {"x3"}, set()),
    "cmp w4, #3": ("ALU", 1, 3, {"x4"}, set(), set()),
    "movk x7, #3, lsl #16": ("ALU", 1, 3, {"x7"}, {"x7"}, set()),
    "mov x7, #3": ("ALU", 1, 3, set(), {"x7"}, set()),
    "ubfx w1, w2, #3, #4": ("ALU", 1, 2, {"x2"}, {"x1"}, set()),
    "csel x1, x2, x3, eq": ("ALU", 1, 3, {"x2", "x3"}, {"x1"}, set()),
    "ccmp x1, #3, #0, ne": ("ALU", 1, 3, {"x1"}, set(), set()),
    "clz w1, w2": ("ALU", 1, 3, {"x2"}, {"x1"}, set()),
    "madd x1, x2, x3, x4": ("MAC", 1, 4, {"x2", "x3", "x4"}, {"x1"}, set()),
    "sdiv w1, w2, w3": ("DIV", 1, 4, {"x2", "x3"}, {"x1"}, set()),
    "ldr x1, [x2], #8": ("MEMORY", 1, 3, {"x2"}, {"x1"}, {"x2"}),
    "ldrsw x1, [x2, w3, sxtw #2]": ("MEMORY", 1, 3, {"x2", "x3"}, {"x1"}, set()),
    "ldp x1, x2, [x3]": ("MEMORY", 2, 4, {"x3"}, {"x1", "x2"}, set()),
    "ldr d1, [x2]": ("MEMORY", 1, 4, {"x2"}, {"v1"}, set()),
    "ldr q1, [x2, #16]": ("MEMORY", 2, 5, {"x2"}, {"v1"}, set()),
    "ldp q1, q2, [x3, #32]!": ("MEMORY", 4, 7, {"x3"}, {"v1", "v2"}, {"x3"}),
    "stp d1, d2, [x3]": ("MEMORY", 2, 5, {"x3", "v1", "v2"}, set(), set()),
    "ld1 {v30.16b, v31.16b, v0.16b}, [x4], #48": ("MEMORY", 3, 6, {"x4"}, {"v30", "v31", "v0"}, {"x4"}),
    "ld1 {v3.s}[1], [x4]": ("MEMORY", 1, 4, {"x4", "v3"}, {"v3"}, set()),
    "ld1r {v3.4s}, [x4]": ("MEMORY", 1, 4, {"x4"}, {"v3"}, set()),
    "ld2 {v3.16b, v4.16b}, [x4]": ("MEMORY", 4, 7, {"x4"}, {"v3", "v4"}, set()),
    "cbz x3, start": ("BRANCH", 1, 1, {"x3"}, set(), set()),
    "blr x3": ("BRANCH", 1, 1, {"x3"}, {"x30"}, set()),
    "add v1.16b, v2.16b, v3.16b": ("VECTOR", 2, 2, {"v2", "v3"}, {"v1"}, set()),
    "add v1.8b, v2.8b, v3.8b": ("VECTOR", 1, 2, {"v2", "v3"}, {"v1"}, set()),
    "sqadd v1.4s, v2.4s, v3.4s": ("VECTOR", 2, 3, {"v2", "v3"}, {"v1"}, set()),
    "mla v1.4s, v2.4s, v3.4s": ("VECTOR", 2, 4, {"v1", "v2", "v3"}, {"v1"}, set()),
    "mla v1.4h, v2.4h, v15.h[2]": ("VECTOR", 1, 4, {"v1", "v2", "v15"}, {"v1"}, set()),
    "bsl v1.16b, v2.16b, v3.16b": ("VECTOR", 2, 4, {"v1", "v2", "v3"}, {"v1"}, set()),
    "smull v1.8h, v2.8b, v3.8b": ("VECTOR", 2, 4, {"v2", "v3"}, {"v1"}, set()),
    "smlal2 v1.8h, v2.16b, v3.16b": ("VECTOR", 2, 4, {"v1", "v2", "v3"}, {"v1"}, set()),
    "sadalp v1.4s, v2.8h": ("VECTOR", 2, 4, {"v1", "v2"}, {"v1"}, set()),
    "sqxtn v1.4h, v2.4s": ("VECTOR", 2, 4, {"v2"}, {"v1"}, set()),
    "sqxtn2 v1.8h, v2.4s": ("VECTOR", 2, 4, {"v1", "v2"}, {"v1"}, set()),
    "ssra v1.4s, v2.4s, #3": ("VECTOR", 2, 4, {"v1", "v2"}, {"v1"}, set()),
    "tbl v1.16b, {v30.16b, v31.16b, v0.16b}, v4.16b": ("VECTOR", 6, 7, {"v30", "v31", "v0", "v4"}, {"v1"}, set()),
    "dup v1.4s, w2": ("VECTOR", 2, 6, {"x2"}, {"v1"}, set()),
    "umov w1, v2.b[3]": ("VECTOR", 1, 6, {"v2"}, {"x1"}, set()),
    "ins v1.s[2], w3": ("VECTOR", 1, 6, {"x3", "v1"}, {"v1"}, set()),
    "fmla v1.4s, v2.4s, v17.s[1]": ("PRODUCT", 2, 8, {"v1", "v2", "v17"}, {"v1"}, set()),
    "fadd v1.2s, v2.2s, v3.2s": ("VECTOR", 1, 4, {"v2", "v3"}, {"v1"}, set()),
    "fmadd s1, s2, s3, s4": ("PRODUCT", 1, 8, {"v2", "v3", "v4"}, {"v1"}, set()),
    "fdiv s1, s2, s3": ("PRODUCT", 14, 18, {"v2", "v3"}, {"v1"}, set()),
    "fcmp s1, s2": ("VECTOR", 1, 6, {"v1", "v2"}, set(), set()),
    "scvtf s1, w2": ("VECTOR", 1, 4, {"x2"}, {"v1"}, set()),
    "fmov w1, s2": ("VECTOR", 1, 6, {"v2"}, {"x1"}, set()),
}


def test_an_a64_instruction_has_its_unit_and_its_registers(tmp_path: Path):
    a64 = cbuild.load("a64", PLUGIN / "a64.h", [PLUGIN / "a64.c"])
    names = [*(f"x{number}" for number in range(32)), *(f"v{number}" for number in range(32))]

    def registers(mask: int) -> set[str]:
        return {name for bit, name in enumerate(names) if mask >> bit & 1}

    for text, (unit, *expected) in A64.items():
        found = a64.lib.sh_a64_decode(int(np.frombuffer(assembled(A53, text, tmp_path), "<u4")[0]))
        sets = [registers(mask) for mask in (found.reads, found.writes, found.updates)]
        name = a64.ffi.string(a64.ffi.cast("sh_a64_unit", found.unit))
        assert (name, found.holds, found.wait, *sets) == (f"SH_A64_{unit}", *expected), text


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("add x0, x1, x2; add x3, x4, x5; add x6, x7, x8", 2),
        ("add x0, x1, x2; add x3, x0, x5", 2),
        ("add x0, x1, x2; add x3, x4, x0, lsl #2", 3),
        ("add x0, x1, x2; ldr x3, [x0]", 4),
        ("ldr x0, [x1]; add x2, x0, x3", 4),
        ("ldr x0, [x1], #8; ldr x2, [x1], #8; ldr x3, [x1]", 3),
        ("ldr x0, [x1]; smull v0.8h, v1.8b, v2.8b; ldr x2, [x3]; add x4, x4, #1", 2),
        ("smull v0.8h, v1.8b, v2.8b; smull v3.8h, v4.8b, v5.8b; smull v6.8h, v7.8b, v8.8b", 5),
        ("smull v0.8h, v1.8b, v2.8b; sadalp v3.4s, v0.8h", 5),
        ("ldr d0, [x1]; smull v2.8h, v1.8b, v3.8b", 2),
        ("ldr q0, [x1]; smull v2.8h, v1.8b, v3.8b", 3),
        ("fmla v0.4s, v1.4s, v2.4s; fmla v0.4s, v1.4s, v2.4s; fmla v0.4s, v1.4s, v2.4s", 9),
        ("fmla v0.4s, v1.4s, v2.4s; fadd v3.4s, v0.4s, v4.4s", 9),
        # a loop that is one block: what a round costs behind another
        ("ldr q0, [x1], #16; ldr q1, [x2], #16; subs x3, x3, #1; b.ne start", 4),
        ("mul x0, x0, x1; cbnz x0, start", 5),
    ],
)
def test_a_run_of_a64_instructions_begins_two_in_a_cycle(
    code: str, expected: int, cores: cbuild.Library, tmp_path: Path
):
    words = cores.ffi.from_buffer("uint32_t[]", assembled(A53, code, tmp_path))
    found = cores.lib.sh_price_a53(words, len(words), 0x80000)

    assert (found.insns, found.cycles, found.taken) == (len(words), expected, 0)


def test_a_low_overhead_loop_costs_what_a_round_costs_behind_another(cores: cbuild.Library, tmp_path: Path):
    named = cores.lib.sh_core_named(M55.encode(), 0)
    body = "vldrb.u8 q0, [r0], #16; vldrb.u8 q1, [r1], #16; vmladava.s8 r2, q0, q1; "
    loop = priced(cores, M55, assembled(M55, body + "le lr, start", tmp_path), 0x100)
    begun = priced(cores, M55, assembled(M55, "dls lr, r3; round:; " + body + "le lr, round", tmp_path), 0xFC)

    assert (loop.cycles, cores.lib.sh_refill(named, [loop], [loop])) == (2 + 2, 0)
    assert begun.cycles == 1 + 1 + 2 + 1


def test_a_branch_to_a_wide_instruction_across_two_words_costs_a_cycle_more(cores: cbuild.Library, tmp_path: Path):
    named = cores.lib.sh_core_named(M4.encode(), 0)
    branch = priced(cores, M4, assembled(M4, "b start", tmp_path), 0x400)
    wide, narrow = (assembled(M4, text, tmp_path) for text in ("add.w r0, r0, r1", "adds r0, r0, r1"))
    targets = [priced(cores, M4, code, first) for first in (0x100, 0x102) for code in (wide, narrow)]

    assert [cores.lib.sh_refill(named, [branch], [target]) for target in targets] == [1, 1, 2, 1]


def test_a_slow_multiplier_takes_32_cycles(cores: cbuild.Library, tmp_path: Path):
    code = assembled(M0, "muls r0, r1, r0; adds r0, #1", tmp_path)

    assert [priced(cores, M0, code, multiply=cycles).cycles for cycles in (0, 1, 32)] == [2, 2, 33]
    assert cores.lib.sh_core_named(b"cortex-m9", 0) == cores.ffi.NULL


def test_flash_waits_for_lines_that_are_neither_kept_nor_prefetched():
    found = cbuild.load("flash", PLUGIN / "flash.h", [PLUGIN / "flash.c"])

    def flash(prefetch: int, code_lines: int, data_lines: int) -> Any:
        facts = {"first": 0x1000, "bytes": 0x1000, "line_bytes": 16, "wait_states": 5, "prefetch": prefetch}
        return found.ffi.new(
            "sh_flash *", {**facts, "code": {"size": code_lines}, "data": {"size": data_lines}, "last": 0}
        )

    code, data = found.lib.sh_flash_code, found.lib.sh_flash_data
    plain, ahead, cached = flash(0, 1, 1), flash(1, 1, 1), flash(1, 2, 2)

    assert [code(plain, *block) for block in ((0x1000, 0x1010, 4), (0x1010, 0x1018, 2), (0x1018, 0x1020, 2))] == [
        5,
        5,
        0,
    ]
    assert [code(ahead, *block) for block in ((0x1000, 0x1010, 4), (0x1010, 0x1030, 16), (0x1000, 0x1002, 1))] == [
        5,
        1,
        5,
    ]
    assert [code(cached, at, at + 2, 1) for at in (0x1000, 0x1040, 0x1000, 0x1080, 0x1040)] == [5, 5, 0, 5, 5]
    assert [data(cached, at) for at in (0x1000, 0x100F, 0x1010, 0x1000, 0x1020, 0x1010)] == [5, 0, 5, 0, 5, 5]
    assert (code(cached, 0x20000000, 0x20000010, 4), data(cached, 0x0FFF), data(cached, 0x2000)) == (0, 0, 0)


@pytest.mark.parametrize("compiler", [GCC, ZIG], ids=["gcc", "zig"])
@pytest.mark.parametrize("source", sorted(PLUGIN.glob("*.c")), ids=lambda source: source.name)
def test_the_plugin_compiles_without_a_warning(source: Path, compiler: tuple[str, ...], tmp_path: Path):
    if not shutil.which(compiler[0]):
        pytest.skip(f"{compiler[0]} is not installed")
    command = [*compiler, *WARNINGS, "-O2", "-c", str(source), "-o", str(tmp_path / "made.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


TICKS, BEGIN, END = 0, 1, 2


def marks(*entries: tuple[int, int]) -> list[Mark]:
    return [Mark(place, Count(at, 2 * at)) for place, at in entries]


def test_a_whole_inference_is_the_sum_of_its_last_parts():
    streamed = marks((TICKS, 10), (BEGIN, 12), (END, 20), (TICKS, 25), (TICKS, 40), (BEGIN, 41), (END, 42), (TICKS, 50))

    assert cycles.whole(streamed, 2) == Count(25, 50)
    assert cycles.whole(streamed, 1) == Count(10, 20)  # what came before was an inference that was given up
    with pytest.raises(ValueError, match="4 readings of the clock, not 6"):
        cycles.whole(streamed, 3)


def test_an_op_has_the_sum_of_its_steps():
    step = [(BEGIN, 10), (TICKS, 12), (END, 20), (TICKS, 22)]
    later = [(place, at + 100) for place, at in step]
    run = marks((TICKS, 0), *step, *later, (TICKS, 130))

    assert cycles.by_op(run, [1, 1], 3) == [Count(0, 0), Count(20, 40), Count(0, 0)]
    assert cycles.by_op(run, [2], 3)[2] == Count(10, 20)
    with pytest.raises(ValueError, match="4 readings of the clock, not 6"):
        cycles.by_op(run, [0, 1, 2], 3)


@pytest.fixture(scope="module")
def written(gen: Gen, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The shipped model's project folder for a board; `bench` builds it on first use."""

    @cache
    def folder(board: str) -> Path:
        made = tmp_path_factory.mktemp("cycles") / "digits"
        assert gen("firmware", "--board", board, "--out", made).exit_code == 0
        return made

    return folder


@needs_qemu
@pytest.mark.parametrize(
    ("board", "model", "ms", "per_instruction"),
    [
        ("mps2-an386", M4, False, (1.2, 1.6)),
        ("mps3-an547", M55, False, (1.1, 1.7)),
        ("rpi-zero-2w", A53, True, (1.2, 2.2)),
        ("microbit", M0, True, (1.4, 1.8)),
        pytest.param("netduinoplus2", M4, True, (1.4, 2.2), marks=pytest.mark.long),
    ],
)
def test_a_board_says_instructions_and_cycles_of_the_same_inference(
    board: str, model: str, ms: bool, per_instruction: tuple[float, float], gen: Gen, written: Callable[[str], Path]
):
    folder = written(board)
    found = json.loads(gen("bench", folder, "--emulate", "--runs", 2, "--json").stdout)
    timing = shoehorn_mcu.bench(folder, emulate=True, runs=1)
    shown = gen("bench", folder, "--emulate", "--runs", 1).stdout
    tick = 1e9 / found["clock"]["hz"]
    estimate = found["cycles"]
    low, high = (bound * found["total"]["median"] for bound in per_instruction)

    assert timing.cycles is not None
    assert abs(timing.cycles.totals[0].instructions - found["total"]["median"]) <= 2 * tick + 16
    assert estimate["model"] == model
    assert low < estimate["min"] <= estimate["median"] <= estimate["max"] < high
    assert estimate["ms"] == (round(estimate["median"] * 1000 / estimate["hz"], 3) if ms else None)
    assert abs(sum(op["cycles"] for op in found["ops"]) - estimate["median"]) < 0.02 * estimate["median"]
    assert all(op["cycles"] > 0 for op in found["ops"])
    assert re.search(r"^op +kernel +instructions +% +cycles( +estimated uJ)?$", shown, re.MULTILINE)
    assert re.search(rf"^estimated: [\d,]+ cycles of {model} .*{' MHz' if ms else ''}$", shown, re.MULTILINE)


@needs_qemu
@pytest.mark.parametrize(
    ("model", "apart"),
    [
        # Each call that saves registers is 2 cycles apart: rp2040py counts neither LR in PUSH nor PC in POP.
        (None, 0.003),
        pytest.param("mlperf-kws-dscnn-int8.tflite", 0.001, marks=[pytest.mark.long, needs_shared]),
    ],
    ids=["digits", "kws"],
)
def test_a_pico_takes_the_cycles_that_an_emulator_of_its_chip_counts(
    model: str | None, apart: float, gen: Gen, tmp_path: Path
):
    """The same plan on rp2040py, and in QEMU on another chip with the plugin's table of a Cortex-M0+."""
    pytest.importorskip("rp2040py")
    other = json.loads((BOARDS / "microbit.json").read_text())
    other["shoehorn"]["cycles"] = {"core": M0PLUS}
    (tmp_path / "m0plus.json").write_text(json.dumps(other))

    def bench(board: object, name: str) -> tuple[str, Any]:
        folder, models = tmp_path / name, [MODELS / model] if model else []
        assert gen("firmware", *models, "--board", board, "--sram", "9000", "--out", folder).exit_code == 0
        found = json.loads(gen("bench", folder, "--emulate", "--runs", 1, "--json").stdout)
        return json.loads((folder / "plan.json").read_text())["identity"], found

    (plan, counted), (same, estimated) = bench("rpi-pico", "pico"), bench(tmp_path / "m0plus.json", "other")

    assert plan == same and counted["unit"] == "cycles"
    assert abs(estimated["cycles"]["median"] / counted["total"]["median"] - 1) < apart


@needs_qemu
def test_rows_that_are_pushed_are_counted(gen: Gen, tmp_path: Path):
    assert gen("firmware", "--board", "mps2-an386", "--stream-input", "--out", tmp_path / "digits").exit_code == 0
    timing = shoehorn_mcu.bench(tmp_path / "digits", emulate=True, runs=1)

    assert timing.cycles is not None
    # each of the eight pushes is measured in ticks of 40 instructions
    assert abs(timing.cycles.totals[0].instructions - timing.totals[0]) <= 8 * (2 * 40 + 16)


@needs_qemu
def test_a_qemu_without_plugins_counts_instructions_alone(
    gen: Gen, written: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = written("mps2-an386")
    without = tmp_path / "qemu-system-arm"
    refuse = 'case "$*" in *-plugin*) echo "qemu: -plugin: invalid option" >&2; exit 1;; esac'
    without.write_text(f'#!/bin/sh\n{refuse}\nexec {shutil.which("qemu-system-arm")} "$@"\n')
    without.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cycles._refusal.cache_clear()
    shown = gen("bench", folder, "--emulate", "--runs", 1).stdout
    found = json.loads(gen("bench", folder, "--emulate", "--runs", 1, "--json").stdout)
    cycles._refusal.cache_clear()

    assert "cycles: not estimated; this QEMU does not load the plugin: qemu: -plugin: invalid option\n" in shown
    assert found["cycles"] is None and {op["cycles"] for op in found["ops"]} == {None}
    assert found["total"]["median"] > 0


def test_an_image_without_the_firmware_s_functions_is_refused(tmp_path: Path):
    (tmp_path / "code.elf").write_bytes(b"no ELF")
    with pytest.raises(HostError, match="not a firmware"):
        functions(tmp_path / "code.elf", ["main"])
    assembled(M4, "other: bx lr", tmp_path)

    with pytest.raises(HostError, match="lacks one of the functions other, sh_board_ticks"):
        functions(tmp_path / "code.o", ["other", "sh_board_ticks"])
    assert functions(tmp_path / "code.o", ["other"]) == [0]


def _for_cores(tmp_path: Path, version: int) -> subprocess.CompletedProcess[str]:
    """The plugin for four processors in a program that offers as much of QEMU's interface as it uses to begin."""
    source, program = tmp_path / "host.c", tmp_path / f"host{version}"
    names = ("tb_n_insns", "tb_get_insn", "insn_data", "insn_vaddr", "mem_is_store", "register_vcpu_tb_trans_cb")
    names = (*names, "register_vcpu_tb_exec_cb", "register_vcpu_mem_cb", "num_vcpus")
    stubs = "".join(f"void qemu_plugin_{name}(void) {{}}\n" for name in names)
    source.write_text(
        f"""{stubs}
extern int qemu_plugin_version;
int qemu_plugin_install(unsigned long, const void *, int, char **);
int main(void)
{{
    struct {{ const char *name; int min, cur; }} info = {{"arm", 0, {version}}};
    char *arguments[] = {{"processors=4", "probe=on"}};
    if (qemu_plugin_version != 2)
        return 3;
    return qemu_plugin_install(1, &info, 2, arguments);
}}
"""
    )
    parts = [str(path) for path in sorted(PLUGIN.glob("*.c"))]
    subprocess.run([*HOST, "-w", str(source), *parts, "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=False)


def test_a_qemu_that_takes_all_processors_for_one_is_refused_and_others_are_met_by_their_version(tmp_path: Path):
    one, other = _for_cores(tmp_path, 3), _for_cores(tmp_path, 4)

    assert (one.returncode, one.stderr) == (0, "")
    assert (other.returncode, len(other.stderr.splitlines())) == (1, 1)
    assert "as if one had run it" in other.stderr
