"""Compares a model of new rows with the model of whole windows, row by row, by the numpy references of the ops.

It shares no code with the rewrite but the ops: it runs both, from rest, on the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Array, Floats, Graph, TensorType
from shoehorn_mcu.passes.ends.slide import Slid, computed

MOST_MACS = 2_000_000_000  # of whole windows that are computed


class SlideFault(ShoehornError):
    """A step computed another row than the whole window has, which is a fault of the generator."""

    kind = "slide-fault"


def check_slid(slid: Slid, final: Graph) -> int:
    """How many steps were compared; raises SlideFault for the first row, or output, that differs.

    The steps are those of two windows, 2T/h, from rest. `final` is the graph of a step after further passes. Each row
    that a step computes or keeps, and each output, is compared with that of the whole window. Of windows so large that
    all of them have more than MOST_MACS, only some are computed, the first ones, the last one and others between them.
    """
    whole, steps, compared = slid.windows.graph, _steps(slid), compared_steps(slid)
    window = {name: whole.tensors[name].type.zeros() for name in whole.inputs}
    held, last = ({s.read: graph.initial(s) for s in graph.states} for graph in (slid.graph, final))
    for step, rows in enumerate(_rows(slid.graph, steps)):
        window = {name: np.concatenate([window[name], rows[name]], axis=1)[:, slid.windows.hop :] for name in window}
        found, emitted = computed(slid.graph, {**held, **rows}), computed(final, {**last, **rows})
        if step in compared:
            _compare(slid, computed(whole, window), found, emitted, step)
        held, last = _next(slid.graph, held, found), _next(final, last, emitted)
    return len(compared)


def compared_steps(slid: Slid) -> Collection[int]:
    """The steps whose windows are computed, and compared with what the step computes."""
    steps = _steps(slid)
    most = max(4, MOST_MACS // max(slid.windows.graph.macs, 1))
    every = -(-steps // most)
    return {0, 1, steps - 1, *range(0, steps, every)}


def note(slid: Slid) -> str:
    """A line that says how many steps were compared; nothing where all of them were."""
    steps, compared = _steps(slid), len(compared_steps(slid))
    if compared == steps:
        return ""
    return (
        f"{compared} of {steps} steps were compared with the whole window here, because a window takes "
        f"{slid.windows.graph.macs:,} MACs; gen validate compares all"
    )


def _steps(slid: Slid) -> int:
    """The steps of two windows."""
    return 2 * slid.windows.steps


def _rows(graph: Graph, steps: int) -> Iterator[Mapping[str, Array]]:
    """New rows for each step: quiet ones that wander, and every third step loud ones."""
    rng = np.random.default_rng(steps)
    at = {name: np.zeros(graph.tensors[name].type.shape) for name in graph.inputs}
    for step in range(steps):
        at = {name: values + rng.normal(0, 1, values.shape) for name, values in at.items()}
        loud = {name: rng.uniform(-1, 1, values.shape) for name, values in at.items()}
        kinds = {name: graph.tensors[name].type for name in at}
        yield {n: _stored(at[n] / 32 if step % 3 else loud[n], kind) for n, kind in kinds.items()}


def _stored(values: Floats, kind: TensorType) -> Array:
    """Numbers, of which -1 to 1 are all that the type can hold, as it stores them."""
    dtype = kind.dtype.numpy
    if dtype.kind == "f":
        return (values * 4).astype(dtype)
    if dtype.kind == "b":
        return values > 0
    low, high = kind.dtype.limits
    return np.clip(np.rint(kind.zero + values * (high / 2 - low / 2)), low, high).astype(dtype)


def _next(graph: Graph, held: Mapping[str, Array], found: Mapping[str, Array]) -> dict[str, Array]:
    """The values of the states in the next inference; of a ring, what is left and the new rows."""
    values = {}
    for state in graph.states:
        new = found[state.write]
        kept = held[state.read][:, new.shape[1] :] if graph.is_ring(state) else new[:, :0]
        values[state.read] = np.concatenate([kept, new], axis=1) if graph.is_ring(state) else new
    return values


def _compare(
    slid: Slid, whole: Mapping[str, Array], found: Mapping[str, Array], emitted: Mapping[str, Array], step: int
) -> None:
    for (name, row), (own, place) in slid.places.items():
        if own in found and not _equal(_row(whole[name], row), _row(found[own], place)):
            raise SlideFault(f"{slid.graph.name}: row {row} of '{name}' differs from the whole window's in step {step}")
    for name in slid.windows.graph.outputs:
        if not (_equal(whole[name], found[name]) and _equal(whole[name], emitted[name])):
            raise SlideFault(f"{slid.graph.name}: output '{name}' differs from the whole window's in step {step}")


def _row(array: Array, row: int) -> Array:
    shape = (1, 1, 1, *array.shape)[-2:]
    found: Array = array.reshape(-1, *shape)[row]
    return found


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()
