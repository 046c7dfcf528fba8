"""Calibration samples and labels, from .npz and .npy files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Array
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu_host.base.arrays import LARGEST, is_npy, read_npy, read_npz
from shoehorn_mcu_host.base.errors import InputError

_SMALL, _LARGE = 1e-4, 1e6  # the largest magnitudes that inputs of real models have


@dataclass(frozen=True)
class Input:
    """An input of the model: its shape, in the model's own order, with a batch of 1 where it has one."""

    name: str
    shape: tuple[int, ...]

    @property
    def sample(self) -> tuple[int, ...]:
        """The shape without the batch."""
        return self.shape[1:] if self.shape[:1] == (1,) else self.shape


@dataclass(frozen=True)
class Samples:
    """float32 samples: an array per input, with the samples along the first axis and then the input's shape."""

    arrays: Mapping[str, NDArray[np.float32]]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """Each sample as the model's inputs."""
        for place in range(len(self)):
            yield {name: array[place] for name, array in self.arrays.items()}

    def oddities(self) -> tuple[str, ...]:
        """A line for each input whose values no scale can be learnt from, or that are hardly those of a real input."""
        found = []
        for name, array in self.arrays.items():
            low, high = float(array.min()), float(array.max())
            largest = max(-low, high)
            if low == high:
                found.append(f"input {quoted(name)} is {low:g} in all samples, which tells no scale; give real samples")
            elif not _SMALL <= largest <= _LARGE:
                cure = "check that samples are preprocessed as the model takes them"
                found.append(f"input {quoted(name)} has values from {low:g} to {high:g}; {cure}")
        return tuple(found)

    def first(self, count: int) -> Samples:
        """At most this many of them."""
        return Samples({name: array[:count] for name, array in self.arrays.items()})


def read_samples(path: Path, inputs: Sequence[Input]) -> Samples:
    """The samples of X.npz, or of a folder of .npy files, one sample a file, for a model of one input.

    The arrays of X.npz are named as the inputs, or are in their order; the first axis counts the samples.
    Raises InputError, whose message is one line, for missing, damaged or empty files, and for arrays of another
    shape, of integers, or with values that are not finite.
    """
    if path.is_dir():
        return _folder(path, inputs)
    if not path.exists():
        raise InputError(f"{path}: does not exist; name an .npz file, or a folder of .npy files")
    arrays, names = read_npz(path), [each.name for each in inputs]
    if len(arrays) != len(names):
        raise InputError(
            f"{path}: number of arrays {len(arrays)}, inputs of the model {len(names)}: {', '.join(names)}"
        )
    if not set(names) <= set(arrays):
        arrays = dict(zip(names, arrays.values(), strict=True))
    found = Samples({each.name: _fitting(path, arrays[each.name], each) for each in inputs})
    counts = {len(array) for array in found.arrays.values()}
    if len(counts) != 1:
        raise InputError(f"{path}: the arrays hold different numbers of samples: {sorted(counts)}")
    if counts == {0}:
        raise InputError(f"{path}: holds no samples")
    return found


def read_labels(path: Path, count: int, classes: int) -> NDArray[np.int64]:
    """The class of each sample: a one-dimensional array of integers, from .npy, or alone in an .npz.

    Raises InputError where there are not `count` of them, or one is not in 0..classes - 1.
    """
    try:
        alone = is_npy(path) or not path.exists()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    arrays = {"": read_npy(path)} if alone else read_npz(path)
    labels = next(iter(arrays.values())) if len(arrays) == 1 else None
    if labels is None or labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(f"{path}: holds no labels, which are one array of integers in one dimension")
    if len(labels) != count:
        raise InputError(f"{path}: holds {len(labels)} labels for {count} samples")
    outside = labels[(labels < 0) | (labels >= classes)]
    if outside.size:
        raise InputError(f"{path}: holds the label {outside[0]}; the model's classes are 0 to {classes - 1}")
    return labels.astype(np.int64)


def _fitting(path: Path, array: Array, wanted: Input) -> NDArray[np.float32]:
    """The array as samples of the input's shape."""
    if array.ndim == 0 or tuple(array.shape)[1:] not in (wanted.sample, wanted.shape):
        if array.shape == wanted.sample:
            said = f"'{wanted.name}' has shape {array.shape}, which lacks a first axis that counts the samples"
            raise InputError(f"{path}: {said}; of one sample give {(1, *wanted.sample)}, as array[None] makes it")
        raise InputError(
            f"{path}: '{wanted.name}' has shape {array.shape}; its samples, along the first axis, have {wanted.sample}"
        )
    if array.dtype.kind != "f":
        raise InputError(f"{path}: '{wanted.name}' is {array.dtype}; wanted are float32 values as the model takes them")
    with np.errstate(over="ignore"):  # checked below
        found = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(found).all(axis=tuple(range(1, found.ndim))))
    if len(bad):
        raise InputError(f"{path}: '{wanted.name}' holds NaN or an infinite value, in sample {bad[0]}")
    return found.reshape((len(found), *wanted.shape))


def _folder(path: Path, inputs: Sequence[Input]) -> Samples:
    files = sorted(path.glob("*.npy"))
    if not files:
        raise InputError(f"{path}: holds no .npy files; save each sample with numpy.save, or all in one .npz file")
    if len(inputs) != 1:
        raise InputError(f"{path}: is a folder, but the model has {len(inputs)} inputs; give an .npz file")
    if (total := sum(file.stat().st_size for file in files)) > LARGEST:
        raise InputError(f"{path}: {total:,} bytes are too many; at most {LARGEST:,} are read")
    (wanted,) = inputs
    arrays = []
    for file in files:
        array = read_npy(file)
        if array.shape not in (wanted.sample, wanted.shape):
            raise InputError(f"{file}: has shape {array.shape}; wanted is one sample of {wanted.sample}")
        arrays.append(_fitting(file, array.reshape(1, *wanted.shape), wanted))
    return Samples({wanted.name: np.concatenate(arrays)})
