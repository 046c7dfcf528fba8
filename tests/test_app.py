"""The application as source: which files it has, what they include, and that no model's name gets in its way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compilers import HOST, WARNINGS
from conftest import Gen
from objects import compiled_all

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES, MODELS

APP = FIRMWARE_TEMPLATES / "app"
STEMS = sorted({path.stem for path in APP.glob("*.[ch]")})


def _uses(stem: str) -> set[str]:
    """The modules of the application that this one includes."""
    text = "".join(path.read_text() for path in APP.glob(f"{stem}.[ch]"))
    return {name for name in re.findall(r'#include "(\w+)\.h"', text) if name in STEMS} - {stem}


def test_no_module_includes_itself_through_others():
    reached = {stem: _uses(stem) for stem in STEMS}
    for _ in STEMS:
        reached = {stem: uses.union(*(reached[name] for name in uses)) for stem, uses in reached.items()}
    circles = [stem for stem, uses in reached.items() if stem in uses]

    assert circles == []


@pytest.mark.parametrize("name", [stem for stem in STEMS if not stem.startswith("sh_")])
def test_a_model_may_have_the_name_of_any_module(gen: Gen, name: str, tmp_path: Path):
    model, folder = tmp_path / f"{name}.tflite", tmp_path / "project"
    model.write_bytes((MODELS / "digits.tflite").read_bytes())
    assert gen("firmware", model, "--board", "native", "--out", folder).exit_code == 0
    (library,) = (path.name for path in (folder / "lib").iterdir() if path.name != "board")
    own = [f"-I{folder / place}" for place in ("src", "lib/board", f"lib/{library}/src")]
    sources = [*folder.glob("src/*.c"), *folder.glob("lib/*/src/*.c"), *folder.glob("lib/board/*.c")]

    compiled_all([*HOST, *WARNINGS, "-fsyntax-only", "-DSH_TRACE", *own], sources, tmp_path)
