"""The tool that plants faults: what it plants, where, and that it begins with the unmodified project."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import plant_faults
import pytest
from plant_faults import AREAS, ROOT, Broken, Fault, chosen, faults_of, python_faults, run, summary
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
        "if False and a < 1 or not b and c:",
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


class Project:
    """In place of a copy of the project: it notices the word `fault` in its one file, or is broken from the start."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.file = folder / "file.py"
        self.file.write_text("x = 1\ny = 2\n")
        self.runs: list[tuple[str, list[str]]] = []
        PROJECTS.append(self)

    def passes(self, tests: list[str], jobs: int) -> tuple[bool, str]:
        text = self.file.read_text()
        self.runs.append((text, tests))
        return not BROKEN and "fault" not in text, "a test says no"


PROJECTS: list[Project] = []
BROKEN: list[bool] = []
FAULTS = [Fault("check", "file.py", 1, 4, "1", "fault"), Fault("cores", "file.py", 2, 4, "2", "3")]


@pytest.fixture(autouse=True)
def _project(monkeypatch: pytest.MonkeyPatch) -> None:
    PROJECTS.clear()
    BROKEN.clear()
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
