"""`<model>.h`: the interface of the library, for C and C++; sizes, shapes and scales are macros."""

from __future__ import annotations

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model.forms import Forms
from shoehorn_mcu.emit.unit import Unit, quantisation
from shoehorn_mcu.ir import TensorType


def accessor(unit: Unit, suffix: str, tensor: str) -> str:
    """The declaration of the function that returns an input or an output."""
    const = "" if suffix.startswith("input") else "const "
    return f"{const}{c.TYPES[unit.type(tensor).dtype.value]} *{unit.name}_{suffix}(void)"


def model_h(unit: Unit) -> str:
    """The header; C++ may include it."""
    form = Forms(unit)
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
        *form.arenas.macros,
        *form.cores.macros,
        *(line for suffix, tensor in unit.ends() for line in ("", *_tensor(unit, suffix, tensor))),
        *form.classes.macros,
        *form.sliding.macros,
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *form.arenas.prototypes,
        *form.inputs.prototypes,
        *(f"{accessor(unit, suffix, tensor)};" for suffix, tensor in unit.whole_ends()),
        *form.outputs.prototypes,
        *form.inputs.prototypes_behind,
        *form.classes.prototypes,
        *form.sliding.prototypes,
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
    if (quant := quantisation(type_)) is None:
        return {}
    scale, zero = quant
    return {"SCALE": c.number(scale), "ZERO_POINT": f"({zero})" if zero < 0 else str(zero)}
