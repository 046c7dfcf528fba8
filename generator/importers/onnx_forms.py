"""What ONNX's ops become, in each element type."""

from __future__ import annotations

from collections.abc import Mapping

from onnx.defs import get_schema

from shoehorn_mcu import ops
from shoehorn_mcu.importers import onnx_maps as maps
from shoehorn_mcu.importers import onnx_recurrent as recurrent
from shoehorn_mcu.importers.forms import FORMULA, NOTHING, Form, Forms, In, Kind, merged
from shoehorn_mcu.importers.onnx_fused import FUSED
from shoehorn_mcu.importers.onnx_int16 import CONVERTERS as WIDE
from shoehorn_mcu.importers.onnx_ops import CONVERTERS
from shoehorn_mcu.importers.onnx_qlinear import FORMS as QLINEAR
from shoehorn_mcu.importers.onnx_quantised import CONVERTERS as QUANTISED
from shoehorn_mcu.importers.onnx_quantised import MOVERS
from shoehorn_mcu.ops import (
    Dequantize,
    Gather,
    Map,
    MatMul,
    Quantize,
    Recurrence,
    Reduce,
    Scan,
    Scatter,
    Table,
    TopIndices,
)

_FOLDED = (ops.DepthwiseConv2d,)  # a factor and an addend per channel, which the op before may take

_REAL: Mapping[str, Form] = {
    "Add": (ops.Add, *_FOLDED, Map),
    "AveragePool": (ops.AveragePool2d, Map),
    "BatchNormalization": _FOLDED,
    "Cast": (Map, Quantize, Dequantize),
    "CastLike": (Map, Quantize, Dequantize),
    "Clip": (*_FOLDED, Map),
    "Col2Im": (ops.Conv2d,),
    "Conv": (ops.Conv2d, ops.DepthwiseConv2d, ops.Add),
    "ConvTranspose": (ops.Conv2d, ops.DepthwiseConv2d),
    "Det": (Map, ops.Slice),
    "Einsum": (ops.Dense, MatMul, Reduce, Map, ops.Slice),
    "Gemm": (ops.Dense, MatMul, Map),
    "GlobalAveragePool": (ops.Mean,),
    "LRN": (ops.AveragePool2d, Map),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LayerNormalization"), (ops.Mean, Map)),
    **dict.fromkeys(("MeanVarianceNormalization", "RMSNormalization"), (ops.Mean, Map)),
    "MatMul": (ops.Dense, MatMul),
    "MaxPool": (ops.MaxPool2d, Map),
    "Mul": (*_FOLDED, Map),
    "ReduceMean": (ops.Mean,),
    "Relu": (*_FOLDED, Map),
    "Resize": (Gather, ops.Slice, ops.Concat, Map, MatMul),
    "Softmax": (ops.Softmax,),
    "Sub": (ops.Sub, *_FOLDED, Map),
    **dict.fromkeys(recurrent.CONVERTERS, (Recurrence, ops.Dense)),
}
"""Of float32 alone."""

_ANY: Mapping[str, Form] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), (TopIndices,)),
    **dict.fromkeys(("CumProd", "CumSum"), (Scan,)),
    **dict.fromkeys(("GlobalMaxPool", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"), (Reduce,)),
    **dict.fromkeys(("GlobalLpPool", "LpNormalization", "ReduceMean"), (Reduce, Map)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"), (Reduce, Map)),
    **dict.fromkeys(("Scatter", "ScatterElements"), (Scatter,)),
    **dict.fromkeys(("Flatten", "Reshape", "Transpose"), (ops.Transpose,)),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), NOTHING),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), (ops.Transpose,)),
    **dict.fromkeys(("Expand", "Tile"), (ops.Concat,)),
    "Concat": (ops.Concat,),
    "ConvInteger": (In(Kind.FLOAT32, ops.Conv2d), Map),
    "DFT": (MatMul,),
    "Dropout": NOTHING,
    "Einsum": (MatMul, Reduce, Map, ops.Slice),
    "Gather": (Gather, ops.Slice, ops.Concat),
    "GatherElements": (Gather,),
    "GatherND": (Gather, Map, Reduce),
    "Gemm": (MatMul, Map),
    "GridSample": (Gather, Map),
    "Hardmax": (TopIndices, Map),
    "Identity": NOTHING,
    "MatMul": (MatMul,),
    "MatMulInteger": (MatMul, Map),
    "Pad": (ops.Pad, ops.Slice, ops.Concat),
    "Resize": (Gather, ops.Slice, ops.Concat),
    "ReverseSequence": (ops.Slice, ops.Concat),
    "ScatterND": (Scatter, Map, Reduce),
    "Slice": (ops.Slice,),
    "Split": (ops.Slice,),
    "TopK": (TopIndices, Gather),
}
"""Of float32, where `_REAL` has no other, of bool and of integers."""

_KINDS: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("Col2Im", "GridSample"), (Kind.FLOAT32,)),
    "Where": (Kind.FLOAT32, Kind.OTHER),
}
"""Where converters read others than ONNX allows as first operand."""

_MICROSOFTS: Mapping[str, Form] = {
    "DynamicQuantizeMatMul": (MatMul, Reduce, Map, *_FOLDED),
    "EmbedLayerNormalization": (Gather, ops.Slice, ops.Add, ops.Mean, Map, Reduce),
    "FusedConv": (ops.Conv2d, ops.DepthwiseConv2d, ops.Add, Map),
    "FusedGemm": (ops.Dense, *_FOLDED, Map),
    "FusedMatMul": (ops.Dense, MatMul, Map, ops.Transpose),
    "MatMulIntegerToFloat": (MatMul, Map, *_FOLDED),
    "NhwcMaxPool": (Map, ops.Pad, ops.Slice),
    "SimplifiedLayerNormalization": (ops.Mean, Map),
    "SkipLayerNormalization": (ops.Add, ops.Mean, Map),
    "SkipSimplifiedLayerNormalization": (ops.Add, ops.Mean, Map),
}
"""Of ops of Microsoft's domain that stand for several of ONNX, where it is no formula of each element."""

_REPLACED = ("If", "Scan")  # by what they run

_CONVERSIONS: Forms = {
    "QuantizeLinear": {Kind.INT8: (Quantize, ops.Requantize, Map), Kind.INT16: FORMULA, Kind.OTHER: FORMULA},
    "DequantizeLinear": {Kind.INT8: (Dequantize, Map), Kind.INT16: FORMULA, Kind.OTHER: FORMULA},
    "com.microsoft.QGemm": {Kind.FLOAT32: (ops.Dense,)},  # where its result is of real numbers
}


_TABLE = (Table,)

_INT8: Mapping[str, Form] = {
    "Add": (ops.Add, Table),
    "AveragePool": (ops.AveragePool2d,),
    "Clip": _TABLE,
    "Concat": (ops.Concat,),
    "Conv": (ops.Conv2d, ops.DepthwiseConv2d),
    "ConvTranspose": (ops.TransposeConv2d,),
    "Gemm": (ops.Dense,),
    "GlobalAveragePool": (ops.Mean,),
    "MatMul": (ops.Dense, MatMul, Map),
    "MaxPool": (ops.MaxPool2d,),
    "Mul": (ops.Mul, Table),
    "ReduceMean": (ops.Mean,),
    "Relu": _TABLE,
    "Softmax": (ops.Softmax,),
    "Sub": (ops.Sub, Table),
}
"""Of int8."""

_INT16: Mapping[str, Form] = {
    "AveragePool": (ops.AveragePool2d, Map),
    "Concat": (ops.Concat, Map),
    "Conv": (ops.Conv2d, ops.DepthwiseConv2d),
    "ConvTranspose": (ops.TransposeConv2d,),
    "Gemm": (ops.Dense,),
    "GlobalAveragePool": (Map, Reduce),
    "MatMul": (ops.Dense,),
    "MaxPool": (ops.MaxPool2d,),
    "ReduceMean": (Map, Reduce),
    "Softmax": (Map, Reduce),
}
"""Of int16, where it is no formula of each element."""


def forms() -> Forms:
    """What the ops become."""
    plain = {code: {kind: _form(code, kind) for kind in _kinds(code)} for code in CONVERTERS}
    tables = {code: _TABLE for code in (*maps.CONVERTERS, "Dropout") if _is_of_one_type(code)}
    int8 = tables | {code: _INT8[code] for code in QUANTISED}
    int16 = {code: _INT16.get(code, FORMULA) for code in WIDE}
    for code in MOVERS:
        int8[code], int16[code] = (of.get(code) or _form(code, Kind.OTHER) for of in (_INT8, _INT16))
    int8 |= {code: int8.get(each.code, (In(Kind.FLOAT32, Map),)) for code, each in QLINEAR.items()}
    quantised = ({c: {kind: form} for c, form in of.items()} for kind, of in ((Kind.INT8, int8), (Kind.INT16, int16)))
    fused = {code: _MICROSOFTS.get(code.rpartition(".")[2], FORMULA) for code in FUSED}
    others = {c: {Kind.OTHER if c.endswith("MaxPool") else Kind.FLOAT32: form} for c, form in fused.items()}
    return merged(plain, *quantised, others, _CONVERSIONS, {code: dict.fromkeys(Kind, NOTHING) for code in _REPLACED})


def _form(code: str, kind: Kind) -> Form:
    return _REAL[code] if kind is Kind.FLOAT32 and code in _REAL else _ANY.get(code, FORMULA)


def _kinds(code: str) -> tuple[Kind, ...]:
    """The element types that an op takes, as ONNX says of its first operand."""
    if code in _KINDS:
        return _KINDS[code]
    types = get_schema(code).inputs[0].types
    real, whole = "tensor(float)" in types, bool({f"tensor({each})" for each in _WHOLE} & set(types))
    return (*((Kind.FLOAT32,) if real else ()), *((Kind.OTHER,) if whole else ()))


def _is_of_one_type(code: str) -> bool:
    """Whether an op has real numbers as its result and as its first operand."""
    schema = get_schema(code)
    alike = schema.inputs[0].type_str == schema.outputs[0].type_str
    return alike and Kind.FLOAT32 in _kinds(code)


_WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
