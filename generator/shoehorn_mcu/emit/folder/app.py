"""Generates app_config.h for the application and board_config.h for the board's drivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.folder import sound
from shoehorn_mcu.emit.folder.energy import Energy
from shoehorn_mcu.emit.folder.kernels_library import KERNELS
from shoehorn_mcu.emit.model.arenas import ARENA_ALIGNMENT
from shoehorn_mcu.emit.model.forms import Forms
from shoehorn_mcu.emit.unit import Unit, quantisation
from shoehorn_mcu.ir import DType
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu_host.base.manifest import MLPERF_BAUD
from shoehorn_mcu_host.base.tasks import Results, Task, Transform


def _table(unit: Unit, kind: str) -> str:
    """`X(digits_input, 64u, SH_APP_INT8, 0.0625f, -128)` for each input (or output)."""
    form, rows = Forms(unit), []
    by_rows = {**form.inputs.app_functions, **form.outputs.app_functions}
    for suffix, tensor in unit.ends():
        if suffix.partition("_")[0] == kind:
            type_ = unit.type(tensor)
            scale, zero = quantisation(type_) or (0.0, 0)
            arguments = (
                by_rows.get(suffix, f"{unit.name}_{suffix}"),
                f"{type_.bytes}u",
                f"SH_APP_{type_.dtype.name}",
                c.number(scale),
                c.number(zero),
            )
            rows.append(c.call("X", arguments))
    return " ".join(rows)


def _other_types(units: Sequence[Unit]) -> dict[str, str]:
    """The macro for the types of inputs and outputs that most models do not have: not quantised, or of another size."""
    kinds = [unit.type(tensor) for unit in units for _, tensor in unit.ends()]
    first = all(t.dtype is DType.FLOAT32 or (t.dtype in (DType.INT8, DType.UINT8) and t.quant) for t in kinds)
    return {} if first else {"SH_APP_OTHER_TYPES": "1"}


def db_bytes(unit: Unit, task: Task | None) -> int:
    """The number of bytes that `db load` loads."""
    inputs = [unit.type(t) for t in unit.graph.inputs]
    if task and task.transform is Transform.SOUND:
        return task.sent_bytes
    return sum(t.elements * 4 if task and task.transform is Transform.FLOAT32 else t.bytes for t in inputs)


def hears(task: Task | None) -> bool:
    """Whether the application has the front end of a wake word."""
    return task is not None and task.transform is Transform.SOUND


@dataclass(frozen=True)
class Models:
    """The models of a firmware, and where in the application's arena the tensors of each are.

    One model may have an arena of its own. Of several the text protocol knows the first, whose task `task` is.
    """

    units: Sequence[Unit]
    identities: Sequence[str]  # 16 hexadecimal digits each
    task: Task | None
    arena_bytes: int
    offsets: Sequence[int]

    @property
    def cores(self) -> int:
        """The cores that share an inference."""
        return max(unit.cores for unit in self.units)

    @property
    def weights_bytes(self) -> int:
        """Bytes of constants that start-up copies to RAM."""
        return sum(unit.in_ram.bytes for unit in self.units)

    def db_buffer(self, board: Board) -> bool:
        """Whether `db load` has a buffer of its own: where the board has room for it."""
        needed = self.arena_bytes + self.weights_bytes + self._text_bytes
        return needed <= board.arena_limit(self.cores)

    def buffer_bytes(self, board: Board) -> int:
        """Bytes of that buffer and of the task's front end, 0 without a buffer."""
        return self._text_bytes if self.db_buffer(board) else 0

    @property
    def _text_bytes(self) -> int:
        own = sound.ram_bytes(self.units[0].type(self.units[0].graph.inputs[0]).bytes) if hears(self.task) else 0
        return db_bytes(self.units[0], self.task) + own


def _needed(models: Models) -> str:
    """The C expression of all SRAM that the firmware needs."""
    arena = "SH_APP_ARENA_BYTES" if len(models.units) > 1 else f"{models.units[0].upper}_ARENA_BYTES"
    stacks = "SH_BOARD_STACK_BYTES" + " * SH_APP_CORES" * (models.cores > 1)
    heard = " + SH_APP_SOUND_BYTES" * hears(models.task)
    rest = f"SH_BOARD_FIRMWARE_RAM_BYTES + {stacks}" + f" + {models.weights_bytes}u" * (models.weights_bytes > 0)
    return f"{arena} + SH_APP_DB_BUFFER * SH_APP_DB_BYTES + {rest}{heard}"


def app_config_h(models: Models, board: Board, energy: Energy = Energy.NONE) -> str:
    """The macros of the table in emit/README.md, and compile-time assertions that the models fit the board."""
    spec, units, buffer = board.spec, models.units, int(models.db_buffer(board))
    task, forms = models.task, [Forms(unit) for unit in units]
    if task and task.transform is Transform.FLOAT32 and not buffer:
        task = None  # quantising on the board needs the buffer
    if hears(task) and (not buffer or units[0].streamed):
        why = f"{board.id} has no room for its front end beside the arena" if buffer == 0 else "its input is streamed"
        raise ShoehornError(f"{units[0].name}: cannot hear as {task.id if task else ''}; {why}; give --mlperf none")
    results = Results.OUTPUTS if units[0].handed_out or not task else task.results  # of no output that is held whole
    several = len(units) > 1
    unheld = units[0].streamed and not buffer  # the first model's input
    macros = {
        **(_several(models) if several else _one(units[0], models.identities[0])),
        "SH_APP_MLPERF": c.string(task.id if task else units[0].name),
        "SH_APP_DB_BYTES": f"{0 if unheld else db_bytes(units[0], task)}u",
        "SH_APP_DB_BUFFER": str(buffer),
        "SH_APP_INPUT_TRANSFORM": str(int(task.transform if task else Transform.RAW)),
        "SH_APP_RESULTS": str(int(results)),
        **(_shared_arena(models) if several else forms[0].arenas.app),
        **({"SH_APP_CORES": str(models.cores)} if models.cores > 1 else {}),
        **_of_some([form.outputs.app for form in forms]),
        **_other_types(units),
        **_of_some([form.states.app for form in forms]),
        **_real_bytes(units),
        **({"SH_APP_FLUSH_TO_ZERO": "1"} if any(unit.precise for unit in units) else {}),
        **(sound.app(task, units[0].type(units[0].graph.inputs[0]).bytes) if task and hears(task) else {}),
        **({"SH_APP_ENERGY": str(energy.number)} if energy is not Energy.NONE else {}),
        "SH_APP_FRAME_BYTES": str(spec.frame_bytes),
        "SH_BOARD_SRAM_BYTES": str(spec.sram_bytes),
        "SH_BOARD_FIRMWARE_RAM_BYTES": str(spec.firmware_ram_bytes),
        "SH_BOARD_FLASH_BYTES": str(spec.flash_bytes),
    }
    names = ", ".join(unit.name for unit in units)
    remarks = (
        f"// {names} on {board.id}: parameters of the application. Generated; do not edit.",
        "// Shoehorn's generator/shoehorn_mcu/emit/README.md explains each macro.",
    )
    body = (
        *(f'#include "{unit.name}.h"' for unit in units),
        *([f'#include "{KERNELS}.h"'] if several else []),
        '#include "board_config.h"',
        "",
        *(["extern uint8_t sh_app_model; // the number of the selected model", ""] if several else []),
        *(f"#define {name} {value}" for name, value in macros.items()),
        "",
        f"_Static_assert({_needed(models)} <= SH_BOARD_SRAM_BYTES,",
        f'               "the {"models do" if several else "model does"} not fit into the SRAM of the board");',
    )
    return c.header("APP_CONFIG_H", remarks, body)


def _one(unit: Unit, identity: str) -> dict[str, str]:
    """The macros of a model."""
    octets = ", ".join(f"0x{identity[i : i + 2]}" for i in range(0, 16, 2))
    return {
        "SH_APP_NAME": c.string(unit.name),
        "SH_APP_IDENTITY": f"{{{octets}}}",
        "SH_APP_INPUT_TABLE(X)": _table(unit, "input"),
        "SH_APP_OUTPUT_TABLE(X)": _table(unit, "output"),
        "SH_APP_OPS": str(len(unit.stages)),
        **Forms(unit).inputs.app,
    }


_NOTHING = {"SH_APP_OUTPUT_ROWS": "0u", "SH_APP_OUTPUT_ROW_BYTES": "0u", "SH_APP_RESET_STATES()": "((void)0)"}
"""Macros that only some models have, and their values for the others."""
_TABLES = ("INPUT_TABLE", "OUTPUT_TABLE", "ON_ROW_TABLE")
_LISTED = {"SH_APP_IDENTITY": ", ", **dict.fromkeys((f"SH_APP_{name}(X)" for name in _TABLES), " ")}
"""Macros that have all models' values, one after the other, and what is between them."""


def _several(models: Models) -> dict[str, str]:
    """The macros of the selected model, and those that sh_app.h has for one model."""
    each = [_one(*pair) for pair in zip(models.units, models.identities, strict=True)]
    inputs = [len(unit.graph.inputs) for unit in models.units]
    outputs = [len(unit.graph.outputs) for unit in models.units]
    values = [f"x{i}" for i in range(len(each))]
    chosen = "".join(f"sh_app_model == {i}u ? ({x}) : " for i, x in enumerate(values[:-1]))
    return {
        "SH_APP_MODELS": f"{len(each)}u",
        "SH_APP_MODEL": "sh_app_model",
        "SH_APP_USE(number)": "((void)(sh_app_model = (uint8_t)(number)))",
        f"SH_APP_SELECT({', '.join(values)})": f"({chosen}({values[-1]}))",
        **{name: _merged(name, [one[name] for one in each]) for name in each[0]},
        "SH_APP_MOST_OPS": str(max(len(unit.stages) for unit in models.units)),
        "SH_APP_INPUTS": _select(f"{count}u" for count in inputs),
        "SH_APP_OUTPUTS": _select(f"{count}u" for count in outputs),
        "SH_APP_INPUT_PLACE(index)": _place("SH_APP_INPUTS", inputs),
        "SH_APP_OUTPUT_PLACE(index)": _place("SH_APP_OUTPUTS", outputs),
        "SH_APP_DB_INPUT_BYTES": f"{db_bytes(models.units[0], None)}u",
    }


def _merged(name: str, values: Sequence[str]) -> str:
    return _LISTED[name].join(values) if name in _LISTED else _select(values)


def _select(values: Iterable[str]) -> str:
    """The C expression for that one of the models' values which belongs to the selected model."""
    found = tuple(values)
    return found[0] if len(set(found)) == 1 else c.call("SH_APP_SELECT", found)


def _place(count: str, counts: Sequence[int]) -> str:
    """The place in a table of all models' rows; beyond the table for a row that the selected model does not have."""
    firsts = _select(f"{sum(counts[:i])}u" for i in range(len(counts)))
    return f"((index) < {count} ? (index) + {firsts} : UINT32_MAX)"


def _shared_arena(models: Models) -> dict[str, str]:
    """Macros for the arena of several models."""
    at = zip(models.units, models.offsets, strict=True)
    calls = (f"{unit.name}_init({c.offset('(arena)', offset)})" for unit, offset in at)
    return {
        "SH_APP_ARENA_BYTES": str(models.arena_bytes),
        "SH_APP_ARENA_ALIGNMENT": str(ARENA_ALIGNMENT),
        "SH_APP_INIT(arena)": f"({', '.join(calls)})",
    }


def _of_some(models: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The macros of forms that some models have."""
    names = dict.fromkeys(name for macros in models for name in macros)
    filled = [{**_NOTHING, **macros} for macros in models]
    return {name: _merged(name, [each[name] for each in filled if name in each]) for name in names}


def _real_bytes(units: Sequence[Unit]) -> dict[str, str]:
    """The macro for the bytes of a float that an op writes, 0 of an integer, where an op writes floats."""
    kinds = [[stage.node.output.type.dtype for stage in unit.stages] for unit in units]
    sizes = [[kind.bytes if kind.numpy.kind == "f" else 0 for kind in each] for each in kinds]
    if not any(map(any, sizes)):
        return {}
    tables = (f"{each[0]}u" if len(set(each)) == 1 else f'(uint32_t)"{_octal(each)}"[op]' for each in sizes)
    return {"SH_APP_REAL_BYTES(op)": _select(tables)}


def _octal(values: Iterable[int]) -> str:
    """Numbers below 8 as characters of a C string."""
    return "".join(f"\\{value}" for value in values)


def _number(value: int) -> str:
    """Decimal; a number that needs 32 bits is hexadecimal, which makes it unsigned in C."""
    return str(value) if value < 2**31 else f"0x{value:X}"


def board_config_h(board: Board, cores: int = 1, energy: Energy = Energy.NONE) -> str:
    """The board's numbers for its drivers: clock, stack, the cores in use if several, and the manifest's `defines`;
    those of its mark, and MLPerf's rate of the console, where they are asked for.
    """
    spec = board.spec
    numbers = {"SH_BOARD_TICK_HZ": spec.tick_hz, "SH_BOARD_STACK_BYTES": spec.stack_bytes, **spec.defines}
    if cores > 1:
        numbers["SH_BOARD_CORES"] = cores
    if energy is not Energy.NONE and spec.mark:
        numbers |= spec.mark.defines
    if energy is Energy.MLPERF:
        numbers["SH_BOARD_BAUD"] = MLPERF_BAUD
    remark = f"// {board.id}: numbers from its manifest. Generated; do not edit."
    defines = (f"#define {name} {_number(value)}" for name, value in sorted(numbers.items()))
    return c.header("BOARD_CONFIG_H", [remark], defines)
