"""What ONNX Runtime does for a quantisation: its optimiser, its calibrators, its QDQ writer, and running models.

It is the extra `shoehorn-mcu[quantize]`. All of it is in `locked.py`, in a process that is locked in.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.importers import plain
from shoehorn_mcu.ir import Array
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.quantisation.fault import QuantizeError
from shoehorn_mcu.quantisation.ranges import Range, least_squares
from shoehorn_mcu_host.base import sandbox

if TYPE_CHECKING:
    from onnx import ModelProto

    from shoehorn_mcu.quantisation.samples import Samples

LIMITS = sandbox.Limits()  # of a request
_LOCKED = "shoehorn_mcu.quantisation.locked"
_OF_A_REQUEST = 64  # samples at most; a multiple of those that calibrators hold at a time


class Method(Enum):
    """How the range of an activation is found from the samples."""

    MINMAX = "minmax"  # all values
    ENTROPY = "entropy"  # the least Kullback-Leibler divergence
    PERCENTILE = "percentile"  # 99.999 % of the values
    MSE = "mse"  # the least mean squared error, from a histogram


def require() -> None:
    """Raises QuantizeError where ONNX Runtime is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise QuantizeError("quantising needs ONNX Runtime: `pip install shoehorn-mcu[quantize]`")


def _asked(name: str, *asked: object) -> Any:
    """What `answer_<name>` of `locked.py` makes of these."""
    told, pieces = plain.packed(asked)
    try:
        answer, made = sandbox.answer(f"{_LOCKED}:answer_{name}", told, b"".join(pieces), LIMITS)
    except sandbox.Ended as ended:
        raise QuantizeError(
            f"the process that runs the model in ONNX Runtime {ended}; export the model again"
        ) from None
    if "fault" in answer:
        raise QuantizeError(answer["fault"])
    return plain.unpacked(answer["made"], made, ())


def bytes_of(model: ModelProto) -> Array:
    """The model as a process is given it."""
    return np.frombuffer(model.SerializeToString(), np.uint8)


def proto_of(model: Array) -> ModelProto:
    """The model in these bytes."""
    import onnx

    return onnx.load_model_from_string(model.tobytes())


def optimised(model: ModelProto) -> ModelProto:
    """The model after ONNX Runtime's basic optimisations: batch normalisation is in the weights, constants folded."""
    return proto_of(_asked("optimised", bytes_of(model)))


def inferred(model: ModelProto) -> ModelProto:
    """The model with the shapes of its tensors, by the package `onnx`."""
    return proto_of(_asked("inferred", bytes_of(model)))


def ranges(model: ModelProto, samples: Samples, method: Method, say: Callable[[str], None]) -> dict[str, Range]:
    """The least and the greatest value of each float32 tensor that is to be kept, by ONNX Runtime's calibrators."""
    data, whole = bytes_of(model), iter(samples)
    state: Mapping[str, Sequence[Any]] = {}
    for done in range(0, len(samples), _OF_A_REQUEST):
        say(f"calibrating, sample {done} of {len(samples)}")
        group = [*islice(whole, _OF_A_REQUEST)]
        state = _asked("calibrated", data, method.value, group, state, done, done + len(group) == len(samples))
    if method is Method.MSE:
        return {
            name: least_squares(counts, edges, low.item(), high.item())
            for name, (counts, edges, low, high, *_) in state.items()
        }
    return {name: Range(*(end.item() for end in ends)) for name, ends in state.items()}


def with_qdq(
    model: ModelProto, found: Mapping[str, Range], codes: Sequence[str], kept: Iterable[str], wide: Collection[str]
) -> ModelProto:
    """The model with its ops of these kinds between DequantizeLinear and QuantizeLinear, but for the nodes `kept`.

    Weights are int8 with zero point 0 and a scale per output channel; biases int32. Activations are int8 with a zero
    point; the tensors `wide`, inputs or results of nodes, are int16 with zero point 0.
    """
    ends = {name: each.wide for name, each in found.items()}
    excluded = set(kept)
    for node in model.graph.node:
        names = [name for name in (*node.input, *node.output) if name in found]
        if node.op_type not in codes or node.name in excluded:
            continue
        if wild := [name for name in names if not np.isfinite((found[name].low, found[name].high)).all()]:
            cure = f"check the samples, or compute it in float32 by --keep-float {node.name}"
            said = f"tensor {quoted(wild[0])} of op {quoted(node.name)} ({node.op_type}) is infinite or NaN"
            raise QuantizeError(f"{said} with these samples; {cure}")
    return proto_of(_asked("with_qdq", bytes_of(model), ends, tuple(codes), sorted(excluded), sorted(wide)))


class Runner:
    """A model that gives the values of some tensors; its own outputs come first."""

    def __init__(self, model: ModelProto, tensors: Sequence[str] = ()) -> None:
        import onnx

        copy = deepcopy(model)
        own = [output.name for output in copy.graph.output]
        self.names = (*own, *dict.fromkeys(name for name in tensors if name not in own))
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.names[len(own) :])
        self._model = bytes_of(copy)

    def over(self, samples: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
        """The values for each sample. Raises QuantizeError where ONNX Runtime cannot run the model."""
        whole = iter(samples)
        while group := [*islice(whole, _OF_A_REQUEST)]:
            while group:
                found = _asked("values", self._model, self.names, group)
                if not 0 < len(found) <= len(group):  # by a process that a model has taken over
                    raise QuantizeError("ONNX Runtime gives no values of the model; export it again")
                yield from (dict(zip(self.names, values, strict=True)) for values in found)
                del group[: len(found)]

    def __call__(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        return next(self.over([sample]))
