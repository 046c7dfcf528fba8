"""Two curves as SVG and as tables: arena against predicted time, and rows kept against MACs of a sliding window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import log
from typing import Any

from shoehorn_mcu.emit.page.parts import table

_WIDTH, _HEIGHT = 640, 300  # of the curve, in SVG units
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 20, 46
_FOOT = _HEIGHT - _BOTTOM
_BEYOND = 1.1  # how far the axis extends
EQUAL_PERCENT = 1  # predictions that differ by less do not show which plan is faster
_APART = 60  # SVG units between two figures of the axis
_PARETO = ("Predicted time over arena bytes", "arena")
_KEPT = ("MACs of a step over bytes kept", "kept rows")
_HEAD = ("More than least", "Steps", "MACs", "Recomputed MACs")


@dataclass(frozen=True)
class Dot:
    """One plan of the curve."""

    arena_bytes: int
    time: int  # predicted, in instructions or cycles
    steps: int
    macs: int  # recomputed ones included
    recomputed_macs: int

    @property
    def recomputed(self) -> str:
        """Recomputed MACs, and their share of the model's in percent."""
        share = 100 * self.recomputed_macs / max(1, self.macs - self.recomputed_macs)
        return f"{self.recomputed_macs:,} ({share:.1f} %)" if self.recomputed_macs else "0"


@dataclass(frozen=True)
class _Point:
    """A point of a curve, bytes across and time or MACs upwards, and the words that a pointer is shown there."""

    bytes: int
    work: int
    title: str = ""


@dataclass(frozen=True)
class _Scale:
    """Converts bytes (logarithmic, because few bytes matter most) and work to SVG units."""

    least: int  # work
    most: int
    narrow: float  # bytes at the left end, more than 0
    wide: float

    def x(self, count: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * log(max(1, count) / self.narrow) / log(self.wide / self.narrow)

    def y(self, work: int) -> float:
        return _FOOT - (_FOOT - _TOP) * (work - self.least) / max(1, self.most - self.least)

    def percent(self, work: int) -> str:
        more = 100 * (work - self.least) / max(1, self.least)
        return f"+{more:.{3 if more < 100 else 1}f} %"

    def at(self, point: _Point) -> str:
        return f'cx="{self.x(point.bytes):.1f}" cy="{self.y(point.work):.1f}"'


def _scale(points: Sequence[_Point]) -> _Scale:
    """The scale on which all of them have room."""
    work, counts = [point.work for point in points], [max(1, point.bytes) for point in points]
    return _Scale(min(work), max(work), min(counts) / _BEYOND, max(counts) * _BEYOND)


def pareto(dots: Sequence[Dot], own: Dot, basis: str, unit: str) -> str:
    """A <section> with the curve, smallest arena first, and the page's own plan, which need not be on the curve.

    `basis` says how the time was predicted, in `unit`.

    Arenas below the smallest one without recomputation are shaded.
    """
    points, ring = [_point(dot, unit) for dot in dots], _point(own, unit)
    scale = _scale((*points, ring))
    once = min((dot.arena_bytes for dot in dots if not dot.recomputed_macs), default=0)
    once = once if once > dots[0].arena_bytes else 0
    lines = [_cells(dot, scale) for dot in dots]
    head = ("Arena bytes", f"Predicted {unit}", *_HEAD)
    shaded = f" Below {once:,} bytes (shaded), MACs are recomputed." if once else ""
    return (
        "<section id=pareto><h2>SRAM against predicted time</h2>"
        f"<p>Each dot is a plan, the ring is that of this page.{shaded}{_equal(dots)} "
        f"Time is predicted from the {escape(basis)}.</p>"
        f"<div class=side>{_curve(points, ring, scale, _PARETO, once)}"
        f"<div class=scroll>{table(head, lines)}</div></div></section>"
    )


def kept_rows(slide: Mapping[str, Any], macs: int) -> str:
    """A <section> with the choices which tensors of a sliding window keep rows, and the page's own.

    `slide` is `plan.slide` of a report, whose plan has so many MACs in a step. "" where there is one choice only.
    """
    choices, whole = slide["choices"], slide["macs_whole_window"]
    if len(choices) < 2:
        return ""
    points = [
        _Point(each["state_bytes"], each["macs"], f"{each['state_bytes']:,} bytes kept, {each['macs']:,} MACs")
        for each in reversed(choices)  # the fewest bytes first
    ]
    ring = _Point(slide["state_bytes"], macs)
    head = ("Bytes kept", "MACs of a step", "Times fewer than the window's")
    lines = [(f"{p.bytes:,}", f"{p.work:,}", f"{whole / max(1, p.work):.2f}") for p in points]
    return (
        "<section id=kept><h2>Rows kept against MACs</h2>"
        "<p>Each dot is a choice which rows of which tensors are kept for later steps; the others are computed again. "
        "The ring is the choice of this page.</p>"
        f"<div class=side>{_curve(points, ring, _scale((*points, ring)), _KEPT)}"
        f"<div class=scroll>{table(head, lines)}</div></div></section>"
    )


def _equal(dots: Sequence[Dot]) -> str:
    """A sentence on the plans that differ by less than the prediction's error; "" where only one is that fast."""
    least = min(dot.time for dot in dots)
    fast = [dot for dot in dots if 100 * (dot.time - least) < EQUAL_PERCENT * least]
    if len(fast) < 2:
        return ""
    arenas = [dot.arena_bytes for dot in fast]
    return (
        f" The {len(fast)} plans from {min(arenas):,} to {max(arenas):,} bytes are equally fast: "
        f"they differ by under {EQUAL_PERCENT} %."
    )


def _cells(dot: Dot, scale: _Scale) -> Sequence[str]:
    figures = f"{dot.arena_bytes:,}", f"{dot.time:,}", scale.percent(dot.time)
    return (*figures, f"{dot.steps:,}", f"{dot.macs:,}", dot.recomputed)


def _point(dot: Dot, unit: str) -> _Point:
    say = f"{dot.arena_bytes:,} bytes, {dot.time:,} {unit}, {dot.steps:,} steps"
    say += f", {dot.recomputed} MACs recomputed" if dot.recomputed_macs else ""
    return _Point(dot.arena_bytes, dot.time, say)


def _curve(points: Sequence[_Point], own: _Point, scale: _Scale, names: tuple[str, str], once: int = 0) -> str:
    """A staircase through the points: the least work for each number of bytes, and a ring around the page's own.

    `names`: what the picture is, for those who do not see it, and the axis of bytes. Bytes below `once` are shaded.
    """
    first, *others = ((scale.x(point.bytes), scale.y(point.work)) for point in points)
    path = f"M{first[0]:.1f} {first[1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in others)
    marks = "".join(f'<circle {scale.at(each)} r="4"><title>{each.title}</title></circle>' for each in points)
    label, axis = names
    shade = ""
    if once:
        size = f'width="{scale.x(once) - _LEFT:.1f}" height="{_FOOT - _TOP + 8}"'
        shade = f'<rect class="again" x="{_LEFT}" y="{_TOP - 8}" {size}/>'
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}; the table has '
        f'the figures">{shade}<path class="axis" d="M{_LEFT} {_TOP - 8}V{_FOOT}H{_WIDTH - _RIGHT}"/>'
        f'<path class="curve" d="{path}"/>{marks}'
        f'<circle class="ring" {scale.at(own)} r="8"/>{_ticks(scale)}'
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 8}" class="mid">{axis}, bytes (logarithmic)</text></svg>'
    )


def _ticks(scale: _Scale) -> str:
    """Labels of the axes: round numbers of bytes, and the most and the least work."""
    found = [
        f'<text x="{_LEFT - 8}" y="{scale.y(time) + 4:.1f}" class="end">{scale.percent(time)}</text>'
        for time in dict.fromkeys((scale.most, scale.least))
    ]
    found += [
        f'<text x="{scale.x(arena):.0f}" y="{_FOOT + 18}" class="mid">{arena:,}</text>' for arena in _round(scale)
    ]
    return "".join(found)


def _round(scale: _Scale) -> Iterator[int]:
    """Round numbers of bytes that are far enough apart for their labels."""
    last = -float(_APART)
    for power, digits in product(range(12), (10, 15, 20, 30, 40, 50, 60, 70, 80, 90)):
        arena = digits * 10**power // 10
        if scale.narrow <= arena <= scale.wide and scale.x(arena) >= last + _APART:
            last = scale.x(arena)
            yield arena
