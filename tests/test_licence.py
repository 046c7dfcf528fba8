"""Every file has a licence, and what a product ships has one that asks for nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from test_package import ROOT, tracked

from shoehorn_mcu.emit.c import SPDX

TRAVELS_ALONE = {".c", ".h", ".inc", ".S", ".py", ".ld", ".in", ".ini", ".txt", ".yml", ".properties", ".md", ".cmake"}
"""Suffixes of files with comments, of which the first line says the licence wherever the file is copied to."""


def unmarked(folder: Path, paths: list[Path]) -> list[str]:
    """Files that can have comments and do not name the licence in their first three lines (page: after its doctype)."""
    suspects = [path for path in paths if path.suffix in TRAVELS_ALONE | {".html"}]
    assert suspects
    heads = {path: path.read_text().split("\n", 4)[:4] for path in suspects}
    return [str(path.relative_to(folder)) for path, head in heads.items() if not any(SPDX in line for line in head)]


def test_reuse_lint_passes(tmp_path: Path):
    for path in tracked():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    command = [sys.executable, "-m", "reuse", "--root", str(tmp_path), "lint", "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    said = json.loads(result.stdout)

    assert result.returncode == 0, said["non_compliant"]
    assert {name["spdx_expressions"][0]["value"] if name["spdx_expressions"] else None for name in said["files"]} == {
        "Apache-2.0",
        "0BSD",
        "CC-BY-4.0",
    }


@pytest.mark.parametrize("folder", ["runtime_c", "firmware_templates"])
def test_each_template_names_its_licence_itself(folder: str):
    assert unmarked(ROOT, [path for path in tracked() if path.is_relative_to(ROOT / folder)]) == []


def test_each_written_file_names_its_licence(digits_project: Path):
    assert unmarked(digits_project, sorted(p for p in digits_project.rglob("*") if p.is_file())) == []
    manifest = json.loads((digits_project / "lib" / "digits" / "library.json").read_text())
    assert manifest["license"] == "0BSD"


def test_the_package_says_both_licences():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["license"] == "Apache-2.0 AND 0BSD"
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "LICENSES" / "Apache-2.0.txt").read_bytes()
