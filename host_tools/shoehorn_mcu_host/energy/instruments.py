"""The table of instruments, and recording with one of them while the board works."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.energy.recording import Recording


class Tape(Protocol):
    """A recording under way."""

    def stop(self) -> Recording:
        """Ends it; HostError where the instrument was lost, did not keep up, or had another range."""
        ...

    def so_far(self) -> Recording | None:
        """What there is of it, also after a fault."""
        ...

    def close(self) -> None:
        """Gives the instrument back."""
        ...


@dataclass(frozen=True)
class Supply:
    """What an instrument needs to know of the board's supply."""

    volts: float | None = None
    feeds: bool = False  # the instrument is the supply
    device: str | None = None  # its serial number, where there are several
    channel: int = 0  # its digital input that the mark is on


@dataclass(frozen=True)
class Instrument:
    """A row of the table."""

    title: str
    package: str  # that talks to it; empty: none
    install: str = ""
    module: str = ""  # of this room, whose function `start` begins a recording


INSTRUMENTS: Mapping[str, Instrument] = {
    "ppk2": Instrument(
        "Nordic Power Profiler Kit II", "ppk2lab", "pip install 'shoehorn-mcu[energy]'", "shoehorn_mcu_host.energy.ppk2"
    ),
    "joulescope": Instrument(
        "Joulescope JS110 or JS220", "joulescope", "pip install joulescope", "shoehorn_mcu_host.energy.joulescope"
    ),
    "csv": Instrument("a recorded file", ""),
}


def start(name: str, supply: Supply) -> Tape:
    """Begins to record. HostError: the package is not installed, or there is no such instrument."""
    row = INSTRUMENTS[name]
    if importlib.util.find_spec(row.package) is None:
        raise HostError(f"--energy {name} needs the package {row.package}: {row.install}")
    tape: Tape = importlib.import_module(row.module).start(supply)
    return tape


@contextmanager
def recording(name: str, supply: Supply) -> Iterator[Tape]:
    """A recording, which ends with the context."""
    tape = start(name, supply)
    try:
        yield tape
    finally:
        tape.close()
