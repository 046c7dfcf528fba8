"""sweep.html: per board time against SRAM, which model runs where, and all rows; one file that loads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import shoehorn_mcu.emit.page
from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.emit.page import START, in_script
from shoehorn_mcu.emit.page.parts import figure_list, paragraph
from shoehorn_mcu.emit.templates import fill
from shoehorn_mcu.sweeps.axes import DONE, Status
from shoehorn_mcu.sweeps.rows import TIMES
from shoehorn_mcu_host.base.words import counted

_HERE = Path(__file__).resolve().parent
_count = partial(counted, form=",")
_FURTHEST = {status: number for number, status in enumerate(DONE)}

Rows = Sequence[Mapping[str, Any]]


def page(rows: Rows, title: str) -> str:
    """The page as text; equal rows give equal text, in whatever order they come."""
    ordered = sorted(rows, key=lambda row: (row["model"], row["board"], row["options"], row["model_path"]))
    models = list(dict.fromkeys(row["model"] for row in ordered))
    boards = list(dict.fromkeys(row["board"] for row in ordered))
    values = {
        "TITLE": escape(title),
        "STYLE": (Path(shoehorn_mcu.emit.page.__file__).parent / "page.css").read_text()
        + (_HERE / "sweep.css").read_text(),
        "SENTENCE": paragraph(_sentence(ordered, len(models), len(boards))),
        "FIGURES": figure_list(_figures(ordered)),
        "MATRIX": _matrix(ordered, models, boards),
        "DATA": in_script(_data(ordered, models, boards)),
        "SCRIPT": (_HERE / "sweep.js").read_text(),
    }
    return START + fill(_HERE / "sweep.html", values).decode()


def _sentence(rows: Rows, models: int, boards: int) -> str:
    told = f"{_count(len(rows), 'combination')} of {_count(models, 'model')} and {_count(boards, 'board')}"
    checked = [row for row in rows if row["vectors"] is not None]
    wrong = sum(bool(row["mismatched_vectors"]) for row in checked)
    if wrong:
        told += f"; {_count(wrong, 'firmware')} did not compute the reference's bytes"
    elif checked:
        told += f"; {_count(len(checked), 'row')} of firmware that computed every byte of every op as the reference"
    return told


def _figures(rows: Rows) -> Iterator[tuple[str, str, str]]:
    count = Counter(row["status"] for row in rows)
    done = sum(count[status] for status in DONE)
    yield "Done", f"{done:,}", ", ".join(f"{count[each]:,} {each}" for each in DONE if count[each])
    why = Counter(row["kind"] for row in rows if row["status"] == Status.REFUSED)
    reasons = ", ".join(f"{number:,} {kind}" for kind, number in why.most_common(3))
    yield "Refused", f"{count[Status.REFUSED]:,}", reasons
    others = len(rows) - done - count[Status.REFUSED]
    note = ", ".join(f"{count[each]:,} {each}" for each in sorted(count) if each not in (*DONE, Status.REFUSED))
    yield "Failed or open", f"{others:,}", note
    plans = sum(not row["plan_shared"] for row in rows)
    proofs = sum(not row["proof_shared"] and row["build_seconds"] is not None for row in rows)
    yield (
        "Work",
        f"{_count(plans, 'plan')}",
        f"{_count(proofs, 'build')} for {_count(len(rows), 'row')}",
    )


def _matrix(rows: Rows, models: Sequence[str], boards: Sequence[str]) -> str:
    """A table model x board: the smallest arena that runs there, or why there is none."""
    cells = by_key(((row["model"], row["board"]), row) for row in rows)
    head = "<th></th>" + "".join(f"<th scope=col>{escape(Path(board).stem)}</th>" for board in boards)
    body = "".join(
        f"<tr><th scope=row>{escape(model)}</th>"
        + "".join(_cell(cells.get((model, board), [])) for board in boards)
        + "</tr>"
        for model in models
    )
    return f"<table class=matrix><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(rows: Rows) -> str:
    if not rows:
        return "<td></td>"
    if any(row["status"] == Status.MISMATCH for row in rows):
        return '<td class=bad title="bytes differ from the reference">differs</td>'
    done = [row for row in rows if row["status"] in _FURTHEST]
    if done:
        best = max(done, key=lambda row: (_FURTHEST[row["status"]], -(row["arena_bytes"] or 0)))
        note = f"{best['status']}, {best['options'] or 'no options'}; {len(done)} of {len(rows)} combinations"
        mark = " *" if best["proven_optimal"] else ""
        text = f"{best['arena_bytes']:,}{mark}"
        return f'<td class="{best["status"]}" title="{escape(note)}">{text}</td>'
    row = rows[0]
    kind = "refused" if row["status"] == Status.REFUSED else "open"
    return f'<td class={kind} title="{escape(row["message"] or "")}">{escape(row["kind"] or row["status"])}</td>'


_COLUMNS = (
    *("model", "board", "options", "status", "arena_bytes", "time", "ram_bytes", "flash_bytes", "stack_bytes"),
    *("constant_bytes", "vectors", "mismatched_vectors", "kind", "message", "page"),
)


def _data(rows: Rows, models: Sequence[str], boards: Sequence[str]) -> Mapping[str, Any]:
    """What the script shows: names once, and a list of values for each row."""
    model_of = {name: number for number, name in enumerate(models)}
    board_of = {name: number for number, name in enumerate(boards)}
    units = {board: _unit([row for row in rows if row["board"] == board]) for board in boards}

    def values(row: Mapping[str, Any]) -> list[Any]:
        key, _ = units[row["board"]]
        found = {**row, "model": model_of[row["model"]], "board": board_of[row["board"]], "time": row[key]}
        return [found[name] for name in _COLUMNS]

    return {
        "models": list(models),
        "boards": [Path(board).stem for board in boards],
        "units": [units[board][1] for board in boards],
        "columns": _COLUMNS,
        "rows": [values(row) for row in rows],
    }


def _unit(rows: Rows) -> tuple[str, str]:
    """The column of time that a board's rows are compared by, and its unit: the best that most of them have."""
    done = [row for row in rows if row["status"] in _FURTHEST]
    measured = next((str(row["time_unit"]) for row in done if row["time_unit"]), "")
    most = (name for name in TIMES if done and sum(row[name] is not None for row in done) > len(done) / 2)
    chosen = next(most, tuple(TIMES)[-1])
    return chosen, TIMES[chosen] or measured
