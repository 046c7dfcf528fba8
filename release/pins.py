"""Writes the hashes of all files of each pinned release into requirements*.txt; `make pins` runs it.

    python release/pins.py       with pip-tools installed

The pins themselves are changed by hand: a line `name==version`, whose hashes are then those that the index lists for
every file of that release, so that the same pins serve all systems and machines. What a package needs must be pinned,
too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("requirements.txt", "requirements-dev.txt", "requirements-release.txt")
_THERE = {"pip"}  # in every virtual environment
_COMPILE = ("--generate-hashes", "--allow-unsafe", "--no-header", "--no-annotate", "--no-emit-index-url")
_COMPILE += ("--no-emit-find-links", "--no-emit-options", "--strip-extras", "--quiet")


def canonical(name: str) -> str:
    """A distribution's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> Mapping[str, str]:
    """`name==version` by canonical name, without hashes."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.M)
    return {canonical(name): f"{name}=={version}" for name, version in found}


def hashes(text: str) -> Mapping[str, list[str]]:
    """The hashes of each pin by canonical name, sorted."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if head := re.match(r"([A-Za-z0-9._-]+)==", line):
            name = canonical(head[1])
        found.setdefault(name, []).extend(re.findall(r"--hash=(sha256:[0-9a-f]{64})", line))
    return {name: sorted(each) for name, each in found.items() if name}


def compiled(wanted: Mapping[str, str]) -> Mapping[str, list[str]]:
    """What the index lists for these pins and all that they need."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "pins.in", Path(folder) / "pins.txt"
        source.write_text("\n".join(wanted.values()) + "\n")
        command = [sys.executable, "-m", "piptools", "compile", *_COMPILE, "--output-file", str(made), str(source)]
        subprocess.run(command, check=True, cwd=folder)
        return hashes(made.read_text())


def written(text: str, known: Mapping[str, list[str]]) -> str:
    """The file anew: its comment, and each pin with its hashes."""
    comment = "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#"))
    blocks = (
        f"{pin} \\\n" + " \\\n".join(f"    --hash={each}" for each in known[name]) + "\n"
        for name, pin in pins(text).items()
    )
    return comment + "".join(blocks)


def main() -> None:
    """Rewrites the files; ends with a line where something is not pinned."""
    texts = {name: (ROOT / name).read_text() for name in FILES}
    each = [pins(text) for text in texts.values()]
    wanted = {name: pin for found in each for name, pin in found.items()}
    for found in each:
        if others := [pin for name, pin in found.items() if wanted[name] != pin]:
            sys.exit(f"pins: {', '.join(others)}: the files pin other versions of it, too; write one")
    known = compiled(wanted)
    if missing := sorted(known.keys() - wanted.keys() - _THERE):
        sys.exit(f"pins: {', '.join(missing)}: needed and not pinned; add a line `name==version` for each")
    for name, text in texts.items():
        (ROOT / name).write_text(written(text, known))


if __name__ == "__main__":
    main()
