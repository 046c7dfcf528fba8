"""Checks the sources and pickles of a TorchScript archive before PyTorch reads them.

torch.jit.save prints its sources itself, in a small part of what TorchScript's parser takes. Allowed is that part:

- names, numbers, texts in quotes on one line, blanks, line ends, and brackets and operators, all in ASCII. No comment,
  no backslash outside a text, no tab, no text beside another one.
- `torch.x`, `ops.aten.x` and the like in one piece, where `torch/ops.py` has the op. So neither `torch` nor a part of
  such a name can get another name.
- calls of methods that the archive defines; `getattr` of a name that cannot follow a dot, such as "0".
- calls within bodies of functions only: PyTorch computes defaults of parameters and constants of classes as it loads.
- no `__setstate__`, which PyTorch calls as it loads.

Of a pickle, the instructions that PyTorch writes, with the archive's own classes and PyTorch's functions for tensors.
"""

from __future__ import annotations

import keyword
import pickletools
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.torch import ops
from shoehorn_mcu.ops.laws import quoted

_CURE = "write the module without it, and save it again"

_TOKEN = re.compile(
    r"(?P<name>[A-Za-z_]\w*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?j?)|(?P<blank> +)|(?P<end>\n)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<mark>->|\*\*|//|[<>=!]=|[][(){}:,.=+*/%<>&|^~-])",
    re.ASCII,
)
_WORDLIKE = ("name", "number", "text")
_JOINED = {(a, b) for a in _WORDLIKE for b in _WORDLIKE if "text" in (a, b)} | {("number", "name")}
_OPENS, _CLOSES = ("(", "[", "{"), (")", "]", "}")
_WORDS = {"and", "or", "not", "in", "is", "if", "else", "elif", "while", "return", "assert", "for", "del", "with"}
_BUILTINS = {
    *("Bool", "Complex", "Float", "Int", "abs", "all", "annotate", "any", "bool", "chr", "complex", "dict", "divmod"),
    *("enumerate", "float", "getattr", "hasattr", "int", "isinstance", "len", "list", "max", "min", "ord", "range"),
    *("reversed", "round", "sorted", "str", "sum", "tuple", "unchecked_cast", "uninitialized", "zip"),
}
_ROOTS = ("__torch__", "CONSTANTS")  # of the archive's own names

_INSTRUCTIONS = {
    *("PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "NEWOBJ", "BINPERSID", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINSTRING"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT"),
    *("SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
}
_OWN = re.compile(r"__torch__(?!\.torch\.classes\b)(\.\w+)*", re.ASCII)
_FUNCTIONS = re.compile(
    r"torch\._utils\._rebuild_(tensor_v2|qtensor|parameter)|torch\.\w+Storage|torch\.per_(tensor|channel)_\w+"
    r"|torch\.jit\._pickle\.(build_\w+list|build_tensor_from_id|restore_type_tag)|torch\.device|collections\.OrderedDict",
    re.ASCII,
)


_ODD = {"#": "has a comment", "\\": "has a backslash outside a text", '"': "has a text without end"}


@dataclass(frozen=True)
class _Token:
    kind: str  # a group of _TOKEN
    text: str
    line: int


@dataclass(frozen=True)
class _Line:
    """A line, with those that follow it within brackets."""

    indent: int
    tokens: Sequence[_Token]


def check(members: Mapping[str, bytes]) -> None:
    """Raises ImportFault for the first source or pickle that torch.jit.save would not have written."""
    sources = {name: _lines(name, data) for name, data in members.items() if name.endswith(".py")}
    methods = {"forward"}
    for lines in sources.values():
        methods |= {line.tokens[1].text for line in lines if line.tokens[0].text == "def" and len(line.tokens) > 1}
    for name, data in members.items():
        if name.endswith(".pkl"):
            _check_pickle(name, data)
    for name, lines in sources.items():
        if "__setstate__" in {token.text for line in lines for token in line.tokens}:
            raise ImportFault(f"its {name} has a __setstate__, which PyTorch calls as it loads; {_CURE}")
        _check_source(name, lines, methods)


def _fault(name: str, line: int, what: str) -> ImportFault:
    return ImportFault(f"its {name} {what} in line {line}, which torch.jit.save does not write; {_CURE}")


def _lines(name: str, data: bytes) -> Sequence[_Line]:
    """The source without blanks; a line that is empty is none."""
    text = data.decode("latin-1")  # a letter that is not of ASCII is no token
    found: list[_Line] = []
    tokens: list[_Token] = []
    place, number, depth, indent = 0, 1, 0, 0
    last = ""  # the kind of token that ends at `place`
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _fault(name, number, _ODD.get(text[place], f"has {text[place]!r}"))
        kind, word = match.lastgroup or "", match[0]
        if (last, kind) in _JOINED:
            raise _fault(name, number, f"has {word[:20]!r} joined to what is before it")
        if kind == "text" and tokens and tokens[-1].kind == "text":
            raise _fault(name, number, "has two texts side by side")
        if kind == "blank" and not tokens:
            indent = len(word)
        elif kind == "end" and depth == 0:
            found += [_Line(indent, tokens)] if tokens else []
            tokens, indent = [], 0
        elif kind not in ("blank", "end"):
            tokens.append(_Token(kind, word, number))
            depth += (word in _OPENS) - (word in _CLOSES)
            if depth < 0:
                raise _fault(name, number, f"has '{word}' without its bracket before")
        number += kind == "end"
        place, last = match.end(), kind
    return [*found, _Line(indent, tokens)] if tokens else found


def _check_source(name: str, lines: Sequence[_Line], methods: Set[str]) -> None:
    assigned = {
        token.text
        for line in lines
        for token, after in zip(line.tokens, line.tokens[1:], strict=False)
        if token.kind == "name" and after.text in ("=", ",", ":")
    }
    known = methods, _BUILTINS | assigned
    body: int | None = None  # the indent of the `def` whose body follows
    for line in lines:
        tokens = line.tokens
        if body is not None and line.indent <= body:
            body = None
        outside = 0  # tokens that are no part of a body
        if tokens[0].text in ("class", "def"):
            tokens = tokens[2:]  # its name, and then brackets, which call nothing
            outside = len(tokens) if line.tokens[0].text == "class" else _header(tokens)
            if body is None and line.tokens[0].text == "def":
                body = line.indent
        elif body is None:
            outside = len(tokens)
        for place in range(len(tokens)):
            _check_name(name, tokens, place)
            if _calls(tokens, place):
                if place < outside:
                    raise _fault(name, tokens[place].line, "calls a function outside of one")
                _check_call(name, tokens, place, *known)


def _header(tokens: Sequence[_Token]) -> int:
    """How many of a function's tokens belong to its parameters and its type: up to a colon outside brackets."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.text in _OPENS) - (token.text in _CLOSES)
        if depth == 0 and token.text == ":":
            return place + 1
    return len(tokens)


def _calls(tokens: Sequence[_Token], place: int) -> bool:
    """Whether this is a bracket that calls what is before it."""
    if place == 0 or tokens[place].text != "(":
        return False
    before = tokens[place - 1]
    return (
        before.kind in ("text", "number")
        or before.text in _CLOSES
        or (before.kind == "name" and before.text not in _WORDS)
    )


def _check_name(name: str, tokens: Sequence[_Token], place: int) -> None:
    """Names of PyTorch's ops, and of the archive's own classes."""
    token = tokens[place]
    if place and tokens[place - 1].text == ".":
        return
    if token.text in ("torch", "ops"):
        chain = [each.text for each in tokens[place : place + (4 if token.text == "torch" else 6)]]
        namespace, op = ("aten", chain[2:3]) if token.text == "torch" else ("".join(chain[2:3]), chain[4:5])
        if chain[1:2] != ["."] or (token.text == "ops" and chain[3:4] != ["."]) or not op:
            raise _fault(name, token.line, f"has '{token.text}' alone")
        if namespace not in ops.KNOWN:
            raise ImportFault(f"its {name} calls an op of {quoted(namespace)}, which is not PyTorch's own; remove it")
        if not ops.is_known(namespace, op[0]):
            what = f"op {quoted(op[0])} of {namespace}"
            raise ImportFault(f"its {name} has the {what}, which is none of those that a model may have; remove it")
    if token.text == "__torch__" and "".join(each.text for each in tokens[place + 1 : place + 5]) == ".torch.classes":
        raise ImportFault(f"its {name} has an object of torch.classes; only tensors are read: remove it")


def _check_call(name: str, tokens: Sequence[_Token], place: int, methods: Set[str], functions: Set[str]) -> None:
    """What a bracket calls: an op, a function or a method of the archive, or one of TorchScript's functions."""
    called = tokens[place - 1]
    if called.kind != "name":
        return  # a value, which got a name or is computed: what it is was checked where it is named
    head = place - 1
    while head >= 2 and tokens[head - 1].text == "." and tokens[head - 2].kind == "name":
        head -= 2
    if tokens[head].text in ("torch", "ops", *_ROOTS) and (head == 0 or tokens[head - 1].text != "."):
        return
    if head < place - 1 or (head > 0 and tokens[head - 1].text == "."):
        if called.text not in methods:
            raise _fault(name, called.line, f"calls {quoted(called.text)} of a value, which it does not define,")
    elif called.text not in functions:
        raise _fault(name, called.line, f"calls {quoted(called.text)}, which is nothing of its own,")
    if called.text == "getattr":
        _check_getattr(name, tokens, place)


def _check_getattr(name: str, tokens: Sequence[_Token], place: int) -> None:
    """Its second argument is a text that cannot follow a dot, and its last."""
    depth = 0
    for each in range(place, len(tokens)):
        depth += (tokens[each].text in _OPENS) - (tokens[each].text in _CLOSES)
        if depth == 1 and tokens[each].text == ",":
            text, after = tokens[each + 1 : each + 3] if len(tokens) > each + 2 else (tokens[each], tokens[each])
            field = text.text[1:-1]
            plain = re.fullmatch(r"[A-Za-z_]\w*", field, re.ASCII) and not keyword.iskeyword(field)
            if text.kind == "text" and after.text == ")" and "\\" not in field and not plain:
                return
            break
    raise _fault(name, tokens[place].line, "calls getattr for what a dot gives")


def _check_pickle(name: str, data: bytes) -> None:
    try:
        for instruction, argument, _ in pickletools.genops(data):
            if instruction.name not in _INSTRUCTIONS:
                raise ImportFault(
                    f"its {name} has the instruction {instruction.name}, which torch.jit.save never writes"
                )
            if instruction.name == "GLOBAL":
                asked = str(argument).replace(" ", ".")
                if "torch.classes" in asked:
                    what = quoted(asked.removeprefix("__torch__."))
                    raise ImportFault(f"its {name} has an object of {what}; only tensors are read: remove it")
                if not _OWN.fullmatch(asked) and not _FUNCTIONS.fullmatch(asked):
                    raise ImportFault(f"its {name} asks for {quoted(asked)}, which is no part of a model; {_CURE}")
    except (ValueError, UnicodeDecodeError, IndexError) as error:
        raise ImportFault(f"its {name} is damaged; save the module again") from error
