"""`--stream-input` from the command line to the board: models fed row by row equal the reference in every byte."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compilers import HOST, WARNINGS
from conftest import Gen
from doc_code import c_blocks
from shared import MODELS, needs_shared

from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu_host.validate.reference import Reference

needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is not installed")


def _validated(gen: Gen, model: Path, board: str, folder: Path, count: int) -> dict[str, object]:
    """Writes, builds and validates; what report.json says of the plan."""
    written = gen("firmware", model, "--board", board, "--stream-input", "--out", folder)
    assert written.exit_code == 0, written.output
    result = gen("validate", folder, "--emulate", "--count", count, "--json")
    found = json.loads(result.stdout)

    assert (result.exit_code, found["vectors"], found["mismatched_vectors"]) == (0, count, 0)
    plan: dict[str, object] = json.loads((folder / "report.json").read_text())["plan"]
    return plan


def test_the_shipped_model_is_validated_and_timed_row_by_row(gen: Gen, tmp_path: Path):
    _validated(gen, SHIPPED / "digits.tflite", "native", tmp_path / "digits", 20)
    timed = json.loads(gen("bench", tmp_path / "digits", "--emulate", "--runs", 2, "--json").stdout)

    assert timed["total"]["min"] > 0
    assert sum(op["median"] for op in timed["ops"]) > 0


@needs_shared
@pytest.mark.parametrize("name", ["mlperf-kws-dscnn-int8", "mlperf-ad-int8", "tflm-micro-speech"])
def test_a_streamed_road_model_is_validated(gen: Gen, name: str, tmp_path: Path):
    _validated(gen, MODELS / f"{name}.tflite", "native", tmp_path / "project", 3)


@needs_shared
@needs_qemu
def test_the_person_detector_runs_on_the_microbit_row_by_row(gen: Gen, tmp_path: Path):
    """96x96x3 bytes of input alone are more than the part's 16 KB."""
    plan = _validated(gen, MODELS / "mlperf-vww96-int8.tflite", "microbit", tmp_path / "vww", 1)

    assert plan["arena_bytes"] <= 12_800
    assert plan["recomputed_macs"] == 0


_CAMERA = """
#include <stdio.h>

static void camera_read_line(void *line, int bytes)
{
    if (fread(line, (size_t)bytes, 1, stdin) != 1) {
        exit(1);
    }
}
"""


@needs_shared
def test_the_camera_loop_of_the_streaming_page_sees_what_the_reference_sees(gen: Gen, tmp_path: Path):
    (snippet,) = (block for block in c_blocks("docs/streaming.md") if "camera" in block)
    shutil.copy(MODELS / "mlperf-vww96-int8.tflite", tmp_path / "vww.tflite")
    written = gen("firmware", tmp_path / "vww.tflite", "--board", "native", "--stream-input", "--out", tmp_path / "vww")
    assert written.exit_code == 0, written.output
    prologue = f"#include <stdlib.h>\n{_CAMERA}bool person_in_view(void);\n"
    scores = "vww_output()[0], vww_output()[1]"
    loop = f"int main(void)\n{{\n    for (;;) {{\n        bool there = person_in_view();\n{' ' * 8}"
    main = f'{loop}printf("%d %d %d\\n", there, {scores});\n    }}\n}}\n'
    (tmp_path / "loop.c").write_text(snippet.replace("bool person_in", f"{prologue}\nbool person_in", 1) + main)
    library = tmp_path / "vww/lib/vww/src"
    sources = [tmp_path / "loop.c", *sorted(library.rglob("*.c"))]
    command = [*HOST, *WARNINGS, "-O2", f"-I{library}", *map(str, sources), "-o", str(tmp_path / "loop")]
    subprocess.run(command, check=True, timeout=120)
    images = np.random.default_rng(5).integers(-128, 128, (12, 1, 96, 96, 3), np.int8)
    images[::2] = np.sort(images[::2], axis=2)

    said = subprocess.run([tmp_path / "loop"], input=images.tobytes(), capture_output=True, timeout=60).stdout
    reference = Reference.load(tmp_path / "vww")
    scores = [reference.run([image])[reference.outputs[0]].ravel() for image in images]

    assert len({int(score[0]) for score in scores}) > 3
    assert said.decode() == "".join(f"{int(b > a)} {a} {b}\n" for a, b in scores)


@needs_shared
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("mlperf-kws-dscnn-int8", 3_448),
        ("mlperf-ic-resnet8-int8", 8_608),
    ],
)
def test_a_streamed_input_leaves_a_small_arena(gen: Gen, name: str, most: int):
    """Bytes that a plan may take at most: what plans took once."""
    model = MODELS / f"{name}.tflite"
    plan = json.loads(gen("plan", model, "--stream-input", "--minimize", "sram", "--json").stdout)["plan"]

    assert plan["arena_bound_bytes"] <= plan["arena_bytes"] <= most
    assert plan["recomputed_macs"] == 0


@needs_shared
@pytest.mark.usefixtures("full_placement")
def test_a_streamed_model_whose_last_rows_are_read_by_no_op_takes_a_small_arena(gen: Gen):
    test_a_streamed_input_leaves_a_small_arena(gen, "mltk-rock-paper-scissors", 6_664)


@pytest.mark.usefixtures("full_effort")
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("mlperf-vww96-int8", 9_888),
        pytest.param("coral-mnv2-tf2-ptq", 95_760, marks=pytest.mark.long),
        # rows that begin lower than those that they overwrite pack worse
        pytest.param("nano-u-botanic-int8", 9_760, marks=pytest.mark.long),
    ],
)
@needs_shared
def test_a_streamed_input_leaves_a_small_arena_after_a_whole_search(gen: Gen, name: str, most: int):
    test_a_streamed_input_leaves_a_small_arena(gen, name, most)


@needs_shared
@pytest.mark.parametrize(("options", "most"), [((), 2_136), (("--stream-input",), 576)])
def test_a_dense_layer_of_a_flattened_map_takes_its_rows_as_they_come(gen: Gen, options: tuple[str, ...], most: int):
    """Bytes: the model's input, a row of the map and the sums. The whole map has 4,000 bytes."""
    model = MODELS / "tflm-micro-speech.tflite"
    plan = json.loads(gen("plan", model, "--minimize", "sram", *options, "--json").stdout)["plan"]

    assert plan["arena_bytes"] <= most
