"""The wake word's front end in C against the same in float64, over the text protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from compilers import HOST, SANITIZERS
from numpy.typing import NDArray
from sound_oracle import BANDS, CHUNK, cut, triangles, vectors, windows
from toy import SOUND_SCALE, Bench, Int8, Toy

from shoehorn_mcu.emit.folder import sound
from shoehorn_mcu_host.base.tasks import BY_ID
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.mlperf.device import Device

TOY = Toy(rows=30, row_bytes=40, outputs=3, mlperf="sww01", sound=True)
SWW = BY_ID["sww01"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TOY.build(tmp_path_factory.mktemp("sound") / "build", HOST, *SANITIZERS)


@pytest.fixture
def device(program: Path) -> Iterator[Device]:
    with Bench(program) as bench, Device(Port(bench.path)) as found:
        found.awake()
        yield found


def noises() -> NDArray[np.int16]:
    """Silence, a chirp that grows, both ends of the range, and noise: 24 steps."""
    rng = np.random.default_rng(5)
    t = np.arange(8 * CHUNK) / 16000
    chirp = 30000 * np.sin(2 * np.pi * (200 + 12000 * t) * t) * t / t[-1]
    square = np.where(np.arange(4 * CHUNK) // 7 % 2, 32767, -32768)
    parts = [np.zeros(3 * CHUNK), chirp, square, rng.normal(0, 900, 8 * CHUNK), [1], np.zeros(CHUNK - 1)]
    return np.concatenate(parts).clip(-32768, 32767).astype(np.int16)


def step(device: Device, samples: NDArray[np.int16]) -> tuple[Int8, Int8]:
    """Features and activations of a step, sent as the public script does, in commands of up to 1,028 characters."""
    data = samples.astype("<i2").tobytes()
    assert device.ask("db load 1024")[1:] == ["m-[Expecting 1024 bytes]"]
    assert device.ask(f"db {data[:512].hex()}")[1:] == ["512 bytes received"]
    assert device.ask(f"db {data[512:1020].hex()}")[1:] == ["1020 bytes received"]
    assert device.ask(f"db {data[1020:].hex()}")[1:] == ["m-load-done"]
    said = "".join(device.ask("extract_uart_stream"))
    features, activations = (re.search(rf"m-{name}-\[([^]]*)\]", said) for name in ("features", "activations"))
    assert features and activations
    return np.array(features[1].split(","), np.int8), np.array(activations[1].split(","), np.int8)


def test_features_are_those_of_float64_and_the_model_gets_the_window_of_them(device: Device):
    samples = noises()
    wanted = vectors(samples, float(np.float32(SOUND_SCALE)))
    found, outputs = zip(*(step(device, s) for s in samples.reshape(-1, CHUNK)), strict=True)
    features = np.array(found)

    unsure = np.abs(wanted - np.round(wanted)) < 1e-2  # float32 may cut these to the neighbour
    assert np.array_equal(features[~unsure], cut(wanted)[~unsure])
    assert np.abs(features.astype(int) - cut(wanted)).max() <= 1
    assert unsure.mean() < 0.05 + (wanted == -128).mean()
    assert len(np.unique(features)) > 100
    for window, output in zip(windows(features), outputs, strict=True):
        assert np.array_equal(output, TOY.reference(window.reshape(-1)))


def test_start_forgets_all_sound_and_stop_tells_the_words_since(device: Device):
    samples = noises().reshape(-1, CHUNK)[8:12]
    first = [step(device, s) for s in samples]
    assert device.ask("stop")[1:] == ["Not listening."]
    assert device.ask("start")[0] == "Received command: start"
    again = [step(device, s) for s in samples]

    assert np.array_equal(np.hstack([*map(np.hstack, first)]), np.hstack([*map(np.hstack, again)]))
    said = device.ask("stop")
    assert said[:3] == ["Received command: stop", "Streaming stopped.", "target activations: "]
    assert said[3:] == [f"[{', '.join(str(outputs[0]) for _, outputs in again)}]"]


def test_infer_hears_too_and_the_runner_s_step_is_the_same(device: Device):
    samples = noises().reshape(-1, CHUNK)[9:12]
    device.ask("start")
    heard = [device.hear(s.astype("<i2").tobytes()) for s in samples]
    device.ask("start")
    for value, one in zip(heard, samples, strict=True):
        device.load(one.astype("<i2").tobytes())
        found = device.infer(SWW, 1, 0)
        assert found.results[0] == pytest.approx(0.125 * (value - 3))


def test_the_profile_is_that_of_the_reference_firmware(device: Device):
    assert device.ask("profile")[1:] == ["m-profile-[MLPerf Tiny Firmware V0.1.0]", "m-model-[sww01]"]
    device.require(SWW)
    assert device.ask("x" * 1028)[1:] == [f"e-[Unknown command: {'x' * 1028}]"]
    assert device.ask("x" * 1029) == ["e-[Command longer than 1028 characters]"]


def test_the_bands_in_the_tables_are_triangles():
    band, rises = sound.bands()
    weights = np.zeros((CHUNK + 1, BANDS))
    for k in range(1, CHUNK):
        if band[k] < BANDS:
            weights[k, band[k]] += rises[k]
        if band[k]:
            weights[k, band[k] - 1] += 1 - rises[k]

    assert np.abs(weights - triangles()).max() < 1e-6
