"""What the process of an emulator is told: one JSON text on its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.machines.console import Closed


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


def process(name: str, run: Callable[[Job], None]) -> None:
    """The process of an emulator, whose argument is a Job: runs it until the host closes the console.

    Ends with a line that begins with the emulator's name where it fails.
    """
    try:
        run(Job.of(sys.argv[1]))
    except Closed:
        return
    except (HostError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"{name}: {error}")
