"""The ops that .onnx files may have."""

from __future__ import annotations

from shoehorn_mcu.importers.lowering.ops import CONVERTERS
from shoehorn_mcu.importers.onnx.fused import FUSED
from shoehorn_mcu.importers.onnx.qlinear import FORMS

ENDS = ("QuantizeLinear", "DequantizeLinear")
"""Conversions, which qdq.py reads."""

OPS = (*CONVERTERS, *ENDS, *FORMS, *FUSED)
