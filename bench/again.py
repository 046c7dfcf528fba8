"""Orders by rows and recomputed rows: the memory they save on real models, and on networks with long skips.

    python -m bench.again [--models NAME ...] [--percents N ...] [--seconds N] [--streamed] [--plans] [--out DIR]

Writes DIR/again.json and DIR/again.md after each model. Per model: the peak of the best partition into groups, the
lowest peak found with free order and each row computed once, and the recomputed MACs at budgets of --percents of the
first peak. Peaks are live bytes, without placement. With --plans, checked plans are made instead, as by
`gen plan --sram`, at --percents of the smallest arena without recomputation, banded blocks included.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from shoehorn_mcu import importers, ops, passes
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.planner import DoesNotFit, Goal, Problem, make_plan
from shoehorn_mcu.planner.memory_plan import DELIVERY, Plan
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.replay import replay
from shoehorn_mcu.planner.partition.search import PartitionSearch
from shoehorn_mcu.planner.recompute.search import least, recomputed, reordered
from shoehorn_mcu.planner.remat.outcome import Effort
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages
from tests.nets import Net
from tests.shared import MODELS, ROAD

STOP = 10  # times the seconds: where the clock ends a search that this machine is too slow for


def u_net(side: int, levels: int, channels: int) -> Graph:
    """A U-Net: two convolutions per level, down by stride 2, up by nearest neighbours, skips concatenated."""
    net = Net(1, side, side, 3)
    pad = ops.Padding(1, 1, 1, 1)

    def conv(x: str, outputs: int, stride: int = 1) -> str:
        return net.conv(x, outputs, 3, padding=pad, stride=(stride, stride))

    x, skips = "x", []
    for level in range(levels):
        x = conv(conv(x, channels << level), channels << level)
        skips.append(x)
        x = conv(x, channels << level, 2)
    for level in reversed(range(levels)):
        x = _larger(net, conv(x, channels << level))
        x = conv(net.add(ops.Concat, skips.pop(), x, axis=3), channels << level)
    return net.graph(net.conv(x, 2))


def fpn(side: int, levels: int, channels: int) -> Graph:
    """A feature pyramid: a backbone of stride 2, an upward path that adds, and a convolution per level as output."""
    net = Net(1, side, side, 3)
    pad = ops.Padding(1, 1, 1, 1)
    x, laterals = "x", []
    for level in range(levels):
        x = net.conv(x, channels << level, 3, padding=pad, stride=(2, 2))
        x = net.conv(x, channels << level, 3, padding=pad)
        laterals.append(net.conv(x, channels))
    top, ends = laterals.pop(), []
    ends.append(net.conv(top, 4, 3, padding=pad))
    while laterals:
        top = net.add(ops.Add, laterals.pop(), _larger(net, top))
        ends.append(net.conv(top, 4, 3, padding=pad))
    return net.graph(*ends)


def _larger(net: Net, x: str) -> str:
    _, height, width, _ = net.type(x).nhwc
    return net.add(ops.ResizeNearest, x, size=(2 * height, 2 * width), align_corners=False, half_pixel_centers=False)


SYNTHETIC: dict[str, Callable[[], Graph]] = {
    "u-net-32-3-8": lambda: u_net(32, 3, 8),
    "u-net-64-4-8": lambda: u_net(64, 4, 8),
    "fpn-64-3-8": lambda: fpn(64, 3, 8),
    "fpn-96-4-8": lambda: fpn(96, 4, 8),
}


def problem_of(name: str, streamed: bool) -> Problem:
    """The model without blocks that run in bands."""
    return replace(_lowered(name, streamed), blocks=())


def _lowered(name: str, streamed: bool) -> Problem:
    """The model after all passes, for portable kernels."""
    source = SYNTHETIC[name]() if name in SYNTHETIC else importers.load(MODELS / f"{name}.tflite")
    graph, _ = passes.run(source, frozenset(), ())
    chosen = stages(graph)
    return lower(graph, chosen, None, streamed, Cuts(graph, chosen))


def macs(problem: Problem, events: Sequence[Event]) -> int:
    return sum(problem.ops[event.op].row_macs * event.rows for event in events)


def measure(name: str, percents: Sequence[int], seconds: float, streamed: bool) -> dict[str, Any]:
    """One model."""
    problem = problem_of(name, streamed)
    flow = Flow(problem)
    modes = PartitionSearch(problem, None)
    groups = modes.minimax()
    start = modes.space.events(groups.groups)
    effort = Effort(seconds, stop=STOP * seconds)
    started = monotonic()
    free = reordered(problem, start, effort)
    row: dict[str, Any] = {
        "model": name,
        "streamed": streamed,
        "rows": sum(event.rows for event in start),
        "groups_peak": groups.peak,
        "free_peak": replay(flow, free).peak,
        "least": least(flow),
        "free_seconds": round(monotonic() - started, 1),
    }
    return row | {f"at_{percent}": at(problem, free, groups.peak * percent // 100, effort) for percent in percents}


def at(problem: Problem, start: Sequence[Event], budget: int, effort: Effort) -> dict[str, Any]:
    """The work of the order found for one budget."""
    searched = recomputed(problem, start, budget, effort, most_rows=0)
    started = monotonic()
    found = recomputed(problem, start, budget, effort)
    said: dict[str, Any] = {"budget": budget, "seconds": round(monotonic() - started, 1)}
    if found is None:
        return said | {"possible": budget >= least(Flow(problem))}
    said |= {"peak": replay(Flow(problem), found.events).peak, "events": len(found.events), "reason": found.reason}
    said |= {"extra_macs_percent": _extra(problem, start, found.events)}
    return said | {"searched_percent": None if searched is None else _extra(problem, start, searched.events)}


def _extra(problem: Problem, start: Sequence[Event], events: Sequence[Event]) -> float:
    once = macs(problem, start)
    return 100 * (macs(problem, events) - once) / max(1, once)


def plans(name: str, percents: Sequence[int], streamed: bool) -> dict[str, Any]:
    """Measures one model with checked plans."""
    problem = _lowered(name, streamed)
    smallest = make_plan(problem, Goal.SRAM, 0).arena_bytes
    row: dict[str, Any] = {"model": name, "streamed": streamed, "smallest": smallest}
    for percent in percents:
        row[f"at_{percent}"] = _plan(replace(problem, capacity_bytes=smallest * percent // 100))
    return row


def _plan(problem: Problem) -> dict[str, Any]:
    """The plan for one capacity: its work, and the CPU seconds of planning."""
    started = process_time()
    try:
        plan = make_plan(problem, Goal.TIME, None)
    except DoesNotFit as refusal:
        return {"needed": refusal.needed_bytes, "seconds": round(process_time() - started, 1)}
    computed = [op for op in problem.ops if op.name != DELIVERY]
    macs, work = {op.name: op.row_macs for op in computed}, {op.name: op.row_cost for op in computed}
    said = {"arena": plan.arena_bytes, "reason": plan.outcome.reason}
    said |= {"macs_percent": _more(problem, plan, macs), "work_percent": _more(problem, plan, work)}
    return said | {"blocks": len(plan.cascades), "seconds": round(process_time() - started, 1)}


def _more(problem: Problem, plan: Plan, by_row: dict[str, int]) -> float:
    """Extra cost in percent, weighted by each op's cost per row, over computing every row once."""
    once = sum(by_row.get(op.name, 0) * problem.by_name[op.writes].rows for op in problem.ops)
    done = sum(by_row.get(step.op, 0) * (step.rows[1] - step.rows[0]) for step in plan.steps)
    return 0.0 if plan.cascades else 100 * (done - once) / max(1, once)


def plans_table(rows: Sequence[dict[str, Any]], percents: Sequence[int]) -> str:
    """The rows as Markdown: arena, more work and more MACs, or the best plan of a refusal; CPU seconds."""
    head = ["model", "smallest", *(f"{p} %" for p in percents)]
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    for row in rows:
        cells = [f"{row['model']}{', streamed' if row['streamed'] else ''}", f"{row['smallest']:,}"]
        lines.append(f"| {' | '.join([*cells, *(_planned(row[f'at_{p}']) for p in percents)])} |")
    return "\n".join(lines) + "\n"


def _planned(said: dict[str, Any]) -> str:
    if "needed" in said:
        return f"- (best {said['needed']:,}; {said['seconds']} s)"
    cost = (
        f"{said['blocks']} blocks"
        if said["blocks"]
        else f"{said['work_percent']:+.2f} % ({said['macs_percent']:+.2f} %)"
    )
    return f"{said['arena']:,}, {cost}; {said['seconds']} s"


def table(rows: Sequence[dict[str, Any]], percents: Sequence[int]) -> str:
    """The rows as Markdown. MACs: searched / with retention; `-`: not found, `x`: no order of rows can."""
    head = ["model", "rows", "groups", "free order", "", "row floor", *(f"MACs at {p} %" for p in percents)]
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    for row in rows:
        saved = 100 * (row["free_peak"] - row["groups_peak"]) / row["groups_peak"]
        name = f"{row['model']}{', streamed' if row['streamed'] else ''}"
        cells = [name, row["rows"], f"{row['groups_peak']:,}", f"{row['free_peak']:,}", f"{saved:+.1f} %"]
        cells += [f"{row['least']:,}", *(_cost(row[f"at_{p}"]) for p in percents)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _cost(said: dict[str, Any]) -> str:
    if "extra_macs_percent" in said:
        alone = said["searched_percent"]
        return f"{'-' if alone is None else f'{alone:+.2f}'} / {said['extra_macs_percent']:+.2f} %"
    return "-" if said["possible"] else "x"


def main() -> None:
    names = (*ROAD, *SYNTHETIC)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=names, default=list(names))
    parser.add_argument("--percents", nargs="+", type=int, default=[95, 90, 80])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--streamed", action="store_true")
    parser.add_argument("--plans", action="store_true", help="checked plans instead")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.models:
        if options.plans:
            rows.append(plans(name, options.percents, options.streamed))
        else:
            rows.append(measure(name, options.percents, options.seconds, options.streamed))
        written = (plans_table if options.plans else table)(rows, options.percents)
        (options.out / "again.json").write_text(json.dumps(rows, indent=1) + "\n")
        (options.out / "again.md").write_text(written)
        print(written.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
