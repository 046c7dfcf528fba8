"""Derives valid C names from arbitrary model names."""

from __future__ import annotations

import re

from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES

# A model's name becomes a prefix (`digits_run`), a header (`digits.h`), a folder and a CMake target. As a prefix it
# may be a keyword; as a header it must not hide a compiler's, the system's or ours; some targets are CMake's own.
_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
dirent dlfcn fcntl features grp malloc memory netdb poll pthread pwd sched select semaphore spawn strings sys termios
unistd utime wait
"""
_OURS = "app_config arena board board_config platform sh"
_APP = [path.stem for path in (FIRMWARE_TEMPLATES / "app").glob("*.[ch]")]  # `src/cobs.h` would hide `cobs.h`
_TARGETS = "all clean edit_cache help install package rebuild_cache test"
_TAKEN = frozenset([*f"{_HEADERS} {_OURS} {_TARGETS}".split(), *_APP])


def library_name(model: str) -> str:
    """A C identifier in lower case: the library's folder, file stem and prefix."""
    name = re.sub(r"[^a-z0-9]+", "_", model.lower()).strip("_")
    if not name or name in _TAKEN or name.startswith("sh_"):
        return f"{name}_model".lstrip("_")
    return f"m{name}" if name[0].isdigit() else name
