"""Non-negative least squares."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROUNDS = 2000
WINDOWS = (
    *("lines", "taps", "copies", "whole_lines", "copied_words", "copied_bytes", "filled", "found", "ragged", "worded"),
)
CLAMPS = ("clampings", "clamped")
CLAMPED = tuple(f"{name}_s8_simd32" for name in ("add", "mul", "maximum", "minimum"))
"""Kernels that clamp whole rows by one function (sh_clamp_pixels), though few graphs have a clamp for each of them."""
TINY = 1e-12  # an unknown that is no larger is 0


@dataclass(frozen=True)
class Row:
    """A measured op: the counts of its features and calls, and its instructions."""

    kernel: str
    work: Mapping[str, float]
    calls: Mapping[str, float]
    measured: float
    unsure: float = 0  # instructions that the measurement may be off


def not_negative(a: Floats, b: Floats) -> Floats:
    """x >= 0 with the least |a x - b|: the active set method of Lawson and Hanson (1974).

    It starts with the unknowns that are positive without the condition, most of which are positive with it.
    a: float64 [rows, unknowns], b: float64 [rows].
    """
    count = a.shape[1]
    if len(a) > count:  # the same minimum, of a square system
        q, r = np.linalg.qr(a)
        a, b = r, q.T @ b
    x = np.linalg.lstsq(a, b, rcond=None)[0].clip(0)
    free = x > TINY
    for _ in range(ROUNDS):
        while True:
            trial = np.zeros(count)
            trial[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            below = free & (trial <= 0)
            if not below.any():
                break
            step = (x[below] / (x[below] - trial[below])).min()
            x = x + step * (trial - x)
            free &= x > TINY
            x[~free] = 0
        x = trial
        slope = a.T @ (b - a @ x)
        slope[free] = -np.inf
        if slope.max(initial=-np.inf) <= 1e-9:
            return x
        free[int(slope.argmax())] = True
    raise AssertionError(f"no solution after {ROUNDS} rounds")


BY_PLAN = ("steps", "slotted")
"""The features that differ between plans with equal rows: fitted to the differences between plans."""


def fitted_calls(pairs: Sequence[tuple[Row, Row]]) -> dict[str, float]:
    """Instructions of one of each of BY_PLAN, from the same ops under two plans.

    Differences are of a few hundred instructions in ops of millions: beside the ops themselves nothing could be seen.
    """
    a = np.array([[m.calls.get(n, 0) - w.calls.get(n, 0) for n in BY_PLAN] for w, m in pairs]).reshape(-1, len(BY_PLAN))
    b = np.array([m.measured - w.measured for w, m in pairs])
    return dict(zip(BY_PLAN, not_negative(a, b).tolist(), strict=True))


def like(kernel: str, feature: str) -> str:
    """The kernel whose cost of the feature this one has too, or the start of the names of such kernels.

    Variants that differ in how they round (kernels/base/rounding.py) have the same loops, and those of one
    instruction set lay windows out alike (conv2d_s8_windows.inc): fitted apart, their costs would differ by more than
    the code does.
    """
    if feature in CLAMPS and kernel in CLAMPED:
        return CLAMPED[0]
    if kernel.startswith("conv2d_s8") and feature in WINDOWS:
        return "_".join(kernel.split("_")[:3])
    return kernel if "blocks" in feature else re.sub(r"_up(.*?)[x_]\d+$", r"\1", kernel)


WEIGHT = 0.1
"""Of a known cost beside a measured op: an error of its own size counts as one of so much of the op."""


def refined(
    rows: Sequence[Row], kernels: Mapping[str, Mapping[str, float]], calls: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Costs of all kernels, from these rows and the costs known before; those of calls are known.

    As `fitted`, with a row more for each known cost. Costs that kernels had alike, as `like` says, they have alike
    again, kernels that are in no row among them. A feature without a cost may get one.
    """

    def owner(kernel: str, feature: str) -> str:
        if feature in CLAMPS and kernel in CLAMPED:
            return like(kernel, feature)
        known = kernels.get(kernel, {}).get(feature)
        return like(kernel, feature) if known and shared.get((like(kernel, feature), feature)) == {known} else kernel

    shared: dict[tuple[str, str], set[float]] = {}
    for kernel, of in kernels.items():
        for name, value in of.items():
            shared.setdefault((like(kernel, name), name), set()).add(value)
    before = {(owner(kernel, n), n): value for kernel, of in kernels.items() for n, value in of.items()}
    features: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        features[row.kernel].update(row.work)
    for kernel in features.keys() & {*CLAMPED}:
        features[kernel].update(CLAMPS)
    names = sorted({(owner(row.kernel, n), n) for row in rows for n in row.work})
    place = {name: i for i, name in enumerate(names)}
    a, b = np.zeros((len(rows), len(names))), np.zeros(len(rows))
    for i, row in enumerate(rows):
        size = row.measured + row.unsure
        b[i] = (row.measured - sum(calls[name] * count for name, count in row.calls.items())) / size
        for name, count in row.work.items():
            a[i, place[owner(row.kernel, name), name]] = count / size
    scale = np.linalg.norm(a, axis=0)
    kept = [i for i, name in enumerate(names) if before.get(name)]
    prior, wanted = np.zeros((len(kept), len(names))), np.full(len(kept), WEIGHT)
    for line, i in enumerate(kept):
        prior[line, i] = WEIGHT / before[names[i]]
    a, b = np.vstack([a, prior]), np.concatenate([b, wanted])
    found = dict(zip(names, (not_negative(a / scale, b) / scale).tolist(), strict=True))
    costs: dict[str, dict[str, float]] = {}
    for kernel in sorted(features.keys() | kernels.keys()):
        known = kernels.get(kernel, {})
        values = {n: found.get((owner(kernel, n), n), known.get(n, 0.0)) for n in sorted({*features[kernel], *known})}
        costs[kernel] = {name: value for name, value in values.items() if value > 0}
    return costs


def fitted(rows: Sequence[Row], known: Mapping[str, float]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Costs by kernel and feature, and those of calls, which all kernels share; of these some are `known`.

    The squares are of relative errors, so that small ops count as much as large ones, as far as they are sure.
    """
    shared = {("", n) for r in rows for n in r.calls if n not in known}
    works = {(r.kernel, n) for r in rows for n in r.work}
    names = sorted(shared | {(like(kernel, n), n) for kernel, n in works})
    place = {name: i for i, name in enumerate(names)}
    a, b = np.zeros((len(rows), len(names))), np.zeros(len(rows))
    for i, row in enumerate(rows):
        size = row.measured + row.unsure
        b[i] = row.measured / size
        for name, count in row.calls.items():
            if name in known:
                b[i] -= known[name] * count / size
            else:
                a[i, place["", name]] = count / size
        for name, count in row.work.items():
            a[i, place[like(row.kernel, name), name]] = count / size
    # Unknowns in units of their columns, so that none is lost beside one of other size.
    scale = np.linalg.norm(a, axis=0)
    found = dict(zip(names, (not_negative(a / scale, b) / scale).tolist(), strict=True))
    kernels: dict[str, dict[str, float]] = {}
    for kernel, name in sorted(works):
        if (value := found[like(kernel, name), name]) > 0:
            kernels.setdefault(kernel, {})[name] = value
    return kernels, {**known, **{name: found["", name] for _, name in shared if found["", name] > 0}}
