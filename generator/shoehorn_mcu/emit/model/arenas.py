"""The two forms of a library's arenas, each with all that files say of it: static arrays, or the caller's memory."""

from __future__ import annotations

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.model.form import Form, Lines
from shoehorn_mcu.emit.model.states import Stateless, States
from shoehorn_mcu.emit.unit import Arena, Unit

ARENA_ALIGNMENT = 16  # bytes; every tensor in the arena is aligned to 4


def arenas_text(unit: Unit) -> str:
    """The arenas and their sizes as the subject of a sentence."""
    each = [f"{arena.bytes} bytes{arena.inside}" for arena in unit.arenas.values()]
    return f"{'Arenas' if len(each) > 1 else 'An arena'} of {' and '.join(each)}"


def _sizes(unit: Unit, place: str = "") -> list[str]:
    """The macros of sizes and alignment; `place` says where the arena `{0}` in another memory than the main one is."""
    lines = [
        f"#define {unit.upper}_ARENA_BYTES {unit.plan.arena_bytes}",
        f"#define {unit.upper}_ARENA_ALIGNMENT {ARENA_ALIGNMENT}",
    ]
    for arena in unit.other_arenas:
        remark = f"// The same in the memory {arena.memory}{place.format(arena)}."
        lines += [remark, f"#define {arena.macro}_BYTES {arena.bytes}"]
    return lines


class OwnArenas(Form):
    """Each arena is a static array of the library, which a section can place."""

    def __init__(self, unit: Unit) -> None:
        self.macros = [
            "// Size and alignment of the memory for the tensors, in bytes: a static array whose contents need not be",
            f"// initialised. To place it in a section of your linker script, define {unit.upper}_ARENA_SECTION as",
            f'// the name of the section, a string such as ".bss.dtcm", where {unit.name}.c is compiled.',
            *_sizes(unit, ", in the section {0.macro}_SECTION or {0.section}"),
        ]
        main = (
            f"The arena of {unit.plan.arena_bytes:,} bytes is a static array. Define `{unit.upper}_ARENA_SECTION` as a "
            f"string where `{unit.name}.c` is compiled to place it in a section of your linker script."
        )
        others = (
            f" A part of {arena.bytes:,} bytes belongs into the memory {arena.memory}: your linker script "
            f"places `{arena.section}` there, or the section that `{arena.macro}_SECTION` names."
            for arena in unit.other_arenas
        )
        self.readme = "".join((main, *others))

    def storage(self, arena: Arena) -> list[str]:
        """An array. One in another memory than the main one is in a section of its own, which our scripts place."""
        section, place = f"{arena.macro}_SECTION", f"{arena.name.upper()}_PLACE"
        usual = [f"#ifndef {section}", f"#define {section} {c.string(arena.section)}", "#endif"]
        return [
            *([] if arena.is_main else usual),
            f"#ifdef {section}",
            f"#define {place} __attribute__((section({section})))",
            "#else",
            f"#define {place}",
            "#endif",
            f"static _Alignas({ARENA_ALIGNMENT}) uint8_t {arena.name}[{arena.macro}_BYTES] {place};",
        ]


class CallerArenas(Form):
    """The program owns the arenas and passes them to `<model>_init`."""

    def __init__(self, unit: Unit, states: States | Stateless, init: Lines) -> None:
        """`init` are the statements that begin anew with other memory."""
        arenas, init_name, others = unit.arenas.values(), f"{unit.name}_init", unit.other_arenas
        names = ", ".join(arena.name for arena in arenas)
        head = f"void {init_name}({', '.join(f'void *{arena.parameter}' for arena in arenas)})"
        first, *rest = states.caller_arena
        self.macros = ["// Size and alignment of the memory for the tensors, in bytes.", *_sizes(unit)]
        self.prototypes = [
            "// The library has no arena of its own. Before any other function, call this with",
            f"// {unit.upper}_ARENA_BYTES bytes of memory aligned to {unit.upper}_ARENA_ALIGNMENT. {first}",
            *rest,
            *(
                f"// {a.macro}_BYTES bytes of the memory {a.memory}, aligned likewise, are {a.parameter}."
                for a in others
            ),
            f"{head};",
            "",
        ]
        taken = (f"{arena.name} = {arena.parameter};" for arena in arenas)
        self.definitions = ["", c.function(head, [*taken, *init])]
        arrays = (
            f"static _Alignas({unit.upper}_ARENA_ALIGNMENT) uint8_t {arena.name}[{arena.macro}_BYTES];"
            + ("" if arena.is_main else f" // in the memory {arena.memory}")
            for arena in arenas
        )
        self.example_head = [*arrays, ""]
        self.example = [f"    {init_name}({names});      // once, before any other call"]
        sizes = " and ".join(f"{arena.bytes:,} bytes{arena.inside}" for arena in arenas)
        self.readme = f"The program owns the arena ({sizes}) and passes it to `{init_name}()`."
        rows = (c.call("X", (each.name, f"{each.macro}_BYTES", c.string(each.section))) for each in others)
        self.app = {
            **({} if len(others) == len(arenas) else {"SH_APP_ARENA_BYTES": f"{unit.upper}_ARENA_BYTES"}),
            "SH_APP_ARENA_ALIGNMENT": f"{unit.upper}_ARENA_ALIGNMENT",
            **({"SH_APP_OTHER_ARENAS(X)": " ".join(rows)} if others else {}),
            "SH_APP_INIT(arena)": f"{init_name}({names})",
        }

    def storage(self, arena: Arena) -> list[str]:
        """A pointer to the caller's memory."""
        return ["// The caller's memory.", f"static uint8_t *{arena.name};"]
