"""--float: what each mode computes, how far it can be from precise float32, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from conftest import Gen
from runtime import run_reference
from samples import REAL_OPS, graph_of, random_inputs, real_sample
from shared import MODELS, needs_shared
from test_kernels import numpy_run
from test_real import conv
from test_real_samples import FLOAT_TASKS

from shoehorn_mcu import ops, passes
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Tensor, TensorType, verify
from shoehorn_mcu.kernels import choose, cost, row_cost
from shoehorn_mcu.machine.targets import CPUS, Isa, Machine, board
from shoehorn_mcu.ops.linear import LinearOp
from shoehorn_mcu.ops.real import clamped, fused_multiply_add
from shoehorn_mcu.passes.float_mode import FloatMode, FloatModeError, in_float16, with_float_mode
from shoehorn_mcu.schedule.stage import computes
from shoehorn_mcu_host.validate.reference import Reference
from shoehorn_mcu_host.validate.validate import Deviation, _deviation

OTHERS = (FloatMode.RELAXED, FloatMode.HALF)
LINEAR = (ops.Conv2d, ops.DepthwiseConv2d, ops.Dense)
FMNIST = MODELS / "fmnist-nubificus-f32.tflite"
UNIT = 2.0**-24  # the largest relative error of one rounding to float32


def rounded(exact: Fraction) -> np.float32:
    """The float32 nearest to a number, to even between two."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.int32)) & 1))


def test_a_fused_multiply_add_rounds_once() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(0, 1, 3000).astype(np.float32) for _ in "ab")
    c = (-(a * b) * (1 + rng.integers(-3, 4, a.shape) * 2.0**-23)).astype(np.float32)  # most of it cancels
    c[::3] *= np.float32(2.0) ** rng.integers(-60, 60, len(c[::3])).astype(np.float32)
    # A tie of float32 that only bits beyond float64 decide: 1 + 2^-24 and a little more, or less.
    least = np.float32(2.0**-50)
    a = np.append(a, [least, -least]).astype(np.float32)
    b = np.append(b, [least, least]).astype(np.float32)
    c = np.append(c, [1.0, 1.0]).astype(np.float32)
    wanted = [
        rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in zip(a, b, c, strict=True)
    ]

    assert fused_multiply_add(a, b, c).tolist() == [float(x) for x in wanted]


@pytest.mark.parametrize("mode", OTHERS)
@pytest.mark.parametrize("op_class", LINEAR, ids=lambda c: c.__name__)
def test_the_oracle_computes_what_the_mode_means(op_class: type[LinearOp], mode: FloatMode) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = with_float_mode(real_sample(op_class, rng), mode)
        assert_oracles_agree(graph, list(random_inputs(graph, rng).values()))


@pytest.mark.parametrize("op_class", [c for c in REAL_OPS if c not in LINEAR], ids=lambda c: c.__name__)
def test_the_oracle_computes_what_the_other_ops_mean_in_float16(op_class: type[Op]) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = in_float16(real_sample(op_class, rng))
        assert_oracles_agree(graph, list(random_inputs(graph, rng).values()))


def assert_oracles_agree(graph: Graph, inputs: list[Array]) -> None:
    """The oracles and numpy give every tensor the same bytes."""
    found = run_reference(graph, inputs)
    for name, wanted in numpy_run(graph, inputs).items():
        assert (found[name].dtype, found[name].tobytes()) == (wanted.dtype, wanted.tobytes()), name


def gamma(count: int) -> float:
    """The bound of the relative error of `count` roundings in a row."""
    return count * UNIT / (1 - count * UNIT)


def bound(node: Node, arrays: Sequence[Array], half: bool) -> Array:
    """The most by which an op in another mode may differ from the precise one on the same inputs, per output.

    Precise sums of n products and a bias have n + 1 roundings in a row at most, and so have fused ones; each error is
    at most gamma(n + 1) times the sum of magnitudes. A weight or an output in float16 is off by 2^-11 of itself, or
    2^-25.
    """
    x, weights, bias = (np.abs(array.astype(np.float64)) for array in arrays)
    count = node.op.macs(node.sig) // node.output.type.elements + 1
    kind = replace(node.op, fused=False, clamp=ops.RealClamp())  # type: ignore[call-arg]

    def sums(of: Array, plus: Array) -> Array:
        found: Array = kind.reference([x.astype(np.float32), of.astype(np.float32), plus.astype(np.float32)], node.sig)
        return found.astype(np.float64) * (1 + gamma(count))

    nothing = np.zeros_like(bias)
    moved = sums(weights * 2.0**-11 + 2.0**-25, nothing) if half else 0.0
    apart = 2 * gamma(count) * (sums(weights, bias) + moved) + moved
    return apart + (sums(weights, bias) + moved) * 2.0**-11 + 2.0**-25 if half else apart


@pytest.mark.parametrize("mode", OTHERS)
def test_each_op_is_within_its_bound_of_the_precise_one(mode: FloatMode) -> None:
    for op_class in LINEAR:
        for seed in range(10):
            rng = np.random.default_rng(seed)
            precise = real_sample(op_class, rng)
            (given,) = random_inputs(precise, rng).values()
            assert_within_bounds(precise, mode, {"x0": given})


@needs_shared
@pytest.mark.parametrize("mode", OTHERS)
def test_each_op_of_a_model_is_within_its_bound_on_a_real_sample(mode: FloatMode) -> None:
    """The precise op is applied to the inputs that the op has in the other mode."""
    task = FLOAT_TASKS[1]
    graph = load(MODELS / f"{task.model}.tflite")
    images, _ = task.samples()

    assert_within_bounds(graph, mode, {graph.inputs[0]: images[0][None]})


def assert_within_bounds(precise: Graph, mode: FloatMode, given: dict[str, Array]) -> None:
    graph = with_float_mode(precise, mode)
    run = {**given, **run_reference(graph, list(given.values()))}
    different = 0
    exactly = {node.op.name: node for node in precise.nodes()}
    for node in graph.nodes():
        if not isinstance(node.op, LinearOp):
            continue
        exact = exactly[node.op.name]
        arrays = [
            run[node.inputs[0].name].astype(np.float32),
            *(t.data for t in exact.inputs[1:] if t.data is not None),
        ]
        wanted = exact.op.reference(arrays, exact.sig).astype(np.float64)
        apart = np.abs(run[node.output.name].astype(np.float64) - wanted)
        different += int((apart > 0).sum())
        assert (apart <= bound(node, arrays, mode is FloatMode.HALF)).all(), node.op.name
    assert different or precise.name == "sample"


def test_numbers_at_the_ends_of_float32_are_rounded_once_too() -> None:
    """Subnormal results and their ties, sums that leave the range, and numbers that are not finite."""
    ends = np.float32([0, 2.0**-149, 3 * 2.0**-149, 2.0**-126, 2.0**-75, 1.5 * 2.0**-74, 1, 2.0**64, 3.4e38])
    values = np.concatenate([ends, -ends])
    a, b, c = (each.ravel() for each in np.meshgrid(values, values, values))

    found = fused_multiply_add(a, b, c)
    for x, y, z, got in zip(*(each.tolist() for each in (a, b, c, found)), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if abs(exact) >= 2**128 - 2**103:
            assert got == (np.inf if exact > 0 else -np.inf)
        elif exact == 0:
            assert got == 0
        else:
            assert got == rounded(exact), (x, y, z)
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    one = np.float32([1])
    with np.errstate(invalid="ignore"):
        assert fused_multiply_add(inf * one, one, one)[0] == inf
        assert fused_multiply_add(one, one, -inf * one)[0] == -inf
        assert np.isnan(fused_multiply_add(inf * one, 0 * one, one)[0])
        assert np.isnan(fused_multiply_add(inf * one, one, -inf * one)[0])
        assert np.isnan(fused_multiply_add(one, nan * one, one)[0])


def test_the_reference_in_c_adds_products_as_numpy_does_at_the_ends_of_float32() -> None:
    """A dense layer of one input is one fused multiply-add per output."""
    ends = np.float32([0, -0.0, 2.0**-149, 2.0**-126, 1.5 * 2.0**-74, 1 + 2.0**-23, 2.0**64, 3.4e38, -(2.0**-75)])
    weights, bias = (each.ravel().astype(np.float32) for each in np.meshgrid(ends, ends))
    size = len(weights)
    tensors = {
        "x": Tensor("x", TensorType((1, 1), DType.FLOAT32)),
        "w": Tensor("w", TensorType((size, 1), DType.FLOAT32), weights[:, None]),
        "b": Tensor("b", TensorType((size,), DType.FLOAT32), bias),
        "y": Tensor("y", TensorType((1, size), DType.FLOAT32)),
    }
    dense = ops.Dense(name="op", inputs=("x", "w", "b"), output="y", clamp=ops.RealClamp(), fused=True)
    graph = verify(Graph("ends", tensors, (dense,), ("x",), ("y",)))
    for x in (*ends, np.float32(np.inf)):
        with np.errstate(all="ignore"):
            wanted = clamped(fused_multiply_add(np.full(size, x, np.float32), weights, bias), ops.RealClamp())
        found = run_reference(graph, [np.float32([[x]])])["y"][0]
        numbers = ~np.isnan(wanted)
        assert found[numbers].tobytes() == wanted[numbers].tobytes()
        assert np.isnan(found[~numbers]).all()


@pytest.mark.parametrize(
    ("core", "fused"),
    [
        ("host", {FloatMode.HALF}),
        ("cortex-m0", {FloatMode.HALF}),
        ("cortex-m4f", {FloatMode.HALF}),
        ("cortex-m7", {FloatMode.HALF}),
        ("cortex-m55", {FloatMode.RELAXED, FloatMode.HALF}),
        ("cortex-a7", {FloatMode.PRECISE, FloatMode.RELAXED, FloatMode.HALF}),
        ("cortex-a53", {FloatMode.PRECISE, FloatMode.RELAXED, FloatMode.HALF}),
    ],
)
def test_a_mode_fuses_where_the_core_is_faster_so(core: str, fused: set[FloatMode]) -> None:
    found = {mode: with_float_mode(conv(1 / 3), mode, CPUS[core].fusing) for mode in FloatMode}

    assert {mode for mode, graph in found.items() if any(getattr(op, "fused", False) for op in graph.ops)} == fused
    assert {mode for mode in FloatMode if mode.flushes} == {FloatMode.RELAXED, FloatMode.HALF}


@needs_shared
@pytest.mark.parametrize("mode", [FloatMode.PRECISE, FloatMode.RELAXED])
@pytest.mark.parametrize("core", [name for name, cpu in CPUS.items() if Isa.FPU in cpu.isas])
def test_no_core_is_slower_in_a_mode_than_strict(core: str, mode: FloatMode) -> None:
    """As the costs predict it, in the unit that kernels are chosen by."""
    source, fusing = passes.run(load(FMNIST))[0], CPUS[core].fusing
    strict, other = (predicted(with_float_mode(source, each, fusing), core) for each in (FloatMode.STRICT, mode))

    assert other <= strict * 1.001


def predicted(graph: Graph, core: str) -> float:
    unit, machine = cost.choice_unit(core), Machine.of(core)
    nodes = [node for node in graph.nodes() if computes(node)]
    return sum(node.output.type.rows * row_cost(choose(node, machine), node, core, unit) for node in nodes)


@needs_shared
def test_a_fused_default_says_so_and_has_no_other_reference() -> None:
    (fused, files), (strict, _) = (
        build.firmware(FMNIST, board("rpi-zero-2w"), Options(float_mode=mode))
        for mode in (FloatMode.PRECISE, FloatMode.STRICT)
    )

    assert fused.report["float"] == {"mode": "precise", "fused": True, "validated": None}
    assert strict.report["float"] == {"mode": "strict", "fused": False, "validated": None}
    assert "// Float mode: precise, fused." in model_source(files)
    assert "reference/precise/graph.json" not in files
    assert b"SH_APP_FLUSH_TO_ZERO" not in files["src/app_config.h"]


def model_source(files: Bundle) -> str:
    (path,) = (path for path in files if path.endswith("/fmnist_nubificus_f32.c"))
    found = files[path]
    return found.decode() if isinstance(found, bytes) else found


def test_strict_changes_nothing_and_half_rounds_what_is_stored() -> None:
    graph = conv(1 / 3)
    assert with_float_mode(graph, FloatMode.STRICT) is graph
    halved = with_float_mode(graph, FloatMode.HALF)
    narrow, sums, wide = halved.nodes()

    assert [type(node.op) for node in (narrow, sums, wide)] == [ops.Quantize, ops.Conv2d, ops.Dequantize]
    assert [t.type.dtype for t in (*sums.inputs, sums.output)] == [
        DType.FLOAT16,
        DType.FLOAT16,
        DType.FLOAT32,
        DType.FLOAT16,
    ]
    assert (halved.inputs, halved.outputs) == (graph.inputs, graph.outputs)
    assert {halved.tensors[name].type.dtype for name in (*halved.inputs, *halved.outputs)} == {DType.FLOAT32}
    weights = sums.inputs[1].data
    assert weights is not None
    assert set(weights.ravel().tolist()) == {float(np.float16(1 / 3))}


def test_softmax_and_what_moves_its_output_stay_in_float32() -> None:
    """A constant operand becomes float16 itself; what is read in both types is converted once each."""
    x = TensorType((1, 6), DType.FLOAT32)
    tensors = {name: Tensor(name, x) for name in ("x", "sum", "most", "both")}
    tensors["one"] = Tensor("one", x, np.ones(x.shape, np.float32))
    tensors["y"] = Tensor("y", replace(x, shape=(6,)))
    graph = Graph(
        "ends",
        tensors,
        (
            ops.Add(name="add", inputs=("x", "one"), output="sum", clamp=ops.RealClamp()),
            ops.Softmax(name="softmax", inputs=("sum",), output="most", beta=1.0),
            ops.Reshape(name="flat", inputs=("most",), output="y", shape=(6,)),
            ops.Sub(name="sub", inputs=("sum", "most"), output="both", clamp=ops.RealClamp()),
        ),
        ("x",),
        ("y", "both"),
    )
    halved = in_float16(verify(graph))

    assert [op.name for op in halved.ops] == [
        "x_to_float16",
        "add",
        "add_to_float32",
        "softmax",
        "flat",
        "softmax_to_float16",
        "sub",
        "sub_to_float32",
    ]
    given = [np.linspace(-3, 3, 6, dtype=np.float32)[None]]
    assert_oracles_agree(halved, given)


def test_float16_is_rounded_and_widened_as_ieee_754_has_it() -> None:
    """By the oracles, whose arithmetic is in integers: all values of float16, and float32 around each and its ties."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)[None]
    numbers = every[np.isfinite(every)].astype(np.float32)
    ties = (numbers.astype(np.float64) * (1 + 2.0**-12)).astype(np.float32)
    around = [np.nextafter(x, np.float32(to)) for x in (numbers, ties) for to in (-np.inf, np.inf)]
    halves = (numbers[1:] + numbers[:-1]) / 2
    singles = np.concatenate(
        [numbers, ties, *around, halves, np.float32([np.inf, -np.inf, 65519.9, 65520, 1e-40, 3e38])]
    )
    narrow = graph_of(ops.Quantize, [TensorType((1, singles.size), DType.FLOAT32)], DType.FLOAT16)
    wide = graph_of(ops.Dequantize, [TensorType(every.shape, DType.FLOAT16)], DType.FLOAT32)

    with np.errstate(over="ignore"):
        assert run_reference(narrow, [singles[None]])["y"].tobytes() == singles.astype(np.float16).tobytes()
    finite = ~np.isnan(every)
    assert (run_reference(wide, [every])["y"] == every)[finite].all()
    assert np.isnan(run_reference(wide, [every])["y"][~finite]).all()


def test_weights_beyond_float16_are_refused() -> None:
    with pytest.raises(FloatModeError, match=r"weights 'x1' reach 70000, beyond float16; use --float relaxed"):
        with_float_mode(conv(70000.0), FloatMode.HALF)
    with_float_mode(conv(70000.0), FloatMode.RELAXED)


@pytest.mark.parametrize("mode", ["relaxed", "half"])
def test_an_int8_model_is_refused_in_one_line(gen: Gen, tmp_path: Path, mode: str) -> None:
    for command in (("plan",), ("firmware", "--board", "mps2-an386", "--out", tmp_path / "x"), ("library",)):
        name, *rest = command
        done = gen(name, SHIPPED / "digits.tflite", "--float", mode, *rest)

        assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
        assert f"--float {mode} is for float32 models, and no sum here is of float32; leave --float out" in done.stderr
    assert not (tmp_path / "x").exists()


@needs_shared
@pytest.mark.parametrize(
    ("target", "who"),
    [
        (("--board", "rpi-zero"), "rpi-zero (arm1176)"),
        (("--board", "microbit"), "microbit (cortex-m0)"),
        ((), "portable C"),
    ],
)
def test_a_core_without_the_instructions_is_refused_with_those_that_have_them(
    gen: Gen, target: tuple[str, ...], who: str
) -> None:
    done = gen("plan", FMNIST, "--float", "half", *target)

    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
    assert f"{who} has no fused multiply-add and no float16, which --float half needs; " in done.stderr
    assert done.stderr.rstrip().endswith(
        "cortex-m4f, cortex-m7, cortex-m33, cortex-m55, cortex-a7, cortex-a53, cortex-a76, cortex-a710"
    )


@needs_shared
def test_the_mode_is_in_the_report_and_in_the_identity() -> None:
    made = {mode: build.firmware(FMNIST, board("mps2-an386"), Options(float_mode=mode)) for mode in FloatMode}
    identities = {json.loads(files["plan.json"])["identity"] for _, files in made.values()}

    assert len(identities) == 3  # strict is precise here
    for mode, (planned, files) in made.items():
        assert planned.report["float"] == {"mode": mode.value, "fused": mode is FloatMode.HALF, "validated": None}
        assert ("reference/precise/graph.json" in files) == mode.flushes
        assert (b"SH_APP_FLUSH_TO_ZERO 1" in files["src/app_config.h"]) == mode.flushes
    weights = {mode: planned.constants.bytes for mode, (planned, _) in made.items()}
    assert weights[FloatMode.HALF] < 0.55 * weights[FloatMode.RELAXED]


def test_outputs_are_compared_by_difference_by_steps_of_float32_and_by_largest_element() -> None:
    one, tiny = np.float32(1), np.float32(2.0**-149)
    found = {"y": [np.array([1, 0.5], np.float32), np.array([tiny, -1], np.float32)]}
    wanted = {"y": [np.array([np.nextafter(one, 2 * one), 0.5], np.float32), np.array([-tiny, 0], np.float32)]}

    assert _deviation(found, wanted) == Deviation(1.0, 0x3F800000, 1)


@needs_shared
def test_the_reference_of_another_mode_reads_and_writes_subnormal_numbers_as_0(gen: Gen, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    assert gen("firmware", FMNIST, "--board", "mps2-an386", "--float", "relaxed", "--out", folder).exit_code == 0
    image = np.full((1, 28, 28, 1), 1e-40, np.float32)
    relaxed, zero = (Reference.load(folder).run([x]) for x in (image, np.zeros_like(image)))
    precise = Reference.load(folder, "precise").run([image])
    first = load(FMNIST).ops[0].output

    assert relaxed[first].tobytes() == zero[first].tobytes()
    assert image.sum() > 0, "this thread is back in its own mode"
    assert precise.keys() == relaxed.keys()


@needs_shared
@pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="qemu-system-arm is not installed")
def test_a_validation_says_how_far_the_board_is_from_precise_float32(gen: Gen, tmp_path: Path) -> None:
    folder, samples = tmp_path / "made", tmp_path / "clothes.npz"
    images, _ = FLOAT_TASKS[1].samples()
    np.savez(samples, x=np.concatenate([images[:3], np.full((1, 28, 28, 1), 1e-40, np.float32)]))
    assert gen("firmware", FMNIST, "--board", "mps3-an547", "--float", "half", "--out", folder).exit_code == 0
    done = gen("validate", folder, "--emulate", "--inputs", samples, "--json")

    found = json.loads(done.stdout)
    assert (done.exit_code, found["mismatched_vectors"]) == (0, 0)
    assert found["precise"]["same_top1"] == 4
    assert 0 < found["precise"]["max_abs_diff"] < 0.01
    report = json.loads((folder / "report.json").read_text())
    assert report["float"] == {
        "mode": "half",
        "fused": True,
        "validated": {"inputs": "clothes.npz", "vectors": 4, **found["precise"]},
    }
