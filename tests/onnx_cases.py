"""The tests of ONNX's own suite, one by one: their data, what they need that Shoehorn does not have, their results."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from shoehorn_mcu.errors import ShoehornError
from tests.onnx_backend import Shoehorn

ROOT = Path(onnx.__file__).resolve().parent
GROUPS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
"""As ONNX calls them; the models of `real` are the light ones, whose weights are computed."""

_ENDS = {
    "STRING": "strings",
    "DOUBLE": "double",
    "BFLOAT16": "bfloat16",
    **dict.fromkeys(("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1"), "elements of 4 bits and less"),
    **dict.fromkeys(("COMPLEX64", "COMPLEX128"), "complex numbers"),
}
_TRAINING = ("ai.onnx.preview.training", "ai.onnx.training")
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


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
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return tuple(sorted(load_model_tests(kind=group), key=lambda case: case.name))


def cases(group: str, part: str = "") -> Iterator[Case]:
    """The tests of a group whose names contain `part`."""
    for each in _all(group):
        if part in each.name:
            model = each.model or onnx.load(str(_place(each)))
            data = each.data_sets or _data(each, model)
            sets = tuple((tuple(map(_array, xs)), tuple(map(_array, ys))) for xs, ys in data)
            yield Case(group, each.name, model, sets, each.rtol, each.atol)


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
    """What a test needs that no kernel is for, as its model says; empty where a backend should run it."""
    model = case.model
    domains = {node.domain for node in model.graph.node}
    if domains & set(_TRAINING):
        return "training"
    if any(domain.startswith("ai.onnx.ml") for domain in domains):
        return "classical machine learning (ai.onnx.ml)"
    ends = [*model.graph.input, *model.graph.output]
    for kind in (end.type.WhichOneof("value") for end in ends):
        if kind != "tensor_type":
            return {"sequence_type": "sequences", "optional_type": "optional values"}.get(kind or "", str(kind))
    for end in ends:
        name = TensorProto.DataType.Name(end.type.tensor_type.elem_type)
        if name in _ENDS or name.startswith("FLOAT8"):
            return _ENDS.get(name, "elements of float8")
    if any(node.op_type in _RANDOM for node in model.graph.node):
        return "random numbers"
    if any(np.size(array) == 0 for inputs, outputs in case.data for array in (*inputs[:1], *outputs)):
        return "tensors without elements"
    if not case.data[0][0]:
        return "no inputs"
    return ""


def run(case: Case) -> Result:
    """Runs a test; never raises."""
    if why := cause(case):
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
