"""TFLite's ops made by the converters of ONNX's ops: the site of ONNX in place of one of TFLite, and its ops back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoehorn_mcu.importers.lowering import maps
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.node import RawNode
from shoehorn_mcu.importers.lowering.ops import CONVERTERS as ONNX
from shoehorn_mcu.importers.lowering.site import Value, as_image, as_plain, renamed
from shoehorn_mcu.importers.tflite.site import Part, Site
from shoehorn_mcu.ir import Array, State, Tensor
from shoehorn_mcu.ops import Relabel
from shoehorn_mcu.ops.formula import Term

Made = Value | tuple[Value, ...]
Convert = Callable[[Site, onnx.Site], Made]


def converter(convert: Convert) -> Callable[[Site], Part]:
    """A converter of TFLite from one that makes its ops at a site of ONNX."""
    return lambda site: part(site, there := place(site), convert(site, there))


def place(site: Site, stored: bool = False) -> onnx.Site:
    """The site of ONNX that makes ops in place of this one; its operands have TFLite's order.

    `stored`: formulas take the stored values of what is quantised.
    """
    builder = onnx.Builder({t.name: t for t in site.inputs if t is not None})
    names = tuple("" if t is None else t.name for t in site.inputs)
    constants = {t.name: t.data for t in site.inputs if t is not None and t.data is not None}
    values = {t.name: as_plain(t) for t in site.inputs if t is not None and t.data is None}
    node = RawNode(site.index, site.code.lower(), names, tuple(t.name for t in site.outputs), {})
    return onnx.Site(node, values, constants, builder, stored)


def part(site: Site, there: onnx.Site, made: Made) -> Part:
    """The ops made, with the file's names for the outputs and fresh ones for all between."""
    given = {t.name for t in site.inputs if t is not None}
    names: dict[str, str] = {}
    for value, output in zip(made if isinstance(made, tuple) else (made,), site.outputs, strict=False):
        tensor = there.plain(value)
        if there.stored and tensor.type.quant != output.type.quant and not there.by_formula(tensor):
            tensor = there.emit(Relabel, tensor, quant=output.type.quant, dtype=tensor.type.dtype)
        if tensor.name in given or tensor.name in names or tensor.data is not None:
            tensor = there.copied(tensor)
        names[tensor.name] = output.name
    tensors = []
    for name, tensor in there.builder.tensors.items():
        if name not in given and name not in names:
            names[name] = next(site.fresh)
            tensors.append(replace(tensor, name=names[name]))
    numbered = (replace(op, name=f"{site.name}_{i}" if i else site.name) for i, op in enumerate(there.builder.ops))
    states = (State(names[s.read], names[s.write], names[s.initial]) for s in there.builder.states)
    return Part(tuple(renamed(op, names) for op in numbered), tuple(tensors), tuple(states))


def as_onnx(code: str, *places: int, **attributes: Any) -> Convert:
    """The ONNX op of this name and these attributes; `places`: its operands among TFLite's, all of them if none."""

    def convert(site: Site, there: onnx.Site) -> Made:
        return through(there, code, [there.node.inputs[i] for i in places] or there.node.inputs, attributes)

    return convert


def through(
    there: onnx.Site, code: str, inputs: Sequence[str], attributes: Mapping[str, Any], **constants: Array
) -> Made:
    """What the converter of an ONNX op makes of these operands; `constants`: those that TFLite's op does not have."""
    node = replace(there.node, inputs=tuple(inputs), attributes=dict(attributes))
    return ONNX[code](replace(there, node=node, constants={**there.constants, **constants}))


def of_image(
    there: onnx.Site, code: str, place: int, inputs: Sequence[str], attributes: Mapping[str, Any], **constants: Array
) -> Tensor:
    """As `through`, of an op on the image that an operand is, N, H, W, C, which comes first; the result is one, too."""
    name = there.node.inputs[place]
    there = replace(there, values={**there.values, name: as_image(there.value(place).tensor)})
    found = through(there, code, (name, *inputs), attributes, **constants)
    assert isinstance(found, Value)
    return there.ordered(found, onnx.NHWC)


def formula(write: Callable[..., Term]) -> Convert:
    """A formula of all operands."""
    return lambda site, there: maps.mapped(there, write, *values(there))


def values(there: onnx.Site) -> list[Value]:
    """All operands."""
    return [there.value(i) for i in range(len(there.node.inputs))]
