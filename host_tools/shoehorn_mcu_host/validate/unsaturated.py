"""A quantised ONNX model whose constant weights ONNX Runtime multiplies alike on every processor.

On x86 processors without VNNI, ONNX Runtime adds products of uint8 values and int8 weights in pairs that saturate at 16
bits, so results are far from what the model says. It adds products of uint8 and uint8 exactly everywhere.
"""

from __future__ import annotations

from typing import Any

_CODES = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QGemm"), (2, 3, 5)),
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), (2, 1, 3)),
}
"""By op: the places of the values' zero point, of the weights, and of their zero point."""


def unsaturated(data: bytes) -> bytes:
    """The model with uint8 in place of constant int8 weights beside uint8 values, with the same real numbers.

    Weights and their zero points are 128 more. Values are known to be uint8 by their constant zero point; a node whose
    zero point is computed, as behind DynamicQuantizeLinear, stays as it is. Without the package `onnx` every node does.
    """
    try:
        import onnx
    except ImportError:
        return data
    model = onnx.load_model_from_string(data)
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    changed = [_with_uint8(node, held) for node in model.graph.node]
    if not any(changed):
        return data
    model.graph.initializer.extend(tensor for tensors in changed for tensor in tensors)
    return bytes(model.SerializeToString())


def _with_uint8(node: Any, held: dict[str, Any]) -> list[Any]:
    """The constants that a node reads from now on in place of its weights and their zero point."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    places = _CODES.get(node.op_type, ())
    if not places:
        return []
    zero, weights, own = (node.input[place] if place < len(node.input) else "" for place in places)
    given = [held[name] for name in (zero, weights, *filter(None, [own])) if name in held]
    wanted = [TensorProto.UINT8, TensorProto.INT8, *[TensorProto.INT8] * bool(own)]
    plain = all(tensor.data_location == TensorProto.DEFAULT for tensor in given)
    if [tensor.data_type for tensor in given] != wanted or not plain:
        return []
    made = []
    for place, name, array in (
        (places[1], weights, numpy_helper.to_array(held[weights])),
        (places[2], own or f"{weights}_zero", numpy_helper.to_array(held[own]) if own else np.zeros((), np.int8)),
    ):
        moved = (array.astype(np.int16) + 128).astype(np.uint8)
        made.append(numpy_helper.from_array(moved, f"{node.output[0]} {name} as uint8"))
        node.input.extend([""] * (place + 1 - len(node.input)))
        node.input[place] = made[-1].name
    return made
