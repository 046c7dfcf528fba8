"""What a network costs on a board: its int8 form with made-up weights, planned as `gen firmware` would plan it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from shoehorn_mcu import passes
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.limits import limits
from shoehorn_mcu.firmware.prepare import Prepared
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import Graph, Op, Origin
from shoehorn_mcu.ir.edit import sharing, with_ops
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, Dequantize, Quantize, TransposeConv2d
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.schedule import predict
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import estimated
from shoehorn_mcu.schedule.stage import stages
from shoehorn_mcu.slim.goal import Minimized
from shoehorn_mcu.slim.made_up import as_int8
from shoehorn_mcu.slim.sites import label

LOOKING_AT_WEIGHTS = frozenset({"zero-constant-channels", "fold-constant-channels"})
"""Passes that made-up weights would mislead."""


@dataclass(frozen=True)
class Price:
    """Predicted cost of one inference by the fastest plan that fits the board, or by the smallest if that is asked for.

    Of a network that does not fit, or not in the bytes that were asked for, `sram` is what a small plan needs, and the
    time is that of the fastest plan in as much RAM as it takes.
    """

    instructions: int
    cycles: int | None  # None: the core has no model of cycles
    sram: int  # bytes of the arena
    flash: int  # bytes of constants
    macs: int
    weightless: float = 0.0  # the share of the time in ops without weights (the first table of DeepRebirth)
    milliseconds: float | None = None  # at the board's clock; None: the clock or the model of cycles is not known
    lacking_sram: int = 0  # bytes that the board has too few for this network
    lacking_flash: int = 0

    @property
    def time(self) -> int:
        """Cycles where they are known, else instructions."""
        return self.instructions if self.cycles is None else self.cycles

    @property
    def unit(self) -> str:
        """The unit of the time."""
        return "instructions" if self.cycles is None else "cycles"

    @property
    def lacking(self) -> int:
        """Bytes of SRAM and flash that the board has too few; 0: the network fits."""
        return self.lacking_sram + self.lacking_flash

    @property
    def lack(self) -> str:
        """In words what the board has too little of; "" where the network fits."""
        lacks = (("SRAM", self.lacking_sram), ("flash", self.lacking_flash))
        return " and ".join(f"{count:,} bytes of {memory}" for memory, count in lacks if count)

    def of(self, what: Minimized) -> int:
        """The figure that is to become less."""
        if what is Minimized.INSTRUCTIONS:
            return self.time
        return self.flash if what is Minimized.FLASH else self.sram


_MADE_UP, _REAL = Options(disabled=LOOKING_AT_WEIGHTS), Options()
WEIGHTED = (Conv2d, DepthwiseConv2d, Dense, TransposeConv2d)
"""The ops with weights; all others are what DeepRebirth calls non-tensor layers."""


@dataclass
class Prices:
    """The prices of graphs on a board, each found once.

    Those of float32 graphs are of made-up weights, so that training changes none of them. `within`: how many bytes of
    SRAM a plan may take at most, where that is less than the board has.
    """

    board: Board
    within: int | None = None
    _known: dict[tuple[object, ...], Price] = field(default_factory=dict)
    _int8: dict[tuple[int, bool], tuple[Graph, Price]] = field(default_factory=dict)  # by identity, which is kept alive
    _last: Graph | None = None  # the int8 graph priced last: moves leave most of its ops as they are

    def of(self, graph: Graph, *, smallest: bool = False, once: bool = False) -> Price:
        """The price of the fastest plan that fits; `smallest`: of the smallest plan; `once`: of plans by groups of rows
        that compute each row once, whose search takes far less time where few bytes are left.
        """
        key = (graph.ops, graph.outputs, *(graph.tensors[name].type for name in graph.inputs), smallest, once)
        if key not in self._known:
            cuts = _cuts(as_int8(graph), self.board, _MADE_UP, self._last)
            self._last = cuts.graph
            self._known[key] = self._priced(cuts, graph.macs, smallest, once)
        return self._known[key]

    def of_int8(self, graph: Graph, *, smallest: bool = False) -> Price:
        """The price of an int8 graph with its own weights, some of which the fastest kernels may refuse."""
        key = (id(graph), smallest)
        if key not in self._int8:
            cuts = _cuts(graph, self.board, _REAL)
            self._int8[key] = graph, self._priced(cuts, graph.macs, smallest, False)
        return self._int8[key][1]

    def _priced(self, cuts: Cuts, macs: int, smallest: bool, once: bool) -> Price:
        """The price of ops with kernels, as `of` says.

        The road is that of `firmware.build.plan_model` without what only a report needs, such as the next smaller plan.
        """
        may = limits(self.board, replace(_REAL, sram_bytes=self.within))
        goal, most_macs = Goal.SRAM if smallest else Goal.TIME, 0 if smallest or once else None
        try:
            request = PlanRequest(goal, may.capacity_bytes, False, most_macs, memories=may.memories, quick_refusal=once)
            made = estimated(cuts, request)
            sram, lacking = made.plan.arena_bytes, 0
        except DoesNotFit as refusal:
            made = estimated(cuts, PlanRequest())
            sram, has = refusal.needed_bytes, refusal.available_bytes
            if self.within is not None:  # the board may have more
                has = limits(self.board, _REAL).capacity_bytes or has
            lacking = max(0, sram - has)
        flash, room = build.least_flash(made.stages), self.board.spec.flash_bytes
        by_op = list(predict.by_op(made.plan, made.stages, predict.unit_of(made.stages)))
        weighted = [isinstance(stage.node.computed.op, WEIGHTED) for stage in made.stages]
        weightless = sum(cost for cost, heavy in zip(by_op, weighted, strict=True) if not heavy)
        cycles, hz = predict.cycles(made.plan, made.stages), self.board.spec.core_hz
        return Price(
            predict.instructions(made.plan, made.stages),
            cycles,
            sram,
            flash.constant_bytes,
            macs,
            weightless=round(weightless / max(1, sum(by_op)), 4),
            milliseconds=None if cycles is None or hz is None else round(1000 * cycles / hz, 3),
            lacking_sram=lacking,
            lacking_flash=flash.bytes - room if flash.surely_exceeds(room) else 0,
        )


def with_int8_ends(graph: Graph) -> Graph:
    """An int8 graph without the conversions from and to float32 at its ends, which made-up networks have not either."""
    first = {op.inputs[0]: op for op in graph.ops if isinstance(op, Quantize) and op.inputs[0] in graph.inputs}
    last = {op.output: op for op in graph.ops if isinstance(op, Dequantize) and op.output in graph.outputs}
    ops = [op for op in graph.ops if op not in first.values() and op not in last.values()]
    inputs = tuple(first[name].output if name in first else name for name in graph.inputs)
    outputs = tuple(last[name].inputs[0] if name in last else name for name in graph.outputs)
    return with_ops(replace(graph, inputs=inputs, outputs=outputs), ops)


def _cuts(graph: Graph, board: Board, options: Options, like: Graph | None = None) -> Cuts:
    """The ops of an int8 graph after the passes, with their kernels. Ops that `like` has as well are its objects."""
    after, records = passes.run(graph, options.disabled)
    after = after if like is None else sharing(after, like)
    may = limits(board, options)
    ready = Prepared(options, may, graph, after, after, records, {}, Origin(), (), Imported(graph, {}))
    return Cuts(after, stages(after, build.machine_for([ready], board)))


@dataclass(frozen=True)
class OtherKernel:
    """A layer that has another kernel with its real weights than with made-up ones, which changes what it costs."""

    layer: str
    made_up: str
    real: str


def other_kernels(graph: Graph, real: Graph, board: Board) -> tuple[OtherKernel, ...]:
    """The layers of a float32 graph whose kernels refuse the weights of its real int8 form, or take these alone.

    A layer that passes merged in one form alone is left out; none is compared where both have not the same number.
    """
    made_up = as_int8(graph)
    names = [_from_the_outputs(each) for each in (made_up, real)]
    if len(names[0]) != len(names[1]):
        return ()
    kernels = [_kernels(each, board, options) for each, options in ((made_up, _MADE_UP), (real, _REAL))]
    labels = {node.op.name: label(node) for node in graph.nodes()}
    found = [(labels[a], kernels[0].get(a), kernels[1].get(b)) for a, b in zip(*names, strict=True)]
    return tuple(OtherKernel(name, a, b) for name, a, b in found if a is not None and b is not None and a != b)


def _kernels(graph: Graph, board: Board, options: Options) -> dict[str, str]:
    """The keys of the kernels of an int8 graph, by the names of ops."""
    return {stage.name: stage.kernel.key for stage in _cuts(graph, board, options).stages}


def _from_the_outputs(graph: Graph) -> list[str]:
    """The ops with weights as one meets them on the way back from the outputs.

    The order of the ops is not that of another form of the network: optimisers sort ops that do not need each other.
    """
    writers = {op.output: op for op in graph.ops}
    waiting, met = [*reversed(graph.outputs)], dict[str, Op]()
    while waiting:
        op = writers.get(waiting.pop())
        if op is not None and op.name not in met:
            met[op.name] = op
            waiting += reversed(op.inputs)
    return [name for name, op in met.items() if isinstance(op, WEIGHTED)]
