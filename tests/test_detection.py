"""TFLite_Detection_PostProcess and its suppression of boxes that overlap, against LiteRT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from runtime import run_portable
from test_uint8 import values_of
from tflite_writer import ModelSpec, OpSpec, TensorSpec

from shoehorn_mcu.importers import ImportFault, UnsupportedModel
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import Array
from shoehorn_mcu.passes import run

NEAR = 1e-5
NAMES = ("boxes", "classes", "scores", "number")
OPTIONS = {
    **{"max_detections": 8, "max_classes_per_detection": 1, "detections_per_class": 5, "use_regular_nms": False},
    **{"num_classes": 3, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4},
    **{"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0},
}


def detector(
    boxes: int, columns: int, seed: int = 0, encoded: Mapping[str, Any] = MappingProxyType({}), **options: float
) -> bytes:
    """The op on encoded boxes, whose tensor gets other fields, and scores (1, boxes, columns), with random anchors."""
    rng = np.random.default_rng(seed)
    anchors = np.hstack([rng.uniform(0.2, 0.8, (boxes, 2)), rng.uniform(0.1, 0.4, (boxes, 2))]).astype(np.float32)
    said = {key: value for key, value in (OPTIONS | options).items() if value is not None}
    count = int(said["max_detections"]) * (1 if said.get("use_regular_nms") else int(said["max_classes_per_detection"]))
    shapes = ((1, count, 4), (1, count), (1, count), (1,))
    tensors = [
        replace(TensorSpec("encoded", (1, boxes, 4), "FLOAT32"), **encoded),
        TensorSpec("given", (1, boxes, columns), "FLOAT32"),
        TensorSpec("anchors", (boxes, 4), "FLOAT32", data=anchors.tobytes()),
        *(TensorSpec(name, shape, "FLOAT32") for name, shape in zip(NAMES, shapes, strict=True)),
    ]
    op = OpSpec("CUSTOM", (0, 1, 2), (3, 4, 5, 6), said, custom="TFLite_Detection_PostProcess")
    return ModelSpec(tensors, [op], (0, 1), (3, 4, 5, 6)).bytes()


def theirs(model: bytes, arrays: list[Array]) -> list[Array]:
    """LiteRT's results, on one thread, as classes are merged in another order on several."""
    interpreter = Interpreter(
        model_content=model, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]


@pytest.mark.parametrize(
    ("boxes", "columns", "options"),
    [
        (40, 4, {}),
        (40, 3, {"nms_iou_threshold": 0.1, "detections_per_class": None, "use_regular_nms": None}),
        (12, 4, {"max_classes_per_detection": 2}),
        (5, 4, {"nms_score_threshold": 0.95}),
        (60, 2, {"num_classes": 1, "max_detections": 30}),
        (40, 4, {"use_regular_nms": True}),
        (30, 3, {"use_regular_nms": True, "nms_iou_threshold": 0.6, "detections_per_class": None}),
        (4, 3, {"use_regular_nms": True, "max_detections": 20, "nms_score_threshold": 0.8, "detections_per_class": 2}),
    ],
    ids=str,
)
def test_detections_are_those_of_litert(boxes: int, columns: int, options: dict[str, float]) -> None:
    model = detector(boxes, columns, **options)
    graph = import_tflite(model, "detector")
    optimised = run(graph)[0]
    most = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        encoded = rng.normal(0, 2, (1, boxes, 4)).astype(np.float32)
        given = rng.uniform(0, 1, (1, boxes, columns)).astype(np.float32)
        if seed % 2 and options.get("max_classes_per_detection", 1) == 1:
            # Equal scores: the first box, the first class. std::partial_sort leaves it open for several classes.
            given = (np.round(given * 8) / 8).astype(np.float32)
        wanted = theirs(model, [encoded, given])
        number = int(wanted[3][0])
        most = max(most, number)
        rows = number * int((OPTIONS | options)["max_classes_per_detection"])
        values = values_of(graph, {"encoded": encoded, "given": given})
        compiled = [run_portable(optimised, [encoded, given])] if boxes == 40 else []
        for own in (values, *compiled):
            assert own["number"][0] == number
            for name, array in zip(NAMES[:3], wanted, strict=False):
                np.testing.assert_allclose(own[name][:, :rows], array[:, :rows], NEAR, NEAR, err_msg=name)
                assert not own[name][:, rows:].any()  # LiteRT leaves them as they were
    assert most > 0


def test_what_no_detector_has_is_refused() -> None:
    with pytest.raises(ImportFault, match="nms_iou_threshold is 0"):
        import_tflite(detector(5, 4, nms_iou_threshold=0.0), "detector")
    with pytest.raises(ImportFault, match="it finds 8 of 9 classes"):
        import_tflite(detector(5, 4, num_classes=9), "detector")
    with pytest.raises(UnsupportedModel, match="it gives 7 classes for each box, of 3"):
        import_tflite(detector(5, 4, max_classes_per_detection=7), "detector")
    with pytest.raises(ImportFault, match="cannot be read"):
        import_tflite(detector(5, 4, num_classes=None), "detector")


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"shape": (40, 4)}, {}, r"it reads float32\[40x4\] and float32\[1x40x4\]"),
        ({"dtype": "INT32"}, {}, r"it reads int32\[1x40x4\] and float32\[1x40x4\], float32 is needed"),
        ({"shape": (1, 30, 4)}, {}, r"its boxes float32\[1x30x4\], scores float32\[1x40x4\] and anchors differ"),
        ({}, {"y_scale": 0.0}, "it has a scale of 0"),
        ({}, {"use_regular_nms": True, "detections_per_class": 0}, "it takes 0 boxes of a class"),
    ],
)
def test_operands_that_do_not_fit_are_named(change: dict[str, Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(ImportFault, match=said):
        import_tflite(detector(40, 4, encoded=change, **options), "detector")
