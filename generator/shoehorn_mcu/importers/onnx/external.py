"""Tensors of an .onnx file whose elements are in other files: found anywhere, and read from the model's folder only.

The package `onnx` reads them, too, some of them from the current directory, and checks their paths since some version
only. So no tensor is left that it could read: each one's elements are put in its place before the model is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.ops.laws import quoted

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

MOST_BYTES = 1 << 31  # of a model that are in other files, as in the model itself
_TENSOR = "TensorProto"
_TYPES = ("ValueInfoProto", "TypeProto", "TensorAnnotation")  # which hold no tensors, and are many


@dataclass(frozen=True)
class Piece:
    """Where the elements of a tensor are, as its file says it."""

    tensor: str
    location: str
    offset: int
    length: int | None  # None: up to the end


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors with external data, in one order: constants, and those in attributes, branches and functions."""
    left: list[Any] = [model]
    while left:
        message = left.pop()
        for field, value in message.ListFields():
            kind = field.message_type
            if kind is None or kind.name in _TYPES:
                continue
            for each in value if hasattr(value, "__len__") else (value,):
                if kind.name != _TENSOR:
                    left.append(each)
                elif each.data_location == each.EXTERNAL or each.external_data:
                    yield each


def piece_of(tensor: TensorProto) -> Piece:
    """Raises ImportFault where the tensor does not say which bytes it means."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    for key in ("offset", "length"):
        if not re.fullmatch("[0-9]{1,18}", said.get(key, "0")):
            what = f"constant {quoted(tensor.name)}: the {key} of its external data"
            raise ImportFault(f"{what} is {quoted(said[key])}, no number of bytes; export it again")
    length = int(said["length"]) if "length" in said else None
    return Piece(tensor.name, said.get("location", ""), int(said.get("offset", 0)), length)


def elements(pieces: Sequence[Piece], folder: Path) -> tuple[list[bytes], Mapping[str, str]]:
    """The bytes of each piece, and the SHA-256 of each file that they are in, by its location.

    Raises ImportFault where a piece is not in a regular file within the folder, or all are too many bytes, and OSError.
    """
    held, digests, left = [b""] * len(pieces), {}, MOST_BYTES
    by_file = defaultdict[str, list[tuple[int, Piece]]](list)
    for numbered in enumerate(pieces):
        by_file[numbered[1].location].append(numbered)
    for location, inside in by_file.items():
        with _opened(inside[0][1], folder) as file:
            for number, piece in inside:
                held[number] = _part(piece, file, left)
                left -= len(held[number])
            file.seek(0)
            digests[location] = hashlib.file_digest(file, "sha256").hexdigest()
    return held, digests


def places(pieces: Iterable[Piece], folder: Path) -> tuple[Path, ...]:
    """The files that pieces are in. Raises as `elements`, and reads nothing."""
    found = []
    for piece in pieces:
        with _opened(piece, folder) as file:
            found.append(Path(file.name))
    return tuple(dict.fromkeys(found))


@contextmanager
def _opened(piece: Piece, folder: Path) -> Iterator[BufferedReader]:
    """The file that a piece is in."""
    what = f"constant {quoted(piece.tensor)}"
    if not piece.location or "\0" in piece.location:
        raise ImportFault(f"{what}: its external data names no file; export it again")
    place = folder / piece.location
    within = place.resolve()
    if Path(piece.location).is_absolute() or not within.is_relative_to(folder.resolve()):
        raise ImportFault(f"{what} is in {quoted(str(place))}, outside the model's folder; move it there")
    if not within.is_file():
        raise ImportFault(f"{what} is in {quoted(place.name)}, which is not beside the model")
    # The path has no links now; one that is put there meanwhile is not followed, and a pipe is not waited for.
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"))
    with open(within, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ImportFault(f"{what} is in {quoted(place.name)}, which is no regular file")
        yield file


def _part(piece: Piece, file: BufferedReader, most: int) -> bytes:
    """The bytes of a piece, at most so many."""
    what, name = f"constant {quoted(piece.tensor)}", quoted(Path(piece.location).name)
    size = os.fstat(file.fileno()).st_size
    rest = size - piece.offset
    count = rest if piece.length is None else piece.length
    if rest < 0 or count > rest:
        said = f"behind byte {piece.offset:,}" + ("" if rest < 0 else f" with {count:,} bytes")
        raise ImportFault(
            f"{what} is said to be in {name}, {said}, and that file has {size:,} bytes; "
            "copy it again, or export the model again"
        )
    if count > most:
        raise ImportFault(f"{what}: with it more than {MOST_BYTES:,} bytes of external data would be read")
    file.seek(piece.offset)
    return file.read(count)


def put(tensor: TensorProto, data: bytes | memoryview) -> None:
    """Gives a tensor its elements."""
    tensor.raw_data = bytes(data)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
