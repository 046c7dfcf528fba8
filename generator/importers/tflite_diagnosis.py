"""Diagnoses a model that cannot run by the element types of its tensors, and names the cure."""

from __future__ import annotations

from collections import Counter

from shoehorn_mcu.importers.tflite_file import RawModel

_GUIDE = "docs/first-model.md"
# Ops that only change the element type: the types of their outputs tell nothing about the model.
_CONVERSIONS = {"QUANTIZE", "DEQUANTIZE", "CAST"}
_KINDS = {
    "FLOAT32": "a float32 model",
    "FLOAT16": "a float16 model",
    "INT16": "an int16 model",
}
_CURE = "convert it to int8"


def diagnosis(raw: RawModel) -> str:
    """The kind of the model and the cure, for a message; "" if its ops compute with int8."""
    writes = Counter(
        raw.tensors[place].dtype for op in raw.ops if op.code not in _CONVERSIONS for place in op.outputs if place >= 0
    )
    others = {dtype: count for dtype, count in writes.items() if dtype in _KINDS}
    if not others:
        return ""
    dtype = max(others, key=lambda each: others[each])
    cure = f"{_CURE} ({_GUIDE} shows how)"
    if writes["INT8"]:
        total, kind = sum(writes.values()), dtype.lower()
        return f"a model quantised in part: {others[dtype]} of its {total} tensors are {kind}; {cure}"
    return f"{_KINDS[dtype]}; {cure}"
