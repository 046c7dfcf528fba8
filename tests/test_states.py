"""Tensors that keep their values between inferences: planned, run by the reference and on an emulated board."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runtime import load_portable, load_reference

import shoehorn_mcu
from shoehorn_mcu import importers, passes
from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.importers import UnsupportedModel
from shoehorn_mcu.importers.tflite_file import RawModel, RawOp, RawTensor
from shoehorn_mcu.importers.tflite_options import CallOnceOptions, Options, VariableOptions
from shoehorn_mcu.importers.tflite_variables import without_variables
from shoehorn_mcu.ir import Array, DType, Graph, Quant, State, Tensor, TensorType, verify
from shoehorn_mcu.lower import lower
from shoehorn_mcu.ops import Concat, Slice
from shoehorn_mcu.planner import DoesNotFit, check, make_plan
from shoehorn_mcu.stage import stages
from shoehorn_mcu.targets import Machine
from tests.shared import MODELS, needs_shared

MWW = MODELS / "mww-okay-nabu-v2.tflite"


def ring(rows: int = 5, width: int = 3) -> Graph:
    """The last `rows` inputs: `all` is the rows before and the new one, of which the last ones are the next state."""
    quant = Quant((0.5,), (3,))
    kinds = {"x": 1, "before": rows, "all": rows + 1, "next": rows, "first": rows}
    data = {"first": np.arange(rows * width, dtype=np.int8).reshape(1, rows, 1, width)}
    tensors = {n: Tensor(n, TensorType((1, h, 1, width), DType.INT8, quant), data.get(n)) for n, h in kinds.items()}
    ops = (
        Concat(name="join", inputs=("before", "x"), output="all", axis=1),
        Slice(
            name="cut", inputs=("all",), output="next", begin=(0, 1, 0, 0), size=(1, rows, 1, width), step=(1, 1, 1, 1)
        ),
    )
    return verify(Graph("ring", tensors, ops, ("x",), ("all",), (State("before", "next", "first"),)))


def inputs(count: int, width: int = 3) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.integers(-128, 128, (1, 1, 1, width), np.int8) for _ in range(count)]


@pytest.mark.parametrize("load", [load_reference, load_portable])
def test_the_reference_keeps_states_and_forgets_them_at_a_reset(load) -> None:
    graph = ring()
    reference, first = load(graph), graph.tensors["first"].data
    held = first
    for number, x in enumerate(inputs(9)):
        if number == 6:
            reference.reset()
            held = first
        found = reference.run([x])

        held = np.concatenate([held, x], axis=1)
        assert np.array_equal(found["all"], held)
        held = held[:, 1:]
    assert reference.states == ("before",)


def test_a_plan_keeps_a_state_in_bytes_of_its_own() -> None:
    graph = ring()
    problem = lower(graph, stages(graph, Machine.of("cortex-m4f")), None)
    plan = make_plan(problem)

    check(problem, plan)  # raises where anything overwrites the state, or its next value
    assert plan.arena_bytes >= sum(graph.tensors[n].type.bytes for n in ("before", "next", "all"))
    with pytest.raises(DoesNotFit):
        make_plan(lower(graph, stages(graph, Machine.of("cortex-m4f")), plan.arena_bytes - 4))


@needs_shared
def test_a_wake_word_model_computes_sequences_as_tflite_micro() -> None:
    from tflite_micro.python.tflite_micro import runtime

    graph = passes.run(importers.load(MWW))[0]
    reference = load_reference(graph)
    interpreter = runtime.Interpreter.from_file(str(MWW))
    rng = np.random.default_rng(0)
    answers = set()
    for number in range(40):
        if number == 25:
            reference.reset()
            interpreter.reset()
        x = rng.integers(-128, 128, (1, 3, 40), np.int8)
        interpreter.set_input(x, 0)
        interpreter.invoke()

        found = reference.run([x])[graph.outputs[0]]

        assert np.array_equal(found, interpreter.get_output(0))
        answers.add(int(found.ravel()[0]))
    assert len(answers) > 1


@needs_shared
def test_a_wake_word_model_runs_on_an_emulated_board(tmp_path: Path) -> None:
    made = shoehorn_mcu.generate(MWW, tmp_path / "mww", shoehorn_mcu.PlanOptions(board="mps2-an386"))

    found = shoehorn_mcu.validate(made.folder, emulate=True, count=6)

    assert (found.vectors, found.mismatched_vectors) == (6, 0)
    header = (made.folder / "lib" / "mww_okay_nabu_v2" / "src" / "mww_okay_nabu_v2.h").read_text()
    assert "void mww_okay_nabu_v2_reset(void);" in header and "keeps 3472 bytes" in header


def _tensor(name: str, data: bytes | None = None) -> RawTensor:
    return RawTensor(name, (1,), "INT8", None if data is None else memoryview(data), (), (), 0, False, False)


def _op(code: str, reads: tuple[int, ...], writes: tuple[int, ...], options: Options | None = None) -> RawOp:
    return RawOp(code, "", reads, writes, options or Options())


def _variable_model(*ops: RawOp, first: bool = True) -> RawModel:
    """Tensors: 0 input, 1 handle, 2 and 3 values read, 4 computed, 5 a handle in the other subgraph, 6 a constant."""
    name = VariableOptions("v")
    other = RawModel(
        (_tensor("handle"), _tensor("zero", b"\7")),
        (_op("VAR_HANDLE", (), (0,), name), _op("ASSIGN_VARIABLE", (0, 1), ())),
        (),
        (),
    )
    called = (_op("CALL_ONCE", (), (), CallOnceOptions(1)),) if first else ()
    tensors = tuple(_tensor(n) for n in ("x", "handle", "a", "b", "y"))
    return RawModel(tensors, (*called, _op("VAR_HANDLE", (), (1,), name), *ops), (0,), (4,), (other,))


READ, AGAIN = _op("READ_VARIABLE", (1,), (2,)), _op("READ_VARIABLE", (1,), (3,))
ADD, ASSIGN = _op("ADD", (2, 0), (4,)), _op("ASSIGN_VARIABLE", (1, 4), ())


def test_a_variable_becomes_a_state() -> None:
    raw, (state,) = without_variables(_variable_model(READ, ADD, ASSIGN))

    assert [op.code for op in raw.ops] == ["ADD"] and not raw.others
    assert (state.read, state.write, bytes(state.initial.data)) == (2, 4, b"\7")


def test_a_read_behind_an_assignment_is_the_assigned_tensor() -> None:
    use = _op("RELU", (3,), (0,))

    raw, _ = without_variables(_variable_model(READ, ADD, ASSIGN, AGAIN, use))

    assert raw.ops[-1].inputs == (4,)


def test_a_variable_that_nothing_assigns_is_a_constant() -> None:
    raw, states = without_variables(_variable_model(READ, ADD))

    assert not states and bytes(raw.tensors[2].data) == b"\7"


@pytest.mark.parametrize(
    ("ops", "first", "words"),
    [
        ((READ, ADD, ASSIGN), False, "variable 'v' is read before anything gives it a value"),
        (
            (READ, ADD, _op("ASSIGN_VARIABLE", (1, 0), ())),
            True,
            "variable 'v' is assigned a tensor that no op computes",
        ),
        ((_op("READ_VARIABLE", (4,), (2,)),), True, "op 2 READ_VARIABLE has no handle of a variable"),
        ((READ, _op("ASSIGN_VARIABLE", (1,), ())), True, "op 3 ASSIGN_VARIABLE has 1 inputs"),
        ((READ, _op("CALL_ONCE", (), (), CallOnceOptions(4))), True, "op 3 CALL_ONCE names subgraph 4"),
    ],
)
def test_variables_that_cannot_be_states_are_refused(ops: tuple[RawOp, ...], first: bool, words: str) -> None:
    with pytest.raises((UnsupportedModel, ShoehornError), match=words):
        without_variables(_variable_model(*ops, first=first))
