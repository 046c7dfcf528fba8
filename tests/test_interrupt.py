"""Ctrl-C while `gen plan` works: the best so far, checked, or a clear word; never a traceback or half a file."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import monotonic, sleep

import pytest
from shared import MODELS, needs_shared
from test_allocate import csv_of, full

from shoehorn_mcu.planner.interruptible import interruptible
from shoehorn_mcu.planner.placement.allocate import Problem, check, csv_file
from shoehorn_mcu.planner.remat.check import check as check_sequence
from shoehorn_mcu.planner.remat.graph import read
from shoehorn_mcu.planner.remat.memory import peak

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float:
    """What a process has used so far; a busy machine makes the clock on the wall mean little."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


_GEN = (sys.executable, "-c", "from shoehorn_mcu.__main__ import main; main()")


@cache
def start() -> float:
    """The CPU seconds that `gen` takes to start on this machine: one may be several times slower than another."""
    running = subprocess.Popen([*_GEN, "plan", "--help"], stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(running.pid, 0)
    running.returncode = 0  # it is waited for already
    return used.ru_utime + used.ru_stime


def interrupted(*words: str | Path, after: float) -> subprocess.CompletedProcess[str]:
    """`gen`, with a Ctrl-C after the work of so many of its starts; it must then end soon."""
    command, after = [*_GEN, *map(str, words)], after * start()
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = monotonic() + 120
    try:
        while running.poll() is None and cpu_seconds(running.pid) < after and monotonic() < deadline:
            sleep(0.02)
        assert running.poll() is None, "it had ended before the Ctrl-C"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert "Traceback" not in err
    return subprocess.CompletedProcess(command, running.returncode, out, err)


def graph_file(folder: Path) -> Path:
    """A graph of long skips that no search ends within seconds."""
    chance, count = random.Random(1), 200
    nodes = [{"id": v, "size": chance.randint(1, 100), "duration": chance.randint(1, 100)} for v in range(count)]
    inputs: list[Sequence[int]] = [(), *((v - 1, chance.randrange(v), chance.randrange(v)) for v in range(1, count))]
    links = [{"source": u, "target": v} for v in range(count) for u in sorted(set(inputs[v]))]
    path = folder / "graph.json"
    path.write_text(json.dumps({"directed": True, "nodes": nodes, "links": links}))
    return path


def said(program: str) -> tuple[int, str, str]:
    """What a Python program of its own returns and prints: a Ctrl-C would end a worker of pytest."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


_BESIDE = """
import signal, threading
from time import sleep
from shoehorn_mcu.planner.interruptible import interruptible

stop, ended = threading.Event(), threading.Event()

def work():
    sleep(0.5)  # till the main thread waits; it alone hears the signal
    signal.raise_signal(signal.SIGINT)
    stop.wait(20)
    sleep(0.3)
    ended.set()

try:
    interruptible(work, stop.set)
except KeyboardInterrupt:
    print("raised", ended.is_set())
"""


def test_ctrl_c_waits_for_the_work_beside_and_is_raised_again():
    assert said(_BESIDE) == (0, "raised True\n", "")


_AT_THE_START = """
import signal, threading

from shoehorn_mcu.planner.interruptible import interruptible

stop, start = threading.Event(), threading.Thread.start

def interrupted(thread):
    start(thread)
    signal.raise_signal(signal.SIGINT)

threading.Thread.start = interrupted
try:
    interruptible(stop.wait, stop.set)
except KeyboardInterrupt:
    print("raised", stop.is_set())
"""


def test_ctrl_c_while_the_thread_starts_stops_its_work_and_lets_the_process_end():
    assert said(_AT_THE_START) == (0, "raised True\n", "")


def test_work_beside_is_told_to_stop_when_its_time_is_over_and_still_answers():
    stop = threading.Event()

    assert interruptible(lambda: (stop.wait(20), "late")[1], stop.set, 0.05) == "late"
    assert stop.is_set()
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, stop.set)


def test_buffers_get_the_lowest_offsets_so_far(tmp_path: Path):
    path = csv_of(tmp_path, full(1, 8000, 100, 3))
    done = interrupted("pack", path, "--json", after=2.5)
    said = json.loads(done.stdout)

    assert (done.returncode, said["status"], done.stderr) == (0, "feasible", "")
    assert check(Problem(csv_file.read(path), said["height"]), said["offsets"]) == []


@pytest.mark.parametrize(
    "order", [pytest.param([], marks=pytest.mark.long, id="free"), pytest.param(["--fixed-order"], id="fixed")]
)
def test_a_graph_gets_the_shortest_sequence_so_far(order: list[str], tmp_path: Path):
    """Both searches have found one after the work of six starts; the time that they may take divides them in phases."""
    path = graph_file(tmp_path)
    graph = read(path)
    budget = int(0.8 * peak(graph, graph.order))
    done = interrupted("remat", path, "--budget", str(budget), "--seconds", "30", "--json", *order, after=6)
    said = json.loads(done.stdout)

    assert (done.returncode, said["status"], done.stderr) == (0, "feasible", "")
    assert check_sequence(graph, said["sequence"], budget, said["peak"], said["duration"]) == []


def test_a_graph_for_which_nothing_was_found_yet_says_so(tmp_path: Path):
    done = interrupted("remat", graph_file(tmp_path), "--budget", "700", "--seconds", "100", "--json", after=2)
    said = json.loads(done.stdout)

    assert (done.returncode, said["status"], said["sequence"]) == (1, "unknown", [])
    assert said["error"]["kind"] == "no-sequence"
    cure = "raise --budget, or let it search for longer (--seconds)"
    assert done.stderr == f"gen: {tmp_path / 'graph.json'}: no sequence found: interrupted; {cure}\n"


@needs_shared
@pytest.mark.parametrize("after", [0.2, 3, *(pytest.param(after, marks=pytest.mark.long) for after in (2, 5))])
def test_a_model_gets_a_checked_plan_or_one_word_and_never_half_a_page(after: float, tmp_path: Path):
    model, page = MODELS / "coral-mnv2-tf2-ptq.tflite", tmp_path / "plan.html"
    done = interrupted("plan", model, "--minimize", "sram", "--stream-input", "--html", page, "--json", after=after)

    if done.stdout:
        assert done.returncode in (0, -signal.SIGINT)  # the latter where all was done and Python itself was ending
        plan = json.loads(done.stdout)["plan"]
        assert plan["arena_bound_bytes"] <= plan["arena_bytes"] <= plan["whole_tensor_bytes"]
        assert page.read_text().rstrip().endswith("</html>")
    else:
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "gen: interrupted\n")
        assert not page.exists()


@needs_shared
def test_a_curve_ends_with_the_plans_made_so_far(tmp_path: Path):
    model, page = MODELS / "resnet20-cifar10-int8.tflite", tmp_path / "plan.html"
    done = interrupted("plan", model, "--pareto", "--html", page, "--json", after=8)
    curve = json.loads(done.stdout)["pareto"]

    assert (done.returncode, done.stderr) == (0, "note: interrupted; the curve has the plans made so far\n")
    assert all(point["arena_bytes"] > 0 for point in curve) and len(curve) < 7
    assert page.read_text().rstrip().endswith("</html>")
