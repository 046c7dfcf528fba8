"""The front end of MLPerf Tiny's streaming wake word: its macros, its RAM, and the tables of its C (`sound.c`).

Features are the logarithms of the energies in 40 bands of 64 ms of sound, every 32 ms: pre-emphasis, a Hamming window,
an FFT of 1,024 points, bands spaced evenly on the mel scale from 0 to 8 kHz (`benchmark/training/streaming_wakeword`
of mlcommons/tiny).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.emit import c
from shoehorn_mcu_host.base.tasks import CHUNK, DETECTS_ABOVE, RATE, WAKE_WORD, Task

POINTS = 2 * CHUNK
BANDS = 40
ACTIVATIONS = 1024
"""The steps since `start%` of which `stop%` prints the wake word's output: 33 s."""
_OTHER_BYTES = 16  # counts, and the sample before the window


def ram_bytes(input_bytes: int) -> int:
    """The RAM of `sound.c`: samples, the spectrum, the bands, the window of features and the activations."""
    return 2 * POINTS + 4 * POINTS + 4 * BANDS + input_bytes + ACTIVATIONS + _OTHER_BYTES


def app(task: Task, input_bytes: int) -> dict[str, str]:
    """The macros of `app_config.h` that this task has more than others; the model's input has so many bytes."""
    return {
        "SH_APP_SOUND": "1",
        "SH_APP_SOUND_BYTES": f"{ram_bytes(input_bytes)}u",
        "SH_APP_SOUND_WINDOW": f"{input_bytes}u",
        "SH_APP_SOUND_WORD": f"{WAKE_WORD}u",
        "SH_APP_SOUND_ABOVE": str(DETECTS_ABOVE),
        "SH_APP_PROFILE": c.string(task.profile),
    }


def _mel(hz: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1127.0 * np.log1p(hz / 700.0)


def bands() -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """For each bin of the spectrum below 8 kHz the band that it rises in, and its weight there.

    The weight in the band below is one minus that. Bin 0 has no weight.
    """
    edges = np.linspace(0.0, float(_mel(np.array([RATE / 2]))[0]), BANDS + 2)
    at = _mel(np.arange(POINTS // 2) * RATE / POINTS)
    band = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, BANDS)
    rises = (at - edges[band]) / (edges[band + 1] - edges[band])
    return band.astype(np.uint8), rises.astype(np.float32)


def tables() -> str:
    """`sound_tables.h`: half of the symmetric Hamming window, a quarter of a sine, and the bands."""
    band, rises = bands()
    n = np.arange(POINTS // 2)
    hamming = (0.54 - 0.46 * np.cos(2 * np.pi * n / (POINTS - 1))).astype(np.float32)
    sine = np.sin(2 * np.pi * np.arange(POINTS // 4 + 1) / POINTS).astype(np.float32)
    first = np.searchsorted(band, np.arange(BANDS + 2)).astype(np.uint16)
    first[0] = 1
    arrays = (
        c.array("hamming", hamming, "static const"),
        c.array("sine", sine, "static const"),
        c.array("band_begin", first, "static const"),
        c.array("rise", rises, "static const"),
    )
    remarks = (
        "// The front end of a wake word: a window, a quarter of a sine, and bands of mel. Generated; do not edit.",
    )
    body = (
        "#include <stdint.h>",
        "",
        f"#define POINTS {POINTS}u",
        f"#define BANDS {BANDS}u",
        f"#define ACTIVATIONS {ACTIVATIONS}u",
        "",
        *arrays,
    )
    return c.header("SOUND_TABLES_H", remarks, body)
