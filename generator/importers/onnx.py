"""Imports an .onnx file as a Graph: values, ends and quantised chains, and one message for all unsupported ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.importers import onnx_elements as elements
from shoehorn_mcu.importers import onnx_quantised as quantised
from shoehorn_mcu.importers.fault import ImportFault, NeedsConstant, Refusal, Unsupported, UnsupportedModel
from shoehorn_mcu.importers.onnx_file import RawInput, RawModel, parsed, read
from shoehorn_mcu.importers.onnx_node import RawNode
from shoehorn_mcu.importers.onnx_ops import CONVERTERS, OPS
from shoehorn_mcu.importers.onnx_site import NHWC, Builder, Site, Value, as_plain, renamed
from shoehorn_mcu.ir import DType, Graph, GraphError, Node, OpFault, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ops import Dequantize, Quantize
from shoehorn_mcu.ops.laws import quoted

if TYPE_CHECKING:
    from onnx import ModelProto


def load_onnx(path: Path) -> Graph:
    """The verified graph in an .onnx file, named after it.

    Images of its inputs and outputs have their channels last. Raises ImportFault, without the file's name, if the file
    is damaged, and once for all ops that no kernel runs; and OSError.
    """
    return _imported(read(path, OPS), path.stem).graph


@dataclass(frozen=True)
class Imported:
    """A model's graph, and how its inputs and outputs lie in memory.

    Dimension d of an input or output in the graph is the model's dimension `orders[name][d]`.
    """

    graph: Graph
    orders: Mapping[str, tuple[int, ...]]


def import_model(model: ModelProto, name: str) -> Imported:
    """As `load_onnx`, for a model in memory whose constants are all in it."""
    return _imported(parsed(model, OPS), name)


def _imported(raw: RawModel, name: str) -> Imported:
    made = _Import(raw)
    try:
        return Imported(verify(made.graph(name)), made.orders)
    except GraphError as error:
        raise ImportFault(f"{error}; export it again") from error


@dataclass
class _Import:
    """The state of one import: the values and ops made so far."""

    raw: RawModel
    values: dict[str, Value] = field(default_factory=dict)
    codes: dict[str, Value] = field(default_factory=dict)  # by the name of the quantised tensor: int8 values
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)  # of the same tensors in the file
    stored: dict[str, Value] = field(default_factory=dict)  # the same values, by the name of the dequantised tensor
    coded: dict[str, quantised.Coded] = field(default_factory=dict)  # quantised constants, by the latter names
    fused: set[str] = field(default_factory=set)  # the outputs of nodes that were converted with one before them
    builder: Builder = field(default_factory=Builder)
    inputs: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    orders: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of the model's inputs and outputs

    def graph(self, name: str) -> Graph:
        self.readers = self._readers()
        for each in self.raw.inputs:
            self._input(each)
        inputs = tuple(self.inputs)
        missing: set[str] = {each.name for each in self.raw.inputs} - set(self.values)
        for node in self.raw.nodes:
            self._node(node, missing)
        taken: set[str] = set()
        outputs = [self._output(each, missing, taken) for each in self.raw.outputs]
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
        try:
            dtype = DType(raw.dtype.name)
        except ValueError:
            reason = f"tensor {quoted(raw.name)} is {raw.dtype}, no kernel computes with that"
            self.refused.append(Refusal("input", "", "", reason))
            return
        order = NHWC if len(raw.shape) == 4 else tuple(range(len(raw.shape)))
        kind = TensorType(tuple(raw.shape[dimension] for dimension in order), dtype)
        self.orders[raw.name] = order
        self.inputs.append(raw.name)
        value = Value(self.builder.add(Tensor(raw.name, kind)), order)
        if dtype is DType.FLOAT16:  # inside, numbers are held in float32
            node = RawNode(len(self.inputs), "Input", (), (raw.name,), {})
            value = Value(self._site(node, {}).emit(Dequantize, value.tensor, dtype=DType.FLOAT32), order)
        self.values[raw.name] = value

    def _node(self, raw: RawNode, missing: set[str]) -> None:
        """Converts one op, or records why it is refused; ops behind a refused one are not looked at."""
        writes = ", ".join(quoted(name) for name in raw.outputs if name)
        written = {name for name in raw.outputs if name}
        if set(raw.inputs) & missing:
            missing |= written
            if raw.code not in OPS:
                self.refused.append(Refusal(f"op {raw.index}", raw.title, writes, ""))
            return
        if raw.outputs[0] in self.fused:
            return
        try:
            self._convert(raw)
        except Unsupported as fault:
            needs = self._sources(fault.tensor) if isinstance(fault, NeedsConstant) else ()
            self.refused.append(Refusal(f"op {raw.index}", raw.title, writes, str(fault), needs))
            missing |= written
        except ImportFault as fault:
            raise fault.within(f"op {raw.index} {raw.title} writing {writes}") from fault

    def _convert(self, raw: RawNode) -> None:
        """Makes the ops of one node, on int8 where it is between quantised values and such an op is known."""
        if raw.code == "DequantizeLinear":
            self._dequantize(raw)
        elif raw.code == "QuantizeLinear":
            self._quantize(raw)
        elif raw.code not in CONVERTERS:
            raise Unsupported
        elif not self._in_int8(raw):
            made = len(self.builder.ops)
            found = CONVERTERS[raw.code](self._site(raw, {n: self._real(n) for n in raw.inputs if n}))
            self.values.update(zip(raw.outputs, found if isinstance(found, tuple) else (found,), strict=False))
            self._lawful(made)

    def _site(self, raw: RawNode, values: Mapping[str, Value | None]) -> Site:
        known = {name: value for name, value in values.items() if value is not None}
        return Site(raw, known, self.raw.constants, self.builder)

    def _real(self, name: str) -> Value | None:
        """The value of this name in float32; None for a constant."""
        if name in self.stored and name not in self.values:
            value = self.stored[name]
            number = RawNode(len(self.builder.ops), "Dequantize", (), (name,), {})
            made = self._site(number, {}).emit(Dequantize, value.tensor, dtype=DType.FLOAT32)
            self.values[name] = Value(made, value.order)
        if name in self.coded and name not in self.raw.constants:
            raise Unsupported(f"it reads {quoted(name)}, a quantised constant, in float32")
        return self.values.get(name)

    def _quant(self, raw: RawNode, dtype: np.dtype[Any] | None, rank: int) -> Quant:
        """The quantisation of a conversion. `dtype`: of the quantised values; None: what the node itself says."""
        site = self._site(raw, {})
        site.known("axis", "saturate", "block_size", "output_dtype", "precision")
        if site.attribute("block_size", 0):
            raise Unsupported("it has a scale per block")
        zero = site.constant(2, "zero point") if site.given(2) else None
        if dtype is None:
            dtype = quantised.written_dtype(zero, site.attribute("output_dtype", 0))
            self.dtypes[raw.outputs[0]] = dtype
        elif zero is not None and zero.dtype != dtype:
            raise ImportFault(f"its zero point is {zero.dtype}, its values are {dtype}; export it again")
        return quantised.quant_of(site.constant(1, "scale"), zero, dtype, site.attribute("axis", 1), rank)

    def _one_quant(self, raw: RawNode, dtype: np.dtype[Any] | None = None) -> Quant:
        """`_quant` of values that are computed, which have one scale."""
        if self._site(raw, {}).constant(1, "scale").size > 1:
            raise Unsupported("values that are computed have a scale per channel, one scale is supported")
        return self._quant(raw, dtype, 0)

    def _dequantize(self, raw: RawNode) -> None:
        """Makes no op: the output's name is noted for its stored values, and `_real` converts them where needed."""
        source, name = raw.inputs[0], raw.outputs[0]
        if source in self.raw.constants:
            data = self.raw.constants[source]
            quant = self._quant(raw, data.dtype, data.ndim)
            self.coded[name] = quantised.Coded(quantised.stored(data), quant)
            return
        if source not in self.codes:
            raise Unsupported(f"it reads {quoted(source)}, which no QuantizeLinear writes")
        value = self.codes[source]
        if self._one_quant(raw, self.dtypes[source]) != value.tensor.type.quant:
            raise Unsupported(f"it reads {quoted(source)} with another scale than that was quantised with")
        self.stored[name] = value

    def _quantize(self, raw: RawNode) -> None:
        source, name = raw.inputs[0], raw.outputs[0]
        known = self.stored.get(source) or self.values.get(source)
        if known is None:
            raise Unsupported(f"it reads {quoted(source)}, a constant")
        quant = self._one_quant(raw)
        site = self._site(raw, {})
        if source in self.stored:
            self.codes[name] = quantised.scaled(site, known, quant)
        else:
            made = site.emit(Quantize, known.tensor, quant=quant, dtype=DType.INT8)
            self.codes[name] = Value(made, known.order)

    def _in_int8(self, raw: RawNode) -> bool:
        """Whether the node became an op on int8: its operands are dequantised, and its result goes to be quantised."""
        convert, chain = quantised.CONVERTERS.get(raw.code), self._chain(raw)
        known = {n for n in raw.inputs if n in self.stored}
        if convert is None or chain is None or not known or any(n in self.values for n in set(raw.inputs) - known):
            return False
        nodes, low, high = chain
        last, made = nodes[-1], len(self.builder.ops)
        try:
            site = self._site(replace(raw, outputs=last.outputs), self.stored)
            value = convert(quantised.Chain(site, self.coded, self._one_quant(last), low, high))
            self._lawful(made)
        except Unsupported:
            if set(raw.inputs) & set(self.coded):
                raise
            del self.builder.ops[made:]
            return False
        self.codes[last.outputs[0]] = value
        self.fused |= {node.outputs[0] for node in nodes}
        return True

    def _chain(self, raw: RawNode) -> tuple[list[RawNode], float, float] | None:
        """The nodes up to the QuantizeLinear that alone reads the result, and the bounds of activations among them."""
        found: list[RawNode] = []
        low, high, name = -np.inf, np.inf, raw.outputs[0]
        while len(readers := self.readers.get(name, [])) == 1 and name not in self.raw.outputs:
            (node,) = readers
            found.append(node)
            name = node.outputs[0]
            if node.code == "QuantizeLinear":
                return found, low, high
            if node.code == "Relu":
                low = max(low, 0.0)
            elif node.code == "Clip" and all(n in self.raw.constants for n in node.inputs[1:] if n):
                bounds = elements.bounds(self._site(node, {}))
                low, high = max(low, bounds[0]), min(high, bounds[1])
            else:
                return None
        return None

    def _sources(self, name: str) -> tuple[str, ...]:
        """The model's inputs that a value depends on."""
        wanted = {name}
        for node in reversed(self.raw.nodes):
            if wanted & set(node.outputs):
                wanted |= set(node.inputs)
        return tuple(each.name for each in self.raw.inputs if each.name in wanted)

    def _readers(self) -> dict[str, list[RawNode]]:
        found: dict[str, list[RawNode]] = {}
        for node in self.raw.nodes:
            for name in node.inputs:
                found.setdefault(name, []).append(node)
        return found

    def _lawful(self, first: int) -> None:
        """Raises Unsupported where an op breaks a rule of the IR, so that it is listed with the others."""
        tensors = self.builder.tensors
        for op in self.builder.ops[first:]:
            try:
                op.check(Node(op, tuple(tensors[n] for n in op.inputs), tensors[op.output]))
            except OpFault as fault:
                raise Unsupported(fault.why) from fault

    def _output(self, name: str, missing: set[str], taken: set[str]) -> tuple[str, str]:
        """The tensor of an output, which no other in `taken` is, and the output's name."""
        if self.raw.dtypes.get(name) == np.float64:
            self.refused.append(
                Refusal("output", "", "", f"tensor {quoted(name)} is float64, no kernel computes with that")
            )
            return name, name
        if name in missing:
            return name, name
        self._real(name)
        site = Site(RawNode(len(self.raw.nodes), "Output", (), (name,), {}), self.values, {}, self.builder)
        if name in self.raw.constants and name not in self.values:
            value = as_plain(site.weights(self.raw.constants[name]))
        elif name in self.values or name in self.codes:
            value = self.codes[name] if name in self.codes else self.values[name]
        else:
            raise ImportFault(f"output {quoted(name)} is not computed from the inputs; remove it")
        # Images keep their channels last; any other order is only of the import.
        order = NHWC if value.order == NHWC else tuple(range(value.rank))
        tensor = site.ordered(value, order)
        if self.raw.dtypes.get(name) == np.float16 and tensor.type.dtype is DType.FLOAT32:
            tensor = site.emit(Quantize, tensor, dtype=DType.FLOAT16)
        if tensor.name in (*self.inputs, *taken) or tensor.data is not None:
            tensor = site.copied(tensor)
        self.orders[name] = order
        taken.add(tensor.name)
        return tensor.name, name
