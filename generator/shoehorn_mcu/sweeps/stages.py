"""What is done for a combination: plan, write, build, validate, time; each once for all that share it.

Combinations that ask the planner for the same thing are one task (`Task`), which writes their rows. Plans that become
the same files share the build and all that comes after it, by the hash of these files, also between tasks and runs.
A combination that cannot be done is a row with the reason.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shoehorn_mcu import api
from shoehorn_mcu.base.errors import MemoryTooSmall, ShoehornError, first_line, printable
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.page import page
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.options import resolved
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.sweeps.axes import FINAL, Combination, Stage, Status
from shoehorn_mcu.sweeps.fault import SweepError
from shoehorn_mcu.sweeps.identity import Tools, emulator_of, identity, sha256_of
from shoehorn_mcu.sweeps.rows import Row, Rows, asked
from shoehorn_mcu.sweeps.store import Store
from shoehorn_mcu_host.base import system
from shoehorn_mcu_host.firmware.build import build as compiled
from shoehorn_mcu_host.firmware.flash import flash
from shoehorn_mcu_host.folder.project import Project

_PASSING = {"host", "link", "no-board"}
"""Kinds of errors that say something of this machine or its boards, not of the model."""


@dataclass(frozen=True)
class Task:
    """Combinations that ask the planner for the same thing, and how far they go."""

    folder: str  # of the sweep
    combinations: tuple[Combination, ...]
    until: Stage
    vectors: int
    runs: int

    @property
    def first(self) -> Combination:
        return self.combinations[0]


@dataclass(frozen=True)
class Attached:
    """A real board at a worker's machine."""

    port: str  # its serial port or URL
    probe: str | None = None  # the id of its debug probe, where there are several
    mount: str | None = None  # where its drive is mounted


Bench = Mapping[str, Attached]
"""The real boards of a worker by their ids."""


def perform(task: Task, boards: Bench = MappingProxyType({}), worker: str = "") -> list[str]:
    """Computes what the task's combinations lack and writes their rows; the status of each, in order.

    Raises OSError where the folder cannot be written.
    """
    before = system.cpu_seconds()
    rows, store = Rows(Path(task.folder)), Store(Path(task.folder))
    common: Row = {"until": task.until.word, "worker": worker or platform.node()}
    try:
        common |= _computed(task, store, boards)
    except ShoehornError as error:
        common |= _refusal(error)
    except OSError:
        raise  # the folder, not the combination
    except Exception as error:  # a defect of ours must not end a sweep of a thousand combinations
        told = f"{type(error).__name__}: {printable(first_line(error))}"
        common |= {"status": Status.FAILED, "kind": "defect", "message": f"please report this: {told}"}
    common["cpu_seconds"] = round(system.cpu_seconds() - before, 3)
    common["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
    said: list[str] = []
    for number, combination in enumerate(task.combinations):
        row = {**common, **asked(combination), **_hashes(task, combination)}
        if number:
            row |= {"plan_shared": True, "proof_shared": True}
            row |= {name: 0.0 for name in row if name.endswith("_seconds")}
        rows.write(combination, row)
        said.append(row["status"])
    return said


def _hashes(task: Task, combination: Combination) -> Row:
    """The columns that say of what the row is."""
    tools = Tools.here()
    found: Row = {"shoehorn": tools.shoehorn, "compiler": tools.compiler}
    try:
        board = targets.board(combination.board)
        found["model_sha256"] = sha256_of(combination.model)
        found["inputs"] = identity(combination, board, task.until.word, task.vectors, task.runs).inputs
    except (OSError, ShoehornError):
        found["inputs"] = None  # the file may be there in the next run
    return found


def _refusal(error: ShoehornError) -> Row:
    status = Status.FAILED if error.kind in _PASSING else Status.REFUSED
    found: Row = {"status": status, "kind": error.kind, "message": printable(str(error))}
    if isinstance(error, MemoryTooSmall):
        found |= {
            "cures": "; ".join(error.cures),
            "needed_bytes": error.needed_bytes,
            "available_bytes": error.available_bytes,
        }
    return found


def _computed(task: Task, store: Store, boards: Bench) -> Row:
    """The columns that all combinations of the task have in common."""
    board, options = resolved(task.first.plan_options)
    assert board is not None
    try:
        key = identity(task.first, board, "", 0, 0).plan
    except OSError as error:
        raise SweepError(f"{task.first.model}: cannot be read: {error.strerror}") from error
    goes_on = task.until > Stage.FIRMWARE
    key += "-plan" if task.until is Stage.PLAN else ""
    with store.alone(key):
        known = store.known("plans", key)
        if known is not None:
            found: Row = {**known, "plan_shared": True, "plan_seconds": 0.0}
            if found["status"] == Status.REFUSED or not goes_on:
                return found
            proof = store.known("proofs", _proof_key(task, board, found["folder_sha256"], boards))
            if proof is not None:
                return {**found, **proof, "proof_shared": True}
        began = time.monotonic()
        planned, files, found = _planned(task, board, options, store, key)
        found["plan_seconds"] = round(time.monotonic() - began, 3)
        store.keep("plans", key, {name: value for name, value in found.items() if name != "plan_seconds"})
    if not goes_on or planned is None or files is None:
        return found
    digest = found["folder_sha256"]
    with store.alone(digest):
        kept = _proof_key(task, board, digest, boards)
        proof = store.known("proofs", kept)
        if proof is not None:
            return {**found, **proof, "proof_shared": True}
        with store.scratch() as folder:
            bundle.write(files, folder)
            proof, seconds = _proved(task, board, folder, boards)
        if proof["status"] in FINAL:
            store.keep("proofs", kept, proof)
        return {**found, **proof, **seconds}


def _proof_key(task: Task, board: Board, digest: str, boards: Bench) -> str:
    """What a real board has proven is not taken for what its emulator would, nor the other way round."""
    emulated = None if board.id in boards else board.spec.emulator
    emulator = emulator_of(emulated.program) if emulated else "board"
    words = f"{digest[:40]}-{task.until.word}-{task.vectors}-{task.runs}-{emulator}"
    return "".join(sign if sign.isalnum() or sign in "-." else "_" for sign in words)


def _planned(
    task: Task, board: Board, options: Options, store: Store, key: str
) -> tuple[build.Planned | None, bundle.Bundle | None, Row]:
    """The plan, the folder's files from the stage FIRMWARE on, and the columns; a refusal has columns alone."""
    model = Path(task.first.model)
    try:
        if task.until is Stage.PLAN:
            planned, files, digest = build.plan_model(model, board, options), None, None
            text = page(planned.unit, planned.report)
        else:
            planned, files = build.firmware(model, board, options)
            text, digest = files["plan.html"].decode(), bundle.digest(_described(files))
    except ShoehornError as error:
        refused = _refusal(error)
        if refused["status"] != Status.REFUSED:
            raise
        return None, None, refused
    status, place = Stage(min(task.until, Stage.FIRMWARE)).reached, store.page(digest or key, text)
    return planned, files, {**_figures(planned.report), "folder_sha256": digest, "status": status, "page": place}


def _described(files: bundle.Bundle) -> bundle.Bundle:
    """The files that decide what the firmware is: not those that tell how its plan was found."""
    return {path: data for path, data in files.items() if path not in ("report.json", "plan.html", bundle.MANIFEST)}


def _figures(report: Mapping[str, Any]) -> Row:
    plan, needed, ram = report["plan"], report["flash"], report["ram"]
    return {
        "macs": report["model"]["macs"],
        "arena_bytes": sum(each["arena_bytes"] for each in plan["memories"])
        if "memories" in plan
        else plan["arena_bytes"],
        "arena_bound_bytes": plan["arena_bound_bytes"],
        "proven_optimal": plan["proven_optimal"],
        "constant_bytes": needed["constant_bytes"],
        "recomputed_macs": plan["recomputed_macs"],
        "predicted_instructions": plan["predicted_instructions"],
        "predicted_cycles": plan["predicted_cycles"],
        "predicted_flash_bytes": needed["constant_bytes"] + needed["code_bytes"],
        "predicted_ram_bytes": ram["predicted_bytes"] if ram else None,
    }


def _proved(task: Task, board: Board, folder: Path, boards: Bench) -> tuple[Row, Row]:
    """The columns of the stages from BUILD on, and their seconds."""
    seconds: Row = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            return work()
        finally:
            seconds[f"{stage}_seconds"] = round(time.monotonic() - began, 3)

    found: Row = {"status": Stage.BUILD.reached}
    attached = boards.get(board.id)
    emulate, port = attached is None, attached.port if attached else None
    try:
        built = timed("build", lambda: compiled(Project.open(folder)))
        found |= {"ram_bytes": built.ram_bytes, "flash_bytes": built.flash_bytes, "stack_bytes": built.stack_bytes}
        if task.until is Stage.BUILD:
            return found, seconds
        if emulate and board.spec.emulator is None:
            cure = "start a worker that has one (docs/sweeps.md)"
            why = {"kind": "no-board", "message": f"no worker has a {board.id}; {cure}"}
            return {**found, "status": Status.OPEN, **why}, seconds
        if attached is not None:
            timed("flash", lambda: flash(Project.open(folder), attached.probe, attached.mount, dry_run=False))
        checked = timed("validate", lambda: api.validate(folder, emulate=emulate, port=port, count=task.vectors))
        found |= {"vectors": checked.vectors, "mismatched_vectors": checked.mismatched_vectors}
        if emulate and board.spec.emulator is not None:
            found["emulator"] = emulator_of(board.spec.emulator.program)
        found["status"] = Status.MISMATCH if checked.mismatched_vectors else Stage.VALIDATE.reached
        if task.until is Stage.VALIDATE or checked.mismatched_vectors:
            return found, seconds
        timing = timed("bench", lambda: api.bench(folder, emulate=emulate, port=port, runs=task.runs))
        told = timing.json(board.id, "", "")
        cycles = told["cycles"]
        found |= {"time": float(told["total"]["median"]), "time_unit": told["unit"]}
        found |= {"cycles": None if cycles is None else float(cycles["median"]), "status": Stage.BENCH.reached}
        return found, seconds
    except ShoehornError as error:
        told = _refusal(error)
        told["message"] = told["message"].replace(f"{folder}: ", "").replace(str(folder), "the folder")
        return {**found, **told}, seconds
