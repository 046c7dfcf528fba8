"""Makes gesture.onnx, which tells a hand that is still, shakes or draws circles from an accelerometer's last second.

    python make_model.py [FILE]

The model sees 50 samples of x, y and z in g, at 50 Hz. It is a convolution with fixed random filters over time, whose
mean values a layer of weights by least squares decides by. Nothing is downloaded: the gestures are synthetic. Record
your own, give them to `train`, and the rest stays as it is. Needs numpy and onnx, which Shoehorn brings.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HZ, SAMPLES, AXES = 50, 50, 3
GESTURES = ("still", "shake", "circle")
FILTERS, WIDTH = 24, 9


def gesture(kind: str, random: np.random.Generator) -> np.ndarray:
    """A second of x, y and z in g."""
    time, phase = np.arange(SAMPLES) / HZ, random.uniform(0, 2 * np.pi)
    signal = random.normal((0, 0, 1), 0.03, (SAMPLES, AXES))
    if kind == "shake":
        signal[:, 0] += random.uniform(0.6, 1.5) * np.sin(2 * np.pi * random.uniform(4, 6) * time + phase)
    if kind == "circle":
        angle, size = 2 * np.pi * random.uniform(1, 2) * time + phase, random.uniform(0.4, 0.9)
        signal[:, :2] += size * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return signal.astype(np.float32)


def some(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """So many seconds of gestures, and their numbers."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(GESTURES), count)
    return np.stack([gesture(GESTURES[label], random) for label in labels]), labels


def features(signals: np.ndarray, filters: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The mean of each filter's rectified output over time."""
    windows = np.lib.stride_tricks.sliding_window_view(signals, WIDTH, axis=1)  # count, time, axes, width
    return np.maximum(np.einsum("ntaw,faw->ntf", windows, filters) + bias, 0).mean(axis=1)


def train(signals: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, ...]:
    """Filters and bias, weights and bias."""
    random = np.random.default_rng(1)
    filters = random.normal(0, 0.5, (FILTERS, AXES, WIDTH)).astype(np.float32)
    filters -= filters.mean(axis=2, keepdims=True)  # gravity, which is constant, is no gesture
    bias = random.normal(0, 0.3, FILTERS).astype(np.float32)
    seen = np.hstack([features(signals, filters, bias), np.ones((len(labels), 1))])
    wanted = 8 * np.eye(len(GESTURES))[labels]
    found = np.linalg.solve(seen.T @ seen + 1e-3 * np.eye(FILTERS + 1), seen.T @ wanted).astype(np.float32)
    return filters, bias, found[:-1], found[-1]


def as_onnx(filters: np.ndarray, bias: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> onnx.ModelProto:
    """The model: ONNX has channels first, so the input is 1 x axes x samples x 1."""
    constants = {"filters": filters[..., None], "bias": bias, "weights": weights, "offset": offset}
    nodes = [
        helper.make_node("Conv", ["accelerometer", "filters", "bias"], ["filtered"], kernel_shape=[WIDTH, 1]),
        helper.make_node("Relu", ["filtered"], ["rectified"]),
        helper.make_node("GlobalAveragePool", ["rectified"], ["means"]),
        helper.make_node("Flatten", ["means"], ["features"]),
        helper.make_node("Gemm", ["features", "weights", "offset"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["gesture"]),
    ]
    given = helper.make_tensor_value_info("accelerometer", TensorProto.FLOAT, [1, AXES, SAMPLES, 1])
    told = helper.make_tensor_value_info("gesture", TensorProto.FLOAT, [1, len(GESTURES)])
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "gesture", [given], [told], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    place = sys.argv[1] if len(sys.argv) > 1 else "gesture.onnx"
    filters, bias, weights, offset = train(*some(600, seed=2))
    signals, labels = some(300, seed=3)
    right = (features(signals, filters, bias) @ weights + offset).argmax(axis=1) == labels
    onnx.save(as_onnx(filters, bias, weights, offset), place)
    print(f"wrote {place}: {right.sum()} of {len(right)} other gestures are told right")
