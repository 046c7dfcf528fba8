"""Several models in one firmware: one choice of kernels within the flash, and one arena that they share or divide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.project import Emitted, project_of_several
from shoehorn_mcu.emit.model.arenas import ARENA_ALIGNMENT
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.estimate import flash
from shoehorn_mcu.estimate.ram import ram
from shoehorn_mcu.firmware import advice
from shoehorn_mcu.firmware.build import Planned, machine_for, plan_prepared
from shoehorn_mcu.firmware.limits import limits
from shoehorn_mcu.firmware.prepare import Model, Prepared, prepare
from shoehorn_mcu.firmware.report import Json, timeless
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine.targets import Board, Machine
from shoehorn_mcu.passes.float_mode import FloatMode, NoFloatSums
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.schedule.stage import Stage, decided, kernel_bytes, stages

Say = Callable[[str], None]


class UnknownModel(ShoehornError):
    """No model of the firmware has this name."""

    kind = "unknown-model"


class SameName(ShoehornError):
    """Two models of one firmware would have the same C names."""

    kind = "same-name"


class SomeDoNotFit(DoesNotFit):
    """Some of several models have no plan; the figures are those of the one that needs the most."""

    def __init__(self, models: Sequence[DoesNotFit]) -> None:
        most = max(models, key=lambda each: each.needed_bytes)
        super().__init__("; and ".join(map(str, models)), most.needed_bytes, most.available_bytes)
        self.models = tuple(models)

    @property
    def lines(self) -> Sequence[str]:
        return tuple(line for each in self.models for line in each.lines)

    @property
    def facts(self) -> Mapping[str, object]:
        return {
            "needed_bytes": self.needed_bytes,
            "available_bytes": self.available_bytes,
            "models": [each.facts for each in self.models],
        }


@dataclass(frozen=True, eq=False)
class Together:
    """The models of a firmware with their plans, and figures of the whole."""

    models: tuple[Planned, ...]
    offsets: tuple[int, ...]  # of each model's tensors in the arena, bytes
    arena_bytes: int
    concurrent: bool  # no two models share bytes
    flash: flash.Flash
    board: Board

    @property
    def names(self) -> list[str]:
        return [each.unit.name for each in self.models]

    @property
    def cores(self) -> int:
        """The cores that share an inference."""
        return max(each.unit.cores for each in self.models)

    @property
    def ram_bytes(self) -> int:
        """Predicted: the arena, the stacks and the application, without the buffer of `db load`."""
        most_ops = max(len(each.unit.stages) for each in self.models)
        found, spec = ram(self.arena_bytes, most_ops, 0, self.cores, self.board), self.board.spec
        if found is not None:
            return found.bytes
        return self.arena_bytes + spec.firmware_ram_bytes + self.cores * spec.stack_bytes

    def json(self) -> Json:
        """The entry `together` of report.json."""
        return {
            "models": self.names,
            "concurrent": self.concurrent,
            "arena_bytes": self.arena_bytes,
            "ram_bytes": self.ram_bytes,
            "flash": {
                "constant_bytes": self.flash.constant_bytes,
                "code_bytes": self.flash.code_bytes,
                "board_bytes": self.board.spec.flash_bytes,
            },
        }


def streamed(models: Sequence[Model], options: Options, names: Sequence[str]) -> list[tuple[Model, Options]]:
    """Each model with the options, and a streamed input where `names` has its file's name or its C name."""
    known = [library_name(model.stem if isinstance(model, Path) else model.graph.name) for model in models]
    wanted = {library_name(Path(name).stem): name for name in names}
    if unknown := [wanted[name] for name in wanted if name not in known]:
        raise UnknownModel(f"--stream {unknown[0]}: no model is called so; there are {', '.join(known)}")
    return [
        (model, replace(options, stream_input=options.stream_input or name in wanted))
        for model, name in zip(models, known, strict=True)
    ]


def firmware_of_several(
    models: Sequence[tuple[Model, Options]],
    board: Board,
    task: str = "auto",
    concurrent: bool = False,
    say: Say = lambda _: None,
) -> tuple[Together, Bundle]:
    """The plans and every file of the project folder. The options may differ in what is about a model's input.

    `task` is one of emit.mlperf.CHOICES and about the first model. The arena is the largest of the models', one of
    which runs at a time, or with `concurrent` has bytes for each. Raises SameName, and DoesNotFit, which names all
    models that do not fit.
    """
    alone = [(model, replace(options, caller_arena=True, one_memory=True)) for model, options in models]
    ready = _prepared(alone, board)
    _check_names(ready, [model for model, _ in models])
    plans = _Plans(ready, board, say)
    made = plans.beside_each_other() if concurrent else plans.one_at_a_time()
    sizes = [each.unit.plan.arena_bytes for each in made]
    starts = [sum(map(_aligned, sizes[:i])) if concurrent else 0 for i in range(len(sizes))]
    arena_bytes = max(start + size for start, size in zip(starts, sizes, strict=True))
    code = flash.code_of_several([flash.features(each.unit) for each in made], board.spec.cpu)
    needed = flash.Flash(sum(each.constants.bytes for each in made), code)
    if needed.surely_exceeds(board.spec.flash_bytes):
        constants = {each.unit.name: each.constants.bytes for each in made}
        raise advice.flash_refusal_of_several(constants, board, arena_bytes, needed)
    named = tuple(replace(each, notes=tuple(_notes(each, concurrent))) for each in made)
    together = Together(named, tuple(starts), arena_bytes, concurrent, needed, board)
    emitted = [
        Emitted(each.unit, each.constants, timeless(each.report), start)
        for each, start in zip(named, starts, strict=True)
    ]
    return together, project_of_several(emitted, board, task, arena_bytes, together.json())


def _prepared(models: Sequence[tuple[Model, Options]], board: Board) -> list[Prepared]:
    """The models after the passes. `--float` is about those with sums of float32, of which there must be one."""
    ready, refusals = [], []
    for model, options in models:
        try:
            ready.append(prepare(model, board, options))
        except NoFloatSums as refusal:
            refusals.append(refusal)
            ready.append(prepare(model, board, replace(options, float_mode=FloatMode.PRECISE)))
    if len(refusals) == len(models):
        raise refusals[0]
    return [replace(each, streaming=f"--stream {each.name}") for each in ready]


def _check_names(ready: Sequence[Prepared], models: Sequence[Model]) -> None:
    """SameName where libraries or their headers would have the same name."""
    taken: dict[str, Model] = {}
    for each, model in zip(ready, models, strict=True):
        for header in (each.name, f"{each.name}_weights"):
            if header in taken:
                said = " and ".join(str(m) if isinstance(m, Path) else m.graph.name for m in (taken[header], model))
                raise SameName(f"{said}: both would have files called {header}.h; rename one of the models")
        taken |= dict.fromkeys((each.name, f"{each.name}_weights"), model)


def _aligned(size: int) -> int:
    return -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def _notes(made: Planned, concurrent: bool) -> Sequence[str]:
    """The notes of a model, with its name."""
    name = made.unit.name
    notes = [f"{name}: {note}" for note in made.notes]
    if made.unit.graph.states and not concurrent:
        notes.append(
            f"{name}: keeps values between inferences in bytes that the other models use; call {name}_reset() after "
            "one of them has run, or give each bytes of its own with --concurrent"
        )
    return notes


class _Plans:
    """Plans the models of a firmware, whose kernels are chosen together."""

    def __init__(self, ready: Sequence[Prepared], board: Board, say: Say) -> None:
        self._ready, self._board, self._say = ready, board, say
        self._machine = machine_for(ready, board)
        common = decided([each.graph for each in ready], self._machine)
        self._chosen = [stages(each.graph, common) for each in ready]
        every = [stage for chosen in self._chosen for stage in chosen]
        self._spare = max(0, (self._machine.flash_left or 0) - kernel_bytes(every))

    def one_at_a_time(self) -> list[Planned]:
        """Each model within the whole limit."""
        return self._each({})

    def beside_each_other(self) -> list[Planned]:
        """Arenas that are within the limit together.

        Where the plans that each model would get alone are not, each model gets what the plans before it and the
        smallest ones of those behind it leave.
        """
        limit = self._ready[0].limits.capacity_bytes
        found = self.one_at_a_time()
        if limit is None or sum(_aligned(each.unit.plan.arena_bytes) for each in found) <= limit:
            return found
        least = self._each({"goal": Goal.SRAM, "slower_percent": None})
        sizes = [_aligned(each.unit.plan.arena_bytes) for each in least]
        if sum(sizes) > limit:
            arenas = {each.unit.name: size for each, size in zip(least, sizes, strict=True)}
            raise advice.sram_refusal_of_several(arenas, self._board, limit)
        plans = []
        left = limit - sum(sizes)
        for i, smallest in enumerate(least):
            within = {"sram_bytes": (sizes[i] + left) // ARENA_ALIGNMENT * ARENA_ALIGNMENT}  # the next begins behind it
            try:
                made = self._one(i, within)
            except DoesNotFit:
                made = smallest
            left += sizes[i] - _aligned(made.unit.plan.arena_bytes)
            plans.append(made)
        return plans

    def _each(self, change: Mapping[str, object]) -> list[Planned]:
        """A plan for each model, whose options are changed so; DoesNotFit names all that have none."""
        found, refusals = [], []
        for i in range(len(self._ready)):
            try:
                found.append(self._one(i, change))
            except DoesNotFit as refusal:
                refusals.append(refusal)
        if refusals:
            raise SomeDoNotFit(refusals)
        return found

    def _one(self, i: int, change: Mapping[str, object]) -> Planned:
        """The plan of a model. Kernels that need scratch may use flash that no other kernel does."""
        options = replace(self._ready[i].options, **change)  # type: ignore[arg-type]
        ready = replace(self._ready[i], options=options, limits=limits(self._board, options))
        limit = kernel_bytes(self._chosen[i]) + self._spare // len(self._ready)
        chosen = [_within(stage, limit) for stage in self._chosen[i]]
        return plan_prepared(ready, self._board, self._machine, chosen, lambda said: self._say(f"{ready.name}: {said}"))


def _within(stage: Stage, flash_left: int) -> Stage:
    machine: Machine = replace(stage.machine, flash_left=flash_left)
    return replace(stage, machine=machine)
