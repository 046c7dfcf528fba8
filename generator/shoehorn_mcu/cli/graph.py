"""`gen remat`: order and recomputations of a bare graph; reads arguments, calls the planner, prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import click

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.cli.console import Finite, Options, emit_json, err, json_option, out, together
from shoehorn_mcu.planner.remat.graph import LIMIT, Graph, quoted, read
from shoehorn_mcu.planner.remat.outcome import Effort, Outcome, Status
from shoehorn_mcu_host.base.words import counted

_SECONDS = 60.0
_NAMED = 12  # recomputed nodes that the text names


class NoSequence(ShoehornError):
    """No sequence within the budget: either there is provably none, or the search found none in its time."""

    kind = "no-sequence"

    def __init__(self, message: str, report: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.answer = report


def graph_options(old: bool) -> Options:
    """The options of `gen remat`; `old`: for `gen plan --graph`, hidden from its help."""
    return together(
        click.option(
            "--budget",
            type=click.IntRange(0, LIMIT),
            metavar="BYTES",
            required=not old,
            hidden=old,
            help="Memory that each step may hold, in the unit of the nodes' sizes.",
        ),
        click.option(
            "--fixed-order",
            is_flag=True,
            hidden=old,
            help="Keep the file's order of first runs and run no node more than twice, as MOCCASIN does.",
        ),
        click.option(
            "--seconds",
            type=Finite(0, 86400, min_open=True),
            metavar="N",
            hidden=old,
            help=f"Time limit of the search; a longer one may find a better answer. Default: {_SECONDS:g}.",
        ),
    )


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@graph_options(old=False)
@json_option
def remat(path: Path, budget: int, fixed_order: bool, seconds: float | None, as_json: bool) -> None:
    """Orders the nodes of a bare graph within a memory budget, recomputing as little as possible.

    FILE is networkx node-link JSON. A node has its output's size in `size`, `out_cost` or `cost_ram`, and its run time
    in `duration` or `cost_cpu`. Ctrl-C gives the best sequence so far.
    """
    plan_graph(path, budget, seconds, fixed_order, as_json)


def plan_graph(path: Path, budget: int, seconds: float | None, fixed_order: bool, as_json: bool) -> None:
    """Prints the sequence found.

    Raises GraphError for an invalid file, NoSequence where no sequence within the budget was found.
    """
    # Imports CP-SAT, and `gen plan` imports this module.
    from shoehorn_mcu.planner.remat.rematerialise import in_fixed_order, rematerialise

    graph = read(path)
    started = monotonic()
    if not as_json:
        err.print(f"planning {len(graph.names)} nodes and {len(graph.edges)} edges; Ctrl-C gives the best so far")
    search = in_fixed_order if fixed_order else rematerialise
    outcome = search(graph, budget, Effort(seconds or _SECONDS))
    report = _report(graph, outcome, monotonic() - started)
    if not outcome.sequence:
        raise NoSequence(f"{path}: {outcome.reason}; {_cure(outcome, fixed_order)}", report)
    if as_json:
        emit_json(report)
    else:
        _print(graph, outcome)


def _cure(outcome: Outcome, fixed_order: bool) -> str:
    """Advice for a user whose budget has no sequence."""
    if outcome.status is Status.INFEASIBLE:
        return "raise --budget"
    other = ", or leave --fixed-order out" if fixed_order else ""
    return f"raise --budget, or let it search for longer (--seconds){other}"


def _report(graph: Graph, outcome: Outcome, seconds: float) -> Mapping[str, Any]:
    solved = bool(outcome.sequence)
    return {
        "status": outcome.status.value,
        "seconds": round(seconds, 3),
        "budget": outcome.budget,
        "peak": outcome.peak if solved else None,
        "duration": outcome.duration if solved else None,
        "base_duration": outcome.base_duration,
        "increase_percent": outcome.increase_percent if solved else None,
        "bound_percent": outcome.bound_percent,
        "sequence": [graph.names[v] for v in outcome.sequence],
    }


def _print(graph: Graph, outcome: Outcome) -> None:
    """The figures and the recomputed nodes in words; `--json` has the sequence."""
    repeated = [v for v, runs in Counter(outcome.sequence).items() if runs > 1]  # by their first runs
    named = ", ".join(quoted(graph.names[v]) for v in repeated[:_NAMED])
    named += ", ..." if len(repeated) > _NAMED else ""
    proven = outcome.status is Status.OPTIMAL
    proof = "proven least" if proven else f"lower bound {outcome.bound_percent:+.4f} %; {outcome.reason}"
    out.print(f"peak {outcome.peak:,} of {outcome.budget:,}")
    out.print(f"duration {outcome.duration:,}, {outcome.increase_percent:+.4f} % of running each node once ({proof})")
    count = len(outcome.sequence) - len(graph.names)
    nodes = f" of {counted(len(repeated), 'node')}: {named}" if repeated else ""
    out.say(f"{counted(count, 'recomputation')}{nodes}")
