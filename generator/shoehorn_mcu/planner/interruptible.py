"""Runs C in a thread, because only the main thread receives Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from math import inf
from time import monotonic
from typing import TypeVar

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
    future = _threads(os.getpid()).submit(work)
    try:
        while not future.done() and monotonic() < end:
            wait([future], min(_LOOK_SECONDS, end - monotonic()))
    finally:
        while not future.done():
            stop()
            wait([future], _LOOK_SECONDS)
    return future.result()


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of this process, kept because starting one takes longer than most calls; a fork has none of them."""
    return ThreadPoolExecutor(thread_name_prefix="interruptible")
