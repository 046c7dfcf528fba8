"""Errors go from one process to another, as a pool of processes needs it: whole, whatever they are made of."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import shoehorn_mcu
from shoehorn_mcu import PlanOptions
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.importers.fault import Refusal
from shoehorn_mcu.importers.source import EMPTY
from shoehorn_mcu.planner import DoesNotFit

# What an error is made of, by the names of its class's parameters.
EXAMPLES: dict[str, Any] = {
    "message": "a message",
    "need": "needs 1,234 bytes",
    "needed_bytes": 1234,
    "available_bytes": 1000,
    "peak": "the peak is step 1",
    "cures": ("a smaller model",),
    "models": (DoesNotFit("a: needs 2 bytes", 2, 1, cures=["b"]), DoesNotFit("c: needs 3 bytes", 3, 1)),
    "tensor": "a_tensor",
    "diagnosis": "a float model",
    "refusals": [Refusal("op 1", "RELU", "'y'", "because")] * 2,
    "source": EMPTY,
    "place": "a.tflite",
    "op": SimpleNamespace(name="an_op"),
    "why": "no reason",
    "plan": SimpleNamespace(arena_bytes=12),
    "whole": ("a", "b"),
    "by_rows": None,
    "report": {"sequence": [1, 2], "capacity": 1000},
}


@cache
def _kinds() -> tuple[type[ShoehornError], ...]:
    """All classes of errors that the package has, in modules that nothing else may have imported yet.

    Modules that need PyTorch are passed over where it is not installed.
    """
    for found in pkgutil.walk_packages(shoehorn_mcu.__path__, f"{shoehorn_mcu.__name__}."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as missing:
                if missing.name != "torch":
                    raise

    def below(base: type[ShoehornError]) -> Iterator[type[ShoehornError]]:
        yield base
        for kind in base.__subclasses__():
            yield from below(kind)

    return tuple(sorted({k for k in below(ShoehornError) if k.__module__.startswith("shoehorn_mcu")}, key=str))


def _made(kind: type[ShoehornError]) -> ShoehornError:
    _, *own = inspect.signature(kind.__init__).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in own):  # made as any exception is
        return kind("a message")
    return kind(**{each.name: EXAMPLES[each.name] for each in own})


def _raise(error: ShoehornError) -> NoReturn:
    raise error


def _same(error: ShoehornError, again: ShoehornError) -> None:
    assert type(again) is type(error)
    assert (str(again), again.args, again.kind) == (str(error), error.args, error.kind)
    assert vars(again).keys() == vars(error).keys()
    assert again.details(True) == error.details(True)
    assert again.facts == error.facts


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as made:
        yield made


def test_every_error_is_whole_after_pickle_and_after_a_pool_of_processes(pool: ProcessPoolExecutor):
    errors = [_made(kind) for kind in _kinds()]
    assert len(errors) > 40
    for error in errors:
        _same(error, pickle.loads(pickle.dumps(error)))
    for error in errors:
        with pytest.raises(type(error)) as caught:
            pool.submit(_raise, error).result(timeout=120)
        _same(error, caught.value)


def _plan(limit: int) -> int:
    return shoehorn_mcu.plan(MODELS / "digits.tflite", PlanOptions(sram_bytes=limit)).arena_bytes


def test_a_model_that_does_not_fit_leaves_the_pool_working(pool: ProcessPoolExecutor):
    with pytest.raises(DoesNotFit) as caught:
        pool.submit(_plan, 100).result(timeout=120)

    assert caught.value.available_bytes == 100
    assert caught.value.needed_bytes > 100
    assert pool.submit(_plan, 4096).result(timeout=120) <= 4096
