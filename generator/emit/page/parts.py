"""The page's parts that need no script: facts and passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from shoehorn_mcu.emit.page.picture import Picture


def facts(report: Mapping[str, Any], seen: Picture, basis: str) -> str:
    """The figures at the top, as <dt> and <dd>; `basis` is what the predicted time rests on."""
    model, board, plan = report["model"], report["board"], report["plan"]
    kind = "with whole tensors" if plan["arena_bytes"] == plan["whole_tensor_bytes"] else "of the space searched"
    proof = f"equal to the bound: no plan {kind} is smaller" if plan["proven_optimal"] else "not proven"
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
        "MACs": f"{plan['macs']:,}; {_again(plan['macs'], plan['recomputed_macs'])}",
        "Steps": f"{plan['steps']:,}, over {seen.events:,} rows",
        "The search ended": plan["reason"],
        "Predicted": f"{plan['predicted_instructions']:,} instructions per inference",
        "Predicted from": basis,
    }
    return "".join(f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in rows.items())


def _again(macs: int, recomputed: int) -> str:
    """The MACs computed again, in words; `macs` includes them."""
    return (
        f"{recomputed:,} computed again ({100 * recomputed / (macs - recomputed):.1f} %)"
        if recomputed
        else "none twice"
    )


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A <table>; all but its first column are figures."""

    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", line) for line in lines)
    return f"<table><thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"


def passes(report: Mapping[str, Any]) -> str:
    """What each pass did to operators and MACs."""
    head = ("Pass", "Operators before", "after", "MACs before", "after")
    keys = ("ops_before", "ops_after", "macs_before", "macs_after")
    return table(head, [(p["name"], *(f"{p[key]:,}" for key in keys)) for p in report["passes"]])
