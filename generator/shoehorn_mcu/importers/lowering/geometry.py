"""Axes and windows: what the importers of all formats compute alike."""

from __future__ import annotations

from shoehorn_mcu.importers.fault import ImportFault

WINDOW_LIMIT = 1 << 15  # of strides, dilations and kernels: far above any use, and safe in int32 arithmetic


def axis_of(axis: int, rank: int) -> int:
    """The axis, which may be negative, as 0..rank-1. Raises ImportFault where it is outside."""
    if not -rank <= axis < rank:
        raise ImportFault(f"axis {axis} of a tensor with {rank} dimensions; export or convert it again")
    return axis % rank


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Elements before and after one dimension under SAME: half each, the odd one after.

    This is TFLite's ComputePadding and ONNX's SAME_UPPER; SAME_LOWER has the odd one before.
    """
    count = -(-size // stride)
    total = max(0, (count - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2
