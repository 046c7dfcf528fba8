"""Switches this machine's floating point to reading and writing numbers below 2^-126 as 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from shoehorn_mcu_host.base import cbuild

_HERE = Path(__file__).parent / "fpu"


@contextmanager
def flushed(flush: bool) -> Iterator[None]:
    """In this thread and within the block, float32 numbers below 2^-126 are 0, if `flush`."""
    if not flush:
        yield
        return
    switch = _library().lib.shoehorn_flush_subnormals
    before = switch(1)
    try:
        yield
    finally:
        switch(before)


@cache
def _library() -> cbuild.Library:
    return cbuild.load("shoehorn_fpu", _HERE / "fpu.h", [_HERE / "fpu.c"])
