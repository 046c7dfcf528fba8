"""Diagnoses a model that cannot run by the element types of its refused ops, and names the cure where it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shoehorn_mcu.importers.fault import Refusal
from shoehorn_mcu.importers.forms import Kind
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp

_GUIDE = "docs/first-model.md"
_KINDS = {"FLOAT32": "a float32 model", "FLOAT16": "a float16 model", "INT16": "an int16 model"}
# Ops that only change the element type: the types of their outputs tell nothing about the model.
_CONVERSIONS = {"QUANTIZE", "DEQUANTIZE", "CAST"}
_INT8 = ("INT8", "UINT8")
_MOST_NAMED = 3  # kinds of ops in a diagnosis


def diagnosis(raw: RawModel, refused: Sequence[Refusal]) -> str:
    """The kind of the model, for a message, and int8 as the cure where all that is refused would run in it.

    "" if the refused ops compute with int8.
    """
    writes = Counter(
        raw.tensors[place].dtype for op in raw.ops if op.code not in _CONVERSIONS for place in op.outputs if place >= 0
    )
    others = {dtype: count for dtype, count in writes.items() if dtype in _KINDS}
    ops = [raw.ops[number] for each in refused if (number := _number(each)) is not None]
    wide = [op for op in ops if _computes(raw, op) in _KINDS]
    if not others or (ops and not wide):
        return ""
    dtype = max(others, key=lambda each: others[each])
    total, kind = sum(writes.values()), dtype.lower()
    said = (
        f"a model quantised in part: {others[dtype]} of its {total} tensors are {kind}"
        if writes["INT8"]
        else _KINDS[dtype]
    )
    cured = {op.code for op in wide if _in_int8(op)}
    if all(op.code in cured for op in ops) and not any(each.place == "model" for each in refused):
        return f"{said}; convert it to int8 ({_GUIDE} shows how)"
    if rest := Counter(op.code for op in wide if op.code not in cured):
        return f"{said}, and int8 does not help: {_listed(rest)} cannot run in it either"
    return said


def _number(refusal: Refusal) -> int | None:
    word, _, number = refusal.place.partition(" ")
    return int(number) if word == "op" else None


def _computes(raw: RawModel, op: RawOp) -> str:
    """The element type that an op computes with: that of its first result, or of what it reads."""
    places = [*op.outputs[:1], *op.inputs]
    types = [raw.tensors[i].dtype for i in places if i >= 0]
    return next((dtype for dtype in types if dtype in _KINDS or dtype in _INT8), "")


def _in_int8(op: RawOp) -> bool:
    """Whether there are kernels for an op in int8."""
    from shoehorn_mcu.importers.tflite import forms  # only here: it reads the schemas of ONNX, which takes time

    return Kind.INT8 in forms.forms().get(op.code, {})


def _listed(codes: Counter[str]) -> str:
    """The most frequent kinds of ops, each with its number."""
    named = [code if count == 1 else f"{code} x {count}" for code, count in codes.most_common(_MOST_NAMED)]
    more = len(codes) - _MOST_NAMED
    return ", ".join(named) + (f" and {more} other kinds" if more > 0 else "")
