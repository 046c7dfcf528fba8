"""The README of a written folder, or of a library alone: contents, calls and the next commands."""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model.forms import Forms, forms
from shoehorn_mcu.emit.model.header import arena_section
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.planner.memory_plan import SRAM


def _ends(unit: Unit, form: Forms) -> list[str]:
    """A row for each input and output: function, tensor, type, quantisation."""
    rows, by_rows = [], {**form.inputs.functions, **form.outputs.functions}
    for suffix, tensor in unit.ends():
        type_ = unit.type(tensor)
        real = f"{type_.quant.scale:.9g} * (stored {-type_.quant.zero_point:+d})" if type_.quant else "stored"
        name = "".join(ch if " " <= ch <= "~" and ch not in "`|" else "?" for ch in tensor)
        rows.append(f"| `{unit.name}_{by_rows.get(suffix, suffix)}()` | `{name}` | {type_} | {real} |")
    return rows


def _example(unit: Unit, form: Forms) -> list[str]:
    """C that runs one inference."""
    name, upper = unit.name, unit.upper
    arena = [
        f"static _Alignas({upper}_ARENA_ALIGNMENT) uint8_t {unit.arena(memory)}[{unit.arena_macro(memory)}_BYTES];"
        + ("" if memory == SRAM else f" // in the memory {memory}")
        for memory in unit.memories
    ]
    arena.append("")
    init = f"    {name}_init({', '.join(map(unit.arena, unit.memories))});      // once, before any other call"
    return [
        f'#include "{name}.h"',
        "",
        *(arena if unit.caller_arena else []),
        *form.outputs.example_head,
        "void infer(void)",
        "{",
        *([init] if unit.caller_arena else []),
        *form.inputs.example,
        *form.outputs.example,
        "}",
    ]


def _use(unit: Unit) -> list[str]:
    """Explains in which order the functions are called."""
    form = forms(unit)
    return [
        "```c",
        *_example(unit, form),
        "```",
        "",
        "| function | tensor | type | real value |",
        "|---|---|---|---|",
        *_ends(unit, form),
        "",
        form.inputs.use,
        f"`{unit.name}.h` has types, shapes, scales, zero points and row sizes as macros.",
    ]


def _inside(memory: str) -> str:
    return "" if memory == SRAM else f" in {memory}"


def library_readme(unit: Unit) -> str:
    """Markdown for the library's own folder."""
    if unit.caller_arena:
        sizes = " and ".join(f"{unit.plan.arenas[memory]:,} bytes" + _inside(memory) for memory in unit.memories)
        arena = f"The program owns the arena ({sizes}) and passes it to `{unit.name}_init()`."
    else:
        arena = (
            f"The arena of {unit.plan.arena_bytes:,} bytes is a static array. Define `{unit.upper}_ARENA_SECTION` as a "
            f"string where `{unit.name}.c` is compiled to place it in a section of your linker script."
        )
        for memory in (memory for memory in unit.memories if memory != SRAM):
            macro = unit.arena_macro(memory)
            arena += (
                f" A part of {unit.plan.arenas[memory]:,} bytes belongs into the memory {memory}: your linker script "
                f"places `{arena_section(memory)}` there, or the section that `{macro}_SECTION` names."
            )
    return "\n".join(
        (
            f"<!-- {c.SPDX} -->",
            "",
            f"# {unit.name}",
            "",
            "The model as a C11 library, written by Shoehorn. It allocates nothing and no call can fail.",
            arena,
            "",
            *_use(unit),
            "",
            "- **PlatformIO**: copy this folder into `lib/` of your project.",
            f"- **Arduino**: copy it into `libraries/` of your sketchbook and `#include <{unit.name}.h>`.",
            f"- **CMake**: `add_subdirectory({unit.name})`, then `target_link_libraries(app PRIVATE {unit.name})`;",
            f"  or install it, then `find_package({unit.name})` and link `{unit.name}::{unit.name}`.",
            f"- **Zephyr**: list it in `ZEPHYR_EXTRA_MODULES` and set `CONFIG_SHOEHORN_{unit.upper}=y`.",
            "- **Any other build**: compile every `.c` file below `src/`, with `src/` on the include path.",
            "",
        )
    )


def readme(units: Sequence[Unit], board: Board) -> str:
    """Markdown for the project folder of one model or several."""
    emulated = board.spec.emulator is not None
    commands = [
        ("gen validate . --emulate", "compare the emulated board with the reference, byte by byte")
        if emulated
        else None,
        ("gen bench . --emulate", "instructions per inference and per op") if emulated else None,
        ("gen flash .", f"build it and write it to the {board.name}"),
        ("gen validate .", "compare the board with the reference, over its serial port"),
        ("gen bench .", "time per inference and per op"),
    ]
    width = max(len(command[0]) for command in commands if command)
    lines = [f"{command[0]:<{width}}   # {command[1]}" for command in commands if command]
    return "\n".join(
        (
            f"<!-- {c.SPDX} -->",
            "",
            f"# {', '.join(unit.name for unit in units)} on {board.name}",
            "",
            "Written by Shoehorn. " + " ".join(f"`{unit.name}` uses {_arena(unit)}." for unit in units),
            "",
            "```",
            *lines,
            "```",
            "",
            "`pio run` builds the folder too, with PlatformIO and the packages that `gen` was installed with.",
            "",
            *(_several(units) if len(units) > 1 else _single(units[0])),
            "",
        )
    )


def _arena(unit: Unit) -> str:
    return f"an arena of {unit.plan.total_bytes:,} bytes, and no heap"


def _single(unit: Unit) -> list[str]:
    return [
        f"The model alone is `lib/{unit.name}`, a C library for PlatformIO, Arduino, CMake and Zephyr:",
        "",
        *_use(unit),
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
        *(line for unit in units for line in ("", f"## {unit.name}", "", *_use(unit))),
    ]
