"""Kernels of the ops of two operands."""

from __future__ import annotations

from typing import cast

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base import Contract, Value, portable
from shoehorn_mcu.kernels.operands import all_s8, broadcast, element_by_element
from shoehorn_mcu.kernels.work import Work
from shoehorn_mcu.ops import Add, Binary, Maximum, Minimum, Mul, Prelu, Sub
from shoehorn_mcu.ops.elementwise import add_params, mul_scale, prelu_scales, sub_params


def _binary(node: Node) -> dict[str, Value]:
    """Struct members common to all binary ops."""
    clamp = cast(Binary, node.op).clamp
    return {**broadcast(node, ("a", "b")), "y_min": clamp.low, "y_max": clamp.high}


def _zeros(node: Node) -> dict[str, Value]:
    named = zip(("a_zero", "b_zero", "y_zero"), (*node.inputs, node.output), strict=True)
    return {member: tensor.type.quantised.zero_point for member, tensor in named}


def _add(node: Node) -> dict[str, Value]:
    subtract = isinstance(node.op, Sub)
    left_shift, a, b, y = sub_params(node.sig) if subtract else add_params(node.sig)
    return {
        **_binary(node),
        **_zeros(node),
        "b_sign": -1 if subtract else 1,
        "left_shift": left_shift,
        "a_multiplier": a.multiplier,
        "a_shift": a.shift,
        "b_multiplier": b.multiplier,
        "b_shift": b.shift,
        "y_multiplier": y.multiplier,
        "y_shift": y.shift,
    }


def _mul(node: Node) -> dict[str, Value]:
    scale = mul_scale(node.sig)
    return {**_binary(node), **_zeros(node), "multiplier": scale.multiplier, "shift": scale.shift}


def _prelu(node: Node) -> dict[str, Value]:
    x, alpha = node.inputs
    # x has the shape of y, so only alpha's steps matter.
    placed = broadcast(node, ("x", "alpha"))
    positive, negative = prelu_scales(node.sig)
    return {
        **{member: value for member, value in placed.items() if not member.startswith("x_")},
        "x_zero": x.type.quantised.zero_point,
        "alpha_zero": alpha.type.quantised.zero_point,
        "y_zero": node.output.type.quantised.zero_point,
        "positive_multiplier": positive.multiplier,
        "positive_shift": positive.shift,
        "negative_multiplier": negative.multiplier,
        "negative_shift": negative.shift,
    }


def _work(node: Node) -> Work:
    """Elements, and the inner loops that they are in."""
    return Work(pixels=_loops(node), outputs=node.output.type.row_elements)


def _loops(node: Node) -> int:
    width = broadcast(node, ("a", "b"))["width"]
    assert isinstance(width, int)
    return width


def _add_work(node: Node) -> Work:
    _, *scales = sub_params(node.sig) if isinstance(node.op, Sub) else add_params(node.sig)
    shifted = sum(scale.shift < 0 for scale in scales)
    return _work(node) + Work(right_shifts=shifted * node.output.type.row_elements)


def _mul_work(node: Node) -> Work:
    return _work(node) + Work(right_shifts=(mul_scale(node.sig).shift < 0) * node.output.type.row_elements)


def _prelu_work(node: Node) -> Work:
    # The sign of each element decides which of the two scales is used; half of each is assumed.
    shifted = sum(scale.shift < 0 for scale in prelu_scales(node.sig)) / 2
    return _work(node) + Work(right_shifts=shifted * node.output.type.row_elements)


ADD = Contract("add_s8", (Add, Sub), _add, accepts=all_s8)
MUL = Contract("mul_s8", (Mul,), _mul, accepts=all_s8)
MAXIMUM = Contract("maximum_s8", (Maximum,), _binary, accepts=all_s8)
MINIMUM = Contract("minimum_s8", (Minimum,), _binary, accepts=all_s8)
PRELU = Contract("prelu_s8", (Prelu,), _prelu, accepts=all_s8)

VARIANTS = (
    portable(ADD, _add_work, element_by_element),
    portable(MUL, _mul_work, element_by_element),
    portable(MAXIMUM, _work, element_by_element),
    portable(MINIMUM, _work, element_by_element),
    portable(PRELU, _prelu_work, element_by_element),
)
