"""PyTorch's models against PyTorch itself; the tests of this file are skipped where it is not installed."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoehorn_mcu
from bench.mutants import PYTORCH, damaged, outcome
from shoehorn_mcu import passes
from shoehorn_mcu.importers import Imported, ImportFault, imported
from shoehorn_mcu.importers.torch import script as torch_script
from shoehorn_mcu.ir import Array, DType
from shoehorn_mcu.ops import Conv2d, Dequantize, Quantize, Recurrence, Transpose

ROOT = Path(__file__).parent.parent

torch = pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[torch]")
pytest.importorskip("onnxscript", reason="needs the extra shoehorn-mcu[torch]")

importlib.import_module("torch.ao.quantization.fx._decomposed")  # defines the ops of PT2E

from torch.nn import functional  # noqa: E402

from shoehorn_mcu_host.folder.project import Project  # noqa: E402
from tests.test_outside import compared  # noqa: E402
from tests.torch_models import MODELS, Calls, MobileNetV2, Restores, Saves, Sum, seeded  # noqa: E402

ops = torch.ops.quantized_decomposed
CLOSE = 1e-5  # of the largest output: sums of another order


def arguments(example: tuple[Any, ...]) -> tuple[Any, ...]:
    chance = torch.Generator().manual_seed(0)
    return tuple(torch.randn(x.shape, generator=chance) if x.is_floating_point() else x for x in example)


def computed(model: Imported, inputs: tuple[Any, ...]) -> list[Array]:
    """The outputs of the graph after all passes, in the module's order of dimensions."""
    graph = passes.run(model.graph)[0]
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    for name, x in zip(graph.inputs, inputs, strict=True):
        values[name] = np.transpose(x.numpy(), model.ends[name].order)
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    return [values[name].transpose(np.argsort(model.ends[name].order)) for name in graph.outputs]


def check(model: Imported, module: Any, example: tuple[Any, ...]) -> None:
    inputs = arguments(example)
    with torch.no_grad():
        wanted = module(*inputs)
    for want, got in zip(wanted if isinstance(wanted, tuple) else (wanted,), computed(model, inputs), strict=True):
        largest = max(1.0, float(want.abs().max()))
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=CLOSE * largest)


def exported(module: Any, example: Any, path: Path, **options: Any) -> Path:
    torch.export.save(torch.export.export(module, example, **options), path)
    return path


@pytest.mark.parametrize("kind", ["net.pt2", "net.pt"])
def test_a_firmware_is_compared_with_what_pytorch_computes_of_its_file(kind: str, tmp_path: Path) -> None:
    """In a process that is locked in: nothing that PyTorch imports there may want a folder of its own."""
    module, example = next(iter(MODELS.values()))
    path = tmp_path / kind
    if kind.endswith(".pt2"):
        exported(seeded(module), example, path)
    else:
        torch.jit.save(torch.jit.trace(seeded(module), example), path)
    folder = tmp_path / "firmware"
    shoehorn_mcu.generate(path, folder, shoehorn_mcu.PlanOptions(board="native"))

    assert compared(Project.open(folder), path, "torch").is_within


@pytest.mark.parametrize("name", MODELS)
def test_a_program_computes_what_pytorch_computes(name: str, tmp_path: Path) -> None:
    module, example = MODELS[name]
    module = seeded(module)

    check(imported(exported(module, example, tmp_path / "net.pt2"), {}), module, example)
    check(shoehorn_mcu.import_torch(module, example), module, example)


@pytest.mark.parametrize("name", MODELS)
def test_a_traced_module_computes_what_pytorch_computes(name: str, tmp_path: Path) -> None:
    module, example = MODELS[name]
    module = seeded(module)
    torch.jit.trace(module, arguments(example), check_trace=False).save(tmp_path / "net.pt")

    check(imported(tmp_path / "net.pt", {}), module, example)


@pytest.mark.parametrize("name", ["mobilenet", "resnet"])
def test_a_scripted_module_gets_its_shapes(name: str, tmp_path: Path) -> None:
    module, example = MODELS[name]
    module = seeded(module)
    torch.jit.script(module).save(tmp_path / "net.ts")
    given = {"mobilenet": "image", "resnet": "x"}[name]

    check(imported(tmp_path / "net.ts", {given: tuple(example[0].shape)}), module, example)
    with pytest.raises(ImportFault, match=f"not say the shape of its input '{given}'; give --shape {given}=1x3x96x96"):
        imported(tmp_path / "net.ts", {})
    with pytest.raises(ImportFault, match=f"no input is called 'other'; known are {given}"):
        imported(tmp_path / "net.ts", {given: (1, 3, 32, 32), "other": (1,)})


def test_a_frozen_module_has_no_mode(tmp_path: Path) -> None:
    module, example = MODELS["resnet"]
    module = seeded(module)
    frozen = torch.jit.freeze(torch.jit.script(module))
    frozen.save(tmp_path / "net.pt")

    check(imported(tmp_path / "net.pt", {"x": tuple(example[0].shape)}), module, example)
    check(shoehorn_mcu.import_torch(frozen, example), module, example)


def test_a_tensor_may_be_given_for_two_inputs() -> None:
    class Less(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a - 2 * b

    x, other = torch.randn(1, 4), torch.randn(1, 4)

    check(shoehorn_mcu.import_torch(Less().eval(), (x, x)), Less(), (x, other))


def test_cnns_have_no_ops_that_move_or_normalise() -> None:
    module, example = MODELS["mobilenet"]
    graph = passes.run(shoehorn_mcu.import_torch(seeded(module), example).graph)[0]

    kinds = Counter(type(op).__name__ for op in graph.ops)
    assert kinds.pop("Conv2d") == 13
    assert kinds.pop("DepthwiseConv2d") == 6
    assert kinds.pop("Add") == 4
    assert kinds.pop("Reshape") == 1
    assert kinds == {"SumPool": 1, "Average": 1, "Dense": 1}  # the mean of the image, by rows
    assert not any(isinstance(op, Transpose) for op in graph.ops)
    assert graph.inputs == ("image",)


def test_layers_of_an_lstm_and_a_gru_are_one_op_each() -> None:
    module, example = MODELS["recurrent"]
    graph = shoehorn_mcu.import_torch(seeded(module), example).graph

    assert sum(isinstance(op, Recurrence) for op in graph.ops) == 2


def test_a_dimension_that_is_open_gets_its_size(tmp_path: Path) -> None:
    height = torch.export.Dim("height", min=4, max=64)
    example = (torch.zeros(2, 3, 8, 8),)
    path = exported(Sum(), example, tmp_path / "open.pt2", dynamic_shapes={"x": {0: torch.export.Dim("n"), 2: height}})

    with pytest.raises(ImportFault, match=r"open.pt2: dimension 2 \('\w+'\) of input 'x' is not fixed; give --shape "):
        imported(path, {})
    check(imported(path, {"x": (1, 3, 6, 8)}), Sum(), (torch.zeros(1, 3, 6, 8),))


class Trained(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Any) -> Any:
        return self.part(x)


class Counts(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.seen.add_(x)
        return self.seen * 2


class Bessel(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return torch.special.bessel_j0(x * 2)


class Branches(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


IMAGE = torch.zeros(1, 3, 4, 4)


@pytest.mark.parametrize("part", [torch.nn.BatchNorm2d(3), torch.nn.Dropout()])
def test_training_mode_is_refused(part: Any, tmp_path: Path) -> None:
    path = exported(Trained(part), (IMAGE,), tmp_path / "net.pt2")
    torch.jit.trace(Trained(part), IMAGE, check_trace=False).save(tmp_path / "net.pt")

    with pytest.raises(ImportFault, match=r"op \w+ \(aten\.\w+, test_torch.py line \d+\) was exported in training"):
        imported(path, {})
    with pytest.raises(ImportFault, match=r"net.pt: the TorchScript module is in training mode; call module.eval\(\)"):
        imported(tmp_path / "net.pt", {})
    with pytest.raises(shoehorn_mcu.ShoehornError, match=r"Trained: is in training mode; call module.eval\(\) first"):
        shoehorn_mcu.import_torch(Trained(part), IMAGE)


def test_a_module_that_changes_itself_is_refused() -> None:
    with pytest.raises(ImportFault, match="the module changes its buffer 'seen' while it runs"):
        shoehorn_mcu.import_torch(Counts().eval(), torch.zeros(3))


def test_an_op_without_onnx_form_is_named_with_its_line() -> None:
    with pytest.raises(ImportFault, match=r"no ONNX form of op bessel_j0 \(prims.bessel_j0, test_torch.py line \d+\)"):
        shoehorn_mcu.import_torch(Bessel().eval(), torch.zeros(3))


def test_a_module_that_cannot_be_exported_is_refused_in_one_line() -> None:
    with pytest.raises(ImportFault, match=r"Branches: torch.export cannot export it: ") as refused:
        shoehorn_mcu.import_torch(Branches().eval(), torch.zeros(3))
    assert "\n" not in str(refused.value)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ImportFault, match=r"dict is no torch.nn.Module, ScriptModule or ExportedProgram"):
        shoehorn_mcu.import_torch({}, torch.zeros(3))
    with pytest.raises(ImportFault, match=r"Sum: an example of its inputs is needed: import_torch\(module, example\)"):
        shoehorn_mcu.import_torch(Sum().eval())


def test_modules_and_programs_in_memory_are_planned_and_generated(tmp_path: Path) -> None:
    module, example = MODELS["resnet"]
    module = seeded(module)
    made = [
        shoehorn_mcu.import_torch(module, example[0]),
        shoehorn_mcu.import_torch(torch.export.export(module, example), name="ResNet"),
        shoehorn_mcu.import_torch(torch.jit.script(module), shapes={"x": (1, 3, 8, 8)}),
    ]

    plans = [shoehorn_mcu.plan(each, shoehorn_mcu.PlanOptions(minimize="sram")) for each in made]
    assert len({(plan.model, plan.arena_bytes, plan.constant_bytes) for plan in plans}) == 1
    assert plans[0].model == "resnet"
    assert shoehorn_mcu.optimize(made[0]).graph.ops
    board = shoehorn_mcu.PlanOptions(board="mps2-an386")
    again = shoehorn_mcu.generate(made[1], tmp_path / "fw", board)
    ends = json.loads((again.folder / "plan.json").read_text())
    assert ends["inputs"][0]["source"]["shape"] == [1, 3, 8, 8]
    assert again.plan.arena_bytes == shoehorn_mcu.plan(made[0], board).arena_bytes


def test_a_program_and_its_onnx_give_one_arena(tmp_path: Path) -> None:
    module, example = MODELS["mobilenet"]
    module = seeded(module)
    torch.onnx.export(module, example, tmp_path / "net.onnx", dynamo=True, verbose=False, external_data=False)
    least = shoehorn_mcu.PlanOptions(minimize="sram")

    of_torch = shoehorn_mcu.plan(shoehorn_mcu.import_torch(module, example), least)
    assert of_torch.arena_bytes == shoehorn_mcu.plan(tmp_path / "net.onnx", least).arena_bytes


def test_gen_reads_files_of_pytorch_and_prints_nothing_else(tmp_path: Path) -> None:
    module, example = MODELS["resnet"]
    path = exported(seeded(module), example, tmp_path / "net.pt2")

    command = [sys.executable, "-m", "shoehorn_mcu", "inspect", str(path), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(run.stdout)["refused"] == []
    assert run.stderr == ""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder, example = tmp_path_factory.mktemp("seeds"), (torch.zeros(1, 2, 4, 4),)
    module = seeded(torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU6()))
    exported(module, example, folder / "net.pt2")
    torch.jit.trace(module, example).save(folder / "net.pt")
    return {suffix: (folder / f"net.{suffix}").read_bytes() for suffix in ("pt2", "pt")}


@pytest.mark.parametrize("seed", range(100))
def test_a_mutant_is_imported_or_refused(seed: int, seeds: dict[str, bytes], tmp_path: Path) -> None:
    kind = PYTORCH[seed % 4 == 0]
    path = tmp_path / f"mutant.{kind}"
    path.write_bytes(damaged(seeds[kind], kind, random.Random(seed)))

    assert outcome(path) in ("read", "refused")


def _written(module: Any, folder: Path) -> Path:
    torch.jit.script(module.eval()).save(folder / "net.pt")
    return folder / "net.pt"


def test_ops_are_looked_up_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _written(Calls(Saves(str(tmp_path / "made"))), tmp_path)
    with pytest.raises(
        ImportFault, match=r"net.pt: its code/\S+ has the op '\w+' of aten, which is none of those that a"
    ):
        imported(path, {"x": (1, 4)})

    monkeypatch.setattr(torch_script, "check", lambda members: None)  # as if a disguise was not seen
    with pytest.raises(ImportFault, match=r"net.pt: it has the op aten::(from_file|save), which is none of those that"):
        imported(path, {"x": (1, 4)})
    assert not (tmp_path / "made").exists()


def test_what_is_not_seen_cannot_write_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _written(Restores(str(tmp_path / "made")), tmp_path)
    (tmp_path / "made").unlink(missing_ok=True)
    with pytest.raises(ImportFault, match=r"net.pt: its code/\S+ has a __setstate__, which PyTorch calls as it loads"):
        imported(path, {"x": (1, 4)})

    monkeypatch.setattr(torch_script, "check", lambda members: None)
    with pytest.raises(ImportFault, match=r"net.pt: it has the op aten::save"):  # which has run, as the file was loaded
        imported(path, {"x": (1, 4)})
    assert not (tmp_path / "made").exists()
    torch.jit.load(path)  # without walls it is written
    assert (tmp_path / "made").exists()


def quantised(x: Any, scale: float, zero: int = 0) -> Any:
    """The numbers as PT2E writes them between two ops."""
    made = ops.quantize_per_tensor(x, scale, zero, -128, 127, torch.int8)
    return ops.dequantize_per_tensor(made, scale, zero, -128, 127, torch.int8)


class Quantised(torch.nn.Module):  # type: ignore[misc, name-defined]
    """An op between numbers of 8 bits, with a weight that has a scale per channel, or none."""

    def __init__(self, op: Any, weight: Any = None, scale: float = 0.05) -> None:
        super().__init__()
        self.op, self.scale = op, scale
        if weight is not None:
            chance = torch.Generator().manual_seed(2)
            self.register_buffer("stored", torch.randint(-127, 128, weight, generator=chance).to(torch.int8))
            self.register_buffer("scales", torch.rand(weight[0], generator=chance) * 0.01 + 0.001)
            self.register_buffer("zeros", torch.zeros(weight[0], dtype=torch.int64))
            self.bias = torch.nn.Parameter(torch.randn(weight[0], generator=chance))
        self.weight = weight

    def forward(self, x: Any) -> Any:
        x = quantised(x, 0.02, -3)
        if self.weight is None:
            return quantised(self.op(x), self.scale, 5)
        stored = ops.dequantize_per_channel(self.stored, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return quantised(self.op(x, stored, self.bias), self.scale, 5)


QUANTISED: dict[str, tuple[Any, Any, float]] = {
    "conv": (lambda x, w, b: functional.conv2d(x, w, b, padding=1), (6, 4, 3, 3), 0.1),
    "conv and relu": (lambda x, w, b: functional.conv2d(x, w, b, stride=2).relu(), (6, 4, 3, 3), 0.1),
    "conv and relu6": (lambda x, w, b: functional.relu6(functional.conv2d(x, w, b)), (6, 4, 1, 1), 0.03),
    "depthwise conv": (lambda x, w, b: functional.conv2d(x, w, b, padding=1, groups=4), (4, 1, 3, 3), 0.1),
    "linear": (lambda x, w, b: functional.linear(quantised(x.mean((2, 3)), 0.005), w, b), (7, 4), 0.005),
    "linear of rows": (functional.linear, (7, 8), 0.05),
    "add": (lambda x: x + quantised(x.relu(), 0.01, -128), None, 0.05),
    "product": (lambda x: x * quantised(x.relu(), 0.01, -128), None, 0.05),
    "relu": (torch.relu, None, 0.05),
    "relu6": (functional.relu6, None, 0.02),
    "hardtanh": (lambda x: functional.hardtanh(x, -0.3, 1.1), None, 0.01),
    "hard swish": (functional.hardswish, None, 0.05),
    "sigmoid": (torch.sigmoid, None, 1 / 256),
    "gelu": (functional.gelu, None, 0.05),
    "max pool": (lambda x: functional.max_pool2d(x, 2), None, 0.02),
    "average pool": (lambda x: functional.avg_pool2d(x, 2), None, 0.02),
    "global pool": (lambda x: functional.adaptive_avg_pool2d(x, 1), None, 0.001),
    "mean": (lambda x: x.mean((1, 2)), None, 0.001),
    "flat": (lambda x: x.flatten(1), None, 0.02),
    "joined": (lambda x: torch.cat([x, quantised(x.relu(), 0.01, -128)], 1), None, 0.02),
}


@pytest.mark.parametrize("name", QUANTISED)
def test_ops_of_pt2e_are_ops_on_int8_within_a_step(name: str) -> None:
    op, weight, scale = QUANTISED[name]
    module, example = Quantised(op, weight, scale).eval(), (torch.zeros(1, 4, 6, 8),)
    model = shoehorn_mcu.import_torch(module, example)
    graph = passes.run(model.graph, frozenset({"sum-rows"}))[0]  # its sums are int32
    between = [node for node in graph.nodes() if not isinstance(node.op, Quantize | Dequantize)]
    assert all(node.output.type.dtype is DType.INT8 for node in between)
    assert sum(isinstance(op, Quantize | Dequantize) for op in graph.ops) == 2

    inputs = arguments(example)
    with torch.no_grad():
        wanted = module(*inputs).numpy()
    (got,) = computed(model, inputs)
    steps = np.abs(got - wanted) / scale
    assert steps.max() < 1.01
    assert np.mean(steps > 0.5) < 0.3  # PyTorch rounds the halves of pools to even
    assert len(np.unique(wanted)) > 3


def test_a_quantised_program_is_read_from_its_file(tmp_path: Path) -> None:
    op, weight, scale = QUANTISED["conv"]
    module, example = Quantised(op, weight, scale).eval(), (torch.zeros(1, 4, 6, 8),)
    path = exported(module, example, tmp_path / "net.pt2")
    code = (
        "import sys; from pathlib import Path; from shoehorn_mcu.importers import load;"
        "print(*[type(op).__name__ for op in load(Path(sys.argv[1])).ops])"
    )

    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.split() == ["Quantize", "Conv2d", "Dequantize"]


def _saved(kind: str, folder: Path) -> Path:
    """A small CNN as a file of this kind."""
    layers = [torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.ReLU6(), torch.nn.Conv2d(8, 8, 3)]
    module = seeded(
        torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4))
    )
    example = (torch.zeros(1, 3, 16, 16),)
    if kind == "program":
        return exported(module, example, folder / "net.pt2")
    script = torch.jit.trace(module, example) if kind == "traced" else torch.jit.script(module)
    script.save(folder / "net.ts")
    return folder / "net.ts"


@pytest.mark.parametrize("kind", ["program", "traced", "scripted"])
def test_a_file_is_quantised_and_becomes_a_firmware_also_in_one_go(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra shoehorn-mcu[quantize]")
    path, target = _saved(kind, tmp_path), tmp_path / "net.onnx"
    (tmp_path / "samples").mkdir()
    for number, sample in enumerate(np.random.default_rng(0).normal(size=(12, 3, 16, 16)).astype(np.float32)):
        np.save(tmp_path / "samples" / f"{number}.npy", sample)
    data, shape = tmp_path / "samples", ["--shape", "input=1x3x16x16"] if kind == "scripted" else []

    shapes = {"input": (1, 3, 16, 16)} if shape else {}
    made = shoehorn_mcu.quantize(path, data, target, shoehorn_mcu.QuantizeOptions(shapes=shapes))
    runs = [[target], [path, "--quantize", data, *shape]]
    reports = [_firmware(tmp_path / f"firmware{i}", words) for i, words in enumerate(runs)]

    assert made.sqnr_db > 20
    graph = passes.run(imported(target, {}).graph)[0]
    convolutions = [node for node in graph.nodes() if isinstance(node.op, Conv2d)]
    assert convolutions and {node.output.type.dtype for node in convolutions} == {DType.INT8}
    assert [op["kernel"] for op in reports[0]["ops"]] == [op["kernel"] for op in reports[1]["ops"]]


def _firmware(folder: Path, words: list[Any]) -> Any:
    """The report of `gen firmware` with these arguments."""
    command = [sys.executable, "-m", "shoehorn_mcu", "firmware", *map(str, words), "--board", "rpi-zero"]
    subprocess.run([*command, "--out", str(folder)], capture_output=True, check=True, cwd=ROOT)
    return json.loads((folder / "report.json").read_text())


def test_a_quantised_file_is_not_quantised_again(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra shoehorn-mcu[quantize]")
    op, weight, scale = QUANTISED["conv"]
    path = exported(Quantised(op, weight, scale).eval(), (torch.zeros(1, 4, 6, 8),), tmp_path / "net.pt2")

    with pytest.raises(shoehorn_mcu.ShoehornError, match=r"net.pt2: is quantised already"):
        shoehorn_mcu.quantize(path, tmp_path, tmp_path / "made.onnx")


def test_the_width_of_mobilenet_is_that_of_the_paper() -> None:
    assert sum(each.numel() for each in MobileNetV2().parameters()) == 3_504_872


def test_a_program_that_torchao_quantised_is_int8() -> None:
    """What its quantiser leaves in float32, here the last result, stays so."""
    pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="needs torchao")
    x86 = importlib.import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    module = seeded(torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU(), torch.nn.Conv2d(6, 4, 3)))
    (x,) = example = arguments((torch.zeros(1, 3, 8, 8),))
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = pt2e.prepare_pt2e(torch.export.export(module, example).module(), quantizer)
    prepared(x)
    made = torch.export.export(pt2e.convert_pt2e(prepared), example)

    model = shoehorn_mcu.import_torch(made)
    (got,) = computed(model, example)

    first = next(op for op in model.graph.ops if isinstance(op, Conv2d))
    assert model.graph.tensors[first.inputs[0]].type.dtype is DType.INT8
    wanted = module(x).detach().numpy()
    assert np.abs(got - wanted).max() < 0.05 * np.abs(wanted).max()
