"""The user's samples: read, checked against the model, brought to its scale and order, and divided by a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.base.errors import printable
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import FileTensor
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.learner import Samples
from shoehorn_mcu.slim.recipe import DataTable
from shoehorn_mcu.slim.users import called, function_of
from shoehorn_mcu_host.base.arrays import read_npz

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".webp")
_LEAST = 2  # samples of each class: one to learn from and one to measure

Pixels = Callable[[Path, int, int, int], NDArray[np.uint8]]
"""Reads an image of a height, a width and a number of channels; `shoehorn_mcu_host.validate.decoders.pixels`."""


@dataclass(frozen=True)
class Arrays:
    """Samples as a user has them."""

    x: NDArray[Any]
    y: NDArray[Any] | None
    x_test: NDArray[Any] | None = None
    y_test: NDArray[Any] | None = None


@dataclass(frozen=True)
class Data:
    """Three parts: weights are learnt from the first, decisions made by the second, the third is looked at once."""

    train: Samples
    validation: Samples
    test: Samples
    sha256: str

    @property
    def labelled(self) -> bool:
        """Whether all parts have classes."""
        return all(part.y is not None for part in (self.train, self.validation, self.test))


def read_data(where: str, model: Imported, table: DataTable, pixels: Pixels | None = None) -> Data:
    """The samples at X.npz, at a folder with a folder of images per class, or of `file.py:function`.

    X.npz has `x` [N, ...] and, where there are labels, `y` [N]; `x_test` and `y_test` are optional. A function returns
    (x, y) or a dict with these names. x is uint8, which is divided by 255, or float32. Raises SlimError or InputError.
    """
    graph = model.graph
    for what, names in (("input", graph.inputs), ("output", graph.outputs)):
        if len(names) != 1:
            cure = f"only models with one {what} can be retrained here"
            raise SlimError(f"{graph.name}: has {len(names)} {what}s; {cure}")
    (name,) = graph.inputs
    kind = graph.tensors[name].type
    end = model.ends.get(name) or FileTensor.alike(name, kind)
    arrays = _arrays(where, kind.shape, pixels)
    classes = int(np.prod(graph.tensors[graph.outputs[0]].type.shape))
    x = _fitting(where, "x", arrays.x, end, table)
    y = _labels(where, "y", arrays.y, len(x), classes)
    if (arrays.x_test is None) != (arrays.y_test is None) and y is not None:
        raise SlimError(f"{where}: has only one of x_test and y_test; give both, or none for a split by the seed")
    test = None
    if arrays.x_test is not None:
        x_test = _fitting(where, "x_test", arrays.x_test, end, table)
        test = Samples(x_test, _labels(where, "y_test", arrays.y_test, len(x_test), classes))
    return _divided(where, Samples(x, y), test, table, _sha256(x, y, test))


def _arrays(where: str, shape: Sequence[int], pixels: Pixels | None) -> Arrays:
    if (users := function_of(where)) is not None:
        return _of_function(*users)
    found = Path(where)
    if found.is_dir():
        return _of_folder(found, shape, pixels)
    if not found.exists():
        raise SlimError(f"{where}: does not exist; give an .npz, a folder of images per class, or file.py:function")
    return _named(where, read_npz(found))


def _named(where: str, arrays: dict[str, Any]) -> Arrays:
    known = ("x", "y", "x_test", "y_test")
    if "x" not in arrays or not set(arrays) <= {*known}:
        names = ", ".join(map(printable, arrays)) or "none"
        raise SlimError(f"{where}: has the arrays {names}; wanted are x, y and, if there are any, x_test and y_test")
    return Arrays(*(arrays.get(name) for name in known))  # type: ignore[arg-type]


def _of_function(path: Path, function: str) -> Arrays:
    """What a function of the user's own file returns."""
    where, made = f"{path}:{function}", called(path, function)
    if isinstance(made, tuple) and len(made) == 2:
        made = dict(zip(("x", "y"), made, strict=True))
    if not isinstance(made, dict):
        raise SlimError(f"{where}: returns {type(made).__name__}; wanted are (x, y), or a dict with x and y")
    return _named(where, {name: np.asarray(array) for name, array in made.items() if array is not None})


def _of_folder(folder: Path, shape: Sequence[int], pixels: Pixels | None) -> Arrays:
    """A folder per class, in the order of their names, with images in them."""
    classes = sorted(each for each in folder.iterdir() if each.is_dir())
    if not classes:
        raise SlimError(f"{folder}: has no folders; each class is a folder of images")
    if len(shape) != 4 or pixels is None:
        raise SlimError(f"{folder}: holds images, but the model's input has the shape {tuple(shape)}; give an .npz")
    _, height, width, channels = shape
    x, y = [], []
    for label, each in enumerate(classes):
        files = sorted(file for file in each.iterdir() if file.suffix.lower() in _IMAGES)
        if not files:
            raise SlimError(f"{each}: holds no images ({', '.join(_IMAGES)})")
        for file in files:
            x.append(pixels(file, height, width, channels))
            y.append(label)
    return Arrays(np.stack(x), np.array(y))


def _fitting(where: str, name: str, array: NDArray[Any], end: FileTensor, table: DataTable) -> NDArray[np.float32]:
    """The samples in the graph's order, [N, ...], scaled as the recipe says."""
    place, wanted = f"{where}: '{name}'", tuple(end.type.shape)
    turned = tuple(wanted[place] for place in end.order)  # the graph's own order
    if array.dtype.kind not in "fu" or (array.dtype.kind == "u" and array.dtype != np.uint8):
        raise SlimError(f"{place} is {array.dtype}; wanted are uint8 pixels or float32")
    if array.ndim == 0 or len(array) == 0:
        raise SlimError(f"{place} holds no samples")
    if array.shape[1:] == wanted[1:]:
        found = array.transpose(end.order)
    elif array.shape[1:] == turned[1:] or (array.shape[1:] == turned[1:-1] and turned[-1] == 1):
        found = array.reshape(len(array), *turned[1:])
    else:
        raise SlimError(f"{place} has shape {array.shape}; the model takes {wanted[1:]} per sample")
    whole = found.astype(np.float32)
    if array.dtype == np.uint8:
        whole /= 255
    elif not np.isfinite(whole).all():
        bad = int(np.flatnonzero(~np.isfinite(whole).all(axis=tuple(range(1, whole.ndim))))[0])
        raise SlimError(f"{place} holds NaN or an infinite value, in sample {bad}")
    elif whole.max() > 1.5 and whole.min() >= 0 and whole.max() <= 255 and (whole == np.rint(whole)).all():
        found_values = f"whole numbers up to {whole.max():g} in {array.dtype}"
        raise SlimError(f"{place} has {found_values}, which looks like pixels; save it as uint8")
    channels = whole.shape[-1]
    for values, role in ((table.mean, "data.mean"), (table.scale, "data.scale")):
        if len(values) not in (0, 1, channels):
            raise SlimError(f"{role} has {len(values)} values; one for all channels or {channels} are wanted")
    if table.mean:
        whole -= np.array(table.mean, np.float32)
    if table.scale:
        whole /= np.array(table.scale, np.float32)
    return np.ascontiguousarray(whole)


def _labels(where: str, name: str, labels: NDArray[Any] | None, count: int, classes: int) -> NDArray[np.int64] | None:
    if labels is None:
        return None
    place = f"{where}: '{name}'"
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise SlimError(f"{place} is {labels.dtype} of shape {labels.shape}; wanted is one integer per sample")
    if len(labels) != count:
        raise SlimError(f"{place} has {len(labels)} labels for {count} samples")
    outside = labels[(labels < 0) | (labels >= classes)]
    if outside.size:
        raise SlimError(f"{place} has the label {outside[0]}; the model's classes are 0 to {classes - 1}")
    if len(np.unique(labels)) == 1:
        raise SlimError(f"{place} has the one label {labels[0]} for all samples; samples of several classes are wanted")
    return labels.astype(np.int64)


def _divided(where: str, samples: Samples, test: Samples | None, table: DataTable, sha256: str) -> Data:
    """The parts, with the classes in equal shares, by the seed."""
    if samples.y is not None:
        least = np.unique(samples.y, return_counts=True)[1].min()
        if least < _LEAST:
            raise SlimError(f"{where}: a class has {least} sample; each needs at least {_LEAST}")
    rng = np.random.default_rng(table.seed)
    left = np.arange(len(samples))
    parts = []
    for share in ([] if test is not None else [table.test]) + [table.validation]:
        taken = np.sort(np.concatenate([*_shares(samples, left, share, len(samples), rng)]))
        parts.append(_chosen(samples, taken))
        left = np.setdiff1d(left, taken)
    train = _chosen(samples, left)
    validation = parts.pop()
    whole_test = test if test is not None else parts.pop()
    for name, part in (("training", train), ("validation", validation), ("test", whole_test)):
        least = table.batch if name == "training" else 1
        if len(part) < least:
            raise SlimError(f"{where}: leaves {len(part)} samples for {name}; at least {least} are needed")
    return Data(train, validation, whole_test, sha256)


def _shares(
    samples: Samples, left: NDArray[np.int64], share: float, count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Of each class as many of the samples that are left as a share of all of them is."""
    y = samples.y if samples.y is not None else np.zeros(count, np.int64)
    for label in np.unique(y):
        there = rng.permutation(left[y[left] == label])
        yield there[: max(1, round(share * int((y == label).sum())))]


def _chosen(samples: Samples, places: NDArray[np.int64]) -> Samples:
    return Samples(samples.x[places], None if samples.y is None else samples.y[places])


def _sha256(x: NDArray[np.float32], y: NDArray[np.int64] | None, test: Samples | None) -> str:
    made = hashlib.sha256()
    for array in (x, y, *((test.x, test.y) if test is not None else ())):
        if array is not None:
            made.update(f"{array.dtype} {array.shape}".encode())
            made.update(np.ascontiguousarray(array).data)
    return made.hexdigest()
