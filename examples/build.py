"""Does what an example's README says: runs its commands, and says in one line which tool is missing.

    python examples/build.py cmake

Commands that need a board, such as flashing, and those that install something are left out.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
_LEFT_OUT = re.compile(r"\b(upload|flash|monitor|install)\b")
INSTALL = {
    "jupyter": "pip install notebook",
    "gen": "pip install shoehorn-mcu",
    "cmake": "pip install cmake",
    "cargo": "https://rustup.rs",
    "pio": "pip install platformio",
    "arduino-cli": "https://arduino.github.io/arduino-cli",
    "west": "https://docs.zephyrproject.org/latest/develop/getting_started",
    "idf.py": "https://docs.espressif.com/projects/esp-idf",
}
"""How to get the programs that the READMEs use."""


def commands(readme: str) -> list[str]:
    """The commands of a README's first block, without those that need a board."""
    block = re.search(r"^```sh\n(.*?)^```", readme, re.S | re.M)
    lines = block[1].splitlines() if block else []
    return [line for line in lines if not _LEFT_OUT.search(line)]


def main(folder: Path) -> int:
    """The exit code: 1 where a tool is missing or a command fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # `gen` is beside Python
    wanted = commands((folder / "README.md").read_text(encoding="utf-8"))
    for program in dict.fromkeys(shlex.split(line)[0] for line in wanted):
        if program in INSTALL and shutil.which(program, path=path) is None:
            print(f"{folder.name}: {program} is not installed; get it by: {INSTALL[program]}", file=sys.stderr)
            return 1
    for line in wanted:
        print(f"$ {line}", flush=True)
        if subprocess.run(line, shell=True, cwd=folder, env={**os.environ, "PATH": path}).returncode:
            print(f"{folder.name}: `{line}` failed", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    known = sorted(place.parent.name for place in HERE.glob("*/README.md"))
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        sys.exit(f"usage: python build.py {'|'.join(known)}")
    sys.exit(main(HERE / sys.argv[1]))
