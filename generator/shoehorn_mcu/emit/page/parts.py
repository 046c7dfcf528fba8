"""The parts of the page without a script: figures, the table of ops, and passes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from shoehorn_mcu.emit.page.picture import Picture
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.planner.memory_plan import bound_in_words
from shoehorn_mcu.schedule.op_lines import op_lines
from shoehorn_mcu.schedule.predict import unit_of
from shoehorn_mcu_host.base.words import counted

_SLOW = {
    "float32": "In float32",
    "float32-others": "Other ops in float32",
    "wide-weights": "Weights of two bytes",
    "portable-c": "Portable C",
}
"""Titles, by the kind of what is slow."""
_NAME = 44  # characters of a name in a drawing
_WIDE = 72  # in the table of operators


def figures(report: Mapping[str, Any]) -> str:
    """The three figures that come first: arena, SRAM left, time; each with a line that explains it."""
    board, plan = report["board"], report["plan"]
    arena = plan["arena_bytes"]
    total = sum(memory["arena_bytes"] for memory in plan["memories"]) if "memories" in plan else arena
    whole = f"{plan['whole_tensor_bytes']:,} bytes with whole tensors"
    if board is None:
        left, note = "-", "no board given; --board says how much is left"
    else:
        left = f"{board['arena_limit_bytes'] - arena:,} bytes"
        note = f"of {board['arena_limit_bytes']:,} that {board['id']} has for arenas"
    time, unit = predicted(plan)
    rows = (
        ("Arena", f"{total:,} bytes", whole),
        ("SRAM left", left, note),
        ("Time", _millions(time), f"predicted {unit} per inference"),
    )
    return figure_list(rows)


def figure_list(rows: Iterable[tuple[str, str, str]]) -> str:
    """Figures in large type, as <dt> and <dd>: name, text, and the line below it."""
    return "".join(
        f"<div><dt>{name}</dt><dd>{prose(text)}</dd><dd class=note>{prose(note)}</dd></div>"
        for name, text, note in rows
    )


def paragraph(text: str) -> str:
    """A sentence at the top of the page."""
    return f"<p class=lead>{prose(text[:1].upper() + text[1:])}.</p>" if text else ""


def prose(text: str) -> str:
    """The text as HTML. The name of an option stays on one line, which a browser would break at its hyphens."""
    return re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"<span class=option>\g<0></span>", escape(text))


def predicted(plan: Mapping[str, Any]) -> tuple[int, str]:
    """The predicted time of a plan, and its unit: cycles where they are predicted."""
    cycles = plan["predicted_cycles"]
    return (plan["predicted_instructions"], "instructions") if cycles is None else (cycles, "cycles")


def _millions(count: int) -> str:
    return f"{count / 1e6:,.2f} million" if count >= 1_000_000 else f"{count:,}"


def facts(report: Mapping[str, Any], seen: Picture, basis: str) -> str:
    """The other figures, as <dt> and <dd>; `basis` says how the time was predicted."""
    model, board, plan = report["model"], report["board"], report["plan"]
    machine = f"{board['id']}, {board['cpu']}, {board['sram_bytes']:,} bytes of SRAM" if board else "none"
    rows = {
        "Model": f"{model['name']}, {model['ops']} operators, {model['weight_bytes']:,} bytes of weights",
        "Board": machine,
        "Flash": _flash(report["flash"]),
        **({"RAM": _ram(report["ram"])} if report.get("ram") else {}),
        **({"Weights in RAM": _weights(report["weights_in_ram"])} if "weights_in_ram" in report else {}),
        **({"Memories": _memories(plan)} if "memories" in plan else {}),
        **({"New rows only": _slide(plan["slide"], plan["macs"])} if "slide" in plan else {}),
        "Lower bound of the arena": _bound(plan),
        "Next smaller plan": _smaller(plan["smaller"]),
        "Most bytes live at once": f"{seen.peak_bytes:,}",
        "MACs": f"{plan['macs']:,}; {_recomputed(plan['macs'], plan['recomputed_macs'])}",
        "Steps": f"{plan['steps']:,}, over {seen.events:,} rows",
        **{_SLOW[each["kind"]]: each["sentence"] for each in report.get("slow", ())},
        "End of the search": plan["reason"],
        "Time predicted from": basis,
    }
    return "".join(f"<div><dt>{name}</dt><dd>{prose(text)}</dd></div>" for name, text in rows.items())


def _slide(slide: Mapping[str, Any], macs: int) -> str:
    """What a step takes of the window."""
    return (
        f"{slide['hop_rows']} of {slide['window_rows']} rows in each inference: {macs:,} of "
        f"{slide['macs_whole_window']:,} MACs, {slide['state_bytes']:,} bytes kept"
    )


def _flash(flash: Mapping[str, Any]) -> str:
    total = flash["constant_bytes"] + flash["code_bytes"]
    limit = f" of {flash['board_bytes']:,}" if flash["board_bytes"] else ""
    return f"about {total:,}{limit} bytes: {flash['constant_bytes']:,} of constants, the rest code (estimated)"


def _ram(parts: Mapping[str, Any]) -> str:
    stack, rest = parts["stack_bytes"], parts["link_bytes"] + parts["application_bytes"]
    load = f", {parts['load_bytes']:,} to load inputs into" if parts["load_bytes"] else ""
    load += f", {parts['weights_bytes']:,} of weights" if parts["weights_bytes"] else ""
    return (
        f"about {parts['predicted_bytes']:,} of {parts['board_bytes']:,} bytes: {parts['arena_bytes']:,} of arena, "
        f"{stack:,} of stack{load}, {rest:,} of the application and its serial link"
    )


def _memories(plan: Mapping[str, Any]) -> str:
    """The arena in each memory, from the bottom of the picture to its top."""
    each = (f"{m['name']} {m['arena_bytes']:,} of {m['available_bytes']:,} bytes" for m in plan["memories"])
    divided = f"; tensors with rows in several: {len(plan['divided_tensors'])}" if plan["divided_tensors"] else ""
    return (
        f"{', '.join(each)}{divided}; {plan['predicted_waits']:,} cycles of waiting (at least {plan['least_waits']:,})"
    )


def _weights(copied: Mapping[str, int]) -> str:
    saved = f"{copied['saved_cycles']:,} cycles of waiting for the flash less per inference (not in the time above)"
    return f"{copied['bytes']:,} bytes in {copied['arrays']} arrays, copied at start-up; {saved}"


def _bound(plan: Mapping[str, Any]) -> str:
    said = bound_in_words(plan["proven_optimal"], plan["arena_bound_bytes"], plan["arena_bound_of"])
    again = plan.get("again")
    more = f"; {again['bound_bytes']:,} of {again['of']}" if again and again["of"] != plan["arena_bound_of"] else ""
    return (f"{plan['arena_bytes']:,} bytes are {said}" if plan["proven_optimal"] else said) + more


def _smaller(smaller: Mapping[str, Any] | None) -> str:
    if smaller is None:
        return "not looked for"
    return f"{smaller['arena_bytes']:,} bytes, {smaller['extra_percent']:.3g} % more time"


def _recomputed(macs: int, recomputed: int) -> str:
    """The recomputed MACs in words; `macs` includes them."""
    return f"{recomputed:,} recomputed ({100 * recomputed / (macs - recomputed):.1f} %)" if recomputed else "none twice"


def middle(name: str, length: int = _NAME) -> str:
    """A long name without its middle: tensors differ at the ends of the names that converters give them."""
    if len(name) <= length:
        return name
    tail = (length - 1) // 2
    return f"{name[: length - 1 - tail]}…{name[-tail:]}"


def ops(unit: Unit) -> str:
    """A line for each op: work, constants, predicted time and kernel."""
    lines = op_lines(unit.plan, unit.stages)
    total = max(1.0, sum(line.time for line in lines))
    cells = (
        (
            middle(line.name, _WIDE),
            line.kernel,
            line.output,
            f"{line.macs:,}",
            f"{line.weight_bytes:,}",
            f"{line.time:,.0f}",
            f"{100 * line.time / total:.1f}",
        )
        for line in lines
    )
    head = ("Operator", "Kernel", "Output", "MACs", "Weights, bytes", unit_of(unit.stages).value.capitalize(), "%")
    return table(head, cells, words=3, bars=True)


def table(head: Sequence[str], lines: Iterable[Sequence[str]], words: int = 1, bars: bool = False) -> str:
    """A <table>; all but its first `words` columns are figures. With `bars` the last one has bars."""
    lines = list(lines)
    most = max((float(line[-1]) for line in lines), default=0.0) if bars else 0.0

    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(cell(tag, cells, i) for i in range(len(cells))) + "</tr>"

    def cell(tag: str, cells: Sequence[str], i: int) -> str:
        kind = " class=word" if i < words else ""
        if bars and tag == "td" and i == len(cells) - 1:
            kind = f' style="--share:{float(cells[i]) / (most or 1):.3f}"'
        return f"<{tag}{kind}>{escape(cells[i])}</{tag}>"

    body = "".join(row("td", line) for line in lines)
    return f"<table><thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"


def passes(report: Mapping[str, Any]) -> str:
    """How the passes changed operators and MACs; those that changed neither are folded."""
    head = ("Pass", "Operators before", "after", "MACs before", "after")
    keys = ("ops_before", "ops_after", "macs_before", "macs_after")
    changed = [
        p for p in report["passes"] if any(p[f"{what}_before"] != p[f"{what}_after"] for what in ("ops", "macs"))
    ]
    others = [p["name"] for p in report["passes"] if p not in changed]
    shown = table(head, [(p["name"], *(f"{p[key]:,}" for key in keys)) for p in changed]) if changed else ""
    if not others:
        return shown
    title = f"{counted(len(others), 'pass', 'passes')} left the numbers of operators and MACs as they were"
    return f"{shown}<details><summary>{title}</summary>{escape(', '.join(others))}</details>"
