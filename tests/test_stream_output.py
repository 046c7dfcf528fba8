"""`--stream-output` from the planner to the board: rows handed out are those of the reference, in every byte."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from compilers import HOST
from conftest import Gen
from emitted import compile_library, expected, library_of, put, run, unit_of
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import Net
from onnx import TensorProto, helper, numpy_helper
from replay import Rows, replays
from shared import MODELS, needs_shared
from test_planner import _by_push, _chain, _nets, _problems

from shoehorn_mcu import ops
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Graph, State, Tensor, verify
from shoehorn_mcu.passes.ends.pieces import fed_in_pieces
from shoehorn_mcu.passes.ends.streamed_output import StreamError, streamable_output
from shoehorn_mcu.planner import Goal, OpSpec, Problem, Read, TensorSpec, check, make_plan
from shoehorn_mcu.planner.memory_plan import HANDOUT, Outcome, Plan, Status
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.placement.layout import lay_out
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu_host.folder.documents import PlanDocument

needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is not installed")
UNET = MODELS / "nano-u-botanic-int8.tflite"


def _handed_out(problem: Problem) -> Problem:
    """The same with its first output handed out: one more op reads its rows, and writes rows of no bytes."""
    name = problem.outputs[0]
    rows = problem.by_name[name].rows
    own = Read(name, tuple((y,) for y in range(rows)))
    before = Read(HANDOUT, tuple((y - 1,) if y else () for y in range(rows)))
    return replace(
        problem,
        tensors=(*problem.tensors, TensorSpec(HANDOUT, rows, 0)),
        ops=(*problem.ops, OpSpec(HANDOUT, (own, before), HANDOUT, row_cost=0)),
        outputs=(HANDOUT, *problem.outputs[1:]),
    )


@settings(max_examples=30, deadline=None)
@given(
    problem=st.one_of(_nets(), _problems()),
    goal=st.sampled_from(Goal),
    room=st.sampled_from((None, 1.0, 1.5)),
    pushed=st.booleans(),
)
def test_plans_that_hand_out_rows_pass_the_check(problem: Problem, goal: Goal, room: float | None, pushed: bool):
    streamed = _handed_out(_by_push(problem) if pushed else problem)
    least = make_plan(streamed, Goal.SRAM)
    capacity = None if room is None else int(least.arena_bytes * room)
    plan = make_plan(replace(streamed, capacity_bytes=capacity), goal)

    assert plan.handed_out
    assert check(streamed, plan) == []
    assert least.outcome.bound_bytes <= least.arena_bytes <= plan.arena_bytes
    assert capacity is None or plan.arena_bytes <= capacity


def test_a_row_is_handed_out_as_soon_as_it_is_finished_and_leaves_its_bytes():
    """Of the rows of the last op only one is alive at a time, whatever the goal."""
    for goal in Goal:
        plan = make_plan(_handed_out(_chain()), goal)
        tail = [step for step in plan.steps if step.op in ("add", HANDOUT)]

        assert [step.rows for step in tail[::2]] == [step.rows for step in tail[1::2]]
        assert all(step.hands_out for step in tail[1::2])
        assert len(set(plan.placement("y").slots)) < plan.placement("y").rows


def test_the_check_sees_rows_that_are_handed_out_late_twice_or_in_disorder():
    problem = _handed_out(_chain())
    plan = make_plan(problem, Goal.SRAM)
    places = [i for i, step in enumerate(plan.steps) if step.hands_out]
    a, b = places[:2]
    steps = list(plan.steps)
    steps[a], steps[b] = steps[b], steps[a]
    for changed in (steps, [*plan.steps, plan.steps[-1]], [s for s in plan.steps if not s.hands_out]):
        faults = check(problem, replace(plan, steps=tuple(changed)))
        last = plan.placement("y").rows - 1
        assert f"the rows of the streamed output are handed out in another order than 0..{last}" in faults
    late = [*(s for s in plan.steps if not s.hands_out), *(plan.steps[i] for i in places)]
    assert any("is read, but its bytes hold" in fault for fault in check(problem, replace(plan, steps=tuple(late))))


def _decoder(*outputs: str) -> Graph:
    """A map that grows to the end: 16 rows of 16 pixels of 6 channels."""
    net = Net(1, 4, 4, 4)
    a = net.conv("x", 8)
    b = net.add(ops.ResizeNearest, a, size=(16, 16), align_corners=False, half_pixel_centers=False)
    net.conv(net.depthwise(b, padding=ops.Padding(1, 1, 1, 1)), 6)
    return net.graph(*outputs or ("t3",))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "by rows"])
def test_a_library_hands_out_the_rows_of_the_reference(streamed: bool, tmp_path: Path):
    graph = _decoder()
    unit = unit_of(graph, streamed, stream_output=True)
    rng = np.random.default_rng(2)
    vectors = [{"x": rng.integers(-128, 128, (1, 4, 4, 4), np.int8)} for _ in range(3)]
    header = library_of(unit)["src/built.h"].decode()

    assert replays(Rows(graph), unit.plan)
    assert "built_output" not in header.replace("no built_output", "")
    assert "void built_on_row(int32_t y, const void *row);" in header
    found = run(unit, compile_library(unit, tmp_path), vectors)
    for inputs, outputs in zip(vectors, found, strict=True):
        assert outputs["t3"].tobytes() == expected(graph, inputs)["t3"].tobytes()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "by rows"])
def test_a_row_that_was_computed_again_is_handed_out_from_where_it_lies_then(streamed: bool, tmp_path: Path):
    """Of a plan that computes all rows, then every other row of the output once more, and then hands them out."""
    graph = _decoder()
    chosen = stages(graph)
    problem = lower(graph, chosen, None, streamed, stream_output=True)
    rows = [[Event(i, y) for y in range(problem.by_name[op.writes].rows)] for i, op in enumerate(problem.ops)]
    events = [*(event for each in rows[:-1] for event in each), *rows[-2][::2], *rows[-1]]
    layout = lay_out(Flow(problem), events, enough=0)
    outcome = Outcome(Status.FEASIBLE, 0, 0, 0.0)
    plan = Plan(layout.steps, layout.placements, layout.scratch, layout.arena_bytes, outcome)
    unit = Unit("built", graph, chosen, plan)
    rng = np.random.default_rng(3)
    vectors = [{"x": rng.integers(-128, 128, (1, 4, 4, 4), np.int8)} for _ in range(3)]

    assert check(problem, plan) == []
    handed = {dict(step.editions).get("t3", 0) for step in unit.plan.steps if step.hands_out}
    places = {p.edition: p for p in unit.plan.placements if p.tensor == "t3"}
    assert handed != {0}
    assert any(places[edition].at(y) != places[0].at(y) for edition in handed for y in range(16))
    assert replays(Rows(graph), unit.plan)
    found = run(unit, compile_library(unit, tmp_path), vectors)
    for inputs, outputs in zip(vectors, found, strict=True):
        assert outputs["t3"].tobytes() == expected(graph, inputs)["t3"].tobytes()


def test_the_output_no_longer_counts_in_the_arena():
    """Its 1,536 bytes are the peak where they are kept."""
    kept, streamed = (
        make_plan(lower(g, stages(g), None, True, stream_output=out), Goal.SRAM)
        for g, out in ((_decoder(), False), (_decoder(), True))
    )

    assert streamed.arena_bytes < 1536 < kept.arena_bytes


def test_a_library_without_the_function_is_refused_by_the_linker_in_its_name(tmp_path: Path):
    unit = unit_of(_decoder(), stream_output=True)
    put(library_of(unit), tmp_path)
    (tmp_path / "main.c").write_text('#include "built.h"\nint main(void)\n{\n    built_run();\n    return 0;\n}\n')
    sources = map(str, sorted(tmp_path.rglob("*.c")))
    command = [*HOST, f"-I{tmp_path / 'src'}", *sources, "-o", str(tmp_path / "program")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode != 0
    assert "built_on_row" in done.stderr


def test_an_output_that_is_a_view_gets_the_rows_of_what_it_shows():
    graph = _decoder()
    flat = Tensor("flat", replace(graph.tensors["t3"].type, shape=(1, 1536)))
    view = ops.Reshape(name="view", inputs=("t3",), output="flat", shape=(1, 1536))
    tensors = {**graph.tensors, "flat": flat}
    graph = verify(replace(graph, tensors=tensors, ops=(*graph.ops, view), outputs=("flat",)))

    found, ends = streamable_output(graph, {})
    assert verify(found).tensors["flat"].type.shape == (1, 16, 16, 6)
    assert ends["flat"].type.shape == (1, 1536)
    assert not any(op.view for op in found.ops)


@pytest.mark.parametrize(
    "graph, said",
    [
        (_decoder("t3", "t0"), "--stream-output takes models with one output, this one has 2 (t3, t0)"),
        (replace(_decoder(), outputs=("x",)), "the output 'x' is an input or a state too"),
        (
            replace(_decoder(), states=(State("x", "t3", "t3"),)),
            "the output 't3' is an input or a state too, whose bytes are kept",
        ),
    ],
)
def test_models_without_such_an_output_are_refused_in_a_line(graph: Graph, said: str):
    with pytest.raises(StreamError) as refusal:
        streamable_output(graph, {})

    assert said in str(refusal.value)
    assert "leave" in str(refusal.value)


def test_an_output_of_one_row_is_refused_in_a_line(gen: Gen, tmp_path: Path):
    refused = gen("firmware", "--board", "native", "--stream-output", "--out", tmp_path / "digits")

    assert refused.exit_code == 1
    assert "--stream-output hands out rows, the output" in refused.output
    assert "Traceback" not in refused.output
    assert not (tmp_path / "digits").exists()


def test_an_output_of_more_rows_than_the_input_is_validated(gen: Gen, tmp_path: Path):
    """A map of one channel in the file's order, of 9 rows; the input has 2, one per channel."""
    weights = numpy_helper.from_array(np.array([0.5, -1.0], np.float32).reshape(1, 2, 1, 1), "w")
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, 3, 4]), ("y", [1, 1, 9, 4]))
    ]
    padded = numpy_helper.from_array(np.array([0, 0, 3, 0, 0, 0, 3, 0], np.int64), "p")
    nodes = [helper.make_node("Pad", ["x", "p"], ["m"]), helper.make_node("Conv", ["m", "w"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "map", ends[:1], ends[1:], [weights, padded]),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    onnx.save(model, tmp_path / "map.onnx")
    folder = tmp_path / "map"
    options = ("--board", "native", "--io", "native", "--stream-output", "--out", folder)
    written = gen("firmware", tmp_path / "map.onnx", *options)
    assert written.exit_code == 0, written.output
    result = gen("validate", folder, "--emulate", "--count", 2)

    assert (result.exit_code, "every byte of every op equal" in result.output) == (0, True), result.output


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"output": 1}, "names number 1 of 1 outputs"),
        ({"rows": [0, 10_000]}, "hands out rows of 'y' that it has not"),
    ],
)
def test_steps_that_hand_out_rows_that_are_not_there_are_refused(changed: dict[str, object], said: str):
    end = {"name": "y", "shape": [1, 4, 2, 1], "dtype": "int8", "bytes": 8, "scale": 1.0, "zero_point": 0}
    plan = {
        "model": "m",
        "identity": "0" * 16,
        "arena_bytes": 8,
        "inputs": [{**end, "name": "x", "shape": [8]}],
        "outputs": [end],
        "ops": [],
        "placements": [],
    }
    PlanDocument.model_validate_json(json.dumps({**plan, "steps": [{"output": 0, "rows": [0, 4]}]}))

    with pytest.raises(ValueError, match=said):
        PlanDocument.model_validate_json(json.dumps({**plan, "steps": [{"output": 0, "rows": [0, 4], **changed}]}))


def _vectors(*sizes: int, last: type[ops.Unary] | None = None) -> Graph:
    """Dense layers from the first size to the last."""
    net = Net(1, sizes[0])
    x = "x"
    for size in sizes[1:]:
        x = net.dense(x, size)
    return net.graph(net.add(last, x) if last else x)


SIZES = [(96, 8, 8, 120), (30, 3, 30), (640, 8, 600)]


@pytest.mark.parametrize("last", [None, ops.Tanh])
@pytest.mark.parametrize("sizes", SIZES)
def test_dense_layers_in_pieces_give_the_bytes_of_the_whole(
    sizes: tuple[int, ...], last: type[ops.Unary] | None, tmp_path: Path
):
    graph = _vectors(*sizes, last=last)
    fed, ends = fed_in_pieces(graph, {}, handed_out=True)
    both, ends = streamable_output(fed, ends)
    unit = unit_of(both, True, stream_output=True)
    x, (y,) = graph.tensors["x"].type, graph.outputs
    rng = np.random.default_rng(4)
    vectors = [rng.integers(-128, 128, (1, sizes[0]), np.int8) for _ in range(3)]

    assert both.tensors["x"].type.rows > 1
    assert (ends["x"].type, ends[y].type) == (x, graph.tensors[y].type)
    assert replays(Rows(both), unit.plan)
    shape = both.tensors["x"].type.shape
    found = run(unit, compile_library(unit, tmp_path), [{"x": each.reshape(shape)} for each in vectors])
    for vector, outputs in zip(vectors, found, strict=True):
        assert outputs[y].tobytes() == expected(graph, {"x": vector})[y].tobytes()


def test_pieces_are_as_few_as_leave_the_arena_to_the_sums():
    """128 sums are 512 bytes, a piece of the input may have a sixteenth of that; so much is left for the output's."""
    fed, _ = fed_in_pieces(_vectors(640, 128, 128, 640), {}, handed_out=True)
    both, _ = streamable_output(fed, {})
    problem = lower(both, stages(both), None, True, stream_output=True)
    plan = make_plan(problem, Goal.SRAM)

    assert both.tensors["x"].type.shape == (1, 20, 1, 32)
    assert both.tensors[both.outputs[0]].type.shape == (1, 2, 1, 320)
    assert plan.arena_bytes == plan.outcome.bound_bytes == 4 * 128 + 32


def test_a_single_layer_is_read_in_pieces_and_fed_whole():
    graph = _vectors(96, 16)
    cut, _ = streamable_output(*fed_in_pieces(graph, {}, handed_out=True))

    assert cut.tensors["x"].type.shape == (1, 96)
    assert cut.tensors[cut.outputs[0]].type.shape == (1, 2, 1, 8)


def test_a_layer_whose_sums_take_more_than_its_vectors_is_fed_whole():
    graph = _vectors(64, 64)

    assert fed_in_pieces(graph, {}) == (graph, {})


@needs_shared
@needs_qemu
def test_the_autoencoder_of_mlperf_runs_in_544_bytes(gen: Gen, tmp_path: Path):
    """768 with whole ends; each op is compared with the reference, and numpy's outputs have the model's shape."""
    model = MODELS / "mlperf-ad-int8.tflite"
    options = ("--minimize", "sram", "--stream-input", "--stream-output")
    written = gen("firmware", model, "--board", "mps2-an386", *options, "--out", tmp_path / "ad")
    assert written.exit_code == 0, written.output
    plan = json.loads((tmp_path / "ad/report.json").read_text())["plan"]
    result = gen("validate", tmp_path / "ad", "--emulate", "--count", 2, "--json", "--outputs", tmp_path / "y.npz")

    assert (plan["arena_bytes"], plan["proven_optimal"], plan["recomputed_macs"]) == (544, True, 0)
    assert json.loads(result.stdout)["mismatched_vectors"] == 0
    assert np.load(tmp_path / "y.npz")["Identity"].shape == (2, 640)


def _validated(gen: Gen, board: str, folder: Path, *options: str) -> int:
    """Writes, builds and validates the U-Net; the bytes of its arena."""
    written = gen("firmware", UNET, "--board", board, "--stream-output", *options, "--out", folder)
    assert written.exit_code == 0, written.output
    result = gen("validate", folder, "--emulate", "--count", 2, "--json")
    found = json.loads(result.stdout)

    assert (result.exit_code, found["vectors"], found["mismatched_vectors"]) == (0, 2, 0)
    assert json.loads((folder / "report.json").read_text())["plan"]["recomputed_macs"] == 0
    timed = json.loads(gen("bench", folder, "--emulate", "--runs", 1, "--json").stdout)
    assert timed["total"]["min"] > 0
    return int(json.loads((folder / "plan.json").read_text())["arena_bytes"])


@needs_shared
@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--stream-input",), marks=pytest.mark.long),
        pytest.param(("--minimize", "sram"), marks=pytest.mark.long),
        ("--io", "native"),
    ],
)
def test_a_u_net_is_validated_row_by_row(gen: Gen, options: tuple[str, ...], tmp_path: Path):
    _validated(gen, "native", tmp_path / "unet", *options)


@pytest.mark.long
@needs_shared
@needs_qemu
def test_a_u_net_runs_on_an_emulated_board_in_half_of_its_arena(gen: Gen, tmp_path: Path):
    """15,280 bytes with whole ends."""
    arena = _validated(gen, "mps2-an386", tmp_path / "unet", "--stream-input", "--minimize", "sram")

    assert arena <= 7_680


@needs_shared
def test_two_models_hand_out_their_rows_in_one_firmware(gen: Gen, tmp_path: Path):
    other = tmp_path / "second.tflite"
    shutil.copy(UNET, other)
    written = gen("firmware", UNET, other, "--board", "native", "--stream-output", "--out", tmp_path / "both")
    assert written.exit_code == 0, written.output
    result = gen("validate", tmp_path / "both", "--emulate", "--count", 1, "--json")

    assert result.exit_code == 0, result.output
    assert [each["mismatched_vectors"] for each in json.loads(result.stdout)["models"]] == [0, 0]
