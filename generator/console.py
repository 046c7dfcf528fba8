"""How `gen` prints: one JSON object on stdout, or tables; progress always on stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def emit_json(value: Mapping[str, Any]) -> None:
    """The one JSON object of a `--json` run."""
    click.echo(json.dumps(value, indent=2))


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else there.")
