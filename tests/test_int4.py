"""Weights of 4 bits: the bytes of tflite_micro, and the numbers that ONNX says."""

from __future__ import annotations

import zlib
from pathlib import Path

import flatbuffers
import numpy as np
import onnx
import onnxruntime
import oracle
import pytest
import samples
from onnx import TensorProto, helper
from test_uint8 import per_tensor, values_of
from tflite_micro.python.tflite_micro.runtime import schema_fb

from shoehorn_mcu import ops
from shoehorn_mcu.importers import ImportFault, load
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import DType, Op

CASES = 25


def with_int4(model: bytes, spare: int = 0) -> bytes:
    """A .tflite of one linear op with its weights cut to 4 bits, two in a byte; `spare`: bytes behind them."""
    parsed = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(model, 0))
    tensor = parsed.subgraphs[0].tensors[1]
    buffer = parsed.buffers[tensor.buffer]
    values = np.asarray(buffer.data, np.uint8).view(np.int8) >> 4
    low = np.append(values, np.zeros(len(values) % 2, np.int8)).reshape(-1, 2).astype(np.uint8)
    tensor.type = schema_fb.TensorType.INT4
    buffer.data = np.append((low[:, 0] & 15) | (low[:, 1] << 4), np.zeros(spare, np.uint8))
    builder = flatbuffers.Builder(1024)
    builder.Finish(parsed.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("op_class", samples.LINEAR_OPS, ids=lambda c: c.__name__)
def test_a_random_graph_gives_the_bytes_of_tflite_micro(op_class: type[Op]) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(op_class.__name__.encode()), case])
        graph = samples.sample(op_class, rng)
        graph = per_tensor(graph) if op_class is ops.Dense else graph  # tflite_micro has no other dense layers of int4
        model = with_int4(oracle.to_tflite(graph))
        imported = import_tflite(model, "int4")
        inputs = {n: rng.integers(-128, 128, imported.tensors[n].type.shape, np.int8) for n in imported.inputs}
        theirs = oracle.run(model, list(inputs.values()))[list(graph.tensors).index("y")]
        ours = values_of(imported, inputs)["y"]
        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape), err_msg=f"case {case}", strict=True)


def test_weights_of_another_length_are_refused() -> None:
    graph = samples.sample(samples.LINEAR_OPS[0], np.random.default_rng(0))
    with pytest.raises(ImportFault, match="INT4, but its buffer holds"):
        import_tflite(with_int4(oracle.to_tflite(graph), spare=3), "int4")


@pytest.mark.parametrize(("kind", "zero"), [(TensorProto.INT4, 0), (TensorProto.INT4, -3), (TensorProto.UINT4, 8)])
def test_weights_of_4_bits_of_onnx(kind: int, zero: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    low = 0 if kind == TensorProto.UINT4 else -8
    weights = rng.integers(low, low + 16, (5, 7))
    constants = [
        helper.make_tensor("w", kind, (5, 7), weights.reshape(-1).tolist()),
        helper.make_tensor("ws", TensorProto.FLOAT, (), [0.1]),
        helper.make_tensor("wz", kind, (), [zero]),
        *(helper.make_tensor(f"{n}s", TensorProto.FLOAT, (), [s]) for n, s in (("x", 0.02), ("y", 0.05))),
        *(helper.make_tensor(f"{n}z", TensorProto.INT8, (), [z]) for n, z in (("x", 3), ("y", -5))),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"]),
        helper.make_node("MatMul", ["xr", "wr"], ["yr"]),
        helper.make_node("QuantizeLinear", ["yr", "ys", "yz"], ["y"]),
    ]
    ends = (helper.make_tensor_value_info(n, TensorProto.INT8, (4, size)) for n, size in (("x", 5), ("y", 7)))
    x_end, y_end = ends
    graph = helper.make_graph(nodes, "int4", [x_end], [y_end], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "int4.onnx"
    onnx.save_model(model, str(path))
    imported = load(path)
    x = rng.integers(-128, 128, (4, 5), np.int8)
    ours = values_of(imported, {imported.inputs[0]: x})[imported.outputs[0]]
    (theirs,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert [n.inputs[1].type.dtype for n in imported.nodes() if isinstance(n.op, ops.Dense)] == [DType.INT8]
    assert np.abs(ours.astype(int) - theirs).max() <= 1
