"""`gen ops` says of each op and element type what the importers make of models of that op.

The models are those of `onnx_samples.py` and `tflite_samples.py`. For each op and element type the ops of the IR that
all its models became must be those of the importer's table, no fewer and no more, and so the instruction sets of their
contracts those of the cell; what is refused is not in the table. Ops that only move elements may be beside others.
One model of each is computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

from shoehorn_mcu import ops
from shoehorn_mcu.importers import IMPORTERS, Form, In, Kind
from shoehorn_mcu.inspect.op_table import element, isas
from shoehorn_mcu.ir import DType, Graph, Node, Op
from shoehorn_mcu.kernels import CATALOGUE, contract_of
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.passes.fuse_tables import fuse_tables
from tests.onnx_samples import Sample, onnx_samples
from tests.tflite_samples import tflite_samples

AT_ENDS = ("Dropout", "Identity", "Squeeze", "Transpose", "Unsqueeze")
"""Ops that move elements only where the model's input is its output, or where what follows wants another order."""
MOVES = (ops.Concat, ops.Gather, ops.Pad, ops.Slice, ops.Transpose)
ENDS = (ops.Quantize, ops.Dequantize, ops.Requantize)
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear", "QUANTIZE", "DEQUANTIZE", "Cast", "CastLike", "CAST")
QUANTISED = (Kind.INT8, Kind.INT16)

Made = tuple[type[Op], Kind]
"""An op of the IR, and the element type that its kernel computes with."""

WITHOUT_MODELS = {
    ".tflite": {
        *("ASSIGN_VARIABLE", "CALL_ONCE", "FILL", "IF", "IMAG", "RANGE", "RANK", "READ_VARIABLE", "REAL", "SHAPE"),
        *("VAR_HANDLE", "WHILE"),
    },
    ".onnx": {"If", "Scan"},
}
"""Ops that a model has beside others; they compute nothing."""


def made(sample: Sample) -> Iterator[tuple[Made, set[Isa]]]:
    """The ops that compute something, and the instruction sets with kernels of their contracts.

    Without conversions at the ends of the model and what belongs to them.
    """
    assert sample.graph is not None
    graph = fuse_tables(sample.graph) if sample.kind is Kind.INT8 else sample.graph
    for node in graph.nodes():
        op = node.op
        at_the_ends = isinstance(op, ENDS) or op.name.startswith(("Dequantize_", "Integers_"))
        if op.view or not op.name.startswith(sample.part):
            continue
        if at_the_ends and sample.code not in CONVERSIONS:
            continue
        if isinstance(op, ops.Map) and op.name.startswith("QuantizeLinear") and sample.code not in CONVERSIONS:
            continue
        contract = contract_of(node)
        yield (type(op), element(contract) or _kind(node, sample)), {v.isa for v in CATALOGUE if v.contract is contract}


def _kind(node: Node, sample: Sample) -> Kind:
    """The element type of a node whose kernel takes any."""
    types = {tensor.type.dtype for tensor in (*node.row_inputs, node.output)}
    if sample.code in CONVERSIONS or sample.kind not in QUANTISED:
        return sample.kind
    return Kind.FLOAT32 if DType.FLOAT32 in types or types == {DType.INT64} else sample.kind


def run(graph: Graph) -> None:
    """Computes the results of zeros, of which there is nothing to be said but that there are some of their types."""
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values |= {state.read: values[state.initial] for state in graph.states}
    for name in graph.inputs:
        kind = graph.tensors[name].type
        values[name] = np.zeros(kind.shape, kind.dtype.numpy)
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[name] for name in node.op.inputs], node.sig)
    for name in graph.outputs:
        kind = graph.tensors[name].type
        assert (values[name].size, values[name].dtype) == (kind.elements, kind.dtype.numpy), name


def claimed(form: Form, kind: Kind) -> list[Made]:
    return [(each.op, each.kind) if isinstance(each, In) else (each, kind) for each in form]


def covers(claim: Made, of: Made) -> bool:
    return claim[1] is of[1] and issubclass(of[0], claim[0])


def faults(suffix: str, all_samples: Iterable[Sample]) -> Iterator[str]:
    """What the table says otherwise than the models."""
    forms = IMPORTERS[suffix].forms()
    found: dict[tuple[str, Kind], dict[Made, set[Isa]]] = defaultdict(dict)
    imported: set[tuple[str, Kind]] = set()
    for sample in all_samples:
        key = (sample.code, sample.kind)
        if sample.graph is not None and sample.code in forms and (sample.legal or sample.kind in forms[sample.code]):
            if key not in imported:
                run(sample.graph)
            imported.add(key)
            for each, sets in made(sample):
                found[key].setdefault(each, set()).update(sets)
    for (code, kind), each in found.items():
        claims = claimed(forms[code].get(kind, ()), kind)
        real = [of for of in each if kind in QUANTISED and of[1] is Kind.FLOAT32]  # between conversions
        free = [of for of in each if of[0] in MOVES and of[1] is kind]
        left = [of for of in each if of not in real and of not in free]
        if kind not in forms[code] and left:
            yield f"{code} in {kind} is missing: {left}"
        for of in left:
            if kind in forms[code] and not any(covers(claim, of) for claim in claims):
                yield f"{code} in {kind} also becomes {of}"
        for claim in claims:
            if claim[0] not in MOVES and not any(covers(claim, of) for of in each):
                yield f"{code} in {kind} never becomes {claim}"
        moved = any(covers(claim, of) for claim in claims for of in free) if claims else bool(free)
        only_moves = kind in forms[code] and all(claim[0] in MOVES for claim in claims)
        if only_moves and moved is not bool(claims) and code not in AT_ENDS:
            yield f"{code} in {kind} moves elements by {free}, not {claims}"
        counted = [*left, *(of for of in (*real, *free) if any(covers(claim, of) for claim in claims))]
        sets = {isa for of in counted for isa in each[of] if isa is not Isa.FPU or of[1] is Kind.FLOAT32}
        if kind in forms[code] and counted and sets != set(isas(forms[code][kind], kind)):
            yield f"{code} in {kind} has kernels for {sets}"
    for code, by_kind in forms.items():
        for kind in by_kind:
            if (code, kind) not in imported and code not in WITHOUT_MODELS[suffix]:
                yield f"{code} in {kind} has no model that is imported"


@pytest.mark.parametrize(("suffix", "of"), [(".tflite", tflite_samples), (".onnx", onnx_samples)])
@pytest.mark.usefixtures("one_process")
def test_the_table_is_what_the_importers_make(suffix: str, of: Callable[[], Iterator[Sample]]) -> None:
    assert sorted(faults(suffix, of())) == []
