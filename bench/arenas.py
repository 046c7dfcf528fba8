"""Smallest arenas of the `road` models on a Cortex-M4, with their bounds and the time of planning, beside earlier ones.

    python -m bench.arenas --out FILE [--gen COMMAND] [--models NAME ...]
    python -m bench.arenas --out FILE --before FILE

The first measures with the command `gen` of this tree, or with COMMAND, such as .venv/bin/gen of a tree at an earlier
commit, and writes FILE after each model; what it has is kept. The second prints the Markdown of both files. Nothing is
recomputed in these plans; seconds are of one processor, for the plan and all else that `gen plan` does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.all_models import run
from tests.shared import GEN, MODELS, ROAD

BOARD = "mps2-an386"
WAYS = {
    "time": (),
    "smallest": ("--minimize", "sram"),
    "streamed": ("--minimize", "sram", "--stream-input"),
}

Plans = Mapping[str, Mapping[str, Any]]
"""By way: arena and bound in bytes, whether it is proven, and CPU seconds; a refusal has its message."""


def measure(model: str, command: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Every way of planning one model."""
    found = {}
    for way, words in WAYS.items():
        said, seconds, _ = run(*command, "plan", str(MODELS / f"{model}.tflite"), "--board", BOARD, *words)
        if "error" in said:
            found[way] = {"refused": said["error"]["message"]}
            continue
        plan = said["plan"]
        found[way] = {
            "arena": plan["arena_bytes"],
            "bound": plan["arena_bound_bytes"],
            "proven": plan["proven_optimal"],
            "seconds": round(seconds, 1),
        }
    return found


def table(before: Mapping[str, Plans], after: Mapping[str, Plans]) -> Iterator[str]:
    """A row per model and way but the plan for time, whose seconds alone are compared."""
    heads = (f"{way}: before | after | bound | CPU s" for way in ("smallest", "streamed"))
    yield f"| model | {' | '.join(heads)} | for time: CPU s |"
    yield "|---" + "|---:" * 9 + "|"
    for model, plans in after.items():
        old, cells = before.get(model, {}), [model]
        for way in ("smallest", "streamed"):
            cells += [_arena(old.get(way, {})), _arena(plans[way]), _number(plans[way].get("bound"))]
            cells.append(_seconds(old, plans, way))
        yield f"| {' | '.join((*cells, _seconds(old, plans, 'time')))} |"


def _arena(plan: Mapping[str, Any]) -> str:
    return _number(plan.get("arena")) + (" proven" if plan.get("proven") else "")


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _seconds(before: Plans, after: Plans, way: str) -> str:
    """Before and after."""
    return " > ".join(str(plans.get(way, {}).get("seconds", "-")) for plans in (before, after))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--gen", default="")
    parser.add_argument("--models", nargs="*", default=[*ROAD])
    arguments = parser.parse_args()
    found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.before:
        print(*table(json.loads(arguments.before.read_text()), found), sep="\n")
        return
    for model in (name for name in arguments.models if name not in found):
        found[model] = measure(model, (arguments.gen,) if arguments.gen else GEN)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
        print(model, found[model], flush=True)


if __name__ == "__main__":
    main()
