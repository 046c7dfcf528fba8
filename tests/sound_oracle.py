"""The front end of MLPerf Tiny's streaming wake word in float64, written from the formulas and not from our C.

Its mel bands are triangles as `tf.signal.linear_to_mel_weight_matrix` defines them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHUNK, POINTS, BANDS, RATE = 512, 1024, 40, 16000
Floats = NDArray[np.float64]


def _mel(hz: Floats) -> Floats:
    return 1127.0 * np.log(1.0 + hz / 700.0)


def triangles() -> Floats:
    """[513, 40]: the weight of each bin of the spectrum in each band."""
    bins = _mel(np.linspace(0.0, RATE / 2, POINTS // 2 + 1)[1:])[:, None]
    edges = np.linspace(_mel(np.array(0.0)), _mel(np.array(RATE / 2)), BANDS + 2)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    weights = np.maximum(0.0, np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)))
    return np.vstack([np.zeros((1, BANDS)), weights])


def vectors(samples: NDArray[np.int16], scale: float) -> Floats:
    """[steps, 40]: what is stored for each step of 512 samples, before it is cut to an integer."""
    steps = len(samples) // CHUNK
    real = np.concatenate([np.zeros(CHUNK + 1), samples[: steps * CHUNK] / 32768.0])
    sharp = real[1:] - 0.96875 * real[:-1]
    frames = np.stack([sharp[i * CHUNK : i * CHUNK + POINTS] for i in range(steps)])
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(POINTS) / (POINTS - 1))
    power = np.abs(np.fft.rfft(frames * window)) ** 2 / POINTS
    loud = 10 * np.log10(np.maximum(power @ triangles(), 1e-30))
    return np.clip((loud + 52.0) / 64.0, 0.0, 1.0) / scale - 128.0


def cut(values: Floats) -> NDArray[np.int8]:
    """Towards zero, and saturated."""
    return np.clip(np.trunc(values), -128, 127).astype(np.int8)


def windows(features: NDArray[np.int8], length: int = 30) -> list[NDArray[np.int8]]:
    """The model's input after each step: the last vectors, and 0 before the first."""
    padded = np.concatenate([np.zeros((length, BANDS), np.int8), features])
    return [padded[i + 1 : i + 1 + length].reshape(1, length, 1, BANDS) for i in range(len(features))]
