"""Random inverted bottlenecks: expand, filter each channel, project, with residuals, and tails of classifiers."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np
from nets import Net

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Graph, Op, Quant


class Bottlenecks(Net):
    """A net whose results use the range of int8: some tens of steps each way."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(1, *(int(n) for n in rng.integers(4, 12, 2)), int(rng.integers(2, 9)))
        self.rng = rng

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def linear(self, kind: type[Op], x: str, shape: tuple[int, ...], axis: int, **attributes: object) -> str:
        weights, _ = self.weights(shape, axis)
        bias = self.constant(self.rng.integers(-3000, 3000, shape[axis], np.int32))
        taps = prod(shape) // shape[axis]
        steps = self.type(x).quantised.scale * float(np.mean(self.type(weights).quantised.scales)) * 73 * sqrt(taps)
        quant = Quant((float(np.float32(steps * self.rng.uniform(0.4, 1.0))),), (self.pick(-128, -7, 0, 30),))
        clamp = ops.Clamp(self.pick(-128, -128, -60), self.pick(127, 127, 90))
        return self.add(kind, x, weights, bias, quant=quant, clamp=clamp, **attributes)

    def narrow(self, x: str, outputs: int) -> str:
        return self.linear(ops.Conv2d, x, (outputs, 1, 1, self.channels(x)), 0)

    def filtered(self, x: str) -> str:
        """A window over each channel: as high as the map or less, one row in one, two or three."""
        w, c = self.type(x).nhwc[2:]
        kernel, stride, dilation = self.pick(2, 3, 3, 5, 7), self.pick(1, 1, 1, 2, 3), self.pick(1, 1, 1, 2)
        before = dilation * (kernel - 1) // 2
        after = dilation * (kernel - 1) - before
        wide = (min(kernel, w), stride, min(before, w - 1))
        padding = ops.Padding(before, after, wide[2], wide[2])
        shape = (1, kernel, wide[0], c)
        more = {"padding": padding, "stride": (stride, stride), "dilation": (dilation, 1)}
        return self.linear(ops.DepthwiseConv2d, x, shape, 3, **more)

    def block(self, x: str) -> str:
        """With a residual where the shapes agree."""
        inside = self.narrow(x, self.channels(x) * self.pick(2, 3, 6))
        for _ in range(self.pick(1, 1, 1, 2)):
            inside = self.filtered(inside) if self.pick(0, 1, 1, 1) else self.add(ops.HardSwish, inside)
        y = self.narrow(inside, self.channels(x) if self.pick(0, 1, 1) else self.pick(3, 6, 10))
        same = self.type(x).shape == self.type(y).shape
        return self.add(ops.Add, x, y, quant=self.type(y).quant) if same else y

    def tail(self, x: str) -> str:
        """Widened, averaged and classified: a block of one row, with a view in it or without."""
        wide = self.narrow(x, self.pick(16, 40))
        mean = self.add(ops.Mean, wide, axes=(1, 2), keep_dims=True)
        if self.pick(0, 1):
            return self.narrow(mean, 5)
        flat = self.add(ops.Reshape, mean, shape=(1, self.channels(wide)))
        return self.linear(ops.Dense, flat, (5, self.channels(wide)), 0)


def bottlenecks(seed: int) -> Graph:
    """One to three blocks in a row; the same graph for each seed."""
    net = Bottlenecks(np.random.default_rng(seed))
    x = net.narrow("x", net.pick(3, 6, 10)) if net.pick(0, 1) else "x"
    for _ in range(net.pick(1, 2, 2, 3)):
        x = net.block(x)
    return net.graph(net.tail(x) if net.pick(0, 0, 1) else x)
