"""Convolutions between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND as dilated ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from test_tflite_shapes import dilated
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, int8, ints

from shoehorn_mcu import ops, passes
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Graph, Tensor, verify
from shoehorn_mcu.passes.fold_dilation import fold_dilation

Pair = tuple[int, int]


def between(
    size: Pair, block: Pair, kernel: Pair, pads: tuple[Pair, Pair], crops: tuple[Pair, Pair], same: bool = False
) -> Graph:
    """An int8 model: blocks of an image as images, a convolution, and back."""
    high = [(size[i] + sum(pads[i])) // block[i] for i in (0, 1)]
    out = high if same else [high[i] - kernel[i] + 1 for i in (0, 1)]
    whole = [out[i] * block[i] - sum(crops[i]) for i in (0, 1)]
    images, rng = block[0] * block[1], np.random.default_rng(3)
    weights = rng.integers(-127, 128, (5, *kernel, 3), np.int8)
    tensors = [
        int8("x", (1, *size, 3)),
        ints("block", list(block)),
        ints("pads", [list(each) for each in pads]),
        int8("blocks", (images, *high, 3)),
        TensorSpec("w", weights.shape, scales=(0.01,) * 5, data=weights.tobytes()),
        bias("b", 5, tuple(0.01 * scale for scale in int8("x", (1,)).scales * 5)),
        int8("maps", (images, *out, 5)),
        ints("crops", [list(each) for each in crops]),
        int8("y", (1, *whole, 5)),
    ]
    window = {"StrideH": 1, "StrideW": 1, "Padding": 0 if same else 1}
    made = [
        OpSpec("SPACE_TO_BATCH_ND", (0, 1, 2), (3,)),
        OpSpec("CONV_2D", (3, 4, 5), (6,), window),
        OpSpec("BATCH_TO_SPACE_ND", (6, 1, 7), (8,)),
    ]
    return import_tflite(ModelSpec(tensors, made, (0,), (8,)).bytes(), "between")


NONE = ((0, 0), (0, 0))
CASES = {
    "valid": ((12, 8), (2, 2), (3, 3), NONE, NONE, False),
    "along rows": ((12, 5), (3, 1), (2, 1), NONE, NONE, False),
    "padded": ((10, 7), (2, 2), (3, 3), ((2, 4), (2, 3)), ((0, 2), (0, 1)), False),
    "causal": ((9, 4), (3, 1), (3, 1), ((6, 0), (0, 0)), NONE, False),
    "cut in front": ((8, 8), (2, 2), (3, 3), ((4, 2), (4, 2)), ((1, 0), (2, 0)), False),
    "padded inside": ((8, 8), (2, 2), (3, 3), NONE, NONE, True),
}


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_between_blocks_is_a_dilated_one(name: str) -> None:
    size, block, kernel, pads, crops, same = CASES[name]
    graph = between(size, block, kernel, pads, crops, same)
    folded = fold_dilation(graph)
    (conv,) = folded.ops

    assert isinstance(conv, ops.Conv2d) and conv.dilation == block
    (wanted,), (found,) = ([evaluate(g, random_arrays(graph, 1))[n] for n in graph.outputs] for g in (graph, folded))
    assert np.array_equal(wanted, found)
    assert len(np.unique(found)) > 20


def test_one_over_a_sequence_is_too() -> None:
    """Keras' Conv1D, with its views of images of one row; float32, whose sums keep their order."""
    graph = import_tflite(dilated().bytes(), "dilated")
    folded, _ = passes.run(graph)
    convs = [op for op in folded.ops if isinstance(op, ops.Conv2d)]

    assert [op.dilation for op in convs] == [(1, 2)]
    assert not any(isinstance(op, ops.Transpose) for op in folded.ops)
    assert np.array_equal(*(evaluate(g, random_arrays(graph, 1))[graph.outputs[0]] for g in (graph, folded)))


def test_blocks_that_are_cut_away_more_than_they_are_padded_stay() -> None:
    """The dilated convolution would have to begin inside of the image."""
    graph = between((12, 8), (2, 2), (3, 3), NONE, ((1, 0), (0, 0)))

    assert fold_dilation(graph) is graph


def test_images_that_are_no_blocks_of_one_stay() -> None:
    """Six columns of four pixels as four images of two rows of three, and back."""
    graph = between((6, 4), (2, 2), (1, 1), NONE, NONE)
    (conv,) = (op for op in graph.ops if isinstance(op, ops.Conv2d))
    (x,), (y,) = graph.inputs, graph.outputs
    shapes = {"turned": (1, 4, 6, 3), conv.inputs[0]: (4, 2, 3, 3), conv.output: (4, 2, 3, 5), "joined": (1, 4, 6, 5)}
    made = [
        ops.Transpose(name="turn", inputs=(x,), output="turned", perm=(0, 2, 1, 3)),
        ops.Reshape(name="part", inputs=("turned",), output=conv.inputs[0], shape=shapes[conv.inputs[0]]),
        conv,
        ops.Reshape(name="join", inputs=(conv.output,), output="joined", shape=shapes["joined"]),
        ops.Transpose(name="back", inputs=("joined",), output=y, perm=(0, 2, 1, 3)),
    ]
    kinds = {"turned": graph.tensors[x].type, "joined": graph.tensors[y].type}
    kinds |= {name: graph.tensors[name].type for name in (conv.inputs[0], conv.output)}
    moved = {name: Tensor(name, replace(kinds[name], shape=shape)) for name, shape in shapes.items()}
    other = verify(replace(graph, ops=tuple(made), tensors={**graph.tensors, **moved}))
    assert fold_dilation(other) is other


def test_blocks_in_another_order_stay() -> None:
    """Back to other places than those that the pixels came from."""
    graph = between((12, 8), (2, 2), (3, 3), NONE, NONE)
    swapped = [op for op in graph.ops if isinstance(op, ops.Transpose)][-1]
    images, rows, columns = swapped.perm[1], swapped.perm[0], swapped.perm[2]
    assert (images, rows, columns) != (0, 1, 2)
    blocks = list(swapped.perm)
    first, second = blocks.index(0), blocks.index(1)
    blocks[first], blocks[second] = 1, 0
    other = replace(graph, ops=tuple(replace(op, perm=tuple(blocks)) if op is swapped else op for op in graph.ops))
    assert fold_dilation(other) is other
