"""Groups of ops run row by row: the C against a simulation that keeps sets of rows and counts nothing ahead."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from compilers import SANITIZERS
from hypothesis import given, settings
from row_problems import chances, problems, random_problem, same
from test_runtime_c import ASAN, needs_asan

from shoehorn_mcu.planner import DELIVERY, OpSpec, Problem, Read, TensorSpec
from shoehorn_mcu.planner.blocks.cascade import Composite, Pattern
from shoehorn_mcu.planner.order.flow import Event, Flow, Runner
from shoehorn_mcu_host.base import cbuild

TESTS = Path(__file__).parent

Row = tuple[str, int]


class Naive:
    """One group, run on demand; what is alive is asked of the ops that are still to run, row by row, at each event."""

    def __init__(self, problem: Problem, composites: Sequence[Runner]) -> None:
        self.problem = problem
        self.ops = (*problem.ops, *(runner.spec for runner in composites))
        self.bands = (1,) * len(problem.ops) + tuple(runner.band for runner in composites)
        self.frames = ((),) * len(problem.ops) + tuple(runner.frames for runner in composites)
        self.specs = {t.name: t for t in problem.tensors}
        ends = (*problem.inputs, *problem.outputs)
        self.outputs = set(map(self.root, problem.outputs))
        roots = ((t, self.specs[self.root(t.name)]) for t in problem.tensors)
        others = (root.name for t, root in roots if (t.rows, t.row_bytes) != (root.rows, root.row_bytes))
        self.stiff = {*map(self.root, ends), *others}
        self.reads = [
            [frozenset(r for read in op.reads for r in self.seen(read, y)) for y in range(self.specs[op.writes].rows)]
            for op in self.ops
        ]

    def root(self, name: str) -> str:
        base = self.specs[name].view_of
        return name if base is None else self.root(base)

    def seen(self, read: Read, y: int) -> Iterator[Row]:
        """The rows that hold the bytes that output row y reads."""
        size, root = self.specs[read.tensor].row_bytes, self.root(read.tensor)
        for row in read.rows[y]:
            for byte in range(row * size, (row + 1) * size):
                yield root, byte // self.specs[root].row_bytes

    def slot(self, tensor: str) -> int:
        size = self.specs[tensor].row_bytes
        return size if tensor in self.stiff else (size + 3) // 4 * 4

    def run(self, group: Sequence[int], start: int, end: int) -> tuple[int, list[Event]]:
        """The peak, and the order."""
        self.group, self.later = group, range(end, len(self.problem.ops))
        self.done = {self.ops[op].writes: 0 for op in group}
        self.maker = {self.ops[op].writes: op for op in group}
        self.events: list[Event] = []
        here = {self.root(name) for name in self.problem.inputs}
        here |= {op.writes for op in self.problem.ops[:start]}
        self.rows = {(name, y) for name in here for y in range(self.specs[name].rows)}
        self.forget()
        self.peak = self.held()
        if start == 0 and self.ops[group[0]].name == DELIVERY:
            self.compute(group[0], 1)
        read = {row[0] for op in group for rows in self.reads[op] for row in rows}
        for op in group[::-1]:
            if self.ops[op].writes not in read or self.read_later(self.ops[op].writes):
                self.finish(op)
        for op in group[::-1]:
            self.finish(op)
        return self.peak, self.events

    def read_later(self, tensor: str) -> bool:
        rows = range(self.specs[tensor].rows)
        return tensor in self.outputs or any(self.wanted_later((tensor, y)) for y in rows)

    def wanted_later(self, row: Row) -> bool:
        return row[0] in self.outputs or any(row in rows for op in self.later for rows in self.reads[op])

    def wanted(self, row: Row) -> bool:
        """Whether somebody is still to read it."""
        return self.wanted_later(row) or any(
            row in rows for op in self.group for rows in self.reads[op][self.done[self.ops[op].writes] :]
        )

    def held(self) -> int:
        return sum(self.slot(name) for name, _ in self.rows)

    def forget(self) -> None:
        self.rows = {row for row in self.rows if self.wanted(row)}

    def finish(self, op: int) -> None:
        while self.done[self.ops[op].writes] < self.specs[self.ops[op].writes].rows:
            self.advance(op)

    def advance(self, op: int) -> None:
        """The next rows of an op, and before them what they need, the first tensor first."""
        tensor = self.ops[op].writes
        y0 = self.done[tensor]
        y1 = min(y0 + self.bands[op], self.specs[tensor].rows)
        while (missing := self.missing(op, y0, y1)) is not None:
            self.advance(self.maker[missing])
        self.compute(op, y1)

    def missing(self, op: int, y0: int, y1: int) -> str | None:
        for read in self.ops[op].reads:
            for y in range(y0, y1):
                for name, row in self.seen(read, y):
                    if name in self.done and row >= self.done[name]:
                        return name
        return None

    def compute(self, op: int, y1: int) -> None:
        spec, y0 = self.ops[op], self.done[self.ops[op].writes]
        made = {(spec.writes, y) for y in range(y0, y1)}
        assert {row for y in range(y0, y1) for row in self.reads[op][y]} <= self.rows
        self.rows |= made
        during = self.held() + (self.frames[op][y0 // self.bands[op]] if self.frames[op] else spec.scratch_bytes)
        self.done[spec.writes] = y1
        self.events.append(Event(op, y0, y1 - y0))
        over = self.overwritten(spec, y0)
        self.forget()
        if over is not None and not self.wanted(over):
            during -= max(0, min(self.slot(over[0]), self.slot(spec.writes)) - (spec.behind or 0))
        self.peak = max(self.peak, during)

    def overwritten(self, spec: OpSpec, y: int) -> Row | None:
        """The row that the kernel may overwrite: it reads nothing else of that tensor, and words begin there.

        Behind the lowest one it may write where there are more, if that row has an address of its own.
        """
        if spec.in_place is None or spec.writes in self.stiff:
            return None
        name = self.root(spec.in_place)
        rows = self.reads[self.ops.index(spec)]
        readers = [read for read in spec.reads if self.root(read.tensor) == name]
        alone = all(len({r for r in rows[i] if r[0] == name}) <= 1 for i in range(len(rows)))
        if spec.behind is not None:
            alone = name not in self.stiff and self.slot(spec.writes) <= self.slot(name)
        below = sorted(r for r in rows[y] if r[0] == name)
        return below[0] if len(readers) == 1 and alone and below and self.slot(name) % 4 == 0 else None


def compared(problem: Problem, chance: Random) -> int:
    """One random group of a problem, by both; how many events it has."""
    found = [(Composite(Pattern(problem, b, chance.randint(1, 9)), chance.choice(b.cuts)), b) for b in problem.blocks]
    runners = [Runner(c.spec, c.band, c.frames if chance.random() < 0.7 else ()) for c, _ in found]
    flow = Flow(problem, runners)
    start = chance.choice((0, chance.randint(0, len(problem.ops) - 1)))
    end = chance.choice((len(problem.ops), chance.randint(start + 1, len(problem.ops))))
    group = list(range(start, end))
    for i, (_, block) in enumerate(found):
        if start <= block.first and block.last < end and chance.random() < 0.7:
            group = [op for op in group if not block.first < op <= block.last]
            group = [flow.count + i if op == block.first else op for op in group]
    peak, events = Naive(problem, runners).run(group, start, end)

    assert flow.events(group, start, end) == events
    assert flow.peak(group, start, end) == peak
    assert flow.peak(group, start, end, peak + 1) == peak
    assert all(flow.peak(group, start, end, limit) is None for limit in (peak, peak // 2, 0))
    assert flow.peak_op(group, start, end) in group
    return len(events)


@settings(max_examples=400, deadline=None)
@given(problem=problems(most_ops=9, most_blocks=2), chance=chances())
def test_a_group_takes_the_bytes_and_the_order_that_sets_of_rows_say(problem: Problem, chance: Random):
    compared(problem, chance)


def test_the_random_problems_hold_all_that_a_group_can_meet():
    """Else the test above says less than it seems to."""
    met = []
    for seed in range(200):
        problem = random_problem(Random(seed), 9, 2)
        bytes_of = {t.name: t.row_bytes for t in problem.tensors}
        assert all(bytes_of[op.writes] <= bytes_of[op.in_place] for op in problem.ops if op.in_place)
        flow = Flow(problem)
        whole, once = range(flow.count), sum(flow.rows[name] for name in flow.writes)
        met += ["overwritten"] * any(place is not None for place in flow.in_place)
        met += ["views"] * any(t.view_of for t in problem.tensors)
        met += ["streamed"] * flow.streamed
        met += ["scratch"] * any(flow.scratch)
        met += ["blocks"] * bool(problem.blocks)
        met += ["skipped rows"] * any(-1 in users for users in flow.last_user.values())
        met += ["padding alone"] * any(-1 in tap.highest for taps in flow.taps for tap in taps)
        assert len(flow.events(whole, 0, flow.count)) == once

    for kind in ("overwritten", "views", "streamed", "scratch", "blocks", "skipped rows"):
        assert met.count(kind) > 30, kind


def _shared_rows(in_place: str | None) -> int:
    """The peak of: a (6 bytes a row, but 8 in the arena) -> b over a -> y; all in one group of 4 rows."""
    tensors = [TensorSpec(name, 4, 6) for name in "ab"] + [TensorSpec("y", 1, 1)]
    ops = (
        OpSpec("make", (), "a"),
        OpSpec("change", (same("a", 4),), "b", in_place=in_place),
        OpSpec("end", (Read("b", (tuple(range(4)),)),), "y"),
    )
    return Flow(Problem(tuple(tensors), ops, (), ("y",))).peak(range(3), 0, 3) or 0


def test_a_row_that_is_overwritten_takes_its_bytes_once():
    assert _shared_rows(None) == 8 * 5  # b whole and one row of a
    assert _shared_rows("a") == 8 * 4 + 1  # b whole and y


def test_a_row_that_somebody_reads_later_is_not_overwritten():
    tensors = [TensorSpec(name, 3, 8) for name in "xaby"]
    late = OpSpec("late", (same("a", 3), same("b", 3)), "y")
    ops = (OpSpec("make", (same("x", 3),), "a"), OpSpec("change", (same("a", 3),), "b", in_place="a"), late)
    problem = Problem(tuple(tensors), ops, ("x",), ("y",))
    free = replace(problem, ops=(*ops[:2], replace(late, reads=(same("b", 3),))))

    assert Flow(problem).peak(range(1, 2), 1, 2) == 8 * 6
    assert Flow(free).peak(range(1, 2), 1, 2) == 8 * 3


def test_a_group_of_a_long_chain_does_not_run_out_of_stack():
    count = 3000
    tensors = [TensorSpec(f"t{i}", 2, 4) for i in range(count + 1)]
    ops = [OpSpec(f"op{i}", (same(f"t{i}", 2),), f"t{i + 1}") for i in range(count)]
    flow = Flow(Problem(tuple(tensors), tuple(ops), ("t0",), (f"t{count}",)))

    assert flow.peak(range(count), 0, count) == 12  # a row that waits, and one on its way
    assert len(flow.events(range(count), 0, count)) == 2 * count


def _walk(seeds: int, *flags: str) -> subprocess.CompletedProcess[str]:
    """This file as a program below: the same comparison, on C that was compiled with sanitizers."""
    environment = {
        **os.environ,
        "LD_PRELOAD": ASAN,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",  # so that the sanitizer sees the ends of cffi's arrays
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(Path(__file__)), str(seeds), *flags]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@needs_asan
def test_the_c_stays_within_its_arrays_and_within_defined_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = _walk(200)

    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 1000  # events


@needs_asan
def test_an_array_that_is_one_too_short_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = _walk(5, "--short")

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "flow.c" in done.stderr


def main(seeds: int, short: bool) -> None:
    optional = "_FLAGS"  # the sanitizers that cbuild leaves out
    flags = [flag for flag in cbuild._FLAGS if flag not in ("-fno-sanitize=all", "-O3")]
    setattr(cbuild, optional, (*flags, "-O1", "-g", *SANITIZERS))
    if short:
        for flow in (Flow(random_problem(Random(seed), 9)) for seed in range(seeds)):
            memory = flow._native._memory_keep
            memory[3] = flow._native._library.ffi.new("int32_t[]", len(memory[3]) - 1)
            flow._native._memory.pending = memory[3]
            flow.peak(range(flow.count), 0, flow.count)
    print(sum(compared(random_problem(Random(seed), 9, 2), Random(seed)) for seed in range(seeds)))


if __name__ == "__main__":
    main(int(sys.argv[1]), "--short" in sys.argv)
