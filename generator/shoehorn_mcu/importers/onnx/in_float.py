"""Which ops of an .onnx that are neither convolutions nor products are quantised in it: nodes in a frame of QDQ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.importers.onnx.quantised import MOVERS

_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_AHEAD = frozenset(("Clip", "Relu", *MOVERS))
"""What may stand between an op and the QuantizeLinear of its result."""


@dataclass(frozen=True)
class _Frame:
    """An op of the file: its nodes, of which one has several that a function of ONNX defines."""

    nodes: Sequence[RawNode]
    readers: Mapping[str, Sequence[RawNode]]
    outputs: frozenset[str]  # of the model

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """What it reads."""
        return tuple(dict.fromkeys(n for node in self.nodes for n in node.inputs if n and n not in self._inside))

    @cached_property
    def is_stored(self) -> bool:
        """Whether all that reads its results quantises them, behind activations and moves at most."""
        own = {id(node) for node in self.nodes}
        results = [n for n in self._inside if any(id(each) not in own for each in self.readers.get(n, ()))]
        return bool(results) and not self._inside & self.outputs and self._all_quantise(results, own)

    @cached_property
    def _inside(self) -> frozenset[str]:
        return frozenset(name for node in self.nodes for name in node.outputs if name)

    def _all_quantise(self, names: Iterable[str], own: set[int]) -> bool:
        waiting = [*names]
        seen = {*waiting}
        while waiting:
            name = waiting.pop()
            readers = [each for each in self.readers.get(name, ()) if id(each) not in own]
            others = [each for each in readers if each.code != "QuantizeLinear"]
            if not readers or name in self.outputs or any(each.code not in _AHEAD for each in others):
                return False
            following = {each.outputs[0] for each in others} - seen
            seen |= following
            waiting += following
        return True


class Frames:
    """The ops of a file by their nodes."""

    def __init__(
        self, nodes: Iterable[RawNode], readers: Mapping[str, Sequence[RawNode]], outputs: Iterable[str]
    ) -> None:
        self._readers, self._outputs = readers, frozenset(outputs)
        self._of: dict[int, _Frame] = {}
        for index, each in groupby(nodes, lambda node: node.index):
            group = tuple(each)
            if not any(node.code in _CONVERSIONS for node in group):
                self._of[index] = self._frame(group)

    def _frame(self, nodes: Sequence[RawNode]) -> _Frame:
        return _Frame(nodes, self._readers, self._outputs)

    def op(self, node: RawNode) -> Sequence[RawNode]:
        """All nodes of the op that this one is a part of."""
        return self._of[node.index].nodes if node.index in self._of else (node,)

    def is_quantised(self, node: RawNode, held: Callable[[str], bool | None]) -> bool:
        """Whether the op reads quantised values alone and its results are quantised.

        `held`: whether a value is quantised; None for a constant, and for what is no real number.
        """
        frame = self._of.get(node.index) or self._frame((node,))
        operands = {held(name) for name in frame.operands}
        return True in operands and False not in operands and frame.is_stored
