"""What the host tools say of a user's files, of folders that lack a part, and of programs that are not there."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conftest import Gen
from PIL import Image
from test_outside import beside
from test_samples import IMAGE, listening, picture, plan_of, save_wav

from shoehorn_mcu_host import doctor
from shoehorn_mcu_host.base import arrays, cbuild, emulators, sandbox
from shoehorn_mcu_host.base.errors import HostError, InputError
from shoehorn_mcu_host.board import cycles, emulate
from shoehorn_mcu_host.firmware import elf, machine_code
from shoehorn_mcu_host.firmware.flash import flash
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.documents import GraphDocument
from shoehorn_mcu_host.folder.plan import End, Stored
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate import decoders, outside, reference_build, samples
from shoehorn_mcu_host.validate.comparison import Tolerance
from shoehorn_mcu_host.validate.runtimes import RUNTIMES
from shoehorn_mcu_host.validate.validate import _ulps


def _of_version_9(path: Path) -> None:
    np.save(path, np.zeros(3))
    path.write_bytes(path.read_bytes().replace(b"NUMPY\x01\x00", b"NUMPY\x09\x00", 1))


def _cut(path: Path) -> None:
    np.save(path, np.zeros(30))
    path.write_bytes(path.read_bytes()[:140])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "y.npy: does not exist; numpy.save writes one"),
        (lambda path: path.write_text("1, 2, 3"), "y.npy: is no .npy file; numpy.save writes one"),
        (_of_version_9, "y.npy: cannot be read as .npy ('y.npy' is of a version of .npy that is not read)"),
        (_cut, "y.npy: cannot be read as .npy ("),
    ],
)
def test_an_array_that_cannot_be_read_is_named(make: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    make(tmp_path / "y.npy")

    with pytest.raises(InputError) as fault:
        arrays.read_npy(tmp_path / "y.npy")
    assert said in str(fault.value) and "\n" not in str(fault.value)


REALS = End("x", (1, 2), np.dtype(np.float32), 8)


def test_whole_numbers_are_given_to_an_input_of_real_ones_where_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for given in (np.array([[1, 1 << 24]]), np.array([[0.1, 1e300]])):
        np.savez(path, x=given)
        (vector,) = vectors.from_npz(path, (REALS,))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(vector[0], given.astype(np.float32))

    np.savez(path, x=np.array([[1, (1 << 24) + 1]]))
    with pytest.raises(InputError, match="is int64 with values that float32 cannot hold"):
        vectors.from_npz(path, (REALS,))


def test_labels_among_other_arrays_have_a_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "y.npz", one=np.zeros(3), two=np.zeros(3))

    with pytest.raises(InputError, match=r"y.npz: holds 2 arrays; name the one of the labels 'labels'"):
        vectors.read_labels(tmp_path / "y.npz", (IMAGE,))


def _npz(folder: Path) -> tuple[Any, ...]:
    np.savez(folder / "x.npz", pixels=np.zeros((1, 3, 4, 5), np.uint8))
    return plan_of(IMAGE), folder / "x.npz", None, (0.0, 1.0)


def _flat(folder: Path) -> tuple[Any, ...]:
    picture(folder / "x" / "a.png", np.zeros((4, 5, 3), np.uint8))
    (folder / "names.txt").write_text("cat\ndog\n")
    return plan_of(IMAGE), folder / "x", folder / "names.txt", None


def _other(folder: Path) -> tuple[Any, ...]:
    picture(folder / "x" / "mouse" / "a.png", np.zeros((4, 5, 3), np.uint8))
    (folder / "names.txt").write_text("cat\ndog\n")
    return plan_of(IMAGE), folder / "x", folder / "names.txt", None


def _unread(folder: Path) -> tuple[Any, ...]:
    plan, inputs, names, _ = _other(folder)
    names.write_bytes(b"\xff\xfe")
    return plan, inputs, names, None


def _sounds(folder: Path) -> tuple[Any, ...]:
    (folder / "x").mkdir()
    save_wav(folder / "x" / "a.wav", np.zeros(4, np.int16))
    return listening(), folder / "x", None, (0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_npz, "x.npz: is no folder of images, which --pixels is for"),
        (_flat, "x: has no folders of classes, which .*names.txt names"),
        (_other, "names.txt: does not name 'mouse', a folder of .*x"),
        (_unread, r"names.txt: cannot be read as a list of classes, one per line \("),
        (_sounds, "a.wav: is no image, which --pixels is for"),
    ],
)
def test_samples_that_do_not_fit_are_refused(
    make: Callable[[Path], tuple[Any, ...]], said: str, tmp_path: Path
) -> None:
    plan, inputs, labels, pixels = make(tmp_path)

    with pytest.raises(InputError, match=said):
        samples.load(tmp_path, plan, inputs, labels, False, pixels)


def test_folders_of_some_of_the_classes_that_the_firmware_names(tmp_path: Path) -> None:
    for name in ("cat", "mouse"):
        picture(tmp_path / "x" / name / "a.png", np.zeros((4, 5, 3), np.uint8))
    plan = replace(plan_of(IMAGE), classes=("ant", "cat", "mouse"))
    found = samples.load(tmp_path, plan, tmp_path / "x", None, False, None)

    assert found.labels is not None and found.labels.classes == (1, 2)


def test_an_image_of_another_size_is_resized_by_bilinear_interpolation(tmp_path: Path) -> None:
    large = np.random.default_rng(3).integers(0, 256, (9, 7, 3), np.uint8)
    picture(tmp_path / "x" / "a.png", large)
    end = End("x", (1, 4, 5, 3), np.dtype(np.uint8), 60, 1 / 255)
    found = samples.load(tmp_path, plan_of(end), tmp_path / "x", None, False, None)

    wanted = np.asarray(Image.fromarray(large).resize((5, 4), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(found.vectors[0][0].reshape(4, 5, 3), wanted)


def test_whole_numbers_for_an_input_that_is_real_in_the_file_stay_as_they_are() -> None:
    """They are quantised where they are given to the firmware."""
    end = End("x", (1, 2), np.dtype(np.int8), 2, 0.5, 3, Stored("x", (1, 2), np.dtype(np.float32), 0.0, 0))
    given = np.array([[0.25, -1.5]], np.float32)

    np.testing.assert_array_equal(end.taken(given)[0], given)


def test_an_image_without_a_dimension_of_channels_is_grey(tmp_path: Path) -> None:
    picture(tmp_path / "x" / "a.png", np.arange(20, dtype=np.uint8).reshape(4, 5))
    end = End("x", (1, 4, 5), np.dtype(np.uint8), 20, 1 / 255)
    found = samples.load(tmp_path, plan_of(end), tmp_path / "x", None, False, None)

    np.testing.assert_array_equal(found.vectors[0][0].reshape(4, 5), np.arange(20).reshape(4, 5))


def test_images_need_pillow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(decoders.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(InputError, match=r"a.png: reading images needs Pillow; pip install shoehorn-mcu\[images\]"):
        decoders.pixels(tmp_path / "a.png", 4, 5, 3)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.png: cannot be read as an image \(No such file or directory\)"):
        decoders.pixels(tmp_path / "a.png", 4, 5, 3)


def test_integers_without_a_scale_are_compared_as_they_are() -> None:
    whole = Stored("y", (1, 4), np.dtype(np.int32))
    found, wanted = np.array([[0, 1, 2, 3]], np.int32), np.array([[0, 1, 9, 3]], np.int32)
    (each,) = beside(whole, found, wanted, Tolerance(0)).outputs

    assert (each.largest, each.most_steps, each.within) == (7.0, 7, False)


def test_expected_values_of_another_type_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", scores=np.zeros((2, 3), np.complex64))

    with pytest.raises(InputError, match=r"z.npz: 'scores' is complex64; the model's output is int8"):
        outside.expected(
            tmp_path / "z.npz", plan_of(IMAGE), outside.Outputs({}), {"scores": np.zeros((2, 1, 3), np.int8)}
        )


# --- Folders and programs


@pytest.fixture
def project(digits_project: Path, tmp_path: Path) -> Path:
    shutil.copytree(digits_project, tmp_path / "digits", ignore=shutil.ignore_patterns(".pio"))
    return tmp_path / "digits"


def _changed(folder: Path, name: str, change: Callable[[Any], object]) -> None:
    made = json.loads((folder / name).read_text())
    change(made)
    (folder / name).write_text(json.dumps(made))


def test_an_image_that_is_not_built_and_no_firmware_are_said(project: Path, tmp_path: Path) -> None:
    (tmp_path / "image.elf").write_bytes(b"no ELF")

    with pytest.raises(HostError, match=r"image.elf: not a firmware: .*; build it again"):
        elf.sizes(tmp_path / "image.elf", 0)
    with (
        pytest.raises(HostError, match="digits: not built yet; gen emulate builds it"),
        emulate.emulate(Project.open(project)),
    ):
        pass


def test_a_folder_without_its_upload_program_is_written_again(project: Path) -> None:
    (project / "platform" / "builder" / "upload.py").unlink()

    with pytest.raises(HostError, match=r"no platform/builder/upload.py; write the folder again with gen firmware"):
        _ = Project.open(project).upload


def test_a_folder_of_kernels_without_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no kernels here; write the folder again with `gen firmware`"):
        reference_build.build(tmp_path)


def test_a_board_that_is_no_drive_takes_no_mount(project: Path) -> None:
    with pytest.raises(HostError, match="native: is flashed by emulator, not onto a drive; leave out --mount"):
        flash(Project.open(project), None, "/media/board", dry_run=True)


def test_an_emulator_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)

    with pytest.raises(
        HostError, match="qemu-system-arm is not installed; on Debian `apt-get install qemu-system-arm`"
    ):
        emulators.require("qemu-system-arm")
    assert doctor._program("qemu-system-arm", "Emulates.", "install it").found == "not installed"


def test_no_compiler_can_compile_what_is_no_c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    header, source = tmp_path / "a.h", tmp_path / "a.c"
    header.write_text("")
    source.write_text("no C\n")
    monkeypatch.setattr(cbuild, "compilers", lambda: [("false",), ("no-such-compiler",)])

    with pytest.raises(HostError, match=r"no C compiler here can compile it \(false: .*; no-such-compiler: .*\); `pip"):
        cbuild.plugin("a", header, [source])


def test_a_probe_of_qemu_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*command: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("qemu", 5)

    monkeypatch.setattr(subprocess, "run", hangs)

    assert "timed out" in cycles._refusal("qemu-system-arm")


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def test_calls_and_pushes_of_arm_are_read() -> None:
    bx_r3, blx_r2, bl, bx_lr = 0xE12FFF13, 0xE12FFF32, 0xEB000002, 0xE12FFF1E
    push_r4, pop_r4, push_four = 0xE52D4004, 0xE49D4004, 0xE92D00F0

    assert [*machine_code._arm(words(bx_r3, blx_r2, bl, bx_lr), 0, 16)] == [
        (0, True, None),
        (4, True, None),
        (8, False, 24),
    ]
    assert [*machine_code._moves_arm(words(push_r4, pop_r4, push_four), 0, 12)] == [4, -4, 16]


@pytest.mark.parametrize("offset", [0, 2, -4, 0x3FFFFE, 0x400000, 0x800000, 0xC00002, -0x400002, -0x800002, -0x1000000])
def test_a_call_of_thumb_leads_as_far_as_its_two_halves_say(offset: int) -> None:
    """BL (T1) has S, imm10 in its first half and J1, J2, imm11 in its second; bit 23 is not (J1 xor S)."""
    sign, i1, i2 = (offset >> bit & 1 for bit in (24, 23, 22))
    half = 0xF000 | sign << 10 | offset >> 12 & 0x3FF
    low = 0xD000 | (i1 ^ 1 ^ sign) << 13 | (i2 ^ 1 ^ sign) << 11 | offset >> 1 & 0x7FF

    assert [*machine_code._thumb(struct.pack("<HH", half, low), 0, 4)] == [(0, False, 4 + offset)]


@pytest.mark.parametrize(
    ("field", "value"), [(0x0AB, 0xAB), (0x1AB, 0xAB00AB), (0x2AB, 0xAB00AB00), (0x3AB, 0xABABABAB)]
)
def test_a_modified_immediate_of_thumb_is_a_byte_in_several_places(field: int, value: int) -> None:
    """SUB.W sp, sp, #imm has i, imm3 and imm8 of the field in its two halves."""
    half, low = 0xF1AD | (field >> 11 & 1) << 10, 0x0D00 | (field >> 8 & 7) << 12 | field & 0xFF

    assert machine_code._thumb_immediate(half, low) == value


def _in_several(plan: Any) -> None:
    plan["placements"][0]["memories"] = ["sram"]


def _large(plan: Any) -> None:
    plan["other_arenas"] = {"psram": 64}


def _unknown_state(source: Any) -> None:
    source["states"] = {source["inputs"][0]["name"]: "nothing"}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("plan.json", _in_several, "1 memories for "),
        ("plan.json", _large, "plan.json has an arena larger than the board's memory 'psram'"),
        ("reference/source.json", _unknown_state, "'nothing' is no end that could be a state"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(
    name: str, change: Callable[[Any], None], said: str, gen: Gen, project: Path
) -> None:
    _changed(project, name, change)
    found = gen("validate", project, "--emulate", "--against", "tflite-micro")

    assert found.exit_code == 1
    assert said in found.stderr and found.stderr.count("\n") == 1


def test_a_graph_with_more_scales_than_zero_points_is_refused(project: Path) -> None:
    graph = json.loads((project / "reference" / "graph.json").read_text())
    next(iter(graph["tensors"].values()))["scales"] = [0.5, 0.25, 0.125]

    with pytest.raises(ValueError, match="as many scales as zero points are needed"):
        GraphDocument.model_validate_json(json.dumps(graph))


SAID = SimpleNamespace(outputs=(SimpleNamespace(name="y", dtype="float32", shape=(1, 4)),))


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ([], "ONNX Runtime: gives other outputs than the 1 that were imported"),
        (None, "ONNX Runtime: gives other outputs than the 1 that were imported"),
        ([{"dtype": "int8", "shape": [1, 4]}], r"output 'y' is int8\[1, 4\], imported was float32\[1, 4\]"),
    ],
)
def test_a_runtime_that_gives_other_outputs_is_not_compared(outputs: Any, said: str) -> None:
    with pytest.raises(HostError, match=said):
        outside._outputs(RUNTIMES["onnxruntime"], cast(Any, SAID), {"outputs": outputs}, bytearray(16), 1)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (sandbox.Ended("ended with SIGSEGV"), "its process ended with SIGSEGV"),
        (sandbox.Failed("KeyError: 'x'"), "KeyError"),
    ],
)
def test_a_runtime_that_ends_or_fails_says_how(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(outside.sandbox, "answer", fails)

    with pytest.raises(HostError, match=f"m.onnx: ONNX Runtime cannot run it \\({said}"):
        outside._answer(RUNTIMES["onnxruntime"], Path("m.onnx"), {}, b"")


def test_a_model_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m.onnx: cannot be read \(No such file or directory\)"):
        outside._content(tmp_path / "m.onnx")


def test_a_board_without_an_emulator_needs_a_port() -> None:
    bare = SimpleNamespace(spec={}, board_id="mine")

    with (
        pytest.raises(HostError, match="mine: has no emulator; give --port with the board's serial port"),
        emulate.emulate(cast(Project, bare)),
    ):
        pass


def test_of_outputs_that_are_not_float32_no_units_are_counted() -> None:
    assert _ulps(np.zeros(3, np.int8), np.ones(3, np.int8)) == 0
    assert _ulps(np.zeros(3, np.float32), np.full(3, 1e-45, np.float32)) == 1
