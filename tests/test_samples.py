"""Inputs and labels as users have them: in the names, layout and types of the model's file, and in folders by class."""

from __future__ import annotations

import json
import re
import wave
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Array, End, Plan, Stored
from shoehorn_mcu_host.validate import samples
from shoehorn_mcu_host.validate.accuracy import Accuracy, Labels, accuracy, checked

RNG = np.random.default_rng(11)
INT8, UINT8, INT16, FLOAT = (np.dtype(name) for name in ("int8", "uint8", "int16", "float32"))
SCORES = End("scores", (1, 3), INT8, 3, 1 / 256, -128)
TWO = End("scores", (1, 2), INT8, 2, 1 / 256, -128)
SINGLE = End("yes", (1, 1), UINT8, 1, 1 / 256, 0)
# int8 in N, H, W, C in the firmware, uint8 in N, C, H, W in the file.
IMAGE = End("x", (1, 4, 5, 3), INT8, 60, 1 / 255, -128, Stored("pixels", (1, 3, 4, 5), UINT8, 1 / 255, 0), (0, 2, 3, 1))


def plan_of(*inputs: End, output: End = SCORES) -> Plan:
    return Plan("model", "0" * 16, inputs, (output,), (), (), {})


# --- Layout, types and names


def test_vectors_of_the_file_become_those_of_the_firmware_and_back(tmp_path: Path):
    given = RNG.integers(0, 256, (7, 3, 4, 5), np.uint8)
    np.savez(tmp_path / "x.npz", pixels=given)
    found = [vector[0] for vector in vectors.from_npz(tmp_path / "x.npz", (IMAGE,))]
    wanted = (given.astype(np.int16) - 128).astype(np.int8).transpose(0, 2, 3, 1)

    assert [array.shape for array in found] == [(1, 4, 5, 3)] * 7
    assert np.array_equal(np.concatenate(found), wanted)
    assert np.array_equal(IMAGE.given(np.stack(found)), given.reshape(7, 1, 3, 4, 5))


def test_an_image_in_the_order_of_the_firmware_is_refused(tmp_path: Path):
    np.savez(tmp_path / "x.npz", pixels=np.zeros((2, 4, 5, 3), np.uint8))
    with pytest.raises(InputError, match=r"'pixels' has shape \(2, 4, 5, 3\); wanted are vectors of \(1, 3, 4, 5\)"):
        vectors.from_npz(tmp_path / "x.npz", (IMAGE,))


def onnx_model(folder: Path) -> Path:
    """A convolution between images of 3 and 4 channels, in N, C, H, W."""
    w, b = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32), RNG.standard_normal(4).astype(np.float32)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("picture:0", (1, 3, 6, 5)), ("maps/0", (1, 4, 4, 3)))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["picture:0", "w", "b"], ["sums"]),
            helper.make_node("Sigmoid", ["sums"], ["maps/0"]),
        ],
        "small",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    path = folder / "small.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


def test_the_board_takes_and_gives_arrays_as_onnx_runtime_does_preserved_ones_too(gen: Gen, tmp_path: Path):
    model = onnx_model(tmp_path)
    x = RNG.standard_normal((3, 3, 6, 5)).astype(np.float32)
    np.savez(tmp_path / "x.npz", **{"picture:0": x})
    written = gen("firmware", model, "--board", "native", "--preserve", "sums", "--out", tmp_path / "f")
    assert written.exit_code == 0, written.output
    files = ("--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz")
    result = gen("validate", tmp_path / "f", "--emulate", *files, "--json")
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    wanted = np.concatenate([session.run(None, {"picture:0": each[None]})[0] for each in x])

    given = np.load(tmp_path / "y.npz")
    np.testing.assert_allclose(given["maps/0"], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(1 / (1 + np.exp(-given["sums"])), wanted, rtol=1e-5, atol=1e-5)
    source = json.loads((tmp_path / "f" / "plan.json").read_text())["inputs"][0]["source"]
    assert source == {
        "name": "picture:0",
        "shape": [1, 3, 6, 5],
        "dtype": "float32",
        "scale": 0.0,
        "zero_point": 0,
        "order": [0, 2, 3, 1],
    }


# --- Labels


def test_labels_beside_the_inputs_and_in_a_file_of_their_own(tmp_path: Path):
    x, y = RNG.integers(0, 256, (3, 3, 4, 5), np.uint8), np.array([2, 0, 1], np.int64)
    np.savez(tmp_path / "both.npz", x=x, y=y)
    np.savez(tmp_path / "x.npz", pixels=x)
    np.savez(tmp_path / "y.npz", anything=y)
    plan = plan_of(IMAGE)
    both = samples.load(tmp_path, plan, tmp_path / "both.npz", None, False, None)
    apart = samples.load(tmp_path, plan, tmp_path / "x.npz", tmp_path / "y.npz", False, None)
    np.save(tmp_path / "y.npy", y)
    single = samples.load(tmp_path, plan, tmp_path / "x.npz", tmp_path / "y.npy", False, None)
    again = samples.load(tmp_path, plan, tmp_path / "x.npz", tmp_path / "both.npz", False, None)

    assert both.labels == apart.labels == again.labels == single.labels == Labels((2, 0, 1))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(both.vectors, apart.vectors, strict=True))
    assert samples.load(tmp_path, plan, tmp_path / "x.npz", None, False, None).labels is None


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array([0, 1]), "holds 2 labels for 3 vectors"),
        (np.array([0, 1, 3]), "holds label 3; output 'scores' tells 3 classes apart, 0 to 2"),
        (np.array([0, -1, 2]), "holds label -1"),
        (np.array([0.0, 1.0, np.nan]), "the labels are float64"),
        (np.zeros((3, 3), np.int64), "wanted is one integer per vector"),
        (np.array(1), "wanted is one integer per vector"),
    ],
)
def test_labels_that_do_not_fit_are_refused_in_one_line(labels: Array, said: str):
    with pytest.raises(InputError, match=f"^y.npz: .*{re.escape(said)}"):
        checked(labels, (), 3, SCORES, "y.npz")


def test_the_confusion_counts_the_boards_decisions():
    board = [np.array([each], np.int8) for each in ([9, 1, 2], [0, 5, 9], [3, 7, 1], [8, 2, 2])]
    reference = [np.array([each], np.int8) for each in ([9, 1, 2], [0, 9, 5], [3, 7, 1], [8, 2, 2])]
    found = accuracy(Labels((0, 1, 1, 2), ("ant", "bee", "cat")), SCORES, board, reference, [])

    assert found.confusion == ((1, 0, 0), (0, 1, 1), (1, 0, 0))
    assert (found.right, found.reference_right, found.precise_right) == (2, 3, None)
    assert sorted(found.mistakes) == [("bee", "cat", 1), ("cat", "ant", 1)]
    assert found.json()["top1"] == 0.5


def test_a_single_output_says_yes_above_a_half():
    outputs = [np.array([[stored]], np.uint8) for stored in (128, 129, 255, 0)]
    found = accuracy(Labels((0, 1, 1, 1)), SINGLE, outputs, outputs, outputs)

    assert found == Accuracy(Labels((0, 1, 1, 1)), 3, 3, 3, ((1, 0), (1, 2)))


# --- Folders


def picture(path: Path, pixels: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def test_a_folder_of_images_by_class(tmp_path: Path):
    images = RNG.integers(0, 256, (3, 4, 5, 3), np.uint8)
    for name, image in zip(("dog/b.png", "cat/a.png", "dog/a.bmp"), images, strict=True):
        picture(tmp_path / "x" / name, image)
    (tmp_path / "x" / ".hidden").mkdir()
    found = samples.load(tmp_path, plan_of(IMAGE, output=TWO), tmp_path / "x", None, False, None)

    assert found.labels == Labels((0, 1, 1), ("cat", "dog"))
    wanted = (images[[1, 2, 0]].astype(np.int16) - 128).astype(np.int8)
    assert np.array_equal(np.concatenate([vector[0] for vector in found.vectors]), wanted)


def test_an_image_is_given_as_the_firmware_takes_it(tmp_path: Path):
    """With --io native that is N, C, H, W, as in the file."""
    image = RNG.integers(0, 256, (4, 5, 3), np.uint8)
    picture(tmp_path / "x" / "a.png", image)
    end = End("pixels", (1, 3, 4, 5), UINT8, 60, 1 / 255, 0)
    found = samples.load(tmp_path, plan_of(end), tmp_path / "x", None, False, None)

    assert np.array_equal(found.vectors[0][0].reshape(3, 4, 5), image.transpose(2, 0, 1))


def test_classes_are_numbers_or_in_the_order_of_a_list(tmp_path: Path):
    for name in ("x/2/a.png", "x/0/a.png", "named/dog/a.png", "named/ant/a.png"):
        picture(tmp_path / name, np.zeros((4, 5, 3), np.uint8))
    (tmp_path / "names.txt").write_text("dog\nbee\nant\n")
    numbers = samples.load(tmp_path, plan_of(IMAGE), tmp_path / "x", None, False, None)
    named = samples.load(tmp_path, plan_of(IMAGE), tmp_path / "named", tmp_path / "names.txt", False, None)

    assert numbers.labels == Labels((0, 2), ("0", "1", "2"))
    assert named.labels == Labels((2, 0), ("dog", "bee", "ant"))


def test_pixels_become_the_values_that_the_quantisation_tells(tmp_path: Path):
    grey = np.arange(0, 256, 17, np.uint8).reshape(4, 4)
    picture(tmp_path / "x" / "a.png", grey)
    for low, high in ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0)):
        scale = (high - low) / 255
        zero = round(-128 - low / scale)
        end = End("x", (1, 4, 4, 1), INT8, 16, scale, zero)
        found = samples.load(tmp_path, plan_of(end), tmp_path / "x", None, False, None).vectors[0][0]

        assert np.abs(found.reshape(4, 4).astype(np.int16) + 128 - grey).max() <= 1

    real = End("x", (1, 4, 4, 1), FLOAT, 64, 0.0, 0, Stored("x", (1, 1, 4, 4), FLOAT), (0, 2, 3, 1))
    given = samples.load(tmp_path, plan_of(real), tmp_path / "x", None, False, (-2.0, 3.0)).vectors[0][0]
    np.testing.assert_allclose(given.reshape(4, 4), grey / 51.0 - 2, atol=1e-6)


def test_wav_files_are_padded_with_silence(tmp_path: Path):
    sound = RNG.integers(-32768, 32768, 50).astype(np.int16)
    save_wav(tmp_path / "x" / "yes" / "a.wav", sound)
    save_wav(tmp_path / "x" / "no" / "a.wav", sound[:10])
    raw, real = (
        samples.load(tmp_path, plan_of(end, output=TWO), tmp_path / "x", None, False, None)
        for end in (End("x", (1, 60), INT16, 120), End("x", (1, 60, 1), FLOAT, 240))
    )

    assert raw.labels == Labels((0, 1), ("no", "yes"))
    assert np.array_equal(raw.vectors[1][0][0, :50], sound) and not raw.vectors[1][0][0, 50:].any()
    assert np.array_equal(real.vectors[0][0][0, :10, 0], sound[:10].astype(np.float32) / 32768)


def listening(hz: int | None = None) -> Plan:
    """The plan of a model that hears 20 samples in an inference."""
    return replace(plan_of(End("samples", (1, 20), INT16, 40), output=TWO), states=("heard",), sample_hz=hz)


def test_a_model_with_states_takes_wav_files_piece_by_piece(tmp_path: Path):
    sound = RNG.integers(-32768, 32768, 50).astype(np.int16)
    save_wav(tmp_path / "x" / "yes" / "a.wav", sound)
    save_wav(tmp_path / "x" / "no" / "a.wav", sound[:40])
    found = samples.load(tmp_path, listening(16000), tmp_path / "x", None, False, None)
    alone = samples.load(tmp_path, listening(), tmp_path / "x" / "yes" / "a.wav", None, False, None)

    assert (found.starts, found.labels) == ((0, 2), Labels((0, 1), ("no", "yes")))
    assert (alone.starts, alone.labels, len(alone.vectors)) == ((0,), None, 3)
    heard = np.concatenate([vector[0].reshape(-1) for vector in found.vectors])
    assert np.array_equal(heard, np.concatenate([sound[:40], sound, np.zeros(10, np.int16)]))
    assert found.vectors[0][0].shape == (1, 20)


def test_recordings_that_do_not_fit_are_refused_in_one_line(tmp_path: Path):
    save_wav(tmp_path / "a.wav", np.zeros(40, np.int16))
    two = replace(listening(), inputs=(*listening().inputs, IMAGE))
    for plan, labels, said in (
        (listening(8000), None, "a.wav: has 16,000 samples per second, the model takes 8,000; convert it"),
        (listening(), tmp_path / "y.txt", "a.wav: is one WAV file; labels are for a folder"),
        (two, None, "a.wav: is a WAV file, and the model has 2 inputs"),
    ):
        with pytest.raises(InputError, match=said):
            samples.load(tmp_path, plan, tmp_path / "a.wav", labels, False, None)


def save_wav(path: Path, sound: Array, channels: int = 1, width: int = 2) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, 16000, 0, "NONE", ""))
        file.writeframes(sound.tobytes())


def _other(folder: Path) -> None:
    (folder / "a.txt").write_text("a")


def _no_image(folder: Path) -> None:
    (folder / "a.png").write_bytes(b"no image")


def _bomb(folder: Path) -> None:
    """100,000 x 1,000 pixels of one colour in a file of few bytes."""
    Image.new("1", (100_000, 1000)).save(folder / "a.png")


def _no_wav(folder: Path) -> None:
    (folder / "a.wav").write_bytes(b"RIFF")


def _stereo(folder: Path) -> None:
    save_wav(folder / "a.wav", np.zeros(8, np.int16), channels=2)


def _long(folder: Path) -> None:
    save_wav(folder / "a.wav", np.zeros(61, np.int16))


def _empty(folder: Path) -> None:
    save_wav(folder / "a.wav", np.zeros(0, np.int16))


def _cut(folder: Path) -> None:
    """Ends within a sample."""
    save_wav(folder / "a.wav", np.zeros(50, np.int16))
    whole = (folder / "a.wav").read_bytes()
    (folder / "a.wav").write_bytes(whole[:-31])


def _text(folder: Path) -> None:
    (folder / "a.wav").write_text("x" * 100)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: None, "holds no samples"),
        (_other, r"a.txt: is no sample; all must be images or all WAV files"),
        (_no_image, "a.png: cannot be read as an image"),
        (_bomb, "a.png: cannot be read as an image .*pixels"),
        (_stereo, r"a.wav: is sound, and input 'pixels' has shape \[1, 3, 4, 5\], .*; give .* as an .npz file"),
    ],
)
def test_a_folder_that_cannot_be_read_is_refused_in_one_line(make: Callable[[Path], None], said: str, tmp_path: Path):
    (tmp_path / "x").mkdir()
    make(tmp_path / "x")
    with pytest.raises(InputError, match=said) as fault:
        samples.load(tmp_path, plan_of(IMAGE), tmp_path / "x", None, False, None)
    assert "\n" not in str(fault.value)


def test_sound_of_two_channels_is_no_input_of_a_wav_file(tmp_path: Path):
    end = End("x", (1, 2, 30), INT8, 60, 1.0, 0, Stored("sound", (1, 2, 30), INT8, 1.0, 0), (0, 1, 2))
    (tmp_path / "x").mkdir()
    save_wav(tmp_path / "x" / "a.wav", np.zeros(60, np.int16))
    with pytest.raises(InputError, match=r"has shape \[1, 2, 30\], which is none of samples"):
        samples.load(tmp_path, plan_of(end), tmp_path / "x", None, False, None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_no_wav, r"cannot be read as WAV \(it ends within its header\); save it as WAV with one channel of 16 bits"),
        (_text, "cannot be read as WAV .*; save it as WAV with one channel of 16 bits"),
        (_stereo, "has 2 channels of 16 bits; wanted is one of 16"),
        (_long, "holds 61 samples, input 'sound' takes 60"),
        (_empty, "holds no samples; record it again"),
        (_cut, "is cut off after 69 of 100 bytes of samples; copy it again"),
    ],
)
@pytest.mark.parametrize("place", ["x", "x/a.wav"])
def test_a_wav_file_that_cannot_be_read_is_refused_in_one_line(
    make: Callable[[Path], None], said: str, place: str, tmp_path: Path
):
    (tmp_path / "x").mkdir()
    make(tmp_path / "x")
    with pytest.raises(InputError, match=f"a.wav: {said}") as fault:
        samples.load(tmp_path, plan_of(End("sound", (1, 60), INT16, 120)), tmp_path / place, None, False, None)
    assert "\n" not in str(fault.value)
    if make in (_empty, _cut):
        with pytest.raises(InputError, match=f"a.wav: {said}"):
            samples.load(tmp_path, listening(), tmp_path / place, None, False, None)


@pytest.mark.parametrize(
    ("folders", "known", "said"),
    [
        ("cat", (), "has 1 folder for the 3 classes that output 'scores' tells apart; name all by --labels names.txt"),
        ("cat dog", (), "has 2 folders for the 3 classes .* or call the folders by numbers"),
        ("ant bee cat dog", (), "has 4 folders for the 3 classes"),
        ("cat mouse", ("ant", "cat", "mice"), "'mouse' is none of the 3 classes that the firmware names"),
        ("cat mousse", ("ant", "cat", "mouse"), "'mousse' is none of .*; did you mean 'mouse'"),
    ],
)
def test_folders_that_are_not_the_models_classes_are_refused(
    folders: str, known: tuple[str, ...], said: str, tmp_path: Path
):
    for name in folders.split():
        picture(tmp_path / "x" / name / "a.png", np.zeros((4, 5, 3), np.uint8))
    with pytest.raises(InputError, match=f"x: {said}") as fault:
        samples.load(tmp_path, replace(plan_of(IMAGE), classes=known), tmp_path / "x", None, False, None)
    assert "\n" not in str(fault.value)


def test_a_preprocessing_that_is_not_known_is_asked_for(tmp_path: Path):
    picture(tmp_path / "x" / "a.png", np.zeros((4, 4), np.uint8))
    end = End("x", (1, 4, 4, 1), INT8, 16, 0.05, 3)
    with pytest.raises(InputError, match=r"takes values from -6.55 to 6.2: .* such as --pixels 0 1"):
        samples.load(tmp_path, plan_of(end), tmp_path / "x", None, False, None)


def test_images_for_an_input_that_is_none_are_refused(tmp_path: Path):
    picture(tmp_path / "x" / "a.png", np.zeros((4, 4), np.uint8))
    with pytest.raises(InputError, match=r"input 'x' has shape \[1, 490\], which is none of grey or RGB images"):
        samples.load(tmp_path, plan_of(End("x", (1, 490), UINT8, 490)), tmp_path / "x", None, False, None)
