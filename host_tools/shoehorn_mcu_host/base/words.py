"""Numbers of things in words."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "", form: str = "") -> str:
    """`1 row`, `2 rows`: the number in this format and the word; `several` where its plural has more than an s."""
    return f"{number:{form}} {one if number == 1 else several or f'{one}s'}"
