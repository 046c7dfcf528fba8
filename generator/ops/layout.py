"""Ops that move elements and compute nothing; their values keep the input's quantisation."""

from __future__ import annotations

from dataclasses import dataclass

from generator.ir import Op


@dataclass(frozen=True, kw_only=True, eq=False)
class Reshape(Op):
    """The same elements in the same order (RESHAPE, SQUEEZE, EXPAND_DIMS)."""

    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pad(Op):
    """`before` and `after` elements of `value` (stored value) per dimension of x's own rank."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Concat(Op):
    """Inputs one after the other along `axis` (non-negative)."""

    axis: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Slice(Op):
    """x[begin[d] + i * step[d]] for i < size[d], in every dimension d of x's own rank; steps may be negative."""

    begin: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Transpose(Op):
    """Output dimension d is input dimension perm[d]."""

    perm: tuple[int, ...]
