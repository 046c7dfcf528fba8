"""What of a quantised model is slower or larger than it looks is said by each command, the report and the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from conftest import Gen
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, int8

from shoehorn_mcu.importers import InFloat
from shoehorn_mcu.paths import MODELS
from shoehorn_mcu.slow import slow_parts
from tests import litert

_CONV = {"StrideH": 1, "StrideW": 1}


def hybrid() -> bytes:
    """Two convolutions of int8 weights between real numbers, as without representative samples, and one of floats."""
    weights = [int8(name, (2, 1, 1, 2), seed=seed) for seed, name in enumerate(("w1", "w2"))]
    real = np.ones((2, 1, 1, 2), np.float32).tobytes()
    maps = [TensorSpec(name, (1, 4, 4, 2), "FLOAT32") for name in ("x", "a", "b", "c")]
    tensors = [*maps, *weights, TensorSpec("w3", (2, 1, 1, 2), "FLOAT32", data=real)]
    ops = [OpSpec("CONV_2D", (i, 4 + i), (i + 1,), dict(_CONV)) for i in range(3)]
    return ModelSpec(tensors, ops, (0,), (3,)).bytes()


def nine_bits(folder: Path) -> Path:
    """A convolution of uint8 whose weights have a zero point of 255, and one whose weights have none."""
    kernels = [int8(name, (2, 1, 1, 2), seed=seed) for seed, name in enumerate(("w1", "w2"))]
    maps = [int8(name, (1, 4, 4, 2)) for name in ("x", "a", "b")]
    tensors = [*maps, *kernels, bias("b1", 2), bias("b2", 2)]
    ops = [OpSpec("CONV_2D", (i, 3 + i, 5 + i), (i + 1,), dict(_CONV)) for i in range(2)]
    path = folder / "u8.tflite"
    path.write_bytes(litert.as_uint8(ModelSpec(tensors, ops, (0,), (2,)).bytes(), 3, 255))
    return path


def test_reasons_are_grouped_without_their_names_and_the_most_frequent_comes_first():
    found = [InFloat(f"t{i}", "Conv", f"its input 'x{i}' is not quantised") for i in range(3)]
    found.insert(0, InFloat("g", "Gemm", "its result is not quantised"))
    (said,) = slow_parts(found, 9, ())

    assert said["sentence"] == (
        "4 of 9 convolutions, dense layers and products of matrices of this quantised model compute in float32: "
        "its input is not quantised (3: Conv 't0', Conv 't1', ...); its result is not quantised (Gemm 'g')"
    )
    assert said["reasons"] == [
        {"reason": "its input is not quantised", "ops": ["t0", "t1", "t2"]},
        {"reason": "its result is not quantised", "ops": ["g"]},
    ]
    assert slow_parts((), 9, ()) == []


def test_weights_without_activations_that_are_quantised_compute_in_float(gen: Gen, tmp_path: Path):
    model, page = tmp_path / "hybrid.tflite", tmp_path / "page.html"
    model.write_bytes(hybrid())
    sentence = "2 of 2 convolutions, dense layers and products of matrices of this quantised model compute in float32"

    printed = gen("plan", model, "--html", page)
    assert printed.exit_code == 0, printed.output
    assert f"note: {sentence}: only its weights are quantised, its input is float32" in printed.stdout
    assert f"<dt>In float32</dt><dd>{sentence}" in page.read_text()
    (said,) = json.loads(gen("plan", model, "--json").stdout)["slow"]
    assert (said["count"], said["of"], said["reasons"][0]["ops"]) == (2, 2, ["a", "b"])


def test_weights_of_two_bytes_are_counted_by_all_that_say_a_plan(gen: Gen, tmp_path: Path):
    model, folder = nine_bits(tmp_path), tmp_path / "u8"
    sentence = "1 of 2 convolutions and dense layers takes two bytes for each weight, 4 bytes more, and portable C"

    written = gen("firmware", model, "--board", "rpi-zero", "--out", folder)
    assert written.exit_code == 0, written.output
    (said,) = json.loads((folder / "report.json").read_text())["slow"]
    assert (said["kind"], said["count"], said["bytes"]) == ("wide-weights", 1, 4)
    assert sentence in written.stdout and sentence in said["sentence"]
    assert sentence in (folder / "plan.html").read_text()
    other = tmp_path / "v8.tflite"
    other.write_bytes(model.read_bytes())
    together = gen("firmware", model, other, "--board", "rpi-zero", "--out", tmp_path / "both")
    assert f"v8: note: {sentence}" in together.stdout, together.output


def test_a_model_without_them_says_nothing(gen: Gen):
    assert "slow" not in json.loads(gen("plan", MODELS / "digits.tflite", "--json").stdout)
