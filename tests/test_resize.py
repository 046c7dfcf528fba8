"""The taps of Resize against ONNX Runtime: all pairs of sizes, modes and places of elements, by sizes and by scales."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu import passes
from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.lowering.places import Dimension, Rule, resized, taps
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array
from tests.runtime import run_reference

LARGEST = 256
SOME = (1, 2, 3, 5, 7, 12, 23, 64, 113)
COLUMNS = np.random.default_rng(0).uniform(-1, 1, (LARGEST, 3)).astype(np.float32)
REGION = (np.float32(0.15), np.float32(1.1))
CLOSE = 1e-4
"""A few steps of float32 at place 256, times the largest slope."""
TAILS = 2e-3
"""As above, where only the tails of a filter are inside, whose sum is all that its weights are divided by."""

PLACED = (
    "align_corners",
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
MODES: dict[str, dict[str, Any]] = {
    "nearest, down": {"mode": "nearest", "nearest_mode": "floor"},
    "nearest, up": {"mode": "nearest", "nearest_mode": "ceil"},
    "nearest, half down": {"mode": "nearest", "nearest_mode": "round_prefer_floor"},
    "nearest, half up": {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    "linear": {"mode": "linear"},
    "cubic": {"mode": "cubic"},
    "cubic, of the inside": {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
    "linear filter": {"mode": "linear", "antialias": 1},
    "cubic filter": {"mode": "cubic", "antialias": 1},
    "cubic filter of the inside": {"mode": "cubic", "antialias": 1, "exclude_outside": 1},
}


def attributes(mode: str, placed: str) -> dict[str, Any]:
    return {"coordinate_transformation_mode": placed, "extrapolation_value": 7.0, **MODES[mode]}


def rule(mode: str, placed: str) -> Rule:
    return Rule(**attributes(mode, placed))


@cache
def session(mode: str, placed: str, by: str) -> onnxruntime.InferenceSession:
    """A Resize whose sizes, or scales, are an input."""
    kinds = {"x": (TensorProto.FLOAT, (1, 1, "n", "c")), "region": (TensorProto.FLOAT, (8,))}
    kinds[by] = (TensorProto.INT64 if by == "sizes" else TensorProto.FLOAT, (4,))
    names = ["x", "region", *([by] if by == "scales" else ["", by])]
    node = helper.make_node("Resize", names, ["y"], **attributes(mode, placed))
    ends = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    graph = helper.make_graph([node], "g", ends, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def check(mode: str, placed: str, by: str, before: int, after: int) -> float:
    """The largest difference from ONNX Runtime; AssertionError where it is too large, or the size is another."""
    x = COLUMNS[:before]
    # Between two sizes by turns, so that a size that is rounded is no exact multiple.
    asked = np.float32((after + (0.4 if (before + after) % 2 else 0)) / before)
    given: dict[str, Array] = {
        "x": x[None, None],
        "region": np.array([0, 0, REGION[0], 0, 1, 1, REGION[1], 1], np.float32),
        by: np.array([1, 1, after, 3]) if by == "sizes" else np.array([1, 1, asked, 1], np.float32),
    }
    ((scale, size),) = resized([before], [float(asked)] if by == "scales" else None, [after], "stretch")
    if not size or (scale == 1 and placed == "tf_crop_and_resize"):
        return 0  # it is refused, or ONNX Runtime takes no part of a dimension that keeps its size
    (wanted,) = session(mode, placed, by).run(None, given)
    of = taps(rule(mode, placed), Dimension(before, size, scale, REGION))
    found = (x[of.places] * of.weights[:, :, None]).sum(axis=1) + of.addend[:, None]
    assert found.shape == wanted.shape[2:], (before, after)
    worst = float(np.abs(found - wanted[0, 0]).max())
    allowed = 0 if mode.startswith("nearest") else TAILS if mode == "cubic filter of the inside" else CLOSE
    assert worst <= allowed, (before, after, worst)
    return worst


def worst(mode: str, placed: str, by: str, sizes: Iterable[int]) -> float:
    pairs = list(sizes)
    return max(check(mode, placed, by, before, after) for before in pairs for after in pairs)


@pytest.mark.parametrize("by", ["sizes", "scales"])
@pytest.mark.parametrize("placed", PLACED)
@pytest.mark.parametrize("mode", MODES)
def test_a_dimension_is_resized_as_onnx_runtime_does(mode: str, placed: str, by: str) -> None:
    worst(mode, placed, by, SOME)


@pytest.mark.long
@pytest.mark.parametrize("by", ["sizes", "scales"])
@pytest.mark.parametrize("placed", PLACED)
@pytest.mark.parametrize("mode", MODES)
def test_every_pair_of_sizes_is_resized_as_onnx_runtime_does(mode: str, placed: str, by: str) -> None:
    worst(mode, placed, by, range(1, LARGEST + 1))


def test_a_size_by_a_scale_is_that_of_onnx_runtime() -> None:
    """In float32: ONNX's own inference has 12 rows."""
    assert resized([10], [1.3], (), "stretch") == [(np.float32(1.3), 13)]


def network(constants: dict[str, Array], declared: tuple[int, ...] | None = None, **options: Any) -> onnx.ModelProto:
    """A Resize of an image, and its result in the shape that it has."""
    nodes = [
        helper.make_node(
            "Resize", ["x", "region", *(["", "sizes"] if "sizes" in constants else ["scales"])], ["r"], **options
        ),
        helper.make_node("Shape", ["r"], ["shape"]),
        helper.make_node("Reshape", ["r", "shape"], ["y"]),
    ]
    held = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("x", (1, 2, 10, 7)), ("y", None))
    ]
    said = [helper.make_tensor_value_info("r", TensorProto.FLOAT, declared)] if declared else []
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held, value_info=said)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(
    ("constants", "asked"),
    [
        ({"scales": np.array([1, 1, 1.3, 1], np.float32)}, {"mode": "linear"}),
        ({"scales": np.array([1.3, 0.6], np.float32)}, {"mode": "cubic", "axes": [-2, 3]}),
        (
            {"sizes": np.array([1, 2, 23, 1])},
            {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
        ),
        ({"sizes": np.array([8, 9])}, {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}),
        ({"sizes": np.array([1, 2, 4, 3])}, {"mode": "cubic", "antialias": 1}),
        (
            {"region": np.array([0, 0, 0.2, -0.1, 1, 1, 1.3, 0.7], np.float32), "sizes": np.array([1, 2, 6, 9])},
            {"mode": "cubic", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.0},
        ),
        (
            {"region": np.array([0, 0, 0.2, -0.1, 1, 1, 1.3, 0.7], np.float32), "sizes": np.array([1, 2, 3, 2])},
            {"mode": "linear", "antialias": 1, "coordinate_transformation_mode": "tf_crop_and_resize"},
        ),
    ],
    ids=["by a scale", "of some axes", "to one column", "in proportion", "filtered", "a part", "a part, filtered"],
)
def test_a_resize_computes_what_onnx_runtime_does(constants: dict[str, Array], asked: dict[str, Any]) -> None:
    made = network({"region": np.zeros(0, np.float32), **constants}, **asked)
    x = np.random.default_rng(1).standard_normal((1, 2, 10, 7)).astype(np.float32)
    options = onnxruntime.SessionOptions()  # its optimiser takes the shape from ONNX's inference, and then fails
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    run = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (wanted,) = run.run(None, {"x": x})

    imported = import_model(made, "m")
    graph, _ = passes.run(imported.graph)
    found = run_reference(graph, [np.ascontiguousarray(x.transpose(0, 2, 3, 1))])["y"]

    order = imported.ends["y"].order
    np.testing.assert_allclose(found.transpose(np.argsort(order)), wanted, rtol=0, atol=1e-5)


def test_another_size_than_the_declared_one_is_refused() -> None:
    made = network({"region": np.zeros(0, np.float32), "scales": np.array([1, 1, 1.3, 1], np.float32)}, (1, 2, 12, 7))

    with pytest.raises(
        ImportFault, match=r"'r' is computed as float32 1x2x13x7, but the file declares float32 1x2x12x7"
    ):
        import_model(made, "m")
