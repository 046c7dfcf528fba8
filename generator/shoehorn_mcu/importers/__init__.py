"""Model file in, verified Graph out.

What only models of ONNX and PyTorch need, or only `forms`, is imported on first use: it takes a fifth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoehorn_mcu.importers.content import other_content
from shoehorn_mcu.importers.fault import ImportFault, UnsupportedModel
from shoehorn_mcu.importers.forms import Form, Forms, In, Kind
from shoehorn_mcu.importers.seen import at_fault, seen_in
from shoehorn_mcu.importers.source import Imported, InFloat, Shapes, Source
from shoehorn_mcu.importers.tflite.importer import load_tflite
from shoehorn_mcu.ir import Graph

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Importer:
    """One file format: the function that reads a file (and files that it names), and what the supported ops become.

    `load` is given the sizes of dimensions that the file leaves open. It raises ImportFault without the file's name,
    or OSError if the file cannot be read.
    """

    load: Callable[[Path, Shapes], Imported]
    forms: Callable[[], Forms]
    # The ONNX model that a file is or becomes, and the shapes for its import; None: it becomes none.
    model: Callable[[Path, Shapes], tuple[ModelProto, Shapes]] | None = None

    @property
    def ops(self) -> Sequence[str]:
        """All of them, sorted."""
        return sorted(self.forms())


def _tflite_forms() -> Forms:
    from shoehorn_mcu.importers.tflite import forms as tflite_forms

    return tflite_forms.forms()


def _onnx_forms() -> Forms:
    from shoehorn_mcu.importers.onnx import forms as onnx_forms

    return onnx_forms.forms()


def _load_onnx(path: Path, shapes: Shapes) -> Imported:
    from shoehorn_mcu.importers.onnx.importer import load_onnx

    return load_onnx(path, shapes)


def _onnx_model(path: Path, shapes: Shapes) -> tuple[ModelProto, Shapes]:
    from shoehorn_mcu.importers.onnx.file import load_proto

    return load_proto(path), shapes


def _load_torch(path: Path, shapes: Shapes) -> Imported:
    from shoehorn_mcu.importers.torch.importer import load_torch

    return load_torch(path, shapes)


def _torch_model(path: Path, shapes: Shapes) -> tuple[ModelProto, Shapes]:
    from shoehorn_mcu.importers.torch.importer import torch_model

    return torch_model(path, shapes)


IMPORTERS: dict[str, Importer] = {
    ".tflite": Importer(load_tflite, _tflite_forms),
    ".onnx": Importer(_load_onnx, _onnx_forms, _onnx_model),
    **dict.fromkeys((".pt2", ".pt", ".pth", ".ts"), Importer(_load_torch, _onnx_forms, _torch_model)),
}
"""By file suffix. What a file of PyTorch holds is decided by its content."""

# Formats that are often tried, by suffix; docs/first-model.md shows how to convert each to an int8 .tflite.
OTHER_FORMATS = {".keras": "a Keras model", ".h5": "a Keras model", ".pb": "a TensorFlow SavedModel"}
GUIDE = "docs/first-model.md"


def load(path: Path, shapes: Shapes | None = None) -> Graph:
    """The graph of `imported`, which has the errors too."""
    return imported(path, shapes or {}).graph


def imported(path: Path, shapes: Shapes) -> Imported:
    """The model in a file, with a verified graph named after the file.

    Raises ImportFault, whose message is one line.
    """
    importer = _importer(path)
    with _named(path):
        _check_content(path)
        return importer.load(path, shapes)


def _check_content(path: Path) -> None:
    """Raises ImportFault, without the file's name, where the file is known to be no model of its suffix; OSError."""
    if found := other_content(path, path.suffix.lower()):
        raise ImportFault(found)


def onnx_model(path: Path, shapes: Shapes) -> ModelProto:
    """The ONNX model that a file is or becomes, with all its constants and these shapes, once its import succeeded.

    Raises as `imported`, and ImportFault for a format that does not become one.
    """
    from shoehorn_mcu.importers.onnx import shapes as onnx_shapes
    from shoehorn_mcu.importers.onnx.importer import import_model

    importer = _importer(path)
    with _named(path):
        _check_content(path)
        assert importer.model is not None, "all but .tflite, which callers import themselves"
        model, sizes = importer.model(path, shapes)
        checked = deepcopy(model)
        import_model(checked, path.stem, sizes)
        onnx_shapes.fix(model, sizes)
        return model


def other_files(path: Path) -> tuple[Path, ...]:
    """The other files that hold constants of a model, which only .onnx has; they are not read.

    Raises ImportFault.
    """
    if path.suffix.lower() != ".onnx":
        return ()
    from shoehorn_mcu.importers.onnx import apart

    with _named(path):
        return apart.other_files(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """ImportFault says the file's name."""
    try:
        yield
    except OSError as error:
        raise ImportFault(f"{path}: cannot be read: {error.strerror}") from error
    except ImportFault as fault:
        raise fault.within(path.name) from fault


def _importer(path: Path) -> Importer:
    """That of a file by its suffix. Raises ImportFault where there is none."""
    if (path / "saved_model.pb").is_file():
        raise ImportFault(f"{path}: is a SavedModel; convert it to an int8 .tflite first ({GUIDE} shows how)")
    if path.is_dir():
        raise ImportFault(f"{path}: is a folder; name a file that ends in {' or '.join(IMPORTERS)}")
    importer = IMPORTERS.get(path.suffix.lower())
    if importer is None:
        if path.suffix.lower() not in OTHER_FORMATS and path.is_file():
            with _named(path):
                _check_content(path)
        raise ImportFault(f"{path.name}: {_other_format(path.suffix)}")
    return importer


def _other_format(suffix: str) -> str:
    """The diagnosis and the cure for a file with an unsupported suffix."""
    known = ", ".join(IMPORTERS)
    if name := OTHER_FORMATS.get(suffix.lower()):
        return f"{name}; convert it to an int8 .tflite, or export it as .onnx, first ({GUIDE} shows how)"
    return f"unknown kind of model '{suffix}'; known: {known}"
