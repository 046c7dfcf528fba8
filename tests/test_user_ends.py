"""`--pixels`, `--top` and `--classes`: a model's ends as its user has them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compilers import GCC
from conftest import Gen
from evaluate import evaluate

from shoehorn_mcu import importers, ops
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.ir import Array, DType, FileTensor, Graph, Quant, Tensor, TensorType, verify
from shoehorn_mcu.passes import run
from shoehorn_mcu.passes.ends.user_ends import EndsError, Pixels, with_pixels, with_top

RNG = np.random.default_rng(31)
PER_CHANNEL = Pixels((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


def net(dtype: DType = DType.FLOAT32, quant: Quant | None = None, shape: tuple[int, ...] = (1, 4, 5, 3)) -> Graph:
    """A graph that gives its input, as a vector."""
    size = int(np.prod(shape))
    tensors = {"x": Tensor("x", TensorType(shape, dtype, quant)), "y": Tensor("y", TensorType((1, size), dtype, quant))}
    view = ops.Reshape(name="r", inputs=("x",), output="y", shape=(1, size))
    return verify(Graph("net", tensors, (view,), ("x",), ("y",)))


def pixels_of(graph: Graph) -> Array:
    return RNG.integers(0, 256, graph.tensors["x"].type.shape).astype(np.uint8)


def test_pixels_of_a_float_model_are_normalised_per_channel() -> None:
    graph, _ = with_pixels(net(), {}, PER_CHANNEL)
    x = pixels_of(graph)
    means, deviations = (np.array(each, np.float32) for each in (PER_CHANNEL.means, PER_CHANNEL.deviations))

    assert graph.tensors["x"].type == TensorType((1, 4, 5, 3), DType.UINT8)
    assert evaluate(graph, {"x": x})["y"].tobytes() == ((x.astype(np.float32) - means) / deviations).tobytes()


def test_pixels_of_a_quantised_model_are_one_table() -> None:
    quant = Quant((0.0078125,), (-1,))
    graph, _ = with_pixels(net(DType.INT8, quant), {}, Pixels((127.5,), (127.5,)))
    x = pixels_of(graph)
    real = (x.astype(np.float32) - np.float32(127.5)) / np.float32(127.5)
    wanted = np.clip(np.floor(np.abs(real / 0.0078125) + 0.5) * np.sign(real) - 1, -128, 127).astype(np.int8)
    after, _ = run(graph)

    assert [type(op).__name__ for op in after.ops] == ["Table", "Reshape"]
    for each in (graph, after):
        assert evaluate(each, {"x": x})["y"].tobytes() == wanted.tobytes()


def test_the_file_s_order_of_dimensions_stays() -> None:
    end = FileTensor("image", TensorType((1, 3, 4, 5), DType.FLOAT32), (0, 2, 3, 1))
    _, ends = with_pixels(net(), {"x": end}, PER_CHANNEL)

    assert ends["x"] == FileTensor("image", TensorType((1, 3, 4, 5), DType.UINT8), (0, 2, 3, 1))


@pytest.mark.parametrize(
    ("graph", "pixels", "said"),
    [
        (net(), Pixels((1.0, 2.0), (1.0,)), "--pixels has 2 values, 'x' has 3 channels; give one, or 3"),
        (net(shape=(1, 60)), Pixels((0.0,), (1.0,)), "--pixels is for images"),
        (net(DType.INT32), Pixels((0.0,), (1.0,)), "--pixels is for images"),
    ],
)
def test_what_takes_no_such_pixels_is_refused(graph: Graph, pixels: Pixels, said: str) -> None:
    with pytest.raises(EndsError, match=said):
        with_pixels(graph, {}, pixels)


@pytest.mark.parametrize(
    ("dtype", "quant"), [(DType.FLOAT32, None), (DType.INT8, Quant((0.5,), (3,))), (DType.INT32, None)]
)
def test_the_largest_scores_come_first_and_of_equal_ones_the_first(dtype: DType, quant: Quant | None) -> None:
    graph = with_top(net(dtype, quant, (1, 1, 1, 12)), 4)
    x = np.array([3, 7, -2, 7, 0, 9, -5, 3, 1, 2, 7, 0]).astype(dtype.numpy).reshape(1, 1, 1, 12)

    assert graph.outputs == ("y", "top")
    assert evaluate(graph, {"x": x})["top"].tolist() == [[5, 1, 3, 10]]


@pytest.mark.parametrize(("shape", "count"), [((1, 1, 1, 3), 4), ((1, 4, 5, 3), 61)])
def test_more_places_than_scores_are_refused(shape: tuple[int, ...], count: int) -> None:
    with pytest.raises(EndsError, match=f"--top {count} is for a vector of {count} scores or more"):
        with_top(net(shape=shape), count)


def test_a_map_has_no_top() -> None:
    graph = importers.load(MODELS / "digits.tflite")
    with pytest.raises(EndsError, match="is for a vector"):
        with_top(Graph(graph.name, graph.tensors, graph.ops[:1], graph.inputs, (graph.ops[0].output,)), 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("127.5", "is not MEAN/DEVIATION"),
        ("a/b", "is not MEAN/DEVIATION"),
        ("0/0", "deviations above 0"),
        ("nan/1", "means must be finite"),
    ],
)
def test_a_wrong_normalisation_is_refused_as_usage(given: str, said: str, gen: Gen) -> None:
    done = gen("plan", "--pixels", given)
    assert done.exit_code == 2 and said in done.stderr


def test_a_firmware_takes_pixels_and_gives_the_best_class(gen: Gen, tmp_path: Path) -> None:
    folder, found = tmp_path / "fw", tmp_path / "found.npz"
    done = gen("firmware", "--board", "native", "--pixels", "0/16", "--top", "2", "--out", str(folder))
    assert done.exit_code == 0, done.stderr
    digits = np.load(MODELS / "digits_test.npz")
    images = (digits["x"][:20].astype(np.int64) + 128).clip(0, 255).astype(np.uint8)
    plan = json.loads((folder / "plan.json").read_text())
    name = plan["inputs"][0] if isinstance(plan["inputs"][0], str) else plan["inputs"][0]["name"]
    np.savez(tmp_path / "x.npz", **{name: images})
    done = gen("validate", str(folder), "--emulate", "--inputs", str(tmp_path / "x.npz"), "--outputs", str(found))
    assert done.exit_code == 0, done.stderr
    outputs = dict(np.load(found))
    scores = next(array for key, array in outputs.items() if key != "top").reshape(20, -1)

    assert (outputs["top"].reshape(20, 2)[:, 0] == scores.argmax(axis=1)).all()


NAMES = [*["nought", "one", "two", "three", "four", "five", "six", "seven", "eight"], 'Neun? "9", né']


def test_the_library_names_the_classes(gen: Gen, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\n".join((*NAMES, "")), encoding="utf-8")
    folder = tmp_path / "digits"
    gen("library", MODELS / "digits.tflite", "--classes", tmp_path / "names.txt", "--out", folder)
    main = '#include "digits.h"\n#include <stdio.h>\nint main(void) { for (int i = -1; i <= DIGITS_CLASSES; i++)'
    (tmp_path / "main.c").write_text(f'{main} {{ printf("%s\\n", digits_class(i)); }} return 0; }}\n')
    sources = [str(path) for path in folder.rglob("*.c")]
    command = [
        *GCC,
        "-I",
        str(folder / "src"),
        str(tmp_path / "main.c"),
        *sources,
        "-lm",
        "-o",
        str(tmp_path / "names"),
    ]
    subprocess.run(command, check=True)

    said = subprocess.run([str(tmp_path / "names")], capture_output=True, check=True).stdout.decode()

    assert said.split("\n") == ["", *NAMES, "", ""]


def test_a_validation_prints_the_names_of_the_classes(gen: Gen, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    folder = tmp_path / "digits"
    gen("firmware", "--board", "native", "--classes", tmp_path / "names.txt", "--out", folder)

    done = gen("validate", folder, "--emulate", "--inputs", MODELS / "digits_test.npz", "--json")

    assert json.loads(done.stdout)["accuracy"]["classes"] == NAMES


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"one\ntwo\n", "--classes names 2, "),
        (b"\n \n", "is empty; write a name per line"),
        (b"\xff\xfe", "cannot be read as a list of names"),
        (None, "cannot be read as a list of names"),
    ],
)
def test_other_names_than_classes_are_refused_in_one_line(
    gen: Gen, text: bytes | None, said: str, tmp_path: Path
) -> None:
    place = tmp_path / "names.txt"
    if text is not None:
        place.write_bytes(text)

    done = gen("plan", MODELS / "digits.tflite", "--classes", place)

    assert done.exit_code != 0 and said in done.stderr and "Traceback" not in done.output


def test_an_option_for_one_output_is_refused_for_several() -> None:
    graph = net()
    several = replace(graph, outputs=graph.outputs * 2)

    with pytest.raises(EndsError, match=r"--top takes models with one output, this one has 2 \(y, y\); leave the"):
        with_top(several, 1)
