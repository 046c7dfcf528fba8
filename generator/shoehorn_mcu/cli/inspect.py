"""`gen inspect`: what is in a model file, as tables or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from shoehorn_mcu.cli.console import emit_json, is_verbose, out, output_options, print_table
from shoehorn_mcu.cli.options import shape_option
from shoehorn_mcu.cli.page import write_html
from shoehorn_mcu.inspect.inspection import Inspection, Kind, inspect_file, layer_cells, number, to_json, type_text
from shoehorn_mcu.inspect.page import inspection_page

_MOST_OPS = 30  # lines of the table of ops; of more, those with the most activations are shown
_SHOWN = 20
_MOST_REASONS = 3  # of a kind of op
_FEW = 6  # lines of what cannot run
_OPS = ("op", "kind", "output", "scale, zero", "scales", "MACs", "weights", "activations")
_KINDS = ("kind", "ops", "MACs", "weights", "cannot run")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@shape_option
@click.option(
    "--slide",
    "hop",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show what the model computes and keeps if N new rows of its window arrive per inference.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page with all of this and a drawing of the graph.",
)
@output_options
def inspect(
    model: Path, shapes: Mapping[str, tuple[int, ...]], hop: int | None, html: Path | None, as_json: bool
) -> None:
    """Shows what is in MODEL, whether it can run or not: its ops, one by one and by kind, and what stops it.

    If the model can run, the table has the ops as imported, with Shoehorn's names; else it has the ops of the file.
    `scales` is the number of an op's weight scales, `weights` the bytes of its constants, and `activations` the bytes
    in memory while it runs, with whole tensors and in the file's order; `gen plan` needs less. `?` means that a value
    is not known, because ops after one that cannot run are not always examined.
    """
    found = inspect_file(model, shapes, hop)
    if html is not None:
        write_html(html, inspection_page(found))
    if as_json:
        emit_json(to_json(found))
        return
    _print_ends(found)
    _print_ops(found)
    _print_kinds(found)
    _print_total(found)
    _print_slide(found)


def _print_slide(found: Inspection) -> None:
    """What new rows only would save, or for the rows that were named what each choice of kept rows takes."""
    if found.hint:
        out.say(f"hint: {found.hint}")
    if (slide := found.slide) is None:
        return
    whole = slide.macs_whole_window
    rows = [(f"{c.macs:,}", f"{whole / max(1, c.macs):.2f}", f"{c.state_bytes:,}") for c in slide.choices]
    title = f"{slide.hop_rows} new of {slide.window_rows} rows per inference, {whole:,} MACs a window"
    print_table(("MACs", "times fewer", "bytes kept"), rows, title=title, right=(0, 1, 2), fold=0)


def _print_ends(found: Inspection) -> None:
    for role, ends in (("input", found.inputs), ("output", found.outputs)):
        for end in ends:
            quant = "" if end.scale is None else f", scale {end.scale:.9g}, zero point {end.zero_point}"
            out.say(f"{role} {end.name}: {type_text(end)}{quant}")


def _print_ops(found: Inspection) -> None:
    """All ops, or of very many those with the most activations."""
    layers = found.layers
    heavy = sorted(range(len(layers)), key=lambda i: -(layers[i].live_bytes or 0))[:_SHOWN]
    few = is_verbose() or len(layers) <= _MOST_OPS
    shown = layers if few else [layers[i] for i in sorted(heavy)]
    print_table(_OPS, [layer_cells(layer) for layer in shown], right=(4, 5, 6, 7), fold=0, spare=4)
    if len(shown) < len(layers):
        out.say(f"the {len(shown)} of {len(layers)} ops with the most activations; -v lists all")


def _print_kinds(found: Inspection) -> None:
    """Ops by kind, and for each that cannot run why, and what could replace it."""
    refused = [kind for kind in found.kinds if kind.refused]
    columns = len(_KINDS) if refused else len(_KINDS) - 1
    out.print()
    print_table(_KINDS[:columns], [_kind_cells(kind)[:columns] for kind in found.kinds], right=(1, 2, 3, 4), fold=0)
    for kind in refused:
        reasons = list(kind.reasons if is_verbose() else kind.reasons[:_MOST_REASONS]) or ["no kernel for it"]
        if (more := len(kind.reasons) - len(reasons)) > 0:
            reasons.append(f"{more} other reasons (-v)")
        instead = f"; in its place: {kind.replacement}" if kind.replacement else ""
        out.say(f"  {kind.op}: {'; '.join(reasons)}{instead}")


def _kind_cells(kind: Kind) -> tuple[str, ...]:
    return kind.op, str(kind.count), number(kind.macs), f"{kind.weight_bytes:,}", str(kind.refused or "")


def _print_total(found: Inspection) -> None:
    peak = found.peak
    most = f"activations up to {peak.live_bytes:,} bytes, in {peak.name}" if peak else "activations not known"
    total = f"{len(found.layers)} ops, {number(found.macs)} MACs, weights {found.weight_bytes:,} bytes"
    out.say(f"\n{found.name}: {total}, {most}")
    if not found.refused:
        out.say("all of it can run")
        return
    diagnosis = f": {found.diagnosis}" if found.diagnosis else ""
    out.say(f"cannot run{diagnosis}")
    lines = found.refused if is_verbose() else found.grouped[:_FEW]
    for line in lines:
        out.say(f"  {line}")
    if not is_verbose() and (more := len(found.grouped) - len(lines)):
        out.say(f"  {more} other reasons; -v lists all")
