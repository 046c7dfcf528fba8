"""Instructions of inferences that several cores share, by the plugin in board/plugin.

With -icount QEMU runs one core after the other, and its clock counts the instructions of all, so the clock says nothing
about cores that work at the same time. The plugin counts each core by itself, without waiting, and writes a line when
one enters a function of MARKED. `step` computes from these how long a step takes on cores that do run at the same time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from shoehorn_mcu_host.board import cycles
from shoehorn_mcu_host.board.cycles import BEGIN, END, TICKS, Meter, NoMeter
from shoehorn_mcu_host.folder.project import Project

MARKED = (*cycles.MARKED, "sh_board_wake", "sh_board_wait")
WAKE, WAIT = 3, 4

Busy = tuple[int, ...]
"""By core: instructions executed since the start."""


@dataclass(frozen=True)
class Mark:
    """Core `core` entered function `place` of MARKED."""

    place: int
    core: int
    busy: Busy


class CoreMeter:
    """The counts of one emulator, which is started with `arguments`."""

    def __init__(self, arguments: Sequence[str], path: Path) -> None:
        self.arguments = tuple(arguments)
        self.reason = ""
        self._log = cycles.Log(path)

    def take(self) -> list[Mark]:
        """The marks since the last call."""
        return [Mark(place, core, tuple(busy)) for place, core, *busy in self._log.take()]


@contextmanager
def metered(project: Project, emulated: bool, cores: int) -> Iterator[Meter | CoreMeter | NoMeter]:
    """A meter for one emulator of the built project, whose inferences so many cores share, or why there is none.

    Of one core it counts cycles. HostError: the image is damaged.
    """
    if cores == 1:
        with cycles.metered(project, emulated) as meter:
            yield meter
        return
    reason = cycles.cannot_load(project, cores) if emulated else ""
    if not emulated or reason:
        yield NoMeter(reason)
        return
    with tempfile.TemporaryDirectory(prefix="shoehorn-") as folder:
        path = Path(folder) / "cores"
        path.touch()
        yield CoreMeter(cycles.arguments(project, {"processors": cores, "out": path}, MARKED), path)


def slowest(marks: Sequence[Mark], parts: int) -> int:
    """An inference that was not traced, in instructions: each step on its cores, and core 0 between the steps.

    The firmware read its clock before and after each of the last `parts` parts. ValueError where there are fewer.
    """
    clock = [i for i, mark in enumerate(marks) if mark.place == TICKS]
    total = 0
    for first, last in cycles.last_pairs(clock, parts):
        total += _alone(marks[first], marks[last])
        for begin, end in _steps(marks[first:last]):
            total += step(marks[first + begin : first + end + 1]) - _alone(marks[first + begin], marks[first + end])
    return total


def by_core(marks: Sequence[Mark], parts: int) -> Busy:
    """Such an inference: the instructions of each core."""
    clock = [mark.busy for mark in marks if mark.place == TICKS]
    spent = [[b - a for a, b in zip(*pair, strict=True)] for pair in cycles.last_pairs(clock, parts)]
    return tuple(map(sum, zip(*spent, strict=True)))


def slowest_by_op(marks: Sequence[Mark], steps: Sequence[int], ops: int) -> list[int]:
    """Each op of an inference whose time per op was traced, in instructions of its steps on their cores.

    `steps` are the numbers of the ops in the order of steps. ValueError where there are fewer hooks than steps.
    """
    inside = _steps(marks)
    if len(inside) < len(steps):
        raise ValueError(f"{len(inside)} steps, not {len(steps)}")
    found = [0] * ops
    for op, (begin, end) in zip(steps, inside[len(inside) - len(steps) :], strict=True):
        found[op] += step(marks[begin + 1 : end + 1])  # from the reading of the clock on
    return found


def step(marks: Sequence[Mark]) -> int:
    """The instructions of a step, from the first to the last of its marks, both of core 0.

    The others begin when core 0 has announced the step. If one of them is the last, core 0 goes on when that one has
    finished: as many instructions later as core 0 executed after it looked in vain for the last time.
    """
    first, last = marks[0], marks[-1]
    own = _alone(first, last)
    woken = [mark for mark in marks if mark.place == WAKE]
    others = [mark.busy[mark.core] - first.busy[mark.core] for mark in woken if mark.core]
    waits = [mark for mark in marks if (mark.place, mark.core) == (WAIT, 0)]
    if not others or not waits:
        return own
    announced = next(mark for mark in woken if mark.core == 0)
    return max(own, _alone(first, announced) + max(others) + _alone(waits[-1], last))


def _alone(first: Mark, last: Mark) -> int:
    """The instructions of core 0 between two marks."""
    return last.busy[0] - first.busy[0]


def _steps(marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """The places of each step's first and last mark."""
    hooks = [i for i, mark in enumerate(marks) if mark.place in (BEGIN, END)]
    return [(a, b) for a, b in pairwise(hooks) if (marks[a].place, marks[b].place) == (BEGIN, END)]
