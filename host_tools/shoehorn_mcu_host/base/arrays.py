"""Reads .npz and .npy files of others: sizes are checked before memory is reserved, and nothing is unpickled."""

from __future__ import annotations

import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.base.files import read_start

Array = NDArray[Any]

LARGEST = 1 << 30  # bytes of all arrays of a file, decompressed
_NPY = b"\x93NUMPY"
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_FAULTS = (OSError, ValueError, EOFError, KeyError, TypeError, NotImplementedError, RuntimeError, zlib.error)


def is_npy(path: Path) -> bool:
    """Whether the file begins as an .npy file does; raises OSError."""
    return path.is_file() and read_start(path, len(_NPY)) == _NPY


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of the file by name, in the file's order. Raises InputError."""
    if path.exists() and not path.is_file():  # an archive is read from its end, which a device need not have
        raise InputError(f"{path}: is no .npz file; numpy.savez writes one")
    try:
        if is_npy(path):
            raise InputError(f"{path}: is one array; save it with numpy.savez, named as the model's input")
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            _limited(path, sum(member.file_size for member in members))
            return {member.filename.removesuffix(".npy"): _member(file, member) for member in members}
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: is no .npz file; numpy.savez writes one") from error
    except _FAULTS as error:
        raise InputError(f"{path}: cannot be read as .npz ({_words(error)})") from error


def read_npy(path: Path) -> Array:
    """The array of the file. Raises InputError."""
    try:
        if not is_npy(path):
            found = "is no .npy file" if path.exists() else "does not exist"
            raise InputError(f"{path}: {found}; numpy.save writes one")
        size = path.stat().st_size
        _limited(path, size)
        with path.open("rb") as stream:
            _check_header(stream, size, path.name)
            stream.seek(0)
            return _array(stream)
    except _FAULTS as error:
        raise InputError(f"{path}: cannot be read as .npy ({_words(error)})") from error


def _limited(path: Path, total: int) -> None:
    if total > LARGEST:
        raise InputError(f"{path}: {total:,} bytes decompressed are too many; at most {LARGEST:,} are read")


def _member(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with file.open(member) as stream:
        _check_header(stream, member.file_size, member.filename)
    with file.open(member) as stream:
        return _array(stream)


def _check_header(stream: IO[bytes], size: int, name: str) -> None:
    """Compares the header with the bytes that there are, before any memory is reserved; raises ValueError."""
    version = np.lib.format.read_magic(stream)
    if version not in _READ_HEADER:
        raise ValueError(f"'{name}' is of a version of .npy that is not read")
    shape, _, dtype = _READ_HEADER[version](stream)
    if dtype.hasobject:
        raise ValueError(f"'{name}' holds Python objects")
    if prod(shape) * dtype.itemsize > size:
        raise ValueError(f"'{name}' is cut: its header says {dtype}{list(shape)}")


def _array(stream: IO[bytes]) -> Array:
    return np.lib.format.read_array(stream, allow_pickle=False)


def _words(error: Exception) -> str:
    """The first line of an exception's text."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return (text.splitlines() or [type(error).__name__])[0]
