"""Compiles C for this machine into a shared library, on first use, so that Python can call it.

Libraries are kept in the user's cache folder under a hash of everything that went into them. What another user may have
written there is never run: a folder is refused, a file made again. Where the folder grows too large, the files that
were made first are deleted.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from shoehorn_mcu_host.base.children import heard
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.base.system import MATH_LIBRARY, SHARED_FLAGS, UNDEFINED_ALLOWED, why_foreign

# No sanitizers: `zig cc` has one on by default. No contraction: results are the same on every machine.
_FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", *SHARED_FLAGS, "-fno-sanitize=all")
_TIMEOUT_SECONDS = 300
_MOST_BYTES = 512 << 20  # of the cache folder; what is deleted is made again where it is needed
_Used = TypeVar("_Used")
KEPT = "shoehorn"
"""The name of the cache folder that is there for later processes too."""


@dataclass(frozen=True)
class Library:
    """Compiled C: `ffi` creates the header's types, `lib` has its functions."""

    ffi: Any
    lib: Any


def parts(lists: Sequence[Collection[int]]) -> tuple[list[int], list[int]]:
    """Two arrays of C for lists of numbers: the place where each list begins and the last one ends, and all numbers."""
    return list(accumulate(map(len, lists), initial=0)), [i for each in lists for i in each]


def load(name: str, header: Path, sources: Sequence[Path]) -> Library:
    """The sources as a library with the header's interface, compiled or from the cache.

    The header is C that cffi can read once `#` lines are dropped; its includes are in the files' own folders.
    HostError: no compiler here can compile them.
    """

    import _cffi_backend  # here: `gen doctor` runs without it

    def opened(path: Path) -> Library:
        ffi = _interface(path.with_name(f"{path.stem}_{_cffi_backend.__version__}.py"), header)
        return Library(ffi, ffi.dlopen(str(path)))

    return _compiled(name, header, sources, (), opened)


def library(module: str, name: str, header: str, *sources: str) -> Callable[[], Library]:
    """Loads the files beside a module, which is given by its `__file__`, once and on first use. HostError as `load`."""
    folder = Path(module).parent
    return cache(lambda: load(name, folder / header, [folder / source for source in sources]))


def _interface(made: Path, header: Path) -> Any:
    """What cffi reads in the header. It is kept as Python beside the library, as reading C takes long."""
    if not is_own(made):
        from cffi import FFI

        ffi = FFI()
        ffi.cdef(re.sub(r"^\s*#.*$", "", header.read_text(), flags=re.MULTILINE))
        ffi.set_source(made.stem.replace(".", "_"), None)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder, redirect_stdout(StringIO()):
            written = Path(folder) / made.name
            ffi.emit_python_code(str(written))
            put(written, made)
    module = ModuleType(made.stem)
    # Not by a loader, which would leave compiled Python in the folder with the rights that the umask gives it.
    exec(compile(made.read_bytes(), str(made), "exec"), vars(module))
    return module.ffi


def plugin(name: str, header: Path, sources: Sequence[Path]) -> Path:
    """The sources as a library for another program, whose functions they call; `header` declares those.

    HostError: no compiler here can compile them.
    """
    return _compiled(name, header, sources, UNDEFINED_ALLOWED, lambda path: path)


def _compiled(
    name: str, header: Path, sources: Sequence[Path], flags: tuple[str, ...], use: Callable[[Path], _Used]
) -> _Used:
    """What `use` makes of the library by the first compiler for which neither compiling nor `use` fails."""
    faults = []
    for compiler in compilers():
        made = cache_folder() / f"{name}_{_key((*compiler, *flags), [header, *sources])}.so"
        try:
            if not is_own(made):
                _compile((*compiler, *flags), sources, made)
            return use(made)
        except (OSError, subprocess.SubprocessError) as error:
            faults.append(f"{shlex.join(compiler)}: {last_line(error)}")
    raise HostError(
        f"{name}: no C compiler here can compile it ({'; '.join(faults) or 'none found'}); "
        "`pip install ziglang` brings one"
    )


def compilers() -> Iterator[tuple[str, ...]]:
    """The machine's own compiler first, then Zig's."""
    ordinary = tuple(shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"))
    if ordinary and shutil.which(ordinary[0]):
        yield ordinary
    if found := zig():
        yield (found, "cc")


def zig() -> str | None:
    """The path of the program that `python -m ziglang` starts; None: the package ziglang is not installed."""
    found = importlib.util.find_spec("ziglang")
    return shutil.which("zig", path=str(Path(found.origin).parent)) if found and found.origin else None


def cache_folder() -> Path:
    """The user's cache folder for compiled code."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification of XDG_CACHE_HOME demands that a relative path is ignored.
    try:
        folder = (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / KEPT
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if fault := why_foreign(folder):
            raise HostError(
                f"{folder}: compiled code there is not run, because {fault}; delete it, or let XDG_CACHE_HOME name a "
                "folder of your own"
            )
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return _passing_folder()


def is_own(made: Path) -> bool:
    """Whether the file is there, and written by this user."""
    try:
        return made.is_file() and why_foreign(made) is None
    except OSError:
        return False


def put(made: Path, place: Path) -> None:
    """Moves a file into place, which nobody else may write from then on."""
    made.chmod(0o700)
    made.replace(place)
    _bound(place.parent, _MOST_BYTES)


def _bound(folder: Path, most: int) -> None:
    """Deletes files of the folder, the oldest first, until those that are left have at most so many bytes."""
    found: list[tuple[int, int, Path]] = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process may delete it meanwhile
            if path.is_file():
                found.append((path.stat().st_mtime_ns, path.stat().st_size, path))
    left = sum(size for _, size, _ in found)
    for _, size, path in sorted(found)[:-1]:  # not what was just made
        if left <= most:
            return
        with suppress(OSError):  # Windows deletes no library that is loaded
            path.unlink()
        left -= size


@cache
def _passing_folder() -> Path:
    """A temporary cache folder for this process, where the user's home is not writable."""
    folder = Path(tempfile.mkdtemp(prefix="shoehorn-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(folder / "zig"))
    os.environ.setdefault("ZIG_LOCAL_CACHE_DIR", str(folder / "zig-local"))
    return folder


def last_line(error: Exception) -> str:
    """The fault in one line: the compiler's last error, or the exception's text."""
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    lines = [line for line in str(text).splitlines() if "error" in line.lower()] or str(text).splitlines()
    return lines[-1].strip() if lines else type(error).__name__


def _key(compiler: tuple[str, ...], files: Sequence[Path]) -> str:
    """16 hex digits over all inputs of the compiler."""
    digest = hashlib.sha256(repr((sys.platform, platform.machine(), compiler, _FLAGS)).encode())
    for path in sorted({p for file in files for p in file.parent.glob("*.[ch]")}):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: tuple[str, ...], sources: Sequence[Path], made: Path) -> None:
    """Compiles in a temporary folder and renames the result into place."""
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        result = Path(folder) / made.name
        command = [*compiler, *_FLAGS, *map(str, sources), *MATH_LIBRARY, "-o", str(result)]
        heard(command, _TIMEOUT_SECONDS, folder, check=True)
        put(result, made)
