"""The page of the zoo: rows of today, and the cells that an earlier page has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bench import zoo
from bench.zoo import page, written
from shoehorn_mcu.sweeps.axes import Status

BOARDS = ["one", "two"]


@pytest.fixture(autouse=True)
def _known_licences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest of the models is no part of the checkout: the page is tested with one licence that is made up."""
    monkeypatch.setattr(zoo, "licences", lambda: {"a.tflite": ("MIT", "https://example.com/a.tflite")})


def row(model: str, board: str, **fields: Any) -> Mapping[str, Any]:
    plain = {"status": Status.PLANNED, "kind": "", "arena_bytes": 2048, "vectors": None, "macs": 1234}
    return {**plain, "model_path": f"models/{model}", "board": board, **fields}


def text(rows: list[Mapping[str, Any]], before: str = "") -> str:
    return "\n".join(page(rows, BOARDS, before)) + "\n"


def test_a_page_is_read_as_it_was_written():
    refused = row("b.onnx", "two", status=Status.REFUSED, kind="does-not-fit", arena_bytes=None, macs=None)
    made = text([row("a.tflite", "one", arena_bytes=5222), row("a.tflite", "two", vectors=3), refused])

    cells, macs = written(made)
    assert cells == {("a.tflite", "one"): "5.1", ("a.tflite", "two"): "**2.0**", ("b.onnx", "two"): "too large"}
    assert macs == {"a.tflite": "1,234", "b.onnx": ""}
    assert text([], made) == made


def test_rows_replace_the_cells_of_the_page_and_others_stay():
    before = text([row("a.tflite", "one", arena_bytes=1024), row("a.tflite", "two"), row("c.onnx", "one")])

    after = text([row("a.tflite", "one", arena_bytes=3072), row("b.onnx", "two", status=Status.OPEN)], before)

    assert written(after)[0] == {("a.tflite", "one"): "3.0", ("a.tflite", "two"): "2.0", ("c.onnx", "one"): "2.0"}


def test_boards_that_are_no_longer_there_are_left_out():
    before = text([row("a.tflite", "one"), row("a.tflite", "two")])
    assert written("\n".join(page([], ["two"], before)))[0] == {("a.tflite", "two"): "2.0"}
