"""What a sweep keeps beside its rows, so that nothing is computed twice: plans and proofs by content, pages, scratch.

Everything is below `DIR/cache` and `DIR/pages` and is written at once or not at all. Several processes and machines may
share the folder. A lock is of the system and ends with its process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from shoehorn_mcu_host.base import system

_number = count()


@dataclass(frozen=True)
class Store:
    """The folders of a sweep."""

    folder: Path

    @property
    def _cache(self) -> Path:
        return self.folder / "cache"

    def known(self, kind: str, key: str) -> Mapping[str, Any] | None:
        """What was kept; None where nothing was, or where its file is damaged."""
        try:
            found = json.loads((self._cache / kind / f"{key}.json").read_text())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def keep(self, kind: str, key: str, value: Mapping[str, Any]) -> None:
        """Keeps JSON values. Raises OSError."""
        write(self._cache / kind / f"{key}.json", json.dumps(value).encode())

    def page(self, digest: str, text: str) -> str:
        """Keeps a plan's page; its place below the sweep's folder. Raises OSError."""
        place = f"pages/{digest[:24]}.html"
        if not (self.folder / place).is_file():
            write(self.folder / place, text.encode())
        return place

    @contextlib.contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Waits while another process works at the same thing."""
        place = self._cache / "locks"
        place.mkdir(parents=True, exist_ok=True)
        with system.locked(place / key[:32]):
            yield

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder that does not exist yet, removed at the end, or by the next run if this process is killed."""
        place = self._cache / "scratch"
        place.mkdir(parents=True, exist_ok=True)
        name = f"{socket.gethostname()[:40]}-{os.getpid()}-{next(_number)}"
        lock = place / f"{name}.lock"
        with system.locked(lock):
            try:
                yield place / name
            finally:
                shutil.rmtree(place / name, ignore_errors=True)
                lock.unlink(missing_ok=True)

    def tidy(self) -> int:
        """Removes the scratch of processes that have ended; returns how many there were."""
        removed = 0
        for lock in (self._cache / "scratch").glob("*.lock"):
            with contextlib.suppress(OSError), system.locked_now(lock) as free:
                if free:
                    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                    lock.unlink(missing_ok=True)
                    removed += 1
        return removed


def write(path: Path, data: bytes, *, synced: bool = False) -> None:
    """Writes a file; a reader sees all of it or nothing. `synced`: it is on the disk then. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
