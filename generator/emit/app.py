"""Generates app_config.h for the application and board_config.h for the board's drivers."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.mlperf import Results, Task, Transform
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import DType
from shoehorn_mcu.targets import Board


def _table(unit: Unit, kind: str) -> str:
    """`X(digits_input, 64u, SH_APP_INT8, 0.0625f, -128)` for each input (or output)."""
    rows = []
    for suffix, tensor in unit.ends():
        if suffix.partition("_")[0] == kind:
            type_ = unit.type(tensor)
            scale, zero = (type_.quant.scale, type_.quant.zero_point) if type_.quant else (0.0, 0)
            if type_.dtype is DType.FLOAT32:
                scale, zero = 0.0, 0
            function = "next_row" if tensor == unit.streamed and kind == "input" else suffix
            arguments = (
                f"{unit.name}_{function}",
                f"{type_.bytes}u",
                f"SH_APP_{type_.dtype.name}",
                c.number(float(scale)),
                c.number(zero),
            )
            rows.append(c.call("X", arguments))
    return " ".join(rows)


def _rows(unit: Unit) -> dict[str, str]:
    """Macros that run an inference: in one call, or row by row."""
    if unit.streamed is None:
        return {
            "SH_APP_RUN()": f"{unit.name}_run()",
            "SH_APP_INPUT_ROWS": "0u",
            "SH_APP_INPUT_ROW_BYTES": "0u",
            "SH_APP_PUSH_ROW(row)": "((void)(row))",
            "SH_APP_RESET()": "((void)0)",
        }
    type_ = unit.type(unit.streamed)
    return {
        "SH_APP_RUN()": "((void)0)",
        "SH_APP_INPUT_ROWS": f"{type_.rows}u",
        "SH_APP_INPUT_ROW_BYTES": f"{type_.row_bytes}u",
        "SH_APP_PUSH_ROW(row)": f"{unit.name}_push_row(row)",
        "SH_APP_RESET()": f"{unit.name}_{'restart' if unit.graph.states else 'reset'}()",
    }


def _arena(unit: Unit) -> dict[str, str]:
    """Macros for the arena that the application owns, where the library has none of its own."""
    if not unit.caller_arena:
        return {}
    return {
        "SH_APP_ARENA_BYTES": f"{unit.upper}_ARENA_BYTES",
        "SH_APP_ARENA_ALIGNMENT": f"{unit.upper}_ARENA_ALIGNMENT",
        "SH_APP_INIT(arena)": f"{unit.name}_init(arena)",
    }


def _other_types(unit: Unit) -> dict[str, str]:
    """The macro for the types of inputs and outputs that most models do not have: not quantised, or of another size."""
    kinds = [unit.type(tensor) for _, tensor in unit.ends()]
    first = all(t.dtype is DType.FLOAT32 or (t.dtype in (DType.INT8, DType.UINT8) and t.quant) for t in kinds)
    return {} if first else {"SH_APP_OTHER_TYPES": "1"}


def _cores(unit: Unit) -> dict[str, str]:
    """The macro for the cores that the application starts, where there are several."""
    return {"SH_APP_CORES": str(unit.cores)} if unit.cores > 1 else {}


def db_bytes(unit: Unit, task: Task | None) -> int:
    """The number of bytes that `db load` loads."""
    inputs = [unit.type(t) for t in unit.graph.inputs]
    return sum(t.elements * 4 if task and task.transform is Transform.FLOAT32 else t.bytes for t in inputs)


def app_config_h(unit: Unit, board: Board, task: Task | None, identity: str) -> str:
    """The macros of the table in ARCHITECTURE.md, and compile-time assertions that the model fits the board.

    `identity` is 16 hexadecimal digits. `db load` gets a buffer of its own where the board has room for it.
    """
    spec = board.spec
    size = db_bytes(unit, task)
    buffer = int(unit.plan.arena_bytes + size <= board.arena_limit(unit.cores))
    if task and task.transform is Transform.FLOAT32 and not buffer:
        task, size = None, db_bytes(unit, None)  # quantising on the board needs the buffer
    if unit.streamed and not buffer:
        size = 0  # nothing holds the whole input
    octets = ", ".join(f"0x{identity[i : i + 2]}" for i in range(0, 16, 2))
    macros = {
        "SH_APP_NAME": c.string(unit.name),
        "SH_APP_IDENTITY": f"{{{octets}}}",
        "SH_APP_INPUT_TABLE(X)": _table(unit, "input"),
        "SH_APP_OUTPUT_TABLE(X)": _table(unit, "output"),
        "SH_APP_OPS": str(len(unit.stages)),
        **_rows(unit),
        "SH_APP_MLPERF": c.string(task.id if task else unit.name),
        "SH_APP_DB_BYTES": f"{size}u",
        "SH_APP_DB_BUFFER": str(buffer),
        "SH_APP_INPUT_TRANSFORM": str(int(task.transform if task else Transform.RAW)),
        "SH_APP_RESULTS": str(int(task.results if task else Results.OUTPUTS)),
        **_arena(unit),
        **_cores(unit),
        **_other_types(unit),
        **({"SH_APP_RESET_STATES()": f"{unit.name}_reset()"} if unit.graph.states else {}),
        **({"SH_APP_FLUSH_TO_ZERO": "1"} if unit.precise else {}),
        "SH_APP_FRAME_BYTES": str(spec.frame_bytes),
        "SH_BOARD_SRAM_BYTES": str(spec.sram_bytes),
        "SH_BOARD_FIRMWARE_RAM_BYTES": str(spec.firmware_ram_bytes),
        "SH_BOARD_FLASH_BYTES": str(spec.flash_bytes),
    }
    model = f"{unit.upper}_ARENA_BYTES + SH_APP_DB_BUFFER * SH_APP_DB_BYTES"
    stacks = "SH_BOARD_STACK_BYTES" + " * SH_APP_CORES" * (unit.cores > 1)
    rest = f"SH_BOARD_FIRMWARE_RAM_BYTES + {stacks}"
    remarks = (
        f"// {unit.name} on {board.id}: parameters of the application. Shoehorn's ARCHITECTURE.md, section",
        "// app_config.h, explains each macro. Generated; do not edit.",
    )
    body = (
        f'#include "{unit.name}.h"',
        '#include "board_config.h"',
        "",
        *(f"#define {name} {value}" for name, value in macros.items()),
        "",
        f"_Static_assert({model} + {rest} <= SH_BOARD_SRAM_BYTES,",
        '               "the model does not fit into the SRAM of the board");',
    )
    return c.header("APP_CONFIG_H", remarks, body)


def _number(value: int) -> str:
    """Decimal; a number that needs 32 bits is hexadecimal, which makes it unsigned in C."""
    return str(value) if value < 2**31 else f"0x{value:X}"


def board_config_h(board: Board, cores: int = 1) -> str:
    """The board's numbers for its drivers: clock, stack, the cores in use if several, and the manifest's `defines`."""
    spec = board.spec
    numbers = {"SH_BOARD_TICK_HZ": spec.tick_hz, "SH_BOARD_STACK_BYTES": spec.stack_bytes, **spec.defines}
    if cores > 1:
        numbers["SH_BOARD_CORES"] = cores
    remark = f"// {board.id}: numbers from its manifest. Generated; do not edit."
    defines = (f"#define {name} {_number(value)}" for name, value in sorted(numbers.items()))
    return c.header("BOARD_CONFIG_H", [remark], defines)
