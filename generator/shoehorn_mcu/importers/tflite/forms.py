"""What TensorFlow Lite's ops become, in each element type."""

from __future__ import annotations

from collections.abc import Mapping

from shoehorn_mcu import ops
from shoehorn_mcu.importers.forms import FORMULA, NOTHING, Form, Forms, In, Kind, merged
from shoehorn_mcu.importers.lowering.forms import forms as plain_forms
from shoehorn_mcu.importers.tflite import detection, int16, quantised, real, signal
from shoehorn_mcu.importers.tflite.branches import CODES as BRANCHES
from shoehorn_mcu.importers.tflite.complex import PARTS
from shoehorn_mcu.importers.tflite.ops import KNOWN, OWN
from shoehorn_mcu.importers.tflite.variables import CODES as VARIABLES
from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops import Gather, Map, MatMul, Reduce, Scan, Scatter, TopIndices

_TABLE: Form = (ops.Unary,)

_INT8: Mapping[str, Form] = {
    "ADD": (ops.Add,),
    "CONV_2D": (ops.Conv2d,),
    "DEPTHWISE_CONV_2D": (ops.DepthwiseConv2d,),
    "DEQUANTIZE": (ops.Dequantize,),
    "FULLY_CONNECTED": (ops.Dense,),
    "MAXIMUM": (ops.Maximum,),
    "MEAN": (ops.Mean,),
    "MINIMUM": (ops.Minimum,),
    "MUL": (ops.Mul,),
    "PRELU": (ops.Prelu,),
    "QUANTIZE": (ops.Quantize, ops.Requantize),
    "REDUCE_MAX": (ops.MaxPool2d,),
    "RESIZE_BILINEAR": (ops.ResizeBilinear,),
    "SOFTMAX": (ops.Softmax,),
    "SUB": (ops.Sub,),
    "SVDF": (ops.SvdfState, ops.SvdfSum),
    "TRANSPOSE_CONV": (ops.TransposeConv2d,),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (ops.Lstm,),
    "AVERAGE_POOL_2D": (ops.AveragePool2d,),
    "MAX_POOL_2D": (ops.MaxPool2d,),
}
"""Of int8, where it is no table of 256 results, and where the op does not move elements."""

_MOVED: Mapping[str, Form] = {
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), NOTHING),
    **dict.fromkeys(("CONCATENATION", "TILE"), (ops.Concat,)),
    **dict.fromkeys(("SLICE", "SPLIT", "SPLIT_V", "STRIDED_SLICE"), (ops.Slice,)),
    "PAD": (ops.Pad,),
    "RESIZE_NEAREST_NEIGHBOR": (ops.ResizeNearest,),
    "TRANSPOSE": (ops.Transpose,),
}
"""Of all types."""

_INT16: Mapping[str, Form] = {
    **dict.fromkeys(int16.CONVERTERS, FORMULA),
    **dict.fromkeys(("MEAN", "SOFTMAX"), (Map, Reduce)),
    **{code: _INT8[code] for code in ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")},
    **{code: _INT8[code] for code in ("MAX_POOL_2D", "REDUCE_MAX", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM")},
}
"""Of int16."""

_REAL: Mapping[str, Form] = {
    **{code: _INT8[code] for code in (*real.ALSO_QUANTISED, "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D")},
    **{code: _INT8[code] for code in ("FULLY_CONNECTED", "MAX_POOL_2D", "SOFTMAX")},
    "LOCAL_RESPONSE_NORMALIZATION": (ops.AveragePool2d, Map),
    "RFFT2D": (ops.Dense, Map),
    "RESIZE_BILINEAR": (Map, Gather, ops.Slice, ops.Concat),
    "SVDF": (ops.Dense, Map, Reduce),
    "TRANSPOSE_CONV": (ops.Conv2d,),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (ops.Recurrence, ops.Dense),
}
"""Of float32 alone."""

_ANY: Mapping[str, Form] = {
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), (TopIndices, Map)),
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH"), (ops.Transpose,)),
    **dict.fromkeys(("L2_NORMALIZATION", "LOG_SOFTMAX", "MEAN"), (Reduce, Map)),
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), (Reduce,)),
    **dict.fromkeys(("REVERSE_V2", "UNPACK"), (ops.Slice,)),
    "BATCH_MATMUL": (MatMul,),
    "CUMSUM": (Scan,),
    "EMBEDDING_LOOKUP": (Gather,),
    "GATHER": (Gather, ops.Slice, ops.Concat),
    "MIRROR_PAD": (ops.Slice, ops.Concat),
    "PACK": (ops.Concat,),
    "SCATTER_ND": (Scatter, Map, Reduce),
    "TOPK_V2": (TopIndices, Gather, Map),
}
"""Of float32, where `_REAL` has no other, of bool and of integers, if it is no formula of each element."""

_EXACT: Mapping[str, Form] = {
    "BATCH_MATMUL": (MatMul, Map),
    "CUMSUM": (Scan, Map),
    **dict.fromkeys(("REDUCE_PROD", "SUM"), (Reduce, Map)),
}
"""Of quantised tensors in integers, where they become other ops than numbers do."""

_COMPLEX = ("COMPLEX_ABS", "RFFT2D")
"""Ops of which one end is complex, so that nothing quantised is there."""

_BOOL = ("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "REDUCE_ALL", "REDUCE_ANY")
_SMOOTH = ("CEIL", "FLOOR", "ROUND", "SIGN")
"""Ops of one operand whose conversions from int8 and to it become one table with them."""

_KINDS: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("BITWISE_XOR", "REDUCE_ALL", "REDUCE_ANY", "RIGHT_SHIFT"), (Kind.OTHER,)),
    **dict.fromkeys(("ELU", "GELU", "L2_NORMALIZATION", "LEAKY_RELU", "LOG_SOFTMAX", "RSQRT"), (Kind.FLOAT32,)),
    **dict.fromkeys(("RELU6", "RELU_0_TO_1", "RELU_N1_TO_1"), (Kind.FLOAT32,)),
    **dict.fromkeys(("LOCAL_RESPONSE_NORMALIZATION", "TRANSPOSE_CONV"), (Kind.FLOAT32,)),
    **dict.fromkeys(("COMPLEX_ABS", "RFFT2D"), (Kind.FLOAT32,)),
}
"""Ops that are of real numbers or of integers alone; those of one meaning with an op of ONNX have its types."""

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
    int8 = {code: {Kind.INT8: _INT8.get(code, _TABLE)} for code in OWN}
    return merged(
        {code: dict.fromkeys(Kind, NOTHING) for code in _REPLACED},
        {code: _of_real(code, onnx) for code in real.CONVERTERS},
        {code: _of_rule(code, onnx) for code in real.CONVERTERS if code not in (*_BOOL, *_COMPLEX)},
        {code: {Kind.FLOAT32: form} for code, form in _REAL.items()},
        int8,
        {code: {Kind.INT16: form} for code, form in _INT16.items()},
        {code: dict.fromkeys(Kind, form) for code, form in _MOVED.items()},
        {"PADV2": dict.fromkeys((Kind.INT8, Kind.INT16, Kind.OTHER), (ops.Pad,))},
        {code: {Kind.OTHER: _SIGNAL.get(code, FORMULA)} for code in signal.CONVERTERS},
        {code: {Kind.FLOAT32: (ops.Suppress, TopIndices, Map, Reduce)} for code in detection.CONVERTERS},
    )


def _of_real(code: str, onnx: Forms) -> Mapping[Kind, Form]:
    """What becomes of an op on tensors that are not quantised."""
    both = (Kind.FLOAT32, Kind.OTHER)
    if code in real.SAME:
        alike = onnx[real.SAME[code]]
        return {kind: alike[kind] for kind in both if kind in alike}
    return {kind: _ANY.get(code, FORMULA) for kind in _KINDS.get(code, both)}


def _of_rule(code: str, onnx: Forms) -> Mapping[Kind, Form]:
    """What becomes of an op on quantised tensors that has no kernel for them."""
    alike = _of_real(code, onnx)
    numbers = alike.get(Kind.OTHER) or alike[Kind.FLOAT32]
    found = {}
    for kind, dtype in ((Kind.INT8, DType.INT8), (Kind.INT16, DType.INT16)):
        if quantised.in_integers(code, dtype):
            found[kind] = _EXACT.get(code, numbers)
        elif code not in OWN or code in quantised.FLOATS_16:
            real_form = _REAL.get(code, alike.get(Kind.FLOAT32, FORMULA))
            found[kind] = tuple(each if isinstance(each, In) else In(Kind.FLOAT32, each) for each in real_form)
    return found | ({Kind.INT8: _TABLE} if code in _SMOOTH else {})
