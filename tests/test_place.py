"""Addresses: nothing overlaps, heights against brute force, equal calls, and shapes that are no boxes."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.planner.placement import place as module
from shoehorn_mcu.planner.placement.bundles import Bundle, Piece, joined, load, profile
from shoehorn_mcu.planner.placement.place import Effort, place
from shoehorn_mcu.planner.placement.sweep import MOST_HEIGHT, Front, Start, Sweep, SweepSettings
from shoehorn_mcu.planner.placement.sweep.sweep import library as sweep_library
from shoehorn_mcu.planner.problem import ALIGNMENT


def overlaps(bundles: Sequence[Bundle], bases: dict[str, int]) -> list[str]:
    """Byte by byte and moment by moment: who takes what somebody else has."""
    owner: dict[tuple[int, int], str] = {}
    faults = []
    for bundle in bundles:
        for piece in bundle.pieces:
            start = bases[bundle.name] + piece.offset
            for byte, time in itertools.product(range(start, start + piece.bytes), range(piece.first, piece.last + 1)):
                if owner.setdefault((byte, time), bundle.name) != bundle.name:
                    faults.append(f"'{bundle.name}' and '{owner[byte, time]}' share byte {byte} at time {time}")
    return faults


def named(bundles: Sequence[Bundle], bases: Sequence[int]) -> dict[str, int]:
    return {b.name: at for b, at in zip(bundles, bases, strict=True)}


def sound(bundles: Sequence[Bundle], found: tuple[int, dict[str, int]]) -> bool:
    """Whether a placement holds every bundle at a place of its own, and is as high as it says."""
    height, bases = found
    assert overlaps(bundles, bases) == []
    assert sorted(bases) == sorted(b.name for b in bundles)
    assert all(base >= 0 and base % ALIGNMENT == 0 for base in bases.values())
    assert height == max((bases[b.name] + b.bytes for b in bundles), default=0)
    return True


def least(bundles: Sequence[Bundle]) -> int:
    """The lowest height there is: every bundle at every base below the best height so far."""
    best = sum(-(-b.bytes // ALIGNMENT) * ALIGNMENT for b in bundles)

    def apart(one: tuple[Bundle, int], other: tuple[Bundle, int]) -> bool:
        pairs = itertools.product(one[0].pieces, other[0].pieces)
        return all(
            p.first > q.last
            or q.first > p.last
            or one[1] + p.offset >= other[1] + q.offset + q.bytes
            or other[1] + q.offset >= one[1] + p.offset + p.bytes
            for p, q in pairs
        )

    def down(placed: list[tuple[Bundle, int]], height: int) -> None:
        nonlocal best
        if len(placed) == len(bundles):
            best = min(best, height)
            return
        bundle = bundles[len(placed)]
        for base in range(0, best - bundle.bytes, ALIGNMENT):
            if all(apart((bundle, base), other) for other in placed):
                down([*placed, (bundle, base)], max(height, base + bundle.bytes))

    down([], 0)
    return best


@st.composite
def bundles_of(draw: st.DrawFn, most: int) -> tuple[Bundle, ...]:
    """Rows, stacks of rows that die one by one or come one by one, and working memory alive now and then."""
    times = st.integers(-1, 5)
    found = []
    for i in range(draw(st.integers(1, most))):
        count = draw(st.sampled_from((1, 1, 2, 3)))
        size = draw(st.integers(1, 9))
        lives = [sorted(draw(st.tuples(times, times))) for _ in range(count)]
        pieces = tuple(Piece(y * size, size, *life) for y, life in enumerate(lives))
        if draw(st.booleans()):  # the same bytes again and again
            pieces = tuple(Piece(0, size, t, t) for t in sorted({life[0] for life in lives}))
        found.append(Bundle(f"b{i}", pieces, sinks=i == 0 and draw(st.booleans())))
    return tuple(found)


@given(bundles_of(9))
@settings(max_examples=80, deadline=None)
def test_nothing_overlaps_and_no_height_is_below_the_load(bundles: tuple[Bundle, ...]):
    with pytest.MonkeyPatch.context() as patch:
        few_tries(patch)
        found = place(bundles, 0)

    assert sound(bundles, found)
    assert found[0] >= load(bundles)


@given(bundles_of(3))
@settings(max_examples=60, deadline=None)
def test_small_cases_get_the_least_height(bundles: tuple[Bundle, ...]):
    with pytest.MonkeyPatch.context() as patch:
        few_tries(patch)

        assert place(bundles, 0)[0] < least(bundles) + ALIGNMENT


@given(bundles_of(4), st.sampled_from(Effort))
@settings(max_examples=120, deadline=None)
def test_a_limit_one_byte_above_a_placement_does_not_hide_it(bundles: tuple[Bundle, ...], effort: Effort):
    height, _ = place(bundles, 0, effort)

    assert place(bundles, 0, effort, below=height + 1)[0] <= height


def forget() -> None:
    module._placed.cache_clear()
    module._tries.cache_clear()


def few_tries(patch: pytest.MonkeyPatch) -> None:
    forget()
    patch.setattr(module.PLACE, "FIT_ROUNDS", 5)
    for name, few in (("RUNS", 90), ("WORK", 20_000), ("LOWERING_WORK", 20_000), ("SEARCH", 0.02)):
        patch.setattr(module.PLACE, name, few)


def conveyor(rows: int, sizes: Sequence[int], alive: int) -> list[Bundle]:
    """Rows of several sizes by turns, each of which dies some rows later."""
    return [
        Bundle(f"{y} {i}", (Piece(0, size, y * len(sizes) + i, (y + alive) * len(sizes) + i - 1),))
        for y in range(rows)
        for i, size in enumerate(sizes)
    ]


def test_equal_calls_give_equal_places():
    bundles = conveyor(30, (20, 28, 44, 12), 3)
    first = place(bundles, 0)
    forget()

    assert first == place(list(bundles), 0)


def test_what_was_placed_before_is_not_searched_for_again(monkeypatch: pytest.MonkeyPatch):
    bundles = conveyor(30, (20, 28, 44, 16), 3)
    first = place(bundles, 0)
    expected = dict(first[1])
    first[1].clear()
    monkeypatch.setattr(module, "_Tries", None)

    assert place(list(bundles), 0)[1] == expected


def test_rows_on_their_way_through_several_ops_take_no_more_than_are_alive():
    bundles = conveyor(60, (96, 40, 160, 64), 3)

    assert place(bundles, 0)[0] == load(bundles)


def test_rows_move_in_behind_an_input_that_is_used_up():
    rows = [Piece(48 * y, 48, -1, y) for y in range(20)]
    outputs = [Bundle(f"out {y}", (Piece(0, 48, y + 1, 20),)) for y in range(20)]
    bundles = [Bundle("input", tuple(rows), sinks=True), *outputs]
    height, bases = place(bundles, 0)

    assert sound(bundles, (height, bases))
    assert height == load(bundles) == 20 * 48


def test_an_output_grows_into_what_dies_before_it():
    rows = [Piece(16 * y, 16, y + 1, 12) for y in range(10)]
    before = [Bundle(f"in {y}", (Piece(0, 16, -1, y),)) for y in range(10)]
    bundles = [Bundle("output", tuple(rows)), *before]
    found = place(bundles, 0)

    assert sound(bundles, found)
    assert found[0] == load(bundles) == 160


def test_an_input_whose_last_rows_nobody_reads_may_lie_in_the_middle():
    rows = [Piece(20 * y, 20, -1, y if y < 9 else -1) for y in range(10)]
    bundles = [
        Bundle("input", tuple(rows), sinks=True),
        Bundle("a", (Piece(0, 60, 0, 9),)),  # 20 bytes behind the rows that live, and 40 beside them
        Bundle("b", (Piece(0, 20, 0, 0),)),
    ]
    found = module._pinned(bundles, load(bundles))

    assert found is not None
    assert sound(bundles, found)
    assert (found[0], found[1]["input"]) == (load(bundles), 20)


def test_enough_is_enough():
    bundles = conveyor(20, (20, 28, 44), 3)
    whole = sum(-(-b.bytes // ALIGNMENT) * ALIGNMENT for b in bundles)
    height, bases = place(bundles, whole)

    assert sound(bundles, (height, bases))
    assert height <= whole


def test_nothing_takes_nothing():
    assert place([], 0) == (0, {})


def test_more_bytes_than_any_board_has_are_refused():
    bundles = [Bundle(f"b{i}", (Piece(0, MOST_HEIGHT, 0, 0),)) for i in range(2)]
    with pytest.raises(ShoehornError, match="alive at one time"):
        place(bundles, 0)


@pytest.mark.parametrize("front", Front)
@pytest.mark.parametrize("start", Start)
def test_a_sweep_finds_room_from_wherever_it_starts(start: Start, front: Front):
    bundles = conveyor(40, (20, 28, 44, 12), 3)
    bases = Sweep(bundles, ALIGNMENT).run(2 * load(bundles), SweepSettings(20, start, 1, front), 10**9)

    assert bases is not None
    assert overlaps(bundles, named(bundles, bases)) == []


@given(bundles_of(9), st.sampled_from(Start), st.sampled_from(Front), st.sampled_from((0, 8, 200)))
@settings(max_examples=80, deadline=None)
def test_a_sweep_keeps_bundles_apart_and_below_its_height(
    bundles: tuple[Bundle, ...], start: Start, front: Front, power: int
):
    height = load(bundles) + 8
    bases = Sweep(bundles, ALIGNMENT).run(height, SweepSettings(8, start, power, front, 0.1), 10**9)
    if bases is not None:
        found = named(bundles, bases)

        assert sound(bundles, (max(found[b.name] + b.bytes for b in bundles), found))
        assert all(base + b.bytes <= height for b, base in zip(bundles, bases, strict=True))


def full_once(seed: int) -> list[Bundle]:
    """Rows that take all of 960 bytes at time 50, and less and less before and after it."""
    chance = random.Random(seed)
    sizes = [chance.choice((16, 24, 40, 64)) for _ in range(24)]
    sizes[-1] += 960 - sum(sizes)
    there = [(size, 50 - chance.randrange(30), 50 + chance.randrange(30)) for size in sizes]
    around = [(size, 90, 95) for size in sizes[:8]] + [(size, 5, 10) for size in sizes[8:16]]
    return [Bundle(str(i), (Piece(0, *row),)) for i, row in enumerate([*there, *around])]


@pytest.mark.parametrize("seed", range(5))
def test_what_fills_the_arena_at_one_moment_fits_when_that_comes_first(seed: int):
    bundles = full_once(seed)
    sweep = Sweep(bundles, ALIGNMENT)

    assert sweep.run(960, SweepSettings(32, Start.FULLEST, 8), 10**9) is not None
    assert sweep.run(956, SweepSettings(32, Start.FULLEST, 8), 10**9) is None


def test_a_sweep_ends_with_its_work_and_below_the_load():
    bundles = conveyor(40, (20, 28, 44, 12), 3)
    sweep = Sweep(bundles, ALIGNMENT)

    assert sweep.run(2 * load(bundles), SweepSettings(20, Start.FIRST, 1), 100) is None
    assert 100 <= sweep.work < 10_000
    assert sweep.run(load(bundles) - 1, SweepSettings(20, Start.FIRST, 1), 10**9) is None


@given(bundles_of(6), st.integers(1, 2000), st.integers(1, 2000), st.integers(0, 8))
@settings(max_examples=80, deadline=None)
def test_a_run_that_is_known_gives_what_it_gives_anew(bundles: tuple[Bundle, ...], before: int, work: int, more: int):
    def run(sweep: Sweep, work: int) -> tuple[list[int] | None, int]:
        start = sweep.work
        bases = sweep.run(load(bundles) + more, SweepSettings(4, Start.FULLEST, 8), work)
        return bases, sweep.work - start

    again = Sweep(bundles, ALIGNMENT)
    run(again, before)

    assert run(again, work) == run(Sweep(bundles, ALIGNMENT), work)


@given(bundles_of(5), st.sampled_from(Effort), st.sampled_from(Effort))
@settings(max_examples=60, deadline=None)
def test_what_was_tried_before_changes_no_placement(bundles: tuple[Bundle, ...], before: Effort, effort: Effort):
    forget()
    expected = place(bundles, 0, effort)
    forget()
    place(bundles, 0, before)

    assert place(bundles, 0, effort) == expected


def test_ctrl_c_ends_a_sweep_before_it_has_placed_all():
    bundles = conveyor(1200, (20, 28, 44, 12), 30)
    sweep, library = Sweep(bundles, ALIGNMENT), sweep_library().lib
    placed: list[int] = []

    def interrupted(*arguments: object) -> int:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        placed.append(library.sh_sweep(*arguments))
        return placed[0]

    sweep._lib = SimpleNamespace(sh_sweep=interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(2 * load(bundles), SweepSettings(1500, Start.FIRST, 1), 10**12)  # tens of seconds

    assert 0 <= placed[0] < len(bundles)


def test_pieces_that_follow_each_other_at_one_place_are_one():
    pieces = (Piece(0, 8, 5, 6), Piece(0, 8, 0, 4), Piece(0, 8, 9, 9), Piece(8, 8, 7, 8), Piece(0, 4, 7, 7))

    assert joined(pieces) == (Piece(0, 4, 7, 7), Piece(0, 8, 0, 6), Piece(0, 8, 9, 9), Piece(8, 8, 7, 8))


def test_the_profile_says_what_is_alive_when():
    found = profile([Bundle("a", (Piece(0, 8, 0, 3), Piece(8, 4, 2, 5))), Bundle("b", (Piece(0, 16, 3, 3),))])

    assert [found.at(time) for time in range(-1, 7)] == [0, 8, 8, 12, 28, 4, 4, 0]
