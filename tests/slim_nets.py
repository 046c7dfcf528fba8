"""Small networks of the kinds that `gen slim` is for, as ONNX with random weights: GoogLeNet, MobileNetV2, ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper


@dataclass
class Net:
    """A network that grows layer by layer; each method gives the name of the value that it makes.

    `side` and `channels` are those of the input, [1, channels, side, side]. Convolutions pad as SAME does.
    """

    side: int
    channels: int
    seed: int = 0
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    shapes: dict[str, tuple[int, int]] = field(default_factory=dict)  # channels and side of each value

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.shapes["image"] = self.channels, self.side

    def _constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def _pads(self, side: int, kernel: int, stride: int) -> list[int]:
        total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        return [total // 2, total // 2, total - total // 2, total - total // 2]

    def _node(self, code: str, name: str, inputs: Sequence[str], **attributes: object) -> str:
        self.nodes.append(helper.make_node(code, list(inputs), [name], name=f"{name}:{code}", **attributes))
        return name

    def conv(
        self,
        name: str,
        x: str,
        out: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        depthwise: bool = False,
        relu: bool = True,
    ) -> str:
        channels, side = self.shapes[x]
        per_group = 1 if depthwise else channels
        drawn = self.rng.standard_normal((out, per_group, kernel, kernel)) * np.sqrt(2 / (per_group * kernel**2))
        inputs = [
            x,
            self._constant(f"{name}.weight", drawn),
            self._constant(f"{name}.bias", 0.01 * self.rng.standard_normal(out)),
        ]
        made = f"{name}.sum" if relu else name
        group = channels if depthwise else 1
        self._node(
            "Conv",
            made,
            inputs,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            group=group,
            pads=self._pads(side, kernel, stride),
        )
        self.shapes[name] = out, -(-side // stride)
        return self._node("Relu", name, [made]) if relu else name

    def max_pool(self, name: str, x: str, kernel: int, stride: int) -> str:
        channels, side = self.shapes[x]
        self.shapes[name] = channels, -(-side // stride)
        return self._node(
            "MaxPool", name, [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=self._pads(side, kernel, stride)
        )

    def lrn(self, name: str, x: str) -> str:
        self.shapes[name] = self.shapes[x]
        return self._node("LRN", name, [x], size=5, alpha=0.3, beta=0.75, bias=1.0)

    def concat(self, name: str, parts: Sequence[str]) -> str:
        self.shapes[name] = sum(self.shapes[part][0] for part in parts), self.shapes[parts[0]][1]
        return self._node("Concat", name, parts, axis=1)

    def add(self, name: str, a: str, b: str, *, relu: bool = False) -> str:
        self.shapes[name] = self.shapes[a]
        made = self._node("Add", f"{name}.sum" if relu else name, [a, b])
        return self._node("Relu", name, [made]) if relu else made

    def model(self, x: str, classes: int) -> ModelProto:
        """The network with a mean over the image and a dense layer."""
        channels, _ = self.shapes[x]
        self._node("GlobalAveragePool", "mean", [x])
        self._node("Flatten", "flat", ["mean"])
        weights = self.rng.standard_normal((classes, channels)) / np.sqrt(channels)
        inputs = ["flat", self._constant("logits.weight", weights), self._constant("logits.bias", np.zeros(classes))]
        self._node("Gemm", "logits", inputs, transB=1)
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, self.channels, self.side, self.side])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, classes])
        graph = helper.make_graph(self.nodes, "net", [image], [logits], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def inception(self, name: str, x: str, widths: Sequence[int]) -> str:
        """An inception module; `widths` are those of 1x1, 3x3 reducer, 3x3, 5x5 reducer, 5x5 and pool branch."""
        c1, r3, c3, r5, c5, cp = widths
        one = self.conv(f"{name}/1x1", x, c1)
        three = self.conv(f"{name}/3x3", self.conv(f"{name}/3x3r", x, r3), c3, 3)
        five = self.conv(f"{name}/5x5", self.conv(f"{name}/5x5r", x, r5), c5, 5)
        pooled = self.conv(f"{name}/proj", self.max_pool(f"{name}/pool", x, 3, 1), cp)
        return self.concat(f"{name}/cat", [one, three, five, pooled])

    def bottleneck(self, name: str, x: str, expanded: int, out: int, stride: int) -> str:
        """An inverted residual of MobileNetV2, with its skip connection where shapes agree."""
        wide = self.conv(f"{name}/dw", self.conv(f"{name}/expand", x, expanded), expanded, 3, stride, depthwise=True)
        narrow = self.conv(f"{name}/project", wide, out, relu=False)
        return self.add(f"{name}/add", narrow, x) if stride == 1 and self.shapes[x][0] == out else narrow


def googlenet(side: int, channels: int, classes: int = 10, *, lrn: bool = True, seed: int = 0) -> ModelProto:
    """GoogLeNet's plan in small: a stem with two local response normalisations and two pools, and four modules."""
    net = Net(side, channels, seed)
    x = net.max_pool("pool1", net.conv("conv1", "image", 24, 3), 3, 2)
    x = net.lrn("norm1", x) if lrn else x
    x = net.conv("conv2", net.conv("conv2r", x, 24), 64, 3)
    x = net.max_pool("pool2", net.lrn("norm2", x) if lrn else x, 3, 2)
    x = net.inception("3b", net.inception("3a", x, (24, 32, 48, 8, 12, 12)), (32, 40, 64, 8, 16, 16))
    x = net.inception("4a", net.max_pool("pool3", x, 3, 2), (48, 48, 96, 8, 24, 24))
    return net.model(net.inception("4b", x, (64, 64, 128, 12, 32, 32)), classes)


def mobilenet(side: int, channels: int, classes: int = 10, *, seed: int = 0) -> ModelProto:
    """MobileNetV2's plan in small, expansion 6: seven inverted residuals."""
    net = Net(side, channels, seed)
    x = net.conv("stem", "image", 16, 3, 2)
    for place, (out, stride) in enumerate([(16, 1), (24, 2), (24, 1), (32, 1), (32, 1), (48, 2), (48, 1)]):
        x = net.bottleneck(f"b{place}", x, 6 * net.shapes[x][0], out, stride)
    return net.model(net.conv("head", x, 128), classes)


def digits(seed: int = 0) -> ModelProto:
    """The plan of the model that ships with Shoehorn."""
    net = Net(8, 1, seed)
    x = net.bottleneck("b1", net.conv("stem", "image", 8, 3), 16, 8, 1)
    x = net.bottleneck("b3", net.bottleneck("b2", x, 16, 16, 2), 64, 16, 1)
    return net.model(net.conv("head", x, 48), 10)


def tiny(seed: int = 0) -> ModelProto:
    """Everything that moves know in one network for 8x8 digits: pools, a normalisation, a module, a bottleneck."""
    net = Net(8, 1, seed)
    x = net.max_pool("pool1", net.lrn("norm1", net.conv("conv1", "image", 16, 3)), 3, 2)
    x = net.inception("mixed", x, (8, 8, 12, 8, 8, 8))
    return net.model(net.bottleneck("block", x, 72, 36, 1), 10)
