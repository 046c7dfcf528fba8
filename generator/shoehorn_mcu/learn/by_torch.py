"""What slimming asks of a training framework, answered by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from shoehorn_mcu.ir import Ends, Graph
from shoehorn_mcu.learn import start
from shoehorn_mcu.learn.exported import exported
from shoehorn_mcu.learn.fixed import fixed, generator, tensor
from shoehorn_mcu.learn.loop import SETTLED, Task, Training
from shoehorn_mcu.learn.twin import Twin, evaluated
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.learner import Samples, Schedule, Trained, Watch
from shoehorn_mcu.slim.moved import Moved

Retrain = Callable[[torch.nn.Module, Schedule], None]
"""A loop of the user's own: it trains the module in place."""


@dataclass(frozen=True)
class Torch:
    """A `Learner`: trains the twins of graphs (twin.py).

    `threads` is part of what decides the last bits of a result. A checkpoint is written every `every` seconds. Equal
    bytes are a promise of the CPU alone: on other devices some ops have no repeatable algorithm.
    """

    threads: int = 1
    device: str = "cpu"
    every: float = 30.0

    def _fixed(self) -> AbstractContextManager[None]:
        return fixed(self.threads, strict=self.device == "cpu")

    def begin(self, old: Graph, moved: Moved, samples: Samples, first: str, seed: int) -> Graph:
        """The moved graph with first guesses of its born layers (see start.begin)."""
        with self._fixed():
            return start.begin(old, moved, samples, first, seed, self.device)

    def train(
        self,
        graph: Graph,
        born: Sequence[str],
        teacher: Graph | None,
        train: Samples,
        validation: Samples,
        schedule: Schedule,
        watch: Watch,
    ) -> Trained:
        """The graph with trained weights (see loop.py)."""
        with self._fixed():
            task = Task(graph, born, teacher, train, validation, schedule)
            return Training(task, watch, self.device, self.every).run()

    def outputs(self, graph: Graph, samples: Samples) -> NDArray[np.float32]:
        """The graph's first output for each sample."""
        with self._fixed():
            (found,) = evaluated(Twin(graph).to(self.device), samples.x, graph.outputs[:1], device=self.device)
        whole = found if graph.tensors[graph.outputs[0]].type.shape[:1] != (1,) else found.squeeze(1)
        made: NDArray[np.float32] = whole.cpu().numpy()
        return made

    def files(self, graph: Graph, ends: Ends) -> Mapping[str, bytes]:
        """A program of torch.export and a state_dict (see exported.py)."""
        with self._fixed():
            return exported(graph, ends)


@dataclass(frozen=True)
class ByUser(Torch):
    """A learner whose trainings are a user's function; all else is as before.

    The function gets the twin, with batch normalisations that have seen the samples, and changes its parameters. What
    it does is its own affair: `Watch` is told nothing in between, and there are no checkpoints.
    """

    # Its address differs from process to process, and a run that is resumed compares learners by their names.
    retrain: Retrain = field(default=lambda module, schedule: None, repr=False)

    def train(
        self,
        graph: Graph,
        born: Sequence[str],
        teacher: Graph | None,
        train: Samples,
        validation: Samples,
        schedule: Schedule,
        watch: Watch,
    ) -> Trained:
        twin = Twin(graph).to(self.device)
        with self._fixed():
            picked = torch.randperm(len(train), generator=generator(schedule.seed, 0))[:SETTLED].sort().values
            twin.settle(tensor(train.x)[picked].to(self.device))
        with fixed(self.threads, strict=False):
            self.retrain(twin, schedule)
        if not twin.is_finite():
            return Trained(graph, (), (), stopped=False, diverged=True)
        return Trained(twin.graph(), (), (), stopped=False)


def trained_by(retrain: Retrain, learner: Torch | None = None) -> ByUser:
    """A learner that trains with the user's own loop, `retrain(module, schedule)`."""
    base = learner or Torch()
    return ByUser(base.threads, base.device, base.every, retrain)


def checked(learner: Torch) -> Torch:
    """The learner itself. Raises SlimError where PyTorch has no such device, or there are no threads."""
    if learner.threads < 1:
        raise SlimError(f"threads = {learner.threads}: at least 1 is needed")
    try:
        torch.zeros(1, device=learner.device)
    except Exception:  # PyTorch raises errors of many kinds for devices that it does not have
        raise SlimError(f"device {learner.device!r}: PyTorch has none here; cpu is always there") from None
    return replace(learner)
