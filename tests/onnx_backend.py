"""ONNX's backend interface over the importer and the reference runtime, for ONNX's own suite of tests.

The suite gives everything as a model's input: also weights, axes and shapes, which must be known before firmware is
generated. So a model is imported when its inputs are known: their shapes become fixed, and where the importer says that
an operand must be constant, the inputs that it depends on become constants with the values given. At least one input
stays an input of the firmware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper
from onnx.backend.base import Backend, BackendRep

from shoehorn_mcu import passes
from shoehorn_mcu.importers import Imported, UnsupportedModel
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array, Graph
from tests.runtime import run_reference


@dataclass
class Prepared(BackendRep):  # type: ignore[misc]
    """A model that is imported once its inputs are known."""

    model: ModelProto
    constants: tuple[str, ...] = ()  # inputs that became constants in the last run
    folded: bool = False  # whether the last run's graph computed nothing from an input
    graph: Graph | None = field(default=None, repr=False)

    def run(self, inputs: Sequence[Array], **kwargs: Any) -> tuple[Array, ...]:
        """The outputs, in the model's order of dimensions. ImportFault: the importer refuses the model."""
        held = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input if value.name not in held]
        given = dict(zip(names, map(np.asarray, inputs), strict=True))
        made = self._imported(given)
        self.graph = graph = passes.prove_int32(passes.run(made.graph)[0])
        self.folded = not _depends(graph)
        values = [given[n].transpose(made.ends[n].order) for n in names if n not in self.constants]
        results = run_reference(graph, [np.asarray(value, order="C") for value in values])
        ends = zip(self.model.graph.output, graph.outputs, strict=True)
        return tuple(results[mine].transpose(np.argsort(made.ends[end.name].order)) for end, mine in ends)

    def _imported(self, given: dict[str, Array]) -> Imported:
        """The import with as few constants as it accepts."""
        constants = {name for name, array in given.items() if array.size == 0}  # of such only the type is of use
        while True:
            self.constants = tuple(sorted(constants))
            try:
                return import_model(specialised(self.model, given, constants), "model")
            except UnsupportedModel as fault:
                more = {name for refusal in fault.refusals for name in refusal.needs} - constants
                if not more or constants | more == set(given):
                    raise
                constants |= more


def specialised(model: ModelProto, given: dict[str, Array], constants: set[str]) -> ModelProto:
    """The model with fixed shapes of its inputs, and these inputs as constants."""
    made = ModelProto()
    made.CopyFrom(model)
    kept = [value for value in made.graph.input if value.name not in constants]
    del made.graph.input[:]
    for value in kept:
        if value.name in given and value.type.HasField("tensor_type"):
            del value.type.tensor_type.shape.dim[:]
            for size in given[value.name].shape:
                value.type.tensor_type.shape.dim.add().dim_value = size
        made.graph.input.append(value)
    for name in sorted(constants):
        made.graph.initializer.append(numpy_helper.from_array(given[name], name))
    return made


def _depends(graph: Graph) -> bool:
    """Whether an output depends on an input."""
    reached = set(graph.inputs)
    for op in graph.ops:
        if reached & set(op.inputs):
            reached.add(op.output)
    return bool(reached & set(graph.outputs))


class Shoehorn(Backend):  # type: ignore[misc]
    """The backend as ONNX's runner of tests wants it."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        return Prepared(model)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
        return cls.prepare(model).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"
