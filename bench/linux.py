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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import with_table
from bench.linux_systems import PLACE, ROOT, SYSTEMS, System, installed, lines_of, made, run
from shoehorn_mcu import api
from shoehorn_mcu.machine.targets import CPUS, Isa
from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.validate import reference_of

MODELS = ROOT.parent / "shared" / "models"
PAGE = ROOT / "docs" / "linux.md"
TIMES = 5
THREADS = (1, 4)
# By model, and behind a plus sign a value of --float.
NAMES = {
    "mlperf-kws-dscnn-int8": "MLPerf KWS",
    "mlperf-vww96-int8": "MLPerf VWW",
    "mlperf-ic-resnet8-int8": "MLPerf IC",
    "coral-mnv2-tf2-ptq": "MobileNetV2 1.0 224",
    "mcunet-512kb-2mb-imagenet": "mcunet-512kb",
    "mlperf-ic-resnet8-f32": "MLPerf IC, float32",
    "mlperf-ic-resnet8-f32+relaxed": "the same, `--float relaxed`",
    "coral-mnv1-025-128-u8": "MobileNetV1 0.25 128, uint8",
}
MACHINES = {"arm64": "aarch64 (Cortex-A53)", "armhf": "armhf (ARM1176; LiteRT for ARMv7)"}

IMPORTED = "mlperf-kws-dscnn-int8"  # a model for the figures of imports, which hardly depend on it

_IMPORT = """
import os
import numpy
os.getppid()
import {module}
os.getppid()
"""
_OURS = """
import os
import numpy
import {name} as model
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
import os
import numpy
from {runtime} import Interpreter
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


def reference(model: Path, options: api.PlanOptions, folder: Path) -> Vectors:
    """Random inputs as files, and the outputs of the reference."""
    options = replace(options, board="rpi-zero-2w")
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
    """The instructions of an inference on its busiest thread, and the outputs."""
    with tempfile.TemporaryDirectory() as place:
        told = Path(place) / "counts"
        run(system, script, site, ("-plugin", f"file={plugin},out={told},call={system.getppid}"))
        lines = [[(line[i], line[i + 1]) for i in range(0, len(line), 2)] for line in lines_of(told)]
    before, after = lines
    spent = [
        (end[0] - start[0], end[1] - start[1])
        for end, start in zip(after, [*before, *[(0, 0)] * (len(after) - len(before))], strict=True)
    ]
    return {
        "inference": round(max(all_ - waiting for all_, waiting in spent) / TIMES),
        "threads": [round((all_ - waiting) / TIMES) for all_, waiting in spent if all_],
        "waiting": [round(waiting / TIMES) for _, waiting in spent],
        "outputs": [np.load(path) for path in outputs],
    }


def ours(
    system: System, model: Path, options: api.PlanOptions, given: Vectors, folder: Path, plugin: Path
) -> dict[str, Any]:
    """A wheel of the model: its size, what `measure` says, and whether it computes what the reference does."""
    threads, options = options.cores, replace(options, cpu=system.wheel_core)
    made = api.generate_for_linux(model, folder / f"{system.name}-{threads}", options)
    site = installed(made.wheel, folder / f"site-{system.name}-{threads}")
    outputs = [str(folder / f"output{i}.npy") for i in range(len(given.outputs))]
    script = _OURS.format(name=made.plan.model, inputs=given.inputs, outputs=outputs, times=TIMES)
    found = measure(system, script, site, outputs, plugin)
    equal = all(a.tobytes() == b.tobytes() for a, b in zip(found.pop("outputs"), given.outputs, strict=True))
    return {**found, "wheel": made.wheel.stat().st_size, "equal": equal}


def litert(
    system: System, model: Path, options: api.PlanOptions, given: Vectors, folder: Path, plugin: Path
) -> dict[str, Any]:
    """What `measure` says of LiteRT, or the line by which it failed."""
    outputs = [str(folder / f"output{i}.npy") for i in range(len(given.outputs))]
    values = {"runtime": system.runtime, "model": str(model), "threads": options.cores, "times": TIMES}
    script = _LITERT.format(**values, inputs=given.inputs, outputs=outputs)
    try:
        found = measure(system, script, folder, outputs, plugin)
    except RuntimeError as error:
        return {"failed": str(error).splitlines()[-1]}
    apart = [int(np.abs(a.astype(np.int64) - b).max()) if a.dtype.kind in "iu" else float(np.abs(a - b).max())
             for a, b in zip(found.pop("outputs"), given.outputs, strict=True)]  # fmt: skip
    return {**found, "apart": apart}


def imports(system: System, out: Path, plugin: Path) -> dict[str, int]:
    """The instructions of importing a wheel and LiteRT, behind NumPy; Python has compiled their files before."""
    path = out / f"{system.name}-import.json"
    if path.exists():
        known: dict[str, int] = json.loads(path.read_text())
        return known
    with tempfile.TemporaryDirectory() as place:
        folder, told, found = Path(place), Path(place) / "counts", {}
        options = api.PlanOptions(cpu=system.wheel_core)
        made = api.generate_for_linux(MODELS / f"{IMPORTED}.tflite", folder / "library", options)
        site = installed(made.wheel, folder / "site")
        for name, module in (("ours", made.plan.model), ("litert", system.runtime)):
            script = _IMPORT.format(module=module)
            run(system, script, site)
            run(system, script, site, ("-plugin", f"file={plugin},out={told},call={system.getppid}"))
            before, after = lines_of(told)
            found[name] = after[0] - before[0]
    path.write_text(json.dumps(found) + "\n")
    return found


def figures(system: System, name: str, out: Path, plugin: Path) -> dict[str, Any]:
    """All figures of a model on a system, from the file of an earlier run or measured."""
    path = out / f"{system.name}-{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    kinds = {"ours": ours, "litert": litert}
    missing = [(kind, threads) for threads in THREADS for kind in kinds if f"{kind} {threads}" not in found]
    if not missing:
        return found
    stem, _, mode = name.partition("+")
    model, options = MODELS / f"{stem}.tflite", api.PlanOptions(**({"float": mode} if mode else {}))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        given = reference(model, options, folder)
        for kind, threads in missing:
            key, asked = f"{kind} {threads}", replace(options, cores=threads)
            found[key] = kinds[kind](system, model, asked, given, folder, plugin)
            print(f"{system.name} {name} {key}: {found[key]}", file=sys.stderr, flush=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    return found


def import_table(rows: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The table of imports, a row for each system."""
    yield from ("| import | the wheel | LiteRT |", "|---|---:|---:|")
    for name, row in rows.items():
        yield f"| {name} | {row['ours']:,} | {row['litert']:,} |"


def table(system: System, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The table of a system."""
    threads = "one thread | LiteRT | times less | four threads | LiteRT | times less"
    yield f"| {MACHINES[system.name]} | wheel, bytes | {threads} |"
    yield "|---|" + "---:|" * 7
    for name, row in rows.items():
        cells = [f"{row['ours 1']['wheel']:,}"]
        for threads in THREADS:
            own, other = row[f"ours {threads}"]["inference"], row[f"litert {threads}"].get("inference")
            known = other and (threads == 1 or system.yields)
            cells += [f"{own:,}", f"{other:,}", f"{other / own:.2f}"] if known else [f"{own:,}", "unknown", ""]
        yield f"| {NAMES[name]} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[*NAMES])
    parser.add_argument("--systems", nargs="*", default=[each.name for each in SYSTEMS])
    parser.add_argument("--out", type=Path, default=PLACE / "figures")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    place = Path(__file__).parent
    header = ROOT / "host_tools" / "shoehorn_mcu_host" / "board" / "plugin" / "qemu.h"
    plugin = cbuild.plugin("linux_count", header, [place / "linux_count.c"])
    tables, imported = [], {}
    for system in SYSTEMS:
        if system.name not in arguments.systems:
            continue
        made(system)
        imported[system.name] = imports(system, out, plugin)
        fused = Isa.FPU in CPUS[system.wheel_core].isas  # which --float asks for
        names = [name for name in arguments.models if fused or "+" not in name]
        rows = {name: figures(system, name, out, plugin) for name in names}
        wrong = [f"{name}, {each}" for name, row in rows.items() for each in row if not row[each].get("equal", True)]
        if wrong:
            raise SystemExit(f"{system.name}: other bytes than the reference: {'; '.join(wrong)}")
        tables.append([*table(system, rows)])
        print("\n".join(tables[-1]), flush=True)
    tables.append([*import_table(imported)])
    print("\n".join(tables[-1]))
    if arguments.models == [*NAMES] and len(imported) == len(SYSTEMS):
        for lines in tables:
            PAGE.write_text(with_table(PAGE.read_text(), iter(lines)))


if __name__ == "__main__":
    main()
