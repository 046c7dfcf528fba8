"""docs/misra.md tells every required finding of cppcheck's MISRA addon in a generated library."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from bench.misra import category, findings
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.firmware.build import alone
from shoehorn_mcu.firmware.settings import Options

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "misra.md").read_text()


def test_the_page_adds_up():
    rows = re.findall(r"^\| (\d+\.\d+) \| (\d+) \|", PAGE, re.M)
    (total,) = re.findall(r"^\| required \| \d+ \| (\d+) \|", PAGE, re.M)

    assert sum(int(count) for _, count in rows) == int(total)
    assert {category(rule) for rule, _ in rows} == {"required"}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="cppcheck is not installed")
def test_a_library_has_no_required_finding_that_the_page_does_not_tell(tmp_path: Path):
    told = {rule: int(count) for rule, count in re.findall(r"^\| (\d+\.\d+) \| (\d+) \|", PAGE, re.M)}
    _, files = alone(MODELS / "digits.tflite", Options(cpu="cortex-m4f"))
    write(files, tmp_path / "digits")
    found = Counter(rule for rule, _, _ in findings(tmp_path / "digits") if category(rule) != "advisory")

    assert found, "the addon ran"
    assert {rule: n for rule, n in found.items() if n > told.get(rule, 0)} == {}
