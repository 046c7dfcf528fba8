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
    """The requests, each with what a board does then; docs/serial-protocol.md has payloads and answers."""

    doing: str

    def __new__(cls, number: int, doing: str) -> Kind:
        kind = int.__new__(cls, number)
        kind._value_, kind.doing = number, doing
        return kind

    HELLO = 1, "the greeting"
    WRITE = 2, "sending the input"
    RUN = 3, "an inference"
    READ = 4, "reading the output"
    TRACE = 5, "reading the trace"
    STACK = 6, "reading the stack's depth"
    CRC = 7, "checking a tensor"
    BYE = 8, "leaving frame mode"
    PUSH = 9, "a row of the input"
    MODEL = 10, "the choice of a model"
    # Never asked for: it answers RUN and PUSH, as often as needed, before their own answer.
    ROWS = 11, "rows of the output"
    MARK = 12, "the choice of what is marked"


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
