# SPDX-License-Identifier: 0BSD
"""UF2, the format of images for boards that show themselves as a USB drive (github.com/microsoft/uf2)."""

import struct

_BEGIN, _SECOND, _END = 0x0A324655, 0x9E5D5157, 0x0AB16F30
_HAS_FAMILY = 0x2000
_PAGE = 256  # the bytes of a block that are written, at a multiple of them


def uf2(parts: list[tuple[int, bytes]], family: int) -> bytes:
    """The image in blocks of 512 bytes, lowest address first; what a page has besides the parts is zero."""
    pages: dict[int, bytearray] = {}
    for start, data in parts:
        at = start
        while at < start + len(data):
            page, offset = at - at % _PAGE, at % _PAGE
            some = data[at - start : at - start + _PAGE - offset]
            pages.setdefault(page, bytearray(_PAGE))[offset : offset + len(some)] = some
            at += len(some)
    blocks = []
    for number, (address, page) in enumerate(sorted(pages.items())):
        head = (_BEGIN, _SECOND, _HAS_FAMILY, address, _PAGE, number, len(pages), family)
        blocks.append(struct.pack("<8I476sI", *head, bytes(page), _END))
    return b"".join(blocks)
