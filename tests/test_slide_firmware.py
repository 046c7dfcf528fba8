"""`--slide` from the command to the board: options, the C interface, the folder, and what is compared with what."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from compilers import GCC, HOST
from conftest import Gen
from runtime import load_reference
from slide_nets import Net, har
from tflite_micro.python.tflite_micro import runtime

import shoehorn_mcu
from shoehorn_mcu import ops
from shoehorn_mcu.api import PlanOptions
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.emit.model import states
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.options import resolved
from shoehorn_mcu.firmware.prepare import keeping, prepare
from shoehorn_mcu.firmware.settings import Hop, Options
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import DType, Graph, State, Tensor, TensorType
from shoehorn_mcu.passes.ends.shifted_rows import ALL
from shoehorn_mcu.passes.ends.slide import computed
from shoehorn_mcu.planner.memory_plan import Placement
from shoehorn_mcu_host.board.bench import Cycles, Timing
from shoehorn_mcu_host.board.cycles import Count
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.validate import Windows, enough, windows_of
from tests.shared import DATA, MODELS, needs_shared

SWW = MODELS / "mlperf-sww-int8.tflite"
SIZES = {"long": 4, "short": 2}  # rows of the windows of two inputs


@cache
def small() -> Graph:
    net = Net("small", {"x": (1, 12, 1, 3)})
    net.conv(4, 3)
    net.conv(0, 3, pads=(2, 0))
    net.mean()
    net.dense(2)
    return net.graph()


@cache
def kept() -> Graph:
    """A model of which few of the tensors that could keep rows are worth their bytes."""
    net = Net("kept", {"x": (1, 16, 1, 2)})
    for width in (8, 4):
        net.conv(width, 3, pads=(1, 1))
    net.mean()
    net.dense(2)
    return net.graph()


def planned(gen: Gen, *words: str | Path) -> dict[str, Any]:
    found = gen("plan", *words, "--json")
    assert found.exit_code == 0, found.stderr
    made: dict[str, Any] = json.loads(found.stdout)
    return made


@needs_shared
def test_a_plan_says_what_it_keeps_and_what_the_whole_window_takes(gen: Gen) -> None:
    found = planned(gen, SWW, "--slide", "20ms", "--stride", "20ms", "--board", "netduinoplus2")

    slide = found["plan"]["slide"]
    assert [slide.pop("recomputed_tensors"), slide.pop("choices")[0]] == [0, {"macs": 46040, "state_bytes": 3536}]
    assert slide == {
        "hop_rows": 1,
        "window_rows": 30,
        "window_steps": 30,
        "state_bytes": 3536,
        "macs_whole_window": 826368,
        "seconds": 0.02,
    }
    assert found["plan"]["macs"] == 46040
    assert found["plan"]["arena_bytes"] <= 4084
    assert [p for p in found["passes"] if p["name"] == "slide"] == [
        {"name": "slide", "ops_before": 11, "ops_after": 23, "macs_before": 826368, "macs_after": 46040}
    ]


HOPS = (
    (PlanOptions(), None),
    (PlanOptions(slide=3), Hop(3)),
    (PlanOptions(slide=3, slices=2), Hop(6)),
    (PlanOptions(slide=3, sample_hz=50), Hop(3, 0.06)),
    (PlanOptions(slide=3, stride=320), Hop(3, 0.06)),
    (PlanOptions(slide="40ms", stride=320), Hop(2, 0.04)),
    (PlanOptions(slide="40ms", sample_hz=50), Hop(2, 0.04)),
    (PlanOptions(slide="40ms", stride=320, slices=2), Hop(4, 0.08)),
)


@pytest.mark.parametrize(("options", "hop"), HOPS)
def test_a_hop_is_rows_or_a_time_of_rows(options: PlanOptions, hop: Hop | None) -> None:
    assert resolved(options)[1].hop == hop


REFUSED = (
    ({"slide": 13}, "--slide 13: the window has 12 rows; give 1 to 12"),
    (
        {"slide": 2, "stream_input": True},
        "--slide excludes --stream-input: its rows are few, and arrive together;",
    ),
    ({"slide": 2, "states": {"x": "y"}}, "--slide excludes --state: the rows that are kept are the only states; leave"),
    ({"slide": 2, "stateless": True}, "--slide excludes --stateless: the rows that are kept are states; leave"),
    ({"slide": 2, "io": "native"}, "--slide excludes --io native: rows of time are taken one behind the other; leave"),
    ({"slide": "20ms"}, "--slide 20ms, 320 rows of 1 sample (--stride): the window has 12 rows; give 1 to 12"),
    ({"slide": "30ms", "stride": 320}, "--slide 30ms: at 16,000 samples per second that is no whole number of rows of"),
    ({"slide": "1ms", "sample_hz": 50}, "no whole number of rows of 1 samples; say how long a row is by --stride"),
)


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_what_slide_cannot_do_is_refused_in_a_line(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ShoehornError) as refused:
        shoehorn_mcu.plan(Imported(small(), {}), PlanOptions(**options))

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@needs_shared
def test_the_command_refuses_in_a_line_and_writes_nothing(gen: Gen, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    cases = (
        ((SWW, "--slide", "31"), 1, "--slide 31: the window has 30 rows; give 1 to 30"),
        ((SWW, "--slide", "0"), 2, "'0' is no hop of a window; write rows, such as 2, or whole milliseconds"),
        ((SWW, "--slide", "2.5ms"), 2, "'2.5ms' is no hop of a window"),
        ((SWW, "--stride", "320"), 2, "--stride and --slices belong to --pipeline, or to --slide"),
        (
            (MODELS / "mlperf-ad-int8.tflite", "--slide", "1"),
            1,
            "int8[1x640] has no axis of rows; leave",
        ),
        ((MODELS / "mww-okay-nabu-v2.tflite", "--slide", "1"), 1, "keeps states already"),
    )
    for words, code, why in cases:
        found = gen("firmware", *words, "--board", "microbit", "--out", folder)

        assert found.exit_code == code
        assert why in " ".join(found.stderr.split())
        assert not folder.exists()


def rows_of(steps: int, shape: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int8]]:
    return np.random.default_rng(7).integers(-128, 128, (steps, *shape), np.int8)


DRIVER = """#include "small.h"
#include <stdio.h>
int main(void) {{
    small_rows rows;
    for (int step = 0; step < 2 * {steps} + 5; step++) {{
        if (step == 2 * {steps}) {{
            small_reset();
        }}
        if (fread(rows.values, 1, sizeof rows.values, stdin) != sizeof rows.values) {{
            return 1;
        }}
        small_push(&rows);
        fwrite(small_output(), 1, SMALL_OUTPUT_BYTES, stdout);
    }}
    return SMALL_WINDOW_STEPS == {steps} && SMALL_WINDOW_ROWS == 12 ? 0 : 2;
}}
"""


@pytest.mark.parametrize("hop", [1, 5])
def test_pushed_rows_give_what_the_whole_window_gives(tmp_path: Path, hop: int) -> None:
    steps = -(-12 // hop)
    shoehorn_mcu.generate(Imported(small(), {}), tmp_path, PlanOptions(slide=hop), single_file=True)
    (tmp_path / "main.c").write_text(DRIVER.format(steps=steps))
    warnings = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-O1")
    program, sources = tmp_path / "program", (tmp_path / "small.c", tmp_path / "main.c")
    subprocess.run([*HOST, *warnings, *map(str, sources), "-lm", "-o", str(program)], check=True)
    rows = rows_of(2 * steps + 5, (1, hop, 1, 3))
    said = subprocess.run([str(program)], input=rows.tobytes(), stdout=subprocess.PIPE, check=True).stdout

    found = np.frombuffer(said, np.int8).reshape(-1, 2)
    window = at_rest = small().tensors["x"].type.zeros()
    for step, new in enumerate(rows):
        window = np.concatenate([at_rest if step == 2 * steps else window, new], axis=1)[:, hop:]
        assert np.array_equal(computed(small(), {"x": window})[small().outputs[0]].ravel(), found[step])
    assert len({each.tobytes() for each in found}) >= steps


def test_rows_of_another_number_do_not_compile(tmp_path: Path) -> None:
    shoehorn_mcu.generate(Imported(small(), {}), tmp_path, PlanOptions(slide=2), single_file=True)
    lines = (
        '#include "small.h"',
        "static struct { int8_t values[3][3]; } given;",
        "void f(void) { small_push(&given); }",
    )
    (tmp_path / "f.c").write_text("\n".join((*lines, "")))
    options = ("-std=c11", "-Werror", "-fsyntax-only") if HOST == GCC else ("-std=c11", "-Werror", "-c")
    made = subprocess.run([*HOST, *options, "f.c"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert made.returncode != 0
    assert "incompatible pointer type" in made.stderr


def test_each_of_several_inputs_has_rows_of_its_own(tmp_path: Path) -> None:
    net = Net("two", {"x": (1, 9, 1, 2), "z": (1, 9, 1, 3)})
    net.put(ops.Concat, ("x", "z"), axis=3)
    net.conv(2, 3)
    net.dense(2)
    shoehorn_mcu.generate(Imported(net.graph(), {}), tmp_path, PlanOptions(slide=2), single_file=True)
    header = (tmp_path / "two.h").read_text()

    assert "    int8_t values[2][2];\n} two_rows;" in header
    assert "    int8_t values[2][3];\n} two_rows_1;" in header
    assert "void two_push(const two_rows *rows, const two_rows_1 *rows_1);" in header


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("slide") / "small"
    options = PlanOptions(board="mps2-an386", slide=2, sample_hz=50)
    shoehorn_mcu.generate(Imported(small(), {}), place, options)
    return place


def test_the_folder_has_the_model_of_whole_windows(folder: Path) -> None:
    said = "The model sees a window of 12 rows, of which an inference takes 2 new rows: `small_push(rows)` does"
    assert said in (folder / "README.md").read_text()
    page = (folder / "plan.html").read_text()
    assert "2 of 12 rows in each inference: " in page
    slide = json.loads((folder / "report.json").read_text())["plan"]["slide"]
    assert page.count(" bytes kept, ") == len(slide["choices"]) > 2
    (own,) = re.findall(r'<circle class="ring" cx="([\d.]+)" cy="([\d.]+)"', page)
    (place,) = re.findall(
        rf'<circle cx="([\d.]+)" cy="([\d.]+)" r="4"><title>{slide["state_bytes"]:,} bytes kept', page
    )
    assert place == own
    project = Project.open(folder)
    plan = Plan.of(project)
    whole = windows_of(project, plan)

    assert plan.slide is not None and whole is not None
    assert (plan.slide.window_rows, plan.slide.hop_rows, plan.window_steps) == (12, 2, 6)
    assert plan.signal_seconds == 0.04
    rows = rows_of(9, (1, 2, 1, 3))
    for _ in range(2):
        window = small().tensors["x"].type.zeros()
        for new in rows:
            window = np.concatenate([window[:, 2:], new], axis=1)
            (wanted,) = (computed(small(), {"x": window})[name] for name in small().outputs)
            assert np.array_equal(whole.run([new])[small().outputs[0]], wanted)
        whole.reset()


def test_as_many_vectors_as_fill_a_window_are_enough(folder: Path) -> None:
    plan = Plan.of(Project.open(folder))

    assert enough(plan, 1) == 4 + 8
    assert enough(plan, 100) == 100
    assert enough(replace(plan, slide=None), 10) == 10


def test_a_folder_without_its_whole_windows_is_damaged(folder: Path) -> None:
    project = Project.open(folder)
    path = folder / "reference" / "window" / "graph.json"
    text = path.read_text()
    path.write_text(text.replace("small", "other"))
    try:
        with pytest.raises(ShoehornError, match=r"reference/window/graph\.json"):
            windows_of(project, Plan.of(project))
    finally:
        path.write_text(text)


@pytest.mark.parametrize("change", ["rows", "output", "type"])
def test_windows_that_are_not_the_plan_s_are_damage(folder: Path, change: str) -> None:
    project = Project.open(folder)
    plan = Plan.of(project)
    assert plan.slide is not None
    other = {
        "rows": replace(plan, slide=plan.slide.model_copy(update={"window_rows": 13})),
        "output": replace(plan, outputs=(replace(plan.outputs[0], name="another"),)),
        "type": replace(plan, inputs=(replace(plan.inputs[0], dtype=np.dtype(np.uint8)),)),
    }
    with pytest.raises(ShoehornError, match=r"reference/window is no model of plan\.json's windows; write the folder"):
        windows_of(project, other[change])


def test_a_window_moves_beside_one_that_arrives_whole() -> None:
    """Of two inputs, the other one has as many rows as arrive with each inference."""
    tensors = {
        name: SimpleNamespace(shape=(1, rows, 2), zero_points=(5,), dtype="int8") for name, rows in SIZES.items()
    }
    seen: list[list[np.ndarray[Any, Any]]] = []
    whole = SimpleNamespace(tensors=tensors, inputs=[*SIZES], outputs=[], reset=lambda: None)
    whole.run = lambda rows: seen.append(rows) or {}
    windows = Windows(cast(Any, whole), 2)
    first, second = ([np.full((1, 2, 2), value, np.int8) for _ in SIZES] for value in (1, 2))
    windows.run(first)
    windows.run(second)

    assert [rows[:, :, 0].tolist() for rows in seen[0]] == [[[5, 5, 1, 1]], [[1, 1]]]
    assert [rows[:, :, 0].tolist() for rows in seen[1]] == [[[1, 1, 2, 2]], [[2, 2]]]


def test_a_model_of_new_rows_on_an_emulated_board_has_the_outputs_of_whole_windows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = shoehorn_mcu.validate(folder, emulate=True, count=12)

    assert (found.vectors, found.mismatched_vectors, found.whole_windows) == (12, 0, 12)
    real = Windows.run

    def other(self: Windows, rows: Any) -> Any:
        said = dict(real(self, rows))
        return {name: array + np.int8(1) for name, array in said.items()}

    monkeypatch.setattr(Windows, "run", other)
    wrong = shoehorn_mcu.validate(folder, emulate=True, count=3)
    assert (wrong.mismatched_vectors, wrong.first_bad_op) == (3, "dense3")
    timing = shoehorn_mcu.bench(folder, emulate=True, runs=1)
    assert timing.signal is not None and timing.cycles is not None
    assert timing.signal["seconds"] == 0.04
    assert timing.signal["cycles_per_second"] == round(timing.cycles.totals[0].cycles / 0.04)


def test_the_reference_of_a_step_keeps_rings_of_rows() -> None:
    """The graph that is emitted has rings; the reference runtime gives the same outputs as numpy."""
    ready = prepare(Imported(har(34), {}), None, Options(hop=Hop(2)))
    assert ready.sliding is not None and any(ready.graph.is_ring(state) for state in ready.graph.states)
    reference = load_reference(ready.graph)
    window = ready.sliding.windows.graph.tensors["x"].type.zeros()
    for new in rows_of(15, (1, 2, 1, 9)):
        window = np.concatenate([window[:, 2:], new], axis=1)
        wanted = computed(ready.sliding.windows.graph, {"x": window})
        assert np.array_equal(reference.run([new])[ready.graph.outputs[0]], wanted[ready.graph.outputs[0]])


FIRST = (
    ([[3, 3]] * 5, [], ["memset(arena + 8, 3, 10);"]),
    ([[3, 4]] * 5, [3, 4], ["for (int32_t i = 0; i < 5; i++) {", "    memcpy(arena + 8 + i * 2, state0, 2);", "}"]),
    (
        [[3, 4], [5, 6]] * 2 + [[3, 4]],
        [3, 4, 5, 6],
        [
            "for (int32_t i = 0; i < 2; i++) {",
            "    memcpy(arena + 8 + i * 4, state0, 4);",
            "}",
            "memcpy(arena + 16, state0, 2);",
        ],
    ),
    ([[1, 2], [3, 4], [5, 6], [7, 8], [9, 9]], [1, 2, 3, 4, 5, 6, 7, 8, 9, 9], ["memcpy(arena + 8, state0, 10);"]),
)


@pytest.mark.parametrize(("rows", "kept", "lines"), FIRST)
def test_first_values_that_repeat_are_in_flash_once(rows: list[list[int]], kept: list[int], lines: list[str]) -> None:
    data = np.array(rows, np.int8).reshape(1, 5, 1, 2)
    kind = TensorType(data.shape, DType.INT8)
    tensors = {"s": Tensor("s", kind), "first": Tensor("first", kind, data)}
    graph = Graph("g", tensors, (), (), (), (State("s", "s", "first"),))
    plan = SimpleNamespace(placements=[Placement("s", 8, 5, 2)], arenas={"sram": 18})
    unit = Unit("g", graph, (), cast(Any, plan))

    assert states.repeated(unit, graph.states[0]).tolist() == kept
    assert states.first_bytes(unit) == len(kept)
    assert states.States(unit).resetting()[-2].splitlines()[2 : 2 + len(lines)] == [f"    {line}" for line in lines]


def slide_of(model: Graph, **options: Any) -> tuple[int, int, Any]:
    """Arena, MACs and what the report says of new rows."""
    made = shoehorn_mcu.plan(Imported(model, {}), PlanOptions(slide=2, **options))
    plan = cast(Any, made.report["plan"])
    return made.arena_bytes, plan["macs"], plan["slide"]


def test_the_arena_decides_which_tensors_keep_rows() -> None:
    """All that can be kept where there is room for it, and fewer bytes for more work where there is not."""
    arena, macs, slide = slide_of(kept())
    less, more, other = slide_of(kept(), sram_bytes=slide["state_bytes"])

    assert (less < arena, more > macs) == (True, True)
    assert (slide["recomputed_tensors"], other["recomputed_tensors"] > 0) == (0, True)
    assert slide["state_bytes"] > other["state_bytes"]
    assert slide["choices"] == other["choices"]
    assert slide["choices"][0] == {"macs": macs, "state_bytes": slide["state_bytes"]}
    with pytest.raises(ShoehornError, match="bytes"):
        slide_of(kept(), sram_bytes=64)


@pytest.mark.long
def test_the_smallest_arena_keeps_few_rows() -> None:
    arena, macs, slide = slide_of(har(60, 4))
    least, more, other = slide_of(har(60, 4), minimize="sram")

    assert (least < arena, more > macs) == (True, True)
    assert slide["state_bytes"] > other["state_bytes"]


@needs_shared
def test_a_plan_of_frames_says_what_slide_would_save(gen: Gen) -> None:
    hint = (
        "hint: 94 % of the work repeats if one new row of 30 arrives per inference: --slide 1, 18 x fewer MACs, 3,536"
    )

    assert hint in " ".join(gen("plan", SWW).stdout.split())
    assert "hint" not in gen("plan", SWW, "--slide", "1").stdout
    assert "hint" not in gen("plan", MODELS / "mlperf-ic-resnet8-int8.tflite").stdout


PIPELINE = {"board": "mps2-an386", "behind": MODELS / "tflm-micro-speech.tflite"}


@needs_shared
def test_the_second_model_of_a_pipeline_computes_new_slices_only() -> None:
    """By itself, and its windows are compared: the folder has the pipeline of whole windows, which keeps its own."""
    front = DATA / "audio-preprocessor" / "audio_preprocessor_int8.tflite"
    slid = prepare(front, None, Options(behind=PIPELINE["behind"]))
    assert slid.wake is not None
    step = keeping(slid, ALL)
    assert (slid.graph.macs, step.graph.macs) == (336_632, 93_432)
    assert any("1 new slice of 480, 320 apart, of the 49 that" in note for note in step.notes)
    whole, new = load_reference(slid.wake.whole), load_reference(step.graph)
    sound = np.random.default_rng(3).integers(-9000, 9000, (60, 1, 320), np.int16)
    outputs = set()
    for samples in sound:
        (wanted,), (found,) = ([run.run([samples])[n] for n in slid.graph.outputs] for run in (whole, new))
        assert np.array_equal(wanted, found)
        outputs.add(found.tobytes())
    assert len(outputs) > 5
    assert prepare(front, None, Options(behind=PIPELINE["behind"], disabled=frozenset({"slide"}))).wake is None


@needs_shared
@pytest.mark.filterwarnings("ignore:each inference takes:UserWarning", "ignore:the features are given:UserWarning")
def test_a_pipeline_takes_new_slices_only_where_that_is_faster() -> None:
    front = DATA / "audio-preprocessor" / "audio_preprocessor_int8.tflite"
    plan = cast(Any, shoehorn_mcu.plan(front, PlanOptions(**PIPELINE)).report["plan"])

    assert plan["predicted_cycles"] <= 400_000
    assert (plan["slide"]["macs_whole_window"], plan["slide"]["seconds"]) == (336_632, 0.02)


@needs_shared
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:each inference takes:UserWarning", "ignore:the features are given:UserWarning")
def test_a_pipeline_computes_whole_windows_where_kept_rows_do_not_fit() -> None:
    front = DATA / "audio-preprocessor" / "audio_preprocessor_int8.tflite"
    found = shoehorn_mcu.plan(front, PlanOptions(**PIPELINE, sram_bytes=6000))
    plan = cast(Any, found.report["plan"])

    assert found.arena_bytes <= 6000
    assert plan["predicted_cycles"] > 1_000_000


@needs_shared
def test_the_wake_word_gives_tflite_micro_s_outputs_on_each_whole_window() -> None:
    """400 steps from rest; a walk, so that outputs differ, then noise."""
    ready = prepare(SWW, None, Options(hop=Hop(1)))
    step, rng = load_reference(ready.graph), np.random.default_rng(5)
    micro = runtime.Interpreter.from_file(str(SWW))
    kind = ready.graph.tensors[ready.graph.inputs[0]].type
    walk = np.clip(np.cumsum(rng.normal(0, 3, (400, *kind.shape)), 0) + kind.zero, -128, 127)
    walk[200:] = rng.integers(-128, 128, (200, *kind.shape))
    window = np.full((1, 30, 1, 40), kind.zero, np.int8)
    outputs = set()
    for new in walk.astype(np.int8):
        window = np.concatenate([window[:, 1:], new], axis=1)
        micro.set_input(window.reshape(micro.get_input_details(0)["shape"]), 0)
        micro.invoke()
        found = step.run([new])[ready.graph.outputs[0]]
        assert np.array_equal(found.ravel(), micro.get_output(0).ravel())
        outputs.add(found.tobytes())
    assert len(outputs) > 10


@needs_shared
def test_inspect_shows_what_each_choice_of_kept_rows_takes(gen: Gen) -> None:
    model = MODELS / "mlperf-kws-dscnn-int8.tflite"
    found = json.loads(gen("inspect", model, "--slide", "2", "--json").stdout)["slide"]

    assert (found["hop_rows"], found["window_rows"], found["macs_whole_window"]) == (2, 49, 2_656_768)
    assert found["choices"][0] == {"macs": 1_105_408, "state_bytes": 24_470}
    assert "1,105,408         2.40      24,470" in gen("inspect", model, "--slide", "2").stdout
    assert "58 % of the work repeats" in json.loads(gen("inspect", model, "--json").stdout)["hint"]
    refused = gen("inspect", model, "--slide", "50")
    assert (refused.exit_code, "--slide 50: the window has 49 rows" in refused.stderr) == (1, True)


def test_the_load_is_that_of_cycles_or_of_time_where_they_are_known() -> None:
    """Of an emulator that counts instructions alone there is none."""
    timing = Timing(1000, "instructions", (500, 700, 600), (), 1, 2, signal_seconds=0.02)

    assert timing.signal == {"seconds": 0.02, "cycles_per_second": None, "load_percent": None}
    assert replace(timing, unit="us").signal == {"seconds": 0.02, "cycles_per_second": None, "load_percent": 3.0}
    counted = replace(timing, unit="cycles", unit_hz=60_000).signal
    assert counted == {"seconds": 0.02, "cycles_per_second": 30_000, "load_percent": 50.0}
    cycles = Cycles("cortex-m4", 100_000, (Count(500, 800),), ())
    estimated = replace(timing, cycles=cycles).signal
    assert estimated == {"seconds": 0.02, "cycles_per_second": 40_000, "load_percent": 40.0}
    assert replace(timing, signal_seconds=None).signal is None
