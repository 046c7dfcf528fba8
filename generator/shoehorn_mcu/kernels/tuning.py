"""Measured choices of kernels: a file that says, by contract and facts, which instance to use.

A JSON object of `{"<key of the op>": "<instance>"}`, spelt as Contract.key and Instance.name give them. One file may
serve several models: entries for ops that a model does not have are ignored.

A file that `gen tune` wrote also has the entry HEADER, an object: "format", the "version" of Shoehorn, "model" and
"model_sha256", "board" and "cpu", "transport", the "unit" of times, and "measured": {key: {instance: time of one row
of the output}}. Such a file serves that model, board and version only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from shoehorn_mcu.base.errors import ShoehornError, one_line
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.kernels.catalogue import CATALOGUE, ORACLE
from shoehorn_mcu.kernels.linear.points import OTHER_CONTRACT
from shoehorn_mcu_host.base.files import read_bytes

HEADER = "shoehorn"
FORMAT = 1
_LARGEST = 64 << 20  # bytes of a file

Measured = Mapping[str, Mapping[str, float]]
"""Key of a layer -> instance -> time of one row of the output."""


class TuningError(ShoehornError):
    """A tuning file that cannot be read or written, or that names a contract or kernel not in the catalogue."""

    kind = "bad-tuning"


@dataclass(frozen=True)
class Origin:
    """What a tuning was measured with."""

    version: str  # of Shoehorn
    model: str
    model_sha256: str
    board: str
    cpu: str
    transport: str  # emulator or serial
    unit: str

    def differs(self, sha256: str, board: str | None, cpu: str) -> str:
        """What it was measured with instead of this, in words; empty where it fits. Without a board the core counts."""
        if self.version != __version__:
            return f"Shoehorn {self.version}, this is {__version__}"
        if self.model_sha256 != sha256:
            return f"another model ({one_line(self.model)})"
        if board is not None and self.board != board:
            return f"another board ({one_line(self.board)})"
        return "" if self.cpu == cpu else f"another core ({one_line(self.cpu)})"


@dataclass(frozen=True)
class Tuning:
    """The entries of a file, and the first 16 hexadecimal digits of its SHA-256; both empty without a file."""

    kernels: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    path: str = ""
    origin: Origin | None = None  # None: written by hand, for any model and board
    measured: Measured = field(default_factory=dict)

    def fitting(self, sha256: str, board: str | None, cpu: str) -> tuple[Tuning, str]:
        """The tuning to use for a model, a board (None: only a core is known) and a core, and a note for the user.

        An empty tuning where the file is not for them.
        """
        differs = self.origin.differs(sha256, board, cpu) if self.origin else ""
        return (Tuning(), f"{self.path}: ignored; it was measured with {differs}") if differs else (self, "")


def load(path: Path) -> Tuning:
    """The tuning in a file. Raises TuningError, which names the wrong entry."""
    try:
        content = read_bytes(path, _LARGEST)
        found = json.loads(content)
    except OSError as error:
        raise TuningError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise TuningError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise TuningError(f"{path}: holds no object; write {{op: kernel}}")
    header = found.pop(HEADER, None)
    origin, measured = _header(path, header) if header is not None else (None, {})
    if origin and origin.version != __version__:
        found = {}  # may name kernels of that version
    for key, name in found.items():
        _check(path, key, name)
    return Tuning(found, hashlib.sha256(content).hexdigest()[:16], str(path), origin, measured)


def save(path: Path, tuning: Tuning) -> None:
    """Writes a tuning that has an origin, whole or not at all; TuningError where that fails."""
    assert tuning.origin
    header = {"format": FORMAT, **asdict(tuning.origin), "measured": tuning.measured}
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps({HEADER: header, **tuning.kernels}, indent=1) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise TuningError(f"{path}: cannot be written: {error.strerror}") from error


def started(path: Path, origin: Origin) -> Tuning:
    """The tuning of an earlier run at `path`, to go on with; without measurements where there is no file.

    TuningError where the file is not of such a run.
    """
    if not path.exists():
        return Tuning(path=str(path), origin=origin)
    found = load(path)
    if found.origin == origin:
        return found
    cure = "delete it, or name another with --out"
    if found.origin is None:
        raise TuningError(f"{path}: was not written by gen tune; {cure}")
    differs = found.origin.differs(origin.model_sha256, origin.board, origin.cpu)
    differs = differs or f"{found.origin.unit} over {found.origin.transport}"
    raise TuningError(f"{path}: was measured with {differs}; {cure}")


def with_times(tuning: Tuning, times: Measured) -> Tuning:
    """The tuning with more measurements."""
    measured = {key: {**tuning.measured.get(key, {}), **times.get(key, {})} for key in {**tuning.measured, **times}}
    return replace(tuning, measured=measured)


def _header(path: Path, found: object) -> tuple[Origin, Measured]:
    """The entry HEADER. Of another version only that is read."""
    if not isinstance(found, dict) or not isinstance(found.get("version"), str):
        raise TuningError(f"{path}: damaged: '{HEADER}' has no version; measure again with gen tune")
    texts = {each.name: found.get(each.name) for each in fields(Origin)}
    if found["version"] != __version__:
        return Origin(**{name: str(text) for name, text in texts.items()}), {}
    measured: Any = found.get("measured")
    if not all(isinstance(text, str) for text in texts.values()) or not _are_times(measured):
        raise TuningError(f"{path}: damaged: '{HEADER}' is not as gen tune writes it; measure again")
    for key, times in measured.items():
        for name in times:
            _check(path, key, name)
    return Origin(**{name: str(text) for name, text in texts.items()}), measured


def _are_times(found: object) -> bool:
    """Whether this is what Measured says."""
    if not isinstance(found, dict) or not all(isinstance(times, dict) for times in found.values()):
        return False
    figures = [time for times in found.values() for time in times.values()]
    return all(isinstance(time, int | float) and 0 <= time < float("inf") for time in figures)


def _check(path: Path, key: str, name: object) -> None:
    """Raises TuningError unless the contract exists and the kernel can be an instance of one of its variants."""
    contract = key.partition(" ")[0]
    if contract not in ORACLE:
        raise TuningError(f"{path}: '{key}': no contract '{contract}'; known: {', '.join(ORACLE)}")
    both = (contract, OTHER_CONTRACT.get(contract, contract))
    variants = [v for v in CATALOGUE if v.contract.name in both]
    stems = ["_".join(filter(None, (v.contract.name, v.suffix, t.name))) for v in variants for t in v.tiles]
    if not isinstance(name, str) or not any(name == stem or name.startswith(f"{stem}_") for stem in stems):
        raise TuningError(f"{path}: '{key}': no kernel {name!r}; known: {', '.join(stems)}")
