"""The cache of compiled code: nothing that another user may have written is ever run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.base.errors import HostError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
OTHER = 54321  # a user's number
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "answer.h").write_text("int answer(void);\n")
    (folder / "answer.c").write_text('#include "answer.h"\nint answer(void)\n{\n    return 42;\n}\n')
    return folder


def answer(folder: Path) -> int:
    library = cbuild.load("answer", folder / "answer.h", [folder / "answer.c"])  # kept while its function runs
    return int(library.lib.answer())


def by_mode(bits: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(path.stat().st_mode | bits)


def by_link(path: Path) -> None:
    """The same contents, elsewhere."""
    path.rename(path.with_name(f"elsewhere-{path.name}"))
    path.symlink_to(path.with_name(f"elsewhere-{path.name}"))


def by_owner(path: Path) -> None:
    os.chown(path, OTHER, -1)


WAYS = [
    pytest.param(by_mode(0o020), "other users may write there", id="group"),
    pytest.param(by_mode(0o002), "other users may write there", id="others"),
    pytest.param(by_link, "it is a symbolic link", id="link"),
    pytest.param(by_owner, f"user {OTHER} owns it", id="owner", marks=needs_root),
]


@pytest.mark.parametrize(("spoil", "why"), WAYS)
def test_a_cache_folder_of_others_is_refused(sources: Path, spoil: Callable[[Path], None], why: str):
    assert answer(sources) == 42
    folder = cbuild.cache_folder()
    spoil(folder)

    with pytest.raises(HostError, match=f"{folder}: compiled code there is not run, because {why}; delete it, or let "):
        answer(sources)


@pytest.mark.parametrize("suffix", [".so", ".py"])
@pytest.mark.parametrize(("spoil", "why"), WAYS)
def test_a_file_of_others_is_made_again(sources: Path, suffix: str, spoil: Callable[[Path], None], why: str):
    answer(sources)
    (kept,) = cbuild.cache_folder().glob(f"*{suffix}")
    evil = "raise SystemExit('evil code runs')\n" if suffix == ".py" else "no library"
    kept.unlink()  # the library may still be open
    kept.write_text(evil)
    spoil(kept)

    assert answer(sources) == 42
    assert not kept.is_symlink()
    assert kept.read_bytes() != evil.encode()
    assert kept.stat().st_mode & 0o777 == 0o700


def test_what_is_made_is_private_whatever_the_umask(sources: Path):
    before = os.umask(0)
    try:
        answer(sources)
    finally:
        os.umask(before)
    folder = cbuild.cache_folder()

    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    answer(sources)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps


def test_the_oldest_files_go_where_the_cache_is_too_large(
    sources: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    answer(sources)
    folder = cbuild.cache_folder()
    before = {path.name for path in folder.iterdir()}
    for number, path in enumerate(sorted(folder.iterdir())):
        os.utime(path, (number, number))
    size = max(path.stat().st_size for path in folder.iterdir())
    monkeypatch.setattr(cbuild, "_MOST_BYTES", size + 1000)
    new = tmp_path / "new"
    new.write_bytes(bytes(1000))
    cbuild.put(new, folder / "new")

    left = {path.name for path in folder.iterdir()}
    assert "new" in left
    assert sum(path.stat().st_size for path in folder.iterdir()) <= size + 1000
    assert left - {"new"} < before
    assert answer(sources) == 42
