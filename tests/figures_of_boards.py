"""Tables of figures of boards: what is known and estimated of each, and what is said of manifests that are wrong."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import fields
from typing import Any

import pydantic

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.estimate import flash
from shoehorn_mcu.estimate.hot_weights import byte_waits
from shoehorn_mcu.estimate.ram import ram
from shoehorn_mcu.machine import families
from shoehorn_mcu.machine.memories import named, of_board
from shoehorn_mcu.machine.targets import CPUS, Board, boards
from shoehorn_mcu_host.base.manifest import Manifest, faults

Row = Mapping[str, float]
_APART = ("emulator", "platformio", "proof", "run_current", "verified")  # parts that tell nothing of start-up


def _sum(*texts: object) -> int:
    return zlib.crc32(repr(texts).encode())


def of_boards() -> dict[str, Row]:
    """By board: its limits, its memories, and the parts of RAM and flash that a firmware takes."""
    found: dict[str, Row] = {}
    for each in boards():
        taken = ram(1001, 7, 300, each.spec.cores, each, 50)
        found[each.id] = {
            "arena": each.arena_limit_bytes,
            "arena, two cores": each.arena_limit(2),
            "memories": _sum(of_board(each, 1)),
            "waits": float(f"{byte_waits(each):.8g}"),
            "isa": _sum(each.isa.value),
            "application": flash.application_bytes(each.spec.cpu),
            "without rows": flash.application_bytes(each.spec.cpu, False),
            "a plan": float(f"{flash.plan_bytes(7, 31, each.spec.cpu):.8g}"),
            **({} if taken is None else {"RAM": taken.bytes, "its parts": _sum(vars(taken))}),
            "named": _sum([_named(each, sizes) for sizes in _SIZES]),
        }
    return found


_SIZES: tuple[Mapping[str, int], ...] = (
    {"sram": 1000},
    {"sram": 1 << 30, "ram": 5},
    {"ram": 7000, "dtcm": 3000},
    {"itcm": 1},
    {"Ram": 5},
    {"sram2": 9, "sram": 10},
)


def _named(board: Board, sizes: Mapping[str, int]) -> str:
    """The memories for `--sram` with these sizes, with a board and without one."""
    told = []
    for place in (board, None):
        try:
            told.append(repr(named(sizes, place, 1)))
        except ShoehornError as refusal:
            told.append(str(refusal))
    return "; ".join(told)


def cores() -> dict[str, Row]:
    """By core: its instruction sets and facts."""
    return {
        name: {field.name: _sum(_plain(getattr(cpu, field.name))) for field in fields(cpu)}
        for name, cpu in CPUS.items()
    }


def _plain(value: Any) -> object:
    if isinstance(value, Mapping):
        return sorted((str(key), str(each)) for key, each in value.items())
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else value


def manifests() -> dict[str, Row]:
    """By family and key of a manifest: the refusals of manifests with another value of that key, or without the key."""
    found: dict[str, dict[str, float]] = {}
    chosen = {each.spec.family: each for each in reversed(boards())}
    for family, each in sorted(chosen.items()):
        given = json.loads(each.path.read_text())
        row = found[family] = {"as it is": _sum(_said(given))}
        for place in _places(given):
            said = [_said(changed) for changed in _changed(given, place)]
            row[".".join(map(str, place))] = _sum(said)
    return found


def _places(given: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the values of the parts `build` and `shoehorn` are."""
    items = given.items() if isinstance(given, dict) else enumerate(given)
    for key, value in items:
        if (not place and key not in ("build", "shoehorn")) or key in _APART:
            continue
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*place, key))


def _changed(given: Any, place: tuple[str | int, ...]) -> Iterator[Any]:
    """The manifest without a value, and with others in its place: numbers, also in hexadecimal, or words."""
    for other in _others(_at(given, place)):
        made = deepcopy(given)
        inner = _at(made, place[:-1])
        if other is None:
            del inner[place[-1]]
        else:
            inner[place[-1]] = other
        yield made


def _at(given: Any, place: tuple[str | int, ...]) -> Any:
    for key in place:
        given = given[key]
    return given


def _others(value: Any) -> Iterator[Any]:
    yield None
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value, 0, 1 << 20)
    elif isinstance(value, str) and value.lower().startswith("0x"):
        number = int(value, 16)
        yield from (hex(each) for each in (number + 1, number + 1024, max(0, number - 4), 2 * number))
    elif isinstance(value, str):
        yield from (f"{value}x", "cortex-m4f", "stm32f4")


def _said(manifest: Any) -> object:
    try:
        made = Manifest.model_validate(manifest)
    except pydantic.ValidationError as error:
        return faults(error)
    return list(families.faults(made))
