"""The report of a run, for `report.json` and `--json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoehorn_mcu.ir import DType, Graph
from shoehorn_mcu.kernels import Instance
from shoehorn_mcu.kernels.choice import choices_on, with_scratch
from shoehorn_mcu.kernels.cost import Unit
from shoehorn_mcu.kernels.linear.toom_cook import CHOICE as TOOM_COOK
from shoehorn_mcu.machine.memories import name_of
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.passes import PassRecord
from shoehorn_mcu.planner.memory_plan import Plan, Status
from shoehorn_mcu.schedule import predict
from shoehorn_mcu.schedule.stage import Stage

Json = Mapping[str, object]


def _ends(graph: Graph, names: Sequence[str]) -> list[Json]:
    types = ((name, graph.tensors[name].type) for name in names)
    return [{"name": name, "shape": list(type_.shape), "dtype": type_.dtype.value} for name, type_ in types]


def _states(graph: Graph) -> list[Json]:
    """The tensors that keep their values between inferences, as inputs, with the tensors of their next values."""
    ends = _ends(graph, [state.read for state in graph.states])
    sizes = (graph.tensors[state.read].type.bytes for state in graph.states)
    return [
        {**end, "bytes": size, "next": state.write} for end, size, state in zip(ends, sizes, graph.states, strict=True)
    ]


def _model(graph: Graph) -> Json:
    """The imported model, before the passes."""
    used = {name for op in graph.ops for name in op.inputs}
    return {
        "name": graph.name,
        "ops": len(graph.ops),
        "macs": graph.macs,
        "weight_bytes": sum(graph.tensors[n].type.bytes for n in used if graph.tensors[n].data is not None),
        "inputs": _ends(graph, graph.inputs),
        "outputs": _ends(graph, graph.outputs),
        **({"states": _states(graph)} if graph.states else {}),
    }


def _is_real(graph: Graph) -> bool:
    """Whether an op computes on float32."""
    return any(n.inputs[0].type.dtype is n.output.type.dtype is DType.FLOAT32 for n in graph.nodes())


def _board(board: Board | None) -> Json | None:
    if board is None:
        return None
    return {
        "id": board.id,
        "cpu": board.spec.cpu,
        "isa": board.isa.value,
        "sram_bytes": board.spec.sram_bytes,
        "flash_bytes": board.spec.flash_bytes,
        "arena_limit_bytes": board.arena_limit_bytes,
    }


def _memories(plan: Plan, stages: Sequence[Stage], board: Board | None) -> Json:
    """What is in each memory, and how long the core waits for them; nothing where a plan is for one memory."""
    if not plan.memories:
        return {}
    arenas = plan.arenas
    return {
        "memories": [
            {
                "name": name_of(memory.name, board),
                "arena_bytes": arenas.get(memory.name, 0),
                "available_bytes": memory.bytes,
                "read_cycles": memory.read_cycles,
                "write_cycles": memory.write_cycles,
            }
            for memory in plan.memories
        ],
        "divided_tensors": list(dict.fromkeys(placed.tensor for placed in plan.placements if placed.memories)),
        "predicted_waits": predict.waits(plan, stages),
        "least_waits": plan.outcome.least_waits,
    }


def _plan(plan: Plan, stages: Sequence[Stage], board: Board | None) -> Json:
    rows, _ = predict.rows_and_steps(plan)
    done = sum(stage.macs * rows[stage.name] // stage.node.output.type.rows for stage in stages)
    needed = sum(stage.macs for stage in stages)
    smaller, again = plan.outcome.smaller, plan.outcome.again
    return {
        "arena_bytes": plan.arena_bytes,
        "arena_bound_bytes": plan.outcome.bound_bytes,
        "arena_bound_of": plan.outcome.bound_of,
        "proven_optimal": plan.outcome.status is Status.OPTIMAL,
        **({} if again is None else {"again": {**vars(again), "of": again.of}}),
        "smaller": None if smaller is None else vars(smaller),
        "whole_tensor_bytes": plan.outcome.whole_tensor_bytes,
        "macs": done,
        "recomputed_macs": done - needed,
        "predicted_instructions": predict.instructions(plan, stages),
        "predicted_cycles": predict.cycles(plan, stages),
        **_memories(plan, stages, board),
        **({"cores": plan.cores} if plan.cores > 1 else {}),
        "blocks": [{"block": c.block, "chunks": c.chunks, "band_rows": c.band} for c in plan.cascades],
        "steps": len(plan.steps),
        "transposes": sum(stage.kernel.contract.name == "transpose" for stage in stages),
        "status": plan.outcome.status.value,
        "reason": plan.outcome.reason,
        "solve_seconds": round(plan.outcome.solve_seconds, 3),
    }


def _is_toom_cook(kernel: Instance) -> bool:
    return kernel.variant.choice == TOOM_COOK


def _may_be_toom_cook(stage: Stage) -> bool:
    """Whether a kernel of that kind computes the op, room for it or not; quicker than timing all of them."""
    return any(map(_is_toom_cook, choices_on(stage.node, stage.machine)))


def _choices(stages: Sequence[Stage]) -> list[Json]:
    """What the choices of passes.CHOICES did: bytes of constants before and after they were packed; the ops that found
    no flash or no scratch for transformed weights (`without_room`).
    """
    packed = {stage: size for stage in stages if (size := stage.plain_bytes) is not None}
    over = sum(stage.in_place is not None or stage.behind is not None for stage in stages)
    sizes = {"bytes_before": sum(packed.values()), "bytes_after": sum(stage.packed_bytes for stage in packed)}
    kernels = [stage.kernel for stage in stages]
    others = (stage for stage in stages if not _is_toom_cook(stage.kernel) and _may_be_toom_cook(stage))
    refused = [stage for stage in others if any(map(_is_toom_cook, with_scratch(stage.node, stage.machine)))]
    return [
        {"name": "pre-pack-weights", "ops": len(packed), **sizes},
        {"name": TOOM_COOK, "ops": sum(map(_is_toom_cook, kernels)), "without_room": len(refused)},
        {"name": "overwrite-inputs", "ops": over},
    ]


def report(
    source: Graph,
    board: Board | None,
    passes: Sequence[PassRecord],
    plan: Plan,
    stages: Sequence[Stage],
    flash_bytes: tuple[int, int, int | None],
    float_mode: str = "precise",
    slow: Sequence[Json] = (),
) -> Json:
    """The object of report.json; `firmware` is null in each field until the folder has been built.

    `float` is there if an op computes on float32; `fused` says whether products and their additions are rounded once.
    Its `validated` is null until `gen validate` has compared `relaxed` or `half` with precise on given inputs.
    `flash_bytes`: constants, estimated code, and the flash available; None without a board or a limit. `transposes` of
    the plan are ops of an inference that move elements to another order of dimensions. `slow` is there if part of a
    quantised model is slower or larger than its file looks.
    """
    return {
        "model": _model(source),
        "board": _board(board),
        "passes": [vars(record) for record in passes],
        "choices": _choices(stages),
        "plan": _plan(plan, stages, board),
        "ops": [
            {
                "name": stage.name,
                "kernel": stage.kernel.name,
                "macs": stage.macs,
                "weight_bytes": stage.weight_bytes,
                "predicted_instructions": round(instructions),
            }
            for stage, instructions in zip(stages, predict.by_op(plan, stages, Unit.INSTRUCTIONS), strict=True)
        ],
        **({"float": {"mode": float_mode, "fused": _is_fused(stages), "validated": None}} if _is_real(source) else {}),
        **({"slow": list(slow)} if slow else {}),
        **_energy(board, predict.cycles(plan, stages)),
        "flash": dict(zip(("constant_bytes", "code_bytes", "board_bytes"), flash_bytes, strict=True)),
        "firmware": {"ram_bytes": None, "flash_bytes": None, "stack_bytes": None},
    }


def _is_fused(stages: Sequence[Stage]) -> bool:
    return any(getattr(stage.node.computed.op, "fused", False) for stage in stages)


def _energy(board: Board | None, cycles: int | None) -> Json:
    """What an inference draws by the data sheet's current, where the board and its cycles are known."""
    known = board.spec.run_current if board else None
    if known is None or board is None or board.spec.core_hz is None or cycles is None:
        return {}
    drawn = known.microjoules(cycles / board.spec.core_hz)
    return {"energy_estimate": {"total": round(drawn, 3), **known.conditions()}}


def timeless(whole: Mapping[str, object]) -> Json:
    """The report without planning times, for a written folder: equal inputs give equal bytes."""
    plan = whole["plan"]
    assert isinstance(plan, Mapping)
    return {**whole, "plan": {**plan, "solve_seconds": None}}
