"""The benchmarks of MLPerf Tiny v1.4, a row each: what the host sends, what the device answers, and how it is scored.

The generator reads how a board makes a tensor of bytes and results of tensors; the runner reads the rest. Sources: the
rules (MLPerfTiny_Rules.adoc), the runner and its test scripts, and the submission checker of mlcommons/tiny at 1afd2c9.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

CHUNK = 512
"""Samples of sound, 16 bits each at 16 kHz, that a step of the streaming wake word takes: 32 ms."""
RATE = 16000
"""Samples in a second."""


class Transform(IntEnum):
    """SH_APP_INPUT_TRANSFORM: how `db` bytes become the input."""

    RAW = 0
    MINUS_128 = 1
    FLOAT32 = 2
    SOUND = 3  # int16 samples, of which the board computes a vector of the window of features that is the input


class Results(IntEnum):
    """SH_APP_RESULTS: the values that `m-results` prints."""

    OUTPUTS = 0
    MEAN_SQUARED_ERROR = 1


class Metric(StrEnum):
    """What the accuracy of a benchmark is measured by."""

    TOP_1 = "top-1"  # percent of samples whose largest result is at the label
    AUC = "auc"  # area under the curve of true against false positives, of one number per sample
    DETECTIONS = "detections"  # false positives and false negatives in one long sound


@dataclass(frozen=True)
class Task:
    """A benchmark, known by the shapes of its int8 model and by its multiply-accumulates.

    `threshold` is the closed division's: a least percentage, a least area, or most false positives and negatives.
    `iterations` and `warmups` are those of the public runner's performance script.
    """

    id: str
    title: str
    short: str  # its folder in a submission's results
    data: str  # its folder in the runner's data
    input: tuple[int, ...]
    output: tuple[int, ...]
    macs: int  # of the reference model
    sent_bytes: int
    transform: Transform
    metric: Metric
    threshold: float
    iterations: int
    warmups: int
    files: tuple[str, ...]  # the names of the reference model's file
    results: Results = Results.OUTPUTS
    profile: str = "ULPMark for tinyML Firmware V0.0.1"

    @property
    def classes(self) -> int:
        """How many classes its labels tell apart."""
        return 2 if self.results is Results.MEAN_SQUARED_ERROR else self.output[-1]

    @property
    def values(self) -> int:
        """How many numbers `m-results` has."""
        return 1 if self.results is Results.MEAN_SQUARED_ERROR else self.output[-1]


# fmt: off
TASKS = (
    Task("kws01", "keyword spotting", "kws", "kws01", (1, 49, 10, 1), (1, 12), 2_656_768, 490, Transform.RAW,
         Metric.TOP_1, 90.0, 70, 10, ("kws_ref_model.tflite", "mlperf-kws-dscnn-int8.tflite")),
    Task("vww01", "visual wake words", "vww", "vww01", (1, 96, 96, 3), (1, 2), 7_489_664, 27_648, Transform.MINUS_128,
         Metric.TOP_1, 80.0, 20, 5, ("vww_96_int8.tflite", "mlperf-vww96-int8.tflite")),
    Task("ic01", "image classification", "ic", "ic01", (1, 32, 32, 3), (1, 10), 12_501_632, 3_072, Transform.MINUS_128,
         Metric.TOP_1, 85.0, 20, 5, ("pretrainedResnet_quant.tflite", "mlperf-ic-resnet8-int8.tflite")),
    Task("ic02", "image classification, large", "ic2", "ic01", (1, 32, 32, 3), (1, 10), 76_474_240, 3_072,
         Transform.MINUS_128, Metric.TOP_1, 91.0, 20, 5,
         ("pretrainedResnet_large_int8.tflite", "mlperf-ic-resnet-large-int8.tflite")),
    Task("ad01", "anomaly detection", "ad", "ad01", (1, 640), (1, 640), 264_192, 2_560, Transform.FLOAT32,
         Metric.AUC, 0.85, 1500, 10, ("ad01_int8.tflite", "mlperf-ad-int8.tflite"), Results.MEAN_SQUARED_ERROR),
    Task("sww01", "streaming wake word", "sww", "sww01", (1, 30, 1, 40), (1, 3), 826_368, 2 * CHUNK, Transform.SOUND,
         Metric.DETECTIONS, 8, 20, 5, ("str_ww_ref_model.tflite", "mlperf-sww-int8.tflite"),
         profile="MLPerf Tiny Firmware V0.1.0"),
)
# fmt: on
BY_ID = {task.id: task for task in TASKS}

WAKE_WORD = 0
"""The output of the streaming wake word's model that stands for the word."""
DETECTS_ABOVE = 115
"""The int8 value of that output above which the reference firmware says that it heard the word."""
