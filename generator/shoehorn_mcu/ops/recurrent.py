"""Recurrent layers: output row t is the state after time step t, computed from input row t and output row t - 1.

A row holds all that the next step needs, so the op is planned by rows like any other: a step's state takes bytes until
the next one is computed, and no working memory is planned beside it. What is the layer's output is a part of each row,
which a Slice takes. Rows are time steps, columns the sequences of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, Biased, DType, Floats, Node, Op, OpFault, Signature, TensorType
from shoehorn_mcu.ops import laws, real
from shoehorn_mcu.ops.arithmetic import LIMIT, rescaled
from shoehorn_mcu.ops.fixed_point import quantize_multipliers, rescale, saturate16
from shoehorn_mcu.ops.linear import Scales, overflow_64, scaled_sums
from shoehorn_mcu.ops.maps import Formulaic
from shoehorn_mcu.ops.rules import want
from shoehorn_mcu.ops.sigmoid16 import sigmoid16, tanh16

__all__ = ["Lstm", "Recurrence", "Recurrent"]

GATES = 4  # of an LSTM: input, forget, cell, output
_GATE_BITS = 12  # below the point, of a gate before its sigmoid or tanh


@dataclass(frozen=True, kw_only=True, eq=False)
class Recurrent(Biased):
    """inputs (x (T, B, I), initial state (1, B, S), constants); the output is the states after each step, (T, B, S)."""

    row_inputs: ClassVar[int | None] = 2
    carries: ClassVar[bool] = True
    weights_place: ClassVar[int] = 2

    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        """The second operand is the state before the first step, the third the one before each other step."""
        return ((y,), (0,), (None,)) if y == 0 else ((y,), (None,), (y - 1,))

    def _state_shape(self, inputs: tuple[TensorType, ...], state: int) -> tuple[int, ...]:
        """The output's shape; raises OpFault unless x and the initial state fit it."""
        x, initial = inputs[:2]
        if len(x.shape) != 3:
            raise OpFault(self, f"x is {x}, (steps, batch, inputs) are needed")
        steps, batch, _ = x.shape
        if initial.shape != (1, batch, state):
            raise OpFault(self, f"its initial state is {initial}, {(1, batch, state)} is needed")
        return steps, batch, state


@dataclass(frozen=True, kw_only=True, eq=False)
class Lstm(Recurrent):
    """The integer LSTM of TFLite Micro (lstm_eval.h, LstmStep; lstm_eval_common.cc, PrepareGateParametersInteger).

    inputs (x, initial, weights int8 (4, N, I), recurrent weights int8 (4, N, N), bias (4, N)), gates in the order
    input, forget, cell, output, each with one scale per matrix (axis 0). x and hidden states are int8 with an int32
    bias, or int16 with zero points of 0 and an int64 bias, whose sums `rescale_64` rescales. A sequence's state is the
    int16 cell states, little endian, then the hidden states, then zeros up to a multiple of 4 bytes; its type and
    quantisation are those of the hidden states. Cell states have the scale 2^cell_power; `cell_clip`: their largest
    magnitude, stored, 0 for none.
    """

    bias_place: ClassVar[int] = 4

    cell_power: int
    cell_clip: int = 0

    @staticmethod
    def state_size(units: int, dtype: DType = DType.INT8) -> int:
        """Elements of one sequence's state."""
        size = dtype.numpy.itemsize
        return -(-(2 + size) * units // 4) * 4 // size

    @staticmethod
    def hidden_at(units: int, dtype: DType = DType.INT8) -> int:
        """The first element of the hidden states in a sequence's state."""
        return 2 * units // dtype.numpy.itemsize

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 5)
        x, _, weights, recurrent, bias = inputs
        units = bias.shape[-1] if bias.shape else 0
        wanted = (GATES, units, x.shape[-1] if x.shape else 0), (GATES, units, units), (GATES, units)
        if (weights.shape, recurrent.shape, bias.shape) != wanted:
            raise OpFault(self, f"weights {weights}, {recurrent} and bias {bias} do not fit x {x}")
        return self._state_shape(inputs, self.state_size(units, x.dtype))

    def check(self, node: Node) -> None:
        x, initial, weights, recurrent, bias = node.inputs
        wide = x.type.dtype is DType.INT16
        for tensor, role in ((x, "input"), (node.output, "state")):
            (laws.symmetric_16 if wide else laws.quantised)(self, tensor, role)
        laws.same_quant(self, initial, node.output)
        for matrix in (weights, recurrent):
            laws.weights(self, matrix, 0)
            laws.dtype(self, matrix, "weights", DType.INT8)
            if len(matrix.type.quantised.scales) != GATES:
                raise OpFault(self, f"its weights {laws.quoted(matrix.name)} need a scale for each of the 4 gates")
        laws.constant(self, bias, "bias")
        laws.dtype(self, bias, "bias", DType.INT64 if wide else DType.INT32)
        if not -20 <= self.cell_power <= 0:
            raise OpFault(self, f"its cell state has the scale 2^{self.cell_power}, 2^-20 to 1 is supported")

    def macs(self, sig: Signature) -> int:
        steps, batch, inputs = sig.inputs[0].shape
        units = sig.inputs[4].shape[1]
        return steps * batch * GATES * units * (inputs + units)

    def gate_factors(self, sig: Signature) -> Floats:
        """(2, 4): the factors of the sums over x and over the hidden state, to the gates' fixed point Q3.12."""
        scales = [sig.inputs[0].quantised.scale], [sig.output.quantised.scale]
        weights = [sig.inputs[place].quantised.scales for place in (2, 3)]
        return np.array(scales) * np.array(weights, np.float64) * 2.0**_GATE_BITS

    def product_factors(self, sig: Signature) -> Floats:
        """The factors of forget gate * cell state, input gate * cell gate and tanh * output gate."""
        unit = 2.0**-15
        return np.array([unit, unit * unit / 2.0**self.cell_power, unit * unit / sig.output.quantised.scale])

    @property
    def tanh_scale(self) -> tuple[int, int]:
        """Factor and right shift of a cell state before the table of tanh, which has steps of 1/24 in 8 bits more."""
        shift = 12 + self.cell_power
        return (3 << shift, 0) if shift >= 0 else (3, -shift)

    def overflow(self, node: Node) -> str | None:
        x, _, weights, recurrent, bias = node.inputs
        assert weights.data is not None and recurrent.data is not None and bias.data is not None
        starts = (bias.data, np.zeros_like(bias.data))
        pairs = ((x, weights.data), (node.output, recurrent.data))
        for (given, matrix), start, factors in zip(pairs, starts, self.gate_factors(node.sig), strict=True):
            low, high = (limit - given.type.quantised.zero_point for limit in given.type.dtype.limits)
            reach = np.abs(matrix.astype(np.int64)).sum(axis=2) * max(-low, high)
            largest = (np.abs(start.astype(np.int64)) + reach).max(axis=1)
            if bias.type.dtype is DType.INT64:
                if why := overflow_64(largest, quantize_multipliers(factors), "gate"):
                    return why
                continue
            for gate, factor in zip(largest.tolist(), factors.tolist(), strict=True):
                if gate > LIMIT:
                    return f"the accumulator of a gate can reach {gate}, above int32"
                if why := rescaled(float(gate), factor):
                    return why
        return next(filter(None, (rescaled(2.0**30, float(f)) for f in self.product_factors(node.sig))), None)

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, initial, weights, recurrent, bias = (array.astype(np.int64) for array in arrays)
        quant, units, kind = sig.output.quantised, bias.shape[1], sig.output.dtype
        at, sums = self.hidden_at(units, kind), sig.inputs[4].dtype
        x -= sig.inputs[0].quantised.zero_point
        over_x, over_h = (quantize_multipliers(factors) for factors in self.gate_factors(sig))
        products = quantize_multipliers(self.product_factors(sig))

        def gate(of: Scales, number: int) -> Scales:
            return of[0][number : number + 1], of[1][number : number + 1]

        (cell,) = initial[:, :, :at].astype(kind.numpy).view("<i2").astype(np.int64)
        (hidden,) = initial[:, :, at : at + units]
        states = np.zeros(sig.output.shape, kind.numpy)
        for step, now in enumerate(x):
            gates = [
                saturate16(
                    saturate16(scaled_sums(now @ weights[g].T + bias[g], sums, gate(over_x, g)))
                    + saturate16(scaled_sums((hidden - quant.zero_point) @ recurrent[g].T, sums, gate(over_h, g)))
                )
                for g in range(GATES)
            ]
            into, kept, out = (sigmoid16(gates[g]) for g in (0, 1, 3))
            kept = saturate16(rescale(kept * cell, products[0][0], products[1][0]))
            added = saturate16(rescale(into * tanh16(gates[2], 3, 0), products[0][1], products[1][1]))
            cell = saturate16(kept + added)
            if self.cell_clip > 0:
                cell = np.clip(cell, -self.cell_clip, self.cell_clip)
            shown = rescale(tanh16(cell, *self.tanh_scale) * out, products[0][2], products[1][2])
            hidden = np.clip(shown + quant.zero_point, *kind.limits)
            states[step, :, :at] = cell.astype("<i2").view(kind.numpy)
            states[step, :, at : at + units] = hidden
        return states


@dataclass(frozen=True, kw_only=True, eq=False)
class Recurrence(Formulaic, Recurrent):
    """A recurrent layer in float32 whose cells are given by a formula: LSTM, GRU, RNN and their variants.

    inputs (x (T, B, G * N), initial (1, B, P * N), recurrent weights (G, N, N), bias (G, N), factors (K, N)): x holds
    what a dense layer made of the layer's input for each of G gates of N units. A sequence's state has P parts of N
    numbers, the first the hidden state h. The formula is of the number of a part, G gates of x, G sums
    bias[g][n] + sum_m h[m] * weights[g][n][m], P parts of unit n before, P parts after, and K factors of unit n; it
    gives that part of unit n. Parts are computed from the last to the first; of those that come later, and of part 0,
    the formula reads 0. The sums of the last `late` gates are of part 1 after instead of h, and 0 for other parts than
    part 0; for part 0 the other sums then are 0.
    """

    bias_place: ClassVar[int] = 3

    parts: int = 1
    late: int = 0

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 5)
        x, _, weights, bias, factors = inputs
        gates, units = bias.shape if len(bias.shape) == 2 else (0, 0)
        count = factors.shape[0] if len(factors.shape) == 2 else 0
        if (
            weights.shape != (gates, units, units)
            or factors.shape != (count, units)
            or x.shape[-1:] != (gates * units,)
        ):
            raise OpFault(self, f"weights {weights}, bias {bias} and factors {factors} do not fit x {x}")
        if len(self.parsed.operands) != 1 + 2 * gates + 2 * self.parts + count:
            raise OpFault(self, f"its formula has {len(self.parsed.operands)} operands, which do not fit its gates")
        if not 0 <= self.late <= gates or (self.late and self.parts < 2):
            raise OpFault(self, f"{self.late} of its {gates} gates read a part of {self.parts}")
        return self._state_shape(inputs, self.parts * units)

    def check(self, node: Node) -> None:
        roles = ("input", "initial state", "weights", "bias", "factors", "output")
        self._check([(role, DType.FLOAT32) for role in roles], node)
        for tensor, role in zip(node.inputs[2:], ("weights", "bias", "factors"), strict=True):
            laws.constant(self, tensor, role)
        if {*self.parsed.operands, self.parsed.result} != {DType.FLOAT32}:
            raise OpFault(self, "its formula is not of float32 alone")

    def macs(self, sig: Signature) -> int:
        steps, batch, _ = sig.output.shape
        gates, units, _ = sig.inputs[2].shape
        return steps * batch * gates * units * units

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, initial, weights, bias, factors = (array.astype(np.float32) for array in arrays)
        (_, batch, _), (gates, units) = sig.output.shape, bias.shape
        before = initial.reshape(batch, self.parts, units)
        states = np.zeros((len(x), batch, self.parts, units), np.float32)
        early = gates - self.late
        none = np.zeros((batch, units), np.float32)

        def sums(h: real.Reals, of: range) -> list[real.Reals]:
            terms = [[(h[:, m : m + 1], weights[g, :, m]) for m in range(units)] for g in of]
            return [real.products_summed(each, none.shape, bias[g], False) for each, g in zip(terms, of, strict=True)]

        for step, now in enumerate(x.reshape(len(x), batch, gates, units)):
            after = states[step]
            over_h = [*sums(before[:, 0], range(early)), *[none] * self.late]
            for part in range(self.parts - 1, -1, -1):
                if part == 0 and self.late:
                    over_h = [*[none] * early, *sums(after[:, 1], range(early, gates))]
                given = [np.full_like(none, part), *now.transpose(1, 0, 2), *over_h, *before.transpose(1, 0, 2)]
                made = self.parsed(
                    *given, *after.transpose(1, 0, 2), *np.broadcast_to(factors[:, None], (len(factors), *none.shape))
                )
                after[:, part] = made
            before = after
        return states.reshape(sig.output.shape)


OPS: tuple[type[Op], ...] = (Lstm, Recurrence)
