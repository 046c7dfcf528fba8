"""Converter of ONNX's Einsum: operands are combined two at a time, by a product of matrices or element by element.

Only names move: dimensions of a value are renamed and put in another order, and elements are moved where a product of
matrices needs them elsewhere. A constant matrix makes a dense layer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.columns import matmul_of, reduced, without
from shoehorn_mcu.importers.lowering.linear import dense
from shoehorn_mcu.importers.lowering.maps import mapped
from shoehorn_mcu.importers.lowering.movers import shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import DType

Labels = tuple[str, ...]
"""The names of a value's dimensions: letters, and for those of an ellipsis `.1`, `.2`, ... from the last one on."""

_Named = tuple[Labels, Value]
_ELLIPSIS = "..."


def einsum(site: Site) -> Value:
    """Einsum of any number of operands."""
    values = [site.value(place) for place in range(len(site.node.inputs))]
    operands, result = _parsed(site.attribute("equation", ""), values)
    left = [_diagonal(site, labels, value) for labels, value in zip(operands, values, strict=True)]
    total = left.pop(0)
    while left:
        kept = {*result, *(label for labels, _ in left[1:] for label in labels)}
        total = _product(site, total, left.pop(0), kept)
    labels, value = _summed(site, total, result)
    return _in_order(value, labels, result)


def _parsed(equation: str, values: Sequence[Value]) -> tuple[list[Labels], Labels]:
    """The names of the operands' dimensions and those of the result. Raises ImportFault where they do not fit."""
    said, arrow, after = "".join(equation.split()).partition("->")
    terms = said.split(",")
    if len(terms) != len(values):
        raise ImportFault(
            f"its equation '{equation}' is of {len(terms)} operands, it has {len(values)}; export it again"
        )
    operands = [_labels(term, value.rank, equation) for term, value in zip(terms, values, strict=True)]
    _check_sizes(operands, values)
    every = [label for labels in operands for label in labels]
    dots = tuple(sorted({label for label in every if label.startswith(".")}, key=lambda label: -int(label[1:])))
    result = (
        tuple(dots if letter == "." else (letter,) for letter in after.replace(_ELLIPSIS, "."))
        if arrow
        else (dots, *((label,) for label in sorted(set(every) - set(dots)) if every.count(label) == 1))
    )
    named = tuple(label for some in result for label in some)
    if len(set(named)) < len(named) or not set(named) <= set(every):
        raise ImportFault(f"the result of its equation '{equation}' is not of its operands; export it again")
    return operands, named


def _check_sizes(operands: Sequence[Labels], values: Sequence[Value]) -> None:
    """Raises ImportFault where dimensions of one name have different sizes, but for those that are repeated."""
    sizes: dict[str, int] = {}
    for labels, value in zip(operands, values, strict=True):
        for label, size in zip(labels, value.shape, strict=True):
            alone = labels.count(label) == 1
            if size != sizes.setdefault(label, size) and not (alone and 1 in (size, sizes[label])):
                raise ImportFault(f"its dimension '{label}' has {sizes[label]} and {size} elements; export it again")


def _labels(term: str, rank: int, equation: str) -> Labels:
    before, dots, after = term.partition(_ELLIPSIS)
    more = rank - len(before) - len(after)
    if not f"{before}{after}a".isalpha() or more < 0 or (more > 0 and not dots):
        raise ImportFault(f"'{term}' of its equation '{equation}' is not of {rank} dimensions; export it again")
    return (*before, *(f".{more - i}" for i in range(more)), *after)


def _in_order(value: Value, labels: Labels, wanted: Labels) -> Value:
    """The same elements with the model's dimensions in this order."""
    return Value(value.tensor, tuple(wanted.index(labels[dimension]) for dimension in value.order))


def _diagonal(site: Site, labels: Labels, value: Value) -> _Named:
    """Without repeated names: of two dimensions of one name only the elements with the same place in both."""
    while twice := [label for label in labels if labels.count(label) > 1]:
        rest = tuple(place for place, label in enumerate(labels) if label != twice[0])
        first, second, *more = (place for place, label in enumerate(labels) if label == twice[0])
        order = (*rest, *more, first, second)
        *ahead, size, _ = (value.shape[place] for place in order)
        flat = shaped(site, site.ordered(value, order), (*ahead, size * size))
        taken = [*map(range, ahead), range(0, size * size, size + 1)]
        labels = (*(labels[place] for place in (*rest, *more)), twice[0])
        value = as_plain(sliced(site, flat, taken))
    return labels, value


def _summed(site: Site, named: _Named, kept: Collection[str]) -> _Named:
    """Without the dimensions that nothing needs, whose elements are added."""
    labels, value = named
    gone = [place for place, label in enumerate(labels) if label not in kept]
    if not gone:
        return named
    total = without(site, reduced(site, value, gone, lambda a, b: a + b), gone)
    return tuple(label for label in labels if label in kept), total


def _product(site: Site, first: _Named, second: _Named, kept: Collection[str]) -> _Named:
    """Both multiplied, and added along what only they have."""
    a, b = (_summed(site, one, {*kept, *other}) for one, (other, _) in ((first, second), (second, first)))
    both = [label for label in a[0] if label in b[0]]
    added = [label for label in both if label not in kept and _size(a, label) == _size(b, label)]
    if not added:
        made = _multiplied(site, a, b)
    elif a[1].tensor.data is not None and b[1].tensor.data is None:
        made = _matrices(site, b, a, added)
    else:
        made = _matrices(site, a, b, added)
    return _summed(site, made, kept)


def _size(named: _Named, label: str) -> int:
    return named[1].shape[named[0].index(label)]


def _elements(named: _Named, labels: Sequence[str]) -> int:
    """Of these dimensions of a value."""
    return math.prod(_size(named, label) for label in labels)


def _multiplied(site: Site, a: _Named, b: _Named) -> _Named:
    """Each element of one by those of the other that it meets."""
    labels = (*a[0], *(label for label in b[0] if label not in a[0]))
    wide = []
    for own, value in (a, b):
        order = tuple(label for label in labels if label in own)
        shape = [_size((own, value), label) if label in own else 1 for label in labels]
        wide.append(as_plain(shaped(site, site.plain(_in_order(value, own, order)), shape)))
    return labels, mapped(site, lambda x, y: x * y, *wide)


def _matrices(site: Site, a: _Named, b: _Named, added: Sequence[str]) -> _Named:
    """As matrices: rows of what only `a` has, columns of what only `b` has, for each element of what both keep."""
    shared = tuple(label for label in a[0] if label in b[0] and label not in added)
    rows, columns = (tuple(x for x in own if x not in other) for own, other in ((a[0], b[0]), (b[0], a[0])))
    inner = _elements(a, added)
    if rows and not shared and b[1].tensor.data is not None and a[1].tensor.type.dtype is DType.FLOAT32:
        x = _matrix(site, a, (), rows, added, [_size(a, label) for label in rows], [inner])
        weights = _matrix(site, b, (), columns, added, [_elements(b, columns)], [inner])
        if weights.tensor.data is None:
            raise TypeError("a constant in another order is a constant")
        y = dense(site, x.tensor, weights.tensor.data)
    else:
        ahead = [[_size(each, label) for label in shared] for each in (a, b)]
        if ahead[0] == ahead[1]:
            ahead = [[math.prod(ahead[0])] if shared else []] * 2
        outer = [[_elements(a, rows)], [_elements(b, columns)]]
        x = _matrix(site, a, shared, rows, added, [*ahead[0], *outer[0]], [inner])
        y = matmul_of(site, x, _matrix(site, b, shared, added, columns, [*ahead[1], inner], outer[1])).tensor
    sizes = [max(_size(a, label), _size(b, label)) for label in shared]
    sizes += [_size(own, label) for own, labels in ((a, rows), (b, columns)) for label in labels]
    return (*shared, *rows, *columns), as_plain(shaped(site, y, sizes))


def _matrix(
    site: Site, named: _Named, shared: Labels, first: Sequence[str], last: Sequence[str], *sizes: Sequence[int]
) -> Value:
    """The value with its dimensions in this order, in a shape of these sizes."""
    plain = site.plain(_in_order(named[1], named[0], (*shared, *first, *last)))
    return as_plain(shaped(site, plain, [size for some in sizes for size in some]))
