"""Outputs beside those of the source model in its own runtime: what is compared, what is judged, which file it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper
from runtime import load_reference

from shoehorn_mcu import importers, passes
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.folder.reference import reference_files
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import FileTensor, TensorType
from shoehorn_mcu.machine import targets
from shoehorn_mcu.passes.ends.user_ends import Pixels
from shoehorn_mcu_host.base.errors import FolderDamaged, HostError, InputError
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.documents import GraphDocument, SourceDocument, SourceEnd
from shoehorn_mcu_host.folder.plan import Array, End, Plan, Stored
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate import outside
from shoehorn_mcu_host.validate.comparison import Comparison, Tolerance, compare
from shoehorn_mcu_host.validate.outside import Outputs, Source
from shoehorn_mcu_host.validate.unsaturated import unsaturated
from shoehorn_mcu_host.validate.validate import begins, reference_of
from tests.shared import MODELS, needs_shared

FLOATS = Stored("y", (1, 4), np.dtype(np.float32))
BYTES = Stored("y", (1, 4), np.dtype(np.int8), 0.5, -3)


def beside(end: Stored, found: Array, wanted: Array, tolerance: Tolerance, step: float | None = None) -> Comparison:
    own = End(end.name, end.shape, end.dtype, 0, end.scale, end.zero_point)
    known = Outputs({} if step is None else {end.name: step})
    return compare([own], known.steps, {"y": found}, {"y": wanted}, tolerance, Comparison("x", "X", "x"))


@needs_shared
@pytest.mark.parametrize("name", ["resnet20-cifar10-qdq-int8.onnx", "mlperf-ad-int8.tflite"])
def test_outputs_that_are_dequantised_last_are_worth_the_step_of_their_integers(name: str):
    graph, _ = passes.run(importers.load(MODELS / name))
    known = Outputs.of_graph(GraphDocument.model_validate_json(reference_files(graph, graph.name)["graph.json"]))
    (last,) = [node for node in graph.nodes() if node.output.name in graph.outputs]

    assert known.steps == ({last.output.name: last.x.type.quantised.scale} if name.endswith(".onnx") else {})


def test_integers_are_counted_by_steps_and_their_real_difference_is_said():
    found = np.array([[0, 1, 2, 3], [100, 5, 5, 5]], np.int8)
    wanted = np.array([[0, 2, 4, 0], [93, 5, 5, 6]], np.int8)
    (each,) = beside(BYTES, found, wanted, Tolerance(6)).outputs

    assert (each.values, each.most_steps, each.histogram) == (8, 7, (3, 2, 1, 1, 1))
    assert (each.largest, each.step, each.same_top1) == (3.5, 0.5, 1)
    assert not each.within
    assert beside(BYTES, found, wanted, Tolerance(7)).is_within


def test_floats_are_judged_by_the_largest_value_and_in_steps_where_they_are_dequantised():
    wanted = np.array([[1, -200, 3, 4]], np.float32)
    (each,) = beside(FLOATS, wanted + np.float32([0, 0, 0.5, 0]), wanted, Tolerance(0, 1e-3)).outputs
    assert (each.largest, each.relative, each.histogram, each.within) == (0.5, 0.0025, None, False)

    (each,) = beside(FLOATS, wanted + np.float32([0, 0, 0.5, 0]), wanted, Tolerance(0, 1.0), step=0.25).outputs
    assert (each.histogram, each.most_steps, each.within) == ((3, 0, 1, 0, 0), 2, False)


@pytest.mark.parametrize(
    ("tolerance", "stepped", "real", "both"),
    [
        (Tolerance(1), "1 step", "", "1 step"),
        (Tolerance(2, 0.5), "2 steps", "0.5 of its largest value", "2 steps or 0.5 of its largest value"),
        (Tolerance(None, 0.5), *["0.5 of its largest value"] * 3),
        (Tolerance(None, None, 30.0), *["noise of 30 dB"] * 3),
        (Tolerance(0, None, 30.5), "0 steps or noise of 30.5 dB", "noise of 30.5 dB", "0 steps or noise of 30.5 dB"),
    ],
)
def test_a_tolerance_is_said_in_the_words_that_are_about_the_outputs(
    tolerance: Tolerance, stepped: str, real: str, both: str
) -> None:
    """Steps of outputs that have steps, shares of the largest value of those that have none."""
    (first,) = beside(BYTES, np.zeros((1, 4), np.int8), np.zeros((1, 4), np.int8), tolerance).outputs
    (second,) = beside(FLOATS, np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32), tolerance).outputs

    assert (tolerance.words([first]), tolerance.words([second])) == (stepped, real)
    assert tolerance.words([first, second]) == tolerance.words([second, first]) == both


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_numbers_that_are_not_finite_must_be_on_both_sides(odd: float):
    wanted = np.array([[1, odd, 3, 4]], np.float32)

    assert beside(FLOATS, wanted, wanted, Tolerance(0, 0.0)).is_within
    (each,) = beside(FLOATS, np.float32([[1, 2, 3, 4]]), wanted, Tolerance(9, 9.0, -99.0)).outputs
    assert (each.unlike, each.within) == (1, False)


def test_noise_of_other_roundings_passes_and_another_result_does_not():
    rng = np.random.default_rng(1)
    wanted = rng.integers(-100, 100, (20, 4)).astype(np.int8)
    noisy = (wanted + rng.integers(-9, 10, wanted.shape)).astype(np.int8)
    loose = Tolerance(2, 1e-3, 10.0)

    assert beside(BYTES, noisy, wanted, loose).is_within
    assert not beside(BYTES, wanted[::-1].copy(), wanted, loose).is_within


def put(model: Path, folder: Path, options: Options) -> Project:
    """The folder of a model for the board `native`, written and not built."""
    _, files = build.firmware(model, targets.board("native"), options)
    bundle.write(files, folder, force=False)
    return Project.open(folder)


def computed(project: Project, count: int) -> tuple[Plan, list[vectors.Vector], dict[str, Array]]:
    """Random vectors, and the outputs of the reference, which a board equals, as the file has them."""
    plan = Plan.of(project)
    reference = reference_of(project, plan)
    chosen = [*vectors.random(project.described, plan.inputs, count, 3)]
    found: dict[str, list[Array]] = {end.name: [] for end in plan.outputs}
    for number, vector in enumerate(chosen):
        if number in begins(plan, count):
            reference.reset()
        ran = reference.run(vector)
        for name in found:
            found[name].append(ran[name])
    ends = ((end, end.given(np.stack(found[end.name]))) for end in plan.outputs)
    return plan, chosen, {end.outside.name: array for end, array in ends}


def compared(project: Project, model: Path, word: str, count: int = 3) -> Comparison:
    plan, chosen, found = computed(project, count)
    source = outside.source_of(project, model)
    return outside.against(word, source, plan, Outputs.of(project), chosen, found, begins(plan, count))


def image_model(path: Path) -> Path:
    """y = Relu(Conv(x)) of an image with its channels first, which is no square, and its mean."""
    rng = np.random.default_rng(5)
    numbers = [numpy_helper.from_array(rng.normal(0, 1, (4, 3, 3, 3)).astype(np.float32), "w")]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [1, 3, 5, 7]), ("y", [1, 4, 5, 7]), ("z", [1, 4, 1, 1]))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
        helper.make_node("GlobalAveragePool", ["y"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "n", ends[:1], ends[1:], numbers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(native_io=True),
        Options(pixels=Pixels((120.0, 110.5, 3.0), (58.0, 57.0, 2.0))),
        Options(pixels=Pixels((120.0, 110.5, 3.0), (58.0, 57.0, 2.0)), native_io=True),
        Options(stream_input=True),
    ],
    ids=["plain", "native", "pixels", "native pixels", "streamed"],
)
def test_an_onnx_model_gets_the_same_vectors_as_the_firmware(options: Options, tmp_path: Path):
    model = image_model(tmp_path / "m.onnx")
    found = compared(put(model, tmp_path / "m", options), model, "onnxruntime")

    assert (found.is_within, found.left, [each.name for each in found.outputs]) == (True, (), ["y", "z"])
    assert all(each.relative < 1e-6 for each in found.outputs)


def heavy(path: Path, places: Mapping[int, Array]) -> Path:
    """A QLinearConv of uint8 with pairs of products beyond 16 bits; `places`: operands that are others."""
    weights = np.where(np.arange(32).reshape(4, 8, 1, 1) % 3 == 2, -100, 127).astype(np.int8)
    held = dict(enumerate([np.float32(1), np.uint8(3), weights, np.float32(1), np.int8(0), np.float32(900)], 1))
    held |= {7: np.uint8(9), **places}
    constants = [numpy_helper.from_array(np.asarray(array), f"c{place}") for place, array in sorted(held.items())]
    names = ["x", *(f"c{place}" for place in range(1, 8))]
    ends = [helper.make_tensor_value_info(n, TensorProto.UINT8, s) for n, s in (("x", [1, 8, 3, 5]), ("y", None))]
    graph = helper.make_graph([helper.make_node("QLinearConv", names, ["y"])], "n", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_sums_of_onnx_runtime_do_not_saturate_on_any_processor(tmp_path: Path):
    model = heavy(tmp_path / "m.onnx", {})
    found = compared(put(model, tmp_path / "m", Options()), model, "onnxruntime")

    assert (found.is_within, found.left) == (True, ())
    assert all(each.most_steps is not None and each.most_steps <= 1 for each in found.outputs)


@pytest.mark.parametrize("zero", [np.int8(0), np.int8([0, 5, -7, 127])], ids=["one", "per channel"])
def test_int8_weights_beside_uint8_become_uint8(zero: Array, tmp_path: Path):
    before = onnx.load(heavy(tmp_path / "m.onnx", {5: zero}))
    after = onnx.load_model_from_string(unsaturated(before.SerializeToString()))
    held = [{t.name: numpy_helper.to_array(t) for t in each.graph.initializer} for each in (before, after)]
    names = [list(each.graph.node[0].input) for each in (before, after)]

    assert [i for i in range(8) if names[0][i] != names[1][i]] == [3, 5]
    for place in (3, 5):
        was, now = (held[i][names[i][place]] for i in (0, 1))
        assert now.dtype == np.uint8
        np.testing.assert_array_equal(now.astype(int) - 128, was)


@pytest.mark.parametrize(
    "places", [{2: np.int8(3), 7: np.int8(9)}, {3: np.ones((4, 8, 1, 1), np.uint8), 5: np.uint8(1)}]
)
def test_other_models_stay_as_they_are(places: Mapping[int, Array], tmp_path: Path):
    data = heavy(tmp_path / "m.onnx", places).read_bytes()
    assert unsaturated(data) == data


def adder(path: Path) -> Path:
    """y = x + h, hn = 2 x: what an inference gives depends on the one before."""
    names = ("x", "h", "y", "hn")
    ends = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 6]) for n in names}
    two = numpy_helper.from_array(np.float32(2), "two")
    nodes = [helper.make_node("Add", ["x", "h"], ["y"]), helper.make_node("Mul", ["x", "two"], ["hn"])]
    graph = helper.make_graph(nodes, "n", [ends["h"], ends["x"]], [ends["y"], ends["hn"]], [two])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_a_state_is_fed_by_the_output_of_the_inference_before_and_begins_anew(tmp_path: Path):
    model = adder(tmp_path / "m.onnx")
    project = put(model, tmp_path / "m", Options(states={"h": "hn"}))
    plan, chosen, outputs = computed(project, 6)
    source = outside.source_of(project, model)
    known = Outputs.of(project)

    assert outside.against("onnxruntime", source, plan, known, chosen, outputs, begins(plan, 6)).is_within
    assert begins(plan, 6) == [0, 4]
    # Vectors 4 and 5 are another sequence: in one, vector 4 would begin with what 3 left.
    (one,) = outside.against("onnxruntime", source, plan, known, chosen, outputs, (0,)).outputs
    assert not one.within


def test_an_import_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    model = image_model(tmp_path / "m.onnx")
    right = importers.imported(model, {})
    other = {
        name: replace(tensor, data=tensor.data[:, ::-1].copy())
        if tensor.data is not None and tensor.data.ndim == 4
        else tensor
        for name, tensor in right.graph.tensors.items()
    }
    monkeypatch.setattr(importers, "imported", lambda *_: replace(right, graph=replace(right.graph, tensors=other)))
    found = compared(put(model, tmp_path / "m", Options()), model, "onnxruntime")

    assert [each.within for each in found.outputs] == [False, False]


def test_the_file_is_found_beside_the_folder_and_another_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    model = adder(tmp_path / "m.onnx")
    project = put(model, tmp_path / "m", Options())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert outside.source_of(project, None).path == model

    kept = tmp_path / "kept"
    kept.mkdir()
    shutil.copy(model, kept)
    model.rename(tmp_path / "other.onnx")
    assert outside.source_of(project, None, kept).path == kept / "m.onnx"
    with pytest.raises(HostError, match=r"'m.onnx', its model, is not here; name it by --source FILE"):
        outside.source_of(project, None)
    assert outside.source_of(project, tmp_path / "other.onnx").data == (tmp_path / "other.onnx").read_bytes()
    image_model(elsewhere / "m.onnx")
    with pytest.raises(HostError, match=r"is not the model that .* was made from: its SHA-256 begins with"):
        outside.source_of(project, None)


def test_constants_in_a_file_beside_the_model_are_those_that_the_firmware_has(tmp_path: Path):
    """As PyTorch writes them."""
    model = image_model(tmp_path / "whole.onnx").rename(tmp_path / "m.onnx")
    proto = onnx.load(model)
    onnx.save(proto, model, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    project = put(model, tmp_path / "m", Options())
    weights = tmp_path / "m.onnx.data"

    assert compared(project, model, "onnxruntime").is_within
    assert outside.source_of(project, model).others == {"m.onnx.data": weights.read_bytes()}

    weights.write_bytes(weights.read_bytes()[::-1])
    with pytest.raises(HostError, match=r"m.onnx.data: is not the file that the firmware's weights are from"):
        outside.source_of(project, model)
    weights.unlink()
    with pytest.raises(InputError, match=r"m.onnx.data: cannot be read \(No such file or directory\)"):
        outside.source_of(project, model)
    os.mkfifo(weights)
    with pytest.raises(HostError, match=r"m.onnx.data: is not the file that the firmware's weights are from"):
        outside.source_of(project, model)


@pytest.mark.parametrize("name", ["/etc/hostname", "../secret", "a/../../secret", "a\\b"])
def test_a_folder_names_no_file_that_is_not_beside_its_model(tmp_path: Path, name: str):
    project = put(adder(tmp_path / "m.onnx"), tmp_path / "m", Options())
    place = project.folder / "reference" / "source.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "others": {name: "0" * 64}}))

    with pytest.raises(FolderDamaged, match="is no file beside the model"):
        outside.source_of(project, tmp_path / "m.onnx")


def test_what_is_no_files_model_has_no_runtime(tmp_path: Path):
    project = put(adder(tmp_path / "m.onnx"), tmp_path / "m", Options())
    place = project.folder / "reference" / "source.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "file": "", "why": "it is a pipeline"}))
    with pytest.raises(HostError, match="has no model file to compare with: it is a pipeline"):
        outside.source_of(project, None)


def test_a_runtime_that_is_not_there_or_does_not_run_the_format_is_one_line(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(HostError, match="choose --against tflite or tflite-micro"):
        outside.runtime_for("onnxruntime", Path("m.tflite"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HostError, match=r'--against torch needs PyTorch: pip install "shoehorn-mcu\[torch\]"'):
        outside.runtime_for("torch", Path("m.pt2"))


def test_a_runtime_that_cannot_run_the_model_is_one_line(tmp_path: Path):
    model = adder(tmp_path / "m.onnx")
    project = put(model, tmp_path / "m", Options())
    source = outside.source_of(project, model)
    source = replace(source, data=b"no model")
    with pytest.raises(HostError, match=r"m.onnx: ONNX Runtime cannot run it \(.*\); choose another runtime"):
        outside.run("onnxruntime", source, [np.zeros((1, 1, 6), np.float32)] * 2, (0,))


def test_expected_outputs_are_stored_values_or_real_ones(tmp_path: Path):
    ends = (End("a", (1, 3), np.dtype(np.int8), 3, 0.5, 2), End("b", (1, 2), np.dtype(np.float32), 8))
    plan = Plan("m", "00" * 8, (), ends, (), (), {})
    found = {"a": np.array([[1, 2, 3], [4, 5, 6]], np.int8), "b": np.ones((2, 2), np.float32)}

    def judged(tolerance: Tolerance | None = None, **arrays: Array) -> Comparison:
        np.savez(tmp_path / "z.npz", **arrays)
        return outside.expected(tmp_path / "z.npz", plan, Outputs(), found, tolerance)

    assert judged(a=found["a"]).is_within and judged(a=found["a"]).left == ("b",)
    assert not judged(a=found["a"] + np.int8(1)).is_within
    assert judged(first=found["a"], second=found["b"] * np.float32(1.0005)).is_within
    assert not judged(a=found["a"], b=found["b"] * np.float32(1.002)).is_within
    assert judged(b=found["b"], a=found["a"]).is_within  # by name, whatever the order
    real = (found["a"].astype(np.float64) - 2) * 0.5
    assert judged(a=real + 0.5).is_within and not judged(a=real).tolerance.judges
    assert not judged(Tolerance(0), a=real + 0.5).is_within
    assert judged(Tolerance(1), a=real + 0.5).is_within
    quantised = Outputs({"b": 0.5}, is_quantised=True)
    np.savez(tmp_path / "z.npz", b=found["b"] + np.float32(0.01))  # of a model with quantised layers inside
    assert not outside.expected(tmp_path / "z.npz", plan, quantised, found, None).tolerance.judges
    assert outside.expected(tmp_path / "z.npz", plan, Outputs(), found, None).tolerance.judges
    with pytest.raises(InputError, match=r"'a' has shape \(1, 3\); wanted are 2 vectors of \(1, 3\)"):
        judged(a=found["a"][:1])
    with pytest.raises(InputError, match="holds 1 arrays, the model has 2 outputs: a, b"):
        judged(c=found["a"])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--expect", "z.npz"], "--expect belongs to --inputs"),
        (["--source", "m.onnx"], "--source says what --against runs"),
        (["--tolerance", "1"], "--tolerance is for --against and --expect"),
        (["--against", "tflite", "--tolerance", "1.5"], "neither a number of steps"),
    ],
)
def test_options_that_say_nothing_are_wrong_usage(gen: Gen, digits_project: Path, arguments: list[str], word: str):
    done = gen("validate", digits_project, *arguments)

    assert (done.exit_code, word in done.stderr) == (2, True), done.output


QUICK = (
    "coral-mnv1-025-128-u8.tflite",
    "fmnist-nubificus-f32.tflite",
    "mlperf-ad-int8.tflite",
    "onnx2c-mnist-pytorch.onnx",
    "resnet20-cifar10-qdq-int8.onnx",
    "tflm-hello-world-int8.tflite",
    "tflm-mnist-lstm-int8.tflite",
)
"""Models of each kind that take less than a second."""


def end_of(found: importers.Imported, name: str) -> End:
    """An input or output as plan.json has it."""
    kind = found.graph.tensors[name].type
    there = found.ends.get(name, FileTensor(name, kind, tuple(range(len(kind.shape)))))

    def quant(of: TensorType) -> tuple[float, int]:
        return (of.quant.scale, of.quant.zero_point) if of.quant else (0.0, 0)

    own, dtype = there.type, np.dtype(there.type.dtype.numpy)
    stored = Stored(there.name, own.shape, dtype, *quant(own))
    return End(name, kind.shape, np.dtype(kind.dtype.numpy), kind.bytes, *quant(kind), stored, there.order)


def of_its_own_runtime(path: Path, word: str, count: int) -> Comparison:
    """What a model's import, passes and reference compute beside what its runtime does, for seeded vectors."""
    found = importers.imported(path, {})
    graph, _ = passes.run(found.graph)
    inputs, outputs = (tuple(end_of(found, name) for name in names) for names in (graph.inputs, graph.outputs))
    states = tuple(state.read for state in graph.states)
    plan = Plan(path.stem, "00" * 8, inputs, outputs, (), (), {}, states=states)
    ends = ({"name": e.outside.name, "shape": e.outside.shape, "dtype": e.outside.dtype.name, "order": e.order,
             "scale": e.outside.scale, "zero_point": e.outside.zero_point} for e in (*inputs, *outputs))  # fmt: skip
    said = [SourceEnd.model_validate(each) for each in ends]
    document = SourceDocument(
        file=path.name, sha256="", why="", states={}, pixels=None, stateless=False,
        inputs=tuple(said[: len(inputs)]), outputs=tuple(said[len(inputs) :]),
    )  # fmt: skip
    rng = np.random.default_rng(7)
    chosen = [[_random(rng, end) for end in inputs] for _ in range(count)]
    reference = load_reference(graph)
    ran = [reference.run(vector) for vector in chosen]
    given = {end.outside.name: end.given(np.stack([each[end.name] for each in ran])) for end in outputs}
    known = Outputs.of_graph(GraphDocument.model_validate_json(reference_files(graph, graph.name)["graph.json"]))
    if word == "tflite" and known.has_dense:
        word = "tflite-micro"
    return outside.against(word, Source(path, path.read_bytes(), {}, document), plan, known, chosen, given, (0,))


def _random(rng: np.random.Generator, end: End) -> Array:
    if end.dtype.kind == "f":
        return rng.uniform(0, 1, end.shape).astype(end.dtype)
    info = np.iinfo(end.dtype.name)
    return rng.integers(info.min, info.max, end.shape, end.dtype, endpoint=True)


def _all() -> Sequence[str]:
    return sorted(path.name for path in MODELS.glob("*.*") if path.suffix in (".tflite", ".onnx"))


@needs_shared
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(each, marks=pytest.mark.long) for each in _all() if each not in QUICK)]
)
def test_a_public_model_is_what_its_own_runtime_computes(name: str):
    word = "onnxruntime" if name.endswith(".onnx") else "tflite"
    found = of_its_own_runtime(MODELS / name, word, 2)

    assert [each for each in found.outputs if not each.within] == []
    assert found.outputs and not found.left and found.tolerance.judges
