"""Dimensions of an ONNX model's inputs that are not fixed in the file, set to the sizes that the user gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from shoehorn_mcu.base.errors import did_you_mean
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.source import Shapes
from shoehorn_mcu.ops.laws import quoted

if TYPE_CHECKING:
    from onnx import ModelProto


def fix(model: ModelProto, shapes: Shapes) -> None:
    """Sets the dimensions in place, wherever the file names them.

    Where a size is set that nothing else says, other than a batch of 1, the sizes that the file declares of what is
    computed may be those of another size, and are taken out of it; names of dimensions stay.
    Raises ImportFault for a name that is neither that of an input nor of a dimension of one, for another number of
    dimensions, for a size that contradicts the file or another one, and for an input whose shape nothing says.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in constants}
    names = {each.dim_param for value in inputs.values() for each in _dimensions(value) if each.dim_param}
    open_before = {name: [each.dim_value < 1 for each in _dimensions(value)] for name, value in inputs.items()}
    sizes = _sizes(shapes, inputs, names)
    if unknown := [name for name, value in inputs.items() if _lacks_shape(value)]:
        cure = f"give it, such as --shape {unknown[0]}=1x3x96x96"
        raise ImportFault(f"input {quoted(unknown[0])} has no shape in the file; {cure}")
    for value in inputs.values():
        _name(value, sizes)
    if any(_is_chosen(value, open_before[name]) for name, value in inputs.items()):
        for value in (*model.graph.value_info, *model.graph.output):
            for dimension in _dimensions(value):
                dimension.ClearField("dim_value")
    for value in (*model.graph.value_info, *model.graph.output):
        _name(value, sizes)


def _sizes(shapes: Shapes, inputs: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    """The sizes of named dimensions; those of inputs are set in place."""
    sizes: dict[str, int] = {}
    for name, given in shapes.items():
        if min(given, default=1) < 1:
            raise ImportFault(f"--shape {name}={'x'.join(map(str, given))}: sizes must be positive")
        if name in inputs:
            _fix_input(inputs[name], given, sizes)
        elif name in names and len(given) == 1:
            _set(sizes, name, given[0])
        elif name in names:
            raise ImportFault(f"'{name}' is one dimension; write --shape {name}=N")
        else:
            known = sorted({*names, *inputs})
            cure = did_you_mean(name, known, f"known are {', '.join(known)}")
            raise ImportFault(f"no input and no dimension of one is called '{name}'; {cure}")
    return sizes


def _name(value: Any, sizes: dict[str, int]) -> None:
    """Sets the dimensions of a value that have one of these names."""
    for dimension in _dimensions(value):
        if dimension.dim_param in sizes:
            dimension.dim_value = sizes[dimension.dim_param]  # clears the name


def _is_chosen(value: Any, was_open: list[bool]) -> bool:
    """Whether an input now has a size that its file left open, other than a batch of 1; `was_open`: no shape is []."""
    sizes = [each.dim_value for each in _dimensions(value)]
    before = was_open or [True] * len(sizes)
    return any(
        free and size > (1 if place == 0 else 0) for place, (free, size) in enumerate(zip(before, sizes, strict=True))
    )


def cure(value: Any, place: int) -> str:
    """The options that fix dimension `place` of an input and those behind it, in words."""
    dimensions = _dimensions(value)
    unknown = [each.dim_param for each in dimensions[place:] if each.dim_value < 1]
    if all(unknown):
        return " ".join(f"--shape {name}=N" for name in dict.fromkeys(unknown))
    shape = "x".join(str(each.dim_value) if each.dim_value > 0 else "N" for each in dimensions)
    return f"--shape {value.name}={shape}, with a number for each N"


def _fix_input(value: Any, given: tuple[int, ...], sizes: dict[str, int]) -> None:
    from onnx import TensorShapeProto

    if _lacks_shape(value):
        value.type.tensor_type.shape.SetInParent()
        value.type.tensor_type.shape.dim.extend([TensorShapeProto.Dimension(dim_value=size) for size in given])
    dimensions = _dimensions(value)
    if len(given) != len(dimensions):
        raise ImportFault(f"input '{value.name}' has {len(dimensions)} dimensions, --shape gives {len(given)}")
    for place, (dimension, size) in enumerate(zip(dimensions, given, strict=True)):
        if dimension.dim_value > 0 and dimension.dim_value != size:
            fixed = f"dimension {place} of input '{value.name}' is {dimension.dim_value} in the file"
            raise ImportFault(f"{fixed}, --shape says {size}; export it with another shape")
        if dimension.dim_param:
            _set(sizes, dimension.dim_param, size)
        else:
            dimension.dim_value = size


def _set(sizes: dict[str, int], name: str, size: int) -> None:
    if sizes.setdefault(name, size) != size:
        raise ImportFault(f"--shape makes dimension '{name}' both {sizes[name]} and {size}; give one size")


def _lacks_shape(value: Any) -> bool:
    """Whether not even the number of dimensions is known; that of a scalar is 0."""
    return value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")


def _dimensions(value: Any) -> Any:
    """The dimensions of a value; none if it is no tensor or has no shape."""
    return value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()
