"""Layers with trained constants in PyTorch."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch.nn import functional
from typing_extensions import TypeIs

from shoehorn_mcu.ir import Node, is_a
from shoehorn_mcu.learn.functions import as_image, framed, from_image
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, Padding
from shoehorn_mcu.slim.layers import Reals, Weights, data


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A layer: `weight` in PyTorch's order, and a bias.

    Layers that read one constant have one parameter for it.
    """

    def __init__(self, weight: torch.nn.Parameter, bias: torch.nn.Parameter | None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def held(self) -> Weights:
        """The constants as they are now, in the graph's order of dimensions."""
        raise NotImplementedError


class Linear(Layer):
    """A dense layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight, self.bias)

    def held(self) -> Weights:
        return Weights(_array(self.weight), _array(self.bias))


class Convolution(Layer):
    """A convolution with a bias."""

    def __init__(
        self, node: Node[Conv2d | DepthwiseConv2d], weight: torch.nn.Parameter, bias: torch.nn.Parameter | None
    ) -> None:
        super().__init__(weight, bias)
        op, pad = node.op, node.op.padding
        self.images = node.x.type.shape[0]
        self._depthwise = isinstance(op, DepthwiseConv2d)
        # oneDNN 3.12 writes beyond the gradient of a 1x1 filter with strides, so such a convolution gets the pixels it
        # reads, and steps by one.
        skips = weight.shape[2:] == (1, 1) and op.stride != (1, 1)
        self._steps = op.stride if skips else (1, 1)
        even = (pad.top, pad.left) == (pad.bottom, pad.right)
        self._frame = None if pad == Padding() or (even and not skips) else pad
        self._shared = {
            "stride": (1, 1) if skips else op.stride,
            "dilation": op.dilation,
            "padding": (pad.top, pad.left) if self._frame is None else 0,
            "groups": node.x.type.shape[3] // weight.shape[1],
        }

    def sums(self, x: torch.Tensor) -> torch.Tensor:
        """The sums, and the bias if there is one, as [images, C, H, W]."""
        image = as_image(x)
        framed_image = image if self._frame is None else framed(image, self._frame)
        down, right = self._steps
        return functional.conv2d(framed_image[:, :, ::down, ::right], self.weight, self.bias, **self._shared)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return from_image(self.sums(x), self.images)

    def held(self) -> Weights:
        return self._ordered(self.weight, self.bias)

    def _ordered(self, weight: torch.Tensor, bias: torch.Tensor) -> Weights:
        return Weights(_array(weight.permute((1, 2, 3, 0) if self._depthwise else (0, 2, 3, 1))), _array(bias))


_STILL = 1e-8  # times the epsilon of the normalisation: a variance below it means that the sums never varied


class Normalised(Convolution):
    """A convolution with a batch normalisation behind it.

    A file whose exporter has folded the batch normalisations has none left, and without them a network trains badly.
    So each convolution gets one that, as long as it is not trained, gives in evaluation what the graph computes: its
    mean and variance are those of the convolution's sums over samples (`settle`), its factor and offset undo them. The
    weights are scaled to the variance of He et al. (2015), 2 / fan-in, and the factor undoes that as well, so that a
    rate means the same for every file. `held` folds all of it into weights and bias again.
    """

    def __init__(
        self, node: Node[Conv2d | DepthwiseConv2d], weight: torch.nn.Parameter, bias: torch.nn.Parameter
    ) -> None:
        super().__init__(node, weight, None)
        self.norm = torch.nn.BatchNorm2d(len(weight))
        with torch.no_grad():
            size, fan_in = weight.square().mean().sqrt(), weight[0].numel()
            scale = size * (fan_in / 2) ** 0.5 if size > 0 else torch.ones(())
            weight /= scale
            self.norm.weight.copy_(scale * (1 + self.norm.eps) ** 0.5)
            self.norm.bias.copy_(bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return from_image(self.norm(self.sums(x)), self.images)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def settle(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        """Gives the batch normalisation these statistics of the sums, in float64, and keeps what the layer computes."""
        norm, (factor, offset) = self.norm, self._folded()
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        norm.weight.copy_(factor * (norm.running_var.double() + norm.eps).sqrt())
        norm.bias.copy_(offset + factor * norm.running_mean.double())

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def silence(self) -> None:
        """Gives channels whose sums did not vary in training no weights, but their one value as a bias.

        The statistics of such a channel, whose inputs are mostly those of a rectifier that is never active, would make
        weights of hundreds out of nothing: its int8 form has steps so wide that most kernels refuse the whole layer.
        """
        self.norm.weight[self.norm.running_var < _STILL * self.norm.eps] = 0

    def _folded(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What the normalisation multiplies the sums by and adds to them, in float64."""
        norm = self.norm
        factor = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
        return factor, norm.bias.double() - factor * norm.running_mean.double()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def held(self) -> Weights:
        factor, offset = self._folded()
        return self._ordered(self.weight.double() * factor[:, None, None, None], offset)


Trainable: TypeAlias = Conv2d | DepthwiseConv2d | Dense
"""The ops whose weights and bias are trained."""


def is_trained(node: Node) -> TypeIs[Node[Trainable]]:
    """Whether the node is a layer with weights and bias, which are constants in float32."""
    return isinstance(node.op, Trainable)


def parameters(node: Node[Trainable]) -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
    """The constants of a layer in PyTorch's order of dimensions."""
    weights, bias = torch.from_numpy(data(node.weights)), torch.from_numpy(data(node.bias).copy())
    if isinstance(node.op, Dense):
        return torch.nn.Parameter(weights.clone()), torch.nn.Parameter(bias)
    order = (3, 0, 1, 2) if isinstance(node.op, DepthwiseConv2d) else (0, 3, 1, 2)
    image = weights.permute(order).clone(memory_format=torch.contiguous_format)
    return torch.nn.Parameter(image.contiguous(memory_format=torch.channels_last)), torch.nn.Parameter(bias)


def layer(node: Node[Trainable], weight: torch.nn.Parameter, bias: torch.nn.Parameter, alone: bool) -> Layer:
    """The layer of a node; `alone`: no other layer has these parameters."""
    if is_a(node, Dense):
        return Linear(weight, bias)
    assert is_a(node, Conv2d) or is_a(node, DepthwiseConv2d)
    return Normalised(node, weight, bias) if alone else Convolution(node, weight, bias)


def _array(values: torch.Tensor) -> Reals:
    return np.ascontiguousarray(values.detach().cpu().double().numpy().astype(np.float32))
