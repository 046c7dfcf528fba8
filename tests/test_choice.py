"""Which instance an op gets: predicted time, flash over the whole model, tuning; and what an instance compiles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Gen
from emitted import compile_library, expected, library_of, run
from samples import graph_of, int8, random_inputs

from shoehorn_mcu import ops
from shoehorn_mcu.base.paths import MODELS, RUNTIME_C
from shoehorn_mcu.emit.model.weights import constants, weights_c
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import Array, DType, Graph, Node, Quant, TensorType
from shoehorn_mcu.kernels import (
    ANY,
    CATALOGUE,
    ORACLE,
    PORTABLE,
    Instance,
    KernelError,
    Packed,
    Tile,
    Variant,
    catalogue,
    choice,
    choices,
    choose,
    contract_of,
    cost,
    within_flash,
)
from shoehorn_mcu.kernels.linear.points import other_form
from shoehorn_mcu.kernels.tuning import TuningError, load
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Isa, Machine
from shoehorn_mcu.planner import make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import kernel_bytes, stages

DIGITS = MODELS / "digits.tflite"


M4 = (Isa.SIMD32, Isa.C)


def conv(outputs: int, inputs: int = 4, kernel: int = 3, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    weights = TensorType((outputs, kernel, kernel, inputs), DType.INT8, Quant((0.01,), (0,)))
    bias = TensorType((outputs,), DType.INT32, Quant((0.01,), (0,)))
    return graph_of(
        ops.Conv2d,
        [
            int8((1, 5, 6, inputs), Quant((1.0,), (-3,))),
            (weights, rng.integers(-127, 127, weights.shape, np.int8)),
            (bias, rng.integers(-900, 900, outputs, np.int32)),
        ],
        int8((), Quant((4.0,), (5,))),
        padding=ops.Padding(1, 1, 1, 1),
    )


def node_of(graph: Graph) -> Node:
    return next(graph.nodes())


def _wide(node: Node, tile: Tile) -> Mapping[str, Packed | None]:
    """Weights as int16, twice the bytes, for a kernel that is not there."""
    plain = node.inputs[1].data
    assert plain is not None
    return {"weights": Packed(plain.astype(np.int16), 16), "bias": None, "multipliers": None, "shifts": None}


FAST = Variant(
    PORTABLE["conv2d_s8"].contract,
    lambda node, tile: {"tiles": node.output.type.row_elements / tile.sizes["outputs"]},
    suffix="fast",
    tiles=(Tile(outputs=4, pixels=2), Tile(outputs=2, pixels=1)),
    pack=_wide,
)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A catalogue with a fast variant of the convolution in two tiles, the first one faster, and its costs."""
    table = cost._table()
    measured = table[cost.DEFAULT_CPU][cost.Unit.INSTRUCTIONS]
    kernels = {**measured.kernels, "conv2d_s8_fast_o4_p2": {"tiles": 8.0}, "conv2d_s8_fast_o2_p1": {"tiles": 8.0}}
    sizes = {"conv2d_s8_fast_o4_p2": 3000, "conv2d_s8_fast_o2_p1": 300, "conv2d_s8_c": 600}
    costs = replace(measured, kernels=kernels, code_bytes=sizes)
    changed = {**table, cost.DEFAULT_CPU: {cost.Unit.INSTRUCTIONS: costs}}
    monkeypatch.setattr(cost, "_table", lambda: changed)
    for module in (catalogue, choice):
        monkeypatch.setattr(module, "CATALOGUE", (FAST, *CATALOGUE))
    yield ANY


def names(graphs: list[Graph], machine: Machine) -> list[str]:
    nodes = [node_of(graph) for graph in graphs]
    decided = within_flash(nodes, machine)
    return [choose(node, decided).name for node in nodes]


def test_the_least_predicted_time_is_chosen_among_all_tiles(fast: Machine) -> None:
    assert names([conv(8)], fast) == ["conv2d_s8_fast_o4_p2"]


def test_fewest_cycles_are_chosen_where_they_are_known(fast: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = cost._table()
    costs = table[cost.DEFAULT_CPU][cost.Unit.INSTRUCTIONS]
    in_cycles = replace(costs, kernels={**costs.kernels, "conv2d_s8_fast_o2_p1": {"tiles": 1.0}})
    by_unit = {cost.Unit.INSTRUCTIONS: costs, cost.Unit.CYCLES: in_cycles}
    monkeypatch.setattr(cost, "_table", lambda: {**table, cost.DEFAULT_CPU: by_unit})

    assert names([conv(8)], fast) == ["conv2d_s8_fast_o2_p1"]
    assert names([conv(8)], replace(fast, flash_left=10_000)) == ["conv2d_s8_fast_o2_p1"]


def test_an_op_element_by_element_is_chosen_for_all_its_rows_in_one_call() -> None:
    tensor = int8((1, 64, 1, 2), Quant((0.1,), (3,)))
    node = node_of(graph_of(ops.Maximum, [tensor, tensor], tensor))
    portable, unrolled = choices(node, M4)
    by_row = [choice.row_cost(k, node, cost.DEFAULT_CPU, cost.Unit.CYCLES) for k in (portable, unrolled)]

    assert by_row[0] < by_row[1]
    assert choose(node, Machine.of(cost.DEFAULT_CPU)).name == unrolled.name


def test_a_dense_layer_and_a_convolution_of_one_pixel_share_their_kernels() -> None:
    point = conv(8, 16, 1)
    (op,) = point.ops
    x = replace(point.tensors["x0"], type=replace(point.tensors["x0"].type, shape=(1, 1, 1, 16)))
    y = replace(point.tensors["y"], type=replace(point.tensors["y"].type, shape=(1, 1, 1, 8)))
    pixel = node_of(
        replace(point, tensors={**point.tensors, "x0": x, "y": y}, ops=(replace(op, padding=ops.Padding()),))
    )
    own, other = ({k.contract.name for k in choices(n, M4)} for n in (node_of(conv(8, 16, 1)), pixel))
    form = other_form(pixel)
    assert form is not None

    dense = form(pixel)
    assert (own, other) == ({"conv2d_s8"}, {"conv2d_s8", "dense_s8"})
    assert {k.contract.name for k in choices(dense, M4)} == {"conv2d_s8", "dense_s8"}
    arrays = [np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 1, 16)]
    results = [
        n.op.reference([*arrays, *(t.data for t in n.inputs[1:] if t.data is not None)], n.sig) for n in (pixel, dense)
    ]
    np.testing.assert_array_equal(*results)
    for kernel in choices(pixel, M4):
        assert set(kernel.params(pixel)) >= {"weights", "bias"}, kernel.name


def test_a_variant_of_another_instruction_set_is_not_chosen(fast: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "CATALOGUE", (replace(FAST, isa=Isa.MVE), *CATALOGUE))

    assert names([conv(8)], replace(fast, isas=(Isa.C,))) == ["conv2d_s8_c"]
    assert names([conv(8)], replace(fast, isas=(Isa.MVE, Isa.C))) == ["conv2d_s8_fast_o4_p2"]


def test_flash_is_a_budget_over_the_whole_model(fast: Machine) -> None:
    small, large = conv(4), conv(64, inputs=16)  # 144 and 9,216 weights, twice as many bytes when packed
    model = [small, large]
    least = 144 + 4 * 9 + 9216 + 64 * 9 + 600  # portable: weights, 9 bytes per channel, code

    assert names(model, replace(fast, flash_left=30000)) == ["conv2d_s8_fast_o4_p2"] * 2
    # The other tile has 2,700 bytes of code less.
    assert names(model, replace(fast, flash_left=20000)) == ["conv2d_s8_fast_o2_p1"] * 2
    # One layer gives up its fast kernel; it is the one that loses the least time per byte.
    assert sorted(names(model, replace(fast, flash_left=11500))) == ["conv2d_s8_c", "conv2d_s8_fast_o2_p1"]
    assert names(model, replace(fast, flash_left=least)) == ["conv2d_s8_c"] * 2
    assert names(model, replace(fast, flash_left=0)) == ["conv2d_s8_c"] * 2


def test_the_parts_of_a_model_keep_the_kernels_that_were_decided_for_the_whole(fast: Machine) -> None:
    node = node_of(conv(64, inputs=16))
    decided = within_flash([node], replace(fast, flash_left=11000))
    alone = replace(decided, flash_left=None)

    assert choose(node, alone).name == choose(node, decided).name == "conv2d_s8_c"


def test_a_tuned_kernel_is_chosen_whatever_is_predicted(fast: Machine) -> None:
    node = node_of(conv(8))
    key = contract_of(node).key(node)

    assert choose(node, replace(fast, tuning={key: "conv2d_s8_c"})).name == "conv2d_s8_c"
    with pytest.raises(KernelError, match=r"op 'op' .*wants conv2d_s8_turbo, which does not compute it"):
        choose(replace(node, op=replace(node.op, name="op")), replace(fast, tuning={key: "conv2d_s8_turbo"}))


def test_a_key_holds_all_numbers_of_an_op_and_no_array() -> None:
    node = node_of(conv(8))
    key = contract_of(node).key(node)

    assert key.startswith("conv2d_s8 in_width=6 in_channels=4 out_width=6 kernel_height=3 ")
    assert key == contract_of(node).key(node_of(conv(8, seed=1)))
    assert key != contract_of(node).key(node_of(conv(8, kernel=1)))


def test_a_tuning_file_reaches_the_written_library_and_its_identity(gen: Gen, tmp_path: Path) -> None:
    planned = build.plan_model(DIGITS, None, Options())
    key = planned.unit.stages[0].kernel.contract.key(planned.unit.stages[0].node)
    file = tmp_path / "tuning.json"
    file.write_text(json.dumps({key: "conv2d_s8_c"}))

    plain = gen("firmware", DIGITS, "--board", "microbit", "--out", tmp_path / "plain")
    tuned = gen("firmware", DIGITS, "--board", "microbit", "--out", tmp_path / "tuned", "--tuning", file)

    identities = [json.loads((tmp_path / name / "plan.json").read_text())["identity"] for name in ("plain", "tuned")]
    assert plain.exit_code == tuned.exit_code == 0 and len(set(identities)) == 2
    assert load(file).digest in (tmp_path / "tuned/lib/digits/src/digits.c").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "tuning.json: not JSON: "),
        ("[]", "tuning.json: holds no object"),
        ('{"conv3d a=1": "conv2d_s8_c"}', "no contract 'conv3d'; known: "),
        ('{"conv2d_s8 a=1": "conv2d_s8_turbo"}', "no kernel 'conv2d_s8_turbo'; known: conv2d_s8_c"),
        ('{"conv2d_s8 a=1": 7}', "no kernel 7"),
    ],
)
def test_a_wrong_tuning_file_is_refused_in_one_line(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "tuning.json"
    file.write_text(content)

    with pytest.raises(TuningError) as refusal:
        load(file)

    assert message in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_tuning_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")


def unit_with(graph: Graph, kernel: Instance) -> Unit:
    chosen = stages(graph, pick=lambda node, machine: kernel)
    return Unit("made", graph, chosen, make_plan(lower(graph, chosen, None)))


FIXES = ("in_channels", "kernel_height", "kernel_width", "stride", "dilation", "groups", "group_inputs")


@pytest.mark.parametrize("outputs", [1, 6, 8])
def test_an_instance_that_fixes_shapes_computes_the_same_bytes(outputs: int, tmp_path: Path) -> None:
    graph = conv(outputs)
    (kernel,) = replace(PORTABLE["conv2d_s8"], suffix="cs", body="c", fixes=FIXES).instances(node_of(graph))
    unit = unit_with(graph, kernel)
    vectors = [random_inputs(graph, np.random.default_rng(seed)) for seed in range(3)]

    found = run(unit, compile_library(unit, tmp_path), vectors)

    assert kernel.name == "conv2d_s8_cs_4x3x3x1x1x1x4"
    text = library_of(unit)["src/made_conv2d_s8_cs_4x3x3x1x1x1x4.c"].decode()
    assert "#define SH_FIX(op) ((op).in_channels = 4, (op).kernel_height = 3, " in text
    for y, vector in zip(found, vectors, strict=True):
        assert_equal(y, expected(graph, vector))


def assert_equal(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in wanted.items()}


def test_what_an_instance_fixes_is_known_to_its_compiler(tmp_path: Path) -> None:
    """A member that is fixed to another value changes the result, so it is not read from the struct."""
    graph = conv(8)
    wrong = Instance(
        replace(PORTABLE["conv2d_s8"], suffix="cs", body="c", fixes=("pad_left",)), Tile(), (("pad_left", 0),)
    )
    unit = unit_with(graph, wrong)
    vector = random_inputs(graph, np.random.default_rng(0))

    (found,) = run(unit, compile_library(unit, tmp_path), [vector])

    assert found["y"].tolist() != expected(graph, vector)["y"].tolist()


def test_a_constant_is_aligned_as_its_kernel_asks_and_others_by_words() -> None:
    graph = conv(8)
    unit = unit_with(graph, Instance(FAST, FAST.tiles[0]))
    text = weights_c(unit, constants(unit))

    assert "_Alignas(16) const int16_t made_op0_weights[288]" in text
    assert "_Alignas(4) const int8_t made_op0_weights" in weights_c(*_plain(graph))


def _plain(graph: Graph) -> tuple[Unit, object]:
    unit = unit_with(graph, choose(node_of(graph), ANY))
    return unit, constants(unit)


def test_a_tile_is_defines_and_a_part_of_the_name() -> None:
    kernel = Instance(FAST, FAST.tiles[0])

    assert kernel.text("digits", "sh/") == (
        "#define SH_NAME digits_conv2d_s8_fast_o4_p2\n"
        "#define SH_OUTPUTS 4\n"
        "#define SH_PIXELS 2\n"
        '#include "sh/kernels/conv2d_s8/conv2d_s8_fast.inc"\n'
    )


def test_every_contract_has_one_oracle_and_one_portable_variant() -> None:
    contracts = {variant.contract.name for variant in CATALOGUE}

    assert contracts == set(ORACLE) == set(PORTABLE)
    assert {p.parent.name for p in RUNTIME_C.glob("kernels/*/*_ref.c")} == contracts
    keys = [Instance(v, tile).key for v in CATALOGUE for tile in v.tiles]
    assert len(keys) == len(set(keys))
    assert all(v.tiles for v in CATALOGUE) and "ref" not in {v.suffix for v in CATALOGUE}


@pytest.mark.parametrize("board", targets.boards(), ids=lambda board: board.id)
def test_no_firmware_contains_an_oracle(board: targets.Board) -> None:
    planned, files = build.firmware(DIGITS, board, Options())
    compiled = [path for path in files if not path.startswith("reference/")]

    assert not [path for path in compiled if "_ref" in path]
    assert not [path for path in compiled if path.startswith("lib/digits") and b"_ref" in files[path]]
    own = {Path(path).stem for path in compiled if path.startswith("lib/digits/src/digits_") and path.endswith(".c")}
    assert own == {"digits_weights", *(s.kernel.symbol("digits") for s in planned.unit.stages)}


@pytest.mark.parametrize("cpu", ["cortex-m4f", "cortex-m0"])
def test_the_smallest_kernels_are_no_larger_than_any_single_change_makes_them(cpu: str) -> None:
    made = build.plan_model(DIGITS, None, Options(cpu=cpu, smallest_kernels=True))
    fast = build.plan_model(DIGITS, None, Options(cpu=cpu))
    chosen = made.uncut.stages
    least = kernel_bytes(chosen)

    assert least < kernel_bytes(fast.uncut.stages)
    assert not made.unit.plan.scratch
    saved = kernel_bytes(fast.uncut.stages) - least
    assert made.notes[0].startswith(f"smallest kernels: {saved:,} bytes of flash less than with the fastest ones, for ")
    for i, stage in enumerate(chosen):
        for kernel in choice.candidates(stage.node, stage.machine.isas):
            other = replace(stage, kernel=kernel)
            assert kernel.scratch_bytes(stage.node) or kernel_bytes([*chosen[:i], other, *chosen[i + 1 :]]) >= least
