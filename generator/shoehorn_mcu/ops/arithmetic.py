"""Overflow rules that several ops share: sums and rescaled sums must stay within int32 for every input."""

from __future__ import annotations

from shoehorn_mcu.ir import Node
from shoehorn_mcu.ops.fixed_point import quantize_multiplier

SPAN = 255  # largest distance of an 8-bit value from its zero point
LIMIT = (1 << 31) - 1 - SPAN  # room for the zero point that is added at the end


def rescaled(largest: float, factor: float) -> str | None:
    """Why rescaling sums of at most `largest` by `factor` overflows int32, or None; a factor above 1 shifts left."""
    if not factor < 2.0**30:
        return f"rescaling by {factor:g} overflows int32"
    shifted = int(largest) << max(0, quantize_multiplier(factor).shift)
    return None if shifted <= LIMIT else f"sums up to {largest:.0f}, rescaled by {factor:g}, overflow int32"


def scales(node: Node) -> tuple[float, ...]:
    """The scales of all inputs."""
    return tuple(t.type.quantised.scale for t in node.inputs)


def ratio(node: Node) -> float:
    """The first input's scale over the output's."""
    return node.x.type.quantised.scale / node.output.type.quantised.scale
