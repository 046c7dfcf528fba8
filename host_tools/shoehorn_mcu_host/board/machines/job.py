"""What the process of an emulator is told: one JSON text on its command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """An image to run, and the listening socket that becomes the console."""

    elf: str
    image: str  # the file that is flashed
    family: str
    socket: int  # file descriptor
    cpu: str
    memories: Sequence[Sequence[int]]  # origin, bytes, 1 where the firmware may write
    stub: Any  # the object of stub.json, or None
    counted: bool  # its clock counts

    @property
    def path(self) -> Path:
        return Path(self.elf)

    def text(self) -> str:
        """The argument."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Job:
        """The job of an argument."""
        return cls(**json.loads(text))
