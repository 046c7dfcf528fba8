"""Smallest arenas without recomputing beside their bounds for every order of rows: the table in docs/planning.md.

    python -m bench.bounds [--models NAME ...] [--board ID] [--recompute P] [--out FILE] [--write]

With --recompute, at most P percent of the MACs are computed again, and the bound is of all orders that do so; FILE and
the table in the page are others then. Without a board, kernels are portable. Asked is the gap between peak and bound,
in percent of the peak. FILE keeps what was measured, so an interrupted run goes on; --write puts the table into the
page.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.all_models import run
from tests.shared import GEN, MODELS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "planning.md"
MARK, MARK_AGAIN = "<!-- bounds -->", "<!-- bounds-again -->"
STREAMED = "streamed"
# The gap asked, in percent of the peak; None: no gap was asked.
ASKED: Mapping[tuple[str, str], float | None] = {
    ("mlperf-ic-resnet8-int8", ""): 0,
    ("mlperf-ic-resnet8-int8", STREAMED): 0,
    ("mlperf-vww96-int8", ""): 0,
    ("mlperf-vww96-int8", STREAMED): 0,
    ("mlperf-kws-dscnn-int8", ""): 0,
    ("mltk-kws-pacman-v3", STREAMED): 0,
    ("resnet20-cifar10-int8", ""): 0,
    ("facemesh-192-fullint", ""): 0,
    ("facemesh-192-fullint", STREAMED): 0,
    ("coral-mnv2-tf2-ptq", STREAMED): 3,
    ("mcunet-5fps-vww", ""): 3,
    ("mcunet-5fps-vww", STREAMED): 3,
    ("micronet-vww-2", ""): 3,
    ("micronet-vww-2", STREAMED): 3,
    ("st-yamnet256-int8", STREAMED): 7,
    ("squeezenet11-imagenet-int8", STREAMED): 7,
    ("synth-randwire-ws-n32-c24-s11-int8", ""): 7.5,
    ("synth-densenet-bc-40-12-int8", ""): 8,
    ("ultraface-slim-320-onnx", STREAMED): 9,
    ("synth-darts-v2-c16-l8-int8", ""): 26,
}


def measure(model: str, way: str, board: str) -> dict[str, Any]:
    """One plan: arena, peak and bound in bytes, what is said of the gap, and CPU seconds of all of `gen plan`."""
    path = next(p for p in MODELS.iterdir() if p.stem == model)
    words = [*(("--board", board) if board else ()), *(("--stream-input",) if way else ())]
    said, seconds, _ = run(*GEN, "plan", str(path), "--minimize", "sram", *words)
    if "error" in said:
        return {"refused": said["error"]["message"]}
    plan = said["plan"]
    peak = re.search(r"the order's peak (?:of|is) ([\d,]+) bytes", plan["reason"])
    form = re.search(r"another form of the graph has the bound [\d,]+, this one ([\d,]+)", plan["reason"])
    return {
        "arena": plan["arena_bytes"],
        "peak": int(peak[1].replace(",", "")) if peak else plan["arena_bytes"],
        "bound": plan["arena_bound_bytes"],
        "own": plan["arena_bound_bytes"] if form is None else int(form[1].replace(",", "")),
        "of": plan["arena_bound_of"],
        "reason": plan["reason"],
        "seconds": round(seconds, 1),
    }


def measure_again(model: str, way: str, board: str, percent: float) -> dict[str, Any]:
    """One plan that may compute so much again: arena, bound, and how much it does compute again, in percent."""
    path = next(p for p in MODELS.iterdir() if p.stem == model)
    words = [*(("--board", board) if board else ()), *(("--stream-input",) if way else ())]
    said, seconds, _ = run(*GEN, "plan", str(path), "--minimize", "sram", "--recompute", str(percent), *words)
    if "error" in said:
        return {"refused": said["error"]["message"]}
    plan = said["plan"]
    return {
        "arena": plan["arena_bytes"],
        "again": 100 * plan["recomputed_macs"] / (plan["macs"] - plan["recomputed_macs"]),
        "bound": plan.get("again", {}).get("bound_bytes"),
        "blocks": len(plan["blocks"]),
        "chunks": any(block["chunks"] > 1 for block in plan["blocks"]),
        "seconds": round(seconds, 1),
    }


def table_again(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A row per plan."""
    yield "| model | arena | MACs computed again | lower bound | gap of the arena | CPU s |"
    yield "|---|---:|---:|---:|---:|---:|"
    for model, way in ASKED:
        row = rows.get(f"{model} {way}".strip())
        if row is None or "refused" in row:
            continue
        bound, arena = row["bound"], row["arena"]
        of = ["", "in chunks"] if bound is None else [f"{bound:,}", f"{100 * (arena - bound) / arena:.1f} %"]
        name = f"{model}, {way}" if way else model
        cells = (name, f"{arena:,}", f"{row['again']:.2f} %", *of, str(row["seconds"]))
        yield f"| {' | '.join(cells)} |"


def gap(row: Mapping[str, Any], bound: str) -> float:
    """Of the peak, in percent: to the `bound` of all forms of the graph, or to the `own` one of the form planned."""
    return 100 * (row["peak"] - row[bound]) / row["peak"]


def table(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A row per plan."""
    yield "| model | arena | peak | lower bound | gap of the peak | of this form alone | asked | what is left | CPU s |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|---:|"
    for (model, way), asked in ASKED.items():
        row = rows.get(f"{model} {way}".strip())
        if row is None or "refused" in row:
            continue
        left = "the proof" if row["peak"] > row["bound"] else "packing" if row["arena"] > row["bound"] else "nothing"
        cells = [f"{row[key]:,}" for key in ("arena", "peak", "bound")]
        gaps = [f"{gap(row, bound):.1f} %" for bound in ("bound", "own")]
        wanted = "" if asked is None else f"{asked:g} %"
        name = f"{model}, {way}" if way else model
        yield f"| {' | '.join((name, *cells, *gaps, wanted, left, str(row['seconds'])))} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--board", default="")
    parser.add_argument("--recompute", type=float)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    percent = given.recompute
    path = given.out or Path("build/bounds.json" if percent is None else "build/bounds-again.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    for model, way in ASKED:
        key = f"{model} {way}".strip()
        if key not in found and (not given.models or model in given.models):
            found[key] = (
                measure(model, way, given.board) if percent is None else measure_again(model, way, given.board, percent)
            )
            path.write_text(json.dumps(found, indent=1) + "\n")
            print(key, found[key], flush=True)
    lines = [*(table(found) if percent is None else table_again(found))]
    print(*lines, sep="\n")
    if given.write:
        again = "" if percent is None else f" --recompute {percent:g}"
        said = f"`python -m bench.bounds{again} --write` measures, with portable kernels, in bytes:"
        _write(MARK if percent is None else MARK_AGAIN, [said, "", *lines])


def _write(mark: str, lines: Sequence[str]) -> None:
    """Puts a table into the page, behind its mark."""
    text = PAGE.read_text()
    old = re.compile(re.escape(mark) + r"\n(\n`python -m bench\.bounds.*\n\n(\|.*\n)+)?")
    PAGE.write_text(old.sub(lambda _: "\n".join((mark, "", *lines, "")), text))


if __name__ == "__main__":
    main()
