"""Dask: workers on this machine, or those of a scheduler; boards as resources; nothing left behind by a killed worker.

Each worker process is the leader of a process group, and a watcher outside the group ends what is left of it once the
worker is gone, however it went: compilers, PlatformIO, emulators.
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import distributed
import pydantic
from distributed.diagnostics.plugin import WorkerPlugin

from shoehorn_mcu.base.errors import printable
from shoehorn_mcu.sweeps.fault import SweepError
from shoehorn_mcu.sweeps.identity import Tools
from shoehorn_mcu.sweeps.stages import Attached, Bench, Task, perform
from shoehorn_mcu_host.base import system
from shoehorn_mcu_host.base.files import read_text

BOARDS_FILE = "SHOEHORN_WORKER"
"""Names the environment variable with a worker's own TOML file, which has a table for each of its real boards."""
_FILE_BYTES = 1 << 16
_SECONDS = 30  # for a scheduler to answer


def resource_of(board: str) -> str:
    """The resource that a worker with this real board announces: `--resources board:nucleo-f401re=1`."""
    return f"board:{board}"


def workers(client: Any) -> list[Mapping[str, Any]]:
    """What the scheduler says of each of its workers."""
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def announced(client: Any) -> set[str]:
    """The real boards that workers announce as resources."""
    names = (name for worker in workers(client) for name in worker.get("resources", {}))
    prefix = resource_of("")
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


class _Attached(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    port: str
    probe: str | None = None
    mount: str | None = None


@cache
def boards_here() -> Bench:
    """The boards of this worker, from the file that its environment names; SweepError where it cannot be read."""
    name = os.environ.get(BOARDS_FILE)
    if not name:
        return {}
    try:
        given = tomllib.loads(read_text(Path(name), _FILE_BYTES))
        found = {board: _Attached.model_validate(values) for board, values in given.items()}
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        said = f"{'.'.join(str(each) for each in fault['loc'])}: {fault['msg']}"
        cure = 'a board has a table: [nucleo-f401re] port = "/dev/ttyACM0", and if need be probe or mount'
        raise SweepError(f"{BOARDS_FILE}={name}: {printable(said)}; {cure}") from error
    except (OSError, ValueError) as error:
        raise SweepError(f"{BOARDS_FILE}={name}: {printable(str(error))}") from error
    return {board: Attached(**vars(each)) for board, each in found.items()}


_lead_group = cache(system.lead_group)  # once for each process


class Guard(WorkerPlugin):  # type: ignore[misc]
    """Refuses a worker with other tools than the client's, and watches over the others."""

    name = "shoehorn"

    def __init__(self, tools: Tools, folder: str, mark: str) -> None:
        self._tools, self._folder, self._mark = tools, folder, mark

    def setup(self, worker: Any) -> None:
        """Raises SweepError, which ends the worker, where its tools or its view of the folder are others."""
        del worker
        if fault := fault_here(self._tools, self._folder, self._mark):
            raise SweepError(fault)
        _lead_group()


def fault_here(tools: Tools, folder: str, mark: str) -> str:
    """Why this process cannot work for a client with these tools; empty where it can."""
    here = Tools.here()
    if here != tools:
        return f"it has {here}, and this sweep {tools}; install the same version of both on every machine"
    try:
        seen = (Path(folder) / "mark").read_text()
    except OSError:
        seen = ""
    if seen != mark:
        return f"it does not see {folder}; the folder of a sweep is shared by all machines, under the same path"
    return ""


def on_worker(task: Task) -> list[str]:
    """What a worker runs for a task."""
    name = str(distributed.get_worker().name)
    return perform(task, boards_here(), name)


@dataclass(frozen=True)
class Security:
    """The files of TLS, as Dask takes them: PEM."""

    ca: str
    cert: str
    key: str


def _security(files: Security | None) -> Any:
    if files is None:
        return None
    for name in (files.ca, files.cert, files.key):
        if not Path(name).is_file():
            raise SweepError(f"--tls: {name}: no such file")
    return distributed.Security(
        tls_ca_file=files.ca, tls_client_cert=files.cert, tls_client_key=files.key, require_encryption=True
    )


@contextlib.contextmanager
def connected(scheduler: str, files: Security | None = None) -> Iterator[Any]:
    """A Dask client of this scheduler; SweepError where none answers."""
    _quiet()
    try:
        client = distributed.Client(scheduler, timeout=_SECONDS, security=_security(files), set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        cure = "start one by `dask scheduler`, or leave --scheduler out to use this machine"
        raise SweepError(f"--scheduler {printable(scheduler)}: no scheduler answers there; {cure}") from error
    with client:
        yield client


@contextlib.contextmanager
def local(count: int, scratch: Path) -> Iterator[Any]:
    """A Dask client of so many worker processes on this machine; SweepError where they cannot be started."""
    _quiet()
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        with system.deaf():
            cluster = distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # Dask opens a port for it in any case; here one that is free
                local_directory=str(scratch),
                memory_limit=0,
                silence_logs=50,
            )
            client = distributed.Client(cluster, set_as_default=False)
    except (OSError, RuntimeError) as error:
        raise SweepError(f"workers cannot be started here: {printable(str(error) or type(error).__name__)}") from error
    try:
        yield client
    finally:
        for each in (client, cluster):
            with contextlib.suppress(TimeoutError):  # a worker that does not end in time is ended by the system
                each.close()


def _quiet() -> None:
    """Dask's own words go to nobody; what concerns the user is in rows and errors. A worker may die often.

    Workers of this machine sleep when it does, and are not given up for that.
    """
    import dask

    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": 3,
            "distributed.scheduler.worker-ttl": None,
            "distributed.logging.distributed": "critical",
            "distributed.comm.timeouts.connect": "300s",  # of busy machines
            "distributed.comm.timeouts.tcp": "300s",
        }
    )


def guarded(client: Any, folder: Path, mark: str) -> None:
    """Looks at all workers that are there, and has those that come looked at; SweepError names the first unfit one."""
    tools = Tools.here()
    try:
        said: Mapping[str, str] = client.run(fault_here, tools, str(folder), mark, on_error="return")
    except Exception as error:
        raise SweepError(f"the workers do not answer: {printable(str(error))}") from error
    for worker, fault in said.items():
        if fault:
            raise SweepError(f"worker {worker}: {printable(str(fault))}")
    client.register_plugin(Guard(tools, str(folder), mark))
