"""Windows that move by a few rows from one inference to the next: only what is new is computed (`--slide`).

    >   input x: 1x30x1x40; y = Conv2d(x) kernel 3x1: 1x28x1x32; z = Mean(y)
    <   input x: 1x1x1x40 (new rows); state k0: 1x2x1x40; y2 = Conv2d(Concat(k0, x)): 1x1x1x32;
        state k1: 1x27x1x32; z = Mean(Concat(k1, y2))

Every output of every step has the bytes that the given graph computes of the whole window, also before the first full
window: the states begin with the rows that a window at rest has, one whose inputs are all 0. shifted_rows.py says
which rows a step computes and which it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Array, Graph, Node, Op, State, Tensor, TensorType, verify
from shoehorn_mcu.ir.edit import Draft, only_reader, readers, reading, with_ops
from shoehorn_mcu.ops import Concat, Pad, Reshape, Slice, Transpose
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.passes.ends.running_sum import SummedPool
from shoehorn_mcu.passes.ends.shifted_rows import ALL, Less, Line, Place, RunningSum, Shifted, Step, Use
from shoehorn_mcu.passes.ends.upright import upright


class SlideError(ShoehornError):
    """The model cannot be computed by new rows alone; one line says why."""

    kind = "bad-slide"


@dataclass(frozen=True, eq=False)
class Windows:
    """A model whose inputs are windows over rows of time: its graph, and what each step may keep of the one before."""

    graph: Graph
    hop: int  # rows that are new in a step
    rows: int  # of a window
    turned: bool = False  # the rows of an input were its columns

    @property
    def steps(self) -> int:
        """Inferences until the first window is full of rows that were given."""
        return -(-self.rows // self.hop)

    @cached_property
    def shifted(self) -> Shifted:
        return Shifted(self.graph, self.hop)

    @cached_property
    def rest(self) -> Mapping[str, Array]:
        """Every tensor of a window whose inputs are 0."""
        return computed(self.graph, {name: self.graph.tensors[name].type.zeros() for name in self.graph.inputs})


@dataclass(frozen=True, eq=False)
class Slid:
    """The graph of a step, and the windows whose outputs it computes."""

    graph: Graph
    windows: Windows
    step: Step
    less: Less  # what keeps less than it can
    places: Mapping[Place, Place]  # by row of the windows' graph: the row of the step's graph that holds it

    @property
    def fewer(self) -> int:
        """How many tensors keep fewer rows than they can: the others are computed again."""
        most = self.windows.shifted.step().uses
        return sum(use.kept_rows < most[name].kept_rows for name, use in self.step.uses.items())


def computed(graph: Graph, given: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of a graph, for values of its inputs and of the states that it reads."""
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values.update(given)
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            values[node.output.name] = node.op.reference([values[name] for name in node.op.inputs], node.sig)
    return values


def windows(graph: Graph, hop: int, said: str = "") -> Windows:
    """The model as windows that move by `hop` rows; raises SlideError where its inputs are none.

    An input that is reshaped first, or behind its quantisation, gets the rows that it is reshaped to, and a sequence of
    pixels gets a row for each.
    `said`: the hop in the user's words.
    """
    if graph.states:
        raise SlideError(
            f"{graph.name}: keeps states already ({quoted(graph.states[0].read)}): it takes new rows as it is; "
            "leave --slide out"
        )
    turned = False
    while (path := _first_mover(graph)) is not None:
        turned = turned or isinstance(path[-1], Transpose)
        graph = _without(graph, path)
    graph = upright(graph)
    kinds = {name: graph.tensors[name].type for name in graph.inputs}
    for name, kind in kinds.items():
        if len(kind.shape) != 4 or kind.shape[0] != 1 or kind.rows < 2:
            raise SlideError(
                f"{graph.name}: --slide is for windows over rows of time, and the input {quoted(name)} {kind} has no "
                "axis of rows; leave the option out"
            )
    if len({kind.rows for kind in kinds.values()}) > 1:
        said = ", ".join(f"{quoted(name)} {kind.rows}" for name, kind in kinds.items())
        raise SlideError(f"{graph.name}: --slide needs inputs of one rate, the rows here are {said}; leave it out")
    rows = next(iter(kinds.values())).rows
    if not 0 < hop <= rows:
        raise SlideError(f"{graph.name}: --slide {said or hop}: the window has {rows} rows; give 1 to {rows}")
    return Windows(graph, hop, rows, turned)


def _first_mover(graph: Graph) -> tuple[Op, ...] | None:
    """A view that tells more places of an input apart, or a transpose, which alone reads it; or which alone reads what
    ops make of it that take their operand in any shape, such as its quantisation. These ops come first.
    """
    readers_of = readers(graph)
    for name in graph.inputs:
        path: list[Op] = []
        while (op := only_reader(graph, readers_of, path[-1].output if path else name)) is not None:
            path.append(op)
            if not (op.any_shape and len(op.inputs) == 1):
                break
        if op is None or op.output in graph.results:
            continue
        given, kind = graph.tensors[name].type, graph.tensors[op.output].type
        more = (_places(kind), kind.rows) > (_places(given), given.rows) and len(kind.shape) > 2
        if isinstance(op, Transpose) or (isinstance(op, Reshape) and more):
            return tuple(path)
    return None


def _places(kind: TensorType) -> int:
    return kind.elements // max(1, kind.nhwc[3])


def _without(graph: Graph, path: Sequence[Op]) -> Graph:
    """Gives the input and what the first ops of `path` make of it the shape, or the order of dimensions, that the last
    one, which goes, writes.
    """
    *ahead, mover = path
    shape = graph.tensors[mover.output].type.shape
    shaped = [path[0].inputs[0], *(op.output for op in ahead)]
    kinds = {name: replace(graph.tensors[name].type, shape=shape) for name in shaped}
    tensors = {**graph.tensors, **{name: Tensor(name, kind) for name, kind in kinds.items()}}
    ops = [reading(each, {mover.output: mover.inputs[0]}) for each in graph.ops if each is not mover]
    return with_ops(replace(graph, tensors=tensors), ops)


def slide(given: Windows, less: Less = ALL) -> Slid:
    """The graph whose inputs are the new rows, with states for the rows, and the sums of rows, that are kept."""
    return _Slider(given, given.shifted.step(less), less).slid()


class _Slider:
    """The graph so far: pieces of the given graph's tensors, and the states."""

    def __init__(self, given: Windows, step: Step, less: Less) -> None:
        self._given, self._step, self._less, graph = given, step, less, given.graph
        constants = {name: tensor for name, tensor in graph.tensors.items() if tensor.data is not None}
        self._draft = Draft(replace(graph, tensors=constants, ops=()))
        self._ops: list[Op] = []
        self._states: list[State] = []
        self._places: dict[Place, Place] = {}  # by row of the given graph: where the step has it
        self._gathered: dict[tuple[str, tuple[int, ...]], str] = {}

    def slid(self) -> Slid:
        graph, waiting = self._given.graph, []
        for name in graph.inputs:
            use, kind = self._step.uses[name], graph.tensors[name].type
            self._draft.tensors[name] = replace(graph.tensors[name], type=_rows_of(kind, len(use.computed[0])))
            self._piece(name, name, use.computed[0])
            waiting.append((name, use))
        waiting += [(name, self._step.uses[name]) for name in self._given.shifted.nodes if name in self._step.uses]
        lines = [(name, use, number) for name, use in waiting for number in range(len(use.lines))]
        kept = [(name, use.lines[number], self._read(name, use, number)) for name, use, number in lines]
        for name, node in self._given.shifted.nodes.items():
            if name in self._step.uses:
                self._compute(node, self._step.uses[name])
        for name, line, read in kept:
            self._write(name, line, read)
        others = self._outputs()
        ops = tuple(replace(reading(op, others), output=others.get(op.output, op.output)) for op in self._ops)
        states = tuple(replace(state, write=others.get(state.write, state.write)) for state in self._states)
        tensors = {others.get(n, n): replace(t, name=others.get(n, n)) for n, t in self._draft.tensors.items()}
        places = {ours: Place(others.get(name, name), row) for ours, (name, row) in self._places.items()}
        made = with_ops(replace(graph, tensors=tensors, states=states), ops)
        return Slid(verify(made), self._given, self._step, self._less, places)

    def _piece(self, tensor: str, made: str, rows: range) -> None:
        """A tensor of the step holds these rows."""
        for number, row in enumerate(rows):
            self._places[Place(tensor, row)] = Place(made, number)

    def _read(self, name: str, use: Use, number: int) -> str:
        """The state that keeps the rows of a line."""
        line, kind = use.lines[number], self._given.graph.tensors[name].type
        kept = self._draft.tensor(f"{name}_kept", _rows_of(kind, line.rows))
        for row, (where, place) in (use.kept or {}).items():
            if where == number:
                self._places[Place(name, row)] = Place(kept, place)
        return kept

    def _write(self, name: str, line: Line, read: str) -> None:
        """The next value of a state: its rows without the oldest, then those that are new."""
        kind, new = self._draft.tensors[read].type, len(line.fresh)
        fresh = self._gather(name, line.fresh)
        rest = self._given.rest[name][:, list(line.fresh)]
        order = (np.arange(line.rows) - line.rows) % new
        initial = self._draft.tensor(f"{name}_at_rest", kind, np.ascontiguousarray(rest[:, order]))
        both, first = (fresh, 0) if line.rows == new else (self._joined(name, (read, fresh)), new)
        last = self._draft.tensor(f"{name}_next", kind)
        self._emit(_cut(both, last, range(first, first + line.rows), kind))
        self._states.append(State(read, last, initial))

    def _compute(self, node: Node, use: Use) -> None:
        if (kept := self._step.sums.get(node.output.name)) is not None:
            self._piece(node.output.name, self._summed(node, kept), use.computed[0])
            return
        for rows in use.computed:
            made = self._part(node, rows)
            self._piece(node.output.name, made, rows)

    def _summed(self, node: Node, kept: RunningSum) -> str:
        """What a pool writes that keeps a sum."""
        name = node.x.name
        rows = {"new": kept.new, "leaving": kept.leaving, "edges": kept.edges(node.x.type.rows)}
        parts = {part: self._gather(name, each) for part, each in rows.items() if each}
        pool = SummedPool(self._draft, node, self._emit)
        made, state = pool.made(parts, self._given.rest[name][:, list(kept.kept)])
        self._states.append(state)
        return made

    def _part(self, node: Node, rows: range) -> str:
        """The tensor of these rows of what an op writes."""
        op, kind, name = node.op, node.output.type, node.output.name
        if not self._given.shifted.divisible(node):
            read = {tensor.name: self._gather(tensor.name, range(tensor.type.rows)) for tensor in node.row_inputs}
            return self._emit(replace(reading(op, read), output=self._draft.tensor(name, kind)))
        places = self._closed(node, self._given.shifted.rows_read(node, rows))
        found = op.part(rows, node.sig, max((each.step for each in places if isinstance(each, range)), default=1))
        assert found is not None  # rows_read
        inputs = [self._gather(tensor.name, each) for tensor, each in zip(node.row_inputs, places, strict=True)]
        out = self._draft.tensor(name if len(rows) == kind.rows else f"{name}_{rows.start}", _rows_of(kind, len(rows)))
        return self._emit(replace(found, inputs=(*inputs, *op.inputs[len(inputs) :]), output=out))

    def _closed(self, node: Node, places: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """The rows that are read, with those between them where the step has them: they need not be picked out then."""
        if not any(isinstance(each, range) and each.step > 1 for each in places):
            return places
        closed = [range(each[0], each[-1] + 1) for each in places]
        pairs = zip(node.row_inputs, closed, strict=True)
        return closed if all(self._has(tensor.name, each) for tensor, each in pairs) else places

    def _has(self, name: str, rows: range) -> bool:
        """Whether the step has these rows of a tensor."""
        behind = (self._behind(Place(name, y)) for y in rows)
        return all(isinstance(place, Padding) or self._is_constant(place) or place in self._places for place in behind)

    def _is_constant(self, place: Place) -> bool:
        return self._given.graph.tensors[place.tensor].data is not None

    def _behind(self, place: Place) -> Place | Padding:
        """The row that a row is which movers made."""
        moved, nodes = self._given.shifted.moved, self._given.shifted.nodes
        while place.tensor in moved:
            found = moved[place.tensor][place.row]
            if found is None:
                op = nodes[place.tensor].op
                assert isinstance(op, Pad)
                return Padding(op.value)
            place = found
        return place

    def _gather(self, name: str, rows: Sequence[int]) -> str:
        """A tensor of these rows of one of the given graph: in its own shape if it is all, else an image."""
        tensor = self._given.graph.tensors[name]
        whole = list(rows) == list(range(tensor.type.rows))
        if tensor.data is not None and whole:
            return name
        key = name, tuple(rows)
        if key not in self._gathered:
            image = _rows_of(tensor.type, len(rows))
            runs = _runs(self._sources(name, rows))
            pieces = [self._piece_of(run, image) for run in runs]
            if len(pieces) > 1:
                shaped = (self._shaped(p, _rows_of(image, len(r.rows))) for p, r in zip(pieces, runs, strict=True))
                pieces = [self._joined(name, tuple(shaped))]
            self._gathered[key] = self._shaped(pieces[0], tensor.type if whole else image)
        return self._gathered[key]

    def _sources(self, name: str, rows: Sequence[int]) -> Iterator[Place | Padding]:
        """Where the step has each of the rows."""
        for y in rows:
            place = self._behind(Place(name, y))
            yield place if isinstance(place, Padding) or self._is_constant(place) else self._places[place]

    def _piece_of(self, run: _Run, kind: TensorType) -> str:
        """The tensor of a run of rows; that of constants is an image of rows of this kind."""
        wanted = _rows_of(kind, len(run.rows))
        if isinstance(run.source, Padding):
            return self._draft.tensor("padding", wanted, np.full(wanted.shape, run.source.value, kind.dtype.numpy))
        held = self._draft.tensors[run.source]
        if held.data is not None:
            data = held.data.reshape(held.type.rows, *wanted.shape[2:])[list(run.rows)]
            return self._draft.tensor(f"{run.source}_rows", wanted, np.ascontiguousarray(data[None]))
        if list(run.rows) == list(range(held.type.rows)):
            return run.source
        part = _rows_of(held.type, len(run.rows))
        image = self._shaped(run.source, _rows_of(held.type, held.type.rows))
        out = self._draft.tensor(f"{run.source}_part", part)
        return self._emit(_cut(image, out, run.rows, part))

    def _shaped(self, name: str, kind: TensorType) -> str:
        """The tensor in this shape."""
        held = self._draft.tensors[name]
        if held.type.shape == kind.shape:
            return name
        if held.data is not None:
            return self._draft.tensor(f"{name}_shaped", kind, held.data.reshape(kind.shape))
        out = self._draft.tensor(f"{name}_shaped", kind)
        return self._emit(Reshape(name=out, inputs=(name,), output=out, shape=kind.shape))

    def _joined(self, name: str, pieces: Sequence[str]) -> str:
        kinds = [self._draft.tensors[piece].type for piece in pieces]
        out = self._draft.tensor(f"{name}_rows", _rows_of(kinds[0], sum(kind.rows for kind in kinds)))
        return self._emit(Concat(name=out, inputs=tuple(pieces), output=out, axis=1))

    def _outputs(self) -> Mapping[str, str]:
        """New names, by old ones, with which the outputs have the names that they had."""
        graph, others = self._given.graph, dict[str, str]()
        for name in graph.outputs:
            made = self._gather(name, range(graph.tensors[name].type.rows))
            if made == name:
                continue
            if made in others or made not in {op.output for op in self._ops} or name in self._draft.tensors:
                kind = self._draft.tensors[made].type
                made = self._emit(Reshape(name=name, inputs=(made,), output=name, shape=kind.shape))
                self._draft.tensors[name] = Tensor(name, kind)
            else:
                others[made] = name
        return others

    def _emit(self, op: Op) -> str:
        self._ops.append(replace(op, name=self._draft.op_name(op.name)))
        return op.output


@dataclass(frozen=True)
class Padding:
    """A row of one value."""

    value: float


@dataclass
class _Run:
    """Rows of one tensor, equally far from each other, or of padding."""

    source: str | Padding
    rows: range


def _runs(places: Iterator[Place | Padding]) -> list[_Run]:
    """The rows in order, as few runs."""
    found: list[_Run] = []
    for place in places:
        source, row = (place, 0) if isinstance(place, Padding) else place
        last = found[-1] if found and found[-1].source == source else None
        if last is not None and isinstance(source, Padding):
            last.rows = range(len(last.rows) + 1)
        elif last is not None and len(last.rows) == 1 and row > last.rows[0]:
            last.rows = range(last.rows[0], row + 1, row - last.rows[0])
        elif last is not None and len(last.rows) > 1 and row == last.rows[-1] + last.rows.step:
            last.rows = range(last.rows[0], row + 1, last.rows.step)
        else:
            found.append(_Run(source, range(row, row + 1)))
    return found


def _rows_of(kind: TensorType, rows: int) -> TensorType:
    """The type of an image of so many of its rows."""
    return replace(kind, shape=(1, rows, *kind.nhwc[2:]))


def _cut(source: str, output: str, rows: range, kind: TensorType) -> Slice:
    """The rows of a tensor, an image of this type."""
    begin, step = (0, rows.start, 0, 0), (1, rows.step, 1, 1)
    return Slice(name=output, inputs=(source,), output=output, begin=begin, size=kind.shape, step=step)
