"""A written project folder, opened by the host tools."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from shoehorn_mcu_host.base.errors import FolderDamaged, HostError
from shoehorn_mcu_host.base.files import read_bytes
from shoehorn_mcu_host.folder import documents
from shoehorn_mcu_host.folder.documents import CURE, ManifestDocument, ReportDocument, WrittenDocument

Json = Mapping[str, Any]
_LARGEST = 1 << 30  # bytes of one file


@dataclass(frozen=True)
class Project:
    """A folder, or of several models in one firmware the view of one: `report` is the model's.

    `spec` is the block `shoehorn` of the board's manifest, checked against its schema.
    """

    folder: Path
    report: ReportDocument
    board_id: str
    spec: Json
    number: int = 0  # of the model in its firmware
    part: str = ""  # the folder of the files that describe the model, below `folder`

    @classmethod
    def open(cls, folder: Path | str) -> Project:
        """Reads the folder; HostError when Shoehorn did not write it, FolderDamaged when it is damaged."""
        root = Path(folder).resolve()
        report = documents.read(root / "report.json", root, ReportDocument)
        board_id = report.board.id
        manifest = documents.read(root / "boards" / f"{board_id}.json", root, ManifestDocument)
        return cls(root, report, board_id, manifest.shoehorn.model_dump())

    @property
    def described(self) -> Path:
        """The folder of the files that describe the model: report.json, plan.json and reference/."""
        return self.folder / self.part

    @cached_property
    def models(self) -> tuple[Project, ...]:
        """The models of the firmware, the first one first; of one model only itself. To be asked of the first."""
        found = [self]
        names = self.report.together.models if self.report.together else ()
        for number, name in enumerate(names[1:], 1):
            path = self.folder / "models" / name / "report.json"
            report = documents.read(path, self.folder, ReportDocument)
            found.append(replace(self, report=report, number=number, part=f"models/{name}"))
        return tuple(found)

    def chosen(self, name: str | None) -> tuple[Project, ...]:
        """All models, or the one of this name; HostError where there is none."""
        names = self.report.together.models if self.report.together else (self.model_name,)
        if name is None:
            return self.models
        found = [each for each, known in zip(self.models, names, strict=True) if name in (known, each.model_name)]
        if not found:
            raise HostError(f"{self.folder}: has no model '{name}'; there are {', '.join(names)}")
        return (found[0],)

    def check_intact(self, *paths: str) -> None:
        """FolderDamaged unless these files, below `described`, are unchanged since gen firmware wrote them.

        For files whose contents decide which memory C code touches: a changed one could crash this program.
        """
        manifest = documents.read(self.folder / ".shoehorn.json", self.folder, WrittenDocument)
        for path in (f"{self.part}/{each}" if self.part else each for each in paths):
            try:
                data = read_bytes(self.folder / path, _LARGEST)
            except OSError as error:
                raise FolderDamaged(f"{self.folder / path}: {error.strerror}; {CURE}") from error
            if hashlib.sha256(data).hexdigest() != manifest.files.get(path):
                raise FolderDamaged(f"{self.folder / path}: damaged: not as gen firmware wrote it; {CURE}")

    def report_as(self, key: str, value: Mapping[str, Any]) -> None:
        """Replaces one entry of the model's report.json."""
        path = self.described / "report.json"
        report = json.loads(path.read_text())
        if report.get(key) != value:
            part = path.with_suffix(".part")
            part.write_text(json.dumps({**report, key: value}, indent=2) + "\n")
            part.replace(path)

    @property
    def model_name(self) -> str:
        return self.report.model.name

    @property
    def build_folder(self) -> Path:
        """Where PlatformIO builds."""
        return self.folder / ".pio" / "build" / self.board_id

    @property
    def elf(self) -> Path:
        return self.build_folder / "firmware.elf"

    @property
    def image(self) -> Path:
        """The file that is flashed."""
        return self.build_folder / (self.spec.get("image") or "firmware.elf")

    @cached_property
    def upload(self) -> ModuleType:
        """The folder's own platform/builder/upload.py: the only code that flashes and boots its board."""
        path = self.folder / "platform" / "builder" / "upload.py"
        spec = importlib.util.spec_from_file_location("shoehorn_upload", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise HostError(f"{self.folder}: no platform/builder/upload.py; write the folder again with gen firmware")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
