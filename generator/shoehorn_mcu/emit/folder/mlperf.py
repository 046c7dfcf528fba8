"""Finds the MLPerf Tiny task of a model, which fixes how the application converts input and output."""

from __future__ import annotations

from math import log

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import DType, Graph
from shoehorn_mcu_host.base.tasks import TASKS, Task

CHOICES = ("auto", "none", *(task.id for task in TASKS))


def _suits(task: Task, graph: Graph) -> bool:
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return False
    ends = (graph.tensors[graph.inputs[0]].type, graph.tensors[graph.outputs[0]].type)
    shapes = (ends[0].shape, ends[1].shape)
    return shapes == (task.input, task.output) and all(end.dtype is DType.INT8 for end in ends)


def task_of(graph: Graph, choice: str) -> Task | None:
    """The task named `choice`, or with `auto` the one whose shapes match; raises where the named one does not.

    Of tasks with equal shapes (ic01 and ic02) `auto` takes the one whose reference model has the more similar number
    of multiply-accumulates, by their ratio: quantising a model anew keeps that number, and changes every byte.
    """
    suited = [task for task in TASKS if _suits(task, graph)]
    for task in TASKS:
        if choice == task.id and task not in suited:
            raise ShoehornError(
                f"{graph.name}: is not a {choice} model, which has one int8 input {task.input} and "
                f"one int8 output {task.output}"
            )
    if choice == "auto":
        macs = max(1, graph.macs)
        return min(suited, key=lambda task: abs(log(task.macs / macs)), default=None)
    return next((task for task in suited if task.id == choice), None)
