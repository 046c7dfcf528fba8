"""Finds the MLPerf Tiny task of a model, which fixes how the application converts input and output."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import DType, Graph


class Transform(IntEnum):
    """SH_APP_INPUT_TRANSFORM: how `db` bytes become the input."""

    RAW = 0
    MINUS_128 = 1
    FLOAT32 = 2


class Results(IntEnum):
    """SH_APP_RESULTS: the values that `m-results` prints."""

    OUTPUTS = 0
    MEAN_SQUARED_ERROR = 1


@dataclass(frozen=True)
class Task:
    """A benchmark, known by the exact shapes of its int8 model."""

    id: str
    input: tuple[int, ...]
    output: tuple[int, ...]
    transform: Transform = Transform.RAW
    results: Results = Results.OUTPUTS


TASKS = (
    Task("kws01", (1, 49, 10, 1), (1, 12)),
    Task("vww01", (1, 96, 96, 3), (1, 2), Transform.MINUS_128),
    Task("ic01", (1, 32, 32, 3), (1, 10), Transform.MINUS_128),
    Task("ad01", (1, 640), (1, 640), Transform.FLOAT32, Results.MEAN_SQUARED_ERROR),
)
CHOICES = ("auto", "none", *(task.id for task in TASKS))


def _suits(task: Task, graph: Graph) -> bool:
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return False
    ends = (graph.tensors[graph.inputs[0]].type, graph.tensors[graph.outputs[0]].type)
    shapes = (ends[0].shape, ends[1].shape)
    return shapes == (task.input, task.output) and all(end.dtype is DType.INT8 for end in ends)


def task_of(graph: Graph, choice: str) -> Task | None:
    """The task named `choice`, or with `auto` the one whose shapes match; raises where the named one does not."""
    for task in TASKS:
        suits = _suits(task, graph)
        if choice == task.id and not suits:
            raise ShoehornError(
                f"{graph.name}: is not a {choice} model, which has one int8 input {task.input} and "
                f"one int8 output {task.output}"
            )
        if suits and choice in ("auto", task.id):
            return task
    return None
