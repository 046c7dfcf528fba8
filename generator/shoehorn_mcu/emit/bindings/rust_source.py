"""The text of a crate's lib.rs: types and constants of a model, its functions in C, and the `Model` that calls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.bindings.ends import End, ends
from shoehorn_mcu.emit.model.arenas import ARENA_ALIGNMENT
from shoehorn_mcu.emit.templates import fill
from shoehorn_mcu.emit.unit import Arena, Unit, quantisation

TYPES: Mapping[str, str] = {
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "[u8; 8]",  # an arena aligns to 4 bytes, a reference to i64 to 8
    "uint64": "[u8; 8]",
    "float16": "u16",  # by its bits
    "float32": "f32",
    "bool": "u8",
}
_WIDTH = 100  # of rustfmt


def camel(name: str) -> str:
    """`input_1` as the name of a type: `Input1`."""
    return "".join(part.capitalize() for part in name.split("_"))


def _documented(lines: Sequence[str], text: str) -> list[str]:
    """Lines behind a comment of rustdoc, which is broken into lines of the width."""
    words, said = text.split(), ["///"]
    for word in words:
        if len(said[-1]) + 1 + len(word) > _WIDTH - 4 and said[-1] != "///":
            said.append("///")
        said[-1] += f" {word}"
    return [*said, *lines]


def _part(name: str, **values: object) -> list[str]:
    """The lines of a template of a part of lib.rs, without the first, its licence."""
    return fill(FIRMWARE_TEMPLATES / f"bindings/rust_parts/{name}.rs.in", values).decode().splitlines()[1:]


class Source:
    """lib.rs of one model, in the crate of this name."""

    def __init__(self, unit: Unit, crate_name: str) -> None:
        self._unit, self._crate = unit, crate_name
        self._ends = ends(unit)
        self._inputs = [end for end in self._ends if end.is_input]
        self._outputs = [end for end in self._ends if not end.is_input]
        self._streamed = next((end for end in self._inputs if end.by_rows), None)
        self._handed_out = next((end for end in self._outputs if end.by_rows), None)
        self._states = bool(unit.graph.states)
        self._arenas: Sequence[Arena] = list(unit.arenas.values()) if unit.caller_arena else ()
        # Of a model that borrows its arenas: `Model<'a>`, and that of methods that do not name the lifetime.
        self._model = "Model<'a>" if self._arenas else "Model"

    def text(self) -> str:
        """The whole file."""
        parts: list[Sequence[str]] = [
            self._head(),
            ["mod taken;", "", *self._uses()],
            self._about_model(),
            *(self._about_end(end) for end in self._ends),
            *([self._classes()] if self._unit.classes else []),
            *(self._arena(arena) for arena in self._arenas),
            self._ffi(),
            *self._structs(),
            c.block(f"impl<'a> {self._model}" if self._arenas else "impl Model", self._methods()),
            self._drop(),
            # The function that the library calls, and how it finds the program's.
            *([_part("on_row", NAME=self._unit.name)] if self._handed_out else []),
        ]
        return "\n\n".join("\n".join(part) for part in parts) + "\n"

    def _head(self) -> list[str]:
        title = c.plain(c.quoted(self._unit.graph.name), but="`[]<>\\")
        example = "\n".join(f"//! {line}".rstrip() for line in self.example())
        return [f"// {c.SPDX}", *_part("head", TITLE=title[1:-1], VERSION=__version__, EXAMPLE=example)]

    def example(self) -> list[str]:
        """Rust that runs one inference."""
        name = self._crate
        taken = ", ".join(f"&mut {arena.name}" for arena in self._arenas)
        lines = [f"let mut {arena.name} = {name}::{camel(arena.name)}::new();" for arena in self._arenas]
        lines += [f'let mut model = {name}::Model::take({taken}).expect("nobody else has the model");', ""]
        rows, handed_out = self._streamed, self._handed_out
        sink = "|y, row| { /* use row y of the output */ let _ = (y, row); }" if handed_out else ""
        if rows is not None:
            lines += [
                f"for _ in 0..{name}::INPUT_ROWS {{",
                f"    model.next_row().fill({_zero(rows, name)}); // your row",
            ]
            if handed_out is not None:
                lines += [f"    model.push_next_row({sink});", "}"]
            else:
                lines += ["    if let Some(outputs) = model.push_next_row() {"]
                lines += ["        let _first = outputs.output[0];", "    }", "}"]
            return lines
        for end in self._inputs:
            lines.append(f"model.inputs().{end.suffix}.fill({_zero(end, name)}); // your values")
        return [*lines, *([f"model.run({sink});"] if handed_out else ["let _first = model.run().output[0];"])]

    def _uses(self) -> list[str]:
        names = ["use core::marker::PhantomData;"]
        if self._handed_out is not None:
            names += ["use core::ptr::null_mut;", "use core::sync::atomic::{AtomicPtr, Ordering};"]
        return ["use core::cell::Cell;", *names]

    def _about_model(self) -> list[str]:
        unit, sha = self._unit, self._unit.source_sha256
        lines = _documented([f'pub const GENERATOR_VERSION: &str = "{__version__}";'], "The version of Shoehorn.")
        if sha:
            lines += _documented([f'pub const MODEL_SHA256: &str = "{sha}";'], "The SHA-256 of the model's file.")
        for arena in unit.arenas.values():
            text = f"Bytes of memory for the tensors{arena.inside}."
            lines += _documented([f"pub const {arena.name.upper()}_BYTES: usize = {arena.bytes};"], text)
        return lines

    def _about_end(self, end: End) -> list[str]:
        stem, type_, element = end.suffix.upper(), camel(end.suffix), TYPES[end.type.dtype.value]
        kind, values = end.suffix.replace("_", " ").capitalize(), end.type.dtype.value
        shape = ", ".join(map(str, end.type.shape))
        wide = " Bytes are in the order of the core." if element.startswith("[") else ""
        lines = _documented(
            [f"pub type {type_} = [{element}; {stem}_ELEMENTS];"], f"{kind}, `{end.shown}`: values are {values}.{wide}"
        )
        numbers = [("ELEMENTS", "usize", str(end.type.elements), f"The elements of [`{type_}`].")]
        numbers += [("SHAPE", f"[usize; {len(end.type.shape)}]", f"[{shape}]", f"The dimensions of [`{type_}`].")]
        if end.by_rows:
            text = f"A row of [`{type_}`], one step along its height."
            lines += _documented([f"pub type {type_}Row = [{element}; {stem}_ROW_ELEMENTS];"], text)
            numbers += [("ROWS", "usize", str(end.type.rows), f"The rows of [`{type_}`].")]
            numbers += [("ROW_ELEMENTS", "usize", str(end.row_elements), f"The elements of a [`{type_}Row`].")]
        if (quant := quantisation(end.type)) is not None:
            scale, zero = quant
            formula = f"real value = [`{stem}_SCALE`] * (stored value - [`{stem}_ZERO_POINT`])"
            numbers += [("SCALE", "f32", _float(scale), f"Scale: {formula}.")]
            numbers += [("ZERO_POINT", element if element[0] != "[" else "i64", str(zero), "The stored value of 0.0.")]
        for name, kind, value, text in numbers:
            lines += _documented([f"pub const {stem}_{name}: {kind} = {value};"], text)
        return lines

    def _classes(self) -> list[str]:
        names = self._unit.classes
        rows = [f"    {_string(name)}," for name in names]
        lines = ["#[rustfmt::skip]", f"pub const CLASSES: [&str; {len(names)}] = [", *rows, "];"]
        return _documented(lines, "The names of the classes, in the order of the output.")

    def _arena(self, arena: Arena) -> list[str]:
        keeps = " The model keeps values there between inferences." if self._states else ""
        about = _documented((), f"The memory for the tensors{arena.inside}, which the program owns.{keeps}")
        name, size = camel(arena.name), f"{arena.name.upper()}_BYTES"
        return _part("arena", ABOUT="\n".join(about), ALIGNMENT=ARENA_ALIGNMENT, NAME=name, SIZE=size)

    def _ffi(self) -> list[str]:
        """The functions of the header, in its order."""
        unit, rows, heads = self._unit, self._streamed, list[tuple[str, str]]()
        if self._arenas:
            taken = ", ".join(f"{arena.name}: *mut c_void" for arena in self._arenas)
            heads.append(("init", f"({taken})"))
        if rows is not None:
            heads += [("push_row", "(row: *const c_void)"), ("next_row", "() -> *mut c_void")]
            heads += [("restart", "()")] if self._states else []
        for end in self._ends:
            if not end.by_rows:
                const = "mut" if end.is_input else "const"
                heads.append((end.suffix, f"() -> *{const} {TYPES[end.type.dtype.value]}"))
        heads += [] if rows is not None else [("run", "()")]
        heads += [("reset", "()")] if self._states or rows is not None else []
        heads += [("class", "(number: i32) -> *const u8")] if unit.classes else []
        body: list[str] = []
        for name, head in heads:
            body += [f'#[link_name = "{unit.name}_{name}"]', f"pub fn {name}{head};"]
        void = any("c_void" in head for _, head in heads)
        inner = [*(["use core::ffi::c_void;", ""] if void else []), *c.block('extern "C"', body)]
        allowed = ["#[allow(missing_docs)]"]
        text = f"The functions of `c/{unit.name}.h`, which says what each of them does, and when it may be called."
        return _documented([*allowed, *c.block("pub mod ffi", inner)], text)

    def _structs(self) -> Iterator[list[str]]:
        """The model, and what it lends."""
        members = ["_not_sync: PhantomData<Cell<()>>,"]
        if self._arenas:
            members.insert(0, f"_arena: PhantomData<&'a mut {camel(self._arenas[0].name)}>,")
        if self._streamed is not None:
            members.append("arrived: usize,")
        text = (
            "The model. At most one exists at a time, because the functions of C have one memory. Another thread may "
            "have it, but threads do not share it."
        )
        yield [
            "static TAKEN: taken::Taken = taken::Taken::new();",
            "",
            *_documented(c.block(f"pub struct {self._model}", members), text),
        ]
        if self._streamed is None:
            text = "The inputs. An inference reuses their bytes, so write all values before each [`Model::run`]."
            yield self._lent("Inputs", self._inputs, "&'a mut", text)
        if self._handed_out is None:
            text = "The outputs of an inference. They end where the model is used for the next one."
            yield self._lent("Outputs", self._outputs, "&'a", text, "#[derive(Clone, Copy)]")

    @staticmethod
    def _lent(name: str, lent: Sequence[End], reference: str, text: str, *derived: str) -> list[str]:
        """A struct of references to inputs or outputs."""
        body: list[str] = []
        for end in lent:
            body += _documented([f"pub {end.suffix}: {reference} {camel(end.suffix)},"], f"`{end.shown}`.")
        return _documented([*derived, *c.block(f"pub struct {name}<'a>", body)], text)

    def _methods(self) -> list[str]:
        groups = [self._take()]
        if self._streamed is None:
            groups += [self._lending("inputs", "Inputs", self._inputs), self._run()]
        else:
            groups.append(self._streaming())
        if self._states:
            text = "The states get their first values again, which a model that was just taken has, too."
            body = ["// SAFETY: the model is held, so nothing else calls the library.", "unsafe { ffi::reset() };"]
            body += ["self.arrived = 0;"] if self._streamed is not None else []
            groups.append(_documented(c.block("pub fn reset(&mut self)", body), text))
        if self._handed_out is None:
            groups.append(self._lending("outputs", "Outputs", self._outputs))
        lines: list[str] = []
        for group in groups:
            lines += [*([""] if lines else []), *group]
        return lines

    def _take(self) -> list[str]:
        taken = ", ".join(f"{a.name}: &'a mut {camel(a.name)}" for a in self._arenas)
        body = ["if !TAKEN.take() {", "    return None;", "}"]
        begun = "init" if self._arenas else "reset" if self._states or self._streamed else ""
        if begun:
            body += [f"let {a.name}: *mut {camel(a.name)} = {a.name};" for a in self._arenas]
            body += ["// SAFETY: the model is held, so nothing else calls the library."]
            body += [f"unsafe {{ ffi::{begun}({', '.join(f'{a.name}.cast()' for a in self._arenas)}) }};"]
        members = [*(["_arena: PhantomData,"] if self._arenas else []), "_not_sync: PhantomData,"]
        members += ["arrived: 0,"] if self._streamed is not None else []
        body += ["Some(Self {", *(f"    {member}" for member in members), "})"]
        text = "The model, or None while it exists elsewhere. Dropping it gives it back."
        return _documented(c.block(f"pub fn take({taken}) -> Option<Self>", body), text)

    def _lending(self, function: str, struct: str, lent: Sequence[End]) -> list[str]:
        """A method that lends all inputs or outputs."""
        written = function == "inputs"
        mut, pub = ("mut ", "pub ") if written else ("", "")
        members = [f"        {end.suffix}: &{mut}*ffi::{end.suffix}().cast()," for end in lent]
        body = [
            "// SAFETY: each is an array of its own in the arena, aligned to 4 bytes, of a type that has no invalid",
            "// values; the library touches none while the model is borrowed.",
            *["unsafe {", f"    {struct} {{", *members, "    }", "}"],
        ]
        method = c.block(f"{pub}fn {function}(&{mut}self) -> {struct}<'_>", body)
        return _documented(method, "The inputs, to be written.") if written else method

    def _run(self) -> list[str]:
        safety = "// SAFETY: the model is held, so nothing else calls the library."
        if self._handed_out is None:
            body = [safety, "unsafe { ffi::run() };", "self.outputs()"]
            text = "One inference of the values in the inputs."
            return _documented(c.block("pub fn run(&mut self) -> Outputs<'_>", body), text)
        body = [safety, "handing_out(&mut on_row, || unsafe { ffi::run() });"]
        text = (
            "One inference of the values in the inputs. `on_row` gets the number of each row of the output and the "
            "row, as soon as it is finished."
        )
        return _documented(c.block(f"pub fn run(&mut self, mut on_row: {_SINK})", body), text)

    def _streaming(self) -> list[str]:
        """The methods that take rows of the input."""
        if self._handed_out is not None:
            given = "`on_row` gets each row of the output that is finished; true after the last row"
            sink, result, last = f", mut on_row: {_SINK}", "bool", "self.arrived == 0"
            call = "handing_out(&mut on_row, || unsafe {{ ffi::push_row({}) }});"
        else:
            given = "The outputs after the last row, None before"
            sink, result, last = "", "Option<Outputs<'_>>", "(self.arrived == 0).then(|| self.outputs())"
            call = "unsafe {{ ffi::push_row({}) }};"
        return _part(
            "streaming",
            ABOUT="\n".join(_documented((), f"Computes what the next row of the input makes possible. {given}.")),
            **{"SINK": sink, "RESULT": result, "LAST": last},
            **{"PUSH": call.format("place"), "PUSH_NEXT": call.format("ffi::next_row()")},
            **{"ANEW": "restart" if self._states else "reset", "STATES": " States stay." if self._states else ""},
        )

    def _drop(self) -> list[str]:
        name = "Model<'_>" if self._arenas else "Model"
        return c.block(f"impl Drop for {name}", c.block("fn drop(&mut self)", ["TAKEN.give();"]))


_SINK = "impl FnMut(usize, &OutputRow)"


def _zero(end: End, crate_name: str) -> str:
    """The stored value of 0.0, for an example."""
    element = TYPES[end.type.dtype.value]
    if quantisation(end.type) is not None and element[0] != "[":
        return f"{crate_name}::{end.suffix.upper()}_ZERO_POINT"
    return "0.0" if element == "f32" else "[0; 8]" if element[0] == "[" else "0"


def _float(value: float) -> str:
    """The shortest literal that is this float32."""
    single = np.float32(value)
    return str(single) if 1e-4 <= value < 1e6 else np.format_float_scientific(single, trim="-")


def _string(text: str) -> str:
    """A string literal; what is not plain ASCII by its code."""
    plain = set(map(chr, range(32, 127))) - set('"\\')
    return '"' + "".join(ch if ch in plain else f"\\u{{{ord(ch):x}}}" for ch in text) + '"'
