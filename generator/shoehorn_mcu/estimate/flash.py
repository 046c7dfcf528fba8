"""Estimated flash of a firmware before it is built: constants, kernels, the plan's code and tables, the application.

The sizes of kernels are those of `kernels/costs/`. `flash.json` has the other figures of some cores, measured on
real builds by `python -m bench.flash --write`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shoehorn_mcu.emit.model.states import first_bytes
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.kernels import Instance, cost
from shoehorn_mcu.schedule.stage import Stage

DATA = Path(__file__).with_name("flash.json")
# Estimates were off by up to 2.0 KB (`python -m bench.flash` prints it). Only a firmware that exceeds the flash
# by more than this is refused before the build; the linker decides about the others.
ERROR_BYTES = 2048
_OTHERS = "cortex-m4f"  # the figures for cores that were not measured
_MEMBER_BYTES = 4  # of a struct of parameters: an integer, a float or a pointer
_WIDE = 1 << 18  # arenas of this size or more need 32 bits per address in a table of rows: 2^16 slots of 4 bytes


COUNTED = ("ops", "steps", "states", "scattered", "ragged", "taps")
"""The features that the code of a plan grows with."""


@dataclass(frozen=True)
class Features:
    """The features of a model and its plan that determine the size of its code."""

    kernels: tuple[Instance, ...]  # each once
    ops: int
    steps: int
    table_bytes: int  # parameters of the ops, addresses of rows that are not contiguous, first values of states
    states: int = 0
    scattered: int = 0  # operands whose rows each have an address of their own
    ragged: int = 0  # operands of which not every row of the output needs equally many rows
    taps: int = 0  # rows beyond the first that a row of the output needs of its operands, summed over ops
    streamed: bool = False


@dataclass(frozen=True)
class Flash:
    """Bytes of flash; the code is estimated."""

    constant_bytes: int
    code_bytes: int

    @property
    def bytes(self) -> int:
        return self.constant_bytes + self.code_bytes

    def surely_exceeds(self, limit_bytes: int) -> bool:
        """Whether it is over the limit by more than the estimate's error."""
        return self.bytes - ERROR_BYTES > limit_bytes

    def may_exceed(self, limit_bytes: int) -> bool:
        """Whether it is over the limit, or below it by less than the estimate's error."""
        return self.bytes + ERROR_BYTES > limit_bytes


def features(unit: Unit) -> Features:
    """The features of a planned model."""
    tables = {}
    for placed in (p for p in unit.plan.placements if p.slots):
        counted = unit.plan.total_bytes if placed.memories else unit.plan.arenas[placed.memory]
        tables[unit.plan.table(placed)] = 4 if counted > _WIDE else 2
    table_bytes = sum(entry * len(table) for table, entry in tables.items())
    apart = {placement.tensor for placement in unit.plan.placements if placement.slots}
    reads = [(name, [len(each) for each in rows]) for stage in unit.stepped for name, rows in stage.reads]
    return Features(
        _kernels(unit.stepped),
        len(unit.stepped),
        len(unit.plan.steps),
        table_bytes + _struct_bytes(unit.stepped) + first_bytes(unit),
        len(unit.graph.states),
        scattered=sum(name in apart for name, _ in reads) + sum(s.node.output.name in apart for s in unit.stepped),
        ragged=sum(len(set(counts)) > 1 for _, counts in reads),
        taps=sum(max(0, max(counts, default=0) - 1) for _, counts in reads),
        streamed=unit.plan.streamed,
    )


def least(stages: Sequence[Stage]) -> Features:
    """The features of an unplanned model: those of whole tensors, the plan with the least code."""
    return Features(_kernels(stages), len(stages), len(stages), _struct_bytes(stages))


def _struct_bytes(stages: Iterable[Stage]) -> int:
    """Bytes of the parameters that the kernels get."""
    return sum(_MEMBER_BYTES * stage.struct_size.members for stage in stages)


def _kernels(stages: Iterable[Stage]) -> tuple[Instance, ...]:
    """The distinct kernel instances; equal ones share their code."""
    return tuple({stage.kernel.name: stage.kernel for stage in stages}.values())


@cache
def _measured() -> Mapping[str, Mapping[str, Any]]:
    figures: Mapping[str, Mapping[str, Any]] = json.loads(DATA.read_text())
    return figures


def application_bytes(cpu: str, streamed: bool = True) -> int:
    """Flash of everything but the library: the application, start-up and drivers."""
    figures = _figures(cpu)
    return int(figures["application"] - (0 if streamed else figures["streaming"]))


def _figures(cpu: str) -> Mapping[str, Any]:
    table = _measured()
    return table.get(cost.basis(cpu), table[_OTHERS])


def plan_bytes(ops: int, steps: int, cpu: str) -> float:
    """Estimated flash of the functions of the ops and the table of the steps, before the plan is made."""
    figures = _figures(cpu)
    return float(figures["plan"] + figures["op"] * ops + figures["step"] * steps)


def planned_bytes(known: Features, cpu: str) -> float:
    """The same of a plan, whose tables it counts."""
    figures = _figures(cpu)["planned"]
    return float(figures["plan"] + known.table_bytes + sum(figures[name] * getattr(known, name) for name in COUNTED))


def code_bytes(known: Features, cpu: str, application: bool = True) -> int:
    """Estimated flash of everything but the constants; without `application`, of the library alone.

    `cpu` is a key of targets.CPUS.
    """
    return code_of_several([known], cpu, application)


def code_of_several(known: Sequence[Features], cpu: str, application: bool = True) -> int:
    """The same for several models in one firmware, which share their kernels."""
    kernels = tuple({kernel.name: kernel for each in known for kernel in each.kernels}.values())
    code = cost.code_bytes(kernels, cpu) + library_bytes(kernels, cpu)
    plans = sum(planned_bytes(each, cpu) for each in known)
    streamed = any(each.streamed for each in known)
    return round(code + plans + (application_bytes(cpu, streamed) if application else 0))


def library_bytes(kernels: Iterable[Instance], cpu: str) -> int:
    """Flash of the functions that kernels call and that come with the compiler or the board, each once.

    Those that every application has anyway are part of application_bytes.
    """
    parts = {name: size for kernel in kernels for name, size in cost.library_parts(kernel, cpu).items()}
    return sum(size for name, size in parts.items() if name not in _figures(cpu)["own"])
