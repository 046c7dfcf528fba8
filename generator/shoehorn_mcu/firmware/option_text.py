"""How the values of options are read from text: each function raises ValueError, which names the value and the cure."""

from __future__ import annotations

import re
from math import isfinite
from pathlib import Path
from typing import Literal

from shoehorn_mcu_host.base.files import read_bytes

_UNITS = {"": 1, "k": 1024, "m": 1024**2}
_LARGEST_CLASSES = 1 << 20  # bytes of a list of names


def size(text: str) -> int:
    """Bytes: 16384, 64k, 1M."""
    match = re.fullmatch(r"(\d{1,12})([kKmM]?)", text.strip())
    if not match or int(match[1]) == 0:
        raise ValueError(f"'{text}' is not a size; write bytes, 64k or 1M")
    return int(match[1]) * _UNITS[match[2].lower()]


def size_or_fit(text: str) -> int | Literal["fit"]:
    """A size, or `fit`."""
    return "fit" if text.strip() == "fit" else size(text)


def budget(text: str) -> int | Literal["fit"] | dict[str, int]:
    """A size, `fit`, or by name sizes of memories: dtcm=64k,sram1=1M."""
    if "=" not in text:
        return size_or_fit(text)
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, bytes_ = part.strip().partition("=")
        if not name or not bytes_:
            raise ValueError(f"'{part}' is not NAME=SIZE; write ram=64k,ccm=16k")
        if name in found:
            raise ValueError(f"'{name}' is given twice")
        found[name] = size(bytes_)
    return found


def percent(text: str) -> float:
    """5% or 5."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,20})?%?", text.strip()):
        raise ValueError(f"'{text}' is no share; write 5%")
    return float(text.strip().removesuffix("%"))


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and the sizes of NAME=N or INPUT=NxCxHxW."""
    name, _, sizes = text.rpartition("=")
    if not name or not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", sizes):
        raise ValueError(f"'{text}' is not NAME=N; write batch=1, or image=1x3x96x96 for a whole input")
    return name, tuple(map(int, sizes.split("x")))


def state(text: str) -> tuple[str, str]:
    """The input and the output of IN=OUT."""
    read, _, write = text.partition("=")
    if not read or not write:
        raise ValueError(f"'{text}' is not IN=OUT; write the names of an input and of an output")
    return read, write


def pixels(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means and deviations of MEAN/DEVIATION, each one number or one per channel."""
    try:
        means, deviations = (tuple(map(float, part.split(","))) for part in text.split("/"))
    except ValueError:
        raise ValueError(f"'{text}' is not MEAN/DEVIATION; write 127.5/127.5, or a value per channel") from None
    if not all(map(isfinite, (*means, *deviations))) or not all(deviation > 0 for deviation in deviations):
        raise ValueError(f"'{text}': means must be finite, and deviations above 0")
    return means, deviations


def classes(path: str) -> tuple[str, ...]:
    """The lines of a text file."""
    try:
        text = read_bytes(Path(path), _LARGEST_CLASSES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as a list of names, one per line ({error})") from error
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not found:
        raise ValueError(f"{path}: is empty; write a name per line, that of class 0 first")
    return found


def hop(text: str) -> int | str:
    """Rows of a window: 2, or a time, 20ms, as it is."""
    if re.fullmatch(r"[1-9]\d{0,6}", text.strip()):
        return int(text)
    if re.fullmatch(r"[1-9]\d{0,6}ms", text.strip()):
        return text.strip()
    raise ValueError(f"'{text}' is no hop of a window; write rows, such as 2, or whole milliseconds, such as 20ms")


def samples(text: str, rate: int) -> int:
    """Samples: 320, or at this rate 20ms."""
    match = re.fullmatch(r"(\d{1,7})(ms)?", text.strip())
    number = int(match[1]) * (rate if match[2] else 1) if match else 0
    if not match or number == 0 or (match[2] and number % 1000):
        raise ValueError(f"--stride {text}: write samples, such as 320, or whole milliseconds, such as 20ms")
    return number // 1000 if match[2] else number
