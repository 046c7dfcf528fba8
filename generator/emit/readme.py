"""The README of a written folder: what it is, and the next commands."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.targets import Board


def _ends(unit: Unit, kind: str, tensors: tuple[str, ...]) -> list[str]:
    suffixes = [kind if i == 0 else f"{kind}_{i}" for i in range(len(tensors))]
    if kind == "input" and unit.streamed:
        suffixes = ["push_row"]
    return [
        f"| `{unit.name}_{suffix}()` | `{tensor}` | {unit.type(tensor)} |"
        for suffix, tensor in zip(suffixes, tensors, strict=True)
    ]


def _use(unit: Unit) -> list[str]:
    """How the functions go together."""
    if unit.streamed is None:
        return [
            f"Write the inputs, call `{unit.name}_run()`, read the outputs. An inference uses the inputs' bytes for",
            "other things, so write them before each one.",
        ]
    type_ = unit.type(unit.streamed)
    rows = f"{type_.rows} rows of {type_.row_bytes} bytes"
    return [
        f"The input arrives by rows: call `{unit.name}_push_row()` for each of its {rows}, in order.",
        f"After the last one the outputs are there. `{unit.name}_reset()` gives up an inference that is half fed.",
    ]


def readme(unit: Unit, board: Board) -> str:
    """Markdown."""
    emulated = board.spec.emulator is not None
    commands = [
        ("gen validate . --emulate", "the emulated board against the reference, byte for byte") if emulated else None,
        ("gen bench . --emulate", "instructions per inference and per op") if emulated else None,
        ("gen flash .", f"build it and put it on the {board.name}"),
        ("gen validate .", "the board against the reference, over its serial port"),
        ("gen bench .", "time per inference and per op"),
    ]
    width = max(len(command[0]) for command in commands if command)
    lines = [f"{command[0]:<{width}}   # {command[1]}" for command in commands if command]
    return "\n".join(
        (
            f"<!-- {c.SPDX} -->",
            "",
            f"# {unit.name} on {board.name}",
            "",
            f"Written by Shoehorn. `{unit.name}` runs in an arena of {unit.plan.arena_bytes:,} bytes; nothing is "
            "allocated.",
            "",
            "```",
            *lines,
            "```",
            "",
            "`pio run` builds the folder as it stands, given PlatformIO and the packages that `gen` sets up.",
            "",
            f"The model alone is `lib/{unit.name}`: a C library for PlatformIO, Arduino, Zephyr and CMake.",
            "",
            "```c",
            f'#include "{unit.name}.h"',
            "```",
            "",
            "| function | tensor | type |",
            "|---|---|---|",
            *_ends(unit, "input", unit.graph.inputs),
            *_ends(unit, "output", unit.graph.outputs),
            "",
            *_use(unit),
            "",
        )
    )
