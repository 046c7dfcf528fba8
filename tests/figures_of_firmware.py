"""Tables of figures of firmware with a pipeline, with several models, with candidates, and with several cores."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from random_graphs import random_graph
from samples import graph_of, int8, sample
from slide_nets import random_net
from test_states import ring

from shoehorn_mcu import ops, passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit.folder.energy import Energy
from shoehorn_mcu.emit.folder.memory_map import memory_map
from shoehorn_mcu.firmware import build, tune
from shoehorn_mcu.firmware.pipelines import Strides, pipeline
from shoehorn_mcu.firmware.report import timeless
from shoehorn_mcu.firmware.settings import Fit, Hop, Options
from shoehorn_mcu.firmware.several import firmware_of_several, streamed
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.ir import DType, Graph, Quant, TensorType
from shoehorn_mcu.ir.dump import dump
from shoehorn_mcu.kernels.cost import Unit as CostUnit
from shoehorn_mcu.machine.targets import Machine, board
from shoehorn_mcu.passes.ends.user_ends import Pixels
from shoehorn_mcu.planner import Goal, make_plan
from shoehorn_mcu.planner.cores import divided
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages

Row = Mapping[str, float]
_LAYERS = (ops.Conv2d, ops.DepthwiseConv2d, ops.Dense, ops.Add, ops.MaxPool2d, ops.Concat, ops.Reduce)
_GRAPHS = 30
_TOGETHER = (0, 3, 5)
_LIMITS = (None, 720, 1200)


def _sum(*texts: object) -> int:
    return zlib.crc32(repr(texts).encode())


def _short(graph: Graph) -> Row:
    return {"ops": len(graph.ops), "tensors": len(graph.tensors), "dump": _sum(dump(graph))}


def pipelines() -> dict[str, Row]:
    """By front end, model behind it and strides: the graph of both and its notes, or the refusal."""

    def cut(name: str, x: TensorType, size: int, y: TensorType) -> Graph:
        made = graph_of(ops.Slice, [x], y, begin=(0, 0), size=(1, size), step=(1, 1))
        return replace(made, name=name)

    first, second = Quant((0.5,), (3,)), Quant((0.25,), (-7,))
    plain = TensorType((), DType.INT8)
    fronts = {
        f"{window} to {size}, {word}": cut("front", replace(kind, shape=(1, window)), size, kind)
        for window, size in ((6, 3), (7, 1), (2, 2))
        for word, kind in (("a scale", replace(plain, quant=first)), ("none", plain))
    }
    wakes = {
        "four vectors": cut("wake", int8((1, 12), first), 2, replace(plain, quant=first)),
        "another scale": cut("wake", int8((1, 12), second), 2, replace(plain, quant=second)),
        "no scale": cut("wake", replace(plain, shape=(1, 6)), 2, plain),
        "int16": cut("wake", TensorType((1, 6), DType.INT16), 2, TensorType((), DType.INT16)),
        "an odd number": cut("wake", int8((1, 5), first), 2, replace(plain, quant=first)),
        "states": ring(),
    }
    strides = (Strides(), Strides(2, 2), Strides(None, 1), Strides(7), Strides(1, 5))
    found: dict[str, Row] = {}
    for (a, front), (b, wake) in ((f, w) for f in fronts.items() for w in wakes.items()):
        for given in strides:
            key = f"{a}; {b}; {given.samples or '-'}, {given.slices or '-'}"
            try:
                made = pipeline(front, wake, given, 49 if b == "states" else None)
            except ShoehornError as refusal:
                found[key] = {"refused": _sum(str(refusal))}
            else:
                found[key] = {**_short(made.graph), "notes": _sum(made.notes), "states": len(made.graph.states)}
    return found


def together() -> dict[str, Row]:
    """By set of models and limit: the arenas, places and notes of a firmware with several, or the refusal."""
    models = [Imported(replace(random_graph(seed), name=f"net_{seed}"), {}) for seed in _TOGETHER]
    sets = {"two": [models[0], Imported(ring(), {})], "three": models, "twice": models[:1] * 2}
    found: dict[str, Row] = {}
    for name, some in sets.items():
        for sram in _LIMITS if name == "three" else _LIMITS[:1]:
            for concurrent in (False, True):
                key = f"{name}, {sram or 'all'}, {'concurrent' if concurrent else 'one at a time'}"
                given = streamed(some, Options(sram_bytes=sram), ["ring"] if name == "two" else [])
                try:
                    made, files = firmware_of_several(given, board("microbit"), concurrent=concurrent)
                except ShoehornError as refusal:
                    found[key] = {"refused": _sum(str(refusal))}
                    continue
                told = sorted(path for path in files if path.startswith(("models/", "src/", "report", "lib/board")))
                found[key] = {
                    "arena": made.arena_bytes,
                    "ram": made.ram_bytes,
                    "constants": made.flash.constant_bytes,
                    "said": _sum(made.json()),
                    "offsets": _sum(made.offsets),
                    "notes": _sum([each.notes for each in made.models]),
                    "paths": _sum(told),
                    "application": _sum([files[path] for path in told if path.endswith("app_config.h")]),
                }
    return found


def trials() -> dict[str, Row]:
    """By op and board: the kernels that `gen tune` tries for the op, the trial of each, the images that hold them."""
    found: dict[str, Row] = {}
    for op_class in _LAYERS:
        for place in ("microbit", "mps3-an547"):
            graph, target = sample(op_class, np.random.default_rng(4)), board(place)
            of = tune.layers(graph, target, {op.name: "" for op in graph.ops})
            some = tune.trials(of, {})
            units = (CostUnit.INSTRUCTIONS, CostUnit.CYCLES)
            fewer = [tune.fitting(layer.measured, most) for layer in of for most in (40, 200, 2000)]
            found[f"{op_class.__name__}, {place}"] = {
                "trials": len(some),
                "left": len(tune.trials(of, {each.key: [k.name for k in each.candidates[1:]] for each in of})),
                "rows": sum(layer.rows for layer in of),
                "constants": sum(each.constant_bytes for each in some),
                "keys": _sum([(each.layer.key, each.kernel.name) for each in some]),
                "images": _sum([len(group) for group in tune.groups(some * 40, target)]),
                "fewer": _sum([[str(tensor.type) for tensor in node.inputs] for node in fewer]),
                **{
                    unit.value: float(f"{sum(e.layer.predicted(e.kernel, target.spec.cpu, unit) for e in some):.8g}")
                    for unit in units
                    if target.spec.cpu == "cortex-m0" or unit is CostUnit.INSTRUCTIONS
                },
            }
            if place == "mps3-an547" and some:
                made = tune.image(some[:3], target)
                held = [data for path, data in sorted(made.items()) if path.endswith(("plan.json", "constants.bin"))]
                found[f"{op_class.__name__}, {place}"] = {
                    **found[f"{op_class.__name__}, {place}"],
                    "files": len(made),
                    "held": _sum([data.replace(__version__.encode(), b"VERSION") for data in held]),
                }
    return found


def cores() -> dict[str, Row]:
    """By random graph and number of cores: on how many each step runs, of ops that take long."""
    found: dict[str, Row] = {}
    for seed in range(_GRAPHS):
        graph, _ = passes.run(random_graph(seed))
        problem = lower(graph, stages(graph, Machine.of("cortex-m4f")), None)
        costs = {op.name: (250.0, 400.0, 1000.0)[i % 3] for i, op in enumerate(problem.ops)}
        problem = replace(problem, ops=tuple(replace(op, row_cost=costs[op.name]) for op in problem.ops), blocks=())
        plan = make_plan(problem)
        row: dict[str, float] = {}
        for most in (2, 3):
            steps = [step.cores for step in divided(problem, plan, most).steps]
            row |= {f"{most} cores": sum(steps), f"steps of {most}": _sum(steps)}
        found[f"{seed:02}"] = {"steps": len(plan.steps), **row}
    return found


def _made() -> Mapping[str, tuple[Imported | Path, str | None, Options]]:
    """Models, boards (None: the library alone, on a Cortex-M4) and options; each option once."""
    digits, window = MODELS / "digits.tflite", Imported(replace(random_net(3), name="window"), {})
    names = tuple(f"class {number}" for number in range(10))
    small = Imported(replace(random_graph(12), name="small"), {})
    alone: dict[str, tuple[Imported | Path, Options]] = {
        "pixels": (digits, Options(pixels=Pixels((12.5,), (64.0,)))),
        "classes": (digits, Options(classes=names, top=3)),
        "native": (digits, Options(native_io=True, caller_arena=True)),
        "hop": (window, Options(hop=Hop(1))),
        "states": (Imported(ring(), {}), Options()),
        "stateless": (Imported(ring(), {}), Options(stateless=True)),
        "flash": (digits, Options(flash_bytes=24_000, smallest_kernels=True)),
        "output": (small, Options(stream_output=True)),
    }
    boards = {
        "marks": ("nrf52840dk", Options()),
        "arena": ("microbit", Options(sram_bytes=1400, goal=Goal.SRAM)),
        "in RAM": ("bluepill-f103c8", Options(weights_in_ram=3000)),
        "fit": ("mps3-an547", Options(sram_bytes=Fit.FIT, one_memory=True)),
        "without": ("native", Options(disabled=frozenset({"fuse-clamp", "fold-pad"}))),
    }
    told = {
        f"alone, {name}": (model, None, replace(options, cpu="cortex-m4f")) for name, (model, options) in alone.items()
    }
    return {**told, **{f"{place}, {name}": (digits, place, options) for name, (place, options) in boards.items()}}


def choices() -> dict[str, Row]:
    """By option: the report, the notes and the files of a small model that is made with it, or the refusal."""
    found: dict[str, Row] = {}
    for name, (model, place, options) in _made().items():
        try:
            if place is None:
                planned, files = build.alone(model, options)
            else:
                energy = Energy.MARKS if place == "nrf52840dk" else Energy.NONE
                planned, files = build.firmware(model, board(place), options, energy=energy)
        except ShoehornError as refusal:
            found[name] = {"refused": _sum(str(refusal))}
            continue
        unit = planned.unit
        own = (f"{unit.name}.c", f"{unit.name}.h", "app_config.h", "platformio.ini", "plan.json")
        row = {"notes": _sum(planned.notes), "arena": unit.plan.arena_bytes, "constants": planned.constants.bytes}
        for path, data in files.items():
            if Path(path).name in own:
                row[Path(path).name] = zlib.crc32(data.replace(__version__.encode(), b"VERSION"))
        found[name] = {
            **row,
            "report": _sum(timeless(planned.report)),
            "files": len(files),
            "map": _sum(memory_map(unit)),
        }
    return found


TABLES: Mapping[str, Callable[[], Mapping[str, Row]]] = {
    "pipelines": pipelines,
    "together": together,
    "trials": trials,
    "cores": cores,
    "choices": choices,
}
