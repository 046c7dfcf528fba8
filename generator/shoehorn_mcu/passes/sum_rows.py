"""The pass `sum-rows`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Tensor, TensorType
from shoehorn_mcu.ir.edit import Draft, only_reader, readers
from shoehorn_mcu.ops.arithmetic import LIMIT
from shoehorn_mcu.ops.conv import Padding, folded_bias
from shoehorn_mcu.ops.pool import mean_params
from shoehorn_mcu.passes.drop_dead import drop_dead

LEAST_GAIN = 4  # times the bytes of a row of sums: those of the rows that need not be held


def sum_rows(graph: Graph) -> Graph:
    """Takes the rows of a large window one after the other into integer sums, from which one more op makes the result.

    >   y = AveragePool2d(x: 1x25x5x64) kernel 25x5                                     nothing else reads x; int8
    <   s = SumPool(x): 25 rows of 64 sums, each over the one before; y = Average(s)

    >   v = Reshape(x: 1x4x4x32) shape=(1, 512); y = Dense(v, w, b)
    <   s = SumDense(x, w, b'): 4 rows of sums; r = Rescale(s); y = Reshape(r)

    >   y = MaxPool2d(x: 1x40x1x64) kernel 40x1
    <   m = RunningMax(x): 40 rows; y = Slice(m), the last of them

    So a pool, a mean over rows or a dense layer of a flattened map holds a row of its input, not all of them.
    Sums of a pool are int16 where every one fits, else int32. Exact: the same integers are added, and rounded once.
    Those of float32 add in the same order as without the pass, and Average adds the bias. It is left alone where
    another op reads x, which is held then.
    """
    rewrite = _Rewrite(graph)
    for node in graph.nodes():
        rewrite.add(node)
    return drop_dead(rewrite.with_ops(rewrite.ops))


def dense_by_rows(graph: Graph, name: str) -> Graph | None:
    """The same for one dense layer, however little its sums save; None where it cannot be computed so."""
    rewrite, before = _Rewrite(graph, gain=0), {op.name for op in graph.ops}
    for node in graph.nodes():
        if node.op.name == name:
            rewrite.add(node)
        else:
            rewrite.ops.append(node.op)
    summed = any(isinstance(op, ops.SumDense) and op.name not in before for op in rewrite.ops)
    return drop_dead(rewrite.with_ops(rewrite.ops)) if summed else None


class _Rewrite(Draft):
    """The graph so far. `gain`: times the bytes of a row of sums, those of the rows that need not be held."""

    def __init__(self, graph: Graph, gain: int = LEAST_GAIN) -> None:
        super().__init__(graph)
        self.ops, self._readers_of, self._gain = list[Op](), readers(graph), gain
        self._views = {op.output: op for op in graph.ops if isinstance(op, ops.Reshape)}

    def add(self, node: Node) -> None:
        """The op, by sums where that holds less."""
        op = node.op
        if isinstance(op, ops.Dense) and self._sums_dense(node, op):
            return
        if isinstance(op, ops.AveragePool2d | ops.Mean) and self._sums_pool(node, op):
            return
        if isinstance(op, ops.MaxPool2d) and self._keeps_most(node, op):
            return
        self.ops.append(op)

    def _sums_pool(self, node: Node, op: ops.AveragePool2d | ops.Mean) -> bool:
        x = node.x
        pool = pool_of(node)
        if pool is None or not self._is_alone(x.name, op):
            return False
        sums = self._sums(replace(pool, name=self.op_name(f"{op.name}_sums"), inputs=(x.name,), output=""), node)
        if sums is None:
            return False
        window, y = pool.kernel[0], node.output
        shape = (x.type.shape[0], sums.type.shape[1] // window, *sums.type.shape[2:])
        output = self._end(y, shape)
        self.ops.append(pool_end(self, node, pool, sums.name, output))
        self._shaped(output, y)
        return True

    def _keeps_most(self, node: Node, op: ops.MaxPool2d) -> bool:
        x, y = node.x, node.output
        if x.type.dtype is not DType.INT8 or not _apart(node, op) or not self._is_alone(x.name, op):
            return False
        (high, _), name = op.kernel, self.op_name(f"{op.name}_rows")
        made = ops.RunningMax(
            name=name, inputs=(x.name,), output="", kernel=op.kernel, stride=op.stride, clamp=op.clamp
        )
        kind = replace(y.type, shape=made.infer((x.type,)))
        if not self._saves(x.type, high, kind):
            return False
        most = self.tensor(f"{y.name}_rows", kind)
        self.ops.append(replace(made, output=most))
        begin, step = (0, high - 1, 0, 0), (1, high, 1, 1)
        last = ops.Slice(name=op.name, inputs=(most,), output=y.name, begin=begin, size=y.type.shape, step=step)
        self.ops.append(last)
        return True

    def _saves(self, x: TensorType, rows: int, sums: TensorType) -> bool:
        """Whether a row of sums is small beside the rows of x that need not be held."""
        return (rows - 1) * x.row_bytes > self._gain * sums.row_bytes

    def _sums_dense(self, node: Node, op: ops.Dense) -> bool:
        view = self._views.get(op.inputs[0])
        x = self.before.tensors[view.inputs[0]] if view is not None else None
        if view is None or x is None or x.data is not None or x.name in self._views:
            return False
        _, weights, bias = node.inputs
        vector = node.output.type.elements == node.output.type.nhwc[3]
        kinds = {x.type.dtype, weights.type.dtype, node.output.type.dtype}
        real = kinds == {DType.FLOAT32}
        mapped = len(x.type.shape) == 4 and x.type.shape[0] == 1 and x.type.nhwc[1] > 1
        alone = self._is_alone(view.output, op) and self._is_alone(x.name, view)
        typed = real or kinds == {DType.INT8}
        if not (vector and typed and mapped and alone and weights.data is not None and bias.data is not None):
            return False
        start: Array = np.zeros(node.output.type.elements, np.float32)
        if not real:
            start = folded_bias(weights.data, bias.data, x.type.quantised.zero_point)
            reach = np.abs(start.astype(np.int64)) + 128 * np.abs(weights.data.astype(np.int64)).sum(axis=1)
            if reach.max() > LIMIT:
                return False
        name = _constant(self, f"{op.name}_start", start)
        made = ops.SumDense(name=self.op_name(f"{op.name}_sums"), inputs=(x.name, weights.name, name), output="")
        sums = self._sums(made, node)
        if sums is None:
            return False
        window, y = x.type.shape[1], node.output
        output = self._end(y, (1, 1, 1, y.type.elements))
        if real:
            inputs = (sums.name, bias.name)
            self.ops.append(
                ops.Average(name=op.name, inputs=inputs, output=output, window=window, count=1, clamp=op.clamp)
            )
        else:
            self.ops.append(_rescale(self, op, sums.name, np.stack(op.scales(node.sig), axis=1), output, window))
        self._shaped(output, y)
        return True

    def _sums(self, op: ops.SumPool | ops.SumDense, node: Node) -> Tensor | None:
        """The sums, which the op writes from here on; None where they hold too little less."""
        read = tuple(self.tensors[name] for name in op.inputs)
        x = read[0].type
        real = x.dtype is DType.FLOAT32
        kind = TensorType(op.infer(tuple(tensor.type for tensor in read)), x.dtype if real else DType.INT32)
        rows = op.kernel[0] if isinstance(op, ops.SumPool) else x.rows
        if not self._saves(x, rows, kind):
            return None
        if isinstance(op, ops.SumPool) and not real and op.reach <= np.iinfo(np.int16).max:
            kind = replace(kind, dtype=DType.INT16)
        made = self.tensors[self.tensor(f"{node.output.name}_sums", kind)]
        whole = replace(op, output=made.name)
        if (not real and node.op.overflow(node) is not None) or whole.overflow(Node(whole, read, made)) is not None:
            return None
        self.ops.append(whole)
        return made

    def _end(self, y: Tensor, shape: tuple[int, ...]) -> str:
        """The tensor that the last op writes: y itself where it has this shape."""
        return y.name if shape == y.type.shape else self.tensor(f"{y.name}_4d", replace(y.type, shape=shape))

    def _shaped(self, source: str, output: Tensor) -> None:
        """A view of the result in the shape that its readers know."""
        if source != output.name:
            name, shape = self.op_name(f"{output.name}_view"), output.type.shape
            self.ops.append(ops.Reshape(name=name, inputs=(source,), output=output.name, shape=shape))

    def _is_alone(self, name: str, op: Op) -> bool:
        reader = only_reader(self.before, self._readers_of, name)
        return reader is not None and reader.name == op.name


def pool_of(node: Node) -> ops.SumPool | None:
    """The sums of a pool without padding, or of a mean over rows; None for others. Its names are to be filled in."""
    op = node.op
    if not isinstance(op, ops.AveragePool2d | ops.Mean):
        return None
    x, y = node.x.type, node.output.type
    real = x.dtype is y.dtype is DType.FLOAT32
    if not (real or x.dtype is y.dtype is DType.INT8) or len(x.shape) != 4 or node.x.data is not None:
        return None
    if isinstance(op, ops.AveragePool2d):
        kernel, stride, start = op.kernel, op.stride, 0
        if not _apart(node, op) or op.halves_up:
            return None
    else:
        if op.axes not in ((1,), (1, 2)):
            return None
        kernel = (x.shape[1], x.shape[2] if 2 in op.axes else 1)
        stride, start = kernel, 0 if real else -mean_params(op, node.sig).elements * x.quantised.zero_point
    return ops.SumPool(name="", inputs=(), output="", kernel=kernel, stride=stride, start=start)


def _apart(node: Node, op: ops.Pool2d) -> bool:
    """Whether the windows have no padding, and none that lie below each other share a row."""
    return op.padding == Padding() and (node.output.type.shape[1] == 1 or op.stride[0] >= op.kernel[0])


def pool_end(draft: Draft, node: Node, pool: ops.SumPool, sums: str, output: str, window: int | None = None) -> Op:
    """The op that makes the result of a pool or a mean of every `window`-th row of its sums, which `pool` says.

    Without `window` the sums have a row for each row of a window of the pool.
    """
    op, y, (height, width) = node.op, node.output, pool.kernel
    window = height if window is None else window
    if isinstance(op, ops.Mean) and y.type.dtype is not DType.FLOAT32:
        return _rescale(draft, op, sums, np.array([mean_params(op, node.sig).scale]), output, window)
    clamp = op.clamp if isinstance(op, ops.AveragePool2d) else ops.RealClamp()
    return ops.Average(name=op.name, inputs=(sums,), output=output, window=window, count=height * width, clamp=clamp)


def _rescale(draft: Draft, op: ops.Mean | ops.Dense, sums: str, scales: Array, output: str, window: int) -> Op:
    """The end of the sums; `scales`: a multiplier and a shift for all channels, or for each."""
    clamp = {"clamp": op.clamp} if isinstance(op, ops.Dense) else {}
    multipliers = _constant(draft, f"{op.name}_multipliers", scales[:, 0].astype(np.int32))
    shifts = _constant(draft, f"{op.name}_shifts", scales[:, 1].astype(np.int8))
    return ops.Rescale(name=op.name, inputs=(sums, multipliers, shifts), output=output, window=window, **clamp)


def _constant(draft: Draft, name: str, data: Array) -> str:
    return draft.tensor(name, TensorType(data.shape, DType(data.dtype.name)), data)
