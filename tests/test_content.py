"""What a file is by its content, and what can be seen in one whose import ends with a fault."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper
from tflite_writer import ModelSpec, OpSpec, TensorSpec, int8, small_model

from shoehorn_mcu.importers import load
from shoehorn_mcu.importers.fault import ImportFault, Refusal
from shoehorn_mcu.importers.tflite.diagnosis import diagnosis
from shoehorn_mcu.importers.tflite.file import read

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def opened(width: int | str = "W", kernel: int = 3) -> bytes:
    """An ONNX model, y = Relu(Conv(x)), whose x has the width that is given, and weights for 3 channels."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 8, width]), ("y", None))]
    w = numpy_helper.from_array(np.ones((4, kernel, 3, 3), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "n", ends[:1], ends[1:], [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(made.SerializeToString())


def zipped(path: Path, *names: str) -> bytes:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, b"1")
    return path.read_bytes()


@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".pt2", ".pt"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty: copy or download it again"),
        (POINTER, "is a Git-LFS pointer, not the model: run `git lfs pull` in its repository"),
        (b"\n <!DOCTYPE html>\n<html>", "is a web page, not the model: download the file itself"),
        (b"\x1f\x8b\x08", "is compressed by gzip: unpack it first"),
        (b"\x89HDF\r\n", "is a Keras model (HDF5): convert it to .tflite"),
    ],
)
def test_a_file_that_is_no_model_of_any_format_is_said_to_be_what_it_is(
    data: bytes, said: str, suffix: str, gen: Gen, tmp_path: Path
):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(data)
    for command in ("inspect", "plan"):
        done = gen(command, path)
        assert (done.exit_code, done.stderr.startswith(f"gen: m{suffix}: {said}")) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("m.onnx", lambda _: small_model().bytes(), "is a TensorFlow Lite model: call it m.tflite"),
        ("m.pt", lambda _: small_model().bytes(), "is a TensorFlow Lite model: call it m.tflite"),
        ("m.tflite", lambda _: opened(), "is an ONNX model: call it m.onnx"),
        ("m.bin", lambda _: opened(), "is an ONNX model: call it m.onnx"),
        ("m.tflite", lambda p: zipped(p, "a/saved_model.pb", "a/variables/v"), "is an archive of a SavedModel: unpack"),
        ("m.zip", lambda p: zipped(p, "a/b.tflite"), "is an archive that holds 'a/b.tflite': unpack it"),
        ("m.onnx", lambda p: zipped(p, "m/data.pkl", "m/version"), "is an archive of PyTorch: call it m.pt2, or .pt"),
        ("m.pt", lambda p: zipped(p, "config.json", "model.weights.h5"), "is a Keras model: convert it"),
    ],
)
def test_a_file_of_another_format_is_known_by_its_content(name: str, make: Any, said: str, gen: Gen, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(make(tmp_path / "z"))
    done = gen("plan", path)

    assert (done.exit_code, done.stderr.startswith(f"gen: {name}: {said}")) == (1, True), done.stderr


def test_a_folder_of_a_saved_model_is_one(gen: Gen, tmp_path: Path):
    (tmp_path / "saved_model.pb").touch()

    assert "is a SavedModel; convert it to an int8 .tflite first" in gen("plan", tmp_path).stderr


def inspected(gen: Gen, path: Path) -> dict[str, Any]:
    done = gen("inspect", path, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert gen("inspect", path).exit_code == 0
    return found


def test_open_dimensions_are_shown_by_their_names(gen: Gen, tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(opened())
    found = inspected(gen, path)

    assert [end["shape"] for end in found["model"]["inputs"]] == [[1, 3, 8, "W"]]
    assert [(op["name"], op["op"]) for op in found["ops"]] == [("op 0", "Conv"), ("op 1", "Relu")]
    assert "input x: float32[1x3x8xW]" in gen("inspect", path).stdout
    assert not found["supported"] and "W" in found["refused"][0] and "--shape" in found["refused"][0]


def test_an_op_that_does_not_fit_is_shown_with_all_others_and_not_exported_again(gen: Gen, tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(opened(width=8, kernel=5))
    found = inspected(gen, path)

    assert [op["refusal"] is None for op in found["ops"]] == [False, True]
    assert found["ops"][0]["refusal"].endswith("if the model runs elsewhere, please report it with the file")
    assert "again" not in found["refused"][0]


def test_a_tflite_model_with_a_fault_is_shown_and_subgraphs_too(gen: Gen, tmp_path: Path):
    inner = ModelSpec([int8("i", (1, 4)), int8("j", (1, 4))], [OpSpec("RELU", (0,), (1,))], (0,), (1,))
    tensors = [int8("x", (3, 4)), int8("w", (2, 8), seed=1), int8("y", (1, 2))]
    path = tmp_path / "m.tflite"
    path.write_bytes(ModelSpec(tensors, [OpSpec("FULLY_CONNECTED", (0, 1), (2,))], (0,), (2,), others=[inner]).bytes())
    found = inspected(gen, path)

    assert [(op["name"], op["op"]) for op in found["ops"]] == [("op 0", "FULLY_CONNECTED"), ("subgraph 1 op 0", "RELU")]
    assert "does not divide into rows of 8" in found["ops"][0]["refusal"]
    assert found["ops"][1]["refusal"] is None


def test_a_file_in_which_nothing_can_be_seen_is_refused(gen: Gen, tmp_path: Path):
    for suffix in (".tflite", ".onnx", ".pt2"):
        path = tmp_path / f"m{suffix}"
        path.write_bytes(b"nothing that is known")
        assert gen("inspect", path).exit_code == 1


def of_types(*ops: tuple[str, str], rest: str = "FLOAT32") -> tuple[bytes, list[Refusal]]:
    """A model of ops that are refused, each of a code and an element type, behind one that is not."""
    tensors = [TensorSpec("x", (1, 4), rest), TensorSpec("r", (1, 4), rest)]
    tensors += [TensorSpec(f"t{i}", (1, 4), dtype) for i, (_, dtype) in enumerate(ops)]
    specs = [OpSpec("RELU", (0,), (1,)), *(OpSpec(code, (1,), (i,)) for i, (code, _) in enumerate(ops, 2))]
    refused = [Refusal(f"op {i}", code, f"'t{i}'", "why") for i, (code, _) in enumerate(ops, 1)]
    return ModelSpec(tensors, specs, (0,), (len(tensors) - 1,)).bytes(), refused


INT8 = "convert it to int8 (docs/first-model.md shows how)"


@pytest.mark.parametrize(
    ("ops", "rest", "said"),
    [
        ([("RESIZE_BILINEAR", "FLOAT16")], "FLOAT16", f"a float16 model; {INT8}"),
        (
            [("HASHTABLE", "FLOAT32")],
            "FLOAT32",
            "a float32 model, and int8 does not help: HASHTABLE cannot run in it either",
        ),
        (
            [("BUCKETIZE", "FLOAT32"), ("WHERE", "FLOAT32"), ("BUCKETIZE", "FLOAT32"), ("MUL", "FLOAT32")],
            "FLOAT32",
            "a float32 model, and int8 does not help: BUCKETIZE x 2, WHERE cannot run in it either",
        ),
        ([("HASHTABLE", "INT8"), ("WHILE", "INT8")], "FLOAT32", ""),
        ([("MUL", "FLOAT32")], "INT8", f"a model quantised in part: 1 of its 2 tensors are float32; {INT8}"),
    ],
)
def test_int8_is_the_cure_only_where_it_is_one(ops: list[tuple[str, str]], rest: str, said: str):
    data, refused = of_types(*ops, rest=rest)

    assert diagnosis(read(data), refused) == said


def test_equal_causes_are_one_line_with_their_number(gen: Gen, tmp_path: Path):
    tensors = [int8(f"t{i}", (1, 4)) for i in range(6)]
    ops = [OpSpec("CUSTOM", (i,), (i + 1,), custom="FlexThing") for i in range(5)]
    path = tmp_path / "m.tflite"
    path.write_bytes(ModelSpec(tensors, ops, (0,), (5,)).bytes())
    lines = gen("inspect", path).stdout.splitlines()

    assert lines[lines.index("cannot run") + 1 :] == ["  5 CUSTOM 'FlexThing' ('t1', 't2', ...)"]
    assert len(gen("inspect", path, "-v").stdout.split("\ncannot run\n")[1].splitlines()) == 5


def test_reasons_that_differ_in_names_are_one_with_their_number(gen: Gen, tmp_path: Path):
    path = tmp_path / "m.tflite"
    tensors = [TensorSpec(f"t{i}", (1, 4), "STRING") for i in range(3)]
    path.write_bytes(ModelSpec(tensors, [OpSpec("ABS", (i,), (i + 1,)) for i in range(2)], (0,), (2,)).bytes())

    assert "ABS: tensor is STRING (x 2)" in gen("inspect", path).stdout


def test_a_fault_of_an_op_is_not_cured_by_the_same_file_again():
    for words in ("export it again", "convert it again", "export or convert it again"):
        fault = ImportFault(f"a bias of 3; {words}").of_op("op 1 Conv writing 'c'")
        assert str(fault) == (
            "op 1 Conv writing 'c': a bias of 3; if the model runs elsewhere, please report it with the file"
        )
    assert str(ImportFault("damaged; copy it again").of_op("op 1")) == "op 1: damaged; copy it again"


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_a_model_that_never_ends_or_is_too_large_is_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"m.{suffix}"
    path.symlink_to("/dev/zero")
    with pytest.raises(ImportFault, match=rf"^m.{suffix}: is no regular file; copy the model into one$"):
        load(path)

    path.unlink()
    path.write_bytes(b"\0" * 1000)
    monkeypatch.setattr("shoehorn_mcu.importers.content.FILE_LIMIT_BYTES", 1000)
    with pytest.raises(ImportFault, match=rf"^m.{suffix}: larger than 999 bytes$"):
        load(path)


def test_an_onnx_file_is_seen_by_a_process_that_is_locked_in(tmp_path: Path) -> None:
    """The package onnx is C++, and the file is foreign: this process does not even import it."""
    path = tmp_path / "m.onnx"
    path.write_bytes(opened())
    code = (
        "import sys; from pathlib import Path; from shoehorn_mcu.importers import seen_in\n"
        f"found = seen_in(Path({str(path)!r}))\n"
        "print(*(op.code for op in found.ops), found.inputs[0].shape, found.ops[0].weight_bytes, 'onnx' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert said == "Conv Relu (1, 3, 8, 'W') 432 False\n"


def test_an_archive_of_something_else_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("notes/readme.txt", "nothing")

    with pytest.raises(ImportFault, match=r"^m.onnx: is an archive, and no model that is known: unpack it, and name"):
        load(path)
