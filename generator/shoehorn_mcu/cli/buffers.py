"""`gen pack`: reads a list of buffers with live ranges, computes and checks offsets, prints them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.cli.console import Options, emit_json, err, json_option, out, print_table
from shoehorn_mcu.planner.placement import allocate as allocation
from shoehorn_mcu.planner.placement.allocate import csv_file

_SHOWN = 40  # buffers in the table; --json has all


class NoPlacement(ShoehornError):
    """No offsets within the capacity: either there are provably none, or the search found none."""

    kind = "does-not-fit"

    def __init__(self, message: str, needed_bytes: int, report: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.answer = report

    @property
    def facts(self) -> Mapping[str, object]:
        return {"needed_bytes": self.needed_bytes, "available_bytes": self.answer["capacity"]}


def capacity_option(old: bool) -> Options:
    """The option of `gen pack`; `old`: for `gen plan --buffers`, hidden from its help."""
    return click.option(
        "--capacity",
        type=click.IntRange(min=0),
        metavar="BYTES",
        hidden=old,
        help="Memory that the buffers may occupy. Default: as little as possible.",
    )


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@capacity_option(old=False)
@json_option
def pack(path: Path, capacity: int | None, as_json: bool) -> None:
    """Places a list of buffers with live ranges in as little memory as possible.

    FILE is minimalloc's CSV with the columns id, lower, upper and size; a buffer is live from time `lower` up to, but
    not including, time `upper`. Ctrl-C gives the best offsets so far.
    """
    place_buffers(path, capacity, as_json)


def place_buffers(path: Path, capacity: int | None, as_json: bool) -> None:
    """Prints the offsets.

    Raises ShoehornError where the file is refused, NoPlacement where nothing within the capacity was found.
    """
    buffers = csv_file.read(path)
    try:
        problem = allocation.Problem(buffers, capacity)
        result = allocation.allocate(buffers, capacity)
    except ShoehornError as error:
        raise ShoehornError(f"{path}: {error}") from error
    faults = allocation.check(problem, result.offsets) if result.found else []
    if faults:
        raise ShoehornError(f"{path}: the offsets found are wrong, which is a defect of Shoehorn: {faults[0]}")
    report = {
        "status": result.status.value,
        "seconds": round(result.seconds, 3),
        "capacity": capacity,
        "height": result.height,
        "offsets": dict(result.offsets),
    }
    if not result.found:
        raise NoPlacement(f"{path}: {_refusal(problem, result)}", max(problem.peak.bytes, result.bound), report)
    if as_json:
        emit_json(report)
    else:
        _print(problem, result)


def _refusal(problem: allocation.Problem, result: allocation.Result) -> str:
    """The reason why there is no placement."""
    if result.status is allocation.Status.UNKNOWN:
        return f"found no placement within {problem.capacity:,} bytes, nor a proof that there is none; raise --capacity"
    peak = problem.peak
    live = f"{len(peak.ids)} buffers hold {peak.bytes:,} bytes at times {peak.lower} to {peak.upper}"
    if result.bound > peak.bytes:
        return f"needs at least {result.bound:,} bytes, proven by search; --capacity gives {problem.capacity:,}; {live}"
    named = allocation.ids_in_words(peak.ids)
    return f"needs at least {peak.bytes:,} bytes, --capacity gives {problem.capacity:,}: {live} ({named})"


def _print(problem: allocation.Problem, result: allocation.Result) -> None:
    by_place = sorted(problem.buffers, key=lambda b: (result.offsets[b.id], b.lower))
    rows = [(b.id, str(b.lower), str(b.upper), f"{b.size:,}", f"{result.offsets[b.id]:,}") for b in by_place[:_SHOWN]]
    print_table(("buffer", "lower", "upper", "size", "offset"), rows, right=range(1, 5))
    if len(by_place) > _SHOWN:
        err.print(f"and {len(by_place) - _SHOWN} more; --json lists all")
    proof = "proven lowest" if result.status is allocation.Status.OPTIMAL else f"lower bound {result.bound:,}"
    within = "" if problem.capacity is None else f" of {problem.capacity:,}"
    out.print(f"height {result.height:,} bytes{within} ({proof}) for {len(problem.buffers)} buffers")
