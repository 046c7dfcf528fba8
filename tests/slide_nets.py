"""Models of windows over rows of time: known kinds, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from shoehorn_mcu import ops
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import DType, Graph, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ops.conv import Padding

Pads = tuple[int, int]


class Net:
    """A graph that grows op by op behind its last tensor; int8, weights at random."""

    def __init__(self, name: str, inputs: Mapping[str, tuple[int, ...]], seed: int = 0) -> None:
        self.name, self.rng = name, np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs = tuple(inputs)
        for each, shape in inputs.items():
            self.tensors[each] = Tensor(each, TensorType(shape, DType.INT8, Quant((0.05,), (3,))))
        self.at = self.inputs[0]

    @property
    def kind(self) -> TensorType:
        return self.tensors[self.at].type

    def put(self, op: type[Op], inputs: tuple[str, ...], quant: Quant | None = None, **fields: Any) -> str:
        """The output of a new op, from here on the last tensor."""
        name = f"{op.__name__.lower()}{len(self.ops)}"
        made = op(name=name, inputs=inputs, output=name, **fields)
        kinds = tuple(self.tensors[each].type for each in inputs)
        kind = TensorType(made.infer(kinds), DType.INT8, quant or kinds[0].quant)
        self.tensors[name] = Tensor(name, kind)
        self.ops.append(made)
        self.at = name
        return name

    def weights(self, shape: tuple[int, ...], axis: int, fan: int) -> tuple[str, str]:
        """Weights and bias of an op that reads the last tensor."""
        count, number = shape[axis], len(self.tensors)
        step = float(np.float32(1 / 127 / fan**0.5))
        bias_step = float(np.float32(step * self.kind.quantised.scale))
        made = {
            f"w{number}": (self.rng.integers(-127, 128, shape).astype(np.int8), DType.INT8, step, axis),
            f"b{number}": (self.rng.integers(-500, 500, count).astype(np.int32), DType.INT32, bias_step, 0),
        }
        for name, (data, dtype, scale, along) in made.items():
            kind = TensorType(data.shape, dtype, Quant((scale,) * count, (0,) * count, along))
            self.tensors[name] = Tensor(name, kind, data)
        first, second = made
        return first, second

    def conv(
        self, outputs: int, kernel: int, stride: int = 1, dilation: int = 1, pads: Pads = (0, 0), across: bool = False
    ) -> str:
        """A convolution over rows, or `across` a row; 0 outputs: a depthwise one."""
        channels = self.kind.shape[3]
        window = (1, kernel) if across else (kernel, 1)
        shape = (outputs, *window, channels) if outputs else (1, *window, channels)
        names = self.weights(shape, 0 if outputs else 3, kernel * (channels if outputs else 1))
        down, padding = ((1, stride), Padding(0, 0, *pads)) if across else ((stride, 1), Padding(*pads))
        apart = (1, dilation) if across else (dilation, 1)
        op = ops.Conv2d if outputs else ops.DepthwiseConv2d
        quant = Quant((0.05,), (-100,))
        return self.put(op, (self.at, *names), quant, stride=down, dilation=apart, padding=padding)

    def dense(self, outputs: int) -> str:
        """A dense layer over all that the last tensor holds."""
        if len(self.kind.shape) > 2:
            self.put(ops.Reshape, (self.at,), shape=(1, self.kind.elements))
        names = self.weights((outputs, self.kind.shape[1]), 0, self.kind.shape[1])
        return self.put(ops.Dense, (self.at, *names), Quant((0.05,), (0,)))

    def add(self, other: str) -> str:
        return self.put(ops.Add, (self.at, other), Quant((0.05,), (-20,)))

    def cut(self, name: str, first: int, rows: int, step: int = 1) -> str:
        shape = self.tensors[name].type.shape
        return self.put(ops.Slice, (name,), begin=(0, first, 0, 0), size=(1, rows, *shape[2:]), step=(1, step, 1, 1))

    def pool(self, op: type[Op], kernel: int, stride: int, pads: Pads = (0, 0)) -> str:
        return self.put(op, (self.at,), kernel=(kernel, 1), stride=(stride, 1), padding=Padding(*pads))

    def mean(self) -> str:
        return self.put(ops.Mean, (self.at,), Quant((0.02,), (-100,)), axes=(1, 2), keep_dims=False)

    def graph(self, *outputs: str) -> Graph:
        return verify(Graph(self.name, self.tensors, tuple(self.ops), self.inputs, outputs or (self.at,)))


def tcn(rows: int, causal: bool, channels: int = 6, width: int = 32) -> Graph:
    """Residual dilated convolutions over time, of which the last row decides: VALID, or padded before each layer."""
    net = Net("tcn", {"x": (1, rows, 1, channels)})
    net.conv(width, 3, pads=(2, 0) if causal else (0, 0))
    for dilation in (1, 2, 4, 8, 16):
        before = net.at
        net.conv(width, 3, dilation=dilation, pads=(2 * dilation, 0) if causal else (0, 0))
        y, left = net.at, net.kind.shape[1]
        if not causal:
            before = net.cut(before, net.tensors[before].type.shape[1] - left, left)
            net.at = y
        net.add(before)
    net.cut(net.at, net.kind.shape[1] - 1, 1)
    net.dense(5)
    return net.graph()


def har(rows: int = 128, channels: int = 9, valid: bool = True) -> Graph:
    """Four convolutions over time and two pools by 2, then the mean: activities from an accelerometer."""
    net = Net("har", {"x": (1, rows, 1, channels)})
    for width in (32, 64):
        for _ in range(2):
            net.conv(width, 5, pads=(0, 0) if valid else (2, 2))
        net.pool(ops.MaxPool2d, 2, 2)
    net.mean()
    net.dense(6)
    return net.graph()


def whole_stream(graph: Graph, rows: int) -> Graph:
    """The model of whole windows that a streaming one, such as microWakeWord's, was trained as.

    A stream of rows behind a state, Concat(state, new), is the whole stream; ops that give a state's next value go.
    """
    reads, writes = ({getattr(state, name) for state in graph.states} for name in ("read", "write"))
    (given,) = graph.inputs
    tensors = {name: tensor for name, tensor in graph.tensors.items() if tensor.data is not None}
    behind: dict[str, str] = {}
    made: list[Op] = []
    new = given
    for op in graph.ops:
        inputs = tuple(behind.get(name, name) for name in op.inputs)
        if op.output in writes:
            continue
        if isinstance(op, ops.Reshape) and op.inputs == (given,):
            new, kind = op.output, graph.tensors[op.output].type
            tensors[new] = Tensor(new, replace(kind, shape=(1, rows, 1, kind.shape[3] * kind.shape[2])))
            continue
        if isinstance(op, ops.Concat) and op.inputs[0] in reads:
            behind[op.output] = inputs[1]
            continue
        kinds = tuple(tensors[name].type for name in inputs)
        op = replace(op, inputs=inputs)
        if isinstance(op, ops.Slice):
            op = replace(op, size=(1, kinds[0].shape[1] - op.begin[1], *op.size[2:]))
        tensors[op.output] = Tensor(op.output, replace(graph.tensors[op.output].type, shape=op.infer(kinds)))
        made.append(op)
    return verify(Graph(f"{graph.name}_window", tensors, tuple(made), (new,), graph.outputs))


def _window(rng: np.random.Generator, rows: int) -> tuple[int, int, int, Pads] | None:
    """Kernel, stride, dilation and padding of a window that fits."""
    kernel, stride, dilation = int(rng.integers(1, 6)), int(rng.choice([1, 1, 1, 2, 3])), int(rng.choice([1, 1, 2, 3]))
    span = (kernel - 1) * dilation
    odd = (int(rng.integers(0, span + 1)), int(rng.integers(0, span + 1)))
    pads = [(0, 0), (span, 0), (span // 2, span - span // 2), odd][int(rng.integers(4))]
    return None if rows + sum(pads) <= span + stride * 2 else (kernel, stride, dilation, pads)


def _add_conv(net: Net, rng: np.random.Generator) -> None:
    if (found := _window(rng, net.kind.shape[1])) is not None:
        kernel, stride, dilation, pads = found
        net.conv(int(rng.choice([0, 1, 3, 5])), kernel, stride, dilation, pads)


def _add_pool(net: Net, rng: np.random.Generator) -> None:
    if (found := _window(rng, net.kind.shape[1])) is not None:
        kernel, stride, _, pads = found
        half = (min(pads[0], kernel // 2), min(pads[1], kernel // 2)) if kernel > 1 else (0, 0)
        if net.kind.shape[1] > kernel:
            net.pool((ops.MaxPool2d, ops.AveragePool2d)[int(rng.integers(2))], kernel, stride, half)


def _add_residual(net: Net, rng: np.random.Generator) -> None:
    before = net.at
    net.conv(net.kind.shape[3], 3, pads=(1, 1))
    net.add(before)


def _add_pad(net: Net, rng: np.random.Generator) -> None:
    more = [int(n) for n in rng.integers(0, 3, 2)]
    net.put(ops.Pad, (net.at,), before=(0, more[0], 0, 0), after=(0, more[1], 0, 0), value=net.kind.zero)


def _add_concat(net: Net, rng: np.random.Generator) -> None:
    """Rows behind rows, or channels beside channels."""
    before, along = net.at, int(rng.choice([1, 3]))
    if along == 1:
        net.cut(before, int(rng.integers(0, 2)), net.kind.shape[1] - 1)
    else:
        net.conv(int(rng.integers(1, 4)), 1)
        net.at = net.put(ops.Requantize, (net.at,), net.tensors[before].type.quant)
    net.put(ops.Concat, (before, net.at), axis=along)


def _add_cut(net: Net, rng: np.random.Generator) -> None:
    first, step = int(rng.integers(0, 4)), int(rng.integers(1, 3))
    if (rows := (net.kind.shape[1] - first) // step) > 2:
        net.cut(net.at, first, rows, step)


def _add_folded(net: Net, rng: np.random.Generator) -> None:
    """Two rows as one, as a front end stacks frames."""
    _, rows, width, channels = net.kind.shape
    if rows % 2 == 0 and rows > 8:
        net.put(ops.Reshape, (net.at,), shape=(1, rows // 2, width, channels * 2))


def gate(net: Net, axes: tuple[int, ...] = (1, 2)) -> None:
    """Squeeze and excite: each channel times its mean, which is another one in each window."""
    before = net.at
    mean = net.put(ops.Mean, (before,), Quant((0.02,), (-100,)), axes=axes, keep_dims=True)
    net.put(ops.Mul, (before, mean), Quant((0.05,), (-20,)))


def _add_gate(net: Net, rng: np.random.Generator) -> None:
    gate(net)


GROWN: tuple[Callable[[Net, np.random.Generator], None], ...] = (
    *(_add_conv,) * 4,
    *(_add_pool,) * 2,
    *(_add_residual,) * 2,
    *(_add_pad, _add_concat, _add_cut, _add_folded, _add_gate),
)


def random_net(seed: int, most_rows: int = 60) -> Graph:
    """A random model of one or two windows, with mean, dense layer or all rows at its end."""
    rng = np.random.default_rng(seed)
    shape = (1, int(rng.integers(most_rows // 2, most_rows)), 1, int(rng.integers(1, 5)))
    two = rng.random() < 0.2
    net = Net(f"random{seed}", {"x": shape, "z": shape} if two else {"x": shape}, seed)
    if two:
        net.put(ops.Concat, ("x", "z"), axis=3)
    for _ in range(int(rng.integers(2, 7))):
        GROWN[int(rng.integers(len(GROWN)))](net, rng)
    end = rng.random()
    if end < 0.4:
        net.mean()
    if end < 0.8 or not net.ops:
        net.dense(3)
    return net.graph()


def lying(graph: Graph) -> Graph:
    """A model whose time is the rows of 1xTx1xC, with time as the columns of 1x1xTxC: convolutions and pools only."""

    def turned(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], shape[2], shape[1], shape[3]) if len(shape) == 4 else shape

    def padded(pad: Padding) -> Padding:
        return Padding(pad.left, pad.right, pad.top, pad.bottom)

    tensors = {}
    for name, tensor in graph.tensors.items():
        data = tensor.data
        if data is not None and data.ndim == 4:
            data = np.ascontiguousarray(data.swapaxes(1, 2))
        tensors[name] = Tensor(name, replace(tensor.type, shape=turned(tensor.type.shape)), data)
    made: list[Op] = []
    for op in graph.ops:
        if isinstance(op, ops.Conv2d | ops.DepthwiseConv2d):
            op = replace(op, stride=op.stride[::-1], dilation=op.dilation[::-1], padding=padded(op.padding))
        elif isinstance(op, ops.Pool2d):
            op = replace(op, kernel=op.kernel[::-1], stride=op.stride[::-1], padding=padded(op.padding))
        elif isinstance(op, ops.Slice):
            op = replace(op, begin=turned(op.begin), size=turned(op.size), step=turned(op.step))
        made.append(op)
    return verify(replace(graph, tensors=tensors, ops=tuple(made)))


def ecg(rows: int = 128) -> Imported:
    """Two convolutions of PyTorch's Conv1d kind and a mean, float32, as ONNX files have them: heart beats."""
    rng = np.random.default_rng(11)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["ecg", "w0", "b0"], ["c0"], pads=[3, 3]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("MaxPool", ["r0"], ["p0"], kernel_shape=[2], strides=[2]),
        helper.make_node("Conv", ["p0", "w1", "b1"], ["c1"], pads=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("GlobalAveragePool", ["r1"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["beat"], transB=1),
    ]
    constants = [weights("w0", 8, 1, 7), weights("b0", 8), weights("w1", 16, 8, 5), weights("b1", 16)]
    constants += [weights("w2", 5, 16), weights("b2", 5)]
    ends = [
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)]
        for name, shape in (("ecg", [1, 1, rows]), ("beat", [1, 5]))
    ]
    graph = helper.make_graph(nodes, "ecg", *ends, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Imported(import_model(model, "ecg").graph, {})
