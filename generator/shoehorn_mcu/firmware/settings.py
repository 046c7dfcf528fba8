"""The options of a plan as `build.py` takes them: read, checked one by one, and with their files loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from shoehorn_mcu.firmware.pipelines import Strides
from shoehorn_mcu.importers import Shapes
from shoehorn_mcu.kernels.tuning import Tuning
from shoehorn_mcu.passes.ends.user_ends import Pixels
from shoehorn_mcu.passes.float_mode import FloatMode
from shoehorn_mcu.planner import Goal


class Fit(Enum):
    """A budget that is what the board has."""

    FIT = "fit"


@dataclass(frozen=True)
class Hop:
    """The rows that are new in an inference, and how long they last, where that is known."""

    rows: int
    seconds: float | None = None
    said: str = field(default="", compare=False)  # a time in the user's words, with the rows that it is


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    # For the arena; FIT: all SRAM that the board has left; None: the same, but a plan with less for little more time.
    # By name: for the arenas in these memories. A size alone is for an arena in the main memory and no other one.
    sram_bytes: int | Fit | Mapping[str, int] | None = None
    goal: Goal = Goal.TIME
    disabled: frozenset[str] = frozenset()
    preserve: tuple[str, ...] = ()
    stream_input: bool = False  # the input arrives row by row
    # Percent of the model's MACs that may be recomputed; None: as many as a limit of the arena requires, and none for
    # the smallest arena or without a limit.
    recompute_percent: float | None = None
    tuning: Tuning = Tuning()
    smallest_kernels: bool = False  # the kernels with the least flash, constants included, not the fastest ones
    caller_arena: bool = False  # the program passes the arena to the library
    cpu: str | None = None  # key of targets.CPUS, without a board; None: portable kernels
    stand_in: str = ""  # a line for the user where `cpu` is not the core that was named
    flash_bytes: int | None = None  # for the library's constants and code, without a board
    cores: int = 1  # that may share the rows of a step
    float_mode: FloatMode = FloatMode.PRECISE
    shapes: Shapes = field(default_factory=dict)  # of dimensions that the model's file leaves open
    native_io: bool = False  # inputs and outputs in the order of the model's file
    pixels: Pixels | None = None  # the input is uint8 pixels, from which the model's own values are computed
    top: int = 0  # places of the largest scores that become a further output
    classes: tuple[str, ...] = ()  # the names of the classes that the one output tells apart
    states: Mapping[str, str] = field(default_factory=dict)  # outputs whose values inputs read in the next inference
    stateless: bool = False  # every inference begins with the first values of the model's states
    behind: Path | None = None  # the model that decides by the features which the given one makes (pipelines.py)
    strides: Strides = Strides()
    sample_hz: int = 16000  # of a pipeline's samples
    slower_percent: float | None = None  # the smallest plan that takes at most so much more time than the fastest
    one_memory: bool = False  # further memories of the board are not used
    hop: Hop | None = None  # the model takes new rows of its window
    stream_output: bool = False  # the output is handed out row by row
    weights_in_ram: int | Fit | None = None  # most bytes of constants that start-up copies to RAM; FIT: what is left
