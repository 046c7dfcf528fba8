"""`gen inspect`: what is in a model file, of one that can run and of ones that cannot."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tflite
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.importers.source import REPLACEMENTS, replacement
from shoehorn_mcu.inspect.inspection import _end
from shoehorn_mcu.ir import DType, Quant, TensorType
from tests.tflite_writer import ModelSpec, OpSpec, int8, small_model

DIGITS = MODELS / "digits.tflite"


def inspected(gen: Gen, model: Path) -> dict[str, Any]:
    done = gen("inspect", model, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused_onnx(folder: Path) -> Path:
    """A convolution of 72 MACs, an op that cannot run, a convolution behind it, an op of no known kind."""
    w = numpy_helper.from_array(np.ones((2, 2, 1, 1), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("RandomUniformLike", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"]),
        helper.make_node("StringNormalizer2", ["c"], ["y"], domain="some.where"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 3, 6))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 3, 6))
    graph = helper.make_graph(nodes, "small", [x], [y], [w])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("some.where", 1)]
    path = folder / "small.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


def test_the_page_has_all_of_it_and_the_graph_whether_the_model_can_run_or_not(tmp_path: Path, gen: Gen):
    for model, ops, faults in ((DIGITS, 16, 0), (refused_onnx(tmp_path), 4, 2)):
        page = tmp_path / f"{model.stem}.html"
        done = gen("inspect", model, "--html", page)
        assert done.exit_code == 0, done.output
        text = page.read_text()

        found = inspected(gen, model)
        assert text.count("<circle") == ops + 1 and text.count('class="refused"') == faults
        for kind in found["kinds"]:
            figures = (kind["count"], kind["refused"] or "", "?" if kind["macs"] is None else f"{kind['macs']:,}")
            assert f">{kind['op']}</td>" in text
            assert "".join(f"<td>{figure}</td>" for figure in figures) in text.partition(f">{kind['op']}</td>")[2]
            assert all(escape(reason) in text for reason in kind["reasons"])
        assert ("Cannot run</h2>" in text) == (not found["supported"])
        assert all(f">{op['weight_bytes']:,}</td>" in text for op in found["ops"])
    page.write_text("mine")
    done = gen("inspect", DIGITS, "--html", page)
    assert done.exit_code == 1 and "was not written by Shoehorn" in done.stderr and page.read_text() == "mine"


def test_only_an_end_of_one_scale_is_shown_with_it() -> None:
    whole, by_channel = Quant((0.5,), (3,)), Quant((0.5, 0.25), (0, 0), 1)
    shown = [_end("x", TensorType((1, 2), DType.INT8, quant)) for quant in (whole, by_channel, None)]
    assert [(end.scale, end.zero_point) for end in shown] == [(0.5, 3), (None, None), (None, None)]


def test_a_model_that_can_run_is_shown_op_by_op(gen: Gen):
    found = inspected(gen, DIGITS)
    model, planned = found["model"], json.loads(gen("plan", DIGITS, "--json").stdout)

    assert found["supported"] and found["refused"] == [] and found["diagnosis"] == ""
    assert {key: model[key] for key in ("ops", "macs", "weight_bytes")} == {
        key: planned["model"][key] for key in ("ops", "macs", "weight_bytes")
    }
    assert model["activation_peak_bytes"] == planned["plan"]["whole_tensor_bytes"] == 2560
    assert model["activation_peak_op"] == "depthwise_conv_2d_2"
    first = found["ops"][0]
    assert first["output"]["shape"] == [1, 8, 8, 8] and first["output"]["dtype"] == "int8"
    assert (first["weight_scales"], first["output"]["zero_point"], first["live_bytes"]) == (8, -128, 64 + 512)
    assert sum(kind["count"] for kind in found["kinds"]) == 16


def test_a_formula_is_shown_with_the_op_that_it_was_made_from(gen: Gen, tmp_path: Path):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in ("x", "y")]
    nodes = [helper.make_node("Sqrt", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:])
    path = tmp_path / "small.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(made.SerializeToString())

    assert sorted(kind["op"] for kind in inspected(gen, path)["kinds"]) == ["Map (Neg)", "Map (Sqrt)"]


def test_an_onnx_model_that_cannot_run_is_shown_too(gen: Gen, tmp_path: Path):
    found = inspected(gen, refused_onnx(tmp_path))

    assert not found["supported"]
    assert [(op["op"], op["macs"], op["refusal"]) for op in found["ops"]] == [
        ("Conv", 72, None),
        ("RandomUniformLike", None, ""),
        ("Conv", None, None),
        ("some.where.StringNormalizer2", None, ""),
    ]
    kinds = {kind["op"]: kind for kind in found["kinds"]}
    assert kinds["RandomUniformLike"]["replacement"] == REPLACEMENTS["RandomUniformLike"]
    assert kinds["Conv"]["replacement"] == ""
    assert (kinds["Conv"]["weight_bytes"], kinds["Conv"]["macs"], kinds["Conv"]["refused"]) == (32, None, 0)
    assert [op["live_bytes"] for op in found["ops"]] == [288] * 4
    assert found["model"]["inputs"] == [
        {"name": "x", "shape": [1, 2, 3, 6], "dtype": "float32", "scale": None, "zero_point": None}
    ]


def test_the_words_name_what_cannot_run_and_what_could_replace_it(gen: Gen, tmp_path: Path):
    said = gen("inspect", refused_onnx(tmp_path)).stdout

    assert f"  RandomUniformLike: no kernel for it; in its place: {REPLACEMENTS['RandomUniformLike']}\n" in said
    assert said.endswith(
        "cannot run\n  op 1 RandomUniformLike writing 'b'\n  op 3 some.where.StringNormalizer2 writing 'y'\n"
    )


def test_a_tflite_model_that_cannot_run_is_shown_with_its_quantisation(gen: Gen, tmp_path: Path):
    made = small_model()
    made.tensors.append(int8("odd", (1, 4)))
    made.ops.append(OpSpec("NON_MAX_SUPPRESSION_V4", made.ops[-1].outputs, (len(made.tensors) - 1,)))
    made.outputs = (len(made.tensors) - 1,)
    path = tmp_path / "small.tflite"
    path.write_bytes(made.bytes())
    found = inspected(gen, path)

    *others, last = found["ops"]
    assert (last["op"], last["refusal"]) == ("NON_MAX_SUPPRESSION_V4", "")
    assert all(op["refusal"] is None and op["macs"] is not None for op in others)
    assert others[0]["output"]["scale"] is not None
    assert found["kinds"][0]["replacement"] == REPLACEMENTS["NON_MAX_SUPPRESSION_V4"]
    assert [kind["refused"] for kind in found["kinds"]] == [1, *[0] * (len(found["kinds"]) - 1)]


def test_sums_that_may_overflow_are_what_stops_a_model_as_well(gen: Gen, tmp_path: Path):
    cells = 1 << 18  # products of -128 and -127 each
    made = ModelSpec(
        [int8("x", (1, cells)), int8("w", (1, cells)), int8("y", (1, 1))],
        [OpSpec("FULLY_CONNECTED", (0, 1), (2,))],
        (0,),
        (2,),
    )
    made.tensors[1].data = bytes([0x81]) * cells
    made.tensors[1].scales = (1e-3,)
    path = tmp_path / "large.tflite"
    path.write_bytes(made.bytes())
    found = inspected(gen, path)

    assert not found["supported"]
    assert "quantise it again" in found["refused"][0]
    assert "cannot run" in gen("inspect", path).stdout


def test_a_file_that_is_no_model_is_refused_in_one_line(gen: Gen, tmp_path: Path):
    (tmp_path / "none.onnx").write_bytes(b"no model")
    done = gen("inspect", tmp_path / "none.onnx")

    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_replacements_are_for_ops_that_the_formats_have():
    custom = {"TFLite_Detection_PostProcess"}
    known = {schema.name for schema in onnx.defs.get_all_schemas()} | set(vars(tflite.BuiltinOperator)) | custom

    assert set(REPLACEMENTS) - known == set()
    assert replacement("CUSTOM 'FlexErf'") != ""
    assert replacement("CUSTOM 'TFLite_Detection_PostProcess'") == REPLACEMENTS["TFLite_Detection_PostProcess"]
