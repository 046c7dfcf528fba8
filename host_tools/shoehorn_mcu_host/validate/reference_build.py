"""Compiles the portable kernels of a written folder for this machine, so that Python can call them.

Preferred is a cffi extension module (API mode: the C compiler checks every declaration). Where Python.h is missing, or
the compiler cannot use it, a plain shared library is opened instead (ABI mode, the same declarations).
Results are kept in the user's cache folder (cbuild.py) under a hash of everything that went into them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi

from shoehorn_mcu_host.base import cbuild, system
from shoehorn_mcu_host.base.children import environment
from shoehorn_mcu_host.base.errors import HostError

# No sanitizers: `zig cc` has one on by default.
_FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", *system.SHARED_FLAGS, "-fno-sanitize=all")
_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Kernels:
    """The compiled kernels: `ffi` makes their structs, `lib` holds their functions."""

    ffi: Any
    lib: Any


@dataclass(frozen=True)
class _Way:
    """One way to compile: a compiler's command, and whether it makes an extension module."""

    compiler: tuple[str, ...]
    api: bool

    @property
    def flags(self) -> tuple[str, ...]:
        return (*_FLAGS, *(system.UNDEFINED_ALLOWED if self.api else ()))

    @property
    def suffix(self) -> str:
        return str(sysconfig.get_config_var("EXT_SUFFIX") or ".so") if self.api else ".so"


def build(runtime: Path) -> Kernels:
    """The kernels below `runtime` (laid out as runtime_c), compiled or from the cache.

    HostError: there are no kernels, or no compiler here can compile them.
    """
    headers = sorted(runtime.glob("kernels/*/*.h"))
    sources = sorted(runtime.glob("kernels/*/*.c"))
    if not sources:
        raise HostError(f"{runtime}: no kernels here; write the folder again with `gen firmware`")
    faults = []
    for way in _ways():
        name = f"shoehorn_reference_{_key(runtime, way)}"
        made = cbuild.cache_folder() / (name + way.suffix)
        try:
            if not cbuild.is_own(made):
                _compile(way, name, runtime, headers, sources, made)
            return _load(way, name, made, headers, sources)
        except (OSError, ImportError, subprocess.SubprocessError) as error:
            faults.append(f"{shlex.join(way.compiler)}: {cbuild.last_line(error)}")
    raise HostError(
        f"{runtime}: no C compiler here can compile the reference kernels ({'; '.join(faults) or 'none found'}); "
        "`pip install ziglang` brings one"
    )


def _ways() -> Iterator[_Way]:
    """The machine's own compiler first, then Zig's; extension modules first."""
    has_python_h = (Path(sysconfig.get_path("include")) / "Python.h").is_file()
    for api in (True, False) if has_python_h else (False,):
        for compiler in cbuild.compilers():
            yield _Way(compiler, api)


def _key(runtime: Path, way: _Way) -> str:
    """16 hex digits over all inputs of the compiler."""
    digest = hashlib.sha256(repr((sys.version, sys.platform, cffi.__version__, way.compiler, way.flags)).encode())
    for path in sorted(path for path in runtime.rglob("*") if path.suffix in (".c", ".h", ".inc")):
        digest.update(f"{path.relative_to(runtime).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def declarations(headers: list[Path], sources: list[Path]) -> str:
    """The headers without preprocessor lines, and every kernel by its function type."""
    lines = [line for h in headers for line in h.read_text().splitlines() if not line.lstrip().startswith("#")]
    return "\n".join([*lines, *map(_prototype, sources)])


def _prototype(source: Path) -> str:
    """conv2d_s8/conv2d_s8_ref.c holds `sh_conv2d_s8_fn sh_conv2d_s8_ref`."""
    return f"sh_{source.parent.name}_fn sh_{source.stem};"


def _interface(headers: list[Path], sources: list[Path]) -> Any:
    ffi = cffi.FFI()
    ffi.cdef(declarations(headers, sources))
    return ffi


def _compile(way: _Way, name: str, runtime: Path, headers: list[Path], sources: list[Path], made: Path) -> None:
    """Compiles into a temporary folder and moves the result into place whole."""
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        inputs, includes = list(map(str, sources)), []
        if way.api:
            ffi = _interface(headers, sources)
            own = [f'#include "{h.relative_to(runtime).as_posix()}"' for h in headers]
            own += map(_prototype, sources)
            ffi.set_source(name, "\n".join(own))
            glue = Path(folder) / f"{name}.c"
            with contextlib.redirect_stdout(io.StringIO()):  # cffi reports its progress
                ffi.emit_c_code(str(glue))
            inputs.append(str(glue))
            includes = [f"-I{runtime}", f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}"]
        result = Path(folder) / made.name
        command = [*way.compiler, *way.flags, *includes, *inputs, "-o", str(result)]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            cwd=folder,
            env=environment(),
        )
        cbuild.put(result, made)


def _load(way: _Way, name: str, made: Path, headers: list[Path], sources: list[Path]) -> Kernels:
    if not way.api:
        ffi = _interface(headers, sources)
        return Kernels(ffi, ffi.dlopen(str(made)))
    loader = importlib.machinery.ExtensionFileLoader(name, str(made))
    spec = importlib.util.spec_from_file_location(name, made, loader=loader)
    if spec is None:
        raise ImportError(f"{made} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return Kernels(module.ffi, module.lib)
