"""CPU time of the tests: which tests, modules and programs the suite's time goes to.

    python -m bench.suite [--most 40] [ARGUMENT OF PYTEST ...]

Runs the suite as `make test` does, and prints CPU seconds, which do not depend on what else the machine does: of each
worker's start and collection, of the costliest tests and modules, and of the programs that tests started. A test's time
is that of its worker while it ran, with its fixtures, and of the processes below it: those that ended, and, on Linux,
those that live on for other tests. A program's time is counted where the worker itself waits for its end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from weakref import WeakSet

import pytest

_FOLDER = "SHOEHORN_SUITE_FOLDER"
_TICK = os.sysconf("SC_CLK_TCK")


def _own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _of_ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _of_living(pid: int) -> float:
    """Of a process that may still run, and of those that it waited for; 0 where no file tells of it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICK


class _Recorder:
    """The plugin of one process of pytest: a line for each test, and one for what was before the first."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._started = False
        self._programs: Counter[str] = Counter()
        self._processes: WeakSet[subprocess.Popen[bytes]] = WeakSet()
        subprocess.Popen._try_wait = lambda process, flags: self._waiting(process, flags)  # type: ignore[attr-defined]
        handles = subprocess.Popen._get_handles  # type: ignore[attr-defined]

        def starting(process: subprocess.Popen[bytes], *streams: object) -> object:
            """What subprocess calls before it starts a process."""
            self._processes.add(process)
            return handles(process, *streams)

        subprocess.Popen._get_handles = starting  # type: ignore[attr-defined]

    def _waiting(self, process: subprocess.Popen[bytes], flags: int) -> tuple[int, int]:
        """What subprocess has in place of this, and the time of the ended process by its program's name."""
        try:
            pid, status, used = os.wait4(process.pid, flags)
        except ChildProcessError:
            return process.pid, 0
        if pid:
            self._programs[_program(process.args)] += used.ru_utime + used.ru_stime
        return pid, status

    def _children(self) -> float:
        """Of the processes below this one that ended, and of those that live on for other tests."""
        return _of_ended() + sum(_of_living(each.pid) for each in self._processes if each.returncode is None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if not self._started:
            self._write("start and collection", _own(), self._children())
            self._started = True
        before = _own(), self._children()
        self._programs.clear()
        told = yield
        self._write(item.nodeid, _own() - before[0], self._children() - before[1])
        return told

    def _write(self, name: str, own: float, children: float) -> None:
        line = {"test": name, "own": own, "children": children, "programs": self._programs}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _program(arguments: object) -> str:
    words = [str(each) for each in arguments] if isinstance(arguments, Sequence) else [str(arguments)]
    name = Path(words[0]).name
    return f"{name} {words[1]} {words[2]}" if name.startswith("python") and words[1:2] == ["-m"] else name


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(_FOLDER)
    if folder and not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        return  # the one that hands out tests runs none
    if folder:
        config.pluginmanager.register(_Recorder(Path(folder) / f"{os.getpid()}.jsonl"))


def _table(title: str, seconds: Mapping[str, float], most: int) -> str:
    rows = sorted(seconds.items(), key=lambda item: -item[1])[:most]
    return "\n".join((f"{title}:", *(f"{cpu:8.1f}  {name}" for name, cpu in rows), ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=40, metavar="N", help="rows of each table")
    options, arguments = parser.parse_known_args()
    command = [sys.executable, "-m", "pytest", "-p", "bench.suite", "-n", "auto", "--dist", "worksteal", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, env={**os.environ, _FOLDER: folder}, check=False)
        rows = [json.loads(line) for path in Path(folder).iterdir() for line in path.read_text().splitlines()]
    tests: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    programs: Counter[str] = Counter()
    for row in rows:
        seconds = row["own"] + row["children"]
        tests[row["test"]] += seconds
        modules[row["test"].partition("::")[0]] += seconds
        programs.update({"this process": row["own"], **row["programs"]})
    print(_table("tests", tests, options.most))
    print(_table("modules", modules, options.most))
    print(_table("programs, with what they start", programs, options.most))
    print(f"{sum(tests.values()):.0f} CPU seconds of {len(tests)} tests")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
