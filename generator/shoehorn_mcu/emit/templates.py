"""Templates: files with values in place of the placeholders @NAME@."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu.emit.bundle import Bundle


class TemplateError(ShoehornError):
    """A template has a placeholder that gets no value, or a board has no template files for the request."""


def fill(template: Path, values: Mapping[str, object]) -> bytes:
    """The template with each @NAME@ replaced; TemplateError names a placeholder that has no value."""
    text = template.read_text()

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise TemplateError(f"{template}: @{found[1]}@ has no value; known are {', '.join(sorted(values))}")
        return str(values[found[1]])

    return re.sub(r"@([A-Z][A-Z0-9_]*)@", value, text).encode()


def filled(name: str, values: Mapping[str, object]) -> Bundle:
    """The templates of a folder of firmware_templates, by path below it, without `.in`."""
    folder = FIRMWARE_TEMPLATES / name
    paths = sorted(folder.rglob("*.in"))
    return {path.relative_to(folder).as_posix().removesuffix(".in"): fill(path, values) for path in paths}
