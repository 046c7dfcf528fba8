"""Runs images on one board, one after the other, and times their ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shoehorn_mcu_host.board import session
from shoehorn_mcu_host.board.bench import Number, time_ops
from shoehorn_mcu_host.board.cycles import metered, refusal
from shoehorn_mcu_host.firmware.build import ensure_built
from shoehorn_mcu_host.firmware.flash import flash
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project

CYCLES = "cycles"


@dataclass(frozen=True)
class Place:
    """Where the board is. `mount` is for boards that are flashed as a drive; it and `port` are found where None."""

    emulated: bool
    port: str | None = None
    mount: str | None = None

    @property
    def transport(self) -> str:
        return "emulator" if self.emulated else "serial"


def unit_of(project: Project, place: Place) -> str:
    """The unit of `times` for images of this project's board: cycles where they can be estimated."""
    if refusal(project, place.emulated) is None:
        return CYCLES
    return session.clock_unit(project, place.emulated).name


def times(project: Project, place: Place, runs: int, flashed: Callable[[Project], None]) -> Mapping[str, Number]:
    """Builds an image, flashes or boots it, and returns the median time of each op by name, in `unit_of`.

    `flashed` is called after flashing, before the port is opened. HostError where a step fails.
    """
    ensure_built(project)
    if not place.emulated:
        flash(project, None, place.mount, False)
        flashed(project)
    plan = Plan.of(project)
    unit = session.clock_unit(project, place.emulated)
    with (
        metered(project, place.emulated) as meter,
        session.connected(project, plan, place.port, place.emulated, True, meter.arguments) as link,
    ):
        return time_ops(link, plan, unit, runs, meter)
