"""Reads recordings in CSV files: time, current and marks, each in a column that the header names."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shoehorn_mcu_host.base.errors import InputError, one_line
from shoehorn_mcu_host.base.files import read_text
from shoehorn_mcu_host.energy.recording import MARK, Recording

_LIMIT = 2 << 30  # bytes of a file
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_AMPS = {"a": 1.0, "ma": 1e-3, "ua": 1e-6, "µa": 1e-6, "na": 1e-9}
_VOLTS = {"v": 1.0, "mv": 1e-3}
_KINDS: Mapping[str, tuple[Collection[str], Mapping[str, float]]] = {
    "time": (("time", "timestamp", "t"), _SECONDS),
    "current": (("current", "i"), _AMPS),
    "voltage": (("voltage", "u"), _VOLTS),
}
_MARKS = (MARK, "marker", "gpio", "d0")  # the first of these that there is has the board's pin
_UNIT = re.compile(r"(?P<name>.*?)(?:\s*[(\[]\s*(?P<in>[^)\]]+?)\s*[)\]]|[\s_](?P<after>[a-zµ]{1,2}))?")


@dataclass(frozen=True)
class _Column:
    at: int
    factor: float = 1.0


def read(path: Path, volts: float | None, others: Collection[str] = ()) -> Recording:
    """The recording in a file; `others` are further columns with marks. InputError names the line that is wrong.

    `volts` is the voltage of the supply, where no column has it.
    """
    try:
        text = read_text(path, _LIMIT)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: not a text file") from error
    rows = ((at, line) for at, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#"))
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: is empty")
    delimiter = max((",", ";", "\t"), key=first[1].count)
    (head,) = csv.reader([first[1]], delimiter=delimiter)
    columns, marks = _columns(path, [cell.strip() for cell in head], others)
    if volts is None and "voltage" not in columns:
        raise InputError(f"{path}: has no column for the voltage; give it with --voltage")
    return _values(path, rows, columns, marks, volts, delimiter)


def _columns(
    path: Path, head: Sequence[str], others: Collection[str]
) -> tuple[Mapping[str, _Column], Mapping[str, int]]:
    """The columns of numbers by what they are, and the columns of marks by name."""
    example = "such as: time_s,current_ua,mark"
    if all(_number(cell) is not None for cell in head):
        raise InputError(f"{path}: has no header, its first line has only numbers; name the columns, {example}")
    found: dict[str, _Column] = {}
    for at, cell in enumerate(head):
        parts = _UNIT.fullmatch(cell.lower())
        name, unit = (parts["name"].strip(" _"), parts["in"] or parts["after"] or "") if parts else ("", "")
        kind = next((kind for kind, (names, _) in _KINDS.items() if name in names), None)
        if kind is None or kind in found:
            continue
        units = _KINDS[kind][1]
        if unit not in units:
            known = ", ".join(each for each in units if each.isascii())
            raise InputError(f"{path}: column {one_line(cell)} needs its unit, one of {known}, {example}")
        found[kind] = _Column(at, units[unit])
    for kind in ("time", "current"):
        if kind not in found:
            raise InputError(f"{path}: no column is the {kind}; the header has {one_line(', '.join(head))}, {example}")
    lower = [cell.lower() for cell in head]
    pin = next((name for name in _MARKS if name in lower), None)
    marks = {MARK: lower.index(pin)} if pin else {}
    marks |= {name: head.index(name) for name in others if name in head}
    if not marks:
        raise InputError(
            f"{path}: no column is a mark; the header has {one_line(', '.join(head))}, but none of {', '.join(_MARKS)}"
        )
    return found, marks


def _values(
    path: Path,
    rows: Iterator[tuple[int, str]],
    columns: Mapping[str, _Column],
    marks: Mapping[str, int],
    volts: float | None,
    delimiter: str,
) -> Recording:
    """The samples of all lines behind the header."""
    numbers: dict[str, list[float]] = {kind: [] for kind in columns}
    levels: dict[str, list[bool]] = {name: [] for name in marks}
    width = 1 + max([each.at for each in columns.values()] + [*marks.values()])
    decimal = delimiter == ";"
    for at, line in rows:
        (cells,) = csv.reader([line], delimiter=delimiter)
        if len(cells) < width:
            raise InputError(f"{path}: line {at} has {len(cells)} of {width} columns; is the file cut off?")
        if not cells[columns["current"].at].strip():
            continue  # a sample that the instrument lost
        for kind, column in columns.items():
            cell = cells[column.at].strip()
            value = _number(cell.replace(",", ".") if decimal else cell)
            if value is None:
                why = "the instrument's range overflowed, or it is no number" if kind == "current" else "no number"
                raise InputError(f"{path}: line {at}: {kind} {one_line(cell)} is refused: {why}; record it again")
            numbers[kind].append(value * column.factor)
        for name, place in marks.items():
            level = _number(cells[place].strip())
            if level is None:
                raise InputError(f"{path}: line {at}: mark {one_line(cells[place])} is neither 0 nor 1")
            levels[name].append(level > 0.5)
        times = numbers["time"]
        if len(times) > 1 and times[-1] <= times[-2]:
            raise InputError(f"{path}: line {at}: time does not grow; lines must be in the order of time")
    supply = np.array(numbers["voltage"] if "voltage" in columns else [volts or 0.0])
    marked = {name: np.array(each, np.bool_) for name, each in levels.items()}
    return Recording(str(path), np.array(numbers["time"]), np.array(numbers["current"]), supply, marked)


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float({"true": "1", "false": "0"}.get(text.lower(), text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
