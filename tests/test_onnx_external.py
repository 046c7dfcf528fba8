"""Tensors of an .onnx file in other files, wherever they are: read from the model's own folder or refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from shoehorn_mcu.importers import ImportFault, imported, load, onnx_model, other_files
from shoehorn_mcu.importers.onnx import external
from shoehorn_mcu.importers.onnx.file import load_proto
from shoehorn_mcu.importers.onnx.importer import import_model

VALUES = np.arange(1, 5, dtype=np.float32)


def outside(location: str, name: str = "w", **said: str) -> TensorProto:
    """A tensor of four numbers in another file."""
    made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **said}.items():
        made.external_data.add(key=key, value=value)
    return made


def model(*nodes: NodeProto, **more: object) -> ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    graph = helper.make_graph([*nodes], "g", ends[:1], ends[1:], **more)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def add(w: str = "w") -> NodeProto:
    return helper.make_node("Add", ["x", w], ["y"])


def constant(tensor: TensorProto) -> NodeProto:
    return helper.make_node("Constant", [], ["w"], value=tensor)


def _branch(tensor: TensorProto) -> ModelProto:
    out = [helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 4])]
    branch = helper.make_graph([helper.make_node("Add", ["x", "w"], ["b"])], "branch", [], out, [tensor])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return model(constant_of("c", TensorProto.BOOL, [True]), choice)


def constant_of(name: str, kind: int, values: list[object]) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, kind, (), values))


def _function(tensor: TensorProto) -> ModelProto:
    made = model(helper.make_node("F", ["x"], ["y"], domain="own"))
    inner = [constant(tensor), helper.make_node("Add", ["a", "w"], ["b"])]
    made.functions.append(helper.make_function("own", "F", ["a"], ["b"], inner, [helper.make_opsetid("", 18)]))
    return made


def _sparse(tensor: TensorProto) -> ModelProto:
    made = model(helper.make_node("Relu", ["x"], ["y"]))
    indices = helper.make_tensor("i", TensorProto.INT64, (4,), [0, 1, 2, 3])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(tensor, indices, [8]))
    return made


def _training(tensor: TensorProto) -> ModelProto:
    made = model(helper.make_node("Relu", ["x"], ["y"]))
    made.training_info.add().algorithm.CopyFrom(GraphProto(name="t", initializer=[tensor]))
    return made


PLACES: dict[str, Callable[[TensorProto], ModelProto]] = {
    "constant": lambda tensor: model(add(), initializer=[tensor]),
    "attribute": lambda tensor: model(constant(tensor), add()),
    "branch": _branch,
    "function": _function,
    "sparse": _sparse,
    "training": _training,
    "tensors of an attribute": lambda tensor: model(
        helper.make_node("Relu", ["x"], ["y"], odd=[tensor]), helper.make_node("Relu", ["x"], ["z"])
    ),
}
ADDS = ("constant", "attribute", "branch", "function")


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_in_another_file_is_found_anywhere(place: str) -> None:
    assert {tensor.name for tensor in external.tensors(PLACES[place](outside("w.bin")))} == {"w"}


@pytest.mark.parametrize("place", ADDS)
def test_elements_come_from_the_model_s_folder(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "w.bin").write_bytes(b"\0" * 16 + VALUES.tobytes() + b"\0" * 4)
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)  # in the current directory, which means nothing
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "models" / "net.onnx"
    path.write_bytes(PLACES[place](outside("w.bin", offset="16", length="16")).SerializeToString())

    graph = load(path)

    held = [tensor.data.reshape(-1) for tensor in graph.tensors.values() if tensor.data is not None]
    assert any(np.array_equal(each, VALUES) for each in held)
    assert not [*external.tensors(load_proto(path))]
    assert onnx_model(path, {}).graph.node


def test_files_with_constants_are_known_by_their_hashes(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    path = tmp_path / "net.onnx"
    path.write_bytes(PLACES["branch"](outside("w.bin")).SerializeToString())
    inside = model(add(), initializer=[onnx.numpy_helper.from_array(VALUES, "w")])
    (whole := tmp_path / "whole.onnx").write_bytes(inside.SerializeToString())

    assert imported(path, {}).others == {"w.bin": hashlib.sha256(VALUES.tobytes()).hexdigest()}
    assert other_files(path) == (tmp_path / "w.bin",)
    assert imported(whole, {}).others == {} and other_files(whole) == ()
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ImportFault, match=r"net.onnx: constant 'w.bin' is in 'w.bin', which is not beside the model"):
        other_files(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, with a file beside it, links to that file and out of the folder, a pipe and a folder."""
    made = tmp_path / "models"
    (made / "inner").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(VALUES.tobytes())
    (made / "short").write_bytes(b"\0" * 8)
    (made / "inner" / "w.bin").write_bytes(VALUES.tobytes())
    (made / "link").symlink_to(tmp_path / "secret")
    (made / "up").symlink_to(tmp_path)
    (made / "within").symlink_to("inner/w.bin")
    os.mkfifo(made / "pipe")
    return made


REFUSED = {
    "above": ("../secret", "outside the model's folder; move it there"),
    "absolute": ("/etc/hostname", "outside the model's folder; move it there"),
    "link": ("link", "outside the model's folder; move it there"),
    "folder that is a link": ("up/secret", "outside the model's folder; move it there"),
    "out and in": ("inner/../../secret", "outside the model's folder; move it there"),
    "pipe": ("pipe", "is in 'pipe', which is not beside the model"),
    "folder": ("inner", "is in 'inner', which is not beside the model"),
    "missing": ("none", "is in 'none', which is not beside the model"),
    "empty": ("", "its external data names no file"),
    "zero": ("w\0", "its external data names no file"),
    "short": ("short", "the file has 8 bytes"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["above", "absolute", "link", "pipe"])
def test_no_other_file_is_read(name: str, place: str, folder: Path) -> None:
    location, said = REFUSED[name]
    (folder / "net.onnx").write_bytes(PLACES[place](outside(location)).SerializeToString())

    for read in (load, load_proto):
        with pytest.raises(ImportFault, match=f"constant 'w'.*{said}") as fault:
            read(folder / "net.onnx")
        assert "\n" not in str(fault.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_file_of_the_folder(name: str, folder: Path) -> None:
    location, said = REFUSED[name]
    piece = external.piece_of(outside(location, length="16"))

    with pytest.raises(ImportFault, match=said.replace("the file has", "that file has")):
        external.elements([piece], folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("location", ["inner/w.bin", "within", "./inner//w.bin"])
def test_files_within_the_folder_are_read(location: str, folder: Path) -> None:
    digests = {location: hashlib.sha256(VALUES.tobytes()).hexdigest()}
    assert external.elements([external.piece_of(outside(location))], folder) == ([VALUES.tobytes()], digests)


def test_all_pieces_together_are_no_more_than_the_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    pieces = [external.piece_of(outside("w.bin", name)) for name in ("w", "v")]

    monkeypatch.setattr(external, "MOST_BYTES", 32)
    assert external.elements(pieces, tmp_path)[0] == [VALUES.tobytes()] * 2
    monkeypatch.setattr(external, "MOST_BYTES", 31)
    with pytest.raises(ImportFault, match="with it more than"):
        external.elements(pieces, tmp_path)


def test_a_model_in_memory_has_all_its_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    monkeypatch.chdir(tmp_path)

    for place in ADDS:
        with pytest.raises(ImportFault, match="constant 'w' is in another file; load it with the model"):
            import_model(PLACES[place](outside("w.bin")), "net")


def test_onnx_itself_would_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above show less: the package reads from the current directory."""
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    monkeypatch.chdir(tmp_path)

    assert np.array_equal(onnx.numpy_helper.to_array(outside("w.bin")), VALUES)


@pytest.mark.parametrize(
    ("offset", "length", "said"),
    [
        (15, 1, ""),
        (16, 0, ""),
        (16, 1, "behind byte 16 with 1 bytes, and that file has 16 bytes"),
        (17, 0, "behind byte 17, and that file has 16 bytes"),
        (12, 5, "behind byte 12 with 5 bytes, and that file has 16 bytes"),
    ],
)
def test_elements_are_within_the_file(offset: int, length: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    piece = external.piece_of(outside("w.bin", offset=str(offset), length=str(length)))

    if said:
        with pytest.raises(ImportFault, match=said):
            external.elements([piece], tmp_path)
    else:
        assert external.elements([piece], tmp_path)[0] == [VALUES.tobytes()[offset : offset + length]]


def test_pieces_of_several_files_keep_their_order(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() * 8)
    said = (("a", 0), ("b", 1), ("a", 4), ("b", 0))
    pieces = [external.piece_of(outside(name, offset=str(offset), length="2")) for name, offset in said]

    held, digests = external.elements(pieces, tmp_path)

    assert held == [b"aa", b"bb", b"aa", b"bb"]
    assert digests == {name: hashlib.sha256(name.encode() * 8).hexdigest() for name in "ab"}


def test_a_small_part_of_a_large_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the models of a zoo share one file of weights."""
    monkeypatch.setattr(external, "MOST_BYTES", 32)
    (tmp_path / "w.bin").write_bytes(b"\0" * 1024 + VALUES.tobytes())
    path = tmp_path / "net.onnx"
    path.write_bytes(PLACES["constant"](outside("w.bin", offset="1024", length="16")).SerializeToString())

    assert other_files(path) == (tmp_path / "w.bin",)
    assert {*imported(path, {}).others} == {"w.bin"}
