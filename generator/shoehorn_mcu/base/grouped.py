"""Pairs of keys and values by key, keys in the order in which they come first."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """By key: its values, in order."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def most_by_key(pairs: Iterable[tuple[K, int]]) -> dict[K, int]:
    """By key: the largest of its values."""
    found: dict[K, int] = {}
    for key, value in pairs:
        found[key] = max(value, found.get(key, value))
    return found
