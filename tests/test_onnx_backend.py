"""ONNX's own suite of tests over the importer and the reference runtime: all pass that the list of skips leaves.

The fast part has the tests from PyTorch, the simple ones and those of some ops; `python -m bench.onnx_suite` runs
and counts all, and writes docs/onnx.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from onnx import TensorProto, helper

from bench import onnx_suite
from tests import onnx_cases
from tests.onnx_backend import Shoehorn
from tests.onnx_cases import Case

pytestmark = pytest.mark.usefixtures("module_in_one_process")

PASSED = ("passed", "folded")
FAST = ("pytorch-operator", "pytorch-converted", "simple")
SOME = (
    "clip",
    "conv",
    "cumsum",
    "dequantizelinear",
    "gathernd",
    "gru",
    "isinf",
    "lpnormalization",
    "lrn",
    "lstm",
    "rnn",
    "rotaryembedding",
)


def check(cases: Iterable[Case]) -> None:
    """Every test passes, or is left out and would not pass."""
    results = [(onnx_cases.cause(case), onnx_cases.run(case, all_of_them=True)) for case in cases]
    assert results
    assert [result for cause, result in results if not cause and result.state not in PASSED] == []
    assert [(cause, result.name) for cause, result in results if cause and result.state in PASSED] == []


@pytest.mark.parametrize("group", FAST)
def test_a_group_of_tests_passes(group: str) -> None:
    check(onnx_cases.cases(group))


@pytest.mark.parametrize("module", SOME)
def test_the_tests_of_an_op_pass(module: str) -> None:
    check(onnx_cases.node_cases(module))


@pytest.mark.long
@pytest.mark.parametrize("group", [group for group in onnx_cases.GROUPS if group not in FAST])
def test_a_large_group_of_tests_passes(group: str) -> None:
    check(onnx_cases.cases(group))


def test_only_what_must_be_known_becomes_a_constant() -> None:
    """The axis of a sum, which is computed here, so the input that it comes from."""
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3)),
        helper.make_tensor_value_info("bias", TensorProto.FLOAT, (3,)),
        helper.make_tensor_value_info("axis", TensorProto.INT64, ()),
    ]
    nodes = [
        helper.make_node("Add", ["x", "bias"], ["s"]),
        helper.make_node("Neg", ["axis"], ["a"]),
        helper.make_node("CumSum", ["s", "a"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", ends, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    prepared = Shoehorn.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    x, bias = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)

    (found,) = prepared.run([x, bias, np.array(1)])

    np.testing.assert_array_equal(found, np.cumsum(x + bias, axis=-1))
    assert prepared.constants == ("axis",)
    assert not prepared.folded


def test_the_page_has_the_causes_of_the_list() -> None:
    text = onnx_suite.PAGE.read_text()

    assert [cause for cause in onnx_cases.onnx_skips.NAMES if f"| {cause} |" not in text] == []
