"""Small graphs of one op each as random networks have them: any shape, clamp, scale and padding."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from growers import GROWERS
from growth import Growth
from samples import quant

from shoehorn_mcu.ir import DType, Graph, GraphError, TensorType, verify
from shoehorn_mcu.passes.drop_dead import drop_dead
from tests.samples import REAL_OPS, as_float32

EACH = 20  # graphs of a kind of op
KINDS = tuple(dict.fromkeys(grow for kind, grow in GROWERS.items() if not kind.view))


def singles() -> Iterator[Graph]:
    """So many graphs of each kind; of those that compute in float32 too, every other one a second time in float32."""
    for number, kind in enumerate(KINDS):
        found = 0
        for seed in range(5 * EACH):
            g = Growth(np.random.default_rng((number, seed)))
            shape = 1, g.pick(1, 2, 3, 6, 8), g.pick(1, 3, 5, 8, 13), g.pick(1, 3, 4, 8, 11, 24, 40)
            g.input(TensorType(shape, DType.INT8, quant(g.rng, 0.01, 0.3)))
            with suppress(GraphError):  # it does not fit
                y = kind(g, g.inputs[0])
                graph = drop_dead(Graph("micro", g.tensors, tuple(g.ops), tuple(g.inputs), (y,)))
                if not graph.ops or len(graph.ops) > 2 or not set(graph.inputs) & set(graph.ops[0].inputs):
                    continue
                yield verify(graph)
                found += 1
                if len(graph.ops) == 1 and type(graph.ops[0]) in REAL_OPS and found % 2:
                    yield as_float32(graph, g.rng)
            if found == EACH:
                break
