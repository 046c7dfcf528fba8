"""Figures, facts and constants of all kernels and ops are those of the tables figures_*.json."""

from __future__ import annotations

import json

import pytest
from figures import SECONDS, TABLES, path

from shoehorn_mcu.planner.effort import BUDGET

pytestmark = pytest.mark.usefixtures("module_in_one_process")


@pytest.mark.usefixtures("full_placement")
@pytest.mark.parametrize("table", TABLES)
def test_no_figure_changes_unnoticed(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a change is meant, `python -m tests.figures --write` writes the tables anew."""
    for name in ("LEAST_SECONDS", "MOST_SECONDS"):
        monkeypatch.setattr(BUDGET, name, SECONDS)  # as where the tables are written
    before, now = json.loads(path(table).read_text()), TABLES[table]()

    assert [(key, before.get(key), now.get(key)) for key in before | now if before.get(key) != now.get(key)] == []
