"""Reads files that others named or wrote: never more of them than a limit, and no device or pipe that never ends."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from shoehorn_mcu.host_tools.errors import InputError

JSON_BYTES = 256 << 20  # more than any plan or graph that can be planned for a microcontroller


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole of a regular file of at most `limit` bytes.

    Raises InputError where it is something else or larger, OSError where it cannot be read.
    """
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"{path}: {size:,} bytes are too many; at most {limit:,} are read")
    return data


def read_start(path: Path, count: int) -> bytes:
    """The first `count` bytes of a regular file, or all of a shorter one; raises as `read_bytes`."""
    with _open(path) as file:
        return file.read(count)


def _open(path: Path) -> BinaryIO:
    """The file opened for reading; InputError, without waiting, where it is no regular file."""
    if path.exists() and not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
        raise InputError(f"{path}: is no regular file")
    return path.open("rb")


def read_text(path: Path, limit: int, encoding: str = "utf-8") -> str:
    """The same as text; raises UnicodeDecodeError (a ValueError) as well."""
    return read_bytes(path, limit).decode(encoding)


def read_json(path: Path, limit: int = JSON_BYTES, encoding: str = "utf-8") -> Any:
    """The JSON value in the file; raises ValueError where it is none, or is nested too deeply to be read."""
    try:
        return json.loads(read_text(path, limit, encoding))
    except RecursionError:
        raise ValueError("nested too deeply") from None
