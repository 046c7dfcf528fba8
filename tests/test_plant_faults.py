"""The tool that plants faults: what it plants, where, and that it begins with the unmodified project."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import plant_faults
import pytest
from plant_faults import (
    AREAS,
    ROOT,
    Bench,
    Broken,
    Fault,
    _may_compile,
    _met,
    chosen,
    faults_of,
    python_faults,
    run,
    summary,
)
from planted_forks import Answer
from planted_lines import Lines

TEXT = "def f(a, b, c):\n    if a < 1 or not b and c:\n        return a + 1\n    return max(a, b)\n"


def test_either_side_of_an_or_and_of_an_and_loses_its_effect() -> None:
    found = {fault.apply(TEXT).splitlines()[1].strip() for fault in python_faults("area", "f.py", TEXT)}

    assert {
        "if (False and (a < 1)) or not b and c:",
        "if a < 1 or (False and (not b and c)):",
        "if a < 1 or (True or (not b)) and c:",
        "if a < 1 or not b and (True or (c)):",
        "if a < 1 and not b and c:",
        "if a <= 1 or not b and c:",
        "if False and (a < 1 or not b and c):",
    } <= found


def test_a_side_without_effect_changes_nothing_else() -> None:
    for text, sides in (("x = a or b\n", ("a", "b")), ("x = a and b\n", ("a", "b"))):
        for side in sides:
            (fault,) = (f for f in python_faults("area", "f.py", text) if f.old == side)
            for a in (False, True):
                for b in (False, True):
                    values = {"a": a, "b": b}
                    exec(fault.apply(text), values)
                    assert values["x"] is values[{"a": "b", "b": "a"}[side]]


def test_constants_in_capitals_are_left_alone() -> None:
    text = "_MOST = 3\n_LEFT, _RIGHT = 1, 2\nmost = 4\na, B = 5, 6\n"

    assert [fault.line for fault in python_faults("area", "f.py", text)] in ([3, 4, 4], [4, 4, 3])


@pytest.mark.parametrize("area", AREAS)
def test_every_area_has_files_faults_and_tests(area: str) -> None:
    found = faults_of(area)

    assert len(found) > 10
    for names in (AREAS[area].quick, AREAS[area].slow):
        assert all(list((ROOT / "tests").glob(f"{name}.py")) for name in names)
    assert not {fault.path for fault in found if not (ROOT / fault.path).is_file()}


def test_a_planted_fault_is_python_still() -> None:
    for fault in chosen(40, 3, ["check", "importers", "several", "quantisation", "tune"]):
        ast.parse(fault.apply((ROOT / fault.path).read_text()))


def test_the_seed_chooses_the_same_faults_where_others_go(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = ["tune", "cores"]
    before = chosen(6, 3, areas)
    first = before[0]
    monkeypatch.setattr(plant_faults, "faults_of", lambda area: [f for f in faults_of(area)[::-1] if f != first])
    after = chosen(6, 3, areas)

    assert [fault.area for fault in before] == areas * 3
    assert {(fault.path, fault.line) for fault in chosen(6, 4, areas)} != {(f.path, f.line) for f in before}
    assert len(set(before) & set(after)) == 5 or {first.line} == {fault.line for fault in set(after) - set(before)}
    assert [fault for fault in after if fault.area == "cores"] == [fault for fault in before if fault.area == "cores"]


def test_a_recording_finds_lines_where_they_stand_now(tmp_path: Path) -> None:
    told = {
        "tests": {"slow": 2.0, "fast": 1.0},
        "lines": {"f.py": {"2": [0, 1], "3": [0]}},
        "texts": {"f.py": "a\nb\nc\n"},
    }
    (tmp_path / "lines.json").write_text(json.dumps(told))
    (tmp_path / "f.py").write_text("new\na\nb\nd\nc\n")
    lines = Lines(tmp_path, tmp_path)

    assert [lines.tests_of("f.py", line) for line in range(1, 7)] == [[], [], ["fast", "slow"], [], ["slow"], []]
    assert lines.tests_of("g.c", 1) == []
    assert (lines.seconds("slow"), lines.seconds("new")) == (2.0, 1.0)
    assert lines.unknown(["new", "slow", "other"]) == ["new", "other"]


def test_rounds_of_tests_are_two_minutes_or_begin_small(tmp_path: Path) -> None:
    seconds = {"a": 3.0, "b": 3.0, "c": 10.0, "d": 11.0, "e": 90.0, "f": 70.0}
    (tmp_path / "lines.json").write_text(json.dumps({"tests": seconds, "lines": {}, "texts": {}}))
    lines, names = Lines(tmp_path, tmp_path), list(seconds)

    assert list(lines.rounds(names, 600)) == [["a", "b", "c", "d", "e", "f"]]
    assert list(lines.rounds(names, 600, quick=True)) == [["a", "b"], ["c", "d"], ["e"], ["f"]]
    assert list(lines.rounds(names, 16)) == [["a", "b", "c"]]
    assert list(lines.rounds(names[2:], 1)) == [["c"]]


class Project:
    """In place of a copy of the project: it notices the word `fault` in its one file, or is broken from the start."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.file = folder / "file.py"
        self.file.write_text("x = 1\ny = 2\n")
        self.runs: list[tuple[str, list[str]]] = []
        PROJECTS.append(self)

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)

    def passes(self, tests: list[str], jobs: int) -> Answer:
        text = self.file.read_text()
        self.runs.append((text, tests))
        late = LATE.get(text)
        passed = not late and not BROKEN and "fault" not in text
        return Answer(passed, "a test says no", late=bool(late), seconds=late or 40.0)


PROJECTS: list[Project] = []
BROKEN: list[bool] = []
LATE: dict[str, float] = {}
FAULTS = [Fault("check", "file.py", 1, 4, "1", "fault"), Fault("cores", "file.py", 2, 4, "2", "3")]


@pytest.fixture(autouse=True)
def _project(monkeypatch: pytest.MonkeyPatch) -> None:
    PROJECTS.clear()
    BROKEN.clear()
    LATE.clear()
    monkeypatch.setattr(plant_faults, "Copy", Project)
    monkeypatch.setattr(plant_faults, "_tests", lambda _, names: list(names))


def test_the_unmodified_project_runs_first_with_the_tests_of_all_areas(tmp_path: Path) -> None:
    rows = run(FAULTS, 1, tmp_path / "out", 1)

    (project,) = PROJECTS
    quick = [*AREAS["check"].quick, *AREAS["cores"].quick]
    assert project.runs[0] == ("x = 1\ny = 2\n", quick)
    assert [text for text, _ in project.runs[1:]] == ["x = fault\ny = 2\n", "x = 1\ny = 3\n"]
    assert [row["noticed"] for row in rows] == [True, False]


def test_where_the_unmodified_project_fails_no_fault_is_planted(tmp_path: Path) -> None:
    BROKEN.append(True)

    with pytest.raises(Broken, match="without a fault the tests fail: a test says no"):
        run(FAULTS, 1, tmp_path / "out", 2)

    (project,) = PROJECTS
    assert len(project.runs) == 1
    assert (tmp_path / "out").read_text() == ""


def test_what_was_noticed_is_not_tried_again_and_survivors_meet_the_other_tests(tmp_path: Path) -> None:
    run(FAULTS, 1, tmp_path / "out", 1)
    run(FAULTS, 1, tmp_path / "out", 2)
    run(FAULTS, 1, tmp_path / "out", 2)

    _, second, third = PROJECTS
    assert [tests for _, tests in second.runs[1:]] == [[*AREAS["cores"].slow]]
    assert third.runs == []


@pytest.mark.parametrize(("seconds", "noticed"), [(200.0, True), (100.0, False)])
def test_a_run_over_its_time_is_noticed_where_it_is_quick_without_the_fault(
    seconds: float, noticed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tests take 40 s without a fault."""
    LATE["x = 1\ny = 3\n"] = seconds

    (row,) = run(FAULTS[1:], 1, tmp_path / "out", 1)

    assert (row["noticed"], row["late"]) == (noticed, not noticed)
    assert capsys.readouterr().out.startswith("noticed " if noticed else "OVER ITS TIME")
    assert ("1 were over their time" in summary([row])[0]) != noticed


class FakeForks:
    """Three tests of an area; the last one fails always, the second one where the word `fault` is in the text."""

    present = ("tests/a.py::quick", "tests/a.py::slow", "tests/a.py::broken", "tests/b.py::other")

    def __init__(self, taken: bool = True) -> None:
        self.taken = taken
        self.asked: list[tuple[bool, list[str], float]] = []

    def takes(self, path: str, before: str, after: str) -> bool:
        return self.taken

    def answer(self, path: str, before: str, after: str, tests: list[str], most: float) -> Answer:
        self.asked.append((before != after, [name.partition("::")[2] for name in tests], most))
        failing = ["tests/a.py::broken", *(["tests/b.py::other"] if "fault" in after else [])]
        test = next((name for name in tests if name in failing), "")
        return Answer(not test, test, test)


def test_a_fault_meets_the_tests_of_its_line_then_those_of_its_area_without_broken_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        "tests": {"tests/a.py::quick": 1.0, "tests/a.py::slow": 30.0, "tests/a.py::broken": 2.0},
        "lines": {"file.py": {"1": [0, 1, 2], "2": [0]}},
        "texts": {"file.py": "x = 1\ny = 2\n"},
    }
    (tmp_path / "lines.json").write_text(json.dumps(told))
    (tmp_path / "project").mkdir()
    monkeypatch.setattr(plant_faults, "_rounds", lambda *_: (["tests/a.py"], ["tests/b.py"]))
    project = Project(tmp_path / "project")
    forks = FakeForks()
    bench = Bench(project, forks, {})  # type: ignore[arg-type]

    first, second = (_met(bench, fault, Lines(tmp_path, project.root), 600, 2)[0] for fault in FAULTS)

    assert (first.passed, first.test, second.passed) == (False, "tests/b.py::other", True)
    assert bench.sound == {"tests/a.py::broken": False, "tests/b.py::other": True}
    assert forks.asked[:4] == [
        (True, ["quick", "broken", "slow"], 60 + 10 * 33.0),
        (False, ["broken"], 60 + 10 * 2.0),
        (True, ["quick", "slow"], 60 + 10 * 31.0),
        (True, ["other"], 60 + 10 * 1.0),
    ]
    assert forks.asked[5:] == [(True, ["quick"], 70.0), (True, ["other"], 70.0), (True, ["slow"], 360.0)]
    assert project.file.read_text() == "x = 1\ny = 2\n"
    assert project.runs == []


def test_a_fault_that_forks_do_not_take_is_tried_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lines.json").write_text(json.dumps({"tests": {}, "lines": {}, "texts": {}}))
    (tmp_path / "project").mkdir()
    monkeypatch.setattr(plant_faults, "_rounds", lambda *_: (["tests/b.py"], ["tests/a.py"]))
    project = Project(tmp_path / "project")
    forks = FakeForks(taken=False)

    answer, _ = _met(Bench(project, forks, {}), FAULTS[0], Lines(tmp_path, project.root), 600, 1)  # type: ignore[arg-type]

    assert (answer.passed, answer.why, forks.asked) == (False, "a test says no", [])
    assert project.runs == [("x = fault\ny = 2\n", ["tests/b.py::other"])]


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("runtime_c/kernels/conv2d_s8/conv2d_s8_mve.inc", ["mps3-an547-False"]),
        ("runtime_c/kernels/conv2d_s8/conv2d_s8_neon_1x1.inc", ["rpi-zero-2w", "armv7"]),
        ("runtime_c/kernels/conv2d_s8/conv2d_s8_c.inc", ["mps2-an386"]),
        ("runtime_c/include/sh_mve.h", ["mps3-an547-False"]),
        ("runtime_c/include/sh_window.h", ["mps2-an386", "mps3-an547-False", "rpi-zero-2w", "armv7"]),
        ("generator/shoehorn_mcu/emit/unit.py", ["mps2-an386", "mps3-an547-False", "rpi-zero-2w", "armv7"]),
    ],
)
def test_a_kernel_meets_the_matrix_of_a_board_that_runs_it(path: str, runs: list[str]) -> None:
    matrix = "tests/test_kernel_matrix.py::test_x"
    tests = {name: f"{matrix}[{name}]" for name in ("mps2-an386", "mps3-an547-False", "rpi-zero-2w")}

    found = [
        name
        for name, test in {**tests, "armv7": "tests/test_neon_armv7.py::test_y"}.items()
        if _may_compile(test, path)
    ]
    assert found == runs
    assert _may_compile("tests/test_emit.py::test_z", path)


def test_a_change_that_is_known_as_equivalent_is_not_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plant_faults, "EQUIVALENTS", tmp_path / "listed.json")
    (tmp_path / "listed.json").write_text("[]")
    everything = faults_of("several")
    fault = everything[len(everything) // 2]
    row = (ROOT / fault.path).read_text().splitlines()[fault.line - 1]
    listed = [{"path": fault.path, "line": row.strip(), "becomes": fault.within(row).strip(), "why": "a test"}]
    (tmp_path / "listed.json").write_text(json.dumps(listed))

    left = faults_of("several")
    assert fault not in left
    assert set(left) < set(everything)


def test_the_summary_says_by_area_what_was_noticed_and_what_survived_which_tests() -> None:
    found = [("check", True, 1), ("check", False, 1), ("check", False, 2), ("cores", True, 2)]

    assert summary([{"area": area, "noticed": noticed, "depth": depth} for area, noticed, depth in found]) == [
        "check: 1 of 3 noticed, 1 survived its quick tests, 1 survived all its tests (equivalent or a hole: not known)",
        "cores: 1 of 1 noticed",
        "all: 2 of 4 noticed, 1 survived its quick tests, 1 survived all its tests (equivalent or a hole: not known)",
    ]


def test_the_list_of_equivalent_changes_says_why() -> None:
    listed = json.loads(plant_faults.EQUIVALENTS.read_text())

    assert all(set(each) == {"path", "line", "becomes", "why"} and len(each["why"]) > 20 for each in listed)
    assert all((ROOT / each["path"]).is_file() and each["line"] != each["becomes"] for each in listed)
