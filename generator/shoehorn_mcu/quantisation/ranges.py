"""The range of real values that the 256 steps of an int8 tensor cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto

OF_ONE_SCALE = ("Softmax", "Sigmoid", "Tanh")
"""Ops whose results have a scale of their own in 8 or in 16 bits."""

STEPS = 255  # between the least and the greatest stored value
_SHRINKS = np.linspace(0.2, 1.0, 81)  # tried: parts of the whole range


_LEAST_WIDTH = 1e-30
_OF_ZEROS = 1.0


class Range(NamedTuple):
    """The least and the greatest real value."""

    low: float
    high: float

    @property
    def wide(self) -> Range:
        """The range, or where samples were 0 alone, one that has steps: up from 0.

        ONNX Runtime gives such a tensor a scale of 1 with zero point 0, and takes a Relu before it away all the same:
        what is below 0 would be no longer cut off.
        """
        whole = max(self.high, 0.0) - min(self.low, 0.0)
        return Range(0.0, _OF_ZEROS) if whole < _LEAST_WIDTH else self


def of_joins(model: ModelProto, found: Mapping[str, Range], apart: Collection[str]) -> dict[str, Range]:
    """The ranges, where those of a Concat's result and of the pieces that nothing else reads are one: that of them all.

    So the pieces are joined as they are, as in TensorFlow Lite, whose CONCATENATION has one scale; with ranges of their
    own each is rescaled. `apart` names nodes, and tensors, that keep their own.
    """
    graph = model.graph
    writer = {name: node for node in graph.node for name in node.output}
    read = Counter(name for node in graph.node for name in node.input)
    read.update(output.name for output in graph.output)
    group = {name: {name} for name in found}
    for node in graph.node:
        result = node.output[0]
        if node.op_type != "Concat" or result not in found or {node.name, result} & set(apart):
            continue
        for name in node.input:
            if name not in found or name not in writer or read[name] > 1:
                continue
            if writer[name].op_type not in OF_ONE_SCALE and not {writer[name].name, name} & set(apart):
                both = group[name] | group[result]
                group |= dict.fromkeys(both, both)
    return {
        name: Range(min(found[each].low for each in names), max(found[each].high for each in names))
        for name, names in group.items()
    }


def least_squares(counts: NDArray[np.int64], edges: NDArray[np.floating], low: float, high: float) -> Range:
    """The part of low..high whose int8 quantisation of a histogram's values has the least squared error.

    `counts`: values in each bin; `edges`: one more than bins. Both ends shrink alike; 0 stays inside.
    """
    whole = Range(min(0.0, float(low)), max(0.0, float(high)))
    used = np.flatnonzero(counts)
    if whole.low == whole.high or not used.size:
        return whole
    weights, values = counts[used].astype(np.float64), ((edges[1:] + edges[:-1]) / 2)[used].astype(np.float64)
    values = np.clip(values, *whole)
    errors = []
    for part in _SHRINKS:
        step = part * (whole.high - whole.low) / STEPS
        zero = np.rint(-part * whole.low / step)
        stored = np.clip(np.rint(values / step) + zero, 0, STEPS)
        errors.append(float(weights @ ((stored - zero) * step - values) ** 2))
    # The widest of equal ones.
    best = float(_SHRINKS[len(errors) - 1 - int(np.argmin(errors[::-1]))])
    return Range(best * whole.low, best * whole.high)
