"""Complex numbers of a .tflite as pairs of float32 tensors, and the Fourier transform that makes them.

`without_complex` gives each complex tensor two tensors, its real parts and its imaginary parts. What moves elements, or
adds them up, becomes two ops; REAL and IMAG read one of the two; RFFT2D writes both, and COMPLEX_ABS reads both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.linear import dense
from shoehorn_mcu.importers.lowering.movers import joined, padded, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp, RawTensor
from shoehorn_mcu.importers.tflite.options import Options
from shoehorn_mcu.importers.tflite.site import Site
from shoehorn_mcu.ir import Tensor
from shoehorn_mcu.ops.laws import quoted

Reals = NDArray[np.float64]
Pair = tuple[Tensor, Tensor]
"""Real and imaginary parts, of one shape."""

MOST_POINTS = 1 << 14
FEW_POINTS = 32
"""Up to which a transform is one product with a matrix."""

ON_BOTH = frozenset(
    (
        *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "STRIDED_SLICE", "SLICE", "SPLIT", "SPLIT_V", "GATHER"),
        *("CONCATENATION", "TILE", "REVERSE_V2", "PACK", "UNPACK", "ADD", "SUB", "NEG"),
    )
)
"""Ops on complex numbers that compute real and imaginary parts alike, each by themselves."""

PARTS = {"REAL": 0, "IMAG": 1}


def without_complex(raw: RawModel) -> RawModel:
    """The model without complex tensors; the model itself if it has none.

    Raises Unsupported for other ops on them, and where one is an input or an output.
    """
    count = len(raw.tensors)
    found = [i for i, tensor in enumerate(raw.tensors) if tensor.dtype == "COMPLEX64"]
    if not found:
        return raw
    for role, places in (("input", raw.inputs), ("output", raw.outputs)):
        if both := set(places) & set(found):
            name = quoted(raw.tensors[min(both)].name)
            raise Unsupported(f"its {role} {name} is complex; convert the model with its real and imaginary parts")
    pairs = {place: (place, count + number) for number, place in enumerate(found)}
    tensors = [*raw.tensors, *(_part(raw.tensors[place], 1) for place in found)]
    for place in found:
        tensors[place] = _part(raw.tensors[place], 0)
    ops = tuple(each for index, op in enumerate(raw.ops) for each in _separate(index, op, pairs))
    return replace(raw, tensors=tuple(tensors), ops=ops)


def _part(tensor: RawTensor, number: int) -> RawTensor:
    """The real parts of a complex tensor, or the imaginary ones."""
    data = tensor.data
    if data is not None:
        if len(data) % 8:
            raise ImportFault(f"tensor {quoted(tensor.name)} is complex and has {len(data)} bytes; convert it again")
        data = memoryview(np.frombuffer(data, "<f4")[number::2].tobytes())
    name = f"{tensor.name}_{('real', 'imag')[number]}" if tensor.name else ""
    return replace(tensor, name=name, dtype="FLOAT32", data=data)


def _separate(index: int, op: RawOp, pairs: Mapping[int, tuple[int, int]]) -> list[RawOp]:
    """The ops on pairs that stand for one on complex tensors."""
    if not pairs.keys() & {*op.inputs, *op.outputs}:
        return [op]
    if op.code == "RFFT2D" and len(op.outputs) == 1 and op.outputs[0] in pairs:
        return [replace(op, outputs=pairs[op.outputs[0]])]
    if op.code == "COMPLEX_ABS" and len(op.inputs) == 1 and op.inputs[0] in pairs:
        return [replace(op, inputs=pairs[op.inputs[0]])]
    if op.code in PARTS and len(op.inputs) == 1 and op.inputs[0] in pairs:
        read = pairs[op.inputs[0]][PARTS[op.code]]
        return [replace(op, code="RESHAPE", inputs=(read,), options=Options())]
    if op.code not in ON_BOTH:
        raise Unsupported(f"op {index} {op.code} is on complex numbers")
    both = []
    for part in (0, 1):
        inputs, outputs = (
            tuple(pairs[i][part] if i in pairs else i for i in places) for places in (op.inputs, op.outputs)
        )
        both.append(replace(op, inputs=inputs, outputs=outputs))
    return both


def magnitude(site: Site, there: onnx.Site) -> Value:
    """COMPLEX_ABS."""
    site.input(1, "imaginary parts")
    return maps.mapped(there, lambda a, b: (a * a + b * b).sqrt(), there.value(0), there.value(1))


def rfft_2d(site: Site, there: onnx.Site) -> tuple[Value, Value]:
    """RFFT2D of a constant size: the transform of rows of real numbers, and then of columns where there are several."""
    size, x = site.integers(1, "length"), there.plain(there.value(0))
    if len(size) != 2 or len(x.type.shape) < 2 or len(site.outputs) != 2:
        raise ImportFault(f"it transforms {x.type} to {size}; convert it again")
    if any(n < 1 or n > MOST_POINTS or n & (n - 1) for n in size):
        raise Unsupported(f"its lengths are {size}; powers of 2 up to {MOST_POINTS} are supported")
    height, width = size
    *_, have, across = x.type.shape
    images = x.type.elements // (have * across)
    kept = (min(have, height), min(across, width))
    x = sliced(there, shaped(there, x, (images, have, across)), [range(images), *map(range, kept)])
    x = padded(there, x, (0, 0, 0), (0, height - kept[0], width - kept[1]), 0)
    pair = _rows(there, shaped(there, x, (images * height, width)))
    places = width // 2 + 1
    if height > 1:
        turned = [there.transposed(shaped(there, t, (images, height, places)), (0, 2, 1)) for t in pair]
        columns = _product(there, (turned[0], turned[1]), *_waves(height, height))
        pair = (there.transposed(columns[0], (0, 2, 1)), there.transposed(columns[1], (0, 2, 1)))
    first, second = (as_plain(shaped(there, t, site.output.type.shape)) for t in pair)
    return first, second


def _waves(n: int, count: int) -> tuple[Reals, Reals]:
    """The cosine and the sine of 2 pi k i / n, for each of `count` frequencies k a row of n places i."""
    angles = np.outer(np.arange(count), np.arange(n)) % n * (2 * math.pi / n)
    return np.cos(angles), np.sin(angles)


def _rows(there: onnx.Site, x: Tensor) -> Pair:
    """The transform of each row (rows, n) of real numbers: n / 2 + 1 frequencies.

    Place i is b + i' * long and frequency k is c + k' * short, of n = short * long: a transform of `short` points for
    each b, a rotation by c * b / n, and a transform of `long` points for each c. So the matrices stay small.
    """
    rows, n = x.type.shape
    if n <= FEW_POINTS:
        cosine, sine = _waves(n, n // 2 + 1)
        return _dense(there, x, cosine), _dense(there, x, -sine)
    short = 1 << (n.bit_length() - 1) // 2
    long = n // short
    count = long // 2 + 1  # of the frequencies k', the rest are conjugates
    turned = there.transposed(shaped(there, x, (1, rows, short, long)), (0, 1, 3, 2))
    cosine, sine = _waves(short, short)
    real, imag = (as_plain(_dense(there, turned, wave)) for wave in (cosine, -sine))
    angles = np.outer(np.arange(long), np.arange(short)) * (2 * math.pi / n)
    turn = [as_plain(there.weights(wave[None, None].astype(np.float32))) for wave in (np.cos(angles), np.sin(angles))]
    ahead = maps.mapped(there, lambda a, b, c, s: a * c + b * s, real, imag, *turn)
    across = maps.mapped(there, lambda a, b, c, s: b * c - a * s, real, imag, *turn)
    both = (there.transposed(ahead.tensor, (0, 1, 3, 2)), there.transposed(across.tensor, (0, 1, 3, 2)))
    found = []
    for part in _product(there, both, *_waves(long, count)):
        ordered = shaped(there, there.transposed(part, (0, 1, 3, 2)), (rows, count * short))
        found.append(sliced(there, ordered, [range(rows), range(n // 2 + 1)]))
    return found[0], found[1]


def _product(there: onnx.Site, x: Pair, cosine: Reals, sine: Reals) -> Pair:
    """The transform of complex numbers along the last dimension."""
    both = joined(there, x, len(x[0].type.shape) - 1)
    return _dense(there, both, np.hstack([cosine, sine])), _dense(there, both, np.hstack([-sine, cosine]))


def _dense(there: onnx.Site, x: Tensor, weights: Reals) -> Tensor:
    return dense(there, x, weights.astype(np.float32))
