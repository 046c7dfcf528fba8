"""Constants that are not finite, such as the masks of causal attention, from the model to what a compiler makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper

TOKENS = 5
MASK = np.triu(np.full((TOKENS, TOKENS), -np.inf, np.float32), 1)
VALUES = np.where(MASK == 0, np.float32(0), np.float32(np.nan))


def saved(mask: np.ndarray, op: str, folder: Path) -> Path:
    """Scores of two heads, a mask over them, and their softmax."""
    shape = [1, 2, TOKENS, TOKENS]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    masked = helper.make_node(op, ["x", "mask"], ["masked"])
    weighed = helper.make_node("Softmax", ["masked"], ["y"], axis=-1)
    graph = helper.make_graph([masked, weighed], "masked", ends[:1], ends[1:], [numpy_helper.from_array(mask, "mask")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "masked.onnx")
    return folder / "masked.onnx"


@pytest.mark.parametrize(("mask", "op"), [(MASK, "Add"), (-MASK, "Min"), (VALUES, "Add")], ids=["-inf", "inf", "NaN"])
def test_a_mask_of_infinities_is_compiled_and_computes_the_reference(
    mask: np.ndarray, op: str, gen: Gen, tmp_path: Path
) -> None:
    made = gen("firmware", saved(mask, op, tmp_path), "--board", "native", "--out", tmp_path / "made")
    assert made.exit_code == 0, made.stderr

    told = gen("validate", tmp_path / "made", "--count", 3)
    assert told.exit_code == 0, told.stderr
    assert "every byte of every op equal to the reference" in told.stdout
