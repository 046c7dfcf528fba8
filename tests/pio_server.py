"""PlatformIO without the start of its two processes: builds of tests are forked from one that has imported all.

A build of a small folder takes 0.5 s of CPU time by `python -m platformio`, and most of it is importing PlatformIO, and
then SCons in a second process. Here both are imported once for each process of pytest, and each build is a fork of
that, with the words, the environment, the current directory and the log that `firmware/build.py` gives. PlatformIO
forks again where it would start SCons. All that is computed is what `pio run` computes, and a test compares the images.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

POSSIBLE = sys.platform == "linux"  # elsewhere a process that has imported so much may not bear to be forked

_lock = threading.Lock()
_running: subprocess.Popen[str] | None = None


def ended(command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> int:
    """What `firmware/build.py` has in place of its function of this name."""
    assert list(command[:3]) == [sys.executable, "-m", "platformio"], command
    request = {"words": command[3:], "environment": dict(environment), "folder": str(Path.cwd()), "log": log.name}
    with _lock:
        server = _server()
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
    assert answer, "the process that forks builds has ended"
    return int(answer)


def _server() -> subprocess.Popen[str]:
    global _running
    if _running is None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", __file__]
        _running = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        atexit.register(_end, _running)
    return _running


def _end(server: subprocess.Popen[str]) -> None:
    server.communicate()


def _serve() -> None:
    """Forks a build for each line, until there are no more."""
    import platformio.__main__ as pio

    _import_all()
    for line in sys.stdin:
        request = json.loads(line)

        def build(request: dict[str, Any] = request) -> int:
            with Path(os.devnull).open("rb") as nothing, Path(request["log"]).open("ab") as log:
                for stream, number in ((nothing, 0), (log, 1), (log, 2)):
                    os.dup2(stream.fileno(), number)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            return int(pio.main(["platformio", *request["words"]]))

        print(_forked(build), flush=True)


def _forked(work: Callable[[], int | None]) -> int:
    """The exit code of a fork that does some work and ends."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        code = work() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _import_all() -> None:
    """What PlatformIO and SCons import on the way, and SCons as a fork in place of a process."""
    import platformio.package.manager.platform
    import platformio.proc
    import platformio.run.cli
    import SCons.Script
    import SCons.Tool.ar
    import SCons.Tool.asm
    import SCons.Tool.cc
    import SCons.Tool.cxx
    import SCons.Tool.link
    from elftools.elf import elffile

    sys.path.append(str(Path(__file__).parent))
    import objects

    assert all((platformio, SCons, elffile, objects))
    started = platformio.proc.exec_command

    def exec_command(command: list[str], **streams: Any) -> Any:
        """PlatformIO's function of this name."""
        if Path(command[1]).name != "scons.py":
            return started(command, **streams)

        def build() -> None:
            os.dup2(streams["stdout"].fileno(), 1)
            os.dup2(streams["stderr"].fileno(), 2)
            sys.argv = command[1:]
            SCons.Script.main()

        sys.stdout.flush()
        code = _forked(build)
        for stream in streams.values():
            stream.close()
        return {"out": "", "err": "", "returncode": code}

    platformio.proc.exec_command = exec_command
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the pages that it shares


if __name__ == "__main__":
    _serve()
