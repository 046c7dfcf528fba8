"""What a slimming is for: a figure of the board's price, and how small it is to become."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from shoehorn_mcu.slim.fault import SlimError


class Minimized(Enum):
    """What moves are to make less of."""

    INSTRUCTIONS = "instructions"  # cycles where the board's core has a model of them
    SRAM = "sram"  # what the smallest plan needs; of candidates, which get no such plan, what the fastest one takes
    ARENA = "arena"  # what the plan may take whose time counts; of a network that needs more, what it needs
    FLASH = "flash"


_FORM = re.compile(r"(?:(instructions|sram|arena|flash)=)?(?:-(\d+(?:\.\d+)?)%|(\d+(?:\.\d+)?)([kKmM]?))")
_TIMES = {"": 1, "k": 1024, "m": 1024 * 1024}
_COUNTS = {"": 1, "k": 1000, "m": 1_000_000}


@dataclass(frozen=True)
class Until:
    """The end of a slimming: `what` is at most `limit`, or at most (100 - percent) % of the original's.

    None of them: the firmware fits the board.
    """

    what: Minimized | None = None
    limit: int | None = None
    percent: float | None = None

    @classmethod
    def parsed(cls, text: str) -> Until:
        """`fits`, `instructions=-50%`, `-50%` of what is minimized, `sram=64k`, `flash=256k`. Raises SlimError."""
        if text == "fits":
            return cls()
        match = _FORM.fullmatch(text)
        if match is None:
            raise SlimError(
                f"--until {text!r}: is no goal; write fits, instructions=-50%, sram=64k, arena=64k or flash=256k"
            )
        name, percent, number, unit = match.groups()
        what = Minimized(name) if name else None
        if percent is not None:
            if not 0 < float(percent) < 100:
                raise SlimError(f"--until {text!r}: a share between 0 and 100 % can be taken away")
            return cls(what, None, float(percent))
        if what is None:
            raise SlimError(f"--until {text!r}: say of what: instructions={text}, sram={text} or flash={text}")
        times = (_COUNTS if what is Minimized.INSTRUCTIONS else _TIMES)[unit.lower()]
        return cls(what, int(float(number) * times))

    @classmethod
    def all(cls, text: str) -> tuple[Until, ...]:
        """Several goals with commas between them; all are to be reached. Raises SlimError."""
        return tuple(cls.parsed(each.strip()) for each in text.split(","))

    @property
    def fits(self) -> bool:
        """Whether the goal is a firmware that fits the board."""
        return self.limit is None and self.percent is None

    def most(self, original: int) -> int:
        """The figure that is small enough."""
        return self.limit if self.limit is not None else int(original * (1 - (self.percent or 0) / 100))
