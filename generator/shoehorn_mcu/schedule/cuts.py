"""Blocks of a graph in chunks of channels: each choice is cut once, and gets its kernels once.

The planner's problem has all choices; the emitted graph has those that the plan chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.passes.insert_slices import with_copies
from shoehorn_mcu.passes.sample_columns import with_samples
from shoehorn_mcu.planner.memory_plan import Cascade
from shoehorn_mcu.schedule import split
from shoehorn_mcu.schedule.stage import Stage, computes, nearer, sharing, stages_like


@dataclass(frozen=True, eq=False)
class Chunked:
    """A block in chunks: a graph of its ops alone, with their stages."""

    chunks: split.Chunks
    graph: Graph
    stages: tuple[Stage, ...]


_Parts = dict[tuple[str, int], tuple[split.Chunks, Graph]]
"""The blocks of a graph that were cut, with graphs of their ops alone: the same whichever kernels run them."""


class Cuts:
    """Choices for one graph, whose stages are `stages`. Each is made on first use."""

    def __init__(self, graph: Graph, stages: Sequence[Stage], parts: _Parts | None = None) -> None:
        self.graph, self.stages = graph, tuple(stages)
        self._parts: _Parts = {} if parts is None else parts
        self._found: dict[tuple[str, int], Chunked] = {}
        self._chosen: dict[tuple[tuple[str, int], ...], tuple[Graph, tuple[Stage, ...]]] = {(): (graph, self.stages)}

    @cached_property
    def nearer(self) -> Cuts | None:
        """The same graph with kernels that write nearer to the rows that they read; None if it has no such kernels."""
        stages = nearer(self.stages)
        return None if stages is None else Cuts(self.graph, stages, self._parts)

    @property
    def smaller(self) -> Iterator[Cuts]:
        """The graph in other forms, whose plans may be smaller: with nearer kernels, with copies, or with both."""
        for each in (self, self.copying, self.sampling):
            if each is not None:
                yield from (form for form in (each, each.nearer) if form is not None and form is not self)

    @cached_property
    def copying(self) -> Cuts | None:
        """The same graph with insert-slices undone; None if the pass changed nothing."""
        return self._of(with_copies(self.graph))

    @cached_property
    def sampling(self) -> Cuts | None:
        """The same graph with copies of the pixels that strided convolutions read; None if it has no such op."""
        return self._of(with_samples(self.graph))

    def _of(self, graph: Graph | None) -> Cuts | None:
        return None if graph is None else Cuts(graph, stages_like(self.stages[0], graph))

    def cut(self, block: split.Splittable, chunks: int) -> Chunked:
        """A block of the graph in 1 < chunks <= block.channels chunks."""
        key = block.ops[0], chunks
        if key not in self._found:
            self._found[key] = self._cut(block, chunks)
        return self._found[key]

    def _cut(self, block: split.Splittable, chunks: int) -> Chunked:
        own = [stage for stage in self.stages if stage.name in block.ops]
        key = block.ops[0], chunks
        if key not in self._parts:
            self._parts[key] = self._part(block, chunks, own)
        cut, graph = self._parts[key]
        return Chunked(cut, graph, tuple(sharing(stage, own[0].shared) for stage in stages_like(own[0], graph)))

    def _part(self, block: split.Splittable, chunks: int, own: Sequence[Stage]) -> tuple[split.Chunks, Graph]:
        """The block in chunks, and a graph of its ops alone."""
        cut = split.cut(self.graph, block, chunks)
        alone = replace(
            self.graph,
            ops=tuple(op for op in self.graph.ops if op.name in block.ops),
            inputs=tuple(tensor.name for tensor in own[0].row_inputs),
            outputs=(own[-1].node.output.name,),
            states=(),
        )
        return cut, split.with_chunks(alone, [cut])

    def chosen(self, cascades: Iterable[Cascade]) -> tuple[Graph, tuple[Stage, ...]]:
        """The graph with the blocks of a plan in their chunks, and its stages; where no block is cut, those given.

        The plan is one of a problem that was lowered with these cuts.
        """
        keys = tuple((each.block, each.chunks) for each in cascades if each.chunks > 1)
        if keys not in self._chosen:
            self._chosen[keys] = self._joined([self._found[key] for key in keys])
        return self._chosen[keys]

    def _joined(self, cuts: Sequence[Chunked]) -> tuple[Graph, tuple[Stage, ...]]:
        """The whole graph with these cuts. Each op keeps the kernel that it has in `stages`, or in its cut."""
        graph = split.with_chunks(self.graph, [cut.chunks for cut in cuts])
        known = {stage.name: stage for stages in (self.stages, *(cut.stages for cut in cuts)) for stage in stages}
        nodes = [node for node in graph.nodes() if computes(node)]
        return graph, tuple(replace(known[node.op.name], index=i, node=node) for i, node in enumerate(nodes))
