"""The input of the emitters: a graph with its kernels, its plan and a C name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.ir import DType, Ends, Graph, Origin, Parts, State, TensorType, output_rows
from shoehorn_mcu.kernels import Instance
from shoehorn_mcu.planner.memory_plan import SRAM, Placement, Plan
from shoehorn_mcu.schedule.stage import Stage


@dataclass(frozen=True)
class InRam:
    """Constants that start-up copies to RAM, where a core does not wait for them as for the flash."""

    names: frozenset[str] = frozenset()  # C names of arrays
    bytes: int = 0
    saved_cycles: int = 0  # of waiting in one inference, predicted


def quantisation(type_: TensorType) -> tuple[float, int] | None:
    """Scale and zero point, real value = scale * (stored value - zero point); None where the values are real."""
    quant = type_.quant
    return None if quant is None or type_.dtype is DType.FLOAT32 else (float(quant.scale), int(quant.zero_point))


def arena_section(memory: str) -> str:
    """The section of the arena in a memory that is not the board's main one; the board's linker script places it."""
    return f".bss.memory.{memory}"


@dataclass(frozen=True)
class Arena:
    """The arena in one memory of the board, and its names in the C text.

    The names have the memory's name at their end, but for the arena in the board's main memory.
    """

    memory: str
    bytes: int
    name: str
    macro: str  # what the macros about it begin with
    parameter: str  # of the function that passes the caller's arenas to the library
    inside: str  # where its bytes are, in a sentence about their number
    section: str

    @classmethod
    def of(cls, memory: str, size: int, model: str) -> Arena:
        """The arena of `size` bytes in a memory. `model` is the model's name in capital letters."""
        suffix, inside = ("", "") if memory == SRAM else (f"_{memory}", f" in {memory}")
        macro = f"{model}_ARENA{suffix.upper()}"
        return cls(memory, size, f"arena{suffix}", macro, f"memory{suffix}", inside, arena_section(memory))

    @property
    def is_main(self) -> bool:
        return self.memory == SRAM


@dataclass(frozen=True, eq=False)
class Window:
    """What a model whose inferences take new rows computes: the outputs of whole windows."""

    graph: Graph  # of a whole window
    rows: int  # of a window
    hop: int  # rows that are new in an inference
    seconds: float | None = None  # that the new rows last, where that is known

    @property
    def steps(self) -> int:
        """Inferences until the window is full of rows that were given."""
        return -(-self.rows // self.hop)

    def json(self, step: Graph) -> dict[str, object]:
        """The object `plan.slide` of a report; `step` is the graph of an inference."""
        kept = sum(step.tensors[state.read].type.bytes for state in step.states)
        return {
            "hop_rows": self.hop,
            "window_rows": self.rows,
            "window_steps": self.steps,
            "state_bytes": kept,
            "macs_whole_window": self.graph.macs,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class Unit:
    """One model with every decision made; only the C text remains to be written."""

    name: str  # names.library_name of the model
    graph: Graph
    stages: tuple[Stage, ...]
    plan: Plan
    source_sha256: str = ""  # of the model file, hexadecimal; empty where the graph is not from a file
    tuning_digest: str = ""  # of the tuning file, hexadecimal; empty without one
    caller_arena: bool = False  # the program passes the arena to <model>_init; the library has none
    float_mode: str = "precise"  # a value of FloatMode
    precise: Graph | None = None  # the graph in FloatMode.PRECISE, where it is in one that flushes
    in_file: Ends = field(default_factory=dict)  # inputs and outputs that are others in the file
    classes: tuple[str, ...] = ()  # names of the classes that the one output tells apart, where they are known
    sample_hz: int | None = None  # samples per second of the one input, where they are known
    flushes: bool = False  # another model in the firmware has numbers below 2^-126 read and written as 0
    kernels: str = ""  # the prefix of the kernels in another library; empty: they are in the model's own
    in_ram: InRam = InRam()
    traceable: bool = True  # a build with SH_TRACE tells of each step
    marked: bool = False  # with SH_TRACE, steps run as often as the application says: their energy is measured
    origin: Origin = Origin()
    window: Window | None = None  # where an inference takes new rows of it
    threads: bool = False  # several cores are threads that the library itself brings

    @property
    def fuses(self) -> bool:
        """Whether products of float32 and their additions are rounded once."""
        return any(getattr(node.computed.op, "fused", False) for node in self.graph.nodes())

    @property
    def upper(self) -> str:
        return self.name.upper()

    def symbol(self, kernel: Instance) -> str:
        """The C function of a kernel."""
        return kernel.symbol(self.kernels or self.name)

    @cached_property
    def editions(self) -> Mapping[str, Sequence[Placement]]:
        """By tensor: its placements, one per edition."""
        return by_key((placement.tensor, placement) for placement in self.plan.placements)

    @cached_property
    def placements(self) -> Mapping[str, Placement]:
        """The first of them."""
        return {tensor: placements[0] for tensor, placements in self.editions.items()}

    @cached_property
    def number(self) -> Mapping[str, int]:
        """Tensor -> its number in the C text (`t3`)."""
        return {tensor: i for i, tensor in enumerate(self.editions)}

    @cached_property
    def arenas(self) -> Mapping[str, Arena]:
        """The arenas by the name of their memory. A model without tensors has an empty arena in the main memory."""
        used = {memory: size for memory, size in self.plan.arenas.items() if size} or {SRAM: 0}
        return {memory: Arena.of(memory, size, self.upper) for memory, size in used.items()}

    @property
    def other_arenas(self) -> list[Arena]:
        """The arenas that are not in the board's main memory."""
        return [arena for arena in self.arenas.values() if not arena.is_main]

    def arena_of(self, tensor: str) -> str:
        """The name of the arena that a tensor is in, with all its rows."""
        return self.arenas[self.placements[tensor].memory].name

    def is_apart(self, tensor: str) -> bool:
        """Whether rows of a tensor are in several arenas."""
        return bool(self.placements[tensor].memories)

    def placement_name(self, tensor: str, edition: int) -> str:
        """The placement's name in the C text: `t3`, or `t3_1` where there are several."""
        number = f"t{self.number[tensor]}"
        return number if len(self.editions[tensor]) == 1 else f"{number}_{edition}"

    @cached_property
    def moving(self) -> Mapping[str, Sequence[str]]:
        """By op: the tensors it reads or writes whose edition a step has to name; its output first."""
        return {stage.name: [t for t in touched(stage) if len(self.editions[t]) > 1] for stage in self.stages}

    def type(self, tensor: str) -> TensorType:
        return self.graph.tensors[tensor].type

    @cached_property
    def shared(self) -> Mapping[str, tuple[int, Parts]]:
        """By tensor whose rows are parts of others' rows: its number in the C text, and where its rows are."""
        used = {name: parts for stage in self.stepped for name, parts in stage.shared.items()}
        if self.handed_out is not None and any(part.tensor != self.handed_out for part in self.output_rows):
            used.setdefault(self.handed_out, self.output_rows)
        return {name: (number, parts) for number, (name, parts) in enumerate(used.items())}

    @cached_property
    def cores(self) -> int:
        """The cores that share an inference."""
        return self.plan.cores

    def scratch_parts(self, stage: Stage) -> int:
        """Into how many parts the scratch of an op is divided: one for each core that computes its rows."""
        return self.plan.cores_by_op.get(stage.name, 1) if stage.scratch_bytes else 1

    @cached_property
    def stepped(self) -> tuple[Stage, ...]:
        """The stages that have steps in the plan: an op whose output no op reads may have none."""
        ops = {step.op for step in self.plan.steps}
        return tuple(stage for stage in self.stages if stage.name in ops)

    @property
    def streamed(self) -> str | None:
        """The input that arrives row by row, if there is one."""
        return self.graph.inputs[0] if self.plan.streamed else None

    @property
    def handed_out(self) -> str | None:
        """The output that is handed out row by row, if there is one."""
        return self.graph.outputs[0] if self.plan.handed_out else None

    @cached_property
    def output_rows(self) -> Parts:
        """By row of the output that is handed out: where it is."""
        return output_rows(self.graph)

    @property
    def given(self) -> tuple[str, ...]:
        """The tensors that are whole in memory before the first step: inputs that are not streamed, and states."""
        return tuple(name for name in self.graph.sources if name != self.streamed)

    @property
    def kept(self) -> tuple[str, ...]:
        """The tensors whose bytes are their own behind the last step: results, and states that they are copied to."""
        results = (name for name in self.graph.results if name != self.handed_out)
        return (*results, *(state.read for state in self.copied))

    @property
    def copied(self) -> tuple[State, ...]:
        """The states whose next value has another place."""
        at = self.placements
        places = ((s, at[s.read], at[s.write]) for s in self.graph.states)
        return tuple(s for s, read, write in places if (read.memory, read.address) != (write.memory, write.address))

    @cached_property
    def rings(self) -> Mapping[str, tuple[int, State]]:
        """By tensor whose rows are in a ring: the number of its state in the C text, and that state."""
        found: dict[str, tuple[int, State]] = {}
        for number, state in enumerate(self.graph.states):
            if self.graph.is_ring(state):
                written = () if state in self.copied else (state.write,)
                found |= dict.fromkeys((state.read, *written), (number, state))
        return found

    def ends(self) -> list[tuple[str, str]]:
        """(suffix of the C name, tensor) of every input, then of every output: `input`, `input_1`, ..., `output`."""
        named = [("input", t) for t in self.graph.inputs], [("output", t) for t in self.graph.outputs]
        return [(f"{kind}_{i}" if i else kind, t) for group in named for i, (kind, t) in enumerate(group)]

    def whole_ends(self) -> list[tuple[str, str]]:
        """Inputs and outputs with an accessor: rows of streamed inputs are pushed, of streamed outputs handed out."""
        by_rows = {("input", self.streamed), ("output", self.handed_out)}
        return [end for end in self.ends() if end not in by_rows]


def touched(stage: Stage) -> list[str]:
    """The tensor that an op writes, and those it reads at least one row of (an input may be padding only).

    Of an operand with shared rows all that its rows are in: the function that finds a row takes them.
    """
    read = (name for name, rows in stage.reads if any(rows))
    behind = (part.tensor for parts in stage.shared.values() for part in parts)
    return list(dict.fromkeys([stage.node.output.name, *read, *behind]))
