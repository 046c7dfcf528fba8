"""The environment of every process that Shoehorn starts: none takes Python modules from the current directory.

Models are planned where they were downloaded to. `python -m` and `python -c` take modules from there before those that
are installed, so a file `torch.py` or `dis.py` beside a model would be run. tests/test_children.py finds calls without
this environment.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""What Python, in a child process and in all that this one starts, wants to be told for that."""


def environment(**more: str) -> dict[str, str]:
    """This process's environment for a child, with what `more` adds to it."""
    return {**os.environ, **more, **SAFE_PATH}


def heard(
    command: Sequence[str], seconds: float, folder: Path | str | None = None, check: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """A child process that has ended, with its words; `more` is added to its environment.

    Raises OSError where it cannot be started, TimeoutExpired after so many seconds, with `check` CalledProcessError.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        cwd=folder,
        env=environment(**more),
        check=check,
    )
