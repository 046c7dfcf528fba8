"""TFLite's IF with a constant condition, as the ops of the subgraph that it runs."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.tflite_file import RawModel, RawOp, RawTensor
from shoehorn_mcu.importers.tflite_options import IfOptions

MOST_OPS = 1 << 16
MOST_ROUNDS = 16  # of subgraphs in subgraphs


def without_branches(raw: RawModel) -> RawModel:
    """The model with each IF replaced by the ops of its branch; the model itself if it has none.

    Raises Unsupported where a condition is computed, ImportFault for damage.
    """
    if not any(op.code == "IF" for op in raw.ops):
        return raw
    for _ in range(MOST_ROUNDS):
        raw = _once(raw)
        if not any(op.code == "IF" for op in raw.ops):
            return replace(raw, others=() if not any(op.code == "CALL_ONCE" for op in raw.ops) else raw.others)
    raise Unsupported(f"its IF are in one another more than {MOST_ROUNDS} deep")


def _once(raw: RawModel) -> RawModel:
    """The outermost IF replaced."""
    tensors, ops, same = list(raw.tensors), list[RawOp](), dict[int, int]()
    for index, old in enumerate(raw.ops):
        op = replace(old, inputs=tuple(same.get(i, i) for i in old.inputs))
        if op.code == "IF":
            ops += _inlined(index, op, raw, tensors, same)
        else:
            ops.append(op)
        if len(ops) > MOST_OPS:
            raise Unsupported(f"its IF run more than {MOST_OPS} ops")
    outputs = tuple(same.get(i, i) for i in raw.outputs)
    return replace(raw, tensors=tuple(tensors), ops=tuple(ops), outputs=outputs)


def _inlined(index: int, op: RawOp, raw: RawModel, tensors: list[RawTensor], same: dict[int, int]) -> list[RawOp]:
    """The ops of the branch that is taken, on tensors that are added; `same` gets outputs that are operands."""
    if not isinstance(op.options, IfOptions) or not op.inputs or not 0 <= op.inputs[0] < len(tensors):
        raise ImportFault(f"op {index} IF has no condition; convert it again")
    condition = tensors[op.inputs[0]].data
    if condition is None:
        raise Unsupported(f"op {index} IF has a condition that is computed, it must be constant")
    number = (op.options.then if any(condition) else op.options.other) - 1  # the first subgraph is the model itself
    if not 0 <= number < len(raw.others):
        raise ImportFault(f"op {index} IF names subgraph {number + 1}, which is missing; convert it again")
    branch = raw.others[number]
    if len(branch.inputs) != len(op.inputs) - 1 or len(branch.outputs) != len(op.outputs):
        raise ImportFault(f"op {index} IF does not fit subgraph {number + 1}; convert it again")
    first = len(tensors)
    place = {i: first + i for i in range(len(branch.tensors))} | {-1: -1}
    place |= dict(zip(branch.inputs, op.inputs[1:], strict=True))
    written = {i for each in branch.ops for i in each.outputs}
    for inside, outside in zip(branch.outputs, op.outputs, strict=True):
        if inside in written and place.get(inside) == first + inside:
            place[inside] = outside
        else:
            same[outside] = place.get(inside, -1)
    tensors += branch.tensors
    try:
        return [
            replace(each, inputs=tuple(place[i] for i in each.inputs), outputs=tuple(place[i] for i in each.outputs))
            for each in branch.ops
        ]
    except KeyError as error:
        raise ImportFault(f"subgraph {number + 1} names tensor {error.args[0]}, which is missing") from error
