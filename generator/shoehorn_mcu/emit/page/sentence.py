"""What a plan does, in one sentence for the top of the page and for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shoehorn_mcu.emit.page.picture import Picture
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.planner.memory_plan import Step
from shoehorn_mcu.schedule.op_lines import OpLine, op_lines
from shoehorn_mcu.schedule.predict import rows_and_steps


def sentence(unit: Unit, seen: Picture) -> str:
    """How many layers run row by row, what is cut or computed twice, and which layer the peak is at.

    A layer is a line of the table of operators. It runs row by row if the plan computes it in several steps, between
    which other layers run. "" without layers.
    """
    lines = op_lines(unit.plan, unit.stages)
    if not lines:
        return ""
    found = [_kinds(unit, lines), *_blocks(unit), *_again(unit), _peak(unit, seen, lines)]
    return "; ".join(filter(None, found))


def _kinds(unit: Unit, lines: Sequence[OpLine]) -> str:
    steps = Counter(step.op for step in unit.plan.steps if step.computes)
    count = len(lines)
    by_rows = sum(any(steps[stage.name] > 1 for stage in line.stages) for line in lines)
    if count == 1:
        return f"the only layer runs {'row by row' if by_rows else 'whole'}"
    if by_rows in (0, count):
        return f"all {count} layers run {'row by row' if by_rows else 'whole, one after the other'}"
    return f"{by_rows} of {count} layers {'run' if by_rows > 1 else 'runs'} row by row, the others whole"


def _blocks(unit: Unit) -> Sequence[str]:
    cut = sum(cascade.chunks > 1 for cascade in unit.plan.cascades)
    return [f"{cut} {'block runs' if cut == 1 else 'blocks run'} by chunks of channels"] if cut else []


def _again(unit: Unit) -> Sequence[str]:
    rows, _ = rows_and_steps(unit.plan)
    again = sum(rows[stage.name] > stage.node.output.type.rows for stage in unit.stages)
    return [f"rows of {again} {'operator' if again == 1 else 'operators'} are computed again"] if again else []


def _peak(unit: Unit, seen: Picture, lines: Sequence[OpLine]) -> str:
    at = _step(unit.plan.steps, seen.peak_event)
    if at is None:
        return ""
    place = next((n for n, line in enumerate(lines, 1) if any(stage.name == at.op for stage in line.stages)), 0)
    where = f"layer {place} ({lines[place - 1].name})" if place else "a row of the streamed input or output"
    return f"the peak is {where}"


def _step(steps: Sequence[Step], event: int) -> Step | None:
    """The step that an event, which is a row, is in."""
    for step in steps:
        event -= step.rows[1] - step.rows[0]
        if event < 0:
            return step
    return None
