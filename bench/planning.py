"""Measures planning time and its growth with the number of steps: every `road` model, stored and streamed.

    python -m bench.planning [--models NAME ...] [--goals time sram] [--seconds N] [--out DIR]
    python -m bench.planning --plot DIR    redraws DIR/planning.svg from DIR/planning.json

Each plan is made by `gen plan` in its own process, including the start of Python. A process that needs more than
--seconds of wall time gets Ctrl-C, and if it does not end then, it is killed. Writes DIR/planning.json, planning.md and
planning.svg (CPU seconds over steps) after each plan, so an interrupted run loses nothing. The measured time is CPU
time, user and system of all threads, because it hardly depends on other load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO

from tests.shared import GEN, MODELS, ROAD

GOALS = ("time", "sram")
# Limits in CPU seconds; the last one is for all other models.
ASKED = {
    "mlperf-kws-dscnn-int8": 10,
    "mlperf-ic-resnet8-int8": 10,
    "mlperf-vww96-int8": 10,
    "coral-mnv2-tf2-ptq": 60,
}
ASKED_OF_ANY = 120
ASKED_BYTES = 2 * 1024**3
GRACE_SECONDS = 10.0  # between Ctrl-C and the end
_RULER_STEPS = 300  # where the ruler of the plot has one second


@dataclass(frozen=True)
class Used:
    """CPU time and memory of a process, with its threads and the child processes that it waited for."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    exit_code: int
    ended_by: str  # "" where it ended by itself


@dataclass(frozen=True)
class Row:
    """One plan; `plan` is the report's, or empty where the model was refused (`said`)."""

    model: str
    streamed: bool
    goal: str
    used: Used
    plan: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    crashed: bool = False  # a traceback, which no user may see

    @property
    def faults(self) -> list[str]:
        """The limits that the process exceeded, and its failures."""
        most = ASKED.get(self.model, ASKED_OF_ANY)
        slow = [f"over {most} s"] if self.used.cpu_seconds > most else []
        large = ["over 2 GB"] if self.used.peak_bytes > ASKED_BYTES else []
        return [*slow, *large, *filter(None, [self.used.ended_by, "crashed" if self.crashed else ""])]


def watched(words: Sequence[str], seconds: float, out: BinaryIO, err: BinaryIO) -> Used:
    """Runs a command and measures it; os.wait4 gives the use of this child alone."""
    started = monotonic()
    running = subprocess.Popen(words, stdout=out, stderr=err)
    ended_by, deadline = "", started + seconds
    try:
        while not (found := os.wait4(running.pid, os.WNOHANG))[0]:
            if monotonic() > deadline:
                running.send_signal(signal.SIGKILL if ended_by else signal.SIGINT)
                ended_by = f"{'killed' if ended_by else 'interrupted'} after {monotonic() - started:.0f} s"
                deadline = monotonic() + GRACE_SECONDS
            sleep(0.02)
    except BaseException:
        running.kill()
        raise
    _, status, usage = found
    running.returncode = os.waitstatus_to_exitcode(status)
    wall, cpu = monotonic() - started, usage.ru_utime + usage.ru_stime
    return Used(round(cpu, 2), round(wall, 2), usage.ru_maxrss * 1024, running.returncode, ended_by)


def measure(model: str, streamed: bool, goal: str, seconds: float) -> Row:
    """One plan."""
    words = [*GEN, "plan", str(MODELS / f"{model}.tflite"), "--minimize", goal, "--json"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        used = watched([*words, *(["--stream-input"] if streamed else [])], seconds, out, err)
        for file in (out, err):
            file.seek(0)
        text, lines = out.read(), err.read().decode(errors="replace").strip().splitlines()
    crashed = any(line.startswith("Traceback") for line in lines)
    try:
        return Row(model, streamed, goal, used, json.loads(text)["plan"])
    except (ValueError, KeyError):
        said = lines[-1] if lines else f"exit {used.exit_code}, nothing said"
        return Row(model, streamed, goal, used, said=said, crashed=crashed)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown; refusals below it."""
    lines = [
        "| model | input | goal | steps | arena | bound | proven | MACs again | CPU s | wall s | MB | |",
        "|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|---|",
    ]
    for row in (row for row in rows if row.plan):
        p, used = row.plan, row.used
        cells = (
            row.model,
            "streamed" if row.streamed else "stored",
            row.goal,
            f"{p['steps']:,}",
            f"{p['arena_bytes']:,}",
            f"{p['arena_bound_bytes']:,}",
            "yes" if p["proven_optimal"] else "no",
            f"{p['recomputed_macs'] / max(1, p['macs']):.2%}",
            f"{used.cpu_seconds:.1f}",
            f"{used.wall_seconds:.1f}",
            f"{used.peak_bytes / 1024**2:.0f}",
            "; ".join(row.faults) or "-",
        )
        lines.append(f"| {' | '.join(cells)} |")
    refused = [
        f"- {row.model}, {row.goal}, {'streamed' if row.streamed else 'stored'}: " for row in rows if not row.plan
    ]
    said = ["; ".join([*row.faults, row.said]) for row in rows if not row.plan]
    return "\n".join([*lines, "", *map(str.__add__, refused, said), ""])


def plot(rows: Sequence[Row], path: Path) -> None:
    """CPU seconds over steps, both logarithmic; equal rows give equal bytes."""
    import matplotlib  # here, because a process starts with the peak memory of the one that started it

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "planning", "svg.fonttype": "none", "font.size": 10})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.6))
    for streamed, goal in ((s, g) for g in GOALS for s in (False, True)):
        dots = [
            (r.plan["steps"], r.used.cpu_seconds) for r in rows if r.plan and (r.streamed, r.goal) == (streamed, goal)
        ]
        if dots:
            label = f"--minimize {goal}{' --stream-input' if streamed else ''}"
            axes.scatter(*zip(*dots, strict=True), s=28, alpha=0.75, marker="^" if streamed else "o", label=label)
    _rulers(axes)
    axes.set(xscale="log", yscale="log", xlabel="steps of the plan", ylabel="CPU seconds of gen plan")
    axes.set_title(f"Planning time of {len({r.model for r in rows})} int8 models", fontsize=11)
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(0, 0.93))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _rulers(axes: Any) -> None:
    """Reference lines: the limits, and growth in proportion to the steps."""
    grey: dict[str, Any] = {"color": "grey", "linewidth": 1}
    axes.axhline(ASKED_OF_ANY, linestyle=":", **grey)
    place = {"xy": (0.99, ASKED_OF_ANY), "xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
    axes.annotate(f"asked: at most {ASKED_OF_ANY} s", color="grey", fontsize=9, **place)
    axes.plot((_RULER_STEPS, 30 * _RULER_STEPS), (1, 30), linestyle="--", label="in proportion to steps", **grey)


def save(rows: Sequence[Row], folder: Path) -> None:
    """Saves the rows measured so far."""
    (folder / "planning.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    (folder / "planning.md").write_text(table(rows))


def saved(folder: Path) -> list[Row]:
    """Loads the rows that save() wrote."""
    rows = json.loads((folder / "planning.json").read_text())
    return [Row(**{**row, "used": Used(**row["used"])}) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=ROAD, default=list(ROAD), metavar="NAME")
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument("--seconds", type=float, default=300.0, help="limit of the wall time of one plan")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--plot", type=Path, metavar="DIR", help="measure nothing")
    options = parser.parse_args()
    if options.plot:
        plot(saved(options.plot), options.plot / "planning.svg")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    try:
        for model, streamed, goal in ((m, s, g) for m in options.models for s in (False, True) for g in options.goals):
            rows.append(measure(model, streamed, goal, options.seconds))
            save(rows, options.out)
            print(table(rows[-1:]).strip().splitlines()[2 if rows[-1].plan else -1], flush=True)
    finally:
        plot(rows, options.out / "planning.svg")
    faults = sum(bool(row.faults) for row in rows)
    print(f"{len(rows)} plans, {faults} over what was asked or ended badly; see {options.out / 'planning.md'}")


if __name__ == "__main__":
    main()
