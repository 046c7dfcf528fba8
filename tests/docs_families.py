"""docs/families.md, what each family of chips asks of a manifest, and the table of families in docs/boards.md.

    python -m tests.docs_families [--write]

Both are made from firmware_templates/families. Without --write it prints the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from shoehorn_mcu.machine.families import Chip, Family, families, meanings

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, BOARDS = DOCS / "families.md", DOCS / "boards.md"
_HEAD = """# What each family of chips asks of a manifest

<!-- Made by `python -m tests.docs_families --write` from firmware_templates/families; do not edit. -->

[A board of your own](boards.md#a-board-of-your-own) has the keys of a manifest. Here is, for each family, what
`build.mcu` may begin with, the core's clock and the `defines`. All `defines` of a family are needed, and no others are
known. A manifest that misses one, or that has an impossible one, is refused in a line that names the file, the key and
the limit.

A clock is what the family's start-up code makes; where it says *at most*, the manifest's own figures decide, up to this
limit of the data sheet.
"""
_TABLE = "| family | chips | core clock | console, 115,200 baud | on a bare core |\n|---|---|---|---|---|\n"
_OF_TABLE = re.compile(rf"{re.escape(_TABLE)}(?:\|.*\n)*")


def _hertz(hz: int) -> str:
    return f"{hz / 1e9:g} GHz" if hz >= 1e9 else f"{hz / 1e6:g} MHz"


def _clock(chip: Chip) -> str:
    if chip.core_hz:
        return _hertz(chip.core_hz)
    return f"{_hertz(chip.most_hz)} at most" if chip.most_hz else ""


def _clocks(chips: Mapping[str, Chip]) -> str:
    """The clocks of all chips of a family: those with equal ones together."""
    by_clock = sorted(chips.items(), key=lambda each: _clock(each[1]))
    groups = [(clock, [name for name, _ in each]) for clock, each in groupby(by_clock, lambda each: _clock(each[1]))]
    if len(groups) == 1:
        return groups[0][0] or "not known"
    return "; ".join(f"{clock} on {', '.join(names)}" for clock, names in groups)


def table() -> str:
    """The families in a table."""
    rows = [
        f"| [`{name}`](families.md#{name}) | {', '.join(f'`{chip}`' for chip in family.chips)} "
        f"| {_clocks(family.chips)} | {family.console} | {'yes' if family.stub else ''} |\n"
        for name, family in families().items()
    ]
    return _TABLE + "".join(rows)


def _chips(family: Family) -> Iterator[str]:
    """The chips of a family, with the columns that any of them has something in."""
    head: Mapping[str, list[str]] = {
        "core clock": [_clock(chip) for chip in family.chips.values()],
        "APB1, APB2 at most": [
            f"{_hertz(chip.apb1_hz)}, {_hertz(chip.apb2_hz)}" if chip.apb1_hz and chip.apb2_hz else ""
            for chip in family.chips.values()
        ],
        "UARTs": [", ".join(family.uarts if chip.uarts is None else chip.uarts) for chip in family.chips.values()],
        "ports": [", ".join(chip.ports) for chip in family.chips.values()],
    }
    columns = {title: cells for title, cells in head.items() if any(cells)}
    yield "| " + " | ".join(["`build.mcu`", *columns]) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for at, name in enumerate(family.chips):
        yield "| " + " | ".join([f"`{name}`...", *(cells[at] for cells in columns.values())]) + " |"


def _defines(family: Family) -> Iterator[str]:
    yield "| define | is | unit | value |"
    yield "|---|---|---|---|"
    for name, (least, most) in family.defines.items():
        meaning = meanings()[name]
        narrower = {chip: row.defines[name] for chip, row in family.chips.items() if name in row.defines}
        on = "".join(f"; {meaning.limits(*limits)} on `{chip}`" for chip, limits in narrower.items())
        unit = "" if meaning.unit in ("bits", "number") else meaning.unit
        yield f"| `{name}` | {meaning.means} | {unit} | {meaning.limits(least, most)}{on} |"


def _uarts(family: Family) -> Iterator[str]:
    """The defines that belong to each UART, where more than its address does."""
    names = list(dict.fromkeys(define for row in family.uarts.values() for define in row))
    if len(names) > 1:
        yield "\nThese belong together:\n"
        yield "| UART | " + " | ".join(f"`{name}`" for name in names) + " |"
        yield "|---" * (len(names) + 1) + "|"
        for uart, row in family.uarts.items():
            yield f"| {uart} | " + " | ".join(meanings()[name].shown(row[name]) for name in names) + " |"


def _mark(family: Family) -> Iterator[str]:
    """What the manifest's `mark` needs."""
    if family.mark is not None and family.mark.defines:
        yield "\nThe `defines` of `mark`:\n"
        yield "| define | is | unit | value |"
        yield "|---|---|---|---|"
        for name, limits in family.mark.defines.items():
            meaning = meanings()[name]
            yield f"| `{name}` | {meaning.means} | {meaning.unit} | {meaning.limits(*limits)} |"


def page() -> str:
    """The page as text."""
    lines = [_HEAD.rstrip()]
    for name, family in families().items():
        timer = f"counts at {_hertz(family.tick_hz)}" if family.tick_hz else "counts the core's clock"
        cores = " or ".join(f"`{cpu}`" for cpu in family.cpus)
        lines += [f"\n## {name}\n", f"`cpu` is {cores}. The console is {family.console}. The timer {timer}.\n"]
        lines += [*_chips(family), ""]
        lines += [*_defines(family), *_uarts(family)] if family.defines else ["It needs no `defines`."]
        lines += _mark(family)
    return "\n".join(lines) + "\n"


def boards(text: str) -> str:
    """The page of boards with its table of families anew."""
    return _OF_TABLE.sub(lambda _: table(), text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        BOARDS.write_text(boards(BOARDS.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(page())
