"""Draws docs/why.svg, the picture in the README: SRAM and speed beside other tools, on the same model files.

Every figure was measured on the same int8 files, on Cortex-M4 where it says instructions:

- Shoehorn: `make bench` (bench/figures.py), which draws the picture: the smallest arena, and the fastest plan.
- TensorFlow Lite Micro 90b983c with CMSIS-NN 4ab83cc, GCC 12.2 -O3, in QEMU: arena_used_bytes() and instructions.
- TinyTS: the arenas that its published generated C declares (HPCA 2024). It publishes no instruction counts.
- TinyEngine 47bb283, GCC 12.2 -Ofast, in QEMU: its static buffer. Its result for this model is wrong, so its
  instructions (19.7 M) are not drawn; it imports neither KWS nor IC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

MODELS = ("VWW, MobileNetV1 0.25", "KWS, DS-CNN", "IC, ResNet-8")
SRAM_BYTES = {
    "TinyTS": (29_568, 9_920, 14_272),
    "TinyEngine": (60_728, None, None),
    "TFLM + CMSIS-NN": (100_708, 22_820, 54_996),
}
MEGA_INSTRUCTIONS = {
    "TFLM + CMSIS-NN": (24.72, 7.85, 29.88),
}
COLOURS = {"Shoehorn": "#c2410c", "TinyTS": "#a3a3a3", "TinyEngine": "#737373", "TFLM + CMSIS-NN": "#404040"}


def _bars(axes: Axes, rows: Mapping[str, Sequence[float | None]], title: str, spell: str) -> None:
    """Groups of horizontal bars, a group per model, each with its figure behind it."""
    height = 0.8 / len(rows)
    most = max(value for values in rows.values() for value in values if value is not None)
    for place, (tool, values) in enumerate(rows.items()):
        for group, value in enumerate(values):
            if value is None:
                continue
            y = group + place * height
            axes.barh(y, value, height * 0.9, color=COLOURS[tool], label=tool if group == 0 else None)
            axes.text(value + most / 80, y, spell.format(value), va="center", fontsize=8)
    axes.set_yticks([group + height * (len(rows) - 1) / 2 for group in range(len(MODELS))], MODELS)
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.16)
    axes.set_xticks([])
    axes.set_title(title, fontsize=10, loc="left")
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)


def draw(out: Path, sram_bytes: Sequence[float], mega_instructions: Sequence[float]) -> None:
    """Writes the picture with these figures of Shoehorn, for each of MODELS."""
    plt.rcParams.update({"svg.hashsalt": "shoehorn", "font.family": "sans-serif", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained", facecolor="white")
    ours = "Shoehorn"
    _bars(left, {ours: sram_bytes, **SRAM_BYTES}, "SRAM for activations, bytes", "{:,}")
    instructions = {ours: mega_instructions, **MEGA_INSTRUCTIONS}
    _bars(right, instructions, "Instructions per inference, Cortex-M4, millions", "{:.1f}")
    right.set_yticklabels([])
    left.legend(loc="lower right", frameon=False, fontsize=8)
    figure.savefig(out, metadata={"Date": None})
