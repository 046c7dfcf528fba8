"""What a file declares of its values is compared with what the import computes; a difference is one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from shoehorn_mcu.importers import ImportFault
from shoehorn_mcu.importers.declared import Declarations, Declared
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array

Sizes = Sequence[int | str | None]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name: str, shape: Sizes | None, kind: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    *said: ValueInfoProto, x: Sizes = (1, 4, 6), y: ValueInfoProto | None = None, code: str = "ReduceSum"
) -> ModelProto:
    """Two ops, from `x` by `a` to `y`, and what the file declares of them."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node(code, ["a"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", x)], [y or value("y", None)], value_info=said)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (model(value("a", (1, 4, 5))), "'a' is computed as float32 1x4x6, but the file declares float32 1x4x5; export"),
        (model(value("a", (4, 6))), "'a' is computed as float32 1x4x6, but the file declares float32 4x6; "),
        (model(value("a", (1, 4, 6), INT64)), "'a' is computed as float32 1x4x6, but the file declares int64 1x4x6; "),
        (model(value("a", None, INT64)), "'a' is computed as float32, but the file declares int64; "),
        (model(y=value("y", (1, 1, 2))), "op 1 ReduceSum writing 'y': 'y' is computed as float32 1x1x1, but the file"),
        (model(y=value("y", ())), "'y' is computed as float32 1x1x1, but the file declares float32 a number; "),
        (model(y=value("y", None), code="ArgMax"), "'y' is computed as int64, but the file declares float32; "),
        (
            model(value("a", (1, "n", "n"))),
            "'a' is computed as float32 1x4x6, so its dimension 'n' is 6, which was 4 before; ",
        ),
        (model(value("a", ("b", "n", 6)), x=("b", "b", 6)), "input 'x' is not fixed"),
        (
            model(value("a", ("m", "n", 6)), y=value("y", ("m", "n", 1))),
            "'y' is computed as float32 1x1x1, so its dimension 'n' is 1, which was 4 before; ",
        ),
    ],
)
def test_a_difference_is_refused(made: ModelProto, said: str) -> None:
    with pytest.raises(ImportFault, match=said):
        import_model(made, "m")


@pytest.mark.parametrize(
    "made",
    [
        model(value("a", (1, 4, 6)), y=value("y", (1, 1, 1))),
        model(value("a", None)),
        model(value("a", (None, "n", 0)), y=value("y", ("m", "m", None))),
        model(value("a", ("b", 4, "n")), x=("b", 4, 6), y=value("y", ("b", 1, 1))),
        model(value("nothing", (7,))),
        model(value("a", (1, 4, 6), TensorProto.UNDEFINED)),
    ],
    ids=["equal", "no shape", "sizes that are not known", "a batch", "another value", "no element type"],
)
def test_what_is_not_declared_is_not_compared(made: ModelProto) -> None:
    import_model(made, "m")


def sized(shapes: Mapping[str, tuple[int, ...]], x: Sizes, *said: ValueInfoProto) -> None:
    import_model(model(*said, x=x), "m", shapes)


def test_sizes_for_another_shape_than_the_one_given_are_stale() -> None:
    """Names of dimensions, numbers of dimensions and element types still hold."""
    sized({"n": (6,)}, (1, "n", 6), value("a", (1, 224, 6)))
    sized({"n": (4,)}, ("b", "n", 6), value("a", ("b", "n", 5)))
    with pytest.raises(ImportFault, match=r"computed as float32 1x6x6, but the file declares float32 \?x\?; "):
        sized({"n": (6,)}, (1, "n", 6), value("a", (1, 6)))
    with pytest.raises(ImportFault, match=r"declares float32 6x6x\?"):
        sized({"n": (6,)}, (1, "n", 6), value("a", ("n", "n", 6)))
    with pytest.raises(ImportFault, match="declares int64"):
        sized({"n": (6,)}, (1, "n", 6), value("a", (1, "n", 6), INT64))


def test_a_batch_of_1_leaves_all_sizes_as_they_are() -> None:
    with pytest.raises(ImportFault, match="declares float32 1x4x5"):
        sized({"b": (1,)}, ("b", 4, 6), value("a", ("b", 4, 5)))


def test_constants_that_are_computed_are_compared() -> None:
    made = model()
    made.graph.node.insert(0, helper.make_node("Neg", ["c"], ["d"]))
    held: Array = np.arange(3)
    made.graph.initializer.append(numpy_helper.from_array(held, "c"))
    made.graph.value_info.append(value("d", (4,), INT64))

    with pytest.raises(ImportFault, match="'d' is computed as int64 3, but the file declares int64 4; "):
        import_model(made, "m")


def test_a_format_says_its_own_cure() -> None:
    of = Declarations({"a": Declared((1, None), "int8")}, "convert it again")

    of.check("a", (1, 7), "int8")
    of.check("b", (1, 7), "int8")
    with pytest.raises(ImportFault, match=r"^'a' is computed as int8 2x7, but the file declares int8 1x\?; convert it"):
        of.check("a", (2, 7), "int8")
