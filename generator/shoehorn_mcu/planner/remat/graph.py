"""A bare graph (nodes with a size and a duration, edges, an executable order) and its reader from JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu_host.base.files import read_json

NodeId = int | str
LIMIT = 1 << 62  # sizes and durations stay below
_SIZE_KEYS = ("size", "out_cost", "cost_ram")
_DURATION_KEYS = ("duration", "cost_cpu")
_SHOWN = 6  # nodes of a cycle in a message
_LONGEST = 60  # characters of a name or a value in a message
_MOST_BYTES = 256 * 2**20  # of a file


class GraphError(ShoehornError):
    """The file holds no graph that can be planned; the message names the file, the node or edge, and the rule."""

    kind = "bad-file"


@dataclass(frozen=True)
class Graph:
    """Nodes 0..n-1: v reads the nodes `inputs[v]`, in ascending order; `order` runs every node after its inputs."""

    names: tuple[NodeId, ...]
    sizes: tuple[int, ...]  # bytes, or any unit, of a node's output
    durations: tuple[int, ...]  # any unit, of a node's step
    inputs: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]

    @property
    def nodes(self) -> range:
        return range(len(self.names))

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.nodes]
        for v in self.nodes:
            for u in self.inputs[v]:
                found[u].append(v)
        return tuple(map(tuple, found))

    @property
    def edges(self) -> list[tuple[int, int]]:
        return [(u, v) for v in self.nodes for u in self.inputs[v]]


def read(path: Path) -> Graph:
    """The graph in a networkx node-link file.

    Raises GraphError if the file is unreadable, a key is missing, a number is not a whole number in 0..2^62-1, the
    edges hold a cycle, or the given order runs a node before its inputs.
    """
    try:
        data = read_json(path, _MOST_BYTES, encoding="utf-8-sig")
    except OSError as error:
        raise GraphError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise GraphError(f"{path}: not JSON ({error}); a networkx node-link file is wanted") from error
    try:
        return parse(data)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def parse(data: Any) -> Graph:
    """The graph in a networkx node-link object. Raises GraphError."""
    if not isinstance(data, dict):
        raise GraphError("not an object; a networkx node-link object with `nodes` and `links` is wanted")
    if data.get("directed") is False:
        raise GraphError("the graph is undirected; a directed one is wanted")
    nodes = _list(data, "nodes")
    if not nodes:
        raise GraphError("no nodes")
    names = tuple(_name(node, i) for i, node in enumerate(nodes))
    number = {name: i for i, name in enumerate(names)}
    if len(number) < len(names):
        twice = next(name for i, name in enumerate(names) if number[name] != i)
        raise GraphError(f"two nodes are called {quoted(twice)}; ids must differ")
    sizes = tuple(_amount(node, name, _SIZE_KEYS) for node, name in zip(nodes, names, strict=True))
    durations = tuple(_amount(node, name, _DURATION_KEYS) for node, name in zip(nodes, names, strict=True))
    inputs = _inputs(_list(data, "links" if "links" in data else "edges"), number)
    order = _order(data, names, number, inputs)
    return Graph(names, sizes, durations, inputs, order)


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise GraphError(f"`{key}` is {'missing' if value is None else 'no list'}; a networkx node-link object has it")
    return value


def _is_name(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _name(node: Any, place: int) -> NodeId:
    """A node's id, or its name where the writer gave no id."""
    value: Any = node.get("id", node.get("name")) if isinstance(node, dict) else None
    if not _is_name(value):
        raise GraphError(f"node {place} has no `id` that is a number or a text")
    name: NodeId = value
    return name


def quoted(value: object) -> str:
    """A name or a value for a message, shortened: a file may hold values of any kind and length."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _amount(node: Mapping[str, Any], name: NodeId, keys: Sequence[str]) -> int:
    key = next((k for k in keys if k in node), None)
    if key is None:
        raise GraphError(f"node {quoted(name)} has none of {', '.join(f'`{k}`' for k in keys)}")
    value = node[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LIMIT:
        raise GraphError(
            f"node {quoted(name)}: `{key}` is {quoted(value)}; a whole number from 0 to below 2^62 is wanted"
        )
    return value


def _inputs(links: Sequence[Any], number: Mapping[NodeId, int]) -> tuple[tuple[int, ...], ...]:
    inputs: list[set[int]] = [set() for _ in number]
    for i, link in enumerate(links):
        ends = [_end(link, i, keys, number) for keys in (("source", "0"), ("target", "1"))]
        inputs[ends[1]].add(ends[0])
    return tuple(tuple(sorted(each)) for each in inputs)


def _end(link: Any, place: int, keys: tuple[str, str], number: Mapping[NodeId, int]) -> int:
    key = next((k for k in keys if isinstance(link, dict) and k in link), None)
    if key is None:
        raise GraphError(f"link {place} has no `{keys[0]}`")
    value = link[key]
    if not _is_name(value) or value not in number:
        raise GraphError(f"link {place}: its {keys[0]} {quoted(value)} is no node")
    return number[value]


def _order(
    data: Mapping[str, Any], names: Sequence[NodeId], number: Mapping[NodeId, int], inputs: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """The given order; without one the order of the file, changed only where a node would run before its inputs."""
    sorted_order = _topological(names, inputs)
    attributes = data.get("graph")
    given = attributes.get("order") if isinstance(attributes, dict) else None
    if given is None:
        return sorted_order
    if not isinstance(given, list) or not all(_is_name(name) and name in number for name in given):
        raise GraphError("`order` is no list of the nodes' ids")
    if len(given) != len(names) or len(set(given)) != len(names):
        raise GraphError(
            f"`order` holds {len(set(given))} of {len(names)} nodes, {len(given)} in all; each once is wanted"
        )
    place = {number[name]: i for i, name in enumerate(given)}
    for v, reads in enumerate(inputs):
        for u in reads:
            if place[u] > place[v]:
                raise GraphError(f"`order` runs {quoted(names[v])} before its input {quoted(names[u])}")
    return tuple(number[name] for name in given)


def _topological(names: Sequence[NodeId], inputs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Every node after its inputs, otherwise in the order of the file. Raises GraphError for a cycle."""
    waits = [len(reads) for reads in inputs]
    readers: list[list[int]] = [[] for _ in inputs]
    for v, reads in enumerate(inputs):
        for u in reads:
            readers[u].append(v)
    ready = [v for v, n in enumerate(waits) if n == 0]
    heapify(ready)
    order = []
    while ready:
        u = heappop(ready)
        order.append(u)
        for v in readers[u]:
            waits[v] -= 1
            if waits[v] == 0:
                heappush(ready, v)
    if len(order) < len(inputs):
        raise GraphError(f"the edges hold a cycle: {_cycle(names, inputs, set(order))}")
    return tuple(order)


def _cycle(names: Sequence[NodeId], inputs: Sequence[Sequence[int]], done: set[int]) -> str:
    """A cycle among the nodes that could not run, found by following inputs until a node repeats."""
    node = next(v for v in range(len(inputs)) if v not in done)
    path: list[int] = []
    while node not in path:
        path.append(node)
        node = next(u for u in inputs[node] if u not in done)
    cycle = [names[v] for v in reversed(path[path.index(node) :])]
    shown = [quoted(name) for name in cycle[:_SHOWN]] + (["..."] if len(cycle) > _SHOWN else [])
    return " -> ".join([*shown, shown[0]])
