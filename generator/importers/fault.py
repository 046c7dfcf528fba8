"""The two ways in which an importer refuses a model."""

from __future__ import annotations

from shoehorn_mcu.errors import ShoehornError


class ImportFault(ShoehornError):
    """The file is damaged or cannot run; the message names the file, the place and the cure."""

    kind = "bad-file"


class Unsupported(ImportFault):
    """One op that no kernel runs; an importer collects these, so that one message lists them all."""
