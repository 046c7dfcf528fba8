"""The images for an ESP32-C: read back as the boot ROM and the second-stage bootloader read them."""

from __future__ import annotations

import hashlib
import json
import runpy
import struct
from functools import reduce
from operator import xor
from pathlib import Path
from typing import NamedTuple

import pytest
from board_project import write_hello
from elftools.elf.elffile import ELFFile

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES
from shoehorn_mcu_host.firmware.build import BuildError, build
from shoehorn_mcu_host.folder.project import Project

BOARDS = {"esp32c3-devkit": 5, "esp32c6-devkit": 13}
PARTITION = 0x10000  # a multiple of the cache's pages, as bootloaders want
WINDOW = 0xFFFFFF  # of the addresses at which the flash is seen
_ESP = runpy.run_path(str(FIRMWARE_TEMPLATES / "platform/builder/esp.py"))
application, direct, ImageError = _ESP["application"], _ESP["direct"], _ESP["ImageError"]


class Segment(NamedTuple):
    address: int
    offset: int  # in the image
    data: bytes


class Image(NamedTuple):
    chip: int
    entry: int
    segments: tuple[Segment, ...]


def read(image: bytes) -> Image:
    """An application's image; the checksum and the hash at its end are right."""
    magic, count, _, _, entry = struct.unpack_from("<BBBBI", image)
    chip, hashed = struct.unpack_from("<H", image, 12)[0], image[23]
    at, segments = 24, []
    for _ in range(count):
        address, size = struct.unpack_from("<II", image, at)
        segments.append(Segment(address, at + 8, image[at + 8 : at + 8 + size]))
        at += 8 + size
    end = at + 15 - at % 16

    assert (magic, hashed, len(image)) == (0xE9, 1, end + 1 + 32)
    assert image[end] == reduce(xor, b"".join(segment.data for segment in segments), 0xEF)
    assert image[end + 1 :] == hashlib.sha256(image[: end + 1]).digest()
    return Image(chip, entry, tuple(segments))


@pytest.fixture(scope="module", params=BOARDS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project.open(write_hello(tmp_path_factory.mktemp("esp") / request.param, request.param))
    build(made)
    return made


def loaded(project: Project) -> dict[int, bytes]:
    """What the ELF has in flash, by the address there."""
    with project.elf.open("rb") as file:
        parts = [(s["p_paddr"], s.data()) for s in ELFFile(file).iter_segments("PT_LOAD")]
    return {address: data for address, data in parts if data}


def symbol(project: Project, name: str) -> int:
    with project.elf.open("rb") as file:
        return ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name(name)[0]["st_value"]


def test_direct_boot_finds_its_mark_and_the_program_behind_it(project: Project):
    flash = (project.build_folder / "firmware.bin").read_bytes()

    assert flash[:8] == bytes.fromhex("1d04dbae") * 2
    assert symbol(project, "sh_start") == 0x42000008
    for address, data in loaded(project).items():
        assert flash[address & WINDOW :][: len(data)] == data


def test_a_bootloader_can_map_each_segment_from_where_it_is_in_the_flash(project: Project):
    image = read((project.build_folder / "application.bin").read_bytes())
    mapped = [segment for segment in image.segments if segment.address]

    assert (image.chip, image.entry) == (BOARDS[project.board_id], symbol(project, "sh_start"))
    assert len(image.segments) <= 16
    assert all((PARTITION + each.offset - each.address) % 0x10000 == 0 for each in mapped)
    assert all(each.data.strip(b"\0") == b"" for each in image.segments if not each.address)
    for address, data in loaded(project).items():
        assert any(
            data == each.data[address - each.address :][: len(data)] for each in mapped if each.address <= address
        )


@pytest.mark.parametrize("sizes", [[1], [4, 9], [100, 65536, 3], [65500, 70000]])
def test_sections_of_all_sizes_are_read_back(sizes: list[int]):
    starts = [0x3C080000 + 200_000 * i + 12 * i for i in range(len(sizes))]
    parts = [
        (at, bytes((i + k) % 251 for k in range(size))) for i, (at, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    image = read(application(parts, 0x42000008, "esp32c3", 1 << 24))
    mapped = {each.address: each for each in image.segments if each.address}

    assert all((each.offset - at) % 0x10000 == 0 and len(each.data) % 4 == 0 for at, each in mapped.items())
    assert all(mapped[at].data[: len(data)] == data for at, data in parts)


def test_an_image_larger_than_its_place_is_refused_in_one_line():
    parts = [(0x42000000, bytes(70_000))]

    with pytest.raises(ImageError, match=r"^the image has 70,000 bytes, and the flash 65,536; take a smaller model$"):
        direct(parts, 65_536)
    with pytest.raises(ImageError, match=r"^the image has 201,\d{3} bytes, and the partition 131,072; take a smaller"):
        application([*parts, (0x3C080000, b"x")], 0, "esp32c6", 131_072)


def test_a_build_for_a_partition_that_is_too_small_says_so(tmp_path: Path):
    folder = write_hello(tmp_path / "small", "esp32c3-devkit")
    (manifest,) = (folder / "boards").glob("*.json")
    text = json.loads(manifest.read_text())
    text["shoehorn"]["partition_bytes"] = 4096
    manifest.write_text(json.dumps(text))

    with pytest.raises(BuildError, match=r"the image has \d+,\d+ bytes, and the partition 4,096; take a smaller model"):
        build(Project.open(folder))
