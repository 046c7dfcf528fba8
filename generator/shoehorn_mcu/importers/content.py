"""What a file is by its content, where that is no model of its suffix: pointers, web pages, archives, other formats."""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from pathlib import Path

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu_host.base.files import read_start

FILE_LIMIT_BYTES = 1 << 31  # of protobuf, and of the offsets in a flatbuffer; also limits the memory used
_START = 512  # bytes that are looked at
_MOST_MEMBERS = 100_000  # of an archive whose names are looked at
_LFS = b"version https://git-lfs.github.com/spec/"
_HTML = re.compile(rb"\s*(<!doctype html|<html)", re.I)
_ONNX = re.compile(rb"\x08[\x03-\x0f][\x12\x1a\x22\x2a\x32\x3a\x42]")  # ir_version, then another field of a model
_GUIDE = "docs/first-model.md"
_TORCH = (".pt2", ".pt", ".pth", ".ts")
DAMAGED = (OSError, ValueError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged archive raises."""


def content(path: Path) -> bytes:
    """The bytes of a model's file. Raises ImportFault, without its name, where they are too many or have no end."""
    if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
        raise ImportFault("is no regular file; copy the model into one")
    data = read_start(path, FILE_LIMIT_BYTES)
    if len(data) >= FILE_LIMIT_BYTES:
        raise ImportFault(f"larger than {FILE_LIMIT_BYTES - 1} bytes")
    return data


def other_content(path: Path, suffix: str) -> str:
    """What the file is, and what to do with it, where it is known to be no model of this suffix; else "".

    Raises OSError.
    """
    start = read_start(path, _START)
    if not start:
        return "is empty: copy or download it again"
    if start.startswith(_LFS):
        return "is a Git-LFS pointer, not the model: run `git lfs pull` in its repository"
    if _HTML.match(start):
        return "is a web page, not the model: download the file itself (on GitHub, the raw one)"
    if start[:2] == b"PK":
        return _archive(path, suffix)
    if start[4:8] == b"TFL3" and suffix != ".tflite":
        return f"is a TensorFlow Lite model: call it {path.stem}.tflite"
    if _ONNX.match(start) and suffix != ".onnx":
        return f"is an ONNX model: call it {path.stem}.onnx"
    if start.startswith(b"\x89HDF"):
        return f"is a Keras model (HDF5): convert it to .tflite, or export it as .onnx ({_GUIDE} shows how)"
    if start.startswith(b"\x1f\x8b"):
        return "is compressed by gzip: unpack it first"
    return ""


def _archive(path: Path, suffix: str) -> str:
    """Of a zip file, by the names in it."""
    try:
        with zipfile.ZipFile(path) as file:
            names = file.namelist()[:_MOST_MEMBERS]
    except DAMAGED:
        return ""
    ends = {name.rpartition("/")[2] for name in names}
    if "saved_model.pb" in ends:
        return f"is an archive of a SavedModel: unpack it, and convert the folder to .tflite ({_GUIDE} shows how)"
    if "model.weights.h5" in ends:
        return f"is a Keras model: convert it to .tflite, or export it as .onnx ({_GUIDE} shows how)"
    if suffix in _TORCH:
        return ""
    if ends & {"data.pkl", "archive_format"}:
        return f"is an archive of PyTorch: call it {path.stem}.pt2, or .pt for TorchScript"
    inside = sorted(name for name in names if name.lower().endswith((".tflite", ".onnx", *_TORCH)))
    if inside:
        name = "".join(each if each.isprintable() else "?" for each in inside[0])
        return f"is an archive that holds {quoted(name)}: unpack it"
    return "is an archive, and no model that is known: unpack it, and name the model in it"
