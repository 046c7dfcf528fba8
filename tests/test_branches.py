"""TFLite's IF with a constant condition, and WHILE of a known number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import oracle
import pytest
from test_uint8 import values_of
from tflite_writer import ModelSpec, OpSpec, TensorSpec, int8, ints

from shoehorn_mcu import ops
from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array

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


def flag(name: str) -> TensorSpec:
    return TensorSpec(name, (), "BOOL")


def number(name: str, value: int | None = None) -> TensorSpec:
    return TensorSpec(name, (), "INT32", data=None if value is None else np.int32(value).tobytes())


def looping(rounds: int, dtype: str = "FLOAT32", keeps: bool = False, bound: int | None = None) -> ModelSpec:
    """h = relu(row[i] + h) over the rows of x (5, 1, 3); the last h, or all of them as Keras collects them.

    In int8 all rows are the same one, x (1, 3).
    `bound`: None, or the number of the loop's value that the condition compares with instead of a constant.
    """
    scales = {"scales": (0.05,), "zero_points": (3,)} if dtype == "INT8" else {}
    rows, shape = (1, 3) if dtype == "INT8" else (5, 1, 3), (1, 3)
    zeros = bytes(np.dtype(dtype.lower()).itemsize * (15 if keeps else 3))
    array = (5, 1, 3) if keeps else (1, 1, 3)

    def carried(suffix: str) -> list[TensorSpec]:
        return [
            number(f"i{suffix}"),
            TensorSpec(f"h{suffix}", shape, dtype, **scales),
            TensorSpec(f"all{suffix}", array, dtype, **scales),
            TensorSpec(f"x{suffix}", rows, dtype, **scales),
        ]

    whole = ModelSpec(
        [
            number("zero", 0),
            TensorSpec("h", shape, dtype, data=zeros[: len(zeros) // (5 if keeps else 1)], **scales),
            TensorSpec("all", array, dtype, data=zeros, **scales),
            TensorSpec("x", rows, dtype, **scales),
            *carried("_end"),
            TensorSpec("y", array, dtype, **scales),
            ints("perm", (0, 1, 2)),
        ],
        [
            OpSpec("WHILE", (0, 1, 2, 3), (4, 5, 6, 7), {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}),
            OpSpec("TRANSPOSE", (6, 9), (8,)),
        ],
        (3,),
        (8,),
    )
    condition = ModelSpec(
        [*carried("_cond"), number("rounds", rounds), flag("less")], [OpSpec("LESS", (0, 4), (5,))], (0, 1, 2, 3), (5,)
    )
    tensors = [
        *carried("_body"),
        number("one", 1),
        number("following"),
        TensorSpec("row", shape, dtype, **scales),
        TensorSpec("sum", shape, dtype, **scales),
        TensorSpec("new", shape, dtype, **scales),
        ints("item_shape", (1, 1, 3)),
        TensorSpec("item", (1, 1, 3), dtype, **scales),
    ]
    steps = [
        OpSpec("ADD", (0, 4), (5,), table="AddOptions"),
        OpSpec("RELU", (3,), (6,)) if dtype == "INT8" else OpSpec("GATHER", (3, 0), (6,), {"Axis": 0}),
        OpSpec("ADD", (6, 1), (7,), table="AddOptions"),
        OpSpec("RELU", (7,), (8,)),
        OpSpec("RESHAPE", (8, 9), (10,)),
    ]
    ends = (5, 8, 10, 3)
    if keeps:
        first = len(tensors)
        tensors += [
            ints("flat", (1,)),
            TensorSpec("i_flat", (1,), "INT32"),
            TensorSpec("next_flat", (1,), "INT32"),
            ints("start", (0, 0, 0)),
            ints("to_end", (-1, -1)),
            ints("all_of_it", (-1, -1, -1)),
            ints("none", (0, 0)),
            TensorSpec("size", (3,), "INT32"),
            TensorSpec("begin", (3,), "INT32"),
            TensorSpec("ahead", (1, 1, 3), dtype, **scales),
            TensorSpec("behind", (1, 1, 3), dtype, **scales),
            TensorSpec("joined", array, dtype, **scales),
        ]
        flat, i, after, start, to_end, rest, none, size, begin, ahead, behind, joined = range(first, first + 12)
        steps += [
            OpSpec("RESHAPE", (0, flat), (i,)),
            OpSpec("CONCATENATION", (i, to_end), (size,), {"Axis": 0}),
            OpSpec("SLICE", (2, start, size), (ahead,)),
            OpSpec("RESHAPE", (5, flat), (after,)),
            OpSpec("CONCATENATION", (after, none), (begin,), {"Axis": 0}),
            OpSpec("SLICE", (2, begin, rest), (behind,)),
            OpSpec("CONCATENATION", (ahead, 10, behind), (joined,), {"Axis": 0}),
        ]
        ends = (5, 8, joined, 3)
    whole.others = [condition, ModelSpec(tensors, steps, (0, 1, 2, 3), ends)]
    if bound is not None:
        condition.ops = [OpSpec("LESS", (bound, bound), (5,))]
    return whole


def expected(x: Array, rounds: int, keeps: bool) -> Array:
    """In float32."""
    state, states = np.zeros((1, 3), np.float32), np.zeros((5, 1, 3), np.float32)
    for i in range(rounds):
        state = np.maximum(x[i] + state, 0)
        states[i] = state
    return states if keeps else state[None]


@pytest.mark.parametrize("keeps", [False, True], ids=["the last", "all"])
@pytest.mark.parametrize("rounds", [0, 1, 3, 5])
def test_a_loop_is_the_ops_of_its_rounds(rounds: int, keeps: bool) -> None:
    """Where fewer rows are written than the list has, the rest are its first values."""
    graph = import_tflite(looping(rounds, keeps=keeps).bytes(), "looping")
    x = np.random.default_rng(rounds).standard_normal((5, 1, 3)).astype(np.float32)
    np.testing.assert_array_equal(values_of(graph, {"x": x})["y"], expected(x, rounds, keeps), strict=True)
    assert sum(isinstance(op, ops.Concat) for op in graph.ops) <= 1  # rows of a list are collected once


def test_a_loop_over_int8_gives_the_bytes_of_tflite_micro() -> None:
    model = looping(4, "INT8").bytes()
    x = np.random.default_rng(2).integers(-128, 128, (1, 3), np.int8)
    theirs = oracle.run(model, [x])[8]
    np.testing.assert_array_equal(values_of(import_tflite(model, "looping"), {"x": x})["y"].ravel(), theirs.ravel())


def test_loops_that_inputs_decide_that_never_end_and_that_do_not_fit_are_refused() -> None:
    decided = looping(3, bound=1)
    with pytest.raises(ImportFault, match="WHILE has a condition that the inputs decide"):
        import_tflite(decided.bytes(), "looping")
    endless = looping(3)
    endless.others[1].ops[0] = OpSpec("ADD", (4, 4), (5,), table="AddOptions")  # the counter stays at 2
    with pytest.raises(ImportFault, match="has more than 1638 rounds, which become more than 8192 ops"):
        import_tflite(endless.bytes(), "looping")
    rescaled = looping(3, "INT8")
    rescaled.others[1].tensors[1].scales = (0.06,)
    with pytest.raises(ImportFault, match="changes the type or scale of what goes from round to round"):
        import_tflite(rescaled.bytes(), "looping")
    lost = looping(3)
    lost.others = lost.others[:1]
    with pytest.raises(ImportFault, match="names subgraph 2, which is missing"):
        import_tflite(lost.bytes(), "looping")


def _short(model: ModelSpec) -> None:
    model.ops[0].inputs = model.ops[0].inputs[:-1]


def _unknown(model: ModelSpec) -> None:
    model.ops[0].inputs = (*model.ops[0].inputs[:-1], 99)


def _beyond(model: ModelSpec) -> None:
    model.others[1].outputs = (*model.others[1].outputs[:-1], 99)


def _unwritten(model: ModelSpec) -> None:
    model.others[1].ops[-1].inputs = (99, *model.others[1].ops[-1].inputs[1:])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_short, "op 0 WHILE has 3 inputs and 4 outputs"),
        (_unknown, "op 0 WHILE lacks an operand"),
        (_beyond, "subgraph 2 names tensor 99, which is missing"),
        (_unwritten, "subgraph 2 names tensor 99, which is missing"),
    ],
)
def test_tensors_that_a_loop_lacks_are_named(change: Callable[[ModelSpec], None], said: str) -> None:
    model = looping(3)
    assert import_tflite(model.bytes(), "looping").ops
    change(model)

    with pytest.raises(ImportFault, match=said):
        import_tflite(model.bytes(), "looping")


def test_branches_in_branches_without_an_end_are_refused() -> None:
    """The branch is the subgraph that it is in."""
    model = branching(True)
    inner = model.others[0]
    model.others[0] = replace(
        inner,
        tensors=[*inner.tensors, TensorSpec("c", (), "BOOL", data=b"\1")],
        ops=[replace(model.ops[0], inputs=(len(inner.tensors), *inner.inputs), outputs=inner.outputs)],
    )

    with pytest.raises(ImportFault, match=r"its IF and WHILE are in one another more than \d+ deep"):
        import_tflite(model.bytes(), "branching")
