"""Refusals of a model: one fault of the file, or the list of all ops, inputs and outputs that cannot run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoehorn_mcu.base.errors import ShoehornError, first_line
from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.importers.source import EMPTY, Source

CONTRADICTION = "if the model runs elsewhere, please report it with the file"
"""The end of a message about what no exporter writes."""

_FEW = 3  # refusals that are listed in the message itself
_MOST_CAUSES = 12  # causes listed without -v: together with the first line less than a screen
_NAMES = 2  # tensors that a cause names
_NAME = 40  # characters of such a name


_AGAIN = re.compile(r"[;:,]( (or|export|convert))+ it again$|; convert again$")


class ImportFault(ShoehornError):
    """The file is damaged or cannot run; the message names the file, the place and the cure."""

    kind = "bad-file"

    def within(self, place: str) -> ImportFault:
        """The same fault with a place, such as the file's name, before its message."""
        return type(self)(f"{place}: {self}")

    def of_op(self, place: str) -> ImportFault:
        """The same fault with an op as its place.

        Its operands do not fit it. The exporter wrote it so, and would again: only a damaged file is cured by that.
        """
        return type(self)(f"{place}: {_AGAIN.sub('; ' + CONTRADICTION, str(self))}")


UNFIT = (ArithmeticError, LookupError, TypeError, ValueError)
"""What converters raise where an op is not as its format says: they take ranks and numbers of operands for granted."""


def unfit(error: Exception) -> ImportFault:
    """The refusal of such an op, which no exporter writes."""
    return ImportFault(f"its operands or attributes do not fit it ({first_line(error)}); export it again")


class Unsupported(ImportFault):
    """One op that no kernel runs; an importer collects these and raises one UnsupportedModel."""


class NeedsConstant(Unsupported):
    """An operand must be known before the model runs; `tensor` is its name."""

    def __init__(self, message: str, tensor: str) -> None:
        super().__init__(message)
        self.tensor = tensor

    def within(self, place: str) -> NeedsConstant:
        return NeedsConstant(f"{place}: {self}", self.tensor)


@dataclass(frozen=True)
class Refusal:
    """One op, input or output that cannot run."""

    place: str  # "op 12", "input", "output", "model"
    code: str  # the op's kind by the format's own name; "" for an input or output
    tensors: str  # the tensors that the op writes, quoted; "" for an input or output
    reason: str  # "": no converter knows this kind of op
    needs: tuple[str, ...] = ()  # the model's inputs that would have to be constants, where that is the reason

    def __str__(self) -> str:
        words = " ".join(word for word in (self.place, self.code, self.tensors and f"writing {self.tensors}") if word)
        return f"{words}: {self.reason}" if self.reason else words

    @property
    def cause(self) -> tuple[str, str]:
        """Equal for refusals that differ in place and names only: the kind of op, and the reason without names."""
        return self.code or self.place, without_names(self.reason)


class UnsupportedModel(ImportFault):
    """All parts of a model that cannot run, after a diagnosis of the model as a whole."""

    kind = "unsupported-model"

    def __init__(self, diagnosis: str, refusals: Sequence[Refusal], source: Source = EMPTY, place: str = "") -> None:
        self.diagnosis = diagnosis  # "" if the model is int8 and only some of its ops are unsupported
        self.refusals = tuple(refusals)
        self.source = source  # all ops of the file, as far as it could be read
        if len(refusals) <= _FEW:
            summary = f"not supported (`gen ops` lists what is): {'; '.join(map(str, refusals))}"
        else:
            summary = f"{len(refusals)} of its ops, inputs and outputs are not supported (`gen ops` lists what is)"
        message = f"{diagnosis}; {summary}" if diagnosis else summary
        super().__init__(f"{place}: {message}" if place else message)

    def within(self, place: str) -> UnsupportedModel:
        return UnsupportedModel(self.diagnosis, self.refusals, self.source, place)

    @property
    def causes(self) -> Sequence[tuple[tuple[str, str], Sequence[Refusal]]]:
        """The refusals by cause, the most frequent cause first."""
        return causes(self.refusals)

    @property
    def facts(self) -> Mapping[str, object]:
        causes = [
            {"op": op, "reason": reason, "count": len(group), "places": [str(each) for each in group]}
            for (op, reason), group in self.causes
        ]
        return {"diagnosis": self.diagnosis, "causes": causes}

    def details(self, whole: bool) -> Sequence[str]:
        if len(self.refusals) <= _FEW:
            return ()
        if whole:
            return [str(refusal) for refusal in self.refusals]
        lines = [in_words(cause, group) for cause, group in self.causes[:_MOST_CAUSES]]
        rest = self.causes[_MOST_CAUSES:]
        more = sum(len(group) for _, group in rest)
        return [*lines, *([f"{more} more, for {len(rest)} other reasons"] if rest else []), "-v lists them all"]


def causes(refusals: Sequence[Refusal]) -> Sequence[tuple[tuple[str, str], Sequence[Refusal]]]:
    """Refusals by cause, the most frequent cause first."""
    groups = by_key((refusal.cause, refusal) for refusal in refusals)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def without_names(reason: str) -> str:
    """The reason of a refusal without the quoted names in it. Reasons that differ in names alone become equal."""
    return re.sub(r" '[^']*'", "", reason)


def in_words(cause: tuple[str, str], group: Sequence[Refusal]) -> str:
    """One line for a cause: how many there are, why, and the first of them."""
    op, reason = cause
    named = [_cut(refusal.tensors) for refusal in group if refusal.tensors]
    first = ", ".join(named[:_NAMES]) + (", ..." if len(named) > _NAMES else "")
    return f"{len(group)} {op}{f': {reason}' if reason else ''}{f' ({first})' if first else ''}"


def _cut(name: str) -> str:
    """A long name without its middle: converters put the distinguishing parts at both ends."""
    return name if len(name) <= _NAME else f"{name[: _NAME // 2 - 1]}...{name[2 - _NAME // 2 :]}"
