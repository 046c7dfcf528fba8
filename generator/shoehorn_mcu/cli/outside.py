"""How `gen validate` takes and prints comparisons with outputs that Shoehorn did not compute."""

from __future__ import annotations

import re

import click

from shoehorn_mcu.cli.console import figure, out, print_table
from shoehorn_mcu_host.base.errors import printable
from shoehorn_mcu_host.validate.comparison import Compared, Comparison, Tolerance

_HEAD = (
    "output",
    "values",
    "largest difference",
    "of the largest",
    "noise, dB",
    "0 steps",
    "1",
    "2",
    "3",
    "4+",
    "same top-1",
)


def allowed(_context: click.Context, _option: click.Parameter, value: str | None) -> Tolerance | None:
    """A largest difference: a number of steps, 1, or a percentage of an output's largest value, 0.1%."""
    if value is None:
        return None
    if re.fullmatch(r"\d{1,9}", value):
        return Tolerance(steps=int(value))
    if re.fullmatch(r"\d{1,3}(\.\d{1,9})?%", value):
        return Tolerance(relative=float(value[:-1]) / 100)
    raise click.BadParameter(f"'{value}' is neither a number of steps, such as 1, nor a percentage, such as 0.1%")


def print_comparison(found: Comparison) -> None:
    """A table of the outputs, and what follows from it."""
    print_table(
        _HEAD, [_cells(each, found.vectors) for each in found.outputs], title=_title(found), right=tuple(range(1, 11))
    )
    if found.left:
        out.say(f"not compared, because it is none of its outputs: {', '.join(map(printable, found.left))}")
    out.say(_verdict(found))


def _title(found: Comparison) -> str:
    return f"beside {found.title}" + ("" if found.with_what == "expected" else f", of {found.file}")


def _cells(each: Compared, vectors: int) -> tuple[str, ...]:
    bars = [f"{count:,}" for count in each.histogram] if each.histogram is not None else [""] * 5
    top = "" if each.same_top1 is None else f"{each.same_top1} of {vectors}"
    apart = f"{each.largest:.4g}", f"{each.relative:.2g}", figure(each.decibels, ".1f")
    return printable(each.name), f"{each.values:,}", *apart, *bars, top


def _verdict(found: Comparison) -> str:
    """One line: equal, within what is allowed, or not, and what to do then."""
    if all(each.largest == 0 and not each.unlike for each in found.outputs):
        return "every value equal"
    if not found.tolerance.judges:
        if found.with_what == "expected":
            return "shown, not judged: a quantised model is not equal to real values; --tolerance says what is enough"
        return "shown, not judged: such kernels round in other places (docs/why-numbers-differ.md)"
    far = [each for each in found.outputs if not each.within]
    note = f"; {found.note}" if found.note else ""
    if not far:
        return f"no output further away than {found.tolerance.words(found.outputs)}{note}"
    names = ", ".join(printable(each.name) for each in far)
    cure = "" if found.with_what == "expected" else ": the import may be wrong, please report it with the model"
    return f"{names} further away than {found.tolerance.words(far)}{note}{cure}"
