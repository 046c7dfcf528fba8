"""What is swept: models, boards and values of options, less what is excluded; from a TOML file or from arguments."""

from __future__ import annotations

import itertools
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic

from shoehorn_mcu.base.errors import ShoehornError, did_you_mean, first_line, printable
from shoehorn_mcu.firmware.options import TABLE, PlanOptions
from shoehorn_mcu.machine import targets
from shoehorn_mcu.sweeps.fault import SweepError
from shoehorn_mcu_host.base.files import read_text

_FILE_BYTES = 1 << 20
_MOST = 1_000_000  # combinations
_NOT_SWEPT = {"board", "cpu", "flash_bytes", "behind", "stride", "slices", "sample_hz", "classes", "tuning"}
_Value = TypeVar("_Value")


class Stage(IntEnum):
    """How far each combination goes; a stage needs all before it."""

    PLAN = 0
    FIRMWARE = 1
    BUILD = 2
    VALIDATE = 3
    BENCH = 4

    @property
    def word(self) -> str:
        """As users write it."""
        return self.name.lower()

    @property
    def reached(self) -> Status:
        """The status of a row whose last stage this is."""
        return tuple(Status)[self]


class Status(StrEnum):
    """What became of a combination; the first five say how far it came, in the order of the stages."""

    PLANNED = "planned"
    WRITTEN = "written"
    BUILT = "built"
    VALIDATED = "validated"
    MEASURED = "measured"
    MISMATCH = "mismatch"  # the board's bytes differ from the reference's
    REFUSED = "refused"  # the model cannot run like this, and the row says why
    FAILED = "failed"  # this machine, its boards, or a defect of ours; computed anew by the next run
    OPEN = "open"  # no worker has the board; computed anew by the next run


STAGES = {stage.word: stage for stage in Stage}
DONE = tuple(stage.reached for stage in Stage)
FINAL = (*DONE, Status.REFUSED, Status.MISMATCH)
"""A row with another status is computed anew by the next run."""

OPTIONS: Mapping[str, str] = {
    row.name.removeprefix("--"): name for name, (row, _) in TABLE.items() if name not in _NOT_SWEPT and not row.repeated
}
"""The options that can be an axis, as the command writes them without dashes, and their fields of PlanOptions."""


@dataclass(frozen=True)
class Combination:
    """One model on one board with some options, all in the user's words."""

    model: str  # a path, absolute
    board: str  # an id, or the path of a manifest
    options: Mapping[str, str] = field(default_factory=dict)  # names of OPTIONS with their values as text

    @property
    def words(self) -> str:
        """The options as on a command line."""
        return " ".join(
            f"--{name}" if value == "yes" else f"--{name} {value}"
            for name, value in self.options.items()
            if value != "no"
        )

    @property
    def name(self) -> str:
        """For messages: the model's file without its ending, the board, and the options."""
        return " ".join(filter(None, (Path(self.model).stem, self.board, self.words)))

    @cached_property
    def plan_options(self) -> PlanOptions:
        """What `build.py` is asked for; SweepError where a value is none of the option."""
        found: dict[str, Any] = {OPTIONS[name]: value_of(name, text) for name, text in self.options.items()}
        return PlanOptions(board=self.board, **found)


def value_of(name: str, text: str) -> object:
    """The value of an option from its text, as the command reads it; SweepError where it is none."""
    row, default = TABLE[OPTIONS[name]]
    try:
        if row.read is not None:
            return row.read(text)
        if row.choices and text not in row.choices:
            raise ValueError(f"'{text}' is none of {', '.join(row.choices)}")
        if isinstance(default, bool):
            return {"yes": True, "no": False}[text]
        if row.least is not None:
            number = int(text)
            if number < row.least or (row.most is not None and number > row.most):
                raise ValueError(f"{number} is not between {row.least} and {row.most}")
            return number
        return text
    except KeyError:
        raise SweepError(f"--{name}: '{text}' is not yes or no") from None
    except ValueError as error:
        raise SweepError(f"--{name}: {error}") from error


_Words = Annotated[
    tuple[str, ...], pydantic.BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]


class _Table(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class _Exclude(_Table):
    """Combinations that have all of this are left out. A list means any of its members."""

    model: _Words = ()
    board: _Words = ()
    options: Mapping[str, _Words] = pydantic.Field(default_factory=dict)


class _File(_Table):
    """A sweep's file."""

    models: _Words
    boards: _Words
    until: str = Stage.BENCH.word
    vectors: Annotated[int, pydantic.Field(ge=1, le=100_000)] = 3
    runs: Annotated[int, pydantic.Field(ge=1, le=1000)] = 1
    options: Mapping[str, _Words] = pydantic.Field(default_factory=dict)
    exclude: tuple[_Exclude, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """The axes of a sweep, and how far each combination goes."""

    models: tuple[str, ...]  # absolute paths
    boards: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    until: Stage = Stage.BENCH
    vectors: int = 3  # random inputs that each firmware is validated with
    runs: int = 1  # inferences that each firmware is timed with
    excluded: tuple[_Exclude, ...] = ()

    def combinations(self) -> Iterator[Combination]:
        """All that is not excluded, in the order of the axes."""
        for model, board, *values in itertools.product(self.models, self.boards, *self.options.values()):
            made = Combination(model, board, dict(zip(self.options, values, strict=True)))
            if not any(_has(each, made) for each in self.excluded):
                yield made


def _has(excluded: _Exclude, made: Combination) -> bool:
    names = (made.model, Path(made.model).name, Path(made.model).stem)
    return (
        (not excluded.model or any(name in excluded.model for name in names))
        and (not excluded.board or made.board in excluded.board)
        and all(made.options.get(name) in values for name, values in excluded.options.items())
    )


def of_file(path: Path) -> Sweep:
    """The sweep of a TOML file. Models are paths or patterns, beside the file; SweepError names what is wrong in it."""
    try:
        given = tomllib.loads(read_text(path, _FILE_BYTES))
    except (OSError, ShoehornError) as error:
        raise SweepError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML
        raise SweepError(f"{path}: {printable(first_line(error))}") from error
    try:
        found = _File.model_validate(given)
    except pydantic.ValidationError as error:
        raise SweepError(f"{path}: {_first_fault(error)}") from error
    models = [name for pattern in found.models for name in _matched(pattern, path.parent)]
    try:
        return checked(models, found.boards, found.options, found.until, found.vectors, found.runs, found.exclude)
    except ShoehornError as error:
        raise SweepError(f"{path}: {error}") from error


def _matched(pattern: str, folder: Path) -> list[str]:
    """The files that a path or a pattern names, in the order of their names."""
    if not any(sign in pattern for sign in "*?["):
        return [str((folder / pattern).resolve())]
    base = Path(pattern)
    start, rest = (Path(base.anchor), str(base.relative_to(base.anchor))) if base.is_absolute() else (folder, pattern)
    found = sorted(str(each.resolve()) for each in start.glob(rest) if each.is_file())
    if not found:
        raise SweepError(f"models: '{printable(pattern)}' names no file below {folder}")
    return found


def _first_fault(error: pydantic.ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(each) for each in fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = list(_Exclude.model_fields if place.startswith("exclude") else _File.model_fields)
        key = str(fault["loc"][-1])
        return f"no key is called '{printable(place)}'; {did_you_mean(key, known, 'there are ' + ', '.join(known))}"
    return f"{printable(place)}: {fault['msg'][0].lower()}{fault['msg'][1:]}"


def checked(
    models: Sequence[str],
    boards: Sequence[str],
    options: Mapping[str, Sequence[str]],
    until: str = Stage.BENCH.word,
    vectors: int = 3,
    runs: int = 1,
    excluded: Sequence[_Exclude] = (),
) -> Sweep:
    """The sweep of these axes, with every name and value looked at; a model's file is not opened."""
    if until not in STAGES:
        raise SweepError(f"until: '{printable(until)}' is no stage; there are {', '.join(STAGES)}")
    for axis, values in (("models", models), ("boards", boards), *options.items()):
        if not values:
            raise SweepError(f"{axis}: the axis has no value")
        for value, count in Counter(values).items():
            if count > 1:
                raise SweepError(f"{axis}: '{printable(value)}' is given twice")
    for name in dict.fromkeys((*options, *(name for each in excluded for name in each.options))):
        if name not in OPTIONS:
            cure = did_you_mean(name, OPTIONS, f"there are {', '.join(OPTIONS)}")
            raise SweepError(f"options: '{printable(name)}' cannot be swept; {cure}")
    for name, texts in options.items():
        for text in texts:
            value_of(name, text)
    for board in boards:
        targets.board(board)
    made = Sweep(
        tuple(models),
        tuple(boards),
        {name: tuple(texts) for name, texts in options.items()},
        STAGES[until],
        vectors,
        runs,
        tuple(excluded),
    )
    count = len(models) * len(boards)
    for texts in options.values():
        count *= len(texts)
    if count > _MOST:
        raise SweepError(f"the axes have {count:,} combinations, more than {_MOST:,}; sweep them in parts")
    if next(made.combinations(), None) is None:
        raise SweepError("every combination is excluded; leave an [[exclude]] out")
    return made
