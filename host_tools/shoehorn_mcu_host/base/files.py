"""Reads untrusted files, devices and pipes, and never more than a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shoehorn_mcu_host.base.errors import InputError

JSON_BYTES = 256 << 20  # larger than any plan or graph for a microcontroller
_PIECE = 1 << 20


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole of a file of at most `limit` bytes.

    Raises InputError where it is larger, OSError where it cannot be read.
    """
    data = read_start(path, limit + 1)
    if len(data) > limit:
        raise InputError(f"{path}: larger than {limit >> 20} MB, the limit")
    return data


def read_start(path: Path, count: int) -> bytes:
    """The first `count` bytes of a file, or all of a shorter one; raises OSError."""
    data = bytearray()
    with path.open("rb") as file:
        while part := file.read(min(_PIECE, count - len(data))):  # read() allocates the whole size that it is asked for
            data += part
    return bytes(data)


def read_text(path: Path, limit: int, encoding: str = "utf-8") -> str:
    """`read_bytes` as text; raises UnicodeDecodeError (a ValueError) as well."""
    return read_bytes(path, limit).decode(encoding)


def read_json(path: Path, limit: int = JSON_BYTES, encoding: str = "utf-8") -> Any:
    """The JSON value in the file; raises ValueError where it is not JSON or is nested too deeply."""
    try:
        return json.loads(read_text(path, limit, encoding))
    except RecursionError:
        raise ValueError("nested too deeply") from None
