"""The folder of a submission: the text of its files, and what of a built project goes into it.

The layout is that of published submissions (mlcommons/tiny_results_v1.3) and of `submission_checker.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shoehorn_mcu_host.base.errors import InputError, one_line
from shoehorn_mcu_host.base.tasks import Metric, Task
from shoehorn_mcu_host.firmware.build import BuildResult

DIVISION = "closed"
TREE = "submission"
"""What is submitted, below the folder that is written."""
NOT_RESULTS = "not-results"
"""Runs that no submission may hold: an emulator's, and of the wake word those without the public interface board."""
PROJECTS = "projects"
_TODO = "TODO"
_ORG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ROUND = "v1.4"
RESULTS_README = "Runs of `gen mlperf --port` on the board write here; nothing of an emulator does.\n"
"""`results/<board>/README.md`, so that the folder is not empty before the first run."""


def checked_org(name: str) -> str:
    """The submitter's name, which becomes a folder; raises InputError."""
    if not _ORG.fullmatch(name) or ".." in name:
        raise InputError(f"--org {one_line(name)}: becomes a folder; write letters, digits, '_', '-' and '.'")
    return name


def home(out: Path, org: str) -> Path:
    """The submitter's folder."""
    return out / TREE / DIVISION / org


def run_folder(out: Path, org: str, board: str, task: Task, mode: str, emulated: bool) -> Path:
    """Where a run writes: into the submission only what may count."""
    if emulated or task.metric is Metric.DETECTIONS:
        return out / NOT_RESULTS / ("emulated" if emulated else "by-uart") / board / task.short / mode
    return home(out, org) / "results" / board / task.short / mode


def _size(count: int) -> str:
    return f"{count >> 20} MB" if count % (1 << 20) == 0 and count else f"{count >> 10} KB"


def _installed(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


def system_json(org: str, board_id: str, manifest: Mapping[str, Any]) -> str:
    """`systems/<board>.json`, from the board's manifest; `TODO` where only the submitter knows."""
    spec = manifest["shoehorn"]
    hz = spec.get("core_hz")
    ram, flash = _size(spec["sram_bytes"]), _size(spec["flash_bytes"])
    made = _installed("shoehorn-mcu")
    fields = {
        "Submitter": org,
        "Division": DIVISION.capitalize(),
        "Status": _TODO,
        "Board Name": manifest["name"],
        "Board Memory capacity (not including SoC, processor, or accelerator)": "",
        "Board Memory type": "",
        "Board storage capacity": "",
        "Board storage type": "",
        "SoC Name": manifest.get("build", {}).get("mcu", _TODO),
        "SoC Memory capacity (not including processor or accelerator)": ram,
        "SoC Memory type": "RAM",
        "SoC storage capacity": flash,
        "SoC storage type": "Flash",
        "Processor(s) Name": spec["cpu"],
        "Processor(s) Frequencies": f"{hz / 1e6:g} MHz" if hz else _TODO,
        "Processor memory type and capacity": f"{ram} RAM",
        "Processor storage type and capacity": f"{flash} flash",
        "Accelerator": "",
        "Accelerator(s) Frequencies": "",
        "Accelerator memory type and capacity": "",
        "Accelerator storage type and capacity": "",
        "Hardware Notes": _TODO,
        "Inference Framework": made,
        "Software Libraries": made,
        "Operating System ": "bare metal",
        "Other Software Stack": "",
        "Software Notes": "",
        "Quantization Method": "the int8 reference model of mlcommons/tiny, unchanged",
        "Training framework (open division)": "",
        "ML Model Compiler(s)": made,
        "General Compiler(s)": f"clang of {_installed('ziglang')}",
        "Other Software": "",
        "Training and Quantization Notes": "",
        "Board id of Shoehorn": board_id,
    }
    return json.dumps(fields, indent=2) + "\n"


def benchmark_readme(task: Task, board_id: str, model: str, built: BuildResult) -> str:
    """`code/<benchmark>/README.md`: what was built of what, and the commands that measure it."""
    by_uart = (
        "\nThe public runner plays sound over I2S from its interface board and counts pulses of a pin. This firmware "
        "drives neither:\n`start%`, `stop%` and `extract_uart_stream%` hear samples from the serial port. A "
        "submission of this benchmark\nneeds a driver that calls `sh_sound_next`, `sh_sound_listen` and "
        "`sh_sound_heard` (src/sound.h) for each 512 samples.\n"
    )
    return (
        f"# {task.title} ({task.id}) on {board_id}\n\n"
        f"The firmware of {model}:\n{built.flash_bytes:,} bytes of flash and {built.ram_bytes:,} of RAM. Its sources "
        "are in `firmware/`, its image in `image/`.\n\n"
        "```sh\n"
        f"gen flash firmware --port PROBE\n"
        f"gen mlperf --board {board_id} --task {task.id} --port PORT --data DATA --models MODELS --out OUT\n"
        "```\n\n"
        "With the public runner of mlcommons/tiny, in benchmark/runner:\n\n"
        "```sh\n"
        "python main.py --dataset_path=DATA --mode=a\n"
        "python main.py --dataset_path=DATA --mode=p\n"
        "```\n\n"
        f"Its performance script asks for `infer {task.iterations} {task.warmups}`: raise the first number until a "
        "window takes 10 s.\n" + (by_uart if task.metric is Metric.DETECTIONS else "")
    )


def todo(org: str, board_id: str, missing: Sequence[str]) -> str:
    """`TODO.md`: all that is not known here."""
    place = f"{TREE}/{DIVISION}/{org}"
    lines = [
        f"# Before you submit ({_ROUND})",
        "",
        f"- `{place}/systems/{board_id}.json`: Status is one of available, preview and rdi.",
        f"- `{place}/systems/{board_id}.json`: Hardware Notes name supply voltage, jumpers and what feeds the board.",
        f"- `{place}`: the folder's name is your organisation's (`--org`).",
        f"- `{place}/results`: only runs on the board, over its port, write there. What an emulator measured is in",
        f"  `{NOT_RESULTS}/` and must stay out.",
        f"- `{place}/code/*/README.md`: PROBE, PORT, DATA, MODELS and OUT stand for your own.",
        "- Energy, if you submit it: `gen firmware --energy mlperf` and the public runner with its monitor.",
        "- Streaming wake word: its accuracy and duty cycle count only with the public interface board (I2S).",
        "- Larger image classification may be submitted only beside the smaller one.",
        *(f"- Not in the folder: {each}" for each in missing),
    ]
    return "\n".join(lines) + "\n"


def sources(files: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
    """The files of a project that are submitted: none that begins with a point."""
    return ((path, data) for path, data in sorted(files.items()) if not any(p[:1] == "." for p in path.split("/")))
