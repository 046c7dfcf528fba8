"""Models of windows that take new rows only, `--slide`: the hop, the ways to keep rows, and what the folder says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from shoehorn_mcu import passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.firmware.settings import Hop, Options
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.passes import PassRecord
from shoehorn_mcu.passes.ends.kept_rows import LEAST_GAIN, Choice, choices
from shoehorn_mcu.passes.ends.kept_rows import hint as hint_of
from shoehorn_mcu.passes.ends.shifted_rows import Less
from shoehorn_mcu.passes.ends.slide import Slid, SlideError, Windows, slide, windows
from shoehorn_mcu_host.base.words import counted

PASS = "slide"  # its name in reports


@dataclass(frozen=True, eq=False)
class Sliding:
    """A model after the passes, by new rows: its windows, the passes that led to them, and how rows are kept."""

    windows: Windows
    hop: Hop
    before: tuple[PassRecord, ...]
    slid: Slid

    @cached_property
    def choices(self) -> Sequence[Choice]:
        """What may keep less than it can: from the least work to the fewest bytes."""
        return choices(self.windows.shifted)

    def json(self) -> dict[str, object]:
        """What `plan.slide` of a report says of the choice: how many tensors keep fewer rows than they can."""
        return {"recomputed_tensors": self.slid.fewer, "choices": [each.json() for each in self.choices]}

    def records(self, behind: Sequence[PassRecord]) -> list[PassRecord]:
        """All passes, with the rewrite as one of them."""
        whole, step = self.windows.graph, self.slid.graph
        own = PassRecord(PASS, len(whole.ops), len(step.ops), whole.macs, step.macs)
        return [*self.before, own, *behind]


def check(options: Options) -> None:
    """SlideError where --slide does not go with another option."""
    if options.hop is None:
        return
    others = (
        ("--pipeline", options.behind is not None, "its input is samples, and --slices says how many slices are new"),
        ("--stream-input", options.stream_input, "its rows are few, and arrive together"),
        ("--state", bool(options.states), "the rows that are kept are the only states"),
        ("--stateless", options.stateless, "the rows that are kept are states"),
        ("--io native", options.native_io, "rows of time are taken one behind the other"),
    )
    for name, given, why in others:
        if given:
            raise SlideError(f"--slide excludes {name}: {why}; leave one of both out")


def sliding(source: Graph, options: Options, hop: Hop) -> Sliding:
    """The model by new rows, which keeps all rows that it can; raises SlideError where it is no window."""
    simple, records = passes.run(source, options.disabled, options.preserve, passes.SIMPLIFYING)
    given = windows(simple, hop.rows, hop.said)
    return Sliding(given, hop, tuple(records), slide(given))


def finished(found: Sliding, options: Options) -> tuple[Graph, list[PassRecord]]:
    """The graph of a step after the other passes, and the records of all passes."""
    graph, records = passes.run(found.slid.graph, options.disabled, (), passes.BY_ROWS)
    return graph, found.records(records)


def keeping_less(found: Sliding, less: Less) -> Sliding:
    """The same, with less that is kept."""
    return replace(found, slid=slide(found.windows, less))


def hop_of(slide: int | str | None, stride: int | None, slices: int | None, rate: int) -> Hop | None:
    """What `--slide` says, with `--slices` hops in an inference; None without it.

    A row lasts `stride` samples, or one. Raises SlideError for a time that is no whole number of rows.
    """
    if slide is None:
        return None
    known = stride is not None or isinstance(slide, str) or rate != Options.sample_hz
    each = stride or 1  # samples of a row
    said = ""
    if isinstance(slide, int):
        rows = slide
    else:
        rows, rest = divmod(int(slide.removesuffix("ms")) * rate, 1000 * each)
        if rest or not rows:
            raise SlideError(
                f"--slide {slide}: at {rate:,} samples per second that is no whole number of rows of {each:,} samples; "
                "say how long a row is by --stride, and the rate by --rate"
            )
        said = f"{slide}, {rows:,} rows of {counted(each, 'sample', form=',')} (--stride)"
    rows *= slices or 1
    return Hop(rows, rows * each / rate if known else None, said)


def wake_sliding(wake: Graph, features: int, hop: Hop, disabled: Collection[str]) -> Sliding | None:
    """The model behind a pipeline by new rows, each a vector of so many features; None where that saves little."""
    if PASS in disabled:
        return None
    with suppress(ShoehornError):
        simple, records = passes.run(wake, which=passes.SIMPLIFYING)
        given = windows(simple, hop.rows)
        kind = given.graph.tensors[given.graph.inputs[0]].type
        if kind.row_elements != features or given.turned or len(given.graph.inputs) != 1:
            return None
        found = Sliding(given, hop, tuple(records), slide(given))
        return found if simple.macs >= LEAST_GAIN * found.slid.graph.macs else None
    return None


def hint(source: Graph, options: Options) -> str:
    """A line about what `--slide 1` would save; nothing for a pipeline and for a streamed input."""
    if options.stream_input or options.behind is not None:
        return ""
    return hint_of(source, lambda graph: passes.run(graph, options.disabled, options.preserve, passes.SIMPLIFYING)[0])
