"""A pool over all rows of a window by a sum that is kept from step to step: new rows are added, others subtracted.

    >   y = AveragePool2d(x: 1x25x5x64) kernel 25x5
    <   state s: int32, 1x1x1x64; n, l, e = the sums of the new, the leaving and the other rows of x
        y = Average(s + n + e); next s = s + n - l

Integers, so every sum is exact, whatever was added and subtracted before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Array, DType, Node, Op, State, TensorType
from shoehorn_mcu.ir.edit import Draft
from shoehorn_mcu.ops import Map, Slice
from shoehorn_mcu.passes.sum_rows import pool_end, pool_of

_PLUS = "int32 int32 : add int32 0 1"
_PLUS_PLUS = "int32 int32 int32 : add int32 0 1 ; add int32 3 2"
_PLUS_MINUS = "int32 int32 int32 : add int32 0 1 ; sub int32 3 2"


class SummedPool:
    """The ops of such a pool; `emit` adds an op, and gives what it writes."""

    def __init__(self, draft: Draft, node: Node, emit: Callable[[Op], str]) -> None:
        pool = pool_of(node)
        assert pool is not None
        self._draft, self._node, self._pool, self._emit = draft, node, pool, emit
        self._kind = TensorType((1, 1, *pool.infer((node.x.type,))[2:]), DType.INT32)

    def made(self, parts: Mapping[str, str], rest: Array) -> tuple[str, State]:
        """What the pool writes, as an image, and the state of the sum.

        `parts`: the tensors of the "new", the "leaving" and, where there are any, the "edges" rows. `rest`: the rows
        whose sum is kept, as they are at rest.
        """
        name, output = self._node.output.name, self._node.output
        kept = self._draft.tensor(f"{name}_sum", self._kind)
        sums = {part: self._sum(rows, f"{name}_{part}") for part, rows in parts.items()}
        edges = [sums["edges"]] if "edges" in sums else []
        total = self._map(_PLUS_PLUS if edges else _PLUS, (kept, sums["new"], *edges), f"{name}_total")
        write = self._map(_PLUS_MINUS, (kept, sums["new"], sums["leaving"]), f"{name}_next")
        first = self._draft.tensor(f"{name}_sum_at_rest", self._kind, self._first(rest))
        kind = replace(output.type, shape=self._kind.shape)
        made = self._draft.tensor(name if kind == output.type else f"{name}_4d", kind)
        end = pool_end(self._draft, self._node, self._pool, total, made, window=1)
        return self._emit(end), State(kept, write, first)

    def _first(self, rest: Array) -> Array:
        """The sum of these rows, with what sums of the pool begin with."""
        (_, wide), (_, stride) = self._pool.kernel, self._pool.stride
        columns = rest.astype(np.int64).sum(axis=1, keepdims=True)
        starts = range(0, stride * self._kind.shape[2], stride)
        sums = [columns[:, :, at : at + wide].sum(axis=2, keepdims=True) for at in starts]
        return (np.concatenate(sums, axis=2) + self._pool.start).astype(np.int32)

    def _sum(self, rows: str, name: str) -> str:
        """The sum of all rows of a tensor."""
        count = self._draft.tensors[rows].type.rows
        kernel, stride = ((count, each[1]) for each in (self._pool.kernel, self._pool.stride))
        shape = (1, count, *self._kind.shape[2:])
        sums = self._draft.tensor(f"{name}_sums", replace(self._kind, shape=shape))
        self._emit(replace(self._pool, name=sums, inputs=(rows,), output=sums, kernel=kernel, stride=stride, start=0))
        if count == 1:
            return sums
        last = self._draft.tensor(f"{name}_last", self._kind)
        begin, step = (0, count - 1, 0, 0), (1, 1, 1, 1)
        return self._emit(Slice(name=last, inputs=(sums,), output=last, begin=begin, size=self._kind.shape, step=step))

    def _map(self, formula: str, inputs: Sequence[str], name: str) -> str:
        out = self._draft.tensor(name, self._kind)
        return self._emit(Map(name=out, inputs=tuple(inputs), output=out, formula=formula))
