"""Reads PyTorch's archives without PyTorch: which kind a file is, its members within limits, and no pickle of Python's.

PyTorch is given an archive that `Archive.packed` writes anew from members that were checked here, never the user's
file. What is trusted, and why:

- A program of torch.export (`.pt2`) is JSON and raw tensors. Where that is not enough, torch.export.load unpickles in
  full: example inputs, weights of subclasses of Tensor, objects. The first are left out, the others are refused. The
  JSON could run code too; `torch/program.py` checks it.
- TorchScript is `data.pkl` and source text, which PyTorch reads with an unpickler of its own in C++. That one builds
  numbers, lists, tensors and objects of the archive's own classes, and imports no Python. The text is TorchScript,
  which the interpreter runs during the export. `torch/script.py` checks both; ops are those of `torch/ops.py`.
- Anything else that torch.save writes is a pickle, and refused.

Behind that, `torch.py` looks the ops up once more before anything runs, in a process that can write no file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from shoehorn_mcu.base.errors import first_line
from shoehorn_mcu.importers.content import DAMAGED, FILE_LIMIT_BYTES
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.torch import program, script

MOST_MEMBERS = 100_000
MOST_RATIO = 1000  # decompressed bytes per byte of the file: deflate reaches this with zeros only
_SMALL_BYTES = 1 << 20  # up to which the ratio does not matter
_JSON_LIMIT_BYTES = 1 << 28

EXPORT = 'torch.export.save(torch.export.export(module.eval(), (example,)), "model.pt2")'
AGAIN = f"save it again with {EXPORT}"
_TEXTS = ("archive_format", "archive_version", "byteorder", ".data/version")
_MODEL = "models/model.json"
_EXAMPLES = "data/sample_inputs/model.pt"
_TENSORS = {
    "data/weights/model_weights_config.json": "weight",
    "data/constants/model_constants_config.json": "tensor",
}
"""Lists of a program's tensors, with the prefix of the members that may hold them."""
_SCRIPT = re.compile(r"data\.pkl|constants\.pkl|traced_inputs\.pkl|version|byteorder|(data|constants|traced_inputs)/\d+"
                     r"|code/[\w/.]+\.py|\.data/version")  # fmt: skip


class Kind(Enum):
    """What an archive holds."""

    PROGRAM = "torch.export"
    SCRIPT = "TorchScript"


@dataclass(frozen=True)
class Archive:
    """A checked archive: its members by their names below the root folder."""

    kind: Kind
    members: Mapping[str, bytes]

    def packed(self) -> bytes:
        """The archive as PyTorch reads it, without compression."""
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as file:
            for name, data in self.members.items():
                file.writestr(zipfile.ZipInfo(f"archive/{name}"), data)
        return held.getvalue()


def read(path: Path) -> Archive:
    """The archive in a file. Raises ImportFault, without the file's name, where it is damaged or not safe; OSError."""
    size = path.stat().st_size
    if size >= FILE_LIMIT_BYTES:
        raise ImportFault(f"larger than {FILE_LIMIT_BYTES} bytes")
    with path.open("rb") as file:
        start = file.read(2)
        if start[:1] == b"\x80":
            raise _pickle()
        if start != b"PK":
            raise ImportFault(f"no archive of PyTorch, or a damaged one; {AGAIN}")
        try:
            with zipfile.ZipFile(file) as archive:
                return _checked(archive, size)
        except ImportFault:
            raise
        except RecursionError:
            raise ImportFault(f"its JSON is nested too deeply; {AGAIN}") from None
        except DAMAGED as error:
            raise ImportFault(f"damaged ({first_line(error)}); {AGAIN}") from error


def _pickle() -> ImportFault:
    return ImportFault(f"written by torch.save: a pickle, which can run any code; {AGAIN}")


def _checked(archive: zipfile.ZipFile, size: int) -> Archive:
    infos = archive.infolist()
    total = sum(info.file_size for info in infos)
    if len(infos) > MOST_MEMBERS or total >= FILE_LIMIT_BYTES or total > max(_SMALL_BYTES, MOST_RATIO * size):
        raise ImportFault(f"{len(infos):,} members of {total:,} bytes in {size:,}: no model is like that; {AGAIN}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        _, _, name = info.filename.partition("/")
        if name in members:
            raise ImportFault(f"member '{name}' is there twice; {AGAIN}")
        members[name] = info
    if any(name.startswith("data/aotinductor/") for name in members):
        raise ImportFault(f"compiled by AOTInductor for this kind of machine; {AGAIN}")
    if "serialized_exported_program.json" in {info.filename for info in infos}:
        raise ImportFault(f"written by torch 2.7 or older, with pickles; {AGAIN} of torch 2.9 or newer")
    if "archive_format" in members:
        return _program(archive, members)
    if "constants.pkl" in members and "data.pkl" in members:
        return _script(archive, members)
    if "data.pkl" in members:
        raise _pickle()
    raise ImportFault(f"no archive of PyTorch; {AGAIN}")


def _program(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> Archive:
    """What torch.export.save wrote: the program, and the tensors that its lists name."""
    if _MODEL not in members:
        found = sorted(name for name in members if name.startswith("models/"))
        what = f"its programs are {', '.join(found)}" if found else "it has no program"
        raise ImportFault(f"{what}, not {_MODEL}; {AGAIN}")
    kept = {name: archive.read(members[name]) for name in _TEXTS if name in members}
    for listed, prefix in _TENSORS.items():
        if listed not in members:
            raise ImportFault(f"no member {listed}: written by torch 2.8 or older; {AGAIN} of torch 2.9 or newer")
        tensors = _json(archive, members, listed)
        kept[listed] = json.dumps(tensors).encode()
        folder = listed.rpartition("/")[0]
        for path, least in program.tensor_members(tensors, prefix).items():
            name = f"{folder}/{path}"
            if name not in members:
                raise ImportFault(f"member '{name}' is missing; {AGAIN}")
            if members[name].file_size < least:
                raise ImportFault(f"member '{name}' has {members[name].file_size:,} bytes, not {least:,}; {AGAIN}")
            kept[name] = archive.read(members[name])
    kept[_MODEL] = json.dumps(program.checked(_json(archive, members, _MODEL))).encode()
    kept[_EXAMPLES] = b""
    return Archive(Kind.PROGRAM, kept)


def _json(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str) -> Any:
    if members[name].file_size > _JSON_LIMIT_BYTES:
        raise ImportFault(f"member '{name}' is larger than {_JSON_LIMIT_BYTES >> 20} MB; {AGAIN}")
    try:
        return json.loads(archive.read(members[name]))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ImportFault(f"member '{name}' is no JSON: {first_line(error)}; {AGAIN}") from error


def _script(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> Archive:
    """A module of torch.jit.save, without extra files."""
    kept = {name: archive.read(info) for name, info in members.items() if _SCRIPT.fullmatch(name)}
    script.check(kept)
    return Archive(Kind.SCRIPT, kept)
