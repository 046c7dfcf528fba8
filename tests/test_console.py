"""Tables on terminals of any width: columns give way, are left out or become words; no figure is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Gen

from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.cli import console

DIGITS = SHIPPED / "digits.tflite"
WIDTHS = (24, 40, 60, 72, 80, 86, 87, 100, 120)


def words(printed: str) -> list[str]:
    """Words in order, without the commas behind them."""
    return [word.rstrip(",") for word in printed.split()]


def stand_in_order(wanted: list[str], found: list[str]) -> bool:
    """Whether all of these words are there, one after another, whatever stands between them."""
    rest = iter(found)
    return all(word in rest for word in wanted)


def clocks_of(board: dict[str, Any]) -> list[int]:
    """The core's, where it is known, and the timer's."""
    return [hz for hz in (board["core_hz"], board["clock"]["hz"]) if hz is not None]


@pytest.mark.parametrize("width", WIDTHS)
def test_boards_shows_every_figure_whole(width: int, gen: Gen, monkeypatch: pytest.MonkeyPatch):
    listed = json.loads(gen("boards", "--json").stdout)["boards"]
    monkeypatch.setattr(console.out, "width", width)
    printed = gen("boards").stdout

    assert max(map(len, printed.splitlines())) <= width
    for board in listed:
        sram = board["sram_bytes"] // 1024
        clocks = [f"{hz // 10**9} GHz" if hz >= 10**9 else f"{hz / 1e6:g} MHz" for hz in clocks_of(board)]
        figures = [f"{sram}K" if sram < 1024 else f"{sram // 1024}M", *" ".join(clocks).split()]
        wanted = [board["id"], board["cpu"], board["kernel_isas"][0], *figures]
        assert stand_in_order(wanted, words(printed)), board["id"]


def test_names_of_boards_are_left_out_before_rows_become_words(gen: Gen, monkeypatch: pytest.MonkeyPatch):
    def shown(width: int) -> tuple[bool, bool]:
        monkeypatch.setattr(console.out, "width", width)
        printed = gen("boards").stdout
        return printed.splitlines()[1].split()[:2] == ["board", "cpu"], "micro:bit" in words(printed)

    assert [shown(width) for width in (120, 80, 60)] == [(True, True), (True, False), (False, True)]


@pytest.mark.parametrize("width", [24, 80])
def test_a_plan_and_its_curve_show_every_figure_whole(
    gen: Gen, stacked: Path, monkeypatch: pytest.MonkeyPatch, width: int
):
    options = ("plan", stacked, "--sram", "1000", "--pareto")
    report = json.loads(gen(*options, "--json").stdout)
    monkeypatch.setattr(console.out, "width", width)
    printed = gen(*options).stdout

    for op in report["ops"]:
        if op["weight_bytes"] and "/" not in op["name"]:
            assert stand_in_order([op["name"], f"{op['macs']:,}", f"{op['weight_bytes']:,}"], words(printed))
    for point in report["pareto"]:
        time = "predicted_instructions" if point["predicted_cycles"] is None else "predicted_cycles"
        figures = [point[name] for name in ("arena_bytes", time, "steps", "macs")]
        assert stand_in_order([f"{figure:,}" for figure in figures], words(printed))


def test_what_is_longer_than_the_terminal_goes_on_in_the_next_line(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(console.out, "width", 20)
    rows = [("short", "a name [of] :many: words", "1,234,567"), ("a-name-longer-than-the-terminal", "", "8")]
    console.print_table(("thing", "other", "bytes"), rows, title="all things", right=[2])
    lines = capsys.readouterr().out.splitlines()

    assert lines == [
        "all things",
        "thing short, other a",
        "  name [of] :many:",
        "  words,",
        "  bytes 1,234,567",
        "thing a-name-longer-",
        "  than-the-terminal,",
        "  bytes 8",
    ]
