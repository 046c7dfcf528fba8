"""Arena against predicted time: the Pareto curve as SVG and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import log

from shoehorn_mcu.emit.page.parts import table

_WIDTH, _HEIGHT = 640, 300  # of the curve, in SVG units
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 20, 46
_FOOT = _HEIGHT - _BOTTOM
_BEYOND = 1.1  # how far the axis extends
EQUAL_PERCENT = 1  # predictions that differ by less do not show which plan is faster
_APART = 60  # SVG units between two figures of the axis
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
class _Scale:
    """Converts bytes (logarithmic, because small arenas matter most) and time to SVG units."""

    least: int  # time
    most: int
    narrow: float  # bytes at the left end, more than 0
    wide: float

    def x(self, arena_bytes: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * log(arena_bytes / self.narrow) / log(self.wide / self.narrow)

    def y(self, time: int) -> float:
        return _FOOT - (_FOOT - _TOP) * (time - self.least) / max(1, self.most - self.least)

    def percent(self, time: int) -> str:
        return f"+{100 * (time - self.least) / max(1, self.least):.3f} %"

    def at(self, dot: Dot) -> str:
        return f'cx="{self.x(max(1, dot.arena_bytes)):.1f}" cy="{self.y(dot.time):.1f}"'


def pareto(dots: Sequence[Dot], own: Dot, basis: str, unit: str) -> str:
    """A <section> with the curve, smallest arena first, and the page's own plan, which need not be on the curve.

    `basis` says how the time was predicted, in `unit`.

    Arenas below the smallest one without recomputation are shaded.
    """
    shown = (*dots, own)
    times = [dot.time for dot in shown]
    arenas = [max(1, dot.arena_bytes) for dot in shown]
    scale = _Scale(min(times), max(times), min(arenas) / _BEYOND, max(arenas) * _BEYOND)
    once = min((dot.arena_bytes for dot in dots if not dot.recomputed_macs), default=0)
    once = once if once > dots[0].arena_bytes else 0
    lines = [_cells(dot, scale) for dot in dots]
    head = ("Arena bytes", f"Predicted {unit}", *_HEAD)
    shaded = f" Below {once:,} bytes (shaded), MACs are recomputed." if once else ""
    return (
        "<section id=pareto><h2>SRAM against predicted time</h2>"
        f"<p>Each dot is a plan, the ring is that of this page.{shaded}{_equal(dots)} "
        f"Time is predicted from the {escape(basis)}.</p>"
        f"<div class=side>{_curve(dots, own, scale, once, unit)}"
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


def _curve(dots: Sequence[Dot], own: Dot, scale: _Scale, once: int, unit: str) -> str:
    """A staircase through the dots: the least time for each number of bytes."""
    first, *others = ((scale.x(max(1, d.arena_bytes)), scale.y(d.time)) for d in dots)
    path = f"M{first[0]:.1f} {first[1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in others)
    shade = ""
    if once:
        size = f'width="{scale.x(once) - _LEFT:.1f}" height="{_FOOT - _TOP + 8}"'
        shade = f'<rect class="again" x="{_LEFT}" y="{_TOP - 8}" {size}/>'
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Predicted time over arena bytes; the table has '
        f'the figures">{shade}<path class="axis" d="M{_LEFT} {_TOP - 8}V{_FOOT}H{_WIDTH - _RIGHT}"/>'
        f'<path class="curve" d="{path}"/>{"".join(_mark(d, scale, unit) for d in dots)}'
        f'<circle class="ring" {scale.at(own)} r="8"/>{_ticks(scale)}'
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 8}" class="mid">arena, bytes (logarithmic)</text></svg>'
    )


def _mark(dot: Dot, scale: _Scale, unit: str) -> str:
    say = f"{dot.arena_bytes:,} bytes, {dot.time:,} {unit}, {dot.steps:,} steps"
    say += f", {dot.recomputed} MACs recomputed" if dot.recomputed_macs else ""
    return f'<circle {scale.at(dot)} r="4"><title>{say}</title></circle>'


def _ticks(scale: _Scale) -> str:
    """Labels of the axes: round numbers of bytes, and the greatest and the least time."""
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
