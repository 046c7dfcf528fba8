"""The firmware's end of energy: marks on request, MLPerf's energy mode, and what each family writes to its pins."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from compilers import HOST, SANITIZERS
from conftest import Gen
from test_mlperf import Runner
from toy import APP, Bench, C, Toy, compile_c

from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.emit.folder.app import board_config_h
from shoehorn_mcu.emit.folder.energy import Energy
from shoehorn_mcu.machine.families import families, family_files
from shoehorn_mcu.machine.targets import BoardError, boards, load_board
from shoehorn_mcu.machine.targets import board as board_of
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Mode, Timing
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder.project import Project

PATIENT = Timing(answer=60.0, inference=60.0)
GAP_NS = 200_000  # SH_ENERGY_GAP_US
MARKED = [each for each in boards() if each.spec.mark and each.spec.family != "posix"]


def marks(path: Path) -> list[tuple[int, int]]:
    """Nanoseconds and level of each change."""
    return [(int(at), int(level)) for at, level in (line.split() for line in path.read_text().splitlines())]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Toy(energy=1).build(tmp_path_factory.mktemp("marks") / "build", HOST, *SANITIZERS)


@pytest.mark.parametrize(
    ("op", "repeats", "expected", "counts"), [(None, 3, 1, (0, 0)), (0, 4, 2, (8, 0)), (1, 7, 1, (0, 7))]
)
def test_a_run_marks_what_was_chosen_and_repeats_it(
    marked: Path, tmp_path: Path, op: int | None, repeats: int, expected: int, counts: tuple[int, int]
):
    toy, path = Toy(energy=1), tmp_path / "marks.txt"
    with Bench(marked, TOY_MARKS=str(path)) as bench, Link(Port(bench.path), PATIENT) as link:
        link.mark(op, repeats)
        found = link.infer([bytes(toy.inputs)], [], Mode.MARK)
        plain = link.infer([bytes(toy.inputs)], [toy.outputs])

    made = marks(path)
    assert found.trace == counts
    assert plain.outputs == (toy.reference(np.zeros(toy.inputs, np.int8)).tobytes(),)
    assert [level for _, level in made] == [0, *[1, 0] * expected]
    assert all(later - earlier >= GAP_NS for (earlier, low), (later, _) in pairwise(made) if not low)


@pytest.mark.parametrize(("op", "repeats"), [(2, 1), (0, 0)])
def test_an_op_that_is_not_there_and_no_repetition_are_refused(marked: Path, op: int, repeats: int):
    with (
        Bench(marked) as bench,
        Link(Port(bench.path), PATIENT) as link,
        pytest.raises(HostError, match=r"the board refuses the choice of what is marked \(error 3\)"),
    ):
        link.mark(op, repeats)


def test_firmware_without_marks_knows_neither_the_request_nor_the_mode(tmp_path: Path):
    program = Toy().build(tmp_path / "build")
    with Bench(program) as bench, Link(Port(bench.path), PATIENT) as link:
        with pytest.raises(HostError, match=r"error 2"):
            link.mark(None, 1)
        with pytest.raises(HostError, match=r"error 3"):
            link.infer([bytes(Toy().inputs)], [], Mode.MARK)


def test_each_push_of_a_streamed_input_is_marked(tmp_path: Path):
    toy, path = Toy(streamed=True, energy=1), tmp_path / "marks.txt"
    with Bench(toy.build(tmp_path / "build"), TOY_MARKS=str(path)) as bench, Link(Port(bench.path), PATIENT) as link:
        link.mark(None, 1)
        link.infer([bytes(toy.inputs)], [], Mode.MARK, row_bytes=toy.row_bytes)

    assert [level for _, level in marks(path)] == [0, *[1, 0] * toy.rows]


def test_a_step_whose_rows_are_told_one_by_one_has_one_mark(tmp_path: Path):
    toy, path = Toy(output_rows=3, energy=1), tmp_path / "marks.txt"
    with Bench(toy.build(tmp_path / "build"), TOY_MARKS=str(path)) as bench, Link(Port(bench.path), PATIENT) as link:
        link.mark(1, 5)
        found = link.infer([bytes(toy.inputs)], [], Mode.MARK, handed_out=True)

    assert found.trace == (0, 5)
    assert [level for _, level in marks(path)] == [0, 1, 0]


def test_mlperf_s_energy_mode_speaks_the_protocol_with_falling_edges_for_times(tmp_path: Path):
    toy, path = Toy(rows=49, row_bytes=10, outputs=12, mlperf="kws01", energy=2), tmp_path / "marks.txt"
    with Bench(toy.build(tmp_path / "build", HOST, *SANITIZERS), powered=False, TOY_MARKS=str(path)) as bench:
        runner = Runner.awake(bench)
        assert runner.banner == "m-timestamp-mode-energy\r\nm-init-done\r\nm-ready\r\n"
        assert runner.ask("timestamp") == []
        x = np.random.default_rng(3).integers(-128, 128, toy.inputs, np.int8)
        assert runner.load(x.tobytes()) == ["m-load-done"]
        said = runner.ask("infer 5 2")

    assert said[:-1] == ["m-warmup-start-2", "m-warmup-done", "m-infer-start-5", "m-infer-done"]
    assert said[-1].startswith("m-results-[")
    made = marks(path)
    assert [level for _, level in made] == [1, *[0, 1] * 4]  # at boot, asked for, before and after the inferences
    assert all(later - earlier >= 2000 for (earlier, low), (later, _) in pairwise(made) if not low)


def touched(board_id: str, folder: Path, *arguments: str) -> tuple[list[str], list[str], list[str]]:
    """What the mark of a board writes: at start-up, to make it high, and low."""
    target = board_of(board_id)
    folder.mkdir()
    (folder / "board_config.h").write_text(board_config_h(target, 1, Energy.MARKS))
    (folder / "sh_reg.h").write_text(
        "#pragma once\n#include <stdbool.h>\n#include <stdint.h>\nvolatile uint32_t *fake_register(unsigned long at);\n"
        "#define SH_REG(address) (*fake_register(address))\n"
    )
    found = family_files(target.spec.family, marked=True)
    for name in ("mark.c", "sh_rp2.h"):
        if name in found:
            (folder / name).write_text(found[name].read_text())
    compile_c([folder / "mark.c", C / "mark_registers.c"], folder / "mark", HOST, f"-I{folder}", f"-I{APP}")
    text = subprocess.run([folder / "mark", *arguments], capture_output=True, text=True, check=True).stdout
    start, _, rest = text.partition("high\n")
    high, _, low = rest.partition("low\n")
    return start.split("\n")[:-1], high.split("\n")[:-1], low.split("\n")[:-1]


@pytest.mark.parametrize(
    ("board", "high", "low"),
    [
        ("nucleo-f411re", "40020018 00000100", "40020018 01000000"),
        ("nucleo-l4r5zi", "48001418 00002000", "48001418 20000000"),
        ("nucleo-h743zi", "58021418 00002000", "58021418 20000000"),
        ("bluepill-f103c8", "40010c10 00000001", "40010c10 00010000"),
        ("microbit", "50000508 00000008", "5000050c 00000008"),
        ("nrf52840dk", "50000808 00000002", "5000080c 00000002"),
        ("rpi-pico", "d0000014 00000004", "d0000018 00000004"),
        ("rpi-pico2", "d0000018 00000004", "d0000020 00000004"),
        ("rpi-zero", "2020001c 00020000", "20200028 00020000"),
        ("rpi-zero-2w", "3f20001c 00020000", "3f200028 00020000"),
        ("teensy41", "401bc084 00000008", "401bc088 00000008"),
        ("hifive1", "1001200c 00000001", "1001200c 00000000"),
    ],
)
def test_a_mark_is_one_write_to_the_register_of_the_chip_s_manual(board: str, high: str, low: str, tmp_path: Path):
    start, *levels = touched(board, tmp_path / "marks")

    assert levels == [[high], [low]]
    assert start


@pytest.mark.parametrize("board", [each.id for each in MARKED])
def test_every_board_s_mark_is_released_by_another_write_than_it_is_pulled_low_by(board: str, tmp_path: Path):
    for arguments in ((), ("open-drain",)):
        _, high, low = touched(board, tmp_path / f"marks{len(arguments)}", *arguments)
        assert len(high) == len(low) == 1
        assert high != low


def test_a_pin_that_the_chip_has_no_such_port_or_that_the_console_uses_is_refused(tmp_path: Path):
    for change, message in (
        ({"SH_BOARD_MARK_PIN": 16}, r"SH_BOARD_MARK_PIN: 16 must be from 0 to 15"),
        ({"SH_BOARD_MARK_GPIO": 0x40020200}, r"SH_BOARD_MARK_GPIO: 0x40020200 is no port"),
        ({"SH_BOARD_MARK_PIN": 2}, r"pin 2 is the console's"),
        ({"SH_BOARD_MARK_LED": 2}, r"needs SH_BOARD_MARK_GPIO, SH_BOARD_MARK_ENR, SH_BOARD_MARK_PIN"),
    ):
        manifest = json.loads((BOARDS / "nucleo-f411re.json").read_text())
        manifest["shoehorn"]["mark"]["defines"] |= change
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(manifest))
        with pytest.raises(BoardError, match=message):
            load_board(path)


def test_a_family_without_marks_refuses_one(tmp_path: Path):
    manifest = json.loads((BOARDS / "mps2-an386.json").read_text())
    manifest["shoehorn"]["mark"] = {"pin": "LED"}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(manifest))

    assert families()["mps"].mark is None
    with pytest.raises(BoardError, match=r"shoehorn\.mark: firmware of family mps has no mark; leave it out"):
        load_board(path)


def test_a_board_without_a_mark_is_one_line(gen: Gen, tmp_path: Path):
    result = gen("firmware", "--board", "mps2-an386", "--energy", "marks", "--out", tmp_path / "made")

    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert "board 'mps2-an386' has no mark, the pin that --energy marks needs" in line
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("mode", ["marks", "mlperf"])
def test_only_firmware_that_is_asked_for_it_has_a_mark(gen: Gen, digits_project: Path, mode: str, tmp_path: Path):
    assert gen("firmware", "--board", "native", "--energy", mode, "--out", tmp_path / "made").exit_code == 0

    def texts(folder: Path) -> dict[str, str]:
        names = ("src/app_config.h", "lib/board/board_config.h", "lib/digits/src/digits.c")
        return {name: (folder / name).read_text() for name in names}

    plain, made = texts(digits_project), texts(tmp_path / "made")
    assert not (digits_project / "lib/board/mark.c").exists()
    assert (tmp_path / "made/lib/board/mark.c").exists()
    assert "SH_APP_ENERGY" not in plain["src/app_config.h"]
    assert ("SH_BOARD_BAUD 9600" in made["lib/board/board_config.h"]) == (mode == "mlperf")
    assert (made["lib/digits/src/digits.c"] == plain["lib/digits/src/digits.c"]) == (mode == "mlperf")
    assert json.loads((tmp_path / "made/report.json").read_text())["energy_mode"] == mode


def test_a_whole_image_in_mlperf_s_energy_mode_answers_its_runner(gen: Gen, tmp_path: Path):
    """The board that MLPerf measures, on a bare core: its mark, the slow LPUART, and the protocol without times."""
    pytest.importorskip("unicorn", reason="unicorn is not installed")
    folder = tmp_path / "made"
    assert gen("firmware", "--board", "nucleo-l4r5zi", "--energy", "mlperf", "--out", folder).exit_code == 0
    project = Project.open(folder)
    build(project)

    with emulate(project) as machine:
        runner = Runner.running(machine.url)
        assert runner.ask("timestamp") == []
        assert runner.load(bytes(64)) == ["m-load-done"]
        said = runner.ask("infer 2 1")
    assert said[:-1] == ["m-warmup-start-1", "m-warmup-done", "m-infer-start-2", "m-infer-done"]
    validated = gen("validate", folder, "--emulate", "--count", 2)
    assert "every byte of every op equal" in validated.stdout


def test_no_hook_is_called_where_nothing_is_traced_or_the_whole_inference_is_marked(marked: Path, tmp_path: Path):
    """Modes OFF, TIME, CRC and MARK, and after the end: hooks that collect nothing would only take time."""
    program, places = tmp_path / "trace", [f"-I{marked.parent}", f"-I{APP}"]
    compile_c([APP / "trace.c", APP / "crc.c", C / "trace_test.c"], program, HOST, *SANITIZERS, *places)
    said = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout

    assert said.split() == ["01110", "01100"]


def test_a_wait_ends_where_the_clock_stands_still(marked: Path, tmp_path: Path):
    program, places = tmp_path / "energy", [f"-I{marked.parent}", f"-I{APP}", f"-I{tmp_path}"]
    (tmp_path / "board_config.h").write_text("#define SH_BOARD_TICK_HZ 1000000u\n")
    compile_c([APP / "energy.c", C / "energy_test.c"], program, HOST, *SANITIZERS, *places)

    assert subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout == "2\n"
