"""The chip families: their files, and what a board's manifest must say so that a family's start-up code can run it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import pydantic

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu_host.base.emulators import Level
from shoehorn_mcu_host.base.files import read_json
from shoehorn_mcu_host.base.manifest import Count, Define, Line, Manifest, Register, Shoehorn

FOLDER = FIRMWARE_TEMPLATES / "families"

_CURE = "docs/families.md lists what the family needs"
_NO_FAMILY = "docs/boards.md says what to do with a chip of no family"
_MOST_TOLD = 3  # defines of one fault
_PORT_BYTES = 0x400  # between the ports of an STM32
_Range = tuple[Register, Register]


class _Row(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Meaning(_Row):
    """A row of defines.json: what a define of this name is in every family that needs it."""

    means: Line
    unit: Literal["address", "bit", "bits", "Hz", "MHz", "number", "offset", "pin"]

    def shown(self, value: int) -> str:
        """Addresses and bits as manuals have them."""
        digits = {"address": 8, "bits": 1, "offset": 2}.get(self.unit)
        return str(value) if digits is None else f"0x{value:0{digits}X}"

    def limits(self, least: int, most: int) -> str:
        """The values that a family takes."""
        return self.shown(least) if least == most else f"from {self.shown(least)} to {self.shown(most)}"


class Chip(_Row):
    """A line of chips. Its clock is what start-up makes of it, or else the defines decide, within limits."""

    core_hz: Count | None = None  # made by start-up, whatever the manifest says
    most_hz: Count | None = None  # the data sheet's limit, without over-drive
    reset_hz: Count | None = None  # the limit of the voltage scale after a reset
    apb1_hz: Count | None = None  # the limits of its buses
    apb2_hz: Count | None = None
    uarts: tuple[str, ...] | None = None  # those that it has; None: all of the family's
    ports: str = ""  # the letters of its ports; empty: their pins are not chosen
    defines: Mapping[Define, _Range] = {}  # narrower than the family's


class StubUart(_Row):
    """The registers of a UART, by their distance from its address; what its status reads without and with a byte."""

    at: Define | Register  # its address, or the define that has it
    status: Register
    receive: Register
    transmit: Register
    idle: Register  # nothing has arrived, and there is room to send
    received: Register
    # Of a UART that moves bytes to and from memory: where it takes their addresses. `receive` and `transmit` are then
    # the registers that start it, for one byte at a time, and writing to `status` clears it.
    receive_pointer: Register | None = None
    transmit_pointer: Register | None = None


class Stub(_Row):
    """What stands for the family's chips where only their core is emulated."""

    uart: StubUart
    # Where registers are: first address and bytes. Those that are not named here read as all ones: ready.
    registers: tuple[_Range, ...] = ((0x40000000, 0x20000000), (0xE0000000, 0x00100000))
    values: Mapping[Register, Register] = {}  # others, by their addresses
    csrs: tuple[Register, ...] = ()  # of RISC-V, which the emulated core lacks: they read as 0 and keep nothing

    def document(self, defines: Mapping[str, int]) -> Mapping[str, object]:
        """The object of a folder's stub.json, for a board with these defines."""
        base = defines[self.uart.at] if isinstance(self.uart.at, str) else self.uart.at
        uart = {name: base + getattr(self.uart, name) for name in ("status", "receive", "transmit")}
        for name in ("receive_pointer", "transmit_pointer"):
            if (offset := getattr(self.uart, name)) is not None:
                uart[name] = base + offset
        uart |= {"idle": self.uart.idle, "received": self.uart.received}
        values = [[address, value] for address, value in self.values.items()]
        registers = [list(each) for each in self.registers]
        return {"uart": uart, "registers": registers, "values": values, "csrs": list(self.csrs)}


class MarkFiles(_Row):
    """How a family's firmware marks what an instrument measures: the files, and the defines that the manifest gives."""

    files: tuple[str, ...]
    defines: Mapping[Define, _Range] = {}


class Family(_Row):
    """A row of families.json."""

    files: tuple[str, ...]  # folders, or single files, of which a later one replaces files of an earlier one
    files_of_several_cores: tuple[str, ...] = ()
    cpus: tuple[str, ...]
    chips: Mapping[str, Chip]  # by the beginning of build.mcu
    tick_hz: Count | None = None  # of the timer; None: it counts the core's clock
    console: Line  # where the protocol is spoken, at 115,200 baud
    defines: Mapping[Define, _Range]  # what the drivers need, and the least and the largest value
    uarts: Mapping[str, Mapping[Define, Register]] = {}  # the defines that belong together, by the name of the UART
    mark: MarkFiles | None = None  # None: its firmware has no mark
    stub: Stub | None = None  # None: its chips need an emulator of their own

    def chip(self, mcu: str) -> Chip | None:
        """The chips that this one belongs to."""
        return next((chip for beginning, chip in self.chips.items() if mcu.startswith(beginning)), None)


@cache
def families() -> Mapping[str, Family]:
    """All families by name."""
    table: Mapping[str, object] = read_json(FOLDER / "families.json")
    return {name: Family.model_validate(row) for name, row in table.items()}


@cache
def meanings() -> Mapping[str, Meaning]:
    """What the defines of all families are, by name."""
    table: Mapping[str, object] = read_json(FOLDER / "defines.json")
    return {name: Meaning.model_validate(row) for name, row in table.items()}


def family_files(name: str, several_cores: bool = False, marked: bool = False) -> Mapping[str, Path]:
    """The files of a family by name: all of its folders' files, a later folder's in place of an earlier one's.

    KeyError: there is no such family.
    """
    family = families()[name]
    cores = family.files_of_several_cores if several_cores else ()
    mark = family.mark.files if marked and family.mark else ()
    entries = [FOLDER / each for each in (*family.files, *cores, *mark)]
    return {path.name: path for entry in entries for path in (sorted(entry.glob("*.*")) if entry.is_dir() else [entry])}


def faults(manifest: Manifest) -> Iterator[str]:
    """Why the family's start-up code cannot run the board, each with the key and the cure."""
    spec, mcu = manifest.shoehorn, manifest.build.mcu
    if (family := families().get(spec.family)) is None:
        known = f"known: {', '.join(families())}"
        yield f"shoehorn.family: unknown family '{spec.family}'; {_family_of(mcu) or f'{known}; {_NO_FAMILY}'}"
        return
    if spec.cpu not in family.cpus:
        yield f"shoehorn.cpu: family {spec.family} is for {' or '.join(family.cpus)}, not {spec.cpu}"
    if (chip := family.chip(mcu)) is None:
        cure = _family_of(mcu) or f"it is for {', '.join(family.chips)}; {_NO_FAMILY}"
        yield f"build.mcu: family {spec.family} has no start-up code for {mcu}; {cure}"
        return
    if spec.emulator and spec.emulator.row.proves is Level.CORE and family.stub is None:
        yield f"shoehorn.emulator.program: family {spec.family} has no stub for {spec.emulator.program}; leave it out"
    yield from _memories(spec)
    yield from _mark(spec, family, chip)
    wrong = [*_defines(spec, family, chip), *_uart(spec, family, chip, mcu)]
    yield from wrong
    if not wrong:
        yield from _clock(manifest, family, chip)


def _family_of(mcu: str) -> str:
    """The cure for a chip whose family is another one; empty where there is none."""
    having = [name for name, family in families().items() if family.chip(mcu)]
    return f"write {' or '.join(having)}, which has start-up code for {mcu}" if having else ""


def _memories(spec: Shoehorn) -> Iterator[str]:
    """Faults of the memories, by the linker script that they are written into."""
    scripts = [path for path in family_files(spec.family).values() if path.name == "link.ld.in"]
    text = "".join(path.read_text() for path in scripts)
    needed = sorted({name.lower() for name in re.findall(r"@([A-Z0-9_]+)_ORIGIN@", text)})
    known, main = {memory.name: memory for memory in spec.memory}, spec.main_memory
    if missing := [name for name in needed if name not in known]:
        yield f"shoehorn.memory: family {spec.family} needs a memory called {' and one called '.join(missing)}"
        return
    for name in needed:
        if (name == "ram") != known[name].is_data:
            yield f"shoehorn.memory: '{name}' must be of kind {'ram or tcm' if name == 'ram' else 'flash'}"
    if needed and main and main.name != "ram":
        yield f"shoehorn.memory: '{main.name}' is before 'ram', which has the stack; put ram first"
    yield from _taken(spec, text)
    if needed and main and spec.sram_bytes > main.bytes:
        yield f"shoehorn.sram_bytes: {spec.sram_bytes} is more than the {main.bytes} bytes of '{main.name}'"


def _taken(spec: Shoehorn, text: str) -> Iterator[str]:
    """Faults of memories whose names mean other parts of the linker script."""
    regions = re.findall(r"^ +([A-Z0-9_]+) \(|ALIAS\(\"(\w+)", text, re.MULTILINE)
    taken = {"include", *(name.lower() for found in regions for name in found)}
    for memory in spec.other_memories:
        if memory.name in taken:
            yield f"shoehorn.memory: '{memory.name}' means another part of the linker script; give it another name"


def _defines(spec: Shoehorn, family: Family, chip: Chip) -> Iterator[str]:
    """Faults of the defines one by one."""
    place = "shoehorn.defines"
    limits = {**family.defines, **chip.defines}
    if missing := [name for name in family.defines if name not in spec.defines]:
        needed = ", ".join(f"{name} ({meanings()[name].limits(*limits[name])})" for name in missing[:_MOST_TOLD])
        more = f" and {len(missing) - _MOST_TOLD} more" if len(missing) > _MOST_TOLD else ""
        yield f"{place}: family {spec.family} needs {needed}{more} too; {_CURE}"
    if unknown := sorted(spec.defines.keys() - family.defines.keys()):
        yield f"{place}: family {spec.family} does not know {', '.join(unknown)}; leave them out"
    for name, (least, most) in limits.items():
        value, meaning = spec.defines.get(name, least), meanings()[name]
        if not least <= value <= most:
            must = f"must be {meaning.limits(least, most)}: {meaning.means}"
            yield f"{place}.{name}: {meaning.shown(value)} {must}; {_CURE}"
    fpu = spec.cpu not in ("cortex-m0", "cortex-m3")
    if "SH_BOARD_FPU" in family.defines and spec.defines.get("SH_BOARD_FPU", fpu) != fpu:
        yield f"{place}.SH_BOARD_FPU: a {spec.cpu} has {'an' if fpu else 'no'} FPU; write {int(fpu)}"


def _mark(spec: Shoehorn, family: Family, chip: Chip) -> Iterator[str]:
    """Faults of the mark: a pin that the family's firmware can drive, and that the console does not use."""
    if spec.mark is None:
        return
    if family.mark is None:
        yield f"shoehorn.mark: firmware of family {spec.family} has no mark; leave it out"
        return
    given, needed = spec.mark.defines, family.mark.defines
    if given.keys() != needed.keys():
        yield f"shoehorn.mark.defines: family {spec.family} needs {', '.join(needed) or 'none'}, no more and no less"
        return
    for name, limits in needed.items():
        if not limits[0] <= given[name] <= limits[1]:
            meaning = meanings()[name]
            must = f"must be {meaning.limits(*limits)}: {meaning.means}"
            yield f"shoehorn.mark.defines.{name}: {meaning.shown(given[name])} {must}; {_CURE}"
            return
    if (port := given.get("SH_BOARD_MARK_GPIO")) is not None:
        least = needed["SH_BOARD_MARK_GPIO"][0]
        letter = chr(ord("A") + (port - least) // _PORT_BYTES)
        if (port - least) % _PORT_BYTES or (chip.ports and letter not in chip.ports):
            yield f"shoehorn.mark.defines.SH_BOARD_MARK_GPIO: {meanings()['SH_BOARD_MARK_GPIO'].shown(port)} is no port"
            return
    pin = given.get("SH_BOARD_MARK_PIN")
    uses = (spec.defines.get("SH_BOARD_UART_TX_PIN"), spec.defines.get("SH_BOARD_UART_RX_PIN"))
    if pin is not None and pin in uses and port == spec.defines.get("SH_BOARD_UART_GPIO"):
        yield f"shoehorn.mark.defines.SH_BOARD_MARK_PIN: pin {pin} is the console's; choose another one"


def _uart(spec: Shoehorn, family: Family, chip: Chip, mcu: str) -> Iterator[str]:
    """Faults of the defines that belong to one UART."""
    chosen = spec.defines.get("SH_BOARD_UART")
    rows = {name: row for name, row in family.uarts.items() if chip.uarts is None or name in chip.uarts}
    if chosen is None or not family.uarts:
        return
    name = next((name for name, row in rows.items() if row["SH_BOARD_UART"] == chosen), None)
    if name is None:
        known = ", ".join(f"0x{row['SH_BOARD_UART']:08X} ({name})" for name, row in rows.items())
        yield f"shoehorn.defines.SH_BOARD_UART: 0x{chosen:08X} is no UART that {mcu} has; known: {known}"
        return
    for define, value in rows[name].items():
        if spec.defines.get(define, value) != value:
            given, right = (meanings()[define].shown(each) for each in (spec.defines[define], value))
            yield f"shoehorn.defines.{define}: {given} does not belong to {name}; write {right}"
    yield from _port(spec, family, chip, mcu)


def _port(spec: Shoehorn, family: Family, chip: Chip, mcu: str) -> Iterator[str]:
    """A fault of the port of the UART's pins: the chip has it, and its address and number belong together."""
    port, index = (spec.defines.get(f"SH_BOARD_UART_GPIO{end}") for end in ("", "_INDEX"))
    if port is None or index is None:
        return
    place, shown = "shoehorn.defines.SH_BOARD_UART_GPIO_INDEX", meanings()["SH_BOARD_UART_GPIO"].shown
    letter = chr(ord("A") + index)
    if chip.ports and letter not in chip.ports:
        yield f"{place}: {mcu} has no port {letter}, and so no clock for it; its ports are {', '.join(chip.ports)}"
        return
    right = family.defines["SH_BOARD_UART_GPIO"][0] + _PORT_BYTES * index
    if port != right:
        yield f"{place}: port {letter} is at {shown(right)}, not {shown(port)}"


def _clock(manifest: Manifest, family: Family, chip: Chip) -> Iterator[str]:
    """Faults of the clock: what start-up makes, what the chip can bear, and what the manifest says about it."""
    spec, mcu = manifest.shoehorn, manifest.build.mcu
    made, how = chip.core_hz, "start-up makes"
    by_pll = "SH_BOARD_PLL_N" in family.defines
    if by_pll and spec.defines["SH_BOARD_PLL_P"] % 2:
        yield "shoehorn.defines.SH_BOARD_PLL_P: the PLL divides by 2, 4, 6 or 8"
        return
    if by_pll:
        made, how = _pll_hz(spec.defines), "the PLL of SH_BOARD_PLL_N and SH_BOARD_PLL_P makes"
    hz = made or spec.core_hz
    if hz and chip.most_hz and hz > chip.most_hz:
        yield f"shoehorn.core_hz: {mcu} runs at {chip.most_hz} Hz at most, not {hz}"
        return
    follows = family.tick_hz or made
    for key, said, right, source in (
        ("shoehorn.core_hz", spec.core_hz, made, how),
        ("build.f_cpu", manifest.build.hz, hz, how if made else "shoehorn.core_hz says"),
        ("shoehorn.tick_hz", spec.tick_hz, follows, "the timer counts" if family.tick_hz else how),
    ):
        if said is not None and right is not None and said != right:
            yield f"{key}: {said} is not the {right} Hz that {source}; correct one of them"
    if by_pll:
        yield from _stm32f4(spec, chip, hz or 0)


def _pll_hz(defines: Mapping[str, int]) -> int:
    """The core's clock: a reference of 1 MHz, times N, divided by P."""
    return defines["SH_BOARD_PLL_N"] * 1_000_000 // defines["SH_BOARD_PLL_P"]


def _stm32f4(spec: Shoehorn, chip: Chip, core_hz: int) -> Iterator[str]:
    """Faults of the defines of an STM32F4 by its core's clock (RM0090, RM0368, RM0383, RM0390)."""
    defines, place = spec.defines, "shoehorn.defines"
    prescalers = defines["SH_BOARD_RCC_CFGR"]
    if prescalers & ~0xFC00:
        yield f"{place}.SH_BOARD_RCC_CFGR: only the dividers of APB1 and APB2 (bits 10 to 15) belong there"
    buses = {}
    for bus, shift, most in (("APB1", 10, chip.apb1_hz), ("APB2", 13, chip.apb2_hz)):
        code = prescalers >> shift & 7
        buses[bus] = core_hz >> max(0, code - 3)
        if most and buses[bus] > most:
            yield f"{place}.SH_BOARD_RCC_CFGR: {bus} runs at {most} Hz at most, not {buses[bus]}; divide it"
    bus = "APB1" if defines["SH_BOARD_UART_ENR"] == 0x40 else "APB2"
    if defines["SH_BOARD_UART_HZ"] != buses[bus]:
        yield f"{place}.SH_BOARD_UART_HZ: the UART is on {bus}, which runs at {buses[bus]} Hz"
    waits = -(-core_hz // 30_000_000) - 1
    if defines["SH_BOARD_FLASH_WAITS"] < waits:
        yield f"{place}.SH_BOARD_FLASH_WAITS: at {core_hz} Hz the flash needs {waits} (at 2.7 to 3.6 V)"
    if spec.cycles and spec.cycles.wait_states != defines["SH_BOARD_FLASH_WAITS"]:
        yield f"shoehorn.cycles.wait_states: {spec.cycles.wait_states} is not SH_BOARD_FLASH_WAITS; correct one of them"
    scale = 3 if chip.reset_hz and core_hz > chip.reset_hz else 0
    if defines["SH_BOARD_VOLTAGE_SCALE"] != scale:
        yield f"{place}.SH_BOARD_VOLTAGE_SCALE: at {core_hz} Hz write {scale} (0 leaves it as after a reset)"
