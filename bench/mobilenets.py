"""MobileNetV2 1.0 224 from PyTorch, from ONNX and from TensorFlow Lite: the arenas, which should be alike.

    python -m bench.mobilenets

Needs torch, and coral-mnv2-tf2-ptq.tflite beside the checkout. The module is tests/torch_models.py's with TensorFlow's
padding; its weights are random, so none of its channels is constant, and the pass that removes those is off. It is
exported as .pt2 and .onnx; `gen quantize` makes an int8 .onnx of the latter, which takes pixels as the .tflite does.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np

from tests.shared import GEN, MODELS

SIDE = 224
SHOWN = (
    ("whole tensors", ()),
    ("smallest", ("--minimize", "sram")),
    ("streamed", ("--minimize", "sram", "--stream-input")),
)
PIXELS = ("--pixels", "127.5/127.5")


def gen(*words: str) -> str:
    """What the command prints."""
    return subprocess.run([*GEN, *words], check=True, capture_output=True, text=True).stdout


def arenas(model: Path, *options: str) -> list[int]:
    """Bytes of the plans of SHOWN."""
    off = ("--disable", "fold-constant-channels")
    plans = [json.loads(gen("plan", str(model), *words, *off, *options, "--json"))["plan"] for _, words in SHOWN]
    return [plans[0]["whole_tensor_bytes"], *(plan["arena_bytes"] for plan in plans[1:])]


def exported(folder: Path) -> tuple[Path, Path]:
    """The module as .pt2 and as .onnx."""
    import torch

    from tests.torch_models import MobileNetV2, seeded

    module, example = seeded(MobileNetV2(classes=1001, as_tensorflow=True)), (torch.zeros(1, 3, SIDE, SIDE),)
    program, onnx = folder / "mobilenet.pt2", folder / "mobilenet.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module, example), program)
        torch.onnx.export(module, example, onnx, dynamo=True, verbose=False, external_data=False, opset_version=20)
    return program, onnx


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, onnx = exported(folder)
        data, int8 = folder / "images.npz", folder / "mobilenet_int8.onnx"
        np.savez(data, image=np.random.default_rng(0).normal(0, 1, (8, 3, SIDE, SIDE)).astype(np.float32))
        gen("quantize", str(onnx), "--data", str(data), "-o", str(int8))
        rows = {
            "PyTorch, float32": arenas(program),
            "ONNX, float32": arenas(onnx),
            "ONNX of PyTorch, int8": arenas(int8, *PIXELS),
            "TensorFlow Lite, int8": arenas(MODELS / "coral-mnv2-tf2-ptq.tflite"),
        }
    print(f"| MobileNetV2 1.0 {SIDE} | {' | '.join(name for name, _ in SHOWN)} |\n|---|{'---:|' * len(SHOWN)}")
    for title, found in rows.items():
        print(f"| {title} | {' | '.join(f'{size:,}' for size in found)} |")


if __name__ == "__main__":
    main()
