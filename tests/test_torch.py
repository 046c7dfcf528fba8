"""PyTorch's models against PyTorch itself; the tests of this file are skipped where it is not installed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoehorn_mcu
from shoehorn_mcu import passes
from shoehorn_mcu.importers import Imported, ImportFault, imported
from shoehorn_mcu.ir import Array
from shoehorn_mcu.ops import Transpose

ROOT = Path(__file__).parent.parent

torch = pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[torch]")
pytest.importorskip("onnxscript", reason="needs the extra shoehorn-mcu[torch]")

from tests.torch_models import MODELS, MobileNetV2, Sum, seeded  # noqa: E402

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


def test_cnns_have_no_ops_that_move_or_normalise() -> None:
    module, example = MODELS["mobilenet"]
    graph = passes.run(shoehorn_mcu.import_torch(seeded(module), example).graph)[0]

    kinds = Counter(type(op).__name__ for op in graph.ops)
    assert kinds.pop("Conv2d") == 13
    assert kinds.pop("DepthwiseConv2d") == 6
    assert kinds.pop("Add") == 4
    assert kinds.pop("Reshape") == 1
    assert kinds == {"Mean": 1, "Dense": 1}
    assert not any(isinstance(op, Transpose) for op in graph.ops)
    assert graph.inputs == ("image",)


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


def _repacked(data: bytes, chance: np.random.Generator) -> bytes:
    """The archive with some bytes of its members changed and their sums made right."""
    held = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(held, "w") as new:
        hit = chance.choice(len(old.namelist()), 2)
        for number, name in enumerate(old.namelist()):
            inner = bytearray(old.read(name))
            if number in hit and inner:
                for _ in range(int(chance.integers(1, 4))):
                    inner[int(chance.integers(len(inner)))] = int(chance.integers(256))
            new.writestr(name, bytes(inner))
    return held.getvalue()


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder, example = tmp_path_factory.mktemp("seeds"), (torch.zeros(1, 2, 4, 4),)
    module = seeded(torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU6()))
    exported(module, example, folder / "net.pt2")
    torch.jit.trace(module, example).save(folder / "net.pt")
    return {suffix: (folder / f"net.{suffix}").read_bytes() for suffix in ("pt2", "pt")}


@pytest.mark.parametrize("seed", range(100))
def test_a_mutant_is_imported_or_refused(seed: int, seeds: dict[str, bytes], tmp_path: Path) -> None:
    chance = np.random.default_rng(seed)
    suffix = ("pt2", "pt")[seed % 2]
    data = bytearray(_repacked(seeds[suffix], chance) if seed % 4 else seeds[suffix])
    if seed % 4 == 0:
        for _ in range(int(chance.integers(1, 6))):
            data[int(chance.integers(len(data)))] = int(chance.integers(256))
    path = tmp_path / f"mutant.{suffix}"
    path.write_bytes(data)

    try:
        imported(path, {})
    except ImportFault as fault:
        assert "\n" not in str(fault)


def test_the_width_of_mobilenet_is_that_of_the_paper() -> None:
    assert sum(each.numel() for each in MobileNetV2().parameters()) == 3_504_872
