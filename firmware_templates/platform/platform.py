# SPDX-License-Identifier: 0BSD
"""The PlatformIO platform `shoehorn`: no package to download, the tools come from PyPI."""

import json
from pathlib import Path

from platformio.dependencies import get_core_dependencies
from platformio.package.manager.tool import ToolPackageManager
from platformio.platform.base import PlatformBase

_RUN_SCONS = '"""PyPI\'s SCons under the name that PlatformIO starts."""\n\nfrom SCons.Script import main\n\nmain()\n'


def _version() -> str:
    """The least version of tool-scons that this PlatformIO accepts: `~4.41101.0` -> `4.41101.0`."""
    return get_core_dependencies()["tool-scons"].lstrip("~^>= ")


def _offer_scons() -> None:
    """Installs PyPI's SCons where PlatformIO looks for its own copy, so that PlatformIO downloads none."""
    folder = Path(ToolPackageManager().package_dir) / "tool-scons"
    if folder.exists():
        return
    identity = {"name": "tool-scons", "version": _version()}
    spec = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None, "uri": None}
    folder.mkdir(parents=True)
    (folder / "scons.py").write_text(_RUN_SCONS)
    (folder / "package.json").write_text(json.dumps(identity))
    (folder / ".piopm").write_text(json.dumps({"type": "tool", **identity, "spec": spec}))


_offer_scons()


class ShoehornPlatform(PlatformBase):
    """PlatformIO's platform class; builder/main.py builds, builder/upload.py flashes."""
