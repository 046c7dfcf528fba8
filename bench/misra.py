"""Counts what cppcheck's MISRA C:2012 addon finds in a generated library: `python bench/misra.py [FOLDER]`.

Without FOLDER, the library of the model that ships is written first, for a Cortex-M4. The findings are those of
cppcheck's addon (Debian's package `cppcheck`), each counted once per place; docs/misra.md explains the remaining ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Categories of MISRA C:2012 for the rules that the addon may name; the others are required.
ADVISORY = {
    "2.3", "2.4", "2.5", "2.6", "2.7", "4.2", "5.9", "8.7", "8.9", "8.11", "8.13", "10.5", "11.4", "11.5",
    "12.1", "12.3", "12.4", "13.3", "13.4", "15.1", "15.4", "15.5", "17.5", "17.8", "18.4", "18.5", "19.2",
    "20.1", "20.5", "20.10", "21.12",
}  # fmt: skip
MANDATORY = {
    "9.1", "12.5", "13.6", "17.3", "17.4", "17.6", "19.1", "21.13", "21.17", "21.18", "21.19", "21.20",
    "22.2", "22.4", "22.5", "22.6",
}  # fmt: skip
_FINDING = re.compile(r"^(.+?):(\d+):(\d+):([\w.-]+)$")


def category(rule: str) -> str:
    return "advisory" if rule in ADVISORY else "mandatory" if rule in MANDATORY else "required"


def findings(library: Path) -> list[tuple[str, str, int]]:
    """(Rule, path below the library, line) of each finding in its sources and headers."""
    source = library / "src"
    command = [
        "cppcheck", "--addon=misra", "--std=c11", "--platform=unix32", "--quiet", "--inline-suppr",
        "--suppress=missingInclude", "--suppress=unusedFunction", "--template={file}:{line}:{column}:{id}",
        f"-I{source}", *map(str, sorted(source.rglob("*.c"))),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {m.groups() for line in done.stderr.splitlines() if (m := _FINDING.match(line))}
    places = [
        (name.removeprefix("misra-c2012-"), Path(path).relative_to(library).as_posix(), int(line))
        for path, line, _, name in found
        if name.startswith("misra-c2012-")
    ]
    return sorted(places)


def written(folder: Path) -> Path:
    """The shipped model's library, by the `gen` beside this Python."""
    gen = str(Path(sys.executable).parent / "gen")
    model = str(ROOT / "generator" / "shoehorn_mcu" / "models" / "digits.tflite")
    command = [gen, "library", model, "--cpu", "cortex-m4", "--out", str(folder / "digits"), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "digits"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else written(Path(scratch))
        found = findings(library)
    rules = Counter(rule for rule, _, _ in found)
    for rule, count in sorted(rules.items(), key=lambda item: tuple(map(int, item[0].split(".")))):
        places = Counter(Path(path).name for name, path, _ in found if name == rule)
        top = ", ".join(f"{name} {n}" for name, n in places.most_common(3))
        print(f"{category(rule):<9} {rule:>5} {count:>4}   {top}")
    for kind in ("mandatory", "required", "advisory"):
        print(f"{kind}: {sum(n for rule, n in rules.items() if category(rule) == kind)}")


if __name__ == "__main__":
    main()
