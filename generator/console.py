"""How `gen` prints: one JSON object on stdout, or tables; progress always on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console

# A terminal has its own width; what goes to a file or a log is not folded at rich's default of 80.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True, highlight=False)


def emit_json(value: Mapping[str, Any]) -> None:
    """The one JSON object of a `--json` run."""
    click.echo(json.dumps(value, indent=2))


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else there.")
