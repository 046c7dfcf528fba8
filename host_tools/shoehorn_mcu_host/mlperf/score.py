"""Figures of a run: top-1, the area under the curve, detections, throughput; and why a run is invalid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from shoehorn_mcu_host.base.tasks import CHUNK, DETECTS_ABOVE, RATE, Metric, Task
from shoehorn_mcu_host.mlperf.device import Inference
from shoehorn_mcu_host.mlperf.sound import Sound

LOOPS = 5
LEAST_SECONDS = 10.0
LEAST_ITERATIONS = 10
STEP_SECONDS = CHUNK / RATE
_LATE_SECONDS = 1.0  # after the word, a detection still counts; and false ones within it count once


@dataclass(frozen=True)
class Judged:
    """What the device said of one sample: the mean of its results over the sample's windows."""

    name: str
    label: int
    results: tuple[float, ...]


def top_1(judged: Sequence[Judged]) -> float:
    """The percentage whose largest result is that of the label; of equal ones the first counts."""
    right = sum(int(np.argmax(each.results)) == each.label for each in judged)
    return 100.0 * right / len(judged)


def _area(scores: Sequence[float], positive: Sequence[bool]) -> float | None:
    """The chance that a positive has a higher score than a negative, ties one half (Mann and Whitney 1947)."""
    values, yes = np.asarray(scores, float), np.asarray(positive, bool)
    count = int(yes.sum()), int((~yes).sum())
    if 0 in count:
        return None
    order, places = np.unique(values, return_inverse=True)
    per_value = np.bincount(places, minlength=len(order))
    ranks = np.cumsum(per_value) - (per_value - 1) / 2  # the mean rank of equal values
    return float((ranks[places][yes].sum() - count[0] * (count[0] + 1) / 2) / (count[0] * count[1]))


def area(judged: Sequence[Judged]) -> float | None:
    """The area under the ROC curve: of a single number, or the mean of each class against all others.

    None where a class has no sample, or all samples are of it: then there is no such area.
    """
    width = len(judged[0].results)
    if width <= 2:
        return _area([each.results[-1] for each in judged], [each.label == 1 for each in judged])
    each_class = (_area([j.results[k] for j in judged], [j.label == k for j in judged]) for k in range(width))
    areas = [one for one in each_class if one is not None]
    return float(np.mean(areas)) if len(areas) == width else None


@dataclass(frozen=True)
class Detections:
    """Of one sound: how many words were heard, missed, and heard where there was none."""

    heard: int
    missed: int
    false: int


def detections(sound: Sound, activations: Sequence[int]) -> Detections:
    """Counts by the runner's README: a word may be heard from its begin until a second after its end.

    Times are those of the public interface board: from the end of the first step on. Further false detections
    within a second of a false one are the same one. The public script allows two seconds after the word, so it counts
    no more faults than this.
    """
    times = [step * STEP_SECONDS for step, value in enumerate(activations) if value > DETECTS_ABOVE]
    heard, left = 0, list(times)
    for begin, end in sound.windows:
        inside = [t for t in left if begin <= t <= end + _LATE_SECONDS]
        heard += bool(inside)
        left = [t for t in left if t not in inside]
    false, until = 0, -1.0
    for t in left:
        if t > until:
            false, until = false + 1, t + _LATE_SECONDS
    return Detections(heard, len(sound.windows) - heard, false)


def meets(task: Task, accuracy: float | Detections | None) -> bool:
    """Whether it is enough for the closed division."""
    if isinstance(accuracy, Detections):
        return accuracy.missed <= task.threshold and accuracy.false <= task.threshold
    return accuracy is not None and round(accuracy, 3 if task.metric is Metric.AUC else 1) >= task.threshold


def throughput(windows: Sequence[Inference]) -> float:
    """The median of the windows, in inferences per second."""
    return median(window.throughput for window in windows)


def invalid(windows: Sequence[Inference]) -> list[str]:
    """Why this performance run does not count: the reasons of the public runner and of the rules."""
    reasons = []
    if len(windows) != LOOPS:
        reasons.append(f"ERROR 1 - loop_count was not exactly {LOOPS}.")
    if any(window.seconds < LEAST_SECONDS for window in windows):
        reasons.append(f"ERROR 2 - loop exited before {LEAST_SECONDS:.0f} seconds elapsed.")
    if any(window.iterations < LEAST_ITERATIONS for window in windows):
        reasons.append(f"ERROR 3 - a window has fewer than {LEAST_ITERATIONS} inferences.")
    return reasons
