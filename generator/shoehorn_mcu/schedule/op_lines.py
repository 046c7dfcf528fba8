"""The ops of a plan as lines of a table; all chunks of an op share one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.planner.memory_plan import Cascade, Plan
from shoehorn_mcu.schedule.predict import by_op, unit_of
from shoehorn_mcu.schedule.stage import Stage


@dataclass(frozen=True)
class OpLine:
    """An op, or all chunks of one together."""

    name: str
    stages: tuple[Stage, ...]
    time: float  # predicted, of one inference, in predict.unit_of the stages

    @property
    def macs(self) -> int:
        """Multiply-accumulates with nothing recomputed."""
        return sum(stage.macs for stage in self.stages)

    @property
    def weight_bytes(self) -> int:
        return sum(stage.weight_bytes for stage in self.stages)

    @property
    def kernel(self) -> str:
        return self.stages[-1].kernel.name

    @property
    def output(self) -> str:
        """Type and shape of the output."""
        return str(self.stages[-1].node.output.type)


def op_lines(plan: Plan, stages: Sequence[Stage]) -> list[OpLine]:
    """The ops in order."""
    names = dict(pair for cascade in plan.cascades for pair in _chunk_names(cascade))
    timed = zip(stages, by_op(plan, stages, unit_of(stages)), strict=True)
    groups = by_key((names.get(stage.name, stage.name), (stage, time)) for stage, time in timed)
    return [OpLine(name, tuple(s for s, _ in group), sum(n for _, n in group)) for name, group in groups.items()]


def _chunk_names(cascade: Cascade) -> Iterator[tuple[str, str]]:
    """(op, common name of its chunks) for each op of a block that is cut into chunks."""
    if cascade.chunks > 1:
        for op in cascade.ops[:-1]:
            yield op, f"{op.rpartition('/')[0]} x{cascade.chunks}"
