"""What new rows only save: the table of docs/always-on.md, measured on an emulated Cortex-M4 without wait states.

    python -m bench.slide [--only NAME ...] [--steps N] [--out DIR]

For each model: MACs, cycles and arenas of the whole window and of a step, the bytes that steps keep, and how many of N
steps from reset gave the outputs of the whole window, byte for byte. DIR (default: build/slide) keeps what was
measured; what is there is not measured again. The table is printed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import shoehorn_mcu
from shoehorn_mcu import importers
from shoehorn_mcu.api import PlanOptions
from shoehorn_mcu.importers import Imported
from tests.shared import DATA, MODELS
from tests.slide_nets import ecg, har, tcn, whole_stream

BOARD = "mps2-an386"
Model = Path | Imported


@dataclass(frozen=True)
class Row:
    """A model, how many of its rows are new in a step, and limits of its arena that are tried, too."""

    name: str
    model: Callable[[], Model]
    hop: int
    limits: tuple[int, ...] = ()


def _file(name: str) -> Callable[[], Model]:
    return lambda: MODELS / name


def _nabu() -> Model:
    return Imported(whole_stream(importers.load(MODELS / "mww-okay-nabu-v2.tflite"), 170), {})


ROWS = (
    Row("MLPerf sww", _file("mlperf-sww-int8.tflite"), 1, (3800,)),
    Row("TCN, VALID", lambda: Imported(tcn(127, causal=False), {}), 1),
    Row("TCN, causal padding", lambda: Imported(tcn(128, causal=True), {}), 1),
    Row("armzoo-kws-cnn-l", _file("armzoo-kws-cnn-l.tflite"), 1),
    Row("HAR, VALID", lambda: Imported(har(), {}), 1),
    Row("HAR, VALID", lambda: Imported(har(), {}), 4),
    Row("ECG, Conv1d, ONNX float32", ecg, 1),
    Row("okay_nabu as a window", _nabu, 3),
    Row("micro_speech", _file("tflm-micro-speech.tflite"), 1),
    Row("micro_speech", _file("tflm-micro-speech.tflite"), 2),
    Row("MLPerf kws-dscnn", _file("mlperf-kws-dscnn-int8.tflite"), 1),
    Row("MLPerf kws-dscnn", _file("mlperf-kws-dscnn-int8.tflite"), 2, (12_800, 17_400)),
    Row("yamnet256", _file("st-yamnet256-int8.tflite"), 8, (55_296,)),
    Row("yamnet256", _file("st-yamnet256-int8.tflite"), 16, (55_296,)),
    Row("mltk-kws-pacman-v3", _file("mltk-kws-pacman-v3.tflite"), 2),
    Row("mltk-fingerprint", _file("mltk-fingerprint.tflite"), 8),
)


def _measured(model: Model, steps: int, **options: Any) -> dict[str, Any]:
    """Plan, cycles and, of steps, how many gave the whole window's outputs."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "firmware"
        made = shoehorn_mcu.generate(model, folder, PlanOptions(board=BOARD, **options))
        plan = cast(Mapping[str, Any], made.plan.report["plan"])
        equal = None
        if "slide" in plan:
            found = shoehorn_mcu.validate(folder, emulate=True, count=steps)
            equal = 0 if found.whole_windows is None else found.vectors - found.mismatched_vectors
        timing = shoehorn_mcu.bench(folder, emulate=True, runs=1)
    assert timing.cycles is not None
    return {
        "macs": plan["macs"],
        "cycles": timing.cycles.totals[0].cycles,
        "arena": plan["arena_bytes"],
        "state": plan.get("slide", {}).get("state_bytes"),
        "rows": plan.get("slide", {}).get("window_rows"),
        "equal": equal,
    }


def _smallest(model: Model, **options: Any) -> int:
    return shoehorn_mcu.plan(model, PlanOptions(board=BOARD, minimize="sram", **options)).arena_bytes


class Kept:
    """What was measured, by name, in a file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "measured.json"
        self.known: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}

    def of(self, name: str, measure: Callable[[], Any]) -> Any:
        if name not in self.known:
            self.known[name] = measure()
            self._path.write_text(json.dumps(self.known, indent=1))
            print(f"{name}: {self.known[name]}", flush=True)
        return self.known[name]


def measure(row: Row, kept: Kept, steps: int) -> str:
    """The row of the table."""
    model = row.model()
    whole = kept.of(f"{row.name} whole", lambda: _measured(model, 0))
    whole_least = kept.of(f"{row.name} whole least", lambda: _smallest(model))
    step = kept.of(f"{row.name} {row.hop}", lambda: _measured(model, steps, slide=row.hop))
    least = kept.of(f"{row.name} {row.hop} least", lambda: _smallest(model, slide=row.hop))
    lines = [
        f"| {row.name} ({step['rows']}) | {row.hop} | {whole['macs']:,} -> {step['macs']:,} | "
        f"{whole['macs'] / step['macs']:.1f} | {step['state']:,} | {whole['cycles']:,} -> {step['cycles']:,} | "
        f"{whole['cycles'] / step['cycles']:.1f} | {whole['arena']:,} / {whole_least:,} -> {step['arena']:,} / "
        f"{least:,} | {step['equal']} of {steps} |"
    ]
    for limit in row.limits:
        name = f"{row.name} {row.hop} within {limit}"
        tight = kept.of(name, lambda limit=limit: _measured(model, steps, slide=row.hop, sram_bytes=limit))
        lines.append(
            f"| {row.name}, --sram {limit} | {row.hop} | {whole['macs']:,} -> {tight['macs']:,} | "
            f"{whole['macs'] / tight['macs']:.1f} | {tight['state']:,} | {whole['cycles']:,} -> {tight['cycles']:,} | "
            f"{whole['cycles'] / tight['cycles']:.1f} | -> {tight['arena']:,} | {tight['equal']} of {steps} |"
        )
    return "\n".join(lines)


def pipeline(kept: Kept, steps: int) -> str:
    """The audio front end and micro_speech, as one model."""
    front, behind = DATA / "audio-preprocessor" / "audio_preprocessor_int8.tflite", MODELS / "tflm-micro-speech.tflite"
    whole = kept.of("pipeline whole", lambda: _measured(front, 0, behind=behind, disable=["slide"]))
    step = kept.of("pipeline", lambda: _measured(front, steps, behind=behind))
    gains = [f"{whole[key] / step[key]:.1f}" for key in ("macs", "cycles")]
    cells = (
        *("front end + micro_speech", "20 ms", f"{whole['macs']:,} -> {step['macs']:,}", gains[0]),
        *(f"{step['state']:,}", f"{whole['cycles']:,} -> {step['cycles']:,}", gains[1]),
        *(f"{whole['arena']:,} -> {step['arena']:,}", f"{step['equal']} of {steps}"),
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names, or the beginnings of names, of models")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("build/slide"))
    chosen = parser.parse_args()
    kept = Kept(chosen.out)
    lines = [
        "| model (rows) | hop | MACs window -> step | gain | kept, B | M4 cycles | gain | arena / smallest | equal |",
        "|---|---:|---|---:|---:|---|---:|---|---|",
    ]
    for row in ROWS:
        if not chosen.only or any(row.name.startswith(name) for name in chosen.only):
            lines.append(measure(row, kept, chosen.steps))
    if not chosen.only or "pipeline" in chosen.only:
        lines.append(pipeline(kept, chosen.steps))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
