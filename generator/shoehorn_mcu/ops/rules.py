"""Shape arithmetic that several ops share: windows, broadcasting and the errors about them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from shoehorn_mcu.ir import Op, OpFault, Signature, TensorType


def want(op: Op, inputs: tuple[TensorType, ...], count: int) -> None:
    """Raises GraphError unless the op has `count` inputs."""
    if len(inputs) != count:
        raise OpFault(op, f"has {len(inputs)} inputs, needs {count}")


def want_rank(op: Op, what: str, shape: tuple[int, ...], rank: int) -> None:
    """Raises GraphError unless the shape has `rank` dimensions."""
    if len(shape) != rank:
        raise OpFault(op, f"{what} has shape {shape}, {rank} dimensions are needed")


class ByPixels(Op):
    """An op of one row input whose output pixel i is made of that input's pixel i alone."""

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((y,),)

    def pixelwise(self, sig: Signature) -> bool:
        return True


def window_count(size: int, before: int, after: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """How many windows fit into one padded dimension; 0 or less where none does."""
    return (size + before + after - (kernel - 1) * dilation - 1) // stride + 1


def window_rows(
    y: int, sig: Signature, top: int, kernel: int, stride: int, dilation: int = 1
) -> tuple[tuple[int | None, ...], ...]:
    """The `kernel` input rows below output row y of a window op, None where the window leaves the image."""
    image, out_y = divmod(y, sig.output.nhwc[1])
    height = sig.inputs[0].nhwc[1]
    return (_taps(image * height, height, out_y * stride - top, kernel, dilation),)


@lru_cache(maxsize=1 << 14)
def _taps(image: int, height: int, first: int, kernel: int, dilation: int) -> tuple[int | None, ...]:
    """The rows of a window that begins in row `first` of the image, whose own first row is `image`."""
    rows = range(first, first + kernel * dilation, dilation)
    return tuple(image + row if 0 <= row < height else None for row in rows)


def keeps_rows(sig: Signature, apart: int = 1) -> bool:
    """Whether all tensors of an op whose row y is made of rows y are images, so that it can be cut by rows."""
    return apart == 1 and all(len(kind.shape) == 4 for kind in (*sig.inputs, sig.output) if kind.rows > 1)


def window_part(
    rows: range, height: int, window: tuple[int, int, int, int], apart: int
) -> tuple[int, int, int, int] | None:
    """Padding above and below, stride and dilation for these output rows of a window op, see `Op.part`; None where one
    of them reads padding alone, or its rows are no `apart` from each other.

    `window` is the padding above, the rows of the kernel, its stride and its dilation.
    """
    top, kernel, stride, dilation = window
    if dilation % apart or (len(rows) > 1 and stride % apart):
        return None
    begins = [row * stride - top for row in rows]
    inside = [[at for at in range(b, b + kernel * dilation, dilation) if 0 <= at < height] for b in begins]
    if not all(inside):
        return None
    first, last = min(each[0] for each in inside), max(each[-1] for each in inside)
    above, below = first - begins[0], begins[-1] + (kernel - 1) * dilation - last
    return above // apart, below // apart, max(1, stride // apart), dilation // apart


def last_rows(op: Op, x: TensorType, window: int) -> tuple[int, ...]:
    """The shape of x with the last row of each `window` rows of an image; raises OpFault where they do not fit."""
    want_rank(op, "x", x.shape, 4)
    n, height, width, channels = x.shape
    if window < 1 or height % window:
        raise OpFault(op, f"x {x} has no windows of {window} rows")
    return n, height // window, width, channels


def broadcast_shape(op: Op, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
    """The shape that two inputs broadcast to, as NumPy does it."""
    a, b = (t.shape for t in inputs)
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise OpFault(op, f"shapes {a} and {b} do not broadcast") from None


def broadcast_rows(y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
    """The one row of each operand that output row y reads."""
    image, out_y = divmod(y, sig.output.nhwc[1])
    return tuple(
        ((0 if n == 1 else image) * h + (0 if h == 1 else out_y),) for n, h, _, _ in (t.nhwc for t in sig.inputs)
    )


def broadcast_by_pixels(sig: Signature) -> bool:
    """Whether each operand has the output's pixels or one that all of them read."""
    return all(t.nhwc[:3] in (sig.output.nhwc[:3], (1, 1, 1)) for t in sig.inputs)


def as_4d(values: tuple[int, ...], fill: int) -> tuple[int, int, int, int]:
    """One value per NHWC dimension, from one per dimension of a rank up to four."""
    n, h, w, c = (fill,) * (4 - len(values)) + values
    return n, h, w, c
