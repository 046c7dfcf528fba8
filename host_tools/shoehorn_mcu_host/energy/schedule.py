"""The marks that a board was asked for, in the order in which it makes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pydantic

from shoehorn_mcu_host.base.errors import FolderDamaged, HostError
from shoehorn_mcu_host.base.files import read_bytes
from shoehorn_mcu_host.base.manifest import faults
from shoehorn_mcu_host.board.link import Link, Mode
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.folder.vectors import Vector

LONG_SECONDS = 0.01  # of a mark: 1,000 samples of an instrument that takes 100,000 a second
_MOST_REPEATS = 1_000_000
_LOOKS = 3  # inferences that say how long each op takes
_LIMIT = 16 << 20  # bytes of the file

_Count = Annotated[int, pydantic.Field(ge=0, lt=2**31)]
_Positive = Annotated[int, pydantic.Field(ge=1, lt=2**31)]


class Phase(pydantic.BaseModel):
    """Inferences that mark the same thing: an op by its number, or as a whole."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    op: _Count | None
    repeats: _Positive  # of what is inside a mark
    runs: _Positive
    marks: _Positive  # of each run: steps of the op, or pushes of a streamed input

    @property
    def expected(self) -> int:
        """All marks of the phase."""
        return self.runs * self.marks


class Schedule(pydantic.BaseModel):
    """All phases. Saved beside the folder's other files, it lets another instrument's recording be read later."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    identity: Annotated[str, pydantic.Field(max_length=100)]  # of the plan
    phases: tuple[Phase, ...]

    def save(self, project: Project) -> Path:
        """Writes it beside what PlatformIO builds, which a folder that is written again keeps."""
        path = place(project)
        path.parent.mkdir(exist_ok=True)
        path.write_text(self.model_dump_json(indent=2) + "\n")
        return path

    @classmethod
    def of(cls, project: Project, plan: Plan) -> Schedule | None:
        """The one that was saved, if there is one; HostError where it is another plan's, or of ops that it has not."""
        path = place(project)
        if not path.is_file():
            return None
        try:
            found = cls.model_validate_json(read_bytes(path, _LIMIT))
        except pydantic.ValidationError as error:
            raise FolderDamaged(f"{path}: damaged: {faults(error)}; remove it, or make the marks again") from error
        if found.identity != plan.identity:
            raise HostError(f"{path}: is of another plan; run `gen bench --energy csv` with the board again")
        if any(phase.op is not None and phase.op >= len(plan.ops) for phase in found.phases):
            raise FolderDamaged(
                f"{path}: damaged: the plan has {len(plan.ops)} ops; remove it, or make the marks again"
            )
        return found


def place(project: Project) -> Path:
    """The file with a model's schedule."""
    return project.folder / ".pio" / f"energy-marks{project.number or ''}.json"


def steps_of(plan: Plan) -> Mapping[int, int]:
    """The steps of each op in an inference."""
    return Counter(op for op, *_ in plan.steps)


def drive(link: Link, plan: Plan, vector: Vector, runs: int, say: Callable[[str], None]) -> Schedule:
    """Lets the board mark whole inferences, then each op; the phases in their order. HostError as Link."""
    link.expect(plan)
    inputs = [array.tobytes() for array in vector]
    hz, row, steps = link.hello.tick_hz, plan.streamed_row_bytes, steps_of(plan)

    def infer(mode: Mode) -> tuple[int, tuple[int, ...]]:
        found = link.infer(inputs, [], mode, row_bytes=row, handed_out=plan.handed_out)
        return found.ticks, found.trace

    # The least of several, because something else may have delayed one; an op that seems long is repeated too rarely.
    whole = min(infer(Mode.PLAIN)[0] for _ in range(_LOOKS)) / hz
    by_op = [min(ticks) / hz for ticks in zip(*(infer(Mode.TIME)[1] for _ in range(_LOOKS)), strict=True)]
    phases = [Phase(op=None, repeats=1 if row else _repeats(whole), runs=runs, marks=plan.pushes)]
    phases += [
        Phase(op=op, repeats=_repeats(by_op[op] / count), runs=runs, marks=count) for op, count in sorted(steps.items())
    ]
    done = []
    for phase in phases:
        say("the whole inference" if phase.op is None else plan.ops[phase.op].name)
        link.mark(phase.op, phase.repeats)
        ran = [infer(Mode.MARK)[1] for _ in range(runs)]
        counts = {count[phase.op] for count in ran} if phase.op is not None else {phase.repeats * phase.marks}
        (times,) = counts if len(counts) == 1 else (0,)
        if times == 0 or times % phase.marks:
            raise HostError(f"{plan.ops[phase.op or 0].name}: the board ran its {phase.marks} steps {times} times")
        done.append(phase.model_copy(update={"repeats": times // phase.marks}))
    link.reset()
    return Schedule(identity=plan.identity, phases=tuple(done))


def _repeats(seconds: float) -> int:
    """How often something that takes so long is run within a mark."""
    return min(_MOST_REPEATS, max(1, math.ceil(LONG_SECONDS / max(seconds, 1e-9))))


def groups(phases: Sequence[Phase]) -> Iterator[tuple[Phase, int, int]]:
    """Each phase with the numbers of its first mark and of the one after its last."""
    at = 0
    for phase in phases:
        yield phase, at, at + phase.expected
        at += phase.expected
