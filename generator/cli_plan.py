"""What `gen firmware` and `gen plan` print of a plan: its ops and blocks as tables, then what it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoehorn_mcu import targets
from shoehorn_mcu.build import Planned
from shoehorn_mcu.console import GAP, out, print_table
from shoehorn_mcu.memory_plan import Cascade
from shoehorn_mcu.predict import by_op, ruler
from shoehorn_mcu.stage import Stage

MOST_OPS = 30  # of a table; of more, the dearest are shown
_SHOWN = 20
_HEAD = ("op", "kernel", "MACs", "weights", "output")
_KERNEL = 1  # the column that gives way on a narrow terminal
_LEAST = 8  # characters of it


@dataclass(frozen=True)
class _Line:
    """An op, or the chunks of one."""

    name: str
    stages: tuple[Stage, ...]
    instructions: float

    @property
    def macs(self) -> int:
        return sum(stage.macs for stage in self.stages)

    @property
    def weight_bytes(self) -> int:
        return sum(stage.weight_bytes for stage in self.stages)

    @property
    def cells(self) -> tuple[str, ...]:
        last = self.stages[-1]
        return self.name, last.kernel.name, f"{self.macs:,}", f"{self.weight_bytes:,}", str(last.node.output.type)


def _lines(planned: Planned) -> list[_Line]:
    """The ops in order, all chunks of one together."""
    plan, stages = planned.unit.plan, planned.unit.stages
    names = dict(pair for cascade in plan.cascades for pair in _chunk_names(cascade))
    groups: dict[str, list[tuple[Stage, float]]] = {}
    for stage, instructions in zip(stages, by_op(plan, stages), strict=True):
        groups.setdefault(names.get(stage.name, stage.name), []).append((stage, instructions))
    return [_Line(name, tuple(s for s, _ in group), sum(n for _, n in group)) for name, group in groups.items()]


def _chunk_names(cascade: Cascade) -> Iterator[tuple[str, str]]:
    """(Op, what all its chunks are called), of a block that is cut."""
    if cascade.chunks > 1:
        for op in cascade.ops[:-1]:
            yield op, f"{op.rpartition('/')[0]} x{cascade.chunks}"


def _print_ops(planned: Planned, title: str) -> None:
    """All ops, or of very many the dearest and what the others are together."""
    lines = _lines(planned)
    dearest = set(sorted(range(len(lines)), key=lambda i: -lines[i].instructions)[:_SHOWN])
    shown = [line for i, line in enumerate(lines) if len(lines) <= MOST_OPS or i in dearest]
    cells = list(_fitting([line.cells for line in shown], out.width))
    print_table(_HEAD, cells, title=title, right=(2, 3), fold=_KERNEL)
    if len(shown) < len(lines):
        share = 100 * sum(line.instructions for line in shown) / max(1.0, sum(line.instructions for line in lines))
        out.print(f"the {len(shown)} dearest of {len(lines)} ops, {share:.0f} % of the predicted time; --json has all")


def _fitting(rows: Sequence[Sequence[str]], width: int) -> Iterator[Sequence[str]]:
    """The rows, with kernels' names cut where the table would be wider than this."""
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    room = widths[_KERNEL] - max(0, sum(widths) + GAP * (len(_HEAD) - 1) - width)
    for row in rows:
        name = row[_KERNEL]
        short = name if len(name) <= room or room < _LEAST else f"{name[: room - 1]}…"
        yield [*row[:_KERNEL], short, *row[_KERNEL + 1 :]]


def _print_blocks(cascades: Sequence[Cascade]) -> None:
    """The blocks that run in bands."""
    if cascades:
        rows = [(c.block, str(c.chunks), str(c.band)) for c in cascades]
        print_table(("block", "chunks of channels", "rows a band"), rows, right=(1, 2), fold=0)


def print_plan(planned: Planned, board: targets.Board | None) -> None:
    """The tables, then what the plan takes."""
    plan = planned.unit.plan
    _print_ops(planned, f"{planned.unit.name} on {board.name}" if board else planned.unit.name)
    _print_blocks(plan.cascades)
    bound, whole = plan.outcome.bound_bytes, plan.outcome.whole_tensor_bytes
    proof = "no such plan takes less" if plan.arena_bytes == bound else f"lower bound {bound:,}"
    kind = "whole tensors" if plan.arena_bytes == whole else f"by rows; whole tensors take {whole:,}"
    out.print(f"arena {plan.arena_bytes:,} bytes ({kind}; {proof}), constants {planned.constants.bytes:,} bytes")
    figures: dict[str, int] = dict(planned.report["plan"])  # type: ignore[call-overload]
    again, macs = figures["recomputed_macs"], figures["macs"]
    share = f", {100 * again / max(1, macs - again):.1f} % of the MACs computed again" if again else ""
    out.print(f"{len(plan.steps):,} steps{share}; {plan.outcome.reason}")
    time, basis = figures["predicted_instructions"], ruler(planned.unit.stages)
    out.print(f"predicted: {time:,} instructions per inference, from the {basis}", soft_wrap=not out.is_terminal)
