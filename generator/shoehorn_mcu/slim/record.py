"""What a slimming did, as it stands in its folder: one JSON document, and weights after each step that was kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pydantic

from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.price import OtherKernel, Price
from shoehorn_mcu_host.base.arrays import read_npz
from shoehorn_mcu_host.base.errors import InputError

SLIM_JSON = "slim.json"
RECIPE = "recipe.toml"
STEPS = "steps"
TRAINING = "training"


@dataclass(frozen=True)
class Candidate:
    """A move that was possible before a step."""

    name: str
    cost: Price | None  # None: it was not priced
    gain: float  # of what is minimized, in percent of the network before the step
    refused: str = ""  # why it was not tried, "" where it was or may be
    harm: float | None = (
        None  # of the outputs right after its first guess, relative to their spread; None: not measured
    )


@dataclass(frozen=True)
class Trial:
    """A move that was made and trained."""

    name: str
    kept: bool
    why: str  # in words
    before: float  # percent of validation samples that the network before the step has right, in int8
    untrained: float  # right after the first guess, in float32
    float32: float
    int8: float
    cost: Price
    seconds: float
    epochs: int
    losses: tuple[float, ...] = ()


@dataclass(frozen=True)
class Step:
    """The candidates before a step, and the trials until one was kept, or none was left."""

    number: int
    candidates: tuple[Candidate, ...]
    trials: tuple[Trial, ...]

    @property
    def kept(self) -> Trial | None:
        """The trial that was kept; None: the slimming ended here."""
        return next((trial for trial in self.trials if trial.kept), None)


@dataclass(frozen=True)
class Compared:
    """One network on the test samples, against the slim one."""

    name: str
    right: int
    samples: int
    lost: int = 0  # samples that the original has right and this network has not
    won: int = 0

    @property
    def percent(self) -> float:
        """Samples that are right."""
        return 100 * self.right / self.samples

    @property
    def points(self) -> float:
        """The difference to the network that it was compared with, in percentage points."""
        return 100 * (self.won - self.lost) / self.samples

    @property
    def interval(self) -> float:
        """Half of the 95 % interval of `points`, by the normal approximation for paired samples."""
        n, changed, gain = self.samples, self.won + self.lost, self.won - self.lost
        return float(100 * 1.96 * np.sqrt(max(0.0, changed - gain * gain / n)) / n)


@dataclass(frozen=True)
class Record:
    """The whole run."""

    identity: Mapping[str, Any]  # hashes of model, data and recipe, versions, threads and seed
    labelled: bool
    original: Price
    original_validation: Mapping[str, float]
    steps: tuple[Step, ...] = ()
    ended: str = ""  # why there are no more steps; "": the run goes on
    final: Trial | None = None
    made_up: Price | None = None  # of the slim network with made-up weights, as moves are chosen by
    other_kernels: tuple[OtherKernel, ...] = ()  # that its own weights have
    controls: tuple[Trial, ...] = ()
    test: tuple[Compared, ...] = ()
    seconds: float = 0.0
    sram_bytes: int | None = None  # that a plan of the slim network may take, where a goal says so

    def json(self) -> str:
        """The document; it has percentages and intervals besides."""
        told = asdict(self)
        for row, each in zip(told["test"], self.test, strict=True):
            row.update(percent=each.percent, points=each.points, interval=each.interval)
        return json.dumps(told, indent=2) + "\n"

    def with_step(self, step: Step) -> Record:
        """The record with a step added, or replaced where it was there."""
        return replace(self, steps=(*(each for each in self.steps if each.number != step.number), step))


def record_of(text: str) -> Record:
    """The record of a document that `Record.json` wrote. Raises ValueError."""
    return pydantic.TypeAdapter(Record).validate_json(text)


class Folder:
    """The folder of a run. Every file in it appears whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, data: bytes | str) -> Path:
        """Writes a file beside its place, on the disk, and renames it. Raises SlimError."""
        target = self.path / name
        made = target.with_name(f".{target.name}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with made.open("wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
            made.replace(target)
        except OSError as error:
            made.unlink(missing_ok=True)
            cure = "make room or name another --out; --resume goes on from the last file that was written"
            raise SlimError(f"{target}: cannot be written: {error.strerror or error}; {cure}") from error
        return target

    def read(self, name: str) -> str | None:
        """The text of a file; None where it is not there."""
        place = self.path / name
        return place.read_text(encoding="utf-8") if place.is_file() else None

    def checkpoint(self, name: str) -> Path:
        """The file in which a training is continued."""
        (self.path / TRAINING).mkdir(parents=True, exist_ok=True)
        return self.path / TRAINING / f"{slug(name)}.checkpoint"

    def write_weights(self, name: str, graph: Graph) -> None:
        """The constants of a graph."""
        held = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
        file = BytesIO()
        np.savez(
            file, allow_pickle=False, **{f"t{place}": array for place, (_, array) in enumerate(sorted(held.items()))}
        )
        self.write(name, file.getvalue())

    def with_weights(self, name: str, graph: Graph) -> Graph:
        """The graph with the constants of a file. Raises SlimError where these are of another graph."""
        held = sorted(key for key, tensor in graph.tensors.items() if tensor.data is not None)
        try:
            arrays = read_npz(self.path / name)
            return with_constants(graph, {key: arrays[f"t{place}"] for place, key in enumerate(held)})
        except (InputError, KeyError) as error:
            raise SlimError(f"{self.path / name}: cannot be read; begin again in another --out") from error


def with_constants(graph: Graph, arrays: Mapping[str, Array]) -> Graph:
    """The graph with other values of constants. Raises SlimError where shapes differ."""
    tensors = dict(graph.tensors)
    for name, array in arrays.items():
        if tensors[name].type.shape != array.shape:
            raise SlimError(f"{graph.name}: '{name}' has the shape {tensors[name].type.shape}, not {array.shape}")
        tensors[name] = replace(tensors[name], data=array.astype(tensors[name].type.dtype.numpy))
    return replace(graph, tensors=tensors)


def slug(name: str) -> str:
    """A name for a file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60]


def sha256(data: bytes) -> str:
    """The digest, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
