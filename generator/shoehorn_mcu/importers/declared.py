"""What a file declares of its values, compared with what the import computes: a difference is a fault of either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.ops.laws import quoted

Sizes = tuple[int | str | None, ...]
"""Of each dimension its size, or the name that stands for it; None where the file says neither."""


@dataclass(frozen=True)
class Declared:
    """A value as its file declares it, as far as it does."""

    shape: Sizes | None = None  # None: not even the number of dimensions
    dtype: str = ""  # the element type as the import holds it; "" where it is not declared

    def __str__(self) -> str:
        known = "" if self.shape is None else "x".join("?" if size is None else str(size) for size in self.shape)
        return _in_words(self.dtype, None if self.shape is None else known)


@dataclass
class Declarations:
    """All declared values of a file, by name, and the sizes that names of dimensions have had so far."""

    values: Mapping[str, Declared]
    cure: str  # what the user does about a difference
    sizes: dict[str, int] = field(default_factory=dict)

    def check(self, name: str, shape: Sequence[int], dtype: str) -> None:
        """Compares a value that is computed. Raises ImportFault where it is another than the declared one."""
        said = self.values.get(name)
        if said is None:
            return
        found = _in_words(dtype if said.dtype else "", None if said.shape is None else "x".join(map(str, shape)))
        if said.dtype not in ("", dtype) or not _fits(said.shape, shape):
            raise ImportFault(f"{quoted(name)} is computed as {found}, but the file declares {said}; {self.cure}")
        for symbol, size in zip(said.shape or (), shape, strict=False):
            if isinstance(symbol, str) and self.sizes.setdefault(symbol, size) != size:
                both = f"so its dimension {quoted(symbol)} is {size}, which was {self.sizes[symbol]} before"
                raise ImportFault(f"{quoted(name)} is computed as {found}, {both}; {self.cure}")


def _fits(said: Sizes | None, shape: Sequence[int]) -> bool:
    """Whether the shape has all sizes that are declared."""
    if said is None:
        return True
    return len(said) == len(shape) and all(not isinstance(a, int) or a == b for a, b in zip(said, shape, strict=True))


def _in_words(dtype: str, sizes: str | None) -> str:
    """An element type and a shape, as far as there are: `float32 1x3x7x7`; no dimension is `a number`."""
    shape = "" if sizes is None else sizes or "a number"
    return " ".join(filter(None, (dtype, shape)))
