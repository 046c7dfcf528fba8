"""Ops that ONNX defines by other ops: their bodies, and a body's nodes in place of the op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from shoehorn_mcu.importers.lowering.node import DOMAINS

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto


def version_of(node: NodeProto, versions: Mapping[str, int]) -> int:
    """The opset of the node's domain."""
    known = [versions[domain] for domain in (node.domain, *DOMAINS) if domain in versions]
    return known[0] if known else 1


def body_of(node: NodeProto, versions: Mapping[str, int], types: Mapping[str, TypeProto]) -> FunctionProto | None:
    """The newest body of the op that its opset has; None where ONNX gives none, or none for these operands."""
    from onnx import FunctionProto, TypeProto, defs

    domain = "" if node.domain in DOMAINS else node.domain
    version = version_of(node, versions)
    try:
        schema: Any = defs.get_schema(node.op_type, version, domain)
    except defs.SchemaError:
        return None
    plain = [v for v in schema.function_opset_versions if v <= version]
    by_types = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    body = FunctionProto()
    if plain and max(plain) >= max(by_types, default=0):
        body.ParseFromString(schema.get_function_with_opset_version(max(plain)))
    elif by_types:
        if any(name and name not in types for name in node.input):
            return None
        given = [(types[name] if name else TypeProto()).SerializeToString() for name in node.input]
        made = schema.get_context_dependent_function_with_opset_version(max(by_types), node.SerializeToString(), given)
        body.ParseFromString(made)
    return body if body.node else None


def inlined(node: NodeProto, body: FunctionProto, version: int) -> Iterator[NodeProto]:
    """The body's nodes, with the node's operands, results and attributes; other names begin with that of its result."""
    from onnx import defs

    first = node.output[0]
    names = dict(zip(body.input, node.input, strict=False)) | dict.fromkeys(body.input[len(node.input) :], "")
    names |= {inside: outside for inside, outside in zip(body.output, node.output, strict=False) if outside}
    given = {attribute.name: attribute for attribute in body.attribute_proto}
    declared = defs.get_schema(node.op_type, version, "" if node.domain in DOMAINS else node.domain).attributes
    given |= {name: each.default_value for name, each in declared.items() if each.default_value.name}
    given |= {attribute.name: attribute for attribute in node.attribute}
    for part in body.node:
        yield _instance(part, names, given, f"{first}/")


def renamed_body(body: GraphProto, names: Mapping[str, str], prefix: str) -> tuple[list[NodeProto], list[str]]:
    """A copy of a subgraph's nodes and the names of its outputs, for values of these names as its inputs."""
    known = dict(names) | {tensor.name: prefix + tensor.name for tensor in body.initializer}
    parts = [_instance(part, known, {}, prefix) for part in body.node]
    return parts, [known.get(end.name, end.name) for end in body.output]


def _instance(node: NodeProto, names: dict[str, str], given: Mapping[str, AttributeProto], prefix: str) -> NodeProto:
    """A copy of a body's node; the names that it writes are added to `names`."""
    made = deepcopy(node)
    made.input[:] = [names.get(name, name) if name else "" for name in node.input]
    for name in node.output:
        if name and name not in names:
            names[name] = prefix + name
    made.output[:] = [names.get(name, "") for name in node.output]
    del made.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in given:
                copied = made.attribute.add()
                copied.CopyFrom(given[attribute.ref_attr_name])
                copied.name = attribute.name
            continue
        copied = made.attribute.add()
        copied.CopyFrom(attribute)
        for graph in (*([copied.g] if copied.HasField("g") else []), *copied.graphs):
            inside = dict(names)
            for tensor in (*graph.initializer, *graph.input):
                inside[tensor.name] = prefix + tensor.name
                tensor.name = inside[tensor.name]
            parts = [_instance(part, inside, given, prefix) for part in graph.node]
            del graph.node[:]
            graph.node.extend(parts)
            for end in graph.output:
                end.name = inside.get(end.name, end.name)
    return made
