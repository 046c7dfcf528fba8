"""Model file in, verified Graph out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoehorn_mcu.importers import onnx_forms, tflite_forms
from shoehorn_mcu.importers.fault import ImportFault, Unsupported, UnsupportedModel
from shoehorn_mcu.importers.forms import Form, Forms, In, Kind
from shoehorn_mcu.importers.onnx import load_onnx
from shoehorn_mcu.importers.source import Imported, Shapes
from shoehorn_mcu.importers.tflite import load_tflite
from shoehorn_mcu.importers.torch import import_module, load_torch
from shoehorn_mcu.ir import Graph

__all__ = [
    "IMPORTERS",
    "Form",
    "Forms",
    "ImportFault",
    "Imported",
    "Importer",
    "In",
    "Kind",
    "Shapes",
    "Unsupported",
    "UnsupportedModel",
    "import_module",
    "imported",
    "load",
]


@dataclass(frozen=True)
class Importer:
    """One file format: the function that reads a file (and files that it names), and what the supported ops become.

    `load` is given the sizes of dimensions that the file leaves open. It raises ImportFault without the file's name,
    or OSError if the file cannot be read.
    """

    load: Callable[[Path, Shapes], Imported]
    forms: Callable[[], Forms]

    @property
    def ops(self) -> Sequence[str]:
        """All of them, sorted."""
        return sorted(self.forms())


IMPORTERS: dict[str, Importer] = {
    ".tflite": Importer(load_tflite, tflite_forms.forms),
    ".onnx": Importer(load_onnx, onnx_forms.forms),
    **dict.fromkeys((".pt2", ".pt", ".pth", ".ts"), Importer(load_torch, onnx_forms.forms)),
}
"""By file suffix. What a file of PyTorch holds is decided by its content."""

# Formats that are often tried, by suffix; docs/first-model.md shows how to convert each to an int8 .tflite.
OTHER_FORMATS = {
    ".keras": "a Keras model",
    ".h5": "a Keras model",
    ".pb": "a TensorFlow SavedModel",
}
GUIDE = "docs/first-model.md"


def load(path: Path, shapes: Shapes | None = None) -> Graph:
    """The graph of `imported`, which has the errors too."""
    return imported(path, shapes or {}).graph


def imported(path: Path, shapes: Shapes) -> Imported:
    """The model in a file, with a verified graph named after the file.

    Raises ImportFault, whose message is one line.
    """
    if path.is_dir():
        raise ImportFault(f"{path}: is a folder; name a file that ends in {' or '.join(IMPORTERS)}")
    importer = IMPORTERS.get(path.suffix.lower())
    if importer is None:
        raise ImportFault(f"{path.name}: {_other_format(path.suffix)}")
    try:
        return importer.load(path, shapes)
    except OSError as error:
        raise ImportFault(f"{path}: cannot be read: {error.strerror}") from error
    except ImportFault as fault:
        raise fault.within(path.name) from fault


def _other_format(suffix: str) -> str:
    """The diagnosis and the cure for a file with an unsupported suffix."""
    known = ", ".join(IMPORTERS)
    if name := OTHER_FORMATS.get(suffix.lower()):
        return f"{name}; convert it to an int8 .tflite, or export it as .onnx, first ({GUIDE} shows how)"
    return f"unknown kind of model '{suffix}'; known: {known}"
