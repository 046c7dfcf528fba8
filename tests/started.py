"""Hears of every process that Shoehorn starts while tests run: it must not take modules from the current directory."""

from __future__ import annotations

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
    sys.addaudithook(_heard)


def _heard(event: str, told: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.system") and _is_ours(sys._getframe(1)):
        env: Mapping[str, str] = (told[3] if event == "subprocess.Popen" else None) or {}
        assert env.get(_SAFE), f"{told[0]} is started without env=environment(), and may take a model's modules"


def _is_ours(frame: FrameType | None) -> bool:
    """Whether a module of Shoehorn asked for it."""
    while frame is not None and frame.f_code.co_filename == subprocess.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OURS)
