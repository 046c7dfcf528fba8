"""Orders of dimensions in memory: dimension i in memory is dimension order[i] of the model's own tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Order = tuple[int, ...]


def channels_last(rank: int) -> Order:
    """The order of dimensions with channels, dimension 1, at the end."""
    return (0, *range(2, rank), 1) if rank > 1 else tuple(range(rank))


def reshaped(shape: Sequence[int], order: Order, after: Sequence[int]) -> tuple[Order, Order, bool]:
    """Orders in which a reshape from `shape` to `after`, none of them empty, is a view: of what is read and of what is
    given, and whether no groups of dimensions that become others together are torn apart in memory now.

    Groups have the order of their first dimensions in memory, and within them that of `shape`.
    """
    long = [dimension for dimension in order if shape[dimension] > 1]
    parts = sorted(_groups(shape, after), key=lambda group: min(map(long.index, group[0])))
    wanted = [dimension for group, _ in parts for dimension in group]
    held = order if wanted == long else (*(d for d in order if shape[d] == 1), *wanted)
    places = [[long.index(dimension) for dimension in group] for group, _ in parts]
    beside = all(max(each) - min(each) < len(each) for each in places)
    return held, _with_single(tuple(dimension for _, group in parts for dimension in group), after), beside


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The dimensions above 1 that a reshape makes of others, as few together as possible."""
    ahead, behind = ([d for d, n in enumerate(shape) if n > 1] for shape in (before, after))
    groups: list[tuple[list[int], list[int]]] = []
    while ahead:  # the shapes have as many elements, so both end together
        group = [ahead.pop(0)], [behind.pop(0)]
        while (left := prod(before[d] for d in group[0])) != (right := prod(after[d] for d in group[1])):
            shorter, rest = (group[0], ahead) if left < right else (group[1], behind)
            shorter.append(rest.pop(0))
        groups.append(group)
    return groups


def _with_single(order: Order, shape: Sequence[int]) -> Order:
    """The order with the dimensions of size 1 among the others: the plain one or that of images if it can be, else each
    behind the one before it.
    """
    for known in (tuple(range(len(shape))), channels_last(len(shape))):
        if tuple(dimension for dimension in known if shape[dimension] > 1) == order:
            return known
    found = list(order)
    for dimension in (d for d, n in enumerate(shape) if n == 1):
        found.insert(found.index(dimension - 1) + 1 if dimension else 0, dimension)
    return tuple(found)
