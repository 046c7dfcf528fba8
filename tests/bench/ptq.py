"""Accuracy after quantisation: each float32 model with labelled samples beside the checkout, by each method.

    python -m tests.bench.ptq [--models NAME ...] [--write]

The first samples calibrate; all are decided by the float32 model, in ONNX Runtime, and by the quantised one, in the
chip's own arithmetic. --write puts the table into docs/quantize.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from shoehorn_mcu import passes
from shoehorn_mcu.importers.onnx import import_model
from shoehorn_mcu.ir import Array
from shoehorn_mcu.quantisation import Bits, Method, QuantizeError, Settings, quantize_model
from shoehorn_mcu.quantisation.measure import Accuracy, accuracy
from shoehorn_mcu.quantisation.samples import Samples
from shoehorn_mcu.quantisation.steps import float_model
from tests.shared import DATA, MODELS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quantize.md"
HEAD = "## Measured\n"
Labelled = tuple[Array, NDArray[np.int64]]


def cifar() -> tuple[Array, NDArray[np.int64]]:
    """500 lossless test images, 3 x 32 x 32, 0 to 255."""
    rows = np.fromfile(DATA / "cifar10" / "cifar10_raw500.bin", np.uint8).reshape(500, 3073)
    return rows[:, 1:].reshape(500, 3, 32, 32).astype(np.float32), rows[:, 0].astype(np.int64)


def _normalised() -> Labelled:
    mean, deviation = (np.array(v, np.float32).reshape(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    images, labels = cifar()
    return (images / 255 - mean) / deviation, labels


def _raw() -> Labelled:
    images, labels = cifar()
    return images.transpose(0, 2, 3, 1), labels


def _tiny() -> Labelled:
    stored = np.fromfile(DATA / "ic01" / "x_u8_200x32x32x3.bin", np.uint8).reshape(-1, 32, 32, 3)
    with (DATA / "ic01" / "y_labels.csv").open(newline="") as file:
        labels = [int(row[2]) for row in csv.reader(file)]
    return stored.astype(np.float32), np.array(labels)


def _idx(images: Path, labels: Path) -> tuple[Array, NDArray[np.int64]]:
    pixels = np.frombuffer(gzip.decompress(images.read_bytes()), np.uint8, offset=16).reshape(-1, 28, 28, 1)
    return pixels.astype(np.float32), np.frombuffer(gzip.decompress(labels.read_bytes()), np.uint8, offset=8).astype(
        np.int64
    )


def _digits() -> Labelled:
    folder = DATA / "mnist"
    images, labels = _idx(folder / "t10k-images-idx3-ubyte.gz", folder / "t10k-labels-idx1-ubyte.gz")
    return images.reshape(-1, 784) / 255, labels


def _clothes() -> Labelled:
    folder = DATA / "fashion-mnist"
    names = (f"t10k-first4443-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1"))
    images, labels = _idx(*(folder / name for name in names))
    return images / np.float32(255), labels


@dataclass(frozen=True)
class Task:
    """A model, its samples, and how many of them calibrate."""

    title: str
    model: str
    samples: Callable[[], Labelled]
    calibrate: int


TASKS = (
    Task("ResNet-20 (`.onnx`), CIFAR-10", "resnet20-cifar10-f32.onnx", _normalised, 100),
    Task("MLPerf IC (`.tflite`), CIFAR-10", "mlperf-ic-resnet8-f32.tflite", _raw, 100),
    Task("MLPerf IC (`.tflite`), its own 200 images", "mlperf-ic-resnet8-f32.tflite", _tiny, 100),
    Task("small CNN (`.tflite`), Fashion-MNIST", "fmnist-nubificus-f32.tflite", _clothes, 200),
    Task("three dense layers (`.onnx`), MNIST", "onnx2c-mnist-pytorch.onnx", _digits, 200),
)
SETTINGS = {
    **{f"`{each.value}`": Settings(each) for each in Method},
    **{f"`--bits {each.value}`": Settings(bits=each) for each in (Bits.WIDE, Bits.NIBBLES)},
}


def right(made: ModelProto, source: ModelProto, images: Array, labels: NDArray[np.int64]) -> Accuracy:
    """The decisions of both models."""
    (given,) = source.graph.input
    shape = [dimension.dim_value for dimension in given.type.tensor_type.shape.dim]
    imported = import_model(made, "made")
    optimised = replace(imported, graph=passes.run(imported.graph)[0])
    return accuracy(source, optimised, Samples({given.name: images.reshape(-1, *shape)}), labels, lambda _: None)


def row(task: Task, folder: Path) -> str:
    """The line of a model."""
    images, labels = task.samples()
    source = float_model(MODELS / task.model)
    (given,) = source.graph.input
    shape = [dimension.dim_value for dimension in given.type.tensor_type.shape.dim]
    np.savez(folder / "some.npz", **{given.name: images.reshape(-1, *shape[1:])[: task.calibrate]})
    shown, before = [], ""
    for settings in SETTINGS.values():
        try:
            made = quantize_model(MODELS / task.model, folder / "some.npz", settings)
        except QuantizeError as refusal:
            shown.append(f"refused: {refusal}")
            continue
        found = right(made.model, source, images, labels)
        before = f"{found.before:,}"
        shown.append(f"{found.after:,}, {made.sqnr_db:.1f} dB")
        print(task.title, shown[-1], file=sys.stderr, flush=True)
    return f"| {task.title} | {len(labels):,} | {before} | {' | '.join(shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="parts of names; default: all")
    parser.add_argument("--write", action="store_true", help="write the table into docs/quantize.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        chosen = [t for t in TASKS if not arguments.models or any(part in t.model for part in arguments.models)]
        lines = [
            f"| model, samples | samples | float32 | {' | '.join(SETTINGS)} |",
            f"|---|{'---:|' * (2 + len(SETTINGS))}",
            *(row(task, Path(name)) for task in chosen),
        ]
    print("\n".join(lines))
    if arguments.write:
        text = PAGE.read_text()
        begin = text.index("| model", text.index(HEAD))
        end = text.find("\n\n", begin)
        PAGE.write_text(text[:begin] + "\n".join(lines) + (text[end:] if end >= 0 else "\n"))


if __name__ == "__main__":
    main()
