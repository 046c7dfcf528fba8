"""The README of a written folder: contents, calls and the next commands."""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model.forms import Forms
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.machine.targets import Board


def _ends(unit: Unit, form: Forms) -> list[str]:
    """A row for each input and output: function, tensor, type, quantisation."""
    rows, by_rows = [], {**form.inputs.functions, **form.outputs.functions}
    for suffix, tensor in unit.ends():
        type_ = unit.type(tensor)
        real = f"{type_.quant.scale:.9g} * (stored {-type_.quant.zero_point:+d})" if type_.quant else "stored"
        name = c.plain(tensor, but="`|")
        rows.append(f"| `{unit.name}_{by_rows.get(suffix, suffix)}()` | `{name}` | {type_} | {real} |")
    return rows


def example(unit: Unit) -> list[str]:
    """C that runs one inference, in a function `infer`."""
    form = Forms(unit)
    return [
        f'#include "{unit.name}.h"',
        "",
        *form.arenas.example_head,
        *form.outputs.example_head,
        "void infer(void)",
        "{",
        *form.arenas.example,
        *form.inputs.example,
        *form.outputs.example,
        "}",
    ]


def use(unit: Unit) -> list[str]:
    """C that runs one inference, and a table of the functions of inputs and outputs."""
    form = Forms(unit)
    return [
        "```c",
        *example(unit),
        "```",
        "",
        "| function | tensor | type | real value |",
        "|---|---|---|---|",
        *_ends(unit, form),
        "",
        form.inputs.use,
        *form.sliding.use_more,
        f"`{unit.name}.h` has types, shapes, scales, zero points and row sizes as macros.",
    ]


def readme(units: Sequence[Unit], board: Board) -> str:
    """Markdown for the project folder of one model or several."""
    emulated = {
        "gen validate . --emulate": "compare the emulated board with the reference, byte by byte",
        "gen bench . --emulate": "instructions per inference and per op",
    }
    commands = {
        **(emulated if board.spec.emulator is not None else {}),
        "gen flash .": f"build it and write it to the {board.name}",
        "gen validate .": "compare the board with the reference, over its serial port",
        "gen bench .": "time per inference and per op",
    }
    width = max(map(len, commands))
    arenas = (f"`{unit.name}` uses an arena of {unit.plan.total_bytes:,} bytes, and no heap." for unit in units)
    return "\n".join(
        (
            f"<!-- {c.SPDX} -->",
            "",
            f"# {', '.join(unit.name for unit in units)} on {board.name}",
            "",
            f"Written by Shoehorn. {' '.join(arenas)}",
            "",
            "```",
            *(f"{command:<{width}}   # {purpose}" for command, purpose in commands.items()),
            "```",
            "",
            "`pio run` builds the folder too, with PlatformIO and the packages that `gen` was installed with.",
            "",
            *(_several(units) if len(units) > 1 else _single(units[0])),
            "",
        )
    )


def _single(unit: Unit) -> list[str]:
    return [
        f"The model alone is `lib/{unit.name}`, a C library for PlatformIO, Arduino, CMake, Zephyr and ESP-IDF:",
        "",
        *use(unit),
    ]


def _several(units: Sequence[Unit]) -> list[str]:
    """Where each model is, and what they share."""
    first, *others = (unit.name for unit in units)
    listed = ", ".join(f"`lib/{name}`" for name in (first, *others))
    return [
        f"The models are {listed}; `lib/sh_kernels` has the kernels of all of them, each once. `src/app_config.h` says",
        "where in the application's arena each of them is. `plan.json`, `plan.html` and `reference/` are about",
        f"`{first}`; the others have the same files in {', '.join(f'`models/{name}`' for name in others)}.",
        "`gen validate` and `gen bench` take the models in turn, or with `--model NAME` one.",
        *(line for unit in units for line in ("", f"## {unit.name}", "", *use(unit))),
    ]
