"""How well a quantised model follows its float32 original, on samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import Array
from shoehorn_mcu.quantisation.runtime import Runner

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    from shoehorn_mcu.quantisation.samples import Samples

MOST_DB = 200.0  # of a tensor without any noise


@dataclass(frozen=True)
class Place:
    """A quantised tensor: its name in the float32 model and in the quantised one, where it is real again."""

    name: str
    op: str  # the node that writes it, "" for an input
    real: str
    scale: float
    zero_point: int
    limits: tuple[int, int]  # of the stored values


@dataclass(frozen=True)
class Fidelity:
    """Signal to quantisation noise ratios of a tensor in dB over all samples: 10 log10(sum x^2 / sum (x - q)^2)."""

    tensor: str
    op: str  # the node that writes it, "" for an input
    sqnr_db: float  # with the noise of all ops before it
    own_sqnr_db: float  # of its own rounding and saturation alone


def places(model: ModelProto, quantised: ModelProto) -> tuple[Place, ...]:
    """The tensors of the float32 model that are quantised, in the order in which they are computed."""
    from onnx import numpy_helper

    writers = {name: node.name for node in model.graph.node for name in node.output}
    known = {*writers, *(each.name for each in model.graph.input)}
    constants = {tensor.name: tensor for tensor in quantised.graph.initializer}
    back = {n.input[0]: n.output[0] for n in quantised.graph.node if n.op_type == "DequantizeLinear"}
    found = []
    for node in quantised.graph.node:
        if node.op_type != "QuantizeLinear" or node.output[0] not in back:
            continue
        real = back[node.output[0]]
        name = node.input[0] if node.input[0] in known else real
        scale, zero = (numpy_helper.to_array(constants[operand]) for operand in node.input[1:3])
        if name in known:
            limits = np.iinfo(zero.dtype)
            ends = int(limits.min), int(limits.max)
            found.append(Place(name, writers.get(name, ""), real, float(scale.item()), int(zero.item()), ends))
    order = {name: place for place, name in enumerate(writers)}
    return tuple(sorted(found, key=lambda place: order.get(place.name, -1)))


def fidelities(model: ModelProto, quantised: ModelProto, samples: Samples) -> tuple[Fidelity, ...]:
    """Of each quantised tensor, in the order in which they are computed."""
    where = places(model, quantised)
    before, after = Runner(model, [p.name for p in where]), Runner(quantised, [p.real for p in where])
    sums = np.zeros((len(where), 3))
    for wanted, got in zip(before.over(samples), after.over(samples), strict=True):
        for place, total in zip(where, sums, strict=True):
            x = wanted[place.name].astype(np.float64)
            stored = np.clip(np.rint(x / place.scale) + place.zero_point, *place.limits)
            own = (stored - place.zero_point) * place.scale
            total += (x * x).sum(), ((x - got[place.real].astype(np.float64)) ** 2).sum(), ((x - own) ** 2).sum()
    return tuple(
        Fidelity(place.name, place.op, decibels(signal, noise), decibels(signal, own))
        for place, (signal, noise, own) in zip(where, sums, strict=True)
    )


def output_sqnr(wanted: Iterable[Mapping[str, Array]], quantised: ModelProto, samples: Samples) -> float:
    """The least ratio in dB among the model's outputs. `wanted`: these of the float32 model, by name, per sample."""
    run = Runner(quantised)
    sums: dict[str, NDArray[np.float64]] = {name: np.zeros(2) for name in run.names}
    for right, got in zip(wanted, run.over(samples), strict=True):
        for name, total in sums.items():
            x = right[name].astype(np.float64)
            total += (x * x).sum(), ((x - got[name].astype(np.float64)) ** 2).sum()
    return min(decibels(*total) for total in sums.values())


def decibels(signal: float, noise: float) -> float:
    """Their ratio, at most MOST_DB either way."""
    if noise <= 0:
        return MOST_DB
    return float(np.clip(10 * np.log10(signal / noise), -MOST_DB, MOST_DB)) if signal > 0 else -MOST_DB


@dataclass(frozen=True)
class Accuracy:
    """Correct answers of the first output's largest value."""

    samples: int
    before: int  # of the float32 model, by ONNX Runtime
    after: int  # of the quantised model, as the chip computes it


def accuracy(
    model: ModelProto, imported: Imported, samples: Samples, labels: NDArray[np.int64], say: Callable[[str], None]
) -> Accuracy:
    """Of the float32 model, and of the imported graph of the quantised one by the ops' references."""
    run = Runner(model)
    before = after = 0
    for place, (sample, values, label) in enumerate(zip(samples, run.over(samples), labels, strict=True)):
        say(f"measuring accuracy, sample {place} of {len(samples)}")
        before += int(values[run.names[0]].argmax() == label)
        after += int(_answer(imported, sample).argmax() == label)
    return Accuracy(len(samples), before, after)


def _answer(imported: Imported, sample: Mapping[str, Array]) -> Array:
    """The first output for a sample; both in the model's own order of dimensions."""
    graph, ends = imported.graph, imported.ends
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values |= {name: x.transpose(ends[name].order) for name, x in sample.items()}
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[name] for name in node.op.inputs], node.sig)
    first = graph.outputs[0]
    return values[first].transpose(ends[first].back)
