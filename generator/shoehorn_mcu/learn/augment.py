"""Data augmentation: while a network is trained, each image is shifted by a few pixels or mirrored, by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.learner import AUGMENTATIONS

_SMALL = 40  # pixels: a smaller image is shifted by up to 2 pixels, or an eighth of its size where that is less

Augment = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def augmentation(names: Sequence[str], shape: tuple[int, ...]) -> Augment:
    """The function that augments a batch of images. `shape` is the height, width and channels of one image.

    "shift" moves each image in a random direction: by up to 2 pixels, or by up to a sixteenth of its size if it has 40
    pixels or more. The pixels at the edge are repeated, because zeros would be black with one preprocessing and grey
    with another. "flip" mirrors an image from left to right with a probability of one half.
    """
    if unknown := [name for name in names if name not in AUGMENTATIONS]:
        raise SlimError(f"augment: {unknown[0]!r} is unknown; {', '.join(AUGMENTATIONS)} are possible")
    if not names:
        return lambda x, _: x
    if len(shape) != 3:
        raise SlimError(f"augment: the input of {'x'.join(map(str, shape))} is no image; leave augment out")
    height, width, _ = shape
    shifts, flips = "shift" in names, "flip" in names

    def places(count: int, size: int, chance: torch.Generator) -> torch.Tensor:
        """[samples, size]: where each row or column of the new image comes from."""
        most = (min(2, size // 8) if size < _SMALL else size // 16) if shifts else 0
        moved = torch.randint(-most, most + 1, (count, 1), generator=chance)
        return (torch.arange(size) + moved).clamp(0, size - 1)

    def augment(x: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
        down, across = places(len(x), height, chance), places(len(x), width, chance)
        if flips:
            mirrored = torch.rand((len(x), 1), generator=chance) < 0.5
            across = torch.where(mirrored, across.flip(1), across)
        return x[torch.arange(len(x))[:, None, None], down[:, :, None], across[:, None, :]]

    return augment
