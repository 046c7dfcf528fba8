"""Kernels that move elements of any size and compute nothing. Reshape has none: its output is its input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Contract, Value, portable
from shoehorn_mcu.kernels.base.operands import byte_step, element_bytes, same_dtype
from shoehorn_mcu.kernels.base.work import WORD, Ints, Work, copied, filled, moved
from shoehorn_mcu.ops import Concat, Pad, PickChannels, Slice, Transpose
from shoehorn_mcu.ops.rules import as_4d


def _pad(node: Node[Pad]) -> dict[str, Value]:
    op, size = node.op, element_bytes(node)
    _, _, width, channels = node.x.type.nhwc
    before, after = as_4d(op.before, 0), as_4d(op.after, 0)
    out_channels = node.output.type.nhwc[3]
    whole_row = out_channels == channels  # then all its pixels are contiguous
    return {
        "pixels": 1 if whole_row else width,
        "pixel_bytes": (width if whole_row else 1) * channels * size,
        "before": before[3],
        "after": after[3],
        "row_before": before[2] * out_channels,
        "row_after": after[2] * out_channels,
        "row_elements": node.output.type.row_elements,
        "element_bytes": size,
        "fill": np.array([op.value], node.output.type.dtype.numpy).view(np.uint8),
    }


def _concat(node: Node[Concat]) -> dict[str, Value]:
    op, shape = node.op, node.output.type
    joins_channels = op.axis == len(shape.shape) - 1
    pieces = shape.nhwc[2] if joins_channels else 1
    return {
        "pieces": pieces,
        "inputs": len(node.inputs),
        "part_bytes": np.array([t.type.row_bytes // pieces for t in node.inputs], np.int32),
        "y_step": shape.row_bytes // pieces,
    }


def _slice(node: Node[Slice]) -> dict[str, Value]:
    op, size = node.op, element_bytes(node)
    begin, step = as_4d(op.begin, 0), as_4d(op.step, 1)
    in_channels = node.x.type.nhwc[3]
    _, _, pixels, runs = node.output.type.nhwc
    run_bytes, pixel_step, run_step = size, step[2] * in_channels * size, step[3] * size
    if step[3] == 1:  # neighbouring channels in one run
        runs, run_bytes = 1, runs * size
    if pixel_step == run_bytes and runs == 1:  # whole neighbouring pixels too
        pixels, run_bytes = 1, pixels * run_bytes
    return {
        "pixels": pixels,
        "runs": runs,
        "run_bytes": run_bytes,
        "begin": (begin[2] * in_channels + begin[3]) * size,
        "pixel_step": pixel_step,
        "run_step": run_step,
    }


def _transpose(node: Node[Transpose]) -> dict[str, Value]:
    op, size = node.op, element_bytes(node)
    _, height, _, channels = node.x.type.nhwc
    _, out_height, out_width, out_channels = node.output.type.nhwc
    perm = op.perm_4d
    # Transpose.rows fixes the indices of N and H that the output row determines, and lists the rows of the others.
    heights = 1 if 1 in perm[:2] else height
    rows = {0: heights, 1: 1, 2: 0, 3: 0}
    steps = {0: 0, 1: 0, 2: channels * size, 3: size}
    return {
        "out_height": out_height,
        "out_width": out_width,
        "out_channels": out_channels,
        "element_bytes": size,
        "w_rows": rows[perm[2]],
        "c_rows": rows[perm[3]],
        "n_step": steps[perm[0]],
        "h_step": steps[perm[1]],
        "w_step": steps[perm[2]],
        "c_step": steps[perm[3]],
    }


def _pick(node: Node[PickChannels]) -> dict[str, Value]:
    x, y = node.x.type, node.output.type
    return {
        "pixels": y.nhwc[2],
        "in_channels": x.nhwc[3],
        "out_channels": y.nhwc[3],
        "element_bytes": element_bytes(node),
        "channels": np.array(node.op.picked, np.uint16),
    }


def _numbers(params: dict[str, Value]) -> dict[str, int]:
    return {name: value for name, value in params.items() if isinstance(value, int)}


def _pad_work(node: Node[Pad]) -> Work:
    """Pixels that are copied, and the padding around them: memset fills elements of one byte, a loop larger ones."""
    op, p = node.op, _numbers(_pad(node))
    x, y = node.x.type, node.output.type
    size, rows = p["element_bytes"], y.rows
    read = [op.rows(row, node.sig)[0][0] for row in range(rows)]
    there, source = _copied_rows(read)
    begins, source = there * y.row_bytes, source * x.row_bytes
    step, pixels = (p["before"] + p["after"]) * size + p["pixel_bytes"], np.arange(p["pixels"])
    places = begins[:, None] + p["row_before"] * size + pixels * step  # where a pixel with its padding begins
    total = Work(pixels=places.size / rows) + moved(
        places + p["before"] * size, source[:, None] + pixels * p["pixel_bytes"], p["pixel_bytes"], rows
    )
    fills = (
        (np.array([row for row in range(rows) if read[row] is None], np.int64) * y.row_bytes, p["row_elements"]),
        (begins, p["row_before"]),
        (places, p["before"]),
        (places + p["before"] * size + p["pixel_bytes"], p["after"]),
        (begins + y.row_bytes - p["row_after"] * size, p["row_after"]),
    )
    for to, count in fills:
        total += filled(to, count, rows) if size == 1 else _elements(to.size * count / rows, size)
    return total


def _copied_rows(read: Sequence[int | None]) -> tuple[Ints, Ints]:
    """The output rows that are copies of an input row, and these input rows; `read`: by output row, the input row."""
    pairs = [(row, source) for row, source in enumerate(read) if source is not None]
    there, source = np.array(pairs, np.int64).reshape(-1, 2).T
    return there, source


def _elements(count: float, size: int) -> Work:
    """memcpy of so many elements, one by one."""
    return copied(count, size, size % WORD == 0) + Work(words=count * (size // WORD))


def _concat_work(node: Node[Concat]) -> Work:
    """Pieces, the inputs that have no row for an output row, and the pieces of the others, each of which is copied."""
    op, shape, p = node.op, node.output.type, _numbers(_concat(node))
    pieces = p["pieces"]
    total, before = Work(pixels=pieces), np.zeros(shape.rows, np.int64)
    reads = [op.rows(row, node.sig) for row in range(shape.rows)]
    for i, part in enumerate(t.type.row_bytes // pieces for t in node.inputs):
        there, source = _copied_rows([rows[i][0] for rows in reads])
        to = (there * shape.row_bytes + before[there])[:, None] + np.arange(pieces) * p["y_step"]
        total += moved(to, source[:, None] * pieces * part + np.arange(pieces) * part, part, shape.rows)
        total += Work(padded=pieces * (1 - len(there) / shape.rows))
        before[there] += part
    return total


def _slice_work(node: Node[Slice]) -> Work:
    op, p = node.op, _numbers(_slice(node))
    x, y = node.x.type, node.output.type
    rows = np.array([op.rows(row, node.sig)[0][0] for row in range(y.rows)], np.int64)
    pixels, runs = np.arange(p["pixels"])[:, None], np.arange(p["runs"])
    source = p["begin"] + pixels * p["pixel_step"] + runs * p["run_step"]
    to = (pixels * p["runs"] + runs) * p["run_bytes"]
    return Work(pixels=p["pixels"]) + moved(
        np.arange(y.rows)[:, None, None] * y.row_bytes + to,
        rows[:, None, None] * x.row_bytes + source,
        p["run_bytes"],
        y.rows,
    )


def _transpose_work(node: Node) -> Work:
    _, _, pixels, channels = node.output.type.nhwc
    return copied(pixels * channels, element_bytes(node), element_bytes(node) == 4) + Work(pixels=pixels)


def _pick_work(node: Node) -> Work:
    _, _, pixels, channels = node.output.type.nhwc
    return copied(pixels * channels, element_bytes(node), True) + Work(pixels=pixels)


PAD = Contract("pad", (Pad,), _pad, accepts=same_dtype)
CONCAT = Contract("concat", (Concat,), _concat, accepts=same_dtype, spaced=byte_step)
SLICE = Contract("slice", (Slice,), _slice, accepts=same_dtype)
TRANSPOSE = Contract("transpose", (Transpose,), _transpose, accepts=same_dtype, takes_row=True)
PICK = Contract("pick_channels", (PickChannels,), _pick, accepts=same_dtype)

VARIANTS = (
    portable(PAD, _pad_work),
    portable(CONCAT, _concat_work),
    portable(SLICE, _slice_work),
    portable(TRANSPOSE, _transpose_work),
    portable(PICK, _pick_work),
)
