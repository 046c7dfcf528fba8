"""Trains the model that ships with Shoehorn, and writes `digits.tflite` and `digits_test.npz` beside this file.

A MobileNetV2 in small: a stem, three inverted-residual bottlenecks (one halves the map, two add their input back),
a 1x1 head, the mean over the map, a dense layer and a softmax. The data are scikit-learn's 1,797 handwritten
digits, 8x8 pixels of 0..16. Post-training quantisation to int8, one weight scale per channel, int8 at both ends.

A developer's tool: `pip install .[train]`, then `python train_digits.py` here. Every seed is fixed; another
machine or version of TensorFlow may still give other weights, so the files in git are the ones that count.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # oneDNN picks its order of summation by the machine

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tensorflow.lite.tools import flatbuffer_utils

HERE = Path(__file__).resolve().parent
SEED = 7
TEST_SAMPLES = 360
CALIBRATION_SAMPLES = 300
EPOCHS = 150
BATCH = 32
AUGMENTED_COPIES = 4  # of each training image, each with its own small shift


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images, test images (N, 8, 8, 1) float32 in 0..1, and their labels (N,)."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    x, x_test, y, y_test = train_test_split(
        images, digits.target, test_size=TEST_SAMPLES, random_state=SEED, stratify=digits.target
    )
    return x, x_test, y, y_test


def shifted(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by up to half a pixel and scaled in brightness by up to 10 %."""
    result = np.empty_like(x)
    for i, image in enumerate(x):
        dy, dx = rng.uniform(-0.5, 0.5, 2)
        rows = (1 - abs(dy)) * image + abs(dy) * np.roll(image, int(np.sign(dy)), axis=0)
        both = (1 - abs(dx)) * rows + abs(dx) * np.roll(rows, int(np.sign(dx)), axis=1)
        result[i] = np.clip(both * rng.uniform(0.9, 1.1), 0, 1)
    return result


def normalised(x: Any, name: str, relu: bool) -> Any:
    """Batch normalisation, then ReLU6 where asked; the converter folds both into the convolution before."""
    x = keras.layers.BatchNormalization(name=f"{name}_norm")(x)
    return keras.layers.ReLU(6.0, name=f"{name}_relu6")(x) if relu else x


def bottleneck(x: Any, name: str, expanded: int, channels: int, stride: int) -> Any:
    """Expand 1x1, depthwise 3x3, project 1x1 without activation; adds its input where the shapes agree."""
    y = keras.layers.Conv2D(expanded, 1, use_bias=False, name=f"{name}_expand")(x)
    y = normalised(y, f"{name}_expand", relu=True)
    y = keras.layers.DepthwiseConv2D(3, stride, "same", use_bias=False, name=f"{name}_depthwise")(y)
    y = normalised(y, f"{name}_depthwise", relu=True)
    y = keras.layers.Conv2D(channels, 1, use_bias=False, name=f"{name}_project")(y)
    y = normalised(y, f"{name}_project", relu=False)
    return keras.layers.Add(name=f"{name}_add")([x, y]) if stride == 1 and x.shape[-1] == channels else y


def build(batch: int | None = None) -> Any:
    """The network for images of 8x8x1; the largest working set is two 8x8x16 maps and an 8x8x8 one."""
    image = keras.Input((8, 8, 1), batch_size=batch, name="image")
    x = keras.layers.Conv2D(8, 3, 1, "same", use_bias=False, name="stem")(image)
    x = normalised(x, "stem", relu=True)
    x = bottleneck(x, "block1", expanded=16, channels=8, stride=1)
    x = bottleneck(x, "block2", expanded=16, channels=16, stride=2)
    x = bottleneck(x, "block3", expanded=64, channels=16, stride=1)
    x = keras.layers.Conv2D(48, 1, use_bias=False, name="head")(x)
    x = normalised(x, "head", relu=True)
    x = keras.layers.GlobalAveragePooling2D(name="mean")(x)
    x = keras.layers.Dropout(0.2, seed=SEED, name="dropout")(x)
    x = keras.layers.Dense(10, name="dense")(x)
    return keras.Model(image, keras.layers.Softmax(name="softmax")(x), name="digits")


def train(model: Any, x: np.ndarray, y: np.ndarray) -> None:
    """Adam with a cosine slope down to nothing, on the images and their shifted copies."""
    rng = np.random.default_rng(SEED)
    many = np.concatenate([x, *(shifted(x, rng) for _ in range(AUGMENTED_COPIES))])
    labels = np.tile(y, 1 + AUGMENTED_COPIES)
    steps = EPOCHS * -(-len(many) // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(4e-3, steps)
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(many, labels, batch_size=BATCH, epochs=EPOCHS, verbose=2)


def convert(model: Any, x: np.ndarray) -> bytes:
    """The int8 .tflite, for one image at a time; `x` are the images whose ranges set the scales."""
    single = build(batch=1)  # a fixed batch, or the converter leaves shape arithmetic in the file
    single.set_weights(model.get_weights())
    converter = tf.lite.TFLiteConverter.from_keras_model(single)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[None]] for image in x[:CALIBRATION_SAMPLES])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    flat: bytes = converter.convert()
    return flat


# Layer names by the op that each layer becomes, in order, and what such an op's inputs after the first are.
LAYERS = {
    "conv_2d": (
        "stem",
        "block1_expand",
        "block1_project",
        "block2_expand",
        "block2_project",
        "block3_expand",
        "block3_project",
        "head",
    ),
    "depthwise_conv_2d": ("block1_depthwise", "block2_depthwise", "block3_depthwise"),
    "add": ("block1_add", "block3_add"),
    "mean": ("mean",),
    "fully_connected": ("logits",),
    "softmax": ("digit",),
}
CONSTANTS = {
    "conv_2d": ("weights", "bias"),
    "depthwise_conv_2d": ("weights", "bias"),
    "fully_connected": ("weights", "bias"),
    "mean": ("axes",),
}


def renamed(flat: bytes) -> bytes:
    """The same model, its tensors named after its layers (the converter names them by their history)."""
    model = flatbuffer_utils.read_model_from_bytearray(bytearray(flat))
    model.description = b"Shoehorn: handwritten digits, 8x8"
    graph = model.subgraphs[0]
    kinds = {code: name.lower() for name, code in vars(flatbuffer_utils.schema_fb.BuiltinOperator).items()}
    names = {kind: iter(layers) for kind, layers in LAYERS.items()}
    for op in graph.operators:
        code = model.operatorCodes[op.opcodeIndex]
        kind = kinds[max(code.builtinCode, code.deprecatedBuiltinCode)]
        layer = next(names[kind])
        graph.tensors[op.outputs[0]].name = layer.encode()
        for role, index in zip(CONSTANTS.get(kind, ()), op.inputs[1:], strict=False):
            graph.tensors[index].name = f"{layer}_{role}".encode()
    graph.tensors[graph.inputs[0]].name = b"image"
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def accuracy(flat: bytes, x_int8: np.ndarray, y: np.ndarray) -> float:
    """Share of samples whose largest output is the label, by TensorFlow's own interpreter."""
    interpreter = tf.lite.Interpreter(
        model_content=flat, experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    right = 0
    for image, label in zip(x_int8, y, strict=True):
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image[None])
        interpreter.invoke()
        right += int(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).argmax() == label)
    return right / len(y)


def quantised(flat: bytes, x: np.ndarray) -> np.ndarray:
    """Images as the model takes them, int8 (N, 8, 8, 1)."""
    scale, zero_point = tf.lite.Interpreter(model_content=flat).get_input_details()[0]["quantization"]
    stored: np.ndarray = np.clip(np.round(x / scale) + zero_point, -128, 127).astype(np.int8)
    return stored


def main() -> None:
    """Trains, converts, writes both files, and says how good they are."""
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    x, x_test, y, y_test = load()
    model = build()
    train(model, x, y)
    flat = renamed(convert(model, x))
    x_int8 = quantised(flat, x_test)
    float_accuracy = model.evaluate(x_test, y_test, verbose=0)[1]
    (HERE / "digits.tflite").write_bytes(flat)
    np.savez_compressed(HERE / "digits_test.npz", x=x_int8, y=y_test.astype(np.uint8))
    print(f"float {float_accuracy:.4f}, int8 {accuracy(flat, x_int8, y_test):.4f}, {len(flat)} bytes")


if __name__ == "__main__":
    main()
