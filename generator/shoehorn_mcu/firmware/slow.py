"""What of a quantised model is slower or larger than its file looks, in sentences: nothing is slow in silence.

`gen plan`, `gen firmware`, report.json and the page all say what is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.firmware.report import Json
from shoehorn_mcu.importers import Imported, InFloat
from shoehorn_mcu.importers.fault import without_names
from shoehorn_mcu.ir import DType, Graph, is_a
from shoehorn_mcu.kernels import row_cost
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Table
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.ops.linear import LinearOp
from shoehorn_mcu.schedule.predict import unit_of
from shoehorn_mcu.schedule.stage import Stage

_MOST_REASONS = 3  # in a sentence
_MOST_NAMED = 2  # ops of one reason
_WIDE = "linear_s8_w16"  # the contract of linear ops whose weights less their zero point need nine bits
_MOST_PORTABLE = 0.05  # of the predicted time: what an int8 op may take in portable C without being named
_LINEAR = "convolutions, dense layers and products of matrices"


def slow_parts(model: Imported, graph: Graph, stages: Sequence[Stage], planned: Sequence[Stage]) -> Sequence[Json]:
    """The entry `slow` of the report: an object with a `sentence` for each kind; none where there is nothing to say.

    `graph`: the model's after the passes; `stages` are its own, `planned` those of the plan, some with faster kernels.
    """
    linear, count = model.in_float, model.quantised_linear
    others = [each for each in model.others_in_float if not _is_table(each, graph)]
    other = "other " if linear else ""
    ops = f"quantised {'op' if len(others) == 1 else 'ops'} of this model"
    return [
        *_in_float("float32", linear, f"{len(linear)} of {count} {_LINEAR} of this quantised model", "", {"of": count}),
        *_in_float("float32-others", others, f"{len(others)} {other}{ops}", " between conversions", {}),
        *_wide(stages),
        *_portable(planned),
    ]


def _is_table(op: InFloat, graph: Graph) -> bool:
    """Whether passes made the op a table of bytes, or dropped it: nothing is left of it that computes in float32.

    A pipeline has copies of its first model's ops, with numbers behind their names.
    """
    copies = tuple(f"{name}_" for name in op.made)
    left = (each for each in graph.ops if each.name in op.made or each.name.startswith(copies))
    return all(isinstance(each, Table) for each in left)


def _in_float(kind: str, found: Sequence[InFloat], ops: str, how: str, more: Json) -> Iterator[Json]:
    """Quantised ops that compute in float32, by reason, the most frequent first; `ops`: how many, in words."""
    if not found:
        return
    groups = by_key((without_names(each.reason), each) for each in found)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    why = [f"{reason} ({_named(ops)})" for reason, ops in ordered[:_MOST_REASONS]]
    if rest := sum(len(ops) for _, ops in ordered[_MOST_REASONS:]):
        why.append(f"{rest} for other reasons, which report.json has")
    verb = "compute" if len(found) > 1 else "computes"
    yield {
        "kind": kind,
        "sentence": f"{ops} {verb} in float32{how}: {'; '.join(why)}",
        "count": len(found),
        **more,
        "reasons": [{"reason": reason, "ops": [each.name for each in ops]} for reason, ops in ordered],
    }


def _named(ops: Sequence[InFloat]) -> str:
    """How many, and the first of them."""
    names = ", ".join(f"{each.kind} {quoted(each.name)}" for each in ops[:_MOST_NAMED])
    return f"{len(ops)}: {names}, ..." if len(ops) > _MOST_NAMED else names


def _wide(stages: Sequence[Stage]) -> Iterator[Json]:
    """Linear ops whose weights take two bytes each."""
    linear = {stage: stage.node for stage in stages if is_a(stage.node, LinearOp)}
    wide = [stage for stage in linear if stage.kernel.contract.name == _WIDE]
    if not wide:
        return
    more = sum(linear[stage].weights.type.bytes // 2 for stage in wide)
    their = "their weights have zero points" if len(wide) > 1 else "its weights have a zero point"
    take = "take" if len(wide) > 1 else "takes"
    yield {
        "kind": "wide-weights",
        "sentence": f"{len(wide)} of {len(linear)} convolutions and dense layers {take} two bytes for each weight, "
        f"{more:,} bytes more, and portable C, because {their}: symmetric weights take one byte",
        "count": len(wide),
        "of": len(linear),
        "bytes": more,
        "ops": [stage.name for stage in wide],
    }


def _portable(stages: Sequence[Stage]) -> Iterator[Json]:
    """Ops on int8 that take a good part of the predicted time in portable C, though their core has instructions that
    other kernels use."""
    unit = unit_of(stages)
    times = {s: s.node.output.type.rows * row_cost(s.kernel, s.node, s.machine.cpu, unit) for s in stages}
    total = sum(times.values())
    found = [
        stage
        for stage, time in times.items()
        if stage.kernel.variant.isa is Isa.C and len(stage.machine.isas) > 1 and time > _MOST_PORTABLE * total
        if stage.node.output.type.dtype is DType.INT8
    ]
    if not found:
        return
    shares = {stage: round(100 * times[stage] / total) for stage in found}
    longest = sorted(found, key=lambda stage: -times[stage])
    named = ", ".join(f"{quoted(s.name)} by {s.kernel.name}: {shares[s]} %" for s in longest[:_MOST_NAMED])
    more = ", ..." if len(found) > _MOST_NAMED else ""
    take = "ops compute" if len(found) > 1 else "op computes"
    yield {
        "kind": "portable-c",
        "sentence": f"{len(found)} {take} in portable C, though the core has instructions that other kernels use, and "
        f"{'take' if len(found) > 1 else 'takes'} {sum(shares.values())} % of the predicted time ({named}{more})",
        "count": len(found),
        "ops": [{"name": s.name, "kernel": s.kernel.name, "percent": shares[s]} for s in longest],
    }
