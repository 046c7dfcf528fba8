"""Times the ops of a firmware in the emulator to the instruction, on every board: by the plugin's counts, not the
board's clock.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu_host.board.cores import CoreMeter
from shoehorn_mcu_host.board.cycles import MARKED, Count, Mark, Meter, arguments, by_op, metered
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Mode
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project


@contextmanager
def _meter(project: Project) -> Iterator[Meter | CoreMeter]:
    """A meter of one core; where there is no model of the board's timing it counts instructions alone."""
    with metered(project, True) as found:
        if isinstance(found, Meter):
            yield found
            return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "count"
        path.touch()
        yield CoreMeter(arguments(project, {"processors": 1, "out": path}, MARKED), path)


def inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """The random inputs of a graph, in the order of vectors.random: any stored value, reals between -2 and 2."""
    rng, found = np.random.default_rng(seed), dict[str, Array]()
    for name in graph.inputs:
        kind = graph.tensors[name].type
        if kind.dtype.numpy.kind == "f":
            found[name] = rng.uniform(-2, 2, kind.shape).astype(kind.dtype.numpy)
        else:
            info = np.iinfo(kind.dtype.numpy)
            found[name] = rng.integers(info.min, info.max, kind.shape, kind.dtype.numpy, endpoint=True)
    return found


def counts(project: Project, seed: int = 0) -> Sequence[Count]:
    """Each op of one inference on random inputs, in the order of the plan's ops; no cycles where none are modelled."""
    plan = Plan.of(project)
    (vector,) = vectors.random(project.folder, plan.inputs, 1, seed)
    with (
        _meter(project) as meter,
        emulate(project, arguments=meter.arguments) as machine,
        Link(Port(machine.url)) as link,
    ):
        link.expect(plan)
        link.infer([array.tobytes() for array in vector], [], Mode.TIME, lambda _: None, 0, False)
        marks = [m if isinstance(m, Mark) else Mark(m.place, Count(m.busy[0], 0)) for m in meter.take()]
    return by_op(marks, [op for op, *_ in plan.steps], len(plan.ops))
