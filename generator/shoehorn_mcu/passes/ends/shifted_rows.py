"""Which rows of a window's tensors are rows of earlier windows, and which a step computes and keeps.

A window moves by `hop` rows of its inputs from one step to the next. Each row of each tensor has a number by value: a
kind and a frame. Two rows of one tensor, of windows that begin at frames s and t, are the same function of the same
frames where their kinds are equal and frame + s = frame + t. So padding, strides, dilations, pads and concatenations
need no rule of their own: the number of an op's row follows from the numbers of the rows that `Op.rows` names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from shoehorn_mcu.base.grouped import most_by_key
from shoehorn_mcu.ir import DType, Graph, Node, Op
from shoehorn_mcu.ir.edit import only_reader, readers
from shoehorn_mcu.ops import Concat, Pad, Reshape, Slice
from shoehorn_mcu.passes.sum_rows import pool_of


class Value(NamedTuple):
    """The number of a row; without a frame it is the same in each window, or with `own` another one in each."""

    kind: int
    frame: int | None
    own: bool = False


class Place(NamedTuple):
    """A row of a tensor."""

    tensor: str
    row: int


class Origin(NamedTuple):
    """The row that a row was in an earlier step: that which was computed last, so many steps ago."""

    row: int
    steps: int


Moved = tuple[Place | None, ...]
"""By row of what a mover of whole rows writes: the row that it is; None for a row of padding."""


@dataclass(frozen=True)
class Line:
    """Rows of a tensor that are kept. Of each step it takes the rows `fresh`, and gives up as many.

    `depths[i]` is the number of steps for which fresh row i is kept. They are equal, or from one place on one more, so
    the kept rows follow each other in the order in which they were computed.
    """

    fresh: tuple[int, ...]
    depths: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(self.depths)

    def place(self, number: int, steps: int) -> int:
        """Where fresh row `number` of so many steps ago is."""
        return self.rows - steps * len(self.fresh) + number


@dataclass(frozen=True)
class Use:
    """What a step does with the rows of one tensor."""

    computed: tuple[range, ...]  # the rows that are new in each step
    lines: tuple[Line, ...] = ()
    kept: Mapping[int, tuple[int, int]] | None = None  # by row: its line and its place there

    @property
    def kept_rows(self) -> int:
        return sum(line.rows for line in self.lines)

    def has(self, row: int) -> bool:
        """Whether the step has the row."""
        return row in (self.kept or ()) or any(row in rows for rows in self.computed)


@dataclass(frozen=True)
class Less:
    """The tensors that keep fewer rows than they can; the other rows that are read of them are computed in each step.

    Of a tensor rows are often read soon after they were computed, and again when they are near the end of the window;
    between both they only wait. `briefly` kept are those that are read before the longest such pause.
    """

    nothing: frozenset[str] = frozenset()
    briefly: frozenset[str] = frozenset()
    summed: frozenset[str] = frozenset()  # what pools write: of their rows, the sum is kept

    @property
    def tensors(self) -> int:
        return len(self.nothing | self.briefly | self.summed)


ALL = Less()
"""All rows are kept that can be."""


@dataclass(frozen=True)
class RunningSum:
    """A pool over all rows of a window that keeps their sum S: a step adds new rows, and subtracts those that leave."""

    kept: tuple[int, ...]  # rows of the window: their sum is S
    new: tuple[int, ...]  # computed in this step
    leaving: tuple[int, ...]  # of the kept ones: they are computed again, to be subtracted
    bytes: int  # of the sum

    def edges(self, rows: int) -> tuple[int, ...]:
        """The others of so many rows, which each window has its own of."""
        return tuple(y for y in range(rows) if y not in {*self.kept, *self.new})


@dataclass(frozen=True)
class Step:
    """The rows that each step computes and keeps, by tensor; tensors that no output needs are absent."""

    uses: Mapping[str, Use]
    macs: int
    state_bytes: int
    sums: Mapping[str, RunningSum]  # by what a pool writes


class Shifted:
    """The rows of a graph whose inputs are windows over rows of time, and what is known of them."""

    def __init__(self, graph: Graph, hop: int) -> None:
        self.graph, self.hop = graph, hop
        self._read: dict[tuple[str, range], tuple[Sequence[int], ...]] = {}
        self.nodes = {node.output.name: node for node in graph.nodes()}
        moved = ((name, _moved(node)) for name, node in self.nodes.items())
        self.moved = {name: found for name, found in moved if found is not None}

    @cached_property
    def values(self) -> Mapping[str, tuple[Value, ...]]:
        """By tensor, its rows."""
        return _Numbers(self).by_tensor

    @cached_property
    def origins(self) -> Mapping[str, Mapping[int, Origin]]:
        """By tensor: its rows that are rows of earlier steps."""
        outside = {*self.moved, *(n for n, t in self.graph.tensors.items() if t.data is not None)}
        able = (n for n in self.values if n not in outside and is_images(self, n))
        return {name: found for name in able if (found := self._origins(self.values[name]))}

    def _origins(self, rows: Sequence[Value]) -> Mapping[int, Origin]:
        """The last row of equal ones is computed, the others are it, some steps ago."""
        where = {value: y for y, value in reversed(list(enumerate(rows)))}
        by_kind = most_by_key((kind, frame) for kind, frame, _ in where if frame is not None)
        found: dict[int, Origin] = {}
        order = sorted(where.items(), key=lambda pair: pair[0].frame or 0, reverse=True)
        for (kind, frame, _), y in order:
            if frame is None:
                continue
            for steps in range(1, (by_kind[kind] - frame) // self.hop + 1):
                before = where.get(Value(kind, frame + steps * self.hop))
                if before is not None:
                    last = found.get(before, Origin(before, 0))
                    found[y] = Origin(last.row, last.steps + steps)
                    break
        return found

    def rows_read(self, node: Node, part: range) -> tuple[Sequence[int], ...]:
        """By row input: the rows that some output rows are computed from, found once."""
        key = node.output.name, part
        if key not in self._read:
            self._read[key] = _rows_read(node, part)
        return self._read[key]

    def divisible(self, node: Node) -> bool:
        """Whether some rows of what an op writes can be computed alone."""
        return node.output.name in self._divisible

    @cached_property
    def _divisible(self) -> Collection[str]:
        return {name for name, node in self.nodes.items() if name not in self.moved and _divides(node)}

    @cached_property
    def sums(self) -> Mapping[str, RunningSum]:
        """By what it writes: the pools over all rows of a tensor that may keep a sum of them."""
        found = ((name, self._running_sum(node)) for name, node in self.nodes.items())
        return {name: each for name, each in found if each is not None}

    def _running_sum(self, node: Node) -> RunningSum | None:
        """None where the op is no pool of integers over all rows of what it alone reads, or no row stays in the window.

        A row must move on by as much in each step until it leaves, so that what was added is what is subtracted.
        """
        pool, x = pool_of(node), node.x
        if pool is None or x.type.dtype is not DType.INT8 or pool.kernel[0] != x.type.rows or x.type.shape[0] != 1:
            return None
        origins = self.origins.get(x.name, {})
        if not origins or only_reader(self.graph, self._readers, x.name) is None or x.name in self.graph.inputs:
            return None
        new = sorted({origin.row for origin in origins.values()})
        places = {(origin.row, origin.steps): y for y, origin in origins.items()}
        last = {row: max(origin.steps for origin in origins.values() if origin.row == row) for row in new}
        if any((row, steps) not in places for row in new for steps in range(1, last[row] + 1)):
            return None
        leaving = sorted(places[row, steps] for row, steps in last.items())
        sums = pool.infer((x.type,))[2:]
        return RunningSum(tuple(sorted(origins)), (*new,), (*leaving,), DType.INT32.bytes * sums[0] * sums[1])

    @cached_property
    def _readers(self) -> Mapping[str, tuple[Op, ...]]:
        return readers(self.graph)

    def step(self, less: Less = ALL) -> Step:
        """The rows that each step computes and keeps with this choice."""
        return _Needs(self, less).step()


def is_images(shifted: Shifted, name: str) -> bool:
    """Whether a tensor is one image of rows, which can be cut and joined."""
    shape = shifted.graph.tensors[name].type.shape
    return len(shape) == 4 and shape[0] == 1


def _moved(node: Node) -> Moved | None:
    """The rows that the output's rows are; None where the op does not move whole rows."""
    op, elements = node.op, node.output.type.row_elements
    if not isinstance(op, Concat | Pad | Reshape | Slice):
        return None
    if any(tensor.type.row_elements != elements for tensor in node.row_inputs):
        return None
    if isinstance(op, Slice) and op.row_start(node.sig) != 0:
        return None
    found: list[Place | None] = []
    for y in range(node.output.type.rows):
        places = zip(node.row_inputs, op.rows(y, node.sig), strict=True)
        read = [Place(tensor.name, row) for tensor, rows in places for row in rows if row is not None]
        if len(read) > 1 or not (read or isinstance(op, Pad)):
            return None
        found.append(read[0] if read else None)
    return tuple(found)


def _divides(node: Node) -> bool:
    shapes = [tensor.type for tensor in (*node.row_inputs, node.output)]
    if node.op.carries or any(kind.rows > 1 and (len(kind.shape) != 4 or kind.shape[0] != 1) for kind in shapes):
        return False
    if len(node.output.type.shape) != 4:
        return False
    return all(node.op.part(range(y, y + 1), node.sig) is not None for y in range(node.output.type.rows))


class _Numbers:
    """Numbers the rows of all tensors in the order of the ops.

    What follows from a row that each window has its own of, such as a mean over the window, is each window's own, too.
    """

    def __init__(self, shifted: Shifted) -> None:
        self._kinds: dict[object, int] = {}
        graph = shifted.graph
        self.by_tensor: dict[str, tuple[Value, ...]] = {}
        for name in graph.inputs:
            kind = self._kind("input", name)
            self.by_tensor[name] = tuple(Value(kind, y) for y in range(graph.tensors[name].type.rows))
        for tensor in graph.tensors.values():
            if tensor.data is not None:
                rows = tensor.data.reshape(tensor.type.rows, -1)
                self.by_tensor[tensor.name] = tuple(Value(self._kind("constant", row.tobytes()), None) for row in rows)
        for name, node in shifted.nodes.items():
            if name in shifted.moved:
                self.by_tensor[name] = tuple(self._behind(node, place) for place in shifted.moved[name])
            else:
                self.by_tensor[name] = self._of(node, shifted.divisible(node))

    def _kind(self, *key: object) -> int:
        return self._kinds.setdefault(key, len(self._kinds))

    def _behind(self, node: Node, place: Place | None) -> Value:
        if place is None:
            assert isinstance(node.op, Pad)
            return Value(self._kind("padding", node.op.value), None)
        return self.by_tensor[place.tensor][place.row]

    def _of(self, node: Node, alike: bool) -> tuple[Value, ...]:
        """Rows that an op computes; `alike`: all by the same function of the rows that they read, else each its own."""
        rows = range(node.output.type.rows)
        if not alike:
            return tuple(Value(self._kind(node.op.name, y), None, own=True) for y in rows)
        found = []
        for y in rows:
            places = zip(node.row_inputs, node.op.rows(y, node.sig), strict=True)
            read = [
                tuple(None if row is None else self.by_tensor[tensor.name][row] for row in rows)
                for tensor, rows in places
            ]
            if any(value.own for values in read for value in values if value is not None):
                found.append(Value(self._kind(node.op.name, y), None, own=True))
                continue
            frames = [v.frame for values in read for v in values if v is not None and v.frame is not None]
            first = min(frames, default=None)
            key = tuple(tuple(_from(value, first) for value in values) for values in read)
            found.append(Value(self._kind(node.op.name, key), first))
        return tuple(found)


def _from(value: Value | None, first: int | None) -> Value | None:
    """The number relative to a frame."""
    if value is None or value.frame is None or first is None:
        return value
    return Value(value.kind, value.frame - first)


class _Needs:
    """The rows that each step needs, from the outputs back."""

    def __init__(self, shifted: Shifted, less: Less) -> None:
        self._shifted, self._less = shifted, less
        self._sums = {name: found for name, found in shifted.sums.items() if name in less.summed}
        self._nothing = {*less.nothing, *(shifted.nodes[name].x.name for name in self._sums)}
        self._needed: dict[str, set[int]] = {}
        self._uses: dict[str, Use] = {}
        self._macs = 0

    def step(self) -> Step:
        graph = self._shifted.graph
        for name in graph.outputs:
            self._need(name, range(graph.tensors[name].type.rows))
        for name in reversed(self._shifted.nodes):
            if self._needed.get(name):
                self._read(self._shifted.nodes[name])
        for name in graph.inputs:
            rows = graph.tensors[name].type.rows
            new = (range(rows - self._shifted.hop, rows),)
            use = self._kept(name)
            self._uses[name] = Use(new, use.lines, use.kept)
        kept = (use.kept_rows * graph.tensors[name].type.row_bytes for name, use in self._uses.items())
        return Step(self._uses, self._macs, sum(kept) + sum(each.bytes for each in self._sums.values()), self._sums)

    def _need(self, name: str, rows: Iterable[int]) -> None:
        """Rows of a tensor, or those that they are where a mover writes it."""
        moved = self._shifted.moved.get(name)
        if moved is None:
            self._needed.setdefault(name, set()).update(rows)
            return
        for y in rows:
            if (place := moved[y]) is not None:
                self._need(place.tensor, (place.row,))

    def _read(self, node: Node) -> None:
        """What a step computes of the tensor that an op writes, and what it reads for that."""
        name, rows = node.output.name, node.output.type.rows
        if not self._shifted.divisible(node) or name in self._sums:
            self._uses[name] = Use((range(rows),))
            self._macs += node.op.macs(node.sig)
            for tensor in node.row_inputs:
                self._need(tensor.name, self._added(name, tensor.type.rows))
            return
        use = self._uses[name] = self._kept(name)
        self._macs += node.op.macs(node.sig) * sum(map(len, use.computed)) // rows
        for part in use.computed:
            for tensor, read in zip(node.row_inputs, self._shifted.rows_read(node, part), strict=True):
                self._need(tensor.name, read)

    def _added(self, name: str, rows: int) -> Iterable[int]:
        """The rows that an op reads which reads so many of a tensor: of a sum that is kept, those that change it."""
        if name not in self._sums:
            return range(rows)
        kept = self._sums[name]
        return (*kept.edges(rows), *kept.new, *kept.leaving)

    def _kept(self, name: str) -> Use:
        rows = self._needed.get(name, set())
        origins = self._shifted.origins.get(name, {})
        if name in self._shifted.nodes:  # nothing computes rows of an input again
            origins = {} if name in self._nothing else origins
            origins = _brief(rows, origins) if name in self._less.briefly else origins
        depths = most_by_key(origins[y] for y in rows if y in origins)
        computed = {y for y in rows if y not in origins} | set(depths)
        lines = tuple(_lines(depths))
        numbers = {row: (n, i) for n, line in enumerate(lines) for i, row in enumerate(line.fresh)}
        kept = {}
        for y, (row, steps) in origins.items():
            if row in depths and steps <= depths[row]:
                line, i = numbers[row]
                kept[y] = (line, lines[line].place(i, steps))
        return Use(tuple(_ranges(computed)), lines, kept)


def _brief(rows: Collection[int], origins: Mapping[int, Origin]) -> Mapping[int, Origin]:
    """Without the rows that are read after the longest pause since they were computed, or read last."""
    read = sorted({0, *(origins[y].steps for y in rows if y in origins)})
    until = max(pairwise(read), key=lambda pair: (pair[1] - pair[0], pair[1]), default=(0, 0))[0]
    return {y: origin for y, origin in origins.items() if origin.steps <= until}


def _rows_read(node: Node, part: range) -> tuple[Sequence[int], ...]:
    """By row input: the rows that some output rows are computed from, a range with gaps only where the op can have a
    part without them.
    """
    found: list[Sequence[int]] = []
    places = [node.op.rows(y, node.sig) for y in part]
    for number, tensor in enumerate(node.row_inputs):
        rows = sorted({row for each in places for row in each[number] if row is not None})
        if tensor.type.rows == 1 or len(rows) < 2:
            found.append(rows)
            continue
        apart = gcd(*(b - a for a, b in pairwise(rows)))
        close = len(rows) == (rows[-1] - rows[0]) // apart + 1
        able = apart > 1 and close and node.op.part(part, node.sig, apart) is not None
        found.append(range(rows[0], rows[-1] + 1, apart if able else 1))
    return tuple(found)


def _ranges(rows: Collection[int]) -> list[range]:
    found: list[range] = []
    for y in sorted(rows):
        if found and found[-1].stop == y:
            found[-1] = range(found[-1].start, y + 1)
        else:
            found.append(range(y, y + 1))
    return found


def _lines(depths: Mapping[int, int]) -> list[Line]:
    """As few lines as keep no row for longer than it is read."""
    groups: list[list[int]] = []
    for row in sorted(depths):
        before = [depths[each] for each in groups[-1]] if groups else []
        if before and before[-1] <= depths[row] <= before[0] + 1:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [Line(tuple(group), tuple(depths[row] for row in group)) for group in groups]
