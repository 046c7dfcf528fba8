"""A folder as a value: path -> bytes; and the one function that writes it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from shoehorn_mcu.errors import ShoehornError

Bundle = Mapping[str, bytes]
"""What a folder holds, by path below it, with forward slashes."""

MANIFEST = ".shoehorn.json"
_CHANGES = {"report.json", MANIFEST}  # the build fills in the report
_BUILT = ".pio"  # what PlatformIO makes; kept when the folder is written again
_CACHE = "__pycache__"  # what Python leaves beside the platform's files


class FolderError(ShoehornError):
    """The output folder cannot be written, or holds files that Shoehorn must not replace."""

    kind = "folder"


def digest(bundle: Bundle) -> str:
    """SHA-256 over the paths and bytes, in order of path, as hexadecimal digits."""
    total = hashlib.sha256()
    for path in sorted(bundle):
        total.update(f"{path}\0{len(bundle[path])}\0".encode())
        total.update(bundle[path])
    return total.hexdigest()


def with_manifest(bundle: Bundle) -> Bundle:
    """The bundle and the file that lets a later run recognise it."""
    sums = {path: hashlib.sha256(bundle[path]).hexdigest() for path in sorted(bundle)}
    text = json.dumps({"shoehorn": 1, "files": sums}, indent=1) + "\n"
    return {**bundle, MANIFEST: text.encode()}


def refuse_foreign(folder: Path) -> None:
    """FolderError unless `folder` is absent, empty, or just what an earlier run wrote."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderError(f"{folder}: is a file; name a folder with --out")
    present = _present(folder)
    if not present:
        return
    known = _known(folder)
    if known is None:
        raise FolderError(f"{folder}: exists and holds something else; nothing was written, name another --out")
    foreign = [path for path in present if path not in _CHANGES and known.get(path, "") != _sum(folder / path)]
    if foreign:
        raise FolderError(
            f"{folder}: holds files that Shoehorn did not write or that were changed since "
            f"({', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}); nothing was written, name another --out"
        )


def _sum(path: Path) -> str | None:
    """SHA-256 of a plain file; None for anything else."""
    if path.is_symlink() or not path.is_file():
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _present(folder: Path) -> list[str]:
    """Paths of files (and links) below the folder, without what PlatformIO and Python made there."""
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = [name for name in folders if name != _CACHE and (here != folder or name != _BUILT)]
        links = [name for name in folders if (here / name).is_symlink()]
        found += [(here / name).relative_to(folder).as_posix() for name in (*files, *links)]
    return sorted(found)


def _known(folder: Path) -> Mapping[str, str] | None:
    """What an earlier run wrote, by its manifest; None where there is none that can be read."""
    try:
        found = json.loads((folder / MANIFEST).read_text())
        json.loads((folder / "report.json").read_text())
        files = found["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return files if isinstance(files, dict) else None


def write(bundle: Bundle, folder: Path) -> None:
    """Writes the bundle beside `folder` and then puts it in its place, so that nothing is ever half written.

    An earlier folder of ours is replaced, its `.pio` kept. Raises FolderError and changes nothing otherwise.
    """
    folder = folder.absolute()
    target = folder.resolve()
    fresh = target.with_name(f".{target.name}.new-{os.getpid()}")
    try:
        refuse_foreign(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        _fill(fresh, with_manifest(bundle))
        _swap(fresh, target)
    except OSError as error:
        raise FolderError(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _fill(folder: Path, bundle: Bundle) -> None:
    folder.mkdir()
    for path, data in bundle.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _swap(fresh: Path, target: Path) -> None:
    """Renames `fresh` to `target`; what was there is put back if that fails."""
    if not target.exists():
        fresh.rename(target)
        return
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        old.rename(target)
        raise
    if (old / _BUILT).is_dir():
        (old / _BUILT).rename(target / _BUILT)
    shutil.rmtree(old, ignore_errors=True)
