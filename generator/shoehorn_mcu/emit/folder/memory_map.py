"""The memory map as a picture of text: where each tensor is in the arena, and during which ops."""

from __future__ import annotations

from collections.abc import Iterator

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.planner.memory_plan import Placement

_COLUMNS = 48  # of an arena


def memory_map(unit: Unit) -> list[str]:
    """Comment lines: for each arena a bar of it per tensor, the tensors in the order of the ops that write them."""
    lines = []
    for memory, arena in unit.arenas.items():
        size = arena.bytes
        where = "The arena" if len(unit.arenas) == 1 else f"The arena in {memory}"
        lines += [
            f"// {where} has {size} bytes; a column of the picture is {-(-size // _COLUMNS)} bytes. A tensor has its",
            "// bytes from the op that writes it to the last op that reads it. Where ops run row by row, tensors of",
            "// neighbouring ops share bytes: a row is overwritten when it has been read for the last time.",
            "//",
            *_bars(unit, memory, size),
            "//",
        ]
    return lines[:-1]


def _bars(unit: Unit, memory: str, size: int) -> Iterator[str]:
    """A line for each tensor, and for the working memory of each op, in one arena."""
    listed: list[tuple[int, int, str, str]] = []
    for tensor, placements in unit.editions.items():
        spans = [span for p in placements for span in _spans(p, memory)]
        first, last = _ops(unit, tensor)
        if spans:
            listed.append((first, last, _bar(spans, size), f"t{unit.number[tensor]} {c.quoted(tensor)}"))
    index = {stage.name: stage.index for stage in unit.stages}
    for each in unit.plan.scratch:
        if each.memory == memory:
            bar = _bar([(each.address, each.address + each.bytes)], size)
            listed.append((index[each.op], index[each.op], bar, "working memory"))
    ops = [_when(first, last, len(unit.stages)) for first, last, *_ in listed]
    width = max(map(len, ops), default=0)
    for when, (_, _, bar, name) in sorted(zip(ops, listed, strict=True), key=lambda each: each[1][:2]):
        yield c.comment(f"  |{bar}| {when:<{width}}  {name}")


def _when(first: int, last: int, count: int) -> str:
    """The ops during which a tensor is there: before the first op, an input is; behind the last one, an output is."""
    begin, end = "input" if first < 0 else f"op {first}", "output" if last >= count else f"op {last}"
    return begin if begin == end else f"{begin} to {end}"


def _ops(unit: Unit, tensor: str) -> tuple[int, int]:
    """The first and the last op that use a tensor."""
    writers = [stage.index for stage in unit.stages if stage.node.output.name == tensor]
    readers = [stage.index for stage in unit.stages if tensor in {name for name, _ in stage.reads}]
    readers += [s.index for s in unit.stages if any(p.tensor == tensor for ps in s.shared.values() for p in ps)]
    first = min(writers, default=-1) if tensor not in unit.graph.sources else -1
    last = max((*readers, *writers), default=first)
    return first, len(unit.stages) if tensor in unit.graph.results else last


def _spans(placement: Placement, memory: str) -> Iterator[tuple[int, int]]:
    """The bytes of an arena in which a tensor's rows are."""
    if not placement.slots and placement.memory == memory:
        yield placement.address, placement.address + placement.bytes
        return
    for y in range(placement.rows if placement.slots else 0):
        if placement.memory_of(y) == memory:
            yield placement.at(y), placement.at(y) + placement.row_bytes


def _bar(spans: list[tuple[int, int]], size: int) -> str:
    """The arena as a line of characters, `#` where one of the spans is."""
    shown = [" "] * _COLUMNS
    for first, end in spans:
        left = first * _COLUMNS // max(1, size)
        right = max(left + 1, -(-end * _COLUMNS // max(1, size)))
        shown[left : min(right, _COLUMNS)] = "#" * (min(right, _COLUMNS) - left)
    return "".join(shown)
