"""Formulas over the elements of tensors: a straight-line program from which numpy's result and the kernels' C are made.

A `Formula` has the element types of its operands and a list of steps; a step computes one new value from earlier ones,
and the last value is the result. Its text is a field of ops and is in `reference/model.json`:

    float32 float32 : add float32 0 1 ; constant float32 0x1.0p+1 ; mul float32 2 3

is (a + b) * 2: values 0 and 1 are the operands, each step's value has the next number, and its type follows the
step's name. Every step is rounded to its type, and nothing is fused, so all compilers and cores compute equal bytes.
Integers wrap around; a quotient of integers is cut towards zero, 0 where the divisor is 0; a shift by the type's width
or more gives 0, or -1 for a negative number to the right; a float32 becomes the nearest integer of the type towards
zero, and NaN becomes 0. The root of an unsigned integer is cut to an integer.

A step may look up a table: `table int16 0 5,-3,8` is entry number value 0; a number outside is the next one inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from shoehorn_mcu.ir import Array, DType, GraphError
from shoehorn_mcu.ops.formula_numpy import NUMPY

MOST_VALUES = 512
"""Operands and steps of a formula."""

MOST_ENTRIES = 4096
"""Entries of a table."""

_BITS = {DType.FLOAT32: DType.INT32, DType.INT32: DType.FLOAT32}

ARITY = {
    "constant": 0,
    "abs": 1,
    "neg": 1,
    "not": 1,  # of bits; of a bool, its opposite
    "sqrt": 1,  # of a float32, or of an unsigned integer of 32 or 64 bits: the largest one whose square is not above
    "width": 1,  # of such an integer: how many bits it needs, 0 for 0
    "table": 1,  # the entry of a table of integers of at most 32 bits
    "bits": 1,  # the bits of a float32 as an int32, or of an int32 as a float32
    "cast": 1,
    **dict.fromkeys(("add", "sub", "mul", "div", "and", "or", "xor", "left", "right", "less", "equal"), 2),
    "select": 3,  # value 1 where value 0, a bool, is true, else value 2
}
"""By the name of a step: the values that it reads."""

_ON_BITS = ("and", "or", "xor", "not")
_ON_INTEGERS = ("left", "right")
_UNSIGNED = (DType.UINT32, DType.UINT64)


@dataclass(frozen=True)
class Step:
    """One value: what computes it, its element type, the numbers of the values that it reads; or a constant."""

    name: str
    dtype: DType
    reads: tuple[int, ...]
    constant: str = ""  # of a constant: a float in hexadecimal, or an integer; of a table: its entries

    @property
    def number(self) -> float | int:
        """The number of a constant."""
        return float.fromhex(self.constant) if self.dtype.numpy.kind == "f" else int(self.constant)

    @property
    def entries(self) -> tuple[int, ...]:
        """The entries of a table."""
        return tuple(map(int, self.constant.split(",")))

    def text(self) -> str:
        """As in a formula's text."""
        return " ".join(filter(None, (self.name, self.dtype.value, *map(str, self.reads), self.constant)))


@dataclass(frozen=True)
class Formula:
    """Element types of the operands, and the steps; the last value is the result."""

    operands: tuple[DType, ...]
    steps: tuple[Step, ...]

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The element types of all values: the operands', then the steps'."""
        return (*self.operands, *(step.dtype for step in self.steps))

    @property
    def result(self) -> DType:
        """The element type of the result."""
        return self.dtypes[-1]

    @property
    def text(self) -> str:
        """The formula in the form that `parse` reads."""
        return " ".join(d.value for d in self.operands) + " : " + " ; ".join(step.text() for step in self.steps)

    def __call__(self, *arrays: Array) -> Array:
        """The result for arrays that broadcast, with numpy's arithmetic, which rounds as the kernels do."""
        values: list[Array] = list(arrays)
        with np.errstate(all="ignore"):
            for step, known in zip(self.steps, self._known, strict=True):
                if known is None:
                    values.append(np.asarray(NUMPY[step.name](step.dtype, *[values[i] for i in step.reads])))
                elif step.name == "table":
                    place = np.clip(values[step.reads[0]], 0, len(known) - 1).astype(np.int64)
                    values.append(np.asarray(known[place]))
                else:
                    values.append(known)
        return values[-1]

    @cached_property
    def _known(self) -> tuple[Array | None, ...]:
        """By step: a constant's value or a table's entries, which are read once; of others nothing."""
        return tuple(_known(step) for step in self.steps)


def _known(step: Step) -> Array | None:
    if step.name not in ("constant", "table"):
        return None
    found: Array = np.array(step.number if step.name == "constant" else step.entries, step.dtype.numpy)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=1 << 12)
def parse(text: str) -> Formula:
    """The formula of this text; GraphError where it is none."""
    try:
        head, _, body = text.partition(" : ")
        operands = tuple(map(DType, head.split()))
        steps = tuple(_step(part.split()) for part in body.split(" ; ")) if body else ()
        made = Formula(operands, steps)
    except (ValueError, IndexError, KeyError) as error:
        raise GraphError(f"no formula: {text[:80]!r} ({error})") from error
    _check(made)
    return made


def _step(words: list[str]) -> Step:
    name, dtype = words[0], DType(words[1])
    if name == "constant":
        (given,) = words[2:]
        made = Step(name, dtype, (), given)
        _ = made.number
        return made
    if name == "table":
        index, given = words[2:]
        made = Step(name, dtype, (int(index),), given)
        _ = made.entries
        return made
    return Step(name, dtype, tuple(map(int, words[2:])))


def _check(made: Formula) -> None:
    """Raises GraphError where a step does not fit the values that it reads."""
    dtypes = made.dtypes
    if not made.steps or len(dtypes) > MOST_VALUES:
        raise GraphError(f"a formula has {len(made.steps)} steps; 1 to {MOST_VALUES - len(made.operands)} are possible")
    for number, step in enumerate(made.steps, len(made.operands)):
        if len(step.reads) != ARITY.get(step.name, -1) or any(not 0 <= i < number for i in step.reads):
            raise GraphError(f"value {number} of a formula, {step.text()!r}, does not fit its operands")
        if not _typed(step, [dtypes[i] for i in step.reads]):
            raise GraphError(f"value {number} of a formula, {step.text()!r}, has operands of other types")


def _typed(step: Step, of: list[DType]) -> bool:
    """Whether the element types of a step and of its operands agree."""
    if DType.FLOAT16 in (step.dtype, *of):
        return step.name == "cast" and DType.FLOAT32 in (step.dtype, of[0])
    if step.name in _TYPES:
        return _TYPES[step.name](step, of)
    return all(dtype is step.dtype for dtype in of) and _takes(step.name, step.dtype)


def _takes(name: str, dtype: DType) -> bool:
    """Whether a step whose types are all the same takes this one."""
    if name in ("sqrt", "width"):
        return dtype in _UNSIGNED or (name == "sqrt" and dtype.numpy.kind == "f")
    return dtype.numpy.kind in ("biu" if name in _ON_BITS else "iu" if name in _ON_INTEGERS else "fiu")


def _constant_fits(step: Step, of: list[DType]) -> bool:
    kind = step.dtype.numpy.kind
    low, high = step.dtype.limits if kind in "iu" else (0, 1)
    return kind == "f" or low <= step.number <= high


def _table_fits(step: Step, of: list[DType]) -> bool:
    low, high = step.dtype.limits if step.dtype.numpy.kind in "iu" and step.dtype.bytes <= 4 else (0, -1)
    entries = step.entries
    return of[0].numpy.kind in "iu" and len(entries) <= MOST_ENTRIES and all(low <= n <= high for n in entries)


def _compares(step: Step, of: list[DType]) -> bool:
    return step.dtype is DType.BOOL and of[0] is of[1]


_TYPES: Mapping[str, Callable[[Step, list[DType]], bool]] = {
    "select": lambda step, of: of[0] is DType.BOOL and of[1] is of[2] is step.dtype,
    "less": _compares,
    "equal": _compares,
    "cast": lambda step, of: True,
    "table": _table_fits,
    "bits": lambda step, of: _BITS.get(of[0]) is step.dtype,
    "constant": _constant_fits,
}
"""By step whose types need not all be the same: whether they agree."""


def _of_two(name: str, turned: bool = False) -> Callable[[Term, Term | float | int], Term]:
    """The operator that adds a step of this name; `turned`: the other operand, which is a number then, is the first."""

    def operator(self: Term, other: Term | float | int) -> Term:
        return self._of(other)._two(name, self) if turned else self._two(name, other)

    return operator


class Term:
    """A value of a formula that is being written: Python's operators add steps; equal steps are one value.

    A Python number as an operand is a constant of the other operand's type.
    """

    def __init__(self, steps: dict[Step, int], number: int, dtype: DType, operands: int) -> None:
        self._steps, self.number, self.dtype, self._operands = steps, number, dtype, operands

    def _add(self, step: Step) -> Term:
        number = self._steps.setdefault(step, self._operands + len(self._steps))
        return Term(self._steps, number, step.dtype, self._operands)

    def constant(self, number: float | int | bool, dtype: DType | None = None) -> Term:
        """A constant, of this term's type where no other is given."""
        to = dtype or self.dtype
        return self._add(Step("constant", to, (), _held(to, number)))

    def _of(self, other: Term | float | int) -> Term:
        return other if isinstance(other, Term) else self.constant(other)

    def _two(self, name: str, other: Term | float | int, dtype: DType | None = None) -> Term:
        return self._add(Step(name, dtype or self.dtype, (self.number, self._of(other).number)))

    def _one(self, name: str, dtype: DType | None = None) -> Term:
        return self._add(Step(name, dtype or self.dtype, (self.number,)))

    __add__, __radd__ = _of_two("add"), _of_two("add", turned=True)
    __sub__, __rsub__ = _of_two("sub"), _of_two("sub", turned=True)
    __mul__, __rmul__ = _of_two("mul"), _of_two("mul", turned=True)
    __truediv__, __rtruediv__ = _of_two("div"), _of_two("div", turned=True)
    __and__, __or__, __xor__ = _of_two("and"), _of_two("or"), _of_two("xor")
    __lshift__, __rshift__ = _of_two("left"), _of_two("right")

    def __neg__(self) -> Term:
        return self._one("neg")

    def __abs__(self) -> Term:
        return self if self.dtype.numpy.kind in "bu" else self._one("abs")

    def __invert__(self) -> Term:
        return self._one("not")

    def __lt__(self, other: Term | float | int) -> Term:
        return self._two("less", other, DType.BOOL)

    def __gt__(self, other: Term | float | int) -> Term:
        return self._of(other)._two("less", self, DType.BOOL)

    def __le__(self, other: Term | float | int) -> Term:
        """Below or equal; false where an operand is NaN."""
        return (self < other) | self.equals(other)

    def __ge__(self, other: Term | float | int) -> Term:
        """Above or equal; false where an operand is NaN."""
        return (self > other) | self.equals(other)

    def equals(self, other: Term | float | int) -> Term:
        """Whether both are equal; NaN equals nothing."""
        return self._two("equal", other, DType.BOOL)

    def sqrt(self) -> Term:
        """The square root: rounded to the nearest, of an unsigned integer cut to one."""
        return self._one("sqrt")

    def width(self) -> Term:
        """How many bits this unsigned integer needs, 0 for 0."""
        return self._one("width")

    def entry(self, table: Sequence[int], dtype: DType) -> Term:
        """The entry of a table whose number this is; outside it the nearest one."""
        return self._add(Step("table", dtype, (self.number,), ",".join(map(str, table))))

    def cast(self, dtype: DType) -> Term:
        """The same number in another element type."""
        if dtype is self.dtype:
            return self
        if DType.FLOAT16 in (dtype, self.dtype) and DType.FLOAT32 not in (dtype, self.dtype):
            return self.cast(DType.FLOAT32).cast(dtype)
        return self._one("cast", dtype)

    def bits(self) -> Term:
        """The bits of a float32 as an int32, or those of an int32 as a float32."""
        if self.dtype not in _BITS:
            raise GraphError(f"a function of real numbers has an operand of {self.dtype.value}")
        return self._one("bits", _BITS[self.dtype])

    def select(self, then: Term | float | int, other: Term | float | int) -> Term:
        """`then` where this bool is true, else `other`; one of them at least is a Term."""
        first = then if isinstance(then, Term) else other
        assert isinstance(first, Term)
        a, b = first._of(then), first._of(other)
        return self._add(Step("select", a.dtype, (self.number, a.number, b.number)))


def formula(write: Callable[..., Term], *dtypes: DType) -> Formula:
    """The formula that `write` computes from one Term per operand of these element types.

    Float16 operands are converted to float32 first. Steps that the result does not need are left out.
    """
    steps: dict[Step, int] = {}
    operands = [Term(steps, number, dtype, len(dtypes)) for number, dtype in enumerate(dtypes)]
    read = [term.cast(DType.FLOAT32) if term.dtype is DType.FLOAT16 else term for term in operands]
    result = write(*read)
    return _pruned(tuple(dtypes), tuple(steps), result.number)


def compose(
    outer: tuple[Formula, Sequence[str]], inner: tuple[Formula, Sequence[str]], name: str, numbers: Mapping[str, float]
) -> tuple[Formula, tuple[str, ...]]:
    """One formula of two, where operand `name` of the outer is the inner's result; and the names of its operands.

    Each formula has the names of its operands beside it; equal names are one operand. `numbers` has the operands of
    finite value that become constants. Equal steps are computed once.
    """
    named = [*zip(inner[1], inner[0].operands, strict=True), *zip(outer[1], outer[0].operands, strict=True)]
    dtypes = {operand: dtype for operand, dtype in named if operand != name and operand not in numbers}
    places = {operand: place for place, operand in enumerate(dtypes)}
    steps: dict[Step, int] = {}

    def added(step: Step) -> int:
        return steps.setdefault(step, len(dtypes) + len(steps))

    for operand, dtype in named:
        if operand in numbers:
            places[operand] = added(Step("constant", dtype, (), _held(dtype, numbers[operand])))
    for made, operands in (inner, outer):
        values = [places[operand] for operand in operands]
        for step in made.steps:
            values.append(added(Step(step.name, step.dtype, tuple(values[i] for i in step.reads), step.constant)))
        places[name] = values[-1]
    return _pruned(tuple(dtypes.values()), tuple(steps), places[name]), tuple(dtypes)


def _held(dtype: DType, number: float | int | bool) -> str:
    """The number of a constant as in a formula's text. Raises GraphError for a number that the type cannot hold."""
    if dtype.numpy.kind != "f" and not np.isfinite(number):
        raise GraphError(f"a function of {dtype.value} has the constant {number}")
    return float(np.float32(number)).hex() if dtype.numpy.kind == "f" else str(int(number))


def _pruned(operands: tuple[DType, ...], steps: tuple[Step, ...], result: int) -> Formula:
    """The steps that the value `result` needs, of which it is the last."""
    needed, todo = set[int](), [result]
    while todo:
        number = todo.pop()
        if number not in needed:
            needed.add(number)
            todo += steps[number - len(operands)].reads if number >= len(operands) else ()
    places = {number: number for number in range(len(operands))}
    kept: list[Step] = []
    for number, step in enumerate(steps, len(operands)):
        if number in needed:
            places[number] = len(operands) + len(kept)
            kept.append(Step(step.name, step.dtype, tuple(places[i] for i in step.reads), step.constant))
    if result < len(operands):  # an operand itself: a cast to its own type makes it the last value
        dtype = operands[result]
        kept.append(Step("cast", dtype, (result,)))
    made = Formula(operands, tuple(kept))
    _check(made)
    return made
