"""Open dimensions of .tflite files: an open batch is 1, others are given, and all else follows from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import litert
import numpy as np
import pytest
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, int8, ints, single

from shoehorn_mcu.importers import ImportFault, UnsupportedModel
from shoehorn_mcu.importers.tflite.importer import import_tflite, load_tflite
from shoehorn_mcu.ir import Array, Graph


def opened(name: str, signature: tuple[int, ...]) -> TensorSpec:
    """A tensor as converters write one with open dimensions: 1 in the place of each."""
    return replace(int8(name, tuple(max(1, size) for size in signature)), signature=signature)


def real(name: str, signature: tuple[int, ...]) -> TensorSpec:
    return replace(opened(name, signature), dtype="FLOAT32", scales=(), zero_points=None)


def computed(graph: Graph, *inputs: Array) -> list[Array]:
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    return [values[name] for name in graph.outputs]


def dilated() -> ModelSpec:
    """A dilated convolution over time as Keras writes it: its blocks become a batch of 2, in the file a 1."""
    window = {"StrideH": 1, "StrideW": 1, "Padding": 1}
    tensors = [
        real("x", (-1, 12, 3)),
        ints("block", [2]),
        ints("pads", [[2, 2]]),
        real("blocks", (-1, 8, 3)),
        ints("axis", [1]),
        real("wide", (-1, 1, 8, 3)),
        TensorSpec("w", (4, 1, 3, 3), "FLOAT32", data=np.linspace(-1, 1, 36, dtype=np.float32).tobytes()),
        TensorSpec("b", (4,), "FLOAT32", data=np.zeros(4, np.float32).tobytes()),
        real("maps", (-1, 1, 6, 4)),
        ints("shape", [-1, 6, 4]),
        real("narrow", (-1, 6, 4)),
        ints("crops", [[0, 0]]),
        real("y", (-1, 12, 4)),
    ]
    ops = [
        OpSpec("SPACE_TO_BATCH_ND", (0, 1, 2), (3,)),
        OpSpec("EXPAND_DIMS", (3, 4), (5,)),
        OpSpec("CONV_2D", (5, 6, 7), (8,), window),
        OpSpec("RESHAPE", (8, 9), (10,)),
        OpSpec("BATCH_TO_SPACE_ND", (10, 1, 11), (12,)),
    ]
    return ModelSpec(tensors, ops, (0,), (12,))


def test_placeholders_of_an_open_batch_are_not_taken_for_shapes() -> None:
    x = np.random.default_rng(0).normal(0, 1, (1, 12, 3)).astype(np.float32)
    model = dilated().bytes()

    graph = import_tflite(model, "dilated")

    (found,) = computed(graph, x)
    assert [graph.tensors[name].type.shape for name in ("blocks", "maps")] == [(2, 8, 3), (2, 1, 6, 4)]
    np.testing.assert_allclose(found, litert.run(model, [x])[12], rtol=1e-5, atol=1e-6)


def arithmetic(rank: int, *sizes: int) -> ModelSpec:
    """x reshaped to (its first size, *sizes) by what is computed of its shape, and a dense layer behind."""
    tensors = [
        opened("x", (-1, 4, 6)[:rank]),
        TensorSpec("s", (rank,), "INT32"),
        ints("zero", [0]),
        ints("one", [1]),
        TensorSpec("n", (), "INT32"),
        *(TensorSpec(f"c{i}", (), "INT32", data=np.int32(size).tobytes()) for i, size in enumerate(sizes)),
        TensorSpec("shape", (1 + len(sizes),), "INT32"),
        opened("wide", (-1,) * (1 + len(sizes))),
        int8("w", (5, sizes[-1]), seed=1),
        bias("b", 5),
        opened("y", (-1, 5)),
    ]
    shape = 5 + len(sizes)
    ops = [
        OpSpec("SHAPE", (0,), (1,), {"OutType": tflite.TensorType.INT32}, table="ShapeOptions"),
        OpSpec("STRIDED_SLICE", (1, 2, 3, 3), (4,), {"ShrinkAxisMask": 1}),
        OpSpec("PACK", (4, *range(5, shape)), (shape,), {"Axis": 0, "ValuesCount": 1 + len(sizes)}),
        OpSpec("RESHAPE", (0, shape), (shape + 1,)),
        OpSpec("FULLY_CONNECTED", (shape + 1, shape + 2, shape + 3), (shape + 4,)),
    ]
    return ModelSpec(tensors, ops, (0,), (shape + 4,))


@pytest.mark.parametrize("sizes", [(24,), (3, 8), (2, 3, 4)])
def test_arithmetic_of_shapes_is_folded(sizes: tuple[int, ...]) -> None:
    spec = arithmetic(3, *sizes)
    x = np.random.default_rng(1).integers(-128, 128, (1, 4, 6), np.int8)

    graph = import_tflite(spec.bytes(), "shapes")

    (found,) = computed(graph, x)
    assert {type(op).__name__ for op in graph.ops} <= {"Reshape", "Dense"}
    wanted = litert.run(spec.bytes(), [x])[spec.outputs[0]]
    assert found.shape == wanted.shape == (24 // sizes[-1], 5)
    assert np.array_equal(found, wanted)


def test_an_open_dimension_other_than_the_batch_is_given(tmp_path: Path) -> None:
    spec = ModelSpec(
        [opened("x", (-1, 6, -1, 2)), ints("p", [[0, 0], [1, 1], [0, 0], [0, 0]]), opened("y", (-1, 8, -1, 2))],
        [OpSpec("PAD", (0, 1), (2,))],
        (0,),
        (2,),
    )
    path = tmp_path / "open.tflite"
    path.write_bytes(spec.bytes())
    x = np.random.default_rng(2).integers(-128, 128, (1, 6, 5, 2), np.int8)

    with pytest.raises(ImportFault, match="has an open dimension, number 2; give it as --shape x=1x6xNx2, with a numb"):
        load_tflite(path, {})
    with pytest.raises(ImportFault, match="dimension 1 of input 'x' is 6 in the file, --shape says 7"):
        load_tflite(path, {"x": (1, 7, 5, 2)})
    with pytest.raises(ImportFault, match="no input is called 'z'; known are 'x'"):
        load_tflite(path, {"z": (1, 6, 5, 2)})
    with pytest.raises(ImportFault, match="input 'x' has 4 dimensions, --shape gives 3"):
        load_tflite(path, {"x": (1, 6, 5)})
    with pytest.raises(ImportFault, match="sizes must be positive"):
        load_tflite(path, {"x": (1, 6, 0, 2)})
    (found,) = computed(load_tflite(path, {"x": x.shape}).graph, x)

    interpreter = Interpreter(model_content=spec.bytes(), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    assert np.array_equal(found, interpreter.get_tensor(2))


def test_a_batch_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "batch.tflite"
    path.write_bytes(dilated().bytes())

    graph = load_tflite(path, {"x": (3, 12, 3)}).graph

    assert [graph.tensors[name].type.shape for name in ("blocks", "y")] == [(6, 8, 3), (3, 12, 4)]


def test_a_shape_that_is_declared_must_be_the_one_that_is_computed() -> None:
    pads = ints("p", [[0, 0], [1, 1]])
    sound, wrong = (single("PAD", [int8("x", (3, 4)), pads], [int8("y", shape)]) for shape in ((3, 6), (3, 7)))

    import_tflite(sound.bytes(), "sound")
    with pytest.raises(ImportFault) as caught:
        import_tflite(wrong.bytes(), "wrong")

    assert "'y' is computed as int8 3x6, but the file declares int8 3x7; if the model runs elsewhere" in str(
        caught.value
    )
    assert "convert it again" not in str(caught.value)


def test_the_sizes_that_are_known_of_an_open_shape_are_compared() -> None:
    pads = ints("p", [[0, 0], [1, 1]])
    models = (single("PAD", [opened("x", (-1, 4)), pads], [opened("y", shape)]) for shape in ((-1, 6), (-1, 7)))
    sound, wrong = (model.bytes() for model in models)

    assert import_tflite(sound, "sound").tensors["y"].type.shape == (1, 6)
    with pytest.raises(ImportFault, match=r"'y' is computed as int8 1x6, but the file declares int8 \?x7"):
        import_tflite(wrong, "wrong")


def test_what_follows_from_a_refused_op_is_not_blamed() -> None:
    """The shape of what WHERE finds is known to nobody, so the dense layer behind it is no second refusal."""
    tensors = [
        replace(opened("x", (-1, 4)), dtype="BOOL", scales=(), zero_points=None),
        replace(opened("found", (-1, -1)), dtype="INT64", scales=(), zero_points=None),
        opened("moved", (-1, -1)),
        int8("w", (5, 2), seed=1),
        bias("b", 5),
        opened("y", (-1, 5)),
    ]
    ops = [OpSpec("WHERE", (0,), (1,)), OpSpec("CAST", (1,), (2,)), OpSpec("FULLY_CONNECTED", (2, 3, 4), (5,))]

    with pytest.raises(UnsupportedModel) as caught:
        import_tflite(ModelSpec(tensors, ops, (0,), (5,)).bytes(), "where")

    assert [refusal.code for refusal in caught.value.refusals] == ["WHERE"]
