"""Labelled samples through all three sayings of a model: the C reference, numpy, and PyPI's tflite_micro."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from evaluate import evaluate
from PIL import Image
from runtime import load_reference
from shared import DATA, MODELS, needs_shared
from test_reference_oracle import Oracle

from shoehorn_mcu import passes
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Array

Samples = tuple[Array, list[int]]


def _labels(folder: str) -> list[tuple[str, int]]:
    lines = (DATA / folder / "y_labels.csv").read_text().split()
    return [(name, int(label)) for name, _, label in (line.split(",") for line in lines)]


def _keywords() -> Samples:
    return np.fromfile(DATA / "kws01" / "x_int8_1000x490.bin", np.int8).reshape(-1, 49, 10, 1), [
        label for _, label in _labels("kws01")
    ]


def _pixels(stored: Array) -> Array:
    return (stored.astype(np.int16) - 128).astype(np.int8)


def _tiny_images() -> Samples:
    stored = np.fromfile(DATA / "ic01" / "x_u8_200x32x32x3.bin", np.uint8).reshape(-1, 32, 32, 3)
    return _pixels(stored), [label for _, label in _labels("ic01")]


def _people() -> Samples:
    """Red and blue are swapped in these files."""
    with tarfile.open(DATA / "vww01" / "vww01_jpg96.tar.gz") as archive:
        found = {m.name: archive.extractfile(m) for m in archive.getmembers() if m.isfile()}
        decoded = {
            name.rpartition("/")[2].partition(".")[0]: np.asarray(Image.open(io.BytesIO(file.read())))[..., ::-1]
            for name, file in found.items()
            if file is not None
        }
    named = [(decoded[name.partition(".")[0]], label) for name, label in _labels("vww01")]
    return _pixels(np.stack([image for image, _ in named])), [label for _, label in named]


def _lossless_images() -> Samples:
    """CIFAR's own format: the label, then planes; normalised as the model was trained."""
    records = np.fromfile(DATA / "cifar10" / "cifar10_raw500.bin", np.uint8).reshape(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32) / 255
    return (images - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225), records[:, 0].tolist()


@dataclass(frozen=True)
class Task:
    """A benchmark with the share of labels that tflite_micro itself gets right here."""

    model: str
    samples: Callable[[], Samples]
    right: float


TASKS = (
    Task("mlperf-kws-dscnn-int8", _keywords, 0.901),
    Task("mlperf-vww96-int8", _people, 0.853),
    Task("mlperf-ic-resnet8-int8", _tiny_images, 0.865),
    Task("resnet20-cifar10-int8", _lossless_images, 0.936),
)


def _share_of_right_labels(task: Task, most: int, in_numpy: int) -> float:
    """Runs the model as the generator changes it; the first `in_numpy` samples also through the numpy references."""
    path = MODELS / f"{task.model}.tflite"
    source = load(path)
    graph, _ = passes.run(source, frozenset(), ())
    reference, oracle = load_reference(graph), Oracle(path.read_bytes(), source)
    (name,), (output,) = graph.inputs, graph.outputs
    quant = graph.tensors[name].type.quantised
    images, labels = task.samples()
    right = 0
    for i, (image, label) in enumerate(zip(images[:most], labels, strict=False)):
        stored = image
        if image.dtype != np.int8:
            stored = np.clip(np.round(image / quant.scale) + quant.zero_point, -128, 127).astype(np.int8)
        want = oracle.run([stored[None]])[output]

        assert reference.run([stored[None]])[output].tobytes() == want.tobytes(), f"sample {i}"
        if i < in_numpy:
            assert evaluate(graph, {name: stored[None]})[output].tobytes() == want.tobytes(), f"sample {i} in numpy"
        right += int(want.reshape(-1).argmax()) == label
    return right / len(labels[:most])


def _raw_images() -> Samples:
    """Pixels as the float model was trained on them, 0 to 255."""
    stored = np.fromfile(DATA / "ic01" / "x_u8_200x32x32x3.bin", np.uint8).reshape(-1, 32, 32, 3)
    return stored.astype(np.float32), [label for _, label in _labels("ic01")]


def _clothes() -> Samples:
    images, labels = (
        gzip.decompress((DATA / "fashion-mnist" / f"t10k-first4443-{kind}-ubyte.gz").read_bytes())
        for kind in ("images-idx3", "labels-idx1")
    )
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)
    return pixels.astype(np.float32) / np.float32(255), list(labels[8:])


FLOAT_TASKS = (
    Task("mlperf-ic-resnet8-f32", _raw_images, 0.855),
    Task("fmnist-nubificus-f32", _clothes, 0.915),
)


def _share_of_right_float_labels(task: Task, most: int) -> float:
    """Every tensor must have the bytes of tflite_micro, but for softmax, which has an exponential of its own."""
    path = MODELS / f"{task.model}.tflite"
    source = load(path)
    reference, oracle = load_reference(source), Oracle(path.read_bytes(), source)
    (output,) = source.outputs
    images, labels = task.samples()
    right = 0
    for i, (image, label) in enumerate(zip(images[:most], labels, strict=False)):
        ours, theirs = reference.run([image[None]]), oracle.run([image[None]])
        for op in source.ops:
            if op.output != output:
                assert ours[op.output].tobytes() == theirs[op.output].tobytes(), f"sample {i}: {op.name}"
        np.testing.assert_allclose(ours[output], theirs[output], rtol=2**-21, atol=2e-28)
        right += int(ours[output].reshape(-1).argmax()) == label
    return right / len(labels[:most])


@needs_shared
@pytest.mark.parametrize("task", FLOAT_TASKS, ids=lambda t: t.model)
def test_real_samples_give_the_sums_of_tflite_micro_in_float32(task: Task) -> None:
    assert _share_of_right_float_labels(task, most=12) > task.right - 0.35


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("task", FLOAT_TASKS, ids=lambda t: t.model)
def test_all_real_samples_give_the_sums_of_tflite_micro_in_float32_and_its_labels(task: Task) -> None:
    assert _share_of_right_float_labels(task, most=200) == pytest.approx(task.right, abs=1e-6)


@needs_shared
@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.model)
def test_real_samples_give_the_bytes_of_tflite_micro(task: Task) -> None:
    assert _share_of_right_labels(task, most=12, in_numpy=2) > task.right - 0.35


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.model)
def test_all_real_samples_give_the_bytes_of_tflite_micro_and_its_labels(task: Task) -> None:
    assert _share_of_right_labels(task, most=1000, in_numpy=25) == pytest.approx(task.right, abs=1e-6)
