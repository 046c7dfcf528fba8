"""The tests of ONNX's own suite, one by one: their data, what they need that Shoehorn does not have, their results."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from shoehorn_mcu.base.errors import ShoehornError
from tests import onnx_skips
from tests.onnx_backend import Shoehorn

ROOT = Path(onnx.__file__).resolve().parent
GROUPS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
"""As ONNX calls them; the models of `real` are the light ones, whose weights are computed."""


@dataclass(frozen=True)
class Case:
    """One test."""

    group: str
    name: str
    model: ModelProto
    data: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]  # inputs and outputs of each run
    rtol: float
    atol: float


@dataclass(frozen=True)
class Result:
    """What became of a test."""

    group: str
    name: str
    state: str  # "passed", "folded" (nothing is left to compute), "skipped", "refused", "failed"
    cause: str = ""
    constants: tuple[str, ...] = ()  # inputs that became constants


@cache
def _all(group: str) -> tuple[Any, ...]:
    with _quiet():
        return tuple(sorted(load_model_tests(kind=group), key=lambda case: case.name))


def cases(group: str, part: str = "") -> Iterator[Case]:
    """The tests of a group whose names contain `part`."""
    return (_case(group, each) for each in _all(group) if part in each.name)


def node_cases(*modules: str) -> Iterator[Case]:
    """The tests of some ops, by the modules of ONNX that have them, without loading those of all others."""
    with _quiet():
        for name in modules:
            import_module(f"onnx.backend.test.case.node.{name}")
    begin = tuple(f"test{name.replace('_', '')}" for name in modules)
    return (_case("node", each) for each in list(node._NodeTestCases) if each.name.replace("_", "").startswith(begin))


def _case(group: str, each: Any) -> Case:
    model = each.model or onnx.load(str(_place(each)))
    data = each.data_sets or _data(each, model)
    sets = tuple((tuple(map(_array, xs)), tuple(map(_array, ys))) for xs, ys in data)
    return Case(group, each.name, model, sets, each.rtol, each.atol)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the prints and the warnings of ONNX's tests while they make their data."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _place(each: Any) -> Path:
    if each.url is not None:
        return ROOT.parent / each.url
    return Path(each.model_dir) / "model.onnx"


def _data(each: Any, model: ModelProto) -> list[tuple[list[Any], list[Any]]]:
    """The arrays beside a model; a light model has its outputs only, for an input that ONNX's runner makes."""
    place = _place(each)
    if each.url is not None:
        held = {tensor.name for tensor in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(x) for x in model.graph.input if x.name not in held]
        return [(inputs, [_read(place.with_name(f"{place.stem}_output_0.pb"), model.graph.output[0].type)])]
    found = []
    for folder in sorted(place.parent.glob("test_data_set*")):
        inputs, outputs = (
            [
                _read(folder / f"{kind}_{i}.pb", end.type)
                for i, end in enumerate(ends)
                if (folder / f"{kind}_{i}.pb").is_file()
            ]
            for kind, ends in (("input", model.graph.input), ("output", model.graph.output))
        )
        found.append((inputs, outputs))
    return found


def _read(path: Path, kind: Any) -> Any:
    target: list[Any] = []
    Runner._load_proto(None, str(path), target, kind)  # type: ignore[arg-type]
    return target[0] if target else None


def _array(item: Any) -> Any:
    return numpy_helper.to_array(item) if isinstance(item, TensorProto) else item


def cause(case: Case) -> str:
    """Why a test is left out; empty where it must pass."""
    if why := onnx_skips.of_ends(case.model) or onnx_skips.of_name(case.name):
        return why
    if any(np.size(array) == 0 for inputs, outputs in case.data for array in (*inputs[:1], *outputs)):
        return "tensors without elements"
    return "" if case.data[0][0] else "no inputs"


def run(case: Case, all_of_them: bool = False) -> Result:
    """Runs a test; never raises. `all_of_them`: also one that is left out."""
    if (why := cause(case)) and not all_of_them:
        return Result(case.group, case.name, "skipped", why)
    constants: tuple[str, ...] = ()
    state = "passed"
    try:
        prepared = Shoehorn.prepare(case.model)
        for inputs, wanted in case.data:
            found = prepared.run(inputs)
            constants = prepared.constants
            Runner.assert_similar_outputs(wanted, found, case.rtol, case.atol)
            state = "folded" if prepared.folded else state
    except ShoehornError as fault:
        return Result(case.group, case.name, "refused", str(fault), constants)
    except Exception as error:
        return Result(case.group, case.name, "failed", f"{type(error).__name__}: {error}".strip(), constants)
    return Result(case.group, case.name, state, "", constants)
