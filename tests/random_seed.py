"""What is wrong with one random graph: `python tests/random_seed.py SEED` says it, and the smallest part that fails."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from many_models import ManyModels, compile_kernels
from random_graphs import random_graph, shrunk
from random_plans import few_tries, units_of

from shoehorn_mcu.ir import Graph, dump


def complaint(graph: Graph, seed: int, kernels: list[Path]) -> str:
    """What goes wrong with the graph from planning to running, its kind before a colon; empty when nothing does."""
    try:
        units = units_of(graph, seed)
        with tempfile.TemporaryDirectory() as folder:
            program = ManyModels(units, kernels, Path(folder))
            for vector in (1, 2):
                inputs = random_arrays(graph, vector)
                wanted = evaluate(graph, inputs)
                found = program.run([(i, inputs) for i in range(len(units))])
                for unit, outputs in zip(units, found, strict=True):
                    for name in graph.outputs:
                        np.testing.assert_array_equal(outputs[name], wanted[name], err_msg=f"{unit.name} {name}")
    except Exception as error:  # whatever it is, it is what we are looking for
        return f"{type(error).__name__}: {error}"
    return ""


def main(seed: int) -> None:
    graph = random_graph(seed)
    print(dump(graph))
    with pytest.MonkeyPatch.context() as patch:
        few_tries(patch)  # as the test, so that the plans are the same
        kernels = compile_kernels()
        said = complaint(graph, seed, kernels)
        kind = said.partition(":")[0]
        small = shrunk(graph, lambda part: complaint(part, seed, kernels).partition(":")[0] == kind) if said else graph
        again = complaint(small, seed, kernels)
    if not said:
        print(f"seed {seed}: nothing is wrong")
        return
    print(f"{said}\n\nthe smallest part that fails so:\n{dump(small)}\n{again}")
    sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
