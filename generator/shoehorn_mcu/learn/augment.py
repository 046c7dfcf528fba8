"""Data augmentation: while a network is trained, images are shifted by a few pixels, mirrored and mixed, by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch.nn import functional

from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.learner import AUGMENTATIONS

_SMALL = 40  # pixels: a smaller image is shifted by up to 2 pixels, or an eighth of its size where that is less
_MIXED = 0.5  # of the samples of a batch

Labels: TypeAlias = torch.Tensor | None
"""Classes [samples], or the share of each class [samples, classes], or nothing."""
Augment = Callable[[torch.Tensor, Labels, torch.Generator], tuple[torch.Tensor, Labels]]
_Move = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def augmentation(names: Sequence[str], shape: tuple[int, ...], classes: int) -> Augment:
    """The function that augments a batch and its labels. `shape` is the height, width and channels of one image.

    "shift" moves each image in a random direction: by up to 2 pixels, or by up to a sixteenth of its size if it has 40
    pixels or more. The pixels at the edge are repeated, because zeros would be black with one preprocessing and grey
    with another. "flip" mirrors an image from left to right with a probability of one half. "mix" makes one half of the
    samples a weighted mean of two, and their labels as well (mixup: Zhang et al., ICLR 2018, with alpha 1); the samples
    need not be images.
    """
    if unknown := [name for name in names if name not in AUGMENTATIONS]:
        raise SlimError(f"augment: {unknown[0]!r} is unknown; {', '.join(AUGMENTATIONS)} are possible")
    moved = _moved(shape, "shift" in names, "flip" in names) if {"shift", "flip"} & {*names} else None

    def augment(x: torch.Tensor, y: Labels, chance: torch.Generator) -> tuple[torch.Tensor, Labels]:
        if moved is not None:
            x = moved(x, chance)
        return _mixed(x, y, classes, chance) if "mix" in names else (x, y)

    return augment


def _moved(shape: tuple[int, ...], shifts: bool, flips: bool) -> _Move:
    """The function that shifts and mirrors a batch of images."""
    if len(shape) != 3:
        raise SlimError(f"augment: the input of {'x'.join(map(str, shape))} is no image; leave shift and flip out")
    height, width, _ = shape

    def places(count: int, size: int, chance: torch.Generator) -> torch.Tensor:
        """[samples, size]: where each row or column of the new image comes from."""
        most = (min(2, size // 8) if size < _SMALL else size // 16) if shifts else 0
        moved = torch.randint(-most, most + 1, (count, 1), generator=chance)
        return (torch.arange(size) + moved).clamp(0, size - 1)

    def move(x: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
        down, across = places(len(x), height, chance), places(len(x), width, chance)
        if flips:
            mirrored = torch.rand((len(x), 1), generator=chance) < 0.5
            across = torch.where(mirrored, across.flip(1), across)
        return x[torch.arange(len(x))[:, None, None], down[:, :, None], across[:, None, :]]

    return move


def _mixed(x: torch.Tensor, y: Labels, classes: int, chance: torch.Generator) -> tuple[torch.Tensor, Labels]:
    """Samples and labels, one half of them by chance with a random share of another sample of the batch."""
    other = torch.randperm(len(x), generator=chance)
    share = torch.rand(len(x), generator=chance)
    share = torch.where(torch.rand(len(x), generator=chance) < _MIXED, share, 1.0)

    def mean(each: torch.Tensor) -> torch.Tensor:
        weight = share.reshape(-1, *(1 for _ in each.shape[1:]))
        return weight * each + (1 - weight) * each[other]

    return mean(x), None if y is None else mean(functional.one_hot(y, classes).to(x.dtype))
