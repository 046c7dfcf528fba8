"""A project folder without a model: the real templates around the test firmware in tests/c/hello."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu.emit.folder.project import places, stub
from shoehorn_mcu.machine.families import family_files
from shoehorn_mcu.machine.targets import Board, board
from shoehorn_mcu_host.base.emulators import require
from shoehorn_mcu_host.base.errors import HostError

HELLO = Path(__file__).parent / "c" / "hello"


@cache
def _machines(program: str) -> frozenset[str]:
    """The machines of this QEMU: a later one has more."""
    said = subprocess.run([program, "-machine", "help"], capture_output=True, text=True, check=True).stdout
    return frozenset(line.split()[0] for line in said.splitlines()[1:] if line.strip())


def needs_emulator(target: Board) -> None:
    """Skips the test where the board's emulator is not installed, or has no such machine yet."""
    if target.spec.emulator is None:
        pytest.skip(f"{target.id}: no emulator runs it")
    try:
        require(target.spec.emulator.program)
    except HostError as missing:
        pytest.skip(f"{target.id}: {missing}")
    program, machine = target.spec.emulator.program, target.spec.emulator.machine
    if target.spec.emulator.row.is_qemu and machine not in _machines(program):
        pytest.skip(f"{target.id}: this {program} has no machine {machine}")


def _fill(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _values(target: Board) -> dict[str, str]:
    return {"BOARD": target.id, "MODEL": "hello", **{name: str(value) for name, value in places(target).items()}}


def _config(target: Board) -> str:
    fixed = {"SH_BOARD_TICK_HZ": target.spec.tick_hz, "SH_BOARD_STACK_BYTES": target.spec.stack_bytes}
    lines = [f"#define {name} 0x{value:x}u" for name, value in {**fixed, **target.spec.defines}.items()]
    return "\n".join(["#pragma once", *lines, ""])


def write_hello(folder: Path, board_id: str) -> Path:
    """Writes the folder for one board, laid out as docs/folder-format.md says."""
    target = board(board_id)
    values = _values(target)
    shutil.copytree(FIRMWARE_TEMPLATES / "platform", folder / "platform", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(HELLO, folder / "src")
    shutil.copy(FIRMWARE_TEMPLATES / "app" / "sh_board.h", folder / "src")
    for name in ("boards", "lib/board"):
        (folder / name).mkdir(parents=True)
    shutil.copy(target.path, folder / "boards")
    (folder / "lib/board/board_config.h").write_text(_config(target))
    for name, path in family_files(target.spec.family).items():
        text = path.read_text()
        (folder / "lib/board" / name.removesuffix(".in")).write_text(
            _fill(text, values) if name.endswith(".in") else text
        )
    (folder / "platformio.ini").write_text(_fill((FIRMWARE_TEMPLATES / "platformio.ini.in").read_text(), values))
    for name, data in stub(target).items():
        (folder / name).write_bytes(data)
    (folder / "plan.json").write_text("{}")
    (folder / "report.json").write_text(json.dumps({"model": {"name": "hello"}, "board": {"id": board_id}}))
    return folder
