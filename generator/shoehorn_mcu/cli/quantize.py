"""`gen quantize`: an int8 .onnx from a float32 model and samples, and how well it follows the original."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.cli.console import emit_json, is_verbose, out, output_options, path_option, print_notes, print_table
from shoehorn_mcu.cli.options import shape_option
from shoehorn_mcu.cli.page import progress
from shoehorn_mcu.firmware.kept_cost import Cost, Costs, costs
from shoehorn_mcu.machine import targets
from shoehorn_mcu.quantisation import Bits, Gain, Kept, Method, Quantized, Settings, quantize_model, write
from shoehorn_mcu_host.base.words import counted

_MOST_TENSORS = 12  # lines of the table without -v


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@path_option(
    "--data",
    required=True,
    metavar="X.npz|FOLDER",
    help="Samples: an array per input, or a folder of .npy files with one sample each.",
)
@click.option(
    "--method",
    type=click.Choice([method.value for method in Method]),
    default=Method.MINMAX.value,
    show_default=True,
    help="How the range of an activation is found: all values, least entropy, 99.999 % of values, least squared error.",
)
@click.option(
    "--bits",
    type=click.Choice([bits.value for bits in Bits]),
    default=Bits.EIGHT.value,
    show_default=True,
    help="Bits. 8: activations and weights have 8; 16x8: activations 16, weights 8; 4w: activations 8, weights 4.",
)
@click.option(
    "--keep-float",
    multiple=True,
    metavar="OP",
    help="Compute this op in float32; name it, or the tensor that it writes. Repeatable.",
)
@click.option(
    "--keep-int16",
    multiple=True,
    metavar="OP",
    help="Round the result of this op, or this input, to 16 bits. Named as with --keep-float; repeatable.",
)
@click.option(
    "--board",
    "board_id",
    metavar="BOARD",
    help="Also plan for this board, and say what ops with more bits would cost there in SRAM and time.",
)
@path_option(
    "--labels",
    metavar="Y",
    help="The class of each sample, .npy or .npz; top-1 accuracy is then measured before and after.",
)
@shape_option
@path_option("-o", "--out", "target", metavar="OUT.onnx", help="The file to write. Default: ./<model>-int8.onnx.")
@output_options
def quantize(
    model: Path,
    data: Path,
    method: str,
    bits: str,
    keep_float: tuple[str, ...],
    keep_int16: tuple[str, ...],
    board_id: str | None,
    labels: Path | None,
    shapes: dict[str, tuple[int, ...]],
    target: Path | None,
    as_json: bool,
) -> None:
    """Quantises a float32 model to int8 with samples, and compares each tensor with the original.

    MODEL is an .onnx or .tflite, or one of PyTorch: .pt2, or TorchScript in .pt, .pth or .ts.
    """
    target = target or Path(f"{model.stem}-int8.onnx")
    if target.suffix.lower() != ".onnx":
        raise click.BadParameter(f"'{target}' does not end in .onnx", param_hint="--out")
    board = targets.board(board_id) if board_id is not None else None
    settings = Settings(Method(method), keep_float, labels, Bits(bits), keep_int16, shapes)
    with progress("quantising") as say:
        made = quantize_model(model, data, settings, say)
        found = costs(made, board, say) if board is not None else None
    print_notes(made.notes)
    write(made.model, target, model)
    if as_json:
        emit_json({"model": str(target), **quantized_json(made, found)})
        return
    _print(made, found)
    out.say(f"wrote {target}; next: {shlex.join(['gen', 'plan', str(target)])}")


def quantized_json(made: Quantized, found: Costs | None = None) -> Mapping[str, Any]:
    """The facts of a quantisation for `--json`; ratios are in dB."""
    gains: dict[Kept, list[Mapping[str, Any]]] = {kept: [] for kept in Kept}
    for gain, cost in _with_costs(made, found):
        price = None if cost is None else vars(cost)
        gains[gain.kept].append({"op": gain.op, "sqnr_db": gain.sqnr_db, "cost": price})
    return {
        "samples": made.samples,
        "method": made.method.value,
        "equalised_pairs": made.equalised,
        "corrected_biases": made.bias_corrected,
        "sqnr_db": made.sqnr_db,
        "tensors": [vars(each) for each in made.tensors],
        "kept_float": made.kept_float,
        "kept_int16": made.kept_int16,
        "float_ops": made.float_ops,
        "worth_keeping_float": gains[Kept.FLOAT32],
        "worth_keeping_int16": gains[Kept.INT16],
        "board": None if found is None else {"id": found.board, **vars(found.own)},
        "accuracy": vars(made.accuracy) if made.accuracy else None,
    }


def _with_costs(made: Quantized, found: Costs | None) -> Sequence[tuple[Gain, Cost | None]]:
    """The ops that are worth more bits, and what that costs, if that is known."""
    return found.gains if found is not None else [(gain, None) for gain in made.gains]


def summary(made: Quantized) -> str:
    """One line: the samples, what was corrected, and the ratio of the output that follows least."""
    steps = [f"{counted(made.samples, 'sample')} ({made.method.value})"]
    steps += [f"{counted(made.equalised, 'pair')} of layers equalised"] if made.equalised else []
    steps += [f"{counted(made.bias_corrected, 'bias', 'biases')} corrected"] if made.bias_corrected else []
    return f"{made.bits.title} from {', '.join(steps)}; signal to noise at the output: {made.sqnr_db:.1f} dB"


def _print(made: Quantized, found: Costs | None) -> None:
    """Prints the table of tensors, worst first, then the model's figures."""
    shown = made.tensors if is_verbose() else made.tensors[:_MOST_TENSORS]
    rows = [(each.tensor, each.op or "input", f"{each.sqnr_db:.1f}", f"{each.own_sqnr_db:.1f}") for each in shown]
    print_table(("tensor", "op", "SQNR, dB", "own, dB"), rows, right=(2, 3), fold=0)
    if len(shown) < len(made.tensors):
        out.print(f"the {len(shown)} worst of {len(made.tensors)} tensors; -v lists all")
    if found is not None:
        out.say(f"on {found.board}: {_figures(found.own)}")
    for gain, cost in _with_costs(made, found):
        option = f"--keep-{gain.kept.option} {shlex.quote(gain.op)}"
        more = "" if cost is None else f"; {_figures(cost)}"
        out.say(f"with {option}: {gain.sqnr_db:.1f} dB at the output{more}")
    if made.float_ops:
        out.say(f"computed in float32: {', '.join(made.float_ops)}")
    out.say(summary(made))
    if right := made.accuracy:
        before, after = (100 * count / right.samples for count in (right.before, right.after))
        out.print(f"top-1 of {right.samples} samples: {before:.1f} % in float32, {after:.1f} % in {made.bits.title}")


def _figures(cost: Cost) -> str:
    """An arena and a time, or why there is no plan."""
    if cost.refused:
        return f"no plan: {cost.refused}"
    time = f"{cost.instructions:,} instructions" if cost.cycles is None else f"{cost.cycles:,} cycles"
    return f"arena {cost.arena_bytes:,} bytes, {time} predicted"
