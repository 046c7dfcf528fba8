"""Reads google/minimalloc's CSV: a row per buffer, columns id, lower, upper (exclusive) and size."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.planner.placement.allocate.problem import Buffer
from shoehorn_mcu_host.base.files import read_text

COLUMNS = ("id", "lower", "upper", "size")
_MOST_BYTES = 64 * 2**20  # of a file
_DIGITS = 19  # of a number; times may be long, and 2^63 has 19


def read(path: Path) -> tuple[Buffer, ...]:
    """The buffers of a file. ShoehornError: it cannot be read or is not such a table."""
    try:
        text = read_text(path, _MOST_BYTES, encoding="utf-8-sig")
    except OSError as error:
        raise ShoehornError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ShoehornError(f"{path}: not a text file in UTF-8: a CSV with columns {', '.join(COLUMNS)}") from error
    try:
        return tuple(_buffers(str(path), text))
    except csv.Error as error:
        raise ShoehornError(f"{path}: not a CSV: {error}") from error


def _buffers(name: str, text: str) -> Iterator[Buffer]:
    rows = csv.reader(text.splitlines(), strict=True)
    header = [cell.strip() for cell in next(rows, [])]
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise ShoehornError(
            f"{name}: line 1: column{'s' * (len(missing) > 1)} {', '.join(missing)} missing; "
            f"the first line must name {', '.join(COLUMNS)}"
        )
    unknown = [cell for cell in header if header.count(cell) > 1 or cell not in COLUMNS]
    if unknown:
        raise ShoehornError(
            f"{name}: line 1: column '{unknown[0][:40]}' is not one of {', '.join(COLUMNS)}, once each; leave it out"
        )
    for cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{name}: line {rows.line_num}"
        if len(cells) != len(header):
            raise ShoehornError(f"{where}: {len(cells)} fields, but line 1 names {len(header)} columns")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        if not row["id"]:
            raise ShoehornError(f"{where}: the id is empty")
        yield Buffer(row["id"], *(_number(where, column, row[column]) for column in COLUMNS[1:]))


def _number(where: str, column: str, text: str) -> int:
    if not re.fullmatch(rf"[+-]?[0-9]{{1,{_DIGITS}}}", text):
        raise ShoehornError(f"{where}: {column} '{text[:40]}' is not a whole number of up to {_DIGITS} digits")
    return int(text)
