"""The files of a run: `log.txt`, `results.txt` and `results.json`, in the form of the public runner's.

Each line is written when it is said, so a run that ends early keeps what was measured until then.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from shoehorn_mcu_host.base.errors import HostError

HARDWARE = "ulp-mlperf"


class Session:
    """A folder that a run writes to. `emulator`: the program that the run is on, which every stamped line then names.

    A file that is there is replaced when the run begins. Raises HostError where the folder cannot be written.
    """

    def __init__(self, folder: Path, emulator: str = ""):
        self.folder = folder
        self._who = f"EMULATED-{emulator}" if emulator else HARDWARE
        self._entries: list[dict[str, Any]] = []
        self._log: IO[str] | None = None
        self._results: IO[str] | None = None
        self._first = f"EMULATED by {emulator}: no figure in this file is a result of hardware." if emulator else ""

    def __enter__(self) -> Session:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._log = (self.folder / "log.txt").open("w", encoding="utf-8", buffering=1)
            self._results = (self.folder / "results.txt").open("w", encoding="utf-8", buffering=1)
        except OSError as error:
            raise HostError(f"{error.filename}: cannot be written ({error.strerror})") from error
        if self._first:
            self.result(self._first)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.say(f"ended: {error}" if isinstance(error, HostError) else f"ended: {type(error).__name__}")
        for file in (self._log, self._results):
            if file:
                file.close()
        self._write_entries()

    def say(self, line: str) -> None:
        """A line of the log alone."""
        assert self._log is not None
        self._log.write(f"{line}\n")

    def stamp(self, line: str) -> str:
        """With the time and who measured, in front of a line."""
        return f"{datetime.now():%m%d.%H%M%S} {self._who}: {line}"

    def note(self, line: str) -> None:
        """A stamped line of the log."""
        self.say(self.stamp(line))

    def result(self, line: str) -> None:
        """A line of the log and of the results."""
        assert self._results is not None
        self._results.write(f"{line}\n")
        self.say(line)

    def entry(self, value: dict[str, Any]) -> None:
        """An element of `results.json`."""
        self._entries.append(value)

    def _write_entries(self) -> None:
        head = [{"emulated": self._first}] if self._first else []
        text = json.dumps([*head, *self._entries], indent=1) + "\n"
        path = self.folder / "results.json"
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise HostError(f"{path}: cannot be written ({error.strerror})") from error
