"""Chooses the kernel of each op: the least predicted time, within the flash that is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import cost
from shoehorn_mcu.kernels.base.contract import Contract, Instance, Tile, Variant
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.struct_size import struct_size
from shoehorn_mcu.kernels.catalogue import CATALOGUE, PORTABLE, KernelError, contract_of
from shoehorn_mcu.kernels.linear.offsets import narrow, narrowed
from shoehorn_mcu.kernels.linear.points import other_form
from shoehorn_mcu.machine.targets import Isa, Machine

WORTH = 0.001 / 1024
"""The part of the predicted time that a byte of flash is worth: less gain than that is none, as costs are estimates."""

_ROUNDED = 1 + 1e-9  # for products that are compared with quotients of the same numbers

NEAR_PERCENT = 100
"""More time than the fastest kernel takes is too much for one that writes nearer to what it reads."""

ANY = Machine(cost.DEFAULT_CPU, (Isa.C,))
"""Where no machine is named: portable kernels."""


def candidates(node: Node, isas: Sequence[Isa]) -> list[Instance]:
    """Every instance that computes the node on these instruction sets, in the catalogue's order; at least one.

    The last ones are those of the same sum with weights of 8 bits in place of 16, where it has such a form. Raises
    KernelError where no contract covers the node.
    """
    own, form = _own(node, isas), narrowed(node.computed)
    return own if form is None else [*own, *(replace(kernel, form=narrow) for kernel in _own(form, isas))]


def _own(node: Node, isas: Sequence[Isa]) -> list[Instance]:
    """The instances of the node's contract."""
    known = _variants(CATALOGUE, contract_of(node), tuple(isas))
    return [instance for variant in known for instance in variant.of_covered(node)]


@cache
def _variants(catalogue: tuple[Variant, ...], contract: Contract, isas: tuple[Isa, ...]) -> tuple[Variant, ...]:
    """The variants of a contract on these instruction sets."""
    return tuple(v for v in catalogue if v.contract is contract and v.isa in isas)


@known
def choices(
    node: Node, isas: tuple[Isa, ...], packs: bool = True, disabled: frozenset[str] = frozenset()
) -> tuple[Instance, ...]:
    """The candidates, and then those of the same sum in another form (points.py), but for choices that are `disabled`.

    Without `packs` those that read constants in the oracle's layout, where there are any.
    """
    own, form = candidates(node, isas), other_form(node)
    others = [] if form is None else [_formed(k, form) for k in candidates(form(node), isas)]
    other = [kernel for kernel in others if kernel.contract is not contract_of(node)]
    found = tuple(kernel for kernel in (*own, *other) if kernel.variant.choice not in disabled)
    return found if packs else tuple(kernel for kernel in found if not kernel.packs(node)) or found


def choices_on(node: Node, machine: Machine) -> tuple[Instance, ...]:
    """The choices on a machine, also those that it has no scratch or no flash for."""
    return choices(node, machine.isas, machine.packs, machine.disabled)


def _formed(kernel: Instance, form: Callable[[Node], Node]) -> Instance:
    """The instance for ops of which `form` makes those that it is for."""
    own = kernel.form
    return replace(kernel, form=lambda node: own(form(node)))


def row_cost(kernel: Instance, node: Node, cpu: str, unit: cost.Unit) -> float:
    """The predicted cost of one output row.

    A kernel that was not measured on the core gets the predicted time of the portable kernel of its contract, so it is
    not chosen for its speed before `python -m bench.costs` has measured it.
    """
    return _call_cost(node, kernel, cpu, unit) / kernel.rows_at_once


@known
def _choice_cost(node: Node, kernel: Instance, cpu: str, unit: cost.Unit) -> float:
    """The predicted cost of one output row, where elements are computed in runs that of all rows in one call.

    Most plans hold such ops' operands whole, and call them once: by rows of a few elements the call would decide.
    """
    rows = node.output.type.rows
    long = kernel.for_long_rows(node, rows) if kernel.contract.in_runs else None
    return row_cost(kernel, node, cpu, unit) if long is None else _cost(*long, cpu, unit) / rows


@known
def _call_cost(node: Node, kernel: Instance, cpu: str, unit: cost.Unit) -> float:
    return _cost(kernel, node, cpu, unit)


def _cost(kernel: Instance, node: Node, cpu: str, unit: cost.Unit) -> float:
    rows = kernel.rows_at_once
    if not cost.is_measured(kernel, cpu):
        kernel = Instance(PORTABLE[kernel.contract.name], Tile(), form=kernel.form)
    return cost.kernel_cost(kernel, kernel.work(node), cpu, unit) * rows / kernel.rows_at_once


def choose(node: Node, machine: Machine) -> Instance:
    """The tuned instance, else the fastest; without those that were excluded, for their scratch or to save flash.

    One that computes several rows at once needs a plan that has such steps, and is chosen later, as those with scratch.
    Raises KernelError if there is none, or if the tuning names one that does not compute the node.
    """
    found, key = choices_on(node, machine), contract_of(node).key(node)
    if key in machine.tuning and (key, machine.tuning[key]) not in machine.without:
        tuned = _tuned(node, machine.tuning[key], found)
        if machine.scratch or tuned.rows_at_once == 1:
            return tuned
    free = found if machine.scratch else _without_scratch(node, found)
    kept = [k for k in free if (key, k.name) not in machine.without] or list(free)
    if len(kept) == 1:
        return kept[0]
    timed = _timed(node, kept, machine)
    return _nearest(node, timed) if machine.near else timed[0][1]


def _timed(node: Node, kernels: Sequence[Instance], machine: Machine) -> list[tuple[float, Instance]]:
    """The kernels with their predicted costs, the fastest first."""
    unit = cost.choice_unit(machine.cpu)
    costs = [_choice_cost(node, kernel, machine.cpu, unit) for kernel in kernels]
    return sorted(zip(costs, kernels, strict=True), key=lambda pair: pair[0])


def with_scratch(node: Node, machine: Machine) -> list[Instance]:
    """The kernels that need scratch and are faster than all that need none, the fastest first.

    Only one where the tuning names it, or where kernels are chosen for what they may write over.
    """
    free = replace(machine, scratch=True)
    best = choose(node, free)
    if not best.scratch_bytes(node):
        return []
    key = contract_of(node).key(node)
    if machine.near or key in machine.tuning:
        return [best]
    found = choices_on(node, machine)
    kept = [k for k in found if (key, k.name) not in machine.without]
    return list(takewhile(lambda kernel: kernel.scratch_bytes(node), (k for _, k in _timed(node, kept, machine))))


def _nearest(node: Node, timed: Sequence[tuple[float, Instance]]) -> Instance:
    """The kernel with the least `behind` of those about as fast as the first; of equal ones the first."""
    most = timed[0][0] * (1 + NEAR_PERCENT / 100)
    behind = {kernel: kernel.behind(node) for cost, kernel in timed if cost <= most}
    near = {kernel: distance for kernel, distance in behind.items() if distance is not None}
    return min(near, key=lambda kernel: near[kernel], default=timed[0][1])


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
    """An instance for nodes: its predicted time in one inference and the bytes of the constants that it reads."""

    key: str
    kernel: Instance
    name: str  # the kernel's; kept, as thousands of choices are compared
    time: float  # in the core's cost.choice_unit
    constant_bytes: int
    code: Mapping[str, int]  # cost.code_parts

    def bytes_alone(self, uses: Mapping[str, int], users: int) -> int:
        """The flash bytes of its constants, and of the parts of its code that no more than so many options have."""
        return self.constant_bytes + sum(size for part, size in self.code.items() if uses[part] <= users)


def _options(node: Node, machine: Machine) -> list[_Option]:
    """The instances that may be chosen for a node, fastest first; a tuned one is the fastest, whatever is predicted."""
    key = contract_of(node).key(node)
    rows = node.output.type.rows
    unit = cost.choice_unit(machine.cpu)
    found = _without_scratch(node, choices_on(node, machine))
    timed = [(rows * _choice_cost(node, kernel, machine.cpu, unit), kernel) for kernel in found]
    timed.sort(key=lambda pair: pair[0])
    if key in machine.tuning:
        tuned = choose(node, machine)
        timed = [(timed[0][0], tuned), *((time, kernel) for time, kernel in timed if kernel.name != tuned.name)]
    return [
        _Option(
            key,
            kernel,
            kernel.name,
            time,
            struct_size(node, kernel).constant_bytes,
            cost.code_parts(kernel, machine.cpu),
        )
        for time, kernel in timed
    ]


def _flash_bytes(chosen: Iterable[_Option]) -> int:
    """Flash bytes: the constants of every op, and the code of each instance once."""
    constants, code = 0, dict[str, int]()
    for option in chosen:
        constants += option.constant_bytes
        code |= option.code
    return constants + sum(code.values())


def within_flash(nodes: Sequence[Node], machine: Machine) -> Machine:
    """The machine without the kernels that are not worth their flash, or do not fit into `flash_left` bytes.

    Starts with the fastest instance for every node, or the tuned one. Makes the change that costs the least time per
    byte of flash saved, while that is less than WORTH, or while the kernels do not fit: another instance for one node,
    or an instance, or all that share a function, excluded for all nodes. Where none saves flash and they do not fit,
    one instance for all nodes that it computes. If that saves none either, the result exceeds the limit; the caller
    decides whether the firmware fits.
    """
    if machine.flash_left is None:
        return machine
    alike = _alike([_options(node, machine) for node in nodes])
    chosen = [options[0] for options in alike]
    free = [options[:1] if options[0].key in machine.tuning else options for options in alike]
    worth = WORTH * sum(option.time for option in chosen)
    every, untuned = _Alternatives(alike), _Alternatives(free)
    while better := _least_loss(chosen, untuned.changes(chosen), worth):
        chosen = better
    while _flash_bytes(chosen) > machine.flash_left:
        better = _least_loss(chosen, every.changes(chosen)) or _least_loss(chosen, every.sweeps(chosen))
        if better is None:
            break
        chosen = better
    given_up = {
        (option.key, option.name)
        for option, options in zip(chosen, alike, strict=True)
        for option in options[: options.index(option)]
    }
    return replace(machine, without=frozenset(given_up))


def _alike(by_node: Iterable[Sequence[_Option]]) -> list[list[_Option]]:
    """The options of nodes, as one node's where their keys and the order of their instances are equal.

    Every change of the choice is made to all nodes of such a group, so these keep the same instance.
    """
    groups = by_key(((options[0].key, *(option.name for option in options)), options) for options in by_node)
    return [[_together(same) for same in zip(*group, strict=True)] for group in groups.values()]


def _together(same: Sequence[_Option]) -> _Option:
    """The same instance for several nodes."""
    times, constants = (option.time for option in same), (option.constant_bytes for option in same)
    return replace(same[0], time=sum(times), constant_bytes=sum(constants))


_Change = dict[int, _Option]  # other options, by the index of their groups of nodes


class _Alternatives:
    """The changes of a choice among the options of groups of nodes, each group's fastest first."""

    def __init__(self, by_group: Sequence[Sequence[_Option]]) -> None:
        self._named = [{option.name: option for option in options} for options in by_group]
        with_keys = by_key((options[0].key, i) for i, options in enumerate(by_group))
        self._same = [*with_keys.values()]
        self._free: dict[tuple[int, str], _Option | None] = {}  # by group and part of code: the first without it

    def changes(self, chosen: Sequence[_Option]) -> Iterator[_Change]:
        """Every choice that differs in one key, or in all uses of one instance or of a function that some share."""
        for same in self._same:
            for name in self._named[same[0]]:
                yield self._to(name, same, chosen)
        for part, used in by_key((part, i) for i, option in enumerate(chosen) for part in option.code).items():
            others = ((i, self._without(i, part)) for i in used)
            yield {i: option for i, option in others if option is not None}

    def sweeps(self, chosen: Sequence[_Option]) -> Iterator[_Change]:
        """Every choice that gives one instance to all nodes that it computes, so that others may become unused."""
        for name in dict.fromkeys(name for options in self._named for name in options):
            yield self._to(name, range(len(chosen)), chosen)

    def _to(self, name: str, groups: Iterable[int], chosen: Sequence[_Option]) -> _Change:
        """This instance at some groups; one that it does not compute keeps its own."""
        found = ((i, self._named[i].get(name)) for i in groups)
        return {i: option for i, option in found if option is not None and option is not chosen[i]}

    def _without(self, group: int, part: str) -> _Option | None:
        key = group, part
        if key not in self._free:
            self._free[key] = next((each for each in self._named[group].values() if part not in each.code), None)
        return self._free[key]


def _least_loss(
    chosen: Sequence[_Option], changes: Iterable[_Change], least: float = float("inf")
) -> list[_Option] | None:
    """The choice with the change that costs the least time per byte saved, less than `least`; None where none saves."""
    uses = Counter(part for option in chosen for part in option.code)
    alone = [option.bytes_alone(uses, 1) for option in chosen]
    best = None
    for change in changes:
        many = len(change)
        lost, most = 0.0, 0  # what it costs, and what it saves at most
        for i, option in change.items():
            lost += option.time - chosen[i].time
            most += (alone[i] if many == 1 else chosen[i].bytes_alone(uses, many)) - option.constant_bytes
        if most <= 0 or lost > least * most * _ROUNDED:
            continue
        saved = _saved(chosen, uses, change)
        if saved > 0 and lost / saved < least:
            best, least = change, lost / saved
    return None if best is None else [best.get(i, option) for i, option in enumerate(chosen)]


def _saved(chosen: Sequence[_Option], uses: Mapping[str, int], change: _Change) -> int:
    """The flash bytes that the change saves; `uses` counts the options whose code has a part."""
    saved = 0
    more, sizes = dict[str, int](), dict[str, int]()  # by part: how many more options have it, and its bytes
    for i, option in change.items():
        saved += chosen[i].constant_bytes - option.constant_bytes
        for code, one in ((chosen[i].code, -1), (option.code, 1)):
            for part, size in code.items():
                more[part] = more.get(part, 0) + one
                sizes[part] = size
    for part, size in sizes.items():
        before = uses.get(part, 0)
        saved += size * ((before > 0) - (before + more[part] > 0))
    return saved
