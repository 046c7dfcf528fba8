"""Libraries for Linux of small graphs: built, installed, and run in a Python of their own.

Objects are compiled once for all tests (objects.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import emitted
import numpy as np
import objects

from shoehorn_mcu.emit.linux.package import linux_package
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Array
from shoehorn_mcu_host.linux import compiled
from shoehorn_mcu_host.linux.pack import Packed, packed
from shoehorn_mcu_host.linux.targets import target

_REALLY_ENDED = compiled._ended


def _ended(command: Sequence[str], folder: Path) -> tuple[int, str]:
    return objects.compiled(command, folder) if "-c" in command else _REALLY_ENDED(command, folder)


compiled._ended = _ended


def made(unit: Unit, core: str = "host") -> Packed:
    """The folder of a unit's library, compiled."""
    package = linux_package(unit, emitted.library_of(unit))
    return packed(package.files, package.about, target(core))


def installed(wheel: Path, site: Path) -> Path:
    """The wheel, installed by pip into a folder without what it needs."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index"]
    done = subprocess.run([*pip, "--target", str(site), str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return site


def installed_of(unit: Unit, folder: Path) -> Path:
    """The wheel of a unit for this machine, built and installed below `folder`."""
    found = made(unit)
    wheel = folder / found.wheel
    folder.mkdir(parents=True, exist_ok=True)
    wheel.write_bytes(found.files[found.wheel])
    return installed(wheel, folder / "site")


def answer(site: Path, script: str, arrays: Mapping[str, Array] | None = None) -> Any:
    """What a script gives to `say(value)`, as JSON; it runs in a new Python, and finds `arrays` by their names.

    numpy arrays are given to `say` as (dtype, shape, bytes in hexadecimal digits).
    """
    path = site.parent / "arrays.npz"
    np.savez(path, **dict(arrays or {}))  # type: ignore[arg-type]
    head = (
        "import json, sys, numpy\n"
        f"arrays = numpy.load({str(path)!r})\n"
        "def plain(value):\n"
        "    if isinstance(value, numpy.ndarray):\n"
        "        return [str(value.dtype), list(value.shape), value.tobytes().hex()]\n"
        "    raise TypeError(type(value))\n"
        "def say(value):\n"
        "    print(json.dumps(value, default=plain))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + script],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(site)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(array: Array) -> list[object]:
    """An array as `answer` gives it."""
    return [str(array.dtype), list(array.shape), array.tobytes().hex()]
