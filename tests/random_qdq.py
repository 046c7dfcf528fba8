"""Random quantised ONNX networks: those of random_onnx.py as onnxruntime.quantization and Brevitas write them.

`random_quantised(seed)` is the same network each time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from shoehorn_mcu.ir import Array
from tests.random_onnx import random_inputs, random_model

onnxruntime.set_default_logger_severity(4)  # the quantiser leaves constants behind that nothing reads

SAMPLES = 4
_TYPES = (
    *((QuantType.QUInt8, QuantType.QInt8), (QuantType.QInt8, QuantType.QInt8)) * 3,
    *((QuantType.QUInt8, QuantType.QUInt8),) * 2,
    (QuantType.QInt16, QuantType.QInt8),
    (QuantType.QUInt16, QuantType.QInt8),
    (QuantType.QInt16, QuantType.QInt16),
)
_EXTRAS = (
    "ActivationSymmetric",
    "AddQDQPairToWeight",
    "DedicatedQDQPair",
    "ForceQuantizeNoInputCheck",
    "MatMulConstBOnly",
    "QDQKeepRemovableActivations",
    "UseQDQContribOps",
)


@dataclass(frozen=True)
class Options:
    """How a network is quantised."""

    form: QuantFormat
    activations: QuantType
    weights: QuantType
    per_channel: bool
    reduce_range: bool
    clips: bool  # whether a Clip of integers follows each QuantizeLinear, as Brevitas writes it
    extras: Mapping[str, bool] = field(default_factory=dict)


def random_options(seed: int) -> Options:
    rng = np.random.default_rng([seed, 1])
    activations, weights = _TYPES[int(rng.integers(len(_TYPES)))]
    wide = activations not in (QuantType.QInt8, QuantType.QUInt8)
    form = QuantFormat.QOperator if rng.random() < 0.3 and not wide else QuantFormat.QDQ
    extras = {name: True for name in _EXTRAS if rng.random() < 0.2}
    if activations is QuantType.QInt16 and rng.random() < 0.8:
        extras["ActivationSymmetric"] = True
    if rng.random() < 0.15:
        extras["WeightSymmetric"] = False
    clips = bool(form is QuantFormat.QDQ and rng.random() < 0.2 and not wide)
    if clips and rng.random() < 0.7:
        extras["AddQDQPairToWeight"] = True
    per_channel, reduced = (bool(rng.random() < share) for share in (0.4, 0.15))
    return Options(form, activations, weights, per_channel, reduced and not wide, clips, extras)


class _Samples(CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto) -> None:
        self._left: Iterator[dict[str, Array]] = iter([random_inputs(model, 1000 + i) for i in range(SAMPLES)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def quantised(model: onnx.ModelProto, options: Options) -> onnx.ModelProto:
    """The network as ONNX Runtime's quantiser writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantised.onnx"
        quantize_static(
            model,
            path,
            _Samples(model),
            quant_format=options.form,
            activation_type=options.activations,
            weight_type=options.weights,
            per_channel=options.per_channel,
            reduce_range=options.reduce_range,
            extra_options=dict(options.extras),
        )
        made = onnx.load_model(path)
    return with_clips(made) if options.clips else made


def with_clips(model: onnx.ModelProto) -> onnx.ModelProto:
    """A Clip of integers behind each QuantizeLinear, as Brevitas writes narrow ranges and fewer bits."""
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    readers = [name for node in model.graph.node for name in node.input]
    nodes: list[onnx.NodeProto] = []
    for number, node in enumerate(model.graph.node):
        nodes.append(node)
        if node.op_type != "QuantizeLinear" or node.output[0] not in readers:
            continue
        kind, name = held[node.input[2]].dtype, node.output[0]
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        bounds = ((least, most), (least + 1, most), (least // 2 + 10, most // 2 + 20))[number % 3]
        for role, bound in zip(("low", "high"), bounds, strict=True):
            model.graph.initializer.append(numpy_helper.from_array(np.array(bound, kind), f"{name}_{role}"))
        node.output[0] = f"{name}_before"
        nodes.append(helper.make_node("Clip", [node.output[0], f"{name}_low", f"{name}_high"], [name]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


class NotQuantised(Exception):
    """ONNX Runtime's quantiser ends with an error."""


def random_quantised(seed: int) -> tuple[onnx.ModelProto, Options]:
    """The quantised network of that seed."""
    options = random_options(seed)
    try:
        return quantised(random_model(seed), options), options
    except (ValueError, IndexError, RuntimeError) as error:
        raise NotQuantised(str(error)) from error
