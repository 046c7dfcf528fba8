"""Random networks with random options through `gen validate` itself, on the board `native`.

    python -m bench.validate_sweep [--count 2000] [--first 0] [--jobs 2] [--out DIR] [--kinds KIND ...]

A third of the networks is planned with streamed input, a third with random recomputed rows, and a third with blocks
in bands. Each is written by the code of `gen firmware`, compiled by the host's compiler without optimisation
(PlatformIO would need ten times as long), and given to the command `gen validate DIR --emulate`, which boots it and
compares every byte of every op with the reference runtime. Only two things are replaced: the importer returns the
random graph, and the planner's effort is reduced, because the sweep tests correctness, not the size of plans. For the
plans that recompute, random rows are repeated at random times (the planner itself rarely needs to recompute in
networks this small); the independent checker accepts them first. A network that a kind does not fit (no block to run
in bands, several inputs) is replaced by the next seed. Appends a line of JSON per network to DIR/sweep.jsonl and
continues after the last line; mismatching folders are kept in DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from bottlenecks import bottlenecks
from random_graphs import random_graph
from random_plans import few_tries, with_rows_again

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.cli.group import main as gen
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine import targets
from shoehorn_mcu.planner import Goal, check
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.stage import Stage
from shoehorn_mcu_host.folder.project import Project

KINDS = ("streamed", "recompute", "banded")
COMPILER = ("gcc", "-O0", "-w", "-std=c11", "-ffp-contract=off", "-DSH_TRACE")


@dataclass(frozen=True)
class Case:
    """One network: its plan and the result of `gen validate`."""

    seed: int
    kind: str
    options: str
    steps: int
    exit_code: int
    vectors: int
    mismatched: int
    message: str = ""


def options_of(kind: str, graph: Graph, rng: np.random.Generator, board: targets.Board) -> Options:
    """Random options that lead to a plan of this kind; DoesNotFit where the network has none."""
    percent = float(np.round(rng.uniform(5, 50), 1))
    if kind == "streamed":
        goal = Goal.SRAM if rng.random() < 0.5 else Goal.TIME
        return Options(goal=goal, stream_input=True, recompute_percent=percent if rng.random() < 0.3 else None)
    if kind == "recompute":
        return Options(stream_input=len(graph.inputs) == 1 and rng.random() < 0.3)
    smallest = Options(goal=Goal.SRAM, recompute_percent=percent)
    if rng.random() < 0.7:
        return smallest
    least = _plan(graph, smallest, board).unit.plan
    most = max(least.arena_bytes, least.outcome.whole_tensor_bytes)
    return Options(sram_bytes=int(least.arena_bytes + rng.uniform(0, 0.3) * (most - least.arena_bytes)))


def _model_file(graph: Graph, seed: int) -> Path:
    """A file to hash in place of the model's; the importer that would read it is replaced."""
    path = Path(tempfile.gettempdir()) / f"{graph.name}-{os.getpid()}.tflite"
    path.write_text(f"{graph.name} {seed}")
    return path


def _plan(graph: Graph, options: Options, board: targets.Board) -> build.Planned:
    with patch.object(build.importers, "load", lambda *_: graph):
        return build.plan_model(_model_file(graph, 0), board, options)


def _repeating(rng: np.random.Generator) -> Callable[..., Scheduled]:
    """Replaces the planner: recomputes random rows at random times."""

    def schedule(graph: Graph, chosen: Sequence[Stage], request: PlanRequest, *_: object) -> Scheduled:
        problem = lower(graph, chosen, None, request.stream_input)
        plan = with_rows_again(problem, rng)
        assert check(problem, plan) == []
        return Scheduled(graph, tuple(chosen), plan, problem)

    return schedule


def _fits(kind: str, planned: build.Planned) -> bool:
    """Whether the plan is of the requested kind."""
    plan = planned.unit.plan
    if kind == "banded":
        return bool(plan.cascades)
    rows = Counter((s.op, y) for s in plan.steps if not s.delivers for y in range(*s.rows))
    return plan.streamed if kind == "streamed" else any(count > 1 for count in rows.values())


def compile_folder(project: Project) -> None:
    """Builds the image of `pio run` by one call of the host's compiler."""
    project.build_folder.mkdir(parents=True)
    sources = [p for top in ("src", "lib") for p in sorted((project.folder / top).rglob("*.c"))]
    folders = [project.folder / "src", *(p for lib in (project.folder / "lib").iterdir() for p in (lib, lib / "src"))]
    command = [*COMPILER, *(f"-I{f}" for f in folders if f.is_dir()), *sources, "-lm", "-o", project.elf]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def run_case(seed: int, kind: str, out: Path) -> Case | None:
    """One network through the command; None where no plan of this kind exists."""
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    graph = bottlenecks(seed) if kind == "banded" else random_graph(seed)
    board = targets.board("native")
    if kind == "streamed" and len(graph.inputs) != 1:
        return None
    planner = patch.object(build, "schedule", _repeating(rng)) if kind == "recompute" else nullcontext()
    try:
        options = options_of(kind, graph, rng, board)
        with planner, patch.object(build.importers, "load", lambda *_: graph):
            planned, bundle = build.firmware(_model_file(graph, seed), board, options)
    except ShoehornError:  # no plan within these bytes
        return None
    if not _fits(kind, planned):
        return None
    folder = out / f"{kind}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    write(bundle, folder)
    compile_folder(Project.open(folder))
    words = ["validate", str(folder), "--emulate", "--count", "2", "--seed", str(seed), "--json"]
    result = CliRunner().invoke(gen, words)
    steps, asked = len(planned.unit.plan.steps), repr(options)
    case = _verdict(seed, kind, asked, steps, result)
    if case.exit_code == 0:
        shutil.rmtree(folder)
    return case


def _verdict(seed: int, kind: str, asked: str, steps: int, result: object) -> Case:
    code = getattr(result, "exit_code", 1)
    text = str(getattr(result, "stdout", ""))
    try:
        said = json.loads(text)
        return Case(
            seed, kind, asked, steps, code, said["vectors"], said["mismatched_vectors"], said["first_bad_op"] or ""
        )
    except (ValueError, KeyError):
        return Case(seed, kind, asked, steps, code or 1, 0, 0, f"{text} {getattr(result, 'exception', '')}"[:500])


def _cut_effort() -> None:
    """Reduces the search effort in each worker process, until it ends."""
    few_tries(pytest.MonkeyPatch())


def _worker(job: tuple[int, str, str]) -> Case | None:
    seed, kind, out = job
    try:
        return run_case(seed, kind, Path(out))
    except Exception as error:
        return Case(seed, kind, "", 0, 1, 0, 0, f"{type(error).__name__}: {error}"[:500])


def _done(path: Path) -> list[Case]:
    return [Case(**json.loads(line)) for line in path.read_text().splitlines()] if path.is_file() else []


def sweep(count: int, first: int, jobs: int, out: Path, kinds: Sequence[str]) -> list[Case]:
    """`count` networks, the same number of each kind."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "sweep.jsonl"
    cases = _done(path)
    with path.open("a") as log, ProcessPoolExecutor(jobs, initializer=_cut_effort) as pool:
        for place, kind in enumerate(kinds):
            wanted = count * (place + 1) // len(kinds) - count * place // len(kinds)
            had = [case for case in cases if case.kind == kind]
            seed, left = max((case.seed + 1 for case in had), default=first), wanted - len(had)
            while left > 0:
                jobs_now = [(s, kind, str(out)) for s in range(seed, seed + max(jobs, min(left, 64)))]
                seed += len(jobs_now)
                for case in filter(None, pool.map(_worker, jobs_now)):
                    cases.append(case)
                    left -= 1
                    print(json.dumps(asdict(case)), file=log, flush=True)
                    if case.exit_code:
                        print(case, file=sys.stderr, flush=True)
    return cases


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("build/validate_sweep"))
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    cases = sweep(asked.count, asked.first, asked.jobs, asked.out, asked.kinds)
    for kind in asked.kinds:
        mine = [case for case in cases if case.kind == kind]
        bad = sum(case.exit_code != 0 for case in mine)
        vectors, steps = sum(case.vectors for case in mine), sum(case.steps for case in mine)
        print(f"{kind}: {len(mine)} networks, {steps} steps, {vectors} vectors, {bad} refused or mismatched")
    sys.exit(any(case.exit_code for case in cases))


if __name__ == "__main__":
    main()
