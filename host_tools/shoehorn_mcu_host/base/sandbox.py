"""Reads foreign files in processes that are locked in (`walls.py`): models, images and sounds.

C and C++ libraries parse these files. What a file made of such a process can answer wrongly, but neither write a file,
nor reach a network, start another process or run without end; and it answers JSON and bytes, which run nothing here.

Each module that reads such files has a helper process, which imports the module once and forks a child for every
request: the child is locked in, is given bytes, answers bytes and ends. A helper has one thread, touches no foreign
byte itself, and lives as long as this process; the next request starts it again where it ended. A child inherits no
file but its own pipe. Where processes cannot be forked, the helper answers itself, and a file that ends it ends it for
that request alone.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from shoehorn_mcu_host.base import walls
from shoehorn_mcu_host.base.children import environment
from shoehorn_mcu_host.base.errors import NotConfined

if sys.platform != "win32":
    import select

Data = bytes | bytearray | memoryview
Answer = tuple[object, Sequence[Data]]
"""What a function that answers a request gives: what JSON can hold, and bytes in pieces."""

Ask = Callable[[], Sequence[Data]]

_FORKS = sys.platform != "win32"
_START = f"from {__name__} import serve; serve()"
_PIECE = 1 << 16
_MOST_ANSWER = 1 << 33
_LAST_WORDS = 5  # seconds in which a process whose pipe is closed ends by itself
_ONE_THREAD = dict.fromkeys(
    (
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
        "ORT_DISABLE_TELEMETRY",  # ONNX Runtime has a thread that reports to Microsoft, since 1.29
    ),
    "1",
)
_REQUEST = struct.Struct("=IQ")  # bytes of JSON, bytes of data
_COUNT = struct.Struct("=I")  # bytes of a piece; 0 ends an answer, and the child's exit code follows
_CODE = struct.Struct("=i")


@dataclass(frozen=True)
class Limits:
    """How much a request may take: bytes of memory beyond the libraries, and seconds."""

    memory: int = 8 << 30
    seconds: float = 600


class Ended(Exception):
    """The process ended without an answer. The message says how, and continues a sentence: `X ended with SIGSEGV`."""


class Failed(Exception):
    """The function raised an exception that is none of its answers; the message is its class and text, in one line."""


def answer(task: str, head: object, data: Data = b"", limits: Limits = Limits()) -> tuple[Any, bytearray]:
    """What the function `task`, "module:name", answers to JSON and bytes, in a process that is locked in.

    The function is called with both and returns an Answer. Raises Ended and Failed. Warns once, by NotConfined, where
    this system lacks a wall.
    """
    module, _, name = task.partition(":")
    helper = _helper(module)
    with helper.lock:
        return helper.asked(name, head, data, limits)


def end() -> None:
    """Ends all helpers; the next requests start others."""
    for helper in _helpers.values():
        helper.end()


_helpers: dict[str, _Helper] = {}
_owner = os.getpid()
_warned = False


def _helper(module: str) -> _Helper:
    global _owner
    if os.getpid() != _owner:  # a fork of the process that has the helpers: their pipes are not its own
        _helpers.clear()
        _owner = os.getpid()
    return _helpers.setdefault(module, _Helper(module))


class _Helper:
    """The helper process of a module, seen from here."""

    def __init__(self, module: str) -> None:
        self.module, self.lock = module, threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def asked(self, name: str, head: object, data: Data, limits: Limits) -> tuple[Any, bytearray]:
        """The answer to one request."""
        process = self._running()
        late = threading.Event()
        watch = threading.Timer(limits.seconds, self._too_late, (process, late))
        watch.daemon = True
        watch.start()
        try:
            told, made = _exchanged(process, [name, head, limits.memory, limits.seconds], data)
        except (OSError, EOFError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LAST_WORDS)
            self.end()
            if late.is_set():
                raise Ended(f"took longer than {limits.seconds:g} s") from None
            raise Ended(_how(process.returncode)) from None
        except BaseException:  # Ctrl-C: what is under way is of no use
            self.end()
            raise
        finally:
            watch.cancel()
        _warn_once(told["walls"])
        if "failed" in told:
            failed = Failed(told["failed"])
            failed.add_note(told["traceback"])
            raise failed
        if "ended" in told:
            raise Ended(told["ended"])
        return told["answer"], made

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-c", _START, self.module]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(**_ONE_THREAD),
                start_new_session=True,  # so Ctrl-C reaches this process only
            )
        return self.process

    def _too_late(self, process: subprocess.Popen[bytes], late: threading.Event) -> None:
        late.set()
        _kill(process)

    def end(self) -> None:
        """Ends the process and what it started."""
        process, self.process = self.process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    elif process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _exchanged(process: subprocess.Popen[bytes], head: object, data: Data) -> tuple[Any, bytearray]:
    """Sends a request, and reads the answer. Raises OSError and EOFError where the process ends before."""
    assert process.stdin and process.stdout
    words = json.dumps(head).encode()
    process.stdin.write(_REQUEST.pack(len(words), len(data)))
    process.stdin.write(words)
    process.stdin.write(data)
    process.stdin.flush()
    pieces = bytearray()
    while count := _COUNT.unpack(_exactly(process.stdout, _COUNT.size))[0]:
        pieces += _exactly(process.stdout, count)
        if len(pieces) > _MOST_ANSWER:
            raise EOFError
    code = _CODE.unpack(_exactly(process.stdout, _CODE.size))[0]
    place = pieces.find(b"\n")
    try:
        told = json.loads(pieces[:place]) if place >= 0 else None
    except (ValueError, RecursionError):
        told = None
    if (
        code
        or not isinstance(told, dict)
        or not isinstance(told.get("walls"), list)
        or not {"answer", "failed", "ended"} & told.keys()
    ):
        return {"ended": _how(code), "walls": None}, bytearray()
    del pieces[: place + 1]
    return told, pieces


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _how(code: int | None) -> str:
    if code is None or code == 0:
        return "ended without an answer"
    if code > 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended with {signal.Signals(-code).name}"
    return f"ended with signal {-code}"


def _warn_once(stand: Sequence[str] | None) -> None:
    """`stand`: the walls; None: the process ended before it could say."""
    global _warned
    open_to = "" if stand is None else walls.lacking(stand)
    if open_to and not _warned:
        _warned = True
        warnings.warn(
            f"models, images and sounds are read in a process of their own, which {open_to}: this system has no way to "
            "forbid it; read files of others on Linux 5.13 or newer",
            NotConfined,
            stacklevel=4,
        )


def serve() -> None:
    """What the helper process does: imports its module, and answers requests until this process closes their pipe."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    module = importlib.import_module(sys.argv[1])
    getattr(module, "prepare", lambda: None)()
    rules = walls.landlock_rules()
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages that it shares with the others
    with contextlib.suppress(EOFError):
        while True:
            words, count = _REQUEST.unpack(_exactly(source, _REQUEST.size))
            head, data = json.loads(_exactly(source, words)), _exactly(source, count)
            ask = partial(_answered, module, rules, head, data)
            code = _by_child(ask, source, sink) if _FORKS else _by_itself(ask, sink)
            sink.write(_COUNT.pack(0) + _CODE.pack(code))
            sink.flush()


def _by_child(ask: Ask, source: IO[bytes], sink: IO[bytes]) -> int:
    """Has a child answer; gives its exit code."""
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number in (inside, source.fileno(), sink.fileno()):
                os.close(number)
            for piece in ask():
                _write(outside, piece)
        finally:
            os._exit(0)
    os.close(outside)
    try:
        for piece in _until_end(inside, source.fileno()):
            sink.write(_COUNT.pack(len(piece)) + piece)
    except (OSError, EOFError):
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(inside)
        status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def _until_end(pipe: int, source: int) -> Iterator[bytes]:
    """The pieces of a child's answer. Raises EOFError where the process that asked is there no more."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    waiting.register(source, select.POLLHUP)
    while True:
        ready = {number for number, _ in waiting.poll()}
        if pipe in ready:
            piece = os.read(pipe, _PIECE)
            if not piece:
                return
            yield piece
        elif source in ready:
            raise EOFError


def _by_itself(ask: Ask, sink: IO[bytes]) -> int:
    for piece in ask():
        for start in range(0, len(piece), _PIECE):
            part = piece[start : start + _PIECE]
            sink.write(_COUNT.pack(len(part)))
            sink.write(part)
    return 0


def _answered(module: object, rules: int | None, head: Any, data: bytes) -> Sequence[Data]:
    """A line of JSON and bytes, from within the walls."""
    name, asked, memory, seconds = head
    stand = walls.confine(memory, seconds, rules) if _FORKS else ()
    function: Callable[[Any, bytes], Answer] = getattr(module, name)
    pieces: Sequence[Data] = ()
    try:
        made, pieces = function(asked, data)
        told: dict[str, object] = {"answer": made}
    except MemoryError:
        told = {"ended": f"needs more than {memory / (1 << 30):g} GB of memory"}
    except Exception as error:
        said = " ".join(str(error).split())
        told = {"failed": f"{type(error).__name__}: {said}", "traceback": traceback.format_exc()}
    return (json.dumps(told | {"walls": stand}).encode() + b"\n", *pieces)


def _write(pipe: int, data: Data) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(pipe, left) :]


atexit.register(end)
