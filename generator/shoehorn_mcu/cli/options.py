"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.cli.console import Finite, together
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.pipelines import Strides
from shoehorn_mcu.kernels.tuning import Tuning, load
from shoehorn_mcu.passes.ends.user_ends import Pixels
from shoehorn_mcu.planner import Goal
from shoehorn_mcu_host.base.files import read_bytes

_UNITS = {"": 1, "k": 1024, "m": 1024**2}


def size(text: str) -> int:
    """Bytes: 16384, 64k, 1M."""
    match = re.fullmatch(r"(\d{1,12})([kKmM]?)", text.strip())
    if not match or int(match[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a size; write bytes, 64k or 1M")
    return int(match[1]) * _UNITS[match[2].lower()]


def _budget(text: str) -> int | build.Fit | dict[str, int]:
    """A size, `fit`, or by name sizes of memories: dtcm=64k,sram1=1M."""
    if "=" in text:
        found: dict[str, int] = {}
        for part in text.split(","):
            name, _, bytes_ = part.strip().partition("=")
            if not name or not bytes_:
                raise click.BadParameter(f"'{part}' is not NAME=SIZE; write ram=64k,ccm=16k")
            if name in found:
                raise click.BadParameter(f"'{name}' is given twice")
            found[name] = size(bytes_)
        return found
    return _size_or_fit(text)


def _size_or_fit(text: str) -> int | build.Fit:
    """A size, or `fit`."""
    try:
        return build.Fit(text.strip())
    except ValueError:
        return size(text)


def _percent(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """5% or 5."""
    if value is None:
        return None
    if not re.fullmatch(r"\d{1,4}(\.\d{1,6})?%?", value.strip()):
        raise click.BadParameter(f"'{value}' is no share; write 5%")
    return float(value.strip().removesuffix("%"))


def _shapes(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Each NAME=N or INPUT=NxCxHxW as its name and its sizes."""
    found = {}
    for value in values:
        name, _, sizes = value.rpartition("=")
        if not name or not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", sizes):
            raise click.BadParameter(f"'{value}' is not NAME=N; write batch=1, or image=1x3x96x96 for a whole input")
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice")
        found[name] = tuple(map(int, sizes.split("x")))
    return found


def _states(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Each IN=OUT, as the output by the input."""
    found: dict[str, str] = {}
    for value in values:
        read, _, write = value.partition("=")
        if not read or not write:
            raise click.BadParameter(f"'{value}' is not IN=OUT; write the names of an input and of an output")
        if read in found:
            raise click.BadParameter(f"'{read}' is given twice")
        found[read] = write
    return found


_LARGEST_CLASSES = 1 << 20  # bytes of a list of names


def _pixels(_context: click.Context, _option: click.Parameter, value: str | None) -> Pixels | None:
    """MEAN/DEVIATION, each one number or one per channel."""
    if value is None:
        return None
    try:
        means, deviations = (tuple(map(float, part.split(","))) for part in value.split("/"))
    except ValueError:
        cure = "write 127.5/127.5, or a value per channel"
        raise click.BadParameter(f"'{value}' is not MEAN/DEVIATION; {cure}") from None
    if not all(map(isfinite, (*means, *deviations))) or not all(deviation > 0 for deviation in deviations):
        raise click.BadParameter(f"'{value}': means must be finite, and deviations above 0")
    return Pixels(means, deviations)


def _classes(_context: click.Context, _option: click.Parameter, value: Path | None) -> tuple[str, ...]:
    """The lines of a text file."""
    if value is None:
        return ()
    try:
        text = read_bytes(value, _LARGEST_CLASSES).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = f"{value}: cannot be read as a list of names, one per line"
        raise click.BadParameter(f"{said} ({error})") from error
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not found:
        raise click.BadParameter(f"{value}: is empty; write a name per line, that of class 0 first")
    return found


def _samples(text: str, rate: int) -> int:
    """Samples: 320, 20ms."""
    match = re.fullmatch(r"(\d{1,7})(ms)?", text.strip())
    number = int(match[1]) * (rate if match[2] else 1) if match else 0
    if not match or number == 0 or (match[2] and number % 1000):
        raise click.UsageError(f"--stride {text}: write samples, such as 320, or whole milliseconds, such as 20ms")
    return number // 1000 if match[2] else number


shape_option = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=N",
    callback=_shapes,
    help="Size of a dimension that a model leaves open, or with INPUT=1x3x96x96 of a whole input; repeatable.",
)


@dataclass(frozen=True)
class Planning:
    """The values of the planning options of a command, as click read them."""

    sram: int | build.Fit | dict[str, int] | None  # bytes, of memories by name
    weights_in_ram: int | build.Fit | None  # bytes
    minimize: str
    slower: float | None
    stream_input: bool
    stream_output: bool
    recompute: float | None  # percent
    disable: tuple[str, ...]
    preserve: tuple[str, ...]
    tuning: Path | None
    cores: int
    float: str
    shapes: dict[str, tuple[int, ...]]
    io: str
    pixels: Pixels | None
    top: int
    classes: tuple[str, ...]
    states: dict[str, str]
    stateless: bool
    behind: Path | None
    pipeline: bool
    stride: str | None  # samples, or with "ms" behind it milliseconds
    slices: int | None
    rate: int  # samples per second

    def options(self) -> build.Options:
        """Reads the tuning file; raises ShoehornError where it is not one, UsageError for a pipeline of one model."""
        if self.pipeline and self.behind is None:
            raise click.UsageError("--pipeline takes two models: FRONT.tflite WAKE.tflite --pipeline")
        if self.slower is not None and self.minimize == "sram":
            raise click.UsageError("--slower bounds the time of the smallest plan; leave --minimize sram out")
        if self.behind is not None and not self.pipeline:
            cure = "gen firmware takes several models"
            raise click.UsageError(f"'{self.behind}' is a second model, which --pipeline is for; {cure}")
        if not self.pipeline and (self.stride or self.slices):
            raise click.UsageError("--stride and --slices belong to --pipeline")
        stride = None if self.stride is None else _samples(self.stride, self.rate)
        return build.Options(
            self.sram,
            Goal.SRAM if self.minimize == "sram" else Goal.TIME,
            frozenset(self.disable),
            self.preserve,
            self.stream_input,
            self.recompute,
            load(self.tuning) if self.tuning else Tuning(),
            smallest_kernels=self.minimize == "flash",
            stream_output=self.stream_output,
            cores=self.cores,
            float_mode=build.FloatMode(self.float),
            shapes=self.shapes,
            native_io=self.io == "native",
            pixels=self.pixels,
            top=self.top,
            classes=self.classes,
            states=self.states,
            stateless=self.stateless,
            behind=self.behind,
            strides=Strides(stride, self.slices),
            sample_hz=self.rate,
            slower_percent=self.slower,
            weights_in_ram=self.weights_in_ram,
        )


_planning_options = together(
    click.argument("behind", type=click.Path(path_type=Path), required=False, metavar="[MODEL2]"),
    click.option(
        "--pipeline",
        is_flag=True,
        help="MODEL makes features of samples, MODEL2 decides by them: both become one model of a stream of samples.",
    ),
    click.option(
        "--stride",
        metavar="TIME",
        help="From a slice of a pipeline to the next: samples, or 20ms. Default: two thirds of a slice.",
    ),
    click.option(
        "--rate",
        type=click.IntRange(1, 10**6),
        default=16000,
        show_default=True,
        metavar="HZ",
        help="Samples per second of a pipeline.",
    ),
    click.option(
        "--slices",
        type=click.IntRange(min=1),
        metavar="N",
        help="New slices in an inference of a pipeline. Default: 1, or all that a MODEL2 with states takes.",
    ),
    click.option(
        "--sram",
        type=_budget,
        metavar="SIZE|fit|NAME=SIZE,...",
        help="Largest arena: bytes, 64k or 1M; fit: all that the board has left. Default: fit, but less where that "
        "costs almost no time. With names: the most of each of these memories of the board.",
    ),
    click.option(
        "--weights-in-ram",
        type=_size_or_fit,
        metavar="SIZE|fit",
        help="Copy weights to RAM at start-up, those first that the flash makes the core wait for most: at most so "
        "many bytes; fit: all that the plan leaves. Default: none.",
    ),
    click.option(
        "--minimize",
        type=click.Choice(["time", "sram", "flash"]),
        default="time",
        show_default=True,
        help="Minimize the time within --sram, or the arena, or the flash of the kernels.",
    ),
    click.option(
        "--slower",
        metavar="PERCENT",
        callback=_percent,
        help="The smallest plan that is predicted to take at most this much more time than the fastest, such as 5%.",
    ),
    click.option(
        "--stream-input",
        is_flag=True,
        help="Accept the input row by row (<model>_push_row) and never hold it whole; for models with one input.",
    ),
    click.option(
        "--stream-output",
        is_flag=True,
        help="Hand out each row of the output as soon as it is finished (<model>_on_row) and never hold it whole; "
        "for models with one output.",
    ),
    click.option(
        "--recompute",
        type=Finite(0),
        metavar="PERCENT",
        help="Most MACs that may be recomputed, in percent of the model's. "
        "Default: as many as --sram requires; none without --sram or with --minimize sram.",
    ),
    click.option("--disable", multiple=True, metavar="PASS", help="Skip this pass, or choice; repeatable."),
    click.option("--preserve", multiple=True, metavar="TENSOR", help="Make this tensor a further output; repeatable."),
    click.option(
        "--tuning",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Measured choices of kernels, JSON; the other ops get the kernels that are predicted to be fastest.",
    ),
    click.option(
        "--cores",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        metavar="N",
        help="Divide the rows of each layer among this many cores of the board.",
    ),
    click.option(
        "--float",
        type=click.Choice([mode.value for mode in build.FloatMode]),
        default="precise",
        show_default=True,
        help="Sums of a float32 model: the reference's, or with fused multiply-add, or with float16 storage as well.",
    ),
    shape_option,
    click.option(
        "--io",
        type=click.Choice(["kernels", "native"]),
        default="kernels",
        show_default=True,
        help="Order of dimensions in inputs and outputs: channels last, as kernels take them, or the model file's.",
    ),
    click.option(
        "--pixels",
        metavar="MEAN/DEV",
        callback=_pixels,
        help="Take pixels of 0 to 255, uint8, and compute (pixel - MEAN) / DEV; each one number, or one per channel.",
    ),
    click.option(
        "--top",
        type=click.IntRange(0, 1000),
        default=0,
        metavar="K",
        help="Give the places of the K largest scores as a further output, the largest first. Default: none.",
    ),
    click.option(
        "--classes",
        type=click.Path(path_type=Path),
        metavar="FILE",
        callback=_classes,
        help="Names of the classes, a line each: the library has <model>_class(number), and gen validate prints them.",
    ),
    click.option(
        "--state",
        "states",
        multiple=True,
        metavar="IN=OUT",
        callback=_states,
        help="Keep what output OUT gives as what input IN reads in the next inference, zeros in the first; repeatable.",
    ),
    click.option(
        "--stateless",
        is_flag=True,
        help="Begin every inference with the first values of the model's states, such as those of an LSTM.",
    ),
)


def planning_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that plans a model; the command receives them as `planning`, a Planning."""

    @wraps(command)
    def run(*args: object, **values: Any) -> None:
        command(*args, planning=Planning(**{f.name: values.pop(f.name) for f in fields(Planning)}), **values)

    return _planning_options(run)


writing_options = together(
    click.option(
        "--caller-arena",
        is_flag=True,
        help="Let the program own the arena and pass it to <model>_init, so that several models can share one.",
    ),
    click.option("--force", is_flag=True, help="Replace files that were changed since Shoehorn wrote them."),
)
"""The options of the commands that write a library."""
