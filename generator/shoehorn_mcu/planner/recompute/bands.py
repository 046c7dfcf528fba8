"""A problem as a bare graph for planner/remat: nodes are bands of rows of one op, and helper nodes.

Helper nodes express what a bare graph cannot:

- rows of a resident input are nodes of duration 0 that may run once; all of them run before a start node, which
  every op without other inputs reads;
- rows of a streamed input are nodes of duration 0 that may run once; each reads a token node that reads the row before,
  which keeps them in order. A token has size 0; placed right after its row, it prolongs no live range;
- an end node reads the outputs, and by way of tokens all rows without another reader, so it runs last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shoehorn_mcu.planner.effort import REMAT
from shoehorn_mcu.planner.memory_plan import HANDOUT
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import Terms


@dataclass(frozen=True)
class Band:
    """Rows [first, end) of an op's output."""

    op: int
    first: int
    end: int


@dataclass(frozen=True)
class StepGraph:
    """The graph, the copies and scratch allowed for each node, and the rows that each node computes."""

    graph: Graph
    terms: Terms
    bands: tuple[Band | None, ...]  # None: rows of an input, a token, the start node or the end node
    node_of: dict[tuple[int, int], int]  # (op, row) -> node

    def sequence(self, events: Sequence[Event]) -> tuple[int, ...]:
        """Every node once, at the position of its first row in `events` but after all nodes that it reads."""
        placed: dict[int, None] = {}
        wanted = [self.node_of[event.op, row] for event in events for row in range(event.row, event.row + event.rows)]
        for node in (*wanted, *self.graph.order):
            stack = [node]
            while stack:
                waits = [u for u in self.graph.inputs[stack[-1]] if u not in placed]
                if not waits:
                    placed[stack.pop()] = None
                stack += waits[:1]
        return tuple(self._hastened(list(placed)))

    def refined(self, coarser: StepGraph, sequence: Sequence[int]) -> tuple[int, ...]:
        """A sequence of a coarser graph of the same problem, with its repeats, in the nodes of this graph."""
        return self.repeated(coarser.events(sequence))

    def repeated(self, events: Sequence[Event]) -> tuple[int, ...]:
        """A sequence that runs a node each time rows of it are computed; consecutive rows of one node run it once."""
        given = [v for v in self.graph.order if self.bands[v] is None and not self.token(v)]
        found = given[:-1]
        for node in (self.node_of[event.op, event.row] for event in events):
            if node != found[-1]:
                found.append(node)
        return tuple(self._hastened([*found, given[-1]]))

    def _hastened(self, sequence: list[int]) -> Iterator[int]:
        """The sequence with each token right after the node that it reads, so that it prolongs no live range."""
        tokens = {self.graph.inputs[v][0]: v for v in self.graph.nodes if self.token(v)}
        for v in sequence:
            if not self.token(v):
                yield v
                if v in tokens:
                    yield tokens[v]

    def token(self, node: int) -> bool:
        """Whether a node is a token: it only marks that another node has run."""
        alone = self.bands[node] is None and len(self.graph.inputs[node]) == 1
        return alone and node != self.graph.order[-1]

    def events(self, sequence: Sequence[int]) -> list[Event]:
        """The rows of a sequence, one by one."""
        bands = [band for v in sequence if (band := self.bands[v]) is not None]
        return [Event(band.op, row) for band in bands for row in range(band.first, band.end)]


def _heights(flow: Flow, most: int) -> dict[str, int]:
    """Rows of a band, by tensor: bands of about equal bytes, sized so that the graph has about `most` nodes."""
    there = [name for name in flow.rows if name in flow.born]
    sizes = {name: max(1, flow.slot[name]) for name in there}
    sizes |= {op.writes: _read_bytes(flow, i) for i, op in enumerate(flow.problem.ops) if op.name == HANDOUT}

    def heights(size: int) -> dict[str, int]:
        return {name: _height(flow.rows[name], size // sizes[name]) for name in there}

    def nodes(size: int) -> int:
        return sum(-(-flow.rows[name] // height) for name, height in heights(size).items())

    low, high = 0, max((flow.rows[name] * sizes[name] for name in there), default=0)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if nodes(middle) <= most else (middle + 1, high)
    return heights(low)


def _read_bytes(flow: Flow, op: int) -> int:
    """The bytes of a row that an op reads: rows of no bytes make bands like those of the rows that are handed out."""
    return max(1, *(flow.slot[tap.tensor] for tap in flow.taps[op]))


def _height(rows: int, most: int) -> int:
    """All rows, or a power of two, so that each band of a coarse graph is made of whole bands of a finer one."""
    return rows if most >= rows else 1 << max(0, most.bit_length() - 1)


class _Builder:
    """Nodes as they are added; each reads only earlier ones."""

    def __init__(self, flow: Flow, most: int) -> None:
        self._flow = flow
        self._heights = _heights(flow, most)
        self._columns: list[tuple[int, int, int, int, int, set[int], Band | None]] = []
        self._at: dict[tuple[str, int], int] = {}  # (tensor, row) -> node
        self._rows_of: dict[int, range] = {}
        self._start = -1

    def _add(self, reads: set[int], size: int = 0, band: Band | None = None) -> int:
        """Adds a node of duration 0 that may run once."""
        self._columns.append((size, 0, 1, 0, -1, reads, band))
        return len(self._columns) - 1

    def _add_work(self, reads: set[int], size: int, band: Band) -> int:
        op = self._flow.problem.ops[band.op]
        duration = op.row_cost * (band.end - band.first)
        most = 1 if band.op in self._flow.once else REMAT.COPIES
        self._columns.append((size, duration, most, op.scratch_bytes, self._overwritten(band), reads, band))
        return len(self._columns) - 1

    def _overwritten(self, band: Band) -> int:
        """The node with exactly the rows that those of the band may overwrite in place, or -1."""
        place = self._flow.in_place[band.op]
        if place is None:
            return -1
        below = [self._flow.row_below(band.op, y) for y in range(band.first, band.end)]
        node = None if below[0] is None else self._at.get((self._flow.taps[band.op][place].tensor, below[0]))
        return node if node is not None and list(self._rows_of[node]) == below else -1

    def _bands(self, tensor: str) -> Iterator[range]:
        rows, height = self._flow.rows[tensor], self._heights[tensor]
        return (range(first, min(first + height, rows)) for first in range(0, rows, height))

    def _write(self, tensor: str, make: Callable[[range, int], int]) -> list[int]:
        nodes = []
        for rows in self._bands(tensor):
            nodes.append(make(rows, len(rows) * self._flow.slot[tensor]))
            self._rows_of[nodes[-1]] = rows
            self._at.update(((tensor, row), nodes[-1]) for row in rows)
        return nodes

    def build(self) -> StepGraph:
        flow = self._flow
        there = [name for name, born in flow.born.items() if born < 0]
        given = {v for name in there for v in self._write(name, lambda _, size: self._add(set(), size))}
        self._start = self._add(given)
        for op in range(len(flow.problem.ops)):
            if op == 0 and flow.streamed:
                self._deliver()
            else:
                self._compute(op)
        self._end()
        sizes, durations, most, extra, reuse, reads, bands = zip(*self._columns, strict=True)
        behind = tuple(0 if b is None else flow.behind(b.op) for b in bands)
        nodes = range(len(sizes))
        inputs = tuple(tuple(sorted(each)) for each in reads)
        graph = Graph(tuple(nodes), sizes, durations, inputs, tuple(nodes))
        node_of = {(b.op, row): v for v, b in enumerate(bands) if b is not None for row in range(b.first, b.end)}
        return StepGraph(graph, Terms(most, extra, reuse, behind), bands, node_of)

    def _deliver(self) -> None:
        """Adds the rows of the inputs. Ops without inputs start after the first of them."""
        token = self._start

        def arrive(rows: range, size: int) -> int:
            nonlocal token
            node = self._add({token}, size, band=Band(0, rows.start, rows.stop))
            token = self._add({node})
            return node

        first = self._write(self._flow.writes[0], arrive)[0]
        self._start = first + 1

    def _compute(self, op: int) -> None:
        def band(rows: range, size: int) -> int:
            taps = self._flow.taps[op]
            own = self._flow.writes[op]
            read = {(tap.tensor, row) for tap in taps for y in rows for row in tap.reads[y]}
            reads = {self._at[each] for each in read if each[0] != own or each[1] not in rows}
            computed = {u for u in reads if u > self._start}
            starts = set() if computed else {self._start}
            return self._add_work(reads | starts, size, Band(op, rows.start, rows.stop))

        self._write(self._flow.writes[op], band)

    def _end(self) -> None:
        problem = self._flow.problem
        outputs = {problem.root(name) for name in problem.kept}
        kept = {node for (tensor, _), node in self._at.items() if tensor in outputs}
        read = {u for column in self._columns for u in column[5]} | kept
        unread = [v for v in range(len(self._columns)) if v not in read]
        self._add(kept | {v if self._columns[v][0] == 0 else self._add({v}) for v in unread})


def step_graph(flow: Flow, most: int) -> StepGraph:
    """The graph of a problem with about `most` bands of rows at most (more only if there are more tensors)."""
    return _Builder(flow, most).build()
