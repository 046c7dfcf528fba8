"""Where the vectors of a validation come from, and where its outputs go: .npz files and seeded random numbers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from shoehorn_mcu.host_tools.errors import HostError
from shoehorn_mcu.host_tools.plan import Array, End

Vector = list[Array]  # one array per input, in the model's order and shapes
_FALLBACK = (-1.0, 1.0)  # for float32 that nothing quantises


def from_npz(path: Path, inputs: Sequence[End]) -> list[Vector]:
    """The vectors of X.npz: one array per model input, by name or else in order; first axis = vectors."""
    arrays = _read(path)
    names = [end.name for end in inputs]
    if len(arrays) != len(names):
        raise HostError(f"{path}: holds {len(arrays)} arrays, the model has {len(names)} inputs: {', '.join(names)}")
    by_name = all(name in arrays for name in names)
    found = [arrays[name] for name in names] if by_name else list(arrays.values())
    columns = [_column(path, array, end) for array, end in zip(found, inputs, strict=True)]
    counts = {len(column) for column in columns}
    if len(counts) != 1:
        raise HostError(f"{path}: the arrays hold different numbers of vectors: {sorted(counts)}")
    if counts == {0}:
        raise HostError(f"{path}: holds no vectors")
    return [list(row) for row in zip(*columns, strict=True)]


def _read(path: Path) -> dict[str, Array]:
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.lib.npyio.NpzFile):
            with file:
                return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise HostError(f"{path}: cannot be read as .npz ({error})") from error
    raise HostError(f"{path}: is one array; save it with numpy.savez, named as the model's input")


def _column(path: Path, array: Array, end: End) -> Array:
    """The array as vectors of the input's shape and type; values must survive the change of type."""
    size = int(np.prod(end.shape))
    if array.ndim == 0 or array.size != len(array) * size:
        raise HostError(f"{path}: '{end.name}' has shape {array.shape}; wanted are vectors of {end.shape}")
    if array.dtype != end.dtype:
        cast = _cast(array, end.dtype)
        if cast is None:
            raise HostError(f"{path}: '{end.name}' is {array.dtype}; the model takes {end.dtype}")
        array = cast
    return array.reshape(len(array), *end.shape)


def _cast(array: Array, dtype: np.dtype[np.generic]) -> Array | None:
    """The same values in another type; None where it cannot hold them. Floats may lose precision."""
    if array.dtype.kind not in "iuf":
        return None
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        same = np.array_equal(cast.astype(array.dtype), array)
    return cast if same or (array.dtype.kind == "f" and dtype.kind == "f") else None


def random(folder: Path, inputs: Sequence[End], count: int, seed: int) -> Iterator[Vector]:
    """Seeded vectors over the whole range: every stored integer, or what the first quantisation can tell apart."""
    ranges = [_float_range(folder, end) if end.dtype.kind == "f" else None for end in inputs]
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield [_random(rng, end, limits) for end, limits in zip(inputs, ranges, strict=True)]


def _random(rng: np.random.Generator, end: End, limits: tuple[float, float] | None) -> Array:
    if limits:
        return rng.uniform(*limits, end.shape).astype(end.dtype)
    info = np.iinfo(end.dtype.name)
    whole: Array = rng.integers(info.min, info.max, end.shape, end.dtype, endpoint=True)
    return whole


def _float_range(folder: Path, end: End) -> tuple[float, float]:
    """The real values between which the first quantised tensor behind a float32 input lies."""
    graph = json.loads((folder / "reference" / "graph.json").read_text())
    behind = {end.name}
    for op in graph["ops"]:
        reads = {op["view"]} if "view" in op else {each["tensor"] for each in op["inputs"]}
        if behind & reads:
            tensor = graph["tensors"][op["output"]]
            if tensor["scales"]:
                info = np.iinfo(tensor["dtype"])
                scale, zero = tensor["scales"][0], tensor["zero_points"][0]
                return scale * (info.min - zero), scale * (info.max - zero)
            behind.add(op["output"])
    return _FALLBACK


def to_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes Y.npz; equal arrays give equal bytes."""
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, array in arrays.items():
                with file.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
    except OSError as error:
        raise HostError(f"{path}: cannot be written ({error.strerror})") from error
