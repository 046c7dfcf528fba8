"""The data folders of the public runner: `y_labels.csv`, and the file of each of its rows.

Nothing is trusted: sizes and labels are checked before a run begins, and a name leads to a file of its own folder.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from shoehorn_mcu_host.base.errors import InputError, one_line
from shoehorn_mcu_host.base.files import read_bytes, read_text
from shoehorn_mcu_host.base.tasks import Task, Transform

TRUTH = "y_labels.csv"
_TRUTH_BYTES = 4 << 20
_SAMPLE_BYTES = 16 << 20
_ROWS = 100_000
_LONGEST = 200  # characters of a file's name


class Input(Protocol):
    """What is sent for an inference, in pieces; only the first one in performance mode."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> int: ...

    def pieces(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class Made:
    """An input of bytes that are at hand: a step of a sound, or made up."""

    name: str
    data: bytes
    label: int = 0

    def pieces(self) -> Iterator[bytes]:
        """The bytes."""
        yield self.data


def made_up(task: Task) -> Made:
    """An input of random bytes, for the time of an inference alone: floats of the anomaly detection's range."""
    rng = np.random.default_rng(1)
    if task.transform is Transform.FLOAT32:
        return Made("made-up", rng.normal(-10, 5, task.sent_bytes // 4).astype("<f4").tobytes())
    return Made("made-up", rng.integers(0, 256, task.sent_bytes, np.uint8).tobytes())


@dataclass(frozen=True)
class Sample:
    """A row: its file, its label, and where in the file the pieces begin that are sent, each of `size` bytes."""

    name: str
    path: Path
    label: int
    size: int
    begins: tuple[int, ...] = (0,)

    def pieces(self) -> Iterator[bytes]:
        """The bytes to send, a piece after the other; raises InputError where the file is gone."""
        try:
            data = read_bytes(self.path, _SAMPLE_BYTES)
        except OSError as error:
            why = f"cannot be read ({error.strerror}); was it there when the run began?"
            raise InputError(f"{self.path}: {why}") from error
        for begin in self.begins:
            piece = data[begin : begin + self.size]
            if len(piece) != self.size:
                raise InputError(f"{self.path}: has become shorter during the run; run again")
            yield piece


def inside(folder: Path, name: str, place: str) -> Path:
    """The file called `name` right in `folder`; InputError, begun with `place`, for any other place or no file."""
    plain = PurePosixPath(name)
    if not name or len(name) > _LONGEST or plain.name != name or "\\" in name or name in (".", ".."):
        raise InputError(f"{place}: {one_line(name)} is no name of a file in the folder; write the name alone")
    path = folder / name
    if not path.is_file():
        raise InputError(f"{place}: there is no {one_line(name)} in {folder}; copy it there")
    if path.resolve().parent != folder.resolve():
        raise InputError(f"{place}: {one_line(name)} is a link out of {folder}; copy the file there instead")
    return path


def samples(folder: Path, task: Task) -> list[Sample]:
    """All samples of a benchmark, in the order of `y_labels.csv`; raises InputError."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; {task.id} needs {TRUTH} and the files that it names")
    truth = inside(folder, TRUTH, str(folder))
    try:
        text = read_text(truth, _TRUTH_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{truth}: cannot be read as text ({type(error).__name__}); take the runner's file") from error
    rows = _rows(truth, text)
    if not rows:
        raise InputError(f"{truth}: has no rows; take the runner's file")
    return [_sample(folder, task, f"{truth}: row {number}", row) for number, row in rows]


def _rows(truth: Path, text: str) -> list[tuple[int, list[str]]]:
    try:
        found = [(n, row) for n, row in enumerate(csv.reader(text.splitlines(), strict=True), 1) if row]
    except csv.Error as error:
        raise InputError(f"{truth}: is no CSV ({error}); take the runner's file") from error
    if len(found) > _ROWS:
        raise InputError(f"{truth}: has {len(found)} rows, more than {_ROWS}; take the runner's file")
    return found


def _number(text: str, place: str, what: str) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and len(plain) < 10):
        raise InputError(f"{place}: the {what} is {one_line(text)}; wanted is a whole number")
    return int(plain)


def _sample(folder: Path, task: Task, place: str, row: Sequence[str]) -> Sample:
    if len(row) < 3:
        raise InputError(f"{place}: has {len(row)} of the fields file, classes, label; take the runner's file")
    name = row[0].strip()
    label = _number(row[2], place, "label")
    if label >= task.classes:
        raise InputError(f"{place}: holds label {label}; {task.id} tells {task.classes} classes apart, from 0 on")
    path = inside(folder, name, place)
    try:
        held = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return Sample(name, path, label, task.sent_bytes, _begins(task, place, row, held))


def _begins(task: Task, place: str, row: Sequence[str], held: int) -> tuple[int, ...]:
    """Where the pieces begin: one, or of a row that names a size and a stride, as many as the file holds."""
    if task.transform is not Transform.FLOAT32:
        if held != task.sent_bytes:
            raise InputError(f"{place}: {one_line(row[0])} has {held} bytes; {task.id} wants {task.sent_bytes}")
        return (0,)
    if len(row) < 5:
        raise InputError(f"{place}: names no size and stride of its windows; take the runner's file")
    size, stride = _number(row[3], place, "size"), _number(row[4], place, "stride")
    if size != task.sent_bytes or stride == 0:
        raise InputError(f"{place}: windows of {size} bytes, {stride} apart; {task.id} wants {task.sent_bytes}")
    if not size <= held <= _SAMPLE_BYTES:
        raise InputError(f"{place}: {one_line(row[0])} has {held} bytes; a window alone has {size}")
    return tuple(range(0, held - size + 1, stride))
