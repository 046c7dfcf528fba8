"""Measures MLPerf Tiny's models, MobileNets and others on emulated boards, and layers one by one.

It writes docs/benchmarks.md, docs/why.svg and the table in docs/cores.md.

    python -m bench.figures [--boards ID ...] [--out DIR]      `make bench` runs it

Each row is generated, validated (every byte of every op) and timed by the command `gen`, like a user's. Results in
DIR/figures.json are reused: delete it after a change. The documents are written when all rows are there.
Layers are bench/per_kernel.py's, the cycles of inner loops llvm-mca's (bench/loops.py).
The figures beside are of TensorFlow Lite Micro 90b983c with CMSIS-NN 4ab83cc (-O2), measured in the same emulator, and
for Cortex-M0 of the same code on an emulated Cortex-M3. AD needs more flash than a micro:bit has: its row is for the
same chip with 1 MB, which exists in the emulator only.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import loops, per_kernel, why
from bench.kernels import Shape
from bench.road import gen
from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.machine import targets
from tests.shared import FLOAT, MODELS

VWW, KWS, IC, AD = (f"mlperf-{name}-int8" for name in ("vww96", "kws-dscnn", "ic-resnet8", "ad"))
MOBILENET = "coral-mnv2-tf2-ptq"
NAMES = {
    VWW: "VWW",
    KWS: "KWS",
    IC: "IC",
    AD: "AD",
    MOBILENET: "MobileNetV2 1.0 224",
    "mlperf-ic-resnet8-f32": "IC in float32",
    "fmnist-nubificus-f32": "Fashion-MNIST in float32",
    "mnv1-025-128-f32": "MobileNetV1 0.25 128 in float32",
}
LARGE_FLASH = "microbit with 1 MB"
CORES_BOARD, FOUR_CORES = "rpi-zero-2w", ("--cores", "4")
PEER = {  # million instructions of TFLM with CMSIS-NN
    "mps2-an386": {VWW: 24.102, KWS: 7.698, IC: 29.864, AD: 0.583},
    "mps3-an547": {VWW: 6.43, KWS: 1.785, IC: 4.81, AD: 0.150},
    "microbit": {VWW: 86.9, KWS: 29.0, IC: 97.6},
    LARGE_FLASH: {AD: 1.76},
}
TITLES = {
    "mps2-an386": "Cortex-M4",
    "mps3-an547": "Cortex-M55",
    "microbit": "Cortex-M0",
    "rpi-zero": "ARM1176",
    "rpi-zero-2w": "Cortex-A53",
    "virt-rv32": "RISC-V",
}
LAYERED = [board for board in TITLES if board in per_kernel.LIMITS]


@dataclass(frozen=True)
class Run:
    """A model on a board, with further options of `gen firmware`."""

    model: str
    board: str
    options: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return " ".join((self.model, self.board, *self.options))


RUNS = (
    *(Run(model, "mps2-an386", way) for way in ((), ("--minimize", "sram")) for model in (VWW, KWS, IC, AD)),
    *(Run(model, "mps3-an547") for model in (VWW, KWS, IC, AD)),
    Run(VWW, "microbit", ("--stream-input",)),
    *(Run(model, "microbit") for model in (KWS, IC)),
    Run(AD, LARGE_FLASH),
    *(Run(model, "virt-rv32") for model in (KWS, VWW, IC, AD)),
    Run(MOBILENET, "rpi-zero"),
    *(Run(m, CORES_BOARD, way) for m in (MOBILENET, VWW, KWS, IC) for way in ((), FOUR_CORES)),
    *(
        Run(model, board, way)
        for board in ("mps2-an386", "mps3-an547", "rpi-zero-2w")
        for model in FLOAT
        for way in ((), ("--float", "relaxed"), ("--float", "half"))
    ),
)
CORES_HEAD = (
    f"| on `{CORES_BOARD}` in QEMU, instructions | one core | four cores | times as fast |",
    "|---|---:|---:|---:|",
)


def large_flash(folder: Path) -> Path:
    """The manifest of the micro:bit's chip with 1 MB of flash."""
    manifest = json.loads((BOARDS / "microbit.json").read_text())
    size = 1 << 20
    board = manifest["shoehorn"]
    manifest["name"], manifest["upload"]["maximum_size"], board["flash_bytes"] = LARGE_FLASH, size, size
    board["memory"][0]["bytes"] = size
    board["emulator"]["arguments"] = ["-global", f"nrf51-soc.flash-size={size}"]
    path = folder / "microbit-1mb.json"
    path.write_text(json.dumps(manifest))
    return path


def measure(run: Run, out: Path) -> dict[str, Any]:
    """One row; exits with the message of a command that refuses."""
    folder = out / run.key.replace(" ", "_")
    board = str(large_flash(out)) if run.board == LARGE_FLASH else run.board
    model = str(MODELS / f"{run.model}.tflite")
    said = [
        gen("firmware", model, "--board", board, "--out", str(folder), "--force", *run.options),
        gen("validate", str(folder), "--emulate", "--count", "1", "--seed", "1"),
        gen("bench", str(folder), "--emulate", "--runs", "1"),
    ]
    if refusal := next((refusal for _, refusal in said if refusal), ""):
        sys.exit(f"{run.key}: {refusal}")
    report, validated, timed = (found or {} for found, _ in said)
    if validated["mismatched_vectors"]:
        sys.exit(f"{run.key}: not byte-equal")
    firmware = json.loads((folder / "report.json").read_text())["firmware"]
    return {
        "arena_bytes": report["plan"]["arena_bytes"],
        "macs": report["model"]["macs"],
        "instructions": timed["total"]["median"],
        "cycles": timed["cycles"] and timed["cycles"]["median"],
        "code_bytes": firmware["flash_bytes"] - report["flash"]["constant_bytes"],
    }


def table(board: str, rows: dict[Run, dict[str, Any]]) -> list[str]:
    """The rows of one board, the peer's figures beside where there are some."""
    lines = [
        "| model | options | arena, bytes | code, bytes | instructions | per MAC | cycles | TFLM + CMSIS-NN | ratio |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run, row in rows.items():
        peer = PEER.get(run.board, {}).get(run.model)
        options = (*run.options, *([run.board] if run.board == LARGE_FLASH else []))
        cells = (
            NAMES[run.model],
            " ".join(options),
            f"{row['arena_bytes']:,}",
            f"{row['code_bytes']:,}",
            f"{row['instructions']:,}",
            f"{row['instructions'] / row['macs']:.3f}",
            f"{row['cycles']:,}" if row["cycles"] else "",
            f"{1e6 * peer:,.0f}" if peer else "",
            f"{1e6 * peer / row['instructions']:.1f}" if peer else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [f"## {TITLES[board]}: `{board}`", "", *lines, ""]


LOOPS_BOARD, LOOPS_CPU = "mps2-an386", "cortex-m4"
LOOPS_TEXT = (
    "### Inner loops on Cortex-M4",
    "",
    "Of the MLPerf Tiny models' kernels, per multiply-accumulate. The cycles are llvm-mca's, without the branch and",
    "without waits for an address that was just computed.",
)
LAYERS_TEXT = (
    "## Layers",
    "",
    "The tables show instructions and cycles per multiply-accumulate (for an add, per element) of whole rows,",
    "with the row pointers and the call. The *limit* is what the arithmetic alone would take in that",
    "instruction set (`bench/per_kernel.py` says how it is counted). The *prototype* was written by hand for",
    "this one shape, and *C* is the first portable kernel; both columns are instructions / cycles. A star",
    "marks a kernel that is worse than one of them.",
)


def measure_loops(out: Path) -> list[loops.Loop]:
    """The inner loops of the MLPerf Tiny models' firmwares, which are built before."""
    found = []
    for run in (run for run in RUNS if run.board == LOOPS_BOARD and run.model in (VWW, KWS, IC, AD)):
        elf = out / run.key.replace(" ", "_") / ".pio" / "build" / LOOPS_BOARD / "firmware.elf"
        found += loops.measured(str(elf), LOOPS_CPU, f"{run.model.replace('-', '_')}_")
    return found


def document(
    rows: dict[Run, dict[str, Any]], layers: Mapping[str, Mapping[str, Shape]], inner: Iterable[loops.Loop]
) -> str:
    """docs/benchmarks.md."""
    lines = [
        "# Benchmarks",
        "",
        "The tables show instructions of one inference of the whole firmware, in QEMU with `-icount shift=0`, and",
        "cycles as in [cycles.md](cycles.md), without flash wait states. Every row was validated: all bytes of",
        "all ops are equal to TensorFlow Lite Micro's, or with `--float` to the reference's in that mode. *Code*",
        "is the firmware's flash without the model's constants. With several cores the instructions of the",
        "slowest core count ([cores.md](cores.md)). `make bench` measures all of this.",
        "",
        "TFLM + CMSIS-NN: instructions of TensorFlow Lite Micro 90b983c with CMSIS-NN 4ab83cc, GCC 12.2 -O2, in the",
        "same emulator. The ratio divides them by Shoehorn's.",
        "",
    ]
    for board in TITLES:
        boards = (board, LARGE_FLASH) if board == "microbit" else (board,)
        lines += table(board, {run: row for run, row in rows.items() if run.board in boards})
    lines += LAYERS_TEXT
    for board, found in layers.items():
        lines += ["", f"### {TITLES[board]}", "", *per_kernel.table(board, found)]
    lines += ["", *LOOPS_TEXT, "", *loops.table(inner)]
    return "\n".join(lines).rstrip() + "\n"


def cores_table(rows: Mapping[Run, Mapping[str, Any]]) -> Iterator[str]:
    """The table of docs/cores.md."""
    yield from CORES_HEAD
    for run, row in rows.items():
        if not run.options and (four := rows.get(Run(run.model, run.board, FOUR_CORES))):
            one, several = row["instructions"], four["instructions"]
            suite = "MLPerf " if run.model.startswith("mlperf") else ""
            yield f"| {suite}{NAMES[run.model]} | {one:,} | {several:,} | {one / several:.2f} |"


def with_table(page: str, table: Iterator[str]) -> str:
    """The page with the table in the place of the one that has the same first line."""
    lines = [*table]
    old = re.compile(re.escape(lines[0]) + r"\n(?:\|.*\n)+")
    if not old.search(page):
        raise ValueError(f"the page has no table that begins with {lines[0]}")
    return old.sub(lambda _: "\n".join(lines) + "\n", page)


def measure_layers(name: str, out: Path) -> dict[str, Any]:
    """The layers on a board; a micro:bit's flash would not hold all of them."""
    board = str(large_flash(out)) if name == "microbit" else name
    found = per_kernel.measure(targets.board(board), name, out / f"layers_{name}")
    return {layer: asdict(shape) for layer, shape in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=[*TITLES, LARGE_FLASH])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    path = out / "figures.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for run in RUNS:
        if run.board in arguments.boards and run.key not in known:
            known[run.key] = measure(run, out)
            path.write_text(json.dumps(known, indent=1) + "\n")
            print(f"{run.key}: {known[run.key]['instructions']:,}", file=sys.stderr, flush=True)
    for name in LAYERED:
        if name in arguments.boards and (key := f"layers {name}") not in known:
            known[key] = measure_layers(name, out)
            path.write_text(json.dumps(known, indent=1) + "\n")
    rows = {run: known[run.key] for run in RUNS if run.key in known}
    layers = {
        name: {layer: Shape(**shape) for layer, shape in known[f"layers {name}"].items()}
        for name in LAYERED
        if f"layers {name}" in known
    }
    if len(rows) < len(RUNS) or len(layers) < len(LAYERED):
        print("some boards are not measured yet: the documents stay as they are", file=sys.stderr)
        return
    Path("docs/benchmarks.md").write_text(document(rows, layers, measure_loops(out)))
    page = Path("docs/cores.md")
    page.write_text(with_table(page.read_text(), cores_table(rows)))
    fastest = [rows[Run(model, "mps2-an386")]["instructions"] / 1e6 for model in (VWW, KWS, IC)]
    smallest = [rows[Run(model, "mps2-an386", ("--minimize", "sram"))]["arena_bytes"] for model in (VWW, KWS, IC)]
    why.draw(Path("docs/why.svg"), smallest, fastest)


if __name__ == "__main__":
    main()
