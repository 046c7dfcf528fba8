"""PyTorch as equal bytes need it: a fixed number of threads, and only algorithms that can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from shoehorn_mcu.ir import Array


@contextmanager
def fixed(threads: int, strict: bool = True) -> Iterator[None]:
    """Within it PyTorch computes with so many threads; `strict`: it raises for an op without a repeatable algorithm."""
    deterministic = torch.utils.deterministic
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    filled = deterministic.fill_uninitialized_memory
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict or before[1])
    deterministic.fill_uninitialized_memory = False  # nothing reads such memory; to fill it takes a fifth of the time
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        deterministic.fill_uninitialized_memory = filled


def tensor(array: Array) -> torch.Tensor:
    """The array as a tensor, in the same memory where that may be written to."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def generator(seed: int, purpose: int) -> torch.Generator:
    """A generator of its own for a purpose."""
    made = torch.Generator()
    made.manual_seed(int(np.random.default_rng([seed, purpose]).integers(1 << 62)))
    return made
