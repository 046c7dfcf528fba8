"""What TensorFlow Lite's ops become, in each element type."""

from __future__ import annotations

from collections.abc import Mapping

from shoehorn_mcu import ops
from shoehorn_mcu.importers.forms import FORMULA, NOTHING, Form, Forms, In, Kind, merged
from shoehorn_mcu.importers.lowering.ops import forms as plain_forms
from shoehorn_mcu.importers.tflite import detection, int16, quantised, real, signal
from shoehorn_mcu.importers.tflite.branches import CODES as BRANCHES
from shoehorn_mcu.importers.tflite.complex import PARTS
from shoehorn_mcu.importers.tflite.ops import CONVERTERS, KNOWN, OWN
from shoehorn_mcu.importers.tflite.variables import CODES as VARIABLES
from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops import Map, MatMul, Reduce, Scan, TopIndices

_INT16: Mapping[str, Form] = {
    **dict.fromkeys(int16.CONVERTERS, FORMULA),
    **dict.fromkeys(("MEAN", "SOFTMAX"), (Map, Reduce)),
}
"""What ops become for int16 tensors, where that differs from what they become for int8 tensors."""

_EXACT: Mapping[str, Form] = {
    "BATCH_MATMUL": (MatMul, Map),
    "CUMSUM": (Scan, Map),
    **dict.fromkeys(("REDUCE_PROD", "SUM"), (Reduce, Map)),
}
"""What ops become where they compute quantised tensors in integers, if that differs from what plain integers need."""

_COMPLEX = ("COMPLEX_ABS", "RFFT2D")
"""Ops of which one end is complex, so that nothing quantised is there."""

_BOOL = ("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "REDUCE_ALL", "REDUCE_ANY")
_SMOOTH = ("CEIL", "FLOOR", "ROUND", "SIGN")
"""Ops of one operand whose conversions from int8 and to it become one table with them."""

_SIGNAL: Mapping[str, Form] = {
    "SignalEnergy": (Reduce,),
    "SignalFftAutoScale": (Reduce, Map),
    "SignalFilterBank": (ops.FilterBank,),
    "SignalRfft": (In(Kind.INT16, ops.Rfft),),
}

_REPLACED = (*KNOWN, *VARIABLES, *PARTS, *BRANCHES)  # by what is known before, by states, and by the ops that are run


def forms() -> Forms:
    """What the ops become."""
    onnx = plain_forms()
    own = {code: CONVERTERS[code] for code in OWN}
    return merged(
        {code: dict.fromkeys(Kind, NOTHING) for code in _REPLACED},
        {code: _of_real(code, onnx) for code in real.CONVERTERS},
        {code: _of_rule(code, onnx) for code in real.CONVERTERS if code not in (*_BOOL, *_COMPLEX)},
        {code: {Kind.FLOAT32: row.real_makes} for code, row in own.items() if row.real_makes is not None},
        {code: {Kind.INT16: form} for code, form in _INT16.items()},
        {code: dict.fromkeys((Kind.INT8, *row.also), row.makes) for code, row in own.items()},
        {code: {Kind.OTHER: _SIGNAL.get(code, FORMULA)} for code in signal.CONVERTERS},
        {code: {Kind.FLOAT32: (ops.Suppress, TopIndices, Map, Reduce)} for code in detection.CONVERTERS},
    )


def _of_real(code: str, onnx: Forms) -> Mapping[Kind, Form]:
    """What becomes of an op on tensors that are not quantised."""
    both = (Kind.FLOAT32, Kind.OTHER)
    if code in real.SAME:
        alike = onnx[real.SAME[code]]
        return {kind: alike[kind] for kind in both if kind in alike}
    row = real.ROWS[code]
    return {kind: row.of(kind) for kind in row.kinds or both}


def _of_rule(code: str, onnx: Forms) -> Mapping[Kind, Form]:
    """What becomes of an op on quantised tensors that has no kernel for them."""
    alike = _of_real(code, onnx)
    numbers = alike.get(Kind.OTHER) or alike[Kind.FLOAT32]
    found = {}
    for kind, dtype in ((Kind.INT8, DType.INT8), (Kind.INT16, DType.INT16)):
        if quantised.in_integers(code, dtype):
            found[kind] = _EXACT.get(code, numbers)
        elif code not in OWN or code in quantised.FLOATS_16:
            own = CONVERTERS[code].real_makes
            real_form = alike.get(Kind.FLOAT32, FORMULA) if own is None else own
            found[kind] = tuple(each if isinstance(each, In) else In(Kind.FLOAT32, each) for each in real_form)
    return found | ({Kind.INT8: (ops.Unary,)} if code in _SMOOTH else {})
