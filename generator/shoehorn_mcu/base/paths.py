"""Finds the data folders: beside the package in a checkout, inside it in an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def _data(name: str) -> Path:
    """The folder `name`, from the wheel's `shoehorn_mcu/_data` or from the checkout's root."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parents[1] / name


RUNTIME_C = _data("runtime_c")
FIRMWARE_TEMPLATES = _data("firmware_templates")
BOARDS = _data("boards")
MODELS = _PACKAGE / "models"
