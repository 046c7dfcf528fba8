"""The environment of every process that Shoehorn starts: none takes Python modules from the current directory.

Models are planned where they were downloaded to. `python -m` and `python -c` take modules from there before those that
are installed, so a file `torch.py` or `dis.py` beside a model would be run. tests/test_children.py finds calls without
this environment.
"""

from __future__ import annotations

import os

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""What Python, in a child process and in all that this one starts, wants to be told for that."""


def environment(**more: str) -> dict[str, str]:
    """This process's environment for a child, with what `more` adds to it."""
    return {**os.environ, **more, **SAFE_PATH}
