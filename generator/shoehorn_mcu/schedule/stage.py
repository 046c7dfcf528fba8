"""A stage: an op with the kernel that runs it, the parameters it gets and the rows it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from shoehorn_mcu.ir import Graph, Node, Parts, Tensor, shared_rows
from shoehorn_mcu.kernels import ANY, Instance, Values, choose, row_cost, within_flash
from shoehorn_mcu.kernels.base.contract import array_bytes, differ, with_long_rows
from shoehorn_mcu.kernels.base.struct_size import StructSize, struct_size
from shoehorn_mcu.kernels.cost import Calls, Unit, call_cost, choice_unit, code_parts
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.ops.conv import Window

Rows = tuple[tuple[int | None, ...], ...]
"""The result of Op.rows for one output row: a tuple of rows per input."""

Reads = tuple[str, tuple[tuple[int, ...], ...]]
"""A tensor that has bytes, and its rows that each output row needs, without padding and repeats."""

Pick = Callable[[Node, Machine], Instance]
"""Chooses the kernels of ops."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One op that has steps; `index` is its number in plan.json and in the trace."""

    index: int
    node: Node
    kernel: Instance
    machine: Machine  # the machine that the kernel was chosen for
    rows: tuple[Rows, ...]  # by output row
    rows_per_call: int = 1  # of the output: those that the kernel computes at once, or as one long row (runs.py)
    shared: Mapping[str, Parts] = field(default_factory=dict)  # the operands whose rows are parts of others' rows

    @property
    def name(self) -> str:
        return self.node.op.name

    @property
    def computed(self) -> Node:
        """The node that the kernel was chosen for."""
        return self.node.computed

    @property
    def row_inputs(self) -> tuple[Tensor, ...]:
        """The tensors that `rows` names rows of; the output is one where the op reads earlier rows of it."""
        return self.node.row_operands

    @cached_property
    def reads(self) -> tuple[Reads, ...]:
        """What is read of each operand that is computed, in their order; of one with shared rows all that it is in."""
        found: list[Reads] = []
        for place, tensor in enumerate(self.row_inputs):
            if tensor.data is not None:
                continue
            rows = [tuple(dict.fromkeys(r for r in by_input[place] if r is not None)) for by_input in self.rows]
            parts = self.shared.get(tensor.name)
            if parts is None:
                found.append((tensor.name, tuple(rows)))
                continue
            for name in dict.fromkeys(part.tensor for part in parts):
                own = (dict.fromkeys(parts[r].row for r in line if parts[r].tensor == name) for line in rows)
                found.append((name, tuple(map(tuple, own))))
        return tuple(found)

    @property
    def cpu(self) -> str:
        """Key of targets.CPUS: whose costs are predicted."""
        return self.machine.cpu

    @cached_property
    def call(self) -> Node:
        """The node as the kernel sees it: with rows that are one long row as one."""
        return with_long_rows(self.node, self.rows_per_call // self.kernel.rows_at_once)

    @cached_property
    def call_rows(self) -> tuple[Rows, ...]:
        """As `rows`, by output row, what a call gets that begins with this row (`Instance.rows_at_once`)."""
        count = self.kernel.rows_at_once
        if count == 1:
            return self.rows
        op = self.node.op
        down = op.stride[0] if isinstance(op, Window) else 1

        def joined(first: tuple[int | None, ...], *others: tuple[int | None, ...]) -> tuple[int | None, ...]:
            return first + tuple(line for row in others for line in row[-down:])

        calls = (self.rows[y : y + count] for y in range(len(self.rows) - count + 1))
        return tuple(tuple(map(joined, *rows)) for rows in calls)

    @property
    def in_place(self) -> int | None:
        """The row input whose row y output row y may overwrite, or None."""
        return self.kernel.in_place(self.node) if self.machine.overwrites else None

    @property
    def behind(self) -> int | None:
        """The bytes before a row of row input 0 at which an output row over it may begin; None: it may not."""
        return self.kernel.behind(self.node) if self.machine.overwrites else None

    @cached_property
    def scratch_bytes(self) -> int:
        """Working memory of the kernel on one core."""
        return self.kernel.scratch_bytes(self.call)

    @cached_property
    def params(self) -> Values:
        """Members of the kernel's struct."""
        return self.kernel.params(self.call)

    @property
    def macs(self) -> int:
        return self.node.op.macs(self.node.sig)

    def kernel_cost(self, unit: Unit) -> float:
        """The predicted cost of one call of the kernel."""
        if unit not in self._kernel_costs:
            self._kernel_costs[unit] = self.kernel.rows_at_once * row_cost(self.kernel, self.call, self.cpu, unit)
        return self._kernel_costs[unit]

    @cached_property
    def _kernel_costs(self) -> dict[Unit, float]:
        return {}

    @cached_property
    def longer(self) -> dict[int, Stage]:
        """The stage with so many rows per call, as runs.py has made it: several plans ask for the same."""
        return {}

    @cached_property
    def row_cost(self) -> int:
        """Predicted time of one row where all tensors are whole, including its row pointers, in the choice's unit."""
        return max(1, round(self.row_cost_in(choice_unit(self.cpu))))

    def row_cost_in(self, unit: Unit) -> float:
        """The predicted cost of one row where all tensors are whole, including its row pointers."""
        places = sum(pointers for pointers, _ in self.pointers)
        guarded = sum(some for _, some in self.pointers)
        around = call_cost(Calls(pointers=places + 1, guarded=guarded), self.cpu, unit)
        return (self.kernel_cost(unit) + around) / self.rows_per_call

    @cached_property
    def pointers(self) -> tuple[tuple[float, float], ...]:
        """Per row input: the mean number of pointers per call, and how many of those may be null."""
        by_input = zip(*self.call_rows, strict=True)
        return tuple(_pointers(tuple(zip(*places, strict=True))) for places in by_input)

    @cached_property
    def struct_size(self) -> StructSize:
        """The size of the kernel's struct."""
        return struct_size(self.call, self.kernel)

    @cached_property
    def code(self) -> Mapping[str, int]:
        """Code bytes of the kernel by name: its own, and those of the functions that it shares."""
        return code_parts(self.kernel, self.cpu)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the constants in the kernel's struct."""
        return self.struct_size.constant_bytes

    @cached_property
    def plain_bytes(self) -> int | None:
        """The same in the oracle's layout; None where the kernel reads that."""
        if self.kernel.variant.pack is None:
            return None
        plain = self.kernel.plain(self.call)
        return array_bytes(plain) if differ(self.params, plain) else None

    @property
    def weight_bytes(self) -> int:
        """Bytes of constants that the kernel reads: those in its struct, and operands that it reads by rows."""
        return self.packed_bytes + sum(t.data.nbytes for t in self.row_inputs if t.data is not None)


def _pointers(columns: Sequence[Sequence[int | None]]) -> tuple[float, float]:
    """`columns[place][output row]` -> pointers per row, and how many of them are padding for some rows."""
    known = [sum(row is not None for row in column) / len(column) for column in columns]
    return sum(known), sum(0 < share < 1 for share in known)


def stages(graph: Graph, machine: Machine = ANY, pick: Pick = choose) -> tuple[Stage, ...]:
    """The ops that compute or move something, in order, each with the kernel that `pick` chooses.

    A view has no stage: its output is its input. Nor has an op that shares rows: others read those. Faster kernels
    are replaced by smaller ones until all fit into the machine's flash, beside the constants that ops read by rows.
    """
    nodes = [node for node in graph.nodes() if computes(node)]
    decided, shared = within_flash(nodes, machine), shared_rows(graph)
    return tuple(sharing(stage_of(i, node, decided, pick), shared) for i, node in enumerate(nodes))


def computes(node: Node) -> bool:
    """Whether the op has a stage."""
    return not node.op.view and not node.op.shares_rows


def sharing(stage: Stage, shared: Mapping[str, Parts]) -> Stage:
    """The stage with those of its operands that have shared rows."""
    own = {tensor.name: shared[tensor.name] for tensor in stage.row_inputs if tensor.name in shared}
    return replace(stage, shared=own) if own else stage


def decided(graphs: Sequence[Graph], machine: Machine) -> Machine:
    """The machine without a limit of flash, and without the kernels that ops of these graphs give up for the flash.

    The graphs are of one firmware: what is left of the flash is for all of them, and a kernel of several counts once.
    """
    nodes = [node for graph in graphs for node in graph.nodes() if computes(node)]
    return replace(within_flash(nodes, machine), flash_left=None)


def kernel_bytes(stages: Sequence[Stage]) -> int:
    """Flash bytes of the kernels, each once, and of the constants in their structs."""
    code = {name: size for stage in stages for name, size in stage.code.items()}
    return sum(stage.packed_bytes for stage in stages) + sum(code.values())


class Flash:
    """`kernel_bytes` of stages that change one by one, within a limit."""

    def __init__(self, stages: Sequence[Stage], limit_bytes: int) -> None:
        self._bytes, self._limit_bytes = kernel_bytes(stages), limit_bytes
        self._users = Counter(part for stage in stages for part in stage.code)

    def takes(self, new: Stage, old: Stage) -> bool:
        """Whether a stage can take the place of another within the limit; it does so then."""
        more = sum(size for part, size in new.code.items() if not self._users[part])
        less = sum(size for part, size in old.code.items() if self._users[part] == 1 and part not in new.code)
        found = self._bytes + new.packed_bytes - old.packed_bytes + more - less
        if found > self._limit_bytes:
            return False
        self._bytes = found
        self._users.subtract(old.code.keys())
        self._users.update(new.code.keys())
        return True


def stages_like(other: Stage, graph: Graph) -> tuple[Stage, ...]:
    """The stages of a graph for the machine of another stage, whose flash budget is already decided."""
    return stages(graph, replace(other.machine, flash_left=None))


def nearer(stages: Sequence[Stage]) -> tuple[Stage, ...] | None:
    """The stages with kernels that write nearer to the rows that they read (`Machine.near`) in place of chosen ones;
    None if there are none, or no flash is left for them.
    """
    made = tuple(map(_nearer, stages))
    if all(a is b for a, b in zip(stages, made, strict=True)):
        return None
    limit = stages[0].machine.flash_left
    return made if limit is None or kernel_bytes(made) <= limit else None


def _nearer(stage: Stage) -> Stage:
    machine = replace(stage.machine, near=True)
    kernel, usual = choose(stage.node, machine), choose(stage.node, stage.machine)
    if kernel.name == usual.name or stage.kernel.name != usual.name:  # another one was picked
        return stage
    return replace(stage, kernel=kernel, machine=machine)


def stage_of(index: int, node: Node, machine: Machine, pick: Pick) -> Stage:
    """The stage of one op; `index` is its number among those of its graph."""
    rows = tuple(node.op.rows(y, node.sig) for y in range(node.output.type.rows))
    kernel = pick(node, machine)
    return Stage(index, node, kernel, machine, rows, kernel.rows_at_once)
