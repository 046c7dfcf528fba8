"""`gen library`, boards of the user's own, and how folders that were changed are written again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_cli_project import DIGITS, files_of, gen, refused

from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.machine import targets


def test_a_library_alone_is_that_of_the_firmware_for_a_board_with_the_same_core(tmp_path: Path):
    """With the flash of the board: small kernels that save less time than their bytes are worth are left out."""
    assert gen("library", DIGITS, "--cpu", "cortex-m4", "--flash", "1M", "--out", tmp_path / "l").exit_code == 0
    assert gen("firmware", DIGITS, "--board", "netduinoplus2", "--out", tmp_path / "f").exit_code == 0
    alone = files_of(tmp_path / "l")
    alone.pop(".shoehorn.json")

    assert alone == files_of(tmp_path / "f" / "lib" / "digits")


def test_the_library_s_report_is_that_of_the_plan(tmp_path: Path):
    done = gen("library", DIGITS, "--sram", "1500", "--out", tmp_path / "l", "--json")
    said = json.loads(done.stdout)

    assert said["board"] is None
    assert said["plan"]["arena_bytes"] <= 1500


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("cortex-m4", "cortex-m4f"),
        ("ESP32-C3", "rv32imc"),
        ("Cortex-M0+", "cortex-m0"),
        ("cortex-m85", "cortex-m55"),
        ("host", "host"),
    ],
)
def test_a_core_has_the_names_that_people_call_it(name: str, key: str):
    assert targets.cpu(name) == key


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cpu", "cortex-m44"], "unknown cpu 'cortex-m44'; did you mean 'cortex-m4'"),
        (["--cpu", "rv64gc"], "a library for any other core is in portable C and needs no --cpu"),
        (["--cpu", "a\nb"], "unknown cpu 'a\\nb'; known cores: host,"),
        (["--flash", "4k"], "(7,578 for constants, about "),
        (["--sram", "100"], "--sram"),
        (["--preserve", "a\nb"], "'a\\nb'"),
    ],
)
def test_a_library_that_cannot_be_is_refused_in_one_line(arguments: list[str], said: str, tmp_path: Path):
    assert said in refused("library", DIGITS, *arguments, "--out", tmp_path / "l")
    assert not (tmp_path / "l").exists()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's board `mine`, made known."""
    folder = tmp_path / "boards"
    folder.mkdir()
    shutil.copy(BOARDS / "microbit.json", folder / "mine.json")
    monkeypatch.setenv("SHOEHORN_BOARDS", str(folder))
    return folder


def test_a_board_of_the_user_is_one_everywhere(own: Path, tmp_path: Path):
    assert "mine" in {row["id"] for row in json.loads(gen("boards", "--json").stdout)["boards"]}
    assert gen("plan", DIGITS, "--board", "mine").exit_code == 0
    assert gen("firmware", "--board", "mine", "--out", tmp_path / "f").exit_code == 0
    assert (tmp_path / "f" / "boards" / "mine.json").read_bytes() == (own / "mine.json").read_bytes()
    assert "[env:mine]" in (tmp_path / "f" / "platformio.ini").read_text()
    assert "did you mean 'mine'" in refused("firmware", "--board", "mime")


def test_a_board_of_the_user_replaces_ours_of_the_same_id(own: Path):
    manifest = json.loads((BOARDS / "native.json").read_text()) | {"name": "Another machine"}
    (own / "native.json").write_text(json.dumps(manifest))

    assert targets.board("native").name == "Another machine"
    assert [b.id for b in targets.boards()].count("native") == 1


def test_a_board_that_cannot_be_used_leaves_the_others(own: Path):
    (own / "broken.json").write_text("{")
    (own / "wrong\x1b.json").write_text("{}")
    plain, said = gen("boards"), gen("boards", "--json")
    listed = json.loads(said.stdout)

    assert (plain.exit_code, said.exit_code) == (0, 0)
    assert {row["id"] for row in listed["boards"]} == {"mine", *(path.stem for path in BOARDS.glob("*.json"))}
    assert "netduinoplus2" in plain.stdout and "broken" not in plain.stdout
    for stderr in (plain.stderr, said.stderr):
        notes = stderr.splitlines()
        assert len(notes) == 2 and all(note.isprintable() for note in notes)
        assert notes[0].startswith(f"note: {own / 'broken.json'}: not JSON")
    assert [f"note: {each}" for each in listed["unusable"]] == plain.stderr.splitlines()
    assert "mine.json: shoehorn" not in refused("firmware", "--board", "broken")
    assert "broken.json: not JSON" in refused("firmware", "--board", "broken")


def test_a_portable_library_s_time_is_no_core_s(tmp_path: Path):
    portable = gen("library", DIGITS, "--out", tmp_path / "a").stdout
    known = gen("library", DIGITS, "--cpu", "cortex-m4", "--out", tmp_path / "b").stdout

    said = "measured on an emulated cortex-m4f"
    assert f"{said}, as an example: the library is portable, and other cores take another time" in portable
    assert f"{said}\n" in known


def test_a_manifest_is_a_board_by_its_path(tmp_path: Path):
    shutil.copy(BOARDS / "microbit.json", tmp_path / "my-board.json")
    done = gen("firmware", "--board", tmp_path / "my-board.json", "--out", tmp_path / "f")

    assert done.exit_code == 0
    assert (tmp_path / "f" / "boards" / "my-board.json").is_file()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../boards/native", "unknown board '../boards/native'; give the id of a board"),
        ("nat\nive", "unknown board 'nat\\nive'"),
        ("no/such.json", "no/such.json: cannot be read: No such file or directory"),
        ("a\nb.json", "'a\\nb.json': the file's name is the board's id"),
    ],
)
def test_what_is_no_board_is_refused_in_one_line(name: str, said: str):
    assert said in refused("firmware", "--board", name)


def test_a_folder_of_boards_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOEHORN_BOARDS", "nowhere")

    assert refused("boards") == "gen: SHOEHORN_BOARDS: 'nowhere' is not a folder\n"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A project in which the user changed a file of ours and added one."""
    folder = tmp_path / "d"
    assert gen("firmware", "--board", "native", "--out", folder).exit_code == 0
    (folder / "src" / "main.c").write_text("// mine\n")
    (folder / "src" / "added.c").write_text("// added\n")
    return folder


def test_force_replaces_what_was_changed_and_keeps_what_was_added(changed: Path, digits_project: Path):
    assert "(src/added.c, src/main.c)" in refused("firmware", "--board", "native", "--out", changed)
    assert gen("firmware", "--board", "native", "--out", changed, "--force").exit_code == 0
    assert files_of(changed) == {**files_of(digits_project), "src/added.c": b"// added\n"}


def test_force_replaces_no_folder_of_somebody_else(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")

    assert "was not written by Shoehorn" in refused("firmware", "--board", "native", "--out", tmp_path, "--force")
    assert files_of(tmp_path) == {"notes.txt": b"mine"}


def test_library_only_leaves_the_users_files_alone(changed: Path, tmp_path: Path):
    options = ["--board", "native", "--sram", "1500", "--caller-arena"]
    assert gen("firmware", *options, "--out", changed, "--library-only").exit_code == 0
    assert gen("firmware", *options, "--out", tmp_path / "fresh").exit_code == 0
    mine = {"src/main.c": b"// mine\n", "src/added.c": b"// added\n"}
    now, fresh = files_of(changed), files_of(tmp_path / "fresh")

    assert {path: now[path] for path in mine} == mine
    for path in {*now, *fresh} - {*mine, ".shoehorn.json", "README.md"}:
        assert now.get(path) == fresh.get(path), path
    # It may be done over and over, and the manifest still tells what the user changed.
    assert gen("firmware", *options, "--out", changed, "--library-only").exit_code == 0
    assert "(src/added.c, src/main.c)" in refused("firmware", *options, "--out", changed).replace("README.md, ", "")


def test_library_only_deletes_files_that_the_library_no_longer_has(changed: Path):
    manifest = json.loads((changed / ".shoehorn.json").read_text())
    old = changed / "lib" / "digits" / "src" / "old.c"
    old.write_text("")
    manifest["files"]["lib/digits/src/old.c"] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (changed / ".shoehorn.json").write_text(json.dumps(manifest))
    assert gen("firmware", "--board", "native", "--out", changed, "--library-only").exit_code == 0

    assert not old.exists()


def test_library_only_replaces_a_changed_library_only_by_force(changed: Path):
    source = changed / "lib" / "digits" / "src" / "digits.c"
    before = source.read_text()
    source.write_text("// mine\n")
    said = refused("firmware", "--board", "native", "--out", changed, "--library-only")

    assert "lib/digits/src/digits.c" in said and source.read_text() == "// mine\n"
    assert gen("firmware", "--board", "native", "--out", changed, "--library-only", "--force").exit_code == 0
    assert source.read_text() == before


def test_library_only_needs_a_library(tmp_path: Path):
    assert "has no lib/digits" in refused("firmware", "--board", "native", "--out", tmp_path / "x", "--library-only")
    assert not (tmp_path / "x").exists()


def test_places_that_are_no_folders_are_refused_in_one_line(tmp_path: Path):
    (tmp_path / "loop").symlink_to("loop")

    assert "is a link to itself" in refused("firmware", "--board", "native", "--out", tmp_path / "loop")
    assert "cannot be replaced" in refused("firmware", "--board", "native", "--out", "/")


@pytest.mark.parametrize("name", ["stream", "requests", "results", "cobs", "sh_app"])
def test_a_model_called_like_a_file_of_the_application_gets_another_name(name: str, tmp_path: Path):
    shutil.copy(DIGITS, tmp_path / f"{name}.tflite")
    done = gen("firmware", tmp_path / f"{name}.tflite", "--board", "native", "--out", tmp_path / "f")

    assert done.exit_code == 0
    assert (tmp_path / "f" / "lib" / f"{name}_model" / "src" / f"{name}_model.h").is_file()
