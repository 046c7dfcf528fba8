"""The options of TFLite's ops as plain values, and where they are in the file's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Activation(Enum):
    """A fused activation; values are the schema's ActivationFunctionType."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


class Scheme(Enum):
    """A padding scheme; values are the schema's Padding."""

    SAME = 0
    VALID = 1


@dataclass(frozen=True)
class Options:
    """All that ops of a file may say besides their operands. TABLES names what an op of a kind says; the rest is unset.

    Defaults are the schema's, for an absent table. Pairs are (height, width).
    """

    activation: Activation = Activation.NONE
    # Windows
    scheme: Scheme = Scheme.SAME
    stride: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    kernel: tuple[int, int] = (0, 0)  # pools only
    multiplier: int = 0  # depthwise only
    halves_up: bool = False  # average pools only, and no field of the file: see AveragePool2d
    # Dense layers, products and recurrent layers
    shuffled: bool = False  # the weights are not in the default format
    adj_x: bool = False  # BATCH_MATMUL multiplies by the transposed matrices of its first operand
    adj_y: bool = False  # the same for its second operand
    cell_clip: float = 0.0  # the largest magnitude of a cell state, 0 for none
    time_major: bool = False
    rank: int = 0  # filters of a unit
    # Functions
    factor: float = 0.0  # beta of SOFTMAX, alpha of LEAKY_RELU
    approximate: bool = False  # by tanh
    radius: int = 0
    bias: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0
    shifted: bool = False  # elements are shifted ahead, as uint8 has it; no field of the file
    # Axes
    axis: int = 0
    keep_dims: bool = False  # reduced axes stay, with size 1; the result of a dense layer has the input's dimensions
    exclusive: bool = False
    reverse: bool = False
    batch_dims: int = 0
    rescales: bool = False  # operands to the scale of the result, as uint8 is; no field of the file
    # Resizes
    align_corners: bool = False
    half_pixel_centers: bool = False
    in_float: bool = False  # int8 that stands for uint8, which is interpolated in float32; no field of the file
    # Shapes and parts; bit i of a mask is for entry i of begin, end and strides
    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    offset: bool = False  # `end` is counted from `begin`
    shape: tuple[int, ...] | None = None  # of files in which it is no operand; None: they do not say it
    axes: tuple[int, ...] = ()  # that are left out; none are all of size 1
    parts: int = 0  # the number of outputs
    block_size: int = 0
    symmetric: bool = False  # the border is repeated, too
    # Subgraphs and variables
    subgraphs: tuple[int, ...] = (0, 0)  # numbers: for true and false, or of condition and body, or the one that is run
    name: str = ""
    numbers: tuple[tuple[str, float], ...] = ()  # the options of a custom op, by name

    def __getitem__(self, name: str) -> float:
        return dict(self.numbers)[name]


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _text(parts: list[bytes | None]) -> str:
    text = "/".join((part or b"").decode("utf-8", "replace") for part in parts)
    return "".join(c if c.isprintable() else "?" for c in text)


def _integers(table: Any, field: str) -> tuple[int, ...]:
    """A short list of integers; ValueError where it is longer than any shape."""
    count: int = getattr(table, f"{field}Length")()
    if count > LONGEST:
        raise ValueError(f"{count} integers")
    return tuple(int(getattr(table, field)(i)) for i in range(count))


LONGEST = 64
"""Entries of a list in options."""


class Table:
    """The options table of an op in the schema, and by our name the field in it, or the fields of a pair or of a text.

    `Name[]` is a list.
    """

    def __init__(self, title: str, /, **fields: str) -> None:
        self.title, self._fields = title, fields

    def read(self, table: Any) -> Options:
        """The options that such a table has."""
        return Options(**{name: self._value(table, name, field) for name, field in self._fields.items()})

    @staticmethod
    def _value(table: Any, name: str, field: str) -> Any:
        unset = getattr(Options(), name)
        if field.endswith("[]"):
            return _integers(table, field.removesuffix("[]")) or unset
        found = [getattr(table, each)() for each in field.split()]
        if isinstance(unset, tuple):
            return tuple(found)
        if isinstance(unset, str):
            return _text(found)
        return _finite(found[0]) if isinstance(unset, float) else type(unset)(found[0])


CUSTOM = {
    "SignalEnergy": (),
    "SignalFftAutoScale": (),
    "SignalFilterBank": ("num_channels",),
    "SignalFilterBankLog": ("input_correction_bits", "output_scale"),
    "SignalFilterBankSpectralSubtraction": (
        *("alternate_one_minus_smoothing", "alternate_smoothing", "clamping", "min_signal_remaining", "num_channels"),
        *("one_minus_smoothing", "smoothing", "smoothing_bits", "spectral_subtraction_bits"),
    ),
    "SignalFilterBankSquareRoot": (),
    "SignalPCAN": ("snr_shift",),
    "SignalRfft": ("T", "fft_length"),
    "SignalWindow": ("shift",),
    "TFLite_Detection_PostProcess": (
        *("max_detections", "max_classes_per_detection", "detections_per_class", "use_regular_nms", "num_classes"),
        *("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale"),
    ),
}
"""By the name of a custom op: its options, numbers in a map of FlexBuffers."""

_ABSENT: Mapping[str, float] = {"detections_per_class": 100, "use_regular_nms": 0}
"""Options that may be missing, with what they then are."""

_REAL = frozenset(("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale"))


def custom_options(name: str, data: bytes) -> Options:
    """The options of a custom op. Raises KeyError, TypeError and others where they cannot be read."""
    from flatbuffers import flexbuffers

    if not CUSTOM[name]:
        return Options()
    found = flexbuffers.GetRoot(data).AsMap
    values = []
    for each in CUSTOM[name]:
        try:
            value = found[each].AsFloat if each in _REAL else found[each].AsInt
        except KeyError:
            value = _ABSENT[each]
        values.append((each, _finite(value)))
    return Options(numbers=tuple(values))


_FUSED = {"activation": "FusedActivationFunction"}
_WINDOW = {"scheme": "Padding", "stride": "StrideH StrideW"}
_DILATED = {**_WINDOW, "dilation": "DilationHFactor DilationWFactor"}
_POOL = Table("Pool2DOptions", **_WINDOW, kernel="FilterHeight FilterWidth", **_FUSED)
_REDUCER = Table("ReducerOptions", keep_dims="KeepDims")
_RESIZE = {"align_corners": "AlignCorners", "half_pixel_centers": "HalfPixelCenters"}

TABLES: Mapping[str, Table] = {
    "ADD": Table("AddOptions", **_FUSED),
    "AVERAGE_POOL_2D": _POOL,
    "BATCH_MATMUL": Table("BatchMatMulOptions", adj_x="AdjX", adj_y="AdjY"),
    "CALL_ONCE": Table("CallOnceOptions", subgraphs="InitSubgraphIndex"),
    "CONCATENATION": Table("ConcatenationOptions", axis="Axis", **_FUSED),
    "CONV_2D": Table("Conv2DOptions", **_DILATED, **_FUSED),
    "CUMSUM": Table("CumsumOptions", exclusive="Exclusive", reverse="Reverse"),
    "DEPTHWISE_CONV_2D": Table("DepthwiseConv2DOptions", **_DILATED, multiplier="DepthMultiplier", **_FUSED),
    "DEPTH_TO_SPACE": Table("DepthToSpaceOptions", block_size="BlockSize"),
    "DIV": Table("DivOptions", **_FUSED),
    "FULLY_CONNECTED": Table("FullyConnectedOptions", **_FUSED, shuffled="WeightsFormat", keep_dims="KeepNumDims"),
    "GATHER": Table("GatherOptions", axis="Axis", batch_dims="BatchDims"),
    "GELU": Table("GeluOptions", approximate="Approximate"),
    "IF": Table("IfOptions", subgraphs="ThenSubgraphIndex ElseSubgraphIndex"),
    "LEAKY_RELU": Table("LeakyReluOptions", factor="Alpha"),
    "LOCAL_RESPONSE_NORMALIZATION": Table(
        "LocalResponseNormalizationOptions", radius="Radius", bias="Bias", alpha="Alpha", beta="Beta"
    ),
    "MAX_POOL_2D": _POOL,
    "MIRROR_PAD": Table("MirrorPadOptions", symmetric="Mode"),
    "MUL": Table("MulOptions", **_FUSED),
    "ONE_HOT": Table("OneHotOptions", axis="Axis"),
    "PACK": Table("PackOptions", axis="Axis"),
    "RESHAPE": Table("ReshapeOptions", shape="NewShape[]"),
    "RESIZE_BILINEAR": Table("ResizeBilinearOptions", **_RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": Table("ResizeNearestNeighborOptions", **_RESIZE),
    "SOFTMAX": Table("SoftmaxOptions", factor="Beta"),
    "SPACE_TO_DEPTH": Table("SpaceToDepthOptions", block_size="BlockSize"),
    "SPLIT": Table("SplitOptions", parts="NumSplits"),
    "SQUEEZE": Table("SqueezeOptions", axes="SqueezeDims[]"),
    "STRIDED_SLICE": Table(
        "StridedSliceOptions",
        **{"begin_mask": "BeginMask", "end_mask": "EndMask", "ellipsis_mask": "EllipsisMask"},
        **{"new_axis_mask": "NewAxisMask", "shrink_axis_mask": "ShrinkAxisMask", "offset": "Offset"},
    ),
    "SUB": Table("SubOptions", **_FUSED),
    "SVDF": Table("SVDFOptions", **_FUSED, rank="Rank"),
    "TRANSPOSE_CONV": Table("TransposeConvOptions", **_WINDOW, **_FUSED),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Table(
        "UnidirectionalSequenceLSTMOptions", **_FUSED, cell_clip="CellClip", time_major="TimeMajor"
    ),
    "UNPACK": Table("UnpackOptions", axis="Axis"),
    "VAR_HANDLE": Table("VarHandleOptions", name="Container SharedName"),
    "WHILE": Table("WhileOptions", subgraphs="CondSubgraphIndex BodySubgraphIndex"),
    **dict.fromkeys(("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), _REDUCER),
}
"""By op: its options table."""
