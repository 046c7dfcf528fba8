"""First guesses for the layers that a move makes: what a layer should compute is what the old graph computes there.

Ridge regression finds the weights with which a layer's sums come nearest to the old tensors over some samples. It needs
no labels and no training. The layers are begun in the order of the graph, so each is fitted to the inputs that it
really gets from those before it.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np
import torch

from shoehorn_mcu.ir import Graph, Node, is_a, verify
from shoehorn_mcu.learn.layers import is_trained
from shoehorn_mcu.learn.twin import Twin, evaluated
from shoehorn_mcu.ops import Conv2d, DepthwiseConv2d
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.layers import Reals, Weights, data
from shoehorn_mcu.slim.learner import Samples
from shoehorn_mcu.slim.moved import Born, Moved, Part

FIRSTS = ("least-squares", "copy", "random")
"""What the layers that are born may begin with."""

SAMPLES = 384
"""Samples of a regression."""

ROWS, ELEMENTS = 24_000, 1 << 26
"""Windows of these samples that a regression takes at most, and their elements."""

RIDGE = 1e-3
"""How strongly a regression is drawn to the weights that are there, relative to the mean power of its inputs."""


def begin(old: Graph, moved: Moved, samples: Samples, first: str, seed: int, device: str = "cpu") -> Graph:
    """The moved graph with first guesses for its born layers: "least-squares", "copy" or "random".

    "copy" keeps the weights that the move has given. "random" draws all weights of the born layers (He et al. 2015),
    also those of parts that stand for no old channels: so DeepRebirth begins, and a network from nothing.
    """
    if first not in FIRSTS:
        raise SlimError(f"first = {first!r}: only {', '.join(FIRSTS)} are known")
    if first == "random":
        return _random(moved, seed)
    if first == "copy" or not any(part.old is not None for born in moved.born for part in born.parts):
        return moved.graph
    return _Regression(old, moved, samples, seed, device).graph()


def _born(moved: Moved, graph: Graph) -> list[tuple[Born, Node[Conv2d | DepthwiseConv2d]]]:
    """The born layers that stand for something, in the order of the graph."""
    named = {born.layer: born for born in moved.born if any(part.old is not None for part in born.parts)}
    found: list[tuple[Born, Node[Conv2d | DepthwiseConv2d]]] = []
    for node in graph.nodes():
        if node.op.name in named:
            if not (is_a(node, Conv2d) or is_a(node, DepthwiseConv2d)):
                raise SlimError(f"{graph.name}: layer '{node.op.name}' is no convolution; give first = \"copy\"")
            found.append((named[node.op.name], node))
    return found


def _random(moved: Moved, seed: int) -> Graph:
    graph, names = moved.graph, {born.layer for born in moved.born}
    tensors = dict(graph.tensors)
    for node in graph.nodes():
        if node.op.name in names and is_trained(node):
            rng = np.random.default_rng([seed, zlib.crc32(node.op.name.encode())])
            shape, axis = node.weights.type.shape, node.op.channel_axis
            fan_in = math.prod(shape) // shape[axis]
            drawn = (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)
            tensors[node.weights.name] = replace(node.weights, data=drawn)
            tensors[node.bias.name] = replace(node.bias, data=np.zeros(shape[axis], np.float32))
    return verify(replace(graph, tensors=tensors))


def _places(born: Born) -> list[tuple[Part, slice]]:
    """The parts of a layer, each with its channels."""
    ends = np.cumsum([part.channels for part in born.parts])
    return [(part, slice(int(end) - part.channels, int(end))) for part, end in zip(born.parts, ends, strict=True)]


def _by_channel(node: Node[Conv2d | DepthwiseConv2d]) -> Reals:
    """A copy of the weights as [outputs, kernel height, kernel width, inputs of the group]."""
    weights = data(node.weights)
    return np.moveaxis(weights, 3, 0).copy() if isinstance(node.op, DepthwiseConv2d) else weights.copy()


def _with(graph: Graph, node: Node[Conv2d | DepthwiseConv2d], weights: Reals, bias: Reals) -> Graph:
    """The graph with other constants of a layer, from weights as `_by_channel` gives them."""
    if isinstance(node.op, DepthwiseConv2d):
        weights = np.moveaxis(weights, 0, 3)
    held = Weights(np.ascontiguousarray(weights, np.float32), np.ascontiguousarray(bias, np.float32))
    changed = {t.name: replace(t, data=each) for t, each in zip(node.inputs[1:], held, strict=True)}
    return verify(replace(graph, tensors={**graph.tensors, **changed}))


class _Regression:
    """A moved graph whose born layers are fitted one after another."""

    def __init__(self, old: Graph, moved: Moved, samples: Samples, seed: int, device: str) -> None:
        if len(samples) == 0:
            raise SlimError('there are no samples for a start by least squares; give some, or first = "random"')
        self._moved, self._seed, self._device = moved, seed, device
        picked = np.random.default_rng([seed, 0]).permutation(len(samples))[:SAMPLES]
        self._x = samples.x[np.sort(picked)]
        self._old = Twin(old).to(device)
        self._values: dict[tuple[str, tuple[str, ...]], torch.Tensor] = {}  # of the old graph, by tensor and free ops

    def graph(self) -> Graph:
        graph = self._moved.graph
        for born, _ in _born(self._moved, graph):
            graph = self._fitted(graph, born)
        return graph

    def _fitted(self, graph: Graph, born: Born) -> Graph:
        node = next(node for each, node in _born(self._moved, graph) if each is born)
        (x,) = evaluated(Twin(graph).to(self._device), self._x, (node.x.name,), device=self._device)
        x = x.flatten(0, 1).cpu()
        _, down, across, channels = node.output.type.shape
        places = len(x) * down * across
        rng = np.random.default_rng([self._seed, zlib.crc32(born.layer.encode())])
        weights, bias = _by_channel(node), data(node.bias).copy()
        groups = channels if isinstance(node.op, DepthwiseConv2d) else x.shape[3] // weights.shape[3]
        size = weights[0].size * groups
        rows = torch.from_numpy(np.sort(rng.permutation(places)[: min(ROWS, ELEMENTS // size)]))
        windows = _windows(x, node, rows)  # [rows, taps, C]
        if isinstance(node.op, DepthwiseConv2d):
            windows = windows.repeat_interleave(channels // x.shape[3], 2)
        windows = windows.unflatten(2, (groups, -1)).permute(2, 0, 1, 3).flatten(2)  # [groups, rows, inputs]
        wanted = torch.zeros((len(rows), channels), dtype=torch.float64)
        fitted = np.zeros(channels, np.bool_)
        for part, at in _places(born):
            if part.old is not None:
                wanted[:, at] = self._wanted(part, node, rows)
                fitted[at] = True
        grouped = wanted.unflatten(1, (groups, -1)).permute(1, 0, 2)  # [groups, rows, outputs]
        before = torch.from_numpy(weights.astype(np.float64)).reshape(groups, channels // groups, -1).transpose(1, 2)
        after, offset = ridge(windows.double(), grouped, before, RIDGE)
        if not (after.isfinite().all() and offset.isfinite().all()):
            raise SlimError(
                f"{graph.name}: layer '{node.op.name}' cannot be fitted: the samples give values that are not finite; "
                "look at how the samples are scaled"
            )
        found = after.transpose(1, 2).reshape(weights.shape).numpy()
        weights[fitted], bias[fitted] = found[fitted], offset.reshape(-1).numpy()[fitted]
        return _with(graph, node, weights, bias)

    def _wanted(self, part: Part, node: Node[Conv2d | DepthwiseConv2d], rows: torch.Tensor) -> torch.Tensor:
        """What a part's sums should be: the old value, or where that lies on a bound the value without the bounds.

        Such a value is moved to the bound's side: a rectified 0 says only that the sum was not above 0.
        """
        bounds, at = node.op.clamp, slice(part.first, part.first + part.channels)
        value = self._old_rows(part.old, (), rows)[:, at]
        free = self._old_rows(part.old, part.free, rows)[:, at] if part.free else value
        value = torch.where(value <= bounds.low, free.clamp(max=bounds.low), value)
        return torch.where(value >= bounds.high, free.clamp(min=bounds.high), value)

    def _old_rows(self, name: str | None, free: tuple[str, ...], rows: torch.Tensor) -> torch.Tensor:
        assert name is not None
        if (name, free) not in self._values:
            (value,) = evaluated(self._old, self._x, (name,), free, self._device)
            self._values[name, free] = value.flatten(0, -2).cpu()
        return self._values[name, free][rows].double()


def _windows(x: torch.Tensor, node: Node[Conv2d | DepthwiseConv2d], rows: torch.Tensor) -> torch.Tensor:
    """[rows, taps, C]: what a convolution sees of images [N, H, W, C] for these pixels of its output."""
    op, (_, down, across, _) = node.op, node.output.type.shape
    _, high, wide, _ = node.weights.type.shape
    pad = op.padding
    framed = torch.nn.functional.pad(x, (0, 0, pad.left, pad.right, pad.top, pad.bottom))
    image, y, left = rows // (down * across), rows // across % down * op.stride[0], rows % across * op.stride[1]
    taps = [(ky * op.dilation[0], kx * op.dilation[1]) for ky in range(high) for kx in range(wide)]
    return torch.stack([framed[image, y + ky, left + kx] for ky, kx in taps], 1)


def ridge(
    x: torch.Tensor, wanted: torch.Tensor, before: torch.Tensor, strength: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights [groups, inputs, outputs] and offsets [groups, outputs] with which x best gives what is wanted.

    x is [groups, rows, inputs], `wanted` [groups, rows, outputs]. The weights are drawn to those of `before`, as far
    as these explain what is wanted: each output's are scaled to fit best, between 0 and 1 times, so that weights that
    say nothing draw to 0.
    """
    mean, goal = x.mean(1, keepdim=True), wanted.mean(1, keepdim=True)
    x, rest = x - mean, wanted - goal
    given = x @ before
    scale = (given * rest).sum(1, keepdim=True) / given.square().sum(1, keepdim=True).clamp(min=1e-30)
    before = before * scale.clamp(0, 1)
    gram = x.transpose(1, 2) @ x
    power = gram.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-30)
    gram = gram + strength * power[:, None, None] * torch.eye(gram.shape[1], dtype=gram.dtype)
    change = torch.linalg.solve(gram, x.transpose(1, 2) @ (rest - x @ before))
    weights = before + change
    return weights, (goal - mean @ weights)[:, 0]
