"""`gen slim --list`: every move of a model with its predicted gain on a board. Nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.slim.choose import Choice, check_kept, choices
from shoehorn_mcu.slim.price import Price, Prices
from shoehorn_mcu.slim.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Listing:
    """The price of a network and of what each move makes of it, by plans that compute each row once."""

    before: Price
    choices: tuple[Choice, ...]

    def json(self) -> Mapping[str, Any]:
        """The document of `--json`."""
        return {
            "network": asdict(self.before),
            "moves": [asdict(each.candidate) | {"kind": each.moved.kind} for each in self.choices],
        }


def listing(graph: Graph, board: Board, recipe: Recipe, say: Callable[[str], None] = lambda _: None) -> Listing:
    """The moves of a float32 graph. Raises SlimError where the recipe keeps a layer that it has not."""
    check_kept(graph, recipe)
    prices = Prices(board)
    before = prices.of(graph, once=True)
    found = choices(graph, prices, recipe, {recipe.goal.minimize: 100.0}, before.lacking, say)
    return Listing(before, tuple(found))
