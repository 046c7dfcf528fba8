"""A device under test, spoken to by the public text protocol and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from time import monotonic

from shoehorn_mcu_host.base.errors import LinkError
from shoehorn_mcu_host.base.tasks import BY_ID, WAKE_WORD, Task
from shoehorn_mcu_host.board.ports import Port, text_of

ANSWER_SECONDS = 5.0  # the public runner's limits
INFER_SECONDS = 30.0
READY = "m-ready"
_SYNC_SECONDS = 2.0  # after which a word that is not answered is sent again
_PIECE = 31  # bytes in a `db` command, so that it stays below 80 characters
_MOST = 1 << 20  # characters of an answer
_SHOWN = 80
_NAMED = re.compile(r"m-(name)-dut-\[([^]]+)]|m-(model|profile)-\[([^]]+)]")
_LAP = re.compile(r"m-lap-us-([0-9]{1,18})")
_RESULTS = re.compile(r"m-results-\[([^]]+)]")
_ACTIVATIONS = re.compile(r"m-activations-\[([^]]+)]")
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,9}\s*")


@dataclass(frozen=True)
class Inference:
    """What an `infer` answered: the results, and the microseconds between its laps."""

    results: tuple[float, ...]
    iterations: int
    warmups: int
    elapsed_us: int

    @property
    def seconds(self) -> float:
        """Of all timed inferences together."""
        return self.elapsed_us / 1e6

    @property
    def throughput(self) -> float:
        """Inferences in a second; 0 where no time passed."""
        return self.iterations / self.seconds if self.elapsed_us else 0.0


class Device(AbstractContextManager["Device"]):
    """An open port with the device behind it. `hears` is told each line that is no answer to `db`.

    `patience` is how many times longer than by the public runner an answer may take: an emulator's time is not ours.

    Every method raises LinkError where the device does not answer, or not as the protocol says; HostError of the port.
    """

    def __init__(self, port: Port, hears: Callable[[str], None] = lambda _: None, patience: float = 1.0):
        self._port = port
        self._hears = hears
        self._patience = patience
        self._rest = ""

    def __exit__(self, *_: object) -> None:
        self._port.close()

    def awake(self) -> None:
        """Passes by what the device said while nobody listened, and half a command that it heard.

        A word that no device knows comes back in the answer; all before it is from earlier. The reference firmware
        takes neither an empty command nor a zero byte, so none is sent.
        """
        end = monotonic() + ANSWER_SECONDS * self._patience
        for number in count(1):
            word = f"sync-{number}"
            self._port.write(f"{word}%".encode("ascii"))
            until, heard = min(end, monotonic() + _SYNC_SECONDS), ""
            while monotonic() < until:
                heard = (heard + text_of(self._port.read()))[-_MOST:]
                if READY in heard.partition(word)[2] and heard.endswith("\n"):
                    return
            if monotonic() >= end:
                raise LinkError(f"{self._port.name}: no {READY} comes; is it a board with MLPerf's firmware?")

    def ask(self, command: str, seconds: float = ANSWER_SECONDS) -> list[str]:
        """The lines of the answer before `m-ready`."""
        self._port.write(command.encode("ascii") + b"%")
        lines: list[str] = []
        end, size = monotonic() + seconds * self._patience, 0
        while True:
            line = self._line(end, command)
            if not command.startswith("db "):  # hundreds of lines an input
                self._hears(f"RX:{line}")
            if READY in line:
                return lines
            lines.append(line)
            size += len(line) + 1
            if size > _MOST:
                raise LinkError(f"{self._port.name}: '{command[:_SHOWN]}' is answered without an end")

    def _line(self, end: float, command: str) -> str:
        while "\n" not in self._rest:
            if monotonic() > end:
                shown = command[:_SHOWN]
                raise LinkError(f"{self._port.name}: no {READY} after '{shown}'; is it a board with MLPerf's firmware?")
            if len(self._rest) > _MOST:
                raise LinkError(f"{self._port.name}: a line without an end after '{command[:_SHOWN]}'")
            self._rest += text_of(self._port.read())
        line, _, self._rest = self._rest.partition("\n")
        return line

    def _told(self, command: str) -> dict[str, str]:
        found = (_NAMED.fullmatch(line) for line in self.ask(command))
        return {match[1] or match[3]: match[2] or match[4] for match in found if match}

    def name(self) -> str:
        """The vendor's name for the device."""
        return self._told("name").get("name", "")

    def model(self) -> str:
        """The benchmark that it says it runs."""
        return self._told("profile").get("model", "")

    def require(self, task: Task) -> None:
        """LinkError unless the device runs this benchmark."""
        found = self.model()
        if found != task.id:
            known = f"runs {found}" if found in BY_ID else f"names the model '{found[:40]}'"
            raise LinkError(f"{self._port.name}: the device {known}; flash the firmware of {task.id}")

    def load(self, data: bytes) -> None:
        """Fills the device's buffer."""
        self._refuse(self.ask(f"db load {len(data)}"))
        lines: Sequence[str] = ()
        for at in range(0, len(data), _PIECE):
            lines = self.ask(f"db {data[at : at + _PIECE].hex()}")
            self._refuse(lines)
        if not any("m-load-done" in line for line in lines):
            raise LinkError(f"{self._port.name}: {len(data)} bytes were sent and no m-load-done came; bytes were lost")

    def infer(self, task: Task, iterations: int, warmups: int, seconds: float = INFER_SECONDS) -> Inference:
        """Timed inferences on what was loaded."""
        lines = self.ask(f"infer {iterations} {warmups}", seconds)
        self._refuse(lines)
        laps = [int(match[1]) for match in map(_LAP.fullmatch, lines) if match]
        if len(laps) != 2 or laps[1] < laps[0]:
            raise LinkError(f"{self._port.name}: infer {iterations} {warmups}: no two laps that go on in time")
        return Inference(self._results(lines, task), iterations, warmups, laps[1] - laps[0])

    def _results(self, lines: Sequence[str], task: Task) -> tuple[float, ...]:
        said = next((match[1] for match in map(_RESULTS.fullmatch, lines) if match), "")
        try:
            values = tuple(float(text) for text in said.split(",") if text.strip())
        except ValueError:
            values = ()
        if len(values) != task.values or not all(map(math.isfinite, values)):
            shown = said[:_SHOWN] or "nothing"
            raise LinkError(f"{self._port.name}: results are [{shown}]; {task.id} has {task.values} finite numbers")
        return values

    def hear(self, chunk: bytes) -> int:
        """A step of sound: the int8 output that stands for the wake word."""
        self.load(chunk)
        lines = self.ask("extract_uart_stream")
        self._refuse(lines)
        said = next((match[1] for match in map(_ACTIVATIONS.fullmatch, lines) if match), "")
        values = said.split(",")
        whole = len(values) > WAKE_WORD and all(map(_WHOLE.fullmatch, values))
        if not whole or not all(-128 <= int(value) <= 127 for value in values):
            raise LinkError(f"{self._port.name}: activations are [{said[:_SHOWN]}]; wanted are int8 numbers")
        return int(values[WAKE_WORD])

    def _refuse(self, lines: Sequence[str]) -> None:
        for line in lines:
            if line.startswith(("e-[", "Supplied buffer size")):
                raise LinkError(f"{self._port.name}: the device refused: {line[:_SHOWN]}")
