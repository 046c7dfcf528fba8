"""Hears of every process that Shoehorn starts while tests run: it must not take modules from the current directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_OURS = tuple(f"{_ROOT / folder}/" for folder in ("generator", "host_tools"))
_SAFE = "PYTHONSAFEPATH"


def listen() -> None:
    """From now on; such a process is an AssertionError where it would start."""
    popen, system = subprocess.Popen.__init__, os.system

    def start(process: subprocess.Popen[Any], args: Any, *more: Any, **options: Any) -> None:
        _heard(args, options.get("env"))
        popen(process, args, *more, **options)

    def run(command: str) -> int:
        _heard(command, None)
        return system(command)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]
    os.system = run  # an audit hook would hear of all else that Python does, and cost a second in a hundred


def _heard(command: Any, env: Mapping[str, str] | None) -> None:
    if _is_ours(sys._getframe(2)):
        assert (env or {}).get(_SAFE), f"{command} is started without env=environment(), and may take a model's modules"


def _is_ours(frame: FrameType | None) -> bool:
    """Whether a module of Shoehorn asked for it."""
    while frame is not None and frame.f_code.co_filename == subprocess.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OURS)
