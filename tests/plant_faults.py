"""Plants small faults in a copy of this project, one at a time, and asks the fast suite whether it notices.

    python -m tests.plant_faults [--count 100] [--seed 1] [--jobs 2] [--areas AREA ...] [--out FILE] [--quick | --whole]
    python -m tests.plant_faults --list      the faults of that seed, without running anything
    python -m tests.plant_faults --record FOLDER              runs the fast suite once under coverage.py
    python -m tests.plant_faults --lines FOLDER [--seconds 600] [--count ...]   asks the tests that execute the line

A fault is one change of one line: a comparison one off or turned round, plus for minus, a number one more, `and` for
`or`, either side of one of these without effect, a `not` left out, min for max, a guard that never fires. The
unmodified project runs first, with the tests of all areas asked for: where they fail, no fault is planted. The areas
get the same number of faults each; the seed chooses the lines, by their texts, so it chooses the same ones in a later
state of the project where they are there still. For each fault the quick tests of its area run first,
then, without --quick, the area's other tests, and with --whole the whole fast suite; a run with more tests tries the
survivors of an earlier one once more. With --lines a fault in Python meets the fast tests that execute its line, the
quickest first and --seconds of them at most, as the recording of planted_lines.py says, and then the tests of its
area (with --quick its quick ones), because a sandboxed process records nothing; --jobs faults are tried at the same
time then. They are tried in forks of a process that has collected all tests (planted_forks.py), which is seconds a
fault; one in what runs when modules are imported, or in C, is tried in a process of its own. A recording of an
earlier state of the project serves as well: lines are found where they stand now, tests that are gone are left out, and
those that were not there yet meet each fault in Python whose line is known.
A test that fails without the fault, too, is left out when a fault meets it. A run over its time limit counts as noticed
where the same tests take less than a quarter of it without the fault (an endless loop), else as over its time.
Numbers assigned to names in capitals are left alone: they say how long the planner tries, not whether its plans are
right.
Appends a line of JSON per fault to --out and continues after the last line of an earlier run.
planted_equivalents.json lists, with the reason, changes that change nothing that anyone could see; these are not
planted. A survivor is either one of these that is not listed yet, or a hole in the suite.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from tests.planted_areas import AREAS
from tests.planted_forks import Answer, Forks
from tests.planted_lines import Lines, record

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = Path(__file__).with_suffix("").with_name("planted_equivalents.json")
_MOST_SECONDS = 600  # of recorded tests that a fault meets: a line of the planner is executed by most of the suite
LIMIT_SECONDS = 1500  # of one run of tests
_FORK_SECONDS = (60, 10)  # the limit of a run in a fork, and how much more for each second that its tests were recorded
_ENDLESS = 4  # so many times longer than without the fault: it makes an endless loop


@dataclass(frozen=True)
class Fault:
    """One change of one line; `column` is where the old text begins."""

    area: str
    path: str  # below the project's root
    line: int  # from 1
    column: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The text with the fault in it."""
        lines = text.splitlines(keepends=True)
        lines[self.line - 1] = self.within(lines[self.line - 1])
        return "".join(lines)

    def within(self, row: str) -> str:
        """The line with the fault in it."""
        assert row[self.column :].startswith(self.old), (self, row)
        return row[: self.column] + self.new + row[self.column + len(self.old) :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column + 1}: `{self.old}` -> `{self.new}`"


_COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_OPERATORS = {"+": "-", "-": "+", "*": "+", "//": "*", "%": "//", "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def python_faults(area: str, path: str, text: str) -> Iterator[Fault]:
    """Every fault of a Python file. Annotations, docstrings, asserts and constants in capitals have none."""
    lines = text.splitlines()

    def between(left: ast.expr, right: ast.expr, table: Mapping[str, str], words: str) -> Iterator[Fault]:
        """The operator between two expressions of one line."""
        if left.end_lineno != right.lineno or left.end_col_offset is None:
            return
        row = lines[right.lineno - 1].encode()
        gap = row[left.end_col_offset : right.col_offset].decode()
        if (found := re.search(words, gap)) and found[0] in table:
            column = len(row[: left.end_col_offset].decode()) + found.start()
            yield Fault(area, path, right.lineno, column, found[0], table[found[0]])

    for node in _executed(ast.parse(text)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between(node.left, node.comparators[0], _COMPARISONS, r"[<>=!]=|[<>]")
        elif isinstance(node, ast.BinOp) and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            yield from between(node.left, node.right, _OPERATORS, r"//|<<|>>|[-+*%&|]")
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1], {"and": "or", "or": "and"}, r"\b(?:and|or)\b")
            without = "True or" if isinstance(node.op, ast.And) else "False and"
            for side in (each for each in node.values if each.lineno == each.end_lineno):
                old = lines[side.lineno - 1].encode()[side.col_offset : side.end_col_offset].decode()
                yield Fault(area, path, side.lineno, _column(lines, side), old, f"({without} ({old}))")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield Fault(area, path, node.lineno, _column(lines, node), "not ", "")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            yield Fault(area, path, node.lineno, _column(lines, node), node.func.id, _NAMES[node.func.id])
        elif isinstance(node, ast.Constant) and type(node.value) is int and node.end_col_offset is not None:
            old = lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()
            if old.isdigit():
                yield Fault(area, path, node.lineno, _column(lines, node), old, str(node.value + 1))
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return | ast.Continue):
            column, row = _column(lines, node), lines[node.lineno - 1]
            if row[column:].startswith("if ") and node.test.lineno == node.test.end_lineno == node.lineno:
                old = row.encode()[node.test.col_offset : node.test.end_col_offset].decode()
                yield Fault(area, path, node.lineno, _column(lines, node.test), old, f"False and ({old})")


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that compute something."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Assign) and _is_setting(node)):
            continue
        yield node
        skipped = {"annotation", "returns", "type_params", "decorator_list"}
        for name, value in ast.iter_fields(node):
            if name not in skipped:
                todo += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST)]


def _is_setting(node: ast.Assign) -> bool:
    """Whether names in capitals are assigned, one or several."""
    (target,) = node.targets if len(node.targets) == 1 else (None,)
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(name, ast.Name) and name.id.isupper() for name in names)


def _column(lines: list[str], node: ast.expr | ast.stmt) -> int:
    return len(lines[node.lineno - 1].encode()[: node.col_offset].decode())


_C_TOKENS = re.compile(r"(?<=[\w)\]] )(<=|>=|==|!=|&&|\|\||<<|>>|[-+*<>])(?= )|(?<=[+\-] )\d+\b|(?<=\[)\d+(?=\])")
_C_TABLE = {**_COMPARISONS, "+": "-", "-": "+", "*": "+", "&&": "||", "||": "&&", "<<": ">>", ">>": "<<"}


def c_faults(area: str, path: str, text: str) -> Iterator[Fault]:
    """Every fault of a C file. Comments, declarations of pointers and the preprocessor's lines have none."""
    inside = False
    for number, row in enumerate(text.splitlines(), 1):
        if not row.lstrip().startswith(("//", "*", "/*", "#")) and not inside:
            code = row.split("//")[0]
            for found in _C_TOKENS.finditer(code):
                old = found[0]
                new = str(int(old) + 1) if old.isdigit() else _C_TABLE[old]
                yield Fault(area, path, number, found.start(), old, new)
        inside = (inside or "/*" in row) and "*/" not in row


def equivalents() -> set[tuple[str, str, str]]:
    """The changes that are known to change nothing: path, line and what it becomes, wherever in the file it is."""
    return {(each["path"], each["line"], each["becomes"]) for each in json.loads(EQUIVALENTS.read_text())}


def faults_of(area: str) -> list[Fault]:
    """All faults of an area but those that are known as equivalent, in the order of its files."""
    known = equivalents()
    found: list[Fault] = []
    for pattern in AREAS[area].files:
        for path in sorted(ROOT.glob(pattern)):
            name, text = path.relative_to(ROOT).as_posix(), path.read_text()
            rows = text.splitlines()
            for fault in (python_faults if path.suffix == ".py" else c_faults)(area, name, text):
                row = rows[fault.line - 1]
                if (name, row.strip(), fault.within(row).strip()) not in known:
                    found.append(fault)
    return found


def chosen(count: int, seed: int, areas: list[str]) -> list[Fault]:
    """So many faults, the same number in each area (one more in the first ones), no two in one line.

    The first faults are one of each area, the next ones another of each, so a run that is broken off has met all areas.
    """
    found: list[tuple[int, int, Fault]] = []
    taken: set[tuple[str, int]] = set()
    for place, area in enumerate(areas):
        turn, wanted = 0, count // len(areas) + (place < count % len(areas))
        for fault in sorted(faults_of(area), key=functools.partial(_drawn, seed)):
            if turn < wanted and (fault.path, fault.line) not in taken:
                taken.add((fault.path, fault.line))
                found.append((turn, place, fault))
                turn += 1
    return [fault for _, _, fault in sorted(found, key=lambda each: each[:2])]


def _drawn(seed: int, fault: Fault) -> str:
    """Where the seed puts a fault: hashed from its own text alone, so changes elsewhere in the area do not move it."""
    row = _rows(fault.path)[fault.line - 1]
    return hashlib.sha256(f"{seed} {fault.path} {row.strip()} {fault.within(row).strip()}".encode()).hexdigest()


@functools.cache
def _rows(path: str) -> list[str]:
    return (ROOT / path).read_text().splitlines()


class Copy:
    """A copy of the project in a temporary folder, importable under the name of the package."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, self.root / name)
        (folder / "shared").symlink_to(ROOT.parent / "shared")
        packages = os.pathsep.join(str(self.root / name) for name in ("generator", "host_tools"))
        kept = str(folder / "kept")
        self.environment = {**os.environ, "PYTHONPATH": packages, "HYPOTHESIS_STORAGE_DIRECTORY": kept}
        self._times = itertools.count(int(time.time()))

    def write(self, path: str, text: str) -> None:
        """Changes a file. Each version has a second of its own: Python knows compiled modules by it and their size."""
        (self.root / path).write_text(text)
        os.utime(self.root / path, (moment := next(self._times), moment))

    def passes(self, tests: Sequence[str], jobs: int) -> Answer:
        """Whether the tests pass."""
        workers = ["-n", str(jobs)] if jobs > 1 else []
        listed = self.root.parent / "tests.txt"
        listed.write_text("".join(f"{name}\n" for name in tests))
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *workers, f"@{listed}"]
        begun = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=LIMIT_SECONDS
            )
        except subprocess.TimeoutExpired:
            return Answer(False, f"took over {LIMIT_SECONDS} s", late=True, seconds=LIMIT_SECONDS)
        said = [row for row in done.stdout.splitlines() if row.startswith(("FAILED", "ERROR", "E  "))]
        why = (said or done.stdout.splitlines()[-1:] or [""])[-1][:200]
        named = re.match(r"(?:FAILED|ERROR) (tests/\S+::.*?)(?: - |$)", why)
        return Answer(done.returncode == 0, why, named[1] if named else "", seconds=time.monotonic() - begun)


def _tests(copy: Path, names: tuple[str, ...]) -> list[str]:
    """The test files of these names, each once, in order."""
    paths = [p for name in names for p in sorted((copy / "tests").glob(f"{name}.py"))]
    return list(dict.fromkeys(str(p.relative_to(copy)) for p in paths))


class Broken(Exception):
    """The unmodified project fails its tests."""


def run(faults: list[Fault], jobs: int, out: Path, depth: int) -> list[dict[str, object]]:
    """Tries the faults one after the other: `depth` 1 with the quick tests, 2 also the slow ones, 3 the whole suite.

    What `out` says was noticed, or survived as many tests, is not tried a second time. Raises Broken where the project
    without a fault fails one of these tests.
    """
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []
    known = {str(row["fault"]): row for row in done}
    todo = [fault for fault in faults if not _is_done(known.get(str(fault)), depth)]
    with tempfile.TemporaryDirectory() as folder, out.open("a") as log:
        copy = Copy(Path(folder))
        if todo:
            sound = copy.passes(_all_tests(copy.root, todo, depth), jobs)
            if not sound.passed:
                raise Broken(f"without a fault the tests fail: {sound.why}")
        for fault in todo:
            before = known.get(str(fault))
            text = (copy.root / fault.path).read_text()
            copy.write(fault.path, fault.apply(text))
            first = 0 if before is None else _depth(before)
            answer = Answer(True)
            for tests in _rounds(copy.root, fault.area)[first:depth]:
                if answer.passed:
                    answer = copy.passes(tests, jobs)
            copy.write(fault.path, text)
            known[str(fault)] = _told(fault, answer, depth, sound.seconds, log)
    return [known[str(fault)] for fault in faults]


def _told(fault: Fault, answer: Answer, depth: int, sound: float, log: IO[str]) -> dict[str, object]:
    """The row of a fault, which is printed, too. `sound`: seconds that the tests take without the fault."""
    late = answer.late and sound * _ENDLESS > answer.seconds
    noticed = not answer.passed and not late
    row = {"fault": str(fault), **asdict(fault), "noticed": noticed, "by": answer.why, "depth": depth, "late": late}
    print(json.dumps(row), file=log, flush=True)
    print(f"{'noticed ' if noticed else 'OVER ITS TIME' if late else 'SURVIVED'} {fault}  {answer.why}", flush=True)
    return row


@dataclass(frozen=True)
class Bench:
    """A copy of the project, the process that forks in it, and what is known of its tests without a fault."""

    copy: Copy
    forks: Forks
    sound: dict[str, bool]  # test -> whether it passes, of those that a fault met


def run_by_lines(
    faults: list[Fault], jobs: int, out: Path, lines: Lines, seconds: float = _MOST_SECONDS, depth: int = 2
) -> list[dict[str, object]]:
    """Tries the faults, `jobs` at a time, with the tests that execute the line, the quickest ones first.

    At most so many seconds of these, as they were recorded, and then the tests of the area: the quick ones with `depth`
    1, also the slow ones with 2. What `out` has is not tried a second time.
    """
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []
    known: dict[str, dict[str, object]] = {str(row["fault"]): row for row in done}
    with tempfile.TemporaryDirectory() as folder, out.open("a") as log, ThreadPoolExecutor(jobs) as threads:
        benches: SimpleQueue[Bench] = SimpleQueue()
        for number in range(jobs):
            copy = Copy(Path(folder) / str(number))
            benches.put(Bench(copy, Forks(copy.root, copy.environment), {}))

        def tried(fault: Fault) -> None:
            bench = benches.get()
            try:
                answer, sound = _met(bench, fault, lines, seconds, depth)
            finally:
                benches.put(bench)
            known[str(fault)] = _told(fault, answer, 4 if depth == 2 else 1, sound, log)

        try:
            list(threads.map(tried, [fault for fault in faults if str(fault) not in known]))
        finally:
            while not benches.empty():
                benches.get().forks.close()
    return [known[str(fault)] for fault in faults]


def _met(bench: Bench, fault: Fault, lines: Lines, seconds: float, depth: int) -> tuple[Answer, float]:
    """What a fault's tests say, and how long those of the last round take without the fault if that was too long."""
    copy, forks, path = bench.copy, bench.forks, fault.path
    text = (copy.root / path).read_text()
    changed = fault.apply(text)
    forked = path.endswith(".py") and forks.takes(path, text, changed)

    def asked(tests: Sequence[str], now: str) -> Answer:
        copy.write(path, now)
        try:
            if not forked:
                return copy.passes(tests, 1)
            least, more = _FORK_SECONDS
            return forks.answer(path, text, now, tests, least + more * sum(map(lines.seconds, tests)))
        finally:
            copy.write(path, text)

    executing = [name for name in lines.tests_of(path, fault.line) if name in forks.present]
    unknown = lines.unknown(forks.present) if executing else []
    rounds = [*lines.rounds(executing, seconds, quick=forked), unknown, *_area_tests(copy, forks, fault, depth)]
    met: set[str] = set()
    for each in rounds:
        tests = sorted((name for name in each if name not in met), key=lines.seconds)
        met |= set(tests)
        while tests := [name for name in tests if bench.sound.get(name, True)]:
            answer = asked(tests, changed)
            if answer.passed:
                break
            if answer.late:
                return answer, asked(tests, text).seconds
            if not answer.test or _is_sound(bench, answer.test, lambda test: asked([test], text).passed):
                return answer, 0.0
    return Answer(True), 0.0


def _is_sound(bench: Bench, test: str, passes: Callable[[str], bool]) -> bool:
    """Whether a test passes without a fault, asked once."""
    if test not in bench.sound:
        bench.sound[test] = passes(test)
    return bench.sound[test]


def _area_tests(copy: Copy, forks: Forks, fault: Fault, depth: int) -> Iterator[list[str]]:
    """The ids of the area's tests, by depth; of kernels' quick ones those that compile the file."""
    for files in _rounds(copy.root, fault.area)[:depth]:
        chosen = set(files)
        yield [name for name in forks.present if name.partition("::")[0] in chosen and _may_compile(name, fault.path)]


_RUNS = {"mve": ("mps3-an547",), "riscv": ("virt-rv32",), "neon": ("rpi-zero-2w", "neon"), "vectors": ("rpi-zero-2w",)}
"""Words of the tests that run kernels with a word in their file's name; others run on mps2-an386."""


def _may_compile(test: str, path: str) -> bool:
    """Whether a test may compile a file: of the matrices only those of the board that runs such kernels do for sure."""
    if not re.search(r"test_kernel_matrix|test_neon_", test) or not path.startswith("runtime_c/"):
        return True
    known = [word for word in Path(path).stem.split("_") if word in _RUNS]
    if path.startswith("runtime_c/include/") and not known:
        return True
    return any(run in test for run in (_RUNS[known[0]] if known else ("mps2-an386",)))


def _depth(row: Mapping[str, object]) -> int:
    return int(str(row.get("depth", 2)))


def _is_done(row: Mapping[str, object] | None, depth: int) -> bool:
    return row is not None and (bool(row["noticed"]) or _depth(row) >= depth)


def _rounds(copy: Path, area: str) -> tuple[list[str], ...]:
    """The tests of each depth."""
    return _tests(copy, AREAS[area].quick), _tests(copy, AREAS[area].slow), ["tests"]


def _all_tests(copy: Path, faults: list[Fault], depth: int) -> list[str]:
    """The tests that some of the faults may meet, each once."""
    if depth == 3:
        return ["tests"]
    areas = dict.fromkeys(fault.area for fault in faults)
    return list(dict.fromkeys(t for area in areas for tests in _rounds(copy, area)[:depth] for t in tests))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--areas", nargs="*", choices=list(AREAS), default=list(AREAS))
    parser.add_argument("--out", type=Path, default=Path("build/planted_faults.jsonl"))
    parser.add_argument("--quick", action="store_true", help="only the quick tests of each area")
    parser.add_argument("--whole", action="store_true", help="give survivors to the whole fast suite")
    parser.add_argument("--list", action="store_true", help="print the faults and run nothing")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="record which tests execute which lines")
    parser.add_argument(
        "--lines", type=Path, metavar="FOLDER", help="first tests that execute the line, by a recording"
    )
    parser.add_argument("--seconds", type=float, default=_MOST_SECONDS, help="of these, at most")
    asked = parser.parse_args()
    if asked.record:
        with tempfile.TemporaryDirectory() as folder:
            copy = Copy(Path(folder))
            print(record(copy.root, asked.record.resolve(), asked.jobs, copy.environment))
        return
    faults = chosen(asked.count, asked.seed, asked.areas)
    if asked.list:
        print("\n".join(str(fault) for fault in faults))
        return
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        if asked.lines:
            recorded = Lines(asked.lines, ROOT)
            rows = run_by_lines(faults, asked.jobs, asked.out, recorded, asked.seconds, 1 if asked.quick else 2)
        else:
            rows = run(faults, asked.jobs, asked.out, 3 if asked.whole else 1 if asked.quick else 2)
    except Broken as error:
        sys.exit(f"plant_faults: {error}")
    print("\n".join(summary(rows)))


_DEPTHS = {
    1: "its quick tests",
    2: "all its tests",
    3: "the whole suite",
    4: "the tests that execute the line, and all its tests",
}


def summary(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """A line for each area, and one for all: how many faults were noticed, and which tests the others survived."""
    by_area: dict[str, list[Mapping[str, object]]] = {}
    for row in rows:
        by_area.setdefault(str(row["area"]), []).append(row)

    def line(name: str, of: Sequence[Mapping[str, object]]) -> str:
        late = sum(bool(row.get("late")) for row in of)
        survived = Counter(_depth(row) for row in of if not row["noticed"] and not row.get("late"))
        said = [f"{count} survived {_DEPTHS[depth]}" for depth, count in sorted(survived.items())]
        said += [f"{late} were over their time"] if late else []
        noticed = f"{name}: {len(of) - survived.total() - late} of {len(of)} noticed"
        return ", ".join([noticed, *said]) + (" (equivalent or a hole: not known)" if said else "")

    return [*(line(area, of) for area, of in by_area.items()), line("all", rows)]


if __name__ == "__main__":
    main()
