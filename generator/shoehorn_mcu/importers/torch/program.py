"""Checks the JSON of a program of torch.export before PyTorch reads it.

torch.export.load (torch/_export/serde/serialize.py) takes more from that JSON than data: an op is the name of any
function that can be reached from `torch`, a symbolic size is a text that sympy evaluates as Python, and guards are
Python source. So ops must be those of `torch/ops.py`, sizes must be sums and products of symbols, and what the import
does not need is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from shoehorn_mcu.importers.content import FILE_LIMIT_BYTES
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.torch import ops

_AGAIN = "export it again with torch.export.save"
_OP = re.compile(
    r"torch\.ops\.(?P<space>aten|prims|quantized_decomposed)\.(?P<name>\w+)\.[A-Za-z]\w*"
    r"|torch\.ops\.higher_order\.(cond|wrap_with_set_grad_enabled|wrap_with_autocast|scan|map_impl|while_loop)"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_)"
    r"|math\.(ceil|floor|trunc|sqrt)"
    r"|torch\.sym_(int|float|max|min|not|ite|sum|sqrt)",
    re.ASCII,
)
_MOST_TEXT = 2000
_PLAIN = r"[a-z]{1,6}\d{0,4}"  # PyTorch counts up to the number of some symbols
_SYMBOL = rf"Symbol\('{_PLAIN}'(?:, [a-z]+=True)*\)"
_TOKEN = re.compile(
    rf"{_SYMBOL}|Pow\({_SYMBOL}, Integer\([2-4]\)\)|(?<!\w)\d{{1,19}}(?!\w)|[(),\s-]"
    r"|(?:Integer|Add|Mul|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv|ModularIndexing|Equality|Unequality"
    r"|StrictGreaterThan|GreaterThan|StrictLessThan|LessThan|And|Or|Not|true|false|int_oo|oo)\b"
)
_NEEDED = ("stack_trace",)  # of an op's metadata
_ARGUMENTS = ("as_operator", "as_custom_obj")


def checked(program: Any) -> Any:
    """The program without what the import does not need. Raises ImportFault."""
    if not isinstance(program, dict) or not isinstance(program.get("graph_module"), dict):
        raise ImportFault(f"its program is no graph; {_AGAIN}")
    for found in _dicts(program):
        _check(found)
    if not all(re.fullmatch(_PLAIN, name) for name in _named(program.get("range_constraints"))):
        raise ImportFault(f"a symbol of its sizes has no plain name; {_AGAIN}")
    return {**program, "guards_code": [], "graph_module": _bare(program["graph_module"])}


def _check(found: Mapping[str, Any]) -> None:
    """Raises ImportFault for one record of the program."""
    if "target" in found:
        target = found["target"]
        op = _OP.fullmatch(target) if isinstance(target, str) else None
        if op is None or (op["name"] and not ops.is_known(op["space"], op["name"])):
            name = repr(str(target)[:100])
            raise ImportFault(f"op {name} is none of those that a model may have; replace it, and {_AGAIN}")
    for name in _ARGUMENTS:
        if found.get(name) is not None:
            raise ImportFault(f"an op has an argument of kind {name.removeprefix('as_')}; {_AGAIN} of tensors only")
    if "expr_str" in found:
        text = found["expr_str"]
        if not isinstance(text, str) or len(text) > _MOST_TEXT or _TOKEN.sub("", text):
            raise ImportFault(f"the size {str(text)[:80]!r} is no sum or product of sizes; {_AGAIN}")


def _dicts(root: Any) -> Iterator[dict[str, Any]]:
    """All records, at any depth."""
    left = [root]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield each
            left += each.values()
        elif isinstance(each, list):
            left += each


def _named(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _bare(value: Any) -> Any:
    """The same with only the needed metadata of ops, at any depth of graphs."""
    if isinstance(value, list):
        return [_bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _bare(each) for key, each in value.items()}
    if "target" in made and isinstance(made.get("metadata"), dict):
        made["metadata"] = {key: made["metadata"][key] for key in _NEEDED if key in made["metadata"]}
    return made


def tensor_members(listed: Any, prefix: str) -> dict[str, int]:
    """The members that hold the listed tensors, each with the least bytes that it must have.

    Raises ImportFault for a tensor that is pickled, of no fixed size, or too large.
    """
    members: dict[str, int] = {}
    for name, said in _named(_named(listed).get("config")).items():
        path = _named(said).get("path_name")
        if not isinstance(path, str) or _named(said).get("use_pickle") is not False:
            raise ImportFault(f"tensor '{name}' is pickled, as it is no plain tensor; make it one, and {_AGAIN}")
        if not re.fullmatch(rf"{prefix}_\d+", path):
            raise ImportFault(f"'{name}' is an object that is no tensor; remove it, and {_AGAIN}")
        members[path] = max(members.get(path, 0), _least_bytes(name, _named(said)))
    return members


def _least_bytes(name: str, said: Mapping[str, Any]) -> int:
    """The bytes that a tensor of this size needs at least: one per element that its strides reach."""
    kind = _named(said.get("tensor_meta"))
    try:
        sizes, strides = ([each["as_int"] for each in kind[key]] for key in ("sizes", "strides"))
        offset = kind["storage_offset"]["as_int"]
    except (KeyError, TypeError):
        raise ImportFault(f"tensor '{name}' has no fixed size; {_AGAIN}") from None
    numbers = (*sizes, *strides, offset)
    if len(sizes) != len(strides) or not all(type(n) is int and 0 <= n < FILE_LIMIT_BYTES for n in numbers):
        raise ImportFault(f"tensor '{name}' has impossible sizes; {_AGAIN}")
    if math.prod(sizes) >= FILE_LIMIT_BYTES:
        raise ImportFault(f"tensor '{name}' has {math.prod(sizes):,} elements, which are too many; {_AGAIN}")
    return 0 if 0 in sizes else 1 + offset + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
