"""Which move comes next: every move priced by the planner, the best ones weighed by the harm that they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoehorn_mcu.base.errors import did_you_mean, printable
from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.goal import Minimized
from shoehorn_mcu.slim.learner import Learner, Samples
from shoehorn_mcu.slim.moved import Moved
from shoehorn_mcu.slim.moves import moves
from shoehorn_mcu.slim.price import Price, Prices
from shoehorn_mcu.slim.recipe import Recipe
from shoehorn_mcu.slim.record import Candidate
from shoehorn_mcu.slim.sites import label

LOOKED_AT = 300  # training samples that show how much harm a move does
_SHOWN = 8  # names of layers in a message
_LEAST_HARM = 1e-3  # of the outputs' spread: what a first guess is at least taken to do


@dataclass(frozen=True, eq=False)
class Choice:
    """A move, with what it costs and gains."""

    moved: Moved
    cost: Price | None
    gain: float  # percent
    refused: str = ""
    harm: float | None = None

    @property
    def candidate(self) -> Candidate:
        """The choice without its graph."""
        return Candidate(self.moved.name, self.cost, round(self.gain, 3), self.refused, self.harm)


def choices(
    graph: Graph,
    prices: Prices,
    recipe: Recipe,
    wanted: Mapping[Minimized, float],
    lacking: int,
    say: Callable[[str], None] = lambda _: None,
) -> list[Choice]:
    """Every move that the recipe allows, those that gain most first, those that are not tried last with the reason.

    A gain is what a move takes away of the figures that are `wanted`, in percent and added up; of each figure no more
    counts than the percent that are too much, so that near the goal a small move is worth as much as a large one. Of a
    network that does not fit the board, `lacking` bytes, it is what the move takes away of the bytes that the board has
    too few.
    Both are of plans by groups of rows that compute each row once, so that a move is priced in little time.
    """
    found = []
    for moved in moves(graph, recipe.moves.use, recipe.moves.reduce):
        say(f"pricing {moved.name}")
        found.append(_priced(graph, moved, prices, recipe, wanted, lacking))
    return sorted(found, key=lambda each: (bool(each.refused), -each.gain))


def named(graph: Graph, prices: Prices, recipe: Recipe, name: str) -> Choice:
    """The move of a graph that is called so. Raises SlimError where there is none."""
    found = [*moves(graph, [name.split(" ")[0]], recipe.moves.reduce)]
    for moved in found:
        if moved.name == name:
            before, after = prices.of(graph).time, prices.of(moved.graph)
            return Choice(moved, after, 100 * (1 - after.time / max(1, before)))
    cure = did_you_mean(name, [moved.name for moved in found], "`gen slim --list` has the names")
    raise SlimError(f"moves.sequence: no move is called '{printable(name)}' at its turn; {cure}")


def check_kept(graph: Graph, recipe: Recipe) -> None:
    """Raises SlimError where a layer that the recipe keeps is none of the network's."""
    names = [name for node in graph.nodes() for name in _names(node)]
    for keep in recipe.moves.keep:
        if not any(name.startswith(keep) for name in names):
            labels = [label(node) for node in graph.nodes()]
            cure = did_you_mean(keep, labels, f"its layers are {', '.join(labels[:_SHOWN])}, ...")
            raise SlimError(f"moves.keep: no layer of {graph.name} is called '{printable(keep)}'; {cure}")


def _names(node: Node) -> tuple[str, ...]:
    """What a user may call a layer."""
    return node.op.name, label(node), node.output.name


def _priced(
    graph: Graph, moved: Moved, prices: Prices, recipe: Recipe, wanted: Mapping[Minimized, float], lacking: int
) -> Choice:
    touched = {*moved.gone, *(born.layer for born in moved.born)}
    names = [name for node in graph.nodes() if node.op.name in touched for name in _names(node)]
    kept = [keep for keep in recipe.moves.keep if any(name.startswith(keep) for name in names)]
    if kept:
        return Choice(moved, None, 0.0, f"changes '{kept[0]}', which the recipe keeps")
    before, after, board = prices.of(graph, once=True), prices.of(moved.graph, once=True), prices.board
    if after.lacking and not before.lacking:
        return Choice(moved, after, 0.0, f"does not fit {board.id}")
    figures = [(before.of(what), after.of(what), most) for what, most in wanted.items()]
    if lacking:
        figures = [(before.lacking, after.lacking, 100.0)]
    gain = sum(min(most, 100 * (1 - new / max(1, old))) for old, new, most in figures)
    refused = "" if gain > 0 else f"gains nothing on {board.id}"
    return Choice(moved, after, gain, refused)


def ordered(
    graph: Graph,
    found: Sequence[Choice],
    learner: Learner,
    samples: Samples,
    recipe: Recipe,
    say: Callable[[str], None] = lambda _: None,
) -> list[Choice]:
    """The choices in the order in which they are tried: the largest gain per harm first, then those of unknown harm.

    The harm is the distance of the outputs right after the first guess from those before, over the outputs' spread;
    it takes no training. Those that are refused come last.
    """
    some = Samples(samples.x[:LOOKED_AT], None)
    open_ones = [each for each in found if not each.refused]
    wanted = learner.outputs(graph, some).reshape(len(some), -1).astype(np.float64)
    spread = max(float(np.linalg.norm(wanted - wanted.mean(axis=0))), 1e-12)
    weighed = []
    for each in open_ones[: recipe.moves.first]:
        say(f"weighing {each.moved.name}")
        begun = learner.begin(graph, each.moved, samples, recipe.steps.first, recipe.data.seed)
        got = learner.outputs(begun, some).reshape(len(some), -1)
        weighed.append(replace(each, harm=round(float(np.linalg.norm(got - wanted)) / spread, 4)))
    weighed.sort(key=lambda each: -each.gain / max(each.harm or 0.0, _LEAST_HARM))
    return [*weighed, *open_ones[recipe.moves.first :], *(each for each in found if each.refused)]
