"""The schema of a board's manifest, for the generator (boards/*.json) and for written folders (DIR/boards/*.json).

A manifest is data that anybody may have written: no text of it can become more than the one word or the one line that
it stands for, neither in C, in a linker script, in PlatformIO's settings nor on a command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

import pydantic

from shoehorn_mcu_host.base.emulators import EMULATORS, Level
from shoehorn_mcu_host.base.emulators import Emulator as EmulatorRow
from shoehorn_mcu_host.base.errors import one_line, printable


def _text(pattern: str, rule: str) -> pydantic.AfterValidator:
    """A text that `pattern` describes as a whole, without `..`; `rule` says in words what may be written."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text) or ".." in text:
            raise ValueError(f"{one_line(text)} is refused; write {rule}")
        return text

    return pydantic.AfterValidator(check)


def _of_digits(value: object) -> object:
    """The number that a text such as "0x40011000" stands for; anything else as it is."""
    hexadecimal = isinstance(value, str) and re.fullmatch(r"0x[0-9A-Fa-f]{1,8}", value)
    return int(str(value), 16) if hexadecimal else value


Count = Annotated[int, pydantic.Field(ge=0, lt=2**63), pydantic.BeforeValidator(_of_digits)]
Positive = Annotated[int, pydantic.Field(gt=0, lt=2**63)]
Register = Annotated[int, pydantic.Field(ge=0, lt=2**32), pydantic.BeforeValidator(_of_digits)]

_WORD, _OF_A_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", "one word of letters, digits, '_', '-' and '.'"

Word = Annotated[str, _text(_WORD, _OF_A_WORD)]
WordOrNone = Annotated[str, _text(f"|{_WORD}", _OF_A_WORD)]
Name = Annotated[
    str, _text(r"(?!.*//)[\w ()+,./&:-]{1,100}", "one line of letters, digits, spaces and ( ) + , . / & : -")
]
Url = Annotated[str, _text(r"https?://[\w.~:/?#@!&()+,=%-]{1,200}", "an address that begins with https://")]
Define = Annotated[str, _text(r"[A-Z_][A-Z0-9_]{0,63}", "a name in upper-case letters, digits and _")]
Clock = Annotated[str, _text(r"[0-9]{1,12}L?", "a number of Hz, such as 84000000L")]
Image = Annotated[
    str,
    _text(
        r"|[A-Za-z0-9_][A-Za-z0-9_-]{0,60}\.(hex|bin|img|uf2)", "a file's name that ends in .hex, .bin, .img or .uf2"
    ),
]
ProofPath = Annotated[
    str,
    _text(
        r"|([A-Za-z0-9_][A-Za-z0-9_-]{0,60}/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,60}\.json", "FILE.json or FOLDER/FILE.json"
    ),
]
MemoryName = Annotated[str, _text(r"[a-z][a-z0-9_]{0,23}", "a memory's name in lower-case letters, digits and _")]


def _line(text: str) -> str:
    if not text.isprintable() or len(text) > 300:
        raise ValueError(f"{one_line(text)} is refused; write one line of at most 300 printable characters")
    return text


Line = Annotated[str, pydantic.AfterValidator(_line)]
Waits = Annotated[float, pydantic.Field(ge=0, le=1000, allow_inf_nan=False)]


_FIRST = pydantic.FailFast()
"""Of a list: only the first element that is wrong is told, because each that is told takes memory."""


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Memory(_Strict):
    """One memory region of the board, as the linker script sees it."""

    name: MemoryName
    kind: Literal["ram", "flash", "tcm"]  # tcm: tightly coupled memory, fast and often out of reach of DMA
    origin: Count
    bytes: Count
    # Of a ram or tcm: the mean cycles that the core waits for a byte that it reads or writes there.
    read_cycles: Waits = 0.0
    write_cycles: Waits = 0.0
    source: Line = ""  # where these figures are from

    @property
    def is_data(self) -> bool:
        """Whether tensors may be in it."""
        return self.kind != "flash"

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.origin + self.bytes

    @pydantic.model_validator(mode="after")
    def _names_the_source_of_its_waits(self) -> Memory:
        if (self.read_cycles or self.write_cycles) and not (self.source and self.is_data):
            raise ValueError(f"'{self.name}': waits need a source, and a kind other than flash (its waits: cycles)")
        return self


# The options of QEMU that a manifest may give, by what may follow each: the machine's parts and its clock. Others can
# read and write files of this machine, or start programs.
_OPTIONS = {
    "-accel": r"tcg(,thread=(single|multi))?",
    "-bios": r"none",  # where the machine would else load one
    "-cpu": r"[A-Za-z0-9][A-Za-z0-9_.-]*(,[a-z0-9_-]+=(on|off|true|false|[0-9]+))*",
    "-global": r"[a-z0-9-]+\.(flash|sram)-size=[0-9]{1,10}",  # the bytes of a chip's memories
    "-m": r"[0-9]{1,6}[KMG]?",
    "-M": r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    "-machine": r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    "-serial": r"null",  # before the console's port: one that the machine has and the firmware does not use
    "-smp": r"[0-9]{1,2}",
}


def _emulator(program: str) -> str:
    if program not in EMULATORS:
        raise ValueError(f"{one_line(program)} is no emulator; known: {', '.join(EMULATORS)}")
    return program


class Emulator(_Strict):
    """How an emulator (or, for `native`, the machine itself) runs the image."""

    program: Annotated[str, pydantic.AfterValidator(_emulator)]
    machine: WordOrNone = ""
    arguments: Annotated[tuple[str, ...], _FIRST] = ()
    unit: Literal["instructions", "cycles"] | None = None  # what its clock counts; None: what EMULATORS says
    tick_hz: Positive | None = None  # the rate of its timer; None: that of the board's

    @property
    def row(self) -> EmulatorRow:
        """What is known of the program."""
        return EMULATORS[self.program]

    @pydantic.model_validator(mode="after")
    def _has_a_machine_and_arguments_of_its_own(self) -> Emulator:
        if not self.row.is_qemu and (self.machine or self.arguments):
            raise ValueError(f"program {self.program} has neither a machine nor arguments; leave them out")
        if self.row.is_qemu and not self.machine:
            raise ValueError(f"program {self.program} needs a machine, such as microbit")
        if self.unit not in (None, self.row.counts):
            raise ValueError(f"unit: {self.program} counts {self.row.counts}, not {self.unit}; leave it out")
        options = iter(self.arguments)
        for option in options:
            value = next(options, "")
            if option not in _OPTIONS or not re.fullmatch(_OPTIONS[option], value):
                said = one_line(f"{option} {value}".rstrip())
                raise ValueError(f"arguments: {said} is refused; a manifest may give {', '.join(_OPTIONS)} with values")
        return self


_A64 = "cortex-a53"
"""The one core with a model of its cycles that runs A64 code; the others run Thumb code."""


class Cycles(_Strict):
    """What the cycles of an inference depend on; board/plugin estimates them beside the emulator."""

    core: Literal[
        "cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-a53"
    ]
    multiply_cycles: Literal[1, 32] = 1  # of Cortex-M0 and M0+
    wait_states: Annotated[int, pydantic.Field(ge=0, le=255)] = 0  # of a read of the flash, at core_hz
    line_bytes: Annotated[int, pydantic.Field(ge=4, le=256)] = 4  # of such a read
    prefetch: bool = False  # the next line of code is read while one runs
    code_lines: Annotated[int, pydantic.Field(ge=1, le=256)] = 1  # kept for fetches; 1: only the last one read
    data_lines: Annotated[int, pydantic.Field(ge=1, le=256)] = 1  # kept for reads of constants


Framework = Literal["arduino", "espidf", "stm32cube", "zephyr"]


class PlatformIO(_Strict):
    """The board in PlatformIO's registry: `gen firmware --framework` writes projects for it."""

    platform: Word
    board: Word
    frameworks: Annotated[tuple[Framework, ...], pydantic.Field(min_length=1), _FIRST]


MLPERF_BAUD = 9600
"""The rate of the console in MLPerf's energy mode."""


class Mark(_Strict):
    """The pin that says to an instrument when an inference runs (`gen firmware --energy`)."""

    pin: Name  # where the board's owner finds it
    defines: dict[Define, Register] = {}  # those that the family's drivers need for it


class RunCurrent(_Strict):
    """What the data sheet says that the chip draws while its core runs from flash, for estimates."""

    ma: Annotated[float, pydantic.Field(gt=0, le=10_000, allow_inf_nan=False)]  # at the board's core_hz
    volts: Annotated[float, pydantic.Field(gt=0, le=50, allow_inf_nan=False)]
    condition: Line  # under which: clock, memory, peripherals
    source: Line  # document and table

    def microjoules(self, seconds: float) -> float:
        """What this current takes from the supply in a time."""
        return self.ma * self.volts * seconds * 1000

    def conditions(self) -> dict[str, object]:
        """What an estimate by it says of itself."""
        known = {"ma": self.ma, "volts": self.volts, "condition": self.condition, "data_sheet": self.source}
        return {"unit": "uJ", "source": "estimate", **known}

    @property
    def words(self) -> str:
        """The same in a line."""
        return f"from {self.ma:g} mA at {self.volts:g} V, {self.condition} ({self.source})"


class Shoehorn(_Strict):
    """The block `shoehorn` of a board manifest: the facts for which PlatformIO has no key."""

    family: Word  # row of firmware_templates/families/families.json
    cpu: Word  # key of targets.CPUS
    memory: Annotated[tuple[Memory, ...], _FIRST]
    sram_bytes: Count  # shared by arena, statics and stack
    flash_bytes: Count  # shared by code and constants
    firmware_ram_bytes: Count  # the application's own statics, an upper bound checked after the build
    stack_bytes: Count  # reserved by the linker script
    cores: Annotated[int, pydantic.Field(ge=1, le=64)] = 1  # that can share an inference (--cores)
    core_hz: Positive | None = None  # the processor's clock; None: not known, or an emulator's nominal one
    cycles: Cycles | None = None  # None: cycles are not estimated
    tick_hz: Positive  # the timer that `gen bench` reads, which is not always the core's clock
    clock_name: Name
    frame_bytes: Annotated[int, pydantic.Field(ge=32, le=1024)] = 240  # largest payload of a serial frame
    defines: dict[Define, Register] = {}  # register addresses and the like: those that the family's drivers need
    mark: Mark | None = None  # None: the energy of this board's inferences is not measured
    run_current: RunCurrent | None = None  # None: it is not estimated
    emulator: Emulator | None = None
    flash_tool: Literal["pyocd", "esptool", "drive", "teensy", "dfu", "boot-partition", "emulator"]
    image: Image = ""  # the file that is flashed; empty: firmware.elf
    pyocd_target: WordOrNone = ""
    uf2_family: Register | None = None  # of a .uf2: what the board's boot loader knows its images by
    platformio: PlatformIO | None = None  # None: the registry does not have the board
    partition_bytes: Count = 0  # of the application's partition on an ESP32, which a bootloader starts
    verified: Annotated[tuple[Level, ...], _FIRST] = ()  # what was proven
    proof: ProofPath = ""  # the report of gen validate that says so, beside the manifest; hardware needs one

    @property
    def main_memory(self) -> Memory | None:
        """The memory of the stack, of statics and of the arena of a model that needs one memory only."""
        return next((memory for memory in self.memory if memory.is_data), None)

    @property
    def other_memories(self) -> tuple[Memory, ...]:
        """The memories that tensors may be in besides the main one."""
        return tuple(memory for memory in self.memory if memory.is_data and memory is not self.main_memory)

    @pydantic.model_validator(mode="after")
    def _has_memories_apart(self) -> Shoehorn:
        names = [memory.name for memory in self.memory]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"memory: two are called '{name}'; give each a name of its own")
        for memory in self.other_memories:
            if memory.name == "sram":
                raise ValueError("memory: 'sram' means the first ram; give the further memory a name of its own")
        for one, other in pairwise(sorted(self.memory, key=lambda memory: memory.origin)):
            if other.origin < one.end:
                raise ValueError(
                    f"memory: '{other.name}' at 0x{other.origin:08x} overlaps '{one.name}', which ends at "
                    f"0x{one.end:08x}; correct an origin or a size"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _has_a_clock_where_a_current_is_known(self) -> Shoehorn:
        if self.run_current and not self.core_hz:
            raise ValueError("run_current needs core_hz, the clock at which the chip draws it")
        return self

    @pydantic.model_validator(mode="after")
    def _has_an_emulator_of_its_chip(self) -> Shoehorn:
        families = self.emulator.row.families if self.emulator else frozenset()
        if self.emulator and families and self.family not in families:
            known = " and ".join(sorted(families))
            raise ValueError(f"emulator: {self.emulator.program} has the chips of {known}, not of {self.family}")
        return self

    @property
    def level(self) -> Level | None:
        """How far the board was proven."""
        return max(self.verified, key=lambda level: level.rank, default=None)

    @pydantic.model_validator(mode="after")
    def _is_proven_by_its_emulator(self) -> Shoehorn:
        for level in (Level.CORE, Level.EMULATOR):
            if level in self.verified and (self.emulator is None or self.emulator.row.proves.rank < level.rank):
                program = self.emulator.program if self.emulator else "no emulator"
                raise ValueError(
                    f"verified: {program} does not prove '{level}'; leave it out, or name an emulator that does"
                )
        if Level.HARDWARE in self.verified and not self.proof:
            raise ValueError("verified: 'hardware' needs proof, a file of `gen validate --port P --report FILE`")
        return self

    @pydantic.model_validator(mode="after")
    def _has_what_its_flash_tool_and_its_cycles_need(self) -> Shoehorn:
        if self.cycles and self.cycles.wait_states and not any(region.kind == "flash" for region in self.memory):
            raise ValueError("cycles.wait_states needs a memory of kind flash")
        if self.cycles and (self.cycles.core == _A64) != (self.cpu == _A64):
            cure = f"name {_A64}" if self.cpu == _A64 else "name the core of the chip"
            raise ValueError(
                f"cycles.core: {self.cycles.core} does not run the code of {self.cpu}; {cure}, or leave `cycles` out"
            )
        needs = {
            "pyocd": "pyocd_target",
            "esptool": "partition_bytes",
            "drive": "image",
            "teensy": "image",
            "dfu": "image",
            "boot-partition": "image",
            "emulator": "emulator",
        }
        if not getattr(self, needs[self.flash_tool]):
            raise ValueError(f"flash_tool {self.flash_tool} needs {needs[self.flash_tool]}")
        if (self.uf2_family is not None) != self.image.endswith(".uf2"):
            raise ValueError("an image that ends in .uf2 needs uf2_family, and no other image has one")
        if self.flash_tool == "emulator" and self.emulator and self.emulator.row.module:
            raise ValueError(
                f"flash_tool emulator needs QEMU, not {self.emulator.program}; name the tool that writes to the board"
            )
        if self.flash_tool == "drive" and not self.image.endswith((".hex", ".uf2")):
            raise ValueError("flash_tool drive needs an image that ends in .hex or .uf2")
        if self.flash_tool == "dfu" and not self.image.endswith(".bin"):
            raise ValueError("flash_tool dfu needs an image that ends in .bin")
        return self


class Build(_Strict):
    """The block `build`: PlatformIO runs what some of its other keys say."""

    mcu: Word
    f_cpu: Clock | None = None

    @property
    def hz(self) -> int | None:
        """The clock in Hz."""
        return int(self.f_cpu.rstrip("L")) if self.f_cpu else None


class Upload(_Strict):
    """The block `upload`: the sizes that PlatformIO shows, without which it ends."""

    maximum_ram_size: Count
    maximum_size: Count


class Manifest(_Strict):
    """A PlatformIO board manifest, with the keys that Shoehorn's boards use."""

    name: Name
    vendor: Name
    url: Url
    platforms: Annotated[tuple[Word, ...], _FIRST]
    frameworks: Annotated[tuple[Word, ...], _FIRST] = ()
    build: Build
    upload: Upload
    shoehorn: Shoehorn


_TOLD = 3  # faults of a document

# What pydantic says of these kinds of faults is about its classes.
_WORDS = {
    "extra_forbidden": "this version knows no such key; leave it out",
    "missing": "this key is needed",
    "model_type": "this is no object of JSON",
}


def faults(error: pydantic.ValidationError) -> str:
    """The first faults of a document in one line, each with its key."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [
        (".".join(map(str, each["loc"])), _WORDS.get(each["type"], each["msg"].removeprefix("Value error, ")))
        for each in found[:_TOLD]
    ]
    return first_of([printable(f"{key}: {message}" if key else message) for key, message in told], len(found))


def first_of(said: Sequence[str], count: int = 0) -> str:
    """The first faults of several in one line, and how many more there are: of `count`, or of those given."""
    more = max(count, len(said)) - _TOLD
    return "; ".join(said[:_TOLD]) + (f"; and {more} more" if more > 0 else "")
