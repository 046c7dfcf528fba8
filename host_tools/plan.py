"""A written folder's plan.json as the host tools use it: the model's ends, the ops in trace order, the steps."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.host_tools.errors import HostError
from shoehorn_mcu.host_tools.project import Project

Array = NDArray[np.generic]


@dataclass(frozen=True)
class End:
    """An input or output of the model."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    bytes: int


@dataclass(frozen=True)
class PlannedOp:
    """An op that has steps; its place in `Plan.ops` is its number in traces."""

    name: str
    kernel: str
    output: str


@dataclass(frozen=True)
class Plan:
    """What a board was told to do. `steps` are (place in ops, first row, row behind the last) of all computing ones."""

    model: str
    identity: str  # 16 hexadecimal digits
    inputs: tuple[End, ...]
    outputs: tuple[End, ...]
    ops: tuple[PlannedOp, ...]
    steps: tuple[tuple[int, int, int], ...]
    row_bytes: Mapping[str, int]  # of each tensor that has a placement
    streamed: bool = False  # whether the one input goes to the board row by row

    @property
    def streamed_row_bytes(self) -> int:
        """The size of a streamed input's rows, else 0."""
        return self.row_bytes[self.inputs[0].name] if self.streamed else 0

    @classmethod
    def of(cls, project: Project) -> Plan:
        """The plan of a written folder; HostError where it is not what this tool knows."""
        plan = project.plan
        try:
            return cls(
                plan["model"],
                plan["identity"],
                tuple(map(_end, plan["inputs"])),
                tuple(map(_end, plan["outputs"])),
                tuple(PlannedOp(op["name"], op["kernel"], op["output"]) for op in plan["ops"]),
                tuple(
                    (int(step["op"]), int(step["rows"][0]), int(step["rows"][1]))
                    for step in plan["steps"]
                    if "op" in step
                ),
                {placed["tensor"]: int(placed["row_bytes"]) for placed in plan["placements"]},
                any("input" in step for step in plan["steps"]),
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            what = f"{type(error).__name__}: {error}"
            raise HostError(f"{project.folder}: plan.json is damaged ({what}); write the folder again") from error

    def op_crcs(self, tensors: Mapping[str, Array]) -> list[int]:
        """CRC-32 of every op as a board chains it over its steps, for these whole tensors by name."""
        crcs = [0] * len(self.ops)
        for op, first, end in self.steps:
            name = self.ops[op].output
            size = self.row_bytes[name]
            crcs[op] = zlib.crc32(tensors[name].tobytes()[first * size : end * size], crcs[op])
        return crcs


def _end(end: Mapping[str, Any]) -> End:
    return End(end["name"], tuple(end["shape"]), np.dtype(end["dtype"]), int(end["bytes"]))
