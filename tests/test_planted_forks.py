"""Faults in forks: whose code is swapped, which need a process of their own, and what a whole small project says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import planted_forks
import pytest
from planted_forks import Answer, Forks, changes, forked, swap

TEXT = """
import functools

LIMIT = 3

class Box:
    side = 2

    def area(self, factor=1):
        return self.side * factor

def outer(a):
    def inner(b):
        return a + b
    return inner

@functools.cache
def cached(a):
    return [each - 1 for each in range(a)]
"""


def _functions(text: str) -> dict[str, FunctionType]:
    """The functions of a module, also those that others wrap or made."""
    space: dict[str, object] = {"__name__": "boxes"}
    exec(compile(text, "boxes.py", "exec"), space)
    found = {"area": vars(space["Box"])["area"], "outer": space["outer"]}
    return {**found, "inner": space["outer"](2), "cached": vars(space["cached"])["__wrapped__"]}  # type: ignore[operator]


@pytest.mark.parametrize(
    ("old", "new", "changed", "values"),
    [
        ("side * factor", "side + factor", ["area"], (3, 5, [-1, 0])),
        ("a + b", "a - b", ["inner", "outer"], (2, -1, [-1, 0])),
        ("each - 1", "each + 1", ["cached"], (2, 5, [1, 2])),
    ],
)
def test_functions_get_their_new_code(old: str, new: str, changed: list[str], values: tuple[object, ...]) -> None:
    """Also a nested one that lives already, a method, and one behind a decorator."""
    live = _functions(TEXT)
    found = changes("boxes.py", TEXT, TEXT.replace(old, new))

    assert found is not None
    box = type("Box", (), {"side": 2, "area": live["area"]})()
    assert swap(live.values(), found) == len(changed)
    assert sorted(name for name, each in live.items() if each.__code__ in found.values()) == changed
    assert (box.area(), live["inner"](3), live["cached"](2)) == values
    assert live["outer"](2)(3) == values[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("side = 2", "side = 3"),
        ("factor=1", "factor=2"),
        ("functools.cache", "functools.cached_property"),
        ("    return inner", "    return lambda b: 0"),  # another number of functions
    ],
)
def test_a_fault_in_what_has_run_already_needs_a_process_of_its_own(old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    assert changes("boxes.py", TEXT, TEXT.replace(old, new)) is None


def test_no_change_changes_no_function() -> None:
    assert changes("boxes.py", TEXT, TEXT) == {}


def test_a_child_answers_dies_or_is_late() -> None:
    kept = Path(os.environ.get("TMPDIR", "/tmp"))

    assert forked(lambda: Answer(False, str(os.environ["TMPDIR"] != str(kept)), "x"), 30).why == "True"
    assert forked(lambda: os._exit(0), 30).why == "the process died"
    assert forked(lambda: {}[1], 30).why == "KeyError: 1"  # type: ignore[misc]
    slow = forked(lambda: time.sleep(60), 0.1)  # type: ignore[arg-type, return-value, func-returns-value]
    assert (slow.passed, slow.late, slow.why) == (False, True, "took over 0 s")
    assert 0.1 <= slow.seconds < 30


FILE = "shoehorn_mcu/boxes.py"
TESTS = """
from shoehorn_mcu import boxes

AT_ONCE = boxes.outer(1)(1)

def test_area(): assert boxes.Box().area() == 2
def test_cached(tmp_path): assert boxes.cached(2) == [-1, 0]
def test_broken(): assert not boxes
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """A project of one module and three tests."""
    root = tmp_path_factory.mktemp("project")
    for name in planted_forks._PACKAGES:
        (root / name).mkdir()
        (root / name / "__init__.py").touch()
    (root / FILE).write_text(TEXT)
    (root / "tests").mkdir()
    (root / "tests/test_boxes.py").write_text(TESTS)
    here = str(Path(planted_forks.__file__).parent)
    made = Forks(root, {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), here])})
    yield made
    made.close()


def test_tests_in_forks_notice_a_fault_each_for_itself(forks: Forks) -> None:
    names = list(forks.present)
    first, second, broken = names
    wrong = TEXT.replace("each - 1", "each + 1")

    assert first == "tests/test_boxes.py::test_area"
    assert forks.takes(FILE, TEXT, wrong)
    noticed = forks.answer(FILE, TEXT, wrong, names, 60)
    assert (noticed.passed, noticed.test, noticed.late) == (False, second, False)
    assert "assert [1, 2] == [-1, 0]" in noticed.why
    assert forks.answer(FILE, TEXT, wrong, [first], 60).passed
    assert forks.answer(FILE, TEXT, TEXT, [first, second], 60).passed
    assert forks.answer(FILE, TEXT, TEXT, names, 60).test == broken


def test_a_function_that_was_called_while_tests_were_collected_needs_a_process_of_its_own(forks: Forks) -> None:
    assert not forks.takes(FILE, TEXT, TEXT.replace("a + b", "a - b"))
    assert not forks.takes(FILE, TEXT, TEXT.replace("LIMIT = 3", "LIMIT = 4"))
    assert not forks.takes(FILE, TEXT, TEXT.replace("a + b", "a + + )"))
