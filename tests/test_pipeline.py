"""Two models as one: samples through an audio front end, slice by slice, into a model that decides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Gen
from runtime import load_portable, load_reference
from test_signal import FRONT, recordings
from tflite_micro.python.tflite_micro import runtime
from tflite_writer import int8, single

import shoehorn_mcu
from shoehorn_mcu import PlanOptions, importers, passes
from shoehorn_mcu.firmware.pipelines import DEFAULT, Pipeline, PipelineError, Strides, pipeline
from shoehorn_mcu.ir import Array, DType, Graph, Quant, State, Tensor, TensorType, verify
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.ops import Concat, Slice, Slide
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu.schedule.state_places import over_states
from tests.shared import DATA, MODELS, needs_shared

SPEECH, NABU = MODELS / "tflm-micro-speech.tflite", MODELS / "mww-okay-nabu-v2.tflite"
SLICE = 480


def joined(wake: Path, strides: Strides = DEFAULT) -> Pipeline:
    return pipeline(importers.load(FRONT), importers.load(wake), strides)


def in_micro(wake: Path, sound: Array, stride: int, fresh: int, window: int) -> list[Array]:
    """The outputs of tflite_micro for slices behind SLICE - stride samples of silence, `fresh` for each inference."""
    sound = np.concatenate([np.zeros(SLICE - stride, np.int16), sound])
    front = runtime.Interpreter.from_file(str(FRONT))
    decide = runtime.Interpreter.from_file(str(wake), arena_size=1 << 20)
    (zero_point,) = decide.get_input_details(0)["quantization_parameters"]["zero_points"]
    features = np.full((window, 40), zero_point, np.int8)
    found = []
    for number in range((len(sound) - SLICE) // stride + 1):
        front.set_input(sound[None, number * stride : number * stride + SLICE], 0)
        front.invoke()
        features = np.concatenate([features[1:], front.get_output(0)[None]])
        if (number + 1) % fresh == 0:
            decide.set_input(features.reshape(decide.get_input_details(0)["shape"]), 0)
            decide.invoke()
            found.append(np.array(decide.get_output(0)))
    return found


CASES = {
    "a window of 49 slices": (SPEECH, Strides(), 320, 1, 49),
    "seven new slices of 49": (SPEECH, Strides(320, 7), 320, 7, 49),
    "slices side by side": (SPEECH, Strides(480), 480, 1, 49),
    "a model with states": (NABU, Strides(160), 160, 3, 3),
}


@needs_shared
@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_computes_what_tflite_micro_does_model_by_model(name: str) -> None:
    wake, strides, stride, fresh, window = CASES[name]
    sound = recordings()["yes_1000ms"][: stride * fresh * 12 if fresh > 1 else stride * 50]
    wanted = in_micro(wake, sound, stride, fresh, window)
    graph, _ = passes.run(joined(wake, strides).graph)
    step = stride * fresh
    for load in (load_reference, load_portable):
        run = load(graph)
        found = [run.run([sound[None, i : i + step]])[graph.outputs[0]] for i in range(0, len(sound) - step + 1, step)]

        assert len(found) == len(wanted) >= 7
        np.testing.assert_array_equal(np.stack(found), np.stack(wanted))


@needs_shared
@pytest.mark.parametrize(("word", "decision"), [("yes", 2), ("no", 3), ("silence", 0), ("noise", 0)])
def test_the_last_decision_on_each_recording_is_that_of_micro_speech_test(word: str, decision: int) -> None:
    graph, sound = passes.run(joined(SPEECH).graph)[0], recordings()[f"{word}_1000ms"]
    run = load_portable(graph)
    outputs = [run.run([sound[None, i : i + 320]])[graph.outputs[0]] for i in range(0, len(sound), 320)]

    assert int(outputs[-1].argmax()) == decision


@needs_shared
@pytest.mark.parametrize("wake", [SPEECH, NABU])
def test_windows_over_a_stream_are_held_once(wake: Path) -> None:
    graph, _ = passes.run(joined(wake).graph)
    chosen = stages(graph, Machine.of("cortex-m4f"))
    over = {write: waits.state.read for write, waits in over_states(graph, chosen).items()}
    windows = {state.write for state in graph.states if "_before" in state.read or "subtraction" in state.read}

    made = schedule(Cuts(graph, chosen), PlanRequest())

    assert windows & set(over)
    assert "heard" in over
    for write, read in over.items():
        assert made.plan.placement(write).address == made.plan.placement(read).address
    assert {p.tensor for p in made.plan.placements} <= set(graph.tensors)


@needs_shared
def test_micro_speech_needs_no_more_than_its_windows_and_its_largest_layer() -> None:
    graph, _ = passes.run(joined(SPEECH).graph)
    chosen = stages(graph, Machine.of("cortex-m4f"))
    kept = 2 * 480 + 49 * 40 + 4 * 40  # samples, features, noise

    made = schedule(Cuts(graph, chosen), PlanRequest())

    assert made.plan.arena_bytes == kept + 25 * 20 * 8 + 4 * 4  # maps, and the four sums of int32


def test_a_state_that_two_ops_read_is_not_written_over() -> None:
    kinds = {"x": (1, 2), "before": (1, 5), "first": (1, 5), "now": (1, 5), "both": (1, 10)}
    data = {"first": np.zeros((1, 5), np.int8)}
    tensors = {n: Tensor(n, TensorType(shape, DType.INT8), data.get(n)) for n, shape in kinds.items()}
    slide = Slide(name="slide", inputs=("before", "x"), output="now")
    join = Concat(name="join", inputs=("before", "now"), output="both", axis=1)
    graph = verify(Graph("two", tensors, (slide, join), ("x",), ("both",), (State("before", "now", "first"),)))
    alone = verify(replace(graph, ops=(slide,), outputs=("now",)))
    m4 = Machine.of("cortex-m4f")

    assert over_states(graph, stages(graph, m4)) == {}
    assert set(over_states(alone, stages(alone, m4))) == {"now"}
    assert "before" in lower(graph, stages(graph, m4), None).outputs


def vectors(
    name: str, shapes: Sequence[tuple[int, ...]], dtype: DType = DType.INT8, quant: Quant | None = None
) -> Graph:
    """A model of one op that gives the first elements of its input."""
    x, y = (TensorType(shape, dtype, quant) for shape in shapes)
    cut = Slice(name="cut", inputs=("x",), output="y", begin=(0, 0), size=shapes[1], step=(1, 1))
    return verify(Graph(name, {"x": Tensor("x", x), "y": Tensor("y", y)}, (cut,), ("x",), ("y",)))


def two_inputs() -> Graph:
    kind = TensorType((1, 4), DType.INT8)
    join = Concat(name="join", inputs=("a", "b"), output="y", axis=0)
    tensors = {"a": kind, "b": kind, "y": replace(kind, shape=(2, 4))}
    return verify(Graph("two", {n: Tensor(n, t) for n, t in tensors.items()}, (join,), ("a", "b"), ("y",)))


def two_outputs() -> Graph:
    graph = vectors("both", [(1, 9), (1, 4)])
    return replace(graph, outputs=("y", "x"))


COARSE, FINE = Quant((0.5,), (0,)), Quant((0.25,), (0,))
FOUR = vectors("front", [(1, 9), (1, 4)])
BAD = {
    "features that do not fit": (FOUR, vectors("wake", [(1, 10), (1, 2)]), {}, "no whole number of vectors of 4"),
    "another element type": (FOUR, vectors("wake", [(1, 8), (1, 2)], DType.INT16), {}, "is int16, and the features of"),
    "another scale": (
        vectors("front", [(1, 9), (1, 4)], quant=COARSE),
        vectors("wake", [(1, 8), (1, 2)], quant=FINE),
        {},
        "has scale 0.25 and zero point 0, and the features of front have scale 0.5 and zero point 0",
    ),
    "two inputs": (two_inputs(), FOUR, {}, "has 2 inputs and 1 output; as the front end of a pipeline"),
    "two outputs": (two_outputs(), FOUR, {}, "has 1 input and 2 outputs; as the front end of a pipeline"),
    "samples that are no vector": (
        vectors("front", [(3, 3), (1, 2)]),
        FOUR,
        {},
        "its input .* is no vector of samples",
    ),
    "a stride beyond the slice": (FOUR, vectors("wake", [(1, 8), (1, 2)]), {"samples": 10}, "has 9 samples"),
    "more slices than the model sees": (FOUR, vectors("wake", [(1, 8), (1, 2)]), {"slices": 3}, "takes 2 slices"),
}


@pytest.mark.parametrize("name", BAD)
def test_models_that_do_not_fit_are_refused_in_one_line(name: str) -> None:
    front, wake, strides, message = BAD[name]
    with pytest.raises(PipelineError, match=message) as error:
        pipeline(front, wake, Strides(**strides))

    assert "\n" not in str(error.value)


def test_copies_are_numbered_from_the_second_of_a_name_on() -> None:
    first, second = (Tensor(name, TensorType((1, 4), DType.INT8)) for name in ("y", "z"))
    again = Slice(name="cut_1", inputs=("y",), output="z", begin=(0, 0), size=(1, 4), step=(1, 1))
    longer = replace(FOUR, tensors={**FOUR.tensors, "y": first, "z": second}, ops=(*FOUR.ops, again), outputs=("z",))
    one = pipeline(FOUR, vectors("wake", [(1, 12), (1, 2)])).graph
    two = pipeline(verify(longer), vectors("wake", [(1, 12), (1, 2)])).graph
    three = pipeline(FOUR, vectors("wake", [(1, 12), (1, 2)]), Strides(3, 3)).graph

    assert [op.name for op in one.ops if op.name.startswith("cut")] == ["cut", "cut_1"]
    assert [op.name for op in two.ops if op.name.startswith("cut")] == ["cut", "cut_1", "cut_2"]
    assert [op.name for op in three.ops if op.name.startswith("cut")] == ["cut_0", "cut_1", "cut_2", "cut"]
    assert [name for name in three.tensors if name.startswith("slice")] == ["slice", "slice_1", "slice_2"]


def test_stored_features_are_given_as_they_are_where_one_model_has_no_scale() -> None:
    made = pipeline(FOUR, vectors("wake", [(1, 8), (1, 2)], quant=FINE))

    assert made.notes[1] == "the features are given as they are stored: front says no scale for them"
    assert pipeline(FOUR, vectors("wake", [(1, 8), (1, 2)])).notes[1:] == ()
    scaled = vectors("scaled", [(1, 9), (1, 4)], quant=FINE)
    bare = pipeline(scaled, vectors("wake", [(1, 8), (1, 2)]))
    assert bare.notes[1] == "the features are given as they are stored: wake says no scale for them"


USAGE = {
    "one model": (["front.tflite", "--pipeline"], "--pipeline takes two models"),
    "no --pipeline": (["front.tflite", "wake.tflite"], "is a second model, which --pipeline is for"),
    "strides of one model": (["front.tflite", "--stride", "160"], "--stride and --slices belong to --pipeline"),
    "slices of one model": (["front.tflite", "--slices", "2"], "--stride and --slices belong to --pipeline"),
}


def test_native_ends_of_a_pipeline_are_refused(tmp_path: Path) -> None:
    for name, seed in (("front", 1), ("wake", 2)):
        layer = single("FULLY_CONNECTED", [int8("x", (1, 8)), int8("w", (8, 8), seed)], [int8("y", (1, 8))])
        (tmp_path / f"{name}.tflite").write_bytes(layer.bytes())
    options = PlanOptions(board="native", behind=tmp_path / "wake.tflite", io="native")

    with pytest.raises(PipelineError, match="--io native: a pipeline's input is in no file; leave the option out"):
        shoehorn_mcu.plan(tmp_path / "front.tflite", options)


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_says_what_is_missing(name: str, gen: Gen) -> None:
    words, message = USAGE[name]
    found = gen("plan", *words)

    assert found.exit_code == 2
    assert message in found.output


@needs_shared
def test_the_options_of_a_pipeline_reach_the_plan(gen: Gen) -> None:
    found = gen("plan", FRONT, NABU, "--pipeline", "--stride", "10ms", "--json")

    (given,) = json.loads(found.stdout)["model"]["inputs"]
    assert given["shape"] == [1, 480]
    assert "3 new slices of 480, 160 apart, of the 3 that mww-okay-nabu-v2 sees" in " ".join(found.stderr.split())


@needs_shared
def test_the_recordings_of_micro_speech_pass_on_an_emulated_board(gen: Gen, tmp_path: Path) -> None:
    made = gen("firmware", FRONT, SPEECH, "--pipeline", "--board", "mps2-an386", "--out", tmp_path / "wake")
    assert made.exit_code == 0, made.output
    for word, label in (("yes", "yes"), ("noise", "silence")):
        (tmp_path / "sounds" / label).mkdir(parents=True, exist_ok=True)
        name = f"{word}_1000ms.wav"
        (tmp_path / "sounds" / label / name).write_bytes((DATA / "micro-speech" / name).read_bytes())
    (tmp_path / "labels.txt").write_text("silence\nunknown\nyes\nno\n")
    words = ("--emulate", "--inputs", tmp_path / "sounds", "--labels", tmp_path / "labels.txt", "--json")
    found = gen("validate", tmp_path / "wake", *words)

    said = json.loads(found.stdout)
    assert (said["vectors"], said["mismatched_vectors"], said["first_bad_op"]) == (2 * 50, 0, None)
    assert (said["accuracy"]["labelled"], said["accuracy"]["right"]) == (2, 2)


@needs_shared
@pytest.mark.parametrize("stride", ["0", "1.5ms", "20s", "twenty"])
def test_a_stride_that_is_no_time_is_refused(stride: str, gen: Gen) -> None:
    found = gen("plan", FRONT, SPEECH, "--pipeline", "--stride", stride)

    assert found.exit_code == 2
    assert "write samples, such as 320, or whole milliseconds, such as 20ms" in " ".join(found.output.split())
