"""Which tensors of a sliding window keep rows, and which compute them again: from the least work to the fewest bytes.

Keeping the rows of a tensor saves what they are computed from; of a deep model with padding that is most of its memory.
A tensor may keep all rows, or those that are read again soon, or none; a pool over all rows may keep their sum instead.
Keeping less moves the need for rows to the tensors in front, so single tensors are tried, one after the other, and
groups of tensors that follow each other, with and without sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.passes.ends.shifted_rows import ALL, Less, Shifted, Step
from shoehorn_mcu.passes.ends.slide import Windows, windows

LEAST_GAIN = 1.5  # times fewer MACs: what a hint, or a pipeline of new rows, is worth
_LEAST_ROWS = 8  # of what may be a window
MOST = 14  # choices that are worth a plan
_COMBINED = 6  # tensors of which all combinations of ways to keep rows are tried
_ENDS = 10  # tensors at which a group may begin or end: those that keep most


@dataclass(frozen=True)
class Choice:
    """What keeps less than it can, and what a step then computes and keeps."""

    less: Less
    macs: int
    state_bytes: int

    def json(self) -> dict[str, int]:
        """A member of `choices` in reports."""
        return {"macs": self.macs, "state_bytes": self.state_bytes}


def choices(shifted: Shifted, most: int = MOST) -> Sequence[Choice]:
    """The choices of which no other takes less of both, those of least work first: at most so many.

    The first keeps all rows that can be kept.
    """
    keeping = _keeping(shifted, shifted.step())
    others = frozenset(shifted.origins) - {*keeping}  # which need not keep the rows that those behind them do not
    bases = [Less(others), *([Less(others, summed=frozenset(shifted.sums))] if shifted.sums else [])]
    tried = {less for base in bases for ways in (_one_by_one, _groups, _combined) for less in ways(shifted, base)}
    tried.add(ALL)
    ordered = sorted((_choice(shifted, less) for less in tried), key=_rank)
    best: list[Choice] = []
    for each in ordered:
        if not best or each.state_bytes < best[-1].state_bytes:
            best.append(each)
    return _spread(best, most)


def _choice(shifted: Shifted, less: Less) -> Choice:
    step = shifted.step(less)
    return Choice(less, step.macs, step.state_bytes)


def _rank(choice: Choice) -> tuple[object, ...]:
    """The least work first, of as much the fewest bytes, and of equal ones the one with the fewest exceptions."""
    less = choice.less
    named = (sorted(each) for each in (less.nothing, less.briefly, less.summed))
    return choice.macs, choice.state_bytes, less.tensors, *named


def _without(less: Less, *names: str) -> Less:
    return replace(less, nothing=less.nothing | {*names}, briefly=less.briefly - {*names})


def _briefly(less: Less, *names: str) -> Less:
    return replace(less, briefly=less.briefly | {*names} - less.nothing)


def _keeping(shifted: Shifted, step: Step) -> list[str]:
    """The tensors that keep rows, but for the inputs, which nothing can compute again."""
    inputs = shifted.graph.inputs
    return [name for name in shifted.nodes if name not in inputs and name in step.uses and step.uses[name].lines]


def _one_by_one(shifted: Shifted, base: Less) -> Iterator[Less]:
    """From one choice, always with less of that tensor which frees the most bytes for a MAC."""
    less, step = base, shifted.step(base)
    while True:
        yield less
        names = _keeping(shifted, step)
        others = [_without(less, name) for name in names]
        others += [_briefly(less, name) for name in names if name not in less.briefly]
        tried = [(each, shifted.step(each)) for each in others]
        saving = [(each, other) for each, other in tried if other.state_bytes < step.state_bytes]
        if not saving:
            return
        bytes_, macs = step.state_bytes, step.macs
        less, step = max(saving, key=lambda pair: (bytes_ - pair[1].state_bytes) / max(1, pair[1].macs - macs))


def _groups(shifted: Shifted, base: Less) -> Iterator[Less]:
    """With less of all tensors, and of those from one that keeps many bytes to another."""
    names = list(shifted.origins)
    places = sorted(names.index(name) for name in _largest(shifted, base)[:_ENDS])
    for start, fewer in ((base, _without), (base, _briefly), (_briefly(base, *names), _without)):
        yield fewer(start, *names)
        for i, first in enumerate(places):
            for last in places[i:]:
                yield fewer(start, *names[first : last + 1])
            yield fewer(start, *names[first:])


def _combined(shifted: Shifted, base: Less) -> Iterator[Less]:
    """All ways of the few tensors that keep most."""
    large = _largest(shifted, base)[:_COMBINED]
    for ways in product((None, _briefly, _without), repeat=len(large)):
        less = base
        for name, way in zip(large, ways, strict=True):
            less = less if way is None else way(less, name)
        yield less


def _largest(shifted: Shifted, base: Less) -> list[str]:
    """The tensors that keep rows where all do that can, those with the most bytes first."""
    step, tensors = shifted.step(base), shifted.graph.tensors
    return sorted(_keeping(shifted, step), key=lambda name: -step.uses[name].kept_rows * tensors[name].type.row_bytes)


def _spread(choices: Sequence[Choice], most: int) -> Sequence[Choice]:
    """At most so many of them, with both ends and else those that are furthest apart in bytes."""
    kept = list(choices)
    while len(kept) > most:
        gaps = [kept[i - 1].state_bytes / max(1, kept[i + 1].state_bytes) for i in range(1, len(kept) - 1)]
        del kept[1 + gaps.index(min(gaps))]
    return kept


def hint(graph: Graph, simplified: Callable[[Graph], Graph]) -> str:
    """A line about what `--slide 1` would save a model whose input looks like frames of time; else nothing.

    Images are as wide as high. A model with states or several inputs gets no hint. `simplified`: the passes in front.
    """
    if not _may_be_frames(graph):
        return ""
    with suppress(ShoehornError):
        return _what_repeats(windows(simplified(graph), 1))
    return ""


def _may_be_frames(graph: Graph) -> bool:
    """Whether the one input may be rows of time: images, whose two largest dimensions are equal, are none."""
    if len(graph.inputs) != 1 or graph.states:
        return False
    sizes = sorted(graph.tensors[graph.inputs[0]].type.shape, reverse=True)
    return bool(sizes) and sizes[0] >= _LEAST_ROWS and sizes[:2] != [sizes[0]] * 2


def _what_repeats(given: Windows) -> str:
    """A line about what a hop of one row saves, where that is a third of the work and the windows are no images."""
    _, rows, columns, _ = given.graph.tensors[given.graph.inputs[0]].type.nhwc
    whole = given.graph.macs
    if rows == columns or rows < _LEAST_ROWS:
        return ""
    step = given.shifted.step()
    if whole < LEAST_GAIN * step.macs or not step.macs:
        return ""
    gain = whole / step.macs
    return (
        f"{100 * (1 - step.macs / whole):.0f} % of the work repeats if one new row of {rows} arrives per inference: "
        f"--slide 1, {gain:.{0 if gain >= 10 else 1}f} x fewer MACs, {step.state_bytes:,} bytes kept"
    )
