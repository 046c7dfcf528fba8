"""plan.html: the rectangles are the plan's, the page loads nothing, and a browser draws it without a fault."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from conftest import Gen
from hypothesis import HealthCheck, given, settings
from nets import nets
from random_plans import few_tries
from shared import MODELS, needs_shared

from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit.page import START, page, parts
from shoehorn_mcu.emit.page.curve import Dot
from shoehorn_mcu.emit.page.graph import drawing, items_of, lines
from shoehorn_mcu.emit.page.picture import Picture, picture
from shoehorn_mcu.emit.page.sentence import _blocks, _kinds, sentence
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.planner.memory_plan import Scratch
from shoehorn_mcu.schedule import pareto, predict
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages
from tests import slim_nets

ROOT = Path(__file__).resolve().parents[1]
READER = Path(__file__).with_name("page_reader.js")
DIGITS = SHIPPED / "digits.tflite"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here to draw the page")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--window-size=1400,1250",
    "--virtual-time-budget=60000",
)


@cache
def planned(goal: Goal = Goal.SRAM, stream: bool = False) -> build.Planned:
    most = 2560 if goal is Goal.TIME else None  # whole tensors
    return build.plan_model(DIGITS, None, Options(sram_bytes=most, goal=goal, stream_input=stream))


def unit_of(graph: Graph, request: PlanRequest) -> Unit:
    """The graph with its plan, cut where that says so."""
    made = schedule(Cuts(graph, stages(graph)), request)
    return Unit("made", made.graph, made.stages, made.plan)


@cache
def tight(goal: Goal = Goal.SRAM) -> build.Planned:
    """The shipped model with blocks in bands and in chunks, and with MACs done again."""
    found = build.plan_model(DIGITS, None, Options(sram_bytes=1000, goal=goal, recompute_percent=100))
    assert any(cascade.chunks > 1 for cascade in found.unit.plan.cascades)
    return found


Span = tuple[int, int]


def overlaps(unit: Unit, seen: Picture) -> Iterator[tuple[int, str]]:
    """(Event, fault) for bytes with two owners where no kernel may overwrite its input; the problem tells which may."""
    problem = lower(unit.graph, unit.stages, None, unit.plan.streamed)
    makers = {op.writes: op for op in problem.ops}
    names = [owner.name for owner in seen.owners]
    bytes_of = [owner.row_bytes for owner in seen.owners]
    for time in range(max(1, seen.events)):
        alive = [r for r in seen.rectangles if r.first <= time <= r.last]
        alive.sort(key=lambda r: (r.address, r.first))
        shared = 0
        for a, b in pairwise(alive):
            if a.address + bytes_of[a.owner] <= b.address:
                continue
            shared += min(each.address + bytes_of[each.owner] for each in (a, b)) - b.address
            old, new = sorted((a, b), key=lambda r: r.first)
            op, gap = makers[names[new.owner]], old.address - new.address
            rows = [row for read in op.reads if read.tensor == op.in_place for row in read.rows[new.row]]
            allowed = gap == 0 and rows == [old.row] if op.behind is None else gap == op.behind and old.row in rows
            place = (problem.root(op.in_place or ""), old.last, new.first, old)
            if not allowed or place != (names[old.owner], time, time, new.over):
                yield time, "bytes shared"
        load = sum(bytes_of[r.owner] for r in alive) - shared
        if load > seen.peak_bytes or (time == seen.peak_event and load != seen.peak_bytes):
            yield time, f"{load} bytes are alive"


def faults(unit: Unit, seen: Picture) -> list[str]:
    """What is wrong with the picture, told from the planner's problem rather than from the stages."""
    found = [f"{fault} at {time}" for time, fault in overlaps(unit, seen)]
    problem = lower(unit.graph, unit.stages, None, unit.plan.streamed)
    spans: dict[tuple[str, int], list[Span]] = {}
    for r in seen.rectangles:
        spans.setdefault((seen.owners[r.owner].name, r.row), []).append((r.first, r.last))
    ops = {op.name: op for op in problem.ops}
    roots = {t.name: problem.root(t.name) for t in problem.tensors if problem.has_rows_of_root(t.name)}
    events = [(step, y) for step in unit.plan.steps for y in range(*step.rows)]
    for time, (step, y) in enumerate(events):
        if time not in [first for first, _ in spans[ops[step.op].writes, y]]:
            found.append(f"{ops[step.op].writes} {y} is not born at {time}")
        reads = [read for read in ops[step.op].reads if read.tensor in roots]
        needed = [(roots[read.tensor], row) for read in reads for row in read.rows[y]]
        for key in needed:
            latest = max(span for span in spans[key] if span[0] <= time)
            found += [f"{key} is not alive at {time}"] if latest[1] < time else []
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("goal", list(Goal))
def test_the_picture_of_the_shipped_model_is_its_plan(goal: Goal, stream: bool):
    unit = planned(goal, stream).unit
    seen = picture(unit)

    assert faults(unit, seen) == []
    assert seen.peak_bytes <= unit.plan.arena_bytes
    assert max(r.address + seen.owners[r.owner].row_bytes for r in seen.rectangles) <= unit.plan.arena_bytes
    assert len(seen.rectangles) == sum(owner.rows for owner in seen.owners)


@given(graph=nets())
@settings(max_examples=7, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_picture_of_any_plan_shares_no_byte_and_shows_each_row_that_is_read(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_tries(monkeypatch)
    for again in (0, None):
        unit = unit_of(graph, PlanRequest(Goal.SRAM, None, len(graph.inputs) == 1, again))

        assert faults(unit, picture(unit)) == []


@pytest.mark.parametrize("goal", list(Goal))
def test_the_picture_of_blocks_in_bands_shows_what_is_computed_again_and_what_is_overwritten(goal: Goal):
    unit = tight(goal).unit
    seen = picture(unit)
    rows = [(r.owner, r.row) for r in seen.rectangles]
    over = {(seen.owners[r.owner].name, seen.owners[r.over.owner].name) for r in seen.rectangles if r.over}

    assert faults(unit, seen) == []
    assert len(set(rows)) < len(rows) == sum(s.rows[1] - s.rows[0] for s in unit.plan.steps) + 8  # rows of the input
    assert any("/1of" in below and "/2of" in above for above, below in over)  # partial sums


def test_a_row_that_is_computed_again_is_drawn_twice():
    unit = planned(Goal.TIME).unit
    steps = unit.plan.steps
    again = replace(unit, plan=replace(unit.plan, steps=(steps[0], *steps)))

    rows = [r for r in picture(again).rectangles if picture(again).owners[r.owner].op == 0]
    assert [r.row for r in rows] == [*range(8), *range(8)]
    assert [(r.first, r.last) for r in rows[:8]] == [(y, y) for y in range(8)]  # nobody reads the first ones


def test_scratch_is_drawn_during_each_step_of_its_op():
    unit = planned().unit
    seen = picture(replace(unit, plan=replace(unit.plan, scratch=(Scratch("conv_2d_1", 64, 100),))))
    (place,) = (i for i, owner in enumerate(seen.owners) if owner.kind == "scratch")
    ends = list(accumulate(s.rows[1] - s.rows[0] for s in unit.plan.steps))
    spans = [(end - s.rows[1] + s.rows[0], end - 1) for s, end in zip(unit.plan.steps, ends, strict=True)]

    assert (seen.owners[place].name, seen.owners[place].row_bytes) == ("scratch of conv_2d_1", 100)
    assert [(r.address, r.first, r.last) for r in seen.rectangles if r.owner == place] == [
        (64, *span) for s, span in zip(unit.plan.steps, spans, strict=True) if s.op == "conv_2d_1"
    ]


def test_equal_plans_give_equal_pages_and_the_folder_holds_one(digits_project: Path):
    one, other = planned(), planned()

    assert page(one.unit, one.report) == page(other.unit, other.report)
    folder = (digits_project / "plan.html").read_text()
    assert folder.startswith(START) and "<h1>digits on native" in folder
    assert "plan.html" in json.loads((digits_project / ".shoehorn.json").read_text())["files"]


def cells(text: str, section: str) -> list[list[str]]:
    """The rows of the table in a section of the page, its head first."""
    part = text.split(f'<section id="{section}">')[1].split("</section>")[0]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", part)]


def test_the_page_begins_with_arena_sram_left_and_time():
    whole = build.plan_model(DIGITS, targets.board("microbit"), Options())
    text = page(whole.unit, whole.report)
    figures = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd><dd class=note>", text)
    board, time = targets.board("microbit"), predict.time(whole.unit.plan, whole.unit.stages)

    assert [name for name, _ in figures] == ["Arena", "SRAM left", "Time"]
    assert figures[0][1] == f"{whole.unit.plan.arena_bytes:,} bytes"
    assert figures[1][1] == f"{board.arena_limit_bytes - whole.unit.plan.arena_bytes:,} bytes"
    assert (time > 1e6, figures[2][1]) == (True, f"{time / 1e6:.2f} million")
    assert text.index("SRAM left") < text.index("Lower bound") < text.index('<canvas id="arena"')
    assert re.search(r"<dt>Flash</dt><dd>about [\d,]+ of 262,144 bytes: [\d,]+ of constants", text)


def test_the_first_sentence_says_what_the_plan_does():
    whole = build.plan_model(DIGITS, None, Options(sram_bytes=20_000))
    rows = build.plan_model(DIGITS, None, Options(sram_bytes=1_300))  # the peak is at a step's first row
    cut, streamed = tight(), build.plan_model(DIGITS, None, Options(stream_input=True, goal=Goal.SRAM))
    said = [sentence(each.unit, picture(each.unit)) for each in (whole, rows, cut, streamed)]
    op, place = _peak_of(rows)

    assert said[0].startswith("all 16 layers run whole, one after the other; the peak is layer ")
    assert (
        said[1] == f"{_by_rows(rows)} of 16 layers run row by row, the others whole; the peak is layer {place} ({op})"
    )
    assert re.search(r"; (1 block runs|\d blocks run) by chunks of channels; ", said[2])
    assert "rows of " in said[2] and "computed again" in said[2]
    assert re.search(r"the peak is (layer \d+ \(\w+\)|a row of the streamed input or output)$", said[3])
    assert f"<p class=lead>{said[1]}.</p>" in page(rows.unit, rows.report)
    assert page(whole.unit, whole.report).index("<p class=lead>All 16 layers") < page(whole.unit, whole.report).index(
        "Arena"
    )


def _by_rows(found: build.Planned) -> int:
    """The ops that are computed in several steps."""
    return sum(count > 1 for count in Counter(step.op for step in found.unit.plan.steps).values())


def _peak_of(found: build.Planned) -> tuple[str, int]:
    """The op that computes during the peak, and its place among the ops."""
    rows = [step.op for step in found.unit.plan.steps for _ in range(*step.rows)]
    op = rows[picture(found.unit).peak_event]
    return op, 1 + [stage.name for stage in found.unit.stages].index(op)


def test_passes_that_changed_nothing_are_folded():
    def record(name: str, *counts: int) -> dict[str, Any]:
        return {
            "name": name,
            **dict(zip(("ops_before", "ops_after", "macs_before", "macs_after"), counts, strict=True)),
        }

    ops, macs = record("fewer-ops", 1300, 12, 50, 50), record("fewer-macs", 12, 12, 50, 40)
    same, again = record("same", 12, 12, 40, 40), record("again", 12, 12, 40, 40)
    shown, _, folded = parts.passes({"passes": [same, ops, macs, again]}).partition("<details>")

    assert re.findall(r"<td class=word>(.*?)</td><td>(.*?)</td>", shown) == [
        ("fewer-ops", "1,300"),
        ("fewer-macs", "12"),
    ]
    assert "<summary>2 passes left the numbers of operators and MACs as they were</summary>same, again" in folded
    assert "<details>" not in parts.passes({"passes": [ops]}) and "<table>" not in parts.passes({"passes": [same]})


def test_a_time_below_a_million_is_a_plain_number():
    """0.09 million is 90,000."""
    whole = build.plan_model(DIGITS, targets.board("netduinoplus2"), Options())
    time = predict.time(whole.unit.plan, whole.unit.stages)

    assert time < 1e6
    assert f"<dd>{time:,}</dd><dd class=note>predicted cycles" in page(whole.unit, whole.report)


def test_no_browser_breaks_the_name_of_an_option():
    whole = build.plan_model(DIGITS, None, Options())
    text = page(whole.unit, whole.report)

    assert ".option { white-space: nowrap; }" in text
    assert "no board given; <span class=option>--board</span> says how much is left" in text
    assert "<span class=option>--minimize</span> sram tries other kinds" in text
    assert not re.search(r"(?<![>\w-])--(board|minimize|sram)\b", text)


def test_the_table_of_operators_adds_up_and_chunks_are_one_line():
    whole = tight()
    head, *lines = cells(page(whole.unit, whole.report), "ops")
    numbers = [[int(cell.replace(",", "")) for cell in line[3:6]] for line in lines]
    stages_ = whole.unit.stages

    assert head == [
        "Operator",
        "Kernel",
        "Output",
        "MACs",
        "Weights, bytes",
        predict.unit_of(stages_).value.capitalize(),
        "%",
    ]
    assert sum(macs for macs, _, _ in numbers) == sum(stage.macs for stage in stages_)
    assert sum(weights for _, weights, _ in numbers) == sum(stage.weight_bytes for stage in stages_)
    assert sum(count for *_, count in numbers) == pytest.approx(predict.time(whole.unit.plan, stages_), abs=20)
    assert any(re.search(r" x\d+$", line[0]) for line in lines) and len(lines) < len(stages_)


def test_plans_that_differ_by_under_one_percent_are_called_equally_fast():
    whole = planned()
    dots = [Dot(10, 2000, 3, 4, 0), Dot(20, 1009, 3, 4, 0), Dot(30, 1000, 3, 4, 0)]

    assert "The 2 plans from 20 to 30 bytes are equally fast" in page(whole.unit, whole.report, dots)
    assert "equally fast" not in page(whole.unit, whole.report, [*dots[:1], *dots[2:]])


def test_a_long_name_loses_its_middle():
    assert parts.middle("x" * 20 + "y" * 20, 21) == "x" * 10 + "…" + "y" * 10
    assert parts.middle("short", 21) == "short"


def test_the_page_loads_nothing():
    text = page(planned().unit, planned().report, [Dot(10, 20, 3, 4, 0)])

    assert re.findall(r"https?:|\bsrc\s*=|\bhref\s*=|url\(|@import|\bfetch\(|XMLHttp|\bimport\b", text) == []
    assert "default-src 'none'" in text
    assert len(text) < 65_000


def driven(text: str, folder: Path, script: str, address: str = "") -> Any:
    """Opens the page with a script of ours at its end, and gives what the script returns; a console message fails."""
    block = f"""<script>
    const result = document.createElement("pre");
    result.id = "result";
    (async () => {{
{script}
    }})().then((value) => {{
      result.textContent = JSON.stringify(value);
      document.body.append(result);
    }});
    </script></body>"""
    # Without a screen there may be no animation frames.
    frames = "<head><script>window.requestAnimationFrame = (draw) => setTimeout(draw, 1);</script>"
    (folder / "page.html").write_text(text.replace("<head>", frames).replace("</body>", block))
    dom = browse(f"{(folder / 'page.html').as_uri()}{address}", folder, "--dump-dom")
    found = re.search(r'<pre id="result">(.*?)</pre>', dom, re.S)
    assert found, dom[-2000:]
    return json.loads(html.unescape(found[1]))


def browse(url: str, folder: Path, *flags: str) -> str:
    """Headless Chromium, with a profile of its own, once; gives what it writes on stdout."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


@needs_chromium
def test_a_browser_draws_the_page_searches_zooms_and_tells_what_each_rectangle_is(tmp_path: Path):
    whole = planned()
    seen = picture(whole.unit)
    said = driven(page(whole.unit, whole.report), tmp_path, READER.read_text(), "#theme=light")

    assert (said["ready"], said["fault"], said["end"]) == ("yes", True, True)
    assert said["colours"] > 50
    assert said["all"] == said["cleared"] == said["back"] == said["rows again"]
    assert len({said[name] for name in ("all", "searched", "closer", "moved", "dark", "timed")}) == 6
    assert said["pressed"] == ["false", "true", "false"]
    first, both, softmax, none, expand, empty, *_ = said["count"]
    by_op = [[s for s in whole.unit.plan.steps if s.op == name] for name in ("conv_2d_8", "conv_2d_5")]
    assert first == f"1 tensor, {len(by_op[0])} steps"
    assert both == none == "0 tensors, 0 steps"
    assert softmax == "1 tensor, 1 step"
    assert expand == f"1 tensor, {len(by_op[1])} steps"
    assert empty == ""
    peak = bisect_right(list(accumulate(s.rows[1] - s.rows[0] for s in whole.unit.plan.steps)), seen.peak_event)
    assert said["steps"] == [[f"step-{n}"] for n in (peak, peak + 1, len(whole.unit.plan.steps) - 1)]
    assert f"Step {peak}: {whole.unit.plan.steps[peak].op}" in said["detail"]
    assert f"{seen.peak_bytes:,} bytes are live" in said["detail"]
    assert 0 < said["rows"] < len(whole.unit.plan.steps)
    assert "block3_expand\nint8[1x4x4x64], row 0 of 4\n256 bytes at" in "\n".join(said["hits"])
    assert {owner.name for owner in seen.owners if owner.name in "\n".join(said["hits"])} >= {"image", "stem"}


@needs_chromium
def test_a_browser_lists_blocks_and_tells_bands_chunks_rows_computed_again_and_rows_overwritten(tmp_path: Path):
    whole = tight(Goal.TIME)
    plan = whole.unit.plan
    (block,) = plan.cascades
    own = [i for i, step in enumerate(plan.steps) if step.op in block.ops]
    bands = -(-whole.unit.placements["block3_project"].rows // block.band)
    said = driven(page(whole.unit, whole.report), tmp_path, READER.with_name("page_blocks.js").read_text())
    tips = "\n".join(said["tips"])
    step_of = [i for i, step in enumerate(plan.steps) for _ in range(*step.rows)]
    again = [(owner, step_of[event]) for owner, event in rows_again(picture(whole.unit))]

    assert (said["fault"], said["hatched"], said["pressed"]) == (True, False, "true")
    assert said["blocks"] == [
        f"block {block.block}{block.chunks} chunks, {bands} bands of {block.band} row" + "s" * (block.band > 1)
    ]
    assert (said["search"], said["cleared"]) == (f"block {block.block}", "")
    assert said["count"] == f"{len(block.ops)} tensors, {len(own)} steps"
    assert f"Step {own[-1]}: {block.ops[-1]} " in said["last"]
    assert f"in block {block.block}, band {bands} of {bands}." in said["last"]
    assert any(f"chunk {block.chunks} of {block.chunks}, band {bands} of {bands}" in row for row in said["rows"])
    assert said["again"] == f"{len({o for o, _ in again})} tensors, {len({s for _, s in again})} steps"
    assert "recomputed, 2nd of 2" in tips and "1st of 2 times" in tips
    assert re.search(r"in place: it overwrites row \d of block3_project/\dof\d", tips)
    assert re.search(r"overwritten there by row \d of block3_project/\dof\d", tips)


def rows_again(seen: Picture) -> Iterator[tuple[int, int]]:
    """(Owner, event) of each row that is not computed for the first time."""
    known = set()
    for r in seen.rectangles:
        if (r.owner, r.row) in known and seen.owners[r.owner].kind != "scratch":
            yield r.owner, r.first
        known.add((r.owner, r.row))


@needs_chromium
def test_a_hostile_name_is_text(tmp_path: Path):
    whole = planned(Goal.TIME)
    evil = "</script><img src=x onerror=alert(1)>@DATA@"
    graph = whole.unit.graph
    rings = tuple(replace(r, tensor=evil) if r.tensor == "stem" else r for r in whole.unit.plan.placements)
    shown = [replace(s, node=_renamed(s.node, evil)) for s in whole.unit.stages]
    named = {n: evil if n == "stem" else n for n in graph.tensors}
    tensors = {named[n]: t for n, t in graph.tensors.items()}
    ops = [replace(op, inputs=tuple(named[n] for n in op.inputs), output=named[op.output]) for op in graph.ops]
    unit = replace(
        whole.unit,
        graph=replace(graph, tensors=tensors, ops=tuple(ops)),
        stages=tuple(shown),
        plan=replace(whole.unit.plan, placements=rings),
    )
    text = page(unit, {**whole.report, "model": {**_model(whole), "name": evil}})

    assert "<img" not in text
    said = driven(text, tmp_path, "return [document.images.length, document.body.textContent.includes('<img src=x')]")
    assert said == [0, True]


def _model(whole: build.Planned) -> dict[str, object]:
    found = whole.report["model"]
    assert isinstance(found, dict)
    return found


def _renamed(node: Any, name: str) -> Any:
    """The node with the tensor `stem` called otherwise."""

    def other(tensor: Any) -> Any:
        return replace(tensor, name=name) if tensor.name == "stem" else tensor

    return replace(node, inputs=tuple(map(other, node.inputs)), output=other(node.output))


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_screenshot_is_not_blank(theme: str, digits_project: Path, tmp_path: Path):
    picture_file = tmp_path / "shot.png"
    url = f"{(digits_project / 'plan.html').as_uri()}#theme={theme}&search=conv"
    browse(url, tmp_path, f"--screenshot={picture_file}")
    data = picture_file.read_bytes()
    parts, at = b"", 8
    while at < len(data):  # the picture's data is the IDAT chunks together
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        parts += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size

    assert struct.unpack(">II", data[16:24]) == (1400, 1250)
    assert len(set(zlib.decompress(parts))) > 100  # a blank page has three or so


def test_gen_plan_writes_the_page_and_nothing_over_a_stranger_s_file(gen: Gen, tmp_path: Path):
    target = tmp_path / "plan.html"
    for _ in range(2):  # a page of ours may be replaced
        done = gen("plan", DIGITS, "--no-pareto", "--html", target)
        assert (done.exit_code, done.stderr) == (0, "")
        assert target.read_text().startswith(START) and f"wrote {target}" in done.stdout
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    for place, part in ((mine, "was not written by Shoehorn"), (tmp_path / "no" / "page.html", "cannot be written")):
        done = gen("plan", DIGITS, "--no-pareto", "--html", place)
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1) and part in done.stderr
    assert mine.read_text() == "mine"


def test_the_pareto_curve_goes_from_where_macs_are_computed_again_to_the_least_time(gen: Gen, tmp_path: Path):
    done = gen("plan", DIGITS, "--sram", "2000", "--pareto", "--html", tmp_path / "p.html", "--json")
    report = json.loads(done.stdout)
    points = report["pareto"]
    smallest, fastest = planned(Goal.SRAM).report["plan"], planned(Goal.TIME).report["plan"]
    once = [p["arena_bytes"] for p in points if not p["recomputed_macs"]]
    again = [p["arena_bytes"] for p in points if p["recomputed_macs"]]

    assert isinstance(smallest, dict) and isinstance(fastest, dict)
    assert (min(once), points[-1]["steps"]) == (smallest["arena_bytes"], fastest["steps"])
    assert again and max(again) < min(once)
    assert {p["macs"] - p["recomputed_macs"] for p in points} == {fastest["macs"]}
    for a, b in pairwise(points):
        time = "predicted_instructions" if a["predicted_cycles"] is None else "predicted_cycles"
        assert a["arena_bytes"] < b["arena_bytes"] and a[time] > b[time]
    text = (tmp_path / "p.html").read_text()
    _, _, curve = text.partition("</svg>")  # behind that of the graph
    assert curve.count("<circle cx") == len(points) >= 3
    places = [float(x) for x in re.findall(r'<circle cx="([^"]*)"', curve)]
    (width,) = {float(found) for found in re.findall(r'viewBox="0 0 (\d+) ', curve)}
    assert places == sorted(places) and 0 < places[0] < width / 2 < places[-1] < width
    labels = [int(x) for x in re.findall(r'<text x="(\d+)" y="\d+" class="mid">[\d,]+</text>', curve)]
    assert len(labels) > 1 and all(b - a > 50 for a, b in pairwise(labels)), labels  # none is printed over another
    assert text.count('<circle class="ring"') == text.count('<rect class="again"') == 1
    assert f"Below {min(once):,} bytes (shaded), MACs are recomputed." in text
    assert all(f"<td class=word>{p['arena_bytes']:,}</td>" in text for p in points)
    assert all(f"<td>{p['recomputed_macs']:,} (" in text for p in points if p["recomputed_macs"])
    basis = predict.ruler(planned(Goal.TIME).unit.stages)
    assert basis in text


def test_predictions_that_may_be_far_off_say_so(stacked: Path, tmp_path: Path):
    """The costs of a Cortex-A53 in cycles were 19 % off for a small float32 network."""
    onnx.save(slim_nets.tiny(), real := tmp_path / "float32.onnx")

    def told(model: Path, board: str) -> bool:
        found = build.plan_model(model, targets.board(board), Options()).unit.stages
        return "of float32 layers" in predict.ruler(found)

    assert told(real, "rpi-zero-2w") and not told(real, "netduinoplus2") and not told(stacked, "rpi-zero-2w")


def test_the_table_of_the_curve_says_how_time_is_predicted(gen: Gen, stacked: Path):
    basis = predict.ruler(build.plan_model(stacked, None, Options()).unit.stages)

    assert basis in gen("plan", stacked, "--pareto").stdout


def test_the_page_has_the_curve_unless_it_is_left_out_or_shows_no_choice(
    gen: Gen, stacked: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    page = tmp_path / "p.html"
    dots = []
    for close, words in ((1.0, ()), (1.0, ("--no-pareto",)), (100.0, ())):
        monkeypatch.setattr(pareto, "CLOSE", close)
        assert "pareto" not in json.loads(gen("plan", stacked, *words, "--html", page, "--json").stdout)
        _, _, behind_graph = page.read_text().partition("</svg>")
        dots.append(behind_graph.count("<circle cx"))

    assert dots[0] >= 3 and dots[1:] == [0, 0]


def test_a_curve_offers_a_choice_where_times_differ_by_more_than_a_percent():
    small, fast = (pareto.Point(size, 1, 1, 0, 1, cycles) for size, cycles in ((10, 1_010), (20, 1_000)))

    assert not pareto.offers_choice([small, fast]) and not pareto.offers_choice([])
    assert pareto.offers_choice([replace(small, predicted_cycles=1_011), fast])


def test_rows_computed_again_count_again():
    whole = planned(Goal.TIME).unit
    steps = whole.plan.steps
    made = Scheduled(whole.graph, whole.stages, whole.plan, lower(whole.graph, whole.stages, None))
    once = pareto.predicted(made)
    twice = pareto.predicted(replace(made, plan=replace(whole.plan, steps=(*steps, steps[1]))))

    assert (once.macs, once.recomputed_macs, twice.recomputed_macs) == (99_552, 0, whole.stages[1].macs)
    assert twice.macs == once.macs + twice.recomputed_macs
    again = whole.stages[1].row_cost * 8
    assert 0 < twice.time - once.time - again < 100  # a step, and roundings


def test_a_terminal_is_told_that_gen_is_planning_and_a_log_is_not():
    code = f"import sys; sys.argv = ['gen', 'plan', {str(DIGITS)!r}]; from shoehorn_mcu.__main__ import main; main()"
    here, there = os.openpty()
    terminal = {**os.environ, "TERM": "xterm"}
    shown = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=there, cwd=ROOT, env=terminal
    )
    os.close(there)
    said = b""
    with contextlib.suppress(OSError):  # what Linux says when the other end of a terminal is closed
        while part := os.read(here, 4096):
            said += part
    os.close(here)
    log = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True)

    assert shown.wait(60) == 0
    assert b"planning" in said
    assert log.stderr == b""


def test_the_page_s_options_go_with_a_model(gen: Gen, tmp_path: Path):
    for option in (("--html", tmp_path / "p.html"), ("--pareto",)):
        assert gen("plan", "--graph", "g.json", "--budget", "3", *option).exit_code == 2


@needs_shared
@pytest.mark.parametrize("model", ["mlperf-ic-resnet8-int8", "synth-randwire-ws-n32-c24-s11-int8"])
def test_the_drawn_graph_has_a_lane_of_its_own_for_each_tensor_that_is_read_below(model: str):
    graph = load(MODELS / f"{model}.tflite")
    drawn = lines(items_of(graph))
    lanes = {name: line.lane for line in drawn for name in line.item.writes}
    places = {name: place for place, line in enumerate(drawn) for name in line.item.writes}
    last = {name: places[op.output] for op in graph.ops for name in op.inputs if name in places}

    assert [line.item.writes for line in drawn] == [
        (name,) for name in (*graph.sources, *(op.output for op in graph.ops))
    ]
    for place, line in enumerate(drawn):
        live = [name for name in lanes if places[name] < place < last.get(name, -1)]
        assert sorted(lanes[name] for name in live) == list(line.passing)
        assert len({lanes[name] for name in live}) == len(live)
        assert line.lane not in line.passing
        assert {lanes[name] for name in line.item.reads if name in lanes} == set(line.reads)


def test_a_tip_of_the_drawn_graph_tells_what_is_read_and_written():
    graph = load(SHIPPED / "digits.tflite")
    svg = drawing(items_of(graph), len(graph.ops))

    assert "reads constant" in svg and "scales from" in svg and "zero point" in svg
    assert svg.count("<circle") == len(graph.ops) + 1


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ((), []),
        ((1,), []),
        ((1, 2), ["1 block runs by chunks of channels"]),
        ((2, 1, 3), ["2 blocks run by chunks of channels"]),
    ],
)
def test_the_sentence_counts_blocks_of_two_chunks_or_more(chunks: tuple[int, ...], said: list[str]):
    unit: Any = SimpleNamespace(plan=SimpleNamespace(cascades=[SimpleNamespace(chunks=each) for each in chunks]))

    assert _blocks(unit) == said


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((1,), "the only layer runs whole"),
        ((2,), "the only layer runs row by row"),
        ((1, 1), "all 2 layers run whole, one after the other"),
        ((2, 2), "all 2 layers run row by row"),
        ((1, 2, 1), "1 of 3 layers runs row by row, the others whole"),
        ((1, 2, 2), "2 of 3 layers run row by row, the others whole"),
    ],
)
def test_the_sentence_counts_layers_of_two_steps_or_more(steps: tuple[int, ...], said: str):
    made = [SimpleNamespace(op=str(i), computes=True) for i, count in enumerate(steps) for _ in range(count)]
    deliveries = [SimpleNamespace(op="0", computes=False)] * 2
    unit: Any = SimpleNamespace(plan=SimpleNamespace(steps=[*deliveries, *made]))
    lines: Any = [SimpleNamespace(stages=[SimpleNamespace(name=str(i))]) for i in range(len(steps))]

    assert _kinds(unit, lines) == said
