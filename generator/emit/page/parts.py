"""The page's parts that need no script: facts, passes, and the Pareto curve as SVG and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from generator.emit.page.picture import Picture

_WIDTH, _HEIGHT = 640, 300  # of the curve, in SVG units
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 20, 46


@dataclass(frozen=True)
class Dot:
    """One plan of the Pareto curve."""

    arena_bytes: int
    instructions: int  # predicted
    steps: int
    macs: int


def facts(report: Mapping[str, Any], seen: Picture, basis: str) -> str:
    """The figures at the top, as <dt> and <dd>; `basis` is what the predicted time rests on."""
    model, board, plan = report["model"], report["board"], report["plan"]
    proof = "equal to the bound: no plan of the space searched is smaller" if plan["proven_optimal"] else "not proven"
    machine = (
        f"{board['id']}, {board['cpu']}, {board['sram_bytes']:,} bytes of SRAM" if board else "none, portable kernels"
    )
    rows = {
        "Model": f"{model['name']}, {model['ops']} operators, {model['weight_bytes']:,} bytes of weights",
        "Board": machine,
        "Arena": f"{plan['arena_bytes']:,} bytes",
        "Lower bound": f"{plan['arena_bound_bytes']:,} bytes",
        "Proven": proof,
        "Whole tensors": f"{plan['whole_tensor_bytes']:,} bytes",
        "Most alive at once": f"{seen.peak_bytes:,} bytes",
        "MACs": f"{plan['macs']:,}, of these {plan['recomputed_macs']:,} recomputed",
        "Predicted": f"{plan['predicted_instructions']:,} instructions per inference, from the {basis}",
        "Steps": f"{plan['steps']:,}, over {seen.events:,} rows",
    }
    return "".join(f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in rows.items())


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", line) for line in lines)
    return f"<table><thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"


def passes(report: Mapping[str, Any]) -> str:
    """What each pass did to operators and MACs."""
    head = ("Pass", "Operators before", "after", "MACs before", "after")
    keys = ("ops_before", "ops_after", "macs_before", "macs_after")
    return _table(head, [(p["name"], *(f"{p[key]:,}" for key in keys)) for p in report["passes"]])


def pareto(dots: Sequence[Dot], arena_bytes: int, basis: str) -> str:
    """A <section>: arena over predicted time, as a curve and as a table; the page's own plan is ringed."""
    least = min(dot.instructions for dot in dots)
    lines = [
        (f"{d.arena_bytes:,}", f"{d.instructions:,}", _percent(d, least), f"{d.steps:,}", f"{d.macs:,}") for d in dots
    ]
    table = _table(("Arena bytes", "Predicted instructions", "More than least", "Steps", "MACs"), lines)
    return (
        "<section id=pareto><h2>SRAM against predicted time</h2>"
        f"<p>Each dot is a plan. Time is predicted from the {escape(basis)}.</p>"
        f"<div class=side>{_curve(dots, least, arena_bytes)}<div class=scroll>{table}</div></div></section>"
    )


def _percent(dot: Dot, least: int) -> str:
    return f"+{100 * (dot.instructions - least) / max(1, least):.3f} %"


def _ticks(most: int) -> range:
    """At most six round numbers from 0 to `most`."""
    power = 10 ** (len(str(most)) - 1)
    step = next(step for part in (1, 2, 5, 10, 20) if most // (step := max(1, part * power // 10)) <= 5)
    return range(0, most + 1, step)


def _curve(dots: Sequence[Dot], least: int, arena_bytes: int) -> str:
    """A staircase through the dots: with so many bytes, this is the least time."""
    widest = max(d.arena_bytes for d in dots)
    most = max(max(d.instructions for d in dots) - least, 1)

    def x(d: Dot) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * d.arena_bytes / max(1, widest)

    def y(d: Dot) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (d.instructions - least) / most

    path = f"M{x(dots[0]):.1f} {y(dots[0]):.1f}" + "".join(f"H{x(d):.1f}V{y(d):.1f}" for d in dots[1:])
    marks = []
    for d in dots:
        say = f"{d.arena_bytes:,} bytes, {d.instructions:,} instructions, {d.steps:,} steps"
        marks.append(f'<circle cx="{x(d):.1f}" cy="{y(d):.1f}" r="4"><title>{say}</title></circle>')
        if d.arena_bytes == arena_bytes:
            marks.append(f'<circle class="ring" cx="{x(d):.1f}" cy="{y(d):.1f}" r="8"/>')
    foot = _HEIGHT - _BOTTOM
    ends = dict.fromkeys((max(dots, key=y), min(dots, key=y)))
    ticks = [f'<text x="{_LEFT - 8}" y="{y(d) + 4:.1f}" class="end">{_percent(d, least)}</text>' for d in ends]
    for arena in _ticks(widest):
        at = _LEFT + (_WIDTH - _LEFT - _RIGHT) * arena / max(1, widest)
        ticks.append(f'<text x="{at:.0f}" y="{foot + 18}" class="mid">{arena:,}</text>')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Predicted time over arena bytes; the table has '
        f'the figures"><path class="axis" d="M{_LEFT} {_TOP - 8}V{foot}H{_WIDTH - _RIGHT}"/>'
        f'<path class="curve" d="{path}"/>{"".join(marks)}{"".join(ticks)}'
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 8}" class="mid">arena, bytes</text></svg>'
    )
