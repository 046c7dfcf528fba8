"""What a tensor is: element type, shape, quantisation, and how it divides into rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class DType(Enum):
    """Element types, by their numpy names."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    BOOL = "bool"

    numpy: np.dtype[np.generic]
    bytes: int

    def __init__(self, name: str) -> None:
        self.numpy = np.dtype(name)
        self.bytes = self.numpy.itemsize

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer element type."""
        return _limits(self.value)


@cache
def _limits(name: str) -> tuple[int, int]:
    info = np.iinfo(name)
    return int(info.min), int(info.max)


@dataclass(frozen=True)
class Quant:
    """Affine quantisation, real = scale * (stored - zero_point), per tensor or along one axis.

    Scales are float32 values (TFLite stores float32) held as Python floats.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None  # None: one scale for the whole tensor

    @property
    def scale(self) -> float:
        """The one scale of a per-tensor quantisation."""
        (scale,) = self.scales
        return scale

    @property
    def zero_point(self) -> int:
        """The one zero point of a per-tensor quantisation."""
        (zero_point,) = self.zero_points
        return zero_point


@dataclass(frozen=True)
class TensorType:
    """Shape, element type and quantisation of a tensor.

    Rows: a shape of any rank is seen as NHWC (see `nhwc`); row y of N*H rows is W*C contiguous elements.
    """

    shape: tuple[int, ...]
    dtype: DType
    quant: Quant | None = None

    @cached_property
    def nhwc(self) -> tuple[int, int, int, int]:
        """The shape as four dimensions: padded on the left with ones, or the leading ones of more folded into N."""
        h, w, c = (1, 1, 1, *self.shape)[-3:]
        return math.prod(self.shape[:-3]), h, w, c

    @cached_property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    @property
    def rows(self) -> int:
        """Number of rows, N * H."""
        return self.nhwc[0] * self.nhwc[1]

    @property
    def row_elements(self) -> int:
        """Elements of one row, W * C."""
        return self.nhwc[2] * self.nhwc[3]

    @property
    def row_bytes(self) -> int:
        return self.row_elements * self.dtype.bytes

    @property
    def zero(self) -> int:
        """The stored value of 0."""
        return 0 if self.quant is None else self.quant.zero_point

    def zeros(self) -> Array:
        """A tensor of 0, as it is stored."""
        return np.full(self.shape, self.zero, self.dtype.numpy)

    @property
    def quantised(self) -> Quant:
        """The quantisation, which the caller knows to be there."""
        if self.quant is None:
            raise ValueError(f"tensor type {self} has no quantisation")
        return self.quant

    def __str__(self) -> str:
        return f"{self.dtype.value}[{'x'.join(map(str, self.shape))}]"
