"""The rows of a sweep: one Parquet file for each combination, written at once or not at all, in `DIR/rows`.

A row's file is named after its combination, so a combination has one row, whoever computed it and how often. Its column
`inputs` is a hash of all that decides what is in it (`identity.py`): where that hash is another one now, the row is
computed anew. pandas, polars and DuckDB read the folder as it is.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoehorn_mcu.sweeps.axes import Combination
from shoehorn_mcu.sweeps.store import write

Row = dict[str, Any]
"""The columns of SCHEMA; None where a stage was not reached."""

_TEXT, _COUNT, _REAL, _TRUTH = pa.string(), pa.int64(), pa.float64(), pa.bool_()
SCHEMA = pa.schema(
    [
        # what was asked
        ("model", _TEXT),  # the name of its file without the ending
        ("model_path", _TEXT),
        ("model_sha256", _TEXT),
        ("board", _TEXT),
        ("options", _TEXT),  # as on a command line
        ("sram", _TEXT),
        ("minimize", _TEXT),
        ("stream_input", _TRUTH),
        ("until", _TEXT),
        # what came of it
        ("status", _TEXT),  # planned, written, built, validated, measured; mismatch, refused, failed
        ("kind", _TEXT),  # of a refusal, one word
        ("message", _TEXT),  # of a refusal or a failure, one line
        ("cures", _TEXT),  # what would help, where the model does not fit
        ("needed_bytes", _COUNT),  # of the memory that is too small
        ("available_bytes", _COUNT),
        # the plan
        ("macs", _COUNT),
        ("arena_bytes", _COUNT),
        ("arena_bound_bytes", _COUNT),
        ("proven_optimal", _TRUTH),
        ("constant_bytes", _COUNT),
        ("recomputed_macs", _COUNT),
        ("predicted_instructions", _COUNT),
        ("predicted_cycles", _COUNT),
        ("predicted_flash_bytes", _COUNT),
        ("predicted_ram_bytes", _COUNT),
        # the firmware
        ("folder_sha256", _TEXT),
        ("ram_bytes", _COUNT),
        ("flash_bytes", _COUNT),
        ("stack_bytes", _COUNT),
        ("vectors", _COUNT),
        ("mismatched_vectors", _COUNT),
        ("time", _REAL),  # of one inference
        ("time_unit", _TEXT),
        ("cycles", _REAL),  # estimated, where the emulator has a model of the core's timing
        # how it came about
        ("page", _TEXT),  # the plan's page, below the sweep's folder
        ("plan_shared", _TRUTH),  # the plan was made for another combination, or in an earlier run
        ("proof_shared", _TRUTH),  # so were build, validation and times
        ("plan_seconds", _REAL),  # wall time of this run; 0 for what is shared
        ("build_seconds", _REAL),
        ("flash_seconds", _REAL),
        ("validate_seconds", _REAL),
        ("bench_seconds", _REAL),
        ("cpu_seconds", _REAL),  # of the task's process and its children
        ("worker", _TEXT),
        ("finished", _TEXT),  # UTC
        ("shoehorn", _TEXT),  # version
        ("compiler", _TEXT),
        ("emulator", _TEXT),
        ("inputs", _TEXT),
    ]
)
# A file has one row: statistics, dictionaries and a second copy of the schema would be most of it.
_SMALL: Any = {"compression": "none", "write_statistics": False, "use_dictionary": False, "store_schema": False}
TIMES = {
    "cycles": "cycles",
    "time": "",  # the row's time_unit
    "predicted_cycles": "predicted cycles",
    "predicted_instructions": "predicted instructions",
}
"""The columns that say how long an inference takes, with their units; the one that says most first."""
_KEPT_WORDS = 2000  # characters of a message


def name_of(combination: Combination) -> str:
    """The stem of the row's file: the same for equal combinations, in every run and on every machine."""
    words = "\0".join((combination.model, combination.board, combination.words))
    return hashlib.sha256(words.encode()).hexdigest()[:24]


def asked(combination: Combination) -> Row:
    """The columns that say what was asked."""
    options = combination.options
    return {
        "model": Path(combination.model).stem,
        "model_path": combination.model,
        "board": combination.board,
        "options": combination.words,
        "sram": options.get("sram"),
        "minimize": options.get("minimize"),
        "stream_input": options.get("stream-input", "no") == "yes",
    }


@dataclass(frozen=True)
class Rows:
    """The rows in the folder of a sweep."""

    folder: Path  # of the sweep

    @property
    def place(self) -> Path:
        """The folder of the files."""
        return self.folder / "rows"

    def path(self, combination: Combination) -> Path:
        """The file of a combination's row."""
        return self.place / f"{name_of(combination)}.parquet"

    def write(self, combination: Combination, row: Row) -> None:
        """Writes the row in place of an earlier one; a reader sees the old file or the new one. Raises OSError."""
        whole = {**dict.fromkeys(SCHEMA.names), **row}
        whole["message"] = None if whole["message"] is None else whole["message"][:_KEPT_WORDS]
        table = pa.Table.from_pylist([whole], schema=SCHEMA)
        held = io.BytesIO()
        pq.write_table(table, held, **_SMALL)
        write(self.path(combination), held.getvalue(), synced=True)

    def read(self, combination: Combination) -> Row | None:
        """The row of a combination; None where there is none, or one of another version. Damaged raises ValueError."""
        path = self.path(combination)
        return _read(path) if path.is_file() else None

    def all(self) -> tuple[list[Row], list[Path]]:
        """All rows in the order of models, boards and options, and the files that cannot be read."""
        found: list[Row] = []
        damaged: list[Path] = []
        for path in sorted(self.place.glob("*.parquet")):
            try:
                row = _read(path)
            except ValueError:
                damaged.append(path)
            else:
                found += [row] if row is not None else []
        return sorted(found, key=lambda row: (row["model"], row["board"], row["options"], row["model_path"])), damaged

    def forget_parts(self) -> None:
        """Removes what writers left that were killed."""
        for path in self.place.glob(".*.part"):
            path.unlink(missing_ok=True)


def _read(path: Path) -> Row | None:
    """A row from its file; None where it has other columns. ValueError where it is no whole Parquet file of one row."""
    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from error
    if table.schema.names != SCHEMA.names or not table.schema.equals(SCHEMA):
        return None
    if table.num_rows != 1:
        raise ValueError(f"{table.num_rows} rows")
    row: Row = table.to_pylist()[0]
    return row


def time_of(row: Mapping[str, Any]) -> tuple[float | None, str]:
    """How long an inference takes by the best column of TIMES that the row has, and its unit."""
    for name, unit in TIMES.items():
        if row[name] is not None:
            return row[name], unit or str(row["time_unit"])
    return None, ""
