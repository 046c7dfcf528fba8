"""Objects that tests compile are kept by their content, so that what several tests compile is compiled once.

An object is known by a hash of the compiler, its options and all that the source includes, not by where the files are.
Lines that are comments do not count, nor do macros, prototypes and types that nothing in the source mentions: most
sources of an application are the same for all models, though each includes the model's header, and so are kernels. The
folder is git-ignored, shared by all processes of a run, and grows until `make clean`. Firmware takes the same road:
`pio_objects.py` is in PlatformIO's way while tests run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shoehorn_mcu_host.base.system import locked

KEPT = Path(__file__).resolve().parents[1] / "build" / "test-objects"

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*(.*?)[ \t\r]*(?:/[/*].*)?$", re.MULTILINE)
_MORE = (b"incbin", b"__has_include", b"__FILE__", b"__DATE__", b"__TIME__")
"""What makes an object of more than the text that is included, or of where it is."""
_COMMENT = re.compile(rb"^[ \t]*//[^\\\n]*$", re.MULTILINE)
_LINE = re.compile(
    rb"^(?:#define[ ]+(?P<macro>\w+)\b(?:(?:.*\\\n)*.*[^\\\n])?"
    rb"|[A-Za-z_][\w ]*[ *](?P<function>\w+)\([\w ,*\[\]\n]*\);"
    rb"|\w+_fn (?P<kernel>\w+);"
    rb"|typedef struct \{\n(?:(?:[ ].*)?\n)+\} (?P<type>\w+);"
    rb"|(?:static|SH_INLINED) [\w ]*[ *](?P<inlined>\w+)\([\w ,*\[\]\n]*\)\n\{\n(?:(?:[^}].*)?\n)*\})$",
    re.MULTILINE,
)
"""Macros, prototypes, types and functions that a header defines, as they are written here."""
_ASSERTION = re.compile(rb"^_Static_assert\(.*?\);$", re.MULTILINE | re.DOTALL)
_NAMES = re.compile(rb"^(?:#include \".*|#ifndef (\w+_H)\n#define \1)$", re.MULTILINE)
"""Lines with names of files whose contents count."""
_WORD = re.compile(rb"[A-Za-z_]\w*")


class _Unknown(Exception):
    """What the source includes is known to the compiler only."""


def compiled(words: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The exit code and the words of a compiler that is run in `folder`, with `-c SOURCE -o OBJECT` in its arguments.

    What compiled without a word before is copied. With `-fsyntax-only` the object is an empty file.
    """
    made = folder / words[words.index("-o") + 1]
    try:
        kept = KEPT / _key(words, folder)
    except (_Unknown, OSError):
        return _run(words, folder, environment)
    if _copied(kept, made):
        return 0, ""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with locked(kept.with_suffix(".lock")):  # another process may be compiling it
        if _copied(kept, made):
            return 0, ""
        code, said = _run(words, folder, environment)
        if code == 0 and not said:
            made.touch()
            copy = kept.with_suffix(".part")
            shutil.copyfile(made, copy)
            copy.replace(kept)
        return code, said


def _copied(kept: Path, made: Path) -> bool:
    """Whether there is such an object; it is copied."""
    try:
        shutil.copyfile(kept, made)
    except FileNotFoundError:
        return False
    return True


def compiled_all(command: Sequence[str], sources: Sequence[Path], folder: Path) -> list[Path]:
    """The objects of some sources in `folder`, by a compiler and its options; its word is an AssertionError."""
    made = [folder / f"{source.stem}_{number}.o" for number, source in enumerate(sources)]

    def one(pair: tuple[Path, Path]) -> tuple[int, str]:
        return compiled([*command, "-c", str(pair[0]), "-o", str(pair[1])], folder)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for code, said in pool.map(one, zip(sources, made, strict=True)):
            assert code == 0 and not said, said[:4000]
    return made


def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str] | None) -> tuple[int, str]:
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _key(words: Sequence[str], folder: Path) -> str:
    """The object's name, by all that decides what is in it."""
    sources = [word for word in words if word.endswith((".c", ".S"))]
    if len(sources) != 1 or any(word == "-include" or word.startswith("@") for word in words):
        raise _Unknown
    (source,) = sources
    places = [folder / word.removeprefix("-I") for word in words if word.startswith("-I") and word != "-I"]
    skipped = {"-o", words[words.index("-o") + 1], source}
    options = [word for word in words[1:] if word not in skipped and not word.startswith("-I")]
    digest = hashlib.sha256(repr((_identity(words[0]), Path(source).name, options)).encode())
    for text in _mentioned([*_texts(folder / source, places)], Path(source).name == "main.c"):
        digest.update(b"%d\0" % len(text) + text)
    name = digest.hexdigest()
    return f"{name[:2]}/{name[2:34]}.o"


@dataclass(frozen=True)
class _Text:
    """A file of C in two parts."""

    lines: tuple[tuple[bytes, bytes, frozenset[bytes]], ...]  # a _LINE: its name, its text, its words
    rest: bytes  # without lines that are comments
    words: frozenset[bytes]  # of the rest
    assertions: bytes
    pastes: bool  # whether it makes words out of parts of words

    @staticmethod
    @cache
    def of(text: bytes) -> _Text:
        named = _NAMES.sub(b"#", text)
        lines = [(next(filter(None, found.groups())), found[0]) for found in _LINE.finditer(named)]
        left = _LINE.sub(b"", named)
        rest = _ASSERTION.sub(b"", left)
        return _Text(
            tuple((name, line, frozenset(_WORD.findall(line))) for name, line in lines),
            rest,
            frozenset(_WORD.findall(rest)),
            b"".join(_ASSERTION.findall(left)),
            b"##" in text,
        )


def _mentioned(texts: Sequence[bytes], is_main: bool) -> Iterator[bytes]:
    """What counts of a source and of what it includes, where they are of an application or kernels; else all.

    Each firmware has a main.c, which keeps what is asserted when it is compiled.
    """
    parts = [_Text.of(text) for text in texts]
    generated = any(b"APP_CONFIG_H" in text or b"_KERNELS_H" in text for text in texts)
    if not generated or any(part.pastes for part in parts):
        yield from texts
        return
    words = set[bytes]().union(*(part.words for part in parts))
    if is_main:
        words.update(*(_WORD.findall(part.assertions) for part in parts))
    lines = [line for part in parts for line in part.lines]
    while more := [line for line in lines if line[0] in words and not line[2] <= words]:
        words.update(*(line[2] for line in more))
    yield from (part.rest for part in parts)
    yield from (line[1] for line in lines if line[0] in words)
    if is_main:
        yield from (part.assertions for part in parts)


def _texts(source: Path, places: Sequence[Path]) -> Iterator[bytes]:
    """The contents of the source and of all that it includes, each file once; their order does not depend on paths."""
    left, seen = [source], set()
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        text, names = _read(path.read_bytes())
        yield text
        for name in names:
            where = [path.parent, *places] if name.startswith('"') else places
            found = next((place / name[1:-1] for place in where if (place / name[1:-1]).is_file()), None)
            if found is not None:  # else it is the compiler's, or behind an #if that is false
                left.append(Path(os.path.normpath(found)))


@cache
def _read(whole: bytes) -> tuple[bytes, tuple[str, ...]]:
    """A file without its comments, and the names that it includes, in their quotes or brackets.

    By what is in it, not by when it was written: within some milliseconds a file has the same time twice.
    """
    text = _COMMENT.sub(b"", whole)
    if any(word in text for word in _MORE):
        raise _Unknown
    found = tuple(name.decode() for name in _INCLUDE.findall(text))
    if any(name[:1] + name[-1:] not in ('""', "<>") for name in found):
        raise _Unknown
    return text, found


@cache
def _identity(program: str) -> tuple[object, ...]:
    """What changes where the compiler does."""
    path = Path(shutil.which(program) or program).resolve()
    return str(path), path.stat().st_size, path.stat().st_mtime_ns
