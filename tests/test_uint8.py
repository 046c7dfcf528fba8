"""TFLite's older uint8 models, whose weights have a zero point: the bytes of LiteRT's reference kernels."""

from __future__ import annotations

import zlib
from dataclasses import replace

import litert
import numpy as np
import onnx
import onnxruntime
import oracle
import pytest
import samples
from PIL import Image
from runtime import run_portable
from shared import DATA, MODELS, needs_shared
from tflite_writer import ModelSpec, OpSpec, TensorSpec, ints, single

from shoehorn_mcu import ops
from shoehorn_mcu.importers import UnsupportedModel, load
from shoehorn_mcu.importers.tflite import file
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, TensorType

CASES = 30
UINT8_OPS: tuple[type[Op], ...] = (
    ops.Conv2d,
    ops.DepthwiseConv2d,
    ops.Add,
    ops.Sub,
    ops.Mul,
    ops.Maximum,
    ops.Minimum,
    ops.AveragePool2d,
    ops.MaxPool2d,
    ops.Mean,
    ops.Softmax,
    ops.Logistic,
    ops.Tanh,
    ops.Relu,
    ops.Relu6,
    ops.LeakyRelu,
    ops.HardSwish,
)


def values_of(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """All tensors of the graph."""
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None} | inputs
    for node in graph.nodes():
        values[node.output.name] = node.op.reference([values[t.name] for t in node.inputs], node.sig)
    return values


def per_tensor(graph: Graph) -> Graph:
    """The graph of a linear op with one scale for its weights, as uint8 has them."""
    if not isinstance(graph.ops[0], ops.LinearOp):
        return graph
    tensors = dict(graph.tensors)
    for name in ("x1", "x2"):
        quant = tensors[name].type.quantised
        one = replace(quant, scales=quant.scales[:1], zero_points=(0,), axis=None)
        tensors[name] = replace(tensors[name], type=replace(tensors[name].type, quant=one))
    return replace(graph, tensors=tensors)


def both(op_class: type[Op], case: int) -> tuple[Graph, dict[str, Array], Array]:
    """A random graph of the op in uint8 as it is imported, all its values, and LiteRT's output."""
    rng = np.random.default_rng([zlib.crc32(op_class.__name__.encode()), case])
    graph = per_tensor(samples.sample(op_class, rng))
    if op_class is ops.Relu6:
        x = graph.tensors["x0"].type.quantised
        graph = replace(graph, tensors={n: replace(t, type=replace(t.type, quant=x)) for n, t in graph.tensors.items()})
    weights = 1 if op_class in samples.LINEAR_OPS else None
    model = litert.as_uint8(oracle.to_tflite(graph), weights, int(rng.integers(0, 256)))
    imported = import_tflite(model, "uint8")
    inputs = {n: rng.integers(0, 256, imported.tensors[n].type.shape, np.uint8) for n in imported.inputs}
    values = values_of(imported, inputs)
    theirs = litert.run(model, list(inputs.values()))[list(graph.tensors).index("y")]
    return imported, values, theirs.reshape(values["y"].shape)


@pytest.mark.parametrize("op_class", UINT8_OPS, ids=lambda c: c.__name__)
def test_a_random_graph_gives_the_bytes_of_litert(op_class: type[Op]) -> None:
    for case in range(CASES):
        imported, values, theirs = both(op_class, case)
        assert imported.tensors["y"].type.dtype is DType.UINT8
        np.testing.assert_array_equal(values["y"], theirs, err_msg=f"case {case}", strict=True)


def test_a_dense_layer_is_rounded_twice_as_convolutions_are() -> None:
    """LiteRT rounds dense layers once, unlike its convolutions: a step apart where the first rounding makes a half."""
    differ = 0
    for case in range(4 * CASES):
        imported, values, theirs = both(ops.Dense, case)
        (node,) = (n for n in imported.nodes() if isinstance(n.op, ops.Dense))
        x, weights, bias = (values[t.name].astype(np.int64) for t in node.inputs)
        sums = (x - node.inputs[0].type.quantised.zero_point) @ weights.T + bias
        multipliers, shifts = (v.astype(np.int64) for v in node.op.scales(node.sig))
        once = (sums * multipliers + (np.int64(1) << (30 - shifts))) >> (31 - shifts)
        moved = np.clip(once + node.output.type.quantised.zero_point, node.op.clamp.low, node.op.clamp.high) + 128
        np.testing.assert_array_equal(theirs, moved.reshape(theirs.shape).astype(np.uint8), err_msg=f"case {case}")
        differ += np.count_nonzero(values["y"] != theirs)
    assert 0 < differ < 20


def test_scales_are_multiplied_in_float32() -> None:
    """With the output's scale such that sums are next to a half, the product in float64 gives other bytes."""
    told_apart = 0
    for case in range(400):
        rng = np.random.default_rng(case)
        x, weights = (samples.quant(rng, 0.01, 0.1) for _ in range(2))
        factor = int(rng.choice(np.arange(3, 60, 2)))
        y = Quant((samples.float32(x.scale * weights.scale * factor / (int(rng.integers(0, 20)) + 0.5)),), (0,))
        bias = np.array([factor, -factor, 3 * factor, -3 * factor], np.int32)
        steps = Quant((samples.float32(x.scale * weights.scale),), (0,))
        kinds = [samples.int8((1, 1, 1, 1), x), samples.int8((4, 1, 1, 1), Quant(weights.scales, (0,)))]
        graph = samples.graph_of(
            ops.Conv2d,
            [kinds[0], (kinds[1], np.zeros((4, 1, 1, 1), np.int8)), (TensorType((4,), DType.INT32, steps), bias)],
            samples.int8((), y),
        )
        model = litert.as_uint8(oracle.to_tflite(graph), 1, 128)
        imported = import_tflite(model, "uint8")
        inputs = {n: np.zeros((1, 1, 1, 1), np.uint8) for n in imported.inputs}
        ours = values_of(imported, inputs)["y"]
        np.testing.assert_array_equal(ours, litert.run(model, list(inputs.values()))[3], err_msg=f"case {case}")
        (plain,) = graph.nodes()
        arrays = [np.array([[[[x.zero_point]]]], np.int8), *(t.data for t in plain.inputs[1:])]
        told_apart += not np.array_equal(plain.op.reference(arrays, plain.sig).astype(np.int16) + 128, ours)
    assert told_apart


@needs_shared
@pytest.mark.parametrize("name", ["coral-mnv1-025-128-u8", "coral-mnv2-10-224-u8"])
def test_every_op_of_a_uint8_model_gives_the_bytes_of_litert(name: str) -> None:
    data = (MODELS / f"{name}.tflite").read_bytes()
    graph, raw = import_tflite(data, name), file.read(data)
    size = graph.tensors[graph.inputs[0]].type.shape[1:3]
    picture = Image.open(DATA / "coral-images" / "cat.bmp").convert("RGB").resize(size)
    images = [np.asarray(picture)[None], np.random.default_rng(1).integers(0, 256, (1, *size, 3), np.uint8)]
    for image in images:
        values, theirs = values_of(graph, {graph.inputs[0]: image}), litert.run(data, [image])
        for op in raw.ops:
            wanted, own = theirs[op.outputs[0]], raw.tensors[op.outputs[0]].name
            found = values[own] if own in values else values[f"{own}_int8"]
            stored = found if found.dtype == np.uint8 else (found ^ np.int8(-128)).view(np.uint8)
            np.testing.assert_array_equal(stored, wanted, err_msg=op.code)


@needs_shared
@pytest.mark.parametrize(
    ("picture", "label"), [("cat.bmp", "Egyptian cat"), ("parrot.jpg", "macaw"), ("bird_segmentation.bmp", "kite")]
)
def test_a_uint8_model_recognises_images(picture: str, label: str) -> None:
    graph = load(MODELS / "coral-mnv2-10-224-u8.tflite")
    image = np.asarray(Image.open(DATA / "coral-images" / picture).convert("RGB").resize((224, 224)))[None]
    scores = values_of(graph, {graph.inputs[0]: image})[graph.outputs[0]]
    labels = (DATA / "coral-images" / "imagenet_labels.txt").read_text().splitlines()
    assert labels[int(scores.argmax())] == label


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "ahead of an addition"])
def test_a_concatenation_of_other_scales_gives_the_bytes_of_litert(alone: bool) -> None:
    """Each operand is brought to the result's scale; with and without an op that computes on uint8."""
    shape = (1, 4, 4, 2)
    scales = [(0.05, 7), (0.011, 128), (0.3, 200), (0.05, 0)]
    rng = np.random.default_rng(4)
    for wanted in scales:
        tensors = [TensorSpec(f"x{i}", shape, "UINT8", (s,), (z,)) for i, (s, z) in enumerate(scales)]
        tensors[2].data = rng.integers(0, 256, shape, np.uint8).tobytes()
        tensors.append(TensorSpec("y", (1, 4, 4, 8), "UINT8", wanted[:1], wanted[1:]))
        tensors.append(TensorSpec("sum", (1, 4, 4, 8), "UINT8", (0.4,), (90,)))
        joined = OpSpec("CONCATENATION", (0, 1, 2, 3), (4,), {"Axis": 3})
        added = [] if alone else [OpSpec("ADD", (4, 4), (5,))]
        model = ModelSpec(tensors[: 5 + len(added)], [joined, *added], (0, 1, 3), (4 + len(added),)).bytes()
        arrays = {f"x{i}": rng.integers(0, 256, shape, np.uint8) for i in (0, 1, 3)}
        graph = import_tflite(model, "joined")
        (name,) = graph.outputs
        theirs = litert.run(model, list(arrays.values()))[4 + len(added)]
        np.testing.assert_array_equal(values_of(graph, arrays)[name], theirs, strict=True)
        np.testing.assert_array_equal(run_portable(graph, list(arrays.values()))[name], theirs, strict=True)


RESIZES = [(4, 6, 8, 12), (5, 7, 3, 11), (1, 3, 4, 7), (9, 9, 4, 4), (3, 3, 3, 3), (8, 8, 1, 1), (5, 6, 5, 12)]


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("centers", [False, True])
@pytest.mark.parametrize("dtype", ["UINT8", "FLOAT32"])
def test_a_bilinear_resize_in_float_gives_the_bytes_of_litert(dtype: str, centers: bool, corners: bool) -> None:
    rng = np.random.default_rng(6)
    scales = {"scales": (0.05,), "zero_points": (7,)} if dtype == "UINT8" else {}
    for height, width, *size in RESIZES:
        x = TensorSpec("x", (2, height, width, 3), dtype, **scales)
        y = TensorSpec("y", (2, *size, 3), dtype, **scales)
        options = {"AlignCorners": corners, "HalfPixelCenters": centers}
        model = single("RESIZE_BILINEAR", [x, ints("size", size)], [y], **options).bytes()
        if corners and centers:
            with pytest.raises(UnsupportedModel, match="both align_corners and half_pixel_centers"):
                import_tflite(model, "resize")
            continue
        numbers = rng.integers(0, 256, x.shape, np.uint8) if dtype == "UINT8" else rng.standard_normal(x.shape)
        data, graph = numbers.astype(dtype.lower()), import_tflite(model, "resize")
        theirs = litert.run(model, [data])[2]
        np.testing.assert_array_equal(values_of(graph, {"x": data})["y"], theirs, strict=True)
        np.testing.assert_array_equal(run_portable(graph, [data])["y"], theirs, strict=True)


def test_a_relu6_that_changes_the_scale_is_refused() -> None:
    x = TensorSpec("x", (1, 4, 4, 2), "UINT8", (0.05,), (7,))
    with pytest.raises(UnsupportedModel, match="changes the scale"):
        import_tflite(single("RELU6", [x], [replace(x, name="y", scales=(0.06,))]).bytes(), "model")


@needs_shared
def test_every_op_of_a_uint8_onnx_model_is_within_a_step_of_onnx_runtime() -> None:
    """nnstreamer's MobileNetV2 in QLinearConv, whose weights have a zero point; each op on ONNX Runtime's operands."""
    path = MODELS / "nns-mnv2-quant-onnx.onnx"
    graph, model = load(path), onnx.load(path)
    wanted = [name for node in model.graph.node for name in node.output]
    (last,) = (output.name for output in model.graph.output)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name != last)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    picture = Image.open(DATA / "coral-images" / "cat.bmp").convert("RGB").resize((224, 224))
    image = (np.asarray(picture, np.float32) / 127.5 - 1)[None]
    theirs = dict(zip(wanted, session.run(wanted, {"input": image.transpose(0, 3, 1, 2)}), strict=True))

    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None} | {graph.inputs[0]: image}
    compared = 0
    for node in graph.nodes():
        ours = node.op.reference([values[t.name] for t in node.inputs], node.sig)
        values[node.output.name] = ours
        found = theirs.get(node.output.name)
        if found is not None and found.dtype == np.uint8:
            plain = (found ^ np.uint8(128)).view(np.int8)
            same = (plain.transpose(0, 2, 3, 1) if plain.ndim == 4 else plain).reshape(ours.shape)
            assert np.abs(ours.astype(np.int16) - same).max() <= 1, node.op.name
            values[node.output.name], compared = same, compared + 1
    assert compared > 60
    assert values[graph.outputs[0]].argmax() == theirs[last].argmax()
