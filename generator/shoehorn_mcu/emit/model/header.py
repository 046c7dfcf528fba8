"""`<model>.h`: the interface of the library, for C and C++; sizes, shapes and scales are macros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model import classes
from shoehorn_mcu.emit.model.forms import forms
from shoehorn_mcu.emit.model.states import Stateless, States
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import DType, TensorType
from shoehorn_mcu.planner.memory_plan import SRAM

ARENA_ALIGNMENT = 16  # bytes; every tensor in the arena is aligned to 4


def accessor(unit: Unit, suffix: str, tensor: str) -> str:
    """The declaration of the function that returns an input or an output."""
    const = "" if suffix.startswith("input") else "const "
    return f"{const}{c.TYPES[unit.type(tensor).dtype.value]} *{unit.name}_{suffix}(void)"


def arena_section(memory: str) -> str:
    """The section of the arena in a memory that is not the board's main one; the board's linker script places it."""
    return f".bss.memory.{memory}"


def arenas_text(unit: Unit) -> str:
    """The arenas and their sizes as the subject of a sentence."""
    sizes = unit.plan.arenas
    if unit.memories == (SRAM,):
        return f"An arena of {sizes[SRAM]} bytes"
    each = [f"{sizes[memory]} bytes{'' if memory == SRAM else f' in {memory}'}" for memory in unit.memories]
    return f"{'Arenas' if len(each) > 1 else 'An arena'} of {' and '.join(each)}"


def init_parameters(unit: Unit) -> Mapping[str, str]:
    """By memory the parameter of the function that passes the caller's arenas to the library."""
    return {memory: "memory" if memory == SRAM else f"memory_{memory}" for memory in unit.memories}


def init_head(unit: Unit) -> str:
    """The declaration of the function that passes the caller's arenas to the library."""
    taken = ", ".join(f"void *{parameter}" for parameter in init_parameters(unit).values())
    return f"void {unit.name}_init({taken})"


def model_h(unit: Unit) -> str:
    """The header; C++ may include it."""
    form = forms(unit)
    remarks = (
        c.comment(f"{c.quoted(unit.graph.name)} as static C, written by Shoehorn {__version__}."),
        "//",
        f"// {form.inputs.summary} Nothing is allocated and no call can fail.",
        "// The tensors share one arena, so one inference runs at a time.",
    )
    body = (
        "#include <stdint.h>",
        "",
        *_origin(unit),
        *_arena(unit),
        *(_cores(unit) if unit.cores > 1 else []),
        *(line for suffix, tensor in unit.ends() for line in ("", *_tensor(unit, suffix, tensor))),
        *classes.macros(unit),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *(_init(unit, form.states) if unit.caller_arena else []),
        *form.inputs.prototypes,
        *_prototypes(unit),
        *form.outputs.prototypes,
        *form.inputs.prototypes_behind,
        *classes.prototypes(unit),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
    )
    return c.header(f"SHOEHORN_{unit.upper}_H", remarks, body)


def _origin(unit: Unit) -> list[str]:
    """Macros that identify the model and the generator version."""
    sha = [f"#define {unit.upper}_MODEL_SHA256 {c.string(unit.source_sha256)}"] if unit.source_sha256 else []
    return [f"#define {unit.upper}_GENERATOR_VERSION {c.string(__version__)}", *sha, ""]


def _arena(unit: Unit) -> list[str]:
    lines = [
        f"#define {unit.upper}_ARENA_BYTES {unit.plan.arena_bytes}",
        f"#define {unit.upper}_ARENA_ALIGNMENT {ARENA_ALIGNMENT}",
    ]
    for memory in (memory for memory in unit.memories if memory != SRAM):
        macro = unit.arena_macro(memory)
        sections = [] if unit.caller_arena else [f", in the section {macro}_SECTION or {arena_section(memory)}"]
        lines += [
            f"// The same in the memory {memory}{''.join(sections)}.",
            f"#define {macro}_BYTES {unit.plan.arenas[memory]}",
        ]
    if unit.caller_arena:
        return ["// Size and alignment of the memory for the tensors, in bytes.", *lines]
    return [
        "// Size and alignment of the memory for the tensors, in bytes: a static array whose contents need not be",
        f"// initialised. To place it in a section of your linker script, define {unit.upper}_ARENA_SECTION as",
        f'// the name of the section, a string such as ".bss.dtcm", where {unit.name}.c is compiled.',
        *lines,
    ]


def _cores(unit: Unit) -> list[str]:
    """The number of cores, and what the program provides for them."""
    return [
        "// The cores that share an inference. The program provides sh_cores_run (sh/cores/sh_cores.h), which runs the",
        "// parts of a step on them; a loop that runs one part after the other on one core will do.",
        f"#define {unit.upper}_CORES {unit.cores}",
    ]


def _tensor(unit: Unit, suffix: str, tensor: str) -> list[str]:
    """The macros of an input or output. A row is one step along the height of NHWC."""
    type_, stem = unit.type(tensor), f"{unit.upper}_{suffix.upper()}"
    values = {
        "TYPE": c.TYPES[type_.dtype.value],
        "RANK": str(len(type_.shape)),
        "SHAPE": f"{{{', '.join(map(str, type_.shape))}}}",
        "ELEMENTS": str(type_.elements),
        "BYTES": str(type_.bytes),
        "ROWS": str(type_.rows),
        "ROW_BYTES": str(type_.row_bytes),
        **_quantisation(type_),
    }
    title = c.comment(f"{suffix.replace('_', ' ')}: {c.quoted(tensor)}")
    return [title, *(f"#define {stem}_{name} {value}" for name, value in values.items())]


def _quantisation(type_: TensorType) -> dict[str, str]:
    """real = SCALE * (stored - ZERO_POINT); float32 tensors have neither."""
    if type_.quant is None or type_.dtype is DType.FLOAT32:
        return {}
    zero = int(type_.quant.zero_point)
    return {"SCALE": c.number(float(type_.quant.scale)), "ZERO_POINT": f"({zero})" if zero < 0 else str(zero)}


def _init(unit: Unit, states: States | Stateless) -> list[str]:
    first, *rest = states.caller_arena
    more = [
        f"// {unit.arena_macro(memory)}_BYTES bytes of the memory {memory}, aligned likewise, are {parameter}."
        for memory, parameter in init_parameters(unit).items()
        if memory != SRAM
    ]
    return [
        "// The library has no arena of its own. Before any other function, call this with",
        f"// {unit.upper}_ARENA_BYTES bytes of memory aligned to {unit.upper}_ARENA_ALIGNMENT. {first}",
        *rest,
        *more,
        f"{init_head(unit)};",
        "",
    ]


def _prototypes(unit: Unit) -> Sequence[str]:
    """Declarations of the accessors."""
    return [f"{accessor(unit, suffix, tensor)};" for suffix, tensor in unit.whole_ends()]
