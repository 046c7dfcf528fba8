"""Which tests of the fast suite execute a line of Python: recorded by coverage.py, then asked for each planted fault.

The recording runs the whole fast suite in a copy of the project, in this process's environment, which needs coverage.py
(`.venv/bin/python -m pip install coverage`). Each test is a context of its own, also in the processes that it starts;
a process without rights to write files records nothing, so a line that only such processes execute has no tests here.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

_SETTINGS = """[run]
branch = False
source =
    {root}/generator/shoehorn_mcu
    {root}/host_tools/shoehorn_mcu_host
parallel = True
data_file = {data}
context = ${{PYTEST_CURRENT_TEST-}}
patch = subprocess
disable_warnings = no-data-collected,module-not-imported,couldnt-parse
"""
_ROUND_SECONDS = 120
_FIRST_SECONDS = 5
_SECONDS = {"call", "setup", "teardown"}


class Recorder:
    """A plugin of pytest: names the running test to coverage.py, and writes how long each test took."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        import coverage

        if (running := coverage.Coverage.current()) is not None:
            running.switch_context(item.nodeid)
        yield
        if running is not None:
            running.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if os.environ.get("PYTEST_XDIST_WORKER") is None and report.when in _SECONDS:
            with Path(os.environ["SHOEHORN_TIMES"]).open("a") as file:
                print(json.dumps([report.nodeid, report.duration, report.failed]), file=file)


def pytest_configure(config: pytest.Config) -> None:
    """Where this module is a plugin (`-p planted_lines`)."""
    config.pluginmanager.register(Recorder())


def record(root: Path, folder: Path, jobs: int, environment: dict[str, str]) -> str:
    """Runs the fast suite of the project in `root` and writes lines.json to `folder`; returns pytest's last line.

    lines.json has "tests", the ids with their seconds, "lines": path, then line, then numbers of tests, and "texts":
    what each file was. Tests that fail are left out: a few look at what Python has imported, and coverage.py is one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings, data, times = folder / "settings.ini", folder / "data", folder / "times.jsonl"
    settings.write_text(_SETTINGS.format(root=root, data=data))
    times.unlink(missing_ok=True)
    for left in folder.glob("data*"):
        left.unlink()
    paths = os.pathsep.join([str(root / "tests"), environment.get("PYTHONPATH", "")])
    whole = {**environment, "SHOEHORN_TIMES": str(times), "PYTHONPATH": paths}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "planted_lines", "-n", str(jobs)]
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", *words, "--dist", "worksteal", "tests"]
    done = subprocess.run(command, cwd=root, env=whole, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"plant_faults: the suite could not be recorded: {(done.stdout + done.stderr)[-1000:]}")
    combine = [sys.executable, "-m", "coverage", "combine", f"--rcfile={settings}", "--quiet"]
    subprocess.run(combine, cwd=root, env=environment, check=True, capture_output=True)
    (folder / "lines.json").write_text(json.dumps(_gathered(root, data, times)))
    return done.stdout.splitlines()[-1]


def _gathered(root: Path, data: Path, times: Path) -> dict[str, Any]:
    import coverage

    seconds: dict[str, float] = {}
    failed = set()
    for row in times.read_text().splitlines():
        name, taken, wrong = json.loads(row)
        seconds[name] = round(seconds.get(name, 0.0) + taken, 4)
        failed |= {name} if wrong else set()
    for name in failed:
        del seconds[name]
    number = {name: place for place, name in enumerate(seconds)}
    held = coverage.CoverageData(basename=str(data))
    held.read()
    lines: dict[str, dict[str, list[int]]] = {}
    texts = {}
    for file in filter(os.path.isfile, sorted(held.measured_files())):  # tests have made others up
        path = Path(file).relative_to(root).as_posix()
        texts[path] = Path(file).read_text()
        rows = lines[path] = {}
        for line, contexts in sorted(held.contexts_by_lineno(file).items()):
            # A started process's context is what pytest calls the running test: its id, then its phase in brackets.
            names = {context.rsplit(" (", 1)[0] for context in contexts}
            rows[str(line)] = sorted(number[name] for name in names if name in number)
    return {"tests": seconds, "lines": lines, "texts": texts}


def recorded_lines(before: str, now: str) -> dict[int, int]:
    """The number that each line of `now` had in `before`, where it stood there too; both count from 1."""
    same = difflib.SequenceMatcher(None, before.splitlines(), now.splitlines(), autojunk=False).get_matching_blocks()
    return {block.b + each + 1: block.a + each + 1 for block in same for each in range(block.size)}


class Lines:
    """A recording, asked for the tests of a line of the project in `root`.

    The project may have changed since: a line is looked for where it stands now, and a line that is new has no tests.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        told = json.loads((folder / "lines.json").read_text())
        self._root = root
        self._seconds: dict[str, float] = told["tests"]
        self._lines: dict[str, dict[str, list[int]]] = told["lines"]
        self._texts: dict[str, str] = told["texts"]
        self._names = list(self._seconds)
        self._moved: dict[str, dict[int, int]] = {}

    def tests_of(self, path: str, line: int) -> list[str]:
        """The tests that execute the line, the quickest first; none for a line of a file that is no Python."""
        if path not in self._texts:
            return []
        if path not in self._moved:
            self._moved[path] = recorded_lines(self._texts[path], (self._root / path).read_text())
        recorded = self._moved[path].get(line)
        found = [self._names[number] for number in self._lines[path].get(str(recorded), [])]
        return sorted(found, key=lambda name: self._seconds[name])

    def unknown(self, tests: Iterable[str]) -> list[str]:
        """Those of some tests that were not recorded, so that they may execute any line."""
        return [name for name in tests if name not in self._seconds]

    def seconds(self, test: str) -> float:
        """How long a test took; one second of a test that was not recorded."""
        return self._seconds.get(test, 1.0)

    def rounds(self, tests: list[str], most: float, quick: bool = False) -> Iterator[list[str]]:
        """These tests in order, in rounds of two minutes, as many as take `most` seconds together, and at least one.

        `quick`: the first round takes five seconds, and each other one four times as long as the one before.
        """
        taken, found = 0.0, []
        limit = _FIRST_SECONDS if quick else _ROUND_SECONDS
        for name in tests:
            if taken + self._seconds[name] > most and (found or taken):
                break
            taken += self._seconds[name]
            found.append(name)
            if sum(self._seconds[each] for each in found) > limit:
                yield found
                found, limit = [], min(_ROUND_SECONDS, 4 * limit)
        if found:
            yield found
