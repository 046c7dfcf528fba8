"""Open dimensions of a .tflite: the sizes of those of its inputs; all others follow from them, op by op."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.base.errors import did_you_mean
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.source import Shapes
from shoehorn_mcu.importers.tflite.file import RawModel, RawTensor
from shoehorn_mcu.ops.laws import quoted


def with_shapes(raw: RawModel, shapes: Shapes) -> RawModel:
    """The model with its inputs in these shapes, by their names; an open batch, the first dimension, is 1 else.

    Raises ImportFault for a name that no input has, for sizes that contradict the file, and for another open dimension
    without a size.
    """
    places = [place for place in raw.inputs if 0 <= place < len(raw.tensors)]
    known = {raw.tensors[place].name: place for place in reversed(places)}
    for name in shapes:
        if name not in known:
            cure = did_you_mean(name, sorted(known), f"known are {', '.join(map(quoted, sorted(known)))}")
            raise ImportFault(f"no input is called {quoted(name)}; {cure}")
    tensors = list(raw.tensors)
    for place in places:
        given = shapes.get(tensors[place].name) if known[tensors[place].name] == place else None
        if given is not None:
            tensors[place] = _given(tensors[place], given)
        elif tensors[place].open:
            tensors[place] = replace(tensors[place], shape=_closed(tensors[place]))
    return replace(raw, tensors=tuple(tensors))


def _given(tensor: RawTensor, sizes: tuple[int, ...]) -> RawTensor:
    """The input in the user's sizes."""
    said = "x".join(map(str, sizes))
    if min(sizes, default=1) < 1:
        raise ImportFault(f"--shape {tensor.name}={said}: sizes must be positive")
    if len(sizes) != len(tensor.shape):
        raise ImportFault(f"input {quoted(tensor.name)} has {len(tensor.shape)} dimensions, --shape gives {len(sizes)}")
    signature = tensor.signature or tensor.shape
    for place, (size, fixed) in enumerate(zip(sizes, signature, strict=True)):
        if fixed not in (-1, size):
            known = f"dimension {place} of input {quoted(tensor.name)} is {fixed} in the file"
            raise ImportFault(f"{known}, --shape says {size}; convert the model with another shape")
    return replace(tensor, shape=sizes)


def _closed(tensor: RawTensor) -> tuple[int, ...]:
    """The shape of an input that the user has not given: with a batch of 1."""
    unknown = [place for place, size in enumerate(tensor.signature) if size == -1]
    left = [place for place in unknown if place > 0 and tensor.shape[place] == 1]
    if left:
        sizes = ("N" if place in left else str(size) for place, size in enumerate(tensor.shape))
        cure = f"give it as --shape {tensor.name}={'x'.join(sizes)}, with a number for each N"
        raise ImportFault(f"input {quoted(tensor.name)} has an open dimension, number {left[0]}; {cure}")
    return tensor.shape
