"""`gen bench --energy`: against a simulated instrument and recordings whose energy is known, and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conftest import Gen
from toy import Toy

from shoehorn_mcu.base.paths import BOARDS, MODELS
from shoehorn_mcu.cli.energy import estimate_line, estimated
from shoehorn_mcu.machine.targets import BoardError, load_board
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.link import Mode
from shoehorn_mcu_host.energy import csv_file, instruments
from shoehorn_mcu_host.energy.figures import Measured, measured
from shoehorn_mcu_host.energy.instruments import INSTRUMENTS, Supply
from shoehorn_mcu_host.energy.recording import MARK, Recording, RecordingError
from shoehorn_mcu_host.energy.schedule import Phase, Schedule, drive
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project

STEP_US = 50  # between two samples of a made-up recording
VOLTS = 3.3
IDLE, RUNS = 500e-6, 50e-3  # amperes that the simulated kit's converter has exactly
PERIOD = 1e-5
PLAN = Toy().plan()
AMMETER = Supply(VOLTS)

ppk2lab = pytest.importorskip("ppk2lab", reason="ppk2lab is not installed")


def schedule(*phases: tuple[int | None, int, int, int]) -> Schedule:
    made = tuple(Phase(op=op, repeats=repeats, runs=runs, marks=marks) for op, repeats, runs, marks in phases)
    return Schedule(identity=PLAN.identity, phases=made)


def levels(*marks: int, low: int = 100) -> list[int]:
    """The level of each sample: marks of so many samples, with as many low ones around each."""
    found = [0] * low
    for each in marks:
        found += [1] * each + [0] * low
    return found


def recorded(marks: Sequence[int], period: float = PERIOD) -> Recording:
    high = np.array(marks, np.bool_)
    amps = np.where(high, RUNS, IDLE)
    return Recording("a recording", np.arange(len(high)) * period, amps, np.array([VOLTS]), {MARK: high})


# Figures


def test_a_schedule_is_made_from_the_least_of_several_times() -> None:
    """Of the inference, and of each op by the steps that it has; a mark lasts 10 ms or more."""
    hz, plain, timed = 1_000_000, iter([900, 400, 700]), iter([(80, 60), (50, 90), (70, 70)])
    asked: list[tuple[int | None, int]] = []

    def infer(inputs: object, outputs: object, mode: Mode, **rest: object) -> SimpleNamespace:
        if mode is Mode.PLAIN:
            return SimpleNamespace(ticks=next(plain), trace=())
        if mode is Mode.TIME:
            return SimpleNamespace(ticks=1, trace=next(timed))
        op, repeats = asked[-1]
        return SimpleNamespace(ticks=1, trace=tuple(repeats * (2 - i) if i == op else 0 for i in range(2)))

    link = SimpleNamespace(
        expect=lambda plan: None,
        hello=SimpleNamespace(tick_hz=hz),
        infer=infer,
        mark=lambda op, repeats: asked.append((op, repeats)),
        reset=lambda: None,
    )
    said: list[str] = []
    made = drive(cast(Any, link), PLAN, [np.zeros(PLAN.inputs[0].shape, np.int8)], 3, said.append)

    assert [phase.repeats for phase in made.phases] == [25, 400, 167]  # of 400, 50 / 2 and 60 us, to make 10 ms
    assert [(phase.op, phase.runs, phase.marks) for phase in made.phases] == [(None, 3, 1), (0, 3, 2), (1, 3, 1)]
    assert asked == [(phase.op, phase.repeats) for phase in made.phases]
    assert (made.identity, said) == (PLAN.identity, ["the whole inference", "triple", "sum"])


def test_energy_power_and_time_are_those_of_the_current_that_flowed():
    found = measured(recorded(levels(1000, 3000, 2000)), PLAN, schedule((None, 10, 3, 1)), "test").json()

    joules = [RUNS * VOLTS * samples * PERIOD / 10 for samples in (1000, 2000, 3000)]
    above = [(RUNS - IDLE) * VOLTS * samples * PERIOD / 10 for samples in (1000, 2000, 3000)]
    assert [found["gross"][key] for key in ("min", "median", "max")] == pytest.approx([1e6 * j for j in joules])
    assert [found["total"][key] for key in ("min", "median", "max")] == pytest.approx([1e6 * j for j in above])
    assert found["ms"] == {"min": 1.0, "median": 2.0, "max": 3.0}
    assert found["mw"] == pytest.approx(1e3 * RUNS * VOLTS)
    assert found["baseline"] == {"mw": pytest.approx(1e3 * IDLE * VOLTS), "samples": 275}
    assert (found["unit"], found["source"], found["rule"], found["runs"]) == ("uJ", "measured", "rectangle", 3)
    assert found["uncertain_percent"] == 0.1  # of a sample in 1,000


def test_the_steps_of_an_op_belong_to_one_inference():
    """Op 0 has two steps, op 1 has one; each step ran as often as the schedule says."""
    marks = levels(1000, 1000, *(100, 300) * 2, *(500, 700))
    found = measured(recorded(marks), PLAN, schedule((None, 1, 2, 1), (0, 100, 2, 2), (1, 50, 2, 1)), "test").json()

    triple, summed = found["ops"]
    assert triple["gross"]["median"] == pytest.approx(1e6 * RUNS * VOLTS * 400 * PERIOD / 100)
    assert summed["gross"]["max"] == pytest.approx(1e6 * RUNS * VOLTS * 700 * PERIOD / 50)
    assert (triple["name"], triple["samples"], triple["repeats"]) == ("triple", 400, 100)


def test_idle_is_not_what_is_low_while_other_ops_run():
    """Between the marks of an op the rest of the inference runs: those samples say nothing of an idle board."""
    found = recorded(levels(1000, 1000, 500))
    found.amps[-50:] = RUNS
    assert measured(found, PLAN, schedule((None, 1, 2, 1), (1, 1, 1, 1)), "t").idle_watts == pytest.approx(IDLE * VOLTS)


def test_nothing_is_subtracted_where_that_is_asked_for():
    found = measured(recorded(levels(1000)), PLAN, None, "test", subtract=False).json()

    assert found["total"] == found["gross"]
    assert found["baseline"] == {"mw": 0.0, "samples": 0}


# Recordings that do not say it


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (levels(), "0 marks, but the board made 2; is the pin connected?"),
        (levels(1000), "1 marks, but the board made 2; each must last some samples; was all of it recorded?"),
        (levels(1000, 9), "a mark of the whole inference has 9 samples at 100,000 a second, too short for 10; "),
        (levels(1000, 1000)[100:], "the recording begins while 'mark' is high; record from before the first mark"),
        (levels(1000, 1000)[:-100], "the recording ends while 'mark' is high; record from before the first mark"),
    ],
)
def test_marks_that_are_missing_or_too_short_are_one_line(marks: Sequence[int], message: str):
    with pytest.raises(RecordingError) as caught:
        measured(recorded(marks), PLAN, schedule((None, 1, 2, 1)), "test")

    assert str(caught.value).startswith(f"a recording: {message}")
    assert "\n" not in str(caught.value)


def test_samples_that_were_lost_during_a_mark_are_one_line():
    whole = recorded(levels(1000))
    kept = np.delete(np.arange(len(whole.seconds)), range(500, 520))
    cut = Recording("a kit", whole.seconds[kept], whole.amps[kept], whole.volts, {MARK: whole.marks[MARK][kept]})

    with pytest.raises(RecordingError, match=r"a kit: 20 samples were lost at 0\.004990 s, during a mark"):
        measured(cut, PLAN, None, "test")


# Files


def written(path: Path, head: str, rows: Sequence[Sequence[object]], delimiter: str = ",") -> Path:
    path.write_text("\n".join([head, *(delimiter.join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize(
    ("head", "seconds", "amps", "delimiter"),
    [
        ("time_s,current_a,mark", 1, 1, ","),
        ("Time (ms),Current (uA),Mark", 1e3, 1e6, ","),
        ("timestamp(us);current [mA];D0", 1e6, 1e3, ";"),
        ("# by an instrument\ntimeline_index,time_s,current_ua,d0", 1, 1e6, ","),
    ],
)
def test_a_file_is_read_in_the_units_of_its_header(
    tmp_path: Path, head: str, seconds: float, amps: float, delimiter: str
):
    rows: list[list[object]] = []
    for i, high in enumerate(levels(500, 500)):
        row: list[object] = [f"{i * PERIOD * seconds:.9g}", f"{(RUNS if high else IDLE) * amps:.9g}", high]
        rows.append([i, *row] if "index" in head else row)
    if delimiter == ";":
        rows = [[str(cell).replace(".", ",") for cell in row] for row in rows]
    found = measured(csv_file.read(written(tmp_path / "a.csv", head, rows, delimiter), VOLTS), PLAN, None, "csv")

    assert found.whole.joules == pytest.approx([RUNS * VOLTS * 500 * PERIOD] * 2)


def test_a_file_may_have_the_voltage_and_a_column_for_each_op(tmp_path: Path):
    op = levels(200, 200, 200, 200, low=50)
    rows = [[i * 10, RUNS * 1e3, 3000, high, op[i] if i < len(op) else 0] for i, high in enumerate(levels(1000, 1000))]
    path = written(tmp_path / "a.csv", "time_us,current_ma,voltage_mv,mark,triple", rows)
    found = measured(csv_file.read(path, None, ["triple", "sum"]), PLAN, None, "csv")

    ((name, _, part),) = found.ops
    assert name == "triple"
    assert part.joules == pytest.approx([RUNS * 3.0 * 400 * PERIOD] * 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("0,0.1,0\n1,0.1,1\n", "has no header, its first line has only numbers; name the columns, such as: time_s"),
        ("time_s,amps,mark\n", "no column is the current; the header has 'time_s, amps, mark'"),
        ("time_s,current,mark\n", "column 'current' needs its unit, one of a, ma, ua, na"),
        ("time_s,current_ma,pin\n", "no column is a mark; the header has 'time_s, current_ma, pin'"),
        ("time_s,current_ma,mark\n0,1\n", "line 2 has 2 of 3 columns; is the file cut off?"),
        ("time_s,current_ma,mark\n0,1,0\n1,OVL,0\n", "line 3: current 'OVL' is refused: the instrument's range "),
        ("time_s,current_ma,mark\n0,inf,0\n", "line 2: current 'inf' is refused: the instrument's range overflowed"),
        ("time_s,current_ma,mark\n0,1,x\n", "line 2: mark 'x' is neither 0 nor 1"),
        ("time_s,current_ma,mark\n1,1,0\n0,1,0\n", "line 3: time does not grow; lines must be in the order of time"),
        ("time_s,current_ma,mark\n1,1,0\n", "1 samples are too few; record while the board runs"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, text: str, message: str):
    path = tmp_path / "a.csv"
    path.write_text(text)

    with pytest.raises(HostError) as caught:
        measured(csv_file.read(path, VOLTS), PLAN, None, "csv")
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_recording_is_kept_as_a_file_that_reads_back(tmp_path: Path):
    path = tmp_path / "kept.csv"
    path.write_text(recorded(levels(500)).csv())
    again = csv_file.read(path, None)

    assert measured(again, PLAN, None, "csv").whole.joules == pytest.approx([RUNS * VOLTS * 500 * PERIOD])


# The simulated Power Profiler Kit II


def kit(profile: object, supply: Supply = AMMETER, **simulated: Any) -> Any:
    from ppk2lab.transport.mock import SimulatedPPK2

    from shoehorn_mcu_host.energy.ppk2 import PpkTape

    device = SimulatedPPK2(profile=profile, **simulated)
    tape = PpkTape(ppk2lab.PPK2.open(simulator=device), supply)
    tape.simulated = device
    return tape


def profile(marks: Sequence[int], runs: float = RUNS, channel: int = 0) -> object:
    from ppk2lab.testing.profiles import ArrayProfile

    currents = [1e6 * (runs if high else IDLE) for high in marks]
    return ArrayProfile(currents, [high << channel for high in marks], default_current_ua=1e6 * IDLE)


def played(tape: Any, samples: int) -> Recording:
    """What the kit records until so many samples have come."""
    deadline = time.monotonic() + 60
    while tape.seconds < samples * PERIOD and time.monotonic() < deadline and not tape._fault:
        time.sleep(0.005)
    try:
        return tape.stop()
    finally:
        tape.close()


@pytest.mark.parametrize("supply", [Supply(VOLTS), Supply(VOLTS, feeds=True, channel=5)])
def test_the_energy_of_a_simulated_kit_is_exact(supply: Supply):
    """Whole inferences, an op in two steps, and an op that was repeated because it is shorter than a sample."""
    marks = levels(2500, 2500, 2500, *(1200, 400) * 2, *(800, 800))
    tape = kit(profile(marks, channel=supply.channel), supply)
    recording = played(tape, len(marks))
    asked = schedule((None, 2, 3, 1), (0, 25, 2, 2), (1, 4000, 2, 1))
    found: Measured = measured(recording, PLAN, asked, "ppk2")

    per_sample = RUNS * VOLTS * PERIOD
    idle = IDLE * VOLTS * PERIOD
    assert found.whole.joules == pytest.approx([per_sample * 2500 / 2] * 3, rel=1e-9)
    assert found.whole.net(found.idle_watts) == pytest.approx([(per_sample - idle) * 2500 / 2] * 3, rel=1e-9)
    triple, summed = (part for _, _, part in found.ops)
    assert triple.joules == pytest.approx([per_sample * 1600 / 25] * 2, rel=1e-9)
    assert summed.seconds == pytest.approx([800 * PERIOD / 4000] * 2)  # 2 us: a fifth of a sample
    assert summed.joules == pytest.approx([per_sample * 800 / 4000] * 2, rel=1e-9)
    assert tape.simulated.dut_power
    assert int(tape.simulated.mode) == (2 if supply.feeds else 1)
    assert not supply.feeds or tape.simulated.vdd_mv == 3300


def test_a_kit_that_is_unplugged_in_the_middle_is_one_line_and_what_it_recorded_is_kept():
    tape = kit(profile(levels(2000, 2000)), rate_limit_hz=100_000)
    while tape.seconds < 0.01:
        time.sleep(0.001)
    tape.simulated.unplug()

    with pytest.raises(RecordingError, match=r"^PPK2: lost after 0\.\d+ s: .*unplugged; is it still plugged in\?$"):
        played(tape, 10**6)
    assert tape.so_far().seconds[-1] >= 0.009


def test_a_current_beyond_the_kit_s_ranges_is_one_line():
    with pytest.raises(RecordingError, match=r"^PPK2: the current is beyond its largest range, 1 A, at 0\.001000 s$"):
        played(kit(profile(levels(1000), runs=1.5)), 1000)


def test_samples_that_the_kit_lost_are_noticed():
    tape = kit(profile(levels(2000)), gaps={700: 20})
    with pytest.raises(RecordingError, match=r"20 samples were lost at 0\.006990 s, during a mark"):
        measured(played(tape, 2100), PLAN, None, "ppk2")


def test_a_kit_needs_the_voltage():
    with pytest.raises(HostError, match=r"--energy ppk2 needs --voltage"):
        instruments.start("ppk2", Supply())


def test_an_instrument_whose_package_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(instruments.importlib.util, "find_spec", lambda _: None)
    for name, row in INSTRUMENTS.items():
        if row.package:
            with pytest.raises(HostError, match=f"--energy {name} needs the package {row.package}: pip install"):
                instruments.start(name, Supply(VOLTS))


# A Joulescope, as its package shows it


class FakeJoulescope:
    """The part of joulescope.v1.device.Device that is used."""

    sampling_frequency = 100_000

    def __init__(self, marks: Sequence[int], message: str = ""):
        self.parameters: dict[str, object] = {}
        self.stream_buffer = self
        self._marks, self._message = marks, message
        self.sample_id_range = (0, len(marks))

    def open(self) -> None: ...

    def close(self) -> None: ...

    def parameter_set(self, name: str, value: object) -> None:
        self.parameters[name] = value

    def start(self, stop_fn: Any) -> None:
        self._stop = stop_fn

    def stop(self) -> None:
        if self._message:
            self._stop(1, self._message)

    def samples_get(self, start: int, stop: int, fields: Sequence[str]) -> dict[str, Any]:
        high = np.array(self._marks[start:stop], np.float32)
        values = {"current": np.where(high > 0, RUNS, IDLE), "voltage": np.full(len(high), VOLTS), fields[2]: high}
        return {"signals": {name: {"value": values[name], "units": ""} for name in fields}}


def test_a_joulescope_measures_the_voltage_too():
    from shoehorn_mcu_host.energy.joulescope import JoulescopeTape

    device = FakeJoulescope(levels(2000, 2000))
    found = measured(JoulescopeTape(device, Supply(channel=1)).stop(), PLAN, None, "joulescope")

    assert found.whole.joules == pytest.approx([RUNS * VOLTS * 2000 * PERIOD] * 2, rel=1e-6)
    assert device.parameters["voltage_lsb"] == "gpi1"


def test_a_joulescope_that_is_unplugged_is_one_line():
    from shoehorn_mcu_host.energy.joulescope import JoulescopeTape

    with pytest.raises(RecordingError, match=r"^Joulescope: lost: device removed; is it still plugged in\?$"):
        JoulescopeTape(FakeJoulescope(levels(100), "device removed"), Supply()).stop()


@pytest.mark.parametrize(("periods", "fits"), [(98.5, False), (99.5, True)])
def test_a_recording_that_fills_the_joulescope_s_buffer_is_refused(
    periods: float, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 samples the first and the last are 99 periods apart; 99 % of the buffer may be used."""
    from shoehorn_mcu_host.energy import joulescope

    monkeypatch.setattr(joulescope, "_LONGEST", periods * PERIOD / 0.99)
    tape = joulescope.JoulescopeTape(FakeJoulescope([0] * 100), Supply())

    if fits:
        assert len(tape.stop().seconds) == 100
    else:
        with pytest.raises(RecordingError, match=r"^Joulescope: more than .* s; ask for fewer --runs$"):
            tape.stop()


# The command, with the board `native`


@pytest.fixture(scope="module")
def marked(gen: Gen, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("energy") / "digits"
    assert gen("firmware", "--board", "native", "--energy", "marks", "--out", folder).exit_code == 0
    return folder


def sampled(path: Path) -> list[int]:
    """The level of the board's mark, each STEP_US."""
    made = [line.split() for line in path.read_text().splitlines()]
    begun = int(made[0][0])
    found: list[int] = []
    level = 0
    for at, following in made:
        found += [level] * ((int(at) - begun) // (1000 * STEP_US) - len(found))
        level = int(following)
    return found + [0] * 100


@pytest.fixture(scope="module")
def run_of(gen: Gen, marked: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """The levels while the board made its marks, which are listed in the folder."""
    marks = tmp_path_factory.mktemp("marks") / "marks.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SH_BOARD_MARKS", str(marks))
        result = gen("bench", marked, "--energy", "csv", "--runs", 2)
    assert result.exit_code == 0, result.output
    yield sampled(marks)


def test_a_recording_of_another_instrument_gives_the_table(gen: Gen, marked: Path, run_of: list[int], tmp_path: Path):
    rows = [[i * STEP_US, 50 if high else 0.5, high] for i, high in enumerate(run_of)]
    path = written(tmp_path / "a.csv", "time_us,current_ma,mark", rows)
    result = gen("bench", marked, "--energy", "csv", "--energy-file", path, "--voltage", VOLTS, "--json")
    found = json.loads(result.stdout)["energy"]

    phases = json.loads((marked / ".pio" / "energy-marks.json").read_text())["phases"]
    assert [op["repeats"] for op in found["ops"]] == [phase["repeats"] for phase in phases[1:]]
    assert found["runs"] == 2
    for part in (found, *found["ops"]):
        assert part["mw"] == pytest.approx(165.0)
        assert part["gross"]["median"] == pytest.approx(165.0 * part["ms"]["median"])
    assert found["total"]["median"] == pytest.approx(163.35 * found["ms"]["median"], rel=1e-6)
    shown = gen("bench", marked, "--energy", "csv", "--energy-file", path, "--voltage", VOLTS).stdout
    assert "uJ above idle" in shown
    assert "165.000" in shown


def test_another_run_s_figures_are_shown_beside(gen: Gen, marked: Path, run_of: list[int], tmp_path: Path):
    """As of the slowest kernels: the same marks at twice the current."""
    files = []
    for name, milliamperes in (("chosen", 50), ("slowest", 100)):
        rows = [[i * STEP_US, milliamperes if high else 0.5, high] for i, high in enumerate(run_of)]
        files.append(written(tmp_path / f"{name}.csv", "time_us,current_ma,mark", rows))
    energy = ("bench", marked, "--energy", "csv", "--voltage", VOLTS, "--energy-file")
    (tmp_path / "slowest.json").write_text(gen(*energy, files[1], "--json").stdout)
    shown = gen(*energy, files[0], "--energy-beside", tmp_path / "slowest.json").stdout

    table = shown.partition("beside slowest.json")[2].partition("energy:")[0]
    rows = [line.split() for line in table.splitlines() if line.strip()][1:]
    assert len(rows) == 17
    assert all(row[-1] == "2.00" for row in rows)


def test_a_run_without_current_has_no_ratio_beside_another(gen: Gen, marked: Path, run_of: list[int], tmp_path: Path):
    rows = [[i * STEP_US, 0, high] for i, high in enumerate(run_of)]
    path = written(tmp_path / "dead.csv", "time_us,current_ma,mark", rows)
    energy = ("bench", marked, "--energy", "csv", "--voltage", VOLTS, "--energy-file", path)
    (tmp_path / "other.json").write_text(gen(*energy, "--json").stdout)
    result = gen(*energy, "--energy-beside", tmp_path / "other.json")

    assert result.exit_code == 0, result.output
    assert "beside other.json" in result.stdout


@pytest.mark.parametrize("text", ["", "{}", '{"energy": {"ops": 1}}', '{"energy": {"ops": [], "ms": {"median": "x"}}}'])
def test_a_file_that_is_not_of_another_run_is_one_line(gen: Gen, marked: Path, tmp_path: Path, text: str):
    (tmp_path / "other.json").write_text(text)
    result = gen("bench", marked, "--energy", "csv", "--energy-beside", tmp_path / "other.json")

    assert result.exit_code == 1
    assert "other.json: is not what `gen bench --energy --json` prints" in result.stderr


def test_the_command_records_with_a_kit_while_the_board_works(
    gen: Gen, marked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The simulated kit plays the levels that the board made, once it has made all of them."""
    marks, kept = tmp_path / "marks.txt", tmp_path / "kept.csv"

    class Late:
        found: Recording

        def stop(self) -> Recording:
            made = sampled(marks)
            self.found = played(kit(profile(made)), len(made))
            return self.found

        def so_far(self) -> Recording:
            return self.found

        def close(self) -> None: ...

    monkeypatch.setenv("SH_BOARD_MARKS", str(marks))
    monkeypatch.setattr(instruments, "start", lambda *_: Late())
    monkeypatch.setattr("shoehorn_mcu.cli.bench.check_marked", lambda *_: None)  # native is as an emulator
    result = gen("bench", marked, "--energy", "ppk2", "--voltage", VOLTS, "--runs", 1, "--energy-file", kept, "--json")

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["unit"] == "us"  # the times are there too
    assert len(found["energy"]["ops"]) == len(found["ops"])
    assert found["energy"]["instrument"] == "ppk2"
    assert found["energy"]["mw"] == pytest.approx(165.0, rel=1e-6)
    assert kept.read_text().startswith("time_s,current_a,voltage_v,mark\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--voltage", 3.3), 2, "need --energy"),
        (("--energy", "csv", "--supply"), 2, "--supply is of --energy ppk2"),
        (("--energy", "ppk2", "--supply"), 2, "--supply needs --voltage"),
        (("--energy", "ppk2", "--voltage", 3.3), 1, "an emulator draws no current; connect the board"),
        (("--energy", "csv", "--energy-file", "/nowhere.csv"), 1, "/nowhere.csv: cannot be read"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    gen: Gen, marked: Path, arguments: Sequence[object], code: int, message: str
):
    result = gen("bench", marked, *map(str, arguments))

    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_firmware_without_marks_is_one_line(gen: Gen, digits_project: Path):
    result = gen("bench", digits_project, "--energy", "csv")

    assert result.exit_code == 1
    assert "this firmware makes no marks; write it with `gen firmware --energy marks` and flash it" in result.stderr


def test_a_list_of_marks_of_another_plan_or_that_is_damaged_is_one_line(gen: Gen, marked: Path, tmp_path: Path):
    path = written(tmp_path / "a.csv", "time_us,current_ma,mark", [[0, 1, 0], [10, 1, 0]])
    of_none = schedule((None, 1, 1, 1), (16, 1, 1, 1)).model_copy(
        update={"identity": Plan.of(Project.open(marked)).identity}
    )
    (marked / ".pio").mkdir(exist_ok=True)
    before = (
        (marked / ".pio" / "energy-marks.json").read_bytes()
        if (marked / ".pio" / "energy-marks.json").exists()
        else None
    )
    try:
        for text, message in (
            (schedule((None, 1, 1, 1)).model_dump_json(), "is of another plan"),
            ("{", "damaged: "),
            (of_none.model_dump_json(), "damaged: the plan has 16 ops"),
        ):
            (marked / ".pio" / "energy-marks.json").write_text(text)
            result = gen("bench", marked, "--energy", "csv", "--energy-file", path, "--voltage", 3)
            assert result.exit_code == 1
            assert message in result.stderr
    finally:
        (marked / ".pio" / "energy-marks.json").unlink()
        if before is not None:
            (marked / ".pio" / "energy-marks.json").write_bytes(before)


# Estimates


def test_an_estimate_is_the_data_sheet_s_current_and_says_so(gen: Gen, tmp_path: Path):
    result = gen("firmware", "--board", "microbit", "--out", tmp_path / "made", "--json")
    found = json.loads(result.stdout)

    cycles = found["plan"]["predicted_cycles"]
    assert found["energy_estimate"] == {
        "total": pytest.approx(4.4 * 3.0 * cycles / 16e6 * 1e3, abs=0.001),
        "unit": "uJ",
        "source": "estimate",
        "ma": 4.4,
        "volts": 3.0,
        "condition": "code from flash at 16 MHz, 275 uA/MHz",
        "data_sheet": "Nordic nRF51822 product specification, CPU",
    }
    shown = gen("plan", MODELS / "digits.tflite", "--board", "microbit").stdout.replace("\n", " ")
    assert "estimated, not measured: " in shown
    assert "from 4.4 mA at 3 V, code from flash at 16 MHz" in shown


def test_no_current_is_made_up_where_the_data_sheet_s_is_not_known(gen: Gen):
    found = json.loads(gen("plan", MODELS / "digits.tflite", "--board", "rpi-pico", "--json").stdout)

    assert "energy_estimate" not in found


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        ({"unit": "us", "cycles": None, "total": dict.fromkeys(("min", "median", "max"), 2000.0)}, 0.002),
        ({"unit": "instructions", "cycles": dict.fromkeys(("min", "median", "max"), 32000)}, 0.002),
        ({"unit": "instructions", "cycles": None}, None),
    ],
)
def test_bench_estimates_from_times_or_cycles_and_never_from_instructions(
    gen: Gen, tmp_path: Path, found: dict[str, Any], seconds: float | None
):
    assert gen("firmware", "--board", "microbit", "--out", tmp_path / "made").exit_code == 0
    ops = [{"name": "a", "median": 500.0, "cycles": 8000}]
    estimate = estimated(Project.open(tmp_path / "made"), {**found, "ops": ops})

    if seconds is None:
        assert estimate is None
        return
    assert estimate is not None
    assert estimate["total"]["median"] == pytest.approx(4.4 * 3.0 * seconds * 1e3)
    assert estimate["ops"] == [{"name": "a", "median": pytest.approx(4.4 * 3.0 * 0.0005 * 1e3)}]
    assert estimate["source"] == "estimate"
    assert "4.4 mA at 3 V" in estimate_line(estimate)


def test_a_current_needs_the_clock_at_which_it_is_drawn(tmp_path: Path):
    manifest = json.loads((BOARDS / "esp32c3-devkit.json").read_text())
    manifest["shoehorn"]["run_current"] = {"ma": 20, "volts": 3.3, "condition": "none", "source": "none"}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(manifest))

    with pytest.raises(BoardError, match="run_current needs core_hz, the clock at which the chip draws it"):
        load_board(path)
