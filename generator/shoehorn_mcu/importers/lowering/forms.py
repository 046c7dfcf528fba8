"""What the ops of this room's converters become, in the element types that are not quantised."""

from __future__ import annotations

from collections.abc import Mapping

from onnx.defs import get_schema

from shoehorn_mcu import ops
from shoehorn_mcu.importers.forms import FORMULA, NOTHING, Form, Forms, In, Kind
from shoehorn_mcu.importers.lowering import recurrent
from shoehorn_mcu.importers.lowering.ops import CONVERTERS
from shoehorn_mcu.ops import Dequantize, Gather, Map, MatMul, Quantize, Recurrence, Reduce, Scan, Scatter, TopIndices

FOLDED = (ops.DepthwiseConv2d,)  # a factor and an addend per channel, which the op before may take

_REAL: Mapping[str, Form] = {
    "Add": (ops.Add, *FOLDED, Map),
    "AveragePool": (ops.AveragePool2d, Map),
    "BatchNormalization": FOLDED,
    "Cast": (Map, Quantize, Dequantize),
    "CastLike": (Map, Quantize, Dequantize),
    "Clip": (*FOLDED, Map),
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
    "Mul": (*FOLDED, Map),
    "ReduceMean": (ops.Mean,),
    "Relu": (*FOLDED, Map),
    "Resize": (Gather, ops.Slice, ops.Concat, Map, MatMul),
    "Softmax": (ops.Softmax,),
    "Sub": (ops.Sub, *FOLDED, Map),
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

_WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def forms() -> Forms:
    """What the ops become, of float32 and of numbers that are not quantised."""
    return {code: {kind: form(code, kind) for kind in kinds(code)} for code in CONVERTERS}


def form(code: str, kind: Kind) -> Form:
    """What an op becomes, whether or not it takes the element type."""
    return _REAL[code] if kind is Kind.FLOAT32 and code in _REAL else _ANY.get(code, FORMULA)


def kinds(code: str) -> tuple[Kind, ...]:
    """The element types that an op takes, as ONNX says of its first operand."""
    if code in _KINDS:
        return _KINDS[code]
    types = get_schema(code).inputs[0].types
    real, whole = "tensor(float)" in types, bool({f"tensor({each})" for each in _WHOLE} & set(types))
    return (*((Kind.FLOAT32,) if real else ()), *((Kind.OTHER,) if whole else ()))
