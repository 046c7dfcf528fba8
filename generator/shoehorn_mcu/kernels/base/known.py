"""Functions of nodes that remember what they found, for as long as the node's op exists.

Kernels are chosen, counted, weighed against the flash and packed by the same facts about an op, in several plans of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from shoehorn_mcu.ir import Node, Op, OpT

P = ParamSpec("P")
T = TypeVar("T")


def known(find: Callable[Concatenate[Node[OpT], P], T]) -> Callable[Concatenate[Node[OpT], P], T]:
    """`find`, called once for each op with its operands; what it returns must not be changed, nor refer to the op."""
    found: WeakKeyDictionary[Op, dict[Hashable, Any]] = WeakKeyDictionary()

    @wraps(find)
    def remembered(node: Node[OpT], /, *others: P.args, **named: P.kwargs) -> T:
        of_op = found.setdefault(node.op, {})
        key = (node.inputs, node.output, others, *named.items())  # a tensor equals itself only
        if key not in of_op:
            of_op[key] = find(node, *others, **named)
        result: T = of_op[key]
        return result

    return remembered
