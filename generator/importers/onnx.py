"""Imports an .onnx file as a Graph: the converter of each ONNX op, and one message for all unsupported ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shoehorn_mcu.importers import onnx_elements as elements
from shoehorn_mcu.importers import onnx_linear as linear
from shoehorn_mcu.importers.fault import ImportFault, Refusal, Unsupported, UnsupportedModel
from shoehorn_mcu.importers.onnx_file import RawInput, RawModel, RawNode, read
from shoehorn_mcu.importers.onnx_site import NHWC, Builder, Site, Value, renamed
from shoehorn_mcu.ir import DType, Graph, GraphError, Node, OpFault, Tensor, TensorType, verify
from shoehorn_mcu.ops import Add, AveragePool2d, MaxPool2d, Sub
from shoehorn_mcu.ops.laws import quoted

CONVERTERS: dict[str, Callable[[Site], Value]] = {
    "Add": elements.binary(Add),
    "AveragePool": elements.pool(AveragePool2d),
    "BatchNormalization": linear.batch_normalization,
    "Clip": elements.clip,
    "Concat": elements.concat,
    "Conv": linear.conv,
    "Dropout": elements.same,
    "Flatten": elements.flatten,
    "Gemm": linear.gemm,
    "GlobalAveragePool": elements.global_average_pool,
    "Identity": elements.same,
    "MatMul": linear.matmul,
    "MaxPool": elements.pool(MaxPool2d),
    "Mul": elements.mul,
    "Pad": elements.pad,
    "Relu": elements.relu,
    "Reshape": elements.reshape,
    "Slice": elements.slice_,
    "Softmax": elements.softmax,
    "Squeeze": elements.squeeze,
    "Sub": elements.binary(Sub),
    "Transpose": elements.transpose,
    "Unsqueeze": elements.unsqueeze,
}
"""By ONNX's name of the op."""


def load_onnx(path: Path) -> Graph:
    """The verified graph in an .onnx file, named after it.

    Images of its inputs and outputs have their channels last. Raises ImportFault, without the file's name, if the file
    is damaged, and once for all ops that no kernel runs; and OSError.
    """
    raw = read(path)
    try:
        return verify(_Import(raw).graph(path.stem))
    except GraphError as error:
        raise ImportFault(f"{error}; export it again") from error


@dataclass
class _Import:
    """The state of one import: the values and ops made so far."""

    raw: RawModel
    values: dict[str, Value] = field(default_factory=dict)
    builder: Builder = field(default_factory=Builder)
    refused: list[Refusal] = field(default_factory=list)

    def graph(self, name: str) -> Graph:
        for each in self.raw.inputs:
            self._input(each)
        inputs = tuple(self.builder.tensors)
        missing: set[str] = {each.name for each in self.raw.inputs} - set(self.values)
        for node in self.raw.nodes:
            self._node(node, missing)
        outputs = [self._output(each, missing) for each in self.raw.outputs]
        if self.refused:
            raise UnsupportedModel("", self.refused)
        # The model's own names for its ends; intermediate tensors have the names of the ops' outputs.
        names = {tensor: own for tensor, own in outputs if tensor not in inputs}
        kept = {op.output for op in self.builder.ops} | {n for op in self.builder.ops for n in op.inputs}
        swapped = {own: f"{own}_inside" for own in names.values() if own in kept and own not in names}
        names |= swapped
        tensors = {}
        for tensor in self.builder.tensors.values():
            if tensor.name in kept or tensor.name in inputs:
                new = names.get(tensor.name, tensor.name)
                tensors[new] = Tensor(new, tensor.type, tensor.data)
        ops = tuple(renamed(op, names) for op in self.builder.ops)
        return Graph(name, tensors, ops, inputs, tuple(names.get(t, t) for t, _ in outputs))

    def _input(self, raw: RawInput) -> None:
        if raw.dtype.kind != "f":
            self.refused.append(Refusal("input", "", "", f"tensor {quoted(raw.name)} is {raw.dtype}"))
            return
        order = NHWC if len(raw.shape) == 4 else tuple(range(len(raw.shape)))
        kind = TensorType(tuple(raw.shape[dimension] for dimension in order), DType.FLOAT32)
        self.values[raw.name] = Value(self.builder.add(Tensor(raw.name, kind)), order)

    def _node(self, raw: RawNode, missing: set[str]) -> None:
        """Converts one op, or records why it is refused; ops behind a refused one are not looked at."""
        writes = ", ".join(quoted(name) for name in raw.outputs if name)
        if set(raw.inputs) & missing:
            missing |= set(raw.outputs)
            if raw.code not in CONVERTERS:
                self.refused.append(Refusal(f"op {raw.index}", raw.code, writes, ""))
            return
        made = len(self.builder.ops)
        try:
            if raw.code not in CONVERTERS:
                raise Unsupported
            value = CONVERTERS[raw.code](Site(raw, self.values, self.raw.constants, self.builder))
            self._lawful(made)
        except Unsupported as fault:
            self.refused.append(Refusal(f"op {raw.index}", raw.code, writes, str(fault)))
            missing |= set(raw.outputs)
        except ImportFault as fault:
            raise fault.within(f"op {raw.index} {raw.code} writing {writes}") from fault
        else:
            self.values[raw.outputs[0]] = value

    def _lawful(self, first: int) -> None:
        """Raises Unsupported where an op breaks a rule of the IR, so that it is listed with the others."""
        tensors = self.builder.tensors
        for op in self.builder.ops[first:]:
            try:
                op.check(Node(op, tuple(tensors[n] for n in op.inputs), tensors[op.output]))
            except OpFault as fault:
                raise Unsupported(fault.why) from fault

    def _output(self, name: str, missing: set[str]) -> tuple[str, str]:
        """The tensor of an output, and the output's name."""
        if name in missing:
            return name, name
        if name not in self.values:
            raise ImportFault(f"output {quoted(name)} is not computed from the inputs; remove it")
        value = self.values[name]
        if value.tensor.name in {each.name for each in self.raw.inputs}:
            raise ImportFault(f"output {quoted(name)} is not computed by any op; remove it")
        # Images keep their channels last; any other order is only of the import.
        order = NHWC if value.order == NHWC else tuple(range(value.rank))
        site = Site(RawNode(len(self.raw.nodes), "Output", (), (name,), {}), self.values, {}, self.builder)
        return site.ordered(value, order).name, name
