"""Tries faults in Python in forks of one process that has collected the fast suite: seconds a fault, not a minute.

`Forks` starts pytest in a copy of the project with this module as a plugin. It collects all tests once and then, for
each fault, forks a child that gives the functions of the changed file their new code objects and runs the tests it is
told to. The changed file is on the disk meanwhile, so what such a test starts imports the fault itself.

A fault has to be tried in a process of its own (`Forks.takes` is false) where code that has run already would be
another one: at module level, in a class's body, in a decorator or a default, and in a function that was called while
modules were imported and tests collected, because tables made by it stay as they are.
"""

from __future__ import annotations

import cProfile
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, Any

import pytest
from _pytest.runner import runtestprotocol

_PIPES = "SHOEHORN_FORKS"  # in the environment: the numbers of the two files that this plugin hears and answers by
_PACKAGES = ("shoehorn_mcu", "shoehorn_mcu_host")
Key = tuple[str, int, bytes, bytes]


@dataclass(frozen=True)
class Answer:
    """What a run of tests says."""

    passed: bool
    why: str = ""  # a line, where it did not pass
    test: str = ""  # the id of the test that failed, where it is known
    late: bool = False  # it took longer than it may
    seconds: float = 0.0


def key(code: CodeType) -> Key:
    """What tells a code object from all others of its file: its name, its place and its instructions."""
    return code.co_qualname, code.co_firstlineno, code.co_linetable, code.co_code


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside it, from the outside to the inside."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes(each)


def changes(path: str, before: str, after: str) -> dict[Key, CodeType] | None:
    """The new code of each function of a file that a fault changes, by the key of the old one.

    None: the fault changes what runs when the module is imported. A function around a changed one changes, too: calls
    of it make the new one. SyntaxError where `after` is no Python.
    """
    old, new = (list(codes(compile(text, path, "exec", dont_inherit=True))) for text in (before, after))
    if len(old) != len(new):
        return None
    found = {}
    for was, now in zip(old, new, strict=True):
        if _alone(was) != _alone(now) and not was.co_flags & CO_NEWLOCALS:
            return None
        if was.co_flags & CO_NEWLOCALS and was != now:
            found[key(was)] = now
    return found


def _alone(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without what the ones inside it do."""
    constants = [(type(each), repr(each)) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def swap(functions: Iterable[FunctionType], changed: Mapping[Key, CodeType]) -> int:
    """Gives functions their new code; how many there were. ValueError where the variables around one are others."""
    count = 0
    for function in functions:
        if (new := changed.get(key(function.__code__))) is not None:
            function.__code__ = new
            count += 1
    return count


class Forks:
    """The process that has collected the tests, and the way to ask it; close it when it is not needed any more."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        (hears, asks), (told, tells) = os.pipe(), os.pipe()
        paths = os.pathsep.join([str(root / "tests"), environment.get("PYTHONPATH", "")])
        whole = {**environment, _PIPES: f"{hears} {tells}", "PYTHONPATH": paths}
        words = ["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "planted_forks", "tests"]
        self._process = subprocess.Popen(
            [sys.executable, *words],
            cwd=root,
            env=whole,
            pass_fds=(hears, tells),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        os.close(hears)
        os.close(tells)
        self._asks, self._told = os.fdopen(asks, "w"), os.fdopen(told)
        self.present: tuple[str, ...] = tuple(self._answer())
        """The ids of the fast suite's tests in their order."""

    def takes(self, path: str, before: str, after: str) -> bool:
        """Whether a fault in a file, given below the copy's root, can be tried in a fork."""
        return bool(self._ask({"path": path, "before": before, "after": after}))

    def answer(self, path: str, before: str, after: str, tests: Sequence[str], most: float) -> Answer:
        """What tests say of a change that this takes, within `most` seconds; the file holds `after` already."""
        asked = {"path": path, "before": before, "after": after, "tests": list(tests), "most": most}
        return Answer(**self._ask(asked))

    def close(self) -> None:
        self._asks.close()
        self._told.close()
        self._process.wait()

    def _ask(self, asked: Mapping[str, object]) -> Any:
        print(json.dumps(asked), file=self._asks, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        if not (row := self._told.readline()):
            raise SystemExit(f"plant_faults: the process that collects the tests ended with {self._process.wait()}")
        return json.loads(row)


class Server:
    """The plugin's side: what the process does in place of running the tests."""

    def __init__(self, root: Path, items: Sequence[pytest.Item], called: set[Key]) -> None:
        self._root = root
        self._items = {item.nodeid: item for item in items}
        self._called = called
        gc.unfreeze()  # what is frozen is not listed
        self._functions: dict[str, list[FunctionType]] = {}
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                self._functions.setdefault(each.__code__.co_filename, []).append(each)
        gc.collect()
        gc.freeze()

    def serve(self, heard: IO[str], answers: IO[str]) -> None:
        """Answers until the other side closes."""
        print(json.dumps(list(self._items)), file=answers, flush=True)
        for row in heard:
            asked = json.loads(row)
            path, before, after = (str(asked[name]) for name in ("path", "before", "after"))
            said: object = self._answer(asked) if "tests" in asked else self.takes(path, before, after)
            print(json.dumps(said), file=answers, flush=True)

    def takes(self, path: str, before: str, after: str) -> bool:
        """Whether all that the change concerns has not run yet."""
        try:
            found = changes(str(self._root / path), before, after)
        except SyntaxError:
            return False
        return found is not None and self._called.isdisjoint(found)

    def _answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        full = str(self._root / asked["path"])
        found = changes(full, asked["before"], asked["after"])

        def work() -> Answer:
            swap(self._functions.get(full, ()), found or {})  # none where the module is not imported yet
            return self.run(asked["tests"])

        return asdict(forked(work, float(asked["most"])))

    def run(self, names: Sequence[str]) -> Answer:
        """Runs tests until one fails, those of a file together, because they share what they set up."""
        places: dict[str, int] = {}
        for name in names:
            places.setdefault(name.partition("::")[0], len(places))
        items = [self._items[name] for name in sorted(names, key=lambda name: places[name.partition("::")[0]])]
        for item, after in zip(items, [*items[1:], None], strict=False):  # no test has nothing after it
            for report in runtestprotocol(item, nextitem=after, log=False):
                if report.failed:
                    rows = str(report.longrepr).splitlines()
                    why = next((row for row in rows if row.startswith("E  ")), rows[-1] if rows else "")
                    return Answer(False, f"{item.nodeid} {why}"[:300], item.nodeid)
        return Answer(True)


def forked(work: Callable[[], Answer], most: float) -> Answer:
    """The answer of a child of this process. What the child started and left, and its temporary files, go with it."""
    begun = time.monotonic()
    reads, writes = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if (child := os.fork()) == 0:
            try:
                os.setpgid(0, 0)
                os.environ["TMPDIR"] = tempfile.tempdir = folder
                said = json.dumps(asdict(work()))
            except BaseException as error:
                said = json.dumps(asdict(Answer(False, f"{type(error).__name__}: {error}"[:300])))
            finally:
                os.write(writes, said.encode())
                os._exit(0)
        os.close(writes)
        heard = b""
        if select.select([reads], [], [], most)[0]:
            heard = os.read(reads, 1 << 16)
        late = not heard and time.monotonic() - begun >= most
        os.close(reads)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    seconds = round(time.monotonic() - begun, 1)
    if heard:
        return Answer(**{**json.loads(heard), "seconds": seconds})
    return Answer(False, f"took over {most:.0f} s" if late else "the process died", "", late, seconds)


_CALLS = cProfile.Profile()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Where this module is a plugin (`-p planted_forks`): from here on it keeps count of what is called."""
    _CALLS.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """In place of running the tests. All modules are imported before, which the children need not do then."""
    for name in _PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                try:
                    importlib.import_module(module.name)
                except ImportError:  # of an extra that is not installed
                    continue
    _CALLS.disable()
    called = {key(each.code) for each in _CALLS.getstats() if isinstance(each.code, CodeType)}
    capture = session.config.pluginmanager.getplugin("capturemanager")
    capture.suspend_global_capture(in_=True)
    hears, tells = map(int, os.environ.pop(_PIPES).split())
    with os.fdopen(hears) as heard, os.fdopen(tells, "w") as answers:
        Server(session.config.rootpath, session.items, called).serve(heard, answers)
    os._exit(0)
