"""A written project folder, as the host tools see it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from shoehorn_mcu.host_tools.errors import HostError

Json = Mapping[str, Any]


def _read(path: Path, folder: Path) -> Any:
    """The JSON value of one of the folder's files."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise HostError(
            f"{folder}: not a Shoehorn folder: no {path.relative_to(folder)}; write one with gen firmware"
        ) from error
    except ValueError as error:
        raise HostError(f"{path}: broken: {error}; write the folder again with gen firmware") from error


@dataclass(frozen=True)
class Project:
    """`report` and `plan` are report.json and plan.json; `spec` is the block `shoehorn` of the board's manifest."""

    folder: Path
    report: Json
    plan: Json
    board_id: str
    spec: Json

    @classmethod
    def open(cls, folder: Path | str) -> Project:
        """Reads the folder; HostError when it is not one of ours."""
        root = Path(folder).resolve()
        report = _read(root / "report.json", root)
        try:
            board_id = report["board"]["id"]
            manifest = _read(root / "boards" / f"{board_id}.json", root)
            return cls(root, report, _read(root / "plan.json", root), board_id, manifest["shoehorn"])
        except (KeyError, TypeError) as error:
            raise HostError(f"{root}: report.json or the manifest says no board; write the folder again") from error

    @property
    def model_name(self) -> str:
        name: str = self.report["model"]["name"]
        return name

    @property
    def build_folder(self) -> Path:
        """Where PlatformIO builds."""
        return self.folder / ".pio" / "build" / self.board_id

    @property
    def elf(self) -> Path:
        return self.build_folder / "firmware.elf"

    @property
    def image(self) -> Path:
        """What is flashed."""
        return self.build_folder / (self.spec.get("image") or "firmware.elf")

    @cached_property
    def upload(self) -> ModuleType:
        """The folder's own platform/builder/upload.py: the one place that knows how its board is flashed and booted."""
        path = self.folder / "platform" / "builder" / "upload.py"
        spec = importlib.util.spec_from_file_location("shoehorn_upload", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise HostError(f"{self.folder}: no platform/builder/upload.py; write the folder again with gen firmware")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
