"""Rewrites of a float32 ONNX model before it is quantised, each of which keeps what it computes, and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Array, DType
from shoehorn_mcu.ir.edit import numbered_name

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Floats = NDArray[np.float64]

# Ops through which a positive factor per channel passes unchanged.
_HOMOGENEOUS = ("Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "Identity", "Dropout")
_MOST = 1e4  # between the largest and the least factor of equalised channels, and their inverse


class Edit:
    """A model with its constants as arrays, by name; `save` puts changed ones back."""

    def __init__(self, model: ModelProto) -> None:
        from onnx import numpy_helper

        self.model = deepcopy(model)
        self.constants: dict[str, Array] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in self.model.graph.initializer
        }
        self._before = dict(self.constants)

    @property
    def nodes(self) -> Sequence[NodeProto]:
        found: Sequence[NodeProto] = self.model.graph.node
        return found

    def only_reader(self, name: str) -> NodeProto | None:
        """The node that reads the tensor, if nothing else does and it is no output of the model."""
        found = [node for node in self.nodes for read in node.input if read == name]
        output = any(output.name == name for output in self.model.graph.output)
        return found[0] if len(found) == 1 and not output else None

    def fresh(self, name: str) -> str:
        """The name, or with a number behind it where the model has it already."""
        used = set(self.constants) | {n for node in self.nodes for n in (*node.input, *node.output)}
        return numbered_name(used, name)

    def own(self, node: NodeProto, place: int, data: Array) -> None:
        """Gives the node another constant as this operand; other readers of the old one keep it."""
        while len(node.input) <= place:
            node.input.append("")
        name = node.input[place]
        shared = sum(name in other.input for other in self.nodes) > 1
        if not name or shared:
            name = self.fresh(f"{node.output[0]}_operand_{place}")
            node.input[place] = name
        self.constants[name] = np.ascontiguousarray(data, np.float32)

    def save(self) -> ModelProto:
        """The model with the constants as they are now."""
        from onnx import numpy_helper

        held = {tensor.name: place for place, tensor in enumerate(self.model.graph.initializer)}
        for name, data in self.constants.items():
            if data is self._before.get(name):
                continue
            tensor = numpy_helper.from_array(data, name)
            if name in held:
                self.model.graph.initializer[held[name]].CopyFrom(tensor)
            else:
                self.model.graph.initializer.append(tensor)
        return self.model


def attribute(node: NodeProto, name: str, default: int) -> int:
    """An attribute of one integer."""
    return next((int(a.i) for a in node.attribute if a.name == name), default)


def prepared(model: ModelProto) -> ModelProto:
    """The model with a name for every node, without constants that nothing reads.

    Normalisation, factors and addends per channel are convolutions of one tap. Each Conv and Gemm has its own bias. An
    average of the whole image is a GlobalAveragePool, whose result has a range of its own: ONNX Runtime gives that of
    an AveragePool the scale of its input, which single pixels need.
    """
    from onnx import helper

    edit = Edit(model)
    shapes, images = _shapes(model), _images(model)
    for node in edit.nodes:
        if node.op_type == "AveragePool" and _is_global(node, shapes):
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
        found = _affine(edit, node, shapes, images)
        if found is not None:
            x, factor, addend = found
            channels = shapes[x][1]
            made = helper.make_node("Conv", [x], node.output[:1], domain="", group=channels, kernel_shape=[1, 1])
            for field in ("input", "output", "attribute"):
                node.ClearField(field)
            node.MergeFrom(made)
            edit.own(node, 1, np.broadcast_to(factor, (channels,)).reshape(channels, 1, 1, 1))
            edit.own(node, 2, np.broadcast_to(addend, (channels,)))
    counts = Counter(node.name for node in edit.nodes)
    for place, node in enumerate(edit.nodes):
        if not node.name or counts[node.name] > 1:
            node.name = f"{node.op_type}_{place}"
        linear = Linear.of(edit, node) if node.op_type in ("Conv", "Gemm") else None
        if linear is not None and (bias := linear.bias(edit)) is not None:
            edit.own(node, 2, bias)
    made = edit.save()
    used = {name for node in made.graph.node for name in node.input} | {o.name for o in made.graph.output}
    kept = [tensor for tensor in made.graph.initializer if tensor.name in used]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    return made


def _is_global(pool: NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the one window of a pool is all of its input."""
    given = {each.name: tuple(each.ints) for each in pool.attribute if each.ints}
    return given.get("kernel_shape") == shapes.get(pool.input[0], ())[2:] and not any(given.get("pads", ()))


def _shapes(model: ModelProto) -> dict[str, tuple[int, ...]]:
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    return {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}


_WINDOWS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization", "Resize")
_ELEMENTS = (*_HOMOGENEOUS, "Add", "Sub", "Mul", "Div", "Clip", "LeakyRelu", "HardSwish", "Sigmoid", "Tanh", "Concat")


def _images(model: ModelProto) -> set[str]:
    """The values with channels in dimension 1: what windows pass over or make, and what is computed of that, or that is
    computed of, element by element.
    """
    found = {name for node in model.graph.node if node.op_type in _WINDOWS for name in (node.input[0], *node.output)}
    elements = [{*node.input, *node.output} for node in model.graph.node if node.op_type in _ELEMENTS]
    before = 0
    while len(found) > before:
        before = len(found)
        found.update(name for ends in elements if not found.isdisjoint(ends) for name in ends)
    return found


def _affine(
    edit: Edit, node: NodeProto, shapes: Mapping[str, tuple[int, ...]], images: Collection[str]
) -> tuple[str, Floats, Floats] | None:
    """The operand, the factor and the addend of a node that computes these of an image, per channel or for all.

    Other values of four dimensions, such as the scores of attention, have no channels that a convolution could have.
    """
    if node.op_type == "BatchNormalization":
        return _normalisation(edit, node, shapes)
    if node.op_type not in ("Add", "Sub", "Mul", "Div"):
        return None
    for place in (0, 1):
        x, name = node.input[place], node.input[1 - place]
        shape = shapes.get(x, ())
        if name not in edit.constants or x in edit.constants or len(shape) != 4 or x not in images:
            continue
        data = edit.constants[name].astype(np.float64)
        wide = (1,) * (4 - data.ndim) + data.shape
        if wide not in ((1, 1, 1, 1), (1, shape[1], 1, 1)) or (node.op_type == "Div" and place == 1):
            continue
        return (x, *_AFFINE[node.op_type](data.reshape(-1), place))
    return None


def _normalisation(
    edit: Edit, node: NodeProto, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[str, Floats, Floats] | None:
    """The same of a batch normalisation."""
    x = node.input[0]
    if len(shapes.get(x, ())) != 4 or attribute(node, "training_mode", 0) or any(node.output[1:]):
        return None
    if not all(name in edit.constants for name in node.input[1:]):
        return None
    scale, offset, mean, variance = (edit.constants[name].astype(np.float64) for name in node.input[1:5])
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    factor = scale / np.sqrt(variance + epsilon)
    return x, factor, offset - mean * factor


_AFFINE: Mapping[str, Callable[[Floats, int], tuple[Floats, Floats]]] = {
    "Add": lambda value, place: (np.ones(1), value),
    "Sub": lambda value, place: (np.ones(1), -value) if place == 0 else (-np.ones(1), value),
    "Mul": lambda value, place: (value, np.zeros(1)),
    "Div": lambda value, place: (1 / value, np.zeros(1)),
}
"""By node: the factor and the addend, from its constant and the place of its other operand."""


@dataclass(frozen=True)
class Linear:
    """A linear node's weights as [outputs, inputs per output, taps]."""

    node: NodeProto
    weights: NDArray[np.float32]
    depthwise: bool  # each output reads one input
    outputs_first: bool  # in the stored matrix

    @staticmethod
    def of(edit: Edit, node: NodeProto) -> Linear | None:
        """The node, if its weights are a constant of its own and it has no factors."""
        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[1] not in edit.constants:
            return None
        data = edit.constants[node.input[1]].astype(np.float32)
        if edit.constants[node.input[1]].dtype != np.float32 or (
            len(node.input) > 2 and node.input[2] and node.input[2] not in edit.constants
        ):
            return None
        if node.op_type == "Conv":
            group = attribute(node, "group", 1)
            if group > 1 and data.shape[1] > 1:
                return None
            return Linear(node, data.reshape(*data.shape[:2], -1), group > 1, True)
        if data.ndim != 2 or attribute(node, "transA", 0):
            return None
        if any(a.name in ("alpha", "beta") and a.f != 1 for a in node.attribute):
            return None
        outputs_first = node.op_type == "Gemm" and bool(attribute(node, "transB", 0))
        matrix = data if outputs_first else data.T
        return Linear(node, matrix[:, :, None], False, outputs_first)

    def bias(self, edit: Edit) -> NDArray[np.float32] | None:
        """The constant bias; zeros where there is none, None where it is no list of the outputs."""
        if len(self.node.input) < 3 or not self.node.input[2]:
            return np.zeros(len(self.weights), np.float32)
        data = edit.constants[self.node.input[2]].astype(np.float32).reshape(-1)
        return data if data.shape == (len(self.weights),) else None

    def store(self, edit: Edit, weights: Array) -> None:
        """Puts changed weights, of the shape of `weights`, back."""
        flat = weights if self.outputs_first else weights.reshape(weights.shape[:2]).T
        edit.own(self.node, 1, flat.reshape(edit.constants[self.node.input[1]].shape))


def pairs(edit: Edit) -> Iterator[tuple[Linear, str, Linear]]:
    """A linear node, its output's name after activations, and the linear node that alone reads it by channels."""
    for node in edit.nodes:
        first = Linear.of(edit, node)
        if first is None or first.bias(edit) is None or node.op_type == "MatMul":
            continue
        name = node.output[0]
        while (reader := edit.only_reader(name)) is not None and reader.op_type in _HOMOGENEOUS:
            if any(reader.output[1:]):
                break
            name = reader.output[0]
        second = Linear.of(edit, reader) if reader is not None and reader.input[0] == name else None
        if second is None or (second.node.op_type == "Conv") != (node.op_type == "Conv"):
            continue
        if len(first.weights) == (len(second.weights) if second.depthwise else second.weights.shape[1]):
            yield first, name, second


def equalised(model: ModelProto, largest: Mapping[str, Floats]) -> tuple[ModelProto, int]:
    """Cross-layer equalisation (Nagel et al. 2019, arXiv:1906.04721, section 4.1), and the number of pairs of layers.

    Channel i of the tensor between two linear nodes is divided by a factor, and the weights that read it are
    multiplied by it: positive homogeneous ops between them let it pass. Weights have a scale per output channel here,
    so the first node's weights gain nothing: the factor weighs the channel's largest value among the samples
    (`largest`, by the tensor's name) against the largest weight that reads it, as the square root of their quotient.
    """
    edit = Edit(model)
    count = 0
    for first, name, second in pairs(edit):
        bias, values = first.bias(edit), largest.get(name)
        if bias is None or values is None or len(values) != len(first.weights):
            continue
        by_input = second.weights if second.depthwise else second.weights.transpose(1, 0, 2)
        reading = np.abs(by_input).reshape(len(by_input), -1).max(axis=1).astype(np.float64)
        factor = _factors(values.astype(np.float64), reading)
        if factor is None:
            continue
        first.store(edit, first.weights / factor[:, None, None])
        edit.own(first.node, 2, bias / factor)
        along = (slice(None), None, None) if second.depthwise else (None, slice(None), None)
        second.store(edit, second.weights * factor[along])
        count += 1
    return edit.save(), count


def _factors(values: Floats, reading: Floats) -> Floats | None:
    """What each channel is divided by, powers of two so that the float32 results stay the same; None: nothing to do."""
    used = (values > 0) & (reading > 0)
    if used.sum() < 2:
        return None
    factor = np.ones(len(values))
    factor[used] = np.sqrt(values[used] / reading[used])
    factor[used] /= np.exp(np.log(factor[used]).mean())
    return np.exp2(np.rint(np.log2(np.clip(factor, 1 / _MOST, _MOST))))


def bias_corrections(model: ModelProto, means: Mapping[str, Floats]) -> dict[str, Floats]:
    """Bias correction (the same paper, section 4.2): the new biases, by the names of the old ones.

    Rounding the weights shifts the mean of each output by the mean inputs times the rounding errors: that is
    subtracted from the bias. `means`: of each channel over the samples, by the name of the tensor.
    """
    edit = Edit(model)
    found = {}
    for node in edit.nodes:
        linear = Linear.of(edit, node)
        if linear is None or len(node.input) < 3 or node.input[0] not in means:
            continue
        bias, mean = linear.bias(edit), means[node.input[0]]
        if bias is None or len(mean) != (len(linear.weights) if linear.depthwise else linear.weights.shape[1]):
            continue
        weights = linear.weights.astype(np.float64)
        scale = np.abs(weights).max(axis=(1, 2), keepdims=True) / 127
        scale[scale == 0] = 1
        error = (np.clip(np.rint(weights / scale), -127, 127) * scale - weights).sum(axis=2)
        found[node.input[2]] = bias - (error[:, 0] * mean if linear.depthwise else error @ mean)
    return found


def with_biases(quantised: ModelProto, biases: Mapping[str, Floats]) -> tuple[ModelProto, int]:
    """The quantised model with other values for those of its biases that it stores as int32, and how many these are."""
    edit = Edit(quantised)
    count = 0
    for node in edit.nodes:
        if node.op_type == "DequantizeLinear" and node.output[0] in biases:
            stored, scale = (edit.constants[name] for name in node.input[:2])
            steps = np.rint(biases[node.output[0]] / scale.astype(np.float64))
            edit.constants[node.input[0]] = np.clip(steps, *DType.INT32.limits).astype(stored.dtype)
            count += 1
    return edit.save(), count


def with_activations(quantised: ModelProto, original: ModelProto) -> ModelProto:
    """The quantised model with the activations ahead of int16 results, which have a zero point of 0.

    ONNX Runtime's quantiser leaves out each Relu and Clip, because the zero point of int8 is chosen so that rounding
    to it bounds the values. The model that it is given has each of them by the name of its result.
    """
    from onnx import numpy_helper

    made = deepcopy(quantised)
    left_out = {node.output[0]: node for node in original.graph.node if node.op_type in ("Relu", "Clip")}
    for node in made.graph.node:
        if node.op_type in ("Relu", "Clip"):
            left_out.pop(node.output[0], None)
    zeros = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    wide = {
        node.input[0]
        for node in made.graph.node
        if node.op_type == "QuantizeLinear" and zeros[node.input[2]].dtype == np.int16
    }
    known, kept = set(zeros), list(made.graph.node)
    del made.graph.node[:]
    for node in kept:
        made.graph.node.append(node)
        activation = left_out.get(node.output[0]) if node.output[0] in wide else None
        if activation is None:
            continue
        made.graph.node[-1].output[0] = f"{node.output[0]}_unbounded"
        made.graph.node.append(activation)
        made.graph.node[-1].input[0] = f"{node.output[0]}_unbounded"
        bounds = [t for t in original.graph.initializer if t.name in activation.input[1:] and t.name not in known]
        made.graph.initializer.extend(bounds)
        known |= {t.name for t in bounds}
    return made


def in_four_bits(model: ModelProto, original: ModelProto) -> ModelProto:
    """The quantised model with weights of -8 to 7, held as int8, and the scales with the least squared errors.

    A weight's own values are those of `original`, of which ONNX Runtime's quantiser keeps the name in front of
    `_quantized` and `_scale`. The scale of a channel, or of all of them, is one of those that cut the largest weights
    by up to a half, but no less than with 8 bits: ONNX Runtime's quantiser has made that as large as the bias needs.
    """
    from onnx import numpy_helper

    made = deepcopy(model)
    real = {tensor.name: tensor for tensor in original.graph.initializer}
    held = {tensor.name: tensor for tensor in made.graph.initializer}
    for node in made.graph.node:
        if node.op_type != "DequantizeLinear" or not {*node.input[:2]} <= held.keys():
            continue
        name = node.input[0].removesuffix("_quantized")
        data = numpy_helper.to_array(held[node.input[0]])
        if name not in real or data.dtype != np.int8 or data.ndim < 2:
            continue
        weights = numpy_helper.to_array(real[name]).astype(np.float64)
        if numpy_helper.to_array(held[node.input[1]]).ndim:
            axis = next((each.i for each in node.attribute if each.name == "axis"), 1) % weights.ndim
        else:
            axis, weights = 0, weights[None]
        finer = numpy_helper.to_array(held[node.input[1]])
        codes, scales = _four_bits(np.moveaxis(weights, axis, 0), finer.reshape(-1).astype(np.float64))
        codes = np.moveaxis(codes, 0, axis).reshape(data.shape)
        for place, array in ((0, codes), (1, scales.astype(np.float32).reshape(finer.shape))):
            held[node.input[place]].CopyFrom(numpy_helper.from_array(array, node.input[place]))
    return made


def _four_bits(weights: Floats, finest: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Codes and scales of weights [channel, ...]: of 51 scales for each channel that with the least squared error.

    `finest`: the least scale of each channel.
    """
    flat = weights.reshape(len(weights), -1)
    largest = np.maximum(np.abs(flat).max(axis=1), np.finfo(np.float32).tiny * 8)
    scales = largest / 7
    least = np.full(len(flat), np.inf)
    for share in np.linspace(1.0, 0.5, 51):
        tried = largest * share / 7
        errors = (np.clip(np.rint(flat / tried[:, None]), -8, 7) * tried[:, None] - flat) ** 2
        better = errors.sum(axis=1) < least
        scales, least = np.where(better, tried, scales), np.where(better, errors.sum(axis=1), least)
    scales = np.maximum(scales, finest)
    codes = np.clip(np.rint(flat / scales[:, None]), -8, 7).astype(np.int8)
    return codes.reshape(weights.shape), scales
