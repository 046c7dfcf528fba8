"""A connection to the board of a project: over a serial port, or to the emulator, which is started and ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shoehorn_mcu_host.base.emulators import EMULATORS
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.base.manifest import MLPERF_BAUD
from shoehorn_mcu_host.board.bench import MICROSECONDS, Unit, unit_of
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Timing
from shoehorn_mcu_host.board.ports import BAUD, Port, find
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project


def is_emulated(project: Project, port: str | None, emulated: bool) -> bool:
    """Whether to use the emulator: on request, or without a port for a board that exists as an emulator only."""
    return emulated or (port is None and project.spec["flash_tool"] == "emulator")


def clock_unit(project: Project, emulated: bool) -> Unit:
    """What the clock counts: in an emulator instructions or cycles; `native` and real boards measure time."""
    return unit_of(project.spec["emulator"], project.spec) if emulated and project.spec["emulator"] else MICROSECONDS


def clock_name(project: Project, emulated: bool) -> str:
    """The clock of `clock_unit`: the board's timer, or an emulator that has none."""
    program: str = project.spec["emulator"]["program"] if emulated else ""
    name: str = project.spec["clock_name"]
    return program if program and EMULATORS[program].ticks_are_counts else name


@contextmanager
def connected(
    project: Project, plan: Plan, port: str | None, emulated: bool, counted: bool, arguments: Sequence[str] = ()
) -> Iterator[Link]:
    """The board in frame mode; with `emulated`, its built image in the emulator.

    `counted`: the emulator's clock counts. `arguments` are further ones for QEMU, such as those of a
    meter. The project's model is selected; the time limit follows from its plan's predicted work. Raises HostError.
    """
    timing = _limits(project, plan)
    if not emulated:
        baud = MLPERF_BAUD if project.report.energy_mode == "mlperf" else BAUD
        with Link(Port(find(port), baud), timing) as link:
            link.select(project.number)
            yield link
        return
    _require_cores(project, plan.cores)
    with emulate(project, counted, arguments) as machine:
        try:
            with Link(Port(machine.url), timing) as link:
                link.select(project.number)
                yield link
        except HostError as error:
            raise HostError(machine.fault() or str(error)) from error


def _require_cores(project: Project, cores: int) -> None:
    """Raises HostError where the board's emulator lacks cores that a plan uses: the firmware would wait for them."""
    emulator = project.spec["emulator"]
    if emulator and cores > 1 and not EMULATORS[emulator["program"]].has_all_cores:
        said = f"{emulator['program']} has one of its cores, and layers are divided among {cores}"
        cure = "give --port with the board's serial port, or write the firmware without --cores"
        raise HostError(f"{project.board_id}: {said}; {cure}")


def turn(link: Link, project: Project, plan: Plan) -> Link:
    """The link, over which another model of the same firmware is selected. Raises HostError."""
    link.select(project.number, _limits(project, plan))
    return link


def _limits(project: Project, plan: Plan) -> Timing:
    figures = project.report.plan
    return Timing.for_work(max(figures.predicted_instructions, 20 * figures.macs), plan.traced_bytes)
