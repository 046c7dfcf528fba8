"""The ends of a model as its user has them: pixels of a camera at the front, the best classes at the back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import DType, Ends, Graph, Op, Tensor, TensorType, verify
from shoehorn_mcu.ir.edit import Draft, reading
from shoehorn_mcu.ops import Dequantize, Map, Quantize, Reshape, TopIndices
from shoehorn_mcu.ops.formula import formula


class EndsError(ShoehornError):
    """The model has no such end."""

    kind = "ends"


@dataclass(frozen=True)
class Pixels:
    """A model's input from pixels of 0 to 255: (pixel - mean) / deviation, for all channels or for each."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]


def with_pixels(graph: Graph, ends: Ends, pixels: Pixels) -> tuple[Graph, Ends]:
    """The graph whose one input is pixels, uint8, and its ends in the file with that type.

    >   y = Conv2d(x: float32[1x32x32x3])
    <   x_real = Map(x: uint8[1x32x32x3], "(x - mean) / deviation"); y = Conv2d(x_real)

    In single precision; the input of a quantised model is rounded as Quantize rounds. The order of dimensions stays.
    Raises EndsError for a model that takes no images, and for other than one value or one per channel.
    """
    name = _one(graph, graph.inputs, "input", "--pixels")
    kind = graph.tensors[name].type
    channels = kind.shape[-1] if kind.shape else 0
    if len(kind.shape) != 4 or not (kind.dtype is DType.FLOAT32 or kind.quant is not None):
        raise EndsError(f"{graph.name}: --pixels is for images, the input '{name}' is {kind}; leave the option out")
    for values in (pixels.means, pixels.deviations):
        if len(values) not in (1, channels):
            said = f"--pixels has {len(values)} values, '{name}' has {channels} channels"
            raise EndsError(f"{graph.name}: {said}; give one, or {channels}")
    draft = Draft(graph)
    given = (("mean", pixels.means), ("deviation", pixels.deviations))
    arrays = ((f"{name}_{what}", np.array(values, np.float32)) for what, values in given)
    constants = [draft.tensor(each, TensorType(data.shape, DType.FLOAT32), data) for each, data in arrays]
    inner = draft.tensor(f"{name}_real", replace(kind, dtype=DType.FLOAT32, quant=None))
    types = DType.UINT8, DType.FLOAT32, DType.FLOAT32
    made = formula(lambda x, mean, deviation: (x.cast(DType.FLOAT32) - mean) / deviation, *types)
    first: list[Op] = [Map(name=draft.op_name("Pixels"), inputs=(name, *constants), output=inner, formula=made.text)]
    if kind.quant is not None:
        stored = draft.tensor(f"{name}_stored", kind)
        first.append(Quantize(name=draft.op_name("Pixels_stored"), inputs=(inner,), output=stored))
        inner = stored
    draft.tensors[name] = Tensor(name, replace(kind, dtype=DType.UINT8, quant=None))
    kept = (reading(op, {name: inner}) for op in graph.ops)
    made_graph = verify(replace(graph, tensors=draft.tensors, ops=(*first, *kept)))
    if name not in ends:
        return made_graph, ends
    end = ends[name]
    return made_graph, {**ends, name: replace(end, type=replace(end.type, dtype=DType.UINT8, quant=None))}


def with_top(graph: Graph, count: int) -> Graph:
    """The graph with one more output, `top`: the places of the `count` largest scores, int64, the largest first.

    >   y = Softmax(x)                                                       outputs y
    <   y = Softmax(x); top = TopIndices(y)                                  outputs y, top

    Of equal scores the first comes first. Raises EndsError for a model whose one output is no vector of so many.
    """
    name = _one(graph, graph.outputs, "output", "--top")
    kind = graph.tensors[name].type
    scores = kind.shape[-1] if kind.shape else 0
    if kind.elements != scores or not count <= scores:
        raise EndsError(f"{graph.name}: --top {count} is for a vector of {count} scores or more, '{name}' is {kind}")
    draft = Draft(graph)
    ops: list[Op] = []
    real = name
    if kind.quant is not None:
        real = draft.tensor(f"{name}_real", replace(kind, dtype=DType.FLOAT32, quant=None))
        ops.append(Dequantize(name=draft.op_name("Top_real"), inputs=(name,), output=real))
    dtype = draft.tensors[real].type.dtype
    column = draft.tensor(f"{name}_column", TensorType((scores, 1), dtype))
    places = draft.tensor("top_column", TensorType((count, 1), DType.INT64))
    top = draft.tensor("top", TensorType((1, count), DType.INT64))
    first = formula(lambda a, b: a > b, dtype, dtype)
    ops += [
        Reshape(name=draft.op_name("Top_column"), inputs=(real,), output=column, shape=(scores, 1)),
        TopIndices(name=draft.op_name("Top"), inputs=(column,), output=places, formula=first.text, count=count),
        Reshape(name=draft.op_name("Top_row"), inputs=(places,), output=top, shape=(1, count)),
    ]
    return verify(replace(graph, tensors=draft.tensors, ops=(*graph.ops, *ops), outputs=(*graph.outputs, top)))


def check_classes(graph: Graph, names: Sequence[str]) -> None:
    """Raises EndsError unless the one output has a score for each of these classes, or for two of them one."""
    if not names:
        return
    name = _one(graph, graph.outputs, "output", "--classes")
    kind = graph.tensors[name].type
    scores = 2 if kind.elements == 1 else kind.elements
    if len(names) != scores:
        said = f"--classes names {len(names)}, '{name}' {kind} tells {scores} apart"
        raise EndsError(f"{graph.name}: {said}; give a name per line for each")


def _one(graph: Graph, names: Sequence[str], what: str, option: str) -> str:
    if len(names) != 1:
        raise EndsError(
            f"{graph.name}: {option} takes models with one {what}, this one has {len(names)} ({', '.join(names)}); "
            "leave the option out"
        )
    return names[0]
