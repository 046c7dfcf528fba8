"""Reads C of runtime_c as a list of items, each a definition with its comment, as one kernel sees them.

The macros that a kernel's instance defines are known, so conditions on them are decided here, files are in the place of
their `#include`, and macros that define functions are written out. What only a compiler knows (`__GNUC__`, `SH_TRACE`)
stays a condition. This reads the C of runtime_c, which has one style; it is no preprocessor for other C.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise

from shoehorn_mcu.emit.kernels.c_conditions import Unknown, decided

_LINE = re.compile(r"^[ ]*#[ ]*(\w+)(.*)$", re.DOTALL)
_MACRO = re.compile(r"^[ ]*(\w+)(\(([^)]*)\))?(.*)$", re.DOTALL)
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|0[xX][\w.]+(?:[pP][+-]?\w+)?"
    r"|\.?\d(?:[eE][+-]|[\w.])*|[A-Za-z_]\w*|->|##|\s+|.",
    re.DOTALL,
)
_CONTINUED = re.compile(r"^(.*?)[ ]*\\$", re.MULTILINE)
_MARGIN = 99  # the column of the backslash that continues a macro
_WORD = re.compile(r"[A-Za-z_]\w*")
_SPDX = "// SPDX-License-Identifier"
_FORMAT = "// clang-format"


def tokens(text: str) -> list[str]:
    """The tokens of C, white space and comments among them."""
    return _TOKEN.findall(text)


def is_blank(token: str) -> bool:
    """Whether a token is white space or a comment."""
    return token.isspace() or token.startswith(("//", "/*"))


@dataclass(frozen=True)
class Item:
    """A definition, a declaration or a macro, or a condition that only the compiler decides with all that is in it."""

    file: str  # below runtime_c; empty for what an instance defines
    comment: str
    text: str

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What it defines at the level of the file."""
        return tuple(dict.fromkeys(_defined(self.text)))

    @cached_property
    def words(self) -> frozenset[str]:
        """All identifiers in it."""
        return frozenset(token for token in tokens(self.text) if _WORD.fullmatch(token))


def grouped(lists: Sequence[Sequence[Item]]) -> list[list[str]]:
    """Names that items define together, in the order of the last item of each, in any of several lists of items."""
    group: dict[str, list[str]] = {}
    last: dict[str, int] = {}
    for items in lists:
        for place, item in enumerate(items):
            together = list(dict.fromkeys(name for own in item.names for name in group.get(own, [own])))
            group.update(dict.fromkeys(together, together))
            last |= {name: max(place, last.get(name, 0)) for name in item.names}
    found = {id(names): names for names in group.values()}.values()
    return sorted(found, key=lambda names: max(last[name] for name in names))


def shown_alone(item: Item) -> str:
    """The text of an item behind its comment."""
    return f"{item.comment}\n{item.text}" if item.comment else item.text


@dataclass(eq=False)
class Reader:
    """Collects the items of a kernel."""

    text_of: Callable[[str], str]  # of a file by its path below runtime_c
    outside: frozenset[str] = frozenset({"SH_TRACE"})
    absent: frozenset[str] = frozenset()  # names of compilers that are not defined
    macros: dict[str, str] = field(default_factory=dict)
    functions: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    systems: dict[str, None] = field(default_factory=dict)  # headers of the compiler
    heads: list[str] = field(default_factory=list)  # what stands before all else: pragmas, headers of some compilers
    titles: dict[str, str] = field(default_factory=dict)  # by file: what its first comment says
    items: list[Item] = field(default_factory=list)

    def read(self, text: str, file: str = "") -> None:
        """Adds the items of a text, and those of the files that it includes before them."""
        lines: list[str] = []
        for kind, content in self._lines(text, file):
            if kind == "include":
                self._split(lines, file)
                lines = []
                self.read(self.text_of(content), content)
            else:
                lines.append(content)
        self._split(lines, file)

    def _lines(self, text: str, file: str) -> Iterator[tuple[str, str]]:
        """The lines that this kernel sees: ("line", text) or ("include", path)."""
        conditions: list[_Condition] = []
        for line, word, rest in _directives(text):
            active = all(each.active for each in conditions)
            if word in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
                for shown in self._condition(word, rest, conditions, active):
                    yield "line", shown
            elif not active:
                continue
            elif word == "include" and rest.startswith('"'):
                if any(each.shown for each in conditions):
                    raise ValueError(f"{file}: includes {rest} where a compiler decides")
                yield "include", posixpath.normpath(posixpath.join(posixpath.dirname(file), rest.strip('"')))
            elif word == "include" and not any(each.shown for each in conditions):
                self.systems[rest] = None
            else:
                if word == "define":
                    self._define(rest, unsure=any(each.shown for each in conditions))
                yield "line", line
        if conditions:
            raise ValueError(f"{file}: a condition has no end")

    def _define(self, rest: str, unsure: bool) -> None:
        name, head, parameters, body = _MACRO.match(rest).groups()  # type: ignore[union-attr]
        if unsure:
            self.outside |= {name}
        elif head is None:
            self.macros[name] = body.strip()
        else:
            self.functions[name] = ([p.strip() for p in parameters.split(",")], body.replace("\\\n", "\n"))
            self.macros[name] = ""

    def _condition(self, word: str, rest: str, conditions: list[_Condition], active: bool) -> list[str]:
        """Takes note of a condition; the lines that are to be written for it."""
        if word in ("if", "ifdef", "ifndef"):
            expression = {"if": rest, "ifdef": f"defined({rest})", "ifndef": f"!defined({rest})"}[word]
            value: Unknown | int = decided(expression, self.macros, self.outside, self.absent) if active else 0
            made = _Condition(taken=not active, shown=isinstance(value, str), active=active and value != 0)
            made.taken |= isinstance(value, int) and value != 0
            conditions.append(made)
            return [f"#if {value}"] if made.shown else []
        this = conditions[-1]
        if word == "endif":
            conditions.pop()
            return ["#endif"] if this.shown else []
        if this.taken:
            this.active = False
            return []
        value = decided(rest, self.macros, self.outside, self.absent) if word == "elif" else 1
        this.active = value != 0
        if isinstance(value, str):
            head = "#elif" if this.shown else "#if"
            this.shown = True
            return [f"{head} {value}"]
        this.taken = value != 0
        return ["#else"] if this.taken and this.shown else []

    def _split(self, lines: list[str], file: str) -> None:
        """Adds the items of these lines."""
        begins = file not in self.titles
        title, items = _items_in(tuple(lines), file, begins)
        if begins:
            self.titles[file] = title
        for item in items:
            self._add(item)

    def _add(self, item: Item) -> None:
        text, comment = item.text, item.comment
        call = re.fullmatch(r"(\w+)\((.*)\)", text, re.DOTALL)
        if text.startswith("#if"):
            parts = self._by_names(text)
        elif text.startswith("#") and not text.startswith("#define"):
            self.heads += [text] if text not in self.heads else []
            return
        elif call and call[1] in self.functions:
            parts = self._written_out(call[1], call[2])
        else:
            self.items.append(item)
            return
        for part in parts:
            self.items.append(Item(item.file, comment, part))
            comment = ""

    def _by_names(self, text: str) -> Iterator[str]:
        """A condition that the compiler decides, once for each definition in it; `heads` gets what defines nothing."""
        branches: list[tuple[str, Reader]] = []
        for head, lines in _branches(text):
            inner = replace(self, items=[], heads=[], titles={"": ""})
            inner._split(["", *lines], "")
            branches.append((head, inner))
        if found := _condition([(head, inner.heads) for head, inner in branches]):
            self.heads += [found] if found not in self.heads else []
        for names in grouped([inner.items for _, inner in branches]):
            chosen = [(head, [i for i in inner.items if {*names} & {*i.names}]) for head, inner in branches]
            yield _condition([(head, [shown_alone(item) for item in items]) for head, items in chosen])

    def _written_out(self, name: str, arguments: str) -> Iterator[str]:
        """The definitions that the call of a macro at the level of a file stands for."""
        parameters, body = self.functions[name]
        given = dict(zip(parameters, _arguments(arguments), strict=True))
        text = "".join(given.get(token, token) for token in tokens(body))
        text = re.sub(r"\s*##\s*", "", text)
        lines = [line.rstrip() for line in textwrap.dedent(text).strip("\n").split("\n")]
        inner = replace(self, items=[], titles={"": ""})
        inner._split(["", *lines], "")
        yield from (item.text for item in inner.items)


@dataclass
class _Condition:
    """A `#if` that is open."""

    taken: bool  # a branch that is certain was seen
    shown: bool  # it stays in the text
    active: bool  # the lines that follow are seen


@lru_cache(maxsize=1024)
def _items_in(lines: tuple[str, ...], file: str, begins: bool) -> tuple[str, tuple[Item, ...]]:
    """The items of these lines, calls of macros among them; `begins`: of the first ones of a file, with its title.

    Kernels include the same files: each is taken apart once.
    """
    comment: list[str] = []
    part: list[str] = []
    items: list[Item] = []
    depth = level = 0
    title: str | None = None if begins else ""
    for number, line in enumerate(lines):
        plain = _uncommented(line)
        if not part and (line.startswith(_FORMAT) or line.startswith(_SPDX)):
            continue
        if not part and not plain:
            if line.strip() or comment:
                comment.append(line.strip())
            continue
        directive = _LINE.match(line)
        if title is None:  # a file's first comment is its title where the guard or an include follows
            title = ""
            if directive:
                title = "\n".join(comment).strip()
                comment = []
            if directive and plain.endswith("_H"):
                continue
        part.append(line)
        if directive and directive[1] in ("if", "endif"):
            level += 1 if directive[1] == "if" else -1
        if not (directive and directive[1] in ("if", "elif", "else", "endif", "define", "pragma", "include")):
            depth += sum(plain.count(c) for c in "({[") - sum(plain.count(c) for c in ")}]")
        if level or depth:
            continue
        text = "\n".join(part)
        following = next((_uncommented(each) for each in lines[number + 1 :] if _uncommented(each)), "")
        if not directive and not plain.endswith((";", "}")) and (following == "{" or not plain.endswith(")")):
            continue
        items.append(Item(file, "\n".join(comment).strip(), text))
        comment, part = [], []
    if part:
        raise ValueError(f"{file}: no definition ends in {part[0]!r}")
    return "\n".join(comment).strip() if title is None else title, tuple(items)


def _uncommented(text: str) -> str:
    """A line without its comment and the white space around it."""
    if "/" not in text:
        return text.strip()
    return "".join(token for token in tokens(text) if not token.startswith(("//", "/*"))).strip()


def _arguments(text: str) -> list[str]:
    """The arguments of a macro's call."""
    found, depth = [""], 0
    for token in tokens(text):
        depth += (token == "(") - (token == ")")
        if token == "," and not depth:
            found.append("")
        else:
            found[-1] += token
    return [" ".join(argument.split()) for argument in found]


def _defined(text: str) -> Iterator[str]:
    """The names that a definition defines."""
    if re.match(r"[ ]*#[ ]*if", text):
        for _, branch in _branches(text):
            reader = Reader(lambda _: "", titles={"": ""})
            reader._split(["", *branch], "")
            yield from (name for item in reader.items for name in item.names)
        return
    if text.startswith("#") and not text.startswith("#define"):
        return
    if found := re.match(r"[ ]*#[ ]*define[ ]+(\w+)", text):
        yield found[1]
        return
    code = [token for token in tokens(text) if not is_blank(token)]
    if code and code[0] in ("enum", "typedef", "struct", "union"):
        yield from _types(code)
    if code and code[0] not in ("enum", "struct", "union"):
        yield from _declared(code)


def _branches(text: str) -> Iterator[tuple[str, list[str]]]:
    """The line that begins each branch of a condition, and the lines in it."""
    level, head = 0, ""
    branch: list[str] = []
    for line in _logical(text):
        found = _LINE.match(line)
        word = found[1] if found else ""
        level += word == "if"
        if level == 1 and word in ("if", "elif", "else", "endif"):
            if head:
                yield head, branch
            head, branch = line, []
        else:
            branch.append(line)
        level -= word == "endif"


def _condition(branches: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The text of a condition with these texts in its branches; empty where there are none."""
    last = max((number for number, (_, texts) in enumerate(branches) if texts), default=-1)
    lines = (line for head, texts in branches[: last + 1] for line in (head, *texts))
    return "\n".join((*lines, "#endif")) if last >= 0 else ""


@lru_cache(maxsize=1024)
def _directives(text: str) -> tuple[tuple[str, str, str], ...]:
    """The lines of a text, each with the name and the rest of the directive that it is, empty where it is none."""
    found = ((line, _LINE.match(line)) for line in _logical(text))
    return tuple((line, *((of[1], _uncommented(of[2])) if of else ("", ""))) for line, of in found)


def _logical(text: str) -> list[str]:
    """The lines of a text, those that a backslash continues as one."""
    return [line.replace("\\\r", "\\\n") for line in text.replace("\\\n", "\\\r").split("\n")]


def _types(code: list[str]) -> Iterator[str]:
    """The enumerators and the tags of a definition of types."""
    if "enum" in code[:2] and "{" in code:
        inside = code[code.index("{") + 1 : code.index("}")]
        yield from (
            token
            for before, token in zip(["{", *inside], inside, strict=False)
            if before in ("{", ",") and _WORD.fullmatch(token)
        )
    for before, token in pairwise(code):
        if before in ("struct", "union", "enum") and _WORD.fullmatch(token):
            yield token
            return


_HINT = "SH_ALIGNED_4"  # stands behind the name of a type
_NO_NAME = {"__attribute__", "_Alignas", "__asm", "__asm__", "_Static_assert"}


def _declared(code: list[str]) -> Iterator[str]:
    """The function, the variable or the type that is declared."""
    code = [token for token in code if token != _HINT]
    depth = 0
    last = ""
    for number, token in enumerate(code):
        if depth == 0 and token in ("(", "[", "=", ";", "{") and _WORD.fullmatch(last):
            if token == "(" and last in _NO_NAME:
                pass
            elif not (token == "{" and last in ("struct", "union", "enum")):
                following = code[_closing(code, number) + 1 : _closing(code, number) + 2] if token == "(" else []
                if not following or following[0] in (";", "{", "[", "=", "__asm", "__attribute__"):
                    yield last
                    return
        depth += (token in "({[") - (token in ")}]")
        last = token if depth == 0 else ""


def _closing(code: list[str], number: int) -> int:
    """The place of the bracket that closes the one at `number`."""
    depth = 0
    for place in range(number, len(code)):
        depth += (code[place] in "({[") - (code[place] in ")}]")
        if depth == 0:
            return place
    return len(code)


def items_of(text: str, text_of: Callable[[str], str], known: Mapping[str, str | None]) -> Reader:
    """The items of a kernel's C file, whose includes are paths below runtime_c.

    `known` are macros of its compiler: a value, or None for one that is not defined.
    """
    macros = {name: value for name, value in known.items() if value is not None}
    reader = Reader(text_of, absent=frozenset(known.keys() - macros.keys()), macros=macros, titles={"": ""})
    reader.read(text)
    return reader


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with identifiers replaced, but for members of structs."""
    out, inside = [], _struct_places(text)
    found = tokens(text)
    for number, token in enumerate(found):
        other = token in names and _previous(found, number) not in (".", "->") and number not in inside
        out.append(names[token] if other else token)
    text = "".join(out)
    return _CONTINUED.sub(lambda line: f"{line[1]:<{_MARGIN}}\\", text) if text.startswith("#define") else text


def _previous(found: list[str], number: int) -> str:
    return next((token for token in reversed(found[:number]) if not is_blank(token)), "")


def _struct_places(text: str) -> frozenset[int]:
    """The places of the members' names in the structs and unions of a text."""
    found = tokens(text)
    code = [(place, token) for place, token in enumerate(found) if not is_blank(token)]
    places, stack = set(), []
    for number, (place, token) in enumerate(code):
        if token == "{":
            before = [t for _, t in code[max(0, number - 2) : number]]
            stack.append(any(each in ("struct", "union") for each in before))
        elif token == "}":
            stack = stack[:-1]
        elif stack and stack[-1] and _WORD.fullmatch(token) and code[number + 1][1] in (";", "[", ",", ":"):
            places.add(place)
    return frozenset(places)
