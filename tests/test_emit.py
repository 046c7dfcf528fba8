"""The generated library computes what the ops mean, compiles without a warning, and is the same each time."""

from __future__ import annotations

import posixpath
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import emitted
import numpy as np
import pytest
from compilers import COMPILERS, HOST, SANITIZERS, WARNINGS, ZIG
from samples import as_float32, random_inputs, sample
from shared import MODELS, ROAD, needs_shared
from test_single_file import side_by_side

from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import DType, Graph, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.ops import (
    OPS,
    Add,
    Concat,
    Conv2d,
    Dense,
    Dequantize,
    MaxPool2d,
    Mean,
    Padding,
    Quantize,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Softmax,
    Transpose,
    TransposeConv2d,
)
from shoehorn_mcu.planner import make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages

Q = Quant((0.05,), (3,))
SMALL = ("mlperf-kws-dscnn-int8", "tflm-hello-world-int8", "tflm-micro-speech", "mltk-fingerprint")


def _graph(ops: list[Op], inputs: dict[str, tuple[int, ...]], outputs: tuple[str, ...], name: str = "made") -> Graph:
    """A graph of int8 tensors of one quantisation; shapes of what ops write are inferred."""
    tensors = {n: Tensor(n, TensorType(shape, DType.INT8, Q)) for n, shape in inputs.items()}
    for op in ops:
        shape = op.infer(tuple(tensors[n].type for n in op.inputs))
        tensors[op.output] = Tensor(op.output, TensorType(shape, DType.INT8, Q))
    return verify(Graph(name, tensors, tuple(ops), tuple(inputs), outputs))


def _branches(name: str = "made") -> Graph:
    """Views, two inputs, two outputs, an input that is an output, rows that follow no rule, and a loop of places."""
    window = {"kernel": (3, 3), "stride": (2, 2), "padding": Padding(1, 1, 1, 1)}
    ops: list[Op] = [
        MaxPool2d(name="pool", inputs=("x",), output="p", **window),  # type: ignore[arg-type]
        Reshape(name="flat", inputs=("p",), output="v", shape=(2, 1, 30, 3)),
        Transpose(name="turn", inputs=("x",), output="t", perm=(0, 2, 1, 3)),
        Slice(name="back", inputs=("t",), output="s", begin=(1, 8, 0, 0), size=(2, 3, 5, 3), step=(-1, -3, 2, 1)),
        Add(name="sum", inputs=("s", "z"), output="a"),
        Concat(name="stack", inputs=("a", "s"), output="c", axis=1),
        Mean(name="mean", inputs=("x",), output="m", axes=(0, 1), keep_dims=True),
    ]
    return _graph(ops, {"x": (2, 11, 9, 3), "z": (1, 3, 1, 3)}, ("c", "v", "m", "z"), name)


def _same(graph: Graph, folder: Path, seed: int, stream_input: bool = False) -> None:
    """Three inferences one after the other, against numpy."""
    rng = np.random.default_rng(seed)
    flags = ("-O0", *SANITIZERS)
    unit = emitted.unit_of(graph, stream_input)
    vectors = [random_inputs(graph, rng) for _ in range(3)]
    found = emitted.run(unit, emitted.compile_library(unit, folder, flags=flags), vectors)
    for inputs, outputs in zip(vectors, found, strict=True):
        for name, wanted in emitted.expected(graph, inputs).items():
            np.testing.assert_array_equal(outputs[name], wanted, err_msg=f"{graph.name} {name}")


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
def test_the_library_of_one_op_computes_what_the_op_means(op: type[Op], tmp_path: Path):
    _same(sample(op, np.random.default_rng(7)), tmp_path, 7)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
def test_the_library_of_one_op_computes_what_the_op_means_many_times(op: type[Op], seed: int, tmp_path: Path):
    _same(sample(op, np.random.default_rng(1000 + seed)), tmp_path, seed)


def test_branches_views_and_several_inputs_and_outputs_compute_what_they_mean(tmp_path: Path):
    _same(_branches(), tmp_path, 1)


def test_rows_past_32767_are_listed_in_full(tmp_path: Path):
    rows = 2**15 + 7  # row y of the output is row round(y * (rows - 1) / 3) of the input, for which there is no formula
    small = ResizeNearest(
        name="small", inputs=("x",), output="y", size=(4, 1), align_corners=True, half_pixel_centers=False
    )
    _same(_graph([small], {"x": (1, rows, 1, 1)}, ("y",)), tmp_path, 3)


def test_a_model_of_views_alone_gives_its_input_back(tmp_path: Path):
    only = [Reshape(name="flat", inputs=("x",), output="v", shape=(1, 12))]

    _same(_graph(list(only), {"x": (1, 2, 3, 2)}, ("v", "x")), tmp_path, 2)


STREAMED = (Conv2d, TransposeConv2d, Mean, Transpose, Softmax, Slice, ResizeBilinear, Quantize, Dequantize)


@pytest.mark.parametrize("op", STREAMED, ids=lambda op: op.__name__)
def test_an_op_computes_what_it_means_when_its_input_is_pushed_row_by_row(op: type[Op], tmp_path: Path):
    graph = next(g for seed in range(99) if len((g := sample(op, np.random.default_rng(seed))).inputs) == 1)
    _same(graph, tmp_path, 8, stream_input=True)


def _viewed() -> Graph:
    """A streamed input of which later ops see another shape, and which is an output as well."""
    ops: list[Op] = [
        Reshape(name="flat", inputs=("x",), output="v", shape=(1, 5, 14, 3)),
        MaxPool2d(name="pool", inputs=("x",), output="p", kernel=(2, 2), stride=(2, 2), padding=Padding(0, 0, 0, 0)),
        Mean(name="mean", inputs=("v",), output="m", axes=(1, 2), keep_dims=True),
    ]
    return _graph(ops, {"x": (1, 10, 7, 3)}, ("p", "m", "x"))


def test_a_streamed_input_may_be_viewed_and_given_out(tmp_path: Path):
    _same(_viewed(), tmp_path, 9, stream_input=True)


def test_a_streamed_model_of_views_alone_gives_its_input_back(tmp_path: Path):
    only = [Reshape(name="flat", inputs=("x",), output="v", shape=(1, 12))]
    _same(_graph(list(only), {"x": (1, 2, 3, 2)}, ("v",)), tmp_path, 2, stream_input=True)


def test_one_of_several_inputs_cannot_be_streamed():
    with pytest.raises(
        ShoehornError, match=r"^made: --stream-input takes models with one input, this one has 2 \(x, z"
    ):
        emitted.unit_of(_branches(), stream_input=True)


def _against_tflite_micro(name: str, folder: Path, stream_input: bool = False) -> None:
    from tflite_micro.python.tflite_micro import runtime

    path = MODELS / f"{name}.tflite"
    graph, _ = passes.run(importers.load(path))
    unit = emitted.unit_of(graph, stream_input)
    rng = np.random.default_rng(3)
    vectors = [random_inputs(graph, rng) for _ in range(3)]
    found = emitted.run(unit, emitted.compile_library(unit, folder, flags=("-O2",)), vectors)
    oracle = runtime.Interpreter.from_file(str(path), arena_size=64_000_000)
    for inputs, outputs in zip(vectors, found, strict=True):
        for i, tensor in enumerate(graph.inputs):
            oracle.set_input(inputs[tensor], i)
        oracle.invoke()
        for i, tensor in enumerate(graph.outputs):
            np.testing.assert_array_equal(outputs[tensor].ravel(), oracle.get_output(i).ravel(), err_msg=tensor)


@needs_shared
@pytest.mark.parametrize("name", SMALL)
def test_the_library_of_a_small_road_model_equals_tflite_micro(name: str, tmp_path: Path):
    _against_tflite_micro(name, tmp_path)


@needs_shared
@pytest.mark.parametrize("name", ("mlperf-kws-dscnn-int8", "mlperf-ic-resnet8-int8", "tflm-micro-speech"))
def test_the_library_of_a_streamed_road_model_equals_tflite_micro(name: str, tmp_path: Path):
    _against_tflite_micro(name, tmp_path, stream_input=True)


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("name", ROAD)
def test_the_library_of_every_streamed_road_model_equals_tflite_micro(name: str, tmp_path: Path):
    if len(importers.load(MODELS / f"{name}.tflite").inputs) == 1:
        _against_tflite_micro(name, tmp_path, stream_input=True)


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("name", ROAD)
def test_the_library_of_every_road_model_equals_tflite_micro(name: str, tmp_path: Path):
    _against_tflite_micro(name, tmp_path)


def _shipped() -> Graph:
    return passes.run(importers.load(SHIPPED / "digits.tflite"))[0]


def _odd() -> Graph:
    """Names that would end a comment, continue a line, or are no identifiers."""
    graph = _branches("7 Wörter /* int \\")
    odd = {"x": "x */ int y; /*", "p": "line\nbreak\\", "t": '"quoted" ??/', "s": "s" * 300, "c": "serving_default:0"}

    def named(name: str) -> str:
        return odd.get(name, name)

    ops = tuple(
        replace(op, name=f"{op.name} \\", inputs=tuple(map(named, op.inputs)), output=named(op.output))
        for op in graph.ops
    )
    tensors = {named(n): replace(t, name=named(n)) for n, t in graph.tensors.items()}
    inputs, outputs = tuple(map(named, graph.inputs)), tuple(map(named, graph.outputs))
    return verify(Graph(graph.name, tensors, ops, inputs, outputs))


@pytest.mark.parametrize(
    ("made", "graph", "streamed"),
    [
        (emitted.unit_of, _shipped(), False),
        (emitted.unit_of, _odd(), False),
        (emitted.unit_of, _viewed(), True),
        (emitted.again_unit_of, _shipped(), False),
        (emitted.again_unit_of, _shipped(), True),
    ],
    ids=["digits", "odd names", "streamed", "rows again", "rows again, streamed"],
)
@pytest.mark.parametrize(
    "compiler",
    [
        (*HOST, "-O2"),
        (*ZIG, "-O2"),
        (*ZIG, "-O2", "-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0"),
    ],
    ids=["gcc", "clang", "cortex-m0"],
)
@pytest.mark.parametrize("trace", [(), ("-DSH_TRACE",)], ids=["plain", "trace"])
def test_the_library_compiles_without_a_warning(
    made: Callable[[Graph, bool], Unit],
    graph: Graph,
    streamed: bool,
    compiler: tuple[str, ...],
    trace: tuple[str, ...],
    tmp_path: Path,
):
    unit = made(graph, streamed)
    emitted.put(emitted.library_of(unit), tmp_path)
    for source in (f"{unit.name}.c", f"{unit.name}_weights.c"):
        command = [
            *compiler,
            *WARNINGS,
            *trace,
            "-c",
            str(tmp_path / "src" / source),
            "-o",
            str(tmp_path / "o"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

        assert (done.returncode, done.stderr) == (0, "")


def test_vectors_that_two_float_kernels_share_are_declared_for_every_file(tmp_path: Path):
    """The header of the kernels has what both use, so it needs the compiler's header of vectors."""
    rng = np.random.default_rng(0)
    graph = side_by_side([as_float32(sample(op, rng), rng) for op in (Conv2d, Dense)])
    chosen = stages(graph, Machine.of("cortex-a53"))
    unit = Unit("vectors", graph, chosen, make_plan(lower(graph, chosen, None)))
    compiler = next(each for each in COMPILERS if each.name == "zig-cortex-a53")
    emitted.put(emitted.library_of(unit), tmp_path)

    assert "float32x4_t" in (tmp_path / "src" / "vectors_kernels.h").read_text()
    options = (f"-I{tmp_path / 'src'}", "-std=c11", "-Wall", "-Wextra", "-Werror")
    compiler.run(*options, sources=sorted(tmp_path.glob("src/*.c")), folder=tmp_path)


def test_the_header_may_be_included_from_cpp(tmp_path: Path):
    unit = emitted.unit_of(_shipped())
    emitted.put(emitted.library_of(unit), tmp_path)
    (tmp_path / "user.cpp").write_text('#include "digits.h"\nint main() { digits_run(); return digits_output()[0]; }\n')
    command = [
        ZIG[0],
        "c++",
        "-c",
        f"-I{tmp_path / 'src'}",
        str(tmp_path / "user.cpp"),
        "-o",
        str(tmp_path / "o"),
    ]

    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0


_HOOKS = """
#include <stdio.h>
#include "sh/include/sh_trace.h"
#include "made.h"
bool sh_trace_on = true;
void sh_trace_begin(int32_t op) { printf("%d ", (int)op); }
void sh_trace_end(int32_t op, uint8_t *arena, const sh_tensor *ring, int32_t y0, int32_t y1)
{
    const uint8_t *row = sh_tensor_row(arena, ring, y0);
    if (ring->slots16) {
        printf("at %d: ", (int)(row - arena));
    }
    printf("%d %d %d %d %d\\n", (int)op, (int)y0, (int)y1, (int)ring->rows, (int)ring->row_bytes);
}
int main(void) { made_run(); return 0; }
"""


@pytest.mark.parametrize("made", [emitted.unit_of, emitted.again_unit_of], ids=["each row once", "rows again"])
def test_hooks_are_called_around_each_step_in_plan_order(made: Callable[[Graph], Unit], tmp_path: Path):
    unit = made(_branches())
    emitted.put(emitted.library_of(unit), tmp_path)
    (tmp_path / "hooks.c").write_text(_HOOKS)
    sources = [str(p) for p in tmp_path.rglob("*.c")]
    program = tmp_path / "program"
    build = [*HOST, "-DSH_TRACE", f"-I{tmp_path / 'src'}", *sources, "-o", str(program)]
    subprocess.run(build, check=True, timeout=120)
    lines = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout.split("\n")
    stages = {s.name: s for s in unit.stages}
    wanted = []
    for step in unit.plan.steps:
        stage = stages[step.op]
        ring = unit.plan.placement(stage.node.output.name, step.edition(stage.node.output.name))
        at = f"at {ring.at(step.rows[0])}: " if ring.slots else ""
        wanted.append(f"{stage.index} {at}{stage.index} {step.rows[0]} {step.rows[1]} {ring.rows} {ring.row_bytes}")

    assert lines[:-1] == wanted


def test_equal_constants_are_kept_once():
    weights = emitted.library_of(emitted.unit_of(_shipped()))["src/digits_weights.c"].decode()
    bodies = re.findall(r"const (\w+) \w+\[\d+\] = (\{.*?\});", weights, re.DOTALL)

    assert len(bodies) == len(set(bodies)) > 10


def test_constants_are_declared_with_the_alignment_of_their_definitions():
    """Clang takes an array of 16 bytes that is declared without one for aligned by 16, on x86-64."""
    library = emitted.library_of(emitted.unit_of(_shipped()))
    declared = re.findall(r"^extern (.*);$", library["src/digits_weights.h"].decode(), re.M)
    defined = re.findall(r"^(.*) = \{", library["src/digits_weights.c"].decode(), re.M)

    assert declared == defined and sum("_Alignas(4) const int8_t" in each for each in declared) > 5


def test_a_library_holds_only_the_kernels_in_use_and_lists_every_source():
    library = emitted.library_of(emitted.unit_of(_shipped()))
    kernels = set(re.findall(r"^sh_(\w+)_fn digits_", library["src/digits_kernels.h"].decode(), re.M))

    assert kernels == {"add_s8", "conv2d_s8", "dense_s8", "depthwise_conv2d_s8", "mean_s8", "softmax_s8"}
    assert all(path in library["CMakeLists.txt"].decode() for path in library if path.endswith(".c"))


def test_a_library_holds_the_headers_that_are_included_and_no_other():
    library = emitted.library_of(emitted.unit_of(_shipped()))
    includes = {
        posixpath.normpath(posixpath.join(posixpath.dirname(path), found))
        for path, data in library.items()
        if path.endswith((".c", ".h", ".inc"))
        for found in re.findall(r'#include "(.*)"', data.decode())
    }

    assert {path for path in library if path.startswith("src/sh/")} == {p for p in includes if p.startswith("src/sh/")}
    assert includes <= set(library)
