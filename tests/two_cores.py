"""An RP2040 or RP2350 of two bare cores of Unicorn on one memory, with their FIFO, and a UART at a socket.

`python two_cores.py FIRMWARE_ELF rp2040` prints the socket's port. Core 0 begins at the firmware's vectors, as the
second stage leaves it; core 1 does what the boot ROM does (RP2040 datasheet, 2.8.2) until it has the six words.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB, UC_PROT_ALL, Uc, UcError
from unicorn.arm_const import UC_ARM_REG_PC, UC_ARM_REG_SP, UC_CPU_ARM_CORTEX_M0, UC_CPU_ARM_CORTEX_M33

FLASH, RAM = (0x10000000, 0x200000), (0x20000000, 0x82000)
VTOR = 0xE000ED08
FIFO_ST, FIFO_WR, FIFO_RD = 0xD0000050, 0xD0000054, 0xD0000058
WFE = b"\x20\xbf"
TURN = 20_000  # instructions of a core before the other one runs


@dataclass(frozen=True)
class Chip:
    model: int  # of Unicorn's
    vectors: int
    uart: int

    @property
    def uart_flags(self) -> int:
        return self.uart + 0x18


CHIPS = {
    "rp2040": Chip(UC_CPU_ARM_CORTEX_M0, 0x10000100, 0x40034000),
    "rp2350": Chip(UC_CPU_ARM_CORTEX_M33, 0x10000000, 0x40070000),
}


def _memory(size: int) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Memory of this process at the beginning of a page, and its address."""
    array = (ctypes.c_char * size).from_buffer(mmap.mmap(-1, size))
    return array, ctypes.addressof(array)


class Core:
    """A core with its own registers; memories and the UART are shared."""

    def __init__(self, chip: Chip, memories: Sequence[tuple[int, int, int]], heard: bytearray, said: bytearray) -> None:
        self.chip = chip
        self.uc = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        self.uc.ctl_set_cpu_model(chip.model)
        for origin, size, address in memories:
            self.uc.mem_map_ptr(origin, size, UC_PROT_ALL, address)
        for base, size in (
            (0x40000000, 0x200000),
            (0x50000000, 0x200000),
            (0xD0000000, 0x1000),
            (0xE0000000, 0x100000),
        ):
            self.uc.mmio_map(base, size, self._read, base, self._write, base)
        self.words: list[int] = []  # that have come from the other core
        self.other = self
        self.registers: dict[int, int] = {}
        self.heard, self.said = heard, said
        self.pc: int | None = None

    def _read(self, _: Uc, offset: int, __: int, base: int) -> int:
        at = base + offset
        if at == FIFO_ST:
            return 2 | bool(self.words)
        if at == FIFO_RD:
            return self.words.pop(0)
        if at == self.chip.uart_flags:
            return 0 if self.heard else 1 << 4
        if at == self.chip.uart:
            return self.heard.pop(0)
        ready = base == 0x40000000  # clocks, PLLs and resets
        return 0xFFFFFFFF if ready else self.registers.get(at, 0)

    def _write(self, _: Uc, offset: int, __: int, value: int, base: int) -> None:
        at = base + offset
        if at == FIFO_WR:
            self.other.words.append(value)
        elif at == self.chip.uart:
            self.said.append(value & 255)
        else:
            self.registers[at] = value

    def start(self, pc: int, stack: int) -> None:
        self.pc = pc & ~1
        self.uc.reg_write(UC_ARM_REG_SP, stack)

    def run(self) -> None:
        """One turn; it ends early where the core sleeps."""
        assert self.pc is not None
        try:
            self.uc.emu_start(self.pc | 1, 0xFFFFFFFE, count=TURN)
        except UcError as error:
            if bytes(self.uc.mem_read(self.uc.reg_read(UC_ARM_REG_PC) - 2, 2)) != WFE:
                raise SystemExit(f"{error} at {self.uc.reg_read(UC_ARM_REG_PC):#x}") from error
        self.pc = self.uc.reg_read(UC_ARM_REG_PC)


class BootRom:
    """Core 1 before it runs: it sends back each word, and begins anew where one is not what it waits for."""

    def __init__(self, core: Core) -> None:
        self.core, self.words = core, list[int]()

    def run(self) -> None:
        while self.core.words and self.core.pc is None:
            word = self.core.words.pop(0)
            self.core.other.words.append(word)
            expected = (0, 0, 1)[len(self.words)] if len(self.words) < 3 else word
            self.words = [*self.words, word] if word == expected else []
            if len(self.words) == 6:
                _, _, _, vectors, stack, entry = self.words
                if vectors != self.core.chip.vectors:
                    raise SystemExit(f"core 1 has other vectors: {vectors:#x}")
                self.core.start(entry, stack)


def main() -> None:
    chip = CHIPS[sys.argv[2]]
    flash, ram = _memory(FLASH[1]), _memory(RAM[1])
    with Path(sys.argv[1]).open("rb") as file:
        for segment in ELFFile(file).iter_segments("PT_LOAD"):
            at = segment["p_paddr"] - FLASH[0]
            flash[0][at : at + segment["p_filesz"]] = segment.data()
    heard, said = bytearray(), bytearray()
    memories = [(*FLASH, flash[1]), (*RAM, ram[1])]
    first, second = Core(chip, memories, heard, said), Core(chip, memories, heard, said)
    first.other, second.other = second, first
    at = chip.vectors - FLASH[0]
    stack, reset = (int.from_bytes(flash[0][at + word : at + word + 4], "little") for word in (0, 4))
    first.registers[VTOR] = chip.vectors  # as the second stage of an RP2040 leaves it
    first.start(reset, stack)
    rom = BootRom(second)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        console, _ = listener.accept()
    console.setblocking(False)
    console.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        try:
            some = console.recv(4096)
            if not some:
                return
            heard += some
        except BlockingIOError:
            pass
        first.run()
        if second.pc is None:
            rom.run()
        else:
            second.run()
        if said:
            console.sendall(bytes(said))
            said.clear()


if __name__ == "__main__":
    main()
