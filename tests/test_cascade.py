"""Blocks run in bands: what a band computes, where its inner rows lie, and what the whole costs; replayed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from row_problems import MACS, Net, chances, problems, same, window

from shoehorn_mcu.planner import Block, Cut, OpSpec, Problem, Read, TensorSpec, check
from shoehorn_mcu.planner.blocks.cascade import Composite, Part, Pattern, _most_apart, applied
from shoehorn_mcu.planner.blocks.composites import composites as found_composites
from shoehorn_mcu.planner.blocks.composites import possible
from shoehorn_mcu.planner.memory_plan import Cascade, Outcome, Placement, Plan, Status
from shoehorn_mcu.planner.order.flow import Flow, Runner
from shoehorn_mcu.planner.placement.bundles import load
from shoehorn_mcu.planner.placement.layout import RowOrder, _Layout, lay_out
from shoehorn_mcu.planner.problem import LaterCuts


def composites(problem: Problem, chance: Random) -> Iterator[Composite]:
    """Every cut of every block, in bands of one row, of all rows, and of a random number."""
    for block in problem.blocks:
        height = problem.by_name[problem.ops[block.last].writes].rows
        for band in {1, height, chance.randint(1, height)}:
            pattern = Pattern(problem, block, band)
            yield from (Composite(pattern, cut) for cut in block.cuts)


def blocked(chance: Random) -> Problem:
    """A problem with one block at least."""
    net = Net(chance)
    x = net.tensor(chance.randint(1, 12), chance.randint(1, 24))
    net.block(net.residual(net.block(x)) if chance.random() < 0.3 else x)
    return net.problem(streamed=False)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, list[Composite]]:
    chance = draw(chances())
    problem = blocked(chance)
    return problem, list(composites(problem, chance))


def inner_reads(composite: Composite, op: OpSpec, row: int) -> list[tuple[str, int]]:
    """What a row of an op reads that the block itself makes."""
    made = {op.writes for op in composite.cut.ops}
    return [(read.tensor, r) for read in op.reads if read.tensor in made for r in read.rows[row]]


def bands(composite: Composite) -> list[list[tuple[OpSpec, int]]]:
    """By band: the rows of ops in order, from the steps that the plan gets."""
    by_name = {op.name: op for op in composite.cut.ops}
    starts = range(0, composite.pattern.height, composite.band)
    return [[(by_name[s.op], y) for s in composite.steps(start) for y in range(*s.rows)] for start in starts]


@settings(max_examples=150, deadline=None)
@given(cases())
def test_each_row_of_the_output_is_computed_once_and_from_rows_that_are_there(case: tuple[Problem, list[Composite]]):
    for composite in case[1]:
        written: list[int] = []
        for number, band in enumerate(bands(composite)):
            there: set[tuple[str, int]] = set()
            for op, row in band:
                assert set(inner_reads(composite, op, row)) <= there
                assert (op.writes, row) not in there  # nothing twice within a band
                there.add((op.writes, row))
            written += sorted(row for op, row in band if op is composite.cut.ops[-1])
            needed = {pair for op, row in band for pair in inner_reads(composite, op, row)}
            needed |= {(composite.cut.ops[-1].writes, row) for row in written[number * composite.band :]}
            assert there == needed  # and nothing in vain
        assert written == list(range(composite.pattern.height))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_a_composite_reads_with_the_first_row_of_a_band_what_its_ops_read_in_it(case: tuple[Problem, list[Composite]]):
    problem, all_cuts = case
    for composite in all_cuts:
        made = {op.writes for op in composite.cut.ops}
        for number, band in enumerate(bands(composite)):
            read = {(r.tensor, y) for op, row in band for r in op.reads if r.tensor not in made for y in r.rows[row]}
            first = number * composite.band
            said = {(r.tensor, y) for r in composite.spec.reads for y in r.rows[first]}
            assert said == read
            for row in range(first + 1, min(first + composite.band, composite.pattern.height)):
                assert all(r.rows[row] == () for r in composite.spec.reads)
        assert composite.spec.writes == problem.ops[composite.block.last].writes


def bases(composite: Composite, at: int = 0) -> dict[Part, int]:
    """Everything that some band needs, one place behind the other, from `at` on."""
    needs = dict(need for y in range(0, composite.pattern.height, composite.band) for need in composite.needs(y))
    return dict(zip(needs, accumulate(needs.values(), initial=at), strict=False))


@dataclass
class Frame:
    """The memory of the band that begins with `row`, byte by byte: which row wrote what lies there."""

    composite: Composite
    row: int
    bytes: dict[int, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        places = bases(self.composite)
        self.placements = {ring.tensor: ring for ring in self.composite.placements(places)}
        self.views = {t.name: t.view_of for t in self.composite.cut.tensors if t.view_of is not None}
        self.scratch = {s.op: range(s.address, s.address + s.bytes) for s in self.composite.scratch(places)}
        self.own = {
            at for name, size in self.composite.needs(self.row) for at in range(places[name], places[name] + size)
        }

    def span(self, name: str, row: int) -> range:
        ring: Placement = self.placements[self.views.get(name, name)]
        assert name not in self.views or self.placements[name] == replace(ring, tensor=name)
        span = range(ring.at(row), ring.at(row) + ring.row_bytes)
        assert self.own.issuperset(span)
        return span

    def run(self, op: OpSpec, row: int) -> None:
        """What a row reads must be there while it and the scratch are written, but for what may be overwritten."""
        reads = inner_reads(self.composite, op, row)
        over = (op.in_place, row)
        for name, y in reads:
            assert all(self.bytes.get(at) == (name, y) for at in self.span(name, y)), (op.name, row, name, y)
        taken: set[int] = set()
        for name, y in reads:
            shared = op.writes in self.placements and (name, y) == over
            if not (shared and self.span(name, y).start == self.span(op.writes, row).start):
                taken |= set(self.span(name, y))
        own = set(self.span(op.writes, row)) if op.writes in self.placements else set()
        scratch = set(self.scratch.get(op.name, ()))
        assert self.own.issuperset(scratch)
        assert not taken & own
        assert not taken & scratch
        assert not own & scratch
        assert len(scratch) >= op.scratch_bytes
        self.bytes.update(dict.fromkeys(scratch, "scratch"))
        self.bytes.update(dict.fromkeys(own, (op.writes, row)))


@settings(max_examples=200, deadline=None)
@given(cases())
def test_inner_rows_lie_in_the_frame_until_they_are_read(case: tuple[Problem, list[Composite]]):
    for composite in case[1]:
        for number, band in enumerate(bands(composite)):
            frame = Frame(composite, number * composite.band)
            for op, row in band:
                frame.run(op, row)


def most_alive(composite: Composite, band: list[tuple[OpSpec, int]]) -> int:
    """The most bytes of inner rows that are needed at one time, whatever their addresses."""
    most = 0
    sizes = {t.name: t.row_bytes for t in composite.cut.tensors}
    last = {pair: i for i, (op, row) in enumerate(band) for pair in inner_reads(composite, op, row)}
    alive: set[tuple[str, int]] = set()
    for i, (op, row) in enumerate(band):
        own = {(op.writes, row)} if op.writes in sizes else set()
        during = sum(sizes[name] for name, _ in alive | own) + op.scratch_bytes
        over = (op.in_place, row)
        if own and over in alive and last[over] == i:
            during -= min(sizes[over[0] or ""], sizes[op.writes])
        most = max(most, during)
        alive = {pair for pair in alive | own if last.get(pair, -1) > i}
    return most


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_rows_alive_together_need_as_many_slots_as_they_are_apart_in_whichever_order_they_come(order: Sequence[int]):
    """A row that is computed after a higher one: each looks both ways."""
    assert _most_apart([(time, 9, row) for time, row in enumerate(order)]) == 3


@settings(max_examples=150, deadline=None)
@given(cases())
def test_what_a_band_needs_holds_all_that_is_alive_in_it_and_is_no_more_than_the_rings(
    case: tuple[Problem, list[Composite]],
):
    for composite in case[1]:
        slots = (len(set(r.slots) or {0}) * -(-r.row_bytes // 4) * 4 for r in composite.placements(bases(composite)))
        scratch = -(-max(op.scratch_bytes for op in composite.cut.ops) // 4) * 4
        at_most = composite.frame_bytes
        for number, band in enumerate(bands(composite)):
            needed = sum(size for _, size in composite.needs(number * composite.band))

            assert most_alive(composite, band) <= needed <= at_most
        assert at_most <= sum(slots) + scratch


@settings(max_examples=150, deadline=None)
@given(cases())
def test_cost_and_multiplications_are_those_of_the_steps(case: tuple[Problem, list[Composite]]):
    for composite in case[1]:
        done = [pair for band in bands(composite) for pair in band]

        assert composite.cost == sum(op.row_cost for op, _ in done)
        assert composite.macs == sum(op.row_macs for op, _ in done)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_a_band_of_all_rows_computes_nothing_again(case: tuple[Problem, list[Composite]]):
    problem, made = case
    for composite in made:
        counts = Counter((op.name, row) for band in bands(composite) for op, row in band)
        ops = problem.ops[composite.block.first : composite.block.last + 1]
        once = sum(op.row_macs * problem.by_name[op.writes].rows for op in ops)
        if composite.band == composite.pattern.height:
            assert set(counts.values()) == {1}
            assert composite.macs <= once  # less where some inner rows are never read
        elif composite.cut.chunks > 1:
            whole = Composite(Pattern(problem, composite.block, composite.pattern.height), composite.cut)
            assert composite.macs >= whole.macs


def plan_of(problem: Problem, chosen: Composite) -> Plan:
    """All of a problem as one group, one block of it run as a composite."""
    flow = Flow(problem, [Runner(chosen.spec, chosen.band, chosen.frames)])
    kept = [op for op in range(flow.count) if not chosen.block.first < op <= chosen.block.last]
    group = [flow.count if op == chosen.block.first else op for op in kept]
    events = flow.events(group, 0, flow.count)
    made = lay_out(flow, events, [chosen])
    given_in = sum(problem.by_name[name].bytes for name in set(map(problem.root, problem.inputs)))
    assert load(_Layout(RowOrder(flow, events, [chosen])).bundles) <= max(
        given_in, flow.peak(group, 0, flow.count) or 0
    )
    outcome = Outcome(Status.FEASIBLE, 0, 0, 0.0)
    ops = tuple(op.name for op in chosen.cut.ops)
    cascade = Cascade(chosen.block.name, chosen.cut.chunks, chosen.band, ops)
    return Plan(made.steps, made.placements, made.scratch, made.arena_bytes, outcome, (cascade,))


@settings(max_examples=60, deadline=None)
@given(problem=problems(most_ops=10, most_blocks=2, most_rows=7), chance=chances())
def test_the_plan_of_a_problem_with_a_block_in_bands_passes_the_check(problem: Problem, chance: Random):
    choices = list(composites(problem, chance))
    assume(choices)
    chosen = chance.choice(choices)
    after = applied(problem, [chosen])

    assert check(after, plan_of(problem, chosen)) == []
    assert after.blocks == ()
    untouched = [*problem.ops[: chosen.block.first], *problem.ops[chosen.block.last + 1 :]]
    assert [op for op in after.ops if op not in chosen.cut.ops] == untouched
    for op in after.ops:
        assert {op.writes, *(read.tensor for read in op.reads)} <= after.by_name.keys()
        assert all(len(read.rows) == after.by_name[op.writes].rows for read in op.reads)
    assert all(t.view_of is None or t.view_of in after.by_name for t in after.tensors)


# --- Blocks of which everything is known


def bottleneck(rows: int, chunks: int) -> Block:
    """x (8 bytes a row) -> h (40) -> n (40), a window of three -> y (4), alone and in chunks."""
    ops = (
        OpSpec("a", (same("x", rows),), "h", 0, 10, MACS),
        OpSpec("n", (window("h", rows, 3, before=1),), "n", 0, 10, MACS),
        OpSpec("b", (same("n", rows),), "y", 0, 10, MACS),
    )
    net = Net(Random(0), ops=list(ops))
    for name, row_bytes in (("x", 8), ("h", 40), ("n", 40), ("y", 4)):
        net.tensors[name] = TensorSpec(name, rows, row_bytes)
    plain = Cut(1, (net.tensors["h"], net.tensors["n"]), ops)
    return Block("a", 0, 2, (plain,) if chunks == 1 else (plain, net._chunked(ops, chunks)))


def alone(block: Block) -> Problem:
    rows = len(block.cuts[0].ops[0].reads[0].rows)
    tensors = (TensorSpec("x", rows, 8), *block.cuts[0].tensors, TensorSpec("y", rows, 4))
    return Problem(tensors, block.cuts[0].ops, ("x",), ("y",), None, (block,))


@pytest.mark.parametrize(
    ("band", "of_h"),
    [(1, 28), (2, 18), (4, 14), (5, 12), (10, 10)],
)
def test_the_halo_of_a_bottleneck_is_two_rows_a_band(band: int, of_h: int):
    block = bottleneck(10, 1)
    made = Composite(Pattern(alone(block), block, band), block.cuts[0])

    assert made.pattern.counts == (of_h, 10, 10)
    assert made.macs == MACS * (of_h + 20)
    assert made.frame_bytes == (3 + 1) * 40
    assert {sum(size for _, size in made.needs(y)) for y in range(0, 10, band)} <= {3 * 40, 4 * 40}


def test_chunks_narrow_the_rings_and_keep_the_sums_of_a_band():
    """h and n at a quarter, 3 rows and 1, each padded to words; the sums of 2 rows of 4 int32."""
    block = bottleneck(10, 4)
    made = Composite(Pattern(alone(block), block, 2), block.cuts[1])

    assert made.frame_bytes == 3 * 12 + 12 + 2 * 16
    assert made.macs == MACS * (18 + 20) // 4 * 4
    steps = [(s.op, s.rows) for s in made.steps(4)]
    assert steps[:6] == [("a/1of4", (3, 6)), ("n/1of4", (4, 5)), ("b/1of4", (4, 5)), *_second_row("1of4")]
    assert steps[-1] == ("b", (4, 6))


def test_a_cut_needs_its_widest_inner_rows_and_its_sums_at_least():
    block = bottleneck(10, 4)
    pattern = Pattern(alone(block), block, 2)

    assert pattern.least_bytes((40, 40)) == 3 * 40
    assert pattern.least_bytes((10, 10, 16)) == 3 * 12 + 2 * 16 == Composite(pattern, block.cuts[1]).frame_bytes - 12


@pytest.mark.parametrize("more", [0, 1])
def test_a_block_is_not_cut_where_its_chunks_would_need_too_many_bytes(more: int):
    """In one band, x and y with three rows of a quarter of h and the sums: 120 + 36 + 160 bytes."""
    block = bottleneck(10, 4)
    made: list[int] = []

    def make(place: int) -> Cut:
        made.append(place)
        return block.cuts[place]

    cuts = LaterCuts([partial(make, 0), partial(make, 1)])
    later = replace(block, cuts=cuts, row_bytes=((40, 40), (10, 10, 16)))
    problem, below = alone(later), 120 + 36 + 160 + more
    list(found_composites(problem, [possible(problem, each, 0, below) for each in problem.blocks], below))

    assert made == [0, 1][: 1 + more]
    assert cuts[:] == [*block.cuts]


def _second_row(end: str) -> list[tuple[str, tuple[int, int]]]:
    return [(f"a/{end}", (6, 7)), (f"n/{end}", (5, 6)), (f"b/{end}", (5, 6))]


def test_the_addresses_of_a_frame_begin_at_its_base():
    block = bottleneck(10, 4)
    made = Composite(Pattern(alone(block), block, 2), block.cuts[1])
    low, high = list(made.placements(bases(made))), list(made.placements(bases(made, 400)))

    assert [[r.at(y) + 400 for y in range(r.rows)] for r in low] == [[r.at(y) for y in range(r.rows)] for r in high]
    assert [r.tensor for r in low] == [r.tensor for r in high]
    assert len({r.slots for r in low if r.tensor.startswith("y/")}) == 1  # the sums, one over the other


def test_rows_that_nobody_reads_are_not_computed():
    """B takes every other row, so that every other row of n is never made, and h only where a window lies."""
    ops = (
        OpSpec("a", (same("x", 9),), "h"),
        OpSpec("n", (same("h", 9),), "n"),
        OpSpec("b", (Read("n", tuple((2 * y,) for y in range(5))),), "y"),
    )
    tensors = tuple(TensorSpec(*t) for t in (("x", 9, 8), ("h", 9, 40), ("n", 9, 40), ("y", 5, 4)))
    block = Block("a", 0, 2, (Cut(1, tensors[1:3], ops),))
    problem = Problem(tensors, ops, ("x",), ("y",), None, (block,))
    made = Composite(Pattern(problem, block, 1), block.cuts[0])

    assert made.pattern.counts == (5, 5, 5)
    assert check(applied(problem, [made]), plan_of(problem, made)) == []
