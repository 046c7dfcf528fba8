"""Models with every interface of a library, for the tests of the bindings: their inputs, and what they must give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import emitted
import numpy as np
from evaluate import evaluate
from nets import Net
from samples import random_inputs, real_sample, sample
from test_cli_project import DIGITS
from test_single_file import side_by_side
from test_states import window

from shoehorn_mcu import ops
from shoehorn_mcu.emit.model.weights import Constants, constants
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.build import plan_model
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import Array, DType, Graph
from shoehorn_mcu.planner import Goal

VECTORS = 3


@dataclass(frozen=True, eq=False)
class Case:
    """A model, `VECTORS` inputs of it one after the other, and the outputs that the reference gives for them."""

    unit: Unit
    data: bytes
    wanted: bytes

    @property
    def constants(self) -> Constants:
        return constants(self.unit)


def _image() -> Graph:
    net = Net(1, 6, 5, 3)
    return net.graph(net.conv(net.conv("x", 4, 3), 2, 3))


def _every_type() -> Graph:
    """Inputs and outputs of every element type that a model can have but bool: two and more of each."""
    kinds = (ops.Conv2d, ops.Requantize, ops.Dequantize, ops.SvdfState, ops.TopIndices, ops.FilterBank)
    seeds = (3, 3, 3, 3, 3, 3)
    graphs = [sample(kind, np.random.default_rng(seed)) for kind, seed in zip(kinds, seeds, strict=True)]
    return side_by_side([*graphs, sample(ops.Requantize, np.random.default_rng(6))])


def _units() -> dict[str, Unit]:
    digits = plan_model(DIGITS, None, Options(goal=Goal.TIME, sram_bytes=10_000)).unit
    by_rows = replace(emitted.unit_of(_image(), stream_input=True), classes=tuple(f'"{i}\\ü' for i in range(4)))
    two = Options(sram_bytes={"sram": 60, "fast": 4096}, caller_arena=True)
    apart = plan_model(Imported(_image(), {}), None, two).unit
    real = side_by_side([real_sample(kind, np.random.default_rng(4)) for kind in (ops.Conv2d, ops.Dense)])
    pixels = sample(ops.Requantize, np.random.default_rng(3))
    return {
        "while": digits,
        "by_rows": by_rows,
        "apart": apart,
        "real": emitted.unit_of(real),
        "pixels": emitted.unit_of(pixels),
        "every_type": emitted.unit_of(_every_type()),
        "ring": emitted.unit_of(window(5, 2)),
        "ring_rows": emitted.unit_of(window(4, 3), stream_input=True),
        "out_rows": emitted.unit_of(_image(), stream_output=True),
        "all_rows": emitted.unit_of(_image(), stream_input=True, stream_output=True),
    }


def _wanted(graph: Graph, vectors: Sequence[dict[str, Array]]) -> bytes:
    """The bytes of all outputs, by the numpy references, for inferences that follow each other."""
    kept, said = {state.read: graph.tensors[state.initial].data for state in graph.states}, b""
    for vector in vectors:
        found = evaluate(graph, {**vector, **{n: data for n, data in kept.items() if data is not None}})
        said += b"".join(np.ascontiguousarray(found[name]).tobytes() for name in graph.outputs)
        kept = {state.read: found[state.write] for state in graph.states}
    return said


@cache
def cases() -> dict[str, Case]:
    """By the C name of the model."""
    made = {}
    for name, unit in _units().items():
        unit = replace(unit, name=name)
        rng = np.random.default_rng(11)
        vectors = [random_inputs(unit.graph, rng) for _ in range(VECTORS)]
        data = b"".join(np.ascontiguousarray(v[n]).tobytes() for v in vectors for n in unit.graph.inputs)
        made[name] = Case(unit, data, _wanted(unit.graph, vectors))
    return made


def types(case: Case) -> set[DType]:
    """Those of its inputs and outputs."""
    return {case.unit.type(name).dtype for _, name in case.unit.ends()}


def several_cores() -> Unit:
    """A model whose plan has a column of cores."""
    return plan_model(DIGITS, None, Options(cores=2)).unit
