"""Names of layers as people know them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shoehorn_mcu.ir import Node

_OURS = re.compile(r"/(first|last|free|sum)$")  # of a file that we wrote ourselves
_CODE = re.compile(r"/[A-Z]\w*$")  # the op that computes a layer's result, as exporters end the names of tensors
_WHOLE = re.compile(r"^(StatefulPartitionedCall|(model|sequential|functional)(_\d+)?)/")
_NUMBERS = re.compile(r"(_\d+)+$")
_MOST = 3  # names of layers in a row


def label(node: Node) -> str:
    """A short name of a layer, from the tensor that it writes.

    PyTorch's `/c2/c2.1/Relu_output_0` is c2.1, TensorFlow's `model/conv1/Relu;model/conv1/BiasAdd` is conv1.
    """
    name = node.output.name.split(";")[0]
    while (shorter := _WHOLE.sub("", name)) != name:
        name = shorter
    parts = _CODE.sub("", _OURS.sub("", name)).strip("/").split("/")
    kept = [part for part, then in zip(parts, [*parts[1:], ""], strict=True) if not then.startswith(f"{part}.")]
    return "/".join(kept) or node.op.name


def labels(nodes: Sequence[Node]) -> list[str]:
    """Their names, each once and without an importer's numbers; of many the first and the last ones."""
    names = [label(node) for node in nodes]
    plain = [base if (base := _NUMBERS.sub("", name)) in names else name for name in names]
    found = [*dict.fromkeys(plain)]
    return found if len(found) <= _MOST else [*found[: _MOST - 1], "...", found[-1]]
