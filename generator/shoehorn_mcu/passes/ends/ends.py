"""The ends that a user asks for, as two lists of rewrites: before the passes and after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shoehorn_mcu.ir import Ends, Graph
from shoehorn_mcu.passes.ends.native_io import native_io
from shoehorn_mcu.passes.ends.pieces import fed_in_pieces
from shoehorn_mcu.passes.ends.state_ends import with_states, without_states
from shoehorn_mcu.passes.ends.streamed_output import streamable_output
from shoehorn_mcu.passes.ends.unflatten_input import unflatten_input
from shoehorn_mcu.passes.ends.user_ends import Pixels, check_classes, with_pixels, with_top


@dataclass(frozen=True)
class Asked:
    """What a user asks of the ends of a model."""

    stateless: bool = False  # every inference begins with the first values of the model's states
    states: Mapping[str, str] = field(default_factory=dict)  # outputs whose values inputs read in the next inference
    pixels: Pixels | None = None  # the input is uint8 pixels, from which the model's own values are computed
    native_io: bool = False  # inputs and outputs in the order of the model's file
    classes: tuple[str, ...] = ()  # the names of the classes that the one output tells apart
    top: int = 0  # places of the largest scores that become a further output
    stream_input: bool = False  # the input arrives row by row
    stream_output: bool = False  # the output is handed out row by row
    sums: bool = True  # a streamed input may be summed piece by piece


@dataclass(frozen=True)
class Rewrite:
    """A change of a model's ends, where it is asked for."""

    name: str
    asked: Callable[[Asked], bool]
    made: Callable[[Graph, Ends, Asked], tuple[Graph, Ends]]


def _checked(graph: Graph, ends: Ends, asked: Asked) -> tuple[Graph, Ends]:
    check_classes(graph, asked.classes)
    return graph, ends


BEFORE = (
    Rewrite("stateless", lambda asked: asked.stateless, lambda graph, ends, _: (without_states(graph), ends)),
    Rewrite("states", lambda _: True, lambda graph, ends, asked: (with_states(graph, ends, asked.states), ends)),
    Rewrite(
        "pixels",
        lambda asked: asked.pixels is not None,
        lambda graph, ends, asked: with_pixels(graph, ends, asked.pixels) if asked.pixels else (graph, ends),
    ),
    Rewrite("native-io", lambda asked: asked.native_io, lambda graph, ends, _: (native_io(graph, ends), ends)),
    Rewrite("classes", lambda _: True, _checked),
    Rewrite("top", lambda asked: asked.top > 0, lambda graph, ends, asked: (with_top(graph, asked.top), ends)),
)
"""Before the passes, which see the ends as the caller does."""

AFTER = (
    Rewrite("unflatten-input", lambda asked: asked.stream_input, lambda graph, ends, _: (unflatten_input(graph), ends)),
    Rewrite(
        "fed-in-pieces",
        lambda asked: asked.stream_input and asked.sums,
        lambda graph, ends, asked: fed_in_pieces(graph, ends, asked.stream_output),
    ),
    Rewrite(
        "streamable-output", lambda asked: asked.stream_output, lambda graph, ends, _: streamable_output(graph, ends)
    ),
)
"""After the passes, which may leave a view or a dense layer at an end that is streamed."""


def with_ends(graph: Graph, ends: Ends, asked: Asked, rewrites: tuple[Rewrite, ...]) -> tuple[Graph, Ends]:
    """The graph after those of the rewrites that are asked for, in order, and its ends in the file.

    Raises the ShoehornError of a rewrite that does not fit the model.
    """
    for each in rewrites:
        if each.asked(asked):
            graph, ends = each.made(graph, ends, asked)
    return graph, ends
