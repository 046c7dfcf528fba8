"""Fourier transforms and complex numbers of a .tflite, against LiteRT's reference kernels."""

from __future__ import annotations

import litert
import numpy as np
import pytest
from runtime import run_portable
from test_uint8 import values_of
from tflite_writer import ModelSpec, OpSpec, TensorSpec, ints

from shoehorn_mcu.importers import UnsupportedModel
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array
from shoehorn_mcu.passes import run

NEAR = 2e-6
"""Of the largest value; the oracle computes in double precision."""


def spectrum(
    shape: tuple[int, ...], size: tuple[int, int], read: str, *moves: tuple[str, TensorSpec, tuple[int, ...]]
) -> bytes:
    """RFFT2D of x, moves with a constant operand to another shape, and what reads the numbers."""
    x = TensorSpec("x", shape, "FLOAT32")
    complex_shape = (*shape[:-2], size[0], size[1] // 2 + 1)
    tensors = [x, ints("size", size), TensorSpec("z", complex_shape, "COMPLEX64")]
    ops, last = [OpSpec("RFFT2D", (0, 1), (2,), table="Rfft2dOptions")], 2
    for code, operand, moved in moves:
        tensors += [operand, TensorSpec(f"z{last}", moved, "COMPLEX64")]
        ops.append(OpSpec(code, (last, len(tensors) - 2), (len(tensors) - 1,)))
        last = len(tensors) - 1
    tensors.append(TensorSpec("y", tensors[last].shape, "FLOAT32"))
    ops.append(OpSpec(read, (last,), (len(tensors) - 1,)))
    return ModelSpec(tensors, ops, (0,), (len(tensors) - 1,)).bytes()


def compare(model: bytes, shape: tuple[int, ...]) -> None:
    data: Array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    graph = import_tflite(model, "spectrum")
    assert all(tensor.type.dtype.numpy.kind != "c" for tensor in graph.tensors.values())
    theirs = litert.run(model, [data])[-1]
    optimised = run(graph)[0]
    for ours in (values_of(graph, {"x": data})["y"], run_portable(optimised, [data])[optimised.outputs[0]]):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= NEAR * np.abs(theirs).max()


@pytest.mark.parametrize("read", ["REAL", "IMAG", "COMPLEX_ABS"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 3, 1, 8), (1, 8)),
        ((2, 3, 1, 256), (1, 256)),
        ((5, 1, 400), (1, 512)),
        ((2, 1, 100), (1, 64)),
        ((1, 1), (1, 2)),
        ((3, 8, 16), (8, 16)),
        ((2, 7, 70), (4, 128)),
    ],
    ids=str,
)
def test_a_transform_is_that_of_litert(shape: tuple[int, ...], size: tuple[int, int], read: str) -> None:
    """Also of more points than there are, which are zeros, of fewer, and of columns."""
    compare(spectrum(shape, size, read), shape)


@pytest.mark.parametrize("read", ["REAL", "IMAG"])
def test_what_moves_complex_numbers_moves_their_parts(read: str) -> None:
    turned = ("TRANSPOSE", ints("perm", (0, 2, 1)), (1, 17, 4))
    compare(spectrum((4, 1, 32), (1, 32), read, ("RESHAPE", ints("s", (1, 4, 17)), (1, 4, 17)), turned), (4, 1, 32))


def test_complex_numbers_leave_no_model() -> None:
    tensors = [TensorSpec("x", (1, 8), "FLOAT32"), ints("size", (1, 8)), TensorSpec("z", (1, 5), "COMPLEX64")]
    model = ModelSpec(tensors, [OpSpec("RFFT2D", (0, 1), (2,), table="Rfft2dOptions")], (0,), (2,))
    with pytest.raises(UnsupportedModel, match="output 'z' is complex"):
        import_tflite(model.bytes(), "model")


def test_other_ops_on_complex_numbers_are_refused_by_name() -> None:
    moved = ("MUL", TensorSpec("w", (1, 5), "COMPLEX64", data=bytes(40)), (1, 5))
    with pytest.raises(UnsupportedModel, match="op 1 MUL is on complex numbers"):
        import_tflite(spectrum((1, 8), (1, 8), "REAL", moved), "model")


@pytest.mark.parametrize("size", [(1, 12), (1, 1 << 15), (3, 8)])
def test_lengths_that_litert_does_not_transform_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedModel, match="powers of 2"):
        import_tflite(spectrum((3, 8), size, "REAL"), "model")
