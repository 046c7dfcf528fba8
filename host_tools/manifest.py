"""The schema of a board's manifest, for the generator (boards/*.json) and for written folders (DIR/boards/*.json)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Literal

import pydantic

Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
Positive = Annotated[int, pydantic.Field(gt=0, lt=2**63)]


Waits = Annotated[float, pydantic.Field(ge=0, le=1000, allow_inf_nan=False)]


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Memory(_Strict):
    """One memory region of the board, as the linker script sees it."""

    name: str
    kind: Literal["ram", "flash", "tcm"]  # tcm: tightly coupled memory, fast and often out of reach of DMA
    origin: Count
    bytes: Count
    # Of a ram or tcm: the mean cycles that the core waits for a byte that it reads or writes there.
    read_cycles: Waits = 0.0
    write_cycles: Waits = 0.0
    source: str = ""  # where these figures are from

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


class Emulator(_Strict):
    """How QEMU (or, for `native`, the machine itself) runs the image."""

    program: Literal["qemu-system-arm", "qemu-system-aarch64", "native"]
    machine: str = ""
    arguments: tuple[str, ...] = ()


class Cycles(_Strict):
    """What the cycles of an inference depend on; host_tools/plugin estimates them beside the emulator."""

    core: Literal["cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33"]
    multiply_cycles: Literal[1, 32] = 1  # of Cortex-M0 and M0+
    wait_states: Annotated[int, pydantic.Field(ge=0, le=255)] = 0  # of a read of the flash, at core_hz
    line_bytes: Annotated[int, pydantic.Field(ge=4, le=256)] = 4  # of such a read
    prefetch: bool = False  # the next line of code is read while one runs
    code_lines: Annotated[int, pydantic.Field(ge=1, le=256)] = 1  # kept for fetches; 1: only the last one read
    data_lines: Annotated[int, pydantic.Field(ge=1, le=256)] = 1  # kept for reads of constants


class Shoehorn(_Strict):
    """The block `shoehorn` of a board manifest: the facts for which PlatformIO has no key."""

    family: str  # row of firmware_templates/families/families.json
    cpu: str  # key of targets.CPUS
    memory: tuple[Memory, ...]
    sram_bytes: Count  # shared by arena, statics and stack
    flash_bytes: Count  # shared by code and constants
    firmware_ram_bytes: Count  # the application's own statics, an upper bound checked after the build
    stack_bytes: Count  # reserved by the linker script
    cores: Annotated[int, pydantic.Field(ge=1, le=64)] = 1  # that can share an inference (--cores)
    core_hz: Positive | None = None  # the processor's clock; None: not known, or an emulator's nominal one
    cycles: Cycles | None = None  # None: cycles are not estimated
    tick_hz: Positive  # the timer that `gen bench` reads, which is not always the core's clock
    clock_name: str
    frame_bytes: Annotated[int, pydantic.Field(ge=32, le=1024)] = 240  # largest payload of a serial frame
    defines: dict[str, int] = {}  # register addresses and the like, for the family's drivers
    emulator: Emulator | None = None
    flash_tool: Literal["pyocd", "drive", "boot-partition", "emulator"]
    image: Annotated[str, pydantic.Field(pattern=r"^[\w.-]*$")] = ""  # the file that is flashed; empty: firmware.elf
    pyocd_target: str = ""
    verified: tuple[Literal["build", "emulator", "hardware"], ...]

    @property
    def main_memory(self) -> Memory | None:
        """The memory of the stack, of statics and of the arena of a model that needs one memory only."""
        return next((memory for memory in self.memory if memory.is_data), None)

    @property
    def other_memories(self) -> tuple[Memory, ...]:
        """Those that tensors may be in besides."""
        return tuple(memory for memory in self.memory if memory.is_data and memory is not self.main_memory)

    @pydantic.model_validator(mode="after")
    def _has_memories_apart(self) -> Shoehorn:
        names = [memory.name for memory in self.memory]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"memory: two are called '{name}'; give each a name of its own")
        for memory in self.other_memories:
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,23}", memory.name) or memory.name == "sram":
                rule = "lower-case letters, digits and _ (sram means the first ram)"
                raise ValueError(f"memory: '{memory.name}' is no name of a further memory; write {rule}")
        for one, other in pairwise(sorted(self.memory, key=lambda memory: memory.origin)):
            if other.origin < one.end:
                raise ValueError(
                    f"memory: '{other.name}' at 0x{other.origin:08x} overlaps '{one.name}', which ends at "
                    f"0x{one.end:08x}; correct an origin or a size"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _has_what_its_flash_tool_and_its_cycles_need(self) -> Shoehorn:
        if self.cycles and self.cycles.wait_states and not any(region.kind == "flash" for region in self.memory):
            raise ValueError("cycles.wait_states needs a memory of kind flash")
        needs = {"pyocd": "pyocd_target", "drive": "image", "boot-partition": "image", "emulator": "emulator"}
        if not getattr(self, needs[self.flash_tool]):
            raise ValueError(f"flash_tool {self.flash_tool} needs {needs[self.flash_tool]}")
        return self


class Manifest(_Strict):
    """A PlatformIO board manifest, with the keys that Shoehorn's boards use."""

    name: str
    vendor: str
    url: str
    platforms: tuple[str, ...]
    frameworks: tuple[str, ...] = ()
    build: dict[str, str]
    upload: dict[str, str | int] = {}
    shoehorn: Shoehorn


def faults(error: pydantic.ValidationError) -> str:
    """The first faults of a document in one line, each with its key."""
    said = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" if e["loc"] else e["msg"] for e in error.errors()]
    return "; ".join(said[:3]) + (f"; and {len(said) - 3} more" if len(said) > 3 else "")
