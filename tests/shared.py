"""Models and data that lie beside the checkout and are no part of it; tests that want them skip where they are not."""

import sys
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = SHARED / "models"
DATA = SHARED / "data"

needs_shared = pytest.mark.skipif(not MODELS.is_dir(), reason="the models beside the checkout are not there")

# The int8 models that tflite_micro runs too, by file name without suffix.
ROAD = (
    "mlperf-kws-dscnn-int8",
    "mlperf-vww96-int8",
    "mlperf-ic-resnet8-int8",
    "mlperf-ad-int8",
    "coral-mnv2-tf2-ptq",
    "mcunet-512kb-2mb-imagenet",
    "tinyengine-vww",
    "squeezenet11-imagenet-int8",
    "resnet20-cifar10-int8",
    "nano-u-botanic-int8",
    "blazeface-front-128-fullint",
    "facemesh-192-fullint",
    "mltk-kws-pacman-v3",
    "mltk-fingerprint",
    "mltk-rock-paper-scissors",
    "tflm-micro-speech",
    "tflm-hello-world-int8",
    "tinymaix-cifar10-q",
    "tinymaix-mnist-valid-q",
    "st-yamnet256-int8",
    "portrait-mnv3-post-quant",
    "portrait-prisma-quant",
    "synth-darts-v2-c16-l8-int8",
    "synth-densenet-bc-40-12-int8",
    "synth-randwire-ws-n32-c24-s11-int8",
)

FLOAT = ("fmnist-nubificus-f32", "mlperf-ic-resnet8-f32", "mnv1-025-128-f32")
"""The float32 models that kernels run."""

GEN = (sys.executable, "-c", "from shoehorn_mcu.__main__ import main; main()")
"""The command `gen` of this tree, installed or not."""
