"""`gen monitor`: a scripted person against the native board, and boards that do not answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import Gen
from toy import Bench, Toy

from shoehorn_mcu.cli.group import main
from shoehorn_mcu_host.base.errors import LinkError
from shoehorn_mcu_host.board.link import Link
from shoehorn_mcu_host.board.monitor import Terminal
from shoehorn_mcu_host.board.ports import Port

SCRIPT = """name
profile%

infer 1 0
results%
nonsense
"""


def typed(text: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["monitor", *map(str, arguments)], input=text, catch_exceptions=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Toy().build(tmp_path_factory.mktemp("toy") / "build")


def test_a_script_gets_its_answers_from_the_native_board(digits_project: Path, tmp_path: Path):
    folder = tmp_path / "digits"
    shutil.copytree(digits_project, folder)
    result = typed(SCRIPT, folder, "--emulate")
    lines = result.stdout.splitlines()

    assert result.exit_code == 0, result.output
    assert "Commands end in %, which is added for you; help% lists them." in result.stderr
    assert lines[:3] == [
        "m-name-dut-[shoehorn]",
        "m-profile-[ULPMark for tinyML Firmware V0.0.1]",
        "m-model-[digits]",
    ]
    assert "m-infer-done" in lines
    assert len([line for line in lines if line.startswith("m-results-[")]) == 2
    assert lines[-1] == "e-[Unknown command: nonsense]"
    assert "m-ready" not in lines


def test_a_board_in_frame_mode_is_brought_back_to_text(program: Path):
    with Bench(program) as bench:
        link = Link(Port(bench.path))
        link._port.close()  # the last host died without a word
        result = typed("name", "--port", bench.path)

    assert (result.exit_code, result.stdout) == (0, "m-name-dut-[shoehorn]\n"), result.output


@pytest.mark.parametrize(
    ("says", "message"),
    [("exec sleep 60", "does not answer"), ("yes word; sleep 60", "does not speak the text protocol of MLPerf Tiny")],
)
def test_a_board_that_does_not_answer_is_one_line(says: str, message: str, tmp_path: Path):
    script = tmp_path / "board"
    script.write_text(f"#!/bin/sh\n{says}\n")
    script.chmod(0o755)
    with Bench(script) as bench, Port(bench.path) as port, pytest.raises(LinkError, match=message):
        Terminal(port, 0.1, 2)


def test_a_board_that_answers_and_does_not_stop_sending_is_one_line(tmp_path: Path):
    script = tmp_path / "board"
    script.write_text("#!/bin/sh\nyes 'm-name-dut-[shoehorn] m-ready'; sleep 60\n")
    script.chmod(0o755)
    with Bench(script) as bench, Port(bench.path) as port, pytest.raises(LinkError, match="does not stop sending"):
        Terminal(port)


HOSTILE = bytes(range(256)).replace(b"\n", b"").replace(b"\0", b"")


def test_no_byte_of_a_board_reaches_the_terminal_raw(program: Path):
    """Each line of each answer has every byte there is in front of it."""

    def spoil(chunk: bytes) -> list[bytes]:
        return [
            chunk.replace(b"m-name", b"m-name-dut-[\r\n" + HOSTILE + b"\r\nm-name").replace(b"e-[", HOSTILE + b"e-[")
        ]

    with Bench(program, to_host=spoil) as bench:
        result = typed("name\nnonsense\n", "--port", bench.path)

    assert result.exit_code == 0, result.output
    assert "e-[Unknown command: nonsense]" in result.stdout
    assert all(line.isascii() and line.isprintable() for line in result.stdout.splitlines())


def test_ctrl_c_stops_the_inferences_that_a_command_has_begun(program: Path):
    with Bench(program) as bench, Port(bench.path) as port:
        terminal = Terminal(port)
        answer = terminal.ask("infer 1000000 1000000")
        assert next(answer) == "m-warmup-start-1000000"
        terminal.stop()

        assert list(answer) == ["e-[Inference stopped]"]


def test_emulation_without_a_folder_is_wrong_usage(gen: Gen):
    assert "--emulate needs DIR" in typed("", "--emulate").stderr
    assert gen("monitor", "--emulate").exit_code == 2
