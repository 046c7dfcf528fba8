"""One walk over the nodes of an ONNX model: shapes, constant values, functions and branches.

Types are inferred node by node with the constants known so far. A node that does not depend on the inputs is computed
by ONNX's reference evaluator, a Shape of a known shape too. An op without a converter that ONNX defines by other ops,
or that has its quantisation as operands, is replaced by these, and an If whose condition is constant by the branch
taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.base.errors import first_line
from shoehorn_mcu.importers.content import FILE_LIMIT_BYTES
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.node import DOMAINS, RawNode, code_of, misfit, raw_node
from shoehorn_mcu.importers.lowering.places import resized
from shoehorn_mcu.importers.onnx import fused, qlinear
from shoehorn_mcu.importers.onnx.calls import EXPANDED_OPS
from shoehorn_mcu.importers.onnx.function import body_of, inlined, version_of
from shoehorn_mcu.importers.onnx.loops import Scan, scan_of, unrolled
from shoehorn_mcu.ir import Array
from shoehorn_mcu.ir.edit import free_name
from shoehorn_mcu.ops.laws import quoted

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TypeProto

CONSTANT_LIMIT = 1 << 29  # bytes of a constant that is computed here
KNOWN_LIMIT = 1 << 10  # elements of a constant that shapes may be computed from
DEPTH_LIMIT = 16  # of functions within functions

_KEPT = ("DequantizeLinear",)  # of constants too: it carries the quantisation
_WHOLE = ("Range",)  # not expanded: ONNX defines it by a Loop, for which there is no form
_FOUR_BITS = {"int4": (-8, 7), "uint4": (0, 15)}  # held as int8
_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")


@dataclass(frozen=True)
class Folded:
    """What is left of a model's nodes, and the element types and shapes of the values where they are known."""

    nodes: tuple[RawNode, ...]
    dtypes: Mapping[str, np.dtype[Any]]
    shapes: Mapping[str, tuple[int, ...]]
    computed: int  # nodes that are not left, as they do not depend on the inputs


def folded(
    model: ModelProto, types: dict[str, TypeProto], constants: dict[str, Array], runs: Collection[str]
) -> Folded:
    """The nodes that depend on the inputs; the values of the others are added to the constants.

    `types`: of the inputs. `runs`: ops that have a converter. Raises ImportFault where the nodes are in no order.
    """
    from onnx import helper

    kinds = {each.name: helper.tensor_dtype_to_np_dtype(each.data_type).name for each in model.graph.initializer}
    four_bits = {name: _FOUR_BITS[kind] for name, kind in kinds.items() if kind in _FOUR_BITS}
    versions = {entry.domain: entry.version for entry in model.opset_import}
    walk = _Walk(versions, model.ir_version, types, constants, runs, four_bits)
    walk.run(model.graph.node)
    dtypes = {name: dtype for name, kind in walk.types.items() if (dtype := dtype_of(kind))}
    shapes = {name: shape for name, kind in walk.types.items() if (shape := fixed_shape(kind)) is not None}
    return Folded(tuple(walk.nodes), dtypes, shapes, walk.computed)


@dataclass
class _Walk:
    versions: Mapping[str, int]
    ir_version: int
    types: dict[str, TypeProto]
    constants: dict[str, Array]
    runs: Collection[str]
    four_bits: dict[str, tuple[int, int]]  # the limits of constants of 4 bits
    nodes: list[RawNode] = field(default_factory=list)
    expanded: int = 0  # nodes of functions, branches and rounds so far
    computed: int = 0  # nodes whose results are constants

    def __post_init__(self) -> None:
        self.known = {*self.types, *self.constants}
        self.types.update((name, type_of(array.dtype, array.shape)) for name, array in self.constants.items())

    def run(self, nodes: Iterable[NodeProto]) -> None:
        for index, node in enumerate(nodes):
            self._step(index, node, ())

    def _step(self, index: int, node: NodeProto, within: tuple[str, ...]) -> None:
        """Takes one node; `within`: the functions and branches that it is a part of."""
        self._check(index, node)
        deep = len(within) >= DEPTH_LIMIT
        if not deep and (branch := self._branch(node)) is not None:
            self._take(index, node, branch, within)
            return
        if not deep and (scan := self._scan(node)) is not None:
            self._all(index, node, unrolled(scan, self.constants), within)
            return
        self._infer(node)
        if self._from_type(node) or self._computed(node):
            self.known |= set(node.output)
            self.computed += 1
            return
        parts = self._parts(index, node, deep)
        if parts is not None:
            self._all(index, node, parts, within)
            return
        self.known |= set(node.output)
        self.nodes.append(raw_node(index, node, within))

    def _check(self, index: int, node: NodeProto) -> None:
        """Raises ImportFault where a node does not fit those before it; its first output gets a name."""
        if missing := [name for name in node.input if name and name not in self.known]:
            raise unknown_operand(index, node, missing[0], later=False)
        if twice := [name for name in node.output if name and name in self.known]:
            raise ImportFault(f"op {index} {node.op_type} writes {quoted(twice[0])}, which is written already")
        if not any(node.output):
            raise ImportFault(f"op {index} {node.op_type} has no output; export it again")
        if not node.output[0]:
            node.output[0] = free_name(self.known, f"{next(filter(None, node.output))}_first")

    def _scan(self, node: NodeProto) -> Scan | None:
        if node.op_type != "Scan" or node.domain not in DOMAINS:
            return None
        return scan_of(node, {name: fixed_shape(self.types.get(name)) for name in node.input})

    def _parts(self, index: int, node: NodeProto, deep: bool) -> Iterable[NodeProto] | None:
        """The nodes that a node is made of, those of a function only where it is not `deep`; None: it is one op."""
        code = code_of(node)
        try:
            ranks = [_rank_of(self.types.get(name)) for name in node.input]
            parts = qlinear.parts_of(node, ranks[0] if ranks else None) or fused.parts_of(node, ranks)
        except ImportFault as fault:
            raise fault.within(f"op {index} {code} writing {quoted(node.output[0])}") from fault
        if parts is not None or deep or code in (*self.runs, *_WHOLE):
            return parts
        body = body_of(node, self.versions, self.types)
        return None if body is None else inlined(node, body, version_of(node, self.versions))

    def _branch(self, node: NodeProto) -> GraphProto | None:
        """The branch that an If with a constant condition takes."""
        if node.op_type != "If" or node.domain not in DOMAINS or node.input[0] not in self.constants:
            return None
        taken = "then_branch" if self.constants[node.input[0]].reshape(-1)[:1].all() else "else_branch"
        found: list[GraphProto] = [attribute.g for attribute in node.attribute if attribute.name == taken]
        if not found or len(found[0].output) != len(node.output):
            raise ImportFault(f"an If writing '{node.output[0]}' lacks its {taken}; export it again")
        return found[0]

    def _take(self, index: int, node: NodeProto, branch: GraphProto, within: tuple[str, ...]) -> None:
        from onnx import helper, numpy_helper

        for tensor in branch.initializer:
            held = self.constants[tensor.name] = numpy_helper.to_array(tensor)
            self.types[tensor.name] = type_of(held.dtype, held.shape)
            self.known.add(tensor.name)
        ends = [
            helper.make_node("Identity", [inside.name], [name])
            for inside, name in zip(branch.output, node.output, strict=True)
            if name
        ]
        self._all(index, node, (*branch.node, *ends), within)

    def _all(self, index: int, node: NodeProto, parts: Iterable[NodeProto], within: tuple[str, ...]) -> None:
        """Takes the nodes in place of another, which may have added constants."""
        for part in parts:
            self.expanded += 1
            if self.expanded > EXPANDED_OPS:
                what = f"its loops and functions expand to more than {EXPANDED_OPS:,} ops"
                raise ImportFault(f"op {index} {node.op_type}: {what}; export fewer rounds")
            for name in (name for name in part.input if name in self.constants and name not in self.types):
                self._constant(name, self.constants[name])
                self.known.add(name)
            self._step(index, part, (*within, code_of(node)))

    def _infer(self, node: NodeProto) -> None:
        """Notes the types of the node's outputs as far as they follow from its inputs; the converters have the rest."""
        from onnx import defs, helper, numpy_helper, shape_inference

        inputs = [name for name in node.input if name]
        if any(name not in self.types for name in inputs):
            return
        known = {
            name: numpy_helper.from_array(self.constants[name], name)
            for name in inputs
            if name in self.constants and self.constants[name].size <= KNOWN_LIMIT
        }
        captured = self.types if any(a.type == a.GRAPH for a in node.attribute) else {n: self.types[n] for n in inputs}
        try:
            domain = "" if node.domain in DOMAINS else node.domain
            since = defs.get_schema(node.op_type, domain).since_version if defs.has(node.op_type, domain) else 0
            schema = defs.get_schema(node.op_type, max(version_of(node, self.versions), since), domain)
            opsets = [helper.make_opsetid(domain, version) for domain, version in self.versions.items()]
            found = shape_inference.infer_node_outputs(
                schema, node, dict(captured), input_data=known, opset_imports=opsets, ir_version=self.ir_version
            )
        except Exception:  # whatever the package raises for a damaged node, which the converters refuse
            return
        self.types.update((name, kind) for name, kind in found.items() if kind.WhichOneof("value"))
        if code_of(node) == "Resize":
            self._infer_resized(node)

    def _infer_resized(self, node: NodeProto) -> None:
        """Puts the sizes of a Resize by scales, as they are computed, in place of ONNX's, which may be one less."""
        scales = self.constants.get(node.input[2]) if len(node.input) > 2 else None
        shape, kind = fixed_shape(self.types.get(node.input[0])), self.types.get(node.output[0])
        if scales is None or not scales.size or shape is None or fixed_shape(kind) is None or kind is None:
            return
        asked = [attribute.ints for attribute in node.attribute if attribute.name == "axes"]
        axes = [axis % len(shape) for axis in asked[0]] if asked else range(len(shape))
        for axis, (_, size) in zip(axes, resized([shape[a] for a in axes], scales.tolist(), (), ""), strict=False):
            kind.tensor_type.shape.dim[axis].dim_value = size

    def _from_type(self, node: NodeProto) -> bool:
        """Whether the node needs no more than the types of what depends on the inputs; its value is then a constant."""
        if node.domain not in DOMAINS:
            return False
        kind = self.types.get(node.input[-1] if node.op_type == "CastLike" else node.input[0]) if node.input else None
        shape, attributes = fixed_shape(kind), {attribute.name: attribute.i for attribute in node.attribute}
        if node.op_type == "CastLike" and kind is not None and (dtype := dtype_of(kind)) is not None:
            held = self.constants.get(node.input[0])
            value = None if held is None else held.astype(dtype)
        elif node.op_type == "EyeLike" and kind is not None and shape is not None and len(shape) == 2:
            code = attributes.get("dtype", kind.tensor_type.elem_type)
            _small(node, 4 * float(np.prod([float(size) for size in shape])))
            value = np.eye(*shape, k=attributes.get("k", 0), dtype=_dtype_of(code))
        elif node.op_type == "Shape" and shape is not None:
            value = np.array(shape[attributes.get("start", 0) : attributes.get("end", len(shape))], np.int64)
        elif node.op_type == "Size" and shape is not None:
            value = np.array(np.prod(shape), np.int64)
        else:
            return False
        if value is not None:
            self._constant(node.output[0], value)
        return value is not None

    def _computed(self, node: NodeProto) -> bool:
        """Whether the node does not depend on the inputs; its values are then among the constants."""
        from onnx.reference import ReferenceEvaluator

        if not self._is_constant(node):
            return False
        if node.op_type == "ConstantOfShape":
            limited(node.output[0], self.constants[node.input[0]].reshape(-1).tolist())
        given = {name: self.constants[name] for name in node.input if name}
        made = [shape for name in node.output if (shape := fixed_shape(self.types.get(name))) is not None]
        elements = sum(float(np.prod([float(size) for size in shape])) for shape in made)
        _small(node, sum(array.nbytes for array in given.values()) + 4 * elements)
        try:
            values = ReferenceEvaluator(node, opsets=dict(self.versions)).run(None, given)
        except Exception as error:  # whatever the evaluator's ops raise for values that do not fit
            if node.op_type != "QuantizeLinear":
                raise _unfit(node, error) from error
            if (found := _quantised(node, given)) is not None:  # else it is of a form that the evaluator lacks
                self._constant(node.output[0], found)
            return found is not None
        if node.op_type == "QuantizeLinear" and len(node.input) > 2 and (limits := self.four_bits.get(node.input[2])):
            values = [np.clip(value, *limits) for value in values]
        for name, value in zip(node.output, values, strict=False):
            if name:
                self._constant(name, np.asarray(value))
        return True

    def _is_constant(self, node: NodeProto) -> bool:
        """Whether a node reads constants alone, and may be computed from them."""
        if node.op_type in (*_KEPT, *_RANDOM) or node.domain not in DOMAINS:
            return False
        if any(attribute.type == attribute.GRAPH for attribute in node.attribute):
            return False
        return all(name in self.constants for name in node.input if name)

    def _constant(self, name: str, value: Array) -> None:
        if (limits := _FOUR_BITS.get(value.dtype.name)) is not None:
            self.four_bits[name], value = limits, value.astype(np.int8)
        self.constants[name] = value
        self.types[name] = type_of(value.dtype, value.shape)


def _unfit(node: NodeProto, error: Exception) -> ImportFault:
    """Why the values of a node cannot be computed."""
    own = (misfit(attribute.t) for attribute in node.attribute if attribute.type == attribute.TENSOR)
    said = next(filter(None, own), first_line(error))
    return ImportFault(f"constant {quoted(node.output[0])} of {node.op_type}: {said}")


def _quantised(node: NodeProto, given: Mapping[str, Array]) -> Array | None:
    """A constant quantised with one scale, to int32 too, as Brevitas writes a bias; None: in another form."""
    x, scale, *zero = (given[name] for name in node.input)
    if not zero or zero[0].dtype.kind not in "iu" or scale.size != 1 or zero[0].size != 1:
        return None
    limits = np.iinfo(zero[0].dtype.name)
    steps = np.rint(x.astype(np.float64) / float(scale.item())) + int(zero[0].item())
    found: Array = np.clip(steps, limits.min, limits.max).astype(zero[0].dtype)
    return found


def _small(node: NodeProto, size: float) -> None:
    """Raises ImportFault for a constant that takes too many bytes to compute, with its operands."""
    if size > CONSTANT_LIMIT:
        said = f"takes {size:,.0f} bytes or more, at most {CONSTANT_LIMIT:,} are computed"
        raise ImportFault(f"constant {quoted(node.output[0])} of {node.op_type} {said}; export a smaller one")


def unknown_operand(index: int, node: NodeProto, name: str, *, later: bool) -> ImportFault:
    """The fault of a node that reads a value which is not there; `later`: another node writes it afterwards."""
    place = f"op {index} {node.op_type} reads {quoted(name)}"
    if later:
        return ImportFault(f"{place} before anything writes it (a cycle?); export it again")
    return ImportFault(f"{place}, which is no input, no constant and no op's result; export it again")


def fixed_shape(kind: TypeProto | None) -> tuple[int, ...] | None:
    """The shape of a tensor type, if all of it is known."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dimensions = kind.tensor_type.shape.dim
    if not all(dimension.HasField("dim_value") for dimension in dimensions):
        return None
    return tuple(dimension.dim_value for dimension in dimensions)


def _rank_of(kind: TypeProto | None) -> int | None:
    """The number of dimensions of a tensor type, if it is known."""
    known = kind is not None and kind.HasField("tensor_type") and kind.tensor_type.HasField("shape")
    return len(kind.tensor_type.shape.dim) if kind is not None and known else None


def limited(name: str, shape: Sequence[int]) -> None:
    """Raises ImportFault for a constant of a shape that no model has."""
    if any(size < 0 for size in shape) or int(np.prod([float(size) for size in shape])) > FILE_LIMIT_BYTES:
        raise ImportFault(f"constant '{name}' is said to have shape {tuple(shape)}; export it again")


def type_of(dtype: np.dtype[Any], shape: Sequence[int]) -> TypeProto:
    """The tensor type of this element type and shape."""
    from onnx import helper

    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), shape)


def dtype_of(kind: TypeProto) -> np.dtype[Any] | None:
    """The element type of a tensor type, if it is known."""
    return _dtype_of(kind.tensor_type.elem_type) if kind.HasField("tensor_type") else None


def _dtype_of(number: int) -> np.dtype[Any] | None:
    from onnx import helper

    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number)) if number else None
    except KeyError:
        return None
