"""What rewrites share, apart from the rewrites."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import DType, Graph, Quant, Tensor, TensorType
from shoehorn_mcu.ir.edit import sharing
from shoehorn_mcu.ops import InsertSlice, Mul, Relu

KIND = TensorType((1, 2, 2, 4), DType.INT8, Quant((0.5,), (0,)))


def graph(kind: TensorType = KIND, first: int = 0) -> Graph:
    """Made anew by each call, but for the array of its constant."""
    part = replace(kind, shape=(1, 2, 2, 2))
    inner = Relu(name="r", inputs=("x",), output="r")
    ops = (
        InsertSlice(name="r", inputs=("x",), output="t", op=inner, axis=3, first=first, count=2, size=4, join="j"),
        Mul(name="m", inputs=("t", "c"), output="y"),
    )
    tensors = {"x": part, "t": kind, "y": kind}
    made = {name: Tensor(name, each) for name, each in tensors.items()} | {"c": Tensor("c", kind, CONSTANT)}
    return Graph("g", made, ops, ("x",), ("y",))


CONSTANT = np.ones(KIND.shape, np.int8)


def test_a_graph_shares_the_ops_and_tensors_that_are_the_same_but_for_identity() -> None:
    old = graph()

    made = sharing(graph(), old)

    assert all(mine is theirs for mine, theirs in zip(made.ops, old.ops, strict=True))
    assert all(made.tensors[name] is old.tensors[name] for name in old.tensors)


def test_what_differs_in_a_field_of_an_inner_op_a_type_or_an_array_is_its_own() -> None:
    old, other = graph(), graph(first=2)
    wider = graph(replace(KIND, quant=Quant((0.25,), (0,))))
    equal = replace(graph(), tensors={**graph().tensors, "c": Tensor("c", KIND, CONSTANT.copy())})

    assert sharing(other, old).ops == (other.ops[0], old.ops[1])
    renamed = replace(old.ops[0].op, name="s")  # type: ignore[attr-defined]
    inner = replace(old, ops=(replace(old.ops[0], op=renamed), old.ops[1]))  # type: ignore[call-arg]
    assert sharing(inner, old).ops[0] is inner.ops[0]
    assert [sharing(wider, old).tensors[n] is wider.tensors[n] for n in "xtyc"] == [True] * 4
    assert sharing(equal, old).tensors["c"] is equal.tensors["c"]
    assert sharing(equal, old).tensors["t"] is old.tensors["t"]


def test_nothing_is_shared_with_a_graph_of_other_names() -> None:
    mine = graph()

    assert sharing(mine, replace(mine, ops=(), tensors={})).ops == mine.ops
