"""TFLite's tensors as tensors of the IR: unique names, checked shapes, scales and constants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.tflite.file import RawTensor
from shoehorn_mcu.ir import Array, DType, Quant, Tensor, TensorType
from shoehorn_mcu.ops.laws import quoted

DTYPES = {d.name: d for d in DType if d is not DType.FLOAT16}
"""The schema uses our names in capitals."""

QUANTISED = {DType.INT8: (-128, 127), DType.UINT8: (0, 255), DType.INT16: (-32768, 32767)}
"""Types whose scale matters, and the range of their zero points.

The scale of a bias (int32) is not read: TFLite computes with the scale of x times weights, and files of its converter
may name another one.
"""

TINY = 2.0**-149
"""The smallest scale that float32 holds; its products with other scales are no factors but 0."""

TENSOR_LIMIT_BYTES = (1 << 31) - 1  # rows and offsets are int32 in the C
RANK_LIMIT = 8


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """A unique non-empty name for each tensor: the file's own name if possible.

    The first tensor of a name keeps it; a later one gets `_<its number>` behind it, and one without a name
    is `tensor_<its number>`. Place i of the result is TFLite's tensor number i.
    """
    wanted = list(names)
    taken = set(wanted)  # a generated name must not equal one that the file uses later
    given: set[str] = set()
    result = []
    for index, name in enumerate(wanted):
        unique = name or f"tensor_{index}"
        while unique in given or (unique != name and unique in taken):
            unique = f"{unique}_{index}"
        given.add(unique)
        result.append(unique)
    return tuple(result)


def convert(raw: RawTensor, name: str) -> Tensor:
    """The tensor; its constant data is a read-only view of the file.

    Raises ImportFault if it is damaged, Unsupported if no kernel supports it.
    """
    where = f"tensor {quoted(name)}"
    if raw.dtype == "INT4" and raw.data is not None:
        raw = replace(raw, dtype="INT8", data=_unpacked(raw.data, math.prod(raw.shape), where))
    if any(d < 0 for d in raw.shape):
        raise ImportFault(f"{where} has shape {raw.shape}; every dimension must be positive: convert with fixed shapes")
    if 0 in raw.shape:
        raise ImportFault(
            f"{where} has shape {raw.shape} and no elements; leave empty tensors out of the model, or convert it with "
            "fixed shapes"
        )
    if raw.dtype not in DTYPES:
        raise Unsupported(f"{where} is {raw.dtype}")
    if raw.sparse or raw.variable:
        raise Unsupported(f"{where} is {'sparse' if raw.sparse else 'a variable'}")
    dtype = DTYPES[raw.dtype]
    _limited(raw.shape, dtype, where)
    tensor_type = TensorType(raw.shape, dtype, _quant(raw, dtype, where))
    return Tensor(name, tensor_type, _constant(raw.data, tensor_type, where))


def wide_quant(raw: RawTensor, name: str) -> Quant | None:
    """The quantisation of an int32 tensor that QUANTIZE reads or writes; None for other types and without one."""
    if raw.dtype != "INT32" or not raw.scales:
        return None
    return _quant_within(raw, DType.INT32.limits, f"tensor {quoted(name)}")


def _unpacked(data: memoryview, count: int, where: str) -> memoryview:
    """Constants of 4 bits as int8; a byte has two, the first one in its low bits."""
    if len(data) != (count + 1) // 2:
        raise ImportFault(f"{where} is of {count} INT4, but its buffer holds {len(data)} bytes; convert it again")
    packed = np.frombuffer(data, np.uint8)
    both = np.stack([packed << 4, packed & 0xF0], axis=1).view(np.int8) >> 4
    return memoryview(both.reshape(-1)[:count].tobytes())


def resized(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The computed tensor in another shape; raises ImportFault or Unsupported as `convert`."""
    where = f"tensor {quoted(tensor.name)}"
    if 0 in shape:
        raise ImportFault(f"{where} has shape {shape} and no elements; leave empty tensors out of the model")
    _limited(shape, tensor.type.dtype, where)
    return replace(tensor, type=replace(tensor.type, shape=shape))


def _limited(shape: tuple[int, ...], dtype: DType, where: str) -> None:
    """Refuses a tensor of more dimensions or bytes than kernels have."""
    if len(shape) > RANK_LIMIT:
        raise Unsupported(f"{where} has {len(shape)} dimensions, at most {RANK_LIMIT} are supported")
    if (size := math.prod(shape) * dtype.bytes) > TENSOR_LIMIT_BYTES:
        raise Unsupported(f"{where} needs {size} bytes")


def _constant(data: memoryview | None, tensor_type: TensorType, where: str) -> Array | None:
    if data is None:
        return None
    if len(data) != tensor_type.bytes:
        raise ImportFault(
            f"{where} is {tensor_type}, {tensor_type.bytes} bytes, but its buffer holds {len(data)}; convert it again"
        )
    return np.frombuffer(data, tensor_type.dtype.numpy.newbyteorder("<")).reshape(tensor_type.shape)


def _quant(raw: RawTensor, dtype: DType, where: str) -> Quant | None:
    """The quantisation of an 8 or 16-bit tensor, None where it has none."""
    if dtype not in QUANTISED or not raw.scales:
        return None
    return _quant_within(raw, QUANTISED[dtype], where)


def _quant_within(raw: RawTensor, limits: tuple[int, int], where: str) -> Quant:
    """The quantisation, whose zero points lie within the limits."""
    raw = _with_scales(raw)
    for scale in raw.scales:
        if not math.isfinite(scale) or scale <= 0:
            raise ImportFault(f"{where} has a scale of {scale}; a scale must be positive and finite: quantise it again")
    zero_points = raw.zero_points or (0,) * len(raw.scales)
    if len(zero_points) != len(raw.scales):
        raise ImportFault(f"{where} has {len(raw.scales)} scales but {len(zero_points)} zero points; convert it again")
    low, high = limits
    if outside := [z for z in zero_points if not low <= z <= high]:
        raise ImportFault(f"{where} has a zero point of {outside[0]}, outside {low}..{high}; quantise it again")
    return Quant(raw.scales, zero_points, _axis(raw, where))


def _with_scales(raw: RawTensor) -> RawTensor:
    """Zeros that are constant and have the scale 0 get TINY in its place; their converter saw no range.

    TFLite's multipliers become 0 with both, so whatever is multiplied by such weights is 0, and a bias, too.
    """
    dtype = DTYPES[raw.dtype].numpy
    count, least = math.prod(raw.shape), len(raw.scales)
    if 0.0 not in raw.scales or raw.data is None or len(raw.data) != count * dtype.itemsize or not count:
        return raw
    zeros = np.array(raw.zero_points if len(raw.zero_points) == least else (0,) * least, np.int64)
    data = np.frombuffer(raw.data, dtype.newbyteorder("<")).astype(np.int64).reshape(raw.shape)
    if least == 1:
        blank = [bool((data == zeros[0]).all())]
    elif 0 <= raw.axis < data.ndim and data.shape[raw.axis] == least:
        rows = np.moveaxis(data, raw.axis, 0).reshape(least, -1)
        blank = (rows == zeros[:, None]).all(axis=1).tolist()
    else:
        return raw
    both = zip(raw.scales, blank, strict=True)
    return replace(raw, scales=tuple(TINY if scale == 0 and empty else scale for scale, empty in both))


def _axis(raw: RawTensor, where: str) -> int | None:
    """The axis with a scale per index; None for a single scale."""
    count = len(raw.scales)
    if count == 1:
        return None
    if not 0 <= raw.axis < len(raw.shape) or raw.shape[raw.axis] != count:
        raise ImportFault(f"{where} has {count} scales along axis {raw.axis} of {raw.shape}; quantise it again")
    return raw.axis
