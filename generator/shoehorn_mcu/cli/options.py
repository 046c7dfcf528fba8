"""The options that several commands share, made of the table in `options.py`, and the groups of `--help`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.cli.console import Options, grouped, together
from shoehorn_mcu.firmware import option_text
from shoehorn_mcu.firmware.options import TABLE, Group, PlanOptions

_TARGET = ("board", "cpu", "flash_bytes")  # fields of which each command has its own


class Read(click.ParamType):  # type: ignore[type-arg]  # its argument is new in click 8.4
    """A value that a function reads from text; its ValueError is a wrong usage."""

    name = "text"

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _by_name(_context: click.Context, _option: click.Parameter, pairs: tuple[tuple[str, object], ...]) -> object:
    """Repeated pairs as a dictionary."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice")
        found[name] = value
    return found


def table_option(name: str, **more: Any) -> Options:
    """The option of a field of PlanOptions."""
    row, default = TABLE[name]
    kind: dict[str, Any] = {"type": str} | ({"default": default} if default else {})  # click takes None for a default
    if row.read is not None:
        kind["type"] = Read(row.read)
    elif row.choices:
        kind["type"] = click.Choice(row.choices)
    elif isinstance(default, bool) or name == "behind":
        kind = {"is_flag": True}
    elif row.least is not None:
        kind = {"type": click.IntRange(row.least, row.most), "default": default}
    if row.repeated:
        kind |= {"multiple": True, "default": ()}
    if isinstance(default, dict):
        kind["callback"] = _by_name
    shown = {"metavar": row.metavar, "show_default": row.shown, "help": row.words}
    return grouped(row.group, row.name, name, **{**kind, **shown, **more})


shape_option = table_option("shapes")


@dataclass(frozen=True)
class Planning:
    """The options of a command that plans, and whether a second model makes a pipeline of the first one."""

    options: PlanOptions
    second: Path | None
    pipeline: bool

    def of_one(self) -> PlanOptions:
        """The options of one model, or of a pipeline that becomes one; UsageError where they contradict each other."""
        chosen = self.options
        if self.pipeline and self.second is None:
            raise click.UsageError("--pipeline takes two models: FRONT.tflite WAKE.tflite --pipeline")
        if chosen.slower_percent is not None and chosen.minimize == "sram":
            raise click.UsageError("--slower bounds the time of the smallest plan; leave --minimize sram out")
        if self.second is not None and not self.pipeline:
            cure = "gen firmware takes several models"
            raise click.UsageError(f"'{self.second}' is a second model, which --pipeline is for; {cure}")
        if not self.pipeline and chosen.slide is None and (chosen.stride or chosen.slices):
            raise click.UsageError("--stride and --slices belong to --pipeline, or to --slide")
        return replace(chosen, behind=self.second)

    def of_each(self) -> PlanOptions:
        """The options of each of several models."""
        return replace(self, second=None).of_one()


def planning_options(*targets: str, required: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of a command that plans; the command receives them as `planning`, a Planning.

    `targets`: the fields of PlanOptions that say for what it plans, and that each command has others of; `required`:
    whether they must be given.
    """
    taken = [name for name in TABLE if name not in _TARGET or name in targets]

    def put(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*args: object, second: Path | None, **values: Any) -> None:
            given = {name: value for name in taken if (value := values.pop(name)) is not None}
            pipeline = given.pop("behind")
            if "stride" in given:
                try:
                    given["stride"] = option_text.samples(given["stride"], given["sample_hz"])
                except ValueError as error:
                    raise click.UsageError(str(error)) from error
            command(*args, planning=Planning(PlanOptions(**given), second, pipeline), **values)

        second = click.argument("second", type=click.Path(path_type=Path), required=False, metavar="[MODEL2]")
        return together(second, *(table_option(name, required=required and name in targets) for name in taken))(run)

    return put


writing_options = together(
    grouped(
        Group.MEMORY,
        "--caller-arena",
        is_flag=True,
        help="Let the program own the arena and pass it to <model>_init, so that several models can share one.",
    ),
    grouped(Group.OUTPUT, "--force", is_flag=True, help="Replace files that were changed since Shoehorn wrote them."),
)
"""The options of the commands that write a library."""
