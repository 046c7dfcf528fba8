"""Random float ONNX networks, valid by construction and small, and their inputs.

`random_model(seed)` is the same network each time. Sizes, axes, windows and operands are drawn so that ONNX allows
them. Numbers stay of moderate size. No op is drawn whose result jumps where its operand is rounded otherwise, but for
those that choose elements (ArgMax, TopK), whose operands have no two that are close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu.ir import Array

MOST_OPS = 12
MOST_ELEMENTS = 4096
Shape = tuple[int, ...]


@dataclass
class Net:
    """A network that grows."""

    rng: np.random.Generator
    opset: int
    shapes: dict[str, Shape] = field(default_factory=dict)  # of the values of real numbers
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    whole: dict[str, Shape] = field(default_factory=dict)  # values of int64, which nothing reads
    named: int = 0

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def upto(self, most: int, least: int = 1) -> int:
        return int(self.rng.integers(least, most + 1))

    def reals(self, *shape: int, size: float = 1.0) -> Array:
        return np.asarray(self.rng.standard_normal(shape) * size, np.float32)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, code: str, inputs: Sequence[str], *shapes: Shape, **attributes: Any) -> str:
        """A node; its results have these shapes, and the first one's name is returned."""
        names = [f"v{self.named + place}" for place in range(len(shapes))]
        self.named += len(shapes)
        self.nodes.append(helper.make_node(code, list(inputs), names, **attributes))
        self.shapes.update(zip(names, shapes, strict=True))
        return names[0]


Grow = Callable[[Net, str], "str | None"]
"""Adds an op, or a few, to a value; None where none fits."""

_SMOOTH = ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Elu", "Selu", "Erf", "Abs", "Neg", "Sin", "Cos")
_WITH_NUMBERS: Sequence[tuple[str, dict[str, float], int]] = (
    ("LeakyRelu", {"alpha": 0.1}, 6),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, 6),
    ("Elu", {"alpha": 0.7}, 6),
    ("HardSwish", {}, 14),
    ("Celu", {"alpha": 1.5}, 12),
    ("Mish", {}, 18),
    ("Gelu", {"approximate": "none"}, 20),
    ("Gelu", {"approximate": "tanh"}, 20),
)


def _unary(net: Net, x: str) -> str:
    if net.chance(0.7):
        return net.add(net.pick(*_SMOOTH, "Relu", "Relu"), [x], net.shapes[x])
    code, attributes, _ = net.pick(*(each for each in _WITH_NUMBERS if each[2] <= net.opset))
    return net.add(code, [x], net.shapes[x], **attributes)


def _clip(net: Net, x: str) -> str:
    bounds = sorted(float(v) for v in net.reals(2))
    given = [net.constant(np.float32(v)) for v in bounds]
    return net.add("Clip", net.pick([x, *given], [x, given[0]], [x, "", given[1]]), net.shapes[x])


def _root(net: Net, x: str) -> str:
    """Functions of numbers above 0, of the distance from 0 and a little more."""
    shape = net.shapes[x]
    y = net.add("Add", [net.add("Abs", [x], shape), net.constant(np.float32(net.pick(0.5, 1.0)))], shape)
    return net.add(net.pick("Sqrt", "Log", "Reciprocal"), [y], shape)


def _exp(net: Net, x: str) -> str:
    shape = net.shapes[x]
    return net.add("Exp", [net.add("Tanh", [x], shape)], shape)


def _broadcast(net: Net, shape: Shape) -> Shape:
    """A shape that broadcasts to this one."""
    return tuple(net.pick(n, n, 1) for n in shape)[net.upto(len(shape), 0) if net.chance(0.5) else 0 :]


def _other(net: Net, x: str) -> str | None:
    """Another value that broadcasts with x."""
    shape = net.shapes[x]

    def fits(other: Shape) -> bool:
        try:
            return prod(np.broadcast_shapes(shape, other)) <= MOST_ELEMENTS
        except ValueError:
            return False

    found = [name for name, other in net.shapes.items() if name != x and fits(other)]
    return net.pick(*found) if found else None


def _binary(net: Net, x: str) -> str:
    code = net.pick("Add", "Add", "Mul", "Mul", "Sub", "Div", "Max", "Min", "Sum", "Mean", "PRelu", "Pow", "Where")
    shape = net.shapes[x]
    other = _other(net, x) if net.chance(0.6) else None
    if code == "PRelu":
        return net.add(code, [x, net.constant(net.reals(*_broadcast(net, shape)))], shape)
    if code == "Pow":
        whole = net.chance(0.5)
        base = x if whole else net.add("Add", [net.add("Abs", [x], shape), net.constant(np.float32(0.3))], shape)
        return net.add(code, [base, net.constant(np.float32(net.pick(2, 3) if whole else net.pick(0.5, 1.5)))], shape)
    y = other or net.constant(net.reals(*_broadcast(net, shape)))
    made = np.broadcast_shapes(shape, net.shapes[other] if other else net.constants[y].shape)
    if code == "Where":
        where = net.constant(net.rng.random(_broadcast(net, made)) < 0.5)
        return net.add(code, [where, *net.pick((x, y), (y, x))], made)
    if code == "Div":
        size = net.shapes[other] if other else net.constants[y].shape
        below = net.add("Abs", [y], size)
        y = net.add("Add", [below, net.constant(np.float32(0.5))], size)
        return net.add(code, [x, y], made)
    return net.add(code, list(net.pick((x, y), (y, x))), made)


def _window(net: Net, size: Shape, most: int = 3) -> dict[str, Any] | None:
    """Attributes of a window over these dimensions, of which the result has at least one element."""
    kernel = [min(net.upto(most), n) for n in size]
    made: dict[str, Any] = {"kernel_shape": kernel}
    if net.chance(0.5):
        made["strides"] = [net.upto(2) for _ in size]
    if net.chance(0.2):
        made["auto_pad"] = net.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif net.chance(0.6):
        made["pads"] = [net.upto(k - 1, 0) for _ in range(2) for k in kernel]
    if net.chance(0.2) and "auto_pad" not in made:
        made["dilations"] = [net.upto(2) for _ in size]
    return made


def _reach(options: dict[str, Any], place: int) -> int:
    return (options["kernel_shape"][place] - 1) * options.get("dilations", (1, 1))[place] + 1


def _slid(options: dict[str, Any], size: Shape) -> Shape | None:
    """The sizes after such windows; None where one is empty."""
    found = []
    for place, n in enumerate(size):
        stride, pads = options.get("strides", (1, 1))[place], options.get("pads", (0,) * 2 * len(size))
        if options.get("auto_pad", "VALID") != "VALID":
            found.append(-(-n // stride))
            continue
        room = n + pads[place] + pads[place + len(size)] - _reach(options, place)
        up = bool(options.get("ceil_mode", 0))
        count = (-(-room // stride) if up else room // stride) + 1
        begins_behind = (count - 1) * stride >= n + pads[place]  # of this ONNX and its runtimes say different things
        found.append(0 if room < 0 or (up and begins_behind) else count)
    return tuple(found) if min(found) > 0 else None


def _image(net: Net, x: str) -> str | None:
    """x itself, or its elements as a batch of images or sequences."""
    shape = net.shapes[x]
    if len(shape) in (3, 4):
        return x
    if len(shape) == 2 and shape[1] > 3:
        made = (shape[0], 1, shape[1])
        return net.add("Reshape", [x, net.constant(np.array(made))], made)
    return None


def _conv(net: Net, x: str) -> str | None:
    image = _image(net, x)
    if image is None:
        return None
    n, c, *size = net.shapes[image]
    options = _window(net, tuple(size))
    sizes = options and _slid(options, tuple(size))
    if not options or not sizes:
        return None
    groups = net.pick(1, 1, 1, c, *(g for g in (2, 3) if c % g == 0))
    each = net.upto(2) if groups > 1 else net.upto(6)
    outputs = groups * each
    taps = c // groups * prod(options["kernel_shape"])
    weights = net.constant(net.reals(outputs, c // groups, *options["kernel_shape"], size=taps**-0.5))
    bias = [net.constant(net.reals(outputs, size=0.3))] if net.chance(0.7) else []
    if net.chance(0.3):
        del options["kernel_shape"]
    made = (n, outputs, *sizes)
    y = net.add("Conv", [image, weights, *bias], made, group=groups, **options)
    if net.chance(0.3):
        y = _normalised(net, y)
    if net.chance(0.5):
        y = net.add("Relu", [y], made) if net.chance(0.6) else _clip(net, y)
    return y


def _conv_transpose(net: Net, x: str) -> str | None:
    image = _image(net, x)
    if image is None:
        return None
    n, c, *size = net.shapes[image]
    kernel, strides = [net.upto(3) for _ in size], [net.upto(2) for _ in size]
    pads = [net.upto(k - 1, 0) if net.chance(0.4) else 0 for _ in range(2) for k in kernel]
    more = [net.upto(s - 1, 0) for s in strides]
    rank = len(size)
    sizes = [
        (m - 1) * s + k - pads[place] - pads[place + rank] + more[place]
        for place, (m, k, s) in enumerate(zip(size, kernel, strides, strict=True))
    ]
    groups = net.pick(1, 1, c)
    each = net.upto(3)
    if min(sizes) < 1 or n * groups * each * prod(sizes) > MOST_ELEMENTS:
        return None
    weights = net.constant(net.reals(c, each, *kernel, size=(c // groups * prod(kernel)) ** -0.5))
    bias = [net.constant(net.reals(groups * each, size=0.3))] if net.chance(0.5) else []
    options = {"kernel_shape": kernel, "strides": strides, "pads": pads, "output_padding": more, "group": groups}
    return net.add("ConvTranspose", [image, weights, *bias], (n, groups * each, *sizes), **options)


def _pool(net: Net, x: str) -> str | None:
    image = _image(net, x)
    if image is None:
        return None
    n, c, *size = net.shapes[image]
    code = net.pick("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool")
    if code.startswith("Global"):
        return net.add(code, [image], (n, c, *(1 for _ in size)))
    options = _window(net, tuple(size))
    if options is None:
        return None
    if code == "LpPool" or (code == "AveragePool" and net.opset < 19):
        options.pop("dilations", None)
    if code == "LpPool" and "pads" in options and net.opset < 18:
        del options["pads"]
    if code != "LpPool" and "auto_pad" not in options and net.chance(0.2):
        options["ceil_mode"] = 1
    if code == "AveragePool" and net.chance(0.4) and not options.get("ceil_mode"):
        options["count_include_pad"] = 1
    sizes = _slid(options, tuple(size))
    return sizes and net.add(code, [image], (n, c, *sizes), **options)


def _normalised(net: Net, x: str) -> str:
    """BatchNormalization of dimension 1."""
    c = net.shapes[x][1]
    constants = [net.reals(c) + 1, net.reals(c, size=0.3), net.reals(c, size=0.3), np.abs(net.reals(c)) + 0.3]
    return net.add("BatchNormalization", [x, *(net.constant(v.astype(np.float32)) for v in constants)], net.shapes[x])


def _norm(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    rank = len(shape)
    code = net.pick("BatchNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization", "LRN")
    if code == "BatchNormalization" and rank > 1:
        return _normalised(net, x)
    if code == "InstanceNormalization" and rank > 2 and prod(shape[2:]) > 2:
        c = shape[1]
        return net.add(code, [x, net.constant(net.reals(c) + 1), net.constant(net.reals(c))], shape)
    if code == "LayerNormalization" and net.opset >= 17:
        axis = net.pick(*range(rank))
        if prod(shape[axis:]) > 2:
            scale, offset = (net.constant(net.reals(*shape[axis:])) for _ in range(2))
            return net.add(code, [x, scale, *net.pick([], [offset])], shape, axis=net.pick(axis, axis - rank))
    if code == "LpNormalization":
        return net.add(code, [x], shape, axis=net.pick(*range(rank)), p=net.pick(1, 2))
    if code == "LRN" and rank == 4:
        return net.add(code, [x], shape, size=net.pick(3, 5), alpha=0.2, beta=0.75, bias=1.5)
    return None


def _resize(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    if len(shape) != 4:
        return None
    mode = net.pick("nearest", "nearest", "linear", "linear", "cubic")
    sizes = [net.upto(2 * n) for n in shape[2:]]
    if min(shape[2:]) < 2 or prod(shape[:2]) * prod(sizes) > MOST_ELEMENTS:
        return None
    how = net.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        options["nearest_mode"] = net.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if net.chance(0.5):
        wanted = np.array([*shape[:2], *sizes])
        return net.add("Resize", [x, "", "", net.constant(wanted)], (*shape[:2], *sizes), **options)
    times = [net.pick(0.5, 1.0, 1.5, 2.0, 3.0) for _ in sizes]
    made = (*shape[:2], *(int(np.floor(n * t)) for n, t in zip(shape[2:], times, strict=True)))
    if prod(made) > MOST_ELEMENTS or not all(made):
        return None
    scales = np.array([1.0, 1.0, *times], np.float32)
    return net.add("Resize", [x, "", net.constant(scales)], made, **options)


def _concat(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    axis = net.pick(*range(len(shape)))

    def alike(other: Shape) -> bool:
        return len(other) == len(shape) and other[:axis] + other[axis + 1 :] == shape[:axis] + shape[axis + 1 :]

    parts, found = [x], [name for name, other in net.shapes.items() if alike(other)]
    for _ in range(net.upto(2)):
        size = (*shape[:axis], net.upto(3), *shape[axis + 1 :])
        parts.append(net.pick(*found) if net.chance(0.7) else net.constant(net.reals(*size)))
    sizes = [(net.shapes[n] if n in net.shapes else net.constants[n].shape)[axis] for n in parts]
    made = (*shape[:axis], sum(sizes), *shape[axis + 1 :])
    if prod(made) > MOST_ELEMENTS:
        return None
    net.rng.shuffle(parts)
    return net.add("Concat", parts, made, axis=net.pick(axis, axis - len(shape)))


def _slice(net: Net, x: str) -> str:
    shape = net.shapes[x]
    axes = [axis for axis in range(len(shape)) if net.chance(0.5)] or [len(shape) - 1]
    begins, ends, steps, made = [], [], [], list(shape)
    for axis in axes:
        n = shape[axis]
        first, last, step = net.upto(n - 1, 0), 0, net.pick(1, 1, 2, -1)
        last = net.upto(n, first + 1)
        if step < 0:
            first, last = last - 1, first - 1
        taken = range(first, last, step)
        made[axis] = len(taken)
        begins.append(net.pick(first, first - n))
        ends.append(last if step > 0 else (last - n if last >= 0 else -n - 1))
        steps.append(step)
    constants = [net.constant(np.array(v)) for v in (begins, ends, axes, steps)]
    return net.add("Slice", [x, *constants], tuple(made))


def _transpose(net: Net, x: str) -> str:
    shape = net.shapes[x]
    perm = [int(p) for p in net.rng.permutation(len(shape))]
    return net.add("Transpose", [x], tuple(shape[p] for p in perm), perm=perm)


def _reduce(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    codes = ("Sum", "Mean", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod")
    code = f"Reduce{net.pick(*codes)}"
    axes = [axis for axis in range(len(shape)) if net.chance(0.4)] or [net.pick(*range(len(shape)))]
    keep = net.pick(0, 1)
    made = tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)
    if not made:
        return None
    if code == "ReduceProd" and prod(shape[a] for a in axes) > 8:
        code = "ReduceMax"
    written = [net.pick(a, a - len(shape)) for a in axes]
    if net.opset >= 18 or code == "ReduceSum":
        return net.add(code, [x, net.constant(np.array(written))], made, keepdims=keep)
    return net.add(code, [x], made, keepdims=keep, axes=written)


def _softmax(net: Net, x: str) -> str:
    shape = net.shapes[x]
    return net.add(
        net.pick("Softmax", "Softmax", "LogSoftmax"), [x], shape, axis=net.pick(*range(-len(shape), len(shape)))
    )


def _matmul(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    if len(shape) < 2:
        return None
    *batch, rows, columns = shape
    kind = net.pick("right", "right", "right batched", "left", "left batched", "computed", "vector")
    if kind.startswith("right"):
        ahead = _broadcast(net, tuple(batch)) if kind.endswith("batched") else ()
        outputs = net.upto(6)
        other = net.constant(net.reals(*ahead, columns, outputs, size=columns**-0.5))
        return net.add("MatMul", [x, other], (*batch, rows, outputs))
    if kind.startswith("left"):
        ahead = _broadcast(net, tuple(batch)) if kind.endswith("batched") else ()
        outputs = net.upto(6)
        other = net.constant(net.reals(*ahead, outputs, rows, size=rows**-0.5))
        return net.add("MatMul", [other, x], (*batch, outputs, columns))
    if kind == "vector":
        return net.add("MatMul", [x, net.constant(net.reals(columns, size=columns**-0.5))], (*batch, rows))
    if rows * prod(shape[:-1]) > MOST_ELEMENTS:
        return None
    perm = [*range(len(batch)), len(batch) + 1, len(batch)]
    turned = net.add("Transpose", [x], (*batch, columns, rows), perm=perm)
    made = net.add("MatMul", [x, turned], (*batch, rows, rows))
    return net.add("Mul", [made, net.constant(np.float32(1 / columns))], (*batch, rows, rows))


def _gemm(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    if len(shape) != 2:
        flat = (shape[0], prod(shape[1:]))
        if len(shape) < 2 or flat[1] > 200:
            return None
        x, shape = net.add("Flatten", [x], flat), flat
    turned = net.chance(0.15)
    rows, columns = shape[::-1] if turned else shape
    outputs, other = net.upto(8), net.chance(0.6)
    size = (outputs, columns) if other else (columns, outputs)
    weights = net.constant(net.reals(*size, size=columns**-0.5))
    bias = net.pick(None, (outputs,), (outputs,), (1, outputs), (1,), (), (rows, 1), (rows, outputs))
    more = [] if bias is None else [net.constant(net.reals(*bias, size=0.3))]
    factors: dict[str, Any] = {"alpha": 0.5} if net.chance(0.2) else {}
    factors |= {"beta": 2.0} if net.chance(0.2) else {}
    return net.add("Gemm", [x, weights, *more], (rows, outputs), transA=int(turned), transB=int(other), **factors)


def _gather(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    axis = net.pick(*range(len(shape)))
    count = net.pick((), (net.upto(4),), (2, 2))
    if len(shape) == 1 and not count:
        return None
    n = shape[axis]
    indices = net.constant(net.rng.integers(-n, n, count))
    made = (*shape[:axis], *count, *shape[axis + 1 :])
    return net.add("Gather", [x, indices], made, axis=axis) if prod(made) <= MOST_ELEMENTS and len(made) < 6 else None


def _gather_elements(net: Net, x: str) -> str:
    shape = net.shapes[x]
    axis = net.pick(*range(len(shape)))
    made = tuple(net.upto(n) for n in shape)
    indices = net.constant(net.rng.integers(-shape[axis], shape[axis], made))
    return net.add("GatherElements", [x, indices], made, axis=axis)


def _split(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    axis = net.pick(*range(len(shape)))
    if shape[axis] < 2:
        return None
    first = net.upto(shape[axis] - 1)
    sizes = [first, shape[axis] - first]
    made = [(*shape[:axis], n, *shape[axis + 1 :]) for n in sizes]
    return net.add("Split", [x, net.constant(np.array(sizes))], *made, axis=axis)


def _pad(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    mode = net.pick("constant", "constant", "reflect", "edge")
    most = [min(2, n - 1) if mode == "reflect" else 2 for n in shape]
    pads = [net.upto(m, 0) if net.chance(0.5) else 0 for _ in range(2) for m in most]
    made = tuple(n + pads[place] + pads[place + len(shape)] for place, n in enumerate(shape))
    if prod(made) > MOST_ELEMENTS:
        return None
    value = [net.constant(np.float32(0.7))] if mode == "constant" and net.chance(0.4) else []
    return net.add("Pad", [x, net.constant(np.array(pads)), *value], made, mode=mode)


def _repeat(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    times = [net.pick(1, 1, 2) for _ in shape]
    made = tuple(n * t for n, t in zip(shape, times, strict=True))
    if prod(made) > MOST_ELEMENTS:
        return None
    if net.chance(0.5):
        return net.add("Tile", [x, net.constant(np.array(times))], made)
    wide = tuple(net.upto(3) if n == 1 else n for n in shape)
    return net.add("Expand", [x, net.constant(np.array(wide))], wide) if prod(wide) <= MOST_ELEMENTS else None


def _blocks(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    if len(shape) != 4:
        return None
    n, c, h, w = shape
    if c % 4 == 0:
        return net.add("DepthToSpace", [x], (n, c // 4, h * 2, w * 2), blocksize=2, mode=net.pick("DCR", "CRD"))
    if h % 2 == 0 and w % 2 == 0:
        return net.add("SpaceToDepth", [x], (n, c * 4, h // 2, w // 2), blocksize=2)
    return None


def _reshape(net: Net, x: str) -> str:
    shape, kind = net.shapes[x], net.pick("join", "part", "flatten", "squeeze", "unsqueeze")
    rank = len(shape)
    if kind == "join" and rank > 1:
        at = net.upto(rank - 2, 0)
        made = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        written = tuple(-1 if place == at else n for place, n in enumerate(made))
        return net.add("Reshape", [x, net.constant(np.array(written))], made)
    if kind == "part" and rank < 5:
        at = net.pick(*range(rank))
        by = net.pick(*(d for d in range(1, shape[at] + 1) if shape[at] % d == 0))
        made = (*shape[:at], by, shape[at] // by, *shape[at + 1 :])
        return net.add("Reshape", [x, net.constant(np.array(made))], made)
    if kind == "squeeze" and 1 in shape and rank > 1:
        axis = shape.index(1)
        return net.add("Squeeze", [x, net.constant(np.array([axis]))], shape[:axis] + shape[axis + 1 :])
    if kind == "unsqueeze" and rank < 5:
        axis = net.upto(rank, 0)
        return net.add("Unsqueeze", [x, net.constant(np.array([axis]))], (*shape[:axis], 1, *shape[axis:]))
    axis = net.upto(rank, 0)
    return net.add("Flatten", [x], (prod(shape[:axis]), prod(shape[axis:])), axis=axis)


def _running(net: Net, x: str) -> str:
    shape = net.shapes[x]
    axis = net.constant(np.array(net.pick(*range(len(shape)))))
    return net.add("CumSum", [x, axis], shape, exclusive=net.pick(0, 1), reverse=net.pick(0, 1))


def _chosen(net: Net, x: str) -> str | None:
    """Places of the largest elements, as an end of the model, or these elements."""
    shape = net.shapes[x]
    axis = net.pick(*range(len(shape)))
    if x not in net.inputs:  # elements that are computed may be equal but for rounding
        return None
    if net.chance(0.5):
        k = net.upto(shape[axis])
        made = (*shape[:axis], k, *shape[axis + 1 :])
        y = net.add("TopK", [x, net.constant(np.array([k]))], made, made, axis=axis, largest=net.pick(0, 1))
        places = net.nodes[-1].output[1]
        net.whole[places] = net.shapes.pop(places)
        return y
    name = f"w{len(net.whole)}"
    keep = net.pick(0, 1)
    code = net.pick("ArgMax", "ArgMin")
    net.nodes.append(helper.make_node(code, [x], [name], axis=axis, keepdims=keep))
    net.whole[name] = tuple(1 if a == axis else n for a, n in enumerate(shape) if keep or a != axis)
    return None


def _einsum(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    if len(shape) == 3:
        other = net.constant(net.reals(shape[2], 4, size=shape[2] ** -0.5))
        return net.add("Einsum", [x, other], (*shape[:2], 4), equation="abc,cd->abd")
    if len(shape) == 2:
        return net.add("Einsum", [x, x], (shape[1], shape[1]), equation="ab,ac->bc") if shape[1] < 20 else None
    return None


def _residual(net: Net, x: str) -> str | None:
    """A convolution of the same size, added to x."""
    shape = net.shapes[x]
    if len(shape) != 4:
        return None
    c = shape[1]
    weights = net.constant(net.reals(c, c, 3, 3, size=(9 * c) ** -0.5))
    y = net.add("Conv", [x, weights], shape, pads=[1] * 4)
    return net.add("Relu", [net.add("Add", [x, y], shape)], shape)


def _gate(net: Net, x: str) -> str | None:
    """x times what a mean over it says (squeeze and excite)."""
    shape = net.shapes[x]
    if len(shape) != 4:
        return None
    c = shape[1]
    mean = net.add("GlobalAveragePool", [x], (shape[0], c, 1, 1))
    weights = net.constant(net.reals(c, c, 1, 1, size=c**-0.5))
    gate = net.add("Sigmoid", [net.add("Conv", [mean, weights], (shape[0], c, 1, 1))], (shape[0], c, 1, 1))
    return net.add("Mul", [x, gate], shape)


GROWERS: Sequence[Grow] = (
    *(_conv,) * 5,
    *(_pool, _binary, _unary, _matmul, _gemm, _concat) * 2,
    _binary,
    _clip,
    _root,
    _exp,
    _conv_transpose,
    _norm,
    _resize,
    _slice,
    _transpose,
    _reduce,
    _softmax,
    _gather,
    _gather_elements,
    _split,
    _pad,
    _repeat,
    _blocks,
    _reshape,
    _running,
    _chosen,
    _einsum,
    _residual,
    _gate,
)


def _input_shape(net: Net) -> Shape:
    rank = net.pick(2, 3, 3, 4, 4, 4, 4, 4)
    batch = 1 if net.chance(0.8) else 2
    if rank == 4:
        return batch, net.upto(6), net.upto(9), net.upto(9)
    return (batch, net.upto(6), net.upto(12)) if rank == 3 else (net.pick(batch, 3), net.upto(20))


def random_model(seed: int) -> onnx.ModelProto:
    """The network of that seed."""
    net = Net(np.random.default_rng(seed), 21)
    net.opset = net.pick(13, 17, 18, 19, 21)
    for _ in range(net.pick(1, 1, 1, 2)):
        name = f"x{len(net.inputs)}"
        net.inputs.append(name)
        net.shapes[name] = _input_shape(net)
    ready, most = list(net.inputs), net.upto(MOST_OPS, 2)
    while len(net.nodes) < most:
        x = ready[-1] if net.chance(0.75) else net.pick(*ready)
        made = GROWERS[int(net.rng.integers(len(GROWERS)))](net, x)
        if made is not None:
            ready.append(made)
    return _finished(net, ready)


def _finished(net: Net, ready: Sequence[str]) -> onnx.ModelProto:
    """The model; its outputs are the last value, often others, and all that is of integers."""
    read = {name for node in net.nodes for name in node.input}
    written = {name for node in net.nodes for name in node.output}
    ends = [name for name in net.shapes if name in written and name not in read]
    while net.chance(0.3):
        ends.append(net.pick(*(name for name in net.shapes if name in written), ready[-1]))
    ends = [name for name in dict.fromkeys(ends) if name in written] or [n for n in net.shapes if n in written][-1:]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, net.shapes[name]) for name in ends]
    outputs += [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in net.whole.items()]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, net.shapes[name]) for name in net.inputs]
    held = [numpy_helper.from_array(data, name) for name, data in net.constants.items() if name in read]
    graph = helper.make_graph(net.nodes, "random", inputs, outputs, held)
    opset = helper.make_opsetid("", net.opset)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10 if net.opset > 20 else 8)


def random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Numbers of a normal distribution for each input."""
    rng = np.random.default_rng(seed)
    ends = [(each.name, [d.dim_value for d in each.type.tensor_type.shape.dim]) for each in model.graph.input]
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in ends}
