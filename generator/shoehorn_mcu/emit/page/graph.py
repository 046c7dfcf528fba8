"""The graph as SVG: an op per line, in the order of the plan's ops, and a lane per tensor that is still read below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from shoehorn_mcu.emit.page.parts import middle
from shoehorn_mcu.ir import Graph, Tensor

_LINE, _LANE, _LEFT, _DOT = 20, 14, 12, 4.5  # SVG units: height of a line, width of a lane, left of the first, radius
_TEXT = 440  # width of the text beside the lanes
END, FAULT = "end-of-graph", "refused"
"""Marks of items: an input or a result, and an op that cannot run."""


@dataclass(frozen=True)
class Item:
    """An input or an op to be drawn: names of the tensors that it reads and writes, and its texts."""

    writes: tuple[str, ...]
    reads: tuple[str, ...]  # of those that no item writes none is drawn
    text: str
    tip: str
    mark: str = ""  # a CSS class


@dataclass(frozen=True)
class Line:
    """A line of the drawing: an item, its lane, and the lanes that what it reads comes from."""

    item: Item
    lane: int
    reads: tuple[int, ...]  # lanes, each once
    passing: tuple[int, ...]  # lanes of tensors that lines below read, and that are written above


def lines(items: Sequence[Item]) -> list[Line]:
    """The lines from the top to the bottom."""
    last = {name: i for i, item in enumerate(items) for name in item.reads}
    lanes: dict[str, int] = {}  # of the tensors that lines below read
    found: list[Line] = []
    for i, item in enumerate(items):
        read = {n: lanes[n] for n in item.reads if n in lanes}
        lanes = {n: lane for n, lane in lanes.items() if last[n] > i}
        ended = [lane for lane in read.values() if lane not in lanes.values()]
        free = (lane for lane in range(len(lanes) + 1) if lane not in lanes.values())
        lane = min(ended) if ended else next(free)
        found.append(Line(item, lane, tuple(dict.fromkeys(read.values())), tuple(sorted(set(lanes.values())))))
        lanes |= {name: lane for name in item.writes if last.get(name, -1) > i}
    return found


def items_of(graph: Graph) -> list[Item]:
    """The inputs and states of a graph, then its ops in their order; a tip tells what they read and write."""
    tensors = graph.tensors

    def item(name: str, kind: str, shown: str, reads: Sequence[str]) -> Item:
        result = name in graph.results
        text = f"{kind}  {middle(shown)}  {tensors[name].type}{', result' if result else ''}"
        tip = "\n".join([*(f"reads {_told(tensors[n])}" for n in reads), f"writes {_told(tensors[name])}"])
        return Item((name,), tuple(reads), text, tip, END if result or kind == "input" else "")

    inputs = [item(name, "input", name, ()) for name in graph.sources]
    return [*inputs, *(item(op.output, type(op).__name__, op.name, op.inputs) for op in graph.ops)]


def drawing(items: Sequence[Item], ops: int) -> str:
    """The <svg> of these items, of which so many are operators."""
    drawn = lines(items)
    width = _LEFT + _LANE * (1 + max((line.lane for line in drawn), default=0))
    height = _LINE * (len(drawn) + 1)
    marks = "".join(_marks(line, i, width) for i, line in enumerate(drawn))
    paths = "".join(_paths(drawn))
    return (
        f'<svg class="graph" viewBox="0 0 {width + _TEXT} {height}" width="{width + _TEXT}" height="{height}" '
        f'role="img" aria-label="The graph: {ops} operators from top to bottom">{paths}{marks}</svg>'
    )


def _x(lane: int) -> int:
    return _LEFT + lane * _LANE


def _y(line: int) -> int:
    return _LINE * line + _LINE


def _paths(drawn: list[Line]) -> Iterator[str]:
    """The lanes between each line and the one above it."""
    for i, line in enumerate(drawn[1:], 1):
        above, here = _y(i - 1), _y(i)
        for lane in line.passing:
            yield f'<path d="M{_x(lane)} {above}V{here}"/>'
        for lane in line.reads:
            x, to = _x(lane), _x(line.lane)
            turn = f"C{x} {here - 4} {to} {above + 4} {to} {here}" if x != to else f"V{here}"
            yield f'<path d="M{x} {above}{turn}"/>'


def _marks(line: Line, place: int, width: int) -> str:
    """The dot and the text of a line."""
    mark = f' class="{line.item.mark}"' if line.item.mark else ""
    return (
        f"<g><title>{escape(line.item.tip)}</title>"
        f'<circle cx="{_x(line.lane)}" cy="{_y(place)}" r="{_DOT}"{mark}/>'
        f'<text x="{width + 4}" y="{_y(place) + 4}">{escape(line.item.text)}</text></g>'
    )


def _told(tensor: Tensor) -> str:
    quant = tensor.type.quant
    if quant is None:
        scale = ""
    elif len(quant.scales) == 1:
        scale = f", scale {quant.scale:.6g}, zero point {quant.zero_points[0]}"
    else:
        scale = f", {len(quant.scales)} scales from {min(quant.scales):.4g} to {max(quant.scales):.4g}"
    return f"{'constant ' if tensor.data is not None else ''}{tensor.name}: {tensor.type}{scale}"
