"""Wheels for Linux beside LiteRT's, in instructions under QEMU; writes the table of docs/linux.md.

    python -m bench.linux [--models NAME ...] [--systems arm64 armhf] [--out build/linux/figures]

Each model becomes a wheel for one thread and one for four. A script in a real CPython for the machine imports it and
runs inferences, and the same is done with the LiteRT wheel that PyPI has for the machine; `linux_systems.py` fetches
both. A plugin counts what each thread executes between two system calls that nothing else makes. So an inference
includes the Python call, and the copies of its input and its output.

With several threads the figure is that of the busiest one, without its waiting (`linux_count.c`). Outputs of the wheels
are compared with the reference of a written folder, byte by byte. Figures are kept below --out, and measured once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import with_table
from bench.linux_systems import PLACE, ROOT, SYSTEMS, System, installed, lines_of, made, run
from shoehorn_mcu import api
from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.validate import reference_of

MODELS = ROOT.parent / "shared" / "models"
PAGE = ROOT / "docs" / "linux.md"
TIMES = 5
THREADS = (1, 4)
NAMES = {
    "mlperf-kws-dscnn-int8": "MLPerf KWS",
    "mlperf-vww96-int8": "MLPerf VWW",
    "mlperf-ic-resnet8-int8": "MLPerf IC",
    "coral-mnv2-tf2-ptq": "MobileNetV2 1.0 224",
    "mcunet-512kb-2mb-imagenet": "mcunet-512kb",
    "mlperf-ic-resnet8-f32": "MLPerf IC, float32",
    "coral-mnv1-025-128-u8": "MobileNetV1 0.25 128, uint8",
}
MACHINES = {"arm64": "aarch64 (Cortex-A53)", "armhf": "armhf (ARM1176; LiteRT for ARMv7)"}

_HEAD = "import os, json, sys\nos.getppid()\nimport numpy\nos.getppid()\n"
_OURS = """
import {name} as model
os.getppid()
arrays = [numpy.load(path) for path in {inputs}]
found = model.run(*arrays)
found = model.run(*arrays)
os.getppid()
for _ in range({times}):
    found = model.run(*arrays)
os.getppid()
for place, array in zip({outputs}, found if isinstance(found, tuple) else (found,)):
    numpy.save(place, array)
"""
_LITERT = """
from {runtime} import Interpreter
os.getppid()
model = Interpreter(model_path={model!r}, num_threads={threads})
model.allocate_tensors()
places = [each["index"] for each in model.get_input_details()]
results = [each["index"] for each in model.get_output_details()]
arrays = [numpy.load(path) for path in {inputs}]
def once():
    for place, array in zip(places, arrays):
        model.set_tensor(place, array)
    model.invoke()
    return [model.get_tensor(place) for place in results]
once()
once()
os.getppid()
for _ in range({times}):
    found = once()
os.getppid()
for place, array in zip({outputs}, found):
    numpy.save(place, array)
"""


@dataclass(frozen=True)
class Vectors:
    """Files with a model's inputs, and the outputs that the reference has of them."""

    inputs: tuple[str, ...]
    outputs: tuple[np.ndarray[Any, Any], ...]


def reference(model: Path, folder: Path) -> Vectors:
    """Random inputs as files, and the outputs of the reference."""
    options = api.PlanOptions(board="rpi-zero-2w")
    project = Project.open(api.generate(model, folder / "project", options).folder)
    plan = Plan.of(project)
    (vector,) = vectors.random(project.described, plan.inputs, 1, 0)
    paths = []
    for number, array in enumerate(vector):
        paths.append(str(folder / f"input{number}.npy"))
        np.save(paths[-1], array)
    values = reference_of(project, plan).run(vector)
    return Vectors(tuple(paths), tuple(values[each.name] for each in plan.outputs))


def measure(system: System, script: str, site: Path, outputs: Sequence[str], plugin: Path) -> dict[str, Any]:
    """The instructions of the imports, and of an inference on its busiest thread, and the outputs."""
    with tempfile.TemporaryDirectory() as place:
        told = Path(place) / "counts"
        run(system, script, site, ("-plugin", f"file={plugin},out={told},call={system.getppid}"))
        lines = [[(line[i], line[i + 1]) for i in range(0, len(line), 2)] for line in lines_of(told)]
    _, numpy_at, import_at, before, after = lines
    spent = [
        (end[0] - start[0], end[1] - start[1])
        for end, start in zip(after, [*before, *[(0, 0)] * (len(after) - len(before))], strict=True)
    ]
    return {
        "import": import_at[0][0] - numpy_at[0][0],
        "inference": round(max(all_ - waiting for all_, waiting in spent) / TIMES),
        "threads": [round((all_ - waiting) / TIMES) for all_, waiting in spent if all_],
        "waiting": [round(waiting / TIMES) for _, waiting in spent],
        "outputs": [np.load(path) for path in outputs],
    }


def ours(system: System, model: Path, threads: int, given: Vectors, folder: Path, plugin: Path) -> dict[str, Any]:
    """A wheel of the model: its size, what `measure` says, and whether it computes what the reference does."""
    options = api.PlanOptions(cpu=system.wheel_core, cores=threads)
    made = api.generate_for_linux(model, folder / f"{system.arch}-{threads}", options)
    site = installed(made.wheel, folder / f"site-{system.arch}-{threads}")
    outputs = [str(folder / f"output{i}.npy") for i in range(len(given.outputs))]
    script = _HEAD + _OURS.format(name=made.plan.model, inputs=given.inputs, outputs=outputs, times=TIMES)
    found = measure(system, script, site, outputs, plugin)
    equal = all(a.tobytes() == b.tobytes() for a, b in zip(found.pop("outputs"), given.outputs, strict=True))
    return {**found, "wheel": made.wheel.stat().st_size, "equal": equal}


def litert(system: System, model: Path, threads: int, given: Vectors, folder: Path, plugin: Path) -> dict[str, Any]:
    """What `measure` says of LiteRT, or the line by which it failed."""
    outputs = [str(folder / f"output{i}.npy") for i in range(len(given.outputs))]
    values = {"runtime": system.runtime, "model": str(model), "threads": threads, "times": TIMES}
    script = _HEAD + _LITERT.format(**values, inputs=given.inputs, outputs=outputs)
    try:
        found = measure(system, script, folder, outputs, plugin)
    except RuntimeError as error:
        return {"failed": str(error).splitlines()[-1]}
    apart = [int(np.abs(a.astype(np.int64) - b).max()) if a.dtype.kind in "iu" else float(np.abs(a - b).max())
             for a, b in zip(found.pop("outputs"), given.outputs, strict=True)]  # fmt: skip
    return {**found, "apart": apart}


def figures(system: System, name: str, out: Path, plugin: Path) -> dict[str, Any]:
    """All figures of a model on a system, from the file of an earlier run or measured."""
    path = out / f"{system.arch}-{name}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    model = MODELS / f"{name}.tflite"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        given = reference(model, folder)
        found = {}
        for threads in THREADS:
            found[f"ours {threads}"] = ours(system, model, threads, given, folder, plugin)
            found[f"litert {threads}"] = litert(system, model, threads, given, folder, plugin)
            print(f"{system.arch} {name} {threads}: {found}", file=sys.stderr, flush=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    return found


def table(system: System, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The table of a system."""
    threads = "one thread | LiteRT | times less | four threads | LiteRT | times less"
    yield f"| {MACHINES[system.arch]} | wheel, bytes | import | {threads} |"
    yield "|---|" + "---:|" * 8
    for name, row in rows.items():
        cells = [f"{row['ours 1']['wheel']:,}", f"{row['ours 1']['import']:,}"]
        for threads in THREADS:
            own, other = row[f"ours {threads}"]["inference"], row[f"litert {threads}"].get("inference")
            cells += [f"{own:,}", f"{other:,}", f"{other / own:.2f}"] if other else [f"{own:,}", "fails", ""]
        yield f"| {NAMES[name]} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[*NAMES])
    parser.add_argument("--systems", nargs="*", default=[each.arch for each in SYSTEMS])
    parser.add_argument("--out", type=Path, default=PLACE / "figures")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    place = Path(__file__).parent
    header = ROOT / "host_tools" / "shoehorn_mcu_host" / "board" / "plugin" / "qemu.h"
    plugin = cbuild.plugin("linux_count", header, [place / "linux_count.c"])
    for system in SYSTEMS:
        if system.arch not in arguments.systems:
            continue
        made(system)
        rows = {name: figures(system, name, out, plugin) for name in arguments.models}
        wrong = [f"{name}, {each}" for name, row in rows.items() for each in row if not row[each].get("equal", True)]
        if wrong:
            raise SystemExit(f"{system.arch}: other bytes than the reference: {'; '.join(wrong)}")
        lines = [*table(system, rows)]
        print("\n".join(lines))
        if arguments.models == [*NAMES] and PAGE.exists():
            PAGE.write_text(with_table(PAGE.read_text(), iter(lines)))


if __name__ == "__main__":
    main()
