"""`gen doctor`: the programs, packages and rights that Shoehorn uses, and how to get those that are missing."""

from __future__ import annotations

from collections.abc import Sequence

import click

from shoehorn_mcu.cli.console import emit_json, json_option, out, print_table
from shoehorn_mcu_host.doctor import Check, checks


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Says which programs, packages and rights that Shoehorn uses are there, what each is for, and how to get the
    missing ones.

    Needs neither a network nor rights. Exits with 1 if something is missing that no command can do without.
    """
    found = list(checks())
    if as_json:
        emit_json({"checks": [vars(check) for check in found]})
    else:
        _print(found)
    if any(check.needed and not check.ok for check in found):
        ctx.exit(1)


def _state(check: Check) -> str:
    return "ok" if check.ok else "MISSING" if check.needed else "no"


def _print(found: Sequence[Check]) -> None:
    """All checks as a table, then for each that failed how to mend it, what is needed first."""
    rows = [(check.name, _state(check), check.found, check.what_for) for check in found]
    print_table(("what", "here", "found", "what it is for"), rows, fold=3)
    failed = sorted((check for check in found if not check.ok), key=lambda check: not check.needed)
    for check in failed:
        out.say(f"{'needed' if check.needed else 'optional'}: {check.name}: {check.cure}")
    needed = sum(check.needed for check in failed)
    said = f"missing: {_things(needed)} that no command can do without" if needed else "all that is needed is here"
    out.print(f"{said}; missing for some commands: {_things(len(failed) - needed)}")


def _things(count: int) -> str:
    return "1 thing" if count == 1 else f"{count or 'no'} things"
