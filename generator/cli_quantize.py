"""`gen quantize`: an int8 .onnx from a float32 one and samples, and how well it follows the original."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from shoehorn_mcu.cli_page import progress
from shoehorn_mcu.console import emit_json, is_verbose, out, output_options, print_table
from shoehorn_mcu.quantisation import WEIGHT_BITS, Method, Quantized, Settings, quantize_model, write

_MOST_TENSORS = 12  # lines of the table without -v
_NOT_YET = {"16x8": "ONNX models with 16-bit activations are computed in float32"}


def _bits(_: click.Context, __: click.Parameter, value: str) -> str:
    """Refuses what no kernel computes."""
    if value not in WEIGHT_BITS:
        why = _NOT_YET.get(value)
        raise click.BadParameter(f"'{value}' is not supported{f': {why}' if why else ''}; 8 and 4w are")
    return value


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    metavar="X.npz|FOLDER",
    help="Samples: an array per input, or a folder of .npy files with one sample each.",
)
@click.option(
    "--method",
    type=click.Choice([method.value for method in Method]),
    default=Method.MINMAX.value,
    show_default=True,
    help="How the ranges of activations are found: of all values, by entropy, of 99.999 %, by squared errors.",
)
@click.option(
    "--bits",
    default="8",
    show_default=True,
    callback=_bits,
    metavar="8|4w",
    help="Bits of weights and activations; 4w: weights of 4 bits, activations of 8.",
)
@click.option(
    "--keep-float",
    multiple=True,
    metavar="OP",
    help="Compute this op in float32: its name, or that of the tensor that it writes; repeatable.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="Y",
    help="The class of each sample, .npy or .npz: measures top-1 accuracy before and after.",
)
@click.option(
    "-o",
    "--out",
    "target",
    type=click.Path(path_type=Path),
    metavar="OUT.onnx",
    help="The file to write. Default: ./<model>-int8.onnx.",
)
@output_options
def quantize(
    model: Path,
    data: Path,
    method: str,
    bits: str,
    keep_float: tuple[str, ...],
    labels: Path | None,
    target: Path | None,
    as_json: bool,
) -> None:
    """Quantises a float32 .onnx or .tflite to int8 with samples, and compares each tensor with the original."""
    target = target or Path(f"{model.stem}-int8.onnx")
    if target.suffix.lower() != ".onnx":
        raise click.BadParameter(f"'{target}' does not end in .onnx", param_hint="--out")
    with progress("quantising") as say:
        made = quantize_model(model, data, Settings(Method(method), keep_float, labels, WEIGHT_BITS[bits]), say)
    write(made.model, target, model)
    if as_json:
        emit_json({"model": str(target), **quantized_json(made)})
        return
    _print(made)
    out.print(f"wrote {target}; next: {shlex.join(['gen', 'plan', str(target)])}", soft_wrap=True)


def quantized_json(made: Quantized) -> Mapping[str, Any]:
    """The facts of a quantisation for `--json`; ratios are in dB."""
    return {
        "samples": made.samples,
        "method": made.method.value,
        "equalised_pairs": made.equalised,
        "corrected_biases": made.bias_corrected,
        "sqnr_db": made.sqnr_db,
        "tensors": [vars(each) for each in made.tensors],
        "kept_float": made.kept_float,
        "float_ops": made.float_ops,
        "worth_keeping_float": [vars(gain) for gain in made.gains],
        "accuracy": vars(made.accuracy) if made.accuracy else None,
    }


def summary(made: Quantized) -> str:
    """One line: the samples, what was corrected, and the ratio of the output that follows least."""
    steps = [f"{made.samples} samples ({made.method.value})"]
    steps += [f"{made.equalised} pairs of layers equalised"] if made.equalised else []
    steps += [f"{made.bias_corrected} biases corrected"] if made.bias_corrected else []
    return f"int8 from {', '.join(steps)}; signal to noise at the output: {made.sqnr_db:.1f} dB"


def _print(made: Quantized) -> None:
    """Prints the table of tensors, worst first, then the model's figures."""
    shown = made.tensors if is_verbose() else made.tensors[:_MOST_TENSORS]
    rows = [(each.tensor, each.op or "input", f"{each.sqnr_db:.1f}", f"{each.own_sqnr_db:.1f}") for each in shown]
    print_table(("tensor", "op", "SQNR, dB", "own, dB"), rows, right=(2, 3), fold=0)
    if len(shown) < len(made.tensors):
        out.print(f"the {len(shown)} worst of {len(made.tensors)} tensors; -v lists all")
    for gain in made.gains:
        out.print(f"with --keep-float {shlex.quote(gain.op)}: {gain.sqnr_db:.1f} dB at the output", soft_wrap=True)
    if made.float_ops:
        out.print(f"computed in float32: {', '.join(made.float_ops)}", soft_wrap=True)
    out.print(summary(made), soft_wrap=True)
    if found := made.accuracy:
        before, after = (100 * count / found.samples for count in (found.before, found.after))
        out.print(f"top-1 of {found.samples} samples: {before:.1f} % in float32, {after:.1f} % in int8")
