"""The board manifests, the family table and the tool table agree with each other."""

from __future__ import annotations

import itertools
import json
import runpy
import subprocess
import sys

import pytest
from elftools.elf.elffile import ELFFile

from shoehorn_mcu.base.paths import BOARDS, FIRMWARE_TEMPLATES
from shoehorn_mcu.machine.families import families, family_files
from shoehorn_mcu.machine.targets import CPUS, Board, BoardError, UnknownBoard, board, boards, load_board
from shoehorn_mcu_host.base.emulators import Level

ROOT = FIRMWARE_TEMPLATES / "families"
FAMILIES = families()
IDS = {
    "native", "rpi-zero", "rpi-zero-2w", "netduinoplus2", "microbit", "stm32vldiscovery",
    "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547", "stm32-h405", "nucleo-h743zi", "rpi-pico",
    "nucleo-f401re", "nucleo-f411re", "nucleo-f446re", "blackpill-f411ce", "stm32f4-discovery",
    "microbit-v2", "nrf52840dk", "arduino-nano33ble", "xiao-ble", "rpi-pico-w",
    "b-l475e-iot01a", "nucleo-l4r5zi", "bluepill-f103c8", "rpi-pico2", "rpi-pico2-riscv",
    "teensy41", "uno-r4",
    "virt-rv32", "hifive1", "esp32c3-devkit", "esp32c6-devkit",
}  # fmt: skip
RAM = {"name": "ram", "kind": "ram", "origin": 0, "bytes": 8192}
ALL = pytest.mark.parametrize("each", boards(), ids=lambda b: b.id)


def test_the_boards_of_the_contract_are_there():
    assert {b.id for b in boards()} >= IDS


@ALL
def test_a_board_says_the_truth_about_itself(each: Board):
    assert each.spec.family in FAMILIES
    assert each.arena_limit_bytes > 0
    proven = {each.spec.emulator.row.proves} if each.spec.emulator else set()
    assert set(each.spec.verified) == {Level.BUILD, *proven}


@ALL
def test_memory_regions_do_not_overlap_and_hold_the_sram(each: Board):
    regions = sorted(each.spec.memory, key=lambda m: m.origin)

    assert all(a.origin + a.bytes <= b.origin for a, b in itertools.pairwise(regions))
    if each.id != "native":
        assert each.spec.sram_bytes <= sum(m.bytes for m in regions if m.is_data)


@ALL
def test_a_flash_tool_has_what_it_needs(each: Board):
    assert bool(each.spec.pyocd_target) == (each.spec.flash_tool == "pyocd")
    assert bool(each.spec.image) == (each.spec.flash_tool != "emulator")


def test_a_folder_replaces_a_file_of_an_earlier_one_only_where_it_is_meant():
    """The memory maps of SSE-300 and RP2040 are not those of other Cortex-M parts."""
    replaced = set()
    for family, row in FAMILIES.items():
        listed = [p for e in row.files for p in ([ROOT / e] if (ROOT / e).is_file() else (ROOT / e).iterdir())]
        assert len({p.name for p in listed}) == len(family_files(family))
        replaced |= {(family, p.name) for p in listed if family_files(family)[p.name] != p}

    assert replaced == {
        ("sse300", "link.ld.in"),
        ("rp2040", "link.ld.in"),
        ("rp2350", "link.ld.in"),
        ("imxrt1062", "link.ld.in"),
    }


def test_every_folder_of_files_is_used():
    used = {path for family in FAMILIES for path in family_files(family, several_cores=True, marked=True).values()}

    assert used == {p for p in ROOT.rglob("*") if p.is_file()} - {ROOT / "families.json", ROOT / "defines.json"}


def test_the_platform_compiles_for_every_core():
    builder = runpy.run_path(str(FIRMWARE_TEMPLATES / "platform/builder/toolchain.py"))
    tools = {cpu: builder["tools"](cpu) for cpu in CPUS}

    assert set(builder["CORES"]) == set(CPUS)
    assert [cpu for cpu, found in tools.items() if not found.freestanding] == ["host"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stack_byte": 1}, "stack_byte: this version knows no such key; leave it out"),
        ({"cpu": "cortex-m99"}, "unknown cpu 'cortex-m99'; known: "),
        ({"stack_bytes": "many"}, "stack_bytes: "),
        ({"arena_max_bytes": 1}, "shoehorn.arena_max_bytes: this version knows no such key; leave it out"),
        ({"verified": ["perhaps"]}, "verified"),
        ({"cycles": {"core": "cortex-a72"}}, "cycles.core: Input should be 'cortex-m0', "),
        ({"cycles": {"core": "cortex-a53"}}, "the code of cortex-m0; name the core of the chip, or leave `cycles` out"),
        ({"cycles": {"core": "cortex-m0", "code_lines": 0}}, "cycles.code_lines: "),
        ({"cycles": {"core": "cortex-m0", "wait_states": 1}, "memory": []}, "wait_states needs a memory of kind flash"),
        (
            {"memory": [RAM, {"name": "ccm", "kind": "tcm", "origin": 4096, "bytes": 8}]},
            "memory: 'ccm' at 0x00001000 overlaps 'ram', which ends at 0x00002000; correct an origin or a size",
        ),
        ({"memory": [RAM, RAM]}, "memory: two are called 'ram'; give each a name of its own"),
        (
            {"memory": [RAM, {**RAM, "name": "C C", "origin": 8192}]},
            "memory.1.name: 'C C' is refused; write a memory's name in lower-case letters, digits and _",
        ),
        ({"image": "firmware.uf2"}, "an image that ends in .uf2 needs uf2_family, and no other image has one"),
        ({"uf2_family": 1}, "an image that ends in .uf2 needs uf2_family, and no other image has one"),
        ({"memory": [{**RAM, "read_cycles": 1.5}]}, "'ram': waits need a source, and a kind other than flash"),
    ],
)
def test_a_wrong_manifest_names_the_key(tmp_path, change, message):
    manifest = json.loads((BOARDS / "microbit.json").read_text())
    manifest["shoehorn"].update(change)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(manifest))

    with pytest.raises(BoardError, match=r"mine\.json: ") as caught:
        load_board(path)

    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["a..b", "..mine", "my board", "-"])
def test_a_manifest_s_name_is_the_board_s_id(tmp_path, name):
    """It is part of the names of folders that are written."""
    path = tmp_path / f"{name}.json"
    path.write_text((BOARDS / "microbit.json").read_text())

    with pytest.raises(BoardError, match="the file's name is the board's id"):
        load_board(path)


def test_a_manifest_that_is_not_json_is_refused(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text("{")

    with pytest.raises(BoardError, match="not JSON"):
        load_board(path)

    path.write_text("[]")
    with pytest.raises(BoardError, match=r"mine\.json: this is no object of JSON$"):
        load_board(path)


def test_an_unknown_board_lists_those_like_it_or_else_all():
    with pytest.raises(UnknownBoard, match=r"unknown board 'beaglebone'; known boards: .*microbit"):
        board("beaglebone")
    with pytest.raises(UnknownBoard, match=r"unknown board 'micro-bit'; did you mean 'microbit' or 'microbit-v2'\?"):
        board("micro-bit")


@ALL
def test_a_part_s_core_clock_is_the_one_it_is_built_for_and_an_emulator_has_none(each: Board):
    manifest = json.loads(each.path.read_text())
    is_part = each.spec.family not in ("posix", "mps", "sse300", "riscv_virt")
    built_for = int(manifest["build"]["f_cpu"].rstrip("L")) if is_part and "f_cpu" in manifest["build"] else None

    assert each.spec.core_hz == built_for


def test_the_sum_at_the_end_of_the_rp2040_s_second_stage_is_right(tmp_path):
    """The boot ROM's CRC-32 (RP2040 datasheet, 2.8.1.3.1): not reflected, from ones, of 252 bytes."""
    made = tmp_path / "boot2.o"
    clang = [sys.executable, "-m", "ziglang", "clang", "--target=thumbv6m-none-eabi", "-mcpu=cortex-m0"]
    subprocess.run([*clang, "-c", str(ROOT / "rp2040" / "boot2.S"), "-o", str(made)], check=True, timeout=60)
    with made.open("rb") as file:
        data = ELFFile(file).get_section_by_name(".boot2").data()
    crc = 0xFFFFFFFF
    for byte in data[:252]:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF

    assert len(data) == 256
    assert data[252:] == crc.to_bytes(4, "little")
