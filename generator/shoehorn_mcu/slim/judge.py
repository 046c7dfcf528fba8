"""How many samples a network has right, in float32 and in int8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu import quantisation
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Bools, Ends, FileTensor, Graph
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.quantisation.runtime import Runner
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.learner import Learner, Samples
from shoehorn_mcu.slim.price import with_int8_ends

if TYPE_CHECKING:
    from onnx import ModelProto

_ABOVE_CHANCE = 1.5  # times the share that guessing has right, which an original must reach
CALIBRATED = 256  # training samples that find the ranges of activations
_KNOWN = 3  # quantised networks that are kept for a second question, besides the original


@dataclass(frozen=True)
class _Quantised:
    """The int8 forms of a float32 graph."""

    graph: Graph
    model: ModelProto
    int8: Graph


@dataclass
class Judge:
    """Compares answers with the classes, or without classes with the answers of the original."""

    learner: Learner
    ends: Ends
    train: Samples
    original: Graph
    say: Callable[[str], None] = lambda _: None
    _wanted: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    _known: list[_Quantised] = field(default_factory=list)

    def wanted(self, part: Samples) -> NDArray[np.int64]:
        """The right answers."""
        if part.y is not None:
            return part.y
        if id(part) not in self._wanted:
            self._wanted[id(part)] = _answers(self.learner.outputs(self.original, part))
        return self._wanted[id(part)]

    def in_float(self, graph: Graph, part: Samples) -> Bools:
        """Which samples are right in float32."""
        return np.equal(_answers(self.learner.outputs(graph, part)), self.wanted(part))

    def in_int8(self, graph: Graph, part: Samples) -> Bools:
        """Which samples are right in int8, quantised with some training samples."""
        return self.of_model(self.quantised(graph), graph, part)

    def of_model(self, model: ModelProto, graph: Graph, part: Samples) -> Bools:
        """Which samples a quantised model has right."""
        run = Runner(model)
        found = [values[run.names[0]].argmax() for values in run.over(as_in_file(graph, self.ends, part))]
        return np.equal(np.array(found, np.int64), self.wanted(part))

    def quantised(self, graph: Graph) -> ModelProto:
        """The network in int8."""
        return self._quantised(graph).model

    def int8(self, graph: Graph) -> Graph:
        """The network in int8 as a graph without the conversions at its ends."""
        return self._quantised(graph).int8

    def _quantised(self, graph: Graph) -> _Quantised:
        known = next((each for each in self._known if each.graph is graph), None)
        if known is None:
            some = as_in_file(graph, self.ends, Samples(self.train.x[:CALIBRATED], None))
            model = quantisation.quantized(self.model(graph), some, self.say)
            known = _Quantised(graph, model, with_int8_ends(import_model(model, self.original.name).graph))
            first = [each for each in self._known if each.graph is self.original]
            last = [each for each in self._known if each.graph is not self.original]
            self._known = [*first, *last[1 - _KNOWN :], known]
        return known

    def model(self, graph: Graph) -> ModelProto:
        """The network in float32, with inputs and outputs as in the file of the original."""
        return as_onnx(graph, self.ends)


def as_in_file(graph: Graph, ends: Ends, part: Samples) -> quantisation.Samples:
    """The samples with the name and the order of dimensions that the input has in the model's file."""
    (name,) = graph.inputs
    kind = graph.tensors[name].type
    end = ends.get(name) or FileTensor.alike(name, kind)
    turned = part.x.reshape(len(part), *kind.shape).transpose(0, *(1 + place for place in end.back))
    return quantisation.Samples({end.name: np.ascontiguousarray(turned)})


def _answers(outputs: NDArray[np.float32]) -> NDArray[np.int64]:
    answers: NDArray[np.int64] = outputs.reshape(len(outputs), -1).argmax(axis=1)
    return answers


def check_original(name: str, right: float, y: NDArray[np.int64], expect: float | None) -> None:
    """Raises SlimError where a network has so little right of classes `y` that it was not trained on such samples.

    `right` and `expect`, what the user says it has, are in percent.
    """
    suspect = "check the preprocessing: data.mean and data.scale of the recipe, and the order of the channels"
    chance = 100 * float(np.bincount(y).max()) / len(y)
    if right < min(chance * _ABOVE_CHANCE, (100 + chance) / 2):
        said = f"has {right:.1f} % of the validation samples right, and guessing {chance:.1f} %"
        raise SlimError(f"{name}: {said}; {suspect}")
    error = 100 * 1.96 * float(np.sqrt(max(right * (100 - right), 1.0) / 1e4 / len(y)))
    if expect is not None and right < expect - max(error, 2.0):
        said = f"has {right:.1f} % of the validation samples right, and {expect:g} % were expected"
        raise SlimError(f"{name}: {said}; {suspect}")
