"""A written folder whose JSON is damaged: one line, exit code 1, no traceback, with bounded work and memory."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import tracemalloc
from collections.abc import Iterator
from cProfile import Profile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Gen
from pydantic import TypeAdapter, ValidationError

from shoehorn_mcu_host.base.errors import FolderDamaged
from shoehorn_mcu_host.folder import documents
from shoehorn_mcu_host.folder.documents import Count, Name, Positive, ZeroPoint
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.reference import Reference

MUTANTS = [60, pytest.param(400, marks=pytest.mark.long)]  # of each file
MOST_CALLS = 1_000_000  # of functions by one command
MOST = 2**31 - 1  # the largest number that the format has
NOBODY = "socket://127.0.0.1:1"  # a port behind which there is no board
STRANGE = (
    *(None, -1, 0, 1, 7, 2**31, 2**40, 2**70, 1e308, 0.5, math.inf, -math.inf, math.nan, True),
    *("", "x", "a\nb", "../../etc/passwd", "x" * 5000, [], {}, [[]], [{}], [0] * 100_000, {"x": 1}),
)


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [(Count, 0, MOST), (Positive, 1, MOST), (ZeroPoint, -MOST - 1, MOST), (Name, "", "x" * 10_000)],
)
def test_what_the_format_has_is_bounded(kind: Any, least: int | str, most: int | str) -> None:
    known = TypeAdapter(kind)
    assert [known.validate_python(value) for value in (least, most)] == [least, most]
    for beyond in (most + "x",) if isinstance(most, str) else (int(least) - 1, most + 1):
        with pytest.raises(ValidationError):
            known.validate_python(beyond)


_END = {"name": "x", "shape": [2, 3], "dtype": "int8", "bytes": 6, "scale": 1.0, "zero_point": 0}
_SOURCE = {"name": "x", "shape": [2, 3], "dtype": "int8", "scale": 1.0, "zero_point": 0, "order": [0, 1]}
_PLACE = {"tensor": "x", "address": 0, "rows": 2, "row_bytes": 4}
_TENSOR = {"shape": [2, 3], "dtype": "int8", "rows": 2, "row_bytes": 3, "scales": [1.0], "zero_points": [0], "const": 0}


@pytest.mark.parametrize(
    ("kind", "sound", "change", "said"),
    [
        (documents.SourceEnd, _SOURCE, {"order": [1, 1]}, "order [1, 1] is none of 2 dimensions"),
        (documents.End, _END, {"bytes": 5}, "shape [2, 3] of int8 has not 5 bytes"),
        (documents.End, _END, {"source": {**_SOURCE, "shape": [2, 2]}}, "the file's shape [2, 2] has another size"),
        (documents.Step, {"op": 0, "rows": [0, 1]}, {"input": 0}, "a step has either an op or an input or an output"),
        (documents.Step, {"op": 0, "rows": [0, 1]}, {"op": None}, "a step has either an op or an input or an output"),
        (documents.Step, {"op": 0, "rows": [0, 1]}, {"rows": [1, 1]}, "rows [1, 1] are none"),
        (documents.Placement, _PLACE, {"slots": [0]}, "1 slots for 2 rows"),
        (documents.Placement, {**_PLACE, "slots": [0, 4]}, {"memories": ["a"]}, "1 memories for 2 slots and 2 rows"),
        (documents.Slide, {"window_rows": 2, "hop_rows": 2}, {"hop_rows": 3}, "a window of 2 rows takes 3 new ones"),
        (documents.Tensor, _TENSOR, {"row_bytes": 4}, "shape [2, 3] of int8 has not 8 bytes"),
        (documents.Tensor, _TENSOR, {"scales": [1.0, 2.0]}, "as many scales as zero points are needed"),
        (documents.Reads, {"tensor": "x", "rows": [[0], [1]]}, {"rows": [[0], [1, 2]]}, "the same number of rows"),
    ],
)
def test_what_contradicts_itself_is_named(kind: Any, sound: Any, change: Any, said: str) -> None:
    kind.model_validate_json(json.dumps(sound))
    with pytest.raises(ValidationError, match=re.escape(said)):
        kind.model_validate_json(json.dumps({**sound, **change}))


@pytest.fixture
def folder(digits_project: Path, tmp_path: Path) -> Path:
    copied = tmp_path / "digits"
    shutil.copytree(digits_project, copied)
    return copied


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from places(inner)


def mutant(text: str, rng: random.Random) -> str:
    """The text with one fault: a strange value, a missing or doubled entry, a cut, a changed character."""
    kind = rng.randrange(10)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        at = rng.randrange(len(text))
        return text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
    value = json.loads(text)
    container, key = rng.choice(list(places(value)))
    if kind == 2:
        del container[key]
    elif kind == 3 and isinstance(container, list):
        container.insert(key, container[key])
    elif kind == 4 and type(container[key]) is int:
        container[key] += rng.choice((-1, 1, 8))
    else:
        container[key] = rng.choice(STRANGE)
    return json.dumps(value)


def refused(gen: Gen, *arguments: str | Path) -> str:
    """The one line on stderr of a command that fails."""
    result = gen(*arguments)
    assert (result.exit_code, "Traceback" in result.output) == (1, False), result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert len(lines[0]) < 8000
    return lines[0]


@pytest.fixture
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("count", MUTANTS)
def test_mutants_of_the_plan_are_refused_or_do_no_harm(gen: Gen, folder: Path, count: int):
    path, rng = folder / "plan.json", random.Random(5)
    text = path.read_text()
    reference = Reference.load(folder)
    tensors = reference.run([np.zeros(reference.tensors[name].shape, np.int8) for name in reference.inputs])
    harmless = 0
    for _ in range(count):
        path.write_text(mutant(text, rng))
        line = refused(gen, "validate", folder, "--port", NOBODY)
        if "nothing answers there" in line:
            harmless += 1
            assert len(Plan.of(Project.open(folder)).op_crcs(tensors)) > 0

    assert harmless < count // 2


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("count", MUTANTS)
@pytest.mark.parametrize("name", ["report.json", "boards/native.json"])
def test_mutants_of_report_and_manifest_are_refused_or_do_no_harm(gen: Gen, folder: Path, name: str, count: int):
    path, rng = folder / name, random.Random(2)
    text = path.read_text()
    for _ in range(count):
        path.write_text(mutant(text, rng))
        result = gen("flash", folder, "--dry-run")

        assert result.exit_code in (0, 1) and "Traceback" not in result.output
        assert len(result.stderr.splitlines()) == result.exit_code
        assert result.exit_code == 0 or str(folder) in result.stderr


def numbers(value: Any, kind: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Every integer below a JSON value: its kind, which is the names of the keys that lead to it, container and key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        deeper = (*kind, key) if isinstance(key, str) else kind
        if type(inner) is int:
            yield deeper, value, key
        yield from numbers(inner, deeper)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("plan.json", ("validate", "--port", NOBODY)),
        ("report.json", ("flash", "--dry-run")),
        ("boards/native.json", ("flash", "--dry-run")),
    ],
)
def test_no_number_decides_how_much_is_done(gen: Gen, folder: Path, name: str, command: tuple[str, ...]):
    """A large number of each kind, at the last place of its kind: the calls of functions are counted."""
    value = json.loads((folder / name).read_text())
    kinds = {kind: (container, key) for kind, container, key in numbers(value)}
    for kind, (container, key) in kinds.items():
        told, container[key] = container[key], MOST
        (folder / name).write_text(json.dumps(value))
        container[key] = told
        with Profile() as profile:
            result = gen(command[0], folder, *command[1:])

        assert result.exit_code in (0, 1) and "Traceback" not in result.output
        assert sum(each.callcount for each in profile.getstats()) < MOST_CALLS, kind

    assert len(kinds) > 5


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("count", MUTANTS)
def test_mutants_of_the_references_graph_never_reach_the_kernels(gen: Gen, folder: Path, count: int):
    path, rng = folder / "reference/graph.json", random.Random(3)
    text = path.read_text()
    for _ in range(count):
        path.write_text(mutant(text, rng))
        if path.read_text() != text:
            assert "not as gen firmware wrote it" in refused(gen, "validate", folder, "--port", NOBODY)


@pytest.mark.parametrize("name", ["plan.json", "report.json", "boards/native.json", ".shoehorn.json"])
@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "", "null", "[]", "\0", "\udcff"], ids=ascii)
def test_what_is_no_object_is_refused(gen: Gen, folder: Path, name: str, text: str):
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    line = refused(gen, "validate", folder, "--port", NOBODY)

    assert re.fullmatch(rf"gen: .*{re.escape(name)}: damaged: .*; write the folder again with gen firmware", line)


def test_a_file_that_is_a_device_is_read_to_a_limit(gen: Gen, folder: Path):
    (folder / "plan.json").unlink()
    (folder / "plan.json").symlink_to("/dev/zero")

    assert "plan.json: larger than 256 MB" in refused(gen, "validate", folder, "--port", NOBODY)


def test_a_reference_that_was_changed_is_refused(folder: Path):
    project = Project.open(folder)
    project.check_intact("reference/graph.json", "reference/constants.bin")
    with (folder / "reference/constants.bin").open("r+b") as file:
        file.write(b"\x55\xaa")

    with pytest.raises(FolderDamaged, match=r"constants.bin: damaged: not as gen firmware wrote it; write"):
        project.check_intact("reference/constants.bin")
    (folder / "reference/constants.bin").unlink()
    with pytest.raises(FolderDamaged, match=r"constants.bin: No such file or directory; write"):
        project.check_intact("reference/constants.bin")


def test_a_plan_of_another_reference_is_refused(gen: Gen, folder: Path):
    plan = json.loads((folder / "plan.json").read_text())
    output = plan["outputs"][0]
    renamed = [{**p, "tensor": "other"} if p["tensor"] == output["name"] else p for p in plan["placements"]]
    ops = [{**op, "output": "other"} if op["output"] == output["name"] else op for op in plan["ops"]]
    changed = {**plan, "placements": renamed, "ops": ops}
    (folder / "plan.json").write_text(json.dumps(changed))

    assert "'other' has fewer rows in the reference or is missing there" in refused(
        gen, "validate", folder, "--port", NOBODY
    )
    (folder / "plan.json").write_text(json.dumps({**plan, "outputs": [{**output, "name": "nothing"}]}))
    assert "'nothing' differs from the reference's tensor" in refused(gen, "validate", folder, "--port", NOBODY)
