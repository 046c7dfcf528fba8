"""Runs C beside the main thread, which alone hears Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
_AGAIN_SECONDS = 0.1  # C that had not quite begun may miss the first word


def beside(work: Callable[[], T], stop: Callable[[], None], seconds: float | None = None) -> T:
    """What `work` gives. After `seconds`, or on Ctrl-C, which is raised again, `stop` is to make it return soon.

    Not by Thread.join: in CPython 3.11 a Ctrl-C within it marks a thread that runs as ended, so that the next join
    returns at once and the process ends under the running C.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            wait([future], seconds)
        finally:
            while not future.done():
                stop()
                wait([future], _AGAIN_SECONDS)
        return future.result()
