"""Compiles the C of a folder for Linux: a shared library, and a Python module with the same code inside."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.base.children import heard
from shoehorn_mcu_host.base.errata import may_fail
from shoehorn_mcu_host.base.errors import BuildError, printable
from shoehorn_mcu_host.linux.targets import Target

# -ffp-contract=off: a fused multiply-add rounds once where the reference rounds twice. No sanitizers: `zig cc` has one
# on by default.
_FLAGS = (
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O2",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-sanitize=all",
    "-g0",
)
# No build id and no symbols: equal sources give equal bytes. Never unloaded: threads may be asleep in it. Optimised, or
# zig makes its sanitizer's runtime first, which takes longer than the library and is not used.
_LINK = ("-shared", "-s", "-O2", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-z,nodelete", "-Wl,-z,noexecstack")
_MOST_MOVED = 64  # tries
_MOVE = 16  # bytes by which each moves the code further; functions begin at multiples of 16
_TIMEOUT_SECONDS = 1800
_VISIBLE = "sh_visible.h"
_MODULE = "sh_module.c"
_INIT = "PyInit__native"


@dataclass(frozen=True)
class Binaries:
    """The two shared objects of a model."""

    library: bytes
    module: bytes


def compiled(files: Mapping[str, bytes], name: str, target: Target) -> Binaries:
    """The shared objects of the model `name`, of the files of its folder: `src/` and `linux/src/`.

    Nothing is left on the disk but zig's own cache. BuildError: zig is not there, or a file does not compile.
    """
    program = cbuild.zig()
    if program is None:
        raise BuildError("--os linux compiles with zig, which is not installed: `pip install ziglang` brings it")
    cbuild.cache_folder()  # where the home is not writable, it gives zig another folder
    with tempfile.TemporaryDirectory(prefix="shoehorn-linux-") as place:
        folder = Path(place)
        sources = [path for path in sorted(files) if path.startswith(("src/", "linux/src/"))]
        for path in sources:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(files[path])
        visible = f'#pragma GCC visibility push(default)\n#include "{name}.h"\n#pragma GCC visibility pop\n'
        (folder / _VISIBLE).write_text(visible)
        (folder / "module.map").write_text(f"{{ global: {_INIT}; local: *; }};\n")
        zig = _Zig(program, folder, target, f"src/{name}.c")
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            made = dict(pool.map(zig.compiled, (path for path in sources if path.endswith(".c"))))
        module = [o for path, o in made.items() if path.endswith(f"/{_MODULE}")]
        model = [o for o in made.values() if o not in module]
        needed = ("-lpthread",) if any(path.endswith("/sh_pool.c") for path in made) else ()
        library = zig.linked(f"lib{name}.so", model, (f"-Wl,-soname,lib{name}.so", *needed))
        inside = zig.linked("_native.abi3.so", [*model, *module], ("-Wl,--version-script,module.map", *needed))
        return Binaries(library, inside)


class _Zig:
    """`zig cc` for one machine, in one folder."""

    def __init__(self, program: str, folder: Path, target: Target, model: str) -> None:
        self._folder, self._model = folder, model
        self._command = (program, "cc", "-target", target.triple, f"-mcpu={target.core}")

    def compiled(self, source: str) -> tuple[str, str]:
        """Compiles a file; returns its path and the name of its object."""
        made = f"{source.replace('/', '_')}.o"
        visible = ("-include", _VISIBLE) if source == self._model else ()
        self._run((*_FLAGS, "-Isrc", "-Ilinux/src", *visible, "-c", source, "-o", made))
        return source, made

    def linked(self, name: str, objects: Sequence[str], flags: Sequence[str]) -> bytes:
        """The bytes of a shared object; its code is moved until no A53 can fail in it (errata.py)."""
        for moved in range(_MOST_MOVED):
            first = [self._space(_MOVE * moved)] if moved else []
            self._run((*_LINK, *first, *objects, *flags, "-o", name))
            made = (self._folder / name).read_bytes()
            if not may_fail(made):
                return made
        raise BuildError(f"--os linux: {name} has code that a Cortex-A53 may compute wrongly (erratum 843419)")

    def _space(self, size: int) -> str:
        """An object with so many bytes of code that nothing runs, which a link keeps."""
        made = f"space{size}.o"
        (self._folder / "space.S").write_text(f'.section .text.space, "axR", %progbits\n.space {size}\n')
        self._run(("-c", "space.S", "-o", made))
        return made

    def _run(self, arguments: Sequence[str]) -> None:
        try:
            code, said = _ended([*self._command, *arguments], self._folder)
        except (OSError, subprocess.SubprocessError) as error:
            raise BuildError(f"--os linux: zig cannot be run: {cbuild.last_line(error)}") from error
        if code != 0:
            faults = [printable(line.strip()) for line in said.splitlines() if "error:" in line]
            fault = (faults or [f"it ended with code {code}"])[0]
            raise BuildError(f"--os linux: zig cannot compile the library: {fault}")


def _ended(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """The exit code of a compiler in `folder`, and what it said."""
    local = str(folder / "zig")  # objects of files that are compiled once are worth no cache
    done = heard(command, _TIMEOUT_SECONDS, folder, ZIG_LOCAL_CACHE_DIR=local)
    return done.returncode, done.stderr
