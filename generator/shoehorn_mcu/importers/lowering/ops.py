"""The converter of each ONNX op."""

from __future__ import annotations

from collections.abc import Callable

from shoehorn_mcu.importers.lowering import (
    columns,
    elements,
    grid,
    layout,
    linear,
    maps,
    norms,
    recurrent,
    resize,
    transposed,
    windows,
)
from shoehorn_mcu.importers.lowering.einsum import einsum
from shoehorn_mcu.importers.lowering.site import Site, Value
from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops import Add, AveragePool2d, MaxPool2d, Sub


def _matmul(site: Site) -> Value:
    """MatMul: with a constant matrix as a dense layer."""
    return linear.matmul(site) if _is_dense(site) else columns.matmul(site)


def _gemm(site: Site) -> Value:
    """Gemm: with a constant matrix as a dense layer, where it is nothing else."""
    plain = not site.attribute("transA", 0) and (not site.given(2) or site.is_constant(2))
    return linear.gemm(site) if plain and _is_dense(site) and _is_bias(site) else columns.gemm(site)


def _is_bias(site: Site) -> bool:
    """Whether the third operand of a Gemm is missing, or a number per output."""
    if not site.given(2):
        return True
    bias = site.constant(2, "bias")
    return bias.size == 1 or bias.shape[-1:] == (bias.size,)


def _is_dense(site: Site) -> bool:
    """Whether the second operand is a constant matrix of real numbers, and the first one computed."""
    if not site.is_constant(1) or site.is_constant(0):
        return False
    matrix = site.constant(1, "matrix")
    real = site.value(0).tensor.type.dtype is DType.FLOAT32
    return matrix.ndim == 2 and matrix.dtype.kind == "f" and real and site.value(0).rank > 1


CONVERTERS: dict[str, Callable[[Site], Value | tuple[Value, ...]]] = {
    **maps.CONVERTERS,
    **columns.CONVERTERS,
    **recurrent.CONVERTERS,
    "Add": elements.binary(Add),
    "AveragePool": windows.pool(AveragePool2d),
    "BatchNormalization": linear.batch_normalization,
    "Clip": elements.clip,
    "Col2Im": transposed.col2im,
    "Concat": layout.concat,
    "Conv": linear.conv,
    "ConvInteger": transposed.conv_integer,
    "ConvTranspose": transposed.conv_transpose,
    "DepthToSpace": layout.depth_to_space,
    "DFT": resize.dft,
    "Dropout": elements.dropout,
    "Einsum": einsum,
    "Expand": layout.expand,
    "Flatten": layout.flatten,
    "Gather": columns.gather,
    "Gemm": _gemm,
    "GlobalAveragePool": windows.global_average_pool,
    "GlobalLpPool": windows.global_lp_pool,
    "GlobalMaxPool": windows.global_max_pool,
    "GroupNormalization": norms.group_normalization,
    "GridSample": grid.grid_sample,
    "Identity": elements.same,
    "InstanceNormalization": norms.instance_normalization,
    "LRN": norms.lrn,
    "LayerNormalization": norms.layer_normalization,
    "LpNormalization": norms.lp_normalization,
    "LpPool": windows.lp_pool,
    "MatMul": _matmul,
    "MaxPool": windows.pool(MaxPool2d),
    "MeanVarianceNormalization": norms.mean_variance_normalization,
    "Mul": elements.mul,
    "Pad": layout.pad,
    "RMSNormalization": norms.rms_normalization,
    "Relu": elements.relu,
    "Resize": resize.resize,
    "ReverseSequence": layout.reverse_sequence,
    "Reshape": layout.reshape,
    "Slice": layout.slice_,
    "Softmax": elements.softmax,
    "SpaceToDepth": layout.space_to_depth,
    "Split": layout.split,
    "Squeeze": layout.squeeze,
    "Sub": elements.binary(Sub),
    "Tile": layout.tile,
    "Transpose": layout.transpose,
    "Unsqueeze": layout.unsqueeze,
}
"""By ONNX's name of the op."""
