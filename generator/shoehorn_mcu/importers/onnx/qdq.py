"""QuantizeLinear and DequantizeLinear between ops: which values are quantised tensors, and the ops that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering import elements, int16, maps, resize
from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.importers.lowering.site import Builder, Site, Value
from shoehorn_mcu.importers.onnx import chain as chains
from shoehorn_mcu.importers.onnx import codes, quantised
from shoehorn_mcu.importers.onnx import int16 as wide
from shoehorn_mcu.importers.onnx.file import RawModel
from shoehorn_mcu.ir import DType, Node, OpFault, Quant
from shoehorn_mcu.ops import Clamp, Dequantize, Quantize, Requantize, functions
from shoehorn_mcu.ops.formula import Term
from shoehorn_mcu.ops.laws import quoted


@dataclass(frozen=True)
class _Behind:
    """The nodes behind an op up to its quantised result, and the bounds of activations among them."""

    nodes: tuple[RawNode, ...]
    quantising: RawNode  # the QuantizeLinear among them
    low: float
    high: float
    clips: bool  # whether a Clip of the integers is the last one


@dataclass
class Quantising:
    """The values and ops made so far, and the quantised ones among them."""

    raw: RawModel
    values: dict[str, Value] = field(default_factory=dict)
    codes: dict[str, Value] = field(default_factory=dict)  # by the quantised tensor's name: int8 or int16 values
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)  # of the same tensors in the file
    stored: dict[str, Value] = field(default_factory=dict)  # the same values, by the name of the dequantised tensor
    coded: dict[str, chains.Coded] = field(default_factory=dict)  # quantised constants, by the latter names
    other: dict[str, str] = field(default_factory=dict)  # of what is dequantised by a formula: how it is quantised
    fused: set[str] = field(default_factory=set)  # the outputs of nodes that were converted with one before them
    builder: Builder = field(default_factory=Builder)
    inputs: list[str] = field(default_factory=list)  # of the graph

    def site(self, raw: RawNode, values: Mapping[str, Value | None]) -> Site:
        """The node with these values."""
        known = {name: value for name, value in values.items() if value is not None}
        return Site(raw, known, self.raw.constants, self.builder)

    def real(self, name: str) -> Value | None:
        """The value of this name in float32; None for a constant."""
        if name in self.stored and name not in self.values:
            value = self.stored[name]
            site = self.site(RawNode(len(self.builder.ops), "Dequantize", (), (name,), {}), {})
            if value.tensor.type.dtype is DType.INT16:
                self.values[name] = maps.of_stored(site, int16.dequantised(value.tensor.type.quantised), value)
            else:
                self.values[name] = Value(site.emit(Dequantize, value.tensor, dtype=DType.FLOAT32), value.order)
        if name in self.codes and name not in self.values:  # the integers themselves, by an op that knows no scale
            value = self.codes[name]
            site = self.site(RawNode(len(self.builder.ops), "Integers", (), (name,), {}), {})
            if value.tensor.type.dtype is DType.INT16:
                self.values[name] = maps.of_stored(site, lambda x: x, value)
                return self.values[name]
            real = Value(site.emit(Dequantize, value.tensor, dtype=DType.FLOAT32), value.order)
            self.values[name] = codes.quantized(site, real, value.tensor.type.quantised, self.dtypes[name])
        return self.values.get(name)

    def _form(self, raw: RawNode) -> str:
        """How a conversion quantises, in words, where ops do not have its integers."""
        site = self.site(raw, {})
        if not all(site.is_constant(place) for place in (1, 2) if site.given(place)):
            return "with a scale that is computed"
        if site.attribute("block_size", 0):
            return "with a scale per block"
        zero = self.raw.constants[raw.inputs[2]] if site.given(2) else np.zeros(1, np.int16)
        return f"as {zero.dtype}" if not zero.any() else f"as {zero.dtype} with a zero point"

    def _is_plain(self, raw: RawNode, site: Site) -> bool:
        """Whether a conversion's scale and zero point are known, and ops have its integers.

        That is 8 bits, int16 with a zero point of 0, or an int32 bias.
        """
        scale, zero = (self.raw.constants.get(raw.inputs[i]) if site.given(i) else None for i in (1, 2))
        known = scale is not None and (zero is not None or not site.given(2)) and not site.attribute("block_size", 0)
        if not known or zero is None:
            return known
        return zero.dtype.name in ("int8", "uint8", "int32") or (zero.dtype == np.int16 and not zero.any())

    def _quant(self, raw: RawNode, dtype: np.dtype[Any] | None, rank: int) -> Quant:
        """The quantisation of a conversion. `dtype`: of the quantised values; None: what the node itself says."""
        site = self.site(raw, {})
        if site.attribute("block_size", 0):
            raise Unsupported("it has a scale per block")
        zero = site.constant(2, "zero point") if site.given(2) else None
        if dtype is None:
            dtype = chains.written_dtype(zero, site.attribute("output_dtype", 0))
            self.dtypes[raw.outputs[0]] = dtype
        elif zero is not None and zero.dtype != dtype:
            raise ImportFault(f"its zero point is {zero.dtype}, its values are {dtype}; export it again")
        return chains.quant_of(site.constant(1, "scale"), zero, dtype, site.attribute("axis", 1), rank)

    def _one_quant(self, raw: RawNode, dtype: np.dtype[Any] | None = None) -> Quant:
        """`_quant` of values that are computed, which have one scale."""
        if self.site(raw, {}).constant(1, "scale").size > 1:
            raise Unsupported("values that are computed have a scale per channel, one scale is supported")
        return self._quant(raw, dtype, 0)

    def dequantize(self, raw: RawNode) -> None:
        """Makes no op: the output's name is noted for its stored values, and `_real` converts them where needed."""
        source, name = raw.inputs[0], raw.outputs[0]
        site = self.site(raw, {n: self.values[n] for n in raw.inputs if n in self.values})
        if not self._is_plain(raw, site) or self._is_other(source):
            self._in_float(raw)
            value = codes.dequantize(self.site(raw, self.values))
            self.other[name] = self._form(raw)
            if (data := value.tensor.data) is None:
                self.values[name] = value
            else:
                self.raw = replace(self.raw, constants={**self.raw.constants, name: data})
            return
        if source in self.raw.constants:
            data = self.raw.constants[source]
            if site.constant(1, "scale").size > 1:
                data = np.atleast_1d(data)
            quant = self._quant(raw, data.dtype, data.ndim)
            self.coded[name] = chains.Coded(chains.stored(data), quant).along_its_axis()
            return
        if source in self.inputs and source not in self.codes:
            self._coded_input(raw, source)
        if source not in self.codes:
            self.values[name] = codes.dequantize(site)
            return
        value = self.codes[source]
        if self._one_quant(raw, self.dtypes[source]) != value.tensor.type.quant:  # another number for each integer
            self._in_float(raw)
            self.values[name] = codes.dequantize(self.site(raw, self.values))
            return
        self.stored[name] = value

    def _in_float(self, raw: RawNode) -> None:
        """Makes values of all operands of a conversion; its scale, too, may be a dequantised one."""
        for name in raw.inputs:
            self.real(name)

    def _is_other(self, source: str) -> bool:
        """Whether these are constants of another kind than those that ops on int8 and int16 read."""
        data = self.raw.constants.get(source)
        return data is not None and data.dtype.name not in ("int8", "uint8", "int16", "int32")

    def _coded_input(self, raw: RawNode, source: str) -> None:
        """Takes an input of the model as quantised, if all that read it take it as such, with one scale."""
        value, dtype = self.values[source], np.dtype(self.values[source].tensor.type.dtype.value)
        same = {(node.code, *node.inputs[1:]) for node in self.readers.get(source, [])}
        one = self.raw.constants[raw.inputs[1]].size == 1
        if dtype.name not in ("int8", "uint8", "int16") or len(same) > 1 or not one or source in self.raw.outputs:
            return
        quant, moved = self._one_quant(raw, dtype), 128 if dtype == np.uint8 else 0
        own = Quant(quant.scales, tuple(z + moved for z in quant.zero_points))
        tensor = self.builder.add(replace(value.tensor, type=replace(value.tensor.type, quant=own)))
        if moved:
            tensor = self.site(raw, {}).emit(Requantize, tensor, quant=quant, dtype=DType.INT8)
        self.dtypes[source] = dtype
        self.codes[source] = Value(tensor, value.order)

    def quantize(self, raw: RawNode) -> None:
        source, name = raw.inputs[0], raw.outputs[0]
        known = self.stored.get(source) or self.values.get(source)
        if known is None:
            raise Unsupported(f"it reads {quoted(source)}, a constant")
        site = self.site(raw, {})
        asked = site.attribute("output_dtype", 0)
        if not self._is_plain(raw, site) or site.constant(1, "scale").size > 1 or asked not in chains.ONNX_TYPES:
            self._in_float(raw)
            self.values[name] = codes.quantize(self.site(raw, self.values))
            return
        quant, dtype = self._one_quant(raw), self._held(name)
        if source in self.stored:
            self.codes[name] = chains.scaled(site, known, quant, dtype)
        elif dtype is DType.INT16:
            self.codes[name] = maps.of_stored(site, int16.quantised(quant), known, quant=quant)
        else:
            made = site.emit(Quantize, known.tensor, quant=quant, dtype=DType.INT8)
            self.codes[name] = Value(made, known.order)

    def _held(self, name: str) -> DType:
        """The element type that holds the quantised values of this name."""
        return DType.INT16 if self.dtypes[name] == np.int16 else DType.INT8

    def moved(self, raw: RawNode) -> bool:
        """Whether the node only moved quantised values, which stay as they are, dequantised or not."""
        source, *others = (*raw.inputs, "")
        held = self.stored if source in self.stored else self.codes
        if raw.code not in quantised.MOVERS or source not in held or set(others) - {"", *self.raw.constants}:
            return False
        own = held[source]
        if raw.code == "Pad" and held is self.codes:
            if not self._pads_with_zero(raw, own):
                return False
            raw = replace(raw, inputs=(*raw.inputs[:2], "", *raw.inputs[3:]))
        made = len(self.builder.ops)
        try:
            found = quantised.MOVERS[raw.code](self.site(raw, {source: own}))
            self.lawful(made)
        except Unsupported:
            found = ()
        values = found if isinstance(found, tuple) else (found,)
        if not values or any(each.tensor.type.quant != own.tensor.type.quant for each in values):
            self.builder.cut(made)
            return False
        held.update(zip(raw.outputs, values, strict=False))
        if held is self.codes:
            self.dtypes.update(dict.fromkeys(raw.outputs, self.dtypes[source]))
        return True

    def _pads_with_zero(self, raw: RawNode, x: Value) -> bool:
        """Whether a Pad of stored integers adds their zero point, so that its real value is 0."""
        value = self.raw.constants.get(raw.inputs[2]) if len(raw.inputs) > 2 else None
        moved = 128 if self.dtypes[raw.inputs[0]] == np.uint8 else 0
        zero = x.tensor.type.quantised.zero_point + moved
        return (
            raw.attributes.get("mode", "constant") != "constant" or (0 if value is None else int(value.item())) == zero
        )

    def in_integers(self, raw: RawNode) -> str | None:
        """Makes the node an op on integers: its operands are dequantised, its result goes to be quantised.

        It computes with int16 where an operand that is computed or the result is int16, else with int8. Returns why the
        node did not become one, None where it did.
        """
        known = {n for n in raw.inputs if n in self.stored}
        if (name := next((n for n in raw.inputs if n in self.other), None)) is not None:
            return f"its input {quoted(name)} is quantised {self.other[name]}"
        real = [n for n in raw.inputs if n in self.values and n not in known]
        if real or not known:
            return f"its input {quoted((real or raw.inputs or ('',))[0])} is not quantised"
        chain = self._chain(raw)
        if isinstance(chain, str):
            return chain
        made = len(self.builder.ops)
        if (bias := self._bias(raw, chain.nodes[0])) is not None:
            raw = replace(raw, inputs=(*raw.inputs, bias))
        try:
            value = self._on_integers(raw, chain, known)
            self.lawful(made)
        except Unsupported as fault:
            self.builder.cut(made)
            return str(fault)
        self.codes[chain.nodes[-1].outputs[0]] = value
        self.fused |= {node.outputs[0] for node in chain.nodes}
        return None

    def _on_integers(self, raw: RawNode, chain: _Behind, known: set[str]) -> Value:
        """The node's result as the chain stores it. Raises Unsupported where there is no op on such integers."""
        last = chain.quantising
        if not self._is_plain(last, self.site(last, {})):
            raise Unsupported("the quantisation of its result is no scale and zero point of 8 bits, or of 16 with 0")
        quant, dtype = self._one_quant(last), self._held(last.outputs[0])
        low, high, name = chain.low, chain.high, chain.nodes[-1].outputs[0]
        if chain.clips:
            self.dtypes[name] = self.dtypes[last.outputs[0]]
            codes = self._code_bounds(chain.nodes[-1], dtype)
            own = [(bound - quant.zero_point) * quant.scale for bound in (codes.low, codes.high)]
            low, high = max(low, own[0]), min(high, own[1])
        types = {dtype, *(self.stored[n].tensor.type.dtype for n in known)}
        site = self.site(replace(raw, outputs=(name,)), self.stored)
        if types == {DType.INT8}:
            if raw.code not in quantised.CONVERTERS:
                raise Unsupported("no kernel computes it with int8")
            return quantised.CONVERTERS[raw.code](chains.Chain(site, self.coded, quant, low, high))
        if raw.code not in wide.CONVERTERS:
            raise Unsupported("no kernel computes it with int16")
        held = replace(site, values={n: wide.widened(site, self.stored[n]) for n in sorted(known)})
        to = quant if dtype is DType.INT16 else wide.wide_target(quant)
        made = wide.CONVERTERS[raw.code](chains.Chain(held, self.coded, to, low, high, DType.INT16))
        return chains.scaled(site, made, quant, dtype)

    def _chain(self, raw: RawNode) -> _Behind | str:
        """The nodes behind this one up to its quantised result, which alone read it; in words why there are none."""
        found: list[RawNode] = []
        low, high, name = -np.inf, np.inf, raw.outputs[0]
        while len(readers := self.readers.get(name, [])) == 1 and name not in self.raw.outputs:
            (node,) = readers
            found.append(node)
            name = node.outputs[0]
            if node.code == "QuantizeLinear":
                clip = self._clip_behind(node)
                return _Behind((*found, clip) if clip else tuple(found), node, low, high, clip is not None)
            if node.code == "Relu":
                low = max(low, 0.0)
            elif len(found) == 1 and self._bias(raw, node) is not None:
                continue
            elif self._clips(node):
                bounds = elements.bounds(self.site(node, {}))
                low, high = max(low, bounds[0]), min(high, bounds[1])
            else:
                return f"{node.title} follows it before its result is quantised"
        many = f"{len(readers)} ops read its result {quoted(name)} as real numbers"
        return many if readers and name not in self.raw.outputs else "its result is not quantised"

    def _clip_behind(self, node: RawNode) -> RawNode | None:
        """The Clip of integers that alone reads the result of a QuantizeLinear, with known bounds."""
        name, readers = node.outputs[0], self.readers.get(node.outputs[0], [])
        alone = len(readers) == 1 and name not in self.raw.outputs
        return readers[0] if alone and self._clips(readers[0]) else None

    def _clips(self, node: RawNode) -> bool:
        """Whether a node is a Clip with known bounds."""
        return node.code == "Clip" and all(name in self.raw.constants for name in node.inputs[1:] if name)

    def _code_bounds(self, node: RawNode, dtype: DType) -> Clamp:
        """The bounds of a Clip of integers, which are held as `dtype`; where the least is above the most, the most."""
        source, site = self.dtypes[node.inputs[0]], self.site(node, {})
        moved = 128 if source == np.uint8 else 0
        bounds = [
            int(site.constant(place, role).item()) - moved if site.given(place) else limit
            for place, role, limit in zip((1, 2), ("lower bound", "upper bound"), dtype.limits, strict=True)
        ]
        low, high = (int(np.clip(bound, *dtype.limits)) for bound in bounds)
        return Clamp(min(low, high), high)

    def clipped(self, raw: RawNode) -> bool:
        """Whether the node is a Clip of quantised values, which stay quantised: narrow ranges and few bits."""
        source = raw.inputs[0]
        if source not in self.codes or not self._clips(raw):
            return False
        value = self.codes[source]
        bounds = self._code_bounds(raw, value.tensor.type.dtype)
        self.codes[raw.outputs[0]] = chains.within(self.site(raw, {}), value, bounds)
        self.dtypes[raw.outputs[0]] = self.dtypes[source]
        return True

    def resized(self, raw: RawNode) -> bool:
        """Whether the node is a Resize of integers between whose numbers others lie, which ONNX Runtime cuts off."""
        source = raw.inputs[0]
        if raw.code != "Resize" or source not in self.codes or self.codes[source].tensor.type.dtype is not DType.INT8:
            return False
        value, moved = self.codes[source], 128 if self.dtypes[source] == np.uint8 else 0
        site = self.site(raw, {})
        whole = maps.of_stored(site, lambda x: x.cast(DType.FLOAT32) + float(moved), value)
        larger = resize.resize(replace(site, values={source: whole}))

        def finish(t: Term) -> Term:
            return functions.clip(functions.truncate(t) - float(moved), -128, 127).cast(DType.INT8)

        self.codes[raw.outputs[0]] = maps.of_stored(site, finish, larger, quant=value.tensor.type.quant)
        self.dtypes[raw.outputs[0]] = self.dtypes[source]
        return True

    def _bias(self, raw: RawNode, after: RawNode) -> str | None:
        """The constant per column that `after` adds to the result of a MatMul: its bias; None for any other."""
        if raw.code != "MatMul" or after.code != "Add" or raw.outputs[0] not in after.inputs:
            return None
        (name,) = [each for each in after.inputs if each != raw.outputs[0]] or [""]
        data = self.coded[name].data if name in self.coded else self.raw.constants.get(name)
        return name if data is not None and data.ndim == 1 else None

    def transposed(self, raw: RawNode) -> bool:
        """Whether the node moved the dimensions of a quantised constant, which stays one."""
        if raw.code != "Transpose" or raw.inputs[0] not in self.coded:
            return False
        self.coded[raw.outputs[0]] = chains.transposed(self.site(raw, {}), self.coded[raw.inputs[0]])
        return True

    @cached_property
    def readers(self) -> dict[str, list[RawNode]]:
        """The nodes that read each value."""
        return by_key((name, node) for node in self.raw.nodes for name in node.inputs)

    def lawful(self, first: int) -> None:
        """Raises Unsupported where an op breaks a rule of the IR, so that it is listed with the others."""
        tensors = self.builder.tensors
        for op in self.builder.ops[first:]:
            node = Node(op, tuple(tensors[n] for n in op.inputs), tensors[op.output])
            try:
                op.check(node)
            except OpFault as fault:
                raise Unsupported(fault.why) from fault
            if node.output.type.dtype is DType.INT16 and (why := op.overflow(node)) is not None:
                raise Unsupported(why)
