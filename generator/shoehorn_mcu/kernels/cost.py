"""Predicts instructions and cycles from work: the cost of each feature on each core.

`costs/` holds the costs that `python -m bench.costs --write` fitted to measurements in the emulator, one file per
core (named as in targets.CPUS): the instructions per unit of each feature of each kernel (by Instance.cost_key), and
per unit of each field of Calls. `cycles` has the same in estimated cycles, where there is a model of the core's timing.
`code_bytes` is the code size of each kernel on each core, in bytes (by Instance.code_key), and `shared_bytes` the sizes
of the functions that it has besides, of which a library needs one (SH_SHARED). `library_bytes` are those of functions
that come with the compiler or the board, such as memcpy and float32 arithmetic on a core without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from typing import Any

from shoehorn_mcu.kernels.base.contract import Instance

TABLES = Path(__file__).with_name("costs")

DEFAULT_CPU = "cortex-m4f"
"""The core whose costs are used if no board is named."""

# Cores that were not measured -> the most similar one that was. On an rv32imafc floats are faster than predicted.
_LIKE = {"host": "cortex-a53", "rv32imac": "rv32imc", "rv32imafc": "rv32imc"}

UNMEASURED_CODE_BYTES = 2048
"""Code bytes of a kernel not in the table. On a Cortex-M linear kernels have 500 to 5,500, others 60 to 1,500."""

Costs = Mapping[str, float]
"""Instructions or cycles by feature."""


class Unit(Enum):
    """What a prediction counts; the value is its name in the plural."""

    INSTRUCTIONS = "instructions"
    CYCLES = "cycles"


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Work around a kernel: steps, and the row pointers passed to it, by the way they are computed."""

    steps: float = 0
    pointers: float = 0
    slotted: float = 0  # of these, pointers to separately placed rows, read from a table
    guarded: float = 0  # of these, pointers to rows that may be padding, checked first

    def __add__(self, other: Calls) -> Calls:
        return Calls(**{name: count + getattr(other, name) for name, count in vars(self).items()})


@dataclass(frozen=True)
class CpuCosts:
    """One core's part of the table, in one unit."""

    calls: Costs  # by field of Calls
    traced_step: float  # what the trace adds to a measured step; for the bench only
    float32_off: float  # percent that a prediction of float32 kernels was off at most, where that is worth saying; or 0
    kernels: Mapping[str, Costs]  # by Instance.cost_key
    code_bytes: Mapping[str, int]  # by Instance.key
    shared_bytes: Mapping[str, Mapping[str, int]]  # by Instance.key: of functions that instances share, by name
    library_bytes: Mapping[str, Mapping[str, int]]  # by Instance.key: of the compiler's library and of memory.c

    @cached_property
    def unmeasured(self) -> Costs:
        """The costs of a portable kernel that is not in the table: for each feature the median over those that are."""
        names = {name for costs in self.kernels.values() for name in costs}
        return {n: median(c[n] for c in self.kernels.values() if n in c) for n in sorted(names)}


@cache
def _table() -> Mapping[str, Mapping[Unit, CpuCosts]]:
    """By core; in cycles only where they were measured."""
    return {path.stem: _costs(json.loads(path.read_text())) for path in sorted(TABLES.glob("*.json"))}


def _costs(part: Mapping[str, Any]) -> Mapping[Unit, CpuCosts]:
    sizes = part["code_bytes"], part.get("shared_bytes", {}), part.get("library_bytes", {})
    by_unit = {Unit.INSTRUCTIONS: part, Unit.CYCLES: part.get("cycles")}
    return {
        unit: CpuCosts(costs["calls"], costs["traced_step"], costs.get("float32_off", 0), costs["kernels"], *sizes)
        for unit, costs in by_unit.items()
        if costs
    }


def measured() -> tuple[str, ...]:
    """The cores that were measured."""
    return tuple(_table())


def basis(cpu: str) -> str:
    """The measured core whose costs are used for `cpu`."""
    name = _LIKE.get(cpu, cpu)
    return name if name in _table() else DEFAULT_CPU


def units(cpu: str) -> tuple[Unit, ...]:
    """The units in which everything on a core of targets.CPUS can be predicted.

    Cycles are one of them when they were measured for each kernel whose instructions were.
    """
    by_unit = _table()[basis(cpu)]
    known = by_unit[Unit.INSTRUCTIONS].kernels.keys()
    return tuple(unit for unit, costs in by_unit.items() if costs.kernels.keys() >= known)


def choice_unit(cpu: str) -> Unit:
    """The unit of time in which kernels and plans for a core are compared: cycles where they can be predicted."""
    return units(cpu)[-1]


def costs_of(cpu: str, unit: Unit = Unit.INSTRUCTIONS) -> CpuCosts:
    """The costs of a core of targets.CPUS in one of its units."""
    return _table()[basis(cpu)][unit]


def weigh(counts: Mapping[str, float], costs: Costs) -> float:
    """The predicted cost of these amounts of work, in the unit of the costs."""
    return sum(count * costs.get(name, 0.0) for name, count in counts.items())


def is_measured(kernel: Instance, cpu: str) -> bool:
    """Whether the kernel was measured on the core."""
    return kernel.cost_key in costs_of(cpu).kernels


def kernel_cost(kernel: Instance, work: Mapping[str, float], cpu: str, unit: Unit) -> float:
    """The predicted cost of one call; with the medians of other kernels if this one was not measured."""
    costs = costs_of(cpu, unit)
    return weigh(work, costs.kernels.get(kernel.cost_key) or costs.unmeasured)


def code_bytes(kernels: Iterable[Instance], cpu: str) -> int:
    """Code bytes of all these kernels, of equal instances and of functions that they share once.

    A kernel that was not measured counts as UNMEASURED_CODE_BYTES.
    """
    return sum({name: size for kernel in kernels for name, size in code_parts(kernel, cpu).items()}.values())


def code_parts(kernel: Instance, cpu: str) -> Mapping[str, int]:
    """Code bytes of an instance by name: its own, and those of the functions that it shares."""
    costs, key = costs_of(cpu), kernel.key
    own = costs.code_bytes.get(kernel.code_key, costs.code_bytes.get(key, UNMEASURED_CODE_BYTES))
    return {kernel.name: own, **costs.shared_bytes.get(key, {})}


def library_parts(kernel: Instance, cpu: str) -> Mapping[str, int]:
    """Code bytes of the functions that an instance calls beside its own, by name, with those that these call."""
    return costs_of(cpu).library_bytes.get(kernel.key, {})


def call_cost(calls: Calls, cpu: str, unit: Unit) -> float:
    """The predicted cost of the work around a kernel."""
    return weigh(vars(calls), costs_of(cpu, unit).calls)
