"""Every board builds, boots and keeps start-up's promises, through the same tools as `gen`."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from board_project import needs_emulator, write_hello
from elftools.elf.elffile import ELFFile
from shared import MODELS, needs_shared

from shoehorn_mcu.machine.targets import boards
from shoehorn_mcu_host.base.emulators import Level
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board.bench import unit_of
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Mode
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import build, is_built, measure, pio_command
from shoehorn_mcu_host.firmware.flash import flash
from shoehorn_mcu_host.folder.project import Project

BOARDS = {b.id: b for b in boards()}


def _parameters(names: Iterable[str]) -> list[object]:
    """The boards, of which the first of each family, core and emulator is quick to try; the others are alike."""
    seen, found = set(), list[object]()
    for name in names:
        spec = BOARDS[name].spec
        kind = (spec.family, spec.cpu, spec.emulator.program if spec.emulator else "")
        found.append(pytest.param(name, marks=[pytest.mark.long] if kind in seen else []))
        seen.add(kind)
    return found


BARE = [name for name in BOARDS if name != "native"]
# Boards whose emulator is a Python package; the bare core's count costs a call of Python for each block that runs.
BY_PACKAGE = [name for name in BARE if (emulator := BOARDS[name].spec.emulator) and emulator.row.module]
CHIPS = [name for name in BARE if (emulator := BOARDS[name].spec.emulator) is None or emulator.row.proves != Level.CORE]
INSTRUCTIONS = 40_000_000
EACH = _parameters(BOARDS)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory):
    """board id -> built Project, each built once."""
    done: dict[str, Project] = {}

    def get(board_id: str) -> Project:
        if board_id not in done:
            done[board_id] = Project.open(write_hello(tmp_path_factory.mktemp("hello") / board_id, board_id))
            build(done[board_id])
        return done[board_id]

    return get


class Console:
    """The board's serial port, by lines."""

    def __init__(self, url: str) -> None:
        self.port = Port(url)
        self.heard = ""

    def until(self, mark: str, seconds: float = 60) -> str:
        deadline = time.monotonic() + seconds
        while mark not in self.heard:
            assert time.monotonic() < deadline, f"no {mark!r} in {self.heard!r}"
            self.heard += self.port.read().decode("ascii", "replace")
        said, mark, self.heard = self.heard.partition(mark)
        return said + mark

    def ask(self, command: str, mark: str = "\r\n") -> str:
        self.port.write(command.encode())
        return self.until(mark)

    def number(self, command: str) -> int:
        return int(self.ask(command).split("=")[1])


@pytest.fixture
def console(built):
    """board id -> Console of the booted board; all is stopped at the end."""
    with contextlib.ExitStack() as stack:

        def boot(board_id: str) -> Console:
            needs_emulator(BOARDS[board_id])
            machine = stack.enter_context(emulate(built(board_id)))
            opened = Console(machine.url)
            stack.callback(opened.port.close)
            if board_id == "native":  # opening a tty drops what it said before, as on a real port: ask again
                opened.ask("~", "~")
                opened.port.write(b"r")
            return opened

        yield boot


def report(text: str) -> dict[str, int]:
    return {name: int(value) for name, _, value in (line.partition("=") for line in text.split() if "=" in line)}


@pytest.mark.parametrize("board_id", EACH)
def test_start_up_keeps_its_promises_and_bytes_come_back_in_order(console, board_id):
    talk = console(board_id)
    said = report(talk.until("m-ready\r\n"))

    assert said["data"] == 1
    assert said["bss"] == 1
    assert said["float"] == 15
    assert said["unaligned"] == 0x44332211
    assert said["stack"] == BOARDS[board_id].spec.stack_bytes
    assert said["painted"] == 1
    text = "".join(chr(0x41 + i % 26) for i in range(200))

    assert "".join(talk.ask(c, c) for c in text) == text


@pytest.mark.parametrize(
    "board_id",
    [  # tests/test_cycles.py compares the cycles of an inference on rp2040py in less time
        *_parameters(name for name in CHIPS if name not in BY_PACKAGE),
        *(pytest.param(name, marks=pytest.mark.long) for name in CHIPS if name in BY_PACKAGE),
    ],
)
def test_the_clock_counts_what_the_emulator_counts_and_a_fault_says_one_line(console, board_id):
    """A loop of two instructions, which take three cycles on a Cortex-M0+."""
    talk = console(board_id)
    talk.until("m-ready\r\n")
    spec = BOARDS[board_id].spec
    assert spec.emulator
    unit = unit_of(spec.emulator.model_dump(), spec.model_dump())

    counted = unit.convert(talk.number("c"), spec.tick_hz)

    right = INSTRUCTIONS if unit.name == "instructions" else INSTRUCTIONS * 3 // 2
    assert abs(counted - right) <= 2e9 / spec.tick_hz + 500
    if board_id not in BY_PACKAGE:  # what those say is below
        assert talk.ask("f", "]\r\n").strip().startswith("e-[fault ")


@pytest.mark.parametrize("board_id", ["netduinoplus2", "native"])
def test_the_clock_never_goes_back(console, board_id):
    """Half a second is five wraps of SysTick at 168 MHz."""
    talk = console(board_id)
    talk.until("m-ready\r\n")

    assert talk.number("m") == 0


def test_the_clock_survives_sixteen_million_ticks(console):
    """On the slow boards a wrap of 24 bits lies beyond one spin; several spins cross it."""
    talk = console("mps2-an386")
    talk.until("m-ready\r\n")
    hz = BOARDS["mps2-an386"].spec.tick_hz

    spins = [talk.number("c") for _ in range(18)]

    assert sum(spins) > 1 << 24
    assert max(spins) - min(spins) <= 40, f"ticks of equal spins at {hz} Hz: {spins}"


@pytest.mark.parametrize(("board_id", "bits"), [("rpi-zero", (0, 2, 11, 12, 22, 23)), ("rpi-zero-2w", (0, 2, 12))])
def test_memory_management_caches_and_prediction_are_on(console, board_id, bits):
    control = report(console(board_id).until("m-ready"))["control"]

    assert all(control >> bit & 1 for bit in bits), hex(control)


@pytest.mark.parametrize(
    ("board_id", "command", "said"),
    [
        ("nucleo-h743zi", "f", "unicorn: an exception (Invalid instruction"),
        ("nucleo-h743zi", "o", "unicorn: a write of "),
        ("rpi-pico2-riscv", "f", "unicorn: an exception (mcause 2) at pc 0x1000"),
        ("rpi-pico", "f", "rp2040py: the core stopped at pc 0x1000"),
    ],
)
def test_a_fault_ends_an_emulator_without_exceptions_in_one_line(built, board_id, command, said):
    needs_emulator(BOARDS[board_id])
    with emulate(built(board_id)) as machine:
        talk = Console(machine.url)
        talk.until("m-ready\r\n")
        with talk.port, pytest.raises(HostError, match="the port vanished"):
            talk.ask(command, "]")
        fault = machine.fault()

    assert fault and fault.startswith(f"the emulator ended with exit code 1: {said}") and fault.isprintable()
    assert re.search(r"(at address 0x1ff[0-9a-f]{5}, where the board has none, )?at pc 0x[01][08]00[0-9a-f]{4}$", fault)


@pytest.mark.parametrize("board_id", ["microbit", "netduinoplus2", "mps3-an547", "rpi-zero", "rpi-zero-2w", "hifive1"])
def test_a_stack_overflow_faults_and_says_so(console, board_id):
    talk = console(board_id)
    talk.until("m-ready\r\n")

    assert "e-[fault " in talk.ask("o", "]\r\n")


@pytest.mark.parametrize("board_id", EACH)
def test_the_report_gets_the_firmwares_sizes(built, board_id):
    project = built(board_id)
    spec = BOARDS[board_id].spec

    firmware = json.loads((project.folder / "report.json").read_text())["firmware"]

    assert set(firmware) == {"ram_bytes", "flash_bytes", "stack_bytes"}
    assert spec.stack_bytes < firmware["ram_bytes"] < spec.sram_bytes
    assert 0 < firmware["flash_bytes"] < spec.flash_bytes
    assert firmware["stack_bytes"] > 0


def test_recursion_is_told_of_the_stack_bound(built):
    notes = measure(built("microbit")).notes

    assert any("recursion" in note and "dive" in note for note in notes), notes


def test_a_pi_image_begins_with_the_first_instruction(built):
    from elftools.elf.elffile import ELFFile

    for board_id, section in (("rpi-zero", ".boot"), ("rpi-zero-2w", ".boot")):
        project = built(board_id)
        with project.elf.open("rb") as file:
            elf = ELFFile(file)
            boot = elf.get_section_by_name(section)
            assert boot["sh_addr"] == elf["e_entry"] == BOARDS[board_id].spec.memory[0].origin
            assert project.image.read_bytes().startswith(boot.data())


def test_intel_hex_holds_what_the_elf_holds(built):
    project = built("stm32vldiscovery")
    memory: dict[int, int] = {}
    upper = 0
    for line in project.image.read_text().splitlines():
        record = bytes.fromhex(line[1:])
        assert sum(record) & 255 == 0
        address = upper << 16 | record[1] << 8 | record[2]
        if record[3] == 4:
            upper = int.from_bytes(record[4:-1], "big")
        elif record[3] == 0:
            memory.update(enumerate(record[4:-1], address))

    from elftools.elf.elffile import ELFFile

    with project.elf.open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text")
        assert bytes(memory[text["sh_addr"] + i] for i in range(text["sh_size"])) == text.data()
    assert min(memory) == 0x08000000


def test_pio_run_works_by_hand_and_needs_no_registry(tmp_path, monkeypatch):
    """From within the folder, with the registry's names unreachable."""
    folder = write_hello(tmp_path / "hello", "native")
    environment = {"HOME": str(Path.home()), "PATH": "/usr/bin:/bin", "https_proxy": "http://127.0.0.1:9"}

    done = subprocess.run(
        [sys.executable, "-m", "platformio", "run"], cwd=folder, env=environment, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / ".pio/build/native/firmware.elf").is_file()


def test_pio_run_by_hand_without_the_compiler_says_how_to_get_it(tmp_path):
    """A `sitecustomize` hides the package from PlatformIO's processes."""
    folder, hidden = write_hello(tmp_path / "hello", "microbit"), tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['ziglang'] = None\n")
    environment = {"HOME": str(Path.home()), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(hidden)}
    command = [sys.executable, "-m", "platformio", "run"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    assert done.returncode != 0
    assert "Error: no compiler: " in done.stderr and "-m pip install ziglang" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_two_folders_do_not_share_a_platform(tmp_path):
    for name in ("one", "two"):
        build(Project.open(write_hello(tmp_path / name, "native")))
    shutil.rmtree(tmp_path / "one")

    (tmp_path / "two" / "src" / "main.c").touch()
    build(Project.open(tmp_path / "two"))


def test_a_build_is_stale_when_a_source_is_newer(built, tmp_path):
    project = built("native")
    assert is_built(project)

    (project.folder / "src" / "main.c").touch()

    assert not is_built(project)
    build(project)


def test_another_version_of_the_compiler_compiles_again(tmp_path):
    """SCons knows it by its version: a hash of all of zig takes longer than a build in which nothing changed."""
    project = Project.open(write_hello(tmp_path / "hello", "microbit"))
    made = project.build_folder / "src" / "main.o"
    builder, times = project.folder / "platform" / "builder" / "main.py", []
    for version in ('version("ziglang")', 'version("ziglang")', '"another"'):
        builder.write_text(builder.read_text().replace('version("ziglang")', version))
        build(project)
        times.append(made.stat().st_mtime_ns)

    assert times[0] == times[1] != times[2]


def test_a_changed_linker_script_links_the_firmware_again(built, tmp_path):
    folder = tmp_path / "hello"
    shutil.copytree(built("microbit").folder, folder, ignore=shutil.ignore_patterns(".pio"))
    project, script = Project.open(folder), folder / "lib" / "board" / "link.ld"
    build(project)
    before = project.elf.read_bytes()
    reserved = f"SH_STACK_BYTES = {project.spec['stack_bytes']};"
    assert reserved in script.read_text()
    script.write_text(script.read_text().replace(reserved, f"SH_STACK_BYTES = {project.spec['stack_bytes'] + 64};"))

    build(project)

    assert project.elf.read_bytes() != before


@pytest.mark.parametrize("board_id", ["native", "microbit", "rpi-zero-2w"])
def test_a_build_of_tests_is_that_of_platformio_s_processes(request, tmp_path, board_id):
    """Tests fork builds from a process that has imported PlatformIO (pio_server.py)."""
    forked, started = (Project.open(write_hello(tmp_path / name, board_id)) for name in ("forked", "started"))
    build(forked)
    request.getfixturevalue("pio_started")
    build(started)

    assert started.image.read_bytes() == forked.image.read_bytes()
    assert measure(started) == measure(forked)
    names = [sorted(path.name for path in each.build_folder.rglob("*.[oa]")) for each in (started, forked)]
    assert names[0] == names[1] != []


@pytest.mark.parametrize("started", [False, True], ids=["forked", "started"])
def test_a_broken_source_is_told_in_one_line(request, tmp_path, started):
    if started:
        request.getfixturevalue("pio_started")
    folder = write_hello(tmp_path / "hello", "native")
    (folder / "src" / "main.c").write_text("int main(void) { return missing; }\n")

    with pytest.raises(HostError, match=r"failed: src/main.c:1:.*error.*missing.*the whole log is") as caught:
        build(Project.open(folder))

    assert "\n" not in str(caught.value)


def test_a_strange_folder_is_refused(tmp_path):
    with pytest.raises(HostError, match="not a Shoehorn folder"):
        Project.open(tmp_path)


def test_a_broken_report_is_refused(tmp_path):
    (tmp_path / "report.json").write_text("{")

    with pytest.raises(HostError, match=r"report.json: damaged"):
        Project.open(tmp_path)


def test_the_emulator_goes_when_the_context_ends(built):
    needs_emulator(BOARDS["microbit"])
    with emulate(built("microbit")) as machine:
        assert machine.fault() is None

    assert machine.process.poll() is not None


def test_flashing_an_emulator_board_boots_it(built, pio_started):
    needs_emulator(BOARDS["mps2-an386"])
    project = built("mps2-an386")

    commands = flash(project, None, None, dry_run=False)

    assert "-t upload" in commands[0]
    assert "m-ready" in (project.folder / ".pio" / "build.log").read_text()


def test_a_dry_run_says_the_probe_command(built):
    project = built("netduinoplus2")

    commands = flash(project, None, None, dry_run=True)

    assert commands[0].endswith(f"run -d {project.folder} -t upload")
    assert f"-m pyocd flash -t stm32f405rgtx {project.image}" in commands[1]
    assert pio_command(project)[0] in commands[0]


@pytest.mark.parametrize(("board_id", "image"), [("rpi-zero", "kernel.img"), ("microbit", "firmware.hex")])
def test_a_dry_run_needs_no_card_and_no_drive(built, board_id, image):
    assert any(
        c.startswith("cp ") and c.endswith(f"'<MOUNT>/{image}'")
        for c in flash(built(board_id), None, None, dry_run=True)
    )


def test_a_pi_needs_a_boot_partition(built, tmp_path):
    project = built("rpi-zero")

    with pytest.raises(HostError, match="boot partition is needed"):
        flash(project, None, None, dry_run=False)
    with pytest.raises(HostError, match="not a Raspberry Pi boot partition"):
        flash(project, None, str(tmp_path), dry_run=False)


def test_a_pi_gets_its_kernel_and_keeps_what_was_there(built, tmp_path):
    project = built("rpi-zero")
    (tmp_path / "start.elf").touch()
    (tmp_path / "config.txt").write_text("theirs")

    for _ in range(2):
        flash(project, None, str(tmp_path), dry_run=False)

    assert (tmp_path / "kernel.img").read_bytes() == project.image.read_bytes()
    assert "init_uart_clock" in (tmp_path / "config.txt").read_text()
    assert (tmp_path / "config.txt.before-shoehorn").read_text() == "theirs"


def test_a_microbit_takes_the_file_on_its_drive(built, tmp_path):
    project = built("microbit")
    with pytest.raises(HostError, match="not the board's USB drive"):
        flash(project, str(tmp_path), None, dry_run=False)
    (tmp_path / "MICROBIT.HTM").touch()

    flash(project, None, str(tmp_path), dry_run=False)

    assert (tmp_path / "firmware.hex").read_text() == project.image.read_text()


def _of_uf2(image: bytes) -> tuple[dict[int, int], set[int]]:
    """The bytes by address and the families of a UF2 image, read as its specification says."""
    found: dict[int, int] = {}
    families = set()
    for number in range(len(image) // 512):
        block = image[512 * number : 512 * (number + 1)]
        first, second, flags, address, count, own, blocks, family = struct.unpack("<8I", block[:32])
        assert (first, second, flags) == (0x0A324655, 0x9E5D5157, 0x2000)
        assert block[508:] == (0x0AB16F30).to_bytes(4, "little")
        assert (own, blocks) == (number, len(image) // 512)
        assert (address % 256, count) == (0, 256)
        assert address not in found
        found.update(zip(range(address, address + count), block[32:], strict=False))
        families.add(family)
    return found, families


def test_a_pico_takes_the_file_on_its_drive_which_is_what_the_linker_made(built, tmp_path, monkeypatch):
    project = built("rpi-pico")
    with pytest.raises(HostError, match=r"rpi-pico: .*not the board's USB drive \(no INFO_UF2.TXT\); hold .* BOOTSEL"):
        flash(project, str(tmp_path), None, dry_run=False)
    monkeypatch.setattr(project.upload.Path, "glob", lambda *_: iter(()))
    with pytest.raises(HostError, match=r"rpi-pico: no mounted drive with INFO_UF2.TXT; hold .* BOOTSEL .* --mount"):
        flash(project, None, None, dry_run=False)
    monkeypatch.undo()
    (tmp_path / "INFO_UF2.TXT").touch()

    flash(project, None, str(tmp_path), dry_run=False)

    found, families = _of_uf2((tmp_path / "firmware.uf2").read_bytes())
    with project.elf.open("rb") as file:
        linked = {
            segment["p_paddr"] + at: byte
            for segment in ELFFile(file).iter_segments("PT_LOAD")
            for at, byte in enumerate(segment.data())
        }
    assert families == {0xE48BFF56}
    assert {address: found.pop(address) for address in linked} == linked
    assert set(found.values()) <= {0}


def _flash(project: Project, origin: int) -> bytes:
    """The contents of the flash from its beginning on."""
    with project.elf.open("rb") as file:
        segments = [s for s in ELFFile(file).iter_segments("PT_LOAD") if s["p_filesz"]]
        image = bytearray(max(s["p_paddr"] + s["p_filesz"] for s in segments) - origin)
        for segment in segments:
            at = segment["p_paddr"] - origin
            image[at : at + segment["p_filesz"]] = segment.data()
    return bytes(image)


def _symbols(project: Project) -> dict[str, int]:
    with project.elf.open("rb") as file:
        return {s.name: s["st_value"] for s in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}


def test_the_boot_rom_of_a_pico_2_finds_the_vectors_and_the_block_that_makes_them_a_program(built):
    """RP2350 data sheet, 5.9.5.1: the words, in the first 4 KB; the vectors are the first thing there."""
    project = built("rpi-pico2")
    image = _flash(project, 0x10000000)
    block = struct.pack("<5I", 0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579)

    assert 0 < image.find(block) <= 4096 - len(block) and image.count(block) == 1
    assert image.find(block) % 4 == 0
    assert struct.unpack_from("<2I", image)[1] == _symbols(project)["sh_start"] | 1


def test_the_boot_rom_of_a_pico_2_finds_a_program_for_its_riscv_cores(built):
    """RP2350 data sheet, 5.9.5.2: the words, in the first 4 KB; it enters at the lowest address."""
    project = built("rpi-pico2-riscv")
    image = _flash(project, 0x10000000)
    block = struct.pack("<5I", 0xFFFFDED3, 0x11010142, 0x000001FF, 0, 0xAB123579)

    assert 0 < image.find(block) <= 4096 - len(block) and image.count(block) == 1
    assert image.find(block) % 4 == 0
    assert _symbols(project)["sh_start"] == 0x10000000


def test_the_external_interrupt_of_a_riscv_core_has_a_row_of_its_own_among_exceptions(built):
    """The RISC-V Instruction Set Manual, Volume II, mtvec: 4 bytes for each cause, of which 11 is the external one."""
    project = built("rpi-pico2-riscv")
    symbols = _symbols(project)
    table = symbols["sh_vectors"]
    image = _flash(project, 0x10000000)
    rows = struct.unpack_from("<12I", image, table - 0x10000000)

    assert table % 64 == 0
    assert [_jumps(row, table + 4 * at) for at, row in enumerate(rows)] == [
        *([symbols["sh_fault_entry"]] * 11),
        symbols["sh_isr_machine"],
    ]


def _jumps(word: int, at: int) -> int:
    """Where JAL (Volume I) goes; its register is x0."""
    assert word & 0xFFF == 0x6F
    offset = word >> 21 & 0x3FF | (word >> 20 & 1) << 10 | (word >> 12 & 0xFF) << 11
    return at + 2 * offset - ((word >> 31) << 20)


def test_the_boot_rom_of_a_teensy_finds_the_flash_and_the_vectors(built):
    """IMXRT1060RM, 9.6.3 and 9.7.1: the configuration at 0, at 4 KB what says where the vectors are."""
    project = built("teensy41")
    image = _flash(project, 0x60000000)
    _, entry, _, _, data, own, _, _ = struct.unpack_from("<8I", image, 0x1000)

    assert image[:4] == b"FCFB" and image[4:8] == bytes((0, 0, 1, 0x56))
    assert image[0x44:0x47] == bytes((1, 4, 6))
    assert struct.unpack_from("<I", image, 0x50) == (8 << 20,)
    assert struct.unpack_from("<3I", image, 0x80) == (0x0A1804EB, 0x32041EFF, 0x2604)
    assert struct.unpack_from("<2I", image, 0x1C0) == (256, 4096)
    assert image[0x1000] == 0xD1 and own == 0x60001000
    assert struct.unpack_from("<3I", image, data - 0x60000000) == (0x60000000, 8 << 20, 0)
    assert struct.unpack_from("<2I", image, entry - 0x60000000)[1] == _symbols(project)["sh_start"] | 1


def test_a_teensy_is_flashed_by_its_maker_s_loader(built, monkeypatch):
    project = built("teensy41")
    [_, loader] = flash(project, None, None, dry_run=True)
    monkeypatch.setattr(project.upload.shutil, "which", lambda _: None)

    assert loader == f"teensy_loader_cli --mcu=TEENSY41 -w -v {project.image}"
    with pytest.raises(
        project.upload.UploadError, match="not installed; on Debian `apt-get install teensy-loader-cli`"
    ):
        project.upload.run(project.spec, project.build_folder, "")


def test_a_drive_that_goes_once_it_has_the_whole_image_is_no_fault(built, tmp_path, monkeypatch):
    """The board starts the image then; an error before that, or with the drive still there, is one."""
    upload = built("rpi-pico").upload
    (tmp_path / "made").write_bytes(bytes(512))
    drive = tmp_path / "drive"
    drive.mkdir()

    def gone(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(upload.os, "fsync", gone)
    upload._copy(str(tmp_path / "made"), str(drive / "firmware.uf2"))
    (drive / "INFO_UF2.TXT").touch()
    with pytest.raises(upload.UploadError, match="Input/output error"):
        upload._copy(str(tmp_path / "made"), str(drive / "firmware.uf2"))
    with pytest.raises(upload.UploadError, match="Input/output error"):
        upload._copy(str(tmp_path / "made"), str(tmp_path / "firmware.hex"))


@pytest.mark.parametrize(
    "board_id",
    [
        *("microbit", "netduinoplus2", "rpi-zero-2w", "virt-rv32"),
        *(pytest.param(name, marks=pytest.mark.long) for name in ("stm32vldiscovery", "rpi-zero")),
    ],
)
def test_the_stack_bound_covers_what_inferences_really_use(gen, tmp_path, board_id):
    """The shipped model, timed and traced, leaves its mark in the painted stack."""
    needs_emulator(BOARDS[board_id])
    folder = tmp_path / "digits"
    assert gen("firmware", "--board", board_id, "--out", folder).exit_code == 0
    project = Project.open(folder)
    result = build(project)
    with emulate(project) as machine, Link(Port(machine.url)) as link:
        inputs, outputs = [bytes(64)], [10]
        for mode in (Mode.PLAIN, Mode.TIME, Mode.CRC):
            link.infer(inputs, outputs, mode)
        used, size = link.stack()

    assert size == BOARDS[board_id].spec.stack_bytes
    assert 0 < used <= result.stack_bytes <= size
    assert not any("statics" in note or "over the" in note for note in result.warnings), result.warnings
    print(f"{board_id}: painted {used}, bound {result.stack_bytes}, reserved {size}")


@needs_shared
def test_the_buffer_of_the_text_protocol_is_no_surprise(gen, tmp_path):
    model, folder = MODELS / "mlperf-vww96-int8.tflite", tmp_path / "vww"
    assert gen("firmware", model, "--board", "netduinoplus2", "--out", folder).exit_code == 0
    config = folder / "src" / "app_config.h"
    warnings = build(Project.open(folder)).warnings
    buffer = "#define SH_APP_DB_BUFFER 1"
    config.write_text(config.read_text().replace(buffer, "#define SH_APP_DB_BUFFER 1 // unread"))

    assert not [line for line in warnings if "statics" in line]
    assert [note for note in measure(Project.open(folder)).warnings if "statics beside the arena need 2" in note]


def test_the_stack_of_a_process_is_not_called_too_small(gen, tmp_path):
    assert gen("firmware", "--board", "native", "--out", tmp_path / "d").exit_code == 0
    warnings = build(Project.open(tmp_path / "d")).warnings

    assert not [line for line in warnings if "reserved" in line]
