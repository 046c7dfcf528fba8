"""Converters of TFLite Micro's signal ops, the custom ops of audio front ends, and the options that they have.

Facts are from tflite-micro's `signal/micro/kernels` (shapes and options) and `signal/src` (arithmetic), named by file.
Most ops are formulas; spectral subtraction keeps its noise estimate as a state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.tflite.by_onnx import Made, converter
from shoehorn_mcu.importers.tflite.site import Part, Site
from shoehorn_mcu.ir import DType, State, Tensor
from shoehorn_mcu.ops import FilterBank, Reduce, Rfft
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term, formula

_INT16_TYPE = 7  # of the schema's TensorType

LOG_TABLE = (*(round(65536 * (math.log2(1 + i / 128) - i / 128)) for i in range(129)), 0)
"""What log2(1 + x) - x is at multiples of 1 / 128, in units of 2^-16 (log.cc)."""

_LN_2 = 45426  # the natural logarithm of 2, in units of 2^-16


def _number(site: Site, name: str, low: int, high: int) -> int:
    """An option; raises ImportFault unless it is in low..high."""
    number = int(site.options[name])
    if not low <= number <= high:
        raise ImportFault(f"its option '{name}' is {number}, {low} to {high} are possible; convert it again")
    return number


def _vector(there: onnx.Site, place: int, *dtypes: DType) -> Tensor:
    """An operand of one dimension and one of these element types."""
    tensor = there.plain(there.value(place))
    if len(tensor.type.shape) != 1 or tensor.type.dtype not in dtypes:
        names = " or ".join(dtype.value for dtype in dtypes)
        raise Unsupported(f"operand {place} is {tensor.type}, one dimension of {names} is needed")
    return tensor


def _window(site: Site, there: onnx.Site) -> Value:
    """window.cc, ApplyWindow: x * w >> shift, saturated."""
    shift = _number(site, "shift", 0, 31)
    if any(there.value(place).tensor.type.dtype is not DType.INT16 for place in (0, 1)):
        raise Unsupported("samples and weights must be int16")

    def write(x: Term, w: Term) -> Term:
        return f.clip(x.cast(DType.INT32) * w.cast(DType.INT32) >> shift, -32768, 32767).cast(DType.INT16)

    return maps.mapped(there, write, there.value(0), there.value(1))


def _auto_scale(site: Site, there: onnx.Site) -> Made:
    """fft_auto_scale.cc and max_abs.cc: shifted to the left as far as the largest magnitude allows, and by how much.

    The largest magnitude is a int16: behind a sample of -32768 it is the next sample, whatever its sign.
    """
    x = _vector(there, 0, DType.INT16)

    def larger(most: Term, sample: Term) -> Term:
        wide = sample.cast(DType.INT32)
        negative = (-wide > most.cast(DType.INT32)).select((-wide).cast(DType.INT16), most)
        return (sample > most).select(sample, negative)

    row = shaped(there, x, (1, x.type.elements))
    made = formula(larger, DType.INT16, DType.INT16)
    most = there.emit(Reduce, row, dtype=DType.INT16, formula=made.text, along_channels=True, initial=0)

    def room(most: Term) -> Term:
        bits = 15 - most.cast(DType.UINT32).width().cast(DType.INT32)
        return (most > 0).select(bits, 0)

    scale = maps.mapped(there, room, as_plain(shaped(there, most, ())))
    scaled = maps.mapped(there, lambda x, bits: (x.cast(DType.INT32) << bits).cast(DType.INT16), as_plain(x), scale)
    return scaled, scale


def _rfft(site: Site, there: onnx.Site) -> Value:
    """rfft.cc and rfft_int16.cc."""
    if _number(site, "T", 0, 255) != _INT16_TYPE:
        raise Unsupported("it transforms other samples than int16")
    length = _number(site, "fft_length", 1, 1 << 16)
    return as_plain(there.emit(Rfft, _vector(there, 0, DType.INT16), length=length))


def _energy(site: Site, there: onnx.Site) -> Value:
    """energy.cc, SpectrumToEnergy; of all bins, also where the op leaves what was in its memory."""
    x = _vector(there, 0, DType.INT16)
    pairs = shaped(there, x, (x.type.elements // 2, 2))

    def added(total: Term, part: Term) -> Term:
        wide = part.cast(DType.INT32)
        return total + (wide * wide).cast(DType.UINT32)

    made = formula(added, DType.UINT32, DType.INT16)
    y = there.emit(Reduce, pairs, dtype=DType.UINT32, formula=made.text, along_channels=True, initial=0)
    return as_plain(shaped(there, y, (x.type.elements // 2,)))


def _filter_bank(site: Site, there: onnx.Site) -> Value:
    """filter_bank.cc; channel 0, its scratch, is left out."""
    operands = [_vector(there, place, DType.UINT32 if place == 0 else DType.INT16) for place in range(6)]
    y = there.emit(FilterBank, *operands, dtype=DType.UINT64)
    if y.type.shape != (_number(site, "num_channels", 1, 1 << 15),):
        raise ImportFault(f"it has {y.type.elements} channels and an option of another number; convert it again")
    return as_plain(y)


def _square_root(site: Site, there: onnx.Site) -> Value:
    """filter_bank_square_root.cc, square_root_32.cc and square_root_64.cc: rounded, but not beyond 16 or 32 bits."""

    def write(x: Term, bits: Term) -> Term:
        root = x.sqrt()
        most = (x >> 32).equals(0).select(x.constant(0xFFFF), x.constant(0xFFFFFFFF))
        up = (x - root * root > root) & ~root.equals(most)
        return up.select(root + 1, root).cast(DType.UINT32) >> bits.cast(DType.UINT32)

    return maps.mapped(there, write, as_plain(_vector(there, 0, DType.UINT64)), there.value(1))


def _spectral_subtraction(site: Site, there: onnx.Site) -> Made:
    """filter_bank_spectral_subtraction.cc: what exceeds the noise; the noise, a low-pass of the input."""
    smoothing = _number(site, "smoothing_bits", 0, 31)
    bits = _number(site, "spectral_subtraction_bits", 0, 31)
    least = _number(site, "min_signal_remaining", 0, 2**31 - 1)
    clamping = bool(_number(site, "clamping", 0, 1))
    x = _vector(there, 0, DType.UINT32)
    channels = x.type.elements
    if channels != _number(site, "num_channels", 1, 1 << 15):
        raise ImportFault(f"it has {channels} channels and an option of another number; convert it again")

    def factors(name: str) -> Value:
        """For each channel: odd ones have a factor of their own."""
        both = [_number(site, each, 0, 2**31 - 1) for each in (name, f"alternate_{name}")]
        return as_plain(there.weights(np.resize(np.array(both, np.uint32), channels)))

    def estimate(noise: Term, x: Term, share: Term, rest: Term) -> Term:
        scaled = x << smoothing
        sums = scaled.cast(DType.UINT64) * share.cast(DType.UINT64) + noise.cast(DType.UINT64) * rest.cast(DType.UINT64)
        found = (sums >> bits).cast(DType.UINT32)
        return f.minimum(found, scaled) if clamping else found

    def subtracted(x: Term, noise: Term) -> Term:
        scaled = x << smoothing
        floor = (x.cast(DType.UINT64) * least >> bits).cast(DType.UINT32)
        return f.maximum(scaled - f.minimum(noise, scaled) >> smoothing, floor)

    before, first = there.state(np.zeros(channels, np.uint32))
    share, rest = factors("smoothing"), factors("one_minus_smoothing")
    noise = maps.mapped(there, estimate, as_plain(before), as_plain(x), share, rest)
    there.builder.states.append(State(before.name, noise.tensor.name, first.name))
    return maps.mapped(there, subtracted, as_plain(x), noise), noise


def _pcan(site: Site, there: onnx.Site) -> Value:
    """pcan_argc_fixed.cc: the signal times a gain, by pieces a polynomial of the noise; shrunk where small."""
    shift = _number(site, "snr_shift", 0, 63)
    x, noise = (_vector(there, place, DType.UINT32) for place in (0, 1))
    table = tuple(int(n) for n in there.constant(2, "table of gains").reshape(-1).tolist())
    if len(table) != 125 or there.constant(2, "table of gains").dtype != np.int16:
        raise Unsupported(f"its table of gains has {len(table)} entries, 125 of int16 are needed")

    def gain(noise: Term) -> Term:
        piece = noise.width()
        first = piece * 4 - 6
        near = noise << 11 - piece
        inside = ((piece < 11).select(near, noise >> piece - 11) & 0x3FF).cast(DType.INT32)
        a, b, c = ((first + k).entry(table, DType.INT16).cast(DType.INT32) for k in range(3))
        sums = ((c * inside >> 5) + (b << 5)) * inside + (1 << 14)
        return (noise <= 2).select(noise.entry(table, DType.INT16), ((sums >> 15) + a).cast(DType.INT16))

    def write(x: Term, noise: Term) -> Term:
        factor = gain(noise).cast(DType.UINT32).cast(DType.UINT64)
        ratio = (x.cast(DType.UINT64) * factor >> shift).cast(DType.UINT32)
        return (ratio < 2 << 12).select(ratio * ratio >> 20, (ratio >> 6) - 64)

    return maps.mapped(there, write, as_plain(x), as_plain(noise))


def _log(site: Site, there: onnx.Site) -> Value:
    """filter_bank_log.cc and log.cc: the natural logarithm, from a table of 128 pieces, times a scale."""
    up = _number(site, "input_correction_bits", 0, 31)
    scale = _number(site, "output_scale", 0, 2**31 - 1)

    def write(x: Term) -> Term:
        scaled = x << up
        whole = scaled.width() - 1
        rest = scaled - (scaled.constant(1) << whole)
        part = ((whole < 16).select(rest << 16 - whole, rest >> whole - 16)).cast(DType.INT32)
        piece = part >> 9
        low, high = ((piece + k).entry(LOG_TABLE, DType.UINT16).cast(DType.INT32) for k in (0, 1))
        bend = low + ((high - low) * (part - (piece << 9)) >> 16)
        binary = (whole << 16) + (part + bend).cast(DType.UINT32)
        natural = (binary.cast(DType.UINT64) * _LN_2 + (1 << 15) >> 16).cast(DType.UINT32)
        found = natural * scale + (1 << 15) >> 16
        return (scaled > 1).select(f.minimum(found, 32767), 0).cast(DType.INT16)

    return maps.mapped(there, write, as_plain(_vector(there, 0, DType.UINT32)))


CONVERTERS: Mapping[str, Callable[[Site], Part]] = {
    code: converter(convert)
    for code, convert in {
        "SignalEnergy": _energy,
        "SignalFftAutoScale": _auto_scale,
        "SignalFilterBank": _filter_bank,
        "SignalFilterBankLog": _log,
        "SignalFilterBankSpectralSubtraction": _spectral_subtraction,
        "SignalFilterBankSquareRoot": _square_root,
        "SignalPCAN": _pcan,
        "SignalRfft": _rfft,
        "SignalWindow": _window,
    }.items()
}
"""By the name of the custom op."""
