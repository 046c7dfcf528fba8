"""Encodes and decodes frames of the binary link: COBS, CRC-32, splitting a stream at zeros. No I/O."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

ANSWER = 0x80
ERROR_TYPE = 0xFF
_HEADER = struct.Struct("<BBH")
_CRC = struct.Struct("<I")
_RUN = 254  # longest COBS block without its code


class Kind(IntEnum):
    """The requests; docs/serial-protocol.md has payloads and answers."""

    HELLO = 1
    WRITE = 2
    RUN = 3
    READ = 4
    TRACE = 5
    STACK = 6
    CRC = 7
    BYE = 8
    PUSH = 9
    MODEL = 10
    ROWS = 11  # never asked for: it answers RUN and PUSH, as often as needed, before their own answer
    MARK = 12

    @property
    def doing(self) -> str:
        """What a board does that was asked for it."""
        return _DOING[self]


_DOING = {
    Kind.HELLO: "the greeting",
    Kind.WRITE: "sending the input",
    Kind.RUN: "an inference",
    Kind.READ: "reading the output",
    Kind.TRACE: "reading the trace",
    Kind.STACK: "reading the stack's depth",
    Kind.CRC: "checking a tensor",
    Kind.BYE: "leaving frame mode",
    Kind.PUSH: "a row of the input",
    Kind.MODEL: "the choice of a model",
    Kind.ROWS: "rows of the output",
    Kind.MARK: "the choice of what is marked",
}


class Refusal(IntEnum):
    """The one byte of an error frame."""

    BAD_FRAME = 1
    UNKNOWN = 2
    OUT_OF_RANGE = 3
    NOT_NOW = 4


@dataclass(frozen=True)
class Frame:
    """A frame that was received intact."""

    seq: int
    type: int
    payload: bytes


def stuff(data: bytes) -> bytes:
    """COBS: the same bytes without zeros."""
    out = bytearray()
    blocks = data.split(b"\0")
    for place, block in enumerate(blocks):
        while len(block) > _RUN or (len(block) == _RUN and place < len(blocks) - 1):
            out += bytes([_RUN + 1]) + block[:_RUN]
            block = block[_RUN:]
        out += bytes([len(block) + 1]) + block
    return bytes(out)


def unstuff(data: bytes) -> bytes | None:
    """The inverse of `stuff`; None where the bytes are not valid COBS."""
    out = bytearray()
    at = 0
    while at < len(data):
        code = data[at]
        block = data[at + 1 : at + code]
        if code == 0 or len(block) != code - 1:
            return None
        out += block
        at += code
        if code <= _RUN and at < len(data):
            out.append(0)
    return bytes(out)


def pack(seq: int, type_: int, payload: bytes) -> bytes:
    """The bytes of a frame on the wire, including the zeros around it."""
    raw = _HEADER.pack(seq, type_, len(payload)) + payload
    return b"\0" + stuff(raw + _CRC.pack(zlib.crc32(raw))) + b"\0"


def unpack(chunk: bytes) -> Frame | None:
    """The frame between two zeros, or None where it is damaged."""
    raw = unstuff(chunk)
    if raw is None or len(raw) < _HEADER.size + _CRC.size:
        return None
    seq, type_, length = _HEADER.unpack_from(raw)
    (crc,) = _CRC.unpack(raw[-_CRC.size :])
    payload = raw[_HEADER.size : -_CRC.size]
    if length != len(payload) or zlib.crc32(raw[: -_CRC.size]) != crc:
        return None
    return Frame(seq, type_, payload)
