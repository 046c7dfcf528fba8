"""How `gen firmware` and `gen plan` print a plan: its ops and blocks as tables, then its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoehorn_mcu.cli.console import GAP, is_verbose, out, print_table
from shoehorn_mcu.emit.page.picture import picture
from shoehorn_mcu.emit.page.sentence import sentence
from shoehorn_mcu.estimate.flash import Flash
from shoehorn_mcu.firmware.build import Planned
from shoehorn_mcu.firmware.several import Together
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner.memory_plan import Cascade, Status, bound_in_words
from shoehorn_mcu.schedule.op_lines import op_lines
from shoehorn_mcu.schedule.predict import ruler
from shoehorn_mcu_host.base.words import counted

MOST_OPS = 30  # lines of the table; of more ops, the slowest are shown
_SHOWN = 20
_HEAD = ("op", "kernel", "MACs", "weights", "output")
_KERNEL = 1  # the column that is cut on a narrow terminal
_LEAST = 8  # characters left of a cut name


def _print_ops(planned: Planned, title: str) -> None:
    """Prints all ops, or of very many only the slowest."""
    lines = op_lines(planned.unit.plan, planned.unit.stages)
    slowest = set(sorted(range(len(lines)), key=lambda i: -lines[i].time)[:_SHOWN])
    shown = [line for i, line in enumerate(lines) if len(lines) <= MOST_OPS or is_verbose() or i in slowest]
    cells = [(line.name, line.kernel, f"{line.macs:,}", f"{line.weight_bytes:,}", line.output) for line in shown]
    print_table(_HEAD, list(_fitting(cells, out.width)), title=title, right=(2, 3), fold=_KERNEL)
    if len(shown) < len(lines):
        share = 100 * sum(line.time for line in shown) / max(1.0, sum(line.time for line in lines))
        out.print(f"the {len(shown)} slowest of {len(lines)} ops, {share:.0f} % of the predicted time; -v lists all")


def _fitting(rows: Sequence[Sequence[str]], width: int) -> Iterator[Sequence[str]]:
    """The rows, with kernels' names cut where the table would be wider than this."""
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    room = widths[_KERNEL] - max(0, sum(widths) + GAP * (len(_HEAD) - 1) - width)
    for row in rows:
        name = row[_KERNEL]
        short = name if len(name) <= room or room < _LEAST else f"{name[: room - 1]}…"
        yield [*row[:_KERNEL], short, *row[_KERNEL + 1 :]]


def _print_blocks(cascades: Sequence[Cascade]) -> None:
    """The blocks that run in bands."""
    if cascades:
        rows = [(c.block, str(c.chunks), str(c.band)) for c in cascades]
        print_table(("block", "chunks of channels", "rows a band"), rows, right=(1, 2), fold=0)


def print_plan(planned: Planned, board: targets.Board | None) -> None:
    """Prints the tables, then arena, constants, flash and predicted time of the plan."""
    plan = planned.unit.plan
    _print_ops(planned, f"{planned.unit.name} on {board.name}" if board else planned.unit.name)
    _print_blocks(plan.cascades)
    if said := sentence(planned.unit, picture(planned.unit)):
        out.folded(said)
    outcome, whole = plan.outcome, plan.outcome.whole_tensor_bytes
    proof = bound_in_words(outcome.status is Status.OPTIMAL, outcome.bound_bytes, outcome.bound_of)
    total = plan.total_bytes
    kind = "whole tensors" if total == whole else f"by rows; whole tensors need {whole:,}"
    out.folded(f"arena {total:,} bytes ({kind}; {proof}), constants {planned.constants.bytes:,} bytes")
    if outcome.again is not None and outcome.again.of != outcome.bound_of:
        out.folded(f"lower bound {outcome.again.bound_bytes:,} bytes of {outcome.again.of}")
    figures: dict[str, Any] = dict(planned.report["plan"])  # type: ignore[call-overload]
    if "slide" in figures:
        out.folded(slide_line(figures["slide"], planned.report))
    if "memories" in figures:
        out.folded(memories_line(figures))
    flash: dict[str, int | None] = dict(planned.report["flash"])  # type: ignore[call-overload]
    _print_flash(Flash(flash["constant_bytes"] or 0, flash["code_bytes"] or 0), flash["board_bytes"])
    _print_ram(planned.report["ram"])  # type: ignore[arg-type]
    if (copied := planned.report.get("weights_in_ram")) is not None:
        out.folded(weights_line(copied))  # type: ignore[arg-type]
    recomputed, macs = figures["recomputed_macs"], figures["macs"]
    share = f", {100 * recomputed / max(1, macs - recomputed):.1f} % of the MACs recomputed" if recomputed else ""
    out.folded(f"{len(plan.steps):,} steps{share}; {plan.outcome.reason}")
    if smaller := plan.outcome.smaller:
        size, cost = smaller.arena_bytes, f"{smaller.extra_percent:.3g} % more time"
        out.folded(f"next smaller plan: {size:,} bytes for {cost} (--sram {size})")
    for line in slow_lines(planned.report):
        out.folded(line)
    if hint := planned.hints():
        out.folded(f"hint: {hint}")
    time, basis = f"{figures['predicted_instructions']:,} instructions", ruler(planned.unit.stages)
    time += f" and {figures['predicted_cycles']:,} cycles" if figures["predicted_cycles"] is not None else ""
    if plan.cores > 1:
        time += f" on the slowest of {plan.cores} cores"
    out.folded(f"predicted: {time} per inference, from the {basis}")
    if board and board.spec.run_current and (energy := planned.report.get("energy_estimate")):
        drawn: float = energy["total"]  # type: ignore[index]
        out.folded(f"estimated, not measured: {drawn:,.1f} uJ per inference, {board.spec.run_current.words}")


def slide_line(slide: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """What a model that takes new rows computes and keeps."""
    whole, macs = slide["macs_whole_window"], report["plan"]["macs"]
    rows = counted(slide["hop_rows"], "new row")
    again = slide["recomputed_tensors"]
    said = counted(again, "tensor keeps", "tensors keep")
    others = f"; {said} fewer rows than possible, the others are computed again" if again else ""
    return (
        f"each inference takes {rows} of the window's {slide['window_rows']}: {macs:,} of {whole:,} MACs "
        f"({whole / max(1, macs):.3g} x fewer), {slide['state_bytes']:,} bytes kept{others}"
    )


def memories_line(plan: Mapping[str, Any]) -> str:
    """The arenas of a plan in several memories, from its report."""
    each = (f"{m['name']} {m['arena_bytes']:,} of {m['available_bytes']:,} bytes" for m in plan["memories"])
    waits, least = plan["predicted_waits"], plan["least_waits"]
    count = len(plan["divided_tensors"])
    apart = f"; rows of {count} {'tensor is' if count == 1 else 'tensors are'} in several" if count else ""
    waiting = f"; {waits:,} cycles of waiting for them, at least {least:,} in this order of rows" if waits else ""
    return f"in the memories {', '.join(each)}{apart}{waiting}"


def weights_line(copied: Mapping[str, int]) -> str:
    """The constants that start-up copies to RAM, from the report."""
    if not copied["bytes"]:
        return "weights in RAM: none, no waits for this board's flash are known or there is no room"
    saved = f"{copied['saved_cycles']:,} cycles of waiting for the flash less per inference"
    return f"weights in RAM: {copied['bytes']:,} bytes in {copied['arrays']} arrays, {saved}"


def slow_lines(report: Mapping[str, Any]) -> Sequence[str]:
    """The sentences of a report about what is slower or larger than it looks."""
    return [f"note: {each['sentence']}" for each in report.get("slow", ())]


def print_together(found: Together) -> None:
    """Prints what each of several models takes, and the whole firmware."""
    rows = []
    for each in found.models:
        plan: dict[str, int] = dict(each.report["plan"])  # type: ignore[call-overload]
        arena, constants = f"{each.unit.plan.arena_bytes:,}", f"{each.constants.bytes:,}"
        rows.append((each.unit.name, arena, constants, f"{plan['predicted_instructions']:,}"))
    print_table(("model", "arena", "constants", "instructions"), rows, title=found.board.name, right=(1, 2, 3))
    for each in found.models:
        for line in slow_lines(each.report):
            out.say(f"{each.unit.name}: {line}")
    kind = "one for each model" if found.concurrent else "for the largest: one model runs at a time"
    out.say(f"arena {found.arena_bytes:,} bytes ({kind})")
    out.say(f"RAM about {found.ram_bytes:,} of {found.board.spec.sram_bytes:,} bytes")
    _print_flash(found.flash, found.board.spec.flash_bytes)


def _print_ram(parts: Mapping[str, int] | None) -> None:
    """The predicted RAM by parts, where there is a board."""
    if parts is None:
        return
    named = {"arena": "arena", "weights": "weights", "stack": "stack", "load": "inputs loaded", "link": "serial"}
    named["application"] = "the rest"
    each = ", ".join(f"{title} {parts[f'{key}_bytes']:,}" for key, title in named.items() if parts[f"{key}_bytes"])
    out.say(f"RAM about {parts['predicted_bytes']:,} of {parts['board_bytes']:,} bytes: {each}")


def _print_flash(estimate: Flash, limit: int | None) -> None:
    """The estimated flash, where a board or a limit is given."""
    if limit is None:
        return
    close = "; nearly full: the linker decides" if estimate.may_exceed(limit) else ""
    out.print(f"flash about {estimate.bytes:,} of {limit:,} bytes{close}")
