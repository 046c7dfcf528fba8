"""`runtimes.answer_run` in a process that has imported PyTorch before it is locked in.

PyTorch looks for a folder for its caches while it is imported, and makes one, which a process that is locked in cannot.
"""

from __future__ import annotations

import contextlib
import importlib

from shoehorn_mcu_host.validate.runtimes import answer_run

__all__ = ["answer_run", "prepare"]
_NEEDED = ("torch", "torch.export.pt2_archive._package", "torch.ao.quantization.fx._decomposed")


def prepare() -> None:
    """Imports the modules of PyTorch that run a model; the answer to a request names a module that is missing."""
    for name in _NEEDED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
