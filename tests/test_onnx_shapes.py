"""`--shape`: dimensions that an ONNX model leaves open get the sizes that the user gives, or one line says why not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper

import shoehorn_mcu
from shoehorn_mcu.importers import ImportFault, load
from shoehorn_mcu.ir import Array

RNG = np.random.default_rng(5)


def saved(folder: Path, x: Sequence[int | str | None] | None) -> Path:
    """Convolution, then what exporters write for `flatten(1)` of an open shape, then the sum over all but the batch."""
    shape = ("batch", "flat")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Shape", ["a"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["first"]),
        helper.make_node("Unsqueeze", ["first", "zeros"], ["firsts"]),
        helper.make_node("Concat", ["firsts", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["a", "shape"], ["y"]),
    ]
    held: Mapping[str, Array] = {
        "w": RNG.standard_normal((4, 3, 1, 1)).astype(np.float32),
        "zero": np.array(0, np.int64),
        "zeros": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(data, name) for name, data in held.items()],
    )
    path = folder / "open.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("x", "shapes"),
    [
        (("batch", 3, "height", "width"), {"height": (2,), "width": (5,)}),
        (("batch", 3, "height", "width"), {"height": (2,), "width": (5,), "batch": (1,)}),
        (("batch", 3, "height", "width"), {"x": (1, 3, 2, 5)}),
        ((1, 3, None, None), {"x": (1, 3, 2, 5)}),
        (("batch", 3, "height", None), {"x": (1, 3, 2, 5), "height": (2,)}),
    ],
)
def test_open_dimensions_get_the_sizes_given(
    x: Sequence[int | str | None], shapes: Mapping[str, tuple[int, ...]], tmp_path: Path
) -> None:
    path = saved(tmp_path, x)
    graph = load(path, shapes)
    data = RNG.standard_normal((1, 3, 2, 5)).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": data})
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values["x"] = data.transpose(0, 2, 3, 1)
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)

    assert graph.tensors["x"].type.shape == (1, 2, 5, 3)
    np.testing.assert_allclose(values["y"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "shapes", "said"),
    [
        ((1, 3, "height", 5), {}, r"dimension 2 \('height'\) of input 'x' is not fixed; give --shape height=N$"),
        ((1, 3, "height", "width"), {}, "is not fixed; give --shape height=N --shape width=N$"),
        ((1, 3, "size", "size"), {}, "is not fixed; give --shape size=N$"),
        ((1, 3, "height", None), {}, "is not fixed; give --shape x=1x3xNxN, with a number for each N$"),
        ((1, 3, None, 5), {}, r"is not fixed; give --shape x=1x3xNx5, with a number for each N$"),
        ((1, 3, 0, 5), {}, "dimension 2 of input 'x' is 0 in the file, .* or give --shape x=1x3xNx5, with a number"),
        ((1, 3, "height", 5), {"heigth": (3,)}, "no input and no dimension of one is called 'heigth'; .*'height'"),
        ((1, 3, "height", 5), {"w": (3,)}, "no input and no dimension of one is called 'w'"),
        ((1, 3, "height", 5), {"height": (3, 4)}, "'height' is one dimension; write --shape height=N"),
        ((1, 3, "height", 5), {"x": (3, 4)}, "input 'x' has 4 dimensions, --shape gives 2"),
        ((1, 3, "height", 5), {"x": (1, 4, 2, 5)}, "dimension 1 of input 'x' is 3 in the file, --shape says 4"),
        ((1, 3, "n", "n"), {"x": (1, 3, 2, 5)}, "--shape makes dimension 'n' both 2 and 5; give one size"),
        ((1, 3, "height", 5), {"height": (0,)}, "--shape height=0: sizes must be positive"),
    ],
)
def test_a_size_that_does_not_fit_is_refused_in_one_line(
    x: Sequence[int | str | None], shapes: Mapping[str, tuple[int, ...]], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ImportFault, match=said):
        load(saved(tmp_path, x), shapes)


def test_the_command_line_and_the_python_api_take_shapes(gen: Gen, tmp_path: Path) -> None:
    path = saved(tmp_path, ("batch", 3, "height", "width"))
    planned = gen("plan", path, "--shape", "height=4", "--shape", "width=2", "--json")
    inspected = gen("inspect", path, "--shape", "x=1x3x4x2", "--json")
    made = shoehorn_mcu.plan(path, shoehorn_mcu.PlanOptions(shapes={"x": (1, 3, 4, 2)}))
    named = shoehorn_mcu.plan(path, shoehorn_mcu.PlanOptions(shapes={"height": 4, "width": 2}))
    shape = [1, 4, 2, 3]

    assert json.loads(planned.stdout)["model"]["inputs"][0]["shape"] == shape
    assert json.loads(inspected.stdout)["model"]["inputs"][0]["shape"] == shape
    assert made.arena_bytes == named.arena_bytes == json.loads(planned.stdout)["plan"]["arena_bytes"]


def test_an_input_without_a_shape_is_named_and_gets_the_shape_given(tmp_path: Path) -> None:
    path = saved(tmp_path, None)

    with pytest.raises(ImportFault, match=r"input 'x' has no shape in the file; give it, such as --shape x=1x3x96x96$"):
        load(path)
    with pytest.raises(ImportFault, match="no input and no dimension of one is called 'H'; known are x"):
        load(path, {"H": (3,)})
    assert load(path, {"x": (1, 3, 4, 5)}).tensors["x"].type.shape == (1, 4, 5, 3)


def test_a_scalar_has_a_shape(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ()) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "scalar", ends[:1], ends[1:])
    path = tmp_path / "scalar.onnx"
    opsets = [helper.make_opsetid("", 18)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())

    assert load(path).tensors["x"].type.shape == ()


@pytest.mark.parametrize("words", [["height"], ["height=0"], ["=3"], ["x=1x"], ["height=2", "--shape", "height=3"]])
def test_a_shape_that_cannot_be_read_is_wrong_usage(words: list[str], gen: Gen, tmp_path: Path) -> None:
    done = gen("plan", saved(tmp_path, (1, 3, "height", 5)), "--shape", *words)

    assert done.exit_code == 2
