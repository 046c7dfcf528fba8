"""Converter of TFLite_Detection_PostProcess: boxes decoded from anchors, and those that stay where boxes overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering import columns, maps
from shoehorn_mcu.importers.lowering import site as onnx
from shoehorn_mcu.importers.lowering.movers import joined, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Value, as_plain
from shoehorn_mcu.importers.tflite.by_onnx import converter, through
from shoehorn_mcu.importers.tflite.options import Options
from shoehorn_mcu.importers.tflite.site import Site
from shoehorn_mcu.ir import DType, Tensor
from shoehorn_mcu.ops import Gather, Suppress
from shoehorn_mcu.ops import functions as f

NAME = "TFLite_Detection_PostProcess"
_MOST = 1 << 16  # detections


def _post_process(site: Site, there: onnx.Site) -> tuple[Value, ...]:
    """Operands: encoded boxes (1, N, 4 or more), scores (1, N, classes), anchors (N, 4).

    Results: boxes (1, D, 4), classes (1, D), scores (1, D) and their number. Where fewer boxes stay, the rest is 0.
    """
    options = site.options
    encoded, scores = (there.plain(there.value(place)) for place in (0, 1))
    if len(site.outputs) != 4 or len(encoded.type.shape) != 3 or len(scores.type.shape) != 3:
        raise ImportFault(f"it reads {encoded.type} and {scores.type}; convert it again")
    if {encoded.type.dtype, scores.type.dtype} != {DType.FLOAT32}:
        raise Unsupported(f"it reads {encoded.type} and {scores.type}, float32 is needed")
    count, classes = scores.type.shape[1:]
    known = int(options["num_classes"])
    most = int(options["max_detections"])
    anchors = there.real(2, "anchors").astype(np.float64)
    if encoded.type.shape[:2] != (1, count) or encoded.type.shape[2] < 4 or anchors.shape != (count, 4):
        raise ImportFault(f"its boxes {encoded.type}, scores {scores.type} and anchors differ; convert it again")
    if scores.type.shape[0] != 1 or not 0 <= classes - known <= 1 or not 0 < most <= _MOST:
        raise ImportFault(f"it finds {most} of {known} classes in {scores.type}; convert it again")
    if not 0 < options["nms_iou_threshold"] <= 1:
        raise ImportFault(f"its nms_iou_threshold is {options['nms_iou_threshold']}; above 0 and at most 1 is needed")
    boxes = _decoded(options, there, shaped(there, encoded, encoded.type.shape[1:]), anchors)
    own = shaped(there, scores, (count, classes))
    if known < classes:  # the first one is the background
        own = sliced(there, own, [range(count), range(1, classes)])
    if options["use_regular_nms"]:
        return _regular(options, there, boxes, own)
    return _fast(options, there, boxes, own)


def _decoded(options: Options, there: onnx.Site, encoded: Tensor, anchors: np.ndarray) -> Tensor:
    """Boxes (N, 4) as low y, low x, high y, high x."""
    scales = np.array([[options[f"{side}_scale"] for side in "yxhw"]])
    if not scales.all():
        raise ImportFault("it has a scale of 0; convert it again")
    places = [sliced(there, encoded, [range(len(anchors)), range(a, a + 2)]) for a in (0, 2)]
    by, middle, half = (
        as_plain(there.weights(each.astype(np.float32)))
        for each in (anchors[:, 2:] / scales[:, :2], anchors[:, :2], 0.5 * anchors[:, 2:])
    )
    shrink = as_plain(there.weights((1 / scales[:, 2:]).astype(np.float32)))
    center, size = (as_plain(place) for place in places)

    def end(sign: float) -> Tensor:
        operands = (center, size, by, middle, half, shrink)
        return maps.mapped(there, lambda c, s, b, m, h, k: (c * b + m) + f.exp(s * k) * h * sign, *operands).tensor

    return joined(there, [end(-1.0), end(1.0)], 1)


def _suppressed(options: Options, there: onnx.Site, boxes: Tensor, scores: Tensor, count: int) -> Tensor:
    """The places of the boxes that stay, for each row of scores (K, N): (K, count)."""
    classes, number = scores.type.shape
    rows = shaped(there, scores, (classes, 1, number))
    overlap, least = (float(np.float32(options[f"nms_{name}_threshold"])) for name in ("iou", "score"))
    found = there.emit(Suppress, rows, boxes, dtype=DType.INT32, count=count, overlap=overlap, least=least)
    return shaped(there, found, (classes, count))


def _taken(there: onnx.Site, x: Tensor, places: Tensor) -> Tensor:
    """Rows of x (N, C) at computed places (D,), as (D, C); those below 0 are 0."""
    count = places.type.elements
    column = as_plain(shaped(there, places, (1, count, 1)))
    inside = maps.mapped(there, lambda p: f.maximum(p, 0), column)
    rows = there.emit(Gather, shaped(there, x, (1, *x.type.shape)), inside.tensor)
    kept = maps.mapped(there, lambda v, p: (p < 0).select(v.constant(0), v), as_plain(rows), column)
    return shaped(there, kept.tensor, (count, x.type.shape[1]))


def _number(there: onnx.Site, places: Tensor) -> Value:
    """How many places (D,) are not below 0, as float32."""
    here = maps.mapped(there, lambda p: (p < 0).select(p.constant(0.0, DType.FLOAT32), 1.0), as_plain(places))
    return columns.reduced(there, here, (0,), lambda a, b: a + b)


def _best(there: onnx.Site, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest numbers of each row of x (R, C) and their places, as (R, count)."""
    there = replace(there, values={**there.values, "ranked": as_plain(x)})
    attributes = {"axis": 1, "largest": 1, "sorted": 1}
    found = through(there, "TopK", ("ranked", "count"), attributes, count=np.array([count], np.int64))
    assert isinstance(found, tuple)
    values, places = found
    return there.plain(values), there.plain(maps.cast(there, places, DType.INT32))


def _fast(options: Options, there: onnx.Site, boxes: Tensor, scores: Tensor) -> tuple[Value, ...]:
    """By the best class of each box; a box that stays is given with its best classes."""
    asked, most = int(options["max_classes_per_detection"]), int(options["max_detections"])
    each = min(asked, scores.type.shape[1])
    if not 0 < asked == each:
        raise Unsupported(f"it gives {asked} classes for each box, of {scores.type.shape[1]}")
    values, classes = _best(there, scores, each)
    count = scores.type.shape[0]
    first = sliced(there, values, [range(count), range(1)])
    places = _suppressed(options, there, boxes, shaped(there, first, (1, count)), most)
    places = shaped(there, places, (most,))
    real = there.plain(maps.cast(there, as_plain(classes), DType.FLOAT32))
    found = _taken(there, boxes, places)
    if each > 1:
        wide = [shaped(there, found, (most, 1, 4))] * each
        found = joined(there, wide, 1)
    parts = (found, _taken(there, real, places), _taken(there, values, places))
    shapes = ((1, most * each, 4), (1, most * each), (1, most * each))
    shown = [as_plain(shaped(there, part, shape)) for part, shape in zip(parts, shapes, strict=True)]
    return (*shown, _number(there, places))


def _regular(options: Options, there: onnx.Site, boxes: Tensor, scores: Tensor) -> tuple[Value, ...]:
    """Class by class; of the boxes that stay, those with the highest scores, of equal ones that of the first class."""
    most = int(options["max_detections"])
    count = min(int(options["detections_per_class"]), most)
    if count < 1:
        raise ImportFault(f"it takes {count} boxes of a class; convert it again")
    number, classes = scores.type.shape
    by_class = there.transposed(scores, (1, 0))
    places = _suppressed(options, there, boxes, by_class, count)
    starts = there.weights((np.arange(classes, dtype=np.int32) * number).reshape(-1, 1))
    flat = maps.mapped(there, lambda p, s: (p < 0).select(p, p + s), as_plain(places), as_plain(starts))
    total = classes * count
    flat_places = shaped(there, flat.tensor, (total,))
    values = _taken(there, shaped(there, by_class, (classes * number, 1)), flat_places)
    lowest = float(np.finfo(np.float32).min)
    rows = [as_plain(shaped(there, each, (1, total))) for each in (values, flat_places)]
    ranked = maps.mapped(there, lambda v, p: (p < 0).select(v.constant(lowest), v), *rows)
    kept = min(most, total)
    _, order = _best(there, ranked.tensor, kept)
    order = shaped(there, order, (kept,))
    # Of a place taken: its box, its class and its score; -1 where fewer boxes stay.
    chosen = _at(there, flat_places, order)
    found = maps.mapped(there, lambda c: (c < 0).select(c, c - (c / number) * number), as_plain(chosen))
    kinds = maps.mapped(
        there, lambda c: (c < 0).select(c.constant(0), c / number).cast(DType.FLOAT32), as_plain(chosen)
    )
    parts = (
        _taken(there, boxes, found.tensor),
        shaped(there, kinds.tensor, (kept, 1)),
        _taken(there, shaped(there, by_class, (classes * number, 1)), chosen),
    )
    shown = []
    for part, shape in zip(parts, ((1, most, 4), (1, most), (1, most)), strict=True):
        rest = there.weights(np.zeros((most - kept, part.type.shape[1]), np.float32)) if kept < most else None
        whole = part if rest is None else joined(there, [part, rest], 0)
        shown.append(as_plain(shaped(there, whole, shape)))
    return (*shown, _number(there, chosen))


def _at(there: onnx.Site, x: Tensor, places: Tensor) -> Tensor:
    """The elements of x (N,) at computed places (D,)."""
    count = places.type.elements
    rows = there.emit(Gather, shaped(there, x, (1, x.type.elements, 1)), shaped(there, places, (1, count, 1)))
    return shaped(there, rows, (count,))


CONVERTERS = {NAME: converter(_post_process)}
