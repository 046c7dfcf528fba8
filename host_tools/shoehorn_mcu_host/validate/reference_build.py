"""Compiles the portable kernels of a written folder for this machine, so that Python can call them.

Preferred is a cffi extension module (API mode: the C compiler checks every declaration). Where Python.h is missing, or
the compiler cannot use it, a plain shared library is opened instead (ABI mode, the same declarations).
Libraries are kept in the user's cache folder (cbuild.py). A contract is known there by a hash of all that is compiled
for it, so one that any folder had before is not compiled again: one run of the compiler makes a library of those that
are missing. Beside the library an entry per contract names it, with the library's own hash, which is compared before
the library is loaded: what is damaged is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import posixpath
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import cffi

from shoehorn_mcu_host.base import cbuild, system
from shoehorn_mcu_host.base.cbuild import Library
from shoehorn_mcu_host.base.children import heard
from shoehorn_mcu_host.base.errors import HostError

# No sanitizers: `zig cc` has one on by default.
_FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", *system.SHARED_FLAGS, "-fno-sanitize=all")
_TIMEOUT_SECONDS = 300
_NAME = "shoehorn_reference_"
_INCLUDED = re.compile(rb'^[ ]*#[ ]*include "(.*)"', re.MULTILINE)


class Kernels:
    """The compiled kernels of several contracts, each in one of the libraries."""

    def __init__(self, libraries: Mapping[str, Library]) -> None:
        self._libraries = libraries  # by function

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the libraries raise for a type that they do not know."""
        return tuple({getattr(library.ffi, "error", cffi.FFIError) for library in self._libraries.values()})

    def library(self, function: str) -> Library:
        """The library that has a function; AttributeError where none has."""
        if function not in self._libraries:
            raise AttributeError(f"no kernel '{function}'")
        return self._libraries[function]


@dataclass(frozen=True)
class _Contract:
    """A folder of headers and sources below `runtime`."""

    runtime: Path
    folder: Path

    @cached_property
    def headers(self) -> list[Path]:
        return sorted(self.folder.glob("*.h"))

    @cached_property
    def sources(self) -> list[Path]:
        return sorted(self.folder.glob("*.c"))

    @property
    def functions(self) -> list[str]:
        return [f"sh_{source.stem}" for source in self.sources]

    @cached_property
    def content(self) -> bytes:
        """A hash of its files and of all that these include, by their paths below `runtime`."""
        digest = hashlib.sha256()
        left = [path.relative_to(self.runtime).as_posix() for path in (*self.headers, *self.sources)]
        seen = set()
        while left:
            path = left.pop()
            if path in seen:
                continue
            seen.add(path)
            file = self.runtime / path
            if not file.is_file():  # the compiler names a header that is missing; a pipe would never end
                continue
            text = file.read_bytes()
            digest.update(f"{path}\0{len(text)}\0".encode())
            digest.update(text)
            beside = posixpath.dirname(path)
            left += [posixpath.normpath(posixpath.join(beside, p.decode())) for p in _INCLUDED.findall(text)]
        return digest.digest()


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

    def key(self, contract: _Contract) -> str:
        """16 hex digits over all inputs of the compiler."""
        own = repr((sys.version, sys.platform, cffi.__version__, self.compiler, self.flags))
        return hashlib.sha256(own.encode() + contract.content).hexdigest()[:16]


def build(runtime: Path) -> Kernels:
    """The kernels below `runtime` (laid out as runtime_c), compiled or from the cache.

    HostError: there are no kernels, or no compiler here can compile them.
    """
    contracts = [c for c in (_Contract(runtime, folder) for folder in sorted(runtime.glob("kernels/*"))) if c.sources]
    if not contracts:
        raise HostError(f"{runtime}: no kernels here; write the folder again with `gen firmware`")
    faults = []
    for way in _ways():
        try:
            return _built(way, contracts)
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


def _built(way: _Way, contracts: Sequence[_Contract]) -> Kernels:
    """The libraries that have the contracts; those that are in none are compiled to one."""
    kept = _Kept(cbuild.cache_folder())
    made = {contract: kept.library(way.key(contract)) for contract in contracts}
    if missing := [contract for contract, library in made.items() if library is None]:
        made |= dict.fromkeys(missing, _compile(way, missing, kept))
    found: dict[str, Library] = {}
    for path in sorted({path for path in made.values() if path is not None}):
        inside = [contract for contract, library in made.items() if library == path]
        found |= dict.fromkeys((f for c in inside for f in c.functions), _load(way, path, inside))
    return Kernels(found)


@dataclass(frozen=True)
class _Kept:
    """The libraries in the cache folder."""

    folder: Path
    _contents: dict[Path, str] = field(default_factory=dict)  # a hash of each library

    def entry(self, key: str) -> Path:
        return self.folder / f"{_NAME}{key}.entry"

    def library(self, key: str) -> Path | None:
        """The library that has the contract of this key; None where there is none, or it is not as it was made."""
        entry = self.entry(key)
        if not cbuild.is_own(entry):
            return None
        name, _, content = entry.read_text(errors="replace").partition(" ")
        made = entry.with_name(name)
        if not re.fullmatch(rf"{_NAME}[0-9a-f]+\.[\w.-]+", name) or not cbuild.is_own(made):
            return None
        if made not in self._contents:
            self._contents[made] = hashlib.sha256(made.read_bytes()).hexdigest()
        return made if self._contents[made] == content else None


def declarations(headers: Sequence[Path], sources: Sequence[Path]) -> str:
    """The headers without preprocessor lines, and every kernel by its function type."""
    lines = [line for h in headers for line in h.read_text().splitlines() if not line.lstrip().startswith("#")]
    return "\n".join([*lines, *map(_prototype, sources)])


def _prototype(source: Path) -> str:
    """conv2d_s8/conv2d_s8_ref.c holds `sh_conv2d_s8_fn sh_conv2d_s8_ref`."""
    return f"sh_{source.parent.name}_fn sh_{source.stem};"


def _interface(contracts: Sequence[_Contract]) -> Any:
    ffi = cffi.FFI()
    ffi.cdef(declarations([h for c in contracts for h in c.headers], [s for c in contracts for s in c.sources]))
    return ffi


def _compile(way: _Way, contracts: Sequence[_Contract], kept: _Kept) -> Path:
    """The library of these contracts: compiled in a temporary folder, moved into place whole, then entered."""
    keys = [way.key(contract) for contract in contracts]
    name = f"{_NAME}{hashlib.sha256(repr(sorted(keys)).encode()).hexdigest()[:16]}"
    made = kept.folder / (name + way.suffix)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        inputs, includes = [str(source) for contract in contracts for source in contract.sources], []
        if way.api:
            ffi = _interface(contracts)
            runtime = contracts[0].runtime
            own = [f'#include "{h.relative_to(runtime).as_posix()}"' for c in contracts for h in c.headers]
            own += (_prototype(source) for contract in contracts for source in contract.sources)
            ffi.set_source(name, "\n".join(own))
            glue = Path(folder) / f"{name}.c"
            with contextlib.redirect_stdout(io.StringIO()):  # cffi reports its progress
                ffi.emit_c_code(str(glue))
            inputs.append(str(glue))
            includes = [f"-I{runtime}", f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}"]
        result = Path(folder) / made.name
        command = [*way.compiler, *way.flags, *includes, *inputs, "-o", str(result)]
        heard(command, _TIMEOUT_SECONDS, folder, check=True)
        content = hashlib.sha256(result.read_bytes()).hexdigest()
        cbuild.put(result, made)
        for key in keys:
            entry = Path(folder) / key
            entry.write_text(f"{made.name} {content}")
            cbuild.put(entry, kept.entry(key))
    return made


def _load(way: _Way, made: Path, contracts: Sequence[_Contract]) -> Library:
    if not way.api:
        ffi = _interface(contracts)
        return Library(ffi, ffi.dlopen(str(made)))
    name = made.name.removesuffix(way.suffix)
    loader = importlib.machinery.ExtensionFileLoader(name, str(made))
    spec = importlib.util.spec_from_file_location(name, made, loader=loader)
    if spec is None:
        raise ImportError(f"{made} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return Library(module.ffi, module.lib)
