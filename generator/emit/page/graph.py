"""The graph as SVG: an op per line, in the order of the plan's ops, and a lane per tensor that is still read below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from shoehorn_mcu.emit.page.parts import middle
from shoehorn_mcu.ir import Graph, Op, Tensor

_LINE, _LANE, _LEFT, _DOT = 20, 14, 12, 4.5  # SVG units: height of a line, width of a lane, left of the first, radius
_TEXT = 440  # width of the text beside the lanes


@dataclass(frozen=True)
class Line:
    """A line of the drawing: an input or an op, its lane, and the lanes that what it reads comes from."""

    tensor: str  # that it writes
    op: Op | None  # None: an input or a state
    lane: int
    reads: tuple[int, ...]  # lanes, each once
    passing: tuple[int, ...]  # lanes of tensors that lines below read, and that are written above


def lines(graph: Graph) -> list[Line]:
    """The lines from the top to the bottom."""
    ops = {op.output: op for op in graph.ops}
    order = [*graph.sources, *ops]
    last = {name: i for i, each in enumerate(order) if each in ops for name in ops[each].inputs if name in order}
    lanes: dict[str, int] = {}  # of the tensors that lines below read
    found: list[Line] = []
    for i, name in enumerate(order):
        op = ops.get(name)
        read = {n: lanes[n] for n in (op.inputs if op else ()) if n in lanes}
        ended = [lane for n, lane in read.items() if last[n] == i]
        lanes = {n: lane for n, lane in lanes.items() if last[n] > i}
        free = (lane for lane in range(len(lanes) + 1) if lane not in lanes.values())
        lane = min(ended) if ended else next(free)
        found.append(Line(name, op, lane, tuple(dict.fromkeys(read.values())), tuple(sorted(lanes.values()))))
        if name in last:
            lanes[name] = lane
    return found


def drawing(graph: Graph) -> str:
    """The <svg>; a line's tip tells the types of what the op reads and writes."""
    drawn = lines(graph)
    width = _LEFT + _LANE * (1 + max((line.lane for line in drawn), default=0))
    height = _LINE * (len(drawn) + 1)
    marks = "".join(_marks(graph, line, i, width) for i, line in enumerate(drawn))
    paths = "".join(_paths(drawn))
    return (
        f'<svg class="graph" viewBox="0 0 {width + _TEXT} {height}" width="{width + _TEXT}" height="{height}" '
        f'role="img" aria-label="The graph: {len(graph.ops)} operators from top to bottom">{paths}{marks}</svg>'
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


def _marks(graph: Graph, line: Line, place: int, width: int) -> str:
    """The dot and the text of a line."""
    tensor = graph.tensors[line.tensor]
    kind = type(line.op).__name__ if line.op else "input"
    ends = " result" if line.tensor in graph.results else ""
    name = line.op.name if line.op else line.tensor
    said = f"{kind}  {middle(name)}  {tensor.type}{',' + ends if ends else ''}"
    return (
        f"<g><title>{escape(_tip(graph.tensors, line))}</title>"
        f'<circle cx="{_x(line.lane)}" cy="{_y(place)}" r="{_DOT}"{_class(line, ends)}/>'
        f'<text x="{width + 4}" y="{_y(place) + 4}">{escape(said)}</text></g>'
    )


def _class(line: Line, ends: str) -> str:
    return ' class="end-of-graph"' if ends or line.op is None else ""


def _tip(tensors: Mapping[str, Tensor], line: Line) -> str:
    """What the op reads and writes, a tensor per line."""
    read = [tensors[name] for name in line.op.inputs] if line.op else []
    return "\n".join([*(f"reads {_told(t)}" for t in read), f"writes {_told(tensors[line.tensor])}"])


def _told(tensor: Tensor) -> str:
    quant = tensor.type.quant
    if quant is None:
        scale = ""
    elif len(quant.scales) == 1:
        scale = f", scale {quant.scale:.6g}, zero point {quant.zero_points[0]}"
    else:
        scale = f", {len(quant.scales)} scales from {min(quant.scales):.4g} to {max(quant.scales):.4g}"
    return f"{'constant ' if tensor.data is not None else ''}{tensor.name}: {tensor.type}{scale}"
