"""Ops on float32: their rules, what passes do with them, and the exponential of softmax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from samples import graph_of, real_sample
from shared import FLOAT, MODELS, needs_shared

from shoehorn_mcu import ops, passes
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import DType, Graph, GraphError, Tensor, TensorType, verify
from shoehorn_mcu.ops import real
from shoehorn_mcu.schedule import split


def conv(weight: float = 1.0) -> Graph:
    """A 3x3 convolution over 4x4 pixels."""
    x = TensorType((1, 4, 4, 2), DType.FLOAT32)
    weights = TensorType((3, 3, 3, 2), DType.FLOAT32)
    bias = TensorType((3,), DType.FLOAT32)
    constants = [(kind, np.full(kind.shape, weight, np.float32)) for kind in (weights, bias)]
    return graph_of(ops.Conv2d, [x, *constants], DType.FLOAT32, clamp=ops.RealClamp())


def test_bounds_on_stored_values_are_refused() -> None:
    graph = conv()
    with pytest.raises(GraphError, match=r"its bounds -128\.\.127 are stored values, real ones are needed"):
        verify(replace(graph, ops=(replace(graph.ops[0], clamp=ops.Clamp()),)))  # type: ignore[call-arg]


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_constants_that_are_not_finite_are_refused(weight: float) -> None:
    with pytest.raises(GraphError, match="its weights 'x1' hold values that are not finite"):
        verify(conv(weight))


@pytest.mark.parametrize("op_class", [ops.Mul, ops.TransposeConv2d, ops.Maximum], ids=lambda c: c.__name__)
def test_other_ops_are_refused_in_float32(op_class: type[ops.LinearOp]) -> None:
    with pytest.raises(GraphError, match="is float32, int8 is needed"):
        real_sample(op_class, np.random.default_rng(0))


def test_a_pad_with_zeros_moves_into_its_convolution() -> None:
    graph = conv()
    (op,) = graph.ops
    padded = TensorType((1, 4, 4, 2), DType.FLOAT32)
    inner = Tensor("inner", TensorType((1, 2, 4, 2), DType.FLOAT32))
    pad = ops.Pad(name="pad", inputs=("inner",), output="x0", before=(0, 1, 0, 0), after=(0, 1, 0, 0), value=0)
    tensors = {**graph.tensors, "inner": inner, "x0": Tensor("x0", padded)}
    changed, _ = passes.run(Graph("padded", tensors, (pad, op), ("inner",), graph.outputs))

    (found,) = changed.ops
    assert isinstance(found, ops.Conv2d)
    assert found.padding == ops.Padding(top=1, bottom=1)


@needs_shared
@pytest.mark.parametrize("model", FLOAT)
def test_only_sums_over_rows_change_a_float_model_and_no_block_is_split(model: str) -> None:
    graph = load(MODELS / f"{model}.tflite")
    changed, _ = passes.run(graph, frozenset({"sum-rows"}))

    assert [op.name for op in passes.prove_int32(changed).ops] == [op.name for op in graph.ops]
    assert split.blocks(passes.run(graph)[0]) == split.blocks(changed) == ()


def test_the_exponential_is_within_its_bound() -> None:
    rng = np.random.default_rng(0)
    edges = np.arange(64 * 1024, dtype=np.float32) / -1024
    x = np.concatenate([edges, -np.exp(rng.uniform(np.log(2.0**-27), np.log(64), 1 << 20)).astype(np.float32)])
    exact = np.exp(x.astype(np.float64))

    assert (np.abs(real.exp_negative(x) - exact) <= 1.02 * np.spacing(exact.astype(np.float32))).all()
    assert real.exp_negative(np.array([0, -64.1, -1e30], np.float32)).tolist() == [1, 0, 0]
