"""A folder as a mapping from path to bytes, and the functions that write it to disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from shoehorn_mcu.base.errors import ShoehornError

Bundle = Mapping[str, bytes]
"""The files of a folder: path relative to it, with forward slashes -> contents."""

MANIFEST = ".shoehorn.json"
DESCRIBING = ("reference", "models")
"""Folders of a project all of whose files describe its models."""
_BUILT = (".pio", "target")  # files that PlatformIO and Cargo make; kept when the folder is written again
_CACHE = "__pycache__"  # bytecode that Python leaves beside the platform's files


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
    """The bundle with the file of checksums by which a later run recognises the folder."""
    return {**bundle, MANIFEST: _manifest({path: _digest(data) for path, data in bundle.items()}).encode()}


def _manifest(sums: Mapping[str, str]) -> str:
    return json.dumps({"shoehorn": 1, "files": dict(sorted(sums.items()))}, indent=1) + "\n"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def refuse_foreign(folder: Path, force: bool = False) -> None:
    """FolderError unless `folder` is absent, empty, or exactly as an earlier run wrote it.

    With `force`, files may have been changed or added since.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderError(f"{folder}: is a file; name a folder with --out")
    present = _present(folder)
    if not present:
        return
    known = _known(folder)
    if known is None:
        raise FolderError(f"{folder}: exists and was not written by Shoehorn; nothing was written, name another --out")
    foreign = [path for path in present if not _changes(path) and known.get(path, "") != _sum(folder / path)]
    if foreign and not force:
        raise FolderError(
            f"{folder}: holds files that Shoehorn did not write or that were changed since ({_few(foreign)}); nothing "
            "was written: name another --out, or --force replaces what was changed and keeps what was added"
        )


def _changes(path: str) -> bool:
    """Whether a file may change after it was written: the build and the validation fill in reports."""
    return path in ("report.json", MANIFEST) or (path.startswith("models/") and path.endswith("/report.json"))


def _few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")


def _sum(path: Path) -> str | None:
    """SHA-256 of a plain file; None for anything else."""
    if path.is_symlink() or not path.is_file():
        return None
    return _digest(path.read_bytes())


def _present(folder: Path) -> list[str]:
    """Paths of files (and links) below the folder, without what PlatformIO, Cargo and Python made there."""
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = [name for name in folders if name != _CACHE and (here != folder or name not in _BUILT)]
        links = [name for name in folders if (here / name).is_symlink()]
        found += [(here / name).relative_to(folder).as_posix() for name in (*files, *links)]
    return sorted(found)


def _known(folder: Path) -> Mapping[str, str] | None:
    """The SHA-256 of each file of an earlier run, from its manifest; None without a readable manifest."""
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
        if "report.json" in files:
            json.loads((folder / "report.json").read_text())
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return files if isinstance(files, dict) else None


def write(bundle: Bundle, folder: Path, force: bool = False) -> None:
    """Writes the bundle beside `folder` and then renames it, so that no folder is ever half written.

    An earlier folder of Shoehorn is replaced, its `.pio` or `target` kept. With `force`, files that were changed are
    replaced and files that were added are kept. Raises FolderError and changes nothing otherwise.
    """
    with _writing(folder) as (target, fresh):
        refuse_foreign(target, force)
        target.parent.mkdir(parents=True, exist_ok=True)
        _fill(fresh, with_manifest(bundle))
        if target.is_dir():
            _keep_added(target, fresh)
        _swap(fresh, target)


def refresh(bundle: Bundle, folder: Path, libraries: Sequence[str], force: bool = False) -> None:
    """Replaces the files of `bundle` in an existing folder and leaves all others alone.

    `libraries` are the paths of the libraries' folders below it. Files below those and DESCRIBING that an earlier run
    wrote and that are not in the bundle are deleted. Raises FolderError and changes nothing where the folder lacks one
    of the libraries, or without `force` where one of the files was changed since it was written.
    """
    with _writing(folder) as (target, fresh):
        for library in libraries:
            if not (target / library).is_dir():
                cure = "without --library-only the folder is written"
                raise FolderError(f"{folder}: has no {library} to refresh; {cure}")
        known = _known(target) or {}
        changed = [p for p in bundle if not _changes(p) and known.get(p) != _sum(target / p) and (target / p).exists()]
        _refuse_changed(folder, changed, force)
        _fill(fresh, bundle)
        owned = {*libraries, *DESCRIBING}
        stale = [p for p in known if p not in bundle and any(p.startswith(f"{name}/") for name in owned)]
        sums = {p: known[p] for p in known if p not in stale} | {p: _digest(data) for p, data in bundle.items()}
        (fresh / MANIFEST).write_text(_manifest(sums))
        for path in [*bundle, MANIFEST]:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).replace(target / path)
        for path in stale:
            (target / path).unlink(missing_ok=True)


def _refuse_changed(folder: Path, changed: Sequence[str], force: bool) -> None:
    """FolderError where files of others would be replaced without `force`."""
    if changed and not force:
        raise FolderError(
            f"{folder}: Shoehorn did not write, or others changed since: {_few(changed)}; nothing was written, "
            "--force replaces them"
        )


_SEAL = "// The lines above are as Shoehorn wrote them: "


def sealed(text: str) -> str:
    """The text of a C file with a last line by which a change of it is seen."""
    return f"{text}{_SEAL}{_digest(text.encode())[:16]}\n"


def _is_sealed(path: Path) -> bool:
    """Whether a C file is as it was written."""
    text, seal, _ = (whole := path.read_bytes().decode(errors="replace")).rpartition(_SEAL)
    return bool(seal) and sealed(text) == whole


def write_beside(bundle: Bundle, folder: Path, force: bool = False) -> None:
    """Writes sealed C files into a folder that may have other files, each whole.

    Raises FolderError and changes nothing where one of them is there and is not as it was written, unless `force`, and
    where the folder is one that `write` made.
    """
    with _writing(folder) as (target, fresh):
        if target.exists() and not target.is_dir():
            raise FolderError(f"{folder}: is a file; name a folder with --out")
        if _known(target) is not None:
            raise FolderError(f"{folder}: holds a library or a project of many files; name another --out")
        links = [path for path in bundle if (target / path).is_dir() or (target / path).is_symlink()]
        if links:
            raise FolderError(f"{folder / links[0]}: is no plain file; name another --out")
        changed = [path for path in bundle if (target / path).exists() and not _is_sealed(target / path)]
        _refuse_changed(folder, changed, force)
        target.mkdir(parents=True, exist_ok=True)
        _fill(fresh, bundle)
        for path in bundle:
            (fresh / path).replace(target / path)


@contextmanager
def _writing(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The folder with links resolved, and one beside it to fill, deleted at the end; OS errors become FolderError."""
    folder = folder.absolute()
    fresh = None
    try:
        target = folder.resolve()
        if not target.name:
            raise FolderError(f"{folder}: cannot be replaced; name another --out")
        fresh = target.with_name(f".{target.name}.new-{os.getpid()}")
        yield target, fresh
    except OSError as error:
        raise FolderError(f"{folder}: cannot be written: {error.strerror or error}") from error
    except RuntimeError as error:  # pathlib of Python 3.11 and 3.12
        raise FolderError(f"{folder}: is a link to itself; name another --out") from error
    finally:
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)


def _keep_added(target: Path, fresh: Path) -> None:
    """Copies the files that were added to `target` into `fresh`."""
    known = _known(target) or {}
    for path in _present(target):
        if path not in known and path != MANIFEST and not (fresh / path).exists():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(target / path, fresh / path, follow_symlinks=False)


def _fill(folder: Path, bundle: Bundle) -> None:
    folder.mkdir()
    for path, data in bundle.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _swap(fresh: Path, target: Path) -> None:
    """Renames `fresh` to `target`; the old folder is put back if that fails."""
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
    for name in _BUILT:
        if (old / name).is_dir():
            (old / name).rename(target / name)
    shutil.rmtree(old, ignore_errors=True)
