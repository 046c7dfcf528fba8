"""The error of a sweep as a whole; what is wrong with one combination is a row and no error."""

from __future__ import annotations

from shoehorn_mcu.base.errors import ShoehornError


class SweepError(ShoehornError):
    """The sweep's file, an axis, its folder, or its scheduler cannot be used."""

    kind = "sweep"
