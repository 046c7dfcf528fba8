"""`--state IN=OUT` and `--stateless`: ends of a model as states, and states as constants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import ModelProto, TensorProto, helper, numpy_helper
from runtime import load_reference
from samples import graph_of, int8
from test_states import ring

import shoehorn_mcu
from shoehorn_mcu import importers, passes
from shoehorn_mcu.cli.group import main
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Graph, Quant
from shoehorn_mcu.ops import Relu
from shoehorn_mcu.passes.ends.state_ends import StateError, with_states, without_states
from tests.shared import MODELS, needs_shared

MNIST = MODELS / "tflm-mnist-lstm-int8.tflite"
FRAME, KEPT = (1, 3, 1, 8), (1, 3, 4, 8)


def streaming() -> ModelProto:
    """A convolution over time with a cache of the four frames before, as streaming exporters write it."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.3, (5, 3, 5, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Concat", ["cache", "x"], ["frames"], axis=2),
        helper.make_node("Conv", ["frames", "w"], ["y"], pads=[0, 1, 0, 1]),
        helper.make_node("Slice", ["frames", "one", "end", "axis"], ["cache_next"]),
    ]
    constants = {"w": weights, "one": np.array([1]), "end": np.array([5]), "axis": np.array([2])}
    graph = helper.make_graph(
        nodes,
        "streaming",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", FRAME), ("cache", KEPT))],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "cache_next")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def kept(**pairs: str) -> Graph:
    found = import_model(streaming(), "streaming")
    return with_states(found.graph, found.ends, pairs)


def test_an_output_becomes_what_an_input_reads_next() -> None:
    graph = passes.run(kept(cache="cache_next"))[0]
    reference = load_reference(graph)
    session = onnxruntime.InferenceSession(streaming().SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    cache = np.zeros(KEPT, np.float32)

    assert (graph.inputs, graph.outputs) == (("x",), ("y",))
    for number in range(7):
        if number == 5:
            reference.reset()
            cache = np.zeros(KEPT, np.float32)
        x = rng.normal(0, 1, FRAME).astype(np.float32)
        wanted, cache = session.run(None, {"x": x, "cache": cache})

        found = reference.run([np.ascontiguousarray(x.transpose(0, 2, 3, 1))])["y"]

        np.testing.assert_allclose(found.transpose(0, 3, 1, 2), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"cash": "cache_next"}, "streaming: has no input called 'cash'; did you mean 'cache'?"),
        ({"cache": "next"}, "streaming: has no output called 'next'; its outputs are y, cache_next"),
        (
            {"x": "cache_next"},
            "input 'x' is float32[1x3x1x8], output 'cache_next' is float32[1x3x4x8]; a state needs one",
        ),
        ({"cache": "cache_next", "x": "cache_next"}, "'cache_next' is given as the state of both 'cache' and 'x'"),
    ],
)
def test_what_cannot_be_a_state_is_said_in_one_line(pairs: dict[str, str], message: str) -> None:
    with pytest.raises(StateError) as fault:
        kept(**pairs)

    assert message in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_model_of_states_alone_is_refused() -> None:
    graph = graph_of(Relu, [int8((1, 4), Quant((0.5,), (0,)))], int8((), Quant((0.5,), (0,))))

    with pytest.raises(StateError, match="all inputs are states; leave one of them out of --state"):
        with_states(graph, {}, {"x0": "y"})


def test_a_state_that_is_given_out_is_not_left_out() -> None:
    graph = ring()
    (state,) = graph.states

    with pytest.raises(StateError, match=f"output '{state.read}' is a state; leave --stateless out"):
        without_states(replace(graph, outputs=(state.read,)))


def test_an_option_given_twice_or_without_an_output_is_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "s.onnx"
    path.write_bytes(streaming().SerializeToString())
    for given, message in ((["cache=a", "cache=b"], "'cache' is given twice"), (["cache"], "'cache' is not IN=OUT")):
        result = CliRunner().invoke(main, ["plan", str(path), *(word for each in given for word in ("--state", each))])

        assert result.exit_code == 2
        assert message in result.output


def test_dimensions_are_brought_to_the_order_of_the_input() -> None:
    """The input is an image, channels last here; the output a transposed one that is not."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Add", ["x", "before"], ["sum"]),
        helper.make_node("Transpose", ["sum"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["turned", "m"], ["after"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 3, 3, 4)) for n in ("x", "before")]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "after")]
    matrix = numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.3, (4, 4)).astype(np.float32), "m")
    model = helper.make_model(
        helper.make_graph(nodes, "g", ends, outs, [matrix]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    found = import_model(model, "g")
    reference = load_reference(passes.run(with_states(found.graph, found.ends, {"before": "after"}))[0])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    before, rng = np.zeros((1, 3, 3, 4), np.float32), np.random.default_rng(1)
    for _ in range(3):
        x = rng.normal(0, 1, before.shape).astype(np.float32)
        _, before = session.run(None, {"x": x, "before": before})
        reference.run([np.ascontiguousarray(x.transpose(0, 2, 3, 1))])

    order = found.ends["before"].order
    held = reference._buffers["before"].view(np.float32).reshape([before.shape[d] for d in order])
    np.testing.assert_allclose(held, before.transpose(order), rtol=1e-5, atol=1e-6)


def test_a_board_computes_sequences_of_a_streaming_model(tmp_path: Path) -> None:
    path = tmp_path / "s.onnx"
    path.write_bytes(streaming().SerializeToString())
    options = shoehorn_mcu.PlanOptions(board="mps2-an386", states={"cache": "cache_next"})

    made = shoehorn_mcu.generate(path, tmp_path / "s", options)
    found = shoehorn_mcu.validate(made.folder, emulate=True, count=6)

    assert (found.vectors, found.mismatched_vectors) == (6, 0)
    (state,) = made.plan.report["model"]["states"]  # type: ignore[index]
    assert state == {"name": "cache", "shape": [1, 4, 8, 3], "dtype": "float32", "bytes": 384, "next": "cache_next"}


@needs_shared
def test_a_stateless_lstm_forgets_after_each_inference() -> None:
    graph = passes.run(without_states(importers.load(MNIST)))[0]
    fresh = load_reference(passes.run(importers.load(MNIST))[0])
    reference = load_reference(graph)
    rng = np.random.default_rng(0)

    assert not graph.states
    for _ in range(3):
        x = rng.integers(-128, 128, (1, 28, 28), np.int8)
        fresh.reset()

        assert np.array_equal(reference.run([x])[graph.outputs[0]], fresh.run([x])[graph.outputs[0]])


@needs_shared
@pytest.mark.parametrize("caller_arena", [False, True])
def test_rows_of_a_model_with_states_arrive_one_by_one(tmp_path: Path, caller_arena: bool) -> None:
    options = shoehorn_mcu.PlanOptions(board="mps2-an386", stream_input=True)

    made = shoehorn_mcu.generate(MNIST, tmp_path / "lstm", options, caller_arena=caller_arena)
    found = shoehorn_mcu.validate(made.folder, emulate=True, count=6)

    assert (found.vectors, found.mismatched_vectors) == (6, 0)
    assert made.plan.arena_bytes <= 760
