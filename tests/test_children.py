"""No process of Shoehorn takes Python modules from the current directory, where a model was downloaded to."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from board_project import write_hello
from onnx import TensorProto, helper

import shoehorn_mcu.importers.onnx.apart as onnx_apart
import shoehorn_mcu.importers.torch.importer as torch_importer
from shoehorn_mcu_host.base import sandbox
from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate import decoders

ROOT = Path(__file__).resolve().parents[1]
SHADOWS = ("__future__", "click", "dis", "inspect", "onnx", "onnxscript", "shoehorn_mcu", "signal", "torch", "typing")
_STARTERS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}


@pytest.fixture
def shadowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with modules that leave a file when they are imported."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    for name in (*SHADOWS, "platformio", "ziglang", "SCons"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'TAKEN')!r}, 'a').write(__name__)\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return folder


def _taken(folder: Path) -> str:
    """The modules that were imported from the folder."""
    path = folder / "TAKEN"
    return path.read_text() if path.exists() else ""


def test_the_shadows_are_taken_by_a_process_that_does_not_care(shadowed: Path):
    subprocess.run([sys.executable, "-c", "import dis"], check=True)

    assert _taken(shadowed) == "dis"


READERS = (onnx_apart, torch_importer, decoders)


@pytest.mark.parametrize("module", [each.__name__ for each in READERS])
def test_the_processes_that_read_foreign_files_take_none(module: str, shadowed: Path):
    sandbox.end()
    with pytest.raises((sandbox.Failed, sandbox.Ended)):  # it has no such function, or lacks what it imports
        sandbox.answer(f"{module}:none", None)

    assert _taken(shadowed) == ""


@pytest.mark.usefixtures("pio_started")
def test_a_build_takes_none(shadowed: Path, tmp_path: Path):
    build(Project.open(write_hello(tmp_path / "hello", "native")))

    assert _taken(shadowed) == ""


def test_pio_run_by_hand_takes_none_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of the compiler's processes, which `pio run` starts in the project's folder."""
    folder = write_hello(tmp_path / "hello", "native")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (folder / "ziglang.py").write_text("raise SystemExit('the wrong ziglang')\n")
    command = [sys.executable, "-P", "-m", "platformio", "run", "-d", str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [["boards"], ["plan", "net.onnx"]])
def test_gen_as_a_module_takes_none(shadowed: Path, arguments: list[str]):
    (shadowed / "shoehorn_mcu.py").unlink()  # `-m` names it: it is the program
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), shadowed / "net.onnx")

    done = subprocess.run([sys.executable, "-m", "shoehorn_mcu", *arguments], capture_output=True, text=True)

    assert (done.returncode, _taken(shadowed)) == (0, ""), done.stderr


def _started_by_shoehorn(code: str) -> None:
    """Runs code as if it were in a file of the host tools."""
    exec(compile(code, str(ROOT / "host_tools" / "shoehorn_mcu_host" / "none.py"), "exec"), {})


SAFE = "from shoehorn_mcu_host.base.children import environment; "


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess; subprocess.run(['true'])",
        "import subprocess; subprocess.run(['true'], env={})",
        "import os; os.system('true')",
        SAFE + "import subprocess; subprocess.Popen(['true'], env={**environment(), 'PYTHONSAFEPATH': ''})",
    ],
)
def test_a_process_of_shoehorn_that_could_take_modules_fails_the_test_that_starts_it(code: str):
    """By the hook of tests/started.py, which hears of every process in every test."""
    with pytest.raises(AssertionError, match=r"env=environment\(\)"):
        _started_by_shoehorn(code)


def test_a_process_with_the_environment_that_forbids_it_is_started():
    _started_by_shoehorn(SAFE + "import subprocess; subprocess.run(['true'], check=True, env=environment())")


def _starts(text: str) -> list[ast.Call]:
    """The calls that start a process."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [
        call
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and (call.func.value.id, call.func.attr) in {("os", "system"), *(("subprocess", each) for each in _STARTERS)}
    ]


def _without_environment(text: str) -> list[int]:
    """The lines of the calls that start a process in the environment of this one."""
    return [call.lineno for call in _starts(text) if "env" not in {each.arg for each in call.keywords}]


def test_no_process_is_started_in_the_environment_of_this_one():
    """Also in branches for other systems, which no test runs. Those of the platform inherit builder/main.py's."""
    assert _without_environment("import subprocess\nsubprocess.run(['gen'])\nsubprocess.run([], env={})") == [2]
    for folder in ("generator", "host_tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            assert _without_environment(path.read_text()) == [], f"{path}: env=environment() is missing"
