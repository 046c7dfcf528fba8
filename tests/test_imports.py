"""The structure of the packages: rooms on floors, imports that point down, and homes of heavy libraries."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from shoehorn_mcu.base.paths import MODELS
from tests.imports import Module, modules, ours, parsed

# Rooms, a floor a line: a room may import rooms of the floors below it, and none above or beside it. Each table is of
# the modules and packages right below the one that it is named after; "" is that package's own `__init__`.
FLOORS: Mapping[str, Sequence[Collection[str]]] = {
    "shoehorn_mcu": (
        {"", "__main__"},  # `__init__` imports `api` on its first use
        {"cli"},
        {"sweeps"},
        {"api"},
        {"learn"},
        {"slim"},
        {"firmware"},
        {"estimate", "inspect"},
        {"emit", "quantisation"},
        {"schedule"},
        {"importers", "kernels", "passes"},
        {"machine", "ops"},
        {"ir", "planner"},
        {"base", "models"},
    ),
    "shoehorn_mcu.cli": (
        {"group"},
        {
            *("bench", "doctor", "inspect", "library", "lists", "mlperf"),
            *("monitor", "project", "slim", "sweep", "tune", "validate"),
        },
        {"energy"},
        {"buffers", "device", "graph", "outside", "plan", "quantize"},
        {"options", "page"},
        {"console", ""},
    ),
    "shoehorn_mcu.emit": (
        {"bindings"},
        {"folder", "linux"},
        {"model", "page"},
        {"kernels", "unit", "templates"},
        {"c", "bundle", "names", ""},
    ),
    "shoehorn_mcu.importers": (
        {"", "seen"},
        {"torch"},
        {"onnx", "tflite"},
        {"content", "lowering", "declared"},
        {"fault", "forms", "plain"},
        {"source"},
    ),
    "shoehorn_mcu.kernels": (
        {"", "tuning"},
        {"choice"},
        {"catalogue", "cost"},
        {"depthwise", "real", "sequence"},
        {"detection", "element", "layout", "linear", "window"},
        {"base"},
    ),
    "shoehorn_mcu.planner": (
        {""},
        {"make_plan", "spare", "spread", "cores"},
        {"candidates"},
        {"reordered", "searches"},
        {"any_order"},
        {"recompute"},
        {"partition", "placement"},
        {"blocks"},
        {"order", "remat", "check", "whole_tensors"},
        {"problem", "interruptible"},
        {"effort", "live_ranges", "memory_plan"},
    ),
    "shoehorn_mcu.slim": (
        {"run"},
        {"judge", "listing", "page"},
        {"aim", "choose", "data"},
        {"recipe", "record"},
        {"moves", "learner"},
        {"inner", "price"},
        {"layers", "made_up", "reading"},
        {"goal", "moved", "regions", "sites", "users"},
        {"fault", ""},
    ),
    "shoehorn_mcu.sweeps": (
        {"face"},
        {"run", "page"},
        {"cluster"},
        {"stages"},
        {"identity", "rows"},
        {"store"},
        {"axes"},
        {"fault", ""},
    ),
    "shoehorn_mcu_host": (
        {"doctor"},
        {"energy", "mlperf", "validate"},
        {"board"},
        {"firmware", "linux"},
        {"folder"},
        {"base", ""},
    ),
}

VALIDATE = "shoehorn_mcu_host.validate"

# A heavy library and the places that may import it.
HOMES: Mapping[str, tuple[str, ...]] = {
    "ortools": ("shoehorn_mcu.planner",),
    "tflite": ("shoehorn_mcu.importers.tflite",),
    "onnx": (
        "shoehorn_mcu.importers",
        "shoehorn_mcu.quantisation",
        "shoehorn_mcu.slim",
        "shoehorn_mcu_host.validate.unsaturated",
    ),
    "onnxscript": ("shoehorn_mcu.importers.torch.importer",),
    "torch": ("shoehorn_mcu.importers.torch.importer", "shoehorn_mcu.learn", "shoehorn_mcu_host.validate.runtimes"),
    "onnxruntime": ("shoehorn_mcu.quantisation.locked", "shoehorn_mcu_host.validate.runtimes"),
    "ai_edge_litert": ("shoehorn_mcu_host.validate.runtimes",),
    "tflite_micro": ("shoehorn_mcu_host.validate.runtimes",),
    "google": ("shoehorn_mcu.importers",),
    "flatbuffers": ("shoehorn_mcu.importers.tflite",),
    "tensorflow": ("shoehorn_mcu.models",),
    "sklearn": ("shoehorn_mcu.models",),
    "serial": ("shoehorn_mcu_host.board.link", "shoehorn_mcu_host.board.ports"),
    "_cffi_backend": ("shoehorn_mcu_host.base.cbuild",),
    "cffi": (f"{VALIDATE}.reference", f"{VALIDATE}.reference_build", "shoehorn_mcu_host.base.cbuild"),
    "unicorn": ("shoehorn_mcu_host.board.machines.bare_core",),
    "rp2040py": ("shoehorn_mcu_host.board.machines.pico",),
    "elftools": ("shoehorn_mcu_host.firmware", "shoehorn_mcu_host.base.errata"),
    "ppk2lab": ("shoehorn_mcu_host.energy.ppk2",),
    "joulescope": ("shoehorn_mcu_host.energy.joulescope",),
    "dask": ("shoehorn_mcu.sweeps.cluster",),
    "distributed": ("shoehorn_mcu.sweeps", "shoehorn_mcu.cli.sweep"),
    "pyarrow": ("shoehorn_mcu.sweeps.rows", "shoehorn_mcu.cli.sweep"),
    "PIL": ("shoehorn_mcu_host.validate.decoders",),
    "rich": ("shoehorn_mcu.cli",),
    "click": ("shoehorn_mcu.cli",),
    "pydantic": (
        "shoehorn_mcu.machine",
        "shoehorn_mcu.slim.recipe",
        "shoehorn_mcu.slim.record",
        "shoehorn_mcu.sweeps.axes",
        "shoehorn_mcu.sweeps.cluster",
        "shoehorn_mcu_host.base.manifest",
        "shoehorn_mcu_host.base.proof",
        "shoehorn_mcu_host.energy.schedule",
        "shoehorn_mcu_host.folder.documents",
    ),
    "numpy": ("shoehorn_mcu", "shoehorn_mcu_host"),
}

MAY_PRINT = ("shoehorn_mcu.cli", "shoehorn_mcu.models", "shoehorn_mcu.__main__")
SHARED = "shoehorn_mcu_host.base"  # what rooms of the generator import of the host tools; the faces import all of them
FACES = ("api", "cli", "sweeps")
LOOSE = 3  # modules right below `shoehorn_mcu`


def _within(name: str, places: Collection[str]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def _room(name: str, package: str) -> str | None:
    """The part of `package` that a module is in; None for modules of other packages."""
    if not _within(name, (package,)):
        return None
    return name.removeprefix(package).lstrip(".").partition(".")[0]


@pytest.mark.parametrize("package", FLOORS)
def test_arrows_between_rooms_point_down(package: str):
    floors = {room: number for number, rooms in enumerate(FLOORS[package]) for room in rooms}
    wrong = []
    for module in modules().values():
        room = _room(module.name, package)
        if room is None or room == "":  # what `__init__` offers is for those outside
            continue
        assert room in floors, f"{module.place}: give {package}.{room} its floor in FLOORS"
        for name in ours(module):
            other = _room(name, package)
            if other is not None and other != room and floors[other] <= floors[room]:
                wrong.append(f"{module.place} imports {name}")

    assert wrong == []


def test_host_tools_import_nothing_of_the_generator_and_rooms_of_it_only_what_is_shared():
    wrong = []
    for module in modules().values():
        of_host = _within(module.name, ("shoehorn_mcu_host",))
        for name in ours(module):
            if of_host and not _within(name, ("shoehorn_mcu_host",)):
                wrong.append(f"{module.place} imports {name}")
            foreign = not of_host and _within(name, ("shoehorn_mcu_host",)) and not _within(name, (SHARED,))
            if foreign and _room(module.name, "shoehorn_mcu") not in FACES:
                wrong.append(f"{module.place} imports {name}")

    assert wrong == []


def test_no_modules_import_each_other():
    try:
        TopologicalSorter({module.name: ours(module) for module in modules().values()}).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_hardly_a_module_lies_loose():
    rooms = {_room(name, "shoehorn_mcu") for name in modules()}
    loose = {name for name in rooms if name is not None and f"shoehorn_mcu.{name}".rstrip(".") in modules()}
    files = [m for m in modules().values() if m.path.parent.name == "shoehorn_mcu"]

    assert loose and len(files) <= LOOSE


def test_a_heavy_library_stays_in_its_home():
    wrong = []
    for module in modules().values():
        for name in module.imports:
            homes = HOMES.get(name.partition(".")[0])
            if homes is not None and not _within(module.name, homes):
                wrong.append(f"{module.place} imports {name}; that belongs in {', '.join(homes)}")

    assert wrong == []


def _prints(module: Module) -> Iterator[int]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno


def test_only_the_command_prints():
    wrong = [f"{m.place}:{n}" for m in modules().values() if not _within(m.name, MAY_PRINT) for n in _prints(m)]

    assert wrong == []


def test_every_way_to_import_is_seen(tmp_path: Path):
    path = tmp_path / "m.py"
    path.write_text(
        "from shoehorn_mcu import importers\nfrom shoehorn_mcu.ir import Op\nfrom . import check\n"
        "from ..emit.c import call\n"
        "def f():\n    import shoehorn_mcu.firmware.build, serial.tools\n"
    )
    known = frozenset({"shoehorn_mcu.importers", "shoehorn_mcu.planner.check"})

    assert parsed("shoehorn_mcu.planner.m", path, known).imports == {
        *("shoehorn_mcu.importers", "shoehorn_mcu.ir", "shoehorn_mcu.planner.check", "shoehorn_mcu.emit.c"),
        *("shoehorn_mcu.firmware.build", "serial.tools"),
    }


@pytest.mark.parametrize("options", [[], ["--minimize", "sram"]])
def test_a_plan_without_recompute_does_not_load_cp_sat(options: list[str]):
    code = """
import sys
from shoehorn_mcu.cli.group import main
main(["plan", *sys.argv[1:]], standalone_mode=False)
print("loaded:", *sorted({"ortools", "pandas"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code, str(MODELS / "digits.tflite"), *options]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert shown.splitlines()[-1] == "loaded:"
