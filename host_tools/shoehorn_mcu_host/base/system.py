"""All calls that some operating systems lack; no other module of Shoehorn asks which system it runs on.

Linux has all of it. On macOS only the board `native` is missing, whose image is an ELF file. On Windows emulation is
missing too, because QEMU cannot be handed a socket there; Linux programs run in WSL.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shoehorn_mcu_host.base.children import environment
from shoehorn_mcu_host.base.errors import HostError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import grp
    import resource

SHARED_FLAGS = ("-shared",) if sys.platform == "win32" else ("-fPIC", "-shared")
"""Flags for a C compiler that builds a shared library on this system."""
MATH_LIBRARY = () if sys.platform == "win32" else ("-lm",)
UNDEFINED_ALLOWED = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
"""Flags for a library whose references to Python's functions are resolved when it is loaded."""


def require_native() -> None:
    """HostError unless this system can run the board `native`."""
    if sys.platform != "linux":
        raise HostError(
            "the board native runs on Linux only (on Windows: in WSL); choose an emulated board, or one with --port"
        )


def require_emulation() -> None:
    """HostError unless QEMU can be started with a socket that was opened here."""
    if sys.platform == "win32":
        raise HostError("emulation needs Linux or macOS; on Windows use WSL, or a real board with --port")


def start(command: Sequence[str], handed_over: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """A child process with pipes for its output; it inherits these file descriptors, and Ctrl-C does not reach it.

    Linux ends the child when this process is killed without a chance to clean up.
    """
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if sys.platform == "win32":
        how["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP
    else:
        ended = _end_with_parent if sys.platform == "linux" else None
        how |= {"pass_fds": handed_over, "start_new_session": True, "preexec_fn": ended}
    process: subprocess.Popen[bytes] = subprocess.Popen(command, env=environment(), **how)
    return process


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


_WATCH = """
import os, signal, sys
sys.stdin.buffer.read()
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
"""
"""Waits until the process that has the other end of the pipe is gone, and ends what is left of its group."""


def lead_group() -> subprocess.Popen[bytes] | None:
    """Makes this process the leader of a group, and starts a watcher that ends the group once this process is gone.

    So nothing that it started outlives it, even where it is killed. None where the system has no groups, or where it
    cannot lead one. The watcher ends with this process, as long as the result is kept.
    """
    if sys.platform == "win32":
        return None
    with contextlib.suppress(PermissionError):  # the leader of a session is one of a group already
        os.setpgid(0, 0)
    if os.getpgid(0) != os.getpid():
        return None
    command = [sys.executable, "-I", "-c", _WATCH, str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(), start_new_session=True)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Threads and processes that are begun in the block do not hear Ctrl-C, which is for this thread alone."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cpu_seconds() -> float:
    """CPU time of this process and, where the system tells it, of its children that have ended."""
    if sys.platform == "win32":
        return time.process_time()
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def why_foreign(path: Path) -> str | None:
    """Why code in a file, or in a folder, may be another user's; None: only this user, or root, can have written it.

    Raises OSError where there is nothing. Windows has permissions of another kind, and homes are private there.
    """
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    if sys.platform == "win32":
        return None
    if found.st_uid not in (os.getuid(), 0):
        return f"user {found.st_uid} owns it"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users may write there"
    return None


def serial_ports() -> tuple[Sequence[str], Sequence[str], str]:
    """Ports that may lead to a board, those of them that this user may not open, and the group of those or "".

    Built-in ports are looked at where no other is plugged in. Windows has no files for ports.
    """
    plugged = [path for name in ("ttyUSB*", "ttyACM*", "cu.usb*") for path in Path("/dev").glob(name)]
    ports = sorted(plugged or Path("/dev").glob("ttyS[0-3]"))
    closed = [path for path in ports if not os.access(path, os.R_OK | os.W_OK)]
    group = ""
    if closed and sys.platform != "win32":
        with contextlib.suppress(OSError, KeyError):
            group = grp.getgrgid(closed[0].stat().st_gid).gr_name
    return [str(path) for path in ports], [str(path) for path in closed], group


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of the file `path`, which is made and stays; waits while another process holds it.

    The system releases a lock when its process ends, however it ends. Raises OSError where the file cannot be written.
    """
    with path.open("ab") as file:
        while not _try_lock(file.fileno()):
            time.sleep(0.1)
        yield


@contextlib.contextmanager
def locked_now(path: Path) -> Iterator[bool]:
    """Whether the lock of the file `path` was free; if so it is held. Raises OSError."""
    with path.open("ab") as file:
        yield _try_lock(file.fileno())


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
