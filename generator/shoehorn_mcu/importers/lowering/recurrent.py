"""Converters of ONNX's recurrent layers: RNN, GRU and LSTM in both directions, with all activations and variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.layout import reversed_sequences
from shoehorn_mcu.importers.lowering.maps import mapped
from shoehorn_mcu.importers.lowering.movers import joined, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import DType, Tensor
from shoehorn_mcu.ops import Dense, RealClamp, Recurrence
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Term, formula

Activation = Callable[[Term], Term]
Singles = NDArray[np.float32]

# By name: the function of x, alpha and beta, and the defaults of those of the two that it has.
_ACTIVATIONS: Mapping[str, tuple[Callable[..., Term], tuple[float | None, ...]]] = {
    "Affine": (lambda x, a, b: x * a + b, (1.0, 0.0)),
    "Elu": (lambda x, a: (x < 0.0).select(a * (f.exp(x) - 1.0), x), (1.0,)),
    "HardSigmoid": (lambda x, a, b: f.clip(x * a + b, 0.0, 1.0), (0.2, 0.5)),
    "LeakyRelu": (lambda x, a: (x < 0.0).select(x * a, x), (0.01,)),
    "Relu": (lambda x: f.maximum(x, 0.0), ()),
    "ScaledTanh": (lambda x, a, b: f.tanh(x * b) * a, (None, None)),
    "Sigmoid": (f.sigmoid, ()),
    "Softplus": (f.softplus, ()),
    "Softsign": (lambda x: x / (1.0 + abs(x)), ()),
    "Tanh": (f.tanh, ()),
    "ThresholdedRelu": (lambda x, a: (x > a).select(x, 0.0), (1.0,)),
}


@dataclass(frozen=True)
class Cell:
    """One kind of layer, with so many gates, in ONNX's order.

    `write` makes the formula's parts, in order, from the gates of x, the sums over h, the parts before, those after and
    the factors; see Recurrence for `parts` and `late`. `states` are the parts that ONNX has as initial and last states.
    """

    gates: int
    parts: int
    late: int
    states: int
    write: Callable[[Operands], list[Term]]


@dataclass(frozen=True)
class Operands:
    """The operands of a formula, and the activations with their clip."""

    over_x: Sequence[Term]
    over_h: Sequence[Term]
    before: Sequence[Term]
    after: Sequence[Term]
    factors: Sequence[Term]
    act: Sequence[Activation]

    def gate(self, g: int) -> Term:
        """What a gate gets from x and h."""
        return self.over_x[g] + self.over_h[g]


def _gru_after(of: Operands) -> list[Term]:
    """Gates z, r, h; the reset gate is applied behind the matrix."""
    z, r = of.act[0](of.gate(0)), of.act[0](of.gate(1))
    new = of.act[1](of.over_x[2] + r * of.over_h[2])
    return [(1.0 - z) * new + z * of.before[0]]


def _gru_before(of: Operands) -> list[Term]:
    """Gates z, r, h; the reset gate is applied before the matrix. Parts: h, r * h, z."""
    new = of.act[1](of.gate(2))
    z = of.after[2]
    return [(1.0 - z) * new + z * of.before[0], of.act[0](of.gate(1)) * of.before[0], of.act[0](of.gate(0))]


def lstm(coupled: bool = False, cell_clip: float = 0.0) -> Cell:
    """Gates i, o, f, c, factors of the cell state for i, o, f where there are any. Parts: h, c.

    `coupled`: the forget gate is 1 less the input gate. `cell_clip`: the largest magnitude of a cell state, 0 for none.
    """

    def write(of: Operands) -> list[Term]:
        def peep(g: int, c: Term) -> Term:
            total = of.gate(g)
            return total + of.factors[g] * c if of.factors else total

        into = of.act[0](peep(0, of.before[1]))
        kept = 1.0 - into if coupled else of.act[0](peep(2, of.before[1]))
        cell = kept * of.before[1] + into * of.act[1](of.gate(3))
        cell = f.clip(cell, -cell_clip, cell_clip) if cell_clip > 0 else cell
        return [of.act[0](peep(1, of.after[1])) * of.act[2](of.after[1]), cell]

    return Cell(4, 2, 0, 2, write)


def _cell(site: Site) -> Cell:
    if site.node.code == "RNN":
        return Cell(1, 1, 0, 1, lambda of: [of.act[0](of.gate(0))])
    if site.node.code == "LSTM":
        return lstm(bool(site.attribute("input_forget", 0)))
    if site.attribute("linear_before_reset", 0):
        return Cell(3, 1, 0, 1, _gru_after)
    return Cell(3, 3, 1, 1, _gru_before)


def cell_formula(cell: Cell, factors: int, act: Sequence[Activation]) -> str:
    """The parts of a cell as one formula, whose first operand is the number of the part (see Recurrence)."""
    g, p = cell.gates, cell.parts

    def write(which: Term, *of: Term) -> Term:
        ends = np.cumsum([0, g, g, p, p, factors]).tolist()
        over_x, over_h, before, after, own = (of[a:b] for a, b in pairwise(ends))
        first, *others = cell.write(Operands(over_x, over_h, before, after, own, act))
        for number, part in enumerate(others, 1):
            first = which.equals(float(number)).select(part, first)
        return first

    return formula(write, *[DType.FLOAT32] * (1 + 2 * g + 2 * p + factors)).text


_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _activations(site: Site, directions: int) -> list[list[Activation]]:
    """The activations of each direction. Each takes its alpha and beta from the lists, in order, or its defaults.

    `clip` bounds what gates get, not an LSTM's cell state before the last activation: so ONNX Runtime reads the
    standard, which says "the input of activations".
    """
    defaults = _DEFAULTS[site.node.code] * directions
    names = site.attribute("activations", ()) or defaults
    if len(names) != len(defaults):
        raise ImportFault(f"it has {len(names)} activations, {len(defaults)} are needed; export it again")
    given: list[list[float]] = [list(site.attribute(f"activation_{name}", ())) for name in ("alpha", "beta")]
    clip = site.attribute("clip", 0.0)
    count, made = len(names) // directions, []
    for number, name in enumerate(names):
        known = next((each for each in _ACTIVATIONS if each.lower() == name.lower()), None)
        if known is None:
            raise Unsupported(f"its activation '{name}' is not known")
        write, numbers = _ACTIVATIONS[known]
        values = [each.pop(0) if each else number for each, number in zip(given, numbers, strict=False)]
        if None in values:
            raise ImportFault(f"its activation '{name}' lacks its alpha or beta; export it again")
        real = [float(value) for value in values if value is not None]
        made.append(_activation(write, real, clip if number % count < 2 else 0.0))
    return [made[d * count : (d + 1) * count] for d in range(directions)]


def _activation(write: Callable[..., Term], numbers: Sequence[float], clip: float) -> Activation:
    return lambda x: write(f.clip(x, -clip, clip) if clip > 0 else x, *numbers)


@dataclass(frozen=True)
class _Layer:
    """The operands that all directions share: x (T, B, I), and the numbers of steps of sequences that are shorter."""

    site: Site
    cell: Cell
    x: Tensor
    units: int
    lengths: tuple[int, ...] | None

    @property
    def sizes(self) -> tuple[int, int, int]:
        steps, batch, inputs = self.x.type.shape
        return steps, batch, inputs

    def direction(self, number: int, backwards: bool, act: Sequence[Activation]) -> tuple[Tensor, list[Tensor]]:
        """Outputs (T, B, N), and the last states (1, B, N), of one direction."""
        site, cell, (steps, batch, inputs) = self.site, self.cell, self.sizes
        gates, n, k = cell.gates, self.units, 3 if site.given(7) else 0
        weights = self._matrix(1, "weights", number, (gates * n, inputs))
        recurrent = self._matrix(2, "recurrent weights", number, (gates * n, n)).reshape(gates, n, n)
        bias = np.zeros((2, gates, n), np.float32)
        if site.given(3):
            bias = self._matrix(3, "bias", number, (2 * gates * n,)).reshape(bias.shape)
        factors = (
            self._matrix(7, "peephole weights", number, (3 * n,)).reshape(k, n) if k else np.zeros((0, n), np.float32)
        )
        x = self.turned(self.x) if backwards else self.x
        over_x = site.emit(Dense, x, site.weights(weights), site.weights(bias[0].ravel()), clamp=RealClamp())
        constants = (site.weights(part) for part in (recurrent, bias[1], factors))
        before, text = self.initial(number), cell_formula(cell, k, act)
        y = site.emit(Recurrence, over_x, before, *constants, formula=text, parts=cell.parts, late=cell.late)
        shown = sliced(site, y, [range(steps), range(batch), range(n)])
        last = [self.at_the_end(y, part) for part in range(cell.states)]
        if self.lengths is not None:
            shown = self.masked(shown)
        return self.turned(shown) if backwards else shown, last

    def initial(self, number: int) -> Tensor:
        """The state before the first step, (1, B, parts * N)."""
        site, (_, batch, _) = self.site, self.sizes
        parts = []
        for place in (5, 6)[: self.cell.states]:
            if site.given(place):
                value = site.value(place)
                axis = 1 if self.batch_first else 0
                taken = [range(size) for size in value.shape]
                taken[axis] = range(number, number + 1)
                one = sliced(site, site.plain(value), taken)
                parts.append(shaped(site, one, (1, batch, self.units)))
            else:
                parts.append(site.weights(np.zeros((1, batch, self.units), np.float32)))
        if self.cell.parts > self.cell.states:
            left = (self.cell.parts - self.cell.states) * self.units
            parts.append(site.weights(np.zeros((1, batch, left), np.float32)))
        arrays = [part.data for part in parts if part.data is not None]
        if len(arrays) == len(parts):
            return site.weights(np.concatenate(arrays, axis=2))
        return joined(site, parts, 2)

    @property
    def batch_first(self) -> bool:
        return bool(self.site.attribute("layout", 0))

    def at_the_end(self, y: Tensor, part: int) -> Tensor:
        """A part of the states after the last step of each sequence, (1, B, N)."""
        steps, batch, _ = self.sizes
        taken = range(part * self.units, (part + 1) * self.units)
        if self.lengths is None:
            return sliced(self.site, y, [range(steps - 1, steps), range(batch), taken])
        ends = (
            sliced(self.site, y, [range(length - 1, length), range(b, b + 1), taken])
            for b, length in enumerate(self.lengths)
        )
        return joined(self.site, list(ends), 1)

    def masked(self, y: Tensor) -> Tensor:
        """Zeros behind the end of each sequence."""
        steps, (lengths, zero) = self.sizes[0], (self.lengths or (), 0.0)
        inside = np.arange(steps)[:, None, None] < np.array(lengths)[None, :, None]
        mask = as_plain(self.site.weights(inside))
        return mapped(self.site, lambda t, m: m.select(t, zero), as_plain(y), mask).tensor

    def turned(self, x: Tensor) -> Tensor:
        """The steps of each sequence in reverse."""
        steps, batch, size = x.type.shape
        if self.lengths is None:
            return sliced(self.site, x, [range(steps - 1, -1, -1), range(batch), range(size)])
        return reversed_sequences(self.site, as_plain(x), self.lengths, 1, 0).tensor

    def _matrix(self, place: int, role: str, number: int, shape: tuple[int, ...]) -> Singles:
        """The part of a constant operand for one direction."""
        whole = self.site.real(place, role)
        if number >= len(whole) or whole[number].shape != shape:
            raise ImportFault(f"its {role} have shape {whole.shape}, {shape} per direction are needed; export it again")
        part: Singles = whole[number]
        return part


def recurrent(site: Site) -> tuple[Value, ...]:
    """RNN, GRU and LSTM: operands X, W, R, B, sequence_lens, initial_h, initial_c, P; results Y, Y_h, Y_c."""
    named = site.attribute("direction", "forward")
    if named not in _DIRECTIONS:
        raise ImportFault(f"its direction is '{named}'; export it again")
    directions = _DIRECTIONS[named]
    value = site.value(0)
    if value.rank != 3:
        raise ImportFault(f"its input has {value.rank} dimensions, 3 are needed; export it again")
    batch_first = bool(site.attribute("layout", 0))
    x = site.ordered(value, (1, 0, 2) if batch_first else (0, 1, 2))
    units = site.real(2, "recurrent weights").shape[-1]
    layer = _Layer(site, _cell(site), x, units, _lengths(site, x))
    acts = _activations(site, len(directions))
    made = [layer.direction(d, back, acts[d]) for d, back in enumerate(directions)]
    steps, batch, _ = layer.sizes
    wide = [shaped(site, y, (steps, 1, batch, units)) for y, _ in made]
    y = Value(joined(site, wide, 1), (1, 2, 0, 3) if batch_first else (0, 1, 2, 3))
    last = [joined(site, [states[part] for _, states in made], 0) for part in range(layer.cell.states)]
    return (y, *(Value(each, (1, 0, 2) if batch_first else (0, 1, 2)) for each in last))


def _lengths(site: Site, x: Tensor) -> tuple[int, ...] | None:
    """The steps of each sequence; None where all have all steps."""
    if not site.given(4):
        return None
    steps, batch, _ = x.type.shape
    lengths = site.integers(4, "sequence_lens")
    if len(lengths) != batch or not all(0 < n <= steps for n in lengths):
        raise ImportFault(f"its lengths {lengths} do not fit {batch} sequences of {steps} steps; export it again")
    return None if set(lengths) == {steps} else lengths
