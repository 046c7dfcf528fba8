"""docs/commands.md, the reference of every command, made from the code.

    python -m tests.docs_commands [--write]

Without --write it prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from shoehorn_mcu.cli.console import Grouped
from shoehorn_mcu.cli.group import main as group
from shoehorn_mcu.firmware.options import TABLE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
_HEAD = """# Commands

<!-- Made by `python -m tests.docs_commands --write` from the code; do not edit. -->

Every command takes `--help`. A size is a number of bytes, or has a unit: `64k`, `1M`.

| exit code | meaning |
|---:|---|
| 0 | success |
| 1 | a refusal in one line, or a mismatch found by `gen validate` |
| 2 | wrong usage |
| 130 | interrupted with Ctrl-C |

With `--json` a command prints one JSON object on stdout and nothing else there. An error is an object too:
`{"error": {"kind", "message", ...}}`, with exit code 1, or 2 for wrong usage. Progress, notes and the words of an
error go to stderr: one line, or on a terminal a line each for the need, the peak and the cures. An error of kind
`does-not-fit` has `needed_bytes`, `available_bytes`, and in words `need`, `peak` and `cures`. One of kind
`unsupported-model` has `diagnosis` and `causes`.
"""
_TAIL = """
## Shell completion

`gen` completes commands, options and choices. Add one line to your shell's start-up file:

| shell | file | line |
|---|---|---|
| bash 4.4 or later | `~/.bashrc` | `eval "$(_GEN_COMPLETE=bash_source gen)"` |
| zsh | `~/.zshrc` | `eval "$(_GEN_COMPLETE=zsh_source gen)"` |
| fish | `~/.config/fish/completions/gen.fish` | `_GEN_COMPLETE=fish_source gen \\| source` |
"""


def _cell(text: str) -> str:
    """Text within a table: on one line, and without the sign that parts columns."""
    return " ".join(text.split()).replace("|", "\\|")


def _option(option: click.Option) -> str:
    """A row of the table of options."""
    names = ", ".join(sorted(option.opts, key=len))
    if isinstance(option.type, click.Choice):
        value = "|".join(map(str, option.type.choices))
    else:
        value = "" if option.is_flag else option.metavar or option.type.name.upper()
    notes = [" ".join((option.help or "").split())]
    if option.required:
        notes.append("Required.")
    if option.show_default and option.default is not None:
        notes.append(f"Default: {option.default}.")
    return f"| `{_cell(f'{names} {value}'.strip())}` | {_cell(' '.join(notes))} |"


def _command(name: str, command: click.Command) -> Iterator[str]:
    # A command keeps the help option of the first context that asks for it, so that must be the one of `gen`.
    context = click.Context(command, info_name=f"gen {name}", **group.context_settings)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"\n## gen {name}\n"
    yield f"```text\ngen {name} {pieces}\n```\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield f"{' '.join(paragraph.split())}\n"
    for heading, options in groups(command).items():
        if heading:
            yield f"{heading}:\n"
        yield "| option | meaning |\n|---|---|"
        yield from (_option(option) for option in options)
        yield ""


def groups(command: click.Command) -> Mapping[str, Sequence[click.Option]]:
    """The options by the heading of their group, "" where a command has no groups."""
    if isinstance(command, Grouped):
        return command.groups()
    return {"": [each for each in command.params if isinstance(each, click.Option) and not each.hidden]}


def _fields() -> Iterator[str]:
    """The table of the options for programs."""
    yield "\n## Options for programs\n"
    yield (
        "The functions of `shoehorn_mcu` take a `PlanOptions`. Its fields are the options of `gen plan`, "
        "`gen firmware` and `gen library`:\n"
    )
    yield "| field | option | default |\n|---|---|---|"
    for name, (row, default) in TABLE.items():
        yield f"| `{name}` | `{row.name}` | `{default!r}` |"


def page() -> str:
    """The page as text."""
    context = click.Context(group)
    lines = [_HEAD.rstrip()]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not command.hidden:
            lines += [*_command(name, command)][:-1]
    return "\n".join([*lines, *_fields()]) + "\n" + _TAIL


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
