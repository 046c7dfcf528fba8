"""What a firmware does for an instrument that measures its energy."""

from __future__ import annotations

from enum import Enum

from shoehorn_mcu.emit.templates import TemplateError
from shoehorn_mcu.machine.families import families
from shoehorn_mcu.machine.targets import Board


class Energy(Enum):
    """The values of `gen firmware --energy`."""

    NONE = "none"
    MARKS = "marks"  # a pin is high during inferences and ops, as `gen bench --energy` asks
    MLPERF = "mlperf"  # MLPerf Tiny's energy mode: a falling edge in place of a time, and 9600 baud

    @property
    def number(self) -> int:
        """The value of SH_APP_ENERGY."""
        return [*Energy].index(self)


CHOICES = tuple(each.value for each in Energy)


def check(board: Board, energy: Energy) -> None:
    """TemplateError unless the board has what this needs."""
    if energy is Energy.NONE:
        return
    if board.spec.mark is None or families()[board.spec.family].mark is None:
        raise TemplateError(
            f"{board.path}: board '{board.id}' has no mark, the pin that --energy {energy.value} needs; docs/energy.md "
            "says how a manifest names one"
        )
