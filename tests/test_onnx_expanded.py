"""Functions, loops and branches of more ops than a model can have are refused before they fill the memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper

from shoehorn_mcu.importers import ImportFault, load
from shoehorn_mcu.ops import DepthwiseConv2d

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def function(name: str, calls: Sequence[str]) -> onnx.FunctionProto:
    """Calls these functions one after the other; those with "" are a Relu."""
    values = ["a", *(f"t{place}" for place in range(len(calls) - 1)), "b"]
    nodes = [
        helper.make_node(call or "Relu", [values[place]], [values[place + 1]], domain="own" if call else "")
        for place, call in enumerate(calls)
    ]
    return helper.make_function("own", name, ["a"], ["b"], nodes, OPSETS)


def saved(functions: Sequence[onnx.FunctionProto], folder: Path, nodes: Sequence[onnx.NodeProto] = ()) -> Path:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in ("x", "y")]
    call = helper.make_node("F0", ["x"], ["y"], domain="own")
    graph = helper.make_graph(list(nodes) or [call], "calls", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=8)
    path = folder / "calls.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_functions_become_their_ops(tmp_path: Path) -> None:
    twice = [function("F0", ["F1", "F1"]), function("F1", ["", "F2"]), function("F2", [""])]

    relus = [op for op in load(saved(twice, tmp_path)).ops if isinstance(op, DepthwiseConv2d)]
    assert len(relus) == 4


def _doubling(depth: int) -> list[onnx.FunctionProto]:
    return [function(f"F{i}", [f"F{i + 1}"] * 2 if i < depth - 1 else [""] * 2) for i in range(depth)]


def _weighty(depth: int) -> list[onnx.FunctionProto]:
    """Few ops, of which one holds a constant of 32 kB."""
    made = _doubling(depth)
    held = helper.make_tensor("c", TensorProto.FLOAT, (8192,), [0.0] * 8192)
    made[-1].node.append(helper.make_node("Constant", [], ["c"], value=held))
    return made


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    ("functions", "said"),
    [
        (_doubling(30), "its functions expand to more than 65,536 ops"),
        (_doubling(3000), "its functions expand to more than 65,536 ops"),
        (_weighty(15), "or 536,870,912 bytes; export it without functions"),
        ([function("F0", ["F0"])], "its function 'F0' calls itself"),
        ([function("F0", ["F1"]), function("F1", ["F0"])], "its function 'F[01]' calls itself"),
        ([function(f"F{i}", [f"F{i + 1}" if i < 999 else ""]) for i in range(1000)], "more than 256 deep"),
    ],
    ids=("many", "depths", "bytes", "itself", "circle", "chain"),
)
def test_functions_without_end_are_refused_before_they_are_expanded(
    functions: Sequence[onnx.FunctionProto], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx.inliner, "inline_local_functions", lambda _: pytest.fail("expanded"))

    with pytest.raises(ImportFault, match=f"^calls.onnx: .*{said}") as fault:
        load(saved(functions, tmp_path))
    assert "\n" not in str(fault.value)


def test_calls_in_branches_are_counted(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in ("x", "y")]
    branch = helper.make_graph([helper.make_node("F0", ["x"], ["y"], domain="own")], "branch", [], ends[1:])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, (), [True]))

    with pytest.raises(ImportFault, match="its functions expand to more than"):
        load(saved(_doubling(20), tmp_path, [condition, choice]))


@pytest.mark.usefixtures("one_process")
def test_rounds_within_rounds_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three Scans, each the body of the next, run their op 4 x 4 x 4 times."""
    monkeypatch.setattr("shoehorn_mcu.importers.onnx.fold.EXPANDED_OPS", 100)
    body = [helper.make_node("Relu", ["s0"], ["o0"])]
    for depth in range(3):
        shape = (4,) * depth
        inner = helper.make_graph(
            body,
            f"body{depth}",
            [helper.make_tensor_value_info(f"s{depth}", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(f"o{depth}", TensorProto.FLOAT, shape)],
        )
        ends = ("x", "y") if depth == 2 else (f"s{depth + 1}", f"o{depth + 1}")
        body = [helper.make_node("Scan", [ends[0]], [ends[1]], body=inner, num_scan_inputs=1)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 4, 4)) for name in ("x", "y"))
    graph = helper.make_graph(body, "rounds", [x], [y])
    path = tmp_path / "rounds.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=OPSETS, ir_version=8).SerializeToString())

    with pytest.raises(ImportFault, match="op 0 Scan: its loops and functions expand to more than 100 ops"):
        load(path)
