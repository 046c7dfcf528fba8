"""Files in which a training goes on: written beside, synced and renamed, so there is always a whole one."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from shoehorn_mcu.slim.fault import SlimError

State: TypeAlias = Mapping[str, Any]
"""Tensors, numbers, texts, and lists and mappings of them."""


def write(path: Path, state: State) -> None:
    """Replaces the file at once. Raises OSError where it cannot be written; the file from before is there then."""
    held = io.BytesIO()
    torch.save(dict(state), held)
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("wb") as file:
            file.write(held.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path, identity: str) -> State | None:
    """What was written for this training; None where there is no file. Raises SlimError for any other file."""
    try:
        held = io.BytesIO(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SlimError(f"{path}: the checkpoint cannot be read: {error.strerror}") from None
    try:
        found = torch.load(held, map_location="cpu", weights_only=True)
    except Exception:  # PyTorch raises errors of many kinds for a file that it has not written
        found = None
    if not isinstance(found, dict) or found.get("identity") != identity:
        raise SlimError(f"{path}: is no checkpoint of this training; remove it to begin anew")
    return found
