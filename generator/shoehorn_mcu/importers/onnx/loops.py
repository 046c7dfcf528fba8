"""Scan and Loop of a known number of rounds as the nodes of all rounds, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.onnx.function import renamed_body
from shoehorn_mcu.ir import Array

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

ROUNDS_LIMIT = 256
NODES_LIMIT = 1 << 14


@dataclass(frozen=True)
class Scan:
    """A Scan: `states` values go from round to round, each of `sequences` gives one slice to a round."""

    node: NodeProto
    body: GraphProto
    states: tuple[str, ...]
    sequences: tuple[str, ...]
    axes: tuple[int, ...]  # of the sequences
    backwards: tuple[bool, ...]  # whether a sequence is read from its end
    out_axes: tuple[int, ...]
    out_backwards: tuple[bool, ...]
    rounds: int


def _attributes(node: NodeProto) -> dict[str, Any]:
    """Graphs, lists of integers and integers, by name."""
    return {a.name: a.g if a.type == a.GRAPH else list(a.ints) or a.i for a in node.attribute}


def scan_of(node: NodeProto, shapes: Mapping[str, tuple[int, ...] | None]) -> Scan | None:
    """The Scan that a node is, if the length of its sequences is known."""
    given = _attributes(node)
    body, count = given.get("body"), given.get("num_scan_inputs", 0)
    if body is None or not 0 < count <= len(node.input) or len(node.input) != len(body.input):
        raise ImportFault(f"a Scan writing '{node.output[0]}' does not fit its body; export it again")
    states, sequences = tuple(node.input[:-count]), tuple(node.input[-count:])
    outs = len(body.output) - len(states)
    axes = given.get("scan_input_axes") or [0] * count
    ranks = [shapes.get(name) for name in sequences]
    if any(shape is None for shape in ranks) or len(axes) != count or outs != len(node.output) - len(states):
        return None
    places = tuple(axis_of(axis, len(shape or ())) for axis, shape in zip(axes, ranks, strict=True))
    rounds = {(shape or ())[place] for shape, place in zip(ranks, places, strict=True)}
    if len(rounds) != 1 or not 0 < (only := rounds.pop()) <= ROUNDS_LIMIT or only * len(body.node) > NODES_LIMIT:
        return None
    backwards = tuple(map(bool, given.get("scan_input_directions") or [0] * count))
    out_axes = tuple(given.get("scan_output_axes") or [0] * outs)
    out_backwards = tuple(map(bool, given.get("scan_output_directions") or [0] * outs))
    return Scan(node, body, states, sequences, places, backwards, out_axes, out_backwards, only)


def unrolled(scan: Scan, constants: dict[str, Array]) -> Iterator[NodeProto]:
    """The nodes of all rounds; the places of slices are added to the constants."""
    from onnx import helper, numpy_helper

    first = next(filter(None, scan.node.output))
    states, collected = list(scan.states), [list[str]() for _ in scan.out_axes]
    for number in range(scan.rounds):
        prefix = f"{first}/{number}/"
        slices = []
        for place, (name, axis, back) in enumerate(zip(scan.sequences, scan.axes, scan.backwards, strict=True)):
            index = f"{prefix}place_{place}"
            constants[index] = np.array(scan.rounds - 1 - number if back else number, np.int64)
            slices.append(f"{prefix}slice_{place}")
            yield helper.make_node("Gather", [name, index], [slices[-1]], axis=axis)
        for tensor in scan.body.initializer:
            constants[prefix + tensor.name] = numpy_helper.to_array(tensor)
        names = dict(zip((end.name for end in scan.body.input), (*states, *slices), strict=True))
        parts, ends = renamed_body(scan.body, names, prefix)
        yield from parts
        states = ends[: len(states)]
        for made, into in zip(ends[len(states) :], collected, strict=True):
            into.append(made)
    for name, made in zip(scan.node.output, states, strict=False):
        if name:
            yield helper.make_node("Identity", [made], [name])
    outputs = list(scan.node.output)[len(states) :]
    for place, (name, parts_of, axis, back) in enumerate(
        zip(outputs, collected, scan.out_axes, scan.out_backwards, strict=True)
    ):
        if not name:
            continue
        constants[f"{first}/axis_{place}"] = np.array([axis], np.int64)
        wide = [f"{part}/wide" for part in parts_of]
        for part, one in zip(parts_of, wide, strict=True):
            yield helper.make_node("Unsqueeze", [part, f"{first}/axis_{place}"], [one])
        yield helper.make_node("Concat", wide[::-1] if back else wide, [name], axis=axis)
