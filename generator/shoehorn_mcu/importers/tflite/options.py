"""The options of TFLite's ops as plain values, and the functions that read them from the file's tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
    """Base class, and the value for ops without options. Defaults of fields are the schema's, for an absent table."""


@dataclass(frozen=True)
class WindowOptions(Options):
    """Options of convolutions and pools; pairs are (height, width)."""

    scheme: Scheme = Scheme.SAME
    stride: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    kernel: tuple[int, int] = (0, 0)  # pools only
    multiplier: int = 0  # depthwise only
    activation: Activation = Activation.NONE
    halves_up: bool = False  # average pools only, and no field of the file: see AveragePool2d


@dataclass(frozen=True)
class ActivationOptions(Options):
    """Options of ADD, SUB and MUL."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class DenseOptions(Options):
    """Options of FULLY_CONNECTED; `shuffled`: its weights are not in the default format."""

    activation: Activation = Activation.NONE
    shuffled: bool = False
    keep_dims: bool = False  # the result has the input's dimensions, not two


@dataclass(frozen=True)
class ConcatOptions(Options):
    """Options of CONCATENATION."""

    axis: int = 0
    activation: Activation = Activation.NONE
    rescales: bool = False  # operands to the scale of the result, as uint8 is; no field of the file


@dataclass(frozen=True)
class FactorOptions(Options):
    """Options of SOFTMAX (`factor` is beta) and LEAKY_RELU (alpha)."""

    factor: float = 0.0


@dataclass(frozen=True)
class GeluOptions(Options):
    """Options of GELU; `approximate`: by tanh."""

    approximate: bool = False


@dataclass(frozen=True)
class ReduceOptions(Options):
    """Options of MEAN and REDUCE_MAX; `keep_dims`: reduced axes stay, with size 1."""

    keep_dims: bool = False


@dataclass(frozen=True)
class ResizeOptions(Options):
    """Options of RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR."""

    align_corners: bool = False
    half_pixel_centers: bool = False
    in_float: bool = False  # int8 that stands for uint8, which is interpolated in float32; no field of the file


@dataclass(frozen=True)
class StridedSliceOptions(Options):
    """Options of STRIDED_SLICE; bit i of a mask is for entry i of begin, end and strides."""

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    offset: bool = False  # `end` is counted from `begin`


@dataclass(frozen=True)
class ReshapeOptions(Options):
    """Options of RESHAPE, for files in which the shape is no operand; None: they do not say it."""

    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SqueezeOptions(Options):
    """Options of SQUEEZE: the axes that are left out; none are all of size 1."""

    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class SplitOptions(Options):
    """Options of SPLIT; `parts` is the number of outputs."""

    parts: int = 0


@dataclass(frozen=True)
class NamedOptions(Options):
    """Options of ops on tensors that are not quantised, by name."""

    values: tuple[tuple[str, float], ...] = ()

    def __getitem__(self, name: str) -> float:
        return dict(self.values)[name]


@dataclass(frozen=True)
class NormOptions(Options):
    """Options of L2_NORMALIZATION, no fields of the file. `shifted`: elements are shifted ahead, as uint8 has it."""

    shifted: bool = False


@dataclass(frozen=True)
class LstmOptions(Options):
    """Options of UNIDIRECTIONAL_SEQUENCE_LSTM; `cell_clip`: the largest magnitude of a cell state, 0 for none."""

    activation: Activation = Activation.NONE
    cell_clip: float = 0.0
    time_major: bool = False


@dataclass(frozen=True)
class SvdfOptions(Options):
    """Options of SVDF; `rank`: filters of a unit."""

    activation: Activation = Activation.NONE
    rank: int = 0


@dataclass(frozen=True)
class CallOnceOptions(Options):
    """Options of CALL_ONCE: the number of the subgraph."""

    subgraph: int = 0


@dataclass(frozen=True)
class IfOptions(Options):
    """Options of IF: the numbers of the subgraphs for true and false."""

    then: int = 0
    other: int = 0


@dataclass(frozen=True)
class WhileOptions(Options):
    """Options of WHILE: the numbers of the subgraphs of its condition and of its body."""

    condition: int = 0
    body: int = 0


@dataclass(frozen=True)
class VariableOptions(Options):
    """Options of VAR_HANDLE: the variable's name."""

    name: str = ""


def _activation(table: Any) -> Activation:
    return Activation(table.FusedActivationFunction())


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _conv(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        dilation=(table.DilationHFactor(), table.DilationWFactor()),
        activation=_activation(table),
    )


def _depthwise(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        dilation=(table.DilationHFactor(), table.DilationWFactor()),
        multiplier=table.DepthMultiplier(),
        activation=_activation(table),
    )


def _transpose_conv(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        activation=_activation(table),
    )


def _pool(table: Any) -> Options:
    return WindowOptions(
        scheme=Scheme(table.Padding()),
        stride=(table.StrideH(), table.StrideW()),
        kernel=(table.FilterHeight(), table.FilterWidth()),
        activation=_activation(table),
    )


def _strided_slice(table: Any) -> Options:
    return StridedSliceOptions(
        table.BeginMask(),
        table.EndMask(),
        table.EllipsisMask(),
        table.NewAxisMask(),
        table.ShrinkAxisMask(),
        bool(table.Offset()),
    )


def _fused(table: Any) -> Options:
    return ActivationOptions(_activation(table))


def _variable_name(table: Any) -> str:
    parts = ((part or b"").decode("utf-8", "replace") for part in (table.Container(), table.SharedName()))
    return "".join(c if c.isprintable() else "?" for c in "/".join(parts))


def _integers(table: Any, field: str) -> tuple[int, ...]:
    """A short list of integers; ValueError where it is longer than any shape."""
    count: int = getattr(table, f"{field}Length")()
    if count > LONGEST:
        raise ValueError(f"{count} integers")
    return tuple(int(getattr(table, field)(i)) for i in range(count))


def _resize(table: Any) -> Options:
    return ResizeOptions(bool(table.AlignCorners()), bool(table.HalfPixelCenters()))


def _named(table: str, **fields: tuple[str, float]) -> tuple[str, Options, Callable[[Any], Options]]:
    """The options table, and by our name the name of a field in it and its default."""

    def reader(of: Any) -> Options:
        return NamedOptions(tuple((name, _finite(getattr(of, field)())) for name, (field, _) in fields.items()))

    return table, NamedOptions(tuple((name, default) for name, (_, default) in fields.items())), reader


LONGEST = 64
"""Entries of a list in options."""

_KEEPS = {"keep_dims": ("KeepDims", 0)}
_NAMED = {
    "BATCH_MATMUL": _named("BatchMatMulOptions", adj_x=("AdjX", 0), adj_y=("AdjY", 0)),
    "CUMSUM": _named("CumsumOptions", exclusive=("Exclusive", 0), reverse=("Reverse", 0)),
    "DEPTH_TO_SPACE": _named("DepthToSpaceOptions", block_size=("BlockSize", 0)),
    "GATHER": _named("GatherOptions", axis=("Axis", 0), batch_dims=("BatchDims", 0)),
    "LOCAL_RESPONSE_NORMALIZATION": _named(
        "LocalResponseNormalizationOptions",
        radius=("Radius", 0),
        bias=("Bias", 0.0),
        alpha=("Alpha", 0.0),
        beta=("Beta", 0.0),
    ),
    "MIRROR_PAD": _named("MirrorPadOptions", mode=("Mode", 0)),
    "ONE_HOT": _named("OneHotOptions", axis=("Axis", 0)),
    "PACK": _named("PackOptions", axis=("Axis", 0)),
    "SPACE_TO_DEPTH": _named("SpaceToDepthOptions", block_size=("BlockSize", 0)),
    "UNPACK": _named("UnpackOptions", axis=("Axis", 0)),
    **dict.fromkeys(
        ("SUM", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MIN", "REDUCE_PROD"), _named("ReducerOptions", **_KEEPS)
    ),
}

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


def custom_options(name: str, data: bytes) -> NamedOptions:
    """The options of a custom op. Raises KeyError, TypeError and others where they cannot be read."""
    from flatbuffers import flexbuffers

    if not CUSTOM[name]:
        return NamedOptions()
    found = flexbuffers.GetRoot(data).AsMap
    values = []
    for each in CUSTOM[name]:
        try:
            value = found[each].AsFloat if each in _REAL else found[each].AsInt
        except KeyError:
            value = _ABSENT[each]
        values.append((each, _finite(value)))
    return NamedOptions(tuple(values))


READERS: dict[str, tuple[str, Options, Callable[[Any], Options]]] = {
    "CONV_2D": ("Conv2DOptions", WindowOptions(), _conv),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", WindowOptions(), _depthwise),
    "TRANSPOSE_CONV": ("TransposeConvOptions", WindowOptions(), _transpose_conv),
    "AVERAGE_POOL_2D": ("Pool2DOptions", WindowOptions(), _pool),
    "MAX_POOL_2D": ("Pool2DOptions", WindowOptions(), _pool),
    "FULLY_CONNECTED": (
        "FullyConnectedOptions",
        DenseOptions(),
        lambda t: DenseOptions(_activation(t), t.WeightsFormat() != 0, bool(t.KeepNumDims())),
    ),
    **_NAMED,
    "ADD": ("AddOptions", ActivationOptions(), _fused),
    "DIV": ("DivOptions", ActivationOptions(), _fused),
    "SUB": ("SubOptions", ActivationOptions(), _fused),
    "MUL": ("MulOptions", ActivationOptions(), _fused),
    "CONCATENATION": (
        "ConcatenationOptions",
        ConcatOptions(),
        lambda t: ConcatOptions(t.Axis(), _activation(t)),
    ),
    "SOFTMAX": ("SoftmaxOptions", FactorOptions(), lambda t: FactorOptions(_finite(t.Beta()))),
    "LEAKY_RELU": ("LeakyReluOptions", FactorOptions(), lambda t: FactorOptions(_finite(t.Alpha()))),
    "GELU": ("GeluOptions", GeluOptions(), lambda t: GeluOptions(bool(t.Approximate()))),
    "MEAN": ("ReducerOptions", ReduceOptions(), lambda t: ReduceOptions(bool(t.KeepDims()))),
    "REDUCE_MAX": ("ReducerOptions", ReduceOptions(), lambda t: ReduceOptions(bool(t.KeepDims()))),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", ResizeOptions(), _resize),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", ResizeOptions(), _resize),
    "STRIDED_SLICE": ("StridedSliceOptions", StridedSliceOptions(), _strided_slice),
    "RESHAPE": ("ReshapeOptions", ReshapeOptions(), lambda t: ReshapeOptions(_integers(t, "NewShape") or None)),
    "SQUEEZE": ("SqueezeOptions", SqueezeOptions(), lambda t: SqueezeOptions(_integers(t, "SqueezeDims"))),
    "IF": ("IfOptions", IfOptions(), lambda t: IfOptions(t.ThenSubgraphIndex(), t.ElseSubgraphIndex())),
    "WHILE": ("WhileOptions", WhileOptions(), lambda t: WhileOptions(t.CondSubgraphIndex(), t.BodySubgraphIndex())),
    "CALL_ONCE": ("CallOnceOptions", CallOnceOptions(), lambda t: CallOnceOptions(t.InitSubgraphIndex())),
    "VAR_HANDLE": ("VarHandleOptions", VariableOptions(), lambda t: VariableOptions(_variable_name(t))),
    "SVDF": ("SVDFOptions", SvdfOptions(), lambda t: SvdfOptions(_activation(t), t.Rank())),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        "UnidirectionalSequenceLSTMOptions",
        LstmOptions(),
        lambda t: LstmOptions(_activation(t), _finite(t.CellClip()), bool(t.TimeMajor())),
    ),
    "SPLIT": ("SplitOptions", SplitOptions(), lambda t: SplitOptions(t.NumSplits())),
}
"""By op: the name of its options table in the schema, the options if the table is absent, and the reader."""
