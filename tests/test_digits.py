"""The shipped model, all the way: on a board it reads the held-back digits as TensorFlow Lite Micro does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compilers import WARNINGS, ZIG
from conftest import Gen
from doc_code import c_blocks
from tflite_micro import runtime

from shoehorn_mcu.base.paths import MODELS

NEEDS_QEMU = pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="qemu-system-arm is not installed")
BOARDS = (
    "native",
    pytest.param("rpi-zero", marks=NEEDS_QEMU),
    pytest.param("stm32vldiscovery", marks=(NEEDS_QEMU, pytest.mark.long)),
)


def of_tflite_micro(images: np.ndarray) -> np.ndarray:
    """The outputs for `images`, one row each."""
    interpreter = runtime.Interpreter.from_file(str(MODELS / "digits.tflite"))
    rows = []
    for image in images:
        interpreter.set_input(image[None], 0)
        interpreter.invoke()
        rows.append(np.array(interpreter.get_output(0)).reshape(-1))
    return np.stack(rows)


@pytest.mark.parametrize("board", BOARDS)
def test_the_board_reads_the_held_back_digits_as_tflite_micro_does(gen: Gen, board: str, tmp_path: Path):
    samples = np.load(MODELS / "digits_test.npz")
    project = tmp_path / "project"
    assert gen("firmware", "--board", board, "--out", project).exit_code == 0

    files = ("--inputs", MODELS / "digits_test.npz", "--outputs", tmp_path / "board.npz")
    result = gen("validate", project, "--emulate", *files, "--json")

    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["vectors"], report["mismatched_vectors"]) == (len(samples["y"]), 0)
    outputs = np.load(tmp_path / "board.npz")["digit"].reshape(-1, 10)
    assert np.array_equal(outputs, of_tflite_micro(samples["x"]))
    claim = re.search(r"(\d+) of \d+ held-back samples", (MODELS / "README.md").read_text())
    assert claim
    right = int((outputs.argmax(axis=1) == samples["y"]).sum())
    assert right == int(claim[1]) == report["accuracy"]["right"] == report["accuracy"]["reference_right"]


def test_the_model_is_what_its_page_says(gen: Gen):
    page = (MODELS / "README.md").read_text()
    result = gen("plan", MODELS / "digits.tflite", "--board", "rpi-zero", "--json")

    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert f"{report['model']['ops']} ops, {report['model']['macs']:,} multiply-accumulates" in page
    assert f"{(MODELS / 'digits.tflite').stat().st_size:,} bytes as a file" in page
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    assert f"arena {report['plan']['arena_bytes']:,} bytes" in readme
    assert [(each["name"], each["shape"]) for each in report["model"]["inputs"]] == [("image", [1, 8, 8, 1])]
    assert [(each["name"], each["shape"]) for each in report["model"]["outputs"]] == [("digit", [1, 10])]


READ_ALL = """
#include <stdio.h>

int main(void)
{
    int8_t pixels[DIGITS_INPUT_BYTES];
    while (fread(pixels, sizeof pixels, 1, stdin) == 1) {
        printf("%d\\n", read_digit(pixels));
    }
    return 0;
}
"""


def test_the_readmes_function_reads_the_held_back_digits(digits_project: Path, tmp_path: Path):
    (snippet,) = (block for block in c_blocks("README.md") if "digits" in block)
    source = tmp_path / "snippet.c"
    source.write_text(snippet.replace("int read_digit", "int read_digit(const int8_t *);\nint read_digit") + READ_ALL)
    library = digits_project / "lib" / "digits" / "src"
    command = [*ZIG, *WARNINGS, "-O1", f"-I{library}", "-o", tmp_path / "reader"]
    subprocess.run([*command, source, *sorted(library.rglob("*.c"))], check=True)
    samples = np.load(MODELS / "digits_test.npz")

    read = subprocess.run([tmp_path / "reader"], input=samples["x"].tobytes(), capture_output=True, check=True).stdout

    assert [int(each) for each in read.split()] == of_tflite_micro(samples["x"]).argmax(axis=1).tolist()
