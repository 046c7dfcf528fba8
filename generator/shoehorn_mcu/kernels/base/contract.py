"""The parts of a kernel: the contract of its header, the variants of its body, the instances that are compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

import numpy as np

from shoehorn_mcu.ir import Array, Node, OpT, Tensor
from shoehorn_mcu.machine.targets import Isa


@dataclass(frozen=True, eq=False)
class Packed:
    """A constant array that a variant loads in units larger than words: aligned to `alignment` bytes."""

    data: Array
    alignment: int


WORD = 4
"""Default alignment of a constant, in bytes."""

Value = int | float | Array | Packed | None
"""A member of a parameters struct: a number, a constant array, or a null pointer."""

Values = Mapping[str, Value]


def array_of(value: Value) -> Array | None:
    """The constant array that a member points to; None for numbers, null pointers and empty arrays."""
    data = value.data if isinstance(value, Packed) else value
    return data if isinstance(data, np.ndarray) and data.size else None


def array_bytes(values: Values) -> int:
    """Bytes of the constant arrays among the members of a struct."""
    arrays = (array_of(value) for value in values.values())
    return sum(data.nbytes for data in arrays if data is not None)


def differ(values: Values, plain: Values) -> bool:
    """Whether members of a struct have other constant arrays than those of the oracle's."""
    pairs = ((array_of(values[member]), array_of(value)) for member, value in plain.items())
    return any(not (a is b or (a is not None and b is not None and np.array_equal(a, b))) for a, b in pairs)


def alignment_of(value: Value) -> int:
    """The alignment of a constant array, in bytes."""
    return value.alignment if isinstance(value, Packed) else WORD


def all_in_weights(words: Array | Packed) -> dict[str, Value]:
    """The members of a linear op's struct for a variant that packs all constants into `weights`."""
    return {"weights": words, "bias": None, "multipliers": None, "shifts": None}


def _step(node: Node) -> int | None:
    """Elements from a pixel of an output row to the next, where other ops write what is between them."""
    part = node.row_part
    return None if part is None else part.step


def y_step(node: Node, step: int) -> Values:
    """`Contract.spaced` of kernels that go from pixel to pixel in any case."""
    return {"y_step": step}


def with_long_rows(node: Node, count: int) -> Node:
    """The node with `count` rows of the output as one, and so many of each operand that has as many rows as it has.

    The op must compute pixel by pixel, and `count` divide the number of rows.
    """
    height = node.output.type.rows
    if count == 1:
        return node

    def joined(tensor: Tensor) -> Tensor:
        if tensor.type.rows != height:
            return tensor
        _, _, width, channels = tensor.type.nhwc
        shape = 1, height // count, count * width, channels
        data = None if tensor.data is None else tensor.data.reshape(shape)
        return replace(tensor, type=replace(tensor.type, shape=shape), data=data)

    others = node.inputs[len(node.row_inputs) :]
    return Node(node.op, (*map(joined, node.row_inputs), *others), joined(node.output))


def _one_pixel(node: Node) -> Node:
    """An element-wise node with rows of one pixel."""

    def narrow(tensor: Tensor) -> Tensor:
        shape = tensor.type.shape
        return Tensor(tensor.name, replace(tensor.type, shape=(*shape[:-2], *(1,) * len(shape[-2:-1]), *shape[-1:])))

    return Node(node.op, tuple(map(narrow, node.inputs)), narrow(node.output))


def _nothing(node: Node) -> tuple[str, ...]:
    return ()


def _nowhere(node: Node) -> int | None:
    return None


@dataclass(frozen=True, eq=False)
class Contract(Generic[OpT]):
    """The header `runtime_c/kernels/<name>/<name>.h`: a formula, a parameters struct and a function type.

    Its functions, and those of its variants, are written for nodes of `ops`, which mypy holds where a contract is made.
    A plain `Contract`, as in the catalogue, is one of any ops: its functions are called only for nodes that it covers,
    which no type says. Methods that take any node are those of a plain one (`self: Contract`).
    """

    name: str
    ops: tuple[type[OpT], ...]
    facts: Callable[[Node[OpT]], Values]  # struct members that are the same for all variants
    plain: Callable[[Node[OpT]], Values] = lambda _: {}  # the other members, as the oracle and most variants read them
    accepts: Callable[[Node[OpT]], bool] = lambda _: True  # nodes of `ops` that the formula covers
    takes_row: bool = False  # the function takes the number of the output row (before scratch)
    takes_scratch: bool = False
    # The members that differ where the output's pixels begin so many elements apart; None: there is no such member.
    spaced: Callable[[Node[OpT], int], Values] | None = None
    in_runs: bool = False  # pixels are computed as one run, unless they have gaps between them
    # What only variants of that kind compute (`Variant.kinds`); most nodes are of the kind "".
    kind: Callable[[Node[OpT]], str] = lambda _: ""

    @property
    def struct(self) -> str:
        return f"sh_{self.name}"

    def steps(self: Contract, node: Node) -> Values:
        """The members that differ from those of `node.computed`."""
        step = _step(node)
        return {} if step is None or self.spaced is None else self.spaced(node.computed, step)

    @property
    def header(self) -> str:
        """Path below runtime_c."""
        return f"kernels/{self.name}/{self.name}.h"

    def covers(self: Contract, node: Node) -> bool:
        """Whether the contract covers the node."""
        of = node.computed
        return self.reaches(node) and isinstance(of.op, self.ops) and self.accepts(of)

    def reaches(self, node: Node) -> bool:
        """Whether a kernel can write the pixels where the node has them: side by side, or with gaps."""
        return _step(node) is None or self.spaced is not None

    def key(self: Contract, node: Node) -> str:
        """All facts that are numbers, as text: nodes with equal keys differ in constants only."""
        facts = self.facts(node.computed)
        return " ".join((self.name, *(f"{n}={facts[n]}" for n in facts if isinstance(facts[n], int | float))))


class Tile:
    """The sizes that an instance computes at once, `Tile(outputs=4, pixels=2)`; each is a define, `SH_OUTPUTS 4`."""

    def __init__(self, **sizes: int) -> None:
        self.sizes: Mapping[str, int] = sizes

    @property
    def name(self) -> str:
        """`o4_p2`, each size behind its letter; empty for a tile without sizes."""
        return "_".join(f"{SIZES[name][0]}{size}" for name, size in self.sizes.items())

    @property
    def rows(self) -> int:
        """Rows of the output that one call computes."""
        return self.sizes.get("rows", 1)

    @property
    def legend(self) -> tuple[str, ...]:
        """What the parts of its name mean: `o4: output channels at once`."""
        return tuple(f"{SIZES[name][0]}{size}: {SIZES[name][1]}" for name, size in self.sizes.items())


SIZES: Mapping[str, tuple[str, str]] = {
    "outputs": ("o", "output channels at once"),
    "pixels": ("p", "pixels at once"),
    "taps": ("t", "the most runs of a window, or elements of it at once"),
    "elements": ("e", "words of working memory on the stack"),
    "up": ("u", "the shift of the one step that rounds"),
    "held": ("h", "bytes of the ring that holds outputs until inputs below them are read"),
    "reach": ("r", "adjacent outputs of which the products are saved"),
    "pairs": ("c", "pairs of columns at once"),
    "rows": ("l", "output rows at once"),
}
"""The sizes of tiles: the letter of each in the names of instances, and what it counts."""


_DIGITS = 8  # hexadecimal ones in the name of a kernel with an op's own arithmetic

_WHOLE = (Tile(),)


@dataclass(frozen=True, eq=False)
class Variant(Generic[OpT]):
    """One way to compute a contract: `<contract>_<body>.inc` beside the header, for one instruction set.

    The body defines one function, SH_NAME, and may use the defines of its tile. Where `fixes` names struct members, an
    instance is compiled for their values: the body calls SH_FIX(op) on its copy of the struct, which assigns them.
    """

    contract: Contract[OpT]
    work: Callable[[Node[OpT], Tile], Mapping[str, float]]  # features of one call; cost.py gives their costs
    suffix: str = "c"
    isa: Isa = Isa.C
    body: str = ""  # part of the file's name; empty: the suffix
    # Other files beside the body, `<contract>_<shared>.inc`, that it includes, outer first.
    shared: tuple[str, ...] = ()
    accepts: Callable[[Node[OpT]], bool] = lambda _: True  # nodes of the contract that this variant computes
    kinds: tuple[str, ...] = ("",)  # and of which kinds (`Contract.kind`)
    tiles: tuple[Tile, ...] = _WHOLE
    fits: Callable[[Node[OpT], Tile], bool] = lambda *_: True  # tiles for an accepted node
    same_time: bool = False  # the tiles differ in memory only: they share the costs of the first one
    fixes: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()  # macros that the body is compiled with, besides the tile's
    # Such macros with their values, for the op's own arithmetic.
    written: Callable[[Node[OpT]], tuple[str, ...]] = _nothing
    # Struct members besides the facts; None: the contract's `plain`.
    pack: Callable[[Node[OpT], Tile], Values] | None = None
    scratch_bytes: Callable[[Node[OpT], Tile], int] = lambda *_: 0  # for one core
    # Of a row, in one pass over the constants.
    pixels_at_once: Callable[[Node[OpT], Tile], int] = lambda _, tile: tile.sizes.get("pixels", 1)
    # The row input that row y of the output may overwrite: each byte is read before it is written.
    in_place: Callable[[Node[OpT]], int | None] = _nowhere
    choice: str = ""  # the optional choice (passes.CHOICES) that has to be allowed for it
    # The bytes before one of the rows of row input 0 at which row y of the output may begin, if it may overwrite that.
    behind: Callable[[Node[OpT], Tile], int | None] = lambda *_: None

    @property
    def is_written(self) -> bool:
        """Whether its instances compute what an op says, which no kernel is without that op."""
        return self.written is not _nothing

    @property
    def source(self) -> str:
        """Path of the body below runtime_c."""
        return self._path(self.body or self.suffix)

    @property
    def sources(self) -> tuple[str, ...]:
        """Paths of the body and of what it shares with other bodies, below runtime_c."""
        return (self.source, *map(self._path, self.shared))

    def _path(self, part: str) -> str:
        name = self.contract.name
        return f"kernels/{name}/{name}_{part}.inc"

    def instances(self: Variant, node: Node) -> Iterator[Instance]:
        """The instances for the node, one per tile that fits; none if the variant does not compute the node."""
        if self.contract.covers(node):
            yield from self.of_covered(node)

    def of_covered(self: Variant, node: Node) -> Iterator[Instance]:
        """The same for a node that the contract is known to cover.

        An op that writes a part of each row begins them one by one, so no kernel computes several of them at once.
        """
        several, node = node.row_part is None, node.computed
        if self.contract.kind(node) in self.kinds and self.accepts(node):
            facts = self.contract.facts(node) if self.fixes else {}
            fixed = tuple((member, _whole(facts[member])) for member in self.fixes)
            written = self.written(node)
            tiles = (tile for tile in self.tiles if several or tile.rows == 1)
            yield from (Instance(self, tile, fixed, written) for tile in tiles if self.fits(node, tile))


def portable(
    contract: Contract[OpT],
    work: Callable[[Node[OpT]], Mapping[str, float]],
    in_place: Callable[[Node[OpT]], int | None] = _nowhere,
) -> Variant[OpT]:
    """The variant `c` of a contract: C for any core, without tiles, constants as the oracle reads them."""
    return Variant(contract, lambda node, _: work(node), in_place=in_place)


def _whole(value: Value) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a member that is fixed must be an integer, not {value}")
    return value


@dataclass(frozen=True, eq=False)
class Instance:
    """A variant with its tile and what it is compiled for: one C function, whatever model it is in."""

    variant: Variant
    tile: Tile
    fixed: tuple[tuple[str, int], ...] = ()  # values of struct members
    written: tuple[str, ...] = ()  # macros with their values
    # Makes an op of the contract of the ops that it is given (points.py).
    form: Callable[[Node], Node] = lambda node: node

    @property
    def contract(self) -> Contract:
        return self.variant.contract

    @property
    def rows_at_once(self) -> int:
        """Rows of the output that one call computes, side by side. A call gets pointers to the rows that the first one
        reads, then to those of each following one by which its window is further down.
        """
        return self.tile.rows

    @cached_property
    def key(self) -> str:
        """`conv2d_s8_simd32_o4_p2`: its variant and its tile."""
        return self._key(self.tile)

    @property
    def code_key(self) -> str:
        """The key of its code sizes in costs/: formulas of integers alone have one of their own."""
        reals = ("float", "double", "sh_half")
        integers = self.written and not any(kind in macro for macro in self.written for kind in reals)
        return f"{self.key}_integers" if integers else self.key

    @cached_property
    def cost_key(self) -> str:
        """The key of its costs in costs/."""
        return self._key(self.variant.tiles[0] if self.variant.same_time else self.tile)

    def _key(self, tile: Tile) -> str:
        return "_".join(filter(None, (self.contract.name, self.variant.suffix, tile.name)))

    @cached_property
    def name(self) -> str:
        """The key and what it is compiled for; the C function has the library's prefix before this name."""
        parts = [self.key]
        if self.fixed:
            parts.append("x".join(str(v) for _, v in self.fixed))
        if self.written:
            parts.append(hashlib.sha256("\n".join(self.written).encode()).hexdigest()[:_DIGITS])
        return "_".join(parts)

    def symbol(self, prefix: str) -> str:
        """The C function in a library of this prefix."""
        return f"{prefix}_{self.name}"

    def text(self, prefix: str, runtime: str) -> str:
        """The C file of the instance; `runtime` is the path from it to runtime_c, "" or with a slash at its end."""
        defines = [f"#define SH_NAME {self.symbol(prefix)}"]
        defines += [f"#define SH_{name.upper()} {size}" for name, size in self.tile.sizes.items()]
        defines += [f"#define {macro}" for macro in (*self.variant.defines, *self.written)]
        if self.variant.isa is Isa.SIMD32:  # functions of which a library needs one each
            defines.append(f"#define SH_SHARED(part) {prefix}_part_##part")
        if self.variant.fixes:
            assigned = ", ".join(f"(op).{member} = {value}" for member, value in self.fixed)
            defines.append(f"#define SH_FIX(op) ({assigned})")
        return "\n".join((*defines, f'#include "{runtime}{self.variant.source}"', ""))

    def params(self, node: Node) -> Values:
        """Members of the contract's struct."""
        pack, of = self.variant.pack, self._computed(node)
        own = self.plain(node) if pack is None else pack(of, self.tile)
        return {**self.contract.facts(of), **own, **self.contract.steps(node)}

    def plain(self, node: Node) -> Values:
        """Members of the contract's struct besides the facts, with constants in the oracle's layout."""
        return self.contract.plain(self._computed(node))

    def packs(self, node: Node) -> bool:
        """Whether its constants are in another layout than the oracle's."""
        return self.variant.pack is not None and differ(self.params(node), self.plain(node))

    def _computed(self, node: Node) -> Node:
        """The node that the variant is asked about."""
        return self.form(node.computed)

    def work(self, node: Node) -> Mapping[str, float]:
        """Features of one call, for the cost model; the call itself counts as one of them."""
        of = self._computed(node)
        if self.contract.in_runs and _step(node) is not None:
            pixel, width = self.variant.work(_one_pixel(of), self.tile), of.output.type.nhwc[2]
            return {"calls": 1.0, **{name: width * count for name, count in pixel.items()}}
        return {"calls": 1.0, **self.variant.work(of, self.tile)}

    def scratch_bytes(self, node: Node) -> int:
        """Scratch bytes of one core."""
        return self.variant.scratch_bytes(self._computed(node), self.tile)

    def pixels_at_once(self, node: Node) -> int:
        """Pixels of a call that are computed in one pass over the constants."""
        return self.variant.pixels_at_once(self._computed(node), self.tile)

    def in_place(self, node: Node) -> int | None:
        """The row input whose row y output row y may overwrite, or None."""
        if (part := node.row_part) is not None:
            return part.onto
        return self.variant.in_place(self.form(node))

    def behind(self, node: Node) -> int | None:
        """The bytes before a row of row input 0 at which an output row over it may begin; None: it may not."""
        if node.row_part is not None:
            return None  # the part that the kernel writes is not where the row begins
        return self.variant.behind(self.form(node), self.tile)

    def like(self, node: Node) -> Instance | None:
        """The instance of this variant and tile for another node, or None if they do not compute it."""
        if not self.contract.reaches(node):
            return None
        found = (other for other in self.variant.instances(self._computed(node)) if other.key == self.key)
        return next((replace(self, fixed=other.fixed, written=other.written) for other in found), None)

    def for_long_rows(self, node: Node, count: int) -> tuple[Instance, Node] | None:
        """This instance for `count` rows as one, and the node with them; None: each row needs a call of its own."""
        if count < 2 or self.contract.takes_row or self.rows_at_once > 1 or not node.op.pixelwise(node.sig):
            return None
        long = with_long_rows(node, count)
        same = self.like(long)
        return None if same is None or same.scratch_bytes(long) != self.scratch_bytes(node) else (same, long)
