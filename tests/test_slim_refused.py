"""Models, files and folders that `gen slim` refuses before it trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from samples import graph_of
from test_states import ring

from shoehorn_mcu import ops
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import DType, Graph, Tensor, TensorType, verify
from shoehorn_mcu.passes.ends.user_ends import Pixels
from shoehorn_mcu.slim import run, users
from shoehorn_mcu.slim.data import read_data
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.reading import of
from shoehorn_mcu.slim.recipe import read_recipe
from shoehorn_mcu.slim.record import SLIM_JSON, Folder
from shoehorn_mcu.slim.sites import label
from tests import slim_nets


def small(dtype: DType = DType.FLOAT32) -> Graph:
    return graph_of(ops.Reshape, [TensorType((1, 4), dtype)], TensorType((), dtype), shape=(4, 1))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (ring(), "net: is quantised already"),
        (small(DType.INT32), "net: 'x0' is int32; export the model with float32 inputs and outputs"),
        (small(), "net: has no weights; there is nothing to retrain"),
    ],
)
def test_what_cannot_be_retrained_is_refused(graph: Graph, said: str) -> None:
    with pytest.raises(SlimError, match=said):
        of(Imported(graph, {}), "net")


def test_models_of_several_inputs_and_shapes_that_are_no_image_are_refused(tmp_path: Path) -> None:
    kind = TensorType((1, 4), DType.FLOAT32)
    tensors = {"a": Tensor("a", kind), "b": Tensor("b", kind), "y": Tensor("y", replace(kind, shape=(2, 4)))}
    two = verify(
        Graph("two", tensors, (ops.Concat(name="op", inputs=("a", "b"), output="y", axis=0),), ("a", "b"), ("y",))
    )
    recipe = read_recipe(None)
    with pytest.raises(SlimError, match="two: has 2 inputs; only models with one input can be retrained here"):
        read_data("x.npz", Imported(two, {}), recipe.data)

    (tmp_path / "cat").mkdir()
    with pytest.raises(SlimError, match=r"holds images, but the model's input has the shape \(1, 4\); give an .npz"):
        read_data(str(tmp_path), Imported(small(), {}), recipe.data, Pixels((0.0,), (1.0,)))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _other(path: Path) -> None:
    np.savez(path, t0=np.zeros(3))


@pytest.mark.parametrize("spoil", [_cut, _other, Path.unlink], ids=["cut", "another file", "gone"])
def test_weights_of_a_run_that_cannot_be_read_are_named(spoil: Any, tmp_path: Path) -> None:
    graph, folder = import_model(slim_nets.tiny(), "tiny").graph, Folder(tmp_path)
    folder.write_weights("weights.npz", graph)
    again = folder.with_weights("weights.npz", graph)
    assert all(np.array_equal(t.data, again.tensors[n].data) for n, t in graph.tensors.items() if t.data is not None)
    spoil(tmp_path / "weights.npz")

    with pytest.raises(SlimError) as fault:
        folder.with_weights("weights.npz", graph)
    assert "\n" not in str(fault.value)
    assert str(fault.value).endswith("cannot be read; begin again in another --out")


@pytest.mark.parametrize(
    ("resumes", "there", "said"),
    [
        (False, True, "has a run already; --resume .* goes on with it, or name another --out"),
        (True, False, "has no run to go on with"),
    ],
)
def test_a_folder_has_a_run_where_one_goes_on_and_none_where_one_begins(
    resumes: bool, there: bool, said: str, tmp_path: Path
) -> None:
    if there:
        (tmp_path / SLIM_JSON).write_text("{}")
    recipe = read_recipe(None, {"goal": {"board": "mps2-an386"}})

    with pytest.raises(SlimError, match=said):
        run.slim("net.onnx", "x.npz", recipe, tmp_path, cast(Any, None), run.Asked(resumes=resumes))


def test_a_file_of_samples_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlimError, match=r"samples.py: does not exist"):
        users.called(tmp_path / "samples.py", "samples")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("StatefulPartitionedCall/model_1/conv1/Relu;model_1/conv1/BiasAdd", "conv1"),
        ("model/conv1/Relu;model/conv1/BiasAdd", "conv1"),
        ("/c2/c2.1/Relu_output_0", "c2.1"),
    ],
)
def test_a_layer_is_called_as_the_user_did(name: str, said: str) -> None:
    graph = small()
    (op,) = graph.ops
    tensors = {"x0": graph.tensors["x0"], name: replace(graph.tensors["y"], name=name)}
    renamed = verify(replace(graph, ops=(replace(op, output=name),), tensors=tensors, outputs=(name,)))

    assert label(next(iter(renamed.nodes()))) == said
