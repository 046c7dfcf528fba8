"""slim.html: what a slimming did, in the style of plan.html: a sentence, figures, two plots, and the table of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.emit.page import plain_page
from shoehorn_mcu.emit.page.parts import figure_list, paragraph, table
from shoehorn_mcu.slim.price import Price
from shoehorn_mcu.slim.record import Compared, Record, Step, Trial
from shoehorn_mcu_host.base.words import counted

_WIDTH, _HEIGHT = 620, 320  # of a plot, in SVG units
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 14, 44
_FOOT = _HEIGHT - _BOTTOM
_ROOM = 0.06  # of an axis, around the dots


@dataclass(frozen=True)
class _Dot:
    """A network: its figure, its accuracy in percent, and how it is drawn."""

    figure: int
    percent: float
    kind: str  # "step", "undone", "control", "original", "slim"
    title: str


def page(record: Record, title: str, board: str) -> str:
    """The page as text; equal records give equal text."""
    unit = record.original.unit
    slim = record.final.cost if record.final else _last(record)
    body = (
        paragraph(_sentence(record, unit))
        + f"<dl class=figures>{figure_list(_figures(record, slim, unit))}</dl>"
        + _section("Accuracy against time and memory", _plots(record, unit))
        + _section("Steps", _steps(record, unit))
        + _section("Test samples", _test(record.test))
        + _section("Kernels that the weights changed", _kernels(record))
        + _section("Moves that were not tried", _refused(record.steps))
    )
    return plain_page(title, f"slimmed for {board}", body)


def _last(record: Record) -> Price:
    kept = [step.kept.cost for step in record.steps if step.kept is not None]
    return kept[-1] if kept else record.original


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def _sentence(record: Record, unit: str) -> str:
    kept = [step.kept for step in record.steps if step.kept is not None]
    slim, before = (record.final.cost if record.final else _last(record)), record.original
    told = f"{counted(len(kept), 'step')} took {100 * (1 - slim.time / max(1, before.time)):.0f} % of the {unit} away"
    rows = {row.name: row for row in record.test}
    if (made := rows.get("slim, int8")) is not None:
        base = "trained on for as long" if "original, trained on, int8" in rows else "as it was"
        told += (
            f"; in int8 the network has {made.percent:.1f} % of {made.samples} test samples right, "
            f"{made.points:+.1f} ± {made.interval:.1f} points against the original {base}"
        )
    nothing = rows.get("slim network, from nothing, int8")
    if made is not None and nothing is not None and nothing.right > made.right:
        told += f". The same network trained from nothing is better: {nothing.percent:.1f} %"
    return told


def _figures(record: Record, slim: Price, unit: str) -> Iterator[tuple[str, str, str]]:
    before = record.original
    rows: Sequence[tuple[str, int, int, str]] = (
        (f"Predicted {unit}", before.time, slim.time, ""),
        ("Arena", before.sram, slim.sram, " bytes"),
        ("Constants", before.flash, slim.flash, " bytes"),
        ("MACs", before.macs, slim.macs, ""),
    )
    for name, old, new, what in rows:
        yield name, f"{new:,}{what}", f"{old:,}{what} before; {_change(old, new)}"
    if before.milliseconds is not None and slim.milliseconds is not None:
        yield "Predicted time", f"{slim.milliseconds:,.1f} ms", f"{before.milliseconds:,.1f} ms before"
    if record.made_up is not None and record.made_up.time != slim.time:
        yield "With made-up weights", f"{record.made_up.time:,}", f"predicted {unit}, by which moves are chosen"
    if before.lacking:
        yield "Too little memory", slim.lack or "none: it fits", f"{before.lack} before"
    right = record.original_validation["int8"]
    now = record.final.int8 if record.final else right
    yield "Validation samples right", f"{now:.1f} %", f"in int8; the original {right:.1f} %"


def _change(old: int, new: int) -> str:
    return f"{100 * (new / max(1, old) - 1):+.1f} %"


def _plots(record: Record, unit: str) -> str:
    plots = (
        _plot(list(_dots(record, lambda cost: cost.time)), f"predicted {unit}"),
        _plot(list(_dots(record, lambda cost: cost.sram)), "arena, bytes"),
    )
    said = (
        "Accuracy is of int8 on the validation samples. The line joins the steps; the ring is the slim network after "
        "its last retraining, crosses are steps that were undone, squares are the controls."
    )
    return f"<p>{said}</p><div class=side>{''.join(plots)}</div>"


def _dots(record: Record, figure: Callable[[Price], int]) -> Iterator[_Dot]:
    yield _Dot(figure(record.original), record.original_validation["int8"], "original", "the original")
    for step in record.steps:
        for trial in step.trials:
            kind = "step" if trial.kept else "undone"
            yield _Dot(figure(trial.cost), trial.int8, kind, f"step {step.number}: {trial.name}")
    for control in record.controls:
        yield _Dot(figure(control.cost), control.int8, "control", control.name)
    if record.final is not None:
        yield _Dot(figure(record.final.cost), record.final.int8, "slim", "the slim network")


@dataclass(frozen=True)
class _Scale:
    least: float
    most: float
    low: float
    high: float

    @classmethod
    def of(cls, dots: Sequence[_Dot]) -> _Scale:
        figures, percents = [dot.figure for dot in dots], [dot.percent for dot in dots]
        wide, tall = max(max(figures) - min(figures), 1), max(max(percents) - min(percents), 1.0)
        return cls(
            min(figures) - _ROOM * wide,
            max(figures) + _ROOM * wide,
            min(percents) - _ROOM * tall,
            max(percents) + _ROOM * tall,
        )

    def x(self, figure: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (figure - self.least) / (self.most - self.least)

    def y(self, percent: float) -> float:
        return _FOOT - (_FOOT - _TOP) * (percent - self.low) / (self.high - self.low)


def _plot(dots: Sequence[_Dot], what: str) -> str:
    """Accuracy over a figure."""
    scale = _Scale.of(dots)
    path = [dot for dot in dots if dot.kind in ("original", "step")]
    line = "M" + "L".join(f"{scale.x(dot.figure):.1f} {scale.y(dot.percent):.1f}" for dot in path)
    ends = sorted({min(dot.figure for dot in dots), max(dot.figure for dot in dots)})
    heights = sorted({min(dot.percent for dot in dots), max(dot.percent for dot in dots)})
    labels = [f'<text x="{scale.x(each):.0f}" y="{_FOOT + 18}" class="mid">{each:,}</text>' for each in ends]
    labels += [f'<text x="{_LEFT - 6}" y="{scale.y(each) + 4:.0f}" class="end">{each:.1f} %</text>' for each in heights]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Accuracy over {escape(what)}">'
        f'<path class="axis" d="M{_LEFT} {_TOP}V{_FOOT}H{_WIDTH - _RIGHT}"/><path class="curve" d="{line}"/>'
        f"{''.join(_mark(dot, scale) for dot in dots)}{''.join(labels)}"
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 6}" class="mid">{escape(what)}</text></svg>'
    )


def _mark(dot: _Dot, scale: _Scale) -> str:
    x, y = scale.x(dot.figure), scale.y(dot.percent)
    said = f"<title>{escape(dot.title)}: {dot.percent:.1f} %, {dot.figure:,}</title>"
    if dot.kind == "undone":
        return f'<path class="axis" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8">{said}</path>'
    if dot.kind == "control":
        return f'<rect class="axis" x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10">{said}</rect>'
    ring = f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="8"/>' if dot.kind == "slim" else ""
    return f'{ring}<circle cx="{x:.1f}" cy="{y:.1f}" r="4">{said}</circle>'


def _steps(record: Record, unit: str) -> str:
    """A row for each trial, the original first and the controls last."""
    head = (
        "Step",
        "What was merged",
        "Outcome",
        "int8 before",
        "first guess",
        "float32",
        "int8",
        f"Predicted {unit}",
        *([] if record.original.milliseconds is None else ["ms"]),
        "Arena",
        "Constants",
        "MACs",
        "Epochs",
        "Seconds",
    )
    rights = record.original_validation
    first = ("0", "the original", "", "", "", f"{rights['float32']:.1f} %", f"{rights['int8']:.1f} %")
    lines = [(*first, *_cells(record.original), "", "")]
    lines += [
        (str(step.number), trial.name, "kept" if trial.kept else trial.why, *_trained(trial))
        for step in record.steps
        for trial in step.trials
    ]
    lines += [("", trial.name, trial.why, *_trained(trial)) for trial in (record.final, *record.controls) if trial]
    ended = f"<p>There are no more steps because {escape(record.ended)}.</p>" if record.ended else ""
    return f"<div class=scroll>{table(head, lines, words=3)}</div>{ended}"


def _trained(trial: Trial) -> tuple[str, ...]:
    rights = (trial.before, trial.untrained, trial.float32, trial.int8)
    return *(f"{each:.1f} %" for each in rights), *_cells(trial.cost), str(trial.epochs), f"{trial.seconds:.0f}"


def _cells(cost: Price) -> tuple[str, ...]:
    ms = [] if cost.milliseconds is None else [f"{cost.milliseconds:,.1f}"]
    return f"{cost.time:,}", *ms, f"{cost.sram:,}", f"{cost.flash:,}", f"{cost.macs:,}"


def _test(rows: Sequence[Compared]) -> str:
    if not rows:
        return ""
    head = ("Network", "Right", "Samples", "Lost", "Won", "Points", "95 % interval")
    lines = [
        (
            row.name,
            f"{row.percent:.1f} %",
            str(row.samples),
            str(row.lost),
            str(row.won),
            f"{row.points:+.1f}",
            f"± {row.interval:.1f}",
        )
        for row in rows
    ]
    return f"<div class=scroll>{table(head, lines)}</div>"


def _kernels(record: Record) -> str:
    """The layers that have other kernels with their real weights."""
    rows = [(each.layer, each.made_up, each.real) for each in record.other_kernels]
    return table(("Layer", "With made-up weights", "With its own"), rows, words=3) if rows else ""


def _refused(steps: Sequence[Step]) -> str:
    """The moves of the first step that were not tried, by the reason."""
    candidates = steps[0].candidates if steps else ()
    reasons = by_key((candidate.refused, candidate.name) for candidate in candidates if candidate.refused)
    folded = ((f"{len(names)} because the move {reason}", ", ".join(names)) for reason, names in reasons.items())
    return "".join(f"<details><summary>{escape(title)}</summary>{escape(names)}</details>" for title, names in folded)
