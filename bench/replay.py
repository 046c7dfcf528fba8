"""Process replay: writes the firmware folders of many models, and compares them with those that another tree wrote.

    python -m bench.replay --out build/replay/before.json [--quick] [--models NAME ...] [--boards ID ...]
    python -m bench.replay --out build/replay/after.json --against build/replay/before.json [--ignore GLOB ...]

Each model of ../shared/models is written for each of BOARDS with each of OPTIONS, by the command `gen firmware` of this
tree, as a user would. Where a model does not fit, or is refused, the error is what is compared. --out keeps the digest
of each file and is continued after an interrupted run; with --against, files that differ, are missing or are new are
counted by their folder, and the exit code is 1 where there are any that no --ignore names. A change that should move
no byte is made in between. --quick takes one model in QUICK_SHARE, each with one board and one option, all in turn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from tests.shared import GEN, MODELS

BOARDS = ("microbit", "mps2-an386", "rpi-zero-2w", "mps3-an547")
"""Portable C, Armv6 SIMD, NEON and Helium."""
OPTIONS = {
    "time": (),
    "smallest": ("--minimize", "sram", "--recompute", "10"),
    "streamed": ("--minimize", "sram", "--stream-input"),
}
QUICK_SHARE = 2
JOBS = 2
SUFFIXES = (".tflite", ".onnx")
UNSTABLE = (".shoehorn.json",)  # sums of the other files

Files = Mapping[str, str]
"""By path: the file's digest; of a model that is refused by `error`: the line that says why."""


def cases(models: Collection[str], boards: Sequence[str], quick: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """The folders to write: a name for each, and the arguments of `gen firmware`."""
    files = sorted(path for path in MODELS.rglob("*") if path.suffix in SUFFIXES)
    for number, model in enumerate(path for path in files if not models or path.stem in models):
        every = [(board, name) for board in boards for name in OPTIONS]
        if quick:
            every = [every[number // QUICK_SHARE % len(every)]] if number % QUICK_SHARE == 0 else []
        for board, name in every:
            key = f"{model.relative_to(MODELS)} {board} {name}"
            yield key, (str(model), "--board", board, *OPTIONS[name])


def written(words: Sequence[str]) -> Files:
    """The digests of the folder that the command writes."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "folder"
        done = subprocess.run([*GEN, "firmware", *words, "--out", str(folder)], capture_output=True, text=True)
        if done.returncode == 2:
            sys.exit(f"replay: {done.stderr.strip()}")  # wrong usage: of this tool, not of the model
        if done.returncode:
            return {"error": done.stderr.strip().replace(place, "")}
        files = [path for path in folder.rglob("*") if path.is_file() and path.name not in UNSTABLE]
        return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in sorted(files)}


def different(before: Files, after: Files, ignored: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Paths that are not the same in both, each with what happened to it."""
    for path in sorted({*before, *after}):
        if not any(fnmatch(path, glob) for glob in ignored) and before.get(path) != after.get(path):
            yield path, "new" if path not in before else "gone" if path not in after else "differs"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--ignore", nargs="*", default=[], metavar="GLOB")
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--boards", nargs="*", default=BOARDS)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Files] = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    wanted = dict(cases(asked.models, asked.boards, asked.quick))
    left = [key for key in wanted if key not in found]
    with ThreadPoolExecutor(JOBS) as pool:
        for key, files in zip(left, pool.map(lambda key: written(wanted[key]), left), strict=True):
            found[key] = files
            asked.out.write_text(json.dumps(found))
            print(
                f"{key}: {len(files)} files" if "error" not in files else f"{key}: {files['error'][:150]}", flush=True
            )
    if asked.against is not None:
        sys.exit(compared(json.loads(asked.against.read_text()), {key: found[key] for key in wanted}, asked.ignore))


def compared(before: Mapping[str, Files], after: Mapping[str, Files], ignored: Sequence[str]) -> int:
    """Prints how the folders differ; 1 where they do."""
    kinds: Counter[str] = Counter()
    both = [key for key in after if key in before]
    changed = {key: list(different(before[key], after[key], ignored)) for key in both}
    for key, files in changed.items():
        for path, what in files:
            kinds[f"{what} in {Path(path).parent}"] += 1
            if what == "differs" or path == "error":
                print(f"{key}: {path} {what}")
    for kind, count in kinds.most_common():
        print(f"{count} {kind}")
    equal = sum(not files for files in changed.values())
    refused = sum("error" in after[key] for key in both)
    print(f"{equal} of {len(both)} folders are equal, {refused} of them refusals; {len(after) - len(both)} not known")
    return int(equal < len(both) or not both)


if __name__ == "__main__":
    main()
