"""Input vectors of a validation, from .npz files or seeded random numbers, and its outputs, to .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from shoehorn_mcu_host.base.arrays import read_npy, read_npz
from shoehorn_mcu_host.base.errors import HostError, InputError
from shoehorn_mcu_host.folder import documents
from shoehorn_mcu_host.folder.documents import GraphDocument
from shoehorn_mcu_host.folder.plan import Array, End, Stored

Vector = list[Array]  # one array per input, in the model's order and shapes
LABELS = ("y", "label", "labels")  # what arrays of labels are called
_FALLBACK = (-1.0, 1.0)  # range of float32 inputs that no op quantises


def from_npz(path: Path, inputs: Sequence[End], quantize: bool = False) -> list[Vector]:
    """The vectors of X.npz: one array per model input, by name or else in order; first axis = vectors.

    Names, shapes and types are those of the model's file, whatever the firmware has. Integers are stored values and
    must be in the range of the input's type. Floats are refused for an input of integers unless `quantize`: then they
    are real values, rounded and saturated as the op Quantize does.
    """
    arrays = read_npz(path)
    arrays.pop(_label_name(arrays, inputs), None)
    names = [end.outside.name for end in inputs]
    if len(arrays) != len(names):
        raise InputError(f"{path}: holds {len(arrays)} arrays, the model has {len(names)} inputs: {', '.join(names)}")
    by_name = all(name in arrays for name in names)
    chosen = [arrays[name] for name in names] if by_name else list(arrays.values())
    return _rows(path, [column(str(path), array, end, quantize) for array, end in zip(chosen, inputs, strict=True)])


def _rows(path: Path, columns: Sequence[Array]) -> list[Vector]:
    counts = {len(each) for each in columns}
    if len(counts) != 1:
        raise InputError(f"{path}: the arrays hold different numbers of vectors: {sorted(counts)}")
    if counts == {0}:
        raise InputError(f"{path}: holds no vectors")
    return [list(row) for row in zip(*columns, strict=True)]


def labels_beside(path: Path, inputs: Sequence[End]) -> Array | None:
    """The labels that X.npz holds beside the inputs, or None."""
    arrays = read_npz(path)
    return arrays.get(_label_name(arrays, inputs))


def _label_name(arrays: Mapping[str, Array], inputs: Sequence[End]) -> str:
    """The name of the one array, beside as many as the model has inputs, that is called as in LABELS; else ""."""
    found = [name for name in arrays if name in LABELS and name not in {end.outside.name for end in inputs}]
    return found[0] if len(found) == 1 and len(arrays) == len(inputs) + 1 else ""


def read_labels(path: Path, inputs: Sequence[End]) -> Array:
    """The labels in Y.npy, or in Y.npz: its only array, or the one called as in LABELS that is no input."""
    if path.suffix.lower() == ".npy":
        return read_npy(path)
    arrays = read_npz(path)
    own = {end.outside.name for end in inputs}
    named = [array for name, array in arrays.items() if len(arrays) == 1 or name in {*LABELS} - own]
    if len(named) != 1:
        raise InputError(f"{path}: holds {len(arrays)} arrays; name the one of the labels 'labels'")
    return named[0]


def column(place: str, array: Array, end: End, quantize: bool) -> Array:
    """The array as vectors that the firmware takes; only `quantize` may change values. `place` begins an error."""
    outside = end.outside
    whole = (*outside.shape,) if array.shape[1:] == outside.shape or outside.shape[:1] != (1,) else outside.shape[1:]
    if (
        array.ndim == 0
        or array.size != len(array) * prod(outside.shape)
        or (end.moved and array.ndim > 2 and array.shape[1:] != whole)
    ):
        raise InputError(f"{place}: '{outside.name}' has shape {array.shape}; wanted are vectors of {outside.shape}")
    if array.dtype != outside.dtype:
        try:
            array = _converted(array, outside, quantize)
        except ValueError as error:
            raise InputError(f"{place}: '{outside.name}' {error}") from error
    return end.taken(array)


def _converted(array: Array, end: Stored, quantize: bool) -> Array:
    """The array in the input's type; ValueError, whose text ends a sentence, for a conversion with loss."""
    kind = array.dtype.kind
    if kind not in "iuf":
        raise ValueError(f"is {array.dtype}; the model's input is {end.dtype}")
    if end.dtype.kind == "f":
        return _as_floats(array, end)
    if kind == "f":
        if not quantize:
            raise ValueError(
                f"is {array.dtype}; the model's input is {end.dtype} ({_meaning(end)}): give stored values, or "
                "--quantize to have these quantised"
            )
        return quantised(array, end)
    least, most = (0, 1) if end.dtype.kind == "b" else (np.iinfo(end.dtype.name).min, np.iinfo(end.dtype.name).max)
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < least or high > most:
        value = low if low < least else high
        wanted = f"{end.dtype}, {least} to {most} ({_meaning(end)})"
        raise ValueError(f"({array.dtype}) holds {value}; the model's input is {wanted}")
    return array.astype(end.dtype)


def _as_floats(array: Array, end: Stored) -> Array:
    """Floats may lose precision, integers not."""
    with np.errstate(all="ignore"):
        cast = array.astype(end.dtype)
        if array.dtype.kind != "f" and not np.array_equal(cast.astype(array.dtype), array):
            raise ValueError(f"is {array.dtype} with values that {end.dtype} cannot hold")
    return cast


def quantised(array: Array, end: Stored) -> Array:
    """Quantises real values: rounded half away from zero, saturated."""
    if not end.scale:
        raise ValueError(
            f"is {array.dtype}; the model's input is {end.dtype} without a scale, so none can be quantised"
        )
    if not np.isfinite(array).all():
        raise ValueError("holds values that are not finite")
    info = np.iinfo(end.dtype.name)
    scaled = array.astype(np.float32) / np.float32(end.scale)
    rounded = np.trunc(scaled.astype(np.float64) + np.copysign(0.5, scaled)) + end.zero_point
    stored: Array = np.clip(rounded, info.min, info.max).astype(end.dtype)
    return stored


def _meaning(end: Stored) -> str:
    return f"scale {end.scale:.9g}, zero point {end.zero_point}" if end.scale else "not quantised"


def random(folder: Path, inputs: Sequence[End], count: int, seed: int) -> Iterator[Vector]:
    """Seeded vectors over the whole range: all stored integers, or real values of the first quantised tensor."""
    ranges = [real_range(folder, end) or _FALLBACK if end.dtype.kind == "f" else None for end in inputs]
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield [_random(rng, end, limits) for end, limits in zip(inputs, ranges, strict=True)]


def _random(rng: np.random.Generator, end: End, limits: tuple[float, float] | None) -> Array:
    if limits:
        return rng.uniform(*limits, end.shape).astype(end.dtype)
    if end.dtype.kind == "b":
        return rng.random(end.shape) < 0.5
    info = np.iinfo(end.dtype.name)
    return rng.integers(info.min, info.max, end.shape, end.dtype, endpoint=True)


def real_range(folder: Path, end: End) -> tuple[float, float] | None:
    """The least and the greatest real value of a quantised input, or of the first quantised tensor behind another."""
    if end.scale:
        info = np.iinfo(end.dtype.name)
        return end.scale * (info.min - end.zero_point), end.scale * (info.max - end.zero_point)
    graph = documents.read(folder / "reference" / "graph.json", folder, GraphDocument)
    behind = {end.name}
    for op in graph.ops:
        reads = {op.view} if op.view is not None else {each.tensor for each in op.inputs}
        if behind & reads:
            tensor = graph.tensors[op.output]
            if tensor.scales and tensor.zero_points and tensor.dtype != "float32":
                info = np.iinfo(tensor.dtype)
                scale, zero = tensor.scales[0], tensor.zero_points[0]
                return scale * (info.min - zero), scale * (info.max - zero)
            behind.add(op.output)
    return None


def to_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes Y.npz; equal arrays give equal bytes."""
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, array in arrays.items():
                with file.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
    except OSError as error:
        raise HostError(f"{path}: cannot be written ({error.strerror})") from error
