"""The parts of the emitter: rules for rows, names, numbers, MLPerf tasks, and what the application is told."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import emitted
import numpy as np
import pytest
from compilers import HOST, WARNINGS
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import sample
from shared import MODELS, needs_shared

from shoehorn_mcu import importers, ops, passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit import bundle, c
from shoehorn_mcu.emit.folder import app, mlperf
from shoehorn_mcu.emit.folder.graph_file import GraphFileError, load
from shoehorn_mcu.emit.model import steps
from shoehorn_mcu.emit.model.ops import _runs
from shoehorn_mcu.emit.model.rows import Affine, Listed, Null, windows
from shoehorn_mcu.emit.model.source import SLOT_BYTES, _scattered, model_c
from shoehorn_mcu.emit.model.weights import constants, weights_c
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.templates import TemplateError, fill
from shoehorn_mcu.ir import Array, Graph, Op, verify
from shoehorn_mcu.ir.shared_rows import Part
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner import Goal, make_plan
from shoehorn_mcu.planner.memory_plan import Placement
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages


def _shipped() -> Graph:
    return passes.run(importers.load(SHIPPED / "digits.tflite"))[0]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_rows_are_found_again_from_their_rules(data: st.DataObject):
    height, out_rows = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    places = data.draw(st.integers(1, 12))
    ruled = data.draw(st.booleans())
    first, step, dilation = (data.draw(st.integers(-5, 5)) for _ in range(3))
    some = st.one_of(st.none(), st.integers(0, height - 1))

    def row(y: int, k: int) -> int | None:
        value = first + y * step + k * dilation
        return (value if 0 <= value < height else None) if ruled else data.draw(some)

    by_row = [[[row(y, k) for k in range(places)]] for y in range(out_rows)]
    (window,), table = windows(by_row, [height])

    for y, (line,) in enumerate(by_row):
        for k, wanted in enumerate(line):
            rule = window.places[k]
            if isinstance(rule, Listed):
                found = table[y][rule.column]
                assert (found if found >= 0 else None) == wanted
                assert rule.guarded or wanted is not None
            elif isinstance(rule, Affine):
                value = eval(rule.text(str(y)))
                assert (value if 0 <= value < height else None) == wanted
                assert rule.guarded or wanted is not None
            else:
                assert isinstance(rule, Null) and wanted is None
    if window.stride is not None and isinstance(window.places[0], Affine):
        assert [p.first for p in window.places] == [window.places[0].first + k * window.stride for k in range(places)]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("digits", "digits"),
        ("MobileNet-v2 1.0", "mobilenet_v2_1_0"),
        ("3d", "m3d"),
        ("", "model"),
        ("模型", "model"),
        ("math", "math_model"),
        ("board", "board_model"),
        ("sh_tensor", "sh_tensor_model"),
        ("int", "int"),
        ("__init__", "init"),
    ],
)
def test_model_names_become_c_names_that_hide_nothing(model: str, name: str):
    assert library_name(model) == name
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (-128, "-128"),
        (-(2**31), "-2147483647 - 1"),
        (0.5, "0.5f"),
        (1.0, "1.0f"),
        (float(np.float32(0.1)), "0.100000001f"),
        (0.1, "0.1"),
        (np.int8(-3), "-3"),
        (1e30, "1e+30"),
    ],
)
def test_numbers_are_spelt_so_that_c_reads_the_same_value(value: float, text: str):
    assert c.number(value) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.array([0.1, -2, 1e10], np.float32), "float v[3] = {\n    0.100000001f, -2.0f, 1e+10f,\n};"),
        (np.array([[0.1], [0.5]]), "double v[2] = {\n    0.1, 0.5f,\n};"),
        (np.array([-128, 127], np.int8), "int8_t v[2] = {\n    -128, 127,\n};"),
        (np.array([True, False]), "uint8_t v[2] = {\n    1, 0,\n};"),
        (np.array([-(2**31), 7], np.int32), "int32_t v[2] = {\n    -2147483647 - 1, 7,\n};"),
    ],
)
def test_arrays_are_spelt_in_the_type_of_their_elements(data: Array, text: str):
    assert c.array("v", data, "const") == f"const {text}"


def _board(sram_bytes: int) -> targets.Board:
    board = targets.board("microbit")
    return replace(board, spec=board.spec.model_copy(update={"sram_bytes": sram_bytes}))


def _alone(unit: emitted.Unit) -> app.Models:
    return app.Models((unit,), ("0123456789abcdef",), None, unit.plan.arena_bytes, (0,))


def _compiles(unit: emitted.Unit, board: targets.Board, folder: Path) -> bool:
    emitted.put(emitted.library_of(unit), folder)
    (folder / "app_config.h").write_text(app.app_config_h(_alone(unit), board))
    (folder / "board_config.h").write_text(app.board_config_h(board))
    (folder / "user.c").write_text(
        '#include "app_config.h"\n#define COUNT(f, bytes, type, scale, zero) +1\n'
        '_Static_assert(0 SH_APP_INPUT_TABLE(COUNT) == 1, "inputs");\n'
        "static const unsigned char id[8] = SH_APP_IDENTITY;\n"
        "int main(void) { SH_APP_RUN(); return id[7] != 0xef; }\n"
    )
    command = [
        *HOST,
        *WARNINGS,
        "-c",
        f"-I{folder / 'src'}",
        f"{folder / 'user.c'}",
        "-o",
        f"{folder / 'o'}",
    ]
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0


def test_app_config_asserts_that_the_arena_fits_the_board(tmp_path: Path):
    unit = emitted.unit_of(_shipped())
    rest = _board(0).spec.firmware_ram_bytes + _board(0).spec.stack_bytes

    assert _compiles(unit, _board(rest + unit.plan.arena_bytes), tmp_path)
    assert not _compiles(unit, _board(rest + unit.plan.arena_bytes - 1), tmp_path)


def test_db_load_gets_a_buffer_only_where_the_board_has_room():
    unit = emitted.unit_of(_shipped())
    rest = _board(0).spec.firmware_ram_bytes + _board(0).spec.stack_bytes
    tight = app.app_config_h(_alone(unit), _board(rest + unit.plan.arena_bytes + 63))
    roomy = app.app_config_h(_alone(unit), _board(rest + unit.plan.arena_bytes + 64))

    assert "#define SH_APP_DB_BUFFER 0" in tight
    assert "#define SH_APP_DB_BUFFER 1" in roomy


@needs_shared
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("mlperf-kws-dscnn-int8", "kws01"),
        ("mlperf-vww96-int8", "vww01"),
        ("mlperf-ic-resnet8-int8", "ic01"),
        ("mlperf-ad-int8", "ad01"),
        ("tflm-micro-speech", None),
    ],
)
def test_mlperf_tasks_are_known_by_their_shapes(name: str, task: str | None):
    graph = importers.load(MODELS / f"{name}.tflite")
    found = mlperf.task_of(graph, "auto")

    assert (found and found.id) == task
    assert mlperf.task_of(graph, "none") is None
    if task is not None:
        assert mlperf.task_of(graph, task) == found


def test_a_task_that_the_model_is_not_is_refused():
    with pytest.raises(Exception, match=r"digits: is not a kws01 model, which has one int8 input \(1, 49, 10, 1\)"):
        mlperf.task_of(_shipped(), "kws01")


@pytest.mark.parametrize(("last", "bits"), [(2**16 - 1, 16), (2**16, 32)])
def test_a_slot_that_needs_more_than_16_bits_has_32(last: int, bits: int):
    address = last * SLOT_BYTES
    lines = _scattered("t0", Placement("x", 0, 2, 4, slots=(0, address)), {}, str(address + 4))

    assert f"static const uint{bits}_t t0_slots[2] = {{" in lines[0] and str(last) in lines[0]
    wide = "static const sh_other_rows t0_rows = {.slots = t0_slots};"
    assert (wide in lines) is (bits == 32)
    tensor = next(line for line in lines if line.startswith("static const sh_tensor t0 = "))
    assert (".other = &t0_rows" if bits == 32 else ".slots16 = t0_slots") in tensor


def test_a_number_of_a_board_that_needs_32_bits_is_unsigned_in_c():
    board = targets.board("microbit")
    values = {"SH_LARGEST": (1 << 31) - 1, "SH_PERIPHERALS": 1 << 31, "SH_END": (1 << 32) - 1}
    text = app.board_config_h(replace(board, spec=board.spec.model_copy(update={"defines": values})))

    assert "#define SH_LARGEST 2147483647\n" in text
    assert "#define SH_PERIPHERALS 0x80000000\n" in text
    assert "#define SH_END 0xFFFFFFFF\n" in text


def test_steps_that_repeat_are_a_table_and_others_are_statements():
    graph = _shipped()
    whole = emitted.unit_of(graph)
    rows = replace(whole, plan=make_plan(lower(graph, whole.stages, None), Goal.SRAM))
    streamed = emitted.unit_of(graph, stream_input=True)
    plain, table, pushed = (steps.schedule(unit) for unit in (whole, rows, streamed))

    assert not plain.is_table and len(steps.statements(whole, plain)) == len(whole.plan.steps)
    assert table.is_table and len(table.steps) == len(rows.plan.steps) > len(table.kinds)
    assert pushed.is_table and len(pushed.starts) > len(graph.inputs)
    assert "    STEP(0, op0(0, " in model_c(whole, constants(whole))
    assert f"i < {len(table.steps)}u" in model_c(rows, constants(rows))


def test_a_number_that_is_not_finite_is_what_compilers_have_built_in():
    found = [c.number(value) for value in (float("inf"), -float("inf"), float("nan"))]

    assert found == ["__builtin_inff()", "-__builtin_inff()", '__builtin_nanf("")']


def test_a_template_with_a_name_that_has_no_value_is_refused(tmp_path: Path):
    (tmp_path / "a.in").write_text("@KNOWN@ and @OTHER@")

    with pytest.raises(TemplateError, match=r"a.in: @OTHER@ has no value; known are KNOWN"):
        fill(tmp_path / "a.in", {"KNOWN": 1})
    assert fill(tmp_path / "a.in", {"KNOWN": 1, "OTHER": 2}) == b"1 and 2"


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        (lambda data: data, True),
        (lambda data: data[1:], False),
        (lambda data: b"\xff" + data, False),
        (lambda _: b"", False),
    ],
)
def test_a_c_file_that_was_changed_is_seen(change: Callable[[bytes], bytes], whole: bool, tmp_path: Path):
    (tmp_path / "a.c").write_bytes(change(bundle.sealed("int a; // ä\n").encode()))

    assert bundle._is_sealed(tmp_path / "a.c") is whole


def test_a_written_graph_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(GraphFileError, match=r"cannot be read: No such file or directory; write the folder again"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("op_class", "repeats"),
    [
        *((each, True) for each in (ops.Conv2d, ops.Rescale, ops.Average)),
        *((each, False) for each in (ops.NextPartial, ops.SumPool, ops.SumDense, ops.RunningMax, ops.Lstm)),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_step_runs_several_times_in_place_of_once_unless_it_adds_to_what_is_there(
    op_class: type[Op], repeats: bool
) -> None:
    graph = sample(op_class, np.random.default_rng(1))
    (stage,) = [each for each in stages(graph, targets.Machine.of("cortex-m4f")) if type(each.node.op) is op_class]
    assert steps._repeats(stage) is repeats


def test_an_output_that_is_a_constant_is_refused_before_a_plan_is_made() -> None:
    graph = sample(ops.Conv2d, np.random.default_rng(1))
    fixed = verify(replace(graph, outputs=(*graph.outputs, "x1")))
    with pytest.raises(ShoehornError, match="'x1' is a constant that is reshaped or a model output"):
        lower(fixed, stages(fixed, targets.Machine.of("cortex-m4f")), None)


def test_a_file_of_constants_is_not_empty_where_there_are_none() -> None:
    unit = emitted.unit_of(_shipped())
    own = constants(unit)
    none, some = weights_c(unit, replace(own, arrays={})), weights_c(unit, own)

    assert none.endswith('_weights.h"\n\ntypedef int32_t sh_no_constants; // a C file must not be empty\n')
    assert "sh_no_constants" not in some and some.count(" = {") == len(own.arrays)


@pytest.mark.parametrize(
    ("rows", "runs"),
    [
        ([("a", 4, 0)], [(0, 1, 0)]),
        ([("a", 4, 0), ("a", 5, 0), ("a", 6, 0)], [(0, 3, 1)]),
        ([("a", 4, 0), ("a", 6, 0), ("a", 8, 0), ("a", 9, 0)], [(0, 3, 2), (3, 4, 0)]),
        ([("a", 4, 0), ("a", 4, 0), ("b", 4, 0), ("b", 3, 0)], [(0, 2, 0), (2, 4, -1)]),
        ([("a", 4, 0), ("a", 5, 8), ("a", 6, 8)], [(0, 1, 0), (1, 3, 1)]),
    ],
)
def test_rows_that_are_parts_of_others_are_found_in_runs(
    rows: list[tuple[str, int, int]], runs: list[tuple[int, int, int]]
) -> None:
    assert _runs(tuple(Part(*each) for each in rows)) == runs
