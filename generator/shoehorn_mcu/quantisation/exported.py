"""A float32 graph as an ONNX model, so that a .tflite is quantised on the same road as an .onnx.

Dimensions of inputs and outputs stay as they are, N, H, W, C, but for ends that differ in the model's own file. Between
ops on images values are N, C, H, W, as ONNX's ops take them; where an op needs the other order there is a Transpose,
which the importer takes away afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.onnx.file import OPSET
from shoehorn_mcu.ir import Array, DType, Ends, FileTensor, Graph, Node, OpT, Tensor
from shoehorn_mcu.ops.clamp import LARGEST_FLOAT32, Bounds
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu.ops.formula import formula, parse
from shoehorn_mcu.ops.recognised import calls
from shoehorn_mcu.quantisation.fault import QuantizeError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_TO_IMAGE, _FROM_IMAGE = (0, 3, 1, 2), (0, 2, 3, 1)
_ALIKE = (
    *("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "sigmoid", "softplus", "add", "sub", "mul", "div", "abs", "neg", "sqrt", "not", "and", "or", "xor"),
)
_CALLS: Mapping[str, str] = {
    **{name: name.capitalize() for name in _ALIKE},
    "power": "Pow",
    "round_even": "Round",
    "less": "Less",
    "equal": "Equal",
    "select": "Where",
}
"""ONNX's ops by the names of calls in formulas."""
_CURE = (
    "let TensorFlow's converter quantise the model (docs/first-model.md), or export it as .onnx, which gen quantize "
    "takes with any op"
)


@cache
def _functions() -> Mapping[str, str]:
    """ONNX's functions of one float32 operand, by their formulas: what a .tflite has of them becomes them again."""
    made = ((formula(write, DType.FLOAT32), code) for code, write in maps.UNARY.items() if code not in _OF_BITS)
    return {each.text: code for each, code in made if each.result is DType.FLOAT32}


_OF_BITS = ("BitwiseNot", "Not")


def as_onnx(graph: Graph, ends: Ends | None = None) -> ModelProto:
    """The model; its tensors and ops keep their names. Raises QuantizeError where it has an op without such a form.

    `ends`: inputs and outputs whose dimensions have another order in the model's file, which they get here, too.
    """
    from onnx import TensorProto, helper

    if graph.states:
        raise QuantizeError(f"{graph.name}: keeps states between inferences; only models without them are quantised")
    made = _Export(graph, ends or {})
    for node in graph.nodes():
        made.add(node)
    ends_of = [made.end(name) for name in graph.inputs], [made.result_of(name) for name in graph.outputs]
    inputs, outputs = (
        [helper.make_tensor_value_info(end.name, TensorProto.FLOAT, end.type.shape) for end in each] for each in ends_of
    )
    body = helper.make_graph(made.nodes, graph.name, inputs, outputs, made.constants)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


class _Export:
    """The nodes and constants so far."""

    def __init__(self, graph: Graph, ends: Ends) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[Any] = []
        self._graph, self._ends = graph, ends
        self._plain: dict[str, str] = {}  # what values are called that are there in the graph's order of dimensions
        self._images: dict[str, str] = {}  # and those whose channels come first
        for name in graph.inputs:
            end = self.end(name)
            if end.order == _FROM_IMAGE:
                self._images[name] = end.name
            elif end.order == tuple(range(len(end.order))):
                self._plain[name] = end.name
            else:
                turned = self.node("Transpose", [end.name], f"{name}/turned", f"{name}/turned", perm=end.order)
                self._plain[name] = turned

    def end(self, name: str) -> FileTensor:
        """An input or output as the file is to have it."""
        kind = self._graph.tensors[name].type
        return self._ends.get(name) or FileTensor.alike(name, kind)

    def result_of(self, name: str) -> FileTensor:
        """An output as the file is to have it, once a node has written it."""
        end = self.end(name)
        if end.order == _FROM_IMAGE:
            value, order = self.image(name), None
        else:
            value, order = self.plain(name), end.back
        if order is not None and order != tuple(sorted(order)):
            self.node("Transpose", [value], end.name, f"{end.name}/turned", perm=order)
        elif value != end.name:
            self.node("Identity", [value], end.name, f"{end.name}/named")
        return end

    def add(self, node: Node) -> None:
        """The nodes of an op."""
        types = {t.type.dtype for t in (*node.row_inputs, node.output)}
        writer = next((writer for writer in _WRITERS if isinstance(node.op, writer.kinds)), None)
        if writer is None or types != {DType.FLOAT32}:
            kind = type(node.op).__name__
            raise QuantizeError(
                f"{self._graph.name}: op '{node.op.name}' ({kind}) has no quantised form from .tflite; {_CURE}"
            )
        writer.write(self, node)

    def node(self, code: str, inputs: Sequence[str], output: str, name: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(code, list(inputs), [output], name=name, **attributes))
        return output

    def constant(self, name: str, data: Array) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(data, order="C"), name))
        return name

    def plain(self, name: str) -> str:
        """A value in the graph's order of dimensions."""
        tensor = self._graph.tensors[name]
        if name not in self._plain:
            place = f"{name}/last" if self._images.get(name) == name else name
            if tensor.data is not None:
                self.constant(place, tensor.data)
            else:
                self.node("Transpose", [self._images[name]], place, f"{name}/last", perm=_FROM_IMAGE)
            self._plain[name] = place
        return self._plain[name]

    def image(self, name: str) -> str:
        """A value of four dimensions with channels first."""
        if name not in self._images:
            place, tensor = f"{name}/first", self._graph.tensors[name]
            if tensor.data is not None:
                self.constant(place, tensor.data.transpose(_TO_IMAGE))
            else:
                self.node("Transpose", [self.plain(name)], place, place, perm=_TO_IMAGE)
            self._images[name] = place
        return self._images[name]

    def result(self, node: Node, code: str, inputs: Sequence[str], image: bool, **attributes: Any) -> None:
        """The op's own node, and one for its bounds."""
        output = node.output.name
        name = f"{output}/first" if image else output
        if image:
            self._images[output] = name
        else:
            self._plain[output] = output
        bounds: Bounds | None = getattr(node.op, "clamp", None)
        if bounds is None or (bounds.low, bounds.high) == (-LARGEST_FLOAT32, LARGEST_FLOAT32):
            self.node(code, inputs, name, node.op.name, **attributes)
            return
        inner = self.node(code, inputs, f"{name}/free", node.op.name, **attributes)
        if (bounds.low, bounds.high) == (0, LARGEST_FLOAT32):
            self.node("Relu", [inner], name, f"{node.op.name}/relu")
            return
        limits = zip(("low", "high"), (bounds.low, bounds.high), strict=True)
        held = [self.constant(f"{name}/{side}", np.array(value, np.float32)) for side, value in limits]
        self.node("Clip", [inner, *held], name, f"{node.op.name}/clip")


def _pads(padding: Padding) -> list[int]:
    return [padding.top, padding.left, padding.bottom, padding.right]


def _data(tensor: Tensor) -> Array:
    if tensor.data is None:
        raise QuantizeError(f"'{tensor.name}' is no constant; only constant weights are quantised")
    return tensor.data


def _convolution(to: _Export, node: Node[ops.Conv2d | ops.DepthwiseConv2d]) -> None:
    op = node.op
    x, weights, bias = node.inputs
    stored, channels = _data(weights), x.type.shape[3]
    if isinstance(op, ops.DepthwiseConv2d):
        order, groups = (3, 0, 1, 2), channels
    else:
        order, groups = (0, 3, 1, 2), channels // stored.shape[3]
    held = to.constant(f"{op.name}/weights", stored.transpose(order))
    inputs = [to.image(x.name), held, to.constant(f"{op.name}/bias", _data(bias))]
    shared = {"strides": list(op.stride), "dilations": list(op.dilation), "pads": _pads(op.padding), "group": groups}
    to.result(node, "Conv", inputs, image=True, kernel_shape=list(stored.shape[1:3]), **shared)


def _dense(to: _Export, node: Node[ops.Dense]) -> None:
    x, weights, bias = node.inputs
    held = to.constant(f"{node.op.name}/bias", _data(bias))
    if len(x.type.shape) == 2:
        stored = to.constant(f"{node.op.name}/weights", _data(weights))
        to.result(node, "Gemm", [to.plain(x.name), stored, held], image=False, transB=1)
        return
    stored = to.constant(f"{node.op.name}/weights", _data(weights).T)
    product = to.node("MatMul", [to.plain(x.name), stored], f"{node.output.name}/product", f"{node.op.name}/product")
    to.result(node, "Add", [product, held], image=False)


def _pool(to: _Export, node: Node[ops.Pool2d]) -> None:
    op = node.op
    code = "AveragePool" if isinstance(op, ops.AveragePool2d) else "MaxPool"
    shared = {"kernel_shape": list(op.kernel), "strides": list(op.stride), "pads": _pads(op.padding)}
    to.result(node, code, [to.image(node.x.name)], image=True, **shared)


def _mean(to: _Export, node: Node[ops.Mean]) -> None:
    op, (x,) = node.op, node.inputs
    image = op.keep_dims and len(x.type.shape) == len(_TO_IMAGE)
    axes = [_TO_IMAGE.index(axis) for axis in op.axes] if image else op.axes
    held = to.constant(f"{op.name}/axes", np.array(axes, np.int64))
    value = to.image(x.name) if image else to.plain(x.name)
    to.result(node, "ReduceMean", [value, held], image=image, keepdims=int(op.keep_dims))


def _by_elements(to: _Export, node: Node) -> None:
    op = node.op
    image = all(len(tensor.type.shape) == len(_TO_IMAGE) for tensor in node.inputs)
    names = [(to.image if image else to.plain)(tensor.name) for tensor in node.inputs]
    code = _functions().get(op.formula) if isinstance(op, ops.Map) else type(op).__name__  # Add or Sub
    if code is not None:
        to.result(node, code, names, image=image)
        return
    assert isinstance(op, ops.Map)
    read = parse(op.formula)
    values, made = dict(enumerate(names)), calls(read)
    for call in made:
        reads, held = [values[number] for number in call.reads], call.step
        name = f"{op.name}/{call.number}"
        if held is not None and held.name == "constant" and held.dtype is DType.FLOAT32:
            values[call.number] = to.constant(name, np.array(held.number, np.float32))
        elif call.name not in _CALLS or any(read.dtypes[n] not in (DType.FLOAT32, DType.BOOL) for n in call.reads):
            raise QuantizeError(f"op '{op.name}' ({type(op).__name__}) has no quantised form from .tflite; {_CURE}")
        elif call is made[-1]:
            to.result(node, _CALLS[call.name], reads, image=image)
        else:
            values[call.number] = to.node(_CALLS[call.name], reads, name, name)


def _softmax(to: _Export, node: Node[ops.Softmax]) -> None:
    op, (x,) = node.op, node.inputs
    name = to.plain(x.name)
    if op.beta != 1.0:
        held = to.constant(f"{op.name}/beta", np.array(op.beta, np.float32))
        name = to.node("Mul", [name, held], f"{op.name}/scaled", f"{op.name}/scaled")
    to.result(node, "Softmax", [name], image=False, axis=-1)


def _reshape(to: _Export, node: Node[ops.Reshape]) -> None:
    held = to.constant(f"{node.op.name}/shape", np.array(node.output.type.shape, np.int64))
    to.result(node, "Reshape", [to.plain(node.x.name), held], image=False)


def _concat(to: _Export, node: Node[ops.Concat]) -> None:
    op = node.op
    image = len(node.output.type.shape) == len(_TO_IMAGE)
    names = [(to.image if image else to.plain)(tensor.name) for tensor in node.inputs]
    to.result(node, "Concat", names, image=image, axis=_TO_IMAGE.index(op.axis) if image else op.axis)


def _pad(to: _Export, node: Node[ops.Pad]) -> None:
    op = node.op
    held = to.constant(f"{op.name}/pads", np.array((*op.before, *op.after), np.int64))
    value = to.constant(f"{op.name}/value", np.array(op.value, np.float32))
    to.result(node, "Pad", [to.plain(node.x.name), held, value], image=False)


def _transpose(to: _Export, node: Node[ops.Transpose]) -> None:
    to.result(node, "Transpose", [to.plain(node.x.name)], image=False, perm=list(node.op.perm))


def _slice(to: _Export, node: Node[ops.Slice]) -> None:
    op = node.op
    begin, step = np.array(op.begin, np.int64), np.array(op.step, np.int64)
    end = begin + (np.array(op.size, np.int64) - 1) * step + np.sign(step)
    end[end < 0] = np.iinfo(np.int64).min
    sides = (("begin", begin), ("end", end), ("axes", np.arange(begin.size)), ("step", step))
    held = [to.constant(f"{op.name}/{side}", data) for side, data in sides]
    to.result(node, "Slice", [to.plain(node.x.name), *held], image=False)


@dataclass(frozen=True)
class _Writer(Generic[OpT]):
    """Writes the nodes of ops of some kinds."""

    kinds: tuple[type[OpT], ...]
    write: Callable[[_Export, Node[OpT]], None]


_WRITERS = (
    _Writer[ops.Conv2d | ops.DepthwiseConv2d]((ops.Conv2d, ops.DepthwiseConv2d), _convolution),
    _Writer((ops.Dense,), _dense),
    _Writer((ops.AveragePool2d, ops.MaxPool2d), _pool),
    _Writer((ops.Mean,), _mean),
    _Writer((ops.Add, ops.Sub, ops.Map), _by_elements),
    _Writer((ops.Softmax,), _softmax),
    _Writer((ops.Reshape,), _reshape),
    _Writer((ops.Concat,), _concat),
    _Writer((ops.Pad,), _pad),
    _Writer((ops.Slice,), _slice),
    _Writer((ops.Transpose,), _transpose),
)
