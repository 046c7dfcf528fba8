"""How `gen sweep` does at size: 1,000 combinations, the same while processes are killed, and 20,000 of simulated work.

    python -m bench.sweeps real [--out DIR]        8 models x 6 boards x 7 budgets x 3 goals, two workers
    python -m bench.sweeps killed [--out DIR]      the same, a worker killed every minute and the client twice
    python -m bench.sweeps simulated [--count N]   rows without work: what scheduler, rows and page take
    python -m bench.sweeps tls                     workers in two network namespaces, one without the certificate (root)

`real` and `killed` may be broken off and go on with the same DIR; CPU time is added up in DIR/../<name>.json.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from shoehorn_mcu.sweeps import run, stages
from shoehorn_mcu.sweeps.axes import Stage, Sweep, checked
from shoehorn_mcu.sweeps.page import page
from shoehorn_mcu.sweeps.rows import SCHEMA, Rows, asked
from shoehorn_mcu_host.base import system
from tests.shared import MODELS

MODEL_NAMES = (
    *("mlperf-kws-dscnn-int8", "mlperf-ad-int8", "mlperf-ic-resnet8-int8", "mlperf-vww96-int8"),
    *("tflm-hello-world-int8", "tflm-micro-speech", "tinymaix-mnist-valid-q", "mltk-rock-paper-scissors"),
)
BOARDS = ("microbit", "stm32vldiscovery", "netduinoplus2", "mps2-an386", "rpi-zero", "hifive1")
BUDGETS = ("4k", "8k", "16k", "32k", "64k", "128k", "fit")
WORKERS = 2


def axes() -> Sweep:
    """1,008 combinations."""
    models = [str(MODELS / f"{name}.tflite") for name in MODEL_NAMES]
    return checked(models, BOARDS, {"sram": BUDGETS, "minimize": ("time", "sram", "flash")})


class Memory(threading.Thread):
    """The largest resident memory of this process, which has the scheduler, and of any worker, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.scheduler = self.worker = 0

    def run(self) -> None:
        own = psutil.Process()
        while True:
            self.scheduler = max(self.scheduler, own.memory_info().rss)
            for child in own.children():
                try:
                    if "spawn_main" in " ".join(child.cmdline()):
                        self.worker = max(self.worker, child.memory_info().rss)
                except psutil.Error:
                    continue
            time.sleep(1)


def real(folder: Path) -> None:
    """One run over all combinations, or over what is left of them."""
    memory = Memory()
    memory.start()
    began, before = time.monotonic(), system.cpu_seconds()
    for number, _ in enumerate(run.sweep(axes(), folder, run.Where(workers=WORKERS)), 1):
        if number % 20 == 0:
            print(f"{number} rows, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    taken = {"wall": time.monotonic() - began, "cpu": system.cpu_seconds() - before}
    taken |= {"scheduler_bytes": memory.scheduler, "worker_bytes": memory.worker}
    log = folder.with_suffix(".json")
    runs = [*(json.loads(log.read_text()) if log.is_file() else []), taken]
    log.write_text(json.dumps(runs, indent=1))
    tell(folder, runs)


def tell(folder: Path, runs: list[dict[str, float]]) -> None:
    """The figures of a folder."""
    rows, damaged = Rows(folder).all()
    planned = [row for row in rows if not row["plan_shared"]]
    built = [row for row in rows if row["build_seconds"]]
    goes_on = [row for row in rows if row["status"] != "refused"]
    work = sorted(row["cpu_seconds"] for row in built)
    print(f"{len(rows)} rows, {len(damaged)} damaged: {dict(Counter(row['status'] for row in rows))}")
    print(f"plans made for {len(planned)} rows, shared by {len(rows) - len(planned)}")
    print(f"firmware built for {len(built)} of the {len(goes_on)} rows that fit, shared by {len(goes_on) - len(built)}")
    if work:
        print(f"CPU seconds of a row that was built: median {statistics.median(work):.1f}, most {work[-1]:.1f}")
    wall, cpu = (sum(each[key] for each in runs) for key in ("wall", "cpu"))
    print(f"{len(runs)} runs: wall {wall:,.0f} s, CPU {cpu:,.0f} s, {cpu / max(1, len(rows)):.2f} CPU s per row")
    most = (max(each[key] for each in runs) / 1e6 for key in ("scheduler_bytes", "worker_bytes"))
    print("memory at most: client and scheduler {:.0f} MB, a worker {:.0f} MB".format(*most))


def killed(folder: Path) -> None:
    """The same while a worker is killed every minute, and the client after two and after five minutes."""
    command = [sys.executable, "-m", "bench.sweeps", "real", "--out", str(folder)]
    kills: Counter[str] = Counter()
    for client_lives in (120, 300, None):
        began = minute = time.monotonic()
        with subprocess.Popen(command, start_new_session=True) as client:
            while client.poll() is None:
                time.sleep(1)
                if time.monotonic() - minute >= 60:
                    minute = time.monotonic()
                    kills["worker"] += _kill_a_worker(client.pid)
                if client_lives is not None and time.monotonic() - began > client_lives:
                    client.kill()
                    kills["client"] += 1
    print(f"killed: {dict(kills)}")


def _kill_a_worker(client: int) -> int:
    for child in psutil.Process(client).children():
        try:
            if "spawn_main" in " ".join(child.cmdline()):
                child.send_signal(signal.SIGKILL)
                return 1
        except psutil.Error:
            continue
    return 0


_LEFT_OUT = {"finished", "worker", "time", "cycles"}  # times of QEMU vary a little


def compare(one: Path, other: Path) -> None:
    """Whether two folders have the same rows, but for how long and where they were computed."""
    told = [
        {row["model"] + row["board"] + row["options"]: row for row in Rows(folder).all()[0]} for folder in (one, other)
    ]
    first, second = told
    skipped = {name for name in SCHEMA.names if name.endswith(("_seconds", "_shared"))} | _LEFT_OUT
    unlike = [
        (key, name)
        for key in first.keys() | second.keys()
        for name in SCHEMA.names
        if name not in skipped and first.get(key, {}).get(name) != second.get(key, {}).get(name)
    ]
    print(f"{len(first)} and {len(second)} rows, {len(unlike)} differences {unlike[:5]}")


def simulated_task(task: stages.Task) -> None:
    """Writes a made-up row."""
    for combination in task.combinations:
        size = int(combination.options["sram"])
        row = {**asked(combination), "status": "planned", "until": "plan", "arena_bytes": size}
        Rows(Path(task.folder)).write(combination, {**row, "predicted_cycles": 10**9 // size, "inputs": "made up"})


def simulated(count: int) -> None:
    """What each part takes for rows without work."""
    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder) / f"model{number}.tflite") for number in range(20)]
        for name in names:
            Path(name).write_bytes(name.encode())
        budgets = tuple(str(1024 + 4 * number) for number in range(count // (20 * len(BOARDS))))
        sweep = checked(names, BOARDS, {"sram": budgets}, Stage.PLAN.word)
        out = Path(folder) / "out"
        began = time.monotonic()
        work = run.work(sweep, out)
        first = time.monotonic() - began
        memory = Memory()
        memory.start()
        began, before = time.monotonic(), time.process_time()
        rows = list(run.sweep(sweep, out, run.Where(workers=WORKERS), perform=simulated_task))
        taken, own = time.monotonic() - began, time.process_time() - before
        size = sum(path.stat().st_size for path in (out / "rows").iterdir())
        began = time.process_time()
        text = page(rows, "simulated")
        drawn = time.process_time() - began
        print(f"{len(rows)} rows of {len(work.tasks)} tasks; to find which are open: {first:.1f} s")
        wall, client = 1000 * taken / len(work.tasks), 1000 * own / len(work.tasks)
        print(f"{wall:.2f} ms wall a task, {client:.2f} ms CPU of the client")
        print(f"rows {size / 1e6:.1f} MB, {size / len(rows):,.0f} bytes each")
        print(f"page {len(text) / 1e6:.1f} MB, {drawn:.1f} CPU s")
        print(f"memory: client and scheduler {memory.scheduler / 1e6:.0f} MB, a worker {memory.worker / 1e6:.0f} MB")


def tls() -> None:
    """A scheduler here, workers in two network namespaces, over TLS; one without the certificate gets nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _certificates(place)
        with _Namespaces() as address:
            _tls_in(place, address)


def _certificates(place: Path) -> None:
    """An authority and a certificate of it, and a certificate of its own, in PEM files."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    for name in ("ca", "stranger"):
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
        subprocess.run([*made, *files], cwd=place, check=True, capture_output=True)
    request = [
        "openssl",
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "me.key",
        "-out",
        "me.csr",
        "-subj",
        "/CN=me",
    ]
    subprocess.run(request, cwd=place, check=True, capture_output=True)
    sign = [
        "openssl",
        "x509",
        "-req",
        "-in",
        "me.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
    ]
    subprocess.run([*sign, "-out", "me.pem"], cwd=place, check=True, capture_output=True)


class _Namespaces:
    """Two network namespaces with a cable to this one each; gives this machine's address for both."""

    def __enter__(self) -> str:
        ip("link", "add", "shoe", "type", "bridge")
        ip("addr", "add", "10.77.0.1/24", "dev", "shoe")
        ip("link", "set", "shoe", "up")
        for number in (1, 2):
            ip("netns", "add", f"shoe{number}")
            ip("link", "add", f"shoe-{number}", "type", "veth", "peer", "name", "eth0", "netns", f"shoe{number}")
            ip("link", "set", f"shoe-{number}", "master", "shoe", "up")
            for words in (f"addr add 10.77.0.{number + 1}/24 dev eth0", "link set eth0 up", "link set lo up"):
                ip("-n", f"shoe{number}", *words.split())
        return "10.77.0.1"

    def __exit__(self, *_: object) -> None:
        for words in ("netns del shoe1", "netns del shoe2", "link del shoe"):
            subprocess.run(["ip", *words.split()], capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _tls_in(place: Path, address: str) -> None:
    def files(name: str) -> list[str]:
        return [
            "--tls-ca-file",
            f"{place}/ca.pem",
            "--tls-cert",
            f"{place}/{name}.pem",
            "--tls-key",
            f"{place}/{name}.key",
        ]

    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    worker = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        f"tls://{address}:8786",
        "--nthreads",
        "1",
        "--no-dashboard",
    ]
    started = []
    try:
        started.append(
            subprocess.Popen(
                [*dask, "--protocol", "tls", "--host", address, "--no-dashboard", *files("me")],
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        time.sleep(5)
        for number, name in ((1, "me"), (2, "me"), (2, "stranger")):
            inside = ["ip", "netns", "exec", f"shoe{number}", *worker, "--name", f"{name}{number}", *files(name)]
            started.append(subprocess.Popen(inside, stderr=subprocess.DEVNULL))
        time.sleep(15)
        words = [
            "sweep",
            str(MODELS / f"{MODEL_NAMES[0]}.tflite"),
            "--boards",
            "microbit,mps2-an386",
            "--sram",
            "8k,12k,16k",
        ]
        words += ["--out", str(place / "out"), "--scheduler", f"tls://{address}:8786", "--until", "validate"]
        words += ["--tls", f"{place}/ca.pem,{place}/me.pem,{place}/me.key", "--json"]
        done = subprocess.run([sys.executable, "-m", "shoehorn_mcu", *words], capture_output=True, text=True)
        rows = json.loads(done.stdout)["rows"]
        told = [dict(Counter(row[key] for row in rows)) for key in ("status", "worker")]
        print(f"{len(rows)} rows: {told[0]}, by {told[1]}")
        other = [*words[:-1]]
        other[other.index("--out") + 1] = str(place / "other")
        other[other.index("--tls") + 1] = f"{place}/ca.pem,{place}/stranger.pem,{place}/stranger.key"
        refused = subprocess.run([sys.executable, "-m", "shoehorn_mcu", *other], capture_output=True, text=True)
        print(f"a client without the certificate: exit {refused.returncode}, {refused.stderr.strip()}")
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("real", "killed", "compare", "simulated", "tls"))
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--count", type=int, default=20_000)
    asked_ = parser.parse_args()
    place = Path("build/sweeps")
    place.mkdir(parents=True, exist_ok=True)
    if asked_.what == "real":
        real((asked_.out or place / "real").resolve())
    elif asked_.what == "killed":
        killed((asked_.out or place / "killed").resolve())
        compare((place / "real").resolve(), (asked_.out or place / "killed").resolve())
    elif asked_.what == "compare":
        compare((place / "real").resolve(), (asked_.out or place / "killed").resolve())
    elif asked_.what == "simulated":
        simulated(asked_.count)
    else:
        tls()


if __name__ == "__main__":
    main()
