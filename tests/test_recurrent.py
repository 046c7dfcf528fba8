"""Recurrent layers of .tflite files against tflite_micro, byte for byte, over inferences that keep their states."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime import load_reference
from tflite_micro.python.tflite_micro import runtime

import shoehorn_mcu
from shoehorn_mcu import importers, passes
from shoehorn_mcu.importers import ImportFault, UnsupportedModel
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.ops import Lstm
from shoehorn_mcu.planner import Goal, check, make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages
from tests.shared import MODELS, needs_shared
from tests.tflite_writer import ModelSpec, OpSpec, TensorSpec

MNIST = MODELS / "tflm-mnist-lstm-int8.tflite"
INFERENCES = 6

Rng = np.random.Generator


def lstm(
    rng: Rng,
    batch: int,
    steps: int,
    inputs: int,
    units: int,
    time_major: bool = False,
    clip: float = 0.0,
    wide: bool = False,
) -> ModelSpec:
    """A model of one int8 layer, or a `wide` one of int16, with gates around 1."""
    leading = (steps, batch) if time_major else (batch, steps)
    x_zero, h_zero = (int(z) for z in rng.integers(-128, 128, 2)) if not wide else (0, 0)
    x_scale, h_scale = (0.02 / 256, 0.0078 / 256) if wide else (0.02, 0.0078)
    kind, sums, finer = ("INT16", np.int64, 256) if wide else ("INT8", np.int32, 1)

    def matrix(name: str, columns: int, scale: float) -> TensorSpec:
        scales = (float(np.float32(0.02 / scale / finer / 100 / columns**0.5 * rng.uniform(0.3, 2))),)
        return TensorSpec(
            name, (units, columns), "INT8", scales, data=rng.integers(-127, 128, (units, columns), np.int8).tobytes()
        )

    tensors = [
        TensorSpec("x", (*leading, inputs), kind, (x_scale,), (x_zero,)),
        *(matrix(f"w{g}", inputs, x_scale) for g in range(4)),
        *(matrix(f"r{g}", units, h_scale) for g in range(4)),
        *(
            TensorSpec(
                f"b{g}",
                (units,),
                np.dtype(sums).name.upper(),
                data=(rng.integers(-4000, 4000, units, sums) * finer).tobytes(),
            )
            for g in range(4)
        ),
        TensorSpec("h", (batch, units), kind, (h_scale,), (h_zero,), variable=True),
        TensorSpec("c", (batch, units), "INT16", (2.0 ** -int(rng.integers(9, 16)),), (0,), variable=True),
        TensorSpec("y", (*leading, units), kind, (h_scale,), (h_zero,)),
    ]
    reads = (0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -1, -1, 9, 10, 11, 12, -1, -1, 13, 14, -1, -1, -1, -1)
    options = {"FusedActivationFunction": 4, "CellClip": clip, "TimeMajor": time_major}
    return ModelSpec(tensors, [OpSpec("UNIDIRECTIONAL_SEQUENCE_LSTM", reads, (15,), options)], (0,), (15,))


def compared(model: bytes, inputs: list[Array], reset: int) -> Graph:
    """Runs both, with a reset before inference `reset`, and compares all outputs; the graph after the passes."""
    graph = passes.prove_int32(passes.run(import_tflite(model, "model"))[0])
    ours, theirs = load_reference(graph), runtime.Interpreter.from_bytes(model)
    for number, x in enumerate(inputs):
        if number == reset:
            ours.reset()
            theirs.reset()
        theirs.set_input(x, 0)
        theirs.invoke()

        found = ours.run([x])[graph.outputs[0]]

        assert found.tobytes() == theirs.get_output(0).tobytes(), number
    return graph


@pytest.mark.parametrize("wide", [False, True], ids=["int8", "int16"])
@pytest.mark.parametrize("clip", [0.0, 0.9])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize(
    ("batch", "steps", "inputs", "units"), [(1, 5, 7, 3), (1, 1, 4, 8), (3, 4, 2, 5), (2, 1, 9, 1)]
)
def test_an_integer_lstm_gives_the_bytes_of_tflite_micro(
    batch: int, steps: int, inputs: int, units: int, time_major: bool, clip: float, wide: bool
) -> None:
    most, dtype = (1 << 15, np.int16) if wide else (1 << 7, np.int8)
    for case in range(4):
        rng = np.random.default_rng([batch, steps, inputs, units, case])
        spec = lstm(rng, batch, steps, inputs, units, time_major, clip, wide)
        shape = spec.tensors[0].shape

        compared(spec.bytes(), [rng.integers(-most, most, shape, dtype) for _ in range(INFERENCES)], reset=4)


@pytest.mark.parametrize("clip", [0.0, 0.4])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize(("batch", "steps", "inputs", "units"), [(1, 5, 7, 3), (1, 1, 4, 8), (3, 4, 2, 5)])
def test_a_float32_lstm_differs_from_tflite_micro_in_the_last_bits(
    batch: int, steps: int, inputs: int, units: int, time_major: bool, clip: float
) -> None:
    """The exponentials are other ones; errors of some units of the last place go on from step to step."""
    rng = np.random.default_rng([batch, steps, inputs, units])
    spec = lstm(rng, batch, steps, inputs, units, time_major, clip)
    for number, tensor in enumerate(spec.tensors):
        data = None if tensor.data is None else rng.normal(0, 0.5, tensor.shape).astype(np.float32).tobytes()
        spec.tensors[number] = TensorSpec(tensor.name, tensor.shape, "FLOAT32", data=data, variable=tensor.variable)
    model = spec.bytes()
    graph = passes.run(import_tflite(model, "model"))[0]
    ours, theirs = load_reference(graph), runtime.Interpreter.from_bytes(model)
    for number in range(INFERENCES):
        if number == 4:
            ours.reset()
            theirs.reset()
        x = rng.normal(0, 1, spec.tensors[0].shape).astype(np.float32)
        theirs.set_input(x, 0)
        theirs.invoke()

        found = ours.run([x])[graph.outputs[0]]

        np.testing.assert_allclose(found, theirs.get_output(0), rtol=2e-6, atol=2e-7)


@needs_shared
def test_the_lstm_of_tflite_micros_example_gives_its_bytes() -> None:
    rng = np.random.default_rng(0)

    graph = compared(MNIST.read_bytes(), [rng.integers(-128, 128, (1, 28, 28), np.int8) for _ in range(8)], reset=5)

    assert [type(op).__name__ for op in graph.ops] == [
        "Reshape",
        "Lstm",
        "Slice",
        "Slice",
        "Reshape",
        "Dense",
        "Softmax",
    ]


@pytest.mark.parametrize(
    ("place", "tensor", "why"),
    [
        (9, 9, "it has peephole weights, only the standard LSTM is supported"),
        (16, 1, "it has a projection"),
        (20, 9, "it has layer normalisation"),
        (1, -1, "its input and forget gates are coupled"),
    ],
)
def test_other_kinds_of_lstm_are_refused_in_words(place: int, tensor: int, why: str) -> None:
    spec = lstm(np.random.default_rng(0), 1, 2, 3, 4)
    (op,) = spec.ops
    reads = tuple(tensor if i == place else n for i, n in enumerate(op.inputs))

    with pytest.raises(UnsupportedModel, match=why):
        import_tflite(replace(spec, ops=[replace(op, inputs=reads)]).bytes(), "model")


def test_a_state_that_two_layers_share_is_refused() -> None:
    spec = lstm(np.random.default_rng(0), 1, 2, 3, 4)
    (op,) = spec.ops
    tensors = [*spec.tensors, replace(spec.tensors[15], name="z")]

    with pytest.raises(UnsupportedModel, match="its state 'h' is another op's, too"):
        import_tflite(
            replace(spec, tensors=tensors, ops=[op, replace(op, outputs=(16,))], outputs=(15, 16)).bytes(), "m"
        )


@pytest.mark.parametrize(
    ("tensor", "changes", "why"),
    [
        (0, {"zero_points": (3,)}, "is int16 with zero point 3, 0 is needed"),
        (13, {"dtype": "INT8"}, "its hidden state 'h' is int8, int16 is needed"),
        (9, {"dtype": "INT32", "data": np.zeros(4, np.int32).tobytes()}, r"a constant int64\[4\] is needed"),
    ],
)
def test_other_types_beside_int16_are_refused(tensor: int, changes: dict[str, Any], why: str) -> None:
    spec = lstm(np.random.default_rng(0), 1, 2, 3, 4, wide=True)
    spec.tensors[tensor] = replace(spec.tensors[tensor], **changes)

    with pytest.raises(UnsupportedModel, match=why):
        import_tflite(spec.bytes(), "model")


@pytest.mark.parametrize(
    ("tensor", "changes", "why"),
    [
        (0, {"shape": (6, 4)}, r"its input is int8\[6x4\], three dimensions are needed"),
        (1, {"shape": (4, 5)}, r"its weights 'w0' are int8\[4x5\], not \(5, 4\)"),
        (1, {"data": None}, "its weights 'w0' are computed, they must be constant"),
        (13, {"shape": (7,)}, r"its states int8\[7\] and int16\[3x5\] do not fit a batch of 3"),
        (14, {"dtype": "INT8"}, "its cell state 'c' is int8.*, a quantised int16 is needed"),
        (15, {"scales": (0.5,)}, "its output and its hidden state have different scales"),
    ],
)
def test_operands_of_an_lstm_that_do_not_fit_are_named(tensor: int, changes: dict[str, Any], why: str) -> None:
    model = lstm(np.random.default_rng(0), 3, 2, 4, 5)
    model.tensors[tensor] = replace(model.tensors[tensor], **changes)
    if "data" in changes:
        model.inputs = (0, tensor)

    with pytest.raises(ImportFault, match=why):
        import_tflite(model.bytes(), "lstm")


def test_another_activation_of_an_lstm_is_refused() -> None:
    model = lstm(np.random.default_rng(0), 3, 2, 4, 5)
    model.ops[0].options["FusedActivationFunction"] = 1

    with pytest.raises(UnsupportedModel, match="its activation is RELU, TANH is supported"):
        import_tflite(model.bytes(), "lstm")


def test_a_cell_state_with_a_scale_that_is_no_power_of_two_is_refused() -> None:
    spec = lstm(np.random.default_rng(0), 1, 2, 3, 4)
    spec.tensors[14] = replace(spec.tensors[14], scales=(0.0003,))

    with pytest.raises(UnsupportedModel, match="the scale of its cell state 'c' is no power of two"):
        import_tflite(spec.bytes(), "model")


svdf_sizes = pytest.mark.parametrize(
    ("batch", "inputs", "units", "rank", "places"), [(1, 7, 3, 1, 4), (2, 5, 2, 2, 3), (1, 4, 5, 1, 1)]
)


def svdf(
    rng: Rng, batch: int, inputs: int, units: int, rank: int, places: int, dtype: str, activation: int = 1
) -> ModelSpec:
    """A model of one layer; the memory and the weights of time are of this type, all else int8, or all is float32."""
    filters = units * rank
    scale = {"INT8": 0.02, "INT16": 0.0002}.get(dtype, 0.0)
    most = {"INT8": 127, "INT16": 32767}.get(dtype, 1)
    zeros = [int(z) for z in rng.integers(-20, 20, 3)]

    def constant(name: str, shape: tuple[int, ...], kind: str, size: float) -> TensorSpec:
        if dtype == "FLOAT32":
            return TensorSpec(name, shape, dtype, data=rng.normal(0, 0.5, shape).astype(np.float32).tobytes())
        most = {"INT8": 127, "INT16": 32767}[kind]
        numbers = rng.integers(-most, most + 1, shape).astype(kind.lower())
        return TensorSpec(name, shape, kind, (size / most,), data=numbers.tobytes())

    real = dtype == "FLOAT32"
    small = "FLOAT32" if real else "INT8"
    numbers = rng.integers(-500, 500, units, np.int32).tobytes()
    bias = constant("b", (units,), dtype, 1.0) if real else TensorSpec("b", (units,), "INT32", (scale * 0.3 / most,))
    bias = bias if real else replace(bias, data=numbers)
    zero = (zeros[1] if dtype == "INT8" else 0,)
    tensors = [
        TensorSpec("x", (batch, inputs), small, () if real else (0.03,), (zeros[0],)),
        constant("features", (filters, inputs), small, 0.5),
        constant("time", (filters, places), dtype, 0.3),
        bias,
        TensorSpec("memory", (batch, filters * places), dtype, () if real else (scale,), zero, variable=True),
        TensorSpec("y", (batch, units), small, () if real else (0.05,), (zeros[2],)),
    ]
    options = {"Rank": rank, "FusedActivationFunction": activation}
    return ModelSpec(tensors, [OpSpec("SVDF", (0, 1, 2, 3, 4), (5,), options)], (0,), (5,))


@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
@svdf_sizes
def test_an_int8_svdf_gives_the_bytes_of_tflite_micro(
    batch: int, inputs: int, units: int, rank: int, places: int, dtype: str
) -> None:
    for case in range(4):
        rng = np.random.default_rng([batch, inputs, units, rank, places, case])
        spec = svdf(rng, batch, inputs, units, rank, places, dtype)

        compared(spec.bytes(), [rng.integers(-128, 128, (batch, inputs), np.int8) for _ in range(9)], reset=6)


@pytest.mark.parametrize("activation", [0, 1])
@svdf_sizes
def test_a_float32_svdf_computes_what_tflite_micro_does(
    batch: int, inputs: int, units: int, rank: int, places: int, activation: int
) -> None:
    """The bias is added last here, first there."""
    rng = np.random.default_rng([batch, inputs, units, rank])
    model = svdf(rng, batch, inputs, units, rank, places, "FLOAT32", activation).bytes()
    graph = passes.run(import_tflite(model, "model"))[0]
    ours, theirs = load_reference(graph), runtime.Interpreter.from_bytes(model)
    for number in range(9):
        if number == 6:
            ours.reset()
            theirs.reset()
        x = rng.normal(0, 1, (batch, inputs)).astype(np.float32)
        theirs.set_input(x, 0)
        theirs.invoke()

        found = ours.run([x])[graph.outputs[0]]

        np.testing.assert_allclose(found, theirs.get_output(0), rtol=1e-5, atol=1e-6)


@needs_shared
def test_steps_are_planned_by_rows() -> None:
    """One state is alive beside the one that is computed from it, and of the output what the dense layer reads."""
    graph = passes.run(importers.load(MNIST))[0]
    problem = lower(graph, stages(graph, Machine.of("cortex-m4f")), None)
    plan = make_plan(problem, Goal.SRAM)

    assert not check(problem, plan)
    (op,) = (op for op in graph.ops if isinstance(op, Lstm))
    record = graph.tensors[op.output].type.row_bytes
    assert plan.arena_bytes <= 28 * 28 + 28 * 20 + 3 * record


def test_the_check_finds_a_state_that_is_overwritten_too_early() -> None:
    rng = np.random.default_rng(zlib.crc32(b"early"))
    graph = passes.run(import_tflite(lstm(rng, 1, 5, 3, 4).bytes(), "model"))[0]
    problem = lower(graph, stages(graph, Machine.of("cortex-m4f")), None)
    plan = make_plan(problem, Goal.SRAM)
    (name,) = (op.output for op in graph.ops if isinstance(op, Lstm))
    (mine,) = (p for p in plan.placements if p.tensor == name)
    same = replace(mine, slots=(mine.at(0),) * mine.rows)
    wrong = replace(plan, placements=tuple(same if p is mine else p for p in plan.placements))

    assert any(f"row 0 of '{name}' is read" in fault for fault in check(problem, wrong))


@needs_shared
@pytest.mark.parametrize("cores", [1, 4])
def test_the_lstm_runs_on_an_emulated_board(tmp_path: Path, cores: int) -> None:
    board = "mps2-an386" if cores == 1 else "rpi-zero-2w"
    made = shoehorn_mcu.generate(MNIST, tmp_path / "lstm", shoehorn_mcu.PlanOptions(board=board, cores=cores))

    found = shoehorn_mcu.validate(made.folder, emulate=True, count=6)

    assert (found.vectors, found.mismatched_vectors) == (6, 0)
