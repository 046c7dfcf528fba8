"""What an op of a format becomes, by the element type that it computes with: the importers' tables for `gen ops`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from shoehorn_mcu.ir import Op
from shoehorn_mcu.ops import DepthwiseConv2d, Map


class Kind(StrEnum):
    """An element type as a model's user thinks of it."""

    INT8 = "int8"  # quantised, held as int8 or uint8
    INT16 = "int16"  # quantised
    FLOAT32 = "float32"
    OTHER = "other"  # bool, and integers that are not quantised


@dataclass(frozen=True)
class In:
    """An op that is computed in another element type than the one that the form is of."""

    kind: Kind
    op: type[Op]


Form = tuple[type[Op] | In, ...]
"""The ops of the IR that compute it, besides those that move elements or convert them at its ends."""

FORMULA: Form = (Map,)
"""The default: a formula, for which a kernel is written."""

NOTHING: Form = ()
"""Nothing is computed: elements stay where they are, or the result is known before the model runs."""

ConvertT = TypeVar("ConvertT")


@dataclass(frozen=True)
class Row(Generic[ConvertT]):
    """The converter of an op, and what it makes of the op."""

    convert: ConvertT
    form: Form = FORMULA
    real: Form | None = None  # of float32, where that is another one
    kinds: tuple[Kind, ...] = ()  # the element types that the converter takes; none: those that the format allows

    def of(self, kind: Kind) -> Form:
        """The form in an element type, whether or not the op takes it."""
        return self.real if kind is Kind.FLOAT32 and self.real is not None else self.form


def converters(rows: Mapping[str, Row[ConvertT]]) -> dict[str, ConvertT]:
    """The converters alone, by the op's name."""
    return {code: row.convert for code, row in rows.items()}


FOLDED: Form = (DepthwiseConv2d,)
"""A factor and an addend per channel, which the op before may take."""

Forms = Mapping[str, Mapping[Kind, Form]]
"""By the op's name; a kind that is missing has no form."""


def merged(*parts: Forms) -> Forms:
    """The forms of all parts; of a kind that several have, the last one's."""
    codes: Iterable[str] = dict.fromkeys(code for part in parts for code in part)
    return {code: {kind: form for part in parts for kind, form in part.get(code, {}).items()} for code in codes}
