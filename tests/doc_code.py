"""The C examples of README.md and docs/, so that tests can compile and run them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def c_blocks(page: str) -> list[str]:
    """The C blocks of a page, in order; `page` is its path from the root of the tree."""
    return re.findall(r"^```c\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
