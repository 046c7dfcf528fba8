"""The modes of a run: accuracy, performance, and the wake word's sound. Each writes its session while it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np

from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.base.tasks import Metric, Task
from shoehorn_mcu_host.mlperf import score
from shoehorn_mcu_host.mlperf.data import Input, Sample
from shoehorn_mcu_host.mlperf.device import INFER_SECONDS, Device, Inference
from shoehorn_mcu_host.mlperf.score import Detections, Judged
from shoehorn_mcu_host.mlperf.session import Session
from shoehorn_mcu_host.mlperf.sound import Sound

Tell = Callable[[str], None]
_SLACK = 1.1  # more inferences than the least time needs
_LATE_SECONDS = 60.0  # beyond the public runner's limit, for a device that was faster while it was probed


@dataclass(frozen=True)
class Windows:
    """How a performance run measures. The defaults are the rules; an emulator, whose clock counts, needs less."""

    loops: int = score.LOOPS
    seconds: float = score.LEAST_SECONDS
    iterations: int = score.LEAST_ITERATIONS
    warmups: int | None = None  # None: as many as the public script has


@dataclass(frozen=True)
class Accuracy:
    """The result of an accuracy run: samples, the figure by the benchmark's metric, and whether it is enough."""

    samples: int
    figure: float | Detections | None
    meets: bool


@dataclass(frozen=True)
class Performance:
    """The result of a performance run: inferences per second, its windows, and why it does not count, if so."""

    throughput: float
    windows: tuple[Inference, ...]
    invalid: tuple[str, ...]


def _greeted(device: Device, task: Task, session: Session) -> None:
    device.awake()
    session.say("Retrieving name from DUT ...")
    session.say(f"Device name retrieved: {device.name()}")
    device.require(task)
    session.say(f"Device model retrieved: {task.id}")


def _loaded(device: Device, session: Session, sample: Input) -> Iterator[None]:
    """Loads the pieces of a sample, one after the other."""
    for number, piece in enumerate(sample.pieces()):
        session.note(f"Loading file {sample.name} segment {number}")
        device.load(piece)
        session.note("Load complete.")
        yield


def _inferred(device: Device, task: Task, session: Session, run: tuple[int, int], sample: Input) -> Inference:
    found = device.infer(task, *run, INFER_SECONDS + _LATE_SECONDS)
    session.say(f"Running inference with {run[1]}/{run[0]} (warmup/measured) iterations ...   done")
    told = {"results": list(found.results), "elapsed_time": found.elapsed_us, "total_inferences": 1}
    counts = {"iterations": found.iterations, "warmups": found.warmups}
    session.entry({"file": sample.name, "class": str(sample.label), "infer": {**told, **counts}})
    return found


def accuracy(device: Device, task: Task, samples: Sequence[Sample], session: Session, tell: Tell) -> Accuracy:
    """Each sample once, `infer 1 0`. Raises HostError; what was measured by then is in the session."""
    _greeted(device, task, session)
    judged = []
    for number, sample in enumerate(samples, 1):
        each = []
        for _ in _loaded(device, session, sample):
            found = _inferred(device, task, session, (1, 0), sample)
            session.note(f"  m-results    : {list(found.results)}")
            each.append(found.results)
        mean = tuple(float(value) for value in np.mean(np.asarray(each), axis=0))
        judged.append(Judged(sample.name, sample.label, mean))
        tell(f"{task.id}: {number} of {len(samples)} samples")
    auc = score.area(judged)
    if task.metric is Metric.TOP_1:
        figure: float | None = score.top_1(judged)
        session.result(session.stamp(f"Top 1% = {figure:2.1f}"))
    else:
        figure = auc
    said = "none: a class has no sample, or all have it" if auc is None else f"{auc:.3f}"
    session.result(session.stamp(f"AUC = {said}"))
    return Accuracy(len(judged), figure, score.meets(task, figure))


def hearing(device: Device, task: Task, sounds: Sequence[Sound], session: Session, tell: Tell) -> Accuracy:
    """The accuracy of the wake word: each sound from its begin, in steps of 32 ms. Raises HostError likewise."""
    _greeted(device, task, session)
    whole = Detections(0, 0, 0)
    for sound in sounds:
        device.ask("start")
        session.say(f"== File {sound.name} ({sound.seconds:2.1f} s) ==")
        activations: list[int] = []
        try:
            for chunk in sound.chunks():
                activations.append(device.hear(chunk))
                if len(activations) % 50 == 0:
                    tell(f"{task.id}: {len(activations) * score.STEP_SECONDS:.0f} of {sound.seconds:.0f} s of sound")
        finally:
            session.entry({"wav_file": sound.name, "length_sec": sound.seconds, "activations": activations})
        device.ask("stop")
        found = score.detections(sound, activations)
        session.entry({"wav_file": sound.name, "detections": asdict(found)})
        whole = Detections(whole.heard + found.heard, whole.missed + found.missed, whole.false + found.false)
        session.result(
            f"Accuracy: {found.heard} True positives, {found.missed} False negatives, {found.false} False positives"
        )
    return Accuracy(len(sounds), whole, score.meets(task, whole))


def performance(
    device: Device, task: Task, inputs: Sequence[Input], session: Session, windows: Windows, tell: Tell
) -> Performance:
    """As many loops as `windows` says, over the first inputs, each loop long enough. Raises HostError likewise."""
    _greeted(device, task, session)
    if not inputs:
        raise InputError(f"{task.id}: a performance run needs an input at least")
    warmups = task.warmups if windows.warmups is None else windows.warmups
    iterations, measured = windows.iterations, []
    for number in range(windows.loops):
        sample = inputs[number % len(inputs)]
        next(islice(_loaded(device, session, sample), 1))
        if number == 0 and windows.seconds > 0:
            probe = device.infer(task, windows.iterations, 0)
            least = windows.seconds * _SLACK * windows.iterations / max(probe.seconds, 1e-6)
            iterations = max(windows.iterations, math.ceil(least))
        found = _inferred(device, task, session, (iterations, warmups), sample)
        measured.append(found)
        _said(session, number + 1, found)
        tell(f"{task.id}: window {number + 1} of {windows.loops}, {found.throughput:,.3f} inf./sec.")
    reasons = score.invalid(measured)
    figure = score.throughput(measured)
    line = "-" * 57
    for text in reasons or (line, f"Median throughput is {figure:>10.3f} inf./sec.", line):
        session.result(session.stamp(text))
    if task.metric is Metric.DETECTIONS and figure:
        session.result(f"Average duty cycle: {1 / figure / score.STEP_SECONDS:1.5}")
        session.result(f"Average period: {score.STEP_SECONDS:1.5} s")
        session.result(f"Estimated throughput: {figure:1.5} inf./sec.")
    return Performance(figure, tuple(measured), tuple(reasons))


def _said(session: Session, number: int, found: Inference) -> None:
    """The lines of a window."""
    session.note(f"Performance results for window {number}:")
    session.note(f"  # Inferences : {found.iterations:>13}")
    session.note(f"  Runtime      : {found.seconds:>10.3f} sec.")
    session.note(f"  Throughput   : {found.throughput:>10.3f} inf./sec.")
    session.note(f"  m-results    : {list(found.results)}")
    session.result(f"Performance results for window {number}")
    session.result(f"    # Inferences : {found.iterations}")
    session.result(f"    Runtime: {found.seconds} sec.")
    session.result(f"    Throughput: {found.throughput} inf./sec.")
    if found.seconds >= score.LEAST_SECONDS:
        session.result("    Runtime requirements have been met.")
