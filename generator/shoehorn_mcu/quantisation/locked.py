"""What ONNX Runtime does with a model for a quantisation, in a process that is locked in (`runtime.py` asks it).

This is the only module here that imports it. Its optimiser, its calibrators and its QDQ writer take and give files;
there are none in such a process, so they are given memory.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from shoehorn_mcu.base.errors import first_line
from shoehorn_mcu.importers import plain
from shoehorn_mcu.ir import Array
from shoehorn_mcu.quantisation.fault import QuantizeError
from shoehorn_mcu.quantisation.ranges import OF_ONE_SCALE
from shoehorn_mcu.quantisation.runtime import bytes_of, proto_of
from shoehorn_mcu_host.base import sandbox

if TYPE_CHECKING:
    from onnx import ModelProto

_LEAST_VERSION = (1, 23)  # the first whose compiler optimises
AT_ONCE = 8  # samples whose activations a calibrator holds at a time
_MOST_BYTES = 1 << 28  # of the values that one answer holds, but for those of its first sample
_OPSET_OF_16_BITS = 21  # the first in which QuantizeLinear knows int16
_LEAST_EXTERNAL = 1024  # bytes of a constant that ONNX Runtime's quantiser moves to a file and back
_FIXED = {
    ("Softmax", 8): (np.array(1 / 256, np.float32), np.array(-128, np.int8)),
    **{(code, 16): (np.array(2.0**-15, np.float32), np.array(0, np.int16)) for code in OF_ONE_SCALE},
}
"""Scale and zero point of the results of some ops with so many bits: the only ones that kernels have."""

State = Mapping[str, Sequence[Array]]
"""What a calibrator knows of each tensor so far."""


def prepare() -> None:
    """Imports ONNX Runtime, and has it make what all sessions share: by a model of its own, without other threads."""
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime
        from onnx import TensorProto, helper, shape_inference, version_converter  # noqa: F401
        from onnxruntime.quantization import QDQQuantizer, calibrate  # noqa: F401

        onnxruntime.set_default_logger_severity(3)  # errors only
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "first", ends[:1], ends[1:])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _answer(function: Callable[..., object]) -> Callable[[Any, bytes], sandbox.Answer]:
    """The function as the answer to a request; a refusal is an answer, too."""

    def answer(asked: Any, data: bytes) -> sandbox.Answer:
        try:
            made, pieces = plain.packed(function(*plain.unpacked(asked, bytearray(data), ())))
        except QuantizeError as refusal:
            return {"fault": str(refusal)}, ()
        return {"made": made}, pieces

    return answer


def _session(model: bytes) -> Any:
    """A session on this machine's processor; QuantizeError where ONNX Runtime cannot run the model."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no common base but Exception
        raise _refused(error) from error


def _refused(error: Exception) -> QuantizeError:
    return QuantizeError(f"ONNX Runtime cannot run the model: {first_line(error)}")


def _optimised(model: Array) -> Array:
    """As ONNX Runtime saves it: where nothing was to be done, the graph is the model's own, which a compiler sorts."""
    import onnxruntime as runtime

    if tuple(map(int, runtime.__version__.split(".")[:2])) < _LEAST_VERSION:
        raise QuantizeError(
            f"quantising needs ONNX Runtime 1.23 or newer, not {runtime.__version__}: upgrade it by pip"
        )
    levels = runtime.GraphOptimizationLevel
    try:
        made, plain_form = (
            runtime.ModelCompiler(
                runtime.SessionOptions(), model.tobytes(), graph_optimization_level=level
            ).compile_to_bytes()
            for level in (levels.ORT_ENABLE_BASIC, levels.ORT_DISABLE_ALL)
        )
    except Exception as error:  # as in _session
        raise _refused(error) from error
    found = np.frombuffer(made, np.uint8)
    if made != plain_form:
        return found
    untouched = proto_of(found)
    untouched.graph.CopyFrom(proto_of(model).graph)
    return bytes_of(untouched)


def _inferred(model: Array) -> Array:
    import onnx

    return bytes_of(onnx.shape_inference.infer_shapes(proto_of(model), data_prop=True))


def _values(model: Array, names: Sequence[str], samples: Sequence[Mapping[str, Array]]) -> Sequence[Sequence[Array]]:
    """The values of these outputs for the first samples, as many as fit into an answer."""
    session = _session(model.tobytes())
    found: list[Sequence[Array]] = []
    count = 0
    for sample in samples:
        try:
            found.append(session.run(list(names), dict(sample)))
        except Exception as error:  # as in _session
            raise _refused(error) from error
        count += sum(array.nbytes for array in found[-1])
        if count > _MOST_BYTES:
            break
    return found


@dataclass
class _Reader:
    """Samples as calibrators read them."""

    samples: Iterator[Mapping[str, Array]]

    def get_next(self) -> dict[str, Array] | None:
        sample = next(self.samples, None)
        return None if sample is None else dict(sample)


def _calibrated(
    model: Array, method: str, samples: Sequence[Mapping[str, Array]], state: State, first: int, last: bool
) -> State:
    """What a calibrator knows with these samples, too; of the last ones the ends of each range, or a histogram.

    `first`: the number of the first of them.
    """
    from onnxruntime.quantization.calibrate import CalibrationMethod, HistogramCollector, TensorsData

    # Calibrators print, and warn of values that are not finite, which `_with_qdq` refuses.
    with (
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),
    ):
        made = _calibrator(model, method)
        known = {name: tuple(np.array(each)[()] for each in entry) for name, entry in state.items()}
        if known and method == "minmax":
            made.calibrate_tensors_range = TensorsData(CalibrationMethod.MinMax, known)
        elif known:
            made.collector = HistogramCollector(
                made.method, made.symmetric, made.num_bins, made.num_quantized_bins, made.percentile, made.scenario
            )
            made.collector.histogram_dict = known
        for done in range(0, len(samples), AT_ONCE):
            try:
                made.collect_data(_Reader(iter(samples[done : done + AT_ONCE])))
            except ValueError as error:  # of NumPy's, over a histogram without finite ends
                cure = "check the samples; --method minmax names the first such tensor"
                said = f"values become infinite or NaN with samples {first + done} and on"
                raise QuantizeError(f"{said}; {cure}") from error
        if method == "mse" or (method != "minmax" and not last):
            histograms: Mapping[str, Sequence[Any]] = made.collector.histogram_dict
            return {name: tuple(np.asarray(each) for each in entry) for name, entry in histograms.items()}
        data = made.compute_data()
        return {name: tuple(np.asarray(end) for end in data[name].range_value) for name in data}


def _calibrator(model: Array, method: str) -> Any:
    """One of ONNX Runtime's calibrators, with a session."""
    import onnx
    from onnxruntime.quantization import calibrate
    from onnxruntime.quantization.quant_utils import add_infer_metadata

    kinds = {
        "minmax": (calibrate.MinMaxCalibrater, {}),
        "entropy": (calibrate.EntropyCalibrater, {"num_bins": 128, "num_quantized_bins": 128}),
        "percentile": (calibrate.PercentileCalibrater, {"symmetric": False, "num_bins": 2048}),
        "mse": (calibrate.PercentileCalibrater, {"symmetric": False, "num_bins": 2048}),
    }
    kind, options = kinds[method]

    def inferred(_: object) -> ModelProto:
        found: ModelProto = onnx.shape_inference.infer_shapes(proto_of(model))
        add_infer_metadata(found)
        return found

    augmented = io.BytesIO()
    with mock.patch.object(calibrate, "load_model_with_shape_infer", inferred):  # a calibrator takes paths only
        made = kind("model.onnx", augmented_model_path=augmented, **options)
    made.augment_graph()
    made.infer_session = _session(augmented.getvalue())
    return made


def _with_qdq(
    model: Array,
    ends: Mapping[str, Sequence[float]],
    codes: Sequence[str],
    kept: Sequence[str],
    wide: Sequence[str],
) -> Array:
    """The model with its ops of these kinds between DequantizeLinear and QuantizeLinear, but for the nodes `kept`."""
    import onnx
    from onnxruntime.quantization import QDQQuantizer, QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorData, TensorsData

    given = proto_of(model)
    data = {n: TensorData(lowest=np.float32(low), highest=np.float32(high)) for n, (low, high) in ends.items()}
    overrides: dict[str, list[dict[str, Any]]] = {
        name: [{"quant_type": QuantType.QInt16, "symmetric": True}] for name in wide
    }
    for node in given.graph.node:
        bits = 16 if node.output[0] in wide else 8
        if node.name not in kept and (node.op_type, bits) in _FIXED:
            scale, zero = _FIXED[node.op_type, bits]
            kind = QuantType.QInt16 if bits == 16 else QuantType.QInt8
            overrides[node.output[0]] = [{"quant_type": kind, "scale": scale, "zero_point": zero}]
    if wide:
        given = onnx.version_converter.convert_version(given, _OPSET_OF_16_BITS)
    quantizer = QDQQuantizer(
        _with_shapes(given),
        per_channel=True,
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QInt8,
        tensors_range=TensorsData(CalibrationMethod.MinMax, data),
        nodes_to_quantize=[],
        nodes_to_exclude=list(kept),
        op_types_to_quantize=list(codes),
        extra_options={"TensorQuantOverrides": overrides, "ForceQuantizeNoInputCheck": True},
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    return bytes_of(quantizer.model.model)


def _with_shapes(model: ModelProto) -> ModelProto:
    """The model as ONNX Runtime's quantiser would read it again from a file, to which it writes it for its shapes."""
    import onnx
    from onnxruntime.quantization.quant_utils import add_infer_metadata

    found: ModelProto = onnx.shape_inference.infer_shapes(model)
    for tensor in found.graph.initializer:
        if len(tensor.raw_data) >= _LEAST_EXTERNAL:
            tensor.data_location = onnx.TensorProto.DEFAULT
    add_infer_metadata(found)
    return found


answer_optimised = _answer(_optimised)
answer_inferred = _answer(_inferred)
answer_values = _answer(_values)
answer_calibrated = _answer(_calibrated)
answer_with_qdq = _answer(_with_qdq)
