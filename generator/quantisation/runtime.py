"""All that ONNX Runtime does for a quantisation: its optimiser, its calibrators, its QDQ writer, and running models.

This is the only module that imports it; it is the extra `shoehorn-mcu[quantize]`.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.ir import Array
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.quantisation.fault import QuantizeError
from shoehorn_mcu.quantisation.ranges import OF_ONE_SCALE, Range, least_squares

if TYPE_CHECKING:
    from onnx import ModelProto

    from shoehorn_mcu.quantisation.samples import Samples

_AT_ONCE = 8  # samples whose activations are held at a time
_OPSET_OF_16_BITS = 21  # the first in which QuantizeLinear knows int16
_FIXED = {
    ("Softmax", 8): (np.array(1 / 256, np.float32), np.array(-128, np.int8)),
    **{(code, 16): (np.array(2.0**-15, np.float32), np.array(0, np.int16)) for code in OF_ONE_SCALE},
}
"""Scale and zero point of the results of some ops with so many bits: the only ones that kernels have."""


class Method(Enum):
    """How the range of an activation is found from the samples."""

    MINMAX = "minmax"  # all values
    ENTROPY = "entropy"  # the least Kullback-Leibler divergence
    PERCENTILE = "percentile"  # 99.999 % of the values
    MSE = "mse"  # the least mean squared error, from a histogram


def require() -> None:
    """Raises QuantizeError where ONNX Runtime is not installed."""
    _library()


def _library() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise QuantizeError("quantising needs ONNX Runtime: `pip install shoehorn-mcu[quantize]`") from error
    onnxruntime.set_default_logger_severity(3)  # errors only
    return onnxruntime


def _session(model: bytes | Path, optimise: bool = False, save: Path | None = None) -> Any:
    """A session on this machine's processor; QuantizeError where ONNX Runtime cannot run the model."""
    runtime = _library()
    options = runtime.SessionOptions()
    levels = runtime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_BASIC if optimise else levels.ORT_DISABLE_ALL
    if save is not None:
        options.optimized_model_filepath = str(save)
    try:
        source = str(model) if isinstance(model, Path) else model
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no common base but Exception
        raise _refused(error) from error


def _refused(error: Exception) -> QuantizeError:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return QuantizeError(f"ONNX Runtime cannot run the model: {lines[0].strip()[:200]}")


def optimised(model: ModelProto) -> ModelProto:
    """The model after ONNX Runtime's basic optimisations: batch normalisation is in the weights, constants folded."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimised.onnx"
        _session(model.SerializeToString(), optimise=True, save=path)
        return onnx.load_model(str(path))


@dataclass
class _Reader:
    """Samples as calibrators read them."""

    samples: Iterator[dict[str, Array]]

    def get_next(self) -> dict[str, Array] | None:
        return next(self.samples, None)


def ranges(model: ModelProto, samples: Samples, method: Method, say: Callable[[str], None]) -> dict[str, Range]:
    """The least and the greatest value of each float32 tensor that is to be kept, by ONNX Runtime's calibrators."""
    _library()
    import onnx
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    kinds = {
        Method.MINMAX: (CalibrationMethod.MinMax, {}),
        Method.ENTROPY: (CalibrationMethod.Entropy, {"num_bins": 128, "num_quantized_bins": 128}),
        Method.PERCENTILE: (CalibrationMethod.Percentile, {"symmetric": False, "num_bins": 2048}),
        Method.MSE: (CalibrationMethod.Percentile, {"symmetric": False, "num_bins": 2048}),
    }
    kind, options = kinds[method]
    # Calibrators read and write files, print, and warn of values that are not finite, which `with_qdq` refuses.
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),
    ):
        path = Path(folder) / "model.onnx"
        onnx.save_model(model, str(path))
        calibrator = create_calibrator(
            path,
            augmented_model_path=str(Path(folder) / "augmented.onnx"),
            calibrate_method=kind,
            providers=["CPUExecutionProvider"],
            extra_options=options,
        )
        whole = iter(samples)
        for done in range(0, len(samples), _AT_ONCE):
            say(f"calibrating, sample {done} of {len(samples)}")
            group = [next(whole) for _ in range(min(_AT_ONCE, len(samples) - done))]
            try:
                calibrator.collect_data(_Reader(iter(group)))
            except ValueError as error:  # of NumPy's, over a histogram without finite ends
                cure = "check the samples; --method minmax names the first such tensor"
                raise QuantizeError(f"values become infinite or NaN with samples {done} and on; {cure}") from error
        if method is Method.MSE:
            histograms = calibrator.collector.histogram_dict
            return {
                name: least_squares(*found[:2], *(np.asarray(end).item() for end in found[2:4]))
                for name, found in histograms.items()
            }
        data = calibrator.compute_data()
        return {name: Range(*(np.asarray(end).item() for end in data[name].range_value)) for name in data}


def with_qdq(
    model: ModelProto, found: Mapping[str, Range], codes: Sequence[str], kept: Iterable[str], wide: Collection[str]
) -> ModelProto:
    """The model with its ops of these kinds between DequantizeLinear and QuantizeLinear, but for the nodes `kept`.

    Weights are int8 with zero point 0 and a scale per output channel; biases int32. Activations are int8 with a zero
    point; the tensors `wide`, inputs or results of nodes, are int16 with zero point 0.
    """
    _library()
    import onnx
    from onnxruntime.quantization import QDQQuantizer, QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorData, TensorsData

    ends = {name: each.wide for name, each in found.items()}
    data = {n: TensorData(lowest=np.float32(r.low), highest=np.float32(r.high)) for n, r in ends.items()}
    excluded = set(kept)
    for node in model.graph.node:
        names = [name for name in (*node.input, *node.output) if name in found]
        if node.op_type not in codes or node.name in excluded:
            continue
        if wild := [name for name in names if not np.isfinite((found[name].low, found[name].high)).all()]:
            cure = f"check the samples, or compute it in float32 by --keep-float {node.name}"
            said = f"tensor {quoted(wild[0])} of op {quoted(node.name)} ({node.op_type}) is infinite or NaN"
            raise QuantizeError(f"{said} with these samples; {cure}")
    overrides: dict[str, list[dict[str, Any]]] = {
        name: [{"quant_type": QuantType.QInt16, "symmetric": True}] for name in wide
    }
    for node in model.graph.node:
        bits = 16 if node.output[0] in wide else 8
        if node.name not in excluded and (node.op_type, bits) in _FIXED:
            scale, zero = _FIXED[node.op_type, bits]
            kind = QuantType.QInt16 if bits == 16 else QuantType.QInt8
            overrides[node.output[0]] = [{"quant_type": kind, "scale": scale, "zero_point": zero}]
    if wide:
        copy = onnx.version_converter.convert_version(model, _OPSET_OF_16_BITS)
    else:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
    quantizer = QDQQuantizer(
        copy,
        per_channel=True,
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QInt8,
        tensors_range=TensorsData(CalibrationMethod.MinMax, data),
        nodes_to_quantize=[],
        nodes_to_exclude=sorted(excluded),
        op_types_to_quantize=list(codes),
        extra_options={"TensorQuantOverrides": overrides, "ForceQuantizeNoInputCheck": True},
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    made: ModelProto = quantizer.model.model
    return made


class Runner:
    """A model that gives the values of some tensors; its own outputs come first."""

    def __init__(self, model: ModelProto, tensors: Sequence[str] = ()) -> None:
        import onnx

        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        own = [output.name for output in copy.graph.output]
        self.names = (*own, *dict.fromkeys(name for name in tensors if name not in own))
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.names[len(own) :])
        self._session = _session(copy.SerializeToString())

    def __call__(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        try:
            return dict(zip(self.names, self._session.run(list(self.names), dict(sample)), strict=True))
        except Exception as error:  # as in _session
            raise _refused(error) from error
