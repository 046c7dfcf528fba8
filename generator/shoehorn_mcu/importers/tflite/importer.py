"""Imports a .tflite file as a Graph: the converter of each TFLite op, and one message for all unsupported ops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from shoehorn_mcu.importers.content import content
from shoehorn_mcu.importers.declared import Declarations
from shoehorn_mcu.importers.fault import (
    CONTRADICTION,
    UNFIT,
    ImportFault,
    Refusal,
    Unsupported,
    UnsupportedModel,
    unfit,
)
from shoehorn_mcu.importers.source import Imported, InFloat, Shapes, Source, SourceOp, SourceTensor, macs_of
from shoehorn_mcu.importers.tflite import recurrent
from shoehorn_mcu.importers.tflite.branches import without_branches
from shoehorn_mcu.importers.tflite.complex import without_complex
from shoehorn_mcu.importers.tflite.diagnosis import diagnosis
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp, RawTensor, read
from shoehorn_mcu.importers.tflite.in_float import in_float
from shoehorn_mcu.importers.tflite.ops import CONVERTERS, CUSTOM, KNOWN, OPS
from shoehorn_mcu.importers.tflite.ranks import narrowed
from shoehorn_mcu.importers.tflite.shapes import with_shapes
from shoehorn_mcu.importers.tflite.site import Part, Site
from shoehorn_mcu.importers.tflite.tensors import convert, resized, unique_names, wide_quant
from shoehorn_mcu.importers.tflite.uint8 import with_int8
from shoehorn_mcu.importers.tflite.variables import RawState, without_variables
from shoehorn_mcu.ir import Array, Graph, GraphError, Node, Op, OpFault, Quant, State, Tensor, verify
from shoehorn_mcu.ir.edit import free_name
from shoehorn_mcu.ops import Requantize
from shoehorn_mcu.ops.laws import quoted


def load_tflite(path: Path, shapes: Shapes) -> Imported:
    """The model in a .tflite file: its verified graph is named after the file. Raises as `import_tflite`, and OSError.

    `shapes`: sizes for open dimensions of inputs.
    """
    return _imported(content(path), path.stem, shapes)


def import_tflite(data: bytes, name: str) -> Graph:
    """The verified graph in a .tflite file's bytes.

    Raises ImportFault, without the file's name, if the file is damaged, and once for all ops that no kernel runs, each
    named by index, kind and output tensor.
    """
    return _imported(data, name).graph


def _imported(data: bytes, name: str, shapes: Shapes | None = None) -> Imported:
    raw = read(data)
    try:
        raw = without_branches(with_shapes(raw, shapes or {}))
        raw, states = without_variables(without_complex(raw))
        _writers(raw)
        raw, bytes_ = with_int8(raw)
    except Unsupported as fault:
        raise UnsupportedModel("", [Refusal("model", "", "", str(fault))], source_of(raw)) from fault
    made = _Import(raw, states, bytes_)
    try:
        with np.errstate(all="ignore"):  # constants that are not finite are refused where they are read
            graph = verify(made.graph(name))
    except GraphError as error:
        raise ImportFault(f"{error}; {CONTRADICTION}") from error
    return Imported(graph, {}, len(raw.ops) - len(made.made), *in_float(raw, made.names, made.in_float))


def source_of(
    raw: RawModel, macs: Mapping[int, int | None] | None = None, refusals: Mapping[str, str] | None = None
) -> Source:
    """A model as its file has it, with what is known of its ops by their numbers, and of those of its main subgraph."""
    names = unique_names(t.name for t in raw.tensors)
    macs, refusals = macs or {}, refusals or {}

    def tensor(place: int) -> SourceTensor:
        each = raw.tensors[place]
        quant = (each.scales[0], (*each.zero_points, 0)[0]) if len(each.scales) == 1 else (None, None)
        return SourceTensor(names[place], each.shape, each.dtype.lower(), *quant)

    ops = []
    for index, op in enumerate(raw.ops):
        reads = [i for i in op.inputs if i >= 0]
        constant = [data for i in reads if (data := raw.tensors[i].data) is not None]
        taken = tuple(names[i] for i in reads if raw.tensors[i].data is None)
        known = macs.get(index), refusals.get(f"op {index}")
        ops.append(SourceOp(index, _code(op), taken, tuple(map(tensor, op.outputs)), sum(map(len, constant)), *known))
    for number, other in enumerate(raw.others, 1):
        ops += [replace(op, part=f"subgraph {number}") for op in source_of(other).ops]
    return Source(tuple(map(tensor, raw.inputs)), tuple(names[i] for i in raw.outputs), tuple(ops))


@dataclass
class _Import:
    """The state of one import: the tensors and ops made so far."""

    raw: RawModel
    states: tuple[RawState, ...] = ()
    ends: Mapping[int, RawTensor] = field(default_factory=dict)  # of uint8, though held as int8 inside
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    made: dict[int, Sequence[Op]] = field(default_factory=dict)  # by the number of the op in the file
    kept: list[State] = field(default_factory=list)
    in_float: list[InFloat] = field(default_factory=list)
    unsure: set[int] = field(default_factory=set)  # tensors whose shapes would follow from those of refused ops

    def __post_init__(self) -> None:
        self.names = unique_names(t.name for t in self.raw.tensors)
        self.taken = set(self.names)
        pairs = zip(self.names, self.raw.tensors, strict=True)
        self.declared = Declarations({name: tensor.declared for name, tensor in pairs}, CONTRADICTION)
        self.writers = _writers(self.raw)
        self.written = {*self.raw.inputs, *(state.read for state in self.states)}

    def graph(self, name: str) -> Graph:
        if self.raw.others:
            count = len(self.raw.others) + 1
            self.refused.append(Refusal("model", "", "", f"it has {count} subgraphs, one is supported"))
        self.kept += map(self._state, self.states)
        for index, op in enumerate(self.raw.ops):
            self._op(index, op)
        inputs = tuple(self._boundary(i, "input") for i in self.raw.inputs)
        outputs = tuple(self._boundary(i, "output") for i in self.raw.outputs)
        if self.refused:
            raise UnsupportedModel(diagnosis(self.raw, self.refused), self.refused, self._source())
        for place in self.raw.outputs:
            if place not in self.writers:
                raise ImportFault(f"output {quoted(self.names[place])} is not computed by any op; remove it")
        inputs, outputs = self._as_uint8(self.raw.inputs, True), self._as_uint8(self.raw.outputs, False)
        used = {*inputs, *outputs, *(n for op in self.ops for n in (*op.inputs, op.output))}
        used |= {name for state in self.kept for name in (state.read, state.initial)}
        tensors = {n: t for n, t in self.tensors.items() if n in used}  # axes, shapes and the like are in attributes
        return Graph(name, tensors, tuple(self.ops), inputs, outputs, tuple(self.kept))

    def _as_uint8(self, places: Sequence[int], ahead: bool) -> tuple[str, ...]:
        """The names of the graph's inputs or outputs; those of `ends` get an op that converts them."""
        names = []
        for place in places:
            name = self.names[place]
            if (end := self.ends.get(place)) is not None:
                inside, name = name, free_name(self.taken, end.name)
                self.taken.add(name)
                self.tensors[name] = convert(end, name)
                read, written = (name, inside) if ahead else (inside, name)
                op = Requantize(name=f"{'from' if ahead else 'to'}_uint8_{place}", inputs=(read,), output=written)
                self.ops.insert(0 if ahead else len(self.ops), op)
            names.append(name)
        return tuple(names)

    def _state(self, state: RawState) -> State:
        """A variable, and its first value as a tensor."""
        read = self._tensor(state.read)
        initial = free_name(self.taken, f"{read.name}_initial")
        first = convert(replace(state.initial, shape=self.raw.tensors[state.read].shape), initial)
        self.tensors[initial] = Tensor(initial, read.type, first.data)
        return State(read.name, self.names[state.write], initial)

    def _op(self, index: int, raw: RawOp) -> None:
        """Converts one op, or records why it is refused."""
        writes = ", ".join(f"{quoted(self.names[i])}" for i in raw.outputs)
        code = _code(raw)
        try:
            if raw.code in KNOWN and len(raw.outputs) == 1 and self._known(raw):
                return
            part = narrowed(self._convert(index, raw), self.tensors, self._fresh(raw))
            is_open = self._is_open(raw)
            if is_open:  # its laws are asked of the shapes that are computed, not of placeholders
                self._shaped(raw, part)
            self._lawful(part)
            if not is_open:
                self._shaped(raw, part)
            if self._folded(raw, part):
                return
        except (ImportFault, *UNFIT) as error:
            fault = error if isinstance(error, ImportFault) else unfit(error)
            follows = bool(self.unsure & set(raw.inputs)) and str(fault) != ""
            if not isinstance(fault, Unsupported) and not follows:
                raise fault.of_op(f"op {index} {code} writing {writes}") from error
            if not follows:
                self.refused.append(Refusal(f"op {index}", code, writes, str(fault)))
            self._doubt(raw)
        else:
            if self.unsure & set(raw.inputs):
                self._doubt(raw)
            self.tensors |= {t.name: t for t in part.tensors}
            self.ops += part.ops
            self.kept += part.states
            self.made[index] = part.ops
            if part.in_float:
                made = tuple(op.name for op in part.ops)
                self.in_float.append(InFloat(self.names[raw.outputs[0]], code, part.in_float, made))
        self.written |= set(raw.outputs)

    def _source(self) -> Source:
        """The ops of the file, with what was found out about each."""
        refusals = {refusal.place: refusal.reason for refusal in self.refused}
        macs = {index: macs_of(made, self.tensors) for index, made in self.made.items()}
        pairs = zip(self.raw.tensors, map(self.tensors.get, self.names), strict=True)
        tensors = tuple(each if made is None else replace(each, shape=made.type.shape) for each, made in pairs)
        return source_of(replace(self.raw, tensors=tensors), macs, refusals)

    def _convert(self, index: int, raw: RawOp) -> Part:
        if raw.custom in CUSTOM:
            return self._custom(index, raw)
        converter = CONVERTERS.get(raw.code)
        if converter is None:
            raise Unsupported
        (least, most), count = converter.inputs, converter.outputs
        if not least <= len(raw.inputs) <= most or len(raw.outputs) != (count or len(raw.outputs)):
            raise ImportFault(f"it has {len(raw.inputs)} inputs and {len(raw.outputs)} outputs; convert it again")
        kept = recurrent.STATES.get(raw.code, ())
        inputs = tuple(
            None if i < 0 else self._variable(i) if place in kept else self._operand(i)
            for place, i in enumerate(raw.inputs)
        )
        outputs = tuple(self._tensor(i) for i in raw.outputs)
        fresh, wide = self._fresh(raw), self._wide(raw)
        site = Site(index, raw.code, raw.options, inputs, outputs, fresh, self._is_open(raw), wide)
        return converter.convert(site)

    def _wide(self, raw: RawOp) -> Mapping[str, Quant]:
        """The quantisations of the int32 tensors that QUANTIZE reads and writes, by name."""
        ends = {i: self.names[i] for i in (*raw.inputs, *raw.outputs)} if raw.code == "QUANTIZE" else {}
        found = {name: wide_quant(self.raw.tensors[i], name) for i, name in ends.items()}
        return {name: quant for name, quant in found.items() if quant is not None}

    def _custom(self, index: int, raw: RawOp) -> Part:
        """The parts of a custom op."""
        if not raw.inputs or min(raw.inputs) < 0:
            raise ImportFault(f"it reads tensors {raw.inputs}; convert it again")
        inputs, outputs = map(self._operand, raw.inputs), map(self._tensor, raw.outputs)
        site = Site(index, raw.custom, raw.options, tuple(inputs), tuple(outputs), self._fresh(raw))
        return CUSTOM[raw.custom](site)

    def _known(self, raw: RawOp) -> bool:
        """Whether the result of SHAPE and its like is known; it becomes a constant."""
        output = self._tensor(raw.outputs[0])
        count, compute = KNOWN[raw.code]
        if len(raw.inputs) != count or min(raw.inputs) < 0:
            raise ImportFault(f"it reads tensors {raw.inputs}, {count} are needed: convert it again")
        found = compute([self._operand(place) for place in raw.inputs])
        if found is None:
            return False
        self._settle(raw.outputs[0], found.shape)
        self._hold(raw.outputs[0], found.astype(output.type.dtype.numpy))
        return True

    def _is_open(self, raw: RawOp) -> bool:
        """Whether the file has placeholders for sizes of an output."""
        return any(self.raw.tensors[place].open for place in raw.outputs)

    def _doubt(self, raw: RawOp) -> None:
        """Notes that the op's outputs have placeholders for sizes that nothing has computed."""
        self.unsure |= {place for place in raw.outputs if self.raw.tensors[place].open}

    def _shaped(self, raw: RawOp, part: Part) -> None:
        """Gives the outputs the shapes that the ops made compute. Raises ImportFault where operands do not fit."""
        known = self.tensors | {t.name: t for t in part.tensors}
        places = {self.names[place]: place for place in raw.outputs}
        for op in part.ops:
            try:
                shape = op.infer(tuple(known[name].type for name in op.inputs))
            except OpFault as fault:
                raise ImportFault(f"{fault.why}; {CONTRADICTION}") from fault
            if op.output in places:
                known[op.output] = self._settle(places[op.output], shape)

    def _settle(self, place: int, shape: tuple[int, ...]) -> Tensor:
        """The tensor in the shape that was computed. Raises ImportFault where the file declares another."""
        tensor = self._tensor(place)
        self.declared.check(tensor.name, shape, tensor.type.dtype.value)
        if tensor.type.shape != shape:
            self.tensors[tensor.name] = tensor = resized(tensor, shape)
        return tensor

    def _hold(self, place: int, data: Array) -> None:
        """Makes the tensor a constant."""
        tensor = self._tensor(place)
        self.tensors[tensor.name] = replace(tensor, data=data)
        self.written.add(place)

    def _folded(self, raw: RawOp, part: Part) -> bool:
        """Whether all that an op reads is constant, so that its results are, too."""
        if part.states:
            return False
        tensors = self.tensors | {t.name: t for t in part.tensors}
        read = [self._tensor(i) for i in raw.inputs if i >= 0]
        results = [self._tensor(i) for i in raw.outputs]
        if any(t.data is None for t in read) or {*raw.outputs} & {*self.raw.outputs}:
            return False
        values = {name: t.data for name, t in tensors.items() if t.data is not None}
        for op in part.ops:
            node = Node(op, tuple(tensors[n] for n in op.inputs), tensors[op.output])
            values[op.output] = op.reference([values[n] for n in op.inputs], node.sig)
        for place, tensor in zip(raw.outputs, results, strict=True):
            self._hold(place, values[tensor.name])
        return True

    def _lawful(self, part: Part) -> None:
        """Raises Unsupported where an op breaks a rule of the IR, so that it is listed with the others."""
        tensors = self.tensors | {t.name: t for t in part.tensors}
        for op in part.ops:
            try:
                op.check(Node(op, tuple(tensors[n] for n in op.inputs), tensors[op.output]))
            except OpFault as fault:
                raise Unsupported(fault.why) from fault

    def _operand(self, place: int) -> Tensor:
        """A tensor that is read. Raises ImportFault if no earlier op has written it."""
        tensor = self._tensor(place)
        if tensor.data is None and place not in self.written:
            writer = self.writers.get(place)
            if writer is None:
                raise ImportFault(f"it reads {quoted(tensor.name)}, which nothing writes and which has no data")
            raise ImportFault(f"it reads {quoted(tensor.name)}, which op {writer} writes only later (a cycle?)")
        return tensor

    def _variable(self, place: int) -> Tensor:
        """A variable tensor, which one op alone keeps its state in."""
        raw = self.raw.tensors[place]
        if not raw.variable or place in self.writers or raw.data is not None:
            raise ImportFault(f"its state {quoted(self.names[place])} is no variable tensor; convert it again")
        if sum(op.inputs.count(place) for op in self.raw.ops) > 1:
            raise Unsupported(f"its state {quoted(self.names[place])} is another op's, too")
        return convert(replace(raw, variable=False), self.names[place])

    def _tensor(self, place: int) -> Tensor:
        name = self.names[place]
        if name not in self.tensors:
            tensor = convert(self.raw.tensors[place], name)
            if tensor.data is not None and (place in self.writers or place in self.raw.inputs):
                raise ImportFault(f"tensor '{name}' has constant data but is computed or given; convert it again")
            self.tensors[name] = tensor
        return self.tensors[name]

    def _boundary(self, place: int, role: str) -> str:
        """The name of a graph input or output."""
        try:
            self._tensor(place)
        except Unsupported as fault:
            self.refused.append(Refusal(role, "", "", str(fault)))
        except ImportFault as fault:
            raise ImportFault(f"{role} {fault}") from fault
        return self.names[place]

    def _fresh(self, raw: RawOp) -> Iterator[str]:
        """New names for tensors that an op needs but the file does not have; no other op writes the tensor `base`."""
        base = self.names[raw.outputs[0]]
        return (name for number in itertools.count(1) if (name := f"{base}_shoehorn_{number}") not in self.taken)


def _code(raw: RawOp) -> str:
    """The kind of an op, with the name of a custom one."""
    return f"{raw.code} {raw.custom!r}" if raw.custom else raw.code


def _writers(raw: RawModel) -> dict[int, int]:
    """The op that writes each tensor. Raises ImportFault if a number is out of range or a tensor is written twice."""
    count, writers = len(raw.tensors), {}
    for index, op in enumerate(raw.ops):
        where = f"op {index} {op.code}"
        if not op.outputs and op.code in OPS:  # CALL_ONCE and its like have none, and are refused by name
            raise ImportFault(f"{where} has no outputs; convert it again")
        _in_range(op.inputs, -1, count, f"{where} reads")
        _in_range(op.outputs, 0, count, f"{where} writes")
        for place in op.outputs:
            if place in writers or place in raw.inputs:
                raise ImportFault(f"{where} writes tensor {place}, which is written already; convert it again")
            writers[place] = index
    for role, places in (("input", raw.inputs), ("output", raw.outputs)):
        _in_range(places, 0, count, f"the {role}s name")
        if not places or len(set(places)) != len(places):
            raise ImportFault(f"the model has no {role}s, or one of them twice; convert it again")
    return writers


def _in_range(places: Sequence[int], first: int, count: int, what: str) -> None:
    if wrong := [i for i in places if not first <= i < count]:
        raise ImportFault(f"{what} tensor {wrong[0]} of {count}; convert it again")
