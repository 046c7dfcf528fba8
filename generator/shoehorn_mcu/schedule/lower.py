"""Graph and stages -> the planner's problem: ops become reads and writes of rows, views stay views.

Blocks that may run in bands, whole or by chunks of their inner channels (split.py), become cuts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import DType, Graph, Part, TensorType, output_rows, shared_rows
from shoehorn_mcu.planner import DELIVERY, HANDOUT, Block, Cut, Operand, OpSpec, Problem, Read, TensorSpec
from shoehorn_mcu.planner.problem import LaterCuts, aligned
from shoehorn_mcu.schedule import split
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.stage import Stage
from shoehorn_mcu.schedule.state_places import Waits, over_states

MOST_CHUNKS = 16  # of a block; the paper advises 2 to 5, for small matrices are slow


def _op(stage: Stage, over: Mapping[str, Waits] | None = None) -> OpSpec:
    output = stage.node.output
    reads = [Read(name, rows) for name, rows in stage.reads]
    waits = (over or {}).get(output.name)
    return OpSpec(
        name=stage.name,
        reads=tuple(reads if waits is None else _waiting(reads, waits)),
        writes=output.name,
        scratch_bytes=stage.scratch_bytes,
        row_cost=stage.row_cost,
        row_macs=stage.macs // output.type.rows,
        in_place=_in_place(stage),
        behind=None if (behind := stage.behind) is None else aligned(behind),
        onto=(part := stage.node.row_part) is not None and part.onto is not None,
        operands=tuple(_operands(stage)) if stage.shared and stage.node.op.pixelwise(stage.node.sig) else (),
        rows_at_once=stage.kernel.rows_at_once,
    )


def _operands(stage: Stage) -> Iterator[Operand]:
    """What the op reads of each operand that is computed, by output row."""
    for tensor, lines in zip(stage.row_inputs, zip(*stage.rows, strict=True), strict=True):
        if tensor.data is None:
            parts = stage.shared.get(tensor.name) or [Part(tensor.name, y, 0) for y in range(tensor.type.rows)]
            found = ((parts[row] for row in line if row is not None) for line in lines)
            by_row = tuple(tuple((part.tensor, part.row, part.start) for part in line) for line in found)
            yield Operand(tensor.type.rows, tensor.type.row_bytes, by_row)


def _waiting(reads: Sequence[Read], waits: Waits) -> Iterator[Read]:
    """The reads of an op, with the rows that it waits for as further ones."""
    own = {read.tensor: read.rows for read in reads}
    none = ((),) * len(waits.rows)
    for name in dict.fromkeys((*own, *(tensor for each in waits.rows for tensor, _ in each))):
        more = ((row for tensor, row in each if tensor == name) for each in waits.rows)
        both = zip(own.get(name, none), more, strict=True)
        yield Read(name, tuple(tuple(dict.fromkeys((*read, *waited))) for read, waited in both))


def _in_place(stage: Stage) -> str | None:
    """The tensor whose row the kernel may overwrite with its output row; Flow ignores it if the op reads it twice."""
    place = 0 if stage.behind is not None else stage.in_place
    if place is None or stage.row_inputs[place].data is not None:
        return None
    name = stage.row_inputs[place].name
    return None if name in stage.shared else name


def _delivery(graph: Graph) -> OpSpec:
    """The rows of the one input, as they arrive."""
    if len(graph.inputs) != 1:
        raise ShoehornError(
            f"{graph.name}: --stream-input takes models with one input, this one has {len(graph.inputs)} "
            f"({', '.join(graph.inputs)}); leave the option out"
        )
    (name,) = graph.inputs
    return OpSpec(DELIVERY, (), name)


def _handout(graph: Graph) -> OpSpec:
    """The rows of the one output, as they are handed out. Each reads the one before, so they keep their order."""
    parts = output_rows(graph)
    reads = [
        Read(name, tuple((part.row,) if part.tensor == name else () for part in parts))
        for name in dict.fromkeys(part.tensor for part in parts)
    ]
    before = Read(HANDOUT, tuple((y - 1,) if y else () for y in range(len(parts))))
    return OpSpec(HANDOUT, (*reads, before), HANDOUT, row_cost=0)


def blocks(cuts: Cuts, first: int) -> Iterator[Block]:
    """The blocks of a graph whose ops follow each other; the op of stage 0 has place `first` in the problem."""
    graph, stages = cuts.graph, cuts.stages
    place = {stage.name: i for i, stage in enumerate(stages)}
    views = {op.name: op for op in graph.ops if op.view}
    types = {name: tensor.type for name, tensor in graph.tensors.items()}
    for block in split.blocks(graph):
        inside = [views[name] for name in block.ops if name in views]
        places = [place[name] for name in block.ops if name not in views]
        followed = places == list(range(places[0], places[0] + len(places)))
        if followed and all(types[v.inputs[0]].rows == types[v.output].rows == 1 for v in inside):
            own = [stages[i] for i in places]
            counts = (*([] if inside else [1]), *[chunks for chunks in split.chunkings(block) if chunks <= MOST_CHUNKS])
            if counts:
                made = LaterCuts([partial(_cut, cuts, block, own, chunks) for chunks in counts])
                known = tuple(_row_bytes(block, own, chunks) for chunks in counts)
                yield Block(block.ops[0], first + places[0], first + places[-1], made, known)


def _cut(cuts: Cuts, block: split.Splittable, own: Sequence[Stage], chunks: int) -> Cut:
    """The block as it is, which no view may be in, or by chunks."""
    if chunks == 1:
        return Cut(1, _inner(own), tuple(map(_op, own)))
    made = cuts.cut(block, chunks)
    views = made.graph.views
    seen = tuple(_spec(name, made.graph.tensors[name].type, root) for name, root in views.items())
    ops = tuple(_on_roots(_op(stage), views) for stage in made.stages)
    return Cut(chunks, (*_inner(made.stages), *seen), ops)


def _row_bytes(block: split.Splittable, own: Sequence[Stage], chunks: int) -> tuple[int, ...]:
    """What `Block.row_bytes` says of these chunks."""
    largest = split.chunk_sizes(block.channels, chunks)[0]
    *inner, last = (stage.node.output.type for stage in own)
    sums = () if chunks == 1 else (last.row_elements * DType.INT32.bytes,)
    return (*(type_.row_bytes * largest // block.channels for type_ in inner), *sums)


def _on_roots(op: OpSpec, views: Mapping[str, str]) -> OpSpec:
    """The op with reads of what is viewed, which has the same one row."""
    return replace(op, reads=tuple(replace(read, tensor=views.get(read.tensor, read.tensor)) for read in op.reads))


def _inner(parts: Sequence[Stage]) -> tuple[TensorSpec, ...]:
    """The tensors between the ops of a block."""
    types: Mapping[str, TensorType] = {part.node.output.name: part.node.output.type for part in parts[:-1]}
    return tuple(_spec(name, type_) for name, type_ in types.items())


def _spec(
    name: str, type_: TensorType, view_of: str | None = None, over: str | None = None, turns: bool = False
) -> TensorSpec:
    return TensorSpec(name, type_.rows, type_.row_bytes, view_of, over, turns)


def lower(
    graph: Graph,
    stages: Sequence[Stage],
    capacity_bytes: int | None,
    stream_input: bool = False,
    cuts: Cuts | None = None,
    stream_output: bool = False,
    copied: Collection[str] = (),
) -> Problem:
    """The problem of placing everything that an inference writes; constants stay in flash and take no part.

    With `stream_input` the input arrives by rows, with `stream_output` the output is handed out by rows: one more op
    reads them, whose own rows have no bytes. Raises ShoehornError where there are several inputs. Blocks are offered
    only with `cuts`, those of this graph and these stages, which then knows each choice of the problem.

    A state is an input and an output: its bytes are its own in the whole inference. Its next value is written over it
    (state_places.py), or has bytes of its own to the end, where it is copied, as those that are `copied` are in any
    case. Of a ring that are the new rows, over those that they replace.
    """
    deliveries = (_delivery(graph),) if stream_input else ()
    offered = tuple(blocks(cuts, len(deliveries))) if cuts is not None else ()
    banded = {stages[i - len(deliveries)].name for block in offered for i in range(block.first, block.last + 1)}
    # An inference whose rows arrive one by one may be abandoned, and must leave the states as they were.
    found = {} if stream_input else over_states(graph, stages, banded)
    over = {name: waits for name, waits in found.items() if name not in copied}
    handouts = (_handout(graph),) if stream_output else ()
    ops = (*deliveries, *(_op(stage, over) for stage in stages), *handouts)
    results = (HANDOUT, *(state.write for state in graph.states)) if stream_output else graph.results
    moved = (state.read for state in graph.states if state.write not in over)
    return Problem(
        tensors=(*_specs(graph, ops, over), *(TensorSpec(op.writes, len(op.reads[0].rows), 0) for op in handouts)),
        ops=ops,
        inputs=tuple(state.read for state in graph.states) if stream_input else graph.sources,
        outputs=tuple(dict.fromkeys((*results, *moved))),
        capacity_bytes=capacity_bytes,
        blocks=offered,
    )


def _specs(graph: Graph, ops: Sequence[OpSpec], over: Mapping[str, Waits]) -> list[TensorSpec]:
    """The tensors that have bytes; `over`: states whose next values are written over them."""
    views = graph.views
    for name in (*views.values(), *graph.results):
        if graph.tensors[name].data is not None:
            raise ShoehornError(
                f"{graph.name}: '{name}' is a constant that is reshaped or a model output; no op computes it"
            )
    rings = [state for state in graph.states if graph.is_ring(state)]
    turning = {*(s.read for s in rings), *(s.write for s in rings if s.write in over)}
    return [
        _spec(n, graph.tensors[n].type, views.get(n), over[n].state.read if n in over else None, n in turning)
        for n in _live(graph, ops)
    ]


def _live(graph: Graph, ops: Sequence[OpSpec]) -> Iterable[str]:
    """The tensors that an inference reads or writes, but for constants and those whose rows are parts of others'."""
    shared = shared_rows(graph)
    names = [*graph.sources, *(name for op in graph.ops for name in (*op.inputs[:1], op.output))]
    own = [name for name in names if graph.tensors[name].data is None and name not in shared]
    return dict.fromkeys((*own, *(read.tensor for op in ops for read in op.reads if read.tensor != HANDOUT)))
