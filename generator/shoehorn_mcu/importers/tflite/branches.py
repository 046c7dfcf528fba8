"""TFLite's IF with a constant condition and WHILE of a known number of rounds, as the ops that they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp, RawTensor
from shoehorn_mcu.importers.tflite.options import Options
from shoehorn_mcu.ir import Array

MOST_OPS = 1 << 16
MOST_UNROLLED = 1 << 13
"""Ops that the loops of a model may become; each takes flash, and time to plan."""

MOST_ROUNDS = 16  # of subgraphs in subgraphs
MOST_KNOWN = 64  # elements of a tensor whose value is known ahead

CODES = ("IF", "WHILE")

_KNOWN_TYPES: Mapping[str, np.dtype[Any]] = {
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "BOOL": np.dtype(np.bool_),
}

_COMPUTED: Mapping[str, Callable[..., Any]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MINIMUM": np.minimum,
    "MAXIMUM": np.maximum,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_NOT": np.logical_not,
    "CAST": lambda x: x,
    "RESHAPE": lambda x, *shape: x,
}
"""Ops on integers and flags that are computed ahead, by numpy: those that count the rounds of loops."""

Known = dict[int, Array]
"""Values that are known ahead, by the number of the tensor."""

Piece = tuple[int, int, int]
"""Of a tensor the first row and the number of rows, along its first dimension."""


def without_branches(raw: RawModel) -> RawModel:
    """The model with each IF and WHILE replaced by the ops that it runs; the model itself if it has none.

    Raises Unsupported where a condition is computed, ImportFault for damage.
    """
    if not any(op.code in CODES for op in raw.ops):
        return raw
    for _ in range(MOST_ROUNDS):
        raw = _Once(raw, list(raw.tensors)).model()
        if not any(op.code in CODES for op in raw.ops):
            return replace(raw, others=() if not any(op.code == "CALL_ONCE" for op in raw.ops) else raw.others)
    raise Unsupported(f"its IF and WHILE are in one another more than {MOST_ROUNDS} deep")


@dataclass
class _Once:
    """One round over a model's ops, in which the outermost IF and WHILE are replaced."""

    raw: RawModel
    tensors: list[RawTensor]
    ops: list[RawOp] = field(default_factory=list)
    same: dict[int, int] = field(default_factory=dict)  # tensors that are others, by number
    held: dict[tuple[int, int], int] = field(default_factory=dict)  # constants of subgraphs, by subgraph and number
    lists: dict[int, list[Piece]] = field(default_factory=dict)  # tensors that no op has made yet
    unrolled: int = 0

    def model(self) -> RawModel:
        """The model with the ops of branches and bodies."""
        for index, old in enumerate(self.raw.ops):
            op = replace(old, inputs=tuple(self.same.get(i, i) for i in old.inputs))
            if op.code == "IF":
                self._branch(index, op)
            elif op.code == "WHILE":
                self._loop(index, op)
            else:
                self.ops.append(op)
            if len(self.ops) > MOST_OPS:
                raise Unsupported(f"its IF run more than {MOST_OPS} ops")
        outputs = tuple(self.same.get(i, i) for i in self.raw.outputs)
        return replace(self.raw, tensors=tuple(self.tensors), ops=tuple(self.ops), outputs=outputs)

    def _branch(self, index: int, op: RawOp) -> None:
        """The ops of the branch that is taken."""
        if not op.inputs or not 0 <= op.inputs[0] < len(self.tensors):
            raise ImportFault(f"op {index} IF has no condition; convert it again")
        condition = self.tensors[op.inputs[0]].data
        if condition is None:
            raise Unsupported(f"op {index} IF has a condition that is computed, it must be constant")
        number = op.options.subgraphs[0 if any(condition) else 1]
        branch = self._subgraph(index, op, number, len(op.inputs) - 1, len(op.outputs))
        self._copy(number, branch, op.inputs[1:], op.outputs, {})

    def _subgraph(self, index: int, op: RawOp, number: int, inputs: int, outputs: int) -> RawModel:
        """The subgraph of this number; the first one is the model itself."""
        if not 0 < number <= len(self.raw.others):
            raise ImportFault(f"op {index} {op.code} names subgraph {number}, which is missing; convert it again")
        found = self.raw.others[number - 1]
        if len(found.inputs) != inputs or len(found.outputs) != outputs:
            raise ImportFault(f"op {index} {op.code} does not fit subgraph {number}; convert it again")
        if missing := sorted({i for i in (*found.inputs, *found.outputs) if not 0 <= i < len(found.tensors)}):
            raise ImportFault(f"subgraph {number} names tensor {missing[0]}, which is missing")
        return found

    def _loop(self, index: int, op: RawOp) -> None:
        """The ops of all rounds, one after the other. What counts the rounds is known and becomes constants."""
        count = len(op.inputs)
        if len(op.outputs) != count:
            raise ImportFault(f"op {index} WHILE has {count} inputs and {len(op.outputs)} outputs; convert it again")
        if not all(0 <= i < len(self.tensors) for i in op.inputs):
            raise ImportFault(f"op {index} WHILE lacks an operand; convert it again")
        first, second = op.options.subgraphs
        condition, body = self._subgraph(index, op, first, count, 1), self._subgraph(index, op, second, count, count)
        rounds = self._rounds(index, op.inputs, condition, body)
        self.unrolled += len(rounds) * max(1, len(body.ops))
        values: Sequence[int] = op.inputs
        for number, known in enumerate(rounds, 1):
            self._fits(index, values, body)
            last = number == len(rounds)
            values = self._copy(second, body, values, op.outputs if last else (None,) * count, known)
        if not rounds:
            self.same |= dict(zip(op.outputs, values, strict=True))
        for value in values:
            self._gathered(value)

    def _rounds(self, index: int, places: Sequence[int], condition: RawModel, body: RawModel) -> list[Known]:
        """What is known of the body's tensors in each round."""
        now = [_value(self.tensors[place]) for place in places]
        rounds: list[Known] = []
        while True:
            (flag,) = _results(condition, _evaluated(condition, now))
            if flag is None or flag.size != 1:
                raise Unsupported(f"op {index} WHILE has a condition that the inputs decide; its rounds must be known")
            if not flag.item():
                return rounds
            rounds.append(_evaluated(body, now))
            if self.unrolled + len(rounds) * max(1, len(body.ops)) > MOST_UNROLLED:
                raise Unsupported(
                    f"op {index} WHILE of {len(body.ops)} ops has more than {len(rounds) - 1} rounds, which become "
                    f"more than {MOST_UNROLLED} ops; convert the model with fewer time steps"
                )
            now = _results(body, rounds[-1])

    def _fits(self, index: int, places: Sequence[int], body: RawModel) -> None:
        """Refuses a body that reads stored values in another scale than they were written with."""
        for outside, inside in zip(places, body.inputs, strict=True):
            ours, theirs = self.tensors[outside], body.tensors[inside]
            if (ours.dtype, ours.scales, ours.zero_points) != (theirs.dtype, theirs.scales, theirs.zero_points):
                raise Unsupported(f"op {index} WHILE changes the type or scale of what goes from round to round")

    def _copy(
        self, number: int, graph: RawModel, inputs: Sequence[int], targets: Sequence[int | None], known: Known
    ) -> list[int]:
        """Adds the ops of a subgraph on these operands; the tensors that its outputs are, the targets where they can.

        Constants are added once, and ops whose results are known are left out.
        """
        place = {-1: -1} | dict(zip(graph.inputs, inputs, strict=True))
        written = {i for op in graph.ops for i in op.outputs}
        for inside, target in zip(graph.outputs, targets, strict=True):
            if target is not None and inside in written and inside not in place and inside not in known:
                place[inside] = target
        for i, tensor in enumerate(graph.tensors):
            if i in place:
                continue
            if i in written and i in known:
                data = memoryview(known[i].tobytes())
                place[i] = self._add(replace(tensor, shape=known[i].shape, data=data))
            elif i in written or tensor.data is None:
                place[i] = self._add(tensor)
            else:
                if (number, i) not in self.held:
                    self.held[number, i] = self._add(tensor)
                place[i] = self.held[number, i]
        try:
            for op in graph.ops:
                if op.outputs and all(i in known for i in op.outputs):
                    continue
                inputs, outputs = (tuple(place[i] for i in each) for each in (op.inputs, op.outputs))
                moved = replace(op, inputs=inputs, outputs=outputs)
                if not self._listed(moved, [known.get(i) for i in op.inputs]):
                    for i in inputs:
                        self._gathered(i)
                    self.ops.append(moved)
            found = [place[i] for i in graph.outputs]
        except KeyError as error:
            raise ImportFault(f"subgraph {number} names tensor {error.args[0]}, which is missing") from error
        self.same |= {target: own for target, own in zip(targets, found, strict=True) if target not in (None, own)}
        return found

    def _listed(self, op: RawOp, known: Sequence[Array | None]) -> bool:
        """Whether the op takes rows of a list, or puts some in, at places that are known: it then waits for a reader.

        So a loop that writes one row of a list in each round becomes one concatenation of these rows.
        """
        if len(op.outputs) != 1 or not all(0 <= i < len(self.tensors) for i in op.inputs):
            return False
        if op.code == "SLICE" and len(op.inputs) == 3:
            pieces = self._taken(op.inputs[0], known[1], known[2])
        elif op.code == "CONCATENATION":
            ranks = {len(self.tensors[i].shape) for i in op.inputs}
            alike = len({(self.tensors[i].scales, self.tensors[i].zero_points) for i in op.inputs}) == 1
            plain = op.options == Options() or (ranks == {1} and op.options == Options(axis=-1))
            waits = any(i in self.lists for i in op.inputs) and plain and alike
            pieces = [piece for i in op.inputs for piece in self._pieces(i)] if waits else None
        else:
            return False
        if pieces is None:
            return False
        place, like = op.outputs[0], self.tensors[op.inputs[0]]
        shape = (sum(count for _, _, count in pieces), *like.shape[1:])
        self.tensors[place] = replace(self.tensors[place], shape=shape)
        self.lists[place] = pieces
        return True

    def _pieces(self, place: int) -> list[Piece]:
        return self.lists[place] if place in self.lists else [(place, 0, self.tensors[place].shape[0])]

    def _taken(self, place: int, begin: Array | None, size: Array | None) -> list[Piece] | None:
        """The pieces of a slice of whole rows; None for another slice."""
        shape = self.tensors[place].shape
        if begin is None or size is None or not begin.shape == size.shape == (len(shape),) or not shape:
            return None
        if begin[1:].any() or any(n not in (-1, have) for n, have in zip(size[1:].tolist(), shape[1:], strict=True)):
            return None
        first = int(begin[0])
        end = shape[0] if size[0] == -1 else first + int(size[0])
        if not 0 <= first <= end <= shape[0]:
            return None
        found, at = list[Piece](), 0
        for tensor, start, count in self._pieces(place):
            low, high = max(first, at), min(end, at + count)
            if low < high:
                found.append((tensor, start + low - at, high - low))
            at += count
        return found

    def _gathered(self, place: int) -> None:
        """Adds the ops that make a tensor of the pieces of others, if it is such a list."""
        pieces = self.lists.pop(place, None)
        if not pieces:
            return
        parts = []
        for tensor, first, count in pieces:
            whole = self.tensors[tensor]
            if (first, count) == (0, whole.shape[0]):
                parts.append(tensor)
                continue
            rest = len(whole.shape) - 1
            ends = [self._numbers((n, *[other] * rest)) for n, other in ((first, 0), (count, -1))]
            parts.append(self._add(replace(whole, shape=(count, *whole.shape[1:]), data=None)))
            self.ops.append(RawOp("SLICE", "", (tensor, *ends), (parts[-1],), Options()))
        code = "RESHAPE" if len(parts) == 1 else "CONCATENATION"
        self.ops.append(RawOp(code, "", tuple(parts), (place,), Options()))

    def _numbers(self, numbers: tuple[int, ...]) -> int:
        """A constant list of integers."""
        data = memoryview(np.array(numbers, "<i4").tobytes())
        return self._add(RawTensor("", (len(numbers),), "INT32", data, (), (), 0, variable=False, sparse=False))

    def _add(self, tensor: RawTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def _value(tensor: RawTensor) -> Array | None:
    """A small constant of integers or flags."""
    dtype, size = _KNOWN_TYPES.get(tensor.dtype), int(np.prod(tensor.shape, dtype=np.int64))
    if dtype is None or tensor.data is None or tensor.variable or not 0 < size <= MOST_KNOWN:
        return None
    return (
        np.frombuffer(tensor.data, dtype).reshape(tensor.shape) if len(tensor.data) == size * dtype.itemsize else None
    )


def _evaluated(graph: RawModel, inputs: Sequence[Array | None]) -> Known:
    """What is known of a subgraph's tensors where these are its operands."""
    known = {i: value for i, tensor in enumerate(graph.tensors) if (value := _value(tensor)) is not None}
    known |= {i: value for i, value in zip(graph.inputs, inputs, strict=True) if value is not None}
    for op in graph.ops:
        compute = _joined(op) if op.code == "CONCATENATION" else _COMPUTED.get(op.code)
        if compute is None or len(op.outputs) != 1 or not all(i in known for i in op.inputs):
            continue
        if not 0 <= op.outputs[0] < len(graph.tensors):
            continue
        tensor = graph.tensors[op.outputs[0]]
        if (dtype := _KNOWN_TYPES.get(tensor.dtype)) is not None:
            try:
                found = np.asarray(compute(*(known[i] for i in op.inputs))).astype(dtype)
            except (TypeError, ValueError):  # operands that the op does not take
                continue
            if found.size == np.prod(tensor.shape, dtype=np.int64):
                known[op.outputs[0]] = found.reshape(tensor.shape)
    return known


def _joined(op: RawOp) -> Callable[..., Any] | None:
    """CONCATENATION of integers."""
    return lambda *parts: np.concatenate(parts, op.options.axis)


def _results(graph: RawModel, known: Known) -> list[Array | None]:
    return [known.get(i) for i in graph.outputs]
