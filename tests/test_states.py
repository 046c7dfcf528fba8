"""Tensors that keep their values between inferences: planned, run by the reference and on an emulated board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import emitted
import numpy as np
import pytest
from runtime import load_portable, load_reference

import shoehorn_mcu
from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.importers import UnsupportedModel
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp, RawTensor
from shoehorn_mcu.importers.tflite.options import Options
from shoehorn_mcu.importers.tflite.variables import without_variables
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, State, Tensor, TensorType, verify
from shoehorn_mcu.ops import Concat, Map, MaxPool2d, Reshape, Slice
from shoehorn_mcu.ops.formula import formula
from shoehorn_mcu.passes.share_rows import share_rows
from shoehorn_mcu.passes.turn_states import turn_states
from shoehorn_mcu.planner import DoesNotFit, Goal, Read, check, make_plan
from shoehorn_mcu.planner.memory_plan import Plan, Step
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages
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


def window(rows: int, new: int, first: int | None = None) -> Graph:
    """As `ring` with `new` rows at a time; the next state begins at row `first` of all, usually behind the oldest."""
    graph = ring(rows)
    kinds = {"x": new, "all": rows + new}
    tensors = {
        **graph.tensors,
        **{
            n: replace(t, type=replace(t.type, shape=(1, kinds[n], 1, 3)))
            for n, t in graph.tensors.items()
            if n in kinds
        },
    }
    join, cut = graph.ops
    return verify(
        replace(graph, tensors=tensors, ops=(join, replace(cut, begin=(0, new if first is None else first, 0, 0))))
    )


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


@pytest.mark.parametrize(("rows", "new"), [(2, 1), (5, 1), (5, 3)])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_window_is_a_ring_that_only_new_rows_are_written_to(
    tmp_path: Path, rows: int, new: int, streamed: bool
) -> None:
    """In the reference, and in compiled C whose rings turn round several times, also where rows arrive one by one."""
    graph = window(rows, new)
    turned = share_rows(turn_states(graph))
    rng = np.random.default_rng(rows)
    vectors = [{"x": rng.integers(-128, 128, (1, new, 1, 3), np.int8)} for _ in range(4 * rows)]
    (state,) = turned.states
    moved, reference = load_reference(graph), load_reference(turned)
    unit = emitted.unit_of(turned, stream_input=streamed)
    program = emitted.compile_library(unit, tmp_path)

    assert turned.is_ring(state) and turned.tensors[state.write].type.shape == (1, new, 1, 3)
    assert bool(unit.copied) == streamed
    for vector, found in zip(vectors, emitted.run(unit, program, vectors), strict=True):
        wanted = moved.run([vector["x"]])["all"]
        assert np.array_equal(reference.run([vector["x"]])["all"], wanted)
        assert np.array_equal(found["all"], wanted)


def pooled(graph: Graph) -> Graph:
    """With the larger of each two rows as the next state."""
    join, cut = graph.ops
    return verify(
        replace(
            graph, ops=(join, MaxPool2d(name="pool", inputs=("all",), output=cut.output, kernel=(2, 1), stride=(1, 1)))
        )
    )


def viewed(graph: Graph) -> Graph:
    """With a reshape of the state."""
    flat = Tensor("flat", replace(graph.tensors["before"].type, shape=(1, 15)))
    reshape = Reshape(name="flatten", inputs=("before",), output="flat", shape=(1, 15))
    return verify(
        replace(
            graph, tensors={**graph.tensors, "flat": flat}, ops=(*graph.ops, reshape), outputs=(*graph.outputs, "flat")
        )
    )


@pytest.mark.parametrize(
    "graph",
    [
        window(5, 1, first=0),
        window(2, 3),
        replace(ring(), outputs=("all", "next")),
        replace(ring(), outputs=("all", "before")),
        viewed(ring()),
        pooled(ring()),
    ],
    ids=["another part", "all rows are new", "given out", "state given out", "viewed", "not a part"],
)
def test_other_states_are_no_rings(graph: Graph) -> None:
    assert turn_states(graph) is graph


def test_the_check_knows_that_the_rows_of_a_ring_stay_and_are_not_in_order() -> None:
    unit = emitted.unit_of(turn_states(window(5, 2)))
    problem, plan = lower(unit.graph, unit.stages, None), unit.plan
    (state,) = unit.graph.states
    places = {placement.tensor: placement for placement in plan.placements}

    def moved(tensor: str, address: int) -> Plan:
        other = {**places, tensor: replace(places[tensor], address=address)}
        return replace(plan, placements=tuple(other.values()), arena_bytes=plan.arena_bytes + 32)

    def said(wrong: Plan) -> str:
        return "; ".join(check(problem, wrong))

    assert not check(problem, plan)
    assert "is not placed where 'before' is" in said(moved(state.write, places["all"].address))
    assert "after the last step: row 4 of 'before' is read" in said(moved("all", places["before"].address + 12))
    whole = replace(plan, steps=tuple(replace(step, rows_per_call=step.rows[1]) for step in plan.steps))
    assert "'before' is a ring, whose rows are not in order" in said(whole)


def test_a_next_value_is_written_over_its_state() -> None:
    """15, 18 and 3 bytes, each rounded up to words: the next value takes none, and nothing is copied."""
    unit = emitted.unit_of(ring())
    problem = lower(unit.graph, unit.stages, None)

    assert not check(problem, unit.plan)
    assert unit.plan.arena_bytes == 16 + 20 + 4
    assert unit.placements["before"].address == unit.placements["next"].address
    text = bytes(emitted.library_of(unit)["src/ring.c"]).decode()
    assert "memcpy" not in text.partition("void ring_run(void)\n{")[2]
    smaller = make_plan(lower(unit.graph, unit.stages, unit.plan.arena_bytes - 4))  # by single rows
    assert not check(problem, smaller)
    with pytest.raises(DoesNotFit):
        make_plan(lower(unit.graph, unit.stages, smaller.outcome.bound_bytes - 1))


def test_the_check_finds_a_state_that_is_read_after_it_was_overwritten() -> None:
    unit = emitted.unit_of(ring())
    problem = lower(unit.graph, unit.stages, None)
    join, cut = problem.ops
    hasty = replace(problem, ops=(join, replace(cut, reads=(Read("x", ((0,),) * 5),))))
    wrong = replace(unit.plan, steps=(Step("cut", (0, 5)), Step("join", (0, 6))))

    assert any("row 0 of 'before' is read, but its bytes hold row 0 of 'next'" in f for f in check(hasty, wrong))


def random_states(rng: np.random.Generator) -> Graph:
    """A few states of float32 rows, read and computed by sums, joins and cuts in any order."""
    width = int(rng.integers(1, 4))
    tensors: dict[str, Tensor] = {}
    ops: list[Op] = []

    def add(height: int, data: Array | None = None) -> str:
        name = f"t{len(tensors)}"
        tensors[name] = Tensor(name, TensorType((1, height, 1, width), DType.FLOAT32), data)
        return name

    def height(name: str) -> int:
        return tensors[name].type.shape[1]

    x = add(int(rng.integers(1, 3)))
    reads = [add(int(rng.integers(1, 6))) for _ in range(int(rng.integers(1, 4)))]
    firsts = {r: add(height(r), rng.normal(0, 1, (1, height(r), 1, width)).astype(np.float32)) for r in reads}
    pool = [x, *reads]
    windows = {}
    for read in reads:  # some are joined with the new rows, and keep the last ones
        if rng.random() < 0.4:
            windows[read] = add(height(read) + height(x))
            ops.append(Concat(name=f"join_{read}", inputs=(read, x), output=windows[read], axis=1))
            pool += [windows[read]] * 2
    plus = formula(lambda a, b: a + b * 0.5, DType.FLOAT32, DType.FLOAT32).text
    for number in range(int(rng.integers(3, 10))):
        a, b = (pool[int(rng.integers(len(pool)))] for _ in "ab")
        if rng.random() < 0.4:
            made = Concat(name=f"op{number}", inputs=(a, b), output=add(height(a) + height(b)), axis=1)
        elif (rng.random() < 0.5 and 1 in (height(a), height(b))) or height(a) == height(b):
            made = Map(name=f"op{number}", inputs=(a, b), output=add(max(height(a), height(b))), formula=plus)
        else:
            size = int(rng.integers(1, height(a) + 1))
            begin = int(rng.integers(0, height(a) - size + 1))
            kind = {"begin": (0, begin, 0, 0), "size": (1, size, 1, width), "step": (1, 1, 1, 1)}
            made = Slice(name=f"op{number}", inputs=(a,), output=add(size), **kind)
        ops.append(made)
        pool.append(made.output)
    states = []
    for read in reads:
        fitting = [op.output for op in ops if height(op.output) == height(read)]
        if read in windows or not fitting:  # a part of a join that is long enough
            joined = windows.get(read) or add(height(read) + height(x))
            if read not in windows:
                ops.append(Concat(name=f"join_{read}", inputs=(read, x), output=joined, axis=1))
            cut = {"begin": (0, height(x), 0, 0), "size": (1, height(read), 1, width), "step": (1, 1, 1, 1)}
            fitting = [add(height(read))]
            ops.append(Slice(name=f"cut_{read}", inputs=(joined,), output=fitting[0], **cut))
        states.append(State(read, fitting[int(rng.integers(len(fitting)))], firsts[read]))
    return verify(Graph("states", tensors, tuple(ops), (x,), (ops[-1].output, ops[0].output), tuple(states)))


@pytest.mark.parametrize("seeds", [30, pytest.param(120, marks=pytest.mark.long)])
def test_random_graphs_with_states_compute_sequences_as_the_reference(seeds: int, tmp_path: Path) -> None:
    """By plans for time and for SRAM; some next values are written over their states, others are copied."""
    placed = copied = rings = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        graph = random_states(rng)
        graph = turn_states(graph) if seed % 4 < 3 else graph
        graph = share_rows(graph) if seed % 2 else graph
        rings += sum(map(graph.is_ring, graph.states))
        chosen = stages(graph)
        problem = lower(graph, chosen, None)
        vectors = [
            {graph.inputs[0]: rng.normal(0, 1, graph.tensors[graph.inputs[0]].type.shape).astype(np.float32)}
            for _ in range(9)
        ]
        reference = load_reference(graph)
        wanted = [reference.run(list(vector.values())) for vector in vectors]
        for goal in Goal:
            plan = make_plan(problem, goal)
            unit = Unit("states", graph, chosen, plan)

            assert not check(problem, plan)
            if seed % 3 == 0:
                program = emitted.compile_library(unit, tmp_path / f"{seed}_{goal.value}")
                for found, expected in zip(emitted.run(unit, program, vectors), wanted, strict=True):
                    assert all(found[name].tobytes() == expected[name].tobytes() for name in graph.outputs), seed
        over = sum(spec.over is not None for spec in problem.tensors)
        placed, copied = placed + over, copied + len(graph.states) - over

    assert placed > 20 and copied > 10 and rings > 5


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
    _given_vectors_are_one_sequence(made.folder, tmp_path)


def _given_vectors_are_one_sequence(folder: Path, tmp_path: Path) -> None:
    """With labels each is a sequence of its own."""
    graph = passes.run(importers.load(MWW))[0]
    (name,), (output,) = graph.inputs, graph.outputs
    given = np.random.default_rng(0).integers(-128, 128, (7, 1, 3, 40), np.int8)
    np.savez(tmp_path / "x.npz", **{name: given})
    np.save(tmp_path / "labels.npy", np.zeros(7, np.int64))
    whole, each = load_reference(graph), load_reference(graph)
    in_order = [whole.run([x])[output] for x in given]
    alone = []
    for x in given:
        each.reset()
        alone.append(each.run([x])[output])

    found = shoehorn_mcu.validate(folder, emulate=True, inputs=tmp_path / "x.npz")
    inputs = shoehorn_mcu.Inputs(tmp_path / "x.npz", labels=tmp_path / "labels.npy")
    labelled = shoehorn_mcu.validate(folder, emulate=True, inputs=inputs)

    assert np.array_equal(found.outputs[output], np.concatenate(in_order))
    assert np.array_equal(labelled.outputs[output], np.concatenate(alone))
    assert not np.array_equal(in_order, alone)


def _tensor(name: str, data: bytes | None = None) -> RawTensor:
    return RawTensor(name, (1,), "INT8", None if data is None else memoryview(data), (), (), 0, False, False)


def _op(code: str, reads: tuple[int, ...], writes: tuple[int, ...], options: Options | None = None) -> RawOp:
    return RawOp(code, "", reads, writes, options or Options())


def _variable_model(*ops: RawOp, first: bool = True) -> RawModel:
    """Tensors: 0 input, 1 handle, 2 and 3 values read, 4 computed, 5 a handle in the other subgraph, 6 a constant."""
    name = Options(name="v")
    other = RawModel(
        (_tensor("handle"), _tensor("zero", b"\7")),
        (_op("VAR_HANDLE", (), (0,), name), _op("ASSIGN_VARIABLE", (0, 1), ())),
        (),
        (),
    )
    called = (_op("CALL_ONCE", (), (), Options(subgraphs=(1,))),) if first else ()
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
        ((READ, _op("CALL_ONCE", (), (), Options(subgraphs=(4,)))), True, "op 3 CALL_ONCE names subgraph 4"),
    ],
)
def test_variables_that_cannot_be_states_are_refused(ops: tuple[RawOp, ...], first: bool, words: str) -> None:
    with pytest.raises((UnsupportedModel, ShoehornError), match=words):
        without_variables(_variable_model(*ops, first=first))


def test_first_values_that_are_computed_are_refused() -> None:
    model = _variable_model(READ, ADD)
    (other,) = model.others
    for changed, words in (
        (replace(other, tensors=(other.tensors[0], _tensor("zero"))), "a first value of op 0 CALL_ONCE is computed"),
        (replace(other, ops=(*other.ops, _op("ADD", (1, 1), (0,)))), "op 0 CALL_ONCE runs ADD, only assignments of"),
        (replace(other, ops=(_op("VAR_HANDLE", (), (0, 1)),)), "op 0 VAR_HANDLE has 2 outputs; convert it again"),
    ):
        with pytest.raises(ShoehornError, match=words):
            without_variables(replace(model, others=(changed,)))
