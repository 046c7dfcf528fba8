"""What tests have a process do that is locked in; imported there."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoehorn_mcu_host.base import walls
from shoehorn_mcu_host.base.sandbox import Answer


def tried(folder: str, port: int) -> dict[str, bool]:
    """Which deeds this process can do: to files in a folder that has `there`, to a listening port, to others."""
    place = Path(folder)

    def connect() -> None:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()

    def run_thread() -> None:
        done = threading.Event()
        threading.Thread(target=done.set).start()
        if not done.wait(30):
            raise OSError

    deeds: dict[str, Callable[[], object]] = {
        "write": lambda: (place / "new").write_text("x"),
        "append": lambda: (place / "there").open("a").close(),
        "home": lambda: (Path.home() / f".shoehorn-{os.getpid()}").touch(),
        "link": lambda: (place / "link").symlink_to("there"),
        "folder": lambda: (place / "folder").mkdir(),
        "mode": lambda: (place / "there").chmod(0o777),
        "rename": lambda: (place / "other").rename(place / "moved"),
        "remove": lambda: (place / "last").unlink(),
        "read": lambda: (place / "there").read_text(),
        "connect": connect,
        "datagrams": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "pair": lambda: [each.close() for each in socket.socketpair()],
        "run": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "fork": lambda: os.fork() or os._exit(0),
        "signal": lambda: os.kill(os.getppid(), 0),
        "own signal": lambda: os.kill(os.getpid(), 0),
        "thread": run_thread,
        "own source": lambda: Path(os.__file__).read_text(),
    }
    found = {}
    for name, deed in deeds.items():
        try:
            deed()
            found[name] = True
        except OSError:
            found[name] = False
    return found


def answer_tried(asked: Any, data: bytes) -> Answer:
    return tried(*asked), ()


def answer_echo(asked: Any, data: bytes) -> Answer:
    return asked, [data]


def answer_talk(asked: Any, data: bytes) -> Answer:
    """Writes to where a library prints, and gives what it finds where it would be asked."""
    for number in (1, 2):
        os.write(number, data)
    return os.read(0, 100).decode(), ()


def answer_ends(asked: Any, data: bytes) -> Answer:
    """The devices that the standard input, output and errors are."""
    return [os.fstat(number).st_rdev for number in (0, 1, 2)], ()


def answer_limits(asked: Any, data: bytes) -> Answer:
    import resource

    return {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("AS", "CORE", "CPU", "FSIZE")
    }, ()


def answer_bytes(asked: Any, data: bytes) -> Answer:
    return len(bytearray(asked)), ()


def answer_crash(asked: Any, data: bytes) -> Answer:
    ctypes.string_at(0)
    return None, ()


def answer_quits(asked: Any, data: bytes) -> Answer:
    """Ends as if all was well, with these bytes instead of an answer."""
    for number in range(3, 64):
        try:
            os.write(number, data)
        except OSError:
            continue
    os._exit(0)


def answer_sleeps(asked: Any, data: bytes) -> Answer:
    time.sleep(20)
    return None, ()


def answer_fails(asked: Any, data: bytes) -> Answer:
    raise TypeError("of two\nlines")


def answer_files(asked: Any, data: bytes) -> Answer:
    """Which of these files are open here."""
    found = []
    for number in range(256):
        try:
            found.append(os.fstat(number).st_ino)
        except OSError:
            continue
    return found, ()


def main() -> None:
    """With only some walls, in a process of its own: prints which walls stand and what it could do.

    Then it becomes another process, if it can.
    """
    names, folder, port = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
    rules = walls.landlock_rules() if "landlock" in names else None
    if "seccomp" not in names:
        walls._filter = lambda _: False
    if "namespace" not in names:
        walls._namespace = lambda _: False
    stand = walls.confine(None, None, rules)
    print(json.dumps([stand, tried(folder, port)]), flush=True)
    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-c", "print('became another')"])


if __name__ == "__main__":
    main()
