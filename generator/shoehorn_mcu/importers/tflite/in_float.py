"""The ops of a .tflite that compute in float32 though their operands are quantised in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shoehorn_mcu.importers.source import InFloat
from shoehorn_mcu.importers.tflite.file import RawModel, RawOp, RawTensor
from shoehorn_mcu.importers.tflite.tensors import QUANTISED
from shoehorn_mcu.importers.tflite.uint8 import WITH_WEIGHTS

LINEAR: Mapping[str, tuple[int, int]] = {**WITH_WEIGHTS, "BATCH_MATMUL": (0, 1)}
"""By op: the places of its input and of its weights, or of its two matrices."""


def in_float(
    raw: RawModel, names: Sequence[str], converted: Sequence[InFloat]
) -> tuple[tuple[InFloat, ...], int, tuple[InFloat, ...]]:
    """The linear ops that compute in float32, how many linear ops have quantised operands in all, and the other ops.

    `converted`: the ops whose converters put conversions around them.
    """
    writers = {place: op for op in raw.ops for place in op.outputs}
    found, count = [], 0
    for op in raw.ops:
        if op.code not in LINEAR or len(op.inputs) <= max(LINEAR[op.code]):
            continue
        reasons = [_reason(raw, writers, op.inputs[place], role) for place, role in _operands(op)]
        if all(reason is None for reason in reasons):
            continue
        count += 1
        if raw.tensors[op.inputs[LINEAR[op.code][0]]].dtype == "FLOAT32":
            reason = next((each for each in reasons if each), "only its weights are quantised, its input is float32")
            found.append(InFloat(names[op.outputs[0]], op.code, reason))
    linear = [replace(each, made=()) for each in converted if each.kind in LINEAR]
    return (*found, *linear), count, tuple(each for each in converted if each.kind not in LINEAR)


def _operands(op: RawOp) -> Sequence[tuple[int, str]]:
    x, weights = LINEAR[op.code]
    return (x, "its input is"), (weights, "its weights are")


def _reason(raw: RawModel, writers: Mapping[int, RawOp], place: int, role: str) -> str | None:
    """Why an operand that is quantised is not read so, "" where it is; None where it is not quantised."""
    if _quantised(raw.tensors[place]):
        return ""
    writer = writers.get(place)
    if writer is not None and writer.code == "DEQUANTIZE" and _quantised(raw.tensors[writer.inputs[0]]):
        return f"{role} dequantised ahead of it"
    return None


def _quantised(tensor: RawTensor) -> bool:
    return bool(tensor.scales) and (tensor.dtype == "INT4" or tensor.dtype in {d.name for d in QUANTISED})
