"""The nodes that stand for one node of a file: how they are named and made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import NodeProto


@dataclass(frozen=True)
class Parts:
    """The names that the nodes write begin with that of the first result of the node that they stand for."""

    node: NodeProto

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The node's attributes, by name."""
        return {each.name: each for each in self.node.attribute}

    def given(self, place: int | None) -> bool:
        """Whether the node has this operand."""
        return place is not None and place < len(self.node.input) and self.node.input[place] != ""

    def wanted(self, place: int) -> bool:
        """Whether the node has this result."""
        return place < len(self.node.output) and self.node.output[place] != ""

    def number(self, name: str, default: Any) -> Any:
        """An attribute as its value, mostly a number."""
        from onnx import helper

        return helper.get_attribute_value(self.attributes[name]) if name in self.attributes else default

    def name(self, role: str) -> str:
        """Of a value that one part writes and another one reads."""
        return f"{self.node.output[0]}/{role}"

    def made(self, code: str, inputs: list[str], output: str | list[str], **attributes: Any) -> NodeProto:
        """A node of ONNX's own."""
        from onnx import helper

        return helper.make_node(code, inputs, [output] if isinstance(output, str) else output, **attributes)

    def constant(self, value: np.ndarray, output: str) -> NodeProto:
        """A node that writes a constant."""
        from onnx import numpy_helper

        return self.made("Constant", [], output, value=numpy_helper.from_array(value))
