"""`gen plan --graph`: rematerialisation on a bare graph; reads arguments, calls the planner, prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import click

from shoehorn_mcu.console import Finite, emit_json, err, out, together
from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.planner import remat

_SECONDS = 60.0
_NAMED = 12  # recomputed nodes that the text names


graph_options = together(
    click.option(
        "--graph",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Plan a bare graph instead (networkx node-link JSON): order and recomputations within --budget.",
    ),
    click.option(
        "--budget",
        type=click.IntRange(0, remat.LIMIT),
        metavar="BYTES",
        help="With --graph: the memory that a step may take, in the unit of the nodes' sizes.",
    ),
    click.option(
        "--fixed-order",
        is_flag=True,
        help="With --graph: keep the file's order of first runs and run no node more than twice, as MOCCASIN does.",
    ),
    click.option(
        "--seconds",
        type=Finite(0, 86400, min_open=True),
        metavar="N",
        help=f"With --graph: how long to try at most; decides the answer. Default: {_SECONDS:g}.",
    ),
)
"""The options of `gen plan` for a bare graph."""


def plan_graph(path: Path, budget: int | None, seconds: float | None, fixed_order: bool, as_json: bool) -> None:
    """Prints what was found. ShoehornError: the file is refused, nothing fits the budget, or nothing was found."""
    if budget is None:
        raise click.UsageError("--graph needs --budget BYTES")
    graph = remat.read(path)
    started = monotonic()
    if not as_json:
        err.print(f"planning {len(graph.names)} nodes and {len(graph.edges)} edges; Ctrl-C gives the best so far")
    plan = remat.in_fixed_order if fixed_order else remat.rematerialise
    outcome = plan(graph, budget, remat.Effort(seconds or _SECONDS))
    if as_json:
        emit_json(_report(graph, outcome, monotonic() - started))
    if not outcome.sequence:
        raise ShoehornError(f"{path}: {outcome.reason}; {_cure(outcome, fixed_order)}")
    if not as_json:
        _print(graph, outcome)


def _cure(outcome: remat.Outcome, fixed_order: bool) -> str:
    """What may help where there is no sequence."""
    if outcome.status is remat.Status.INFEASIBLE:
        return "raise --budget"
    other = ", or leave --fixed-order out" if fixed_order else ""
    return f"raise --budget, or let it try for longer (--seconds){other}"


def _report(graph: remat.Graph, outcome: remat.Outcome, seconds: float) -> Mapping[str, Any]:
    found = bool(outcome.sequence)
    return {
        "status": outcome.status.value,
        "seconds": round(seconds, 3),
        "budget": outcome.budget,
        "peak": outcome.peak if found else None,
        "duration": outcome.duration if found else None,
        "base_duration": outcome.base_duration,
        "increase_percent": outcome.increase_percent if found else None,
        "bound_percent": outcome.bound_percent,
        "sequence": [graph.names[v] for v in outcome.sequence],
    }


def _print(graph: remat.Graph, outcome: remat.Outcome) -> None:
    """The sequence in words; `--json` has it in full."""
    again = sorted({v for v in graph.nodes if outcome.sequence.count(v) > 1}, key=outcome.sequence.index)
    named = ", ".join(remat.quoted(graph.names[v]) for v in again[:_NAMED]) + (", ..." if len(again) > _NAMED else "")
    proven = outcome.status is remat.Status.OPTIMAL
    proof = "proven least" if proven else f"{outcome.bound_percent:+.4f} % at least; {outcome.reason}"
    out.print(f"peak {outcome.peak:,} of {outcome.budget:,}")
    out.print(f"duration {outcome.duration:,}, {outcome.increase_percent:+.4f} % on every node once ({proof})")
    steps = len(outcome.sequence) - len(graph.names)
    out.print(f"{steps} recomputations{f' of {len(again)} nodes: {named}' if again else ''}", soft_wrap=True)
