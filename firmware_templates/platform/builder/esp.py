# SPDX-License-Identifier: 0BSD
"""Images for the flash of an ESP32-C: for direct boot, and for the second-stage bootloader.

Direct boot: the flash as the core sees it, from its first byte on. The bootloader reads the format of Espressif's
application images (esptool's documentation, "Firmware Image Format"): a header of 8 bytes, one of 16, segments of 8
bytes and their data, a checksum at the end of a block of 16 bytes, and the SHA-256 of all that.
"""

import hashlib
import struct

MAGIC, CHECKSUM_SEED = 0xE9, 0xEF
CHIP_IDS = {"esp32c3": 5, "esp32c6": 13}
DIO, FLASH_4_MB_40_MHZ = 2, 0x20
NO_WP_PIN = 0xEE
ANY_REVISION = 0xFFFF  # the greatest, in hundredths
WINDOW = 1 << 24  # addresses that see the flash begin at a multiple of it
PAGE = 1 << 16  # of the flash cache's MMU: a segment's address and its place in the flash agree below it
HEADERS, SEGMENT_HEADER, BLOCK, HASH = 24, 8, 16, 32


class ImageError(Exception):
    """An image that the flash has no room for, in one line."""


def direct(parts: list[tuple[int, bytes]], flash_bytes: int) -> bytes:
    """The bytes of the flash of sections with these addresses; ImageError where it is smaller."""
    whole = bytearray()
    for address, data in parts:
        at = address % WINDOW
        whole.extend(bytes(max(0, at + len(data) - len(whole))))
        whole[at : at + len(data)] = data
    return _fitting("flash", bytes(whole), flash_bytes)


def application(parts: list[tuple[int, bytes]], entry: int, chip: str, partition_bytes: int) -> bytes:
    """The image of an application; ImageError where the partition is smaller."""
    segments: list[tuple[int, bytes]] = []
    at = HEADERS
    for address, data in _joined(parts):
        gap = (address - at - SEGMENT_HEADER) % PAGE
        if gap:
            filler = (gap - SEGMENT_HEADER) % PAGE
            segments.append((0, bytes(filler)))
            at += SEGMENT_HEADER + filler
        segments.append((address, data))
        at += SEGMENT_HEADER + len(data)
    head = struct.pack("<BBBBI", MAGIC, len(segments), DIO, FLASH_4_MB_40_MHZ, entry)
    head += struct.pack("<B3xHBHH4xB", NO_WP_PIN, CHIP_IDS[chip], 0, 0, ANY_REVISION, 1)  # 1: a SHA-256 follows
    body = b"".join(struct.pack("<II", address, len(data)) + data for address, data in segments)
    checksum = CHECKSUM_SEED
    for _, data in segments:
        for byte in data:
            checksum ^= byte
    rest = -(len(head) + len(body) + 1) % BLOCK
    made = head + body + bytes(rest) + bytes((checksum,))
    return _fitting("partition", made + hashlib.sha256(made).digest(), partition_bytes)


def _joined(parts: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Sections that follow each other in the same page as one segment, filled up to words."""
    made: list[tuple[int, bytearray]] = []
    for address, data in sorted(parts):
        if made and 0 <= address - made[-1][0] - len(made[-1][1]) < PAGE:
            first, whole = made[-1]
            whole.extend(bytes(address - first - len(whole)))
            whole.extend(data)
        else:
            made.append((address, bytearray(data)))
    return [(address, bytes(whole) + bytes(-len(whole) % 4)) for address, whole in made]


def _fitting(what: str, image: bytes, most: int) -> bytes:
    if len(image) > most:
        raise ImageError(f"the image has {len(image):,} bytes, and the {what} {most:,}; take a smaller model")
    return image
