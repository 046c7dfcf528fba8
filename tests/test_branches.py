"""TFLite's IF with a constant condition."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from test_uint8 import values_of
from tflite_writer import ModelSpec, OpSpec, TensorSpec, int8

from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.tflite import import_tflite

X = (1, 6)


def branching(condition: bool | None, passes_on: bool = False) -> ModelSpec:
    """x, then IF of a ReLU and a sum of x with itself, then a ReLU6."""
    flag = None if condition is None else bytes([condition])
    whole = ModelSpec(
        [int8("x", X), TensorSpec("flag", (1,), "BOOL", data=flag), int8("middle", X), int8("y", X)],
        [
            OpSpec("IF", (1, 0), (2,), {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2}),
            OpSpec("RELU6", (2,), (3,)),
        ],
        (0,) if condition is not None else (0, 1),
        (3,),
    )
    then = ModelSpec([int8("a", X), int8("b", X)], [OpSpec("RELU", (0,), (1,))], (0,), (0 if passes_on else 1,))
    other = ModelSpec([int8("a", X), int8("c", X)], [OpSpec("ADD", (0, 0), (1,))], (0,), (1,))
    whole.others = [then, other]
    return whole


@pytest.mark.parametrize("condition", [True, False])
def test_the_branch_that_is_taken_gives_the_bytes_of_tflite_micro(condition: bool) -> None:
    model = branching(condition).bytes()
    graph = import_tflite(model, "branching")
    x = np.array([[-128, -40, 0, 30, 60, 127]], np.int8)
    assert [type(op).__name__ for op in graph.ops] == ["Relu" if condition else "Add", "Relu6"]
    np.testing.assert_array_equal(values_of(graph, {"x": x})["y"], oracle.run(model, [x])[3], strict=True)


def test_a_branch_may_give_its_own_operand() -> None:
    graph = import_tflite(branching(True, passes_on=True).bytes(), "branching")
    x = np.array([[-128, -40, 0, 30, 60, 127]], np.int8)
    np.testing.assert_array_equal(values_of(graph, {"x": x})["y"], np.clip(x, 0, 120))


def test_other_conditions_and_subgraphs_are_refused() -> None:
    with pytest.raises(ImportFault, match="IF has a condition that is computed"):
        import_tflite(branching(None).bytes(), "branching")
    lost = branching(True)
    lost.others = []
    with pytest.raises(ImportFault, match="names subgraph 1, which is missing"):
        import_tflite(lost.bytes(), "branching")
    unlike = branching(False)
    unlike.others[1].inputs = ()
    with pytest.raises(ImportFault, match="does not fit subgraph 2"):
        import_tflite(unlike.bytes(), "branching")
