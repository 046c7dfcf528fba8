"""What a package says of itself: the options of `--about`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit.templates import TemplateError

_EXTENSION = r"(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"


# By key: what a value matches, and what it is in words.
_KEYS: Mapping[str, tuple[str, str]] = {
    "vendor": (r"[A-Za-z0-9][A-Za-z0-9-]{1,31}", "2 to 32 letters, digits and hyphens"),
    "url": (r"https?://[!#-;=?-\[\]_a-z~]+", "the address of a web page, https://..."),
    "version": (
        rf"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-{_EXTENSION}(\.{_EXTENSION})*)?",
        "three numbers such as 1.0.2",
    ),
}


@dataclass(frozen=True)
class About:
    """Who publishes a package, where, and in which version."""

    vendor: str = "Shoehorn"
    url: str = "https://pypi.org/project/shoehorn-mcu/"
    version: str = __version__

    @classmethod
    def of(cls, pairs: Iterable[str]) -> About:
        """The defaults with those of `pairs`, each `key=value`, in place; TemplateError says which one is wrong."""
        made, given = cls(), set[str]()
        for pair in pairs:
            key, sign, value = pair.partition("=")
            shown = "".join(ch if ch.isprintable() else "?" for ch in pair)[:80]
            if key not in _KEYS or not sign:
                raise TemplateError(f"--about '{shown}': give one of {', '.join(f'{key}=...' for key in _KEYS)}")
            if key in given:
                raise TemplateError(f"--about '{shown}': {key} is given twice")
            pattern, words = _KEYS[key]
            if not re.fullmatch(pattern, value, re.ASCII):
                raise TemplateError(f"--about '{shown}': {key} is {words}")
            given.add(key)
            made = replace(made, **{key: value})
        return made
