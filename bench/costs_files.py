"""Reads and writes the measured costs in generator/shoehorn_mcu/kernels/costs/, a file per core."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from shoehorn_mcu.kernels import cost

_BREAK = r"\n *"


def read() -> dict[str, Any]:
    """The table of each core, by the core's name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(cost.TABLES.glob("*.json"))}


def text(table: Mapping[str, Any]) -> str:
    """A core's table as JSON with a line per kernel; figures have three decimals."""
    said = json.dumps(_rounded(table), indent=1, sort_keys=True)
    return re.sub(r"\{\n {3,4}([^{}]*)\n {2,3}\}", lambda found: f"{{{re.sub(_BREAK, ' ', found[1])}}}", said) + "\n"


def write(cpu: str, table: Mapping[str, Any]) -> None:
    """Writes one core's table."""
    (cost.TABLES / f"{cpu}.json").write_text(text(table))


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, 3)
