"""What becomes of the files that real exporters write: every case beside the checkout, and of a folder of .tflite.

    python -m bench.wild [--cases NAME ...] [--out DIR]
    python -m bench.wild --folder DIR

Like a user it calls only the command `gen`: a firmware is written, built and run, and its outputs are compared with
those of tflite_micro, of LiteRT's reference kernels where that does not run the file, or of ONNX Runtime. A table has
each file, what became of it at the commit 5cb0595, what becomes of it now, what is wanted, and whether that is so.
It ends with 1 where a row is not as wanted.

`--folder`: the .tflite files below a folder instead, such as those of tflite-micro's own tests: how many the numpy
reference gives byte by byte as the oracle does, how many differ, and which are refused and why.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.all_models import gen, onnx_oracle, tflite_oracle
from shoehorn_mcu.importers import ImportFault, load
from shoehorn_mcu.ir import Array
from tests.evaluate import evaluate
from tests.shared import SHARED

CASES = SHARED / "wild-cases"
REAL = 1e-5
"""The largest difference of float32, relative to the largest output."""

Inputs = Mapping[str, Array]


@dataclass(frozen=True)
class Case:
    """A file, the command that it is for, and what is wanted of it."""

    file: str
    today: str
    board: tuple[str, ...] = ("native",)  # and further words of the command
    real: float = REAL
    steps: int = 0  # by which an integer may differ from the oracle's
    says: str = ""  # what the message that refuses it must match; "" if it must run
    most_instructions: int = 0  # or the plan must say that it computes in float32; 0: any number
    predicted: bool = False  # whether the instructions predicted must be within 3 % of those measured
    is_open: bool = False  # whether sizes in the file are placeholders
    given: tuple[tuple[float, float], ...] = field(default=())  # mean and deviation of the inputs

    @property
    def wanted(self) -> str:
        """In words."""
        if self.says:
            return f"one line that refuses it and names: {self.says.replace(chr(124), ', ')}"
        words = [
            "runs: within a step, as LiteRT rounds dense layers once"
            if self.steps
            else f"runs: equal, float32 within {self.real:.0e}"
        ]
        words += [f"at most {self.most_instructions:,} instructions, or it says why"] * (self.most_instructions > 0)
        words += ["predicted within 3 %"] * self.predicted
        return "; ".join(words)


MPS2 = ("mps2-an386",)
FEW_ROWS = "a row or a column too few"
PLACEHOLDER = "refused: the stored shape is a placeholder"
QUANTISED = "refused: its kernels are for real numbers and integers alone"
TO_INT8 = "refused: convert it to int8"
INT16 = "refused: an int16 model"
WRONG_PLAN = "the plan is wrong, please report this"

TABLE = (
    Case("resize-linear-5-to-7.onnx", f"wrong: 6x6, {FEW_ROWS}", MPS2),
    Case("resize_declared_12_23.onnx", f"wrong: 22 rows, {FEW_ROWS}", MPS2),
    Case("unet_resize_sizes_dyn.onnx", f"wrong: {FEW_ROWS}", MPS2),
    Case("resize_scales_10_1p3.onnx", "wrong: 12 rows", MPS2),
    Case("resize-pytorch_half_pixel-to-1.onnx", "wrong: relative 1.5"),
    Case(
        "LayerNormalization.onnx",
        "wrong: 0.29 of the largest value",
        real=2e-5,
        given=((100.0, 0.1), (1000.0, 1.0), (100.0, 1.0)),
    ),
    Case("concat-height.onnx", WRONG_PLAN),
    Case("concat-two-inputs.onnx", WRONG_PLAN),
    Case("cores-concat-height.tflite", WRONG_PLAN, ("rpi-zero-2w", "--cores", "2")),
    Case("tcn960_f32.tflite", PLACEHOLDER, is_open=True),
    Case("tcn960_int8.tflite", PLACEHOLDER, is_open=True),
    Case("yoloseg113_int8.tflite", PLACEHOLDER, steps=1, is_open=True),
    Case("seg_argmax_int8.tflite", QUANTISED),
    Case("ae_score_int8.tflite", QUANTISED),
    Case("gru907_unroll_int8.tflite", QUANTISED),
    Case("attn_b1_int8.tflite", QUANTISED, steps=1),
    Case("upbil_f32.tflite", TO_INT8),
    Case("gru_b1_f32.tflite", TO_INT8),
    Case("logmel_f32.tflite", TO_INT8),
    Case("tflm-seanet-leaky_relu0.tflite", INT16),
    Case("tflm-seanet-transpose_conv4.tflite", INT16),
    Case("tflm-seanet-quantize0.tflite", INT16),
    Case("qdq-gemm-bias-1xN.onnx", "refused: bias has shape (1, 7)", real=1e-2),
    Case("qdq-matmul-batched.onnx", "refused: 3 dimensions", real=1e-2),
    Case("qdq-matmul-const-left.onnx", "refused: weights are not quantised", real=1e-2),
    Case(
        "brevitas_w8a8_clip.onnx",
        "3,568,805 instructions and no word: convolutions in float32",
        ("microbit",),
        real=1e-2,
        most_instructions=500_000,  # two thirds of it convert float32 at both ends, in software
    ),
    Case("softmax-prediction.tflite", "predicted 27 % too few instructions", MPS2, predicted=True),
    Case("traceback-gather-float-indices.onnx", "a defect of Shoehorn: TypeError", says="integer|int64|float32"),
    Case("boards/nucleo-f401re.json", "accepted; the firmware cannot work", says="core_hz|clock|MHz|define|SH_BOARD"),
)


@dataclass(frozen=True)
class Found:
    """What becomes of a file now."""

    text: str
    good: bool


def measured(case: Case, folder: Path) -> Found:
    """What becomes of a case; its firmware is in `folder`."""
    path = CASES / case.file
    if path.suffix == ".json":
        return _board(case, path, folder)
    firmware, _, _ = gen("firmware", str(path), "--board", *case.board, "--out", str(folder), "--force")
    if "error" in firmware:
        message = _line(firmware["error"]["message"])
        sound = firmware["error"].get("kind", "defect") != "defect"
        return Found(message, sound and bool(case.says) and re.search(case.says, message) is not None)
    if case.says:
        return Found("runs", False)
    found = _compared(case, path, folder)
    if case.most_instructions:
        found = _with(found, _instructions(case, firmware))
    return _with(found, _prediction(firmware, folder)) if case.predicted else found


def _with(a: Found, b: Found) -> Found:
    return Found(f"{a.text}; {b.text}", a.good and b.good)


def _board(case: Case, path: Path, folder: Path) -> Found:
    """A firmware of the shipped model for the board of this manifest."""
    said, _, _ = gen("firmware", "--board", str(path), "--out", str(folder), "--force")
    if "error" not in said:
        return Found("accepted", False)
    message = _line(said["error"]["message"])
    return Found(message, re.search(case.says, message) is not None)


def _instructions(case: Case, report: Mapping[str, Any]) -> Found:
    count = int(report["plan"]["predicted_instructions"])
    told = "float32 because" in str(report)
    words = f"{count:,} instructions" + (", says why" if told else "")
    return Found(words, told or count <= case.most_instructions)


def _prediction(report: Mapping[str, Any], folder: Path) -> Found:
    said, _, _ = gen("bench", str(folder), "--emulate")
    if "error" in said:
        return Found(_line(said["error"]["message"]), False)
    count, guess = said["total"]["median"], report["plan"]["predicted_instructions"]
    off = 100.0 * (guess / count - 1)
    return Found(f"predicted {guess:,}, measured {count:,}: {off:+.1f} %", abs(off) <= 3)


def _compared(case: Case, path: Path, folder: Path) -> Found:
    """The firmware's outputs beside the oracle's."""
    try:
        given = _inputs(case, path)
        if path.suffix == ".tflite":
            oracle, inputs, outputs = tflite_oracle(path, given, case.is_open)
        else:
            oracle, inputs, outputs = onnx_oracle(path, given)
    except Exception as error:  # whatever another program says of a model that it does not run
        return Found(f"no oracle runs it: {_line(str(error))}", False)
    sent, came = folder / "given.npz", folder / "found.npz"
    np.savez(sent, allow_pickle=False, **inputs)
    said, _, _ = gen("validate", str(folder), "--emulate", "--inputs", str(sent), "--outputs", str(came))
    if "error" in said:
        return Found(_line(said["error"]["message"]), False)
    if said["mismatched_vectors"]:
        return Found("the board differs from the reference", False)
    ours = np.load(came)
    return _differences(case, oracle, {name: ours[name] for name in outputs}, outputs)


def _differences(case: Case, oracle: str, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> Found:
    words, good = [], True
    for name, wanted in theirs.items():
        own = ours[name]
        if _plain(own.shape[1:]) != _plain(wanted.shape[1:]):
            words, good = [*words, f"shape {own.shape[1:]}, {wanted.shape[1:]} is right"], False
            continue
        own = own.reshape(wanted.shape)
        worst = float(np.abs(own.astype(np.float64) - wanted.astype(np.float64)).max())
        if wanted.dtype.kind == "f":
            worst /= max(float(np.abs(wanted).max()), 1e-30)
            words.append("equal" if worst == 0 else f"within {worst:.1e}")
            good &= worst <= case.real
        else:
            words.append("equal" if worst == 0 else f"{worst:.0f} steps, {np.count_nonzero(own != wanted)} values")
            good &= worst <= case.steps
    return Found(f"runs: {', '.join(dict.fromkeys(words))} ({oracle})", good)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the leading ones, in whose place vectors stand."""
    count = next((i for i, n in enumerate(shape) if n > 1), len(shape))
    return shape[count:]


def _inputs(case: Case, path: Path) -> Inputs | None:
    """The inputs of the case, a vector in front; None for random ones."""
    beside = path.with_suffix(".npz")
    if beside.exists():
        with np.load(beside) as arrays:
            return {name: arrays[name][None] for name in arrays.files}
    if not case.given:
        return None
    graph = load(path)
    (name,) = graph.inputs
    rng = np.random.default_rng(2)
    shape = graph.tensors[name].type.shape
    return {name: np.stack([rng.normal(mean, deviation, shape) for mean, deviation in case.given]).astype(np.float32)}


def _line(message: str) -> str:
    """A message for a cell of the table."""
    words = " ".join(message.replace("|", "/").split())
    return words if len(words) <= 160 else f"{words[:157]}..."


def folder_of_files(root: Path) -> int:
    """Prints what becomes of the .tflite files below a folder; 1 where one differs from the oracle."""
    counts: Counter[str] = Counter()
    for path in sorted(root.rglob("*.tflite")):
        kind, words = _file(path)
        counts[kind] += 1
        if kind != "byte-equal":
            print(f"{path.relative_to(root)}: {kind}{words}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(counts["wrong"] > 0)


def _file(path: Path) -> tuple[str, str]:
    """What becomes of a file, and more words."""
    try:
        graph = load(path)
    except ImportFault as fault:
        return "refused", f": {_line(str(fault))}"
    try:
        oracle, inputs, theirs = tflite_oracle(path, None)
    except Exception as error:  # whatever another program says of a model that it does not run
        return "no oracle", f": {_line(str(error))}"
    worst = 0.0
    for vector in range(len(next(iter(inputs.values())))):
        given = {name: array[vector] for name, array in zip(graph.inputs, inputs.values(), strict=True)}
        states = {state.read: graph.tensors[state.initial].data for state in graph.states}
        if not vector or not states:  # a state goes on from inference to inference, of the first one alone it is known
            values = evaluate(graph, {**given, **{n: data for n, data in states.items() if data is not None}})
            for name, wanted in zip(graph.outputs, theirs.values(), strict=True):
                own = values[name].reshape(wanted[vector].shape)
                off = float(np.abs(own.astype(np.float64) - wanted[vector].astype(np.float64)).max())
                if wanted.dtype.kind != "f" and off:
                    return "wrong", f": {off:.0f} steps ({oracle})"
                worst = max(worst, off / max(float(np.abs(wanted[vector]).max()), 1e-30))
    if worst > REAL:
        return "wrong", f": {worst:.1e} ({oracle})"
    return ("near", f": float32 within {worst:.1e} ({oracle})") if worst else ("byte-equal", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", help="parts of file names; default: all")
    parser.add_argument("--out", type=Path, default=Path("build/wild"))
    parser.add_argument("--folder", type=Path, help="the .tflite files below this folder instead")
    arguments = parser.parse_args()
    if arguments.folder:
        return folder_of_files(arguments.folder)
    arguments.out.mkdir(parents=True, exist_ok=True)
    bad = 0
    print("| file | at 5cb0595 | now | wanted | |\n|---|---|---|---|---|", flush=True)
    for case in TABLE:
        if not arguments.cases or any(part in case.file for part in arguments.cases):
            found = measured(case, arguments.out / Path(case.file).stem)
            bad += not found.good
            words = (case.file, case.today, found.text, case.wanted, "yes" if found.good else "**no**")
            print("| " + " | ".join(words) + " |", flush=True)
    print(f"\n{bad} rows are not as wanted")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
