"""Training in PyTorch: the answer to what slimming asks of a framework (slim/learner.py).

`twin.py` is the torch twin of a graph, `start.py` finds first guesses for new layers, `loop.py` trains. Besides the
importer no other room imports PyTorch. This module does so only when a learner is asked for, so that `gen slim --list`
works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoehorn_mcu.slim.fault import SlimError

if TYPE_CHECKING:
    from shoehorn_mcu.learn.by_torch import Torch


def learner(threads: int = 1, device: str = "cpu") -> Torch:
    """A learner with PyTorch. Raises SlimError where it is not installed, or has no such device."""
    try:
        from shoehorn_mcu.learn import by_torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise SlimError("training needs PyTorch: `pip install shoehorn-mcu[slim]` installs it") from None
    return by_torch.checked(by_torch.Torch(threads, device))
