"""Every variant of the catalogue as a C file of its own, as a library has it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from samples import sample

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels import ANY, CATALOGUE, PORTABLE, Instance, Tile, choose, contract_of
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import OPS, Formulaic

PREFIX = "sh"


SEEDS = 12  # samples of each op with a formula


def portable_instance(node: Node) -> Instance:
    """The portable kernel of the node's own contract."""
    if isinstance(node.op, Formulaic):
        return choose(node, ANY)
    return Instance(PORTABLE[contract_of(node).name], Tile())


def formula_instances() -> Iterator[Instance]:
    """Kernels that are compiled for a formula: those of samples, each once."""
    found: dict[str, Instance] = {}
    for op_class in (c for c in OPS if issubclass(c, Formulaic)):
        for seed in range(SEEDS):
            (node,) = sample(op_class, np.random.default_rng(seed)).nodes()
            kernel = choose(node, ANY)
            found.setdefault(kernel.name, kernel)
    yield from found.values()


def instances(isa: Isa = Isa.C) -> Iterator[Instance]:
    """Every variant of an instruction set with each of its tiles; none that is compiled for values of an op.

    With them the `formula_instances`, which are portable.
    """
    for variant in CATALOGUE:
        if variant.isa is isa and not variant.fixes and not variant.is_written:
            yield from (Instance(variant, tile) for tile in variant.tiles)
    if isa is Isa.C:
        yield from formula_instances()


def write_instances(folder: Path, isa: Isa = Isa.C) -> list[Path]:
    """`sh_<instance>.c` of each of them in `folder`."""
    made = {kernel.symbol(PREFIX): kernel.text(PREFIX, f"{RUNTIME_C}/") for kernel in instances(isa)}
    for name, text in made.items():
        (folder / f"{name}.c").write_text(text)
    return [folder / f"{name}.c" for name in sorted(made)]


def write_variants(folder: Path) -> None:
    """`folder` laid out as runtime_c, with `sh_<variant>` in place of the oracles."""
    write_kernels(folder, instances())


def write_kernels(folder: Path, kernels: Iterable[Instance]) -> None:
    """`folder` laid out as runtime_c, with `sh_<instance>` of these kernels in place of all oracles.

    It has the folders of their contracts alone: most tests ask for one or two.
    """
    named = {kernel.name: kernel for kernel in kernels}
    for contract in {kernel.contract.name for kernel in named.values()}:
        place = Path("kernels") / contract
        shutil.copytree(RUNTIME_C / place, folder / place, ignore=shutil.ignore_patterns("*_ref.c"))
    (folder / "include").symlink_to(RUNTIME_C / "include")
    for name, kernel in named.items():
        (folder / f"kernels/{kernel.contract.name}/{name}.c").write_text(kernel.text(PREFIX, "../../"))
