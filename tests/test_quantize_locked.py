"""ONNX Runtime is locked in while a model is quantised, and does there what it does with files."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import Gen
from onnx import TensorProto, helper
from test_quantize import IMAGE, classifier, model, reals

from shoehorn_mcu.ir import Array
from shoehorn_mcu.quantisation import Method, QuantizeError, quantize_model, runtime
from shoehorn_mcu.quantisation import locked as inside
from shoehorn_mcu.quantisation.ranges import Range, least_squares
from shoehorn_mcu.quantisation.samples import Samples
from shoehorn_mcu_host.base import sandbox

MANY = 70  # samples, more than a request has


def untouched() -> Any:
    """A model in which ONNX Runtime finds nothing to do, with attributes left out and a long constant."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["x", "v"], ["d"]),
        helper.make_node("Softmax", ["d"], ["e"], axis=1),
        helper.make_node("Add", ["r", "e"], ["y"]),
    ]
    return model(nodes, {"w": reals(32, 3, 3, 3), "v": reals(32, 3, 3, 3)})


def saved_by_onnx_runtime(made: Any, folder: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load_model(folder / "optimised.onnx")


@pytest.mark.parametrize("of", [classifier, untouched])
def test_a_model_is_optimised_as_onnx_runtime_saves_it(of: Any, tmp_path: Path) -> None:
    made = of()

    assert runtime.optimised(made) == saved_by_onnx_runtime(made, tmp_path)


@pytest.mark.parametrize("method", Method)
def test_ranges_are_those_of_calibrators_that_have_files(method: Method, tmp_path: Path) -> None:
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    made, growing = classifier(), np.linspace(0.7, 1.3, MANY, dtype=np.float32)
    samples = Samples({"x": reals(MANY, *IMAGE) * growing.reshape(-1, 1, 1, 1, 1)})
    kinds = {
        Method.MINMAX: (CalibrationMethod.MinMax, {}),
        Method.ENTROPY: (CalibrationMethod.Entropy, {"num_bins": 128, "num_quantized_bins": 128}),
    }
    kind, options = kinds.get(method, (CalibrationMethod.Percentile, {"symmetric": False, "num_bins": 2048}))
    onnx.save_model(made, tmp_path / "model.onnx")
    theirs = create_calibrator(
        tmp_path / "model.onnx", None, str(tmp_path / "a.onnx"), kind, providers=None, extra_options=options
    )
    each = iter(samples)
    for first in range(0, MANY, inside.AT_ONCE):
        theirs.collect_data(inside._Reader(next(each) for _ in range(min(inside.AT_ONCE, MANY - first))))
    if method is Method.MSE:
        histograms = theirs.collector.histogram_dict
        wanted = {n: least_squares(h[0], h[1], h[2].item(), h[3].item()) for n, h in histograms.items()}
    else:
        data = theirs.compute_data()
        wanted = {n: Range(*(np.asarray(end).item() for end in data[n].range_value)) for n in data}

    assert runtime.ranges(made, samples, method, lambda _: None) == wanted


@pytest.mark.parametrize("of", [classifier, untouched])
def test_a_model_for_the_quantiser_is_the_one_that_it_reads_again_from_its_file(of: Any) -> None:
    from onnxruntime.quantization.quant_utils import save_and_reload_model_with_shape_infer

    made = of()
    wanted = save_and_reload_model_with_shape_infer(made).SerializeToString(deterministic=True)

    assert inside._with_shapes(made).SerializeToString(deterministic=True) == wanted


def saved(folder: Path) -> tuple[Path, Path]:
    """A model and samples for it."""
    onnx.save_model(classifier(), folder / "small.onnx")
    np.savez(folder / "x.npz", x=reals(10, *IMAGE[1:]))
    return folder / "small.onnx", folder / "x.npz"


def test_the_walls_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = saved(tmp_path)
    made, answer = quantize_model(path, data), sandbox.answer

    def here(task: str, head: Any, data: bytes = b"", limits: Any = None) -> Any:
        module, _, name = task.partition(":")
        if module != inside.__name__:
            return answer(task, head, data)
        told, pieces = getattr(inside, name)(head, data)
        return told, bytearray(b"".join(pieces))

    monkeypatch.setattr(sandbox, "answer", here)

    again = quantize_model(path, data)
    assert again.model.SerializeToString(deterministic=True) == made.model.SerializeToString(deterministic=True)
    assert again.tensors == made.tensors


def test_this_process_does_nothing_with_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module without contents is in its place here."""
    hollow = types.ModuleType("onnxruntime")
    hollow.__spec__ = importlib.machinery.ModuleSpec("onnxruntime", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", hollow)

    assert quantize_model(*saved(tmp_path)).sqnr_db > 20


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_the_process_that_forks_has_one_thread() -> None:
    """ONNX Runtime starts one for its telemetry unless it is told not to."""
    runtime.optimised(untouched())

    process = sandbox._helpers[inside.__name__].process
    assert process is not None and len([*Path(f"/proc/{process.pid}/task").iterdir()]) == 1


def endless() -> Any:
    """A Loop of all rounds that int64 can count."""
    one = helper.make_node("Constant", [], ["one"], value_float=1.0)
    body = helper.make_graph(
        [one, helper.make_node("Add", ["held", "one"], ["next"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("held", TensorProto.FLOAT, IMAGE),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, IMAGE),
        ],
    )
    loop = helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body)
    return model([loop], {"rounds": np.array((1 << 63) - 1)})


def test_a_model_that_does_not_end_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LIMITS", sandbox.Limits(seconds=1))
    sample: dict[str, Array] = {"x": np.zeros(IMAGE, np.float32)}

    with pytest.raises(
        QuantizeError, match=r"ONNX Runtime (took longer than 1 s|ended with SIG[A-Z]+); export"
    ) as told:
        runtime.Runner(endless())(sample)

    assert "\n" not in str(told.value)


def test_an_answer_without_values_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "answer", lambda *_: ({"made": []}, bytearray()))

    with pytest.raises(QuantizeError, match="no values"):
        runtime.Runner(untouched())({"x": np.zeros(IMAGE, np.float32)})


def test_a_model_that_ends_its_process_is_one_line(tmp_path: Path, gen: Gen, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = saved(tmp_path)
    answer = sandbox.answer

    def crashed(task: str, *asked: Any, **more: Any) -> Any:
        if task.endswith("answer_calibrated"):
            raise sandbox.Ended("ended with SIGSEGV")
        return answer(task, *asked, **more)

    monkeypatch.setattr(sandbox, "answer", crashed)
    done = gen("quantize", path, "--data", data)

    assert done.exit_code and done.stderr.count("\n") == 1
    assert "the process that runs the model in ONNX Runtime ended with SIGSEGV" in done.stderr
