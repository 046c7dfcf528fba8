"""What `gen slim` reads besides the model: recipes, goals and samples, good and bad ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.slim.data import Data, read_data
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.goal import Minimized, Until
from shoehorn_mcu.slim.judge import check_original
from shoehorn_mcu.slim.reading import read
from shoehorn_mcu.slim.recipe import DataTable, read_recipe
from shoehorn_mcu_host.base.errors import InputError
from tests import slim_nets

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def model() -> Imported:
    return import_model(slim_nets.tiny(), "tiny")


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def labels(count: int, classes: int = 10) -> Any:
    return np.arange(count) % classes


def saved(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "x.npz", **arrays)
    return str(folder / "x.npz")


def loaded(where: str, model: Imported, **table: Any) -> Data:
    def no_image(path: Path, height: int, width: int, channels: int) -> Any:
        return np.full((height, width, channels), int(path.stem), np.uint8)

    return read_data(where, model, DataTable(**{"batch": 16, **table}), no_image)


# Recipes.


def test_a_recipe_that_is_written_out_is_the_same_when_it_is_read(tmp_path: Path) -> None:
    recipe = read_recipe(None, {"goal": {"board": "microbit"}, "moves": {"keep": ("stem",), "use": ("reduce",)}})
    (tmp_path / "r.toml").write_text(recipe.toml())
    assert read_recipe(tmp_path / "r.toml") == recipe
    assert recipe.moves.keep == ("stem",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[goal]\nborad = "x"', "did you mean 'board'"),
        ("[gaol]", "did you mean 'goal'"),
        ('[moves]\nuse = ["streamlin"]', "did you mean 'streamline'"),
        ("[steps]\nepochs = -1", "'steps.epochs'"),
        ("[steps]\nrate = nan", "'steps.rate'"),
        ('[data]\naugment = ["turn"]', "shift, flip, mix"),
        ('[goal]\nuntil = "smaller"', "instructions=-50%"),
        ("goal = 3", "'goal'"),
        ("x =", "no TOML"),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(SlimError) as refusal:
        read_recipe(tmp_path / "r.toml")
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "what", "original", "most"),
    [
        ("instructions=-50%", Minimized.INSTRUCTIONS, 1000, 500),
        ("-25%", None, 1000, 750),
        ("sram=64k", Minimized.SRAM, 0, 65536),
        ("arena=9408", Minimized.ARENA, 0, 9408),
        ("flash=1.5M", Minimized.FLASH, 0, 1572864),
        ("instructions=4M", Minimized.INSTRUCTIONS, 0, 4_000_000),
    ],
)
def test_a_goal_is_a_figure(text: str, what: Minimized | None, original: int, most: int) -> None:
    until = Until.parsed(text)
    assert (until.what, until.most(original), until.fits) == (what, most, False)


def test_several_goals_are_all_to_be_reached() -> None:
    goals = Until.all("instructions=-50%, sram=64k")
    assert [(each.what, each.most(1000)) for each in goals] == [
        (Minimized.INSTRUCTIONS, 500),
        (Minimized.SRAM, 65536),
    ]
    with pytest.raises(SlimError, match="--until ''"):
        Until.all("sram=64k,")


@pytest.mark.parametrize("text", ["", "sram", "64k", "-100%", "-0%", "sram=-5k", "time=-5%"])
def test_what_is_no_goal_is_refused(text: str) -> None:
    with pytest.raises(SlimError, match="--until"):
        Until.parsed(text)


# Samples.


def test_samples_are_divided_by_the_seed_with_the_classes_in_equal_shares(tmp_path: Path, model: Imported) -> None:
    where = saved(tmp_path, x=drawn(200, 1, 8, 8), y=labels(200))
    data, again, other = loaded(where, model), loaded(where, model), loaded(where, model, seed=2)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [130, 30, 40]
    for part, each in ((data.validation, 3), (data.test, 4)):
        assert part.y is not None and (np.bincount(part.y) == each).all()
    assert np.array_equal(data.test.x, again.test.x) and data.sha256 == again.sha256
    assert not np.array_equal(data.test.x, other.test.x)
    whole = np.concatenate([part.x for part in (data.train, data.validation, data.test)])
    assert len(np.unique(whole.reshape(200, -1), axis=0)) == 200


def test_test_samples_that_are_given_are_the_test_samples(tmp_path: Path, model: Imported) -> None:
    x_test = drawn(20, 8, 8, 1)
    where = saved(tmp_path, x=drawn(100, 8, 8), y=labels(100), x_test=x_test, y_test=labels(20))
    data = loaded(where, model)
    assert np.array_equal(data.test.x, x_test) and len(data.train) == 80 and data.labelled


@pytest.mark.parametrize("values", [(0, 1), (0, 256), (-1, 255), (0, 254.5), (0, 1.5)])
def test_floats_that_are_no_pixels_stay_as_they_are(
    values: tuple[float, float], tmp_path: Path, model: Imported
) -> None:
    """Zeros and ones, or values that are negative, no whole numbers or above 255."""
    given = np.tile(np.array(values, np.float32), (60, 32)).reshape(60, 8, 8)
    data = loaded(saved(tmp_path, x=given, y=labels(60)), model)

    assert (float(data.train.x.min()), float(data.train.x.max())) == values


def test_pixels_become_what_the_recipe_says(tmp_path: Path, model: Imported) -> None:
    x = RNG.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8)
    data = loaded(saved(tmp_path, x=x), model, mean=(0.5,), scale=(0.25,))
    whole = np.concatenate([part.x for part in (data.train, data.validation, data.test)])
    wanted = ((x / 255 - 0.5) / 0.25).transpose(0, 2, 3, 1)
    assert np.allclose(np.sort(whole.ravel()), np.sort(wanted.ravel()), atol=1e-6) and not data.labelled


def test_a_folder_of_images_has_a_folder_per_class(tmp_path: Path, model: Imported) -> None:
    for label in range(3):
        (tmp_path / "images" / f"c{label}").mkdir(parents=True)
        for place in range(20):
            (tmp_path / "images" / f"c{label}" / f"{place}.png").touch()
    data = loaded(str(tmp_path / "images"), model)
    assert data.train.y is not None and set(data.train.y) == {0, 1, 2} and len(data.train) == 39


def test_a_function_of_the_users_own_gives_samples(tmp_path: Path, model: Imported) -> None:
    lines = (
        "import numpy as np",
        "def load():",
        "    x = np.arange(80 * 64, dtype='f4').reshape(80, 8, 8) / 9999",
        "    return x, np.arange(80) % 4",
    )
    (tmp_path / "mine.py").write_text("\n".join(lines))
    assert len(loaded(f"{tmp_path}/mine.py:load", model).train) == 52


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def load():\n    x = 1\n    return {}['a']\n", "line 3: KeyError: 'a'"),
        ("import nothing_like_this\n", "line 1: ModuleNotFoundError"),
        ("def other(): pass\n", "no function 'load'"),
        ("def load(): return 5\n", "returns int"),
        ("def load(): raise SystemExit(3)\n", "line 1: SystemExit: 3"),
    ],
)
def test_a_function_that_fails_is_named_with_its_line(tmp_path: Path, model: Imported, text: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(SlimError) as refusal:
        loaded(f"{tmp_path}/mine.py:load", model)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def _pixels_as_floats() -> Any:
    return RNG.integers(0, 256, (60, 8, 8)).astype(np.float32)


def _with_nan() -> Any:
    x = drawn(60, 8, 8)
    x[7, 3, 3] = np.nan
    return x


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": drawn(60, 8, 9)}, "takes (1, 8, 8) per sample"),
        ({"x": drawn(60, 3, 8, 8)}, "takes (1, 8, 8) per sample"),
        ({"x": _with_nan()}, "NaN or an infinite value, in sample 7"),
        ({"x": _pixels_as_floats()}, "save it as uint8"),
        ({"x": np.zeros((60, 8, 8), np.int32)}, "uint8 pixels or float32"),
        ({"x": np.zeros((0, 8, 8), np.float32)}, "no samples"),
        ({"x": drawn(60, 8, 8), "y": labels(59)}, "59 labels for 60 samples"),
        ({"x": drawn(60, 8, 8), "y": labels(60) + 1}, "label 10; the model's classes are 0 to 9"),
        ({"x": drawn(60, 8, 8), "y": labels(60) - 1}, "label -1"),
        ({"x": drawn(60, 8, 8), "y": labels(60) * 0}, "one label 0"),
        ({"x": drawn(60, 8, 8), "y": labels(60) * 1.0}, "one integer per sample"),
        ({"x": drawn(12, 8, 8), "y": labels(12)}, "a class has 1 sample"),
        ({"x": drawn(20, 8, 8), "y": labels(20)}, "samples for training"),
        ({"images": drawn(60, 8, 8)}, "wanted are x, y"),
        ({"x": drawn(60, 8, 8), "y": labels(60), "x_test": drawn(9, 8, 8)}, "only one of x_test and y_test"),
    ],
)
def test_samples_that_do_not_fit_are_refused_in_one_line(
    tmp_path: Path, model: Imported, arrays: dict[str, Any], said: str
) -> None:
    with pytest.raises(SlimError) as refusal:
        loaded(saved(tmp_path, **arrays), model)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_files_that_are_no_samples_are_refused(tmp_path: Path, model: Imported) -> None:
    whole = Path(saved(tmp_path, x=drawn(60, 8, 8))).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    pickled = np.empty(2, object)
    np.savez(tmp_path / "pickled.npz", x=pickled)
    (tmp_path / "empty").mkdir()
    (tmp_path / "one" / "class").mkdir(parents=True)
    for name in ("cut.npz", "pickled.npz", "empty", "one", "missing.npz"):
        with pytest.raises((SlimError, InputError)) as refusal:
            loaded(str(tmp_path / name), model)
        assert "\n" not in str(refusal.value)


def test_means_and_scales_are_per_channel(tmp_path: Path, model: Imported) -> None:
    with pytest.raises(SlimError, match=r"data\.mean has 3 values"):
        loaded(saved(tmp_path, x=drawn(60, 8, 8)), model, mean=(0.1, 0.2, 0.3))


# Models.


@pytest.mark.parametrize(("classes", "least"), [(10, 15.0), (2, 75.0)])
def test_a_network_that_is_hardly_better_than_guessing_is_refused(classes: int, least: float) -> None:
    """Half as much again as guessing has right, but no more than half of what it has wrong."""
    y = np.arange(400) % classes
    check_original("net", least, y, None)
    with pytest.raises(SlimError, match=f"has {least - 0.2:.1f} % .*guessing {100 / classes:.1f} %; check the prep"):
        check_original("net", least - 0.2, y, None)


def test_an_accuracy_far_below_the_expected_one_is_refused_and_one_within_the_error_is_not() -> None:
    """Of 400 samples 70 % are known to 4.5 points."""
    y = np.arange(400) % 10
    check_original("net", 70.0, y, 74.0)
    for right, expect in ((70.0, 75.0), (99.9, 102.0)):
        with pytest.raises(SlimError, match=f"{expect:g} % were expected; check the preprocessing"):
            check_original("net", right, y, expect)


def test_a_model_that_is_quantised_already_is_refused() -> None:
    with pytest.raises(SlimError, match="quantised already"):
        read(MODELS / "digits.tflite")


def test_sizes_that_a_model_leaves_open_are_those_that_are_given(tmp_path: Path) -> None:
    net = slim_nets.Net(8, 1)
    made = net.model(net.conv("conv", "image", 4, 3), 3)
    for axis, name in ((2, "height"), (3, "width")):
        made.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    onnx.save(made, path := tmp_path / "open.onnx")
    graph = read(path, {"image": (1, 1, 8, 8)}).graph
    assert graph.tensors[graph.inputs[0]].type.shape == (1, 8, 8, 1)
    with pytest.raises(ShoehornError, match="--shape height=N"):
        read(path)


def test_a_model_of_two_outputs_is_refused(tmp_path: Path, model: Imported) -> None:
    graph = model.graph
    two = replace(model, graph=replace(graph, outputs=(graph.ops[0].output, *graph.outputs)))
    with pytest.raises(SlimError, match="has 2 outputs; only models with one"):
        loaded(saved(tmp_path, x=drawn(60, 8, 8)), two)
