"""The one table of the options of a plan, for the command, for programs and for the pages about both.

A field of `PlanOptions` is a row: its type and default are for programs, its `Option` says how it is written on the
command line, in which group it is listed, and in words what it does. `cli/options.py` makes the command's options of
it, `tests/docs_commands.py` the tables of docs/commands.md, and `resolved` what `build.py` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from shoehorn_mcu.base.errors import one_line
from shoehorn_mcu.firmware import option_text
from shoehorn_mcu.firmware.pipelines import Strides
from shoehorn_mcu.firmware.settings import Fit, Options
from shoehorn_mcu.firmware.sliding import hop_of
from shoehorn_mcu.kernels.tuning import Tuning, load
from shoehorn_mcu.machine import targets
from shoehorn_mcu.passes.ends.user_ends import Pixels
from shoehorn_mcu.passes.float_mode import FloatMode
from shoehorn_mcu.planner import Goal

_Value = TypeVar("_Value")
Place = str | PathLike[str]
Numbers = Sequence[float]
Percent = float  # the class below has a field of the type's name
Minimize = Literal["time", "sram", "flash"]
Float = Literal["precise", "strict", "relaxed", "half"]
Io = Literal["kernels", "native"]


class Group(Enum):
    """The groups of options, in the order of `--help`; the value is the heading."""

    MODEL = "Model and board"
    MEMORY = "Memory"
    TIME = "Time"
    ENDS = "Inputs and outputs"
    SEVERAL = "Several models"
    OUTPUT = "Output"


@dataclass(frozen=True)
class Option:
    """A row of the table beside its field. What follows `help` says how text becomes a value; else the default does."""

    written: str  # with its value, if it has one: --sram SIZE
    group: Group
    help: str
    read: Callable[[str], object] | None = None
    choices: Sequence[str] = ()
    least: int | None = None
    most: int | None = None
    repeated: bool = False
    shown: bool = False  # the default is

    @property
    def name(self) -> str:
        return self.written.partition(" ")[0]

    @property
    def metavar(self) -> str | None:
        return self.written.partition(" ")[2] or None

    @property
    def words(self) -> str:
        """The help with the sentence that is the same for all options of a kind."""
        return f"{self.help} Repeatable." if self.repeated else self.help


_KEY = "option"  # of a field's metadata


def _row(default: _Value, written: str, group: Group, help: str, **how: Any) -> _Value:
    """A field with its row. It says that it has the type of its default, which is what type checkers expect."""
    value: dict[str, Any] = {"default_factory": dict} if isinstance(default, dict) else {"default": default}
    made: _Value = field(**value, metadata={_KEY: Option(written, group, help, **how)})
    return made


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The target of a plan, and its limits; `PlanOptions()` is portable C without a limit.

    Give `board` (an id of `gen boards`, or the path of a manifest) or `cpu` (such as "cortex-m4"), or neither.
    The options of the commands have the same meanings; docs/commands.md lists both side by side.
    """

    board: str | None = _row(
        None,
        "--board BOARD",
        Group.MODEL,
        "The board whose kernels and memories the plan uses; `gen boards` lists them.",
    )
    cpu: str | None = _row(
        None,
        "--cpu CPU",
        Group.MODEL,
        "The core whose kernels the plan uses, such as cortex-m4. Default: kernels in portable C.",
    )
    shapes: Mapping[str, int | Sequence[int]] = _row(
        {},
        "--shape NAME=N",
        Group.MODEL,
        "Size of a dimension that the model leaves open, or with INPUT=1x3x96x96 of a whole input.",
        read=option_text.shape,
        repeated=True,
    )
    float: Float = _row(
        "precise",
        "--float",
        Group.MODEL,
        "How a float32 model adds: exactly as the reference of the core, in the order of TensorFlow Lite, with numbers "
        "below 2^-126 as 0, or with that and float16 storage.",
        choices=get_args(Float),
        shown=True,
    )
    disable: Sequence[str] = _row(
        (), "--disable PASS", Group.MODEL, "Skip this pass or choice; docs/planning.md lists them.", repeated=True
    )
    sram_bytes: int | Literal["fit"] | Mapping[str, int] | None = _row(
        None,
        "--sram SIZE|fit|NAME=SIZE,...",
        Group.MEMORY,
        "Largest arena: bytes, 64k or 1M; fit: all SRAM that the board has left. With names: the most of each of these "
        "memories of the board. Default: fit, but less where that costs almost no time.",
        read=option_text.budget,
    )
    flash_bytes: int | None = _row(
        None,
        "--flash SIZE",
        Group.MEMORY,
        "Most flash for the constants and code of a library that is for no board: bytes, 64k or 1M. Default: any.",
        read=option_text.size,
    )
    weights_in_ram: int | Literal["fit"] | None = _row(
        None,
        "--weights-in-ram SIZE|fit",
        Group.MEMORY,
        "Copy at most so many bytes of weights to RAM at start-up; fit: all that the plan leaves. The weights that the "
        "core waits longest for in flash are copied first. Default: none.",
        read=option_text.size_or_fit,
    )
    recompute_percent: Percent | None = _row(
        None,
        "--recompute PERCENT",
        Group.MEMORY,
        "Most MACs that may be recomputed, in percent of the model's. Default: as many as --sram requires; none "
        "without --sram or with --minimize sram.",
        read=option_text.percent,
    )
    minimize: Minimize = _row(
        "time",
        "--minimize",
        Group.TIME,
        "What to minimize: the time within --sram, the arena, or the flash of kernels and constants.",
        choices=get_args(Minimize),
        shown=True,
    )
    slower_percent: Percent | None = _row(
        None,
        "--slower PERCENT",
        Group.TIME,
        "Take the smallest plan that is predicted to take at most this much more time than the fastest, such as 5%.",
        read=option_text.percent,
    )
    tuning: Place | None = _row(
        None,
        "--tuning FILE",
        Group.TIME,
        "Measured choices of kernels, a JSON file of `gen tune`; the other ops get the kernels that are predicted to "
        "be fastest.",
        read=Path,
    )
    cores: int = _row(
        1,
        "--cores N",
        Group.TIME,
        "Divide the rows of each layer among this many cores of the board.",
        least=1,
        most=64,
        shown=True,
    )
    stream_input: bool = _row(
        False,
        "--stream-input",
        Group.ENDS,
        "Accept the input row by row (<model>_push_row) and never hold it whole; for models with one input.",
    )
    stream_output: bool = _row(
        False,
        "--stream-output",
        Group.ENDS,
        "Hand out each row of the output as soon as it is finished (<model>_on_row) and never hold it whole; for "
        "models with one output.",
    )
    preserve: Sequence[str] = _row(
        (), "--preserve TENSOR", Group.ENDS, "Make this tensor a further output.", repeated=True
    )
    io: Io = _row(
        "kernels",
        "--io",
        Group.ENDS,
        "Order of dimensions in inputs and outputs: channels last, as kernels take them, or as in the model's file.",
        choices=get_args(Io),
        shown=True,
    )
    pixels: tuple[Numbers, Numbers] | None = _row(
        None,
        "--pixels MEAN/DEV",
        Group.ENDS,
        "Take uint8 pixels of 0 to 255 and compute (pixel - MEAN) / DEV. Both are one number, or one per channel.",
        read=option_text.pixels,
    )
    top: int = _row(
        0,
        "--top K",
        Group.ENDS,
        "Give the places of the K largest scores as a further output `top`, the largest first. Default: none.",
        least=0,
        most=1000,
    )
    classes: Sequence[str] = _row(
        (),
        "--classes FILE",
        Group.ENDS,
        "A file with the name of a class per line, for <model>_class(number) and for the output of gen validate.",
        read=option_text.classes,
    )
    states: Mapping[str, str] = _row(
        {},
        "--state IN=OUT",
        Group.ENDS,
        "Feed output OUT back to input IN at the next inference. In the first inference the input is zeros.",
        read=option_text.state,
        repeated=True,
    )
    stateless: bool = _row(
        False,
        "--stateless",
        Group.ENDS,
        "Begin every inference with the first values of the model's states, such as an LSTM's.",
    )
    slide: int | str | None = _row(
        None,
        "--slide N|TIME",
        Group.ENDS,
        "Take N new rows of the model's window in each inference, or 20ms of them, and compute only what they change. "
        "With a time, a row lasts --stride samples of --rate.",
        read=option_text.hop,
    )
    behind: Place | None = _row(
        None,
        "--pipeline",
        Group.SEVERAL,
        "Join MODEL, which computes features of sound samples, and MODEL2, which decides by them, into one model.",
    )
    stride: int | None = _row(
        None,
        "--stride TIME",
        Group.SEVERAL,
        "Hop between the slices of a pipeline, or from row to row of --slide: samples, or 20ms. Default: two thirds of "
        "a slice, and one sample.",
    )
    slices: int | None = _row(
        None,
        "--slices N",
        Group.SEVERAL,
        "New slices in an inference of a pipeline, or hops of --slide. Default: 1, or all that a MODEL2 with states "
        "takes.",
        least=1,
    )
    sample_hz: int = _row(
        16000,
        "--rate HZ",
        Group.SEVERAL,
        "Samples per second of a pipeline, or of the rows of --slide.",
        least=1,
        most=10**6,
        shown=True,
    )


TABLE: Mapping[str, tuple[Option, object]] = {
    each.name: (each.metadata[_KEY], {} if callable(each.default_factory) else each.default)
    for each in fields(PlanOptions)
}
"""By field: its row and its default."""


def resolved(options: PlanOptions, caller_arena: bool = False) -> tuple[targets.Board | None, Options]:
    """The board, if there is one, and what `build.py` takes; raises ShoehornError where a name or a file is wrong."""
    board = targets.board(options.board) if options.board is not None else None
    if board is not None and options.cpu is not None and targets.cpu(options.cpu) != board.spec.cpu:
        raise targets.WrongCpu(f"--cpu {one_line(options.cpu)}: {board.id} has a {board.spec.cpu}; leave --cpu out")
    weights = options.weights_in_ram
    return board, Options(
        sram_bytes=Fit(options.sram_bytes) if isinstance(options.sram_bytes, str) else options.sram_bytes,
        weights_in_ram=Fit(weights) if isinstance(weights, str) else weights,
        goal=Goal.SRAM if options.minimize == "sram" else Goal.TIME,
        slower_percent=options.slower_percent,
        smallest_kernels=options.minimize == "flash",
        disabled=frozenset(names(options.disable)),
        preserve=names(options.preserve),
        stream_input=options.stream_input,
        stream_output=options.stream_output,
        recompute_percent=options.recompute_percent,
        tuning=load(Path(options.tuning)) if options.tuning is not None else Tuning(),
        caller_arena=caller_arena,
        float_mode=FloatMode(options.float),
        cpu=targets.cpu(options.cpu) if options.cpu is not None else None,
        stand_in=targets.stand_in(options.cpu or ""),
        flash_bytes=options.flash_bytes,
        cores=options.cores,
        shapes=sizes(options.shapes),
        states=options.states,
        stateless=options.stateless,
        native_io=options.io == "native",
        pixels=Pixels(*(tuple(map(float, each)) for each in options.pixels)) if options.pixels else None,
        top=options.top,
        classes=names(options.classes),
        behind=Path(options.behind) if options.behind is not None else None,
        strides=Strides(options.stride, options.slices),
        hop=hop_of(options.slide, options.stride, options.slices, options.sample_hz),
        sample_hz=options.sample_hz,
    )


def names(given: Collection[str]) -> tuple[str, ...]:
    """The names as a tuple; a string is one name, not the collection of its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def sizes(shapes: Mapping[str, int | Sequence[int]]) -> Mapping[str, tuple[int, ...]]:
    """The sizes of each name as a tuple."""
    return {name: (each,) if isinstance(each, int) else tuple(each) for name, each in shapes.items()}
