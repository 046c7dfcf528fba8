"""How far a board was proven: the report of a validation, the manifest that cites it, emulators that are missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Gen
from test_manifest import F401

from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.cli.group import main
from shoehorn_mcu.machine.targets import BoardError, boards, load_board
from shoehorn_mcu_host.base import emulators, proof
from shoehorn_mcu_host.base.emulators import EMULATORS, Level
from shoehorn_mcu_host.base.errors import HostError

Json = dict[str, Any]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, digits_project: Path) -> Json:
    """The report of a real validation, of this machine."""
    folder = tmp_path_factory.mktemp("report")
    path, project = folder / "native.json", shutil.copytree(digits_project, folder / "digits")
    asked = ["validate", str(project), "--emulate", "--count", "3", "--report", str(path)]
    assert CliRunner().invoke(main, asked, catch_exceptions=False).exit_code == 0
    found: Json = json.loads(path.read_text())
    return found


def test_a_report_says_what_was_proven_and_nothing_of_the_user(report: Json, digits_project: Path):
    plan = json.loads((digits_project / "plan.json").read_text())

    assert (report["board"], report["level"], report["emulator"]) == ("native", "emulator", "native")
    assert (report["vectors"], report["mismatched_vectors"]) == (3, 0)
    assert report["plan"] == plan["identity"]
    assert report["unit"] == "us" and report["inference"] > 0 and report["stack_used_bytes"] > 0
    assert str(Path.home()) not in json.dumps(report)


def test_a_report_is_of_a_port_or_of_an_emulator_that_is_known(gen: Gen, digits_project: Path, tmp_path: Path):
    result = gen("validate", digits_project, "--port", "socket://127.0.0.1:1", "--report", tmp_path / "r.json")

    assert result.exit_code != 0
    assert "--report: socket://127.0.0.1:1 may lead to an emulator" in result.stderr
    assert not (tmp_path / "r.json").exists()


def _cited(folder: Path, report: Json, change: Callable[[Json], object], levels: list[str]) -> Path:
    """A user's board on whose report the change was made."""
    board: Json = json.loads(json.dumps(F401))
    board["shoehorn"] |= {"verified": levels, "proof": "proofs/mine.json"}
    said = {**report, "board": "mine", "level": "hardware", "emulator": ""}
    change(said)
    (folder / "proofs").mkdir(exist_ok=True)
    (folder / "proofs" / "mine.json").write_text(json.dumps(said))
    path = folder / "mine.json"
    path.write_text(json.dumps(board))
    return path


def test_a_board_is_proven_on_hardware_by_a_report_only(report: Json, tmp_path: Path):
    proven = load_board(_cited(tmp_path, report, lambda _: None, ["build", "hardware"]))

    assert proven.spec.level is Level.HARDWARE

    alone = json.loads(json.dumps(F401))
    alone["shoehorn"]["verified"] = ["hardware"]
    (tmp_path / "mine.json").write_text(json.dumps(alone))
    with pytest.raises(BoardError, match=r"mine\.json: shoehorn: verified: 'hardware' needs proof, a file of `gen val"):
        load_board(tmp_path / "mine.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda said: said.update(board="other"), "proofs/mine.json is of board other"),
        (lambda said: said.update(mismatched_vectors=1), "proofs/mine.json has 1 mismatched of 3 vectors"),
        (lambda said: said.update(vectors=0), "proofs/mine.json has 0 mismatched of 0 vectors"),
        (lambda said: said.update(level="emulator"), "proofs/mine.json proves 'emulator', not 'hardware'"),
        (lambda said: said.pop("date"), "no report of gen validate: date: this key is needed"),
    ],
)
def test_a_report_that_does_not_prove_the_level_is_refused(report: Json, tmp_path: Path, change, said: str):
    with pytest.raises(BoardError, match=r"mine\.json: shoehorn\.proof: ") as caught:
        load_board(_cited(tmp_path, report, change, ["build", "hardware"]))

    assert said in str(caught.value) and str(caught.value).isprintable()


def test_a_cited_report_that_is_not_there_is_named(report: Json, tmp_path: Path):
    path = _cited(tmp_path, report, lambda _: None, ["build", "hardware"])
    (tmp_path / "proofs" / "mine.json").unlink()

    with pytest.raises(BoardError, match=r"shoehorn\.proof: proofs/mine\.json: cannot be read: No such file"):
        load_board(path)


def test_each_shipped_board_of_hardware_cites_a_report_that_proves_it():
    """And no report lies there that none cites."""
    cited = {board.spec.proof for board in boards() if board.spec.proof}
    there = {path.relative_to(BOARDS).as_posix() for path in BOARDS.glob("*/*.json")}

    assert cited == there
    assert all(proof.read(BOARDS / name).mismatched_vectors == 0 for name in cited)


@pytest.mark.parametrize(
    ("emulator", "levels", "said"),
    [
        ({"program": "unicorn"}, ["emulator"], "verified: unicorn does not prove 'emulator'"),
        (None, ["core"], "verified: no emulator does not prove 'core'"),
        ({"program": "simics"}, [], "emulator.program: 'simics' is no emulator; known: native, qemu-system-arm, "),
        ({"program": "unicorn", "machine": "f401"}, [], "program unicorn has neither a machine nor arguments"),
        ({"program": "unicorn", "unit": "cycles"}, [], "unit: unicorn counts instructions, not cycles; leave it out"),
    ],
)
def test_a_level_that_the_emulator_cannot_prove_is_refused(tmp_path: Path, emulator, levels, said):
    board = json.loads(json.dumps(F401))
    board["shoehorn"] |= {"emulator": emulator, "verified": levels}
    (tmp_path / "mine.json").write_text(json.dumps(board))

    with pytest.raises(BoardError, match=r"mine\.json: ") as caught:
        load_board(tmp_path / "mine.json")

    assert said in str(caught.value) and str(caught.value).isprintable()


def test_gen_boards_says_in_a_line_what_each_level_proves_and_by_what(gen: Gen):
    lines = gen("boards").stdout.splitlines()
    shown = {level: next(line for line in lines if line.startswith(f"{level} ")) for level in Level}
    listed = json.loads(gen("boards", "--json").stdout)["levels"]

    assert list(listed) == [str(level) for level in Level]
    for level, line in shown.items():
        assert line.split(maxsplit=1)[1].startswith(level.proves)
        assert line.endswith(listed[level]["by"])
    for name, row in EMULATORS.items():
        assert ("QEMU" if row.is_qemu else "this machine" if name == "native" else name) in shown[row.proves]


@pytest.mark.parametrize(
    ("program", "missing"), [(name, row.needs or name) for name, row in EMULATORS.items() if name != "native"]
)
def test_an_emulator_that_is_not_installed_says_which_and_how(monkeypatch: pytest.MonkeyPatch, program, missing):
    monkeypatch.setattr(emulators, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(HostError) as caught:
        emulators.require(program)

    assert str(caught.value).startswith(f"{missing} is not installed; ")
    assert EMULATORS[program].install in str(caught.value)


def test_the_levels_of_older_manifests_are_read(tmp_path: Path):
    """Those of version 0.2.0 know build, emulator and hardware, in any order, and no `proof`."""
    for levels, level in ((["emulator", "build"], Level.EMULATOR), (["build"], Level.BUILD), ([], None)):
        board = json.loads(json.dumps(F401))
        board["shoehorn"]["verified"] = levels
        (tmp_path / "mine.json").write_text(json.dumps(board))

        assert load_board(tmp_path / "mine.json").spec.level is level
