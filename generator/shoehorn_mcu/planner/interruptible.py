"""Runs C in a thread, because only the main thread receives Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from math import inf
from threading import current_thread, main_thread
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")
# Any thread may receive the signal, but Python handles it in the main one, between two bytecodes; C code that was just
# about to start may miss the first `stop()`, so it is repeated at this interval.
_LOOK_SECONDS = 0.1


def interruptible(work: Callable[[], T], stop: Callable[[], None], seconds: float | None = None) -> T:
    """Runs `work` in a thread and returns its result; calls `stop()` after `seconds`, or on Ctrl-C, then re-raised.

    Not by Thread.join: in CPython 3.11 a Ctrl-C within it marks a thread that runs as ended, so that the next join
    returns at once and the process ends under the running C.
    """
    end = monotonic() + (inf if seconds is None else seconds)
    future: Future[T] | None = None
    try:
        with _without_ctrl_c():
            future = _threads(os.getpid()).submit(work)
        while not future.done() and monotonic() < end:
            wait([future], min(_LOOK_SECONDS, end - monotonic()))
    finally:
        with _without_ctrl_c():
            while future and not future.done():
                stop()
                wait([future], _LOOK_SECONDS)
    return future.result()


def stoppable(work: Callable[[], T], stop: Any, seconds: float | None = None) -> T:
    """The same for C that ends soon after its flag `stop`, an `int32_t *`, is 1."""

    def halt() -> None:
        stop[0] = 1

    return interruptible(work, halt, seconds)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Holds a Ctrl-C back until the end of this context.

    One that is raised while a thread starts leaves a thread of which the executor does not know, so that the process
    never ends; one between the start and its result leaves work that nobody stops.
    """
    handler = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or handler is None:  # only the main thread gets it; None: C handles it
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            signal.raise_signal(signal.SIGINT)


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of this process, kept because starting one takes longer than most calls; a fork has none of them."""
    return ThreadPoolExecutor(thread_name_prefix="interruptible")
