"""What a run aims at: the goals of its recipe, and what a network still lacks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.slim.goal import Minimized, Until
from shoehorn_mcu.slim.price import Price, Prices
from shoehorn_mcu.slim.recipe import Recipe

_UNITS = {
    Minimized.SRAM: "bytes of SRAM",
    Minimized.ARENA: "bytes of SRAM at least",
    Minimized.FLASH: "constant bytes",
}


@dataclass(frozen=True)
class Unmet:
    """A goal that is not reached: the figure now, and what it may be at most."""

    what: Minimized
    now: int
    most: int
    unit: str

    def __str__(self) -> str:
        return f"it takes {self.now:,} {self.unit} and the goal is {self.most:,}"


@dataclass(frozen=True)
class Aim:
    """The goals of a recipe for a network; shares of a goal are of the original's figure.

    Both are figures of the int8 networks with their own weights: a fast kernel may refuse weights that training found.
    Where a goal is for the arena, the time of a slim network is that of its fastest plan in so many bytes; the time of
    the original is that of its fastest plan.
    """

    board: Board
    recipe: Recipe
    original: Graph
    int8: Callable[[Graph], Graph]  # the quantised form of a float32 graph, of the original the same each time

    @cached_property
    def free(self) -> Prices:
        """The prices of plans that may take all that the board has."""
        return Prices(self.board)

    @cached_property
    def prices(self) -> Prices:
        """The prices of plans that take no more than the goals for the arena leave."""
        wanted = [until for until in self.recipe.until if self._what(until) is Minimized.ARENA and not until.fits]
        if not wanted:
            return self.free
        arena = self._original(Minimized.ARENA).sram
        return Prices(self.board, min(until.most(arena) for until in wanted))

    def price(self, graph: Graph) -> Price:
        """The price of a network that is kept: with the smallest arena where that is to become less."""
        return self._figured(graph, self.recipe.goal.minimize)

    def original_price(self, trained: Graph | None = None) -> Price:
        """The price of the original, or of one that was trained on."""
        return self._original(self.recipe.goal.minimize, trained)

    def made_up_price(self, graph: Graph) -> Price:
        """The same price with made-up weights, by which moves are chosen."""
        return self.prices.of(graph, smallest=self.recipe.goal.minimize is Minimized.SRAM)

    def unmet(self, graph: Graph) -> Iterator[Unmet]:
        """The figures of a goal that the network exceeds. Whether the network fits the board is no figure."""
        for until in self.recipe.until:
            if not until.fits:
                what = self._what(until)
                before, now = self._original(what), self._figured(graph, what)
                unit = _UNITS.get(what, now.unit)
                made = Unmet(what, now.of(what), until.most(before.of(what)), unit)
                if made.now > made.most:
                    yield made

    def _what(self, until: Until) -> Minimized:
        return until.what or self.recipe.goal.minimize

    def _figured(self, graph: Graph, what: Minimized) -> Price:
        return self.prices.of_int8(self.int8(graph), smallest=what is Minimized.SRAM)

    def _original(self, what: Minimized, trained: Graph | None = None) -> Price:
        return self.free.of_int8(self.int8(trained or self.original), smallest=what is Minimized.SRAM)

    def wanted(self, graph: Graph) -> Mapping[Minimized, float]:
        """What moves of a network are to make less of, and how many percent of it are too much.

        Those are the figures of unmet goals, or the minimized one, of which nothing is enough.
        """
        found = dict[Minimized, float]()
        for goal in self.unmet(graph):
            found[goal.what] = max(found.get(goal.what, 0.0), 100 * (1 - goal.most / goal.now))
        return found or {self.recipe.goal.minimize: 100.0}

    def missing(self, graph: Graph) -> str:
        """Why a network does not reach the goals yet, in words; "" where it does."""
        lack = self.prices.of_int8(self.int8(graph)).lack
        if lack:
            return f"{self.prices.board.id} has {lack} too few"
        return "; ".join(map(str, self.unmet(graph)))

    @property
    def reached(self) -> str:
        """The reason that a run gives where the goals are reached."""
        return "the firmware fits" if all(until.fits for until in self.recipe.until) else "the goal is reached"
