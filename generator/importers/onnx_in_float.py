"""Which ops of an .onnx that are neither convolutions nor products are quantised in it: nodes in a frame of QDQ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from shoehorn_mcu.importers.onnx_file import RawModel
from shoehorn_mcu.importers.onnx_node import RawNode
from shoehorn_mcu.importers.onnx_quantised import MOVERS

_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_AHEAD = frozenset(("Clip", "Relu", *MOVERS))
"""What may stand between an op and the QuantizeLinear of its result."""


class Frames:
    """The ops of a file by their nodes: an op that a function of ONNX defines has several."""

    def __init__(self, raw: RawModel, readers: Mapping[str, Sequence[RawNode]]) -> None:
        self._outputs, self._readers = {*raw.outputs}, readers
        self._of: dict[int, Sequence[RawNode]] = {}
        for index, nodes in groupby(raw.nodes, lambda node: node.index):
            group = tuple(nodes)
            if not any(node.code in _CONVERSIONS for node in group):
                self._of[index] = group

    def op(self, node: RawNode) -> Sequence[RawNode]:
        """All nodes of the op that this one is a part of."""
        return self._of.get(node.index, (node,))

    def is_quantised(self, node: RawNode, held: Callable[[str], bool | None]) -> bool:
        """Whether the op reads quantised values and its results are quantised.

        `held`: whether a value that is computed is quantised; None for any that is no real number.
        """
        nodes = self.op(node)
        inside = {name for each in nodes for name in each.outputs}
        operands = {held(name) for each in nodes for name in each.inputs if name and name not in inside}
        within = [id(each) for each in nodes]
        results = [name for name in inside if any(id(each) not in within for each in self._readers.get(name, ()))]
        if inside & self._outputs or not results:
            return False
        return True in operands and False not in operands and all(self._is_quantised(name, within) for name in results)

    def _is_quantised(self, name: str, within: Sequence[int] = ()) -> bool:
        """Whether all that reads a value quantises it, behind an activation at most."""
        readers = [each for each in self._readers.get(name, ()) if id(each) not in within]
        return bool(readers) and name not in self._outputs and all(map(self._quantises, readers))

    def _quantises(self, node: RawNode) -> bool:
        return node.code == "QuantizeLinear" or (node.code in _AHEAD and self._is_quantised(node.outputs[0]))
