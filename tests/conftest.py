"""Fixtures that several test modules share; session-wide ones are made once per worker."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import onnxruntime
import pio_server
import pytest
import started
from click.testing import CliRunner, Result
from tflite_writer import stacked_model

from shoehorn_mcu.cli.group import main
from shoehorn_mcu.planner.effort import BUDGET, PLACE
from shoehorn_mcu.planner.placement import place
from shoehorn_mcu_host.base import sandbox
from shoehorn_mcu_host.firmware import build
from shoehorn_mcu_host.firmware import objects as firmware_objects

gc.disable()  # until all tests are collected: what imports make stays

# A shell starts what runs in its background with Ctrl-C ignored, and that is inherited: tests that interrupt hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)

started.listen()

# Threads of ONNX Runtime spin after each inference, which takes cores from other tests.
_SESSION = onnxruntime.InferenceSession.__init__


def _with_one_thread(session: Any, model: Any, sess_options: Any = None, *others: Any, **named: Any) -> None:
    if sess_options is None:
        sess_options = onnxruntime.SessionOptions()
        sess_options.intra_op_num_threads = sess_options.inter_op_num_threads = 1
    _SESSION(session, model, sess_options, *others, **named)


onnxruntime.InferenceSession.__init__ = _with_one_thread

# Objects of firmware are compiled once for all tests (objects.py).
os.environ["PLATFORMIO_EXTRA_SCRIPTS"] = f"pre:{Path(__file__).with_name('pio_objects.py')}"

# PlatformIO is imported once for all builds of a process (pio_server.py).
_PIO_ENDED = build._ended
if pio_server.POSSIBLE:
    build._ended = pio_server.ended

# Most object files of a firmware are the same in other firmware: the functions of each are read once.
firmware_objects.code_of = lru_cache(1000)(firmware_objects.code_of)

# Orders of single rows are searched for a thirtieth of the time or less, and addresses for a fifteenth, but where a
# test asks for `full_effort`.
_ORDERS = {name: getattr(BUDGET, name) for name in ("LEAST_SECONDS", "MOST_SECONDS")}
_PLACES = {name: getattr(PLACE, name) for name in ("FIRST_WORK", "WORK", "SOME_WORK", "LOWERING_WORK")}
BUDGET.LEAST_SECONDS = BUDGET.MOST_SECONDS = 0.04
BUDGET.PATIENCE = 1_000_000  # a machine that stands still for a second ends no search
for _name, _work in _PLACES.items():
    setattr(PLACE, _name, _work // 15)


_KEPT = {
    "MALLOC_MMAP_THRESHOLD_": f"{1 << 28}",
    "MALLOC_TRIM_THRESHOLD_": f"{1 << 29}",
    "MALLOC_TOP_PAD_": f"{1 << 24}",
}
for _name in _KEPT:
    os.environ.pop(_name, None)  # what this process starts does not inherit it


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: at any time some wait for emulators and compilers."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_xdist_setupnodes() -> None:
    """Workers keep the memory that they free: most arrays of tests are small, and the next ones are as large."""
    os.environ.update(_KEPT)


def pytest_collection_finish() -> None:
    """From here on Python looks for garbage, among what is new, and less often than it would."""
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


def pytest_sessionfinish() -> None:
    """What is left dies with the process: pytest would look for garbage in it ten times."""
    gc.freeze()


Gen = Callable[..., Result]


@pytest.fixture(scope="session")
def gen() -> Gen:
    """Runs the command line in this process: `gen("boards", "--json")` -> exit_code, stdout, stderr."""

    def run(*arguments: str | Path) -> Result:
        return CliRunner().invoke(main, [str(each) for each in arguments], catch_exceptions=False)

    return run


@pytest.fixture(scope="session")
def stacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model whose curve of plans is found quickly."""
    path = tmp_path_factory.mktemp("stacked") / "stacked.tflite"
    path.write_bytes(stacked_model().bytes())
    return path


@pytest.fixture
def one_process() -> Iterator[None]:
    """Foreign files are read in this process, where a test can change how."""
    yield from _in_this_process()


@pytest.fixture(scope="module")
def module_in_one_process() -> Iterator[None]:
    """The same for a module of tests that read hundreds of small models of their own: a process for each takes longer
    than what it reads.
    """
    yield from _in_this_process()


def _in_this_process() -> Iterator[None]:
    def answer(task: str, head: object, data: bytes = b"", limits: object = None) -> tuple[Any, bytearray]:
        module, _, name = task.partition(":")
        told, pieces = getattr(importlib.import_module(module), name)(json.loads(json.dumps(head)), bytes(data))
        return json.loads(json.dumps(told)), bytearray(b"".join(pieces))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "answer", answer)
        yield


@pytest.fixture
def pio_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """PlatformIO is started as users start it."""
    monkeypatch.setattr(build, "_ended", _PIO_ENDED)


@pytest.fixture
def full_placement(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Addresses of rows are searched for as long as for users."""
    yield from _placed_with(_PLACES, monkeypatch)


@pytest.fixture
def full_effort(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plans are searched as long as for users: for tests of how good they are."""
    for name, seconds in _ORDERS.items():
        monkeypatch.setattr(BUDGET, name, seconds)
    yield from _placed_with(_PLACES, monkeypatch)


@pytest.fixture
def quick_placement(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Addresses of rows are searched for with little effort: for tests that ask for no smallest arena."""
    few = {"FIT_ROUNDS": 5, "RUNS": 90, "WORK": 20_000, "LOWERING_WORK": 20_000, "SEARCH": 0.02}
    yield from _placed_with(few, monkeypatch)


def _placed_with(efforts: Mapping[str, float], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Addresses that were found with another effort are forgotten, before a test and after it."""
    for name, effort in efforts.items():
        monkeypatch.setattr(PLACE, name, effort)
    remembered = (place._placed, place._tries)
    for each in remembered:
        each.cache_clear()
    yield
    for each in remembered:
        each.cache_clear()


@pytest.fixture(scope="session")
def digits_project(gen: Gen, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model's project folder for the board `native`, not built; copy it before changing it."""
    folder = tmp_path_factory.mktemp("projects") / "digits-native"
    result = gen("firmware", "--board", "native", "--out", folder)
    assert result.exit_code == 0, result.output
    return folder
