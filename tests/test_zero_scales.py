"""Constants that are all zero and have the scale 0, as converters write them where they saw no range."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from runtime import run_portable
from test_uint8 import values_of
from tflite_writer import ModelSpec, TensorSpec, int8, single

from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array
from shoehorn_mcu.passes import prove_int32, run

X = (1, 4, 6, 2)
RNG = np.random.default_rng(8)


def weights(shape: tuple[int, ...], scales: tuple[float, ...], axis: int) -> TensorSpec:
    """Random weights, zeros wherever the scale is 0."""
    data = RNG.integers(-127, 128, shape, np.int8)
    empty = np.broadcast_to(np.array(scales) == 0, shape[axis])
    np.moveaxis(data, axis, 0)[empty] = 0
    return TensorSpec("w", shape, scales=scales, data=data.tobytes(), axis=axis)


def bias(count: int, scales: tuple[float, ...]) -> TensorSpec:
    """One of 700, whose scale is that of x times the weights'."""
    wide = tuple(0.05 * scale for scale in scales)
    return TensorSpec("b", (count,), "INT32", wide, data=np.full(count, 700, np.int32).tobytes())


def cases(scales: tuple[float, ...]) -> list[tuple[str, ModelSpec]]:
    x, y = int8("x", X, zero=3), int8("y", (*X[:3], 3), zero=-5)
    window = {"StrideH": 1, "StrideW": 1}
    deep = int8("x", (*X[:3], 3), zero=3)
    dense = [int8("x", (4, 8), zero=3), weights((3, 8), scales, 0), bias(3, scales)]
    return [
        ("CONV_2D", single("CONV_2D", [x, weights((3, 1, 1, 2), scales, 0), bias(3, scales)], [y], **window)),
        (
            "DEPTHWISE_CONV_2D",
            single(
                "DEPTHWISE_CONV_2D",
                [deep, weights((1, 3, 3, 3), scales, 3), bias(3, scales)],
                [y],
                DepthMultiplier=1,
                **window,
            ),
        ),
        ("FULLY_CONNECTED", single("FULLY_CONNECTED", dense, [int8("y", (4, 3), zero=-5)])),
    ]


@pytest.mark.parametrize("scales", [(0.0,), (0.0, 0.02, 0.0)], ids=["one scale", "per channel"])
@pytest.mark.parametrize("place", range(3))
def test_zeros_of_scale_0_give_the_bytes_of_tflite_micro(place: int, scales: tuple[float, ...]) -> None:
    """The bias counts nothing either, since the sum is multiplied by 0."""
    code, spec = cases(scales)[place]
    model = spec.bytes()
    graph = import_tflite(model, code)
    data: Array = RNG.integers(-128, 128, graph.tensors["x"].type.shape, np.int8)
    theirs, ours = oracle.run(model, [data])[3], values_of(graph, {"x": data})["y"]
    np.testing.assert_array_equal(ours, theirs.reshape(ours.shape), strict=True)
    assert (ours[..., 0] == -5).all()
    optimised = prove_int32(run(graph)[0])
    np.testing.assert_array_equal(run_portable(optimised, [data])[optimised.outputs[0]], ours, strict=True)


def test_a_product_with_zeros_of_scale_0_is_0() -> None:
    zeros = TensorSpec("z", X, scales=(0.0,), data=bytes(48))
    model = single("MUL", [int8("x", X, zero=3), zeros], [int8("y", X, zero=-5)]).bytes()
    data = RNG.integers(-128, 128, X, np.int8)
    ours = values_of(import_tflite(model, "product"), {"x": data})["y"]
    np.testing.assert_array_equal(ours, oracle.run(model, [data])[2].reshape(X), strict=True)


@pytest.mark.parametrize("value", [1, None], ids=["other numbers", "computed"])
def test_the_scale_0_of_anything_else_is_refused(value: int | None) -> None:
    data = None if value is None else bytes([value]) * 48
    other = TensorSpec("z", X, scales=(0.0,), data=data)
    with pytest.raises(ImportFault, match=r"'z' has a scale of 0\.0"):
        import_tflite(single("ADD", [int8("x", X), other], [int8("y", X)]).bytes(), "model")
