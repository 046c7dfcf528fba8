"""Images and sounds as plain numbers, decoded in a process that is locked in (`sandbox.py`)."""

from __future__ import annotations

import importlib.util
import warnings
import wave
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base import sandbox
from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.base.files import read_bytes

LARGEST = 1 << 30  # bytes of a file
_LIMITS = sandbox.Limits(memory=4 << 30, seconds=120)
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "WEBP")  # Pillow has others, some of which start programs
_WAV = "save it as WAV with one channel of 16 bits"


@dataclass(frozen=True)
class Sound:
    """What a WAV file holds."""

    channels: int
    width: int  # bytes of a sample
    rate: int  # samples per second
    count: int  # samples per channel, as the header says
    data: bytes | bytearray  # those that are there


def pixels(path: Path, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """An image as (height, width, channels), grey or RGB; one of another size is resized, bilinear.

    Raises InputError.
    """
    if importlib.util.find_spec("PIL") is None:
        raise InputError(f"{path}: reading images needs Pillow; pip install shoehorn-mcu[images]")
    told, made = _decoded("pixels", [height, width, channels], path)
    if not told and len(made) != height * width * channels:
        told = "it has another size than was asked for"
    if told:
        raise InputError(f"{path}: cannot be read as an image ({told})")
    return np.frombuffer(made, np.uint8).reshape(height, width, channels)


def sound(path: Path) -> Sound:
    """A WAV file. Raises InputError."""
    told, made = _decoded("sound", None, path)
    if isinstance(told, str):
        raise InputError(f"{path}: cannot be read as WAV ({told}); {_WAV}")
    channels, width, rate, count = told
    return Sound(channels, width, rate, count, made)


def _decoded(name: str, asked: object, path: Path) -> tuple[Any, bytearray]:
    """What the process answers; a text says why there is nothing. Raises InputError for a file that is too large."""
    try:
        return sandbox.answer(f"{__name__}:answer_{name}", asked, read_bytes(path, LARGEST), _LIMITS)
    except OSError as error:
        return error.strerror or "it cannot be opened", bytearray()
    except sandbox.Ended as ended:
        return f"the process that reads it {ended}", bytearray()


# What follows runs in the process that is locked in.


def prepare() -> None:
    """Imports Pillow and its readers of the known formats."""
    if importlib.util.find_spec("PIL") is not None:
        from PIL import Image

        Image.init()


def answer_pixels(asked: Any, data: bytes) -> sandbox.Answer:
    """Why there are none, or an empty text and the pixels."""
    from PIL import Image, UnidentifiedImageError

    height, width, channels = asked
    faults = (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(data), formats=_FORMATS) as image:
                found = image.convert("L" if channels == 1 else "RGB")
    except UnidentifiedImageError:
        return f"it is none of the formats {', '.join(_FORMATS)}", ()
    except faults as error:
        return " ".join(str(error).split()) or type(error).__name__, ()
    if found.size != (width, height):
        found = found.resize((width, height), Image.Resampling.BILINEAR)
    return "", [found.tobytes()]


def answer_sound(asked: Any, data: bytes) -> sandbox.Answer:
    """Why there is none, or the header's numbers and the samples."""
    try:
        with wave.open(BytesIO(data), "rb") as file:
            channels, width, rate, count = file.getparams()[:4]
            return [channels, width, rate, count], [file.readframes(count)]
    except EOFError:
        return "it ends within its header", ()
    except (wave.Error, OSError, RuntimeError) as error:
        return " ".join(str(error).split()) or type(error).__name__, ()
