"""Random problems of the planner: windows, pools, residuals, views, streamed inputs, and blocks with their cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import strategies as st

from shoehorn_mcu.planner import DELIVERY, Block, Cut, OpSpec, Problem, Read, TensorSpec

MACS = 60  # divides by every number of chunks below
MOST_CHUNKS = 5


def window(tensor: str, rows: int, kernel: int, stride: int = 1, dilation: int = 1, before: int = 0) -> Read:
    """Output row y reads rows y * stride - before + i * dilation, as far as they are there; as much padding behind."""
    height = max(1, (rows + 2 * before - dilation * (kernel - 1) - 1) // stride + 1)
    taps = [[y * stride - before + i * dilation for i in range(kernel)] for y in range(height)]
    return Read(tensor, tuple(tuple(r for r in row if 0 <= r < rows) for row in taps))


def same(tensor: str, rows: int) -> Read:
    """Output row y reads row y."""
    return Read(tensor, tuple((y,) for y in range(rows)))


@dataclass
class Net:
    """A problem in the making: each method adds ops on top of a tensor and gives the name of what they write."""

    chance: Random
    most_rows: int = 9
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    ops: list[OpSpec] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def tensor(self, rows: int, row_bytes: int, view_of: str | None = None) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = TensorSpec(name, rows, row_bytes, view_of)
        return name

    def op(self, reads: Sequence[Read], row_bytes: int, in_place: str | None = None, behind: int | None = None) -> str:
        pick = self.chance
        output = self.tensor(len(reads[0].rows), row_bytes)
        name, cost, macs = f"op{len(self.ops)}", pick.randint(1, 50), MACS * pick.randint(0, 3)
        self.ops.append(OpSpec(name, tuple(reads), output, pick.choice((0, 0, 0, 7, 24)), cost, macs, in_place))
        self.ops[-1] = replace(self.ops[-1], behind=behind)
        return output

    def window(self, x: str, kernels: Sequence[int] = (1, 1, 2, 3, 3, 5, 7)) -> Read:
        """A random window over x: padded by up to half of it, or one that skips rows."""
        pick, rows = self.chance, self.tensors[x].rows
        kernel, stride, dilation = pick.choice(kernels), pick.choice((1, 1, 1, 1, 2, 3)), pick.choice((1, 1, 2))
        before = pick.choice((0, 1, 1, 1)) * (dilation * (kernel - 1) // 2)
        while dilation * (kernel - 1) >= rows + 2 * before:
            kernel, before = 1, 0
        return window(x, rows, kernel, stride, dilation, before)

    def convolution(self, x: str) -> str:
        """It may overlap the rows of x by all but a few bytes, unless its own are longer."""
        window, row_bytes = self.window(x), self.chance.randint(1, 24)
        behind = Random(f"{len(self.ops)} {row_bytes}").choice((None, 0, 4, 8))
        if behind is None or row_bytes > self.tensors[x].row_bytes:
            return self.op((window,), row_bytes)
        return self.op((window,), row_bytes, x, behind)

    def pool(self, x: str) -> str:
        """One row of all rows."""
        return self.op((Read(x, (tuple(range(self.tensors[x].rows)),)),), self.tensors[x].row_bytes)

    def gate(self, x: str) -> str:
        """x times a row made of all of x."""
        g, rows = self.pool(x), self.tensors[x].rows
        return self.op((same(x, rows), Read(g, ((0,),) * rows)), self.tensors[x].row_bytes, x)

    def residual(self, x: str) -> str:
        """x and an earlier tensor of as many rows, one of which may be overwritten."""
        hidden = self.hidden()
        mates = [t.name for t in self.tensors.values() if t.rows == self.tensors[x].rows and t.name not in hidden]
        pair = (x, self.chance.choice(mates))
        row_bytes = self.chance.choice((self.tensors[x].row_bytes, self.chance.randint(1, 24)))
        wide = [name for name in pair if self.tensors[name].row_bytes >= row_bytes]
        over = self.chance.choice((None, *wide)) if pair[0] != pair[1] else None
        return self.op([same(name, self.tensors[name].rows) for name in pair], row_bytes, over)

    def view(self, x: str) -> str:
        """The same bytes in other rows."""
        size = self.tensors[x].bytes
        rows = self.chance.choice([n for n in range(1, self.most_rows + 1) if size % n == 0])
        return self.tensor(rows, size // rows, x)

    def block(self, x: str) -> str:
        """A, one or two N, and B, wide inside; now and then with a pool for N, and a view of what it gives."""
        pick, first, wide = self.chance, len(self.ops), self.chance.randint(4, 40)
        y, viewed = self.op((self.window(x, (1, 1, 1, 3)),), wide), False
        for _ in range(pick.choice((1, 1, 2))):
            if pick.random() < 0.15:
                y = self.pool(y)
            elif pick.random() < 0.3:
                size = self.tensors[y].row_bytes
                narrow = pick.choice((size, size, pick.randint(1, size)))  # what overwrites a row is no longer
                y = self.op((same(y, self.tensors[y].rows),), narrow, y)
            else:
                y = self.op((self.window(y),), wide)
        if self.tensors[y].rows == 1 and pick.random() < 0.3:
            y, viewed = self.tensor(1, self.tensors[y].row_bytes, y), True
        y = self.op((self.window(y, (1, 1, 1, 1, 3)),), pick.randint(1, 16))
        made = Block(f"op{first}", first, len(self.ops) - 1, self._cuts(first, viewed))
        self.blocks.append(made)
        return y

    def _cuts(self, first: int, viewed: bool) -> tuple[Cut, ...]:
        """As it is, unless a view is in it, and in some numbers of chunks."""
        ops = tuple(self.ops[first:])
        numbers = self.chance.sample(range(2, MOST_CHUNKS + 1), self.chance.randint(1, 2))
        plain = [] if viewed else [Cut(1, tuple(self.tensors[op.writes] for op in ops[:-1]), ops)]
        return (*plain, *(self._chunked(ops, chunks) for chunks in sorted(numbers)))

    def _chunked(self, ops: Sequence[OpSpec], chunks: int) -> Cut:
        """As schedule/split.py does it: int32 sums of B's row size times four, each added to in place."""
        out = self.tensors[ops[-1].writes]
        inside = {op.writes for op in ops}
        roots = {t.name: t.view_of for t in self.tensors.values() if t.view_of in inside}
        inner, made, total = [], [], ""
        for i in range(1, chunks + 1):
            end = f"/{i}of{chunks}"
            names = {op.writes: op.writes + end for op in ops}
            for op in ops:
                reads = [replace(r, tensor=roots.get(r.tensor, r.tensor)) for r in op.reads]
                reads = [replace(r, tensor=names.get(r.tensor, r.tensor)) for r in reads]
                over, row_bytes = op.in_place and names[op.in_place], 4 * out.row_bytes
                if op is not ops[-1]:
                    row_bytes = -(-self.tensors[op.writes].row_bytes // chunks)
                elif total:
                    reads.append(same(total, out.rows))
                    over = total
                rows = self.tensors[op.writes].rows
                inner.append(TensorSpec(names[op.writes], rows, row_bytes))
                inner += [TensorSpec(v + end, 1, row_bytes, names[r]) for v, r in roots.items() if r == op.writes]
                cost, macs = op.row_cost // chunks + 2, op.row_macs // chunks
                made.append(replace(op, name=op.name + end, reads=tuple(reads), writes=names[op.writes]))
                made[-1] = replace(made[-1], row_cost=cost, row_macs=macs, in_place=over)
            total = names[out.name]
        made.append(OpSpec(ops[-1].name, (same(total, out.rows),), out.name, 0, 3, 0, total))
        return Cut(chunks, tuple(inner), tuple(made))

    def hidden(self) -> set[str]:
        """What the ops of blocks hand on to each other; nobody else may read it."""
        inner = {op.writes for b in self.blocks for op in self.ops[b.first : b.last]}
        return inner | {t.name for t in self.tensors.values() if t.view_of in inner}

    def problem(self, streamed: bool) -> Problem:
        """Every tensor that no op reads is an output, and sometimes one that is read."""
        read = {r.tensor for op in self.ops for r in op.reads} | {t.view_of for t in self.tensors.values()}
        hidden = self.hidden()
        free = [name for name in self.tensors if name not in hidden]
        ends = {name: None for name in free if name not in read}
        if self.chance.random() < 0.2:
            ends[self.chance.choice(free)] = None
        ops, inputs, blocks = tuple(self.ops), ("t0",), tuple(self.blocks)
        if streamed:
            ops, inputs = (OpSpec(DELIVERY, (), "t0"), *ops), ()
            blocks = tuple(replace(b, first=b.first + 1, last=b.last + 1) for b in blocks)
        return Problem(tuple(self.tensors.values()), ops, inputs, tuple(ends), None, blocks)


_PLAIN = ("convolution", "convolution", "residual", "residual", "view", "gate", "pool")


def random_problem(chance: Random, most_ops: int, most_blocks: int = 0, most_rows: int = 9) -> Problem:
    """At least one op; blocks as many as `most_blocks` at the most. A block's inner tensors have no other reader."""
    net = Net(chance, most_rows)
    ready = [net.tensor(max(chance.randint(1, most_rows) for _ in range(2)), chance.randint(1, 24))]
    blocks = chance.randint(min(1, most_blocks), most_blocks)
    while len(net.ops) < most_ops:
        x = ready[-1] if chance.random() < 0.75 else chance.choice(ready)
        room = len(net.ops) + 4 <= most_ops
        if blocks > len(net.blocks) and room and chance.random() < 0.6:
            ready.append(net.block(x))
        elif net.ops and chance.random() < 0.15:
            break
        else:
            ready.append(getattr(net, chance.choice(_PLAIN))(x))
            if blocks > len(net.blocks) and not room:
                break
    if not net.ops:
        net.convolution("t0")
    return net.problem(streamed=chance.random() < 0.4)


def chances() -> st.SearchStrategy[Random]:
    """What draws: ordinary chance, for problems of all kinds, and hypothesis, which makes failures smaller."""
    return st.one_of(st.integers(0, 2**32).map(Random), st.randoms(use_true_random=False))


@st.composite
def problems(draw: st.DrawFn, most_ops: int = 8, most_blocks: int = 0, most_rows: int = 9) -> Problem:
    return random_problem(draw(chances()), most_ops, most_blocks, most_rows)
