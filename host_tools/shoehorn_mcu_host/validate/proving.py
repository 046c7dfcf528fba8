"""Makes the report of `gen validate --report`."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
from pathlib import Path

from shoehorn_mcu_host.base.emulators import EMULATORS, Counts, Level
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.base.proof import Proof
from shoehorn_mcu_host.board import session
from shoehorn_mcu_host.board.bench import read_sizes
from shoehorn_mcu_host.board.link import Link
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.folder.vectors import Vector
from shoehorn_mcu_host.validate.validate import Validation


def require_provable(port: str | None, emulated: bool) -> None:
    """HostError where a report could not say what was proven: a URL may lead to anything."""
    if not emulated and port is not None and "://" in port:
        raise HostError(f"--report: {port} may lead to an emulator; give the board's serial port, or --emulate")


def prove(
    link: Link, project: Project, plan: Plan, vector: Vector, found: Validation, version: str, emulated: bool
) -> Proof:
    """The report of a validation of the built project, with the time of one more inference on the same link."""
    inputs, row = [array.tobytes() for array in vector], plan.streamed_row_bytes
    timed = link.infer(inputs, read_sizes(plan), row_bytes=row, handed_out=plan.handed_out)
    program = project.spec["emulator"]["program"] if emulated else ""
    unit = session.clock_unit(project, emulated)
    built = json.loads((project.folder / "report.json").read_text())["firmware"]
    return Proof(
        board=project.board_id,
        level=EMULATORS[program].proves if program else Level.HARDWARE,
        emulator=program,
        manifest_sha256=_sha256(project.folder / "boards" / f"{project.board_id}.json"),
        model=project.model_name,
        plan=link.hello.identity,
        image_sha256=_sha256(project.image),
        shoehorn=version,
        vectors=found.vectors,
        mismatched_vectors=found.mismatched_vectors,
        max_abs_diff=float(found.max_abs_diff),
        ram_bytes=built["ram_bytes"],
        stack_used_bytes=link.stack()[0],
        ticks=timed.ticks,
        tick_hz=link.hello.tick_hz,
        clock=session.clock_name(project, emulated),
        inference=float(unit.convert(timed.ticks, link.hello.tick_hz)),
        unit=Counts(unit.name),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        host=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    )


def write(path: Path, proof: Proof) -> None:
    """HostError where the file cannot be written."""
    try:
        path.write_text(proof.text())
    except OSError as error:
        raise HostError(f"{path}: cannot be written ({error.strerror})") from error


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise HostError(f"{path}: cannot be read ({error.strerror}); build the folder again") from error
