"""Chooses the kernel of each op: the least predicted time, within the flash that is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import cost
from shoehorn_mcu.kernels.base import Instance, Tile, array_bytes
from shoehorn_mcu.kernels.catalogue import CATALOGUE, PORTABLE, KernelError, contract_of
from shoehorn_mcu.targets import Isa, Machine

WORTH = 0.001 / 1024
"""The part of the predicted time that a byte of flash is worth: less gain than that is none, as costs are estimates."""

ANY = Machine(cost.DEFAULT_CPU, (Isa.C,))
"""Where no machine is named: portable kernels."""


def candidates(node: Node, isas: Sequence[Isa]) -> list[Instance]:
    """Every instance that computes the node on these instruction sets, in the catalogue's order; at least one.

    Raises KernelError where no contract covers the node.
    """
    contract = contract_of(node)
    known = (v for v in CATALOGUE if v.contract is contract and v.isa in isas)
    return [instance for variant in known for instance in variant.instances(node)]


def row_cost(kernel: Instance, node: Node, cpu: str, unit: cost.Unit) -> float:
    """The predicted cost of one output row.

    A kernel that was not measured on the core gets the predicted time of the portable kernel of its contract, so it is
    not chosen for its speed before `python -m tests.bench.costs` has measured it.
    """
    if not cost.is_measured(kernel, cpu):
        kernel = Instance(PORTABLE[kernel.contract.name], Tile())
    return cost.kernel_cost(kernel, kernel.work(node), cpu, unit)


def choose(node: Node, machine: Machine) -> Instance:
    """The tuned instance, else the fastest; without those that were excluded, for their scratch or to save flash.

    Raises KernelError if there is none, or if the tuning names one that does not compute the node.
    """
    found, key = candidates(node, machine.isas), contract_of(node).key(node)
    if key in machine.tuning and (key, machine.tuning[key]) not in machine.without:
        return _tuned(node, machine.tuning[key], found)
    found = _without_scratch(node, found) if not machine.scratch else found
    kept = [k for k in found if (key, k.name) not in machine.without] or found
    if len(kept) == 1:
        return kept[0]
    return min(kept, key=lambda kernel: row_cost(kernel, node, machine.cpu, cost.choice_unit(machine.cpu)))


def _without_scratch(node: Node, found: Sequence[Instance]) -> list[Instance]:
    return [kernel for kernel in found if not kernel.scratch_bytes(node)]


def _tuned(node: Node, name: str, found: Sequence[Instance]) -> Instance:
    by_name = {kernel.name: kernel for kernel in found}
    if name not in by_name:
        raise KernelError(
            f"op '{node.op.name}' ({type(node.op).__name__}): the tuning file wants {name}, which does not compute it "
            f"on this core; these do: {', '.join(by_name)}"
        )
    return by_name[name]


@dataclass(frozen=True, eq=False)
class _Option:
    """An instance for a node: its predicted time in one inference and the bytes of the constants that it reads."""

    key: str
    kernel: Instance
    time: float  # in the core's cost.choice_unit
    constant_bytes: int


def _options(node: Node, machine: Machine) -> list[_Option]:
    """The instances that may be chosen for a node, fastest first; a tuned one is the fastest, whatever is predicted."""
    key = contract_of(node).key(node)
    rows = node.output.type.rows
    unit = cost.choice_unit(machine.cpu)
    found = _without_scratch(node, candidates(node, machine.isas))
    timed = [(rows * row_cost(kernel, node, machine.cpu, unit), kernel) for kernel in found]
    timed.sort(key=lambda pair: pair[0])
    if key in machine.tuning:
        tuned = choose(node, machine)
        timed = [(timed[0][0], tuned), *((time, kernel) for time, kernel in timed if kernel.name != tuned.name)]
    return [_Option(key, kernel, time, array_bytes(kernel.params(node))) for time, kernel in timed]


def flash_bytes(chosen: Sequence[_Option], cpu: str) -> int:
    """Flash bytes: the constants of every op, and the code of each instance once."""
    code = cost.code_bytes((option.kernel for option in chosen), cpu)
    return sum(option.constant_bytes for option in chosen) + code


def within_flash(nodes: Sequence[Node], machine: Machine) -> Machine:
    """The machine without the kernels that are not worth their flash, or do not fit into `flash_left` bytes.

    Starts with the fastest instance for every node, or the tuned one. Makes the change that costs the least time per
    byte of flash saved, while that is less than WORTH, or while the kernels do not fit: another instance for one node,
    or an instance excluded for all nodes. Where none saves flash and they do not fit, one instance for all nodes that
    it computes. If that saves none either, the result exceeds the limit; the caller decides whether the firmware fits.
    """
    if machine.flash_left is None:
        return machine
    by_node = [_options(node, machine) for node in nodes]
    chosen = [options[0] for options in by_node]
    free = [options[:1] if options[0].key in machine.tuning else options for options in by_node]
    worth = WORTH * sum(option.time for option in chosen)
    while better := _least_loss(chosen, _changes(chosen, free), machine.cpu, worth):
        chosen = better
    while flash_bytes(chosen, machine.cpu) > machine.flash_left:
        better = _least_loss(chosen, _changes(chosen, by_node), machine.cpu)
        better = better or _least_loss(chosen, _sweeps(chosen, by_node), machine.cpu)
        if better is None:
            break
        chosen = better
    given_up = {
        (option.key, option.kernel.name)
        for option, options in zip(chosen, by_node, strict=True)
        for option in options[: options.index(option)]
    }
    return replace(machine, without=frozenset(given_up))


def _changes(chosen: Sequence[_Option], by_node: Sequence[Sequence[_Option]]) -> Iterator[list[_Option]]:
    """Every choice that differs in one op's key, or in all uses of one instance."""
    for key in dict.fromkeys(option.key for option in chosen):
        places = [i for i, option in enumerate(chosen) if option.key == key]
        for name in dict.fromkeys(option.kernel.name for option in by_node[places[0]]):
            yield _with(chosen, by_node, dict.fromkeys(places, name))
    for name in dict.fromkeys(option.kernel.name for option in chosen):
        others = {
            i: next((o.kernel.name for o in by_node[i] if o.kernel.name != name), name)
            for i, option in enumerate(chosen)
            if option.kernel.name == name
        }
        yield _with(chosen, by_node, others)


def _sweeps(chosen: Sequence[_Option], by_node: Sequence[Sequence[_Option]]) -> Iterator[list[_Option]]:
    """Every choice that gives one instance to all nodes that it computes, so that several others may become unused."""
    for name in dict.fromkeys(option.kernel.name for options in by_node for option in options):
        yield _with(chosen, by_node, dict.fromkeys(range(len(chosen)), name))


def _with(chosen: Sequence[_Option], by_node: Sequence[Sequence[_Option]], names: dict[int, str]) -> list[_Option]:
    """The choice with other instances at some nodes; a node that the new instance does not compute keeps its own."""
    changed = list(chosen)
    for i, name in names.items():
        changed[i] = next((o for o in by_node[i] if o.kernel.name == name), chosen[i])
    return changed


def _least_loss(
    chosen: Sequence[_Option], changes: Iterable[list[_Option]], cpu: str, least: float = float("inf")
) -> list[_Option] | None:
    """The change that costs the least time per byte saved, and less than `least`; None where none saves."""
    bytes_now, time_now = flash_bytes(chosen, cpu), sum(option.time for option in chosen)
    best = None
    for changed in changes:
        saved = bytes_now - flash_bytes(changed, cpu)
        if saved > 0:
            lost = (sum(option.time for option in changed) - time_now) / saved
            if lost < least:
                best, least = changed, lost
    return best
