"""Trains the twin of a graph: AdamW, rates that fall along half a cosine, labels and a teacher, checkpoints.

Equal inputs give equal bytes, also where a training was stopped or killed and goes on from its checkpoint: that has
the weights, the statistics of batch normalisations, the optimiser, each generator of random numbers and the place in
the epoch.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch.nn import functional

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.learn import checkpoint
from shoehorn_mcu.learn.augment import augmentation
from shoehorn_mcu.learn.fixed import generator, tensor
from shoehorn_mcu.learn.twin import CHUNK, Twin
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.learner import Samples, Schedule, Trained, Watch

SETTLED = 512
"""Samples from which batch normalisations get their first statistics."""

_ORDER, _AUGMENT, _SETTLE = range(3)  # what random numbers are for
_DECAY = 1e-4


@dataclass(frozen=True)
class Task:
    """One training, as `Learner.train` is asked for it."""

    graph: Graph
    born: Sequence[str]
    teacher: Graph | None
    train: Samples
    validation: Samples
    schedule: Schedule

    @property
    def identity(self) -> str:
        """A digest of all that the result depends on."""
        seen = hashlib.sha256(repr((sorted(self.born), sorted(asdict(self.schedule).items()))).encode())
        for graph in (self.graph, self.teacher):
            if graph is not None:
                seen.update(repr((graph.inputs, graph.outputs, graph.ops)).encode())
                for name, each in sorted(graph.tensors.items()):
                    seen.update(name.encode())
                    seen.update(np.ascontiguousarray(each.data).data if each.data is not None else b"")
        for samples in (self.train, self.validation):
            seen.update(np.ascontiguousarray(samples.x).data)
            seen.update(np.ascontiguousarray(samples.y).data if samples.y is not None else b"-")
        return seen.hexdigest()

    def check(self) -> None:
        """Raises SlimError unless there is something to train on that fits the graph."""
        if len(self.graph.inputs) != 1:
            raise SlimError(f"{self.graph.name}: has {len(self.graph.inputs)} inputs; train it with a loop of your own")
        if self.train.y is None and self.teacher is None:
            raise SlimError("the samples have no labels, and there is no teacher to learn from instead")
        if len(self.train) < 2 or self.schedule.batch < 2:
            raise SlimError("batch normalisation needs batches of 2 samples at least")
        shape = self.graph.tensors[self.graph.inputs[0]].type.shape[1:]
        for samples in (self.train, self.validation):
            if samples.x.shape[1:] != shape:
                found, wanted = ("x".join(map(str, each)) for each in (samples.x.shape[1:], shape))
                raise SlimError(f"{self.graph.name}: samples are {found}, the network takes {wanted}")


@dataclass(frozen=True)
class _Data:
    """Samples, and what the teacher says of them where that is known before."""

    x: torch.Tensor
    y: torch.Tensor | None
    taught: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)


@dataclass
class _Place:
    """How far a training is."""

    epoch: int = 0
    batch: int = 0
    total: float = 0.0  # of the losses in this epoch
    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)


class Training:
    """A training, from its beginning or from its checkpoint."""

    def __init__(self, task: Task, watch: Watch, device: str, every: float) -> None:
        task.check()
        self._task, self._watch, self._device, self._every = task, watch, device, every
        self._twin = Twin(task.graph).to(device)
        self._teacher = Twin(task.teacher).to(device).eval() if task.teacher is not None and self._share > 0 else None
        self._data = _Data(tensor(task.train.x), None if task.train.y is None else tensor(task.train.y))
        self._order, self._chance = (generator(task.schedule.seed, each) for each in (_ORDER, _AUGMENT))
        self._size = min(task.schedule.batch, len(self._data))
        self._batches = len(self._data) // self._size
        self._place, self._best = _Place(), dict[str, torch.Tensor]()
        shape = tuple(task.train.x.shape[1:])
        self._augment = augmentation(task.schedule.augment, shape, self._checked_classes())
        self._optimiser = self._made_optimiser()
        self._epoch_began = self._order.get_state()
        self._identity = task.identity if watch.checkpoint is not None else ""
        self._resume()
        self._written = time.monotonic()

    @property
    def _share(self) -> float:
        """The teacher's share of the loss."""
        return 1.0 if self._task.train.y is None else self._task.schedule.distil

    def _checked_classes(self) -> int:
        """The network's classes. Raises SlimError where a label is none of them, or the teacher has others."""
        with torch.no_grad():
            self._twin.eval()
            classes = self._twin.scores(self._data.x[:1].to(self._device)).shape[1]
            if self._teacher is not None:
                others = self._teacher.scores(self._data.x[:1].to(self._device)).shape[1]
                if others != classes:
                    raise SlimError(f"the network has {classes} outputs, its teacher {others}")
        for samples in (self._task.train, self._task.validation):
            if samples.y is not None and len(samples.y) != len(samples.x):
                raise SlimError(f"there are {len(samples.x)} samples and {len(samples.y)} labels")
            if samples.y is not None and len(samples.y) and not 0 <= samples.y.min() <= samples.y.max() < classes:
                low, high = samples.y.min(), samples.y.max()
                raise SlimError(f"labels are from {low} to {high}, the network has the classes 0 to {classes - 1}")
        return int(classes)

    def _made_optimiser(self) -> torch.optim.Optimizer:
        known = dict(self._twin.layers())
        if unknown := [name for name in self._task.born if name not in known]:
            raise SlimError(f"{self._task.graph.name}: has no layer '{unknown[0]}' with weights")
        born = {id(each): each for name in self._task.born for each in known[name].parameters()}
        others = [each for each in self._twin.parameters() if id(each) not in born]
        groups = [{"params": others, "factor": 1.0}]
        if born:
            groups.append({"params": [*born.values()], "factor": self._task.schedule.new_rate})
        return torch.optim.AdamW([each for each in groups if each["params"]], weight_decay=_DECAY)

    def _resume(self) -> None:
        path = self._watch.checkpoint
        state = checkpoint.read(path, self._identity) if path is not None else None
        if state is None:
            picked = torch.randperm(len(self._data), generator=generator(self._task.schedule.seed, _SETTLE))[:SETTLED]
            self._twin.settle(self._data.x[picked.sort().values].to(self._device))
            return
        self._twin.load_state_dict(state["twin"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._best = state["best"]
        self._chance.set_state(state["chance"])
        self._epoch_began = state["order"]
        self._order.set_state(self._epoch_began)
        self._place = _Place(**state["place"])

    def _save(self, at_stop: bool = False) -> None:
        """A checkpoint that cannot be written is said, and the training goes on, for it has lost nothing.

        Raises SlimError where it stops.
        """
        if self._watch.checkpoint is None:
            return
        state = {
            "identity": self._identity,
            "twin": self._twin.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "best": self._best,
            "chance": self._chance.get_state(),
            "order": self._epoch_began,
            "place": asdict(self._place),
        }
        try:
            checkpoint.write(self._watch.checkpoint, state)
        except OSError as error:
            said = f"{self._watch.checkpoint}: the checkpoint cannot be written: {error.strerror}"
            if at_stop:
                raise SlimError(f"{said}; what was trained since the last one is lost") from None
            self._watch.say(said, self._place.epoch / max(1, self._task.schedule.epochs))
        self._written = time.monotonic()

    def run(self) -> Trained:
        """Trains until the end, or until the watch says stop."""
        place = self._place
        validation = self._validation()
        while not self._ended:
            picked = torch.randperm(len(self._data), generator=self._order)
            for batch in range(place.batch, self._batches):
                loss = self._step(picked[batch * self._size :][: self._size])
                if not math.isfinite(loss):
                    return self._trained(diverged=True)
                place.total += loss
                place.batch = batch + 1
                if place.batch == self._batches:
                    self._end_epoch(validation)
                self._say(loss)
                if not self._ended and self._watch.stop():
                    self._save(at_stop=True)
                    return self._trained(stopped=True)
                if time.monotonic() - self._written >= self._every:
                    self._save()
        if self._best:
            self._twin.load_state_dict(self._best)
        if not self._twin.is_finite() or not all(map(math.isfinite, place.validation)):
            return self._trained(diverged=True)
        self._save()
        self._twin.silence()
        return self._trained()

    @property
    def _ended(self) -> bool:
        patience, seen = self._task.schedule.patience, self._place.validation
        waited = len(seen) - 1 - seen.index(min(seen)) if seen else 0
        return self._place.epoch >= self._task.schedule.epochs or 0 < patience <= waited

    def _step(self, picked: torch.Tensor) -> float:
        """Trains on one batch; gives its loss."""
        schedule, done = self._task.schedule, self._place.epoch * self._batches + self._place.batch
        rate = schedule.rate * 0.5 * (1 + math.cos(math.pi * done / (schedule.epochs * self._batches)))
        for group in self._optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        x, y = self._augment(self._data.x[picked], None if self._data.y is None else self._data.y[picked], self._chance)
        x, y = x.to(self._device), None if y is None else y.to(self._device)
        taught = None
        if self._teacher is not None:
            with torch.no_grad():
                taught = self._teacher.scores(x)
        self._twin.train()
        loss = self._loss(self._twin.scores(x), y, taught)
        found = float(loss.item())
        if math.isfinite(found):
            self._optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self._optimiser.step()
        return found

    def _loss(self, scores: torch.Tensor, y: torch.Tensor | None, taught: torch.Tensor | None) -> torch.Tensor:
        """Cross entropy with the labels and, at a temperature T, T^2 times the divergence from the teacher."""
        share = self._share if taught is not None else 0.0
        parts = []
        if y is not None and share < 1:
            parts.append((1 - share) * functional.cross_entropy(scores, y))
        if taught is not None:
            heat = self._task.schedule.temperature
            mine, its = (functional.log_softmax(each / heat, 1) for each in (scores, taught))
            away = functional.kl_div(mine, its, reduction="batchmean", log_target=True)
            parts.append(share * heat**2 * away)
        return sum(parts[1:], start=parts[0])

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _validation(self) -> _Data:
        """The validation samples with the teacher's scores, which stay the same all the time."""
        samples = self._task.validation
        x, y = tensor(samples.x), None if samples.y is None else tensor(samples.y)
        taught = None
        if self._teacher is not None and len(x):
            taught = torch.cat([self._teacher.scores(each.to(self._device)).cpu() for each in x.split(CHUNK)])
        return _Data(x, y, taught)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _end_epoch(self, validation: _Data) -> None:
        place = self._place
        place.losses.append(place.total / self._batches)
        place.epoch, place.batch, place.total = place.epoch + 1, 0, 0.0
        self._epoch_began = self._order.get_state()
        if len(validation) and (validation.y is not None or validation.taught is not None):
            self._twin.eval()
            total = 0.0
            for begin in range(0, len(validation), CHUNK):
                at = slice(begin, begin + CHUNK)
                scores = self._twin.scores(validation.x[at].to(self._device)).cpu()
                y, taught = (None if each is None else each[at] for each in (validation.y, validation.taught))
                total += float(self._loss(scores, y, taught).item()) * len(scores)
            place.validation.append(total / len(validation))
            if self._task.schedule.patience and place.validation[-1] == min(place.validation):
                self._best = {name: each.clone() for name, each in self._twin.state_dict().items()}

    def _say(self, loss: float) -> None:
        epochs, place = self._task.schedule.epochs, self._place
        share = (place.epoch + place.batch / self._batches) / epochs
        self._watch.say(f"epoch {min(place.epoch + 1, epochs)} of {epochs}, loss {loss:.3f}", min(share, 1.0))

    def _trained(self, *, stopped: bool = False, diverged: bool = False) -> Trained:
        place = self._place
        untrained = diverged or self._task.schedule.epochs == 0
        graph = self._task.graph if untrained else self._twin.graph()
        return Trained(graph, tuple(place.losses), tuple(place.validation), stopped, diverged)
