"""Float graphs as ONNX for the quantiser, with the ends of the model's file, and files and samples that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from samples import graph_of, int8
from test_states import ring

from shoehorn_mcu import ops, passes
from shoehorn_mcu.firmware.kept_cost import cost
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array, DType, FileTensor, Graph, Quant, TensorType
from shoehorn_mcu.machine import targets
from shoehorn_mcu.quantisation import QuantizeError
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.quantisation.samples import Input, read_labels, read_samples
from shoehorn_mcu.quantisation.steps import float_model, write
from shoehorn_mcu_host.base.errors import InputError

pytestmark = pytest.mark.usefixtures("module_in_one_process")

RNG = np.random.default_rng(5)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def computed(made: onnx.ModelProto, x: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, {session.get_inputs()[0].name: x})
    return found


def model(
    nodes: list[onnx.NodeProto], x: tuple[int | str, ...], y: str = "y", dtype: int = TensorProto.FLOAT, **held: Array
) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info("x", dtype, x), helper.make_tensor_value_info(y, dtype, None)]
    constants = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("code", ["Relu", "Transpose"])
def test_a_graph_gets_the_ends_of_its_file(code: str) -> None:
    """Images have their channels first in the file; behind a Transpose the output is none."""
    turned = {"perm": [0, 2, 3, 1]} if code == "Transpose" else {}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node(code, ["c"], ["y"], **turned)]
    made = model(nodes, (1, 3, 5, 4), w=reals(2, 3, 2, 2))
    found = import_model(made, "small")
    x = reals(1, 3, 5, 4)

    (wanted,) = computed(made, x)
    (got,) = computed(as_onnx(passes.run(found.graph)[0], found.ends), x)

    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def small(kind: type[ops.Op], shape: tuple[int, ...], **fields: object) -> Graph:
    return graph_of(kind, [TensorType(shape, DType.FLOAT32)], TensorType((), DType.FLOAT32), **fields)


def test_ends_of_another_order_than_images_are_turned() -> None:
    graph = small(ops.Transpose, (2, 3, 4), perm=(0, 2, 1))
    ends: Mapping[str, FileTensor] = {
        "x0": FileTensor("given", TensorType((4, 2, 3), DType.FLOAT32), (1, 2, 0)),
        "y": FileTensor("result", TensorType((3, 4, 2), DType.FLOAT32), (2, 1, 0)),
    }
    x = reals(4, 2, 3)
    made = as_onnx(graph, ends)
    (got,) = computed(made, x)

    assert [each.name for each in (*made.graph.input, *made.graph.output)] == ["given", "result"]
    np.testing.assert_array_equal(got, x.transpose(1, 2, 0).transpose(0, 2, 1).transpose(2, 1, 0))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (ring(), "keeps states between inferences; only models without them are quantised"),
        (
            small(ops.PickChannels, (1, 4), picked=(1, 0)),
            r"op 'op' \(PickChannels\) has no quantised form from .tflite; ",
        ),
    ],
)
def test_what_has_no_form_in_onnx_is_refused(graph: Graph, said: str) -> None:
    with pytest.raises(QuantizeError, match=said):
        as_onnx(graph)


def test_an_open_batch_is_one_and_integers_are_no_float_model(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model([helper.make_node("Relu", ["x"], ["y"])], ("N", 4)).SerializeToString())
    assert [each.dim_value for each in float_model(path).graph.input[0].type.tensor_type.shape.dim] == [1, 4]

    for sizes in ((3, 4), ()):
        path.write_bytes(model([helper.make_node("Relu", ["x"], ["y"])], sizes).SerializeToString())
        assert [each.dim_value for each in float_model(path).graph.input[0].type.tensor_type.shape.dim] == [*sizes]

    path.write_bytes(
        model([helper.make_node("Abs", ["x"], ["y"])], (1, 4), dtype=TensorProto.INT32).SerializeToString()
    )
    with pytest.raises(QuantizeError, match=r"net.onnx: input 'x' is int32; export the model in float32"):
        float_model(path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match=r"none/net.onnx: cannot be written: No such file or directory"):
        write(model([helper.make_node("Relu", ["x"], ["y"])], (1, 4)), tmp_path / "none" / "net.onnx")


TWO = (Input("a", (1, 2)), Input("b", (1, 3)))


def test_samples_of_several_inputs_are_named_or_in_their_order(tmp_path: Path) -> None:
    first, second = reals(5, 2), reals(5, 3)
    np.savez(tmp_path / "x.npz", first, second)
    found = read_samples(tmp_path / "x.npz", TWO)
    np.testing.assert_array_equal(found.arrays["a"].reshape(5, 2), first)
    np.testing.assert_array_equal(found.arrays["b"].reshape(5, 3), second)

    np.savez(tmp_path / "x.npz", first, second[:4])
    with pytest.raises(InputError, match=r"x.npz: the arrays hold different numbers of samples: \[4, 5\]"):
        read_samples(tmp_path / "x.npz", TWO)


def test_a_folder_of_samples_is_for_one_input(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", reals(2))

    with pytest.raises(InputError, match=r"is a folder, but the model has 2 inputs; give an .npz file"):
        read_samples(tmp_path, TWO)


def test_labels_that_may_not_be_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shoehorn_mcu.quantisation.samples.is_npy", closed)

    with pytest.raises(InputError, match=r"y.npy: cannot be read: Permission denied"):
        read_labels(Path("y.npy"), 3, 2)


def test_labels_are_whole_numbers_of_the_classes_one_for_each_sample(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=np.arange(3), b=np.arange(3))
    np.savez(tmp_path / "one.npz", a=np.array([0, 1, 1], np.uint8))
    arrays = {
        "flat": np.zeros((3, 1), int),
        "real": np.zeros(3),
        "high": np.array([0, 1, 2]),
        "low": np.array([0, -1, 0]),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)

    assert read_labels(tmp_path / "one.npz", 3, 2).tolist() == [0, 1, 1]
    none = "holds no labels, which are one array of integers in one dimension"
    for name, said in (
        *((each, none) for each in ("two.npz", "flat.npy", "real.npy")),
        ("high.npy", "holds the label 2; the model's classes are 0 to 1"),
        ("low.npy", "holds the label -1; the model's classes are 0 to 1"),
    ):
        with pytest.raises(InputError, match=f"{name}: {said}"):
            read_labels(tmp_path / name, 3, 2)
    with pytest.raises(InputError, match=r"one.npz: holds 3 labels for 4 samples"):
        read_labels(tmp_path / "one.npz", 4, 2)


def test_labels_in_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no .npz file; numpy.savez writes one"):
        read_labels(tmp_path, 3, 2)


def test_a_network_without_a_plan_has_no_cost_but_a_reason() -> None:
    quant = Quant((0.5,), (0,))
    large = graph_of(ops.Relu, [int8((1, 1000, 1000, 1), quant)], int8((), quant))

    found = cost(Imported(large, {}), targets.board("microbit"))

    assert (found.arena_bytes, found.instructions, found.cycles) == (0, 0, None)
    assert "1,000,000" in found.refused and "\n" not in found.refused
