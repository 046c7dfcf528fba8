"""Tables of figures of what `gen quantize` makes of ONNX models before ONNX Runtime sees them, and of slim.html."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import slim_nets
from onnx import ModelProto, helper, numpy_helper
from random_onnx import random_model

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir.dump import dump
from shoehorn_mcu.ir.graph import Graph
from shoehorn_mcu.machine.targets import board
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.quantisation.fault import QuantizeError
from shoehorn_mcu.quantisation.ranges import least_squares
from shoehorn_mcu.quantisation.rewrite import Edit, Linear, bias_corrections, equalised, pairs, prepared
from shoehorn_mcu.quantisation.runtime import inferred
from shoehorn_mcu.slim.page import page
from shoehorn_mcu.slim.price import OtherKernel, Price, Prices
from shoehorn_mcu.slim.reading import exact
from shoehorn_mcu.slim.record import Candidate, Compared, Record, Step, Trial

_RANDOM = 100
_CURVES = 24
_CHANGED = 250
_NETS = {"tiny": slim_nets.tiny, "mobilenet": lambda: slim_nets.mobilenet(28, 1), "digits": slim_nets.digits}
Row = Mapping[str, float]


def quantised() -> dict[str, Row]:
    """By network: the nodes that rewrites and the road from a .tflite make, and totals of the constants."""
    models = {f"{seed:03}": random_model(seed) for seed in range(_RANDOM)} | {n: make() for n, make in _NETS.items()}
    found: dict[str, Row] = {}
    for name, model in models.items():
        made = prepared(inferred(model))
        edit, rng = Edit(made), np.random.default_rng(len(found))
        between = {
            each: np.exp2(rng.integers(-4, 5, len(first.weights)).astype(float)) for first, each, _ in pairs(edit)
        }
        linear = [each for node in edit.nodes if (each := Linear.of(edit, node)) is not None]
        read = {each.node.input[0]: rng.standard_normal(_inputs(each)) for each in linear}
        even, count = equalised(made, between)
        corrected = bias_corrections(made, read)
        found[name] = {
            "prepared": _nodes(made),
            "constants": _total(edit.constants.values()),
            "pairs": count,
            "equalised": _total(Edit(even).constants.values()),
            "corrected": len(corrected),
            "biases": _total(corrected.values()),
            **_exported(import_model(model, "m").graph),
        }
    return found


def _inputs(linear: Linear) -> int:
    return len(linear.weights) if linear.depthwise else linear.weights.shape[1]


def _exported(graph: Graph) -> Row:
    try:
        made = as_onnx(graph)
    except QuantizeError:
        return {"refused": 1}
    return {"exported": _nodes(made), "its constants": _total(Edit(made).constants.values())}


def _nodes(model: ModelProto) -> int:
    """Of all nodes, without the values of constants."""
    found = 0
    for node in model.graph.node:
        told = [(each.name, repr(_attribute(each))) for each in node.attribute]
        found = zlib.crc32(repr((node.op_type, [*node.input], [*node.output], sorted(told))).encode(), found)
    return found


def _attribute(each: Any) -> object:
    value = helper.get_attribute_value(each)
    return numpy_helper.to_array(value).shape if hasattr(value, "dims") else value


def _total(arrays: Iterable[Any]) -> float:
    """Of the magnitudes by place, so that no two may be exchanged; to six digits, as machines round apart."""
    total = 0.0
    for array in arrays:
        each = np.abs(np.nan_to_num(np.asarray(array, np.float64), posinf=1e3, neginf=-1e3)).reshape(-1)
        total += float(np.minimum(each, 1e6) @ (1 + np.arange(len(each)) % 97))
    return float(f"{total:.6g}")


def refusals() -> dict[str, Row]:
    """By random network of which one thing was changed: what the import says, or what it makes."""
    found: dict[str, Row] = {}
    for seed in range(_CHANGED):
        rng = np.random.default_rng(seed)
        try:
            made = import_model(_changed(random_model(seed), rng), "m").graph
        except ShoehornError as refusal:
            found[f"{seed:03}"] = {"refused": zlib.crc32(str(refusal).encode())}
        else:
            found[f"{seed:03}"] = {"dump": zlib.crc32(dump(made).encode())}
    return found


def _changed(model: ModelProto, rng: np.random.Generator) -> ModelProto:
    """An attribute is another number, an input is missing or another one, or a constant has another shape or type."""
    graph = model.graph
    node = graph.node[int(rng.integers(len(graph.node)))]
    what = int(rng.integers(5))
    if what == 0 and node.attribute:
        each = node.attribute[int(rng.integers(len(node.attribute)))]
        each.i += int(rng.integers(-3, 4))
        if each.ints:
            each.ints[int(rng.integers(len(each.ints)))] += int(rng.integers(-2, 3))
    elif what == 1 and len(node.input) > 1:
        node.input.pop()
    elif what == 2:
        node.input[int(rng.integers(len(node.input)))] = graph.input[0].name
    elif graph.initializer:
        tensor = graph.initializer[int(rng.integers(len(graph.initializer)))]
        data = numpy_helper.to_array(tensor)
        other = data.reshape(-1) if what == 3 else data.astype(np.int32)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(other), tensor.name))
    return model


def curves() -> dict[str, Row]:
    """By random histogram of values: the range with the least squared error."""
    found = {}
    for seed in range(_CURVES):
        rng = np.random.default_rng(seed)
        bins = int(rng.integers(8, 200))
        low, high = sorted(rng.uniform(-4, 4, 2)) if seed % 3 else (0.0, float(rng.uniform(0.1, 9)))
        counts = rng.integers(0, 50, bins) * (np.abs(np.arange(bins) - bins / 2) < rng.integers(2, bins))
        made = least_squares(counts, np.linspace(low, high, bins + 1), low, high)
        found[f"{seed:02}"] = {"low": float(f"{made.low:.8g}"), "high": float(f"{made.high:.8g}")}
    return found


def prices() -> dict[str, Row]:
    """By network, board and kind of plan: what a slimming says that it costs."""
    found: dict[str, Row] = {}
    for name, make in _NETS.items():
        graph = exact(import_model(make(), "net").graph)
        for place in ("microbit", "bluepill-f103c8"):
            for kind, once in (("fastest", False), ("once", True)):
                made = Prices(board(place)).of(graph, once=once)
                told = {key: value for key, value in asdict(made).items() if value is not None}
                found[f"{name}, {place}, {kind}"] = {**told, "lack": zlib.crc32(made.lack.encode())}
    return found


def _trial(name: str, kept: bool, cost: Price, number: int) -> Trial:
    why = "" if kept else "it costs <more> accuracy"
    rights = (90.0 - number, 55.5 + number, 88.0 - number / 3, 87.04 - number)
    return Trial(name, kept, why, *rights, cost=cost, seconds=61.7 * number, epochs=number, losses=(2.0, 1.0))


def _record(cycles: bool) -> Record:
    """A run of two steps of which each has another outcome."""
    prices = [
        Price(
            900_000 - 70_000 * i,
            (300_000 - 30_001 * i) if cycles else None,
            9000 - 411 * i,
            70_000 - 5003 * i,
            4_000_000 - i,
        )
        for i in range(6)
    ]
    first = replace(prices[0], lacking_sram=1234, lacking_flash=5, milliseconds=12.25 if cycles else None)
    second = replace(prices[1], milliseconds=11.75 if cycles else None)
    candidates = (
        Candidate("merge a & b", prices[1], 3.25, "", 0.5),
        Candidate("merge c", None, 0.0, "reads <two>", None),
        Candidate("merge d", prices[2], 1.0, "reads <two>", 0.25),
        Candidate("merge e", prices[2], 0.5, "makes nothing less"),
    )
    steps = (
        Step(1, candidates, (_trial("merge x", False, prices[2], 1), _trial("merge a & b", True, second, 2))),
        Step(2, (), (_trial("merge y", False, prices[3], 3),)),
    )
    return Record({"seed": 1}, True, first, {"float32": 93.26, "int8": 92.94}, steps[: 2 if cycles else 1])


def slim_pages() -> dict[str, Row]:
    """By state of a run: slim.html, in pieces of 24 tags."""
    rows = (
        Compared("original, float32", 281, 300),
        Compared("original, int8", 279, 300, 4, 2),
        Compared("original, trained on, int8", 280, 300, 7, 6),
        Compared("slim, int8", 274, 300, 12, 5),
        Compared("slim network, from nothing, int8", 276, 300, 9, 6),
    )
    states: dict[str, Record] = {}
    for cycles in (False, True):
        begun = _record(cycles)
        final = _trial(
            "the last retraining",
            True,
            replace(begun.original, instructions=500_000, cycles=(cycles and 170_001) or None),
            5,
        )
        unit = begun.original.unit
        states[f"{unit}, begun"] = replace(begun, steps=())
        states[f"{unit}, steps"] = begun
        states[f"{unit}, ended"] = replace(begun, ended="no move <is> left", final=final, test=(*rows[:2], rows[3]))
        states[f"{unit}, whole"] = replace(
            begun,
            final=replace(final, cost=replace(final.cost, lacking_sram=0, lacking_flash=0)),
            made_up=replace(final.cost, instructions=490_000),
            other_kernels=(OtherKernel("conv", "conv2d_s8_c", "conv2d_s8_simd32"),),
            controls=(_trial("from nothing", False, final.cost, 4),),
            test=rows,
        )
    found: dict[str, dict[str, float]] = {}
    for name, record in states.items():
        parts = page(record, "net <1>", "microbit").partition("<body")[2].replace("<", "\n<").split("\n")
        body = [part for part in parts if part.strip()]
        found[name] = {"parts": len(body)}
        found[name] |= {
            f"{at // 24:02}": zlib.crc32("\n".join(body[at : at + 24]).encode()) for at in range(0, len(body), 24)
        }
    return found
