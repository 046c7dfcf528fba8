"""The steps of a quantisation in order: read, rewrite, calibrate, write, measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import did_you_mean
from shoehorn_mcu.importers import Imported, Shapes
from shoehorn_mcu.importers.onnx import int16, quantised
from shoehorn_mcu.importers.onnx.apart import in_opset
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.importers.onnx.qlinear import FORMS
from shoehorn_mcu.ir import DType, Graph
from shoehorn_mcu.ops import Dequantize, Quantize, Requantize
from shoehorn_mcu.ops.layout import Mover
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.quantisation.fault import QuantizeError
from shoehorn_mcu.quantisation.measure import Accuracy, Fidelity, accuracy, fidelities, output_sqnr
from shoehorn_mcu.quantisation.ranges import Range, of_joins
from shoehorn_mcu.quantisation.rewrite import (
    Floats,
    attribute,
    bias_corrections,
    equalised,
    in_four_bits,
    prepared,
    with_activations,
    with_biases,
)
from shoehorn_mcu.quantisation.runtime import Method, Runner, inferred, optimised, ranges, require, with_qdq
from shoehorn_mcu.quantisation.samples import Input, Samples, read_labels, read_samples
from shoehorn_mcu.quantisation.wide_steps import with_finer_steps

if TYPE_CHECKING:
    from onnx import ModelProto

CHECKED = 64  # samples that ratios are measured on
TRIED = 5  # ops that are tried in 16 bits and in float32
LEAST_GAIN_DB = 0.1  # of the outputs' ratio, for a correction to be used
WORTH_DB = 1.0  # of the outputs' ratio, for an op to be named as one to keep in more bits
GOOD_DB = 30.0  # of the outputs, from which on no op is looked for
_CODES = 6  # kinds of ops that a refusal names


class Bits(Enum):
    """Bits of activations and weights."""

    EIGHT = "8"
    WIDE = "16x8"  # activations have 16
    NIBBLES = "4w"  # weights have 4

    @property
    def title(self) -> str:
        """What such a model is called."""
        return {Bits.EIGHT: "int8", Bits.WIDE: "int16 with int8 weights", Bits.NIBBLES: "int8 with int4 weights"}[self]

    @property
    def codes(self) -> tuple[str, ...]:
        """The ops that are quantised: what the importer makes ops on such integers of, and a Clip as their bounds."""
        of = int16 if self is Bits.WIDE else quantised
        # ONNX Runtime's quantiser fits weights to biases in int32; those of a ConvTranspose along a wrong axis.
        left_out = {"ConvTranspose"} if self is Bits.WIDE else set()
        return tuple(sorted({*of.CONVERTERS, "Clip"} - left_out))


class Kept(Enum):
    """In what an op is kept whose rounding to 8 bits costs too much."""

    INT16 = "int16"  # its result alone
    FLOAT32 = "float32"

    @property
    def option(self) -> str:
        """What follows `--keep-`."""
        return {Kept.INT16: "int16", Kept.FLOAT32: "float"}[self]


@dataclass(frozen=True)
class Settings:
    """The options of a quantisation."""

    method: Method = Method.MINMAX
    keep_float: tuple[str, ...] = ()  # names of nodes, or of the tensors that they write
    labels: Path | None = None
    bits: Bits = Bits.EIGHT
    keep_int16: tuple[str, ...] = ()  # names as in keep_float, or of inputs: such results have 16 bits
    shapes: Shapes = field(default_factory=dict)  # sizes that the file leaves open


@dataclass(frozen=True)
class Gain:
    """An op that costs fidelity, and the outputs' ratio with this op alone in more bits."""

    op: str
    kept: Kept
    sqnr_db: float
    model: ModelProto


@dataclass(frozen=True)
class Quantized:
    """A quantised model and what is known about it."""

    model: ModelProto
    samples: int
    method: Method
    bits: Bits
    equalised: int  # pairs of layers; 0 where that would not help
    bias_corrected: int  # layers; 0 where that would not help
    sqnr_db: float  # of the output with the lowest
    tensors: tuple[Fidelity, ...]  # worst first
    kept_float: tuple[str, ...]  # ops, as asked for
    kept_int16: tuple[str, ...]  # tensors
    float_ops: tuple[str, ...]  # ops that the importer computes in float32
    gains: tuple[Gain, ...]  # ops to keep in more bits, the most useful first
    accuracy: Accuracy | None
    notes: tuple[str, ...] = ()  # what is odd about the samples, a line each


@dataclass(frozen=True)
class _Exceptions:
    """What is not quantised as the rest is."""

    real: tuple[str, ...]  # names of nodes
    wide: tuple[str, ...]  # names of tensors


@dataclass(frozen=True)
class _Candidate:
    """A rewritten float32 model, its ranges and its quantised form."""

    float_model: ModelProto
    ranges: Mapping[str, Range]
    model: ModelProto
    sqnr_db: float
    equalised: int = 0
    bias_corrected: int = 0


def quantize_model(
    path: Path, data: Path, settings: Settings | None = None, say: Callable[[str], None] = lambda _: None
) -> Quantized:
    """A float32 model with int8 weights and activations, calibrated with the samples at `data`.

    `path`: an .onnx, a .tflite, or a file of PyTorch, which becomes an ONNX model. Raises QuantizeError, ImportFault or
    InputError, each with a message of one line.
    """
    settings = settings or Settings()
    require()
    source = float_model(path, settings.shapes)
    samples = read_samples(data, _inputs(source))
    labels = read_labels(settings.labels, len(samples), _classes(source)) if settings.labels else None
    say("optimising")
    plain = _inferred(prepared(optimised(source)))
    kept = _exceptions(path, plain, settings)
    checked = samples.first(CHECKED)
    best = _best(plain, samples, checked, settings, kept, say)
    imported = _imported(path, best.model)
    _check_integers(path, imported.graph, plain, settings)
    tensors = fidelities(best.float_model, best.model, checked)
    return Quantized(
        best.model,
        len(samples),
        settings.method,
        settings.bits,
        best.equalised,
        best.bias_corrected,
        best.sqnr_db,
        tuple(sorted(tensors, key=lambda each: each.sqnr_db)),
        kept.real,
        kept.wide,
        _in_float(imported.graph),
        _gains(best, tensors, checked, settings, kept, say),
        accuracy(source, imported, samples, labels, say) if labels is not None else None,
        samples.oddities(),
    )


def quantized(model: ModelProto, samples: Samples, say: Callable[[str], None] = lambda _: None) -> ModelProto:
    """A float32 model in int8, as `quantize_model` makes it of a file. Raises QuantizeError."""
    require()
    plain = _inferred(prepared(optimised(_inferred(model))))
    return _best(plain, samples, samples.first(CHECKED), Settings(), _Exceptions((), ()), say).model


def write(model: ModelProto, target: Path, source: Path | None = None) -> None:
    """Writes the model to a file, which must not be `source`; raises QuantizeError where that fails."""
    try:
        if source is not None and target.exists() and target.samefile(source):
            raise QuantizeError(f"{target}: is the model itself; name another file")
        target.write_bytes(model.SerializeToString(deterministic=True))
    except OSError as error:
        raise QuantizeError(f"{target}: cannot be written: {error.strerror or error}") from error


@contextmanager
def quantized_file(
    path: Path, data: Path, settings: Settings | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Path, Quantized]]:
    """`quantize_model`, with the model in a temporary .onnx of the same name."""
    made = quantize_model(path, data, settings, say)
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{path.stem}.onnx"
        write(made.model, file)
        yield file, made


def float_model(path: Path, shapes: Shapes | None = None) -> ModelProto:
    """The float32 model with a batch of 1, in the importer's opset or newer, once the importer has accepted it."""
    from onnx import TensorProto

    if path.suffix.lower() == ".tflite":
        graph = importers.load(path, shapes)
        if any(tensor.type.quant is not None for tensor in graph.tensors.values()):
            raise QuantizeError(f"{path.name}: is quantised already; give the float32 model")
        return _inferred(as_onnx(graph))
    model = in_opset(importers.onnx_model(path, shapes or {}))
    if any(node.op_type in ("QuantizeLinear", "DequantizeLinear", *FORMS) for node in model.graph.node):
        raise QuantizeError(f"{path.name}: is quantised already; give the float32 model")
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in constants]
    for each in inputs:
        if each.type.tensor_type.elem_type != TensorProto.FLOAT:
            kind = TensorProto.DataType.Name(each.type.tensor_type.elem_type).lower()
            raise QuantizeError(f"{path.name}: input '{each.name}' is {kind}; export the model in float32")
        dimensions = each.type.tensor_type.shape.dim
        if dimensions and dimensions[0].dim_value < 1:
            dimensions[0].dim_value = 1
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)  # the first in which constants need not be inputs too
    return _inferred(model)


def _inferred(model: ModelProto) -> ModelProto:
    del model.graph.value_info[:]  # of another batch, or of tensors that are gone
    return inferred(model)


def _inputs(model: ModelProto) -> tuple[Input, ...]:
    return tuple(Input(i.name, tuple(d.dim_value for d in i.type.tensor_type.shape.dim)) for i in model.graph.input)


def _classes(model: ModelProto) -> int:
    """The number of values of the first output."""
    shape = [dimension.dim_value for dimension in model.graph.output[0].type.tensor_type.shape.dim]
    return int(np.prod(shape[1:]))


def _exceptions(path: Path, model: ModelProto, settings: Settings) -> _Exceptions:
    """What is asked for by the names of nodes or of tensors."""
    real = {node.name: node.name for node in model.graph.node}
    real |= {output: node.name for node in model.graph.node for output in node.output}
    wide = {each.name: each.name for each in model.graph.input}
    wide |= {name: node.output[0] for node in model.graph.node for name in (node.name, *node.output)}
    return _Exceptions(
        _named(path, "--keep-float", settings.keep_float, real),
        _named(path, "--keep-int16", settings.keep_int16, wide),
    )


def _named(path: Path, option: str, asked: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    for name in asked:
        if name not in known:
            cure = did_you_mean(name, known, "give the name of an op or of the tensor that it writes")
            raise QuantizeError(f"{path.name}: {option}: no op '{name}'; {cure}")
    return tuple(dict.fromkeys(known[name] for name in asked))


def _best(
    plain: ModelProto,
    samples: Samples,
    checked: Samples,
    settings: Settings,
    kept: _Exceptions,
    say: Callable[[str], None],
) -> _Candidate:
    """The model with or without equalisation and bias correction, whichever follows the float32 model best."""
    wanted = [*Runner(plain).over(checked)]

    def candidate(model: ModelProto, found: Mapping[str, Range]) -> _Candidate:
        found = of_joins(model, found, {*kept.real, *kept.wide})
        made = _quantised(model, found, kept, settings)
        return _Candidate(model, found, made, output_sqnr(wanted, made, checked))

    largest, means = by_channel(plain, checked)
    bases = [candidate(plain, ranges(plain, samples, settings.method, say))]
    model, pairs = equalised(plain, largest)
    if pairs:
        say("equalising layers")
        bases.append(replace(candidate(model, ranges(model, samples, settings.method, say)), equalised=pairs))
    found = list(bases)
    for base in bases:
        say("correcting biases")
        if base.equalised:
            means = by_channel(base.float_model, checked)[1]
        made, count = with_biases(base.model, bias_corrections(base.float_model, means))
        if count:
            sqnr_db = output_sqnr(wanted, made, checked)
            found.append(replace(base, model=made, sqnr_db=sqnr_db, bias_corrected=count))
    best = found[0]
    for each in found[1:]:
        best = each if each.sqnr_db > best.sqnr_db + LEAST_GAIN_DB else best
    finer, count = with_finer_steps(best.model) if settings.bits is Bits.EIGHT else (best.model, 0)
    if count and (after := output_sqnr(wanted, finer, checked)) >= best.sqnr_db - LEAST_GAIN_DB:
        best = replace(best, model=finer, sqnr_db=after)
    return best


def _quantised(model: ModelProto, found: Mapping[str, Range], kept: _Exceptions, settings: Settings) -> ModelProto:
    """The model with these ranges, and the bits that are asked for."""
    bits = settings.bits
    wide = set(found) if bits is Bits.WIDE else set(kept.wide)
    made = with_activations(with_qdq(model, found, bits.codes, (*kept.real, *_unfit(model)), wide), model)
    return in_four_bits(made, model) if bits is Bits.NIBBLES else made


def _unfit(model: ModelProto) -> list[str]:
    """Nodes that ONNX Runtime's quantiser fails for: a ConvTranspose by groups has fewer scales than biases."""
    transposed = (node for node in model.graph.node if node.op_type == "ConvTranspose")
    return [node.name for node in transposed if attribute(node, "group", 1) > 1]


def by_channel(model: ModelProto, samples: Samples) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The largest magnitude and the mean of each channel, dimension 1, of every tensor that is computed or given."""
    constants = {tensor.name for tensor in model.graph.initializer}
    names = dict.fromkeys(name for node in model.graph.node for name in (*node.input[:1], *node.output[:1]))
    run = Runner(model, [name for name in names if name not in constants and name])
    largest: dict[str, Floats] = {}
    sums: dict[str, Floats] = {}
    for values in run.over(samples):
        for name, value in values.items():
            if value.ndim < 2 or value.dtype.kind != "f":
                continue
            wide = value.swapaxes(0, 1).reshape(value.shape[1], -1)
            largest[name] = np.maximum(largest.get(name, 0), np.abs(wide).max(axis=1).astype(np.float64))
            with np.errstate(invalid="ignore"):  # of infinite values, which `with_qdq` refuses
                sums[name] = sums.get(name, 0) + wide.mean(axis=1, dtype=np.float64)
    return largest, {name: total / len(samples) for name, total in sums.items()}


def _imported(path: Path, model: ModelProto) -> Imported:
    """The quantised model as the importer reads it, after the passes."""
    try:
        made = import_model(model, path.stem)
    except importers.ImportFault as fault:
        raise fault.within(f"{path.name}, quantised") from fault
    return replace(made, graph=passes.run(made.graph)[0])


def _check_integers(path: Path, graph: Graph, plain: ModelProto, settings: Settings) -> None:
    """Raises QuantizeError where no op of the quantised graph computes with integers."""
    computing = [n for n in graph.nodes() if not isinstance(n.op, Mover | Quantize | Dequantize | Requantize)]
    if not computing or any(t.type.quant is not None for n in computing for t in (*n.inputs, n.output)):
        return
    kinds = {node.op_type for node in plain.graph.node}
    found = sorted(kinds - {*settings.bits.codes, *quantised.MOVERS}) or sorted(kinds)
    if settings.keep_float:
        raise QuantizeError(f"{path.name}: --keep-float leaves no op in {settings.bits.title}; keep fewer ops")
    codes = ", ".join(found[:_CODES]) + (", ..." if len(found) > _CODES else "")
    cure = "run the model in float32 as it is, or replace these ops"
    raise QuantizeError(f"{path.name}: nothing in it can be {settings.bits.title}: no such form of {codes}; {cure}")


def _in_float(graph: Graph) -> tuple[str, ...]:
    """The ops that compute in float32, without the conversions at the ends of the model."""
    real = [n for n in graph.nodes() if all(t.type.dtype is DType.FLOAT32 for t in (*n.inputs[:1], n.output))]
    return tuple(node.op.name for node in real)


def _gains(
    best: _Candidate,
    tensors: Sequence[Fidelity],
    checked: Samples,
    settings: Settings,
    kept: _Exceptions,
    say: Callable[[str], None],
) -> tuple[Gain, ...]:
    """Ops that are worth keeping in more bits, among those that lose most between their operands and their result."""
    if best.sqnr_db >= GOOD_DB:
        return ()
    ratios = {each.tensor: each.sqnr_db for each in tensors}
    losses = {}
    for node in best.float_model.graph.node:
        before = [ratios[name] for name in node.input if name in ratios]
        after = [ratios[name] for name in node.output if name in ratios]
        if before and after and node.op_type in settings.bits.codes:
            losses[node.name, node.output[0]] = min(before) - min(after)
    wanted = [*Runner(best.float_model).over(checked)]
    found = []
    for name, output in sorted(losses, key=lambda each: -losses[each])[:TRIED]:
        tries = {Kept.FLOAT32: replace(kept, real=(*kept.real, name))}
        if settings.bits is not Bits.WIDE:
            tries[Kept.INT16] = replace(kept, wide=(*kept.wide, output))
        for how, more in tries.items():
            say(f"trying {name} in {how.value}")
            made = _quantised(best.float_model, best.ranges, more, settings)
            found.append(Gain(name, how, output_sqnr(wanted, made, checked), made))
    useful = [gain for gain in found if gain.sqnr_db >= best.sqnr_db + WORTH_DB]
    return tuple(sorted(useful, key=lambda gain: -gain.sqnr_db))
