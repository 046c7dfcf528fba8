"""Runs random ONNX networks here and in ONNX Runtime, and says how the results differ.

`float_result(seed)` and `quantised_result(seed)` are the same each time. The second compares in steps of each output,
and again op by op, each with ONNX Runtime's own operands, so that a difference of several steps has its op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from evaluate import evaluate
from onnx import numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph

from shoehorn_mcu import passes
from shoehorn_mcu.importers import Imported, ImportFault
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array, DType, Graph, Node
from shoehorn_mcu_host.validate.unsaturated import unsaturated
from tests.random_onnx import random_inputs, random_model
from tests.random_qdq import NotQuantised, random_quantised

CLOSE = 1e-4
"""How far float32 results may be apart, of the largest of the output."""
AMPLIFIED = "each op is within a step, later ops amplify it"
ROUNDED = "each op is within rounding of float32, a quantisation and later ops amplify it"
MOST_STEPS = 9
"""Differences of so many steps and more are counted together."""

_REFUSED_BY_ONNX_RUNTIME = (Fail, InvalidArgument, InvalidGraph)


@dataclass(frozen=True)
class Result:
    """What came of one network: equal, wrong or refused, and why; or that ONNX Runtime has no result."""

    seed: int
    state: str
    cause: str = ""
    largest: float = 0.0  # difference of float32, of the largest value of the output
    steps: Mapping[int, int] = field(default_factory=Counter)  # values of quantised outputs by the steps they are off
    ops: Mapping[tuple[str, int], int] = field(default_factory=Counter)  # the same op by op, by the op's kind
    exact: bool = True  # whether each op by itself gives float32 results to the bit
    linear: int = 0  # quantised convolutions and products
    in_float: Sequence[str] = ()  # the reasons of those of them that compute in float32

    @property
    def why_more(self) -> str:
        """Why values are off by several steps: by an op's own arithmetic, else by earlier steps; "" where none is."""
        if not any(off > 1 for off in self.steps):
            return ""
        alone = sorted({kind for kind, off in self.ops if off > 1})
        if alone:
            return f"rounded otherwise in one op: {', '.join(alone)}"
        if any(off == 1 for _, off in self.ops):
            return AMPLIFIED
        return "unexplained" if self.exact else ROUNDED


def onnx_runtime(model: onnx.ModelProto, inputs: Mapping[str, Array], optimised: bool = False) -> list[Array]:
    """ONNX Runtime's outputs; by default it computes each op as it is in the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = unsaturated(model.SerializeToString())
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, dict(inputs))
    return found


def computed(imported: Imported, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
    """The outputs of the imported model after the passes, by the ops' references, in the model's own order."""
    graph = passes.prove_int32(passes.run(imported.graph)[0])
    own = {name: np.ascontiguousarray(x.transpose(imported.ends[name].order)) for name, x in inputs.items()}
    values = own | evaluate(graph, own)
    orders = (np.argsort(imported.ends[name].order) for name in names)
    return [values[mine].transpose(order) for order, mine in zip(orders, graph.outputs, strict=True)]


def float_result(seed: int) -> Result:
    """The float network of this seed beside ONNX Runtime."""
    model = random_model(seed)
    inputs = random_inputs(model, seed)
    wanted = onnx_runtime(model, inputs)
    try:
        imported = import_model(model, "model")
    except ImportFault as fault:
        return Result(seed, "refused", str(fault))
    found = computed(imported, inputs, [each.name for each in model.graph.output])
    largest = 0.0
    for end, want, got in zip(model.graph.output, wanted, found, strict=True):
        if said := _of_another_type(end.name, want, got):
            return Result(seed, "wrong", said)
        apart = difference(want, got)
        if apart > (CLOSE if want.dtype == np.float32 else 0):
            return Result(seed, "wrong", f"output {end.name} is off by {apart:.2g} of its largest value", apart)
        largest = max(largest, apart)
    return Result(seed, "equal", "", largest)


def _of_another_type(name: str, want: Array, got: Array) -> str:
    """In words what is not alike in the two; "" where all is."""
    if got.shape == want.shape and got.dtype == want.dtype:
        return ""
    return f"output {name} is {got.dtype}{got.shape}, ONNX Runtime's {want.dtype}{want.shape}"


def difference(want: Array, got: Array) -> float:
    """The largest difference, of the largest finite value; infinite where only one has a NaN or an infinity."""
    a, b = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(a[finite] - b[finite]).max() / max(np.abs(a[finite]).max(), 1e-6))


def quantised_result(seed: int, optimised: bool = False) -> Result:
    """The quantised network of this seed beside ONNX Runtime, which fuses ops where it is `optimised`."""
    try:
        model, _ = random_quantised(seed)
    except NotQuantised as fault:
        return Result(seed, "none", str(fault))
    inputs = random_inputs(model, seed)
    try:
        wanted = onnx_runtime(model, inputs, optimised)
        inner = onnx_runtime(with_inner(model), inputs)
    except _REFUSED_BY_ONNX_RUNTIME as fault:
        return Result(seed, "none", str(fault).splitlines()[0])
    try:
        imported = import_model(model, "model")
    except ImportFault as fault:
        return Result(seed, "refused", str(fault))
    found = computed(imported, inputs, [each.name for each in model.graph.output])
    steps = Counter[int]()
    for end, want, got in zip(model.graph.output, wanted, found, strict=True):
        if said := _of_another_type(end.name, want, got):
            return Result(seed, "wrong", said)
        if want.dtype == np.float32:
            steps.update(_steps(want, got, _step(model, end.name, want)))
    known = dict(zip((each.name for each in with_inner(model).graph.output), inner, strict=True)) | inputs
    ops = Counter[tuple[str, int]]()
    exact = True
    for node, apart, same in op_by_op(imported, known):
        ops.update({(_kind(node), off): count for off, count in apart.items()})
        exact = exact and same
    reasons = [each.reason for each in imported.in_float]
    return Result(seed, "equal", "", 0.0, steps, ops, exact, imported.quantised_linear, reasons)


def _steps(want: Array, got: Array, step: float) -> Counter[int]:
    """How many values are off by how many steps."""
    off = np.abs(got.astype(np.float64) - want) / step
    off[np.isnan(off) & (np.isnan(want) == np.isnan(got))] = 0
    whole = np.minimum(np.rint(np.nan_to_num(off, nan=MOST_STEPS)), MOST_STEPS)
    return Counter({int(v): int(n) for v, n in zip(*np.unique(whole, return_counts=True), strict=True)})


def _step(model: onnx.ModelProto, name: str, want: Array) -> float:
    """The scale of an output that is dequantised last; of any other the 255th part of its range with 0."""
    held = {each.name: each for each in model.graph.initializer}
    writer = next(node for node in model.graph.node if name in node.output)
    if writer.op_type == "DequantizeLinear" and writer.input[1] in held:
        return float(numpy_helper.to_array(held[writer.input[1]]).max())
    return _range_step(want)


def with_inner(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all inner values as outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    names = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
    del made.graph.output[:]
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return made


def _kind(node: Node) -> str:
    """The op of the file that the node is of, and what it computes with."""
    code = node.op.name.split("_")[0]
    types = {tensor.type.dtype for tensor in (*node.inputs[:1], node.output)}
    real = "float32" if DType.FLOAT32 in types else "int16" if DType.INT16 in types else "int8"
    return f"{code} as {type(node.op).__name__} of {real}"


def op_by_op(imported: Imported, known: Mapping[str, Array]) -> Iterator[tuple[Node, Counter[int], bool]]:
    """Each op whose result is a value of the file, computed of that runtime's operands; how far the results are off,
    and whether they are the same to the bit.

    Of float32, a step is the 255th part of the range with 0. `known`: that runtime's values by the file's names.
    """
    graph = imported.graph
    own = {name: _as_ours(graph, imported, name, known[name]) for name in imported.ends if name in known}
    values: dict[str, Array] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values |= {name: own[name] for name in graph.inputs}
    for node in graph.nodes():
        name = node.op.output
        found = node.op.reference([values[n] for n in node.op.inputs], node.sig)
        values[name] = found
        if name in own and own[name].shape == found.shape and own[name].dtype == found.dtype:
            step = _range_step(own[name]) if found.dtype.kind == "f" else 1.0
            same = np.array_equal(own[name], found, equal_nan=found.dtype.kind == "f")
            yield node, _steps(own[name].astype(np.float64), found, step), same
            values[name] = own[name]


def _range_step(want: Array) -> float:
    """The 255th part of the range of real numbers, with 0 in it."""
    finite = np.append(want[np.isfinite(want)], np.float32(0))
    return float(np.ptp(finite)) / 255 + 1e-9


def _as_ours(graph: Graph, imported: Imported, name: str, value: Array) -> Array:
    """A value of the file in the order and type of our tensor, which may hold what is dequantised in the file."""
    moved, kind = np.ascontiguousarray(value.transpose(imported.ends[name].order)), graph.tensors[name].type
    if kind.quant is not None and moved.dtype == np.float32:
        codes = np.rint(moved / np.float64(kind.quant.scale)) + kind.quant.zero_point
        return codes.astype(kind.dtype.numpy)
    if kind.dtype is DType.INT8 and moved.dtype == np.uint8:
        return (moved.astype(np.int16) - 128).astype(np.int8)
    return moved
