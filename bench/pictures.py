"""Draws the pictures of docs/how-it-works.md from plans of small problems that the planner makes, and checks.

    python -m bench.pictures [--out FOLDER]

FOLDER is docs. Each picture has a panel of its own, so that it looks the same on light and dark pages.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from shoehorn_mcu.planner import Goal, make_plan
from shoehorn_mcu.planner.memory_plan import Plan
from shoehorn_mcu.planner.problem import OpSpec, Problem, Read, TensorSpec

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAPER, INK, FAINT = "#ffffff", "#26323f", "#8a97a5"
COLOURS = ("#f0b429", "#3b82c4", "#3fa37c", "#c2410c", "#8b5fbf", "#6b7280")
WIDTH, MARGIN = 860, 24
BEFORE, AFTER = 0, 1 << 30


@dataclass(frozen=True)
class Box:
    """A row, or a whole tensor, in the arena: its bytes and the steps during which they are its own."""

    tensor: str
    address: int
    bytes: int
    first: int
    last: int
    again: bool  # its row was computed before


def window(y: int, size: int, stride: int, rows: int) -> tuple[int, ...]:
    """The input rows of output row y, with padding on both sides."""
    return tuple(r for r in range(y * stride - size // 2, y * stride - size // 2 + size) if 0 <= r < rows)


def conv(name: str, source: TensorSpec, rows: int, size: int = 3, macs: int = 1) -> OpSpec:
    """An op that reads `size` rows of its source for each of its rows."""
    reads = tuple(window(y, size, source.rows // rows, source.rows) for y in range(rows))
    return OpSpec(name, (Read(source.name, reads),), name, row_cost=macs, row_macs=macs)


def boxes(problem: Problem, plan: Plan) -> tuple[Sequence[Box], int]:
    """The rows in the arena at each time, and the number of steps. A time is the number of computed rows."""
    reads = {op.name: op.reads for op in problem.ops}
    writes = {op.name: op.writes for op in problem.ops}
    placed = {(p.tensor, p.edition): p for p in plan.placements}
    begun: dict[tuple[str, int], tuple[int, int, bool]] = {}  # the time, the address, whether it is computed again
    ended: dict[tuple[str, int], int] = {}
    made: list[Box] = []

    def close(key: tuple[str, int]) -> None:
        first, address, again = begun.pop(key)
        made.append(Box(key[0], address, problem.by_name[key[0]].row_bytes, first, ended.get(key, first), again))

    for name in problem.inputs:
        for y in range(problem.by_name[name].rows):
            begun[name, y] = BEFORE, placed[name, 0].at(y), False
    time, seen = 0, set[tuple[str, int]]()
    for step in plan.steps:
        editions = dict(step.editions)
        start, end = time, time + step.rows[1] - step.rows[0] - 1
        for y in range(*step.rows):
            for read in reads[step.op]:
                for row in read.rows[y]:
                    ended[read.tensor, row] = end
            key = writes[step.op], y
            if key in begun:
                close(key)
            begun[key] = start, placed[key[0], editions.get(key[0], 0)].at(y), key in seen
            ended[key] = end
            seen.add(key)
            time += 1
    for key in list(begun):
        ended[key] = time - 1 if key[0] in problem.outputs else ended.get(key, time - 1)
        close(key)
    return made, time


def text(
    x: float, y: float, words: str, size: int = 13, colour: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    """A line of text."""
    weight = ' font-weight="600"' if bold else ""
    how = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}'
    return f'<text x="{x:g}" y="{y:g}" {how}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, edge: str = PAPER) -> str:
    """A rectangle."""
    size = f'width="{width:.2f}" height="{height:.2f}"'
    line = f'stroke="{edge}" stroke-width="{0.8 if height > 3 else 0.3}"'
    return f'<rect x="{x:.2f}" y="{y:.2f}" {size} fill="{fill}" {line}/>'


def arena(
    problem: Problem,
    plan: Plan,
    colours: Mapping[str, str],
    title: str,
    place: tuple[float, float, float, float],
    most: int,
) -> Iterator[str]:
    """A plan as a picture: time to the right, addresses upwards; `most` bytes fill the height of the place."""
    x, y, width, height = place
    found, count = boxes(problem, plan)
    step, unit = width / count, height / most
    top = y + height - plan.arena_bytes * unit
    yield text(x, y - 12, title, 14, bold=True)
    yield rect(x, top, width, plan.arena_bytes * unit, "#eef1f4", FAINT)
    for box in found:
        left, bottom = x + box.first * step, y + height - box.address * unit
        shape = left, bottom - box.bytes * unit, (box.last - box.first + 1) * step, box.bytes * unit
        yield rect(*shape, colours[box.tensor])
        if box.again:
            yield rect(*shape, "url(#again)")
    yield text(x + width, top - 5, f"{plan.arena_bytes:,} bytes", 13, anchor="end", bold=True)
    yield text(x, y + height + 18, f"{count} rows computed, one after the other →", 12, FAINT)


def legend(entries: Sequence[tuple[str, str]], x: float, y: float) -> Iterator[str]:
    """A coloured square and a name for each entry, side by side."""
    for colour, words in entries:
        yield rect(x, y - 11, 13, 13, colour, FAINT)
        yield text(x + 19, y, words, 13)
        x += 34 + 7.2 * len(words)


def page(height: int, label: str, parts: Iterator[str]) -> str:
    """The picture as a file."""
    hatch = (
        '<defs><pattern id="again" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<line x1="0" y1="0" x2="0" y2="6" stroke="{INK}" stroke-width="2"/></pattern></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(label)}" font-family="Helvetica, Arial, sans-serif">'
    )
    board = f'<rect width="{WIDTH}" height="{height}" rx="10" fill="{PAPER}"/>'
    return "\n".join([head, hatch, board, *parts, "</svg>", ""])


def rows() -> str:
    """Rows in place of whole tensors: three convolutions of 3x3, the last one with a stride of 2."""
    image, first, second, out = (
        TensorSpec(name, count, size)
        for name, count, size in (("image", 16, 8), ("a", 16, 32), ("b", 16, 32), ("c", 8, 32))
    )
    ops = conv("a", image, 16), conv("b", first, 16), conv("c", second, 8)
    problem = Problem((image, first, second, out), ops, ("image",), ("c",))
    whole, small = make_plan(problem), make_plan(problem, Goal.SRAM)
    colours = dict(zip(("image", "a", "b", "c"), COLOURS, strict=False))
    width = (WIDTH - 3 * MARGIN) / 2

    def parts() -> Iterator[str]:
        place = MARGIN, 54.0, width, 260.0
        yield from arena(problem, whole, colours, "Whole tensors: one op after the other", place, whole.arena_bytes)
        place = 2 * MARGIN + width, 54.0, width, 260.0
        yield from arena(
            problem, small, colours, "Row by row: a row goes as soon as it is read", place, whole.arena_bytes
        )
        names = ("input", "convolution a", "convolution b", "convolution c, the output")
        yield from legend([*zip(COLOURS, names, strict=False)], MARGIN, 364)

    return page(384, "An arena over time, with whole tensors and row by row", parts())


def channels() -> str:
    """A block in bands and chunks: what of its inner tensor is in memory at one moment."""
    wide, high, narrow, inner, band, chunk = 56, 56, 24, 144, 2, 36
    whole = high * wide * inner
    by_rows = 3 * wide * inner
    piece, sums = (band + 2) * wide * chunk, band * wide * narrow * 4
    panels = (
        ("Whole tensors", high, inner, whole, "all rows, all channels"),
        ("Row by row", 3, inner, by_rows, "3 rows, all channels"),
        ("In bands and chunks", band + 2, chunk, piece, f"{band + 2} rows, {chunk} of {inner} channels"),
    )
    drawn, box, space = 14, 168.0, 108.0

    def parts() -> Iterator[str]:
        yield text(
            MARGIN,
            34,
            f"A block {wide}x{high}: {narrow} channels become {inner}, a depthwise 3x3, then {narrow} again",
            14,
            bold=True,
        )
        for number, (title, held, deep, size, words) in enumerate(panels):
            x, y = MARGIN + number * (box + space), 82.0
            yield text(x, y - 14, title, 13, bold=True)
            row, column = box / drawn, box / 12
            many = drawn if held == high else held
            for r in range(drawn):
                for c in range(12):
                    inside = (many == drawn or 5 <= r < 5 + many) and c < 12 * deep // inner
                    yield rect(x + c * column, y + r * row, column, row, COLOURS[1] if inside else "#eef1f4", "#c9d1d9")
            yield text(x, y + box + 20, words, 12)
            yield text(x, y + box + 38, f"{size:,} bytes of the widened tensor", 12, bold=True)
            if number == 2:
                yield text(x, y + box + 56, f"and {sums:,} of int32 sums", 12, bold=True)
        yield text(MARGIN, 82 + box + 62, "↓ rows of the map   → channels", 12, FAINT)
        words = (
            f"A band is {band} output rows. For each of {inner // chunk} chunks of channels: widen, filter, and",
            "add the chunk's share to the sums. After the last chunk the sums become int8; the next band begins.",
        )
        for number, line in enumerate(words):
            yield text(MARGIN, 82 + box + 94 + 18 * number, line, 13)

    return page(384, "A block's inner tensor: whole, by rows, and in bands and chunks of channels", parts())


def again() -> str:
    """Recomputed rows: a map that is read early and late is kept, or computed a second time."""
    tensors = [
        TensorSpec(n, r, b) for n, r, b in (("x", 12, 8), ("a", 12, 32), ("b", 12, 32), ("c", 12, 32), ("d", 12, 8))
    ]
    image, first = tensors[:2]
    everything = tuple(tuple(range(12)) for _ in range(12))
    same = tuple((y,) for y in range(12))
    ops = (
        conv("a", image, 12, 1, 1),
        conv("b", first, 12, 1, 4),
        OpSpec("c", (Read("b", everything),), "c", row_cost=40, row_macs=40),
        OpSpec("d", (Read("c", everything), Read("a", same)), "d", row_cost=40, row_macs=40),
    )
    problem = Problem(tuple(tensors), ops, ("x",), ("d",))
    kept, less = make_plan(problem, Goal.SRAM), make_plan(problem, Goal.SRAM, most_macs=None)
    colours = dict(zip("xabcd", COLOURS, strict=False))
    width = (WIDTH - 3 * MARGIN) / 2

    def parts() -> Iterator[str]:
        place = MARGIN, 54.0, width, 260.0
        yield from arena(problem, kept, colours, "Kept until its late reader", place, kept.arena_bytes)
        place = 2 * MARGIN + width, 54.0, width, 260.0
        yield from arena(problem, less, colours, "Computed again, shortly before", place, kept.arena_bytes)
        names = ("input", "a, which b and d read", "b", "c, of all rows of b", "d, the output")
        yield from legend([*zip(COLOURS, names, strict=False)], MARGIN, 364)
        yield from legend([("url(#again)", "computed a second time")], MARGIN, 388)

    return page(406, "An arena over time, with a map that is kept and with one that is computed again", parts())


PICTURES = {"how-rows.svg": rows, "how-channels.svg": channels, "how-again.svg": again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS)
    out = parser.parse_args().out
    for name, draw in PICTURES.items():
        (out / name).write_text(draw(), encoding="utf-8")
        print(out / name)


if __name__ == "__main__":
    main()
