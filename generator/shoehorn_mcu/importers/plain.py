"""Values as JSON and bytes, and back: what a process that reads a foreign file may answer, as it runs nothing here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_ALIGNED = 16  # bytes, for elements of any type
_TEXTS = "OSU"  # kinds of arrays whose elements are no numbers


def packed(value: object) -> tuple[object, list[bytes | memoryview]]:
    """What JSON can hold, and the elements of its arrays in pieces.

    Values are numbers, texts, None, sequences, mappings, arrays, element types, and dataclasses of these.
    """
    pieces: list[bytes | memoryview] = []
    size = 0

    def of_array(array: np.ndarray[Any, Any]) -> object:
        nonlocal size
        shape = list(array.shape)
        if array.dtype.kind in _TEXTS:
            texts = [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in array.flat]
            return {"texts": [shape, texts]}
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
        place, count = size, len(data)
        pieces.extend((data, bytes(-count % _ALIGNED)))
        size += count + -count % _ALIGNED
        return {"array": [_name(array.dtype), shape, place]}

    def of(value: object) -> object:
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if isinstance(value, np.ndarray):
            return of_array(value)
        if isinstance(value, np.dtype):
            return {"type": _name(value)}
        if isinstance(value, Mapping):
            return {"map": [[of(key), of(each)] for key, each in value.items()]}
        if isinstance(value, Sequence):
            return [of(each) for each in value]
        if dataclasses.is_dataclass(value):
            return {type(value).__name__: [of(getattr(value, each.name)) for each in dataclasses.fields(value)]}
        raise TypeError(f"{type(value).__name__} is no plain value")

    return of(value), pieces


def unpacked(told: Any, data: bytearray, classes: Sequence[type]) -> Any:
    """The value; sequences are tuples. `classes`: the dataclasses that it may hold."""
    known = {each.__name__: each for each in classes}

    def of(told: Any) -> Any:
        if isinstance(told, list):
            return tuple(of(each) for each in told)
        if not isinstance(told, dict):
            return told
        ((kind, held),) = told.items()
        if kind == "map":
            return {of(key): of(each) for key, each in held}
        if kind == "type":
            return _type(held)
        if kind == "texts":
            shape, texts = held
            return np.array(texts, object).reshape(shape)
        if kind == "array":
            name, shape, place = held
            return np.frombuffer(data, _type(name), math.prod(shape), place if math.prod(shape) else 0).reshape(shape)
        return known[kind](*(of(each) for each in held))

    return of(told)


def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.kind not in _TEXTS else "object"


def _type(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
