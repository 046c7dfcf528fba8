"""The road of a slimming: choose a move, begin, retrain, quantise, keep or undo, and so on to the last retraining."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.importers import Imported, Shapes
from shoehorn_mcu.ir import Bools, Graph
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.ops import LinearOp
from shoehorn_mcu.quantisation import QuantizeError
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.slim.aim import Aim
from shoehorn_mcu.slim.choose import Choice, check_kept, choices, named, ordered
from shoehorn_mcu.slim.data import Data, Pixels, read_data
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.judge import Judge, check_original
from shoehorn_mcu.slim.learner import Learner, Schedule, Trained, Watch
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.moves import moves
from shoehorn_mcu.slim.page import page
from shoehorn_mcu.slim.price import other_kernels
from shoehorn_mcu.slim.reading import of, read
from shoehorn_mcu.slim.recipe import Recipe
from shoehorn_mcu.slim.record import (
    RECIPE,
    SLIM_JSON,
    STEPS,
    Compared,
    Folder,
    Record,
    Step,
    Trial,
    record_of,
    sha256,
    slug,
)

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Limits:
    """What ends a run before its goal is reached."""

    seconds: float | None = None
    steps: int | None = None
    stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True, eq=False)
class Slimmed:
    """The slim network and how it came about."""

    graph: Graph
    model: ModelProto  # float32, with inputs and outputs as in the original's file
    int8: ModelProto
    record: Record


@dataclass(frozen=True)
class Asked:
    """What a user asks of a run besides model, samples and recipe."""

    control: bool = False
    framework: bool = False  # the slim network is written as files of the training framework, too
    expect: float | None = None  # percent that the original is said to have right
    resumes: bool = False  # a run that is in the folder goes on
    shapes: Shapes = field(default_factory=dict)  # sizes that the model's file leaves open
    pixels: Pixels | None = None  # reads images; None: samples are no images
    limits: Limits = Limits()
    on_step: Callable[[Step], None] = lambda _: None
    say: Callable[[str, float], None] = lambda text, share: None


class Stopped(SlimError):
    """The user ended the run; everything that was done is in its folder."""

    kind = "stopped"


@dataclass
class Run:
    """One slimming, new or resumed."""

    model: Imported
    data: Data
    board: Board
    recipe: Recipe
    learner: Learner
    folder: Folder
    identity: Mapping[str, Any]
    asked: Asked = Asked()

    def __post_init__(self) -> None:
        self._begun = monotonic()
        self._judge = Judge(self.learner, self.model.ends, self.data.train, self.model.graph, self._tell)
        self._aim = Aim(self.board, self.recipe, self.model.graph, self._judge.int8)

    # The road.

    def run(self) -> Slimmed:
        """All of it. Raises SlimError where the original cannot be slimmed, and Stopped where the user ended it."""
        record = self._record()
        graph, record = self._steps(record)
        if all(step.kept is None for step in record.steps):
            return self._finished(graph, record)  # there is nothing to retrain
        if record.final is None:
            graph, final = self._last(graph, record)
            record = self._saved(replace(record, final=final))
            self.folder.write_weights("weights.npz", graph)
        else:
            graph = self.folder.with_weights("weights.npz", graph)
        if self.asked.control and not record.controls:
            record = self._saved(replace(record, controls=self._controls(graph, record)))
        return self._finished(graph, record)

    def _record(self) -> Record:
        """The record so far; of a new run, with what is known of the original."""
        text = self.folder.read(SLIM_JSON)
        if text is not None:
            try:
                record = record_of(text)
            except ValueError as error:
                raise SlimError(f"{self.folder.path / SLIM_JSON}: is damaged; begin again in another --out") from error
            for key, value in self.identity.items():
                if record.identity.get(key) != value:
                    raise SlimError(
                        f"{self.folder.path}: is of another {key}; resume it with the same, or name another --out"
                    )
            return record
        check_kept(self.model.graph, self.recipe)
        part = self.data.validation
        self._tell("measuring the original")
        rights = {
            "float32": _percent(self._judge.in_float(self.model.graph, part)),
            "int8": _percent(self._judge.in_int8(self.model.graph, part)),
        }
        if self.data.labelled and part.y is not None:
            check_original(self.model.graph.name, rights["float32"], part.y, self.asked.expect)
        most = self._aim.prices.within
        record = Record(self.identity, self.data.labelled, self._aim.original_price(), rights, sram_bytes=most)
        self.folder.write(RECIPE, self.recipe.toml())
        return self._saved(record)

    def _steps(self, record: Record) -> tuple[Graph, Record]:
        """The network after all steps."""
        graph = self.model.graph
        for number in count(1):
            done = next((step for step in record.steps if step.number == number), None)
            if done is not None and (done.kept is not None or record.ended):
                if done.kept is None:
                    return graph, record
                graph = self._again(graph, done)
                continue
            ended = record.ended or self._end(graph, record)
            if ended:
                return graph, self._saved(replace(record, ended=ended))
            graph, step = self._step(graph, number, record)
            record = self._saved(record.with_step(step))
            self.asked.on_step(step)
            if step.kept is None:
                ended = _ended("no move is left that gains and loses little enough", self._aim.missing(graph))
                return graph, self._saved(replace(record, ended=ended))
        raise AssertionError

    def _end(self, graph: Graph, record: Record) -> str:
        """Why no further step is needed or possible, "" where one is."""
        missing, sequence = self._aim.missing(graph), self.recipe.moves.sequence
        if sequence and len(record.steps) == len(sequence):
            return "the sequence of moves is made"
        if not missing and not sequence:
            return self._aim.reached
        if self.asked.limits.seconds is not None and monotonic() - self._begun > self.asked.limits.seconds:
            return _ended("the time is used up", missing)
        if self.asked.limits.steps is not None and len(record.steps) >= self.asked.limits.steps:
            return _ended("as many steps as were asked for are made", missing)
        return ""

    # One step.

    def _step(self, graph: Graph, number: int, record: Record) -> tuple[Graph, Step]:
        """The network after one more move, or the same where none is kept; the record may have trials of this step."""
        earlier = [trial for each in record.steps if each.number < number for trial in each.trials]
        undone = {trial.name for trial in earlier if not trial.kept}
        order = sorted(self._order(graph, number), key=lambda each: each.moved.name in undone)  # those come last
        done = [trial for each in record.steps if each.number == number for trial in each.trials]
        step = Step(number, tuple(each.candidate for each in order), tuple(done))
        tried = {trial.name for trial in done}
        kept = [trial.int8 for each in record.steps if (trial := each.kept) is not None]
        right = kept[-1] if kept else record.original_validation["int8"]
        for choice in order:
            if choice.refused or choice.moved.name in tried:
                continue
            made, trial = self._trial(graph, choice, number, right)
            step = replace(step, trials=(*step.trials, trial))
            if trial.kept:
                place = f"{STEPS}/{number:02d}-{slug(choice.moved.name)}"
                self.folder.write_weights(f"{place}/weights.npz", made)
                self.folder.write(f"{place}/graph.onnx", self._judge.model(made).SerializeToString(deterministic=True))
                return made, step
            self._saved(record.with_step(step))
        return graph, step

    def _order(self, graph: Graph, number: int) -> list[Choice]:
        """The moves that are tried, in their order: the one of the recipe's sequence, or all that may pay."""
        sequence = self.recipe.moves.sequence
        if sequence:
            return [named(graph, self._aim.prices, self.recipe, sequence[number - 1])]
        prices = self._aim.prices
        lacking = prices.of(graph).lacking
        found = choices(graph, prices, self.recipe, self._aim.wanted(graph), lacking, self._tell)
        return ordered(graph, found, self.learner, self.data.train, self.recipe, self._tell)

    def _trial(self, graph: Graph, choice: Choice, number: int, right: float) -> tuple[Graph, Trial]:
        """The network after a move and its retraining, in int8 compared with `right` percent before."""
        moved, part, begun = choice.moved, self.data.validation, monotonic()
        assert choice.cost is not None
        first = self.learner.begin(graph, moved, self.data.train, self.recipe.steps.first, self.recipe.data.seed)
        untrained = _percent(self._judge.in_float(first, part))
        born = [each.layer for each in moved.born]
        made, epochs, int8, why = first, 0, 0.0, ""
        losses: tuple[float, ...] = ()
        for schedule in (self.recipe.step, self.recipe.longer_step):
            name = f"{number:02d}-{moved.name}-{schedule.epochs}"
            trained = self._trained(name, made, born, schedule)
            if trained.diverged:
                why = "its loss became infinite or NaN"
                break
            made, epochs, losses = trained.graph, epochs + len(trained.losses), (*losses, *trained.losses)
            try:
                int8 = _percent(self._judge.in_int8(made, part))
            except QuantizeError:  # of samples that it gives infinite values or NaN
                why = "cannot be quantised with these samples"
                break
            enough = bool(self.recipe.moves.sequence) or int8 >= right - self.recipe.goal.drop
            why = "" if enough else f"loses {right - int8:.1f} points"
            if not why:
                break
        float32 = _percent(self._judge.in_float(made, part))
        cost = self._aim.price(made) if not why else choice.cost
        rights = right, untrained, float32, int8
        seconds = monotonic() - begun
        return made, Trial(moved.name, not why, why or "kept", *rights, cost, seconds, epochs, losses)

    def _again(self, graph: Graph, step: Step) -> Graph:
        """The network after a step that an earlier run made."""
        assert step.kept is not None
        name = step.kept.name
        for moved in moves(graph, [name.split(" ")[0]], self.recipe.moves.reduce):
            if moved.name == name:
                return self.folder.with_weights(f"{STEPS}/{step.number:02d}-{slug(name)}/weights.npz", moved.graph)
        raise SlimError(
            f"{self.folder.path}: step {step.number} made '{name}', which this version does not know; begin again"
        )

    def _trained(self, name: str, graph: Graph, born: Sequence[str], schedule: Schedule) -> Trained:
        """A training, continued from its checkpoint."""
        if not self.data.labelled:
            schedule = replace(schedule, distil=1.0)
        watch = Watch(self.asked.say, self.asked.limits.stop, self.folder.checkpoint(name))
        teacher = self.model.graph if schedule.distil > 0 else None
        train, validation = self.data.train, self.data.validation
        trained = self.learner.train(graph, born, teacher, train, validation, schedule, watch)
        if trained.stopped:
            raise Stopped(f"{self.folder.path}: stopped in {name}; --resume {self.folder.path} goes on from there")
        return trained

    # The end.

    def _last(self, graph: Graph, record: Record) -> tuple[Graph, Trial]:
        """The long retraining; distilled as well where the recipe says so, and the better one by validation."""
        begun, part, final = monotonic(), self.data.validation, self.recipe.final
        tries = [final]
        if self.data.labelled and final.distil > 0:
            tries.append(replace(final, distil=0.0))
        born = [] if not record.steps else self._born(graph)
        best, best_right, how = graph, -1.0, final
        untrained = _percent(self._judge.in_int8(graph, part))
        for schedule in tries:
            trained = self._trained(f"last-{schedule.distil:g}", graph, born, schedule)
            right = -1.0 if trained.diverged else _percent(self._judge.in_int8(trained.graph, part))
            if right > best_right:
                best, best_right, how = trained.graph, right, schedule
        if best_right < untrained:
            best, best_right = graph, untrained
        better = best is not graph
        why = "the retraining made it worse" if not better else "distilled" if how.distil else "labels alone"
        rights = untrained, untrained, _percent(self._judge.in_float(best, part)), best_right
        cost = self._aim.price(best)
        return best, Trial("last retraining", better, why, *rights, cost, monotonic() - begun, final.epochs)

    def _born(self, graph: Graph) -> list[str]:
        """The layers of the network that are not the original's."""
        old = {op.name: op for op in self.model.graph.ops}
        return [op.name for op in graph.ops if isinstance(op, LinearOp) and old.get(op.name) is not op]

    def _controls(self, graph: Graph, record: Record) -> tuple[Trial, ...]:
        """The original trained on for as many epochs, and the slim network from nothing for as many as both had."""
        spent = sum(trial.epochs for step in record.steps for trial in step.trials if trial.kept)
        final = replace(self.recipe.final, distil=0.0, new_rate=1.0)
        further = replace(final, epochs=spent + final.epochs)
        whole = replace(further, epochs=further.epochs + self.recipe.control.original_epochs)
        fresh = self.learner.begin(graph, _from_nothing(graph), self.data.train, "random", self.recipe.data.seed)
        made = []
        for name, network, schedule in (
            ("original, trained on", self.model.graph, further),
            ("slim network, from nothing", fresh, whole),
        ):
            begun = monotonic()
            trained = self._trained(name, network, (), schedule)
            self.folder.write_weights(f"controls/{slug(name)}.npz", trained.graph)
            part = self.data.validation
            float32, int8 = self._judge.in_float(trained.graph, part), self._judge.in_int8(trained.graph, part)
            same = network is self.model.graph
            cost = self._aim.original_price(trained.graph) if same else self._aim.price(trained.graph)
            right = _percent(int8)
            rights = right, right, _percent(float32), right
            seconds = monotonic() - begun
            made.append(Trial(name, True, "control", *rights, cost, seconds, schedule.epochs))
        return tuple(made)

    def _finished(self, graph: Graph, record: Record) -> Slimmed:
        """The slim network in both forms, and the look at the test samples."""
        model, part = self._judge.model(graph), self.data.test
        int8 = self._judge.quantised(graph)
        if not record.test:
            self._tell("measuring on the test samples")
            rights = {"original, float32": self._judge.in_float(self.model.graph, part)}
            rights["original, int8"] = self._judge.in_int8(self.model.graph, part)
            for control in record.controls:
                same = self.model.graph if control.name.startswith("original") else graph
                network = self.folder.with_weights(f"controls/{slug(control.name)}.npz", same)
                rights[f"{control.name}, int8"] = self._judge.in_int8(network, part)
            rights["slim, float32"] = self._judge.in_float(graph, part)
            rights["slim, int8"] = self._judge.of_model(int8, graph, part)
            base = rights.get("original, trained on, int8", rights["original, int8"])
            rows = tuple(_compared(name, each, base) for name, each in rights.items())
            record = replace(
                record,
                test=rows,
                made_up=self._aim.made_up_price(graph),
                other_kernels=other_kernels(graph, self._judge.int8(graph), self.board),
                seconds=record.seconds + monotonic() - self._begun,
            )
            self._saved(record)
        self.folder.write("slim.onnx", model.SerializeToString(deterministic=True))
        self.folder.write("slim-int8.onnx", int8.SerializeToString(deterministic=True))
        self.folder.write("slim.html", page(record, self.model.graph.name, self.board.id))
        for name, content in self.learner.files(graph, self.model.ends).items() if self.asked.framework else ():
            self.folder.write(f"slim{name}", content)
        return Slimmed(graph, model, int8, record)

    # What all of them need.

    def _saved(self, record: Record) -> Record:
        self.folder.write(SLIM_JSON, record.json())
        return record

    def _tell(self, text: str) -> None:
        self.asked.say(text, 0.0)


def _ended(why: str, missing: str) -> str:
    return f"{why}; {missing}" if missing else why


def _compared(name: str, right: Bools, base: Bools) -> Compared:
    lost, won = int((base & ~right).sum()), int((right & ~base).sum())
    return Compared(name, int(right.sum()), len(right), lost, won)


def _percent(right: Bools) -> float:
    return round(100 * float(right.mean()), 3)


def _from_nothing(graph: Graph) -> Moved:
    """A move that bears all layers with weights again."""
    layers = [node for node in graph.nodes() if isinstance(node.op, LinearOp)]
    born = tuple(Born(node.op.name, (Part(node.output.type.shape[-1]),)) for node in layers)
    return Moved("anew", "all layers", graph, born, ())


def slim(
    model: str | Imported, data: str, recipe: Recipe, folder: Path, learner: Learner, asked: Asked | None = None
) -> Slimmed:
    """Slims a float32 model for the board that the recipe names, and writes `folder`.

    `model` is as `read` takes it, `data` as `read_data` does. A run that `asked.resumes` goes on with the one in the
    folder. Raises SlimError, or another ShoehornError, with a message of one line; what is in the folder then is whole.
    """
    asked = asked or Asked()
    board = targets.board(recipe.goal.board)
    there = (folder / SLIM_JSON).exists()
    if there and not asked.resumes:
        raise SlimError(f"{folder}: has a run already; --resume {folder} goes on with it, or name another --out")
    if asked.resumes and not there:
        raise SlimError(f"{folder}: has no run to go on with")
    imported = read(model, asked.shapes) if isinstance(model, str) else of(model, model.graph.name)
    samples = read_data(data, imported, recipe.data, asked.pixels)
    identity = {
        "model": sha256(as_onnx(imported.graph, imported.ends).SerializeToString(deterministic=True)),
        "data": samples.sha256,
        "recipe": sha256(recipe.toml().encode()),
        "version": __version__,
        "learner": repr(learner),
    }
    return Run(imported, samples, board, recipe, learner, Folder(folder), identity, asked).run()
