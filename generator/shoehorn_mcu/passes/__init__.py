"""Graph to graph, exactly: every pass keeps every output bit, and its docstring shows before (>) and after (<)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from shoehorn_mcu.base.errors import ShoehornError, did_you_mean
from shoehorn_mcu.ir import DType, Graph, verify
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.passes.drop_dead import drop_dead
from shoehorn_mcu.passes.drop_views import drop_views
from shoehorn_mcu.passes.fold_affine import fold_affine
from shoehorn_mcu.passes.fold_constant_channels import fold_constant_channels
from shoehorn_mcu.passes.fold_dilation import fold_dilation
from shoehorn_mcu.passes.fold_pad import fold_pad
from shoehorn_mcu.passes.fold_shuffle import fold_shuffle
from shoehorn_mcu.passes.fold_transpose import fold_transpose
from shoehorn_mcu.passes.fuse_clamp import fuse_clamp
from shoehorn_mcu.passes.fuse_maps import fuse_maps
from shoehorn_mcu.passes.fuse_shuffle import fuse_shuffle
from shoehorn_mcu.passes.fuse_tables import fuse_tables
from shoehorn_mcu.passes.insert_slices import insert_slices
from shoehorn_mcu.passes.join_siblings import join_siblings
from shoehorn_mcu.passes.lift_quantize import lift_quantize
from shoehorn_mcu.passes.lift_transposes import lift_transposes
from shoehorn_mcu.passes.merge_equal import merge_equal
from shoehorn_mcu.passes.merge_transposes import merge_transposes
from shoehorn_mcu.passes.row_per_pixel import row_per_pixel
from shoehorn_mcu.passes.share_rows import share_rows
from shoehorn_mcu.passes.sink_transposes import sink_transposes
from shoehorn_mcu.passes.sink_views import sink_views
from shoehorn_mcu.passes.sum_rows import sum_rows
from shoehorn_mcu.passes.turn_states import turn_states
from shoehorn_mcu.passes.widen_depthwise import widen_depthwise
from shoehorn_mcu.passes.zero_constant_channels import zero_constant_channels


class PassError(ShoehornError):
    """The user named a pass that does not exist."""

    kind = "unknown-pass"


class TensorError(ShoehornError):
    """The user named a tensor that no op writes."""

    kind = "unknown-tensor"


class OverflowFault(ShoehornError):
    """An int32 sum could overflow for some input; the message names the op and the tensor."""

    kind = "int32-overflow"


@dataclass(frozen=True)
class Pass:
    """A graph rewrite and the name that `--disable` takes."""

    name: str
    rewrite: Callable[[Graph], Graph]


@dataclass(frozen=True)
class PassRecord:
    """The changes that a pass made, as in report.json."""

    name: str
    ops_before: int
    ops_after: int
    macs_before: int
    macs_after: int


SIMPLIFYING: tuple[Pass, ...] = (
    Pass("drop-dead", drop_dead),  # first: an unneeded reader would stop the other passes
    Pass("fold-dilation", fold_dilation),  # before transposes move: it looks for those that make blocks
    Pass("lift-quantize", lift_quantize),  # before passes that look for ops next to each other
    Pass("lift-transposes", lift_transposes),
    Pass("merge-transposes", merge_transposes),
    Pass("fold-transpose", fold_transpose),
    Pass("fuse-shuffle", fuse_shuffle),
    Pass("fold-shuffle", fold_shuffle),
    Pass("sink-transposes", sink_transposes),  # only those that the passes before it leave
    Pass("drop-views", drop_views),
    Pass("merge-equal", merge_equal),
    Pass("fold-affine", fold_affine),
    Pass("fold-pad", fold_pad),
    Pass("fuse-clamp", fuse_clamp),
    Pass("join-siblings", join_siblings),  # their pads and clamps are in them
    Pass("fuse-maps", fuse_maps),
    Pass("fuse-tables", fuse_tables),
    Pass("row-per-pixel", row_per_pixel),
    Pass("sink-views", sink_views),  # after maps are one: fewer ops between two views
    # After the passes that fold pads and clamps into convolutions.
    Pass("zero-constant-channels", zero_constant_channels),
    Pass("fold-constant-channels", fold_constant_channels),
    Pass("widen-depthwise", widen_depthwise),  # the passes before it may leave a single channel
)
"""Those that leave ops of model files alone. Behind them `--slide` rewrites windows (ends/slide.py)."""

BY_ROWS: tuple[Pass, ...] = (
    Pass("sum-rows", sum_rows),  # no pass before knows its ops
    Pass("turn-states", turn_states),  # before rows are shared: it looks for a concatenation
    Pass("share-rows", share_rows),  # no pass before asks whether rows are shared
    Pass("insert-slices", insert_slices),  # behind it: other ops cannot read parts of rows that share-rows moves
)
"""Those that ask which rows are read."""

PIPELINE: tuple[Pass, ...] = (*SIMPLIFYING, *BY_ROWS)


CHOICES: Mapping[str, str] = {
    "pre-pack-weights": "lays constants out as the chosen kernel loads them",
    "toom-cook": "computes convolutions by fewer products, of transformed weights, where flash and scratch allow it",
    "overwrite-inputs": "lets a row be written over one that is read for the last time to compute it",
    "slide": "lets the second model of a pipeline compute only what new slices change",
}
"""What `--disable` takes besides: not rewrites of the graph, but what the choice of kernels and the planner may do."""

FOLDING = "fold-constants"
_ALWAYS = {
    FOLDING: "importers need the values of what does not depend on the inputs",
    "hoist-parameters": "parameters are packed when the firmware is made, the chip has no code that could",
}


def folding(graph: Graph, folded: int) -> PassRecord:
    """The record of an import that made constants of the results of so many ops."""
    return PassRecord(FOLDING, len(graph.ops) + folded, len(graph.ops), graph.macs, graph.macs)


def run(
    graph: Graph,
    disabled: frozenset[str] = frozenset(),
    preserve: tuple[str, ...] = (),
    which: tuple[Pass, ...] = PIPELINE,
) -> tuple[Graph, list[PassRecord]]:
    """The graph after every pass of `which` that is not disabled, verified after each, and a report of each pass.

    Tensors named in `preserve` become outputs after the model's own. `disabled` may also name CHOICES, which are made
    later. Raises PassError or TensorError for unknown names.
    """
    names = [*(p.name for p in PIPELINE), *CHOICES]
    for name in sorted(disabled & set(_ALWAYS)):
        raise PassError(f"{name} cannot be disabled: {_ALWAYS[name]}; leave it out")
    if unknown := sorted(disabled - set(names)):
        cure = did_you_mean(unknown[0], names, f"the passes are {', '.join(names)}")
        raise PassError(f"no pass is called '{unknown[0]}'; {cure}")
    graph = verify(_preserved(graph, preserve))
    records = []
    for each in which:
        if each.name in disabled:
            continue
        with np.errstate(all="ignore"):  # passes look at what they compute of constants
            after = verify(each.rewrite(graph))
        records.append(PassRecord(each.name, len(graph.ops), len(after.ops), graph.macs, after.macs))
        graph = after
    return graph, records


def _preserved(graph: Graph, preserve: tuple[str, ...]) -> Graph:
    """The graph with these tensors as further outputs."""
    written = [op.output for op in graph.ops]
    for name in preserve:
        if name not in written:
            cure = did_you_mean(name, written, f"the last op writes {written[-1]!r}")
            raise TensorError(f"{graph.name}: no op writes a tensor called '{name}'; {cure}")
    added = dict.fromkeys(n for n in preserve if n not in graph.outputs)
    return replace(graph, outputs=(*graph.outputs, *added))


def prove_int32(graph: Graph) -> Graph:
    """The graph itself; OverflowFault unless every op's int32 arithmetic is proven exact for every input.

    Called after the passes, for models of every importer: passes replace constant channels, which then cannot overflow.
    """
    for node in graph.nodes():
        if node.output.type.dtype is not DType.FLOAT32 and (why := node.op.overflow(node)) is not None:
            raise OverflowFault(
                f"{graph.name}: op '{node.op.name}' writing {quoted(node.output.name)}: {why}; quantise it again"
            )
    return graph
