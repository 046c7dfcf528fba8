"""Ops of audio front ends that no formula expresses: the Fourier transform of real samples, and the filter bank.

Their arithmetic is that of TFLite Micro's signal library (`signal/src`), whose transform is kissfft's in 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, DType, Floats, Ints, Node, Op, OpFault, Signature, TensorType
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.rules import want

__all__ = ["FilterBank", "Rfft", "split_twiddles", "twiddles"]

LENGTHS = tuple(1 << power for power in range(3, 14))
"""Lengths that the transform supports."""

_ONE = 32767  # the largest int16, which stands for 1


def _unit(turns: Floats) -> Ints:
    """exp(2 pi j turns) as pairs of int16, rounded to the nearest, halves up."""
    angles = 2 * np.pi * turns
    parts = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return np.floor(0.5 + _ONE * parts).astype(np.int64)


def twiddles(points: int) -> Ints:
    """exp(-2 pi j k / points) for k < 3 / 4 of the points, as pairs (real, imaginary) of int16."""
    return _unit(-np.arange(max(1, 3 * points // 4)) / points)


def split_twiddles(points: int) -> Ints:
    """exp(-pi j (k / points + 1 / 2)) for k = 1 .. points / 2, as pairs (real, imaginary) of int16."""
    return _unit(-(np.arange(1, points // 2 + 1) / points + 0.5) / 2)


def _wrapped(x: Ints) -> Ints:
    return x.astype(np.int16).astype(np.int64)


def _rounded(x: Ints) -> Ints:
    """x / 2^15 as int16, rounded to the nearest, halves up."""
    return _wrapped((x + (1 << 14)) >> 15)


def _times(a: Ints, b: Ints) -> Ints:
    """The product of complex numbers, pairs along the last axis."""
    real = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    imaginary = a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]
    return _rounded(np.stack([real, imaginary], axis=-1))


def _part(x: Ints, of: int) -> Ints:
    """x divided by a small integer: multiplied by its rounded down reciprocal."""
    return _rounded(x * (_ONE // of))


def _turned(x: Ints) -> Ints:
    """-j x."""
    return np.stack([x[..., 1], -x[..., 0]], axis=-1)


def _transformed(points: Ints) -> Ints:
    """The transform of n complex numbers (n, 2) divided by n: decimation in time, radix 4, first radix 2 if need be."""
    n = len(points)
    first = 2 if (n.bit_length() - 1) % 2 else 4
    places = np.arange(n).reshape(-1)
    digits, size = [first], first
    while size < n:
        digits.append(4)
        size *= 4
    # The place of the point that output place i begins with: the digits of i, in the reverse order.
    source, stride, left = np.zeros(n, np.int64), n, places
    for radix in digits:
        stride //= radix
        source += left % radix * stride
        left = left // radix
    y, m, around = points[source], 1, twiddles(n)
    for radix in digits:
        y = y.reshape(n // (radix * m), radix, m, 2)
        k = np.arange(m) * (n // (radix * m))
        parts = [_part(y[:, 0], radix)]
        parts += [_times(_part(y[:, q], radix), around[q * k]) for q in range(1, radix)]
        y = _wrapped(_butterfly(parts)).reshape(n, 2)
        m *= radix
    return y


def _butterfly(parts: Sequence[Ints]) -> Ints:
    if len(parts) == 2:
        a, b = parts
        return np.stack([a + b, a - b], axis=1)
    a, b, c, d = parts
    even, odd = a - c, _turned(b - d)
    return np.stack([a + c + b + d, even + odd, a + c - b - d, even - odd], axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rfft(Op):
    """The discrete Fourier transform of real int16 samples: (samples,) gives (length + 2,), pairs (real, imaginary).

    `length`, a power of 2, is the number of points; samples that are missing are zeros. Results are divided by
    `length`. Equal to kissfft's kiss_fftr with FIXED_POINT 16 (kiss_fft.c, kiss_fftr.c), which TFLite Micro's
    signal/src/rfft_int16.cc calls: length / 2 complex points, decimated in time by 4, every stage rounded to int16.
    """

    no_overflow: ClassVar[bool] = True  # int16 wraps around, as kissfft's does
    length: int

    def check(self, node: Node) -> None:
        for role, tensor in (("input", node.x), ("output", node.output)):
            laws.dtype(self, tensor, role, DType.INT16)

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 1)
        if self.length not in LENGTHS:
            raise OpFault(
                self, f"has {self.length} points; powers of 2 from {LENGTHS[0]} to {LENGTHS[-1]} are possible"
            )
        if len(inputs[0].shape) != 1 or inputs[0].shape[0] > self.length:
            raise OpFault(self, f"x is {inputs[0]}; one dimension of at most {self.length} samples is needed")
        return (self.length + 2,)

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((0,),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        (x,) = arrays
        n = self.length // 2
        samples = np.zeros(self.length, np.int64)
        samples[: x.size] = x
        mixed = _transformed(samples.reshape(n, 2))
        y = np.zeros((n + 1, 2), np.int64)
        ends = _part(mixed[0], 2)
        y[0, 0], y[n, 0] = ends[0] + ends[1], ends[0] - ends[1]
        k = np.arange(1, n // 2 + 1)
        ahead = _part(mixed[k], 2)
        behind = _part(_wrapped(mixed[n - k] * (1, -1)), 2)
        both, apart = _wrapped(ahead + behind), _times(_wrapped(ahead - behind), split_twiddles(n))
        y[k] = (both + apart) >> 1
        y[n - k] = (both - apart) * (1, -1) >> 1
        return y.astype(np.int16).reshape(-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class FilterBank(Op):
    """inputs (x, weights, unweights, first bins, first weights, widths): uint32 (bins,) gives uint64 (channels,).

    Band b of channels + 1 has widths[b] bins from bin starts[b] on; a bin's energy is shared by two channels:
    y[c] = sum of unweights * x in band c + sum of weights * x in band c + 1. Constants are int16.
    Source: TFLite Micro, signal/src/filter_bank.cc, FilterbankAccumulateChannels.
    """

    no_overflow: ClassVar[bool] = True  # uint64 wraps around

    row_inputs = 1

    def check(self, node: Node) -> None:
        x, *constants = node.inputs
        laws.dtype(self, x, "input", DType.UINT32)
        laws.dtype(self, node.output, "output", DType.UINT64)
        for role, tensor in zip(("weights", "unweights", "starts", "weight starts", "widths"), constants, strict=True):
            laws.constant(self, tensor, role)
            laws.dtype(self, tensor, role, DType.INT16)
        weights, unweights, starts, places, widths = (t.data.astype(np.int64) for t in constants if t.data is not None)
        if min(weights.min(), unweights.min()) < 0:
            raise OpFault(self, "it has weights below 0")
        for firsts, size, what in ((starts, x.type.elements, "bins"), (places, weights.size, "weights")):
            if min(firsts.min(), widths.min()) < 0 or (firsts + widths).max() > size:
                raise OpFault(self, f"a band is beyond the {size} {what}")

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 6)
        if any(len(kind.shape) != 1 for kind in inputs):
            raise OpFault(self, f"its inputs are {', '.join(map(str, inputs))}; each has one dimension")
        _, weights, unweights, *bands = (kind.shape[0] for kind in inputs)
        if weights != unweights or len(set(bands)) != 1 or bands[0] < 2:
            raise OpFault(self, f"{weights} weights, {unweights} unweights and bands {bands} do not belong together")
        return (bands[0] - 1,)

    def macs(self, sig: Signature) -> int:
        return 2 * sig.inputs[1].elements

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((0,),)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, weights, unweights, *bands = (array.astype(np.uint64) for array in arrays)
        totals = np.zeros((2, len(bands[0])), np.uint64)
        for band, (start, place, width) in enumerate(zip(*(each.tolist() for each in bands), strict=True)):
            energies = x[start : start + width]
            for total, factors in zip(totals, (weights, unweights), strict=True):
                total[band] = (factors[place : place + width] * energies).sum(dtype=np.uint64)
        return totals[0, 1:] + totals[1, :-1]


OPS: tuple[type[Op], ...] = (Rfft, FilterBank)
