"""What files say of a model whose inferences take new rows of its window."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model.form import Form
from shoehorn_mcu.emit.unit import Unit, Window
from shoehorn_mcu_host.base.words import counted


class Sliding(Form):
    """The size of a window, and a function that takes the new rows and runs an inference.

    The rows are members of structs, so that rows of another number or type do not compile.
    """

    includes = ("include/sh_bytes.h",)

    def __init__(self, unit: Unit, window: Window) -> None:
        upper, name = unit.upper, unit.name
        self.macros = [
            "",
            f"// The window has {upper}_WINDOW_ROWS rows. From inference {upper}_WINDOW_STEPS on all of them are given",
            "// ones; before, the others are 0.",
            f"#define {upper}_WINDOW_ROWS {window.rows}",
            f"#define {upper}_WINDOW_STEPS {window.steps}",
        ]
        ends = [(suffix, tensor) for suffix, tensor in unit.ends() if suffix.startswith("input")]
        types = [f"{name}_rows{suffix.removeprefix('input')}" for suffix, _ in ends]
        taken = [f"rows{suffix.removeprefix('input')}" for suffix, _ in ends]
        given = ", ".join(f"const {each} *{rows}" for each, rows in zip(types, taken, strict=True))
        head = f"void {name}_push({given})"
        self.prototypes = ["", "// The new rows of an inference, the oldest first."]
        for (_, tensor), each in zip(ends, types, strict=True):
            kind = unit.type(tensor)
            member = f"{c.TYPES[kind.dtype.value]} values[{kind.rows}][{kind.row_elements}];"
            self.prototypes += ["typedef struct {", f"    {member}", f"}} {each};"]
        self.prototypes += [
            "",
            f"// Copies the rows to {name}_input and runs an inference: the outputs are those of the window",
            "// that ends with them. A row that was lost has to be replaced, such as by the one before it,",
            f"// or {name}_reset called.",
            f"{head};",
        ]
        new = counted(window.hop, "new row")
        self.use_more = [
            f"The model sees a window of {window.rows} rows, of which an inference takes {new}: "
            f"`{name}_push(rows)` does",
            f"both calls. `{name}_reset()` empties the window.",
        ]
        copies = [
            f"memcpy({name}_{suffix}(), {rows}->values, sizeof {rows}->values);"
            for (suffix, _), rows in zip(ends, taken, strict=True)
        ]
        self.definitions = ["", c.function(head, [*copies, f"{name}_run();"])]
