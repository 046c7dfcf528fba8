"""`sweep`: from axes to rows. Which combinations are open, which of them are one task, and their way through Dask."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoehorn_mcu.base.errors import ShoehornError, printable
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.sweeps import cluster
from shoehorn_mcu.sweeps.axes import FINAL, Combination, Stage, Status, Sweep
from shoehorn_mcu.sweeps.fault import SweepError
from shoehorn_mcu.sweeps.identity import Identity, Tools, identity
from shoehorn_mcu.sweeps.rows import Row, Rows, asked
from shoehorn_mcu.sweeps.stages import Task
from shoehorn_mcu.sweeps.store import Store
from shoehorn_mcu_host.base import system

SWEEP_VERSION = 1  # of the folder
_VERSION_FILE = "sweep.json"


@dataclass
class Progress:
    """What a person wants to know while a sweep runs."""

    total: int  # combinations
    done: int = 0  # rows of this run and of earlier ones
    kept: int = 0  # of those, from earlier runs
    by_status: Counter[str] = field(default_factory=Counter)
    running: int = 0  # tasks
    damaged: int = 0  # rows that could not be read, and are made anew
    skipped: int = 0  # combinations of boards that do not answer; their rows stay open


Say = Callable[[Progress], None]


@dataclass(frozen=True)
class Work:
    """What is to be done: tasks, and the rows that are final already."""

    tasks: tuple[Task, ...]
    kept: tuple[Row, ...]
    damaged: int

    @property
    def total(self) -> int:
        """All combinations."""
        return len(self.kept) + sum(len(task.combinations) for task in self.tasks)


def work(axes: Sweep, folder: Path, real: Collection[str] = ()) -> Work:
    """The combinations without a final row of today's model, board, options and tools, by what asks the same.

    Of the boards `real`, which workers have, a row that an emulator proved is not final.
    """
    rows = Rows(folder)
    boards: dict[str, Board] = {board: targets.board(board) for board in axes.boards}
    groups: dict[str, list[Combination]] = {}
    kept: list[Row] = []
    damaged = 0
    for combination in axes.combinations():
        found = _identity(combination, boards[combination.board], axes)
        try:
            row = rows.read(combination)
        except ValueError:
            row, damaged = None, damaged + 1
        emulated = row is not None and row["emulator"] is not None and boards[combination.board].id in real
        final = row is not None and row["status"] in FINAL and not emulated
        if row is not None and found is not None and row["inputs"] == found.inputs and final:
            kept.append(row)
        else:
            alone = f"alone {len(groups)}"  # what cannot be identified becomes a row that says why
            groups.setdefault(found.plan if found else alone, []).append(combination)
    tasks = tuple(Task(str(folder), tuple(group), axes.until, axes.vectors, axes.runs) for group in groups.values())
    return Work(tasks, tuple(kept), damaged)


def _identity(combination: Combination, board: Board, axes: Sweep) -> Identity | None:
    try:
        return identity(combination, board, axes.until.word, axes.vectors, axes.runs)
    except (OSError, ShoehornError):
        return None


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[str]:
    """The folder of a sweep, held alone by this client; gives a mark by which workers recognise it.

    Raises SweepError where another sweep runs there, where another version made it, and where it cannot be written.
    """
    with contextlib.ExitStack() as held:
        with _written(folder):
            folder.mkdir(parents=True, exist_ok=True)
            present = [path.name for path in folder.iterdir()]
            if present and _VERSION_FILE not in present:
                raise SweepError(f"{folder}: is not empty and is no sweep's folder; name another --out")
            _check_version(folder)
            if not held.enter_context(system.locked_now(folder / "lock")):
                raise SweepError(f"{folder}: another sweep runs there; wait for it, or name another --out")
            mark = secrets.token_hex(16)
            (folder / _VERSION_FILE).write_text(f'{{"sweep": {SWEEP_VERSION}}}\n')
            (folder / "mark").write_text(mark)
            Store(folder).tidy()
            Rows(folder).forget_parts()
        yield mark


@contextlib.contextmanager
def _written(folder: Path) -> Iterator[None]:
    """SweepError where the folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise SweepError(f"{folder}: cannot be written: {error.strerror or error}; nothing is lost") from error


def _check_version(folder: Path) -> None:
    path = folder / _VERSION_FILE
    if path.is_file() and path.read_text() != f'{{"sweep": {SWEEP_VERSION}}}\n':
        raise SweepError(f"{folder}: another version of Shoehorn made this sweep's folder; name another --out")


@dataclass(frozen=True)
class Where:
    """Who does the work: a Dask client, the workers of a scheduler's address, or so many processes here."""

    client: Any = None
    scheduler: str | None = None
    security: cluster.Security | None = None  # of the scheduler
    workers: int | None = None  # None: one for each core

    def given(self) -> AbstractContextManager[Any]:
        """The Dask client of workers that are there already, perhaps with real boards; None where none are."""
        if self.client is not None or self.scheduler is None:
            return contextlib.nullcontext(self.client)
        return cluster.connected(self.scheduler, self.security)

    def begun(self, tasks: int, scratch: Path) -> AbstractContextManager[Any]:
        """The Dask client of worker processes here, which end behind the block: as many as have a task."""
        return cluster.local(max(1, min(self.workers or os.cpu_count() or 1, tasks)), scratch)


def sweep(
    axes: Sweep,
    folder: Path,
    where: Where = Where(),
    *,
    say: Say = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
    perform: Callable[[Task], object] = cluster.on_worker,
) -> Iterator[Row]:
    """Computes the rows that `folder` lacks and yields every row of the sweep: those that are there, then each new one.

    Each task writes its rows itself, so a sweep that ends early, however it ends, goes on with the next call. When
    `stopping` says so, running tasks end and no others begin. `perform` is what a worker does for a task; it writes the
    rows. Raises SweepError where the folder or the scheduler cannot be used; what is wrong with a combination is in its
    row.
    """
    with opened(folder) as mark, where.given() as client, contextlib.ExitStack() as held:
        todo = work(axes, folder, cluster.announced(client) if client is not None else ())
        rows = Rows(folder)
        progress = Progress(todo.total, len(todo.kept), len(todo.kept), damaged=todo.damaged)
        for row in todo.kept:
            progress.by_status[row["status"]] += 1
            yield row
        say(progress)
        if not todo.tasks:
            return
        if client is None:
            client = held.enter_context(where.begun(len(todo.tasks), folder / "cache" / "dask"))
        cluster.guarded(client, folder, mark)
        way = _Way(client, progress, say, stopping, perform)
        for task, fault in way.through(todo.tasks, rows):
            for combination in task.combinations:
                row = _row_of(rows, combination, fault)
                progress.done += 1
                progress.by_status[row["status"]] += 1
                yield row
            say(progress)


def _row_of(rows: Rows, combination: Combination, fault: str) -> Row:
    """The row that the task wrote; where its worker died of it, one that says so."""
    row = None
    if not fault:
        with contextlib.suppress(ValueError):
            row = rows.read(combination)
    if row is None:
        why = {"status": Status.FAILED, "kind": "worker", "message": fault or "its row cannot be read"}
        made = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "shoehorn": Tools.here().shoehorn}
        row = {**asked(combination), **why, **made}
        with _written(rows.folder):
            rows.write(combination, row)
        row = rows.read(combination) or row
    return row


class _Queues:
    """The tasks that wait, by the real board that they need, "" for none, and how many of each may be with Dask.

    Few are: what Dask does not have yet can be given up without asking it. A board that does not answer is given up.
    """

    def __init__(self, tasks: Sequence[Task], boards: Collection[str], threads: int) -> None:
        self._waiting: dict[str, deque[Task]] = {}
        self._given: Counter[str] = Counter()
        self._most = 2 * max(1, threads)
        for task in tasks:
            board = Path(task.first.board).stem
            real = board if task.until > Stage.BUILD and board in boards else ""
            self._waiting.setdefault(real, deque()).append(task)

    def next(self) -> Iterator[tuple[str, Task]]:
        """The tasks that may be given to Dask now, each with its board."""
        for board, tasks in self._waiting.items():
            while tasks and self._given[board] < (self._most if not board else 2):
                self._given[board] += 1
                yield board, tasks.popleft()

    def ended(self, board: str) -> None:
        self._given[board] -= 1

    def give_up(self, board: str | None = None) -> list[Task]:
        """Forgets what waits for a board, or everything; returns it."""
        chosen = [waiting for each, waiting in self._waiting.items() if board in (None, each)]
        given_up = [task for waiting in chosen for task in waiting]
        for waiting in chosen:
            waiting.clear()
        return given_up


@dataclass
class _Way:
    """The way of the tasks through Dask."""

    client: Any
    progress: Progress
    say: Say
    stopping: Callable[[], bool]
    perform: Callable[[Task], object]

    def through(self, tasks: Sequence[Task], rows: Rows) -> Iterator[tuple[Task, str]]:
        """The tasks as they end, each with what killed its workers, or an empty text."""
        import distributed

        threads = sum(worker["nthreads"] for worker in cluster.workers(self.client))
        queues = _Queues(tasks, cluster.announced(self.client), threads)
        ended = distributed.as_completed(loop=self.client.loop)
        flying: dict[Any, tuple[str, Task]] = {}
        if not self.stopping():
            self._fill(queues, flying, ended)
            self.progress.running = len(flying)
            self.say(self.progress)
        while flying:
            future = next(ended)
            if future not in flying:  # it was given up
                continue
            board, task = flying.pop(future)
            queues.ended(board)
            fault = _fault_of(future)
            future.release()
            yield task, fault
            if board and _is_silent(rows, task):
                self.progress.skipped += sum(len(each.combinations) for each in queues.give_up(board))
            if self.stopping():
                queues.give_up()
                for waiting in self._waiting(flying):
                    waiting.cancel(force=True)
                    flying.pop(waiting)
            self._fill(queues, flying, ended)
            self.progress.running = len(flying)
            self.say(self.progress)

    def _fill(self, queues: _Queues, flying: dict[Any, tuple[str, Task]], ended: Any) -> None:
        for board, task in queues.next():
            needs = {cluster.resource_of(board): 1} if board else None
            key = f"sweep-{secrets.token_hex(8)}"
            future = self.client.submit(self.perform, task, key=key, pure=False, resources=needs)
            flying[future] = board, task
            ended.add(future)

    def _waiting(self, flying: Mapping[Any, tuple[str, Task]]) -> list[Any]:
        """The futures that no worker is at."""
        stacks = self.client.call_stack(futures=list(flying)) if flying else {}
        running = {key for frames in stacks.values() for key in frames}
        return [future for future in flying if future.key not in running and not future.done()]


def _is_silent(rows: Rows, task: Task) -> bool:
    """Whether a real board did not answer in a task."""
    with contextlib.suppress(ValueError):
        row = rows.read(task.first)
        return row is not None and row["status"] == Status.FAILED and row["kind"] in ("host", "link")
    return False


def _fault_of(future: Any) -> str:
    """What is to be said of a task that has no result; empty where it has one."""
    if future.status == "finished":
        return ""
    error = future.exception()
    if type(error).__name__ == "KilledWorker":
        return "its worker died of it several times; perhaps the machine has too little memory for it"
    return printable(f"{type(error).__name__}: {error}")[:500]
