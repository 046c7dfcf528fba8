"""Static allocation: against exhaustive search, CP-SAT, the independent check, and minimalloc's instances."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model
from shared import DATA, needs_shared

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.cli.group import main
from shoehorn_mcu.planner.placement.allocate import Buffer, Problem, Status, allocate, check, csv_file, native, solve

MINIMALLOC = DATA / "planning" / "minimalloc"
CAPACITY = 1048576

# The load is 8 at every time, but nothing below 9 exists.
GAP = tuple(
    Buffer(f"b{i}", *row)
    for i, row in enumerate(
        [
            *[(0, 1, 5), (1, 2, 2), (1, 3, 2), (2, 3, 1), (0, 3, 3), (3, 4, 4)],
            *[(1, 4, 1), (2, 5, 1), (4, 5, 5), (3, 6, 2), (5, 6, 5)],
        ]
    )
)


@pytest.mark.parametrize(("lowest", "last"), [(False, 12), (True, 0)])
def test_buffers_are_placed_into_the_tightest_gap_or_into_the_lowest(lowest: bool, last: int) -> None:
    """The gap at 0 has 4 units, the one at 12 has 2; each of the others is in use at two of three moments."""
    lower, upper, size = (0, 0, 0, 0, 1, 2), (1, 3, 1, 3, 2, 3), (4, 8, 2, 3, 4, 2)
    found = native.Native(native.Sections(lower, upper, size, (0, 0, 0))).greedy((0, 1, 2, 3, 4, 5), lowest)

    assert found == (0, 4, 12, 14, 0, last)


@st.composite
def tiny(draw: Any, most: int = 6) -> tuple[Buffer, ...]:
    """A few buffers of any kind, empty ones among them."""
    found = []
    for i in range(draw(st.integers(1, most))):
        lower = draw(st.integers(-2, 6))
        found.append(Buffer(f"b{i}", lower, lower + draw(st.integers(1, 5)), draw(st.integers(0, 7))))
    return tuple(found)


def full(seed: int, load: int, times: int, pieces: int = 3) -> tuple[Buffer, ...]:
    """Buffers that take `load` units at every time: each that ends is cut anew together with others."""
    chance = random.Random(seed)

    def cut(size: int) -> list[int]:
        places = sorted(chance.sample(range(1, size), min(size - 1, chance.randrange(pieces)))) if size > 1 else []
        return [b - a for a, b in itertools.pairwise([0, *places, size])]

    rows: list[tuple[int, int, int]] = []
    alive = [(0, size) for size in cut(load)]
    for time in range(1, times):
        chance.shuffle(alive)
        ended = [alive.pop() for _ in range(min(len(alive), chance.randint(1, 3)))]
        rows += [(lower, time, size) for lower, size in ended]
        alive += [(time, size) for size in cut(sum(size for _, size in ended))]
    rows += [(lower, times, size) for lower, size in alive]
    return tuple(Buffer(f"b{i}", *row) for i, row in enumerate(rows))


def least_height(buffers: Sequence[Buffer]) -> int:
    """The optimum, by every order in which buffers can be put at their lowest place."""
    best = sum(b.size for b in buffers)
    for order in itertools.permutations(buffers):
        placed: list[tuple[Buffer, int]] = []
        height = 0
        for b in order:
            at = 0
            for low, high in sorted((o, o + c.size) for c, o in placed if c.lower < b.upper and b.lower < c.upper):
                if low - at >= b.size:
                    break
                at = max(at, high)
            placed.append((b, at))
            height = max(height, at + b.size)
        best = min(best, height)
    return best


def least_height_by_cp_sat(buffers: Sequence[Buffer], at_most: int) -> int:
    """The optimum, by a model that knows nothing of ours."""
    model = cp_model.CpModel()
    height = model.new_int_var(0, at_most, "height")
    across, along = [], []
    for b in buffers:
        offset = model.new_int_var(0, at_most - b.size, b.id)
        across.append(model.new_fixed_size_interval_var(b.lower, b.upper - b.lower, b.id))
        along.append(model.new_fixed_size_interval_var(offset, b.size, b.id))
        model.add(height >= offset + b.size)
    model.add_no_overlap_2d(across, along)
    model.minimize(height)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


@settings(max_examples=150, deadline=None)
@given(tiny())
def test_small_problems_get_the_least_height_and_its_proof(buffers: tuple[Buffer, ...]):
    result = allocate(buffers)

    assert check(Problem(buffers), result.offsets) == []
    assert (result.status, result.height, result.bound) == (Status.OPTIMAL, *2 * (least_height(buffers),))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 10), st.integers(4, 8))
def test_full_problems_get_the_height_that_cp_sat_proves(seed: int, load: int, times: int):
    buffers = full(seed, load, times)
    result = allocate(buffers)

    assert check(Problem(buffers), result.offsets) == []
    assert result.status is Status.OPTIMAL
    assert result.height == least_height_by_cp_sat(buffers, result.height)


def test_a_height_above_the_load_bound_is_proven_by_search():
    result = allocate(GAP)

    assert Problem(GAP).peak.bytes == 8
    assert (result.status, result.height, result.bound) == (Status.OPTIMAL, 9, 9)
    assert result.nodes > 0
    assert least_height_by_cp_sat(GAP, 12) == 9


def test_a_capacity_is_kept_or_proven_too_small():
    found, tight = allocate(GAP, 10), allocate(GAP, 8)

    assert found.height is not None and found.height <= 10
    assert (tight.status, tight.height, tight.bound, dict(tight.offsets)) == (Status.INFEASIBLE, None, 9, {})
    assert allocate(GAP, 7).status is Status.INFEASIBLE
    assert allocate(GAP, 7).nodes == 0


@settings(max_examples=80, deadline=None)
@given(tiny(), st.integers(1, 16))
def test_offsets_keep_the_alignment(buffers: tuple[Buffer, ...], alignment: int):
    result = allocate(buffers, alignment=alignment)
    rounded = [Buffer(b.id, b.lower, b.upper, -(-b.size // alignment)) for b in buffers]

    assert check(Problem(buffers, alignment=alignment), result.offsets) == []
    assert result.height == least_height(rounded) * alignment


def test_equal_calls_give_equal_offsets_whatever_the_sizes_unit():
    buffers = full(5, 40, 30)
    large = [Buffer(b.id, b.lower * 7, b.upper * 7, b.size * 4096) for b in buffers]

    first, second, scaled = (allocate(b, effort=0.3) for b in (buffers, buffers, large))
    assert first.offsets == second.offsets
    assert {i: at * 4096 for i, at in first.offsets.items()} == scaled.offsets


def test_no_buffers_and_empty_buffers_take_nothing():
    assert (allocate([]).height, allocate([]).status) == (0, Status.OPTIMAL)
    assert allocate([Buffer("a", 0, 1, 0)], 0).offsets == {"a": 0}


def test_thousands_of_buffers_are_placed_without_a_search():
    chance = random.Random(3)
    buffers = []
    for i in range(solve.ALLOCATE.MOST_SEARCHED + 500):
        lower = chance.randrange(4000)
        buffers.append(Buffer(str(i), lower, lower + chance.randint(1, 60), 16 * chance.randint(1, 200)))
    result = allocate(buffers)

    assert check(Problem(tuple(buffers)), result.offsets) == []
    assert result.height is not None
    assert result.bound <= result.height <= 1.3 * result.bound
    assert result.nodes == 0


def test_hopeless_effort_still_gives_the_best_so_far():
    buffers = full(8, 400, 200, 6)
    result = allocate(buffers, effort=0.0)

    assert result.status is Status.FEASIBLE
    assert check(Problem(buffers), result.offsets) == []
    assert allocate(buffers, Problem(buffers).peak.bytes, effort=0.0).status is Status.UNKNOWN


def test_the_clock_is_the_last_stop(monkeypatch: pytest.MonkeyPatch):
    """By a clock on which each search takes a second."""
    searches, search = 0, native.Native.search

    def counted(*arguments: Any) -> native.SearchResult:
        nonlocal searches
        searches += 1
        assert searches <= 3, "a search was begun when the time was over"
        assert arguments[-1] == 3.0
        return search(*arguments[:-1], deadline=inf)

    monkeypatch.setattr(solve, "perf_counter", lambda: float(searches))
    monkeypatch.setattr(native.Native, "search", counted)
    result = allocate(full(8, 4000, 300, 6), effort=1e6, seconds=3.0)

    assert (result.status, result.seconds, searches) == (Status.FEASIBLE, 3.0, 3)


def test_a_search_ends_when_its_time_is_over():
    buffers, work = full(8, 4000, 300, 6), 20 * solve.ALLOCATE.WORK_PER_SECOND
    columns = zip(*[(b.lower, b.upper, b.size) for b in buffers], strict=True)
    tries = native.Native(native.Sections(*columns, [0] * 300))
    weights = native.BranchWeights(1, 1, 1)
    found = tries.search(4000, range(len(buffers)), weights, nodes=2**62, work=work, deadline=0.0)

    assert found.ending is native.Ending.LIMIT
    assert found.work < work


def test_ctrl_c_gives_the_best_so_far():
    words = "r = allocate(full(8, 4000, 300, 6), effort=1e6); print(r.status, r.height > 0)"
    running = subprocess.Popen(
        [sys.executable, "-c", f"from test_allocate import *; print('ready', flush=True); {words}"],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert running.stdout is not None
    running.stdout.readline()
    timer = threading.Timer(1.5, running.send_signal, [signal.SIGINT])
    timer.start()
    try:
        said, faults = running.communicate(timeout=60)
    finally:
        timer.cancel()
        running.kill()

    assert said == "Status.FEASIBLE True\n", faults


def test_ctrl_c_before_there_is_anything_is_not_swallowed(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(native.Native, "greedy", interrupted)

    with pytest.raises(KeyboardInterrupt):
        allocate(GAP)


# --- The check


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda at: {**at, "b5": at["b5"] - 1}, "share bytes|leave the capacity"),
        (lambda at: {**at, "b0": at["b4"]}, "'b0' and 'b4' share bytes"),
        (lambda at: {**at, "b8": 9}, "leave the capacity of 9"),
        (lambda at: {**at, "b2": -1}, "leave the capacity"),
        (lambda at: {i: o for i, o in at.items() if i != "b3"}, "'b3' has no place"),
        (lambda at: {**at, "x": 0}, "'x' is not in the problem"),
    ],
)
def test_a_harmed_placement_is_caught(harm: Callable[[dict[str, int]], dict[str, int]], said: str):
    problem = Problem(GAP, 9)
    offsets = dict(allocate(GAP, 9).offsets)
    assert check(problem, offsets) == []

    with pytest.raises(AssertionError, match=said):
        assert check(problem, harm(offsets)) == []


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_every_move_in_a_full_placement_is_caught(seed: int, moved: int):
    buffers = full(seed, 8, 6)
    result = allocate(buffers)
    if result.height != 8:
        return
    chance = random.Random(moved)
    b = chance.choice(buffers)
    elsewhere = [at for at in range(9) if at != result.offsets[b.id]]

    assert check(Problem(buffers, 8), {**result.offsets, b.id: chance.choice(elsewhere)})


def test_the_check_wants_the_alignment():
    problem = Problem((Buffer("a", 0, 1, 3), Buffer("b", 0, 1, 4)), alignment=4)

    assert check(problem, {"a": 0, "b": 3}) == ["buffer 'b': offset 3 is not a multiple of 4"]
    assert check(problem, {"a": 0, "b": 4}) == []


# --- Bad input


@pytest.mark.parametrize(
    ("buffers", "said"),
    [
        ([("a", 0, 1, 1), ("a", 2, 3, 1)], "'a' is there twice"),
        ([("a", 3, 3, 1)], "lower 3 is not below upper 3"),
        ([("a", 0, 1, -1)], "size -1 is not in 0..2147483647"),
        ([("a", 0, 1, 2**31)], "size 2147483648 is not in"),
        ([("a", 0, 1, 2**31 - 1), ("b", 0, 1, 2**30 + 1)], "in units of 1 .* round the sizes up to multiples of 13"),
    ],
)
def test_unsound_buffers_are_refused(buffers: list[tuple[str, int, int, int]], said: str):
    with pytest.raises(ShoehornError, match=said):
        allocate([Buffer(*row) for row in buffers])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"alignment": 0}, "an alignment of 0 bytes is none; 1 or more"),
        ({"capacity": -1}, "a capacity of -1 bytes is none; 0 or more"),
        ({"ceiling": (Buffer("c", 0, 3, 1), Buffer("d", 2, 4, 1))}, "ceilings 'c' and 'd' are there at one time"),
    ],
)
def test_unsound_spaces_are_refused(fields: dict[str, Any], said: str):
    with pytest.raises(ShoehornError, match=said):
        Problem((Buffer("a", 0, 1, 1),), **fields)


def test_loads_beyond_32_bits_are_placed_where_the_sizes_share_a_divisor():
    buffers = [Buffer(str(i), i % 3, i % 3 + 2, 2**30 + 2**20 * i) for i in range(12)]
    result = allocate(buffers)

    assert check(Problem(tuple(buffers)), result.offsets) == []
    assert result.height == result.bound > 2**32


def gen(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["pack", str(path), *words])


def csv_of(folder: Path, buffers: Sequence[Buffer]) -> Path:
    path = folder / "buffers.csv"
    rows = [f"{b.id},{b.lower},{b.upper},{b.size}" for b in buffers]
    path.write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1: columns id, lower, upper, size missing"),
        (b"id,lower,upper\na,0,1\n", "line 1: column size missing"),
        (b"id,lower,upper,size,gaps\na,0,1,1,\n", "column 'gaps' is not one of"),
        (b"id,lower,upper,size,size\na,0,1,1,1\n", "column 'size' is not one of .* once each"),
        (b"id,lower,upper,size\n\na,0,1\n", "line 3: 3 fields, but line 1 names 4 columns"),
        (b"id,lower,upper,size\na,0,1,4.5\n", "line 2: size '4.5' is not a whole number"),
        (b"id,lower,upper,size\na,zero,1,4\n", "line 2: lower 'zero' is not a whole number"),
        (b"id,lower,upper,size\na,0,1," + b"9" * 5000 + b"\n", "size '9{40}' is not a whole number of up to 19"),
        (b"id,lower,upper,size\n,0,1,4\n", "line 2: the id is empty"),
        (b"id,lower,upper,size\na,0,1,-4\n", "buffer 'a': size -4 is not in"),
        (b"id,lower,upper,size\na,2,1,4\n", "buffer 'a': lower 2 is not below upper 1"),
        (b"id,lower,upper,size\na,0,1,4\na,0,1,4\n", "buffer 'a' is there twice"),
        (b'id,lower,upper,size\n"a,0,1,4\n', "not a CSV"),
        (b"\xff\xfe\x00", "not a text file in UTF-8"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(content: bytes, said: str, tmp_path: Path):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    result = gen(path, "--capacity", "100")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    with pytest.raises(ShoehornError, match=said):
        raise ShoehornError(result.stderr)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    assert gen(tmp_path / "none.csv").stderr == f"gen: {tmp_path / 'none.csv'}: No such file or directory\n"
    assert gen(tmp_path).stderr == f"gen: {tmp_path}: Is a directory\n"


def test_json_gives_an_offset_for_every_id(tmp_path: Path):
    said = json.loads(gen(csv_of(tmp_path, GAP), "--capacity", "9", "--json").stdout)

    assert list(said) == ["status", "seconds", "capacity", "height", "offsets"]
    assert (said["status"], said["capacity"], said["height"]) == ("optimal", 9, 9)
    assert check(Problem(GAP, 9), said["offsets"]) == []


def test_a_capacity_below_the_load_names_the_time_and_the_buffers(tmp_path: Path):
    path = csv_of(tmp_path, [Buffer("a", 0, 5, 6), Buffer("b", 3, 9, 5), Buffer("c", 7, 9, 1)])
    result = gen(path, "--capacity", "10")

    assert result.exit_code == 1
    assert result.stderr == (
        f"gen: {path}: needs at least 11 bytes, --capacity gives 10: "
        "2 buffers hold 11 bytes at times 3 to 5 ('a', 'b')\n"
    )


def test_what_is_proven_impossible_says_so_in_json_too(tmp_path: Path):
    result = gen(csv_of(tmp_path, GAP), "--capacity", "8", "--json")
    said = json.loads(result.stdout)

    assert result.exit_code == 1
    assert (said["status"], said["height"], said["offsets"]) == ("infeasible", None, {})
    assert "needs at least 9 bytes, proven by search" in result.stderr


def test_without_a_capacity_the_least_height_is_given(tmp_path: Path):
    result = gen(csv_of(tmp_path, GAP))

    assert result.exit_code == 0
    assert "height 9 bytes (proven lowest) for 11 buffers" in result.stdout


def test_ids_may_hold_anything(tmp_path: Path):
    ids = ["[/x]", "[red]r", ":smile:", "a\0b", "é"]
    result = gen(csv_of(tmp_path, [Buffer(name, 0, 1, 4) for name in ids]))

    assert result.exit_code == 0
    assert [name for name in ids if name not in result.stdout] == []


@pytest.mark.parametrize(
    "words",
    [
        ["pack"],
        ["pack", "x.csv", "--capacity", "-1"],
        ["plan", "--capacity", "5", "model.tflite"],
        ["plan", "--buffers", "x.csv", "model.tflite"],
        ["plan", "--buffers", "x.csv", "--graph", "x.json", "--budget", "4"],
        ["plan", "--buffers", "x.csv", "--budget", "4"],
        ["plan", "--buffers", "x.csv", "--pareto"],
    ],
)
def test_wrong_usage_exits_with_2(words: list[str]):
    assert CliRunner().invoke(main, words).exit_code == 2


# --- Published instances


def solved(name: str, capacity: int) -> None:
    path = MINIMALLOC / f"{name}.csv"
    buffers = csv_file.read(path)
    result = allocate(buffers, capacity)

    assert check(Problem(buffers, capacity), result.offsets) == []
    assert result.status is Status.OPTIMAL
    assert result.height == Problem(buffers).peak.bytes


@needs_shared
@pytest.mark.parametrize("name", ["A", "B", "C", "F", "G"])
def test_minimallocs_instances_are_solved_at_the_load_bound(name: str):
    solved(f"{name}.{CAPACITY}", CAPACITY)


@needs_shared
def test_minimallocs_example_is_solved():
    solved("input.12", 12)


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("name", ["E", "I", "K"])
def test_minimallocs_long_instances_are_solved_at_the_load_bound(name: str):
    solved(f"{name}.{CAPACITY}", CAPACITY)
