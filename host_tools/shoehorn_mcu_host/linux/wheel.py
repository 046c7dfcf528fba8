"""Writes a wheel: an archive with a module, and the three files by which installers know it.

The format is that of PyPA's specifications "Binary distribution format", "Core metadata" and "Recording installed
projects".
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence

from shoehorn_mcu_host.base.about import About

_PYTHON = "cp311-abi3"
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that an archive can have
_PLAIN, _PROGRAM = 0o100644, 0o100755
_UNIX = 3


def file_name(about: About, platforms: Sequence[str]) -> str:
    """The name of the wheel's file."""
    return f"{about.name}-{about.version}-{_PYTHON}-{'.'.join(platforms)}.whl"


def wheel(about: About, platforms: Sequence[str], files: Mapping[str, bytes]) -> bytes:
    """The archive of the files, by their paths below site-packages; equal arguments give equal bytes."""
    place = f"{about.name}-{about.version}.dist-info"
    members = dict(sorted(files.items()))
    members[f"{place}/METADATA"] = _metadata(about).encode()
    members[f"{place}/WHEEL"] = _wheel(about, platforms).encode()
    rows = [f"{path},sha256={_sum(data)},{len(data)}" for path, data in members.items()]
    members[f"{place}/RECORD"] = "\n".join((*rows, f"{place}/RECORD,,", "")).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, data in members.items():
            entry = zipfile.ZipInfo(path, _TIME)
            entry.create_system = _UNIX
            entry.external_attr = (_PROGRAM if path.endswith(".so") else _PLAIN) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return made.getvalue()


def _sum(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _metadata(about: About) -> str:
    fields = {
        "Metadata-Version": "2.1",
        "Name": about.name,
        "Version": about.version,
        "Summary": about.summary,
        "License": "0BSD",
        "Requires-Python": ">=3.11",
        "Requires-Dist": "numpy",
        "Description-Content-Type": "text/markdown",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items()) + f"\n{about.description}"


def _wheel(about: About, platforms: Sequence[str]) -> str:
    fields = ["Wheel-Version: 1.0", f"Generator: {about.generator}", "Root-Is-Purelib: false"]
    return "\n".join((*fields, *(f"Tag: {_PYTHON}-{each}" for each in platforms), ""))
