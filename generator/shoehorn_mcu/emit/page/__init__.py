"""plan.html: one self-contained page that shows the arena over time; it loads nothing and works from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from shoehorn_mcu.emit.page import parts
from shoehorn_mcu.emit.page.curve import Dot, kept_rows, pareto
from shoehorn_mcu.emit.page.data import as_data
from shoehorn_mcu.emit.page.graph import drawing, items_of
from shoehorn_mcu.emit.page.picture import picture
from shoehorn_mcu.emit.page.sentence import sentence
from shoehorn_mcu.emit.templates import fill
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.schedule.predict import ruler, unit_of

START = "<!doctype html>\n<!-- Written by Shoehorn -->\n"
"""The first lines of each page; only files that begin so are overwritten."""

_HERE = Path(__file__).resolve().parent
_SCRIPTS = ("data.js", "view.js", "draw.js", "lists.js", "main.js")


def in_script(value: Mapping[str, object]) -> str:
    """JSON for use inside <script>: `<` is escaped, so no tensor name can end the element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _own(report: Mapping[str, object]) -> Dot:
    """The point of the curve that is this page's plan."""
    plan: Any = report["plan"]
    time, _ = parts.predicted(plan)
    return Dot(plan["arena_bytes"], time, *(plan[key] for key in ("steps", "macs", "recomputed_macs")))


def page(unit: Unit, report: Mapping[str, object], dots: Sequence[Dot] = ()) -> str:
    """The page as text; equal arguments give equal text.

    `report` is report.json's object, and `dots` the Pareto curve, smallest arena first.
    """
    seen, basis = picture(unit), ruler(unit.stages)
    board = report["board"]
    plan: Any = report["plan"]
    where = f"{unit.name} on {board['id']}" if isinstance(board, Mapping) else unit.name
    values = {
        "TITLE": escape(where),
        "SENTENCE": parts.paragraph(sentence(unit, seen)),
        "FIGURES": parts.figures(report),
        "OPS": parts.ops(unit),
        "GRAPH": drawing(items_of(unit.graph), len(unit.graph.ops)),
        "FACTS": parts.facts(report, seen, basis),
        "PASSES": parts.passes(report),
        "PARETO": pareto(dots, _own(report), basis, unit_of(unit.stages).value) if dots else "",
        "KEPT": kept_rows(plan["slide"], plan["macs"]) if "slide" in plan else "",
        "STYLE": (_HERE / "page.css").read_text(),
        "DATA": in_script(as_data(unit, seen)),
        "SCRIPT": "\n".join((_HERE / name).read_text() for name in _SCRIPTS),
    }
    return START + fill(_HERE / "page.html", values).decode()


def plain_page(title: str, what: str, body: str) -> str:
    """A page without a script: a heading, and this HTML below it."""
    head, style = f"{escape(title)} <small>{escape(what)}</small>", (_HERE / "page.css").read_text()
    values = {"TITLE": escape(title), "STYLE": style, "HEAD": head, "BODY": body}
    return START + fill(_HERE / "plain.html", values).decode()
