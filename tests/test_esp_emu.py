"""Espressif's esp-emu: the board's image is given to the program on PATH, and its UART0 is the console.

The program itself cannot be had from a registry. Another stands for it here, which takes the same options, checks what
it is given, and runs the image on a bare core.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from conftest import Gen

from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.emit.folder.project import stub
from shoehorn_mcu.machine.targets import BoardError, board, load_board
from shoehorn_mcu_host.board.machines.job import Job

FAKE = """#!{python}
import json, pathlib, socket, sys
from shoehorn_mcu_host.board.machines import bare_core
from shoehorn_mcu_host.board.machines.job import Job
given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
if [*given] != ["--chip", "--firmware", "--uart-tcp"] or given["--chip"] != "esp32c3":
    sys.exit(f"error: unexpected argument {{sys.argv}}")
image = pathlib.Path(given["--firmware"])
if image.read_bytes()[:8] != bytes.fromhex("1d04dbae" * 2):
    sys.exit("error: no mark of direct boot")
host, _, port = given["--uart-tcp"].partition(":")
job = json.loads(pathlib.Path({job!r}).read_text())
job |= {{"elf": str(image.with_name("firmware.elf")), "socket": socket.create_server((host, int(port))).detach()}}
bare_core.run(Job(**job))
"""


@pytest.fixture
def project(gen: Gen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped model for an ESP32-C3 whose manifest names esp-emu; the program is on PATH."""
    pytest.importorskip("unicorn")
    spec = board("esp32c3-devkit").spec
    ((_, text),) = stub(board("esp32c3-devkit")).items()
    regions = [(memory.origin, memory.bytes, int(memory.is_data)) for memory in spec.memory]
    job = Job("", "", spec.family, 0, spec.cpu, regions, json.loads(text), True)
    (tmp_path / "job.json").write_text(json.dumps(asdict(job)))
    program = tmp_path / "bin" / "esp-emu"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, job=str(tmp_path / "job.json")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    path = _named("esp32c3-devkit", tmp_path)
    assert gen("firmware", "--board", path, "--out", tmp_path / "digits").exit_code == 0
    return tmp_path / "digits"


def _named(name: str, folder: Path) -> Path:
    """A manifest of the user like that of a board, which names esp-emu."""
    manifest = json.loads((BOARDS / f"{name}.json").read_text())
    manifest["shoehorn"] |= {"emulator": {"program": "esp-emu"}, "verified": ["build", "emulator"]}
    path = folder / "mine.json"
    path.write_text(json.dumps(manifest))
    return path


def test_a_board_runs_in_esp_emu_and_its_clock_is_the_board_s_timer(gen: Gen, project: Path):
    checked = gen("validate", project, "--emulate", "--count", "2", "--report", project / "r.json")
    report = json.loads((project / "r.json").read_text())

    assert checked.exit_code == 0, checked.output
    assert "every byte of every op equal to the reference" in checked.output
    assert (report["emulator"], report["level"], report["unit"]) == ("esp-emu", "emulator", "us")


def test_why_esp_emu_ended_is_one_line(gen: Gen, project: Path):
    (Path(os.environ["PATH"].split(os.pathsep)[0]) / "esp-emu").write_text("#!/bin/sh\necho 'error: bad' >&2; exit 3\n")
    checked = gen("validate", project, "--emulate", "--count", "1")

    assert checked.exit_code == 1
    assert checked.stderr == "gen: the emulator ended with exit code 1: esp-emu: error: bad\n"


def test_it_has_the_chips_of_two_families(tmp_path: Path):
    with pytest.raises(BoardError, match="emulator: esp-emu has the chips of esp32c3 and esp32c6, not of nrf51"):
        load_board(_named("microbit", tmp_path))
