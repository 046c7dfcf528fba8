"""Models of a dynamic range: float32 inputs and outputs, int8 weights."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import pytest
import tflite
from test_uint8 import values_of
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, int8, single

from shoehorn_mcu.importers.source import InFloat
from shoehorn_mcu.importers.tflite.importer import import_tflite, load_tflite
from shoehorn_mcu.ir import DType

WINDOW = {"StrideH": 1, "StrideW": 1, "Padding": tflite.Padding.VALID}


def hybrid(code: str, weights: tuple[int, ...], axis: int, y: tuple[int, ...]) -> tuple[ModelSpec, list[float]]:
    """A linear op with a scale per output channel."""
    rng = np.random.default_rng(4)
    x = (1, 6, 5, 4) if len(weights) == 4 else (3, weights[1])
    scales = [float(s) for s in rng.uniform(0.005, 0.02, weights[axis]).astype(np.float32)]
    data = rng.integers(-127, 128, weights, np.int8).tobytes()
    bias = rng.normal(0, 0.1, weights[axis]).astype(np.float32).tobytes()
    tensors = [
        TensorSpec("x", x, "FLOAT32"),
        TensorSpec("w", weights, "INT8", tuple(scales), data=data, axis=axis),
        TensorSpec("b", (weights[axis],), "FLOAT32", data=bias),
    ]
    options = {**(WINDOW if len(weights) == 4 else {}), **({"DepthMultiplier": 1} if code.startswith("DEPTH") else {})}
    return single(code, tensors, [TensorSpec("y", y, "FLOAT32")], **options), scales


@pytest.mark.parametrize(
    ("code", "weights", "axis", "y"),
    [
        ("CONV_2D", (5, 3, 3, 4), 0, (1, 4, 3, 5)),
        ("DEPTHWISE_CONV_2D", (1, 3, 3, 4), 3, (1, 4, 3, 4)),
        ("FULLY_CONNECTED", (6, 40), 0, (3, 6)),
    ],
)
def test_weights_are_their_numbers(code: str, weights: tuple[int, ...], axis: int, y: tuple[int, ...]) -> None:
    """LiteRT rounds each input to 8 bits on the way: its results differ by about that."""
    spec, scales = hybrid(code, weights, axis, y)
    graph = import_tflite(spec.bytes(), "hybrid")
    (node,) = graph.nodes()
    assert node.inputs[1].type.dtype is DType.FLOAT32 and node.inputs[1].data is not None
    along = [-1 if place == axis else 1 for place in range(len(weights))]
    codes = np.frombuffer(spec.tensors[1].data or b"", np.int8).reshape(weights)
    wanted = codes * np.array(scales, np.float32).reshape(along)
    np.testing.assert_array_equal(node.inputs[1].data, wanted.astype(np.float32))

    x = np.random.default_rng(5).normal(0, 1, graph.tensors["x"].type.shape).astype(np.float32)
    ours = values_of(graph, {"x": x})["y"]
    theirs = litert.run(spec.bytes(), [x])[3]
    assert 0 < np.abs(ours - theirs).max() < 0.02 * np.abs(ours).max()


def test_what_computes_in_float32_though_it_is_quantised_is_noted(tmp_path: Path) -> None:
    """A dense layer on int8, one on float32 with weights of int8, and one whose operands are dequantised ahead."""
    real, weights = (lambda name, n: TensorSpec(name, (1, n), "FLOAT32")), int8("w1", (4, 4), seed=1)
    tensors = [
        int8("x", (1, 4)),
        weights,
        bias("b", 4),
        int8("first", (1, 4)),
        real("wide", 4),
        TensorSpec("zeros", (4,), "FLOAT32", data=np.zeros(4, np.float32).tobytes()),
        real("second", 4),
        TensorSpec("w3", (4, 4), "FLOAT32", data=np.eye(4, dtype=np.float32).tobytes()),
        real("third", 4),
        real("fourth", 4),
    ]
    ops = [
        OpSpec("FULLY_CONNECTED", (0, 1, 2), (3,)),
        OpSpec("DEQUANTIZE", (3,), (4,)),
        OpSpec("FULLY_CONNECTED", (4, 7, 5), (6,)),
        OpSpec("FULLY_CONNECTED", (6, 1, 5), (8,)),
        OpSpec("FULLY_CONNECTED", (8, 7, 5), (9,)),
    ]
    path = tmp_path / "mixed.tflite"
    path.write_bytes(ModelSpec(tensors, ops, (0,), (9,)).bytes())

    made = load_tflite(path, {})

    assert made.quantised_linear == 3
    assert made.in_float == (
        InFloat("second", "FULLY_CONNECTED", "its input is dequantised ahead of it"),
        InFloat("third", "FULLY_CONNECTED", "only its weights are quantised, its input is float32"),
    )
