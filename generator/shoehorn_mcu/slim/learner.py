"""What slimming asks of a training framework; `learn` answers with torch, and a user's own loop may answer instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Ends, Graph
from shoehorn_mcu.slim.moved import Moved


@dataclass(frozen=True)
class Samples:
    """Inputs and classes: x float32 [samples, *the input's shape without the batch, in the graph's order]."""

    x: NDArray[np.float32]
    y: NDArray[np.int64] | None  # [samples]; None: without labels, a network can only be taught by its original

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Schedule:
    """How a graph is trained. Rates fall from `rate` to 0 along half a cosine."""

    epochs: int
    rate: float
    new_rate: float = 1.0  # times `rate`, for the layers that are born (DeepRebirth: 10)
    distil: float = 0.0  # the share of the loss that compares with the teacher's outputs (Hinton et al. 2015)
    temperature: float = 4.0
    patience: int = 0  # epochs without a lower validation loss that end a training; 0: never
    batch: int = 64
    seed: int = 1
    augment: tuple[str, ...] = ()  # of AUGMENTATIONS


AUGMENTATIONS = ("shift", "flip", "mix")


@dataclass(frozen=True)
class Trained:
    """A trained graph, the loss of each epoch on training and validation samples, and whether it was stopped early."""

    graph: Graph
    losses: tuple[float, ...]
    validation: tuple[float, ...]
    stopped: bool  # by `Watch.stop`; the training goes on from its checkpoint
    diverged: bool = False  # a loss was not finite; the graph is that from before


@dataclass(frozen=True)
class Watch:
    """How a training is observed and interrupted."""

    say: Callable[[str, float], None] = lambda text, share: None  # what is done, and the share of it that is done
    stop: Callable[[], bool] = lambda: False  # asked after each batch
    checkpoint: Path | None = None  # a file that is written now and then and at a stop, and read where it exists


class Learner(Protocol):
    """Trains graphs."""

    def begin(self, old: Graph, moved: Moved, samples: Samples, first: str, seed: int) -> Graph:
        """The moved graph with first guesses of its born layers.

        `first` is "least-squares", "copy" (the moved graph's own weights) or "random" (all weights of born layers).
        """

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
        """The graph with trained weights; `born` are the names of the ops that learn `new_rate` times as fast."""

    def outputs(self, graph: Graph, samples: Samples) -> NDArray[np.float32]:
        """The graph's first output for each sample, as after a training."""

    def files(self, graph: Graph, ends: Ends) -> Mapping[str, bytes]:
        """The network as files of the framework, by what follows the network's name, such as ".pt2"."""
