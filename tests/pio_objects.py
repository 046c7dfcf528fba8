"""PlatformIO takes objects of `objects.py`: a script that it runs before a build, while tests run (`conftest.py`)."""

import shlex
import sys
from pathlib import Path

Import("env")  # type: ignore[name-defined]  # noqa: F821

HERE = (lambda: None).__code__.co_filename  # SCons gives scripts no __file__
sys.path.append(str(Path(HERE).resolve().parent))

from objects import compiled  # noqa: E402

spawn = env["SPAWN"]  # type: ignore[name-defined]  # noqa: F821


def spawn_compiler(shell, escape, command, arguments, environment):
    """What SCons runs a command by."""
    words = shlex.split(" ".join(arguments))
    if "-c" not in words or "-o" not in words:
        return spawn(shell, escape, command, arguments, environment)
    code, said = compiled(words, Path.cwd(), environment)
    sys.stderr.write(said)
    return code


env.Replace(SPAWN=spawn_compiler)  # type: ignore[name-defined]  # noqa: F821
