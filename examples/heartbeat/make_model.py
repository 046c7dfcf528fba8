"""Makes heartbeat-float.onnx, which tells regular beats, extra beats and none from two seconds of an electrocardiogram.

    python make_model.py [FOLDER]

The model sees 256 samples of one lead in millivolts, at 125 Hz. It has two convolutions with fixed random filters over
time, whose mean values a layer of weights by least squares decides by. Also writes samples.npz, by which `gen quantize`
makes int8 of it. Nothing is downloaded: the signals are synthetic, so this is an example and no medical device. Give
recordings of your own to `train`, and the rest stays as it is. Needs numpy and onnx, which Shoehorn brings.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HZ, SAMPLES = 125, 256
KINDS = ("regular", "extra", "none")
FILTERS, WIDTH, DILATION = (12, 16), 7, 4  # of the first and the second convolution; of both; of the second

# Waves of a beat: height in mV, time from its middle and width in seconds.
BEAT = ((0.12, -0.17, 0.025), (-0.1, -0.03, 0.01), (1.0, 0.0, 0.012), (-0.2, 0.03, 0.012), (0.25, 0.25, 0.05))
EXTRA = ((1.3, 0.0, 0.05), (-0.4, 0.28, 0.07))  # from a chamber, not from the node: early, wide, without the first wave

Layers = list[tuple[np.ndarray, np.ndarray]]  # filters and bias of each


def wave(time: np.ndarray, middle: float, waves: tuple[tuple[float, float, float], ...]) -> np.ndarray:
    """One beat, in mV."""
    return sum(height * np.exp(-0.5 * ((time - middle - at) / width) ** 2) for height, at, width in waves)


def signal(kind: str, random: np.random.Generator) -> np.ndarray:
    """Two seconds of one lead, in mV."""
    time, period = np.arange(SAMPLES) / HZ, random.uniform(0.6, 1.0)
    breath = 2 * np.pi * (random.uniform(0.1, 0.4) * time + random.uniform())
    found = random.normal(0, 0.02, SAMPLES) + 0.1 * np.sin(breath)
    if kind == "none":
        return found.astype(np.float32)
    middles = [*np.arange(random.uniform(-period, 0), SAMPLES / HZ + period, period)]
    extra = random.choice([m for m in middles if 0.2 <= m <= SAMPLES / HZ - 0.4]) if kind == "extra" else None
    size = random.uniform(0.8, 1.2)
    for middle in middles:
        early = middle - 0.3 * period  # and the next beat comes when it would have come
        found += size * (wave(time, early, EXTRA) if middle == extra else wave(time, middle, BEAT))
    return found.astype(np.float32)


def some(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """So many signals, and the numbers of their kinds."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(KINDS), count)
    return np.stack([signal(KINDS[label], random) for label in labels]), labels


def convolved(x: np.ndarray, filters: np.ndarray, bias: np.ndarray, dilation: int) -> np.ndarray:
    """The rectified outputs of filters over time, as count, time, filters; `x` is count, time, channels."""
    reach = (WIDTH - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=1)[..., ::dilation]  # as n, t, c, w
    return np.maximum(np.einsum("ntcw,fcw->ntf", windows, filters, optimize=True) + bias, 0)


def features(signals: np.ndarray, layers: Layers) -> np.ndarray:
    """The mean of each filter of the second layer over time."""
    x = signals[..., None]
    for (filters, bias), dilation in zip(layers, (1, DILATION), strict=True):
        x = convolved(x, filters, bias, dilation)
    return x.mean(axis=1)


def train(signals: np.ndarray, labels: np.ndarray) -> tuple[Layers, np.ndarray, np.ndarray]:
    """Filters and bias of both layers, weights and bias of the last one."""
    random, layers, channels = np.random.default_rng(1), [], 1
    for count in FILTERS:
        filters = random.normal(0, 0.6, (count, channels, WIDTH)).astype(np.float32)
        filters -= filters.mean(axis=2, keepdims=True)  # a level that is constant says nothing
        layers.append((filters, random.normal(0, 0.2, count).astype(np.float32)))
        channels = count
    seen = np.hstack([features(signals, layers), np.ones((len(labels), 1))])
    wanted = 8 * np.eye(len(KINDS))[labels]
    found = np.linalg.solve(seen.T @ seen + 1e-3 * np.eye(FILTERS[1] + 1), seen.T @ wanted).astype(np.float32)
    return layers, found[:-1], found[-1]


def as_onnx(layers: Layers, weights: np.ndarray, offset: np.ndarray) -> onnx.ModelProto:
    """The model: ONNX has channels first, so the input is 1 x 1 x samples."""
    (first, bias), (second, other) = layers
    constants = {"first": first, "bias": bias, "second": second, "other": other, "weights": weights, "offset": offset}
    nodes = [
        helper.make_node("Conv", ["lead", "first", "bias"], ["slopes"], kernel_shape=[WIDTH]),
        helper.make_node("Relu", ["slopes"], ["rises"]),
        helper.make_node("Conv", ["rises", "second", "other"], ["shapes"], kernel_shape=[WIDTH], dilations=[DILATION]),
        helper.make_node("Relu", ["shapes"], ["waves"]),
        helper.make_node("GlobalAveragePool", ["waves"], ["means"]),
        helper.make_node("Flatten", ["means"], ["features"]),
        helper.make_node("Gemm", ["features", "weights", "offset"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["kind"]),
    ]
    given = helper.make_tensor_value_info("lead", TensorProto.FLOAT, [1, 1, SAMPLES])
    told = helper.make_tensor_value_info("kind", TensorProto.FLOAT, [1, len(KINDS)])
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "heartbeat", [given], [told], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    known, labels = some(900, seed=2)
    layers, weights, offset = train(known, labels)
    others, wanted = some(300, seed=3)
    right = (features(others, layers) @ weights + offset).argmax(axis=1) == wanted
    onnx.save(as_onnx(layers, weights, offset), place / "heartbeat-float.onnx")
    np.savez(place / "samples.npz", x=known[:200, None, :])
    print(f"wrote {place / 'heartbeat-float.onnx'}: {right.sum()} of {len(right)} other signals are told right")
