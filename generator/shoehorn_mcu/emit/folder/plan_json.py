"""plan.json and reference/source.json, for the host tools, human-readable; docs/folder-format.md has their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.emit.unit import Unit, Window
from shoehorn_mcu.ir import FileTensor, Origin, TensorType
from shoehorn_mcu.planner.memory_plan import SRAM, Step


def _ends(unit: Unit, tensors: Sequence[str]) -> list[Mapping[str, object]]:
    found: list[Mapping[str, object]] = []
    for name in tensors:
        type_ = unit.type(name)
        source = unit.in_file.get(name, FileTensor.alike(name, type_))
        found.append({"name": name, **_type(type_), "bytes": type_.bytes, "source": _in_file(source)})
    return found


def _in_file(tensor: FileTensor) -> Mapping[str, object]:
    return {"name": tensor.name, **_type(tensor.type), "order": list(tensor.order)}


def _type(type_: TensorType) -> Mapping[str, object]:
    return {
        "shape": list(type_.shape),
        "dtype": type_.dtype.value,
        "scale": type_.quant.scale if type_.quant else 0.0,
        "zero_point": type_.zero,
    }


def plan_json(unit: Unit, identity: str) -> Mapping[str, object]:
    """The plan without anything that differs between equal runs, such as search time."""
    plan = unit.plan
    index = {stage.name: stage.index for stage in unit.stages}

    def what(step: Step) -> Mapping[str, object]:
        if step.delivers:
            return {"input": 0, "rows": list(step.rows)}
        means = {"editions": dict(step.editions)} if step.editions else {}
        if step.hands_out:
            return {"output": 0, "rows": list(step.rows), **means}
        cores = {"cores": step.cores} if step.cores > 1 else {}
        together = {"rows_per_call": step.rows_per_call} if step.rows_per_call > 1 else {}
        return {"op": index[step.op], "rows": list(step.rows), **means, **cores, **together}

    return {
        "model": unit.name,
        "identity": identity,
        "arena_bytes": plan.arena_bytes,
        **({"other_arenas": dict(plan.other_arenas)} if plan.other_arenas else {}),
        **({"states": [state.read for state in unit.graph.states]} if unit.graph.states else {}),
        **({"classes": list(unit.classes)} if unit.classes else {}),
        **({"sample_hz": unit.sample_hz} if unit.sample_hz else {}),
        **({"slide": _slide(unit.window)} if unit.window else {}),
        "inputs": _ends(unit, unit.graph.inputs),
        "outputs": _ends(unit, unit.graph.outputs),
        "ops": [{"name": s.name, "kernel": s.kernel.name, "output": s.node.output.name} for s in unit.stages],
        "steps": list(map(what, plan.steps)),
        "placements": [
            {
                "tensor": r.tensor,
                "address": r.address,
                "rows": r.rows,
                "row_bytes": r.row_bytes,
                **({"slots": list(r.slots)} if r.slots else {}),
                **({"edition": r.edition} if r.edition else {}),
                **({"memory": r.memory} if r.memory != SRAM else {}),
                **({"memories": list(r.memories)} if r.memories else {}),
            }
            for r in plan.placements
        ],
        "scratch": [
            {
                "op": s.op,
                "address": s.address,
                "bytes": s.bytes,
                **({"memory": s.memory} if s.memory != SRAM else {}),
            }
            for s in plan.scratch
        ],
    }


def _slide(window: Window) -> Mapping[str, object]:
    """The windows that inferences move along."""
    seconds = {} if window.seconds is None else {"seconds": window.seconds}
    return {"window_rows": window.rows, "hop_rows": window.hop, **seconds}


def source_json(origin: Origin) -> Mapping[str, object]:
    """reference/source.json: the model's file, for a comparison with what its own runtime computes."""
    means, deviations = origin.pixels or ((), ())
    return {
        "file": origin.file,
        "sha256": origin.sha256,
        "others": dict(origin.others),
        "why": origin.why,
        "inputs": list(map(_in_file, origin.inputs)),
        "outputs": list(map(_in_file, origin.outputs)),
        "states": dict(origin.states),
        "pixels": {"means": means, "deviations": deviations} if origin.pixels else None,
        "stateless": origin.stateless,
    }
