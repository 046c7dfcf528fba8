"""The data of the streaming wake word: a truth file, and the WAV of which it says when the word is spoken."""

from __future__ import annotations

import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base.errors import InputError, first_line
from shoehorn_mcu_host.base.files import read_json
from shoehorn_mcu_host.base.tasks import CHUNK, RATE
from shoehorn_mcu_host.mlperf.data import inside

TRUTHS = ("sww_long_test.json", "sww_med_test.json", "sww_short_test.json")
"""The truth files of the public runner, the one that counts first."""
_TRUTH_BYTES = 1 << 20
_SOUNDS = 100
_SECONDS = 4 * 3600.0


@dataclass(frozen=True)
class Sound:
    """A WAV file, and the times (begin, end) in seconds at which the word is spoken in it."""

    name: str
    path: Path
    windows: tuple[tuple[float, float], ...]
    samples: NDArray[np.int16]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / RATE

    def chunks(self) -> Iterator[bytes]:
        """Its steps of 512 samples, as the device wants them; what is left at the end is not heard."""
        for at in range(0, len(self.samples) - CHUNK + 1, CHUNK):
            yield self.samples[at : at + CHUNK].astype("<i2").tobytes()


def sounds(folder: Path) -> list[Sound]:
    """The sounds of the first truth file that is there with its WAV files; raises InputError."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; sww01 needs {TRUTHS[0]} and the WAV file that it names")
    there = [name for name in TRUTHS if (folder / name).is_file()]
    if not there:
        raise InputError(f"{folder}: has none of {', '.join(TRUTHS)}; copy the runner's sww_data_dir there")
    truth = inside(folder, there[0], str(folder))
    try:
        said = read_json(truth, _TRUTH_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(f"{truth}: is no JSON ({first_line(error)}); take the runner's file") from error
    if not isinstance(said, list) or not 1 <= len(said) <= _SOUNDS:
        raise InputError(f"{truth}: is no list of sounds; take the runner's file")
    return [_sound(folder, f"{truth}: sound {number}", entry) for number, entry in enumerate(said, 1)]


def _sound(folder: Path, place: str, entry: Any) -> Sound:
    if not isinstance(entry, dict) or not isinstance(entry.get("wav_file"), str):
        raise InputError(f"{place}: names no wav_file; take the runner's file")
    path = inside(folder, entry["wav_file"], place)
    return Sound(path.name, path, _windows(place, entry.get("detection_windows")), _samples(path))


def _windows(place: str, said: Any) -> tuple[tuple[float, float], ...]:
    good = isinstance(said, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(type(value) in (int, float) and 0 <= value <= _SECONDS for value in pair)
        and pair[0] <= pair[1]
        for pair in said
    )
    if not good:
        raise InputError(f"{place}: detection_windows are no list of [begin, end] in seconds; take the runner's file")
    return tuple((float(begin), float(end)) for begin, end in said)


def _samples(path: Path) -> NDArray[np.int16]:
    """The first channel."""
    try:
        with wave.open(str(path), "rb") as file:
            rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
            if (rate, width) != (RATE, 2) or file.getnframes() > _SECONDS * RATE:
                raise InputError(f"{path}: {rate} Hz and {8 * width} bits; sww01 wants {RATE} Hz and 16 bits")
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        raise InputError(f"{path}: is no WAV file ({first_line(error)}); take the runner's file") from error
    found = np.frombuffer(data[: len(data) // (2 * channels) * 2 * channels], "<i2").reshape(-1, channels)[:, 0]
    if len(found) < CHUNK:
        raise InputError(f"{path}: has {len(found)} samples; a step alone has {CHUNK}")
    return np.ascontiguousarray(found)
