"""Files of runtime_c: those that a text includes, and those that these include in turn."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.bundle import Bundle

_INCLUDED = re.compile(rb'^[ ]*#include "(.*)"$', re.MULTILINE)


def included(text: bytes) -> Iterator[str]:
    """What a C file includes, as it is written there."""
    return (match.decode() for match in _INCLUDED.findall(text))


def with_included(paths: Iterable[str]) -> Bundle:
    """These files and all that they include, by path below runtime_c."""
    found: dict[str, bytes] = {}
    left = list(paths)
    while left:
        path = left.pop()
        if path not in found:
            found[path] = (RUNTIME_C / path).read_bytes()
            left += [posixpath.normpath(posixpath.join(posixpath.dirname(path), p)) for p in included(found[path])]
    return dict(sorted(found.items()))
