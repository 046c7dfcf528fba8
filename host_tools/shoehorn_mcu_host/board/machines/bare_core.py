"""Runs a firmware on a bare core of Unicorn, with its board's memories and a stub of its chip.

The stub is a UART whose registers stub.json names. Every other register of the chip reads as all ones, "ready", unless
stub.json gives its value; those of an Arm core itself keep what is written, and those of a RISC-V core that the
emulated one lacks read as 0 where stub.json names them. There are no interrupts, and the clock
counts instructions: `sh_board_ticks` returns what has run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unicorn import Uc, UcError
from unicorn import arm_const as arm
from unicorn import riscv_const as riscv
from unicorn import unicorn_const as uc

from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.machines.console import Console
from shoehorn_mcu_host.board.machines.job import Job, process
from shoehorn_mcu_host.firmware.elf import functions, loaded

CORES: Mapping[str, int] = {
    "cortex-m0": arm.UC_CPU_ARM_CORTEX_M0,
    "cortex-m3": arm.UC_CPU_ARM_CORTEX_M3,
    "cortex-m4f": arm.UC_CPU_ARM_CORTEX_M4,
    "cortex-m7": arm.UC_CPU_ARM_CORTEX_M7,
    "cortex-m33": arm.UC_CPU_ARM_CORTEX_M33,
}
"""Arm's cores that Unicorn has, by their names in CPUS; those whose name begins with rv32 are RISC-V."""

SYSTEM = (0xE0000000, 0x100000)  # registers of an Arm core, which keep what is written
_PAGE = 4096
_SLICE_MICROSECONDS = 100_000  # after which the connection is looked at
_IDLE_LOOKS = 64  # at an empty receiver, after which the firmware waits for the host
_IDLE_SECONDS = 0.05
_READY = 0xFFFFFFFF
_ILLEGAL = 2  # mcause of an instruction that the core does not have
_OF_SYSTEM = 0x73  # the opcode of instructions that access CSRs
_ACCESSES = {
    uc.UC_MEM_READ_UNMAPPED: "read",
    uc.UC_MEM_READ_PROT: "read",
    uc.UC_MEM_WRITE_UNMAPPED: "write",
    uc.UC_MEM_WRITE_PROT: "write",
}


class _Chip:
    """The registers of the chip: the UART of the console, and the others."""

    def __init__(self, core: Uc, console: Console, stub: Mapping[str, Any]) -> None:
        self._core = core
        self._console = console
        self._uart: Mapping[str, int] = stub["uart"]
        self._values: Mapping[int, int] = dict(stub["values"])
        self._kept: dict[int, int] = {}
        self._looks = 0
        self._moves = self._uart.get("receive_pointer") is not None
        self._awaited = False  # by a UART that moves bytes to memory: where one goes is known, and none has arrived
        self._moved = False  # there, and the firmware has not cleared the event yet
        self.is_idle = False

    def read(self, at: int) -> int:
        """The value of a register."""
        uart, received = self._uart, self._console.received
        if at == uart["receive"]:
            return received.pop(0) if received and not self._moves else 0
        if at == uart["status"]:
            self._move()
            if self._moved or (received and not self._moves):
                self._looks = 0
                return uart["received"]
            self._looks += 1
            if self._looks >= _IDLE_LOOKS:
                self.is_idle, self._looks = True, 0
                self._core.emu_stop()
            return uart["idle"]
        if at in self._values:
            return self._values[at]
        return self._kept.get(at, 0) if SYSTEM[0] <= at < SYSTEM[0] + SYSTEM[1] else _READY

    def write(self, at: int, value: int) -> None:
        """The firmware writes a register."""
        uart = self._uart
        self._kept[at] = value
        if at == uart["transmit"]:
            pointer = uart.get("transmit_pointer")
            self._console.put(value if pointer is None else self._core.mem_read(self._kept.get(pointer, 0), 1)[0])
            self._looks = 0
        elif at == uart["receive"]:
            self._awaited = True
        elif at == uart["status"]:
            self._moved = False

    def _move(self) -> None:
        """A byte that has arrived goes to memory, if the UART does that and the firmware awaits one."""
        received, pointer = self._console.received, self._uart.get("receive_pointer")
        if pointer is not None and received and self._awaited:
            self._core.mem_write(self._kept.get(pointer, 0), bytes([received.pop(0)]))
            self._awaited, self._moved = False, True


class _Counter:
    """Instructions that have run, which the firmware reads as its clock in place of what `sh_board_ticks` would say."""

    def __init__(self, machine: Machine, ticks: int) -> None:
        self._machine = machine
        self._sizes: dict[tuple[int, int], int] = {}
        self._count = 0  # at the end of this block
        self._block = 0  # instructions of it
        machine.core.hook_add(uc.UC_HOOK_BLOCK, self._runs)
        machine.core.hook_add(uc.UC_HOOK_CODE, self._ticks, begin=ticks, end=ticks)

    def _runs(self, core: Uc, at: int, size: int, _: object) -> None:
        block = (at, size)
        if block not in self._sizes:
            self._sizes[block] = sum(1 for _ in self._machine.instructions(bytes(core.mem_read(at, size))))
        self._block = self._sizes[block]
        self._count += self._block

    def _ticks(self, core: Uc, *_: object) -> None:
        machine = self._machine
        self._count -= self._block  # the function's own, which does not run
        low, high = machine.results
        core.reg_write(low, self._count & 0xFFFFFFFF)
        core.reg_write(high, self._count >> 32)
        core.reg_write(machine.pc, core.reg_read(machine.link))


class Machine:
    """A core of either architecture with the memories of a board."""

    def __init__(self, job: Job) -> None:
        self._is_arm = not job.cpu.startswith("rv32")
        if self._is_arm and job.cpu not in CORES:
            raise HostError(f"unicorn has no {job.cpu}; it has {', '.join(CORES)} and RV32")
        if self._is_arm:
            self.core = Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
            self.core.ctl_set_cpu_model(CORES[job.cpu])
            self.pc, self.link = arm.UC_ARM_REG_PC, arm.UC_ARM_REG_LR
            self.results = arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R1
        else:
            self.core = Uc(uc.UC_ARCH_RISCV, uc.UC_MODE_RISCV32)
            self.pc, self.link = riscv.UC_RISCV_REG_PC, riscv.UC_RISCV_REG_RA
            self.results = riscv.UC_RISCV_REG_A0, riscv.UC_RISCV_REG_A1
        self._fault = ""
        for first, end, writable in _pages(job.memories):
            self.core.mem_map(first, end - first, uc.UC_PROT_ALL if writable else uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        self._entry, segments = loaded(job.path)
        for address, data in segments:
            try:
                self.core.mem_write(address, data)
            except UcError as error:
                raise HostError(
                    f"{len(data)} bytes of the image at {address:#010x} are outside of every memory"
                ) from error
        self.core.hook_add(uc.UC_HOOK_MEM_INVALID, self._is_invalid)
        self._lacking = frozenset(job.stub["csrs"])
        if self._lacking:
            self.core.hook_add(uc.UC_HOOK_INTR, self._takes)
        self._table = next((origin for origin, _, writable in job.memories if not writable), 0)

    def start(self) -> int:
        """Where the core begins: an Arm core at its vector table's second word, the first one being the stack."""
        if not self._is_arm:
            return self._entry
        stack, begin = (int.from_bytes(self.core.mem_read(self._table + at, 4), "little") for at in (0, 4))
        self.core.reg_write(arm.UC_ARM_REG_SP, stack)
        return begin & ~1

    def run(self, at: int) -> int:
        """Runs from an address until it is stopped or the slice ends; where it goes on. HostError: an exception."""
        try:
            self.core.emu_start(at | 1 if self._is_arm else at, 0xFFFFFFFE, timeout=_SLICE_MICROSECONDS)
        except UcError as error:
            pc = self.core.reg_read(self.pc)
            raise HostError(f"{self._fault or f'an exception ({error})'} at pc {pc:#010x}") from error
        if self._fault:
            raise HostError(f"{self._fault} at pc {self.core.reg_read(self.pc):#010x}")
        return int(self.core.reg_read(self.pc))

    def instructions(self, code: bytes) -> Iterator[int]:
        """The offset of each instruction: one of 32 bits begins with another halfword than one of 16."""
        at = 0
        while at < len(code):
            yield at
            half = int.from_bytes(code[at : at + 2], "little")
            wide = half >= 0xE800 if self._is_arm else half & 3 == 3
            at += 4 if wide else 2

    def _takes(self, core: Uc, cause: int, _: object) -> None:
        """A RISC-V core takes an exception: its program goes on behind an access to a CSR that the chip's core has."""
        behind = core.reg_read(self.pc)
        word = int.from_bytes(core.mem_read(behind - 4, 4), "little")
        if cause == _ILLEGAL and word & 0x7F == _OF_SYSTEM and word >> 20 in self._lacking:
            if register := word >> 7 & 31:
                core.reg_write(riscv.UC_RISCV_REG_X0 + register, 0)
            core.reg_write(self.pc, behind)
        else:
            self._fault = f"an exception (mcause {cause})"
            core.emu_stop()

    def _is_invalid(self, _: Uc, access: int, at: int, size: int, *__: object) -> bool:
        """Remembers what the core did where nothing is, or where it may not write; it then ends."""
        if what := _ACCESSES.get(access):
            self._fault = f"a {what} of {size} bytes at address {at:#010x}, where the board has none,"
        else:
            self._fault = f"a jump to address {at:#010x}, where no code is,"
        return False


def _pages(memories: Sequence[Sequence[int]]) -> Iterator[tuple[int, int, bool]]:
    """The first and the end of runs of pages, and whether the firmware may write there; none overlaps another."""
    pages: dict[int, bool] = {}
    for origin, size, writable in memories:
        for page in range(origin // _PAGE, -(-(origin + size) // _PAGE)):
            pages[page] = pages.get(page, False) or bool(writable)
    run: list[int] = []
    for page in sorted(pages):
        if run and (page != run[-1] + 1 or pages[page] != pages[run[0]]):
            yield run[0] * _PAGE, (run[-1] + 1) * _PAGE, pages[run[0]]
            run = []
        run.append(page)
    if run:
        yield run[0] * _PAGE, (run[-1] + 1) * _PAGE, pages[run[0]]


def _map(core: Uc, chip: _Chip, ranges: Sequence[Sequence[int]]) -> None:
    for first, size in ranges:
        core.mmio_map(
            first,
            size,
            lambda _, offset, __, base: chip.read(base + offset),
            first,
            lambda _, offset, __, value, base: chip.write(base + offset, value),
            first,
        )


def run(job: Job) -> None:
    """Runs until the host closes the connection. HostError: the firmware did what the board does not allow."""
    machine = Machine(job)
    console = Console(job.socket)
    chip = _Chip(machine.core, console, job.stub)
    _map(machine.core, chip, job.stub["registers"])
    if job.counted:
        _Counter(machine, functions(job.path, ("sh_board_ticks",))[0])
    at = machine.start()
    while True:
        at = machine.run(at)
        console.exchange(_IDLE_SECONDS if chip.is_idle else 0.0)
        chip.is_idle = False


if __name__ == "__main__":
    process("unicorn", run)
