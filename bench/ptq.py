"""Accuracy after quantisation: each float32 model with labelled samples beside the checkout, by each method.

    python -m bench.ptq [--models NAME ...] [--write]

The first samples calibrate; all are decided by the float32 model, in ONNX Runtime, and by the quantised one, in the
reference runtime, which has the chip's arithmetic. A second table has the decisions of ONNX Runtime on the quantised
file beside those.
--write puts both tables into docs/quantize.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto
from PIL import Image

from bench.twins import float_twin
from shoehorn_mcu import passes
from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.folder.reference import reference_files
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.quantisation import Bits, Method, QuantizeError, Settings, quantize_model
from shoehorn_mcu.quantisation.runtime import Runner
from shoehorn_mcu.quantisation.steps import float_model
from shoehorn_mcu_host.validate.reference import Reference
from tests.shared import DATA, MODELS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "quantize.md"
MEASURED, BESIDE = "## Measured\n", "## Beside ONNX Runtime\n"
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


def _labels(folder: str) -> dict[str, int]:
    with (DATA / folder / "y_labels.csv").open(newline="") as file:
        return {row[0]: int(row[2]) for row in csv.reader(file)}


def _words() -> Labelled:
    """Features in real numbers: the files have those of KWS's int8 input, of scale 0.5847029 and zero point 83."""
    stored = np.fromfile(DATA / "kws01" / "x_int8_1000x490.bin", np.int8).reshape(-1, 49, 10, 1)
    return (stored.astype(np.float32) - 83) * np.float32(0.5847029), np.array([*_labels("kws01").values()])


def _people() -> Labelled:
    """Pixels from 0 to 1; red and blue are swapped in these files."""
    with tarfile.open(DATA / "vww01" / "vww01_jpg96.tar.gz") as archive:
        found = {Path(m.name).stem: archive.extractfile(m) for m in archive.getmembers() if m.isfile()}
        images = {name: np.asarray(Image.open(BytesIO(file.read()))) for name, file in found.items() if file}
    labels = {Path(name).stem: label for name, label in _labels("vww01").items()}
    pixels = np.stack([images[name][..., ::-1] for name in labels])
    return pixels.astype(np.float32) / 255, np.array([*labels.values()])


@dataclass(frozen=True)
class Task:
    """A model, its samples, and how many of them calibrate."""

    title: str
    model: str
    samples: Callable[[], Labelled]
    calibrate: int

    def source(self, folder: Path) -> Path:
        """The float32 model: the file, or the twin of one in int8."""
        path = MODELS / self.model
        return float_twin(path, folder) if self.model.endswith("int8.tflite") else path


TASKS = (
    Task("ResNet-20 (`.onnx`), CIFAR-10", "resnet20-cifar10-f32.onnx", _normalised, 100),
    Task("MLPerf IC (`.tflite`), CIFAR-10", "mlperf-ic-resnet8-f32.tflite", _raw, 100),
    Task("MLPerf IC (`.tflite`), its own 200 images", "mlperf-ic-resnet8-f32.tflite", _tiny, 100),
    Task("MLPerf KWS (twin), its 1,000 samples", "mlperf-kws-dscnn-int8.tflite", _words, 200),
    Task("MLPerf VWW (twin), its 1,000 images", "mlperf-vww96-int8.tflite", _people, 100),
    Task("small CNN (`.tflite`), Fashion-MNIST", "fmnist-nubificus-f32.tflite", _clothes, 200),
    Task("three dense layers (`.onnx`), MNIST", "onnx2c-mnist-pytorch.onnx", _digits, 200),
)


def task(part: str) -> Task:
    """The first task with such a part in its model's name."""
    return next(each for each in TASKS if part in each.model)


PUBLISHED = "resnet20-cifar10-qdq-int8.onnx"
SETTINGS = {
    **{f"`{each.value}`": Settings(each) for each in Method},
    **{f"`--bits {each.value}`": Settings(bits=each) for each in (Bits.WIDE, Bits.NIBBLES)},
}


Classes = NDArray[np.int64]
"""The class that a model decides for, by sample."""


def by_runtime(model: ModelProto, images: Array) -> Classes:
    """As ONNX Runtime computes."""
    session, (given,) = Runner(model), model.graph.input
    shape = _shape(model)
    found = session.over({given.name: x.reshape(shape)} for x in images)
    return np.array([values[session.names[0]].argmax() for values in found])


def by_reference(model: ModelProto, images: Array) -> Classes:
    """As the reference runtime computes: the chip's arithmetic."""
    imported, (given,) = import_model(model, "made"), model.graph.input
    graph, shape, order = passes.run(imported.graph)[0], _shape(model), imported.ends[given.name].order
    reference, output = reference_of(graph), graph.outputs[0]
    back = np.argsort(imported.ends[output].order)
    results = (reference.run([x.reshape(shape).transpose(order)])[output] for x in images)
    return np.array([result.transpose(back).argmax() for result in results])


def _shape(model: ModelProto) -> list[int]:
    """Of the one input."""
    (given,) = model.graph.input
    return [dimension.dim_value for dimension in given.type.tensor_type.shape.dim]


def reference_of(graph: Graph) -> Reference:
    """The graph in the reference runtime: the chip's arithmetic."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "reference"
        folder.mkdir()
        for each, content in reference_files(graph, graph.name).items():
            (folder / each).write_bytes(content.encode() if isinstance(content, str) else content)
        (folder / "runtime").symlink_to(RUNTIME_C)
        return Reference.load(Path(name))


def beside(title: str, theirs: Classes, ours: Classes, labels: Classes) -> str:
    """The line of a quantised model in the second table."""
    pairs = ((theirs, labels), (ours, labels), (ours, theirs))
    return f"| {title} | {len(labels):,} | {' | '.join(f'{np.count_nonzero(a == b):,}' for a, b in pairs)} |"


def rows(task: Task, folder: Path) -> tuple[str, str]:
    """The lines of a model, in the first table and, as `minmax` quantises it, in the second."""
    images, labels = task.samples()
    path = task.source(folder)
    source = float_model(path)
    shape = _shape(source)
    np.savez(folder / "some.npz", **{source.graph.input[0].name: images.reshape(-1, *shape[1:])[: task.calibrate]})
    before = np.count_nonzero(by_runtime(source, images) == labels)
    shown, other = [], ""
    for settings in SETTINGS.values():
        try:
            made = quantize_model(path, folder / "some.npz", settings)
        except QuantizeError as refusal:
            shown.append(f"refused: {refusal}")
            continue
        ours = by_reference(made.model, images)
        other = other or beside(task.title, by_runtime(made.model, images), ours, labels)
        shown.append(f"{np.count_nonzero(ours == labels):,}, {made.sqnr_db:.1f} dB")
        print(task.title, shown[-1], other, file=sys.stderr, flush=True)
    return f"| {task.title} | {len(labels):,} | {before:,} | {' | '.join(shown)} |", other


def _put(text: str, head: str, lines: Sequence[str]) -> str:
    """The text with these lines as the first table behind a head."""
    begin = text.index("| model", text.index(head))
    end = text.find("\n\n", begin)
    return text[:begin] + "\n".join(lines) + (text[end:] if end >= 0 else "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="parts of names; default: all")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/quantize.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        chosen = [t for t in TASKS if not arguments.models or any(part in t.model for part in arguments.models)]
        found = [rows(task, Path(name)) for task in chosen]
    measured = [
        f"| model, samples | samples | float32 | {' | '.join(SETTINGS)} |",
        f"|---|{'---:|' * (2 + len(SETTINGS))}",
        *(line for line, _ in found),
    ]
    others = [
        "| model, samples | samples | right, ONNX Runtime | right, Shoehorn | the same decision |",
        "|---|---:|---:|---:|---:|",
        *(line for _, line in found),
    ]
    if not arguments.models or any(part in PUBLISHED for part in arguments.models):
        title = "ResNet-20 (published, QDQ), CIFAR-10"
        (images, labels), model = _normalised(), onnx.load(MODELS / PUBLISHED)
        others.append(beside(title, by_runtime(model, images), by_reference(model, images), labels))
    print("\n".join((*measured, "", *others)))
    if arguments.write:
        PAGE.write_text(_put(_put(PAGE.read_text(), MEASURED, measured), BESIDE, others))


if __name__ == "__main__":
    main()
