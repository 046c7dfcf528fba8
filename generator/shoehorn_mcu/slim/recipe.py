"""The recipe of a slimming: a TOML file with few keys, each with a default, checked strictly."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from shoehorn_mcu.base.errors import did_you_mean, printable
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.goal import Minimized, Until
from shoehorn_mcu.slim.learner import AUGMENTATIONS, Schedule
from shoehorn_mcu.slim.moves import KINDS

_Share = Annotated[float, Field(ge=0, le=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=100_000)]


class _Table(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Goal(_Table):
    """What is to become less, how far, and what it may cost."""

    board: str = ""
    minimize: Minimized = Minimized.INSTRUCTIONS
    until: str = "fits"
    drop: Annotated[float, Field(ge=0, le=100)] = 1.0  # points of int8 accuracy that a step may lose


class Moves(_Table):
    """Which moves are tried."""

    use: tuple[str, ...] = ("streamline", "branch", "unpool", "reduce", "shrink")
    sequence: tuple[str, ...] = ()  # moves by their names, made one after the other whatever they lose
    keep: tuple[str, ...] = ()  # layers that no move may touch, by their names or the start of these
    reduce: Annotated[float, Field(gt=0, lt=1)] = 0.5  # the channels that reduce, prune and tucker leave, of 1
    first: Annotated[int, Field(ge=1, le=1000)] = 6  # candidates, cheapest first, whose harm is measured before a step

    @pydantic.field_validator("use")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = [kind.name for kind in KINDS]
        for name in names:
            if name not in known:
                raise ValueError(f"no move is called '{name}'; {did_you_mean(name, known, ', '.join(known))}")
        return names


class Steps(_Table):
    """The short retraining behind each move."""

    epochs: _Count = 2
    rate: _Positive = 4e-4
    new_rate: _Positive = 10.0
    first: Literal["least-squares", "copy", "random"] = "least-squares"
    distil: _Share = 0.5
    temperature: _Positive = 4.0
    patience: _Count = 3


class Last(_Table):
    """The long retraining after the last step."""

    epochs: _Count = 40
    rate: _Positive = 2e-3
    new_rate: _Positive = 1.0
    distil: _Share = 0.0  # above 0: a network that is distilled is trained as well, and the better one is taken
    temperature: _Positive = 4.0
    patience: _Count = 0


class DataTable(_Table):
    """The samples, and what is done with them."""

    batch: Annotated[int, Field(ge=1, le=65_536)] = 64
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 1
    augment: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()  # per channel, or one for all: (x / 255 - mean) / scale for uint8, (x - mean) / scale
    scale: tuple[_Positive, ...] = ()
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.15  # the share of all samples, where the file names none
    test: Annotated[float, Field(gt=0, lt=1)] = 0.2

    @pydantic.field_validator("augment")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in AUGMENTATIONS:
                raise ValueError(f"no augmentation is called '{name}'; there are {', '.join(AUGMENTATIONS)}")
        return names


class Control(_Table):
    """The networks that the slim one is compared with."""

    original_epochs: _Count = 20  # that the original had, and that a network from nothing gets as well


class Recipe(_Table):
    """All tables of a recipe."""

    goal: Goal = Goal()
    moves: Moves = Moves()
    steps: Steps = Steps()
    last: Last = Last()
    data: DataTable = DataTable()
    control: Control = Control()

    @property
    def until(self) -> tuple[Until, ...]:
        """The goals as figures."""
        return Until.all(self.goal.until)

    @property
    def step(self) -> Schedule:
        """The training of a step."""
        return self._schedule(self.steps)

    @property
    def longer_step(self) -> Schedule:
        """The one more training of a step that lost too much."""
        return replace(self.step, epochs=3 * self.steps.epochs)

    @property
    def final(self) -> Schedule:
        """The last training, of labels alone where there are labels."""
        return self._schedule(self.last)

    def _schedule(self, table: Steps | Last) -> Schedule:
        own = table.epochs, table.rate, table.new_rate, table.distil, table.temperature, table.patience
        return Schedule(*own, self.data.batch, self.data.seed, self.data.augment)

    def toml(self) -> str:
        """The whole recipe as a TOML document."""
        tables: Mapping[str, Mapping[str, Any]] = self.model_dump(mode="json")
        lines = []
        for table, values in tables.items():
            # TOML writes strings, numbers and lists of them as JSON does.
            lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]
        return "\n".join(lines)


def read_recipe(path: Path | None, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Recipe:
    """The recipe of a file, with single values changed; the defaults where there is no file. Raises SlimError."""
    tables: dict[str, Any] = {}
    if path is not None:
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SlimError(f"{path}: cannot be read: {error.strerror or error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SlimError(f"{path}: is no TOML file: {printable(str(error))}") from error
    for table, values in (changes or {}).items():
        there = tables.get(table, {})
        tables[table] = {**there, **values} if isinstance(there, dict) else values
    try:
        recipe = Recipe.model_validate(tables)
        assert recipe.until
    except pydantic.ValidationError as error:
        raise SlimError(f"{path or 'the recipe'}: {_first_fault(error)}") from error
    return recipe


def _first_fault(error: pydantic.ValidationError) -> str:
    """The first fault in words, with the key and the cure."""
    fault = error.errors()[0]
    place = [str(part) for part in fault["loc"]]
    key = printable(".".join(place))
    if fault["type"] == "extra_forbidden":
        known = _keys(place[:-1])
        cure = did_you_mean(place[-1], known, f"the keys are {', '.join(known)}")
        return f"there is no key '{key}'; {cure}"
    return f"'{key}': {printable(fault['msg'].removeprefix('Value error, '))}"


def _keys(place: Sequence[str]) -> list[str]:
    """The keys of a table, or the tables."""
    model: type[pydantic.BaseModel] = Recipe
    for part in place:
        model = type(model.model_fields[part].default)
    return list(model.model_fields)
