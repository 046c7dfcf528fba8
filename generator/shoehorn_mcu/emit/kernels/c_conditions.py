"""Decides conditions of the C preprocessor as far as the macros in them are known."""

from __future__ import annotations

import re
from collections.abc import Mapping

Unknown = str
"""A condition that the compiler decides: what is left of it, as C."""
_TOKENS = re.compile(r"\s*(&&|\|\||[=!<>]=|[<>!()&*/+-]|\w+)")
_ORDER = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("&",), ("+", "-"), ("*", "/"))


def decided(
    text: str, macros: Mapping[str, str], outside: frozenset[str], absent: frozenset[str] = frozenset()
) -> Unknown | int:
    """The value of a condition; where it depends on names of a compiler, or on `outside`, what is left of it.

    Known are the names that begin with SH_, those of `macros` and those of `absent`; what is not in `macros` is not
    defined.
    """
    return _Parser(_TOKENS.findall(text), macros, outside, absent).whole()


class _Parser:
    def __init__(
        self, tokens: list[str], macros: Mapping[str, str], outside: frozenset[str], absent: frozenset[str]
    ) -> None:
        self._tokens, self._macros, self._outside, self._absent = tokens, macros, outside, absent

    def whole(self) -> Unknown | int:
        value = self._binary(0)
        if self._tokens:
            raise ValueError(f"a condition does not end before {' '.join(self._tokens)}")
        return value

    def _binary(self, level: int) -> Unknown | int:
        if level == len(_ORDER):
            return self._single()
        value = self._binary(level + 1)
        while self._tokens and self._tokens[0] in _ORDER[level]:
            operator = self._tokens.pop(0)
            value = _combined(operator, value, self._binary(level + 1))
        return value

    def _single(self) -> Unknown | int:
        token = self._tokens.pop(0)
        if token == "!":
            value = self._single()
            return f"!{value}" if isinstance(value, str) else int(not value)
        if token == "(":
            value = self._binary(0)
            self._tokens.pop(0)
            return f"({value})" if isinstance(value, str) else value
        if token == "defined":
            bracket = self._tokens[0] == "("
            name = self._tokens.pop(1 if bracket else 0)
            del self._tokens[: 2 * bracket]
            return int(name in self._macros) if self._is_ours(name) else f"defined({name})"
        if token.isdigit():
            return int(token)
        if not self._is_ours(token):
            return token
        body = self._macros.get(token, "0")
        return decided(body, self._macros, self._outside, self._absent)

    def _is_ours(self, name: str) -> bool:
        known = name.startswith("SH_") or name in self._macros or name in self._absent
        return known and name not in self._outside


def _combined(operator: str, left: Unknown | int, right: Unknown | int) -> Unknown | int:
    if operator in ("&&", "||"):
        absorbing = operator == "||"
        for value, other in ((left, right), (right, left)):
            if isinstance(value, int):
                return (
                    int(absorbing) if bool(value) is absorbing else other if isinstance(other, str) else int(other != 0)
                )
    if isinstance(left, str) or isinstance(right, str):
        return f"{left} {operator} {right}"
    results = {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        ">": left > right,
        "<=": left <= right,
        ">=": left >= right,
        "&": left & right,
        "+": left + right,
        "-": left - right,
        "*": left * right,
    }
    return int(results[operator])
