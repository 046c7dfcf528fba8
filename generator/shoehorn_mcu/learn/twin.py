"""The twin of a float32 graph in PyTorch: it computes what the graph computes, for many samples, with gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from shoehorn_mcu.ir import Array, Graph, Node, Tensor, verify
from shoehorn_mcu.ir.edit import numbered_name
from shoehorn_mcu.learn.fixed import tensor
from shoehorn_mcu.learn.formulas import NoGradientError
from shoehorn_mcu.learn.functions import function
from shoehorn_mcu.learn.layers import Layer, Normalised, Trainable, is_trained, layer, parameters
from shoehorn_mcu.ops import Clamped, Reshape, Softmax
from shoehorn_mcu.ops.clamp import LARGEST_FLOAT32, Bounds
from shoehorn_mcu.slim.fault import SlimError

CHUNK = 256
"""Samples that are evaluated at once."""


class Twin(torch.nn.Module):  # type: ignore[misc]
    """A module with the weights of a graph. `graph` gives the graph with the weights that the module has by then.

    A value has a dimension of samples in front of all dimensions that the graph's tensor has, so that an op which
    moves elements along the graph's own first dimension stays as it is. To PyTorch an image is one whose channels come
    first and lie last in memory (channels_last).

    Weights and biases of convolutions and dense layers are trained. Other constants stay: they may be what a formula
    needs, such as the counts of an average. Those that several layers read are one parameter of all of them.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        self._keys: dict[str, str] = {}  # of the modules, by names of ops
        self.ops = torch.nn.ModuleDict()
        self._shared: dict[str, torch.nn.Parameter] = {}  # by names of constants
        reads = Counter(name for op in graph.ops for name in op.inputs)
        for node in graph.nodes():
            key = numbered_name(_Taken(self.ops), node.op.name.replace(".", "/"))
            self.ops[key] = self._layer(node, reads) if is_trained(node) else self._function(node)
            self._keys[node.op.name] = key
        for place, each in enumerate(self._constants()):
            self.register_buffer(f"constant_{place}", torch.from_numpy(np.array(each.data)), persistent=False)

    def _constants(self) -> list[Tensor]:
        """Constants that ops read as they read what is computed."""
        read = (each for node in self._graph.nodes() for each in _read(node))
        return [*{each.name: each for each in read if each.data is not None}.values()]

    def _function(self, node: Node) -> torch.nn.Module:
        try:
            return function(node)
        except NoGradientError as fault:
            kind = type(node.op).__name__
            raise SlimError(
                f"{self._graph.name}: op '{node.op.name}' ({kind}) {fault}; only a network without it can be retrained"
            ) from None

    def _layer(self, node: Node[Trainable], reads: Counter[str]) -> Layer:
        names = node.weights.name, node.bias.name
        shared = [name for name in names if reads[name] > 1]
        made = parameters(node)
        if shared:
            self._check_shared(node, shared)
            made = tuple(self._shared.setdefault(name, each) for name, each in zip(names, made, strict=True))
        return layer(node, *made, alone=not shared)

    def _check_shared(self, node: Node[Trainable], names: Sequence[str]) -> None:
        """Raises SlimError where an op reads the constants in another way, so that they cannot be one parameter."""
        for other in self._graph.nodes():
            for place, name in enumerate(other.op.inputs):
                alike = node.op.inputs[place : place + 1] == (name,) and (place == 2 or type(other.op) is type(node.op))
                if name in names and not (is_trained(other) and alike):
                    raise SlimError(
                        f"{self._graph.name}: ops '{node.op.name}' and '{other.op.name}' read the constant '{name}' in "
                        "different ways; export the model with constants of their own for each"
                    )

    def layer(self, name: str) -> torch.nn.Module:
        """The module of an op."""
        return self.ops[self._keys[name]]

    def layers(self) -> Iterator[tuple[str, Layer]]:
        """The layers with trained constants, by the names of their ops."""
        found = ((name, self.ops[key]) for name, key in self._keys.items())
        return ((name, module) for name, module in found if isinstance(module, Layer))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The graph's outputs for its inputs, all with samples in front, and without a first dimension that is 1."""
        values = self.evaluate(inputs, self._graph.outputs)
        found = [self._trimmed(name, value) for name, value in zip(self._graph.outputs, values, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)

    def _trimmed(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return value.squeeze(1) if self._graph.tensors[name].type.shape[:1] == (1,) else value

    def scores(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The first output, flat for each sample, in front of a softmax that gives it: what losses are made of."""
        made = {node.output.name: node for node in self._graph.nodes()}
        node, beta = made.get(self._graph.outputs[0]), 1.0
        while node is not None and isinstance(node.op, Reshape):
            node = made.get(node.x.name)
        name = self._graph.outputs[0]
        if (
            node is not None
            and isinstance(node.op, Softmax)
            and node.output.type.shape[-1] == node.output.type.elements
        ):
            name, beta = node.x.name, node.op.beta
        (value,) = self.evaluate(inputs, (name,))
        return value.flatten(1) * beta if beta != 1 else value.flatten(1)

    def evaluate(
        self, inputs: Sequence[torch.Tensor], taps: Sequence[str], free: Collection[str] = ()
    ) -> list[torch.Tensor]:
        """The values of some tensors, each with all dimensions that the graph has behind that of the samples.

        The ops that `free` names are computed without their bounds.
        """
        samples = inputs[0].shape[0]  # not len, which an export would keep as a constant
        values = {}
        for name, given in zip(self._graph.inputs, inputs, strict=True):
            values[name] = given.reshape(samples, *self._graph.tensors[name].type.shape)
        for place, each in enumerate(self._constants()):
            values[each.name] = getattr(self, f"constant_{place}").expand(samples, *each.type.shape)
        nodes = self._needed(taps)
        last = {each.name: node for node in nodes for each in _read(node)}
        for node in nodes:
            op = node.op
            value = self.layer(op.name)(*(values[each.name] for each in _read(node)))
            if isinstance(op, Clamped) and op.name not in free:
                value = _bounded(value, op.clamp)
            values[op.output] = value
            for each in _read(node):
                if last[each.name] is node and each.name not in taps:
                    values.pop(each.name, None)
        return [values[name] for name in taps]

    def _needed(self, taps: Sequence[str]) -> list[Node]:
        """The ops that these tensors need, in their order."""
        wanted, found = {*taps}, []
        for op in reversed(self._graph.ops):
            if op.output in wanted:
                wanted.update(op.inputs)
                found.append(self._graph.node(op))
        return found[::-1]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def settle(self, *inputs: torch.Tensor) -> None:
        """Gives each batch normalisation the statistics of its sums over these samples (see Convolution)."""
        mode = self.training
        self.eval()
        found = {name: each for name, each in self.layers() if isinstance(each, Normalised)}
        sums: dict[str, list[torch.Tensor]] = {name: [] for name in found}

        def keep(name: str, y: torch.Tensor) -> None:
            wide = y.double()
            sums[name].append(torch.stack((wide.mean((0, 2, 3)), wide.square().mean((0, 2, 3)))) * len(y))

        hooks = [
            each.norm.register_forward_pre_hook(lambda _, args, name=name: keep(name, args[0]))
            for name, each in found.items()
        ]
        for chunk in chunks(inputs):
            self.evaluate(chunk, self._graph.outputs)
        for hook in hooks:
            hook.remove()
        for name, each in found.items():
            if sums[name]:
                mean, square = torch.stack(sums[name]).sum(0) / len(inputs[0]) / each.images
                variance = (square - mean.square()).clamp(min=0)
                if variance.float().isfinite().all():
                    each.settle(mean, variance)
        self.train(mode)

    def graph(self) -> Graph:
        """The graph with the weights that the module has now."""
        tensors, layers = dict(self._graph.tensors), dict(self.layers())
        for node in self._graph.nodes():
            if is_trained(node):
                held = layers[node.op.name].held()
                for tensor, each in zip((node.weights, node.bias), held, strict=True):
                    tensors[tensor.name] = replace(tensor, data=each)
        return verify(replace(self._graph, tensors=tensors))

    def silence(self) -> None:
        """Takes the weights of channels that did not vary in training (see Normalised.silence)."""
        for _, each in self.layers():
            if isinstance(each, Normalised):
                each.silence()

    def is_finite(self) -> bool:
        """Whether all trained constants are numbers."""
        return all(np.isfinite(array).all() for _, each in self.layers() for array in each.held())


class _Taken:
    """The keys that a ModuleDict does not take."""

    def __init__(self, held: torch.nn.ModuleDict) -> None:
        self._held = held

    def __contains__(self, key: object) -> bool:
        return key in self._held or hasattr(self._held, str(key))


def _read(node: Node) -> tuple[Tensor, ...]:
    """The operands of an op that are values, and no constants of a layer."""
    return node.inputs[:1] if is_trained(node) else node.inputs


def _bounded(x: torch.Tensor, bounds: Bounds) -> torch.Tensor:
    low = bounds.low if bounds.low > -LARGEST_FLOAT32 else None
    high = bounds.high if bounds.high < LARGEST_FLOAT32 else None
    if low == 0 and high is None:
        return torch.relu(x)
    return x if low is None and high is None else x.clamp(low, high)


def chunks(inputs: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, ...]]:
    """The inputs, some samples after the other."""
    return zip(*(each.split(CHUNK) for each in inputs), strict=True)


@torch.no_grad()  # type: ignore[untyped-decorator]
def evaluated(
    twin: Twin, x: Array, taps: Sequence[str], free: Collection[str] = (), device: str = "cpu"
) -> list[torch.Tensor]:
    """Values of tensors of a graph with one input for many samples, as in use and not in training."""
    twin.eval()
    found = [twin.evaluate(chunk, taps, free) for chunk in chunks((tensor(x).to(device),))]
    return [torch.cat(parts) for parts in zip(*found, strict=True)]
