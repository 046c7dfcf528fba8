"""RNN, GRU and LSTM from ONNX against ONNX Runtime, in all directions, variants and activations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from runtime import load_portable, load_reference

import shoehorn_mcu
from shoehorn_mcu import passes
from shoehorn_mcu.importers import UnsupportedModel
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ops import Recurrence

pytestmark = pytest.mark.usefixtures("module_in_one_process")

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, UNITS = 5, 3, 4, 6

Rng = np.random.Generator


def model(
    rng: Rng,
    code: str,
    direction: str = "forward",
    given: str = "",
    steps: int = STEPS,
    batch: int = BATCH,
    **attributes: Any,
) -> ModelProto:
    """A layer with inputs x and, of those named in `given`, h and c; b, p and l are a bias, peepholes and lengths."""
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[code] * UNITS
    shapes = {
        "W": (directions, rows, INPUTS),
        "R": (directions, rows, UNITS),
        "b": (directions, 2 * rows),
        "p": (directions, 3 * UNITS),
    }
    held = {n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in shapes.items() if n.isupper() or n in given}
    if "l" in given:
        held["l"] = np.array([steps, 1, max(1, steps - 2)][:batch], np.int32)
    state = (directions, batch, UNITS)
    ends = {"x": (steps, batch, INPUTS), **{n: state for n in "hc" if n in given}}
    reads = ["x", "W", "R", *(n if n in given else "" for n in "blhcp")]
    results = ["y", "yh", "yc"][: 3 if code == "LSTM" else 2]
    node = helper.make_node(
        code, reads[: 8 if code == "LSTM" else 6], results, direction=direction, hidden_size=UNITS, **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ends.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results],
        [numpy_helper.from_array(array, n) for n, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compared(made: ModelProto, rng: Rng) -> None:
    """The reference runtime and the portable kernels against ONNX Runtime; both of ours give the same bytes."""
    imported = import_model(made, "model")
    graph = passes.prove_int32(passes.run(imported.graph)[0])
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {e.name: rng.normal(0, 1, e.shape).astype(np.float32) for e in session.get_inputs()}
    wanted = session.run(None, inputs)
    given = [inputs[n].transpose(imported.ends[n].order) for n in graph.inputs]
    arrays = [np.asarray(array, order="C") for array in given]
    ours, portable = load_reference(graph).run(arrays), load_portable(graph).run(arrays)
    for end, name, expected in zip(made.graph.output, graph.outputs, wanted, strict=True):
        found = ours[name].transpose(np.argsort(imported.ends[end.name].order))

        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6, err_msg=end.name)
        assert ours[name].tobytes() == portable[name].tobytes()


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("code", "attributes"),
    [
        ("RNN", {}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"clip": 0.5}),
        ("LSTM", {}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"clip": 0.7}),
    ],
)
@pytest.mark.parametrize(
    "given", [pytest.param("", marks=pytest.mark.long), "b", "bh", pytest.param("bl", marks=pytest.mark.long), "bhl"]
)
def test_a_layer_computes_what_onnx_runtime_does(
    code: str, attributes: dict[str, Any], direction: str, given: str
) -> None:
    rng = np.random.default_rng([GATES[code], len(direction), len(given), len(attributes)])
    given += "c" if code == "LSTM" and "h" in given else ""
    compared(model(rng, code, direction, given, **attributes), rng)


@pytest.mark.parametrize("given", ["p", "bhcp", "bhclp"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_an_lstm_with_peepholes_computes_what_onnx_runtime_does(given: str, direction: str) -> None:
    rng = np.random.default_rng(len(given))
    compared(model(rng, "LSTM", direction, given), rng)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": [0.3]}),
        ("ThresholdedRelu", {"activation_alpha": [0.2]}),
        ("ScaledTanh", {"activation_alpha": [0.7], "activation_beta": [0.6]}),
        ("HardSigmoid", {"activation_alpha": [0.3], "activation_beta": [0.4]}),
        ("Elu", {"activation_alpha": [0.8]}),
        ("Softsign", {}),
        ("Softplus", {}),
        ("Affine", {"activation_alpha": [0.3], "activation_beta": [0.1]}),
    ],
)
def test_an_activation_computes_what_onnx_runtime_does(name: str, numbers: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    compared(model(rng, "RNN", "forward", "b", activations=[name], **numbers), rng)


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (1, 3), (6, 1)])
@pytest.mark.parametrize("code", ["RNN", "GRU", "LSTM"])
def test_one_step_and_one_sequence(code: str, steps: int, batch: int) -> None:
    rng = np.random.default_rng([steps, batch])
    compared(model(rng, code, given="bh" + "c" * (code == "LSTM"), steps=steps, batch=batch), rng)


def test_what_is_missing_is_said_in_words() -> None:
    rng = np.random.default_rng(0)

    with pytest.raises(UnsupportedModel, match="its activation 'Sine' is not known"):
        import_model(model(rng, "RNN", activations=["Sine"]), "model")
    with pytest.raises(ImportFault, match="it has 1 activations, 2 are needed"):
        import_model(model(rng, "GRU", activations=["Tanh"]), "model")


def test_the_kernels_of_a_model_are_one_per_kind_of_layer() -> None:
    """Both directions of a layer run one kernel."""
    rng = np.random.default_rng(0)
    graph = import_model(model(rng, "GRU", "bidirectional"), "model").graph

    assert len({op.formula for op in graph.ops if isinstance(op, Recurrence)}) == 1


@pytest.mark.parametrize("mode", ["precise", "half", pytest.param("relaxed", marks=pytest.mark.long)])
def test_a_layer_runs_on_an_emulated_board(tmp_path: Path, mode: Any) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "layer.onnx"
    path.write_bytes(model(rng, "LSTM", "bidirectional", "b", steps=9, batch=1).SerializeToString())
    options = shoehorn_mcu.PlanOptions(board="mps2-an386", float=mode)

    made = shoehorn_mcu.generate(path, tmp_path / "layer", options)
    found = shoehorn_mcu.validate(made.folder, emulate=True, count=2)

    assert (found.vectors, found.mismatched_vectors) == (2, 0)
