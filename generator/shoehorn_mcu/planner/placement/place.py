"""Addresses of bundles of pieces, each piece with its own live range, so that none overlap while alive.

The pieces of a bundle have fixed distances: one row with its own address, a tensor with contiguous rows (each row has
its own live range, so later pieces may reuse its bytes), or the scratch of an op (several live ranges at one address).
Three methods try for the wanted height, in turn. First fit: each bundle at the lowest free address; those that end too
high move forward in the order (squeaky wheel optimisation, Joslin and Clements, JAIR 1999). A beam search over time,
from an end or from the peak outwards. The exact search of allocate, with one bundle at the top and boxes below it.
Where none reaches that height, the beam search bisects above it. Seeds and effort are fixed, so equal bundles get equal
addresses.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from itertools import count, islice, pairwise, product
from operator import itemgetter

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.planner.effort import PLACE
from shoehorn_mcu.planner.placement.allocate import Buffer, Problem, Status, allocate
from shoehorn_mcu.planner.placement.bundles import Bundle, Piece, Profile, load, profile
from shoehorn_mcu.planner.placement.sweep import MOST_HEIGHT, Front, Start, Sweep, SweepSettings
from shoehorn_mcu.planner.problem import ALIGNMENT, NEVER, aligned

_REMEMBERED = 16  # placements

Placement = tuple[int, dict[Hashable, int]]
"""The height and the base of each bundle, by name."""


def _keys(bundles: Sequence[Bundle], crowd: Profile) -> Iterator[list[tuple[int, ...]]]:
    """Orders for first fit: a key per bundle, the smallest first. `crowd`: their profile."""
    yield [(-b.bytes, b.first) for b in bundles]
    yield [(b.first, -b.bytes) for b in bundles]
    yield [(-max(crowd.most(p.first, p.last) for p in b.pieces), -b.bytes, b.first) for b in bundles]
    yield [(-b.bytes * (b.last - b.first + 1), b.first) for b in bundles]


def _settings(widths: Sequence[int] = PLACE.NARROW) -> Iterator[SweepSettings]:
    """How the sweep is run, one after the other without end; always the same ones.

    Runs that begin at the fullest moment end soon where they fail, so there are more of them. Wide beams have noise:
    where one without it fails, the others without it mostly fail at the same bundle.
    """
    ends = (Start.FIRST, Start.LAST)
    for width in widths:
        yield from (SweepSettings(width, start, power) for start, power in product(ends, PLACE.POWERS))
        yield from (SweepSettings(width, Start.FULLEST, power, front) for front, power in product(Front, PLACE.STEEP))
    for seed in count():
        width = PLACE.WIDE[seed % len(PLACE.WIDE)]
        for noise in PLACE.NOISES:
            rest = product(Front, PLACE.STEEP)
            yield from (SweepSettings(width, Start.FULLEST, power, front, noise, seed) for front, power in rest)
        power = PLACE.POWERS[seed % len(PLACE.POWERS)]
        yield from (
            SweepSettings(width, start, power, noise=PLACE.NOISES[seed % len(PLACE.NOISES)], seed=seed)
            for start in ends
        )


def _placement(bundles: Sequence[Bundle], bases: Mapping[Hashable, int]) -> Placement:
    return max((bases[b.name] + b.bytes for b in bundles), default=0), dict(bases)


class _Tries:
    """A sweep of these bundles, run with one setting after the other."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self._bundles = bundles
        self._sinking = sum(bundle.sinks for bundle in bundles)  # first in the orders of first fit
        self._sweep = Sweep(bundles, ALIGNMENT)
        self._crowd = profile(bundles)
        self.load = max(self._crowd.alive)
        self._fitted: dict[tuple[int, int], Placement] = {}  # by the height wanted and the rounds

    @property
    def work(self) -> int:
        return self._sweep.work

    def fitted(self, wanted: int, pairs: int) -> Placement:
        """The best of some rounds of first fit, in which about so many pairs of pieces meet."""
        n = sum(len(bundle.pieces) for bundle in self._bundles)
        rounds = max(1, min(PLACE.FIT_ROUNDS, pairs // (n * n)))
        if (wanted, rounds) not in self._fitted:
            self._fitted[wanted, rounds] = self._best_fit(wanted, rounds)
        return self._fitted[wanted, rounds]

    def _best_fit(self, wanted: int, rounds: int) -> Placement:
        """The best of so many rounds for each first order."""
        best: tuple[int, list[int]] | None = None
        highest = [wanted - bundle.bytes for bundle in self._bundles]  # base of each
        for keys in _keys(self._bundles, self._crowd):
            ranks = [(not b.sinks, key, i) for i, (b, key) in enumerate(zip(self._bundles, keys, strict=True))]
            order = [i for _, _, i in sorted(ranks)]
            chance = random.Random(0)
            for _ in range(rounds):
                fitted = self._fit(order, wanted)
                best = min(best or fitted, fitted, key=itemgetter(0))
                if best[0] <= wanted:
                    return self._named(best[1])
                order = self._squeak(order, fitted[1], highest, chance)
        assert best is not None
        return self._named(best[1])

    def _fit(self, order: Sequence[int], wanted: int) -> tuple[int, list[int]]:
        """The height, and a base for each bundle."""
        first = self._bundles[order[0]]
        top = (wanted - first.bytes) // ALIGNMENT * ALIGNMENT if first.sinks else 0
        return self._sweep.fit(order, max(0, top))

    def _squeak(
        self, order: Sequence[int], bases: Sequence[int], highest: Sequence[int], chance: random.Random
    ) -> list[int]:
        """The order with the bundles that are above their highest bases moved towards the front."""
        ranks = [
            chance.uniform(0.3, 0.9) * place - 1 if bases[i] > highest[i] else place for place, i in enumerate(order)
        ]
        first, others = range(self._sinking), range(self._sinking, len(order))
        return [order[place] for places in (first, others) for place in sorted(places, key=ranks.__getitem__)]

    def _named(self, bases: Sequence[int]) -> Placement:
        return _placement(self._bundles, {b.name: at for b, at in zip(self._bundles, bases, strict=True)})

    def height_below(self, limit: int) -> int:
        """The highest height below `limit`: where all bundles are whole words, heights are."""
        whole = all(b.bytes % ALIGNMENT == 0 for b in self._bundles)
        return (limit - 1) // ALIGNMENT * ALIGNMENT if whole else limit - 1

    def at(self, height: int, settings_left: Iterator[SweepSettings], work: int) -> Placement | None:
        """A placement within `height`, from the first settings that give one; None when `work` or settings run out."""
        end = self._sweep.work + work
        while self._sweep.work < end and (settings := next(settings_left, None)) is not None:
            bases = self._sweep.run(height, settings, end - self._sweep.work)
            if bases is not None:
                return self._named(bases)
        return None


def _ceiling(bundle: Bundle) -> Iterator[Buffer]:
    """What a bundle at the top takes: from its lowest living byte to the top, over time."""
    pieces = sorted(bundle.pieces, key=lambda p: p.offset)
    top = aligned(bundle.bytes)
    changes = sorted({time for p in pieces for time in (p.first, p.last + 1)})
    for time, after in pairwise(changes):
        lowest = next((p.offset for p in pieces if p.first <= time <= p.last), None)
        if lowest is not None:
            yield Buffer(f"top from {time}", time, after, top - lowest // ALIGNMENT * ALIGNMENT)


def _exact(bundles: Sequence[Bundle], wanted: int) -> tuple[Placement | None, int]:
    """By exact search, one bundle at the top, the others as boxes: a placement, and the lower bound of their heights.

    (None, 0) where boxes alive at one time take more than `wanted`, or where there are too many of them.
    """
    sinking = next((b for b in bundles if b.sinks and len(b.pieces) > 1), None)
    boxes = [Buffer(str(i), b.first, b.last + 1, b.bytes) for i, b in enumerate(bundles) if b is not sinking]
    ceiling = tuple(_ceiling(sinking)) if sinking else ()
    height = aligned(wanted)
    if len(boxes) > PLACE.MOST_BOXES or Problem(tuple(boxes), None, ALIGNMENT, ceiling).peak.bytes > height:
        return None, 0
    result = allocate(boxes, height, alignment=ALIGNMENT, ceiling=ceiling, effort=PLACE.SEARCH)
    if result.status is Status.INFEASIBLE:
        result = allocate(boxes, alignment=ALIGNMENT, ceiling=ceiling, effort=PLACE.SEARCH)
    if result.height is None:
        return None, result.bound
    top = {} if sinking is None else {sinking.name: result.height - aligned(sinking.bytes)}
    bases = {b.name: result.offsets[str(i)] for i, b in enumerate(bundles) if b is not sinking}
    return _placement(bundles, {**bases, **top}), result.bound


def _pinned(bundles: Sequence[Bundle], wanted: int) -> Placement | None:
    """By sweeps with an input in the middle, so that another bundle's row fits behind the last row of it that is read.

    Some inputs end with rows that no op reads; those bytes are free, and more useful where free bytes follow.
    """
    input_ = next((b for b in bundles if b.sinks and len(b.pieces) > 1), None)
    if input_ is None:
        return None
    living = max((p.offset + p.bytes for p in input_.pieces if p.last > input_.first), default=0)
    if living == input_.bytes:
        return None
    for size in sorted({b.bytes for b in bundles if b is not input_}, reverse=True):
        base = (wanted - size - living) // ALIGNMENT * ALIGNMENT
        if 0 <= base <= wanted - input_.bytes:
            placement = _Tries([_held(b, base, wanted) if b is input_ else b for b in bundles]).at(
                wanted, islice(_settings(), PLACE.PINNED_RUNS), PLACE.FIRST_WORK
            )
            if placement is not None:
                return _placement(bundles, {**placement[1], input_.name: base})
    return None


def _held(bundle: Bundle, base: int, height: int) -> Bundle:
    """The bundle with all else of `height` bytes, at its birth, so that there is one place for it: `base`."""
    moved = [replace(p, offset=p.offset + base) for p in bundle.pieces]
    rest = ((0, base), (base + bundle.bytes, height))
    first = bundle.first
    moved += [Piece(start, end - start, first, first) for start, end in rest if start < end]
    return Bundle(bundle.name, tuple(moved), bundle.sinks)


def _lower(tries: _Tries, wanted: int, best: Placement, work: int, below: int) -> Placement:
    """The lowest placement from `wanted` to `below` that bisecting finds with so much work, or `best`."""
    low = wanted
    while min(best[0], below) - low > ALIGNMENT and work > 0:
        height = (low + min(best[0], below)) // 2
        before = tries.work
        placement = tries.at(height, islice(_settings(PLACE.NARROW[1:]), PLACE.LOWERING_TRIES), work)
        work -= tries.work - before
        low = low if placement else height
        best = placement or best
    last = tries.height_below(below)
    if best[0] > last > low:  # less than a word remains
        best = tries.at(last, islice(_settings(PLACE.NARROW[1:]), PLACE.LOWERING_TRIES), work) or best
    return best


class Effort(Enum):
    """How long the search for a placement may take."""

    FULL = "for one order: seconds in proportion to its rows"
    SOME = "where many orders are placed: some seconds at most"
    QUICK = "to compare with another plan: the height that first fit reaches, or about a quarter of a second"
    LEAST = (
        "for another form of a placed order, or where the height wanted is rarely reached: about a fifth of a second, "
        "of thousands of rows a whole one"
    )


def place(bundles: Sequence[Bundle], enough: int, effort: Effort = Effort.FULL, below: int = NEVER) -> Placement:
    """The lowest placement found, or any if none is below `below`; stops at `enough` bytes. Equal bundles get equal
    bases.

    ShoehornError: so many bytes are alive at one time that no board has them. HostError: there is no C compiler.
    """
    if not bundles:
        return 0, {}
    wanted = max(enough, load(bundles))
    if wanted > MOST_HEIGHT:
        raise ShoehornError(f"{wanted:,} bytes are alive at one time, which is more than {MOST_HEIGHT:,}")
    height, bases = _placed(tuple(bundles), wanted, effort, below)
    return height, dict(bases)


@lru_cache(_REMEMBERED)
def _tries(bundles: tuple[Bundle, ...]) -> _Tries:
    """The tries of these bundles, cached: the same ones are placed again with more effort, or below another arena."""
    return _Tries(bundles)


def first_fit(bundles: Sequence[Bundle]) -> int:
    """The height that first fit reaches."""
    tries = _tries(tuple(bundles))
    return tries.fitted(tries.load, 0)[0]


_PARTS = {Effort.LEAST: PLACE.LEAST_PART, Effort.QUICK: PLACE.QUICK_PART}
"""By effort: the part of the whole work that is done."""


def _first_work(full: bool, pieces: int, part: int) -> int:
    """The work of the first tries at the wanted height."""
    work = min(PLACE.FIRST_WORK, (PLACE.PIECE_WORK if full else PLACE.LESS_PIECE_WORK) * pieces)
    return work if full else max(work, PLACE.FIRST_WORK // part)


def _is_hollow(bundle: Bundle) -> bool:
    """Whether a bundle that does not sink is no box."""
    return not bundle.sinks and len({(piece.offset, piece.bytes) for piece in bundle.pieces}) > 1


@lru_cache(_REMEMBERED)
def _placed(bundles: tuple[Bundle, ...], wanted: int, effort: Effort, below: int) -> Placement:
    """As `place`, cached: plans with different groups may have equal orders of rows, and so equal bundles."""
    tries, settings_left = _tries(bundles), islice(_settings(), PLACE.RUNS)
    if tries.load >= below:
        return tries.fitted(wanted, 0)  # no placement is low enough
    part = _PARTS.get(effort, 1)
    best = tries.fitted(tries.load if effort is Effort.QUICK else wanted, PLACE.FIT_PAIRS // part)
    pieces = sum(len(bundle.pieces) for bundle in bundles)
    full = effort is Effort.FULL
    first = _first_work(full, pieces, part)
    if best[0] > wanted:
        best = tries.at(wanted, settings_left, first) or _pinned(bundles, wanted) or best
    hollow = full and any(map(_is_hollow, bundles))
    if best[0] > wanted and full and not hollow:  # else boxes take more than the bundles
        exact, least = _exact(bundles, wanted)
        best = exact if exact and exact[0] < best[0] else best
        wanted = max(wanted, least)  # a bundle that is no box may still get lower, but rarely does
    most = effort not in (Effort.LEAST, Effort.QUICK)
    if best[0] - wanted >= ALIGNMENT and most:  # a part of a word is hardly ever saved
        some = PLACE.FIRST_WORK if best[0] > wanted * PLACE.FAR else 0
        limit = PLACE.WORK // 2 if hollow else PLACE.WORK
        work = max(some, min(limit, PLACE.PAIR_WORK * pieces**2)) - first if full else PLACE.SOME_WORK
        best = tries.at(wanted, settings_left, work) or best
    lowering = min(PLACE.LOWERING_WORK, PLACE.PIECE_LOWERING_WORK * pieces) if full else PLACE.LOWERING_WORK // part
    return _lower(tries, wanted, best, lowering, below)


__all__ = ["Bundle", "Effort", "Piece", "Placement", "load", "place"]
