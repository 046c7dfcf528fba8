"""Low orders of rows, and how low any order can be: beam searches and bounds by turns, each helping the other.

A known order spares the bound most of its flows, and what is deduced for a number of bytes (lowest.py) guides the
search for an order within it. Where an order meets the bound, both end.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoehorn_mcu.planner.effort import DESCENT
from shoehorn_mcu.planner.order.flow import Event, Flow
from shoehorn_mcu.planner.order.lowest import Lowest, row_graph


class Descent:
    """The lowest order of rows known, each computed once, and a lower bound on the peak of all such orders, in bytes.

    `start` is any such order. Effort is in seconds on one core of 2 to 3 GHz, counted as work. Where the problem is too
    large for this machine's memory, or for the numbers in the networks, the bound is 0 and nothing is searched.
    """

    def __init__(self, flow: Flow, start: Sequence[Event]) -> None:
        self._graph = row_graph(flow)
        self.events, self.bound, self._work = list(start), 0, 0
        self.why = ""  # the bound is not raised any more
        self._deduced_for = self._graph.unit << 60  # bytes: what was deduced holds for no more
        self._lowest: Lowest | None = None
        if self._graph.is_small:
            try:
                self._lowest = Lowest(self._graph)
            except MemoryError:
                self.why = "too many rows for this machine's memory"
        self.peak = self._peak(start)
        self._cut(DESCENT.FIRST_CUT_SECONDS)

    @property
    def _has_many(self) -> bool:
        """Whether there are so many rows that only some of each tensor are compared."""
        return len(self._graph.rows) > DESCENT.FEW

    @property
    def is_closed(self) -> bool:
        """Whether no order is lower than the one known."""
        return self.peak <= self.bound

    def take(self, events: Sequence[Event]) -> None:
        """Another order, each row computed once."""
        if (peak := self._peak(events)) < self.peak:
            self.events, self.peak = list(events), peak
        if not self.is_closed:
            self._cut(DESCENT.CUT_SECONDS)

    def _peak(self, events: Sequence[Event]) -> int:
        return 0 if self._lowest is None else self._lowest.peak(self._graph.order(events))

    def _cut(self, seconds: float) -> None:
        """Raises the bound by cuts; known orders spare most of them."""
        if self._lowest is not None:
            bound, _, _ = self._lowest.cut(int(seconds * DESCENT.WORK_PER_SECOND))
            self._raise(bound)

    def _raise(self, bound: int) -> None:
        unit = self._graph.unit
        self.bound = max(self.bound, -(-bound // unit) * unit)

    def descend(self, seconds: float) -> None:
        """Beam searches for lower orders, ever wider; of many rows only as long as narrow ones find some."""
        self._work, known = int(seconds * DESCENT.WORK_PER_SECOND), self.peak
        for width in DESCENT.WIDTHS:
            if width <= DESCENT.NARROW or not self._has_many or self.peak < known:
                self._halved(width, self.bound)
        if not self.is_closed:
            self._cut(DESCENT.CUT_SECONDS)

    def _halved(self, width: int, low: int, guided: bool = False) -> None:
        """Halves the distance to the lowest peak at which a beam of this width finds nothing."""
        unit = self._graph.unit
        while low < self.peak and self._work > 0:
            limit = low + (self.peak - unit - low) // 2 // unit * unit
            if not self._beam(limit, width, guided):
                low = max(limit + unit, limit + int(self.peak * DESCENT.STEP))

    def _beam(self, limit: int, width: int, guided: bool) -> bool:
        """Whether an order within the limit was found."""
        if self._lowest is None:
            return False
        found, self._work = self._lowest.beam(limit, width, self._work, guided)
        if found is not None:
            self.peak, self.events = self._lowest.peak(found), self._graph.run(found)
        return found is not None

    def begin_proof(self, seconds: float) -> None:
        """Deduces pairs for what is just below the known peak, which closes the gap or helps later proofs."""
        self._work = int(seconds * DESCENT.WORK_PER_SECOND)
        if not self.is_closed and self._lowest is not None:
            self._refuted_first(1.0)

    def prove(self, seconds: float) -> None:
        """Raises the bound by pairs and ends, and searches for orders along what they say."""
        self._work = int(seconds * DESCENT.WORK_PER_SECOND)
        if self.is_closed or self._lowest is None:
            return
        unit = self._graph.unit
        high = self._refuted_first(DESCENT.FIRST_SHARE)
        while self.bound < high and self._work > 0:
            middle = self.bound + (high - unit - self.bound) // 2 // unit * unit
            refuted = self._refute(middle, DESCENT.ROWS[-1] if self._has_many else 0, 1.0)
            if refuted is False:
                self._guided(middle)
            if not refuted:
                high = min(middle, self.peak)
        ended = "the effort for it ended" if self._work <= 0 else "nothing more follows from pairs of rows"
        self.why = self.why or ended

    def raise_to(self, bytes_: int) -> int:
        """The bound, after an attempt to raise it to so many bytes where it is lower."""
        self._work = int(DESCENT.OTHER_FORM_SECONDS[self._has_many] * DESCENT.WORK_PER_SECOND)
        if self.bound < bytes_ and self._lowest is not None:
            unit = self._graph.unit
            least = min((bytes_ - 1) // unit * unit, self._deduced_for)
            self._refute(least, DESCENT.ROWS[-1] if self._has_many else 0, 1.0)
        return self.bound

    def _refuted_first(self, share: float) -> int:
        """Deduces for the most bytes below the known peak, with ever more rows compared, each time with this share of
        the work that is left; the lowest number of bytes that is not refuted.
        """
        bytes_ = min(self.peak - self._graph.unit, self._deduced_for)
        for each in DESCENT.ROWS if self._has_many else (0,):
            if self._refute(bytes_, each, share):
                return self.bound
            self._guided(bytes_)
            if self.is_closed:
                return self.bound
            bytes_ = min(bytes_, self.peak)
        return bytes_

    def _refute(self, bytes_: int, each: int, share: float) -> bool | None:
        """Whether so many bytes are refuted with this share of the work left, which raises the bound; None: the work or
        the memory did not suffice. They are never more than before, as what was deduced then is kept.
        """
        assert self._lowest is not None
        assert bytes_ <= self._deduced_for
        given = max(1, int(self._work * share))
        refuted, left = self._lowest.refute(bytes_, each, given)
        self._work -= given - left
        if refuted is None:
            self.why, self._work = "too many rows for this machine's memory", 0
        if refuted:
            self._raise(bytes_ + self._graph.unit)
            return True
        self._deduced_for = bytes_
        return False if left > 0 else None

    def _guided(self, limit: int) -> None:
        """Searches for an order within a limit for which pairs were deduced; that has work of its own."""
        left, known = self._work, self.peak
        if self._lowest is None or self._lowest.deduced == 0:
            return
        most = int(DESCENT.GUIDED_SECONDS[self._has_many] * DESCENT.WORK_PER_SECOND)
        for width in DESCENT.GUIDED_WIDTHS:
            self._work = min(self._graph_work * width, most)
            if self.peak < known or self._beam(limit, width, guided=True):
                self._halved(width, self.bound, guided=True)
        self._work = left

    @property
    def _graph_work(self) -> int:
        """The work of some beams of one order, about."""
        return DESCENT.GUIDED_BEAMS * len(self._graph.rows) * (len(self._graph.rows) // 8 + 64)
