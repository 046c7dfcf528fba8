"""The refusal of a quantisation."""

from __future__ import annotations

from shoehorn_mcu.base.errors import ShoehornError


class QuantizeError(ShoehornError):
    """The model, its samples or its labels cannot be used for a quantisation."""

    kind = "cannot-quantize"
