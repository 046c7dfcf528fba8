"""Instructions and cycles per multiply-accumulate of whole rows, for layers of the MLPerf Tiny models.

    python -m bench.per_kernel [--boards ID ...]

Each shape is a graph of one op of ROWS output rows, all of whose input rows are there; the kernel is what
`gen firmware` chooses where there is place for scratch. Figures include what a row needs besides the kernel: its row
pointers and the call. An add counts its elements. `bench/figures.py` puts the tables into docs/benchmarks.md;
`bench/loops.py` looks at inner loops alone.

Beside them are earlier figures of whole rows on the same boards, instructions or instructions / cycles: portable C
before there were kernels for instruction sets (`C`), prototypes that were thrown away, and CMSIS-NN 4ab83cc.

The limit is of the arithmetic, as if loads, roundings and loops were free: the instructions that multiply and add, by
the products that they add.

- Armv6-M: MULS and ADDS, 2.
- Armv6 SIMD: SMLAD adds two products, 0.5.
- Helium: VMLADAVA adds 16, 1/16. Depthwise convolution has a sum per channel: for two taps of 16 channels, 4 VMULL and
  2 VADD in 16 bits, then 4 VMOVL and 4 VADD, 14/32.
- NEON of Armv8.0: SMULL, SMLAL2 and SADALP add 16, 3/16. Depthwise: for two taps of 8 channels SMULL and SMLAL in
  16 bits, then SADDW and SADDW2, 4/16.

An add has none.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from bench.costs import Pick
from bench.kernels import Shape, measured
from bench.micro_graph import NONE, graph_of, s8
from bench.micro_linear import linear
from shoehorn_mcu import ops
from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.kernels import Instance, choose
from shoehorn_mcu.kernels.catalogue import contract_of
from shoehorn_mcu.kernels.choice import choices_on
from shoehorn_mcu.machine import targets

ROWS = 4
SHARE = 0.7  # of the arena, for inputs and outputs; the rest is for scratch
M4, M0, M55, ARM11, A53 = "mps2-an386", "microbit", "mps3-an547", "rpi-zero", "rpi-zero-2w"
LIMITS = {M4: 0.5, M0: 2.0, M55: 1 / 16, ARM11: 0.5, A53: 3 / 16}
DEPTHWISE_LIMITS = {**LIMITS, M55: 14 / 32, A53: 4 / 16}


class Figures(NamedTuple):
    """Instructions and cycles per multiply-accumulate; None: not known."""

    c: float | None = None
    c_cycles: float | None = None
    prototype: float | None = None
    prototype_cycles: float | None = None
    cmsis: float | None = None


def _conv(width: int, inputs: int, outputs: int, kernel: tuple[int, int] = (1, 1), stride: int = 1) -> Graph:
    """Same padding across, none above and below; rounded as after ReLU."""
    height = (ROWS - 1) * stride + kernel[0]
    x = s8(1, height, width, inputs)
    return graph_of(
        ops.Conv2d,
        linear(np.random.default_rng(0), x, (outputs, *kernel, inputs), outputs),
        s8(scale=0.5, zero=-128),
        stride=(stride, stride),
        dilation=(1, 1),
        padding=_same(width, kernel[1], stride),
    )


def _depthwise(width: int, channels: int, stride: int = 1) -> Graph:
    x = s8(1, (ROWS - 1) * stride + 3, width, channels)
    operands = linear(np.random.default_rng(0), x, (1, 3, 3, channels), channels)
    pad = _same(width, 3, stride)
    return graph_of(ops.DepthwiseConv2d, operands, s8(scale=0.5, zero=-128), stride=(stride, stride), padding=pad)


def _same(width: int, kernel: int, stride: int) -> ops.Padding:
    outputs = -(-width // stride)
    both = max(0, (outputs - 1) * stride + kernel - width)
    return replace(NONE, left=both // 2, right=both - both // 2)


def _dense(inputs: int, outputs: int) -> Graph:
    operands = linear(np.random.default_rng(0), s8(1, inputs), (outputs, inputs), outputs)
    return graph_of(ops.Dense, operands, s8(scale=0.5, zero=-128))


def _linear_conv(width: int, inputs: int, outputs: int) -> Graph:
    """A 1x1 convolution without ReLU."""
    operands = linear(np.random.default_rng(0), s8(1, ROWS, width, inputs), (outputs, 1, 1, inputs), outputs)
    return graph_of(ops.Conv2d, operands, s8(scale=0.5), stride=(1, 1), dilation=(1, 1), padding=NONE)


def _add() -> Graph:
    one = s8(1, ROWS, 32, 16)
    return graph_of(ops.Add, [one, s8(1, ROWS, 32, 16, scale=0.04, zero=-7)], s8(scale=0.08))


LAYERS = {
    "1x1 64>64, width 5 (KWS)": _conv(5, 64, 64),
    "1x1 8>16, 48 (VWW)": _conv(48, 8, 16),
    "1x1 16>32, 24": _conv(24, 16, 32),
    "1x1 32>32, 24": _conv(24, 32, 32),
    "1x1 64>64, 12": _conv(12, 64, 64),
    "1x1 128>128, 6": _conv(6, 128, 128),
    "1x1 96>24 linear, 56 (MobileNetV2)": _linear_conv(56, 96, 24),
    "3x3x3>8 stride 2, 96 (VWW, first)": _conv(96, 3, 8, (3, 3), 2),
    "3x3x3>16, 32 (IC, first)": _conv(32, 3, 16, (3, 3)),
    "10x4x1>64 stride 2, 10 (KWS, first)": _conv(10, 1, 64, (10, 4), 2),
    "3x3x16>16, 32 (IC)": _conv(32, 16, 16, (3, 3)),
    "3x3x32>32, 16": _conv(16, 32, 32, (3, 3)),
    "3x3x64>64, 8": _conv(8, 64, 64, (3, 3)),
    "depthwise 48x8": _depthwise(48, 8),
    "depthwise 24x32": _depthwise(24, 32),
    "depthwise 12x64": _depthwise(12, 64),
    "depthwise 6x128": _depthwise(6, 128),
    "depthwise 5x64 (KWS)": _depthwise(5, 64),
    "depthwise 48x16 stride 2": _depthwise(48, 16, 2),
    "depthwise 56x144 (MobileNetV2)": _depthwise(56, 144),
    "dense 640>128 (AD)": _dense(640, 128),
    "dense 128>128": _dense(128, 128),
    "dense 128>640": _dense(128, 640),
    "add, per element": _add(),
}
BESIDE = {
    M4: {
        "1x1 64>64, width 5 (KWS)": Figures(3.75, 5.27, 1.38, 1.72, 2.09),
        "1x1 8>16, 48 (VWW)": Figures(11.3, 14.84, 3.16, 4.45, 6.63),
        "1x1 16>32, 24": Figures(6.82, 9.13, 1.91, 2.58, 3.96),
        "1x1 32>32, 24": Figures(4.79, 6.57, 1.43, 1.85, 2.7),
        "1x1 64>64, 12": Figures(None, None, None, None, 2.08),
        "1x1 128>128, 6": Figures(3.24, 4.61, 1.03, 1.25, 1.83),
        "1x1 96>24 linear, 56 (MobileNetV2)": Figures(3.44, 4.87, 1.17, 1.45, None),
        "3x3x3>8 stride 2, 96 (VWW, first)": Figures(7.04, 9.54, 2.94, 4.05, 6.16),
        "3x3x3>16, 32 (IC, first)": Figures(6.85, 9.26, 1.93, 2.58, 4.82),
        "10x4x1>64 stride 2, 10 (KWS, first)": Figures(10.1, 13.4, 1.73, 2.2, 3.47),
        "3x3x16>16, 32 (IC)": Figures(3.51, 4.98, 1.08, 1.31, 2.33),
        "3x3x32>32, 16": Figures(3.12, 4.48, 0.98, 1.17, 1.93),
        "3x3x64>64, 8": Figures(2.93, 4.23, 0.94, 1.12, 1.76),
        "depthwise 48x8": Figures(12.1, 16.0, 2.17, 2.69, 9.96),
        "depthwise 24x32": Figures(11.3, 14.9, 2.41, 3.07, 8.87),
        "depthwise 12x64": Figures(11.3, 14.8, 2.91, 3.87, 8.52),
        "depthwise 6x128": Figures(11.4, 14.9, 4.45, 6.29, 8.09),
        "depthwise 5x64 (KWS)": Figures(11.5, 15.2, 4.64, 6.62, 8.33),
        "depthwise 48x16 stride 2": Figures(11.6, 15.2, 3.21, 4.22, 9.3),
        "depthwise 56x144 (MobileNetV2)": Figures(11.1, 14.5, 2.16, 2.61, None),
        "dense 640>128 (AD)": Figures(3.07, 4.34, 1.12, 1.42, 1.96),
        "dense 128>128": Figures(3.37, 4.69, 1.2, 1.52, 2.29),
        "dense 128>640": Figures(3.36, 4.68, 1.19, 1.51, 2.27),
        "add, per element": Figures(84.0, 106, 15.0, 17.5, 81),
    },
    ARM11: {
        "1x1 64>64, width 5 (KWS)": Figures(4.94, None, 1.39, None, None),
        "1x1 8>16, 48 (VWW)": Figures(11.97, None, 3.07, None, None),
        "1x1 16>32, 24": Figures(7.82, None, 1.9, None, None),
        "1x1 32>32, 24": Figures(5.91, None, 1.44, None, None),
        "1x1 128>128, 6": Figures(4.46, None, 1.03, None, None),
        "1x1 96>24 linear, 56 (MobileNetV2)": Figures(4.65, None, 1.18, None, None),
        "3x3x3>8 stride 2, 96 (VWW, first)": Figures(7.8, None, 2.68, None, None),
        "3x3x3>16, 32 (IC, first)": Figures(7.65, None, 1.84, None, None),
        "10x4x1>64 stride 2, 10 (KWS, first)": Figures(10.4, None, 1.66, None, None),
        "3x3x16>16, 32 (IC)": Figures(4.68, None, 1.08, None, None),
        "3x3x32>32, 16": Figures(4.33, None, 0.99, None, None),
        "3x3x64>64, 8": Figures(4.16, None, 0.95, None, None),
        "depthwise 48x8": Figures(12.4, None, 2.22, None, None),
        "depthwise 24x32": Figures(11.9, None, 2.44, None, None),
        "depthwise 12x64": Figures(11.8, None, 2.91, None, None),
        "depthwise 6x128": Figures(11.9, None, 4.34, None, None),
        "depthwise 5x64 (KWS)": Figures(12.1, None, 4.6, None, None),
        "depthwise 48x16 stride 2": Figures(12.0, None, 3.31, None, None),
        "depthwise 56x144 (MobileNetV2)": Figures(11.6, None, 2.16, None, None),
        "dense 640>128 (AD)": Figures(3.57, None, 1.13, None, None),
        "dense 128>128": Figures(3.86, None, 1.22, None, None),
        "dense 128>640": Figures(3.85, None, 1.21, None, None),
    },
    M0: {
        "1x1 64>64, width 5 (KWS)": Figures(7.65, 11.99, 5.11, 7.87, 7.57),
        "1x1 8>16, 48 (VWW)": Figures(19.7, 30.3, 8.01, 12.8, 18.2),
        "1x1 16>32, 24": Figures(12.7, 19.5, 5.12, 8.08, 12.1),
        "1x1 32>32, 24": Figures(9.33, 14.5, 4.04, 6.27, 9.07),
        "1x1 64>64, 12": Figures(7.64, 12.0, 3.33, 5.12, 7.56),
        "1x1 128>128, 6": Figures(None, None, None, None, 6.88),
        "3x3x3>8 stride 2, 96 (VWW, first)": Figures(11.7, 18.3, 6.47, 9.96, 13.7),
        "3x3x3>16, 32 (IC, first)": Figures(None, None, None, None, 11.7),
        "10x4x1>64 stride 2, 10 (KWS, first)": Figures(13.9, 21.7, 6.25, 9.69, 9.42),
        "3x3x16>16, 32 (IC)": Figures(6.98, 11.0, 3.54, 5.38, 7.56),
        "3x3x32>32, 16": Figures(6.41, 10.1, 3.08, 4.67, 6.7),
        "3x3x64>64, 8": Figures(6.06, 9.59, 2.87, 4.35, 6.33),
        "depthwise 48x8": Figures(21.1, 33.2, 12.6, 20.6, 40.0),
        "depthwise 24x32": Figures(20.3, 31.7, 13.7, 22.5, 38.5),
        "depthwise 12x64": Figures(20.3, 31.7, 15.9, 26.1, 37.0),
        "depthwise 6x128": Figures(20.5, 32.0, 23.2, 38.4, 34.2),
        "depthwise 5x64 (KWS)": Figures(20.7, 32.4, 27.1, 45.1, 35.7),
        "depthwise 48x16 stride 2": Figures(None, None, None, None, 39.5),
        "dense 640>128 (AD)": Figures(None, None, None, None, 6.19),
        "dense 128>128": Figures(None, None, None, None, 6.83),
        "dense 128>640": Figures(None, None, None, None, 6.79),
        "add, per element": Figures(None, None, None, None, 237),
    },
    M55: {
        "1x1 64>64, width 5 (KWS)": Figures(1.21, None, 0.33, None, 0.4),
        "1x1 8>16, 48 (VWW)": Figures(8.57, None, 1.43, None, 2.18),
        "1x1 16>32, 24": Figures(4.12, None, 0.69, None, 1.07),
        "1x1 32>32, 24": Figures(2.19, None, 0.41, None, 0.62),
        "1x1 64>64, 12": Figures(None, None, None, None, 0.39),
        "1x1 128>128, 6": Figures(0.72, None, 0.21, None, 0.28),
        "3x3x3>8 stride 2, 96 (VWW, first)": Figures(None, None, None, None, 1.99),
        "3x3x3>16, 32 (IC, first)": Figures(None, None, None, None, 1.36),
        "10x4x1>64 stride 2, 10 (KWS, first)": Figures(None, None, None, None, 0.9),
        "3x3x16>16, 32 (IC)": Figures(0.7, None, 0.205, None, 0.39),
        "3x3x32>32, 16": Figures(None, None, None, None, 0.25),
        "3x3x64>64, 8": Figures(0.36, None, 0.155, None, 0.21),
        "depthwise 48x8": Figures(8.5, None, 1.25, None, 5.2),
        "depthwise 24x32": Figures(7.9, None, 1.33, None, 2.69),
        "depthwise 12x64": Figures(None, None, None, None, 2.31),
        "depthwise 6x128": Figures(8.2, None, 1.8, None, 2.33),
        "depthwise 5x64 (KWS)": Figures(8.4, None, 1.93, None, 2.32),
        "depthwise 48x16 stride 2": Figures(8.1, None, 1.28, None, 3.5),
        "dense 640>128 (AD)": Figures(0.22, None, None, None, 0.49),
        "dense 128>128": Figures(0.47, None, None, None, 0.6),
        "dense 128>640": Figures(0.47, None, None, None, 0.57),
    },
    A53: {
        "1x1 64>64, width 5 (KWS)": Figures(1.39, None, 0.57, None, None),
        "1x1 8>16, 48 (VWW)": Figures(8.3, None, 1.3, None, None),
        "1x1 96>24 linear, 56 (MobileNetV2)": Figures(1.11, None, 0.33, None, None),
        "3x3x16>16, 32 (IC)": Figures(1.25, None, 0.31, None, None),
        "3x3x64>64, 8": Figures(0.6, None, 0.276, None, None),
    },
}


def _picked(board: targets.Board) -> Pick:
    """The fastest kernel of those for whose scratch the board has place."""
    most = board.arena_limit_bytes * (1 - SHARE)

    def pick(node: Node, machine: targets.Machine) -> Instance:
        key = contract_of(node).key(node)
        without = {(key, each.name) for each in choices_on(node, machine) if each.scratch_bytes(node) > most}
        return choose(node, replace(machine, scratch=True, without=frozenset(without)))

    return pick


def measure(board: targets.Board, name: str, folder: Path) -> dict[str, Shape]:
    """The layers with earlier figures for the board `name`, on `board`."""
    layers = [(layer, LAYERS[layer]) for layer in BESIDE[name]]
    found = measured(board, layers, folder, _picked(board), zeros=True, share=SHARE)
    elements = {layer: LAYERS[layer].tensors["y"].type.elements for layer in found}
    return {layer: each if each.macs else replace(each, macs=elements[layer]) for layer, each in found.items()}


def table(board: str, found: Mapping[str, Shape]) -> Iterator[str]:
    """The Markdown of one board; a star where a figure is worse than the prototype's or that of portable C."""
    yield "| layer | kernel | instructions | cycles | limit | prototype | C | CMSIS-NN |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for layer, beside in BESIDE[board].items():
        op = LAYERS[layer].ops[0]
        limit = (DEPTHWISE_LIMITS if isinstance(op, ops.DepthwiseConv2d) else LIMITS)[board]
        cells = (
            layer + (" *" if worse(found[layer], beside) else ""),
            f"`{found[layer].kernels[0]}`",
            *(_said(figure) for figure in per_mac(found[layer])),
            "" if isinstance(op, ops.Add) else f"{limit:.4g}",
            _said(beside.prototype, beside.prototype_cycles),
            _said(beside.c, beside.c_cycles),
            _said(beside.cmsis),
        )
        yield f"| {' | '.join(cells)} |"


def per_mac(shape: Shape) -> tuple[float, float | None]:
    """Instructions and cycles."""
    return shape.instructions / shape.macs, shape.cycles / shape.macs if shape.cycles else None


def worse(shape: Shape, beside: Figures) -> list[str]:
    """What is more than the prototype's or portable C's figure, which have three digits."""
    now = per_mac(shape)
    return [
        f"{unit} {_said(mine)}, {what} {_said(other)} ({100 * (mine / other - 1):+.0f} %)"
        for what, figures in (("prototype", beside[2:4]), ("C", beside[:2]))
        for unit, mine, other in zip(("instructions", "cycles"), now, figures, strict=True)
        if mine is not None and other is not None and mine > 1.005 * other
    ]


def _said(*figures: float | None) -> str:
    return " / ".join(f"{each:.{2 if each >= 1 else 3}f}" for each in figures if each is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="*", default=[*LIMITS])
    for name in parser.parse_args().boards:
        with TemporaryDirectory() as folder:
            found = measure(targets.board(name), name, Path(folder) / "firmware")
        print(f"\n{name}\n", *table(name, found), "", sep="\n", flush=True)
        for layer, beside in BESIDE[name].items():
            for said in worse(found[layer], beside):
                print(f"worse: {layer}: {said}", flush=True)


if __name__ == "__main__":
    main()
