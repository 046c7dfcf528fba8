"""What ONNX's ops become, in each element type."""

from __future__ import annotations

from collections.abc import Mapping

from onnx.defs import get_schema

from shoehorn_mcu import ops
from shoehorn_mcu.importers.forms import FOLDED, FORMULA, NOTHING, Form, Forms, In, Kind, merged
from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.lowering.ops import ROWS, kinds
from shoehorn_mcu.importers.lowering.ops import forms as plain_forms
from shoehorn_mcu.importers.onnx import int16 as wide
from shoehorn_mcu.importers.onnx import quantised
from shoehorn_mcu.importers.onnx.fused import FUSED
from shoehorn_mcu.importers.onnx.qlinear import FORMS as QLINEAR

_MICROSOFTS: Mapping[str, Form] = {
    "DynamicQuantizeMatMul": (ops.MatMul, ops.Reduce, ops.Map, *FOLDED),
    "EmbedLayerNormalization": (ops.Gather, ops.Slice, ops.Add, ops.Mean, ops.Map, ops.Reduce),
    "FusedConv": (ops.Conv2d, ops.DepthwiseConv2d, ops.Add, ops.Map),
    "FusedGemm": (ops.Dense, *FOLDED, ops.Map),
    "FusedMatMul": (ops.Dense, ops.MatMul, ops.Map, ops.Transpose),
    "MatMulIntegerToFloat": (ops.MatMul, ops.Map, *FOLDED),
    "NhwcMaxPool": (ops.Map, ops.Pad, ops.Slice),
    "SimplifiedLayerNormalization": (ops.Mean, ops.Map),
    "SkipLayerNormalization": (ops.Add, ops.Mean, ops.Map),
    "SkipSimplifiedLayerNormalization": (ops.Add, ops.Mean, ops.Map),
}
"""Of ops of Microsoft's domain that stand for several of ONNX, where it is no formula of each element."""

_REPLACED = ("If", "Scan")  # by what they run

_CONVERSIONS: Forms = {
    "QuantizeLinear": {Kind.INT8: (ops.Quantize, ops.Requantize, ops.Map), Kind.INT16: FORMULA, Kind.OTHER: FORMULA},
    "DequantizeLinear": {Kind.INT8: (ops.Dequantize, ops.Map), Kind.INT16: FORMULA, Kind.OTHER: FORMULA},
    "com.microsoft.QGemm": {Kind.FLOAT32: (ops.Dense,)},  # where its result is of real numbers
}


_TABLE = (ops.Table,)
_CHOOSING: Mapping[str, Form] = {"MaxPool": (ops.MaxPool2d,), "ReduceMax": (ops.MaxPool2d, ops.Reduce)}
"""What an op becomes that chooses some of the integers it reads."""


def forms() -> Forms:
    """What the ops become."""
    tables = {code: _TABLE for code in (*maps.CONVERTERS, "Dropout") if _is_of_one_type(code)}
    int8 = tables | {code: row.form for code, row in quantised.ROWS.items()}
    int16 = {code: row.form for code, row in wide.ROWS.items()}
    for code in quantised.MOVERS:
        int8[code] = int16[code] = _CHOOSING.get(code, ROWS[code].form)
    int8 |= {code: int8.get(each.code, (In(Kind.FLOAT32, ops.Map),)) for code, each in QLINEAR.items()}
    both = ({c: {kind: form} for c, form in of.items()} for kind, of in ((Kind.INT8, int8), (Kind.INT16, int16)))
    fused = {code: _MICROSOFTS.get(code.rpartition(".")[2], FORMULA) for code in FUSED}
    others = {c: {Kind.OTHER if c.endswith("MaxPool") else Kind.FLOAT32: form} for c, form in fused.items()}
    return merged(
        plain_forms(), *both, others, _CONVERSIONS, {code: dict.fromkeys(Kind, NOTHING) for code in _REPLACED}
    )


def _is_of_one_type(code: str) -> bool:
    """Whether an op has real numbers as its result and as its first operand."""
    schema = get_schema(code)
    alike = schema.inputs[0].type_str == schema.outputs[0].type_str
    return alike and Kind.FLOAT32 in kinds(code)
