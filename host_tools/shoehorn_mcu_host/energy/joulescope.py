"""Records with a Joulescope. The only module that imports joulescope."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoehorn_mcu_host.base.errors import HostError, first_line
from shoehorn_mcu_host.energy.instruments import Supply
from shoehorn_mcu_host.energy.recording import MARK, Recording, RecordingError

NAME = "Joulescope"
_LONGEST = 300  # seconds that the host keeps
_HZ = 100_000


def start(supply: Supply) -> JoulescopeTape:
    """Finds the instrument, sets it up and begins to record."""
    import joulescope

    try:
        devices = joulescope.scan(config="auto")
    except Exception as error:  # of its driver, which has no base class
        raise HostError(f"{NAME}: cannot be looked for: {first_line(error)}") from error
    if supply.device is not None:
        devices = [each for each in devices if supply.device in str(each)]
    if len(devices) != 1:
        listed = ", ".join(map(str, devices)) or "none"
        raise HostError(f"{NAME}: one is needed, found {listed}; choose with --energy-device")
    return JoulescopeTape(devices[0], supply)


class JoulescopeTape:
    """A recording under way, in the instrument's own buffer."""

    def __init__(self, device: Any, supply: Supply) -> None:
        self._device, self._field = device, ("current_lsb", "voltage_lsb")[supply.channel % 2]
        self._lost = ""
        try:
            device.open()
            device.parameter_set("i_range", "auto")
            device.parameter_set("sampling_frequency", _HZ)
            device.parameter_set(self._field, f"gpi{supply.channel % 2}")
            device.buffer_duration = _LONGEST
            device.start(stop_fn=self._stopped)
        except Exception as error:  # of its driver, which has no base class
            raise HostError(f"{NAME}: {first_line(error)}") from error

    def _stopped(self, event: int, message: str) -> None:
        if event:
            self._lost = message or f"event {event}"

    def so_far(self) -> Recording | None:
        buffer = self._device.stream_buffer
        first, last = buffer.sample_id_range
        if first is None or last - first < 2:
            return None
        signals = buffer.samples_get(first, last, fields=["current", "voltage", self._field])["signals"]
        amps, volts, level = (np.asarray(signals[name]["value"]) for name in ("current", "voltage", self._field))
        seconds = np.arange(first, last, dtype=np.float64) / self._device.sampling_frequency
        known = np.isfinite(amps) & np.isfinite(volts)
        marks = {MARK: level[known] > 0}
        return Recording(NAME, seconds[known], amps[known].astype(float), volts[known].astype(float), marks)

    def stop(self) -> Recording:
        found = self.so_far()
        try:
            self._device.stop()
        except Exception as error:  # of its driver, which has no base class
            self._lost = first_line(error)
        if self._lost:
            raise RecordingError(f"{NAME}: lost: {self._lost}; is it still plugged in?")
        if found is None:
            raise RecordingError(f"{NAME}: no sample has arrived; is it connected?")
        if found.seconds[-1] - found.seconds[0] > 0.99 * _LONGEST:
            raise RecordingError(f"{NAME}: more than {_LONGEST} s; ask for fewer --runs")
        return found

    def close(self) -> None:
        try:
            self._device.stop()
            self._device.close()
        except Exception:  # it is unplugged, which was said
            return
