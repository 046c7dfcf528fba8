"""The report of `gen validate --report`, which a board's manifest cites as its `proof`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic

from shoehorn_mcu_host.base.emulators import Counts, Level
from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.base.files import read_text
from shoehorn_mcu_host.base.manifest import Count, Line, Name, Word, faults

_Digest = Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
_MOST_BYTES = 1 << 20


class Proof(pydantic.BaseModel):
    """What was validated, where and with what. It has nothing of the user but the kind of the machine."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    board: Word
    level: Level
    emulator: str  # "": none
    manifest_sha256: _Digest  # of the board's JSON as it was in the folder
    model: Line
    plan: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{16}$")]  # the firmware's identity, as the board said it
    image_sha256: _Digest
    shoehorn: Word  # its version
    vectors: Count
    mismatched_vectors: Count
    max_abs_diff: float
    ram_bytes: Count  # of the built firmware
    stack_used_bytes: Count
    ticks: Count  # of one inference, by the board's clock
    tick_hz: Count
    clock: Name
    inference: float  # these ticks in `unit`
    unit: Counts
    date: Annotated[str, pydantic.Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    host: Line  # system, processor and Python

    def text(self) -> str:
        """The file's contents."""
        return self.model_dump_json(indent=2) + "\n"


def read(path: Path) -> Proof:
    """The report in a file. InputError names the file and what is wrong with it; OSError: it cannot be read."""
    try:
        return Proof.model_validate_json(read_text(path, _MOST_BYTES))
    except pydantic.ValidationError as error:
        raise InputError(f"{path}: no report of gen validate: {faults(error)}") from error
    except ValueError as error:
        raise InputError(f"{path}: no report of gen validate: {error}") from error
