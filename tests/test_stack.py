"""The stack that assembly takes in a function: no compiler counts it, the bound has it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu_host.firmware.objects import _uleb128, deepest, read
from shoehorn_mcu_host.firmware.stack import bound

# Pushes five words in two steps, in a function of one array, and pops them on both paths.
SOURCE = """
int use(int *words);
int twice(int n) {
    int words[16];
    int left = use(words);
    __asm volatile(
        "push {r0, r1, r2}\\n"
        "cmp %0, #0\\n"
        "beq 1f\\n"
        "push {r0, r1}\\n"
        "add sp, #8\\n"
        "pop {r0, r1, r2}\\n"
        "b 2f\\n"
        "1: pop {r0, r1, r2}\\n"
        "2:\\n"
        : : "l"(n) : "memory", "cc");
    return left + use(words);
}
"""


@pytest.mark.parametrize(
    ("target", "cpu"),
    [
        ("thumb-freestanding-eabi", "cortex_m0"),
        ("thumb-freestanding-eabihf", "cortex_m7"),
        ("arm-freestanding-eabihf", "arm1176jzf_s"),
    ],
)
def test_what_assembly_pushes_is_part_of_the_frame(target: str, cpu: str, tmp_path: Path):
    frames = {}
    plain = SOURCE[: SOURCE.index("    __asm")] + SOURCE[SOURCE.index("    return") :].replace("left +", "left + n +")
    for name, text in (("with", SOURCE), ("without", plain)):
        (tmp_path / f"{name}.c").write_text(text)
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target, f"-mcpu={cpu}", "-O2", "-c"]
        command += ["-ffunction-sections", "-fstack-size-section", f"{name}.c", "-o", f"{name}.o"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        frames[name] = read([tmp_path / f"{name}.o"]).functions["twice"].frame

    assert frames["without"] is not None and frames["without"] >= 64
    assert 20 <= frames["with"] - frames["without"] <= 28  # the compiler may align its own part


# Pushes nine words, makes room for three, and returns on two paths.
NAKED = """
__attribute__((naked, noinline)) int twice(int n) {
    __asm volatile(
        ".syntax unified\\n"
        "push {r4, r5, r6, r7, lr}\\n"
        "push {r0, r1, r2, r3}\\n"
        "sub sp, sp, #12\\n"
        "cmp r0, #0\\n"
        "beq 1f\\n"
        "add sp, sp, #28\\n"
        "pop {r4, r5, r6, r7, pc}\\n"
        "1:\\n"
        "add sp, sp, #12\\n"
        "pop {r0, r1, r2, r3}\\n"
        "pop {r4, r5, r6, r7, pc}\\n");
}
"""


@pytest.mark.parametrize(
    ("target", "cpu"),
    [
        ("thumb-freestanding-eabi", "cortex_m0"),
        ("thumb-freestanding-eabihf", "cortex_m55"),
        ("arm-freestanding-eabihf", "arm1176jzf_s"),
    ],
)
def test_the_frame_of_a_function_that_is_assembly_as_a_whole_is_what_it_pushes(target: str, cpu: str, tmp_path: Path):
    (tmp_path / "naked.c").write_text(NAKED)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, f"-mcpu={cpu}", "-O2", "-c"]
    command += ["-ffunction-sections", "-fstack-size-section", "naked.c", "-o", "naked.o"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    assert read([tmp_path / "naked.o"]).functions["twice"].frame == 48


def test_the_end_of_a_path_is_no_end_of_the_next_one():
    paths = (8, 16, -16, -8, 12, -12)  # a function's own 24 bytes, one path out, and assembly behind it

    assert deepest(24, paths) == 36


def test_a_frame_of_which_the_code_shows_less_stays():
    assert deepest(24, ()) == 24
    assert deepest(0, (4, -4, 8, -8)) == 8


# Each function leaves through a register, or not.
JUMPS = {
    "pointer": ("int pointer(int (*of)(int), int n) { return of(n) + 1; }", True),
    "tail": ("int tail(int (*of)(int), int n) { return of(n + 1); }", True),
    "wide": (
        'int wide(int (*of)(int), int n) { __asm volatile("jalr ra, 4(%0)" : : "r"(of) : "ra"); return n; }',
        True,
    ),
    "direct": ("int other(int n); int direct(int n) { return other(n) + other(n + 1); }", False),
    "direct_tail": ("int other(int n); int direct_tail(int n) { return other(n + 1); }", False),
    "leaf": ("int leaf(int n) { return n * n; }", False),
}


@pytest.mark.parametrize("core", ["rv32imc", "rv32imac", "rv32imafc"])
@pytest.mark.parametrize("name", list(JUMPS))
def test_a_call_through_a_register_is_found_on_riscv(core: str, name: str, tmp_path: Path):
    text, through = JUMPS[name]
    (tmp_path / "jump.c").write_text(text)
    function = read([_compiled(core, tmp_path / "jump.c")]).functions[name]

    assert function.calls_pointer is through
    assert function.calls == ({"other"} if "other" in text else set())


def test_the_bound_has_what_a_call_through_a_register_can_reach_on_riscv(tmp_path: Path):
    """Of the functions whose address is taken the deepest; one that nobody points to does not count."""
    (tmp_path / "firmware.c").write_text(
        """
        volatile int which;
        int main(void);
        void shallow(void) { volatile char room[64]; room[which] = 1; }
        void deep(void) { volatile char room[2048]; room[which] = 1; }
        void apart(void) { volatile char room[8192]; room[which] = 1; }
        void (*const table[])(void) = {shallow, deep};
        int main(void) { table[which](); return 0; }
        """
    )
    found = bound([_compiled("rv32imc", tmp_path / "firmware.c")], "main", native=False, fpu=False)

    assert 2048 < found.bytes < 2048 + 128
    assert found.notes == ("calls through pointers in main, assumed to reach any of: deep, shallow",)


def _compiled(core: str, source: Path) -> Path:
    """The object file, as the platform of a written folder makes it."""
    tools = runpy.run_path(str(FIRMWARE_TEMPLATES / "platform/builder/toolchain.py"))
    flags = [*tools["tools"](core).target_flags, *tools["OPTIMISE"]]
    command = [sys.executable, "-m", "ziglang", "clang", *flags, "-c", source.name, "-o", "made.o"]
    subprocess.run(command, cwd=source.parent, check=True, capture_output=True)
    return source.with_name("made.o")


@pytest.mark.parametrize(("nop", "call"), [(".option norvc\\nnop", "jal ra, .-4"), ("c.nop", "c.jal .-2")])
def test_a_function_that_calls_itself_without_a_relocation_is_found_on_riscv(nop: str, call: str, tmp_path: Path):
    text = "\\n".join((nop, call, "ret"))
    (tmp_path / "again.c").write_text(f'__attribute__((naked)) void again(void) {{ __asm volatile("{text}"); }}')

    assert read([_compiled("rv32imc", tmp_path / "again.c")]).functions["again"].calls == {"again"}


def test_what_assembly_takes_of_the_stack_is_part_of_the_frame_on_riscv(tmp_path: Path):
    """C.ADDI16SP, ADDI and C.ADDI of SP, down and up again."""
    steps = ("addi sp, sp, -496", "addi sp, sp, -1024", "addi sp, sp, -16", "addi sp, sp, -20")
    back = [step.replace("-", "") for step in reversed(steps)]
    text = "\\n".join((*steps, *back, "ret"))
    (tmp_path / "naked.c").write_text(f'__attribute__((naked)) void naked(void) {{ __asm volatile("{text}"); }}')

    assert read([_compiled("rv32imc", tmp_path / "naked.c")]).functions["naked"].frame == 1556


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"\x02", 2), (b"\x7f\x01", 127), (b"\x80\x01", 128), (b"\xe5\x8e\x26\x80", 624485), (b"", 0)],
)
def test_a_number_of_debug_information_has_seven_bits_a_byte(data: bytes, value: int) -> None:
    assert _uleb128(data) == value
