"""Model file in, verified Graph out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shoehorn_mcu.importers.fault import ImportFault, Unsupported, UnsupportedModel
from shoehorn_mcu.importers.tflite import import_tflite
from shoehorn_mcu.ir import Graph

__all__ = ["IMPORTERS", "ImportFault", "Unsupported", "UnsupportedModel", "load"]

IMPORTERS: dict[str, Callable[[bytes, str], Graph]] = {".tflite": import_tflite}
"""By file suffix: a function of the file's bytes and its name without suffix."""

# Formats that people try, by suffix; docs/first-model.md has the way from each to an int8 .tflite.
OTHER_FORMATS = {
    ".onnx": "an ONNX model",
    ".keras": "a Keras model",
    ".h5": "a Keras model",
    ".pb": "a TensorFlow SavedModel",
    ".pt": "a PyTorch model",
    ".pth": "a PyTorch model",
    ".pt2": "a PyTorch model",
}
GUIDE = "docs/first-model.md"

FILE_LIMIT_BYTES = 1 << 31  # offsets in a flatbuffer are 32 bits; also what we are ready to hold


def load(path: Path) -> Graph:
    """The verified graph of a model file, named after the file; ImportFault says what is wrong, in one line."""
    if path.is_dir():
        raise ImportFault(f"{path}: is a folder; name a file that ends in {' or '.join(IMPORTERS)}")
    importer = IMPORTERS.get(path.suffix.lower())
    if importer is None:
        raise ImportFault(f"{path.name}: {_other_format(path.suffix)}")
    try:
        if path.stat().st_size >= FILE_LIMIT_BYTES:
            raise ImportFault(f"{path.name}: larger than {FILE_LIMIT_BYTES} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise ImportFault(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return importer(data, path.stem)
    except ImportFault as fault:
        raise fault.within(path.name) from fault


def _other_format(suffix: str) -> str:
    """Diagnosis and cure for a file whose suffix no importer has."""
    known = ", ".join(IMPORTERS)
    if name := OTHER_FORMATS.get(suffix.lower()):
        return f"{name}; convert it to an int8 {known} first ({GUIDE} shows how)"
    return f"unknown kind of model '{suffix}'; known: {known}"
