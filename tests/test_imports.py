"""Imports point one way: ARCHITECTURE.md's table, read from the sources with `ast`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoehorn_mcu.paths import MODELS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, HOST = "shoehorn_mcu", "shoehorn_mcu.host_tools"  # what setup.py calls the folders generator and host_tools

# Part -> parts that it may import, beside itself. `errors` and `paths` are open to all of the generator.
_ALL = {
    "ir",
    "memory_plan",
    "memories",
    "hot_weights",
    "live_ranges",
    "ops",
    "importers",
    "passes",
    "split",
    "pipeline",
    "targets",
    "kernels",
    "slow",
    "stage",
    "planner",
    "lower",
    "state_places",
    "emit",
    "report",
    "predict",
    "schedule",
    "advice",
    "flash",
    "ram",
    "op_lines",
    "graph_file",
}
ALLOWED: dict[str, set[str]] = {
    "__init__": {"api"},
    "api": {
        "build",
        "emit",
        "host_tools",
        "importers",
        "ir",
        "kernels",
        "passes",
        "pipeline",
        "planner",
        "quantisation",
        "several",
        "targets",
    },
    "__main__": {"cli"},
    "errors": set(),
    "paths": set(),
    "console": set(),
    "models": set(),
    "ir": set(),
    "memory_plan": set(),
    "live_ranges": set(),
    "families": {"manifest"},
    "targets": {"families", "manifest"},
    "ops": {"ir"},
    "importers": {"ir", "ops", "sandbox"},
    "passes": {"ir", "ops"},
    "kernels": {"ir", "ops", "targets"},
    "split": {"ir", "ops"},
    "pipeline": {"ir", "ops"},
    "stage": {"ir", "ops", "kernels", "targets"},
    "planner": {"live_ranges", "memory_plan", "cbuild"},
    "cuts": {"passes", "ir", "memory_plan", "split", "stage"},
    "lower": {"ir", "ops", "cuts", "split", "stage", "state_places", "planner"},
    "state_places": {"ir", "stage"},
    "inspection": {"importers", "ir", "live_ranges", "ops", "passes"},
    "op_lines": {"memory_plan", "predict", "stage"},
    "predict": {"memory_plan", "kernels", "stage"},
    "graph_file": {"ir", "ops"},
    "emit": {
        "families",
        "graph_file",
        "ir",
        "live_ranges",
        "memory_plan",
        "op_lines",
        "ops",
        "kernels",
        "stage",
        "predict",
        "targets",
    },
    "advice": {"flash", "ir", "planner", "targets"},
    "flash": {"emit", "kernels", "stage"},
    "hot_weights": {"emit", "ops", "predict", "stage", "targets"},
    "memories": {"ir", "memory_plan", "targets"},
    "report": {"op_lines", "ir", "memories", "passes", "memory_plan", "stage", "predict", "targets"},
    "slow": {"importers", "ir", "ops", "stage"},
    "upgrade": {"kernels", "memory_plan", "planner", "predict", "stage"},
    "runs": {"ir", "memory_plan", "planner", "stage"},
    "schedule": {"ir", "memory_plan", "planner", "cuts", "lower", "predict", "runs", "stage", "upgrade"},
    "pareto": {"cuts", "planner", "schedule", "predict"},
    "build": _ALL | {"cuts", "pareto"},
    "ram": {"targets"},
    "several": {"advice", "build", "emit", "flash", "passes", "planner", "ram", "report", "stage", "targets"},
    "cli": _ALL | {"build", "console", "host_tools"},
    "cli_buffers": {"planner", "console"},
    "cli_graph": {"planner", "console"},
    "inspection_page": {"emit", "inspection"},
    "cli_inspect": {"cli_options", "cli_page", "console", "inspection", "inspection_page"},
    "cli_lists": {"importers", "kernels", "manifest", "op_table", "targets", "console"},
    "op_table": {"importers", "ir", "kernels", "targets"},
    "cli_library": {"build", "cli_options", "cli_page", "cli_plan", "console", "emit", "targets"},
    "cli_options": {"build", "console", "kernels", "passes", "pipeline", "planner"},
    "cli_page": {"build", "pareto", "predict", "emit", "console"},
    "cli_plan": {"build", "flash", "memory_plan", "op_lines", "predict", "several", "stage", "targets", "console"},
    "cli_project": _ALL
    | {"build", "cli_buffers", "cli_graph", "cli_options", "cli_page", "cli_plan", "cli_quantize", "console"}
    | {"host_tools", "quantisation", "several"},
    "tune": {"emit", "flash", "ir", "kernels", "lower", "ops", "planner", "report", "runs", "stage", "targets"},
    "cli_tune": {
        "cli_device",
        "cli_page",
        "console",
        "emit",
        "graph_file",
        "host_tools",
        "kernels",
        "planner",
        "targets",
        "tune",
    },
    "cli_monitor": {"cli_device", "console", "host_tools"},
    "cli_device": {"console", "host_tools"},
    "cli_outside": {"console", "host_tools"},
    "cli_validate": {"cli_device", "cli_outside", "console", "host_tools", "importers"},
    "quantisation": {"arrays", "importers", "ir", "ops", "passes", "sandbox"},
    "kept_cost": {"build", "importers", "quantisation", "targets"},
    "cli_quantize": {"cli_options", "cli_page", "console", "kept_cost", "quantisation", "targets"},
    "cbuild": {"children", "system"},
    "host_tools": {"arrays", "cbuild", "children", "sandbox", "system"},
    "sandbox": {"children"},
}
OPEN = {"errors", "files", "paths", "__init__"}
# Modules of host_tools that the generator may import as well, and the part that each of them is.
_SHARED = {
    "arrays": "arrays",
    "cbuild": "cbuild",
    "children": "children",
    "system": "system",
    "errors": "errors",
    "files": "files",
    "manifest": "manifest",
    "sandbox": "sandbox",
}

# The rooms of the planner, a floor a line: a room may import rooms of the floors below it and none beside it.
FLOORS = (
    {"make_plan", "spare", "spread", "cores"},
    {"candidates"},
    {"any_order", "searches"},
    {"recompute"},
    {"partition", "placement"},
    {"blocks"},
    {"order", "remat", "check", "whole_tensors"},
    {"problem", "interruptible"},
)

# A heavy library and the modules that may import it.
HOMES = {
    "ortools": ("generator/planner/",),
    "tflite": ("generator/importers/",),
    "onnx": ("generator/importers/", "generator/quantisation/"),
    "onnxscript": ("generator/importers/torch.py",),
    "torch": ("generator/importers/torch.py", "host_tools/runtimes.py"),
    "onnxruntime": ("generator/quantisation/locked.py", "host_tools/runtimes.py"),
    "ai_edge_litert": ("host_tools/runtimes.py",),
    "tflite_micro": ("host_tools/runtimes.py",),
    "google": ("generator/importers/",),
    "flatbuffers": ("generator/importers/",),
    "tensorflow": ("generator/models/",),
    "sklearn": ("generator/models/",),
    "serial": ("host_tools/link.py", "host_tools/ports.py"),
    "_cffi_backend": ("host_tools/cbuild.py",),
    "cffi": ("host_tools/reference", "host_tools/cbuild.py"),
    "elftools": ("host_tools/",),
    "PIL": ("host_tools/decoders.py",),
    "rich": ("generator/console.py", "generator/cli"),
    "click": ("generator/console.py", "generator/cli"),
    "pydantic": ("generator/families.py", "generator/targets.py", "host_tools/manifest.py", "host_tools/documents.py"),
    "numpy": ("generator/", "host_tools/"),
}


def _modules() -> list[Path]:
    return sorted(p for top in ("generator", "host_tools") for p in (ROOT / top).rglob("*.py"))


def _imports(path: Path, root: Path = ROOT) -> Iterator[str]:
    """Every module that the file imports anywhere, functions included, by its full name."""
    folder, *rest = path.relative_to(root).with_suffix("").parts[:-1]
    package = (*({"generator": PACKAGE, "host_tools": HOST}[folder].split(".")), *rest)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            name = ".".join(filter(None, (base, node.module)))
            # `from shoehorn_mcu import passes` imports the module shoehorn_mcu.passes
            packages = (PACKAGE, HOST, f"{PACKAGE}.planner")
            yield from (f"{name}.{a.name}" for a in node.names) if name in packages else (name,)


def _part(module: str) -> str | None:
    """The part of the project that a module belongs to; None for modules of others."""
    if module.startswith(HOST):
        return _SHARED.get(module.removeprefix(f"{HOST}."), "host_tools")
    head, _, rest = module.partition(".")
    return (rest.split(".")[0] or "__init__") if head == PACKAGE else None


def _of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] == "host_tools" else parts[1]


@pytest.mark.parametrize("path", _modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_module_imports_only_what_its_part_may(path: Path):
    part = _of(path)
    assert part in ALLOWED, f"{path}: give this part its row in ALLOWED and in ARCHITECTURE.md"
    own = {_part(module) for module in _imports(path)} - {None, part}
    own = {"__init__" if name == "__version__" else name for name in own}
    extra = own - ALLOWED[part] - ({"errors", "files", "manifest"} if part == "host_tools" else OPEN)

    assert not extra, f"{path.relative_to(ROOT)} imports {extra}"


def _floor(room: str) -> int:
    return next(i for i, rooms in enumerate(FLOORS) if room in rooms)


def _rooms(path: Path) -> Iterator[str]:
    """The rooms of the planner that a module imports from. What `__init__` offers is for those outside."""
    for module in _imports(path):
        if module.startswith(f"{PACKAGE}.planner"):
            yield module.removeprefix(f"{PACKAGE}.planner").lstrip(".").partition(".")[0]


@pytest.mark.parametrize(
    "path", [p for p in _modules() if "planner" in p.parts], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_arrows_between_rooms_of_the_planner_point_down(path: Path):
    room = path.relative_to(ROOT / "generator" / "planner").with_suffix("").parts[0]
    if room == "__init__":
        return
    for other in set(_rooms(path)) - {room}:
        assert _floor(other) > _floor(room), f"{path.relative_to(ROOT)} imports from {other}"


@pytest.mark.parametrize("path", _modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_heavy_library_stays_in_its_home(path: Path):
    name = path.relative_to(ROOT).as_posix()
    for module in _imports(path):
        homes = HOMES.get(module.partition(".")[0], ("",))

        assert name.startswith(homes), f"{name} imports {module}; that belongs in {', '.join(homes)}"


@pytest.mark.parametrize("options", [[], ["--minimize", "sram"]])
def test_a_plan_without_recompute_does_not_load_cp_sat(options: list[str]):
    code = """
import sys
from shoehorn_mcu.cli import main
main(["plan", *sys.argv[1:]], standalone_mode=False)
print("loaded:", *sorted({"ortools", "pandas"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code, str(MODELS / "digits.tflite"), *options]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert shown.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize("path", _modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_only_cli_modules_print(path: Path):
    calls = (n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
    prints = [f for f in calls if isinstance(f, ast.Name) and f.id == "print"]

    assert not prints or _of(path).startswith("cli") or _of(path) in ("models", "__main__")


def test_every_way_to_import_is_seen(tmp_path: Path):
    module = tmp_path / "generator" / "planner" / "m.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "from shoehorn_mcu import importers\nfrom shoehorn_mcu.ir import Op\nfrom . import check\n"
        "from ..emit.c import call\n"
        "def f():\n    import shoehorn_mcu.build, serial.tools\n"
    )
    found = set(_imports(module, tmp_path))

    assert {_part(m) for m in found} == {"importers", "ir", "planner", "emit", "build", None}
    assert "serial.tools" in found
