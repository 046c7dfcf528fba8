"""Functions of the user's own files: samples and networks that `file.py:function` gives."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from typing import Any

from shoehorn_mcu.base.errors import printable
from shoehorn_mcu.slim.fault import SlimError


def function_of(where: str) -> tuple[Path, str] | None:
    """The file and the function that `file.py:function` names; None where it names no function."""
    path, _, function = where.rpartition(":")
    return (Path(path), function) if path.endswith(".py") else None


def called(path: Path, function: str) -> Any:
    """What the function returns. Raises SlimError, for an error of the user's own with the line of his file."""
    if not path.is_file():
        raise SlimError(f"{path}: does not exist")
    spec = importlib.util.spec_from_file_location("users_file", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found = getattr(module, function, None)
        if not callable(found):
            raise SlimError(f"{path}: has no function '{function}'")
        return found()
    except (SlimError, KeyboardInterrupt):
        raise
    except BaseException as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = f" line {lines[-1]}" if lines else ""
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise SlimError(f"{path}:{function}: raised in{line or ' it'}: {printable(said)}") from error
