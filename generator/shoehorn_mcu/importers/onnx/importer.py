"""Imports an .onnx file as a Graph: values, ends and quantised chains, and one message for all unsupported ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.importers.declared import Declarations
from shoehorn_mcu.importers.fault import (
    UNFIT,
    ImportFault,
    NeedsConstant,
    Refusal,
    Unsupported,
    UnsupportedModel,
    unfit,
)
from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.importers.lowering.ops import CONVERTERS
from shoehorn_mcu.importers.lowering.site import NHWC, Site, Value, as_plain, renamed
from shoehorn_mcu.importers.onnx import shapes as onnx_shapes
from shoehorn_mcu.importers.onnx.apart import parsed, parsed_bytes, read
from shoehorn_mcu.importers.onnx.file import RawInput, RawModel, held
from shoehorn_mcu.importers.onnx.in_float import Frames
from shoehorn_mcu.importers.onnx.loops import ROUNDS_LIMIT
from shoehorn_mcu.importers.onnx.operands import check_attributes, check_whole
from shoehorn_mcu.importers.onnx.ops import ENDS, OPS
from shoehorn_mcu.importers.onnx.qdq import Quantising
from shoehorn_mcu.importers.onnx.qlinear import REAL
from shoehorn_mcu.importers.source import Imported, InFloat, Shapes, Source, SourceOp, SourceTensor, macs_of
from shoehorn_mcu.ir import DType, FileTensor, Graph, GraphError, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ir.edit import numbered_name
from shoehorn_mcu.ops import Dequantize, Quantize, Requantize
from shoehorn_mcu.ops.laws import quoted

if TYPE_CHECKING:
    from onnx import ModelProto


def load_onnx(path: Path, shapes: Shapes) -> Imported:
    """The model in an .onnx file: its verified graph is named after the file.

    Images of its inputs and outputs have their channels last. Raises ImportFault, without the file's name, if the file
    is damaged, and once for all ops that no kernel runs; and OSError.
    """
    return _imported(read(path, OPS, shapes), path.stem)


def import_model(model: ModelProto, name: str, shapes: Shapes | None = None) -> Imported:
    """As `load_onnx`, for a model in memory whose constants are all in it; `shapes` changes it."""
    onnx_shapes.fix(model, shapes or {})
    return _imported(parsed(model, OPS), name)


def import_bytes(model: bytes | bytearray, name: str, shapes: Shapes) -> Imported:
    """As `import_model`, for a model as a file without external data would hold it; `shapes` fixes its dimensions."""
    return _imported(parsed_bytes(model, OPS, shapes), name)


def _imported(raw: RawModel, name: str) -> Imported:
    made = _Import(raw)
    try:
        with np.errstate(all="ignore"):  # constants that are not finite are refused where they are read
            graph = verify(made.graph(name))
    except GraphError as error:
        raise ImportFault(f"{error}; export it again") from error
    inner = {own: value.order for own, value in made.computed() if made.names.get(value.tensor.name) == own}
    orders = {each: order for each, order in (inner | made.orders).items() if each in graph.tensors}
    ends = {each: _in_file(graph.tensors[each], order) for each, order in orders.items()}
    others = tuple(made.others_in_float.values())
    return Imported(graph, ends, raw.folded, tuple(made.in_float), made.quantised_linear, others, raw.others)


def _in_file(tensor: Tensor, order: tuple[int, ...]) -> FileTensor:
    """A tensor of the graph as the file has it."""
    return FileTensor(tensor.name, replace(tensor.type, shape=Value(tensor, order).shape), order)


_KNOWN_BEFORE = {"ConstantOfShape": "shape", "If": "condition", "Range": "limit"}
"""What an op that is only run before the model needs as a constant."""

_CAUSES = {
    "Loop": "how often it runs is decided while it runs; export the model with its rounds one after the other",
    "Scan": f"only at most {ROUNDS_LIMIT} rounds over sequences of known length run",
}
_LINEAR = ("Conv", "ConvInteger", "ConvTranspose", "Einsum", "Gemm", "MatMul")
_ELEMENTWISE = ("QuantizeLinear", "DequantizeLinear", "Cast", "Identity")


@dataclass
class _Import(Quantising):
    """The state of one import."""

    refused: list[Refusal] = field(default_factory=list)
    orders: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of the model's inputs and outputs
    made: dict[str, list[Op]] = field(default_factory=dict)  # by the first output of the node
    names: dict[str, str] = field(default_factory=dict)  # of the graph's tensors, by those in the import
    in_float: list[InFloat] = field(default_factory=list)
    quantised_linear: int = 0
    others_in_float: dict[str, InFloat] = field(default_factory=dict)  # by the last result

    def __post_init__(self) -> None:
        cure = "export it again, or take out what it declares of this value"
        self.declared = Declarations(self.raw.declared, cure)
        self.frames = Frames(self.raw.nodes, self.readers, self.raw.outputs)

    def graph(self, name: str) -> Graph:
        for each in self.raw.inputs:
            self._input(each)
            self.declared.check(each.name, each.shape, held(each.dtype))
        for constant, data in self.raw.constants.items():
            self.declared.check(constant, data.shape, held(data.dtype))
        inputs = tuple(self.inputs)
        missing: set[str] = {each.name for each in self.raw.inputs} - set(self.values)
        for node in self.raw.nodes:
            self._node(node, missing)
        taken: set[str] = set()
        outputs = [self._output(each, missing, taken) for each in self.raw.outputs]
        if self.refused:
            raise UnsupportedModel("", self.refused, self._source())
        self.names = names = self._names({tensor: own for tensor, own in outputs if tensor not in inputs})
        known = self.builder.tensors
        tensors = {new: Tensor(new, known[old].type, known[old].data) for old, new in names.items()}
        ops = tuple(renamed(op, names) for op in self.builder.ops)
        return Graph(name, tensors, ops, inputs, tuple(names[t] for t, _ in outputs))

    def _names(self, outputs: Mapping[str, str]) -> dict[str, str]:
        """What each tensor of the graph is called, by its name so far: as the file calls that value, if it has it.

        Of the ops that are made of one of the file, the first had the name of the result. `outputs`: the names of the
        model's outputs.
        """
        written = {op.output for op in self.builder.ops}
        read = {name for op in self.builder.ops for name in op.inputs}
        ends = written | read | set(self.inputs)
        kept = [name for name in self.builder.tensors if name in ends]
        names = {**{name: name for name in self.inputs}, **outputs}
        values = [(own, value.tensor.name) for own, value in self.computed() if value.tensor.name in written]
        said = set(names.values())
        for own, tensor in (*((o, t) for o, t in values if o == t), *values):
            if tensor not in names and own not in said:
                names[tensor] = own
                said.add(own)
        for name in kept:
            if name not in names:
                names[name] = numbered_name(said, name)
                said.add(names[name])
        return {name: names[name] for name in kept}

    def computed(self) -> tuple[tuple[str, Value], ...]:
        """The values that are computed, by their names in the file."""
        return (*self.values.items(), *self.codes.items(), *self.stored.items())

    def _input(self, raw: RawInput) -> None:
        try:
            dtype = DType(raw.dtype.name)
        except ValueError:
            held = "holds strings, which are not supported" if raw.dtype.kind in "OSU" else ""
            reason = f"tensor {quoted(raw.name)} {held or f'is {raw.dtype}, no kernel computes with that'}"
            self.refused.append(Refusal("input", "", "", reason))
            return
        plain = len(raw.shape) != 4 or self._is_channels_last(raw.name)
        order = tuple(range(len(raw.shape))) if plain else NHWC
        kind = TensorType(tuple(raw.shape[dimension] for dimension in order), dtype)
        self.orders[raw.name] = order
        self.inputs.append(raw.name)
        value = Value(self.builder.add(Tensor(raw.name, kind)), order)
        if dtype is DType.FLOAT16:  # inside, numbers are held in float32
            node = RawNode(len(self.inputs), "Input", (), (raw.name,), {})
            value = Value(self.site(node, {}).emit(Dequantize, value.tensor, dtype=DType.FLOAT32), order)
        self.values[raw.name] = value

    def _is_channels_last(self, name: str) -> bool:
        """Whether an image has its channels last in the file: all that reads it moves them to the front first."""

        def moves(node: RawNode) -> bool:
            if node.code == "Transpose":
                return node.attributes.get("perm") == (0, 3, 1, 2)
            return node.code in _ELEMENTWISE and self._is_channels_last(node.outputs[0])

        found = self.readers.get(name, [])
        return bool(found) and all(map(moves, found))

    def _node(self, raw: RawNode, missing: set[str]) -> None:
        """Converts one op, or records why it is refused; ops behind a refused one are not looked at."""
        writes = ", ".join(quoted(name) for name in raw.outputs if name)
        written = {name for name in raw.outputs if name}
        if set(raw.inputs) & missing:
            missing |= written
            if raw.code not in OPS:
                self.refused.append(Refusal(f"op {raw.index}", raw.title, writes, ""))
            return
        first = len(self.builder.ops)
        try:
            if raw.outputs[0] not in self.fused:
                self._convert(raw)
                self.made[raw.outputs[0]] = self.builder.ops[first:]
            self._compare(raw)
        except Unsupported as fault:
            needs = self._sources(fault.tensor) if isinstance(fault, NeedsConstant) else ()
            self.refused.append(Refusal(f"op {raw.index}", raw.title, writes, str(fault), needs))
            missing |= written
        except ImportFault as fault:
            raise fault.of_op(f"op {raw.index} {raw.title} writing {writes}") from fault
        except UNFIT as error:
            raise unfit(error).of_op(f"op {raw.index} {raw.title} writing {writes}") from error

    def _compare(self, raw: RawNode) -> None:
        """Compares what is computed with what the file declares."""
        for name in raw.outputs:
            if name in self.codes:
                self.declared.check(name, self.codes[name].shape, self.dtypes[name].name)
            elif name in self.stored or name in self.values:
                value = self.stored.get(name) or self.values[name]
                dtype = DType.FLOAT32 if name in self.stored else value.tensor.type.dtype
                self.declared.check(name, value.shape, dtype.value)

    def _source(self) -> Source:
        """The ops of the file that compute with the inputs, with what was found out about each."""
        refusals = {(refusal.place, refusal.code): refusal.reason for refusal in self.refused}
        sizes = {name: 0 if data.dtype == np.int64 else data.nbytes for name, data in self.raw.constants.items()}
        ops: list[SourceOp] = []
        for node in self.raw.nodes:
            reads = tuple(name for name in node.inputs if name and name not in sizes)
            weight_bytes = sum(sizes[name] for name in node.inputs if name in sizes)
            if not reads:
                sizes[node.outputs[0]] = weight_bytes  # a constant that is dequantised
                continue
            writes = tuple(self._source_tensor(name) for name in node.outputs if name)
            made = self.made.get(node.outputs[0])
            macs = None if made is None else macs_of(made, self.builder.tensors)
            refusal = refusals.get((f"op {node.index}", node.title))
            ops.append(SourceOp(node.index, node.title, reads, writes, weight_bytes, macs, refusal))
        inputs = tuple(self._source_tensor(each.name) for each in self.raw.inputs)
        nodes = groupby(ops, lambda op: op.index)
        return Source(inputs, self.raw.outputs, tuple(_of_one_node(list(parts)) for _, parts in nodes))

    def _source_tensor(self, name: str) -> SourceTensor:
        said, dtype = self.raw.declared.get(name), self.raw.dtypes.get(name)
        known = said.dtype if dtype is None and said is not None else "" if dtype is None else dtype.name
        return SourceTensor(name, self.raw.shapes.get(name), known)

    def _convert(self, raw: RawNode) -> None:
        """Makes the ops of one node, on integers where it is between quantised values and such an op is known."""
        check_whole(raw, self._dtype)
        if raw.code in CONVERTERS or raw.code in ENDS:
            check_attributes(raw)
        if raw.code == "DequantizeLinear":
            self.dequantize(raw)
        elif raw.code == "QuantizeLinear":
            self.quantize(raw)
        elif raw.code not in CONVERTERS:
            raise self._unknown(raw)
        elif not (self.transposed(raw) or self.moved(raw) or self.clipped(raw) or self._resized(raw)):
            why = self.in_integers(raw)
            self._count(raw, why)
            if why is None:
                return
            made = len(self.builder.ops)
            held = {n: self.coded[n].real for n in raw.inputs if n in self.coded}
            site = self.site(raw, {n: self.real(n) for n in raw.inputs if n})
            found = CONVERTERS[raw.code](replace(site, constants={**self.raw.constants, **held}) if held else site)
            self.values.update(zip(raw.outputs, found if isinstance(found, tuple) else (found,), strict=False))
            self.lawful(made)
            if raw.code not in _LINEAR and self.frames.is_quantised(raw, self._is_held):
                self._note(raw, why, made)

    def _resized(self, raw: RawNode) -> bool:
        """`resized`, which is noted: it computes in float32."""
        made = len(self.builder.ops)
        if not self.resized(raw):
            return False
        self._note(raw, "ONNX Runtime interpolates integers in float32", made)
        return True

    def _is_held(self, name: str) -> bool | None:
        """Whether a value is quantised; None for a constant and for a value that is no real number."""
        if name in self.raw.constants or name in self.coded:
            return None
        if name in self.stored or name in self.other:
            return True
        return False if self._dtype(name) == np.float32 else None

    def _note(self, raw: RawNode, why: str, first: int) -> None:
        """Notes that the ops made from the `first` on compute a quantised op in float32, or a part of one."""
        nodes = self.frames.op(raw)
        name, reason = nodes[-1].outputs[0], why if len(nodes) == 1 else "no kernel computes it with integers"
        before = self.others_in_float[name].made if name in self.others_in_float else ()
        made = (*before, *(op.name for op in self.builder.ops[first:]))
        self.others_in_float[name] = InFloat(*_as_the_file(raw, name), reason, made)

    def _count(self, raw: RawNode, why: str | None) -> None:
        """Counts a linear op of quantised operands; `why` it is not computed with integers, None where it is."""
        whole, quantised = raw.code == "ConvInteger", {*self.stored, *self.coded, *self.other}
        if raw.code not in _LINEAR or not (whole or quantised & set(raw.inputs[:2])):
            return
        self.quantised_linear += 1
        if why is not None:
            reason = "its scales are computed while it runs" if whole else why
            self.in_float.append(InFloat(*_as_the_file(raw, raw.outputs[0]), reason))

    def _dtype(self, name: str) -> np.dtype[Any] | None:
        """The element type of a value, if it is known."""
        if name in self.raw.constants:
            return self.raw.constants[name].dtype
        if name in self.codes or name in self.stored:
            return self.dtypes.get(name, np.dtype(np.float32))
        return np.dtype(self.values[name].tensor.type.dtype.value) if name in self.values else None

    def _unknown(self, raw: RawNode) -> Unsupported:
        """Why an op without a converter does not run; "" where nothing but that is known."""
        role = _KNOWN_BEFORE.get(raw.code)
        name = next((name for name in raw.inputs if name and name not in self.raw.constants), "")
        if role and name:
            return NeedsConstant(f"its {role} {quoted(name)} is computed, it must be constant", name)
        return Unsupported(_CAUSES.get(raw.code, ""))

    def _sources(self, name: str) -> tuple[str, ...]:
        """The model's inputs that a value depends on."""
        wanted = {name}
        for node in reversed(self.raw.nodes):
            if wanted & set(node.outputs):
                wanted |= set(node.inputs)
        return tuple(each.name for each in self.raw.inputs if each.name in wanted)

    def _output(self, name: str, missing: set[str], taken: set[str]) -> tuple[str, str]:
        """The tensor of an output, which no other in `taken` is, and the output's name."""
        if self.raw.dtypes.get(name) == np.float64:
            self.refused.append(
                Refusal("output", "", "", f"tensor {quoted(name)} is float64, no kernel computes with that")
            )
            return name, name
        if name in missing:
            return name, name
        self.real(name)
        site = Site(RawNode(len(self.raw.nodes), "Output", (), (name,), {}), self.values, {}, self.builder)
        if name in self.raw.constants and name not in self.values:
            value = as_plain(site.weights(self.raw.constants[name]))
        elif name in self.coded:
            value = as_plain(site.weights(self.coded[name].real))
        elif name in self.values or name in self.codes:
            value = self.codes[name] if name in self.codes else self.values[name]
        else:
            raise ImportFault(f"output {quoted(name)} is not computed from the inputs; remove it")
        # Images keep their channels last; any other order is only of the import.
        order = NHWC if value.order == NHWC else tuple(range(value.rank))
        tensor = site.ordered(value, order)
        if self.raw.dtypes.get(name) == np.float16 and tensor.type.dtype is DType.FLOAT32:
            tensor = site.emit(Quantize, tensor, dtype=DType.FLOAT16)
        if name in self.codes and self.dtypes[name] == np.uint8:
            quant = tensor.type.quantised
            moved = Quant(quant.scales, tuple(z + 128 for z in quant.zero_points))
            tensor = site.emit(Requantize, tensor, quant=moved, dtype=DType.UINT8)
        if tensor.name in (*self.inputs, *taken) or tensor.data is not None:
            tensor = site.copied(tensor)
        self.orders[name] = order
        taken.add(tensor.name)
        return tensor.name, name


def _as_the_file(node: RawNode, output: str) -> tuple[str, str]:
    """The name of a result in the file, and the kind of the op there that the node is a part of."""
    return (output.removesuffix(REAL), node.within[0]) if node.within else (output, node.code)


def _of_one_node(parts: Sequence[SourceOp]) -> SourceOp:
    """The node of the file that these ops stand for, such as QLinearConv or a function."""
    core = next((part for part in parts if part.code not in ("QuantizeLinear", "DequantizeLinear")), parts[0])
    inner = {tensor.name for part in parts for tensor in part.writes}
    known = (tensor for part in parts[:-1] for tensor in part.writes if tensor.shape is not None)
    refused = next((part for part in parts if part.refusal is not None), None)
    code, _, _ = core.code.partition("/")
    macs = [part.macs for part in parts if part.macs is not None]
    return replace(
        core,
        code=code,
        reads=tuple(name for part in parts for name in part.reads if name not in inner),
        writes=(*parts[-1].writes, *known),
        weight_bytes=sum(part.weight_bytes for part in parts),
        macs=sum(macs) if len(macs) == len(parts) else None,
        refusal=None if refused is None else _reason(refused),
    )


def _reason(refused: SourceOp) -> str | None:
    """Why the node is refused of which this op is a part."""
    if "/" not in refused.code:
        return refused.refusal
    return f"its {refused.code.rpartition('/')[2]}: {refused.refusal or 'no kernel for it'}"
