"""From ops with kernels to a plan: the forms of the graph and the memories that plans are searched for.

Every plan that is tried is of a form that `_Search._form` gives; form.py makes it. The one that is chosen is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from shoehorn_mcu.planner import (
    DoesNotFit,
    Goal,
    arena_refused,
    checked,
    least_computing_again,
    least_in_any_order,
    lowest_peak,
)
from shoehorn_mcu.planner.effort import CANDIDATE
from shoehorn_mcu.planner.make_plan import PREFERRED_PERCENT
from shoehorn_mcu.planner.memory_plan import ANY_ORDER, INTERRUPTED, SRAM, Again, Memory, Placement, Status
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.form import Form, uncut
from shoehorn_mcu.schedule.predict import recomputes
from shoehorn_mcu.schedule.request import WORTH_PERCENT, PlanRequest, Say, Scheduled, Undivided
from shoehorn_mcu.schedule.upgrade import missing_scratch

_SHARES = (1.0, 0.97, 0.9, 0.8, 0.65, 0.5)  # of several memories: what is left is for losses where they are divided
_HOPELESS = 4 / 3  # of the bytes there are: where so many are needed, no more memories, and no form with a higher peak
_WORTH_BYTES = 0.002  # of an arena: what the lowest peak with other kernels must save


def schedule(cuts: Cuts, request: PlanRequest, say: Say = lambda _: None) -> Scheduled:
    """The plan of a graph with the kernels of `cuts`; its blocks are cut into chunks of channels as the plan says.

    With several cores the rows of its steps are divided among them. Kernels that need scratch replace slower ones where
    the plan has room for it (upgrade.py), and rows that lie side by side become one (runs.py). The plan is checked
    against the graph as it is emitted. Of several memories as many are used as make the plan faster or possible at all.
    Raises DoesNotFit where no plan is within the capacity, PlanFault where the check rejects the plan.
    """
    made = estimated(cuts, request, say)
    checked(made.problem, made.plan)
    return made


def estimated(cuts: Cuts, request: PlanRequest, say: Say = lambda _: None) -> Scheduled:
    """The plan that `schedule` gives, for its figures alone: it is not checked, so nothing is emitted from it."""
    if not request.memories:
        return _Search(cuts, request, (), say).best()
    best: Scheduled | None = None
    refusal: DoesNotFit | None = None
    memories = sorted(request.memories, key=lambda memory: memory.cycles)  # the first named of equal ones first
    available = sum(memory.bytes for memory in memories)
    for count in range(1, len(memories) + 1):
        try:
            made = _within(cuts, request, memories[:count], say)
        except DoesNotFit as error:
            refusal = error
            if best is None and _is_hopeless(error, available):
                found = f"{error.needed_bytes:,} bytes in the best plan found"
                raise arena_refused(found, error.needed_bytes, available, peak=error.peak) from None
            continue
        best = best.or_faster(made) if best else made
        whole = best.plan.outcome.whole_tensor_bytes <= sum(memory.bytes for memory in memories[:count])
        least = sum(stage.row_cost * stage.node.output.type.rows for stage in cuts.stages)  # each row once, no steps
        close = best.time * (1 - WORTH_PERCENT / 100) <= least
        if whole or close or request.goal is Goal.SRAM:
            break
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _is_hopeless(refusal: DoesNotFit, available: int) -> bool:
    """Whether the best of the plans that were searched for needs far more bytes than there are."""
    return refusal.searched and refusal.needed_bytes > available * _HOPELESS


def _within(cuts: Cuts, request: PlanRequest, memories: Sequence[Memory], say: Say) -> Scheduled:
    """The plan in these memories: one for an arena as large as all of them, or less where it cannot be divided.

    One with rows of a tensor in several memories is taken where it is faster, or the only one. Where the fastest plan
    of no size can be divided, slower ones are tried.
    """
    total = sum(memory.bytes for memory in memories)
    if [memory.name for memory in memories] == [SRAM] and not memories[0].cycles:
        return _Search(cuts, replace(request, capacity_bytes=total), (), say).best()
    refused: Undivided | None = None  # the last one
    other: Scheduled | None = None  # the fastest plan with rows apart, or a slower one with tensors apart
    for share in _SHARES if len(memories) > 1 else _SHARES[:1]:
        search = _Search(cuts, replace(request, capacity_bytes=int(total * share)), memories, say)
        try:
            made = search.best()
        except Undivided as error:
            refused, other = error, other.or_faster(error.by_rows) if other else error.by_rows
        except DoesNotFit:
            if refused is None:
                raise
            break
        else:
            made = search.less_waiting(made)
            return made if request.goal is Goal.SRAM else made.or_faster(other)
    assert refused is not None
    if other is None and request.goal is not Goal.SRAM and _too_large(refused, memories) is None:
        try:
            other = _Search(cuts, replace(request, capacity_bytes=total), memories, say, divides=True).best()
        except Undivided as error:
            other = error.by_rows
    if other is not None:
        return _Search(cuts, request, memories, say).less_waiting(other)
    raise DoesNotFit(_undivided(refused, memories), refused.plan.arena_bytes, total)


def _too_large(refused: Undivided, memories: Sequence[Memory]) -> Placement | None:
    """The largest tensor that is in one piece, if no memory holds it."""
    pieces = (p for p in refused.plan.placements if p.tensor in refused.whole)
    whole = max(pieces, key=lambda p: p.bytes, default=None)
    return whole if whole is not None and whole.bytes > max(memory.bytes for memory in memories) else None


def _undivided(refused: Undivided, memories: Sequence[Memory]) -> str:
    """Why a plan has no place."""
    listed = ", ".join(f"{memory.name} {memory.bytes:,}" for memory in memories)
    if (whole := _too_large(refused, memories)) is not None:
        return f"'{whole.tensor}' has {whole.bytes:,} bytes in one piece, the memories are {listed}"
    return f"an arena of {refused.plan.arena_bytes:,} bytes was divided in no way among the memories {listed}"


@dataclass(frozen=True, eq=False)
class _Search:
    """Plans for one arena of the request's capacity, divided among `memories` if there are any; else Undivided.

    With `divides` plans that are slower than others that cannot be divided are tried as well.
    """

    cuts: Cuts
    request: PlanRequest
    memories: Sequence[Memory]
    say: Say
    divides: bool = False

    def _form(self, cuts: Cuts, left: int | None = None, known: Scheduled | None = None) -> Form:
        return Form(cuts, self.request, self.memories, self.say, left, known, self.divides)

    def _made(self, cuts: Cuts, left: int | None = None, known: Scheduled | None = None) -> Scheduled:
        return self._form(cuts, left, known).scheduled()

    def best(self) -> Scheduled:
        """The plan for the request's goal.

        Where that is smaller, or faster because fewer rows are recomputed, it is of another form of the graph: rows lie
        nearer to those that they are computed from than the fastest kernels can write them, or pieces are copied.
        """
        if self.request.goal is Goal.SRAM:
            return self._smallest()
        try:
            made = self._made(self.cuts)
        except DoesNotFit as error:
            return self._other_that_fits(error)
        for better in (self._with_scratch, self._in_pairs, self._recomputing_less):
            if made.plan.outcome.interrupted:
                break
            try:
                made = better(made)
            except KeyboardInterrupt:  # before it had found a plan
                return made.with_outcome(reason=INTERRUPTED)
        return made

    def _recomputing_less(self, made: Scheduled) -> Scheduled:
        """The plan, or where it recomputes rows a faster one of another form."""
        if not (made.plan.cascades or recomputes(made.plan, made.stages)):
            return made
        for smaller in self._others_within(self.request.capacity_bytes)[:1]:
            with suppress(DoesNotFit, Undivided):
                return made.or_other(self._made(smaller))
        return made

    def _in_pairs(self, made: Scheduled) -> Scheduled:
        """The plan, or one whose rows are computed in pairs where that is faster, or about as fast and smaller."""
        request = self.request
        if self.memories or request.cores > 1 or request.brief:
            return made
        form = self._form(self.cuts).in_pairs()
        if form is None:
            return made
        try:
            other = form.scheduled()
        except DoesNotFit:
            return made
        if other.plan.outcome.interrupted:
            return made.or_other(other)
        fastest = min(made.time, other.time)
        most = fastest * (1 + PREFERRED_PERCENT / 100) if request.prefer_smaller else fastest
        best = min((each for each in (made, other) if each.time <= most), key=lambda each: each.plan.arena_bytes)
        if best is made:
            return made
        known, own = made.plan.outcome, other.plan.outcome
        bound = min(known.bound_bytes, own.bound_bytes)
        reason = "; ".join(filter(None, (own.reason, "rows in pairs")))
        return best.with_outcome(
            bound_bytes=bound, bound_of=known.bound_of, again=known.again, status=Status.FEASIBLE, reason=reason
        )

    def less_waiting(self, made: Scheduled) -> Scheduled:
        """The plan, or if it waits long for slow memories a smaller one, more of it in fast ones, if that is faster."""
        if self.request.goal is Goal.SRAM or not made.waits_long:
            return made
        total = sum(memory.bytes for memory in self.memories)
        smallest = replace(self, request=replace(self.request, goal=Goal.SRAM, capacity_bytes=total))
        try:
            return min(made, smallest.best(), key=lambda each: each.time)
        except Undivided as error:
            return made.or_faster(error.by_rows)
        except DoesNotFit:
            return made

    def _other_that_fits(self, refusal: DoesNotFit) -> Scheduled:
        """The first plan of another form that fits; else raises the refusal that needs the fewest bytes.

        The forms of a network need similar numbers of bytes. Where one of many rows needs far more than the capacity,
        only forms are searched whose peak by rows is within it.
        """
        least, available = refusal, refusal.available_bytes
        long = sum(stage.node.output.type.rows for stage in self.cuts.stages) > CANDIDATE.FEW_ROWS
        hopeless = long and _is_hopeless(refusal, available)
        for smaller in self._others_within(available if hopeless else refusal.needed_bytes - 1, hopeless):
            try:
                return self._made(smaller)
            except DoesNotFit as other:
                least = min(least, other, key=lambda each: each.needed_bytes)
        raise least from None

    def _others_within(self, most_bytes: int | None, by_peak: bool = False) -> list[Cuts]:
        """The other forms that may have a plan of so many bytes, those with the lowest peak by rows first.

        A form with copies may save bytes in other orders alone, so it is listed whatever its peak, but with `by_peak`.
        """
        if most_bytes is None:
            return []
        cuts = self.cuts
        peaks = [(lowest_peak(uncut(each, self.request)), each) for each in cuts.smaller]
        ordered = sorted(peaks, key=lambda pair: pair[0])
        copied = () if by_peak else (cuts.copying, cuts.sampling)
        return [each for peak, each in ordered if peak <= most_bytes or each in copied]

    def _smallest(self) -> Scheduled:
        """The smallest of the plans of the graph and of its other forms.

        Those whose plans by rows have the lower peak are searched first, of equal ones the graph itself; the others
        only where their peak is by 0.2 % below the arena found. The peak is that of groups of rows; other orders need
        less for some forms and not for others. So pieces are copied, too, unless the arena found is proven minimal, and
        with streamed rows unless it is below the peak. Samples of pixels save bytes only in such orders: they are tried
        first, and the graph itself is chosen where they save nothing.
        """
        cuts = self.cuts
        tried = [(lowest_peak(uncut(each, self.request)), each) for each in (cuts, *cuts.smaller)]
        lowest = min(peak for peak, _ in tried)
        best: Scheduled | None = None
        refusal: DoesNotFit | Undivided | None = None
        bound: int | None = None
        skipped: list[Cuts] = []
        again: dict[Cuts, Again | None] = {}  # of the forms that are planned
        for peak, each in sorted(tried, key=lambda pair: (pair[1] is not cuts.sampling, pair[0])):
            if best is not None and not self._may_be_smaller(best, each, peak, lowest):
                skipped.append(each)
                continue
            try:
                made = self._made(each, known=best)
            except (DoesNotFit, Undivided) as error:
                refusal = refusal or error
                continue
            bound = min(made.plan.outcome.bound_bytes, bound or made.plan.outcome.bound_bytes)
            again[each] = made.plan.outcome.again
            best = made if best is None else min(best, made, key=lambda one: (one.plan.total_bytes, one.time))
        if best is None or bound is None:
            assert refusal is not None
            raise refusal
        best = self._bounded_again(best, {**dict.fromkeys(skipped), **again})
        known = best.plan.outcome
        if known.again is not None and known.bound_of == known.again.of:
            bound = min(bound, known.again.bound_bytes)
        if known.bound_of == ANY_ORDER and not known.interrupted:
            for each in skipped:
                bound = min(bound, least_in_any_order(uncut(each, self.request), bound))
        if bound >= known.bound_bytes:
            return best
        # No longer proven minimal: another form has a lower bound.
        said = f"{known.reason}; another form of the graph has the bound {bound:,}, this one {known.bound_bytes:,}"
        return best.with_outcome(bound_bytes=bound, status=Status.FEASIBLE, reason=said)

    def _bounded_again(self, best: Scheduled, forms: Mapping[Cuts, Again | None]) -> Scheduled:
        """The plan with the lower bound of all forms where rows are computed again; None: it is not known of one."""
        known = best.plan.outcome
        if known.again is None or known.interrupted:
            return best
        bound, most = known.again.bound_bytes, known.again.most_macs
        for form, found in forms.items():
            holds = found is not None and found.most_macs >= most  # who may compute more again needs no more bytes
            other = found.bound_bytes if found and holds else least_computing_again(uncut(form, self.request), most)
            bound = min(bound, other)
        return best.with_outcome(again=replace(known.again, bound_bytes=bound))

    def _may_be_smaller(self, best: Scheduled, form: Cuts, peak: int, lowest: int) -> bool:
        """Whether a form, whose plans by rows have this peak, is worth a search after the best plan so far."""
        if best.plan.outcome.interrupted:
            return False
        cuts, found = self.cuts, best.plan.total_bytes
        least = best.plan.outcome.status is Status.OPTIMAL and (found < lowest or not self.request.stream_input)
        lower, copied = peak < found * (1 - _WORTH_BYTES), form is cuts.copying and not least
        return lower or copied or (form is cuts and cuts.sampling is not None and peak <= found)

    def _with_scratch(self, made: Scheduled) -> Scheduled:
        """The plan, or one in which more ops have faster kernels that need scratch, where that is faster.

        Its rows do not overlap those of their windows, which few such kernels can write, or it leaves bytes for
        scratch.
        """
        capacity, best, left = self.request.capacity_bytes, made, 0
        if capacity is None or not missing_scratch(made.problem, made.stages, made.plan):
            return made
        room = capacity - lowest_peak(uncut(self.cuts, self.request).rows_apart)
        missing, had = set[int](), 0
        while left <= room:
            try:
                other = self._made(self.cuts, left)
            except (DoesNotFit, Undivided):
                room = left - 1  # no plan leaves as much
            else:
                best = best.or_other(other)
                if best.plan.outcome.interrupted:
                    break
                missing, had = missing_scratch(other.problem, other.stages, other.plan), left
            left = max((size for size in missing if had < size <= room), default=room + 1)
        if best is made:
            return made
        bound = min(best.plan.outcome.bound_bytes, made.plan.outcome.bound_bytes)
        status = best.plan.outcome.status if best.plan.arena_bytes == bound else Status.FEASIBLE
        return best.with_outcome(bound_bytes=bound, status=status)
