"""What the calls of a model's own functions become, counted before any of them is expanded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.node import DOMAINS
from shoehorn_mcu.ops.laws import quoted

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto

EXPANDED_OPS = 1 << 16
EXPANDED_BYTES = 1 << 29
DEEPEST = 256  # calls within calls

_Key = tuple[str, str, str]


@dataclass
class _Body:
    """The nodes of a function or a graph, subgraphs included."""

    ops: int = 0
    bytes: int = 0
    calls: dict[_Key, int] = field(default_factory=dict)  # how often each function is called
    depth: int = 0  # of the calls within it


def check_calls(model: ModelProto) -> None:
    """Raises ImportFault where functions call each other in a circle, or expand to more than a model can have.

    The functions' sizes are added up from those that call no other upwards, so that this takes no longer for a
    file whose calls double from function to function.
    """
    functions = {(_domain(each), each.name, each.overload): each for each in model.functions}
    bodies = {key: _body(each.node, functions) for key, each in functions.items()}
    try:
        order = [*TopologicalSorter({key: body.calls for key, body in bodies.items()}).static_order()]
    except CycleError as error:
        name = quoted(error.args[1][0][1])
        raise ImportFault(f"its function {name} calls itself; export it without functions") from error
    for key in order:
        _expand(bodies[key], bodies)
    main = _body(model.graph.node, functions)
    own = main.ops, main.bytes
    _expand(main, bodies)
    if main.ops - own[0] > EXPANDED_OPS or main.bytes - own[1] > EXPANDED_BYTES:
        limits = f"{EXPANDED_OPS:,} ops or {EXPANDED_BYTES:,} bytes"
        raise ImportFault(f"its functions expand to more than {limits}; export it without functions")
    if main.depth > DEEPEST:
        raise ImportFault(f"its functions call each other more than {DEEPEST} deep; export it without functions")


def _expand(body: _Body, bodies: Mapping[_Key, _Body]) -> None:
    """Puts the functions' sizes in place of the calls; beyond the limits a size stays just beyond them."""
    for key, count in body.calls.items():
        called = bodies[key]
        body.ops += count * min(called.ops, EXPANDED_OPS + 1)
        body.bytes += count * min(called.bytes, EXPANDED_BYTES + 1)
        body.depth = max(body.depth, called.depth + 1)


def _body(nodes: Iterable[NodeProto], functions: Mapping[_Key, FunctionProto]) -> _Body:
    made = _Body()
    for node in every_node(nodes):
        key = _domain(node), node.op_type, node.overload
        made.ops += 1
        if key in functions:
            made.calls[key] = made.calls.get(key, 0) + 1
    made.bytes = sum(node.ByteSize() for node in nodes)
    return made


def every_node(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from every_node(graph.node)


def _domain(named: NodeProto | FunctionProto) -> str:
    return "" if named.domain in DOMAINS else named.domain
