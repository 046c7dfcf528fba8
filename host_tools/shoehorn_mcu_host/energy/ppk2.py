"""Records with a Power Profiler Kit II. The only module that imports ppk2lab."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import ppk2lab
from ppk2lab.errors import Ppk2labError
from ppk2lab.types import Mode

from shoehorn_mcu_host.base.errors import HostError, first_line
from shoehorn_mcu_host.energy.instruments import Supply
from shoehorn_mcu_host.energy.recording import Floats, Levels, Recording, RecordingError, joined

NAME = "PPK2"
PERIOD = 1e-5  # seconds between samples
_LARGEST_RANGE, _FULL = 4, (1 << 14) - 1  # 1 A, and the converter's largest value
_RANGES = 5
_Piece = tuple[Floats, Floats, Levels]


def start(supply: Supply) -> PpkTape:
    """Finds the kit, sets it up and begins to record."""
    if supply.volts is None:
        raise HostError("--energy ppk2 needs --voltage, the board's supply in volts: the kit measures current only")
    try:
        device = ppk2lab.PPK2.open(serial_number=supply.device)
    except Ppk2labError as error:
        raise HostError(f"{NAME}: {first_line(error)}") from error
    return PpkTape(device, supply)


class PpkTape:
    """A recording under way, on a thread of its own."""

    def __init__(self, device: Any, supply: Supply) -> None:
        self._device, self._volts, self._channel = device, supply.volts or 0.0, supply.channel
        self._pieces: list[_Piece] = []
        self._fault = ""
        self._ends = threading.Event()
        try:
            device.set_mode(Mode.SOURCE if supply.feeds else Mode.AMPERE)
            if supply.feeds:
                device.set_source_voltage_mv(round(1000 * self._volts))
            device.set_dut_power(True)
            self._calibration = device.calibration
            stream = device.stream()
        except Ppk2labError as error:
            device.close(restore_power=False)
            raise HostError(f"{NAME}: {first_line(error)}") from error
        self._thread = threading.Thread(target=self._record, args=(stream,), daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """The time that is recorded so far."""
        return float(self._pieces[-1][0][-1]) + PERIOD if self._pieces else 0.0

    def _record(self, stream: Any) -> None:
        try:
            with stream as events:
                self._take(events)
        except Ppk2labError as error:
            self._fault = f"{NAME}: lost after {self.seconds:.3f} s: {first_line(error)}; is it still plugged in?"

    def _take(self, events: Iterable[Any]) -> None:
        for event in events:
            if self._ends.is_set():
                return
            words = getattr(event, "words", None)  # samples that were lost have none; the times then have a gap
            if words is not None and len(words) and not self._fault:
                self._pieces.append(self._piece(event.start_index, np.array(words, np.uint32)))

    def _piece(self, first: int, words: np.ndarray[Any, np.dtype[np.uint32]]) -> _Piece:
        """Samples as numbers: 14 bits of the converter, 3 of the range, 6 of a counter, 8 of the digital inputs."""
        converter, ranges, logic = words & _FULL, words >> 14 & 7, words >> 24 & 0xFF
        seconds = (first + np.arange(len(words))) * PERIOD
        full = np.flatnonzero((ranges == _LARGEST_RANGE) & (converter == _FULL))
        if len(full):
            self._fault = f"{NAME}: the current is beyond its largest range, 1 A, at {seconds[full[0]]:.6f} s"
        amps = np.full(len(words), np.nan)
        for number in range(_RANGES):
            chosen = ranges == number
            if chosen.any():
                row = self._calibration.ranges[number]
                amps[chosen] = row.convert(converter[chosen].astype(np.float64), 1000 * self._volts) / 1e6
        levels = (logic >> self._channel & 1).astype(np.bool_)
        known = ~np.isnan(amps)
        return seconds[known], amps[known], levels[known]

    def so_far(self) -> Recording | None:
        return joined(NAME, [*self._pieces], self._volts) if self._pieces else None

    def stop(self) -> Recording:
        self._ends.set()
        self._thread.join(10.0)
        if self._fault:
            raise RecordingError(self._fault)
        return joined(NAME, self._pieces, self._volts)

    def close(self) -> None:
        self._ends.set()
        self._thread.join(10.0)
        with suppress(Ppk2labError):  # it is unplugged, which was said
            self._device.close(restore_power=False)
