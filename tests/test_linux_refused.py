"""What `gen library --os linux` refuses, each in a line and with nothing written, and what it says when it is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Gen
from test_cli_project import DIGITS, refused

import shoehorn_mcu
from shoehorn_mcu import PlanOptions
from shoehorn_mcu.emit.linux.package import NotForLinux, require_name
from shoehorn_mcu.firmware import linux
from shoehorn_mcu.firmware.options import resolved
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine.targets import CPUS, Isa, WrongCpu, cpu, stand_in
from shoehorn_mcu_host.linux import compiled, targets
from shoehorn_mcu_host.linux.targets import target

KNOWN = (
    "give --cpu arm1176, cortex-a7, cortex-a53-aarch32, cortex-a72-aarch32, cortex-a53, cortex-a72, cortex-a76, "
    "cortex-a710, cortex-a720, neoverse-v1 or host"
)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cpu", "cortex-m4"], f"--os linux: 'cortex-m4' is no core that Linux is made for here; {KNOWN}"),
        (["--cpu", "cortex-a9"], f"--os linux: 'cortex-a9' is no core that Linux is made for here; {KNOWN}"),
        (["--cpu", "a\nb"], f"--os linux: 'a\\nb' is no core that Linux is made for here; {KNOWN}"),
        ([], f"--os linux needs to know the core: {KNOWN}"),
        (
            ["--cpu", "host", "--single-file"],
            "--os linux: a shared library and a wheel are files of their own; leave --single-file out",
        ),
        (
            ["--cpu", "host", "--caller-arena"],
            "--os linux: the shared library has its own arena; leave --caller-arena out",
        ),
        (
            ["--cpu", "host", "--stream-output"],
            "--os linux: rows of the output go to a function of the program, which a shared library cannot ask for; "
            "leave --stream-output out",
        ),
    ],
)
def test_a_library_that_linux_cannot_have_is_refused_in_one_line(options: list[str], said: str, tmp_path: Path):
    assert refused("library", DIGITS, *options, "--os", "linux", "--out", tmp_path / "l") == f"gen: {said}\n"
    assert not (tmp_path / "l").exists()


def test_a_host_without_wheels_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targets.platform, "machine", lambda: "riscv64")
    with pytest.raises(targets.NoLinux, match="no wheels are made for 'riscv64', the host; give --cpu arm1176"):
        target("host")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("class", "Python cannot import a module named 'class'; rename the model's file"),
        ("json", "a module named 'json' would hide Python's own; rename the model's file"),
        ("numpy", "a module named 'numpy' would hide Python's own; rename the model's file"),
        ("m", "libm.so would hide the system's library of that name; rename the model's file"),
    ],
)
def test_a_name_that_hides_another_is_refused(name: str, said: str):
    with pytest.raises(NotForLinux) as refusal:
        require_name(name)
    assert str(refusal.value) == f"--os linux: {said}"


def test_without_a_compiler_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled.cbuild, "zig", lambda: None)
    said = refused("library", DIGITS, "--cpu", "host", "--os", "linux", "--out", tmp_path / "l")

    assert said == "gen: --os linux compiles with zig, which is not installed: `pip install ziglang` brings it\n"
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (
            lambda *_: (1, "a.c:3:1: error: a \x1b[31mfault\nfatal error: b"),
            "compile the library: a.c:3:1: error: a \\x1b",
        ),
        (lambda *_: (-9, ""), "compile the library: it ended with code -9"),
    ],
)
def test_a_compiler_that_fails_is_one_line(
    ends: Callable[..., object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compiled, "_ended", ends)
    line = refused("library", DIGITS, "--cpu", "host", "--os", "linux", "--out", tmp_path / "l")

    assert line.startswith(f"gen: --os linux: zig cannot {said}") and line.count("\n") == 1
    assert not (tmp_path / "l").exists()


def test_the_command_says_where_the_wheel_is(gen: Gen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = compiled.Binaries(b"library", b"module")
    monkeypatch.setattr("shoehorn_mcu_host.linux.pack.compiled", lambda *_: made)
    options = (DIGITS, "--cpu", "cortex-a72", "--os", "linux", "--out", tmp_path / "l")
    shown, told_ = gen("library", *options), gen("library", *options, "--json")
    linux_of = json.loads(told_.stdout)["linux"]

    assert linux_of == {"library": "linux/lib/libdigits.so", "wheel": linux_of["wheel"]}
    assert (tmp_path / "l" / linux_of["wheel"]).is_file()
    assert shown.stdout.splitlines()[-1] == (
        f"linux/lib/libdigits.so: 7 bytes; pip install {tmp_path / 'l' / linux_of['wheel']}"
    )
    assert "note: cortex-a72 gets the kernels of cortex-a53" in shown.stderr


def test_a_core_beside_a_board_that_has_another_one_is_refused():
    with pytest.raises(WrongCpu, match=r"^--cpu 'cortex-a76': rpi-zero-2w has a cortex-a53; leave --cpu out$"):
        resolved(PlanOptions(board="rpi-zero-2w", cpu="cortex-a76"))
    board, _ = resolved(PlanOptions(board="rpi-zero-2w", cpu="cortex-a72"))
    assert board is not None and board.spec.cpu == "cortex-a53"


@pytest.mark.parametrize("core", ["cortex-a710", "cortex-a720", "neoverse-v1"])
def test_code_for_cores_with_products_of_matrices_has_them(core: str):
    assert cpu(core) == "cortex-a710" and Isa.MATRIX in CPUS[cpu(core)].isas
    assert target(core).core.startswith("cortex_a76") and "+i8mm" in target(core).core


def test_code_for_a76_alone_asks_for_what_its_kernels_need():
    assert stand_in("cortex-a76") == ""
    assert target("cortex-a76").core.startswith("cortex_a76") and target("cortex-a72").core.startswith("cortex_a72")


def test_a_core_in_32_bits_is_that_of_an_a7():
    assert target("cortex-a7").core == "cortex_a7" and target("cortex-a7").platforms == ("manylinux_2_17_armv7l",)
    assert target("Cortex-A53-AArch32") is target("cortex-a72-aarch32") is target("cortex-a7")


def test_options_of_memory_are_refused_before_a_plan_is_made():
    for options in (Options(caller_arena=True), Options(stream_output=True)):
        with pytest.raises(NotForLinux):
            linux.alone(Path("there is no such model"), options)
    with pytest.raises(ValueError, match="give cpu, not board"):
        shoehorn_mcu.generate_for_linux(DIGITS, "never", PlanOptions(board="microbit"))
