"""`gen plan --buffers FILE`: static allocation of a list of buffers, read, solved, checked and printed."""

from __future__ import annotations

from pathlib import Path

import click

from shoehorn_mcu.console import emit_json, err, out, print_table, together
from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.planner.placement import allocate as allocation
from shoehorn_mcu.planner.placement.allocate import csv_file

_SHOWN = 40  # buffers in the table; --json has all


buffer_options = together(
    click.option(
        "--buffers",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Place a list of buffers instead (minimalloc's CSV: id,lower,upper,size): an offset for each.",
    ),
    click.option(
        "--capacity",
        type=click.IntRange(min=0),
        metavar="BYTES",
        help="With --buffers: the memory that they may take. Default: as little as possible.",
    ),
)
"""The options of `gen plan` for a list of buffers."""


def plan_buffers(path: Path, capacity: int | None, as_json: bool) -> None:
    """Prints the offsets. ShoehornError: the file is not sound, or nothing within the capacity was found."""
    buffers = csv_file.read(path)
    try:
        problem = allocation.Problem(buffers, capacity)
        result = allocation.allocate(buffers, capacity)
    except ShoehornError as error:
        raise ShoehornError(f"{path}: {error}") from error
    faults = allocation.check(problem, result.offsets) if result.found else []
    if faults:
        raise ShoehornError(f"{path}: the offsets found are wrong, which is a defect of Shoehorn: {faults[0]}")
    if as_json:
        emit_json(
            {
                "status": result.status.value,
                "seconds": round(result.seconds, 3),
                "capacity": capacity,
                "height": result.height,
                "offsets": dict(result.offsets),
            }
        )
    if not result.found:
        raise ShoehornError(f"{path}: {_refusal(problem, result)}")
    if not as_json:
        _print(problem, result)


def _refusal(problem: allocation.Problem, result: allocation.Result) -> str:
    """Why there is no placement."""
    if result.status is allocation.Status.UNKNOWN:
        return f"found no placement within {problem.capacity:,} bytes, nor a proof that there is none; raise --capacity"
    peak = problem.peak
    alive = f"{len(peak.ids)} buffers hold {peak.bytes:,} bytes at times {peak.lower} to {peak.upper}"
    if result.bound > peak.bytes:
        return (
            f"needs at least {result.bound:,} bytes, proven by search; --capacity gives {problem.capacity:,}; {alive}"
        )
    named = allocation.ids_in_words(peak.ids)
    return f"needs at least {peak.bytes:,} bytes, --capacity gives {problem.capacity:,}: {alive} ({named})"


def _print(problem: allocation.Problem, result: allocation.Result) -> None:
    by_place = sorted(problem.buffers, key=lambda b: (result.offsets[b.id], b.lower))
    rows = [(b.id, str(b.lower), str(b.upper), f"{b.size:,}", f"{result.offsets[b.id]:,}") for b in by_place[:_SHOWN]]
    print_table(("buffer", "lower", "upper", "size", "offset"), rows, right=range(1, 5))
    if len(by_place) > _SHOWN:
        err.print(f"and {len(by_place) - _SHOWN} more; --json lists all")
    proof = "proven lowest" if result.status is allocation.Status.OPTIMAL else f"lower bound {result.bound:,}"
    within = "" if problem.capacity is None else f" of {problem.capacity:,}"
    out.print(f"height {result.height:,} bytes{within} ({proof}) for {len(problem.buffers)} buffers")
