"""The page of `gen inspect --html`: what the command prints, as one self-contained page, and the graph drawn."""

from __future__ import annotations

from collections.abc import Iterator

from shoehorn_mcu.emit.page import plain_page
from shoehorn_mcu.emit.page.graph import END, FAULT, Item, drawing
from shoehorn_mcu.emit.page.parts import figure_list, middle, prose, table
from shoehorn_mcu.importers.source import SourceTensor
from shoehorn_mcu.inspect.inspection import Inspection, layer_cells, number, quantisation, type_text

_OPS = ("Operator", "Kind", "Output", "Scale, zero point", "Scales", "MACs", "Weights, bytes", "Activations, bytes")
_KINDS = ("Kind", "Why it cannot run", "In its place", "Operators", "Cannot run", "MACs", "Weights, bytes")


def inspection_page(found: Inspection) -> str:
    """The page as text; equal arguments give equal text."""
    return plain_page(found.name, "model", "".join(_sections(found)))


def _sections(found: Inspection) -> Iterator[str]:
    yield f'<dl class="figures">{_figures(found)}</dl>'
    if found.refused:
        said = "".join(f"<li>{prose(line)}</li>" for line in (*filter(None, [found.diagnosis]), *found.refused))
        yield f'<section><h2>Cannot run</h2><ul class="plain">{said}</ul></section>'
    ends = [
        (role, end.name, type_text(end), quantisation(end))
        for role, each in (("input", found.inputs), ("output", found.outputs))
        for end in each
    ]
    yield _section("Inputs and outputs", table(("", "Name", "Type", "Scale, zero point"), ends, words=4))
    yield _section("Kinds of operators", table(_KINDS, map(tuple, _kinds(found)), words=3))
    yield _section(
        "Operators",
        table(_OPS, ((middle(name), *rest) for name, *rest in map(layer_cells, found.layers)), words=4),
        "tall",
    )
    yield _section("Graph", drawing(_items(found), len(found.layers)), "tall")


def _section(title: str, inside: str, more: str = "") -> str:
    return f'<section><h2>{title}</h2><div class="scroll {more}">{inside}</div></section>'


def _figures(found: Inspection) -> str:
    peak = found.peak
    rows = (
        ("MACs", number(found.macs), f"{len(found.layers)} operators"),
        ("Weights", f"{found.weight_bytes:,} bytes", "constants"),
        (
            "Activations",
            f"{number(peak.live_bytes if peak else None)} bytes",
            f"at most, in {peak.name}" if peak else "",
        ),
        ("Runs", "no" if found.refused else "yes", "what stops it is below" if found.refused else ""),
    )
    return figure_list(rows)


def _kinds(found: Inspection) -> Iterator[list[str]]:
    for kind in found.kinds:
        reasons = "; ".join(kind.reasons) or ("no kernel for it" if kind.refused else "")
        figures = (str(kind.count), str(kind.refused or ""), number(kind.macs), f"{kind.weight_bytes:,}")
        yield [kind.op, reasons, kind.replacement, *figures]


def _items(found: Inspection) -> list[Item]:
    results = {end.name for end in found.outputs}
    items = [
        Item((end.name,), (), f"input  {middle(end.name)}  {type_text(end)}", _told(end), END) for end in found.inputs
    ]
    for layer in found.layers:
        written = f"  {type_text(layer.output)}" if layer.output else ""
        result = not results.isdisjoint(layer.writes)
        mark = FAULT if layer.refusal is not None else END if result else ""
        text = f"{layer.kind}  {middle(layer.name)}{written}{', result' if result else ''}"
        lines = [f"reads {name}" for name in layer.reads] + ([f"writes {_told(layer.output)}"] if layer.output else [])
        refused = [f"cannot run: {layer.refusal or 'no kernel for it'}"] if layer.refusal is not None else []
        items.append(Item(layer.writes, layer.reads, text, "\n".join(lines + refused), mark))
    return items


def _told(end: SourceTensor) -> str:
    scale = quantisation(end)
    return f"{end.name}: {type_text(end)}{f', scale and zero point {scale}' if scale else ''}"
