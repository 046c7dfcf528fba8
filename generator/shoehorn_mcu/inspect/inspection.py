"""What is in a model file: its ops one by one and by kind, and what of it cannot run. `gen inspect` prints it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.importers.fault import ImportFault, Refusal, UnsupportedModel, causes, in_words, without_names
from shoehorn_mcu.importers.source import Source, SourceOp, SourceTensor, replacement
from shoehorn_mcu.ir import Graph, Node, Op, TensorType
from shoehorn_mcu.ops.maps import Formulaic
from shoehorn_mcu.passes.ends.kept_rows import Choice, choices, hint
from shoehorn_mcu.passes.ends.slide import windows
from shoehorn_mcu.planner.live_ranges import live_ranges

_HANDLE = "resource"  # TFLite's type of the names of variables


@dataclass(frozen=True)
class Layer:
    """An op of the imported graph, or, of a model that cannot be imported, one of the file."""

    name: str
    kind: str  # the op's class, or the format's own name of it
    output: SourceTensor | None  # the first tensor that it writes
    weight_scales: int  # of its weights: 0 not quantised, 1 or one per channel
    macs: int | None  # None: not known
    weight_bytes: int
    live_bytes: int | None  # of all activations in memory while it runs, whole, in the file's order; None: not known
    reads: tuple[str, ...]  # names of the activations that it reads
    writes: tuple[str, ...]
    refusal: str | None = None  # why it cannot run, "" where its kind is not known


@dataclass(frozen=True)
class Kind:
    """All ops of one kind, as in `gen inspect --json`."""

    op: str  # the kind
    count: int
    macs: int | None
    weight_bytes: int
    refused: int  # of `count`
    reasons: tuple[str, ...]  # each once
    replacement: str  # what could replace those that cannot run; "": nothing is known, or all can run


@dataclass(frozen=True)
class Slide:
    """A model that takes new rows of its window: by choice which tensors keep rows, what a step computes and keeps."""

    hop_rows: int
    window_rows: int
    macs_whole_window: int
    choices: tuple[Choice, ...]

    def json(self) -> dict[str, object]:
        return {**vars(self), "choices": [choice.json() for choice in self.choices]}


@dataclass(frozen=True)
class Inspection:
    """A model, whether it can run or not."""

    name: str
    format: str  # the file's suffix without its dot
    inputs: tuple[SourceTensor, ...]
    outputs: tuple[SourceTensor, ...]
    layers: tuple[Layer, ...]
    diagnosis: str  # of the model as a whole, "" where there is nothing to say
    refused: tuple[str, ...]  # all that cannot run, one line each; empty: the model can be planned
    grouped: tuple[str, ...] = ()  # the same with a line for each cause
    hint: str = ""  # what taking new rows only would save
    slide: Slide | None = None  # what it computes and keeps with so many new rows, if that was asked for

    @property
    def macs(self) -> int | None:
        return _sum([layer.macs for layer in self.layers])

    @property
    def weight_bytes(self) -> int:
        return sum(layer.weight_bytes for layer in self.layers)

    @property
    def peak(self) -> Layer | None:
        """The first layer with the most bytes of activations; None where they are not known."""
        known = [layer for layer in self.layers if layer.live_bytes is not None]
        return max(known, key=lambda layer: layer.live_bytes or 0, default=None)

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds that cannot run first, then by MACs and number."""
        groups = by_key((layer.kind, layer) for layer in self.layers)
        found = [_kind(kind, group) for kind, group in groups.items()]
        return sorted(found, key=lambda each: (-each.refused, -(each.macs or 0), -each.count))


def inspect_file(path: Path, shapes: importers.Shapes, hop: int | None = None) -> Inspection:
    """What is in a model file, and with a `hop` what it computes of so many new rows.

    Raises ImportFault where nothing in the file can be seen, and SlideError where the model is no window.
    """
    suffix = path.suffix.lower().removeprefix(".")
    try:
        graph = importers.load(path, shapes)
    except UnsupportedModel as fault:
        return _of_source(path.stem, suffix, fault.source, fault.diagnosis, fault.refusals)
    except ImportFault as fault:
        if (found := importers.seen_in(path)) is None:
            raise
        whole = Refusal("model", "", "", str(fault).removeprefix(f"{path.name}: "))
        return _of_source(path.stem, suffix, importers.at_fault(found, fault), "", (whole,))
    refused = []
    try:
        passes.prove_int32(passes.run(graph)[0])
    except ShoehornError as error:
        refused.append(str(error))
    inputs, outputs = (
        tuple(_end(name, graph.tensors[name].type) for name in names) for names in (graph.inputs, graph.outputs)
    )
    lines, layers = tuple(refused), _layers(graph)
    saved = hint(graph, _simplified) if hop is None and not refused else ""
    slide = _slide(graph, hop) if hop is not None else None
    return Inspection(graph.name, suffix, inputs, outputs, layers, "", lines, lines, saved, slide)


def _simplified(graph: Graph) -> Graph:
    return passes.run(graph, which=passes.SIMPLIFYING)[0]


def _slide(graph: Graph, hop: int) -> Slide:
    given = windows(_simplified(graph), hop)
    return Slide(hop, given.rows, given.graph.macs, tuple(choices(given.shifted)))


def _end(name: str, kind: TensorType) -> SourceTensor:
    one = kind.quant if kind.quant and kind.quant.axis is None else None
    return SourceTensor(name, kind.shape, kind.dtype.value, *((one.scale, one.zero_point) if one else ()))


def _layers(graph: Graph) -> tuple[Layer, ...]:
    sizes = {name: tensor.type.bytes for name, tensor in graph.tensors.items()}
    constants = {name for name, tensor in graph.tensors.items() if tensor.data is not None}
    roots: dict[str, str] = {}  # of views: they have no bytes of their own
    for name, source in graph.views.items():
        roots[name] = roots.get(source, source)
    reads = [[roots.get(n, n) for n in op.inputs if roots.get(n, n) not in constants] for op in graph.ops]
    writes = [[] if op.view else [op.output] for op in graph.ops]
    kept = [root for name in graph.results if (root := roots.get(name, name)) not in constants]
    live = _live_bytes(reads, writes, graph.sources, kept, sizes)
    return tuple(_layer(node, count) for node, count in zip(graph.nodes(), live, strict=True))


def _layer(node: Node, live_bytes: int | None) -> Layer:
    constant = [tensor for tensor in node.inputs if tensor.data is not None]
    scales = max((len(t.type.quant.scales) for t in constant if t.type.quant), default=0)
    name, kind, macs = node.op.name, _kind_of(node.op), node.op.macs(node.sig)
    weight_bytes = sum(tensor.type.bytes for tensor in constant)
    reads = tuple(tensor.name for tensor in node.inputs if tensor.data is None)
    output = _end(node.output.name, node.output.type)
    return Layer(name, kind, output, scales, macs, weight_bytes, live_bytes, reads, (node.output.name,))


def _kind_of(op: Op) -> str:
    """The op's class; that of a formula with the kind of op in the file that it was made from."""
    own = type(op).__name__
    return f"{own} ({re.sub('(_[0-9]+)+$', '', op.name)})" if isinstance(op, Formulaic) else own


def _live_bytes(
    reads: Sequence[Sequence[str]],
    writes: Sequence[Sequence[str]],
    given: Sequence[str],
    kept: Sequence[str],
    sizes: Mapping[str, int],
) -> Sequence[int]:
    """By op: bytes of all tensors that are alive while it runs."""
    ranges = live_ranges(reads, writes, given, kept)
    changes = [0] * (len(reads) + 1)
    for copy, name in enumerate(ranges.values):
        first, last = ranges.during(copy)
        changes[first] += sizes[name]
        changes[last + 1] -= sizes[name]
    return list(accumulate(changes))[:-1]


def _of_source(name: str, suffix: str, source: Source, diagnosis: str, refusals: Sequence[Refusal]) -> Inspection:
    """A model that cannot be imported, from what its file says."""
    others = [op for op in source.ops if op.part]
    live = [
        *_source_live_bytes(replace(source, ops=source.ops[: len(source.ops) - len(others)])),
        *[None] * len(others),
    ]
    written = {tensor.name: tensor for tensor in (*source.inputs, *(t for op in source.ops for t in op.writes))}
    return Inspection(
        name,
        suffix,
        source.inputs,
        tuple(written.get(each, SourceTensor(each, None, "")) for each in source.outputs),
        tuple(_source_layer(op, count) for op, count in zip(source.ops, live, strict=True)),
        diagnosis,
        tuple(map(str, sorted(refusals, key=_is_of_op))),
        tuple(
            str(group[0]) if len(group) == 1 else in_words(cause, group)
            for cause, group in sorted(causes(refusals), key=lambda item: _is_of_op(item[1][0]))
        ),
    )


def _is_of_op(refusal: Refusal) -> bool:
    """Whether it is of one op: those of the whole model and its ends come first."""
    return refusal.place.startswith("op ")


def _source_live_bytes(source: Source) -> Sequence[int | None]:
    """By op; None for all where a size is not known. Handles of variables, and what nothing writes, do not count."""
    tensors = {tensor.name: tensor for tensor in (*source.inputs, *(t for op in source.ops for t in op.writes))}
    counts = {name: 0 if tensor.dtype == _HANDLE else tensor.bytes for name, tensor in tensors.items()}
    sizes = {name: count for name, count in counts.items() if count is not None}
    if sizes.keys() != tensors.keys():
        return [None] * len(source.ops)
    reads = [[name for name in op.reads if name in sizes] for op in source.ops]
    writes = [[tensor.name for tensor in op.writes] for op in source.ops]
    given = [tensor.name for tensor in source.inputs]
    return _live_bytes(reads, writes, given, [name for name in source.outputs if name in sizes], sizes)


def _source_layer(op: SourceOp, live_bytes: int | None) -> Layer:
    output = op.writes[0] if op.writes else None
    writes = tuple(tensor.name for tensor in op.writes)
    name = f"{op.part} op {op.index}".strip()
    return Layer(name, op.code, output, 0, op.macs, op.weight_bytes, live_bytes, op.reads, writes, op.refusal)


def _kind(kind: str, layers: Sequence[Layer]) -> Kind:
    refused = [layer.refusal for layer in layers if layer.refusal is not None]
    macs, weight_bytes = _sum([layer.macs for layer in layers]), sum(layer.weight_bytes for layer in layers)
    reasons, instead = _reasons([reason for reason in refused if reason]), replacement(kind) if refused else ""
    return Kind(kind, len(layers), macs, weight_bytes, len(refused), reasons, instead)


def _reasons(refused: Sequence[str]) -> tuple[str, ...]:
    """Each reason once; of those that differ in names alone without them, and how many ops it is of."""
    groups = by_key((without_names(reason), reason) for reason in refused)
    return tuple(own[0] if len({*own}) == 1 else f"{bare} (x {len(own)})" for bare, own in groups.items())


def _sum(counts: Sequence[int | None]) -> int | None:
    """None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def to_json(found: Inspection) -> Mapping[str, object]:
    """The object of `gen inspect --json`."""
    peak = found.peak
    return {
        "model": {
            "name": found.name,
            "format": found.format,
            "ops": len(found.layers),
            "macs": found.macs,
            "weight_bytes": found.weight_bytes,
            "inputs": [_end_json(end) for end in found.inputs],
            "outputs": [_end_json(end) for end in found.outputs],
            "activation_peak_bytes": peak.live_bytes if peak else None,
            "activation_peak_op": peak.name if peak else None,
        },
        "supported": not found.refused,
        "diagnosis": found.diagnosis,
        "refused": list(found.refused),
        **({"slide": found.slide.json()} if found.slide else {}),
        **({"hint": found.hint} if found.hint else {}),
        "kinds": [{**vars(kind), "reasons": list(kind.reasons)} for kind in found.kinds],
        "ops": [
            {
                "name": layer.name,
                "op": layer.kind,
                "output": _end_json(layer.output) if layer.output else None,
                "weight_scales": layer.weight_scales,
                "macs": layer.macs,
                "weight_bytes": layer.weight_bytes,
                "live_bytes": layer.live_bytes,
                "refusal": layer.refusal,
            }
            for layer in found.layers
        ],
    }


def _end_json(end: SourceTensor) -> Mapping[str, object]:
    return {**vars(end), "shape": None if end.shape is None else list(end.shape)}


def layer_cells(layer: Layer) -> tuple[str, ...]:
    """Name, kind, output, scale and zero point, number of scales, MACs, bytes of weights, of activations, as text."""
    return (
        layer.name,
        layer.kind,
        type_text(layer.output) if layer.output else "",
        quantisation(layer.output) if layer.output else "",
        str(layer.weight_scales or ""),
        number(layer.macs),
        f"{layer.weight_bytes:,}",
        number(layer.live_bytes),
    )


def type_text(end: SourceTensor) -> str:
    """`int8[1x25x5x64]`; `?` is not known."""
    shape = "?" if end.shape is None else "x".join(map(str, end.shape))
    return f"{end.dtype or '?'}[{shape}]"


def quantisation(end: SourceTensor) -> str:
    """Scale and zero point; empty where it has none, or one per channel."""
    return "" if end.scale is None else f"{end.scale:.4g}, {end.zero_point}"


def number(count: int | None) -> str:
    """A count with commas; `?` where it is not known."""
    return "?" if count is None else f"{count:,}"
