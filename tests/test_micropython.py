"""`gen library --framework micropython`: a module gives the reference's bytes, and refuses what does not fit."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import bound
import emitted
import pytest
from compilers import HOST
from test_cli_project import DIGITS, files_of, gen

from shoehorn_mcu.emit.bindings import binding
from shoehorn_mcu.emit.bindings.ends import ends
from shoehorn_mcu.emit.bindings.micropython import TYPECODES
from shoehorn_mcu.emit.templates import TemplateError

SOURCE = os.environ.get("SHOEHORN_MICROPYTHON", "")
STUBS = Path(__file__).parent / "c" / "micropython"
OURS = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-O0")


def cases() -> dict[str, bound.Case]:
    return {name: case for name, case in bound.cases().items() if case.unit.handed_out is None}


def files(case: bound.Case) -> Mapping[str, bytes]:
    return binding(case.unit, case.constants, "micropython", None)


def built(case: bound.Case, folder: Path) -> Path:
    """The module with as much of MicroPython as it needs; a warning fails the test."""
    emitted.put(files(case), folder)
    name = case.unit.name
    compiled(folder / f"{name}_module.c", folder / "src" / f"{name}.c", runtime(), "-o", folder / "program")
    return folder / "program"


def compiled(*words: str | Path) -> None:
    command = [*map(str, (*HOST, *OURS, "-isystem", STUBS, *words))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-4000:]


@cache
def runtime() -> Path:
    """The object of what stands for MicroPython, compiled once."""
    folder = Path(mkdtemp(prefix="micropython-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compiled("-c", STUBS / "runtime.c", "-o", folder / "runtime.o")
    return folder / "runtime.o"


def run(program: Path, *calls: str, data: bytes = b"") -> tuple[bytes, list[str]]:
    """What the calls give: bytes, and the words of all else behind the name of the module."""
    words = " ".join(calls).split()
    done = subprocess.run([str(program), *words], input=data, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.decode().splitlines()


def inference(case: bound.Case) -> str:
    """The call of one inference, or of one row."""
    made = [end.type for end in ends(case.unit) if end.is_input]
    if case.unit.streamed is not None:
        return f"push_row <{made[0].row_bytes}"
    given = " ".join(f"<{kind.bytes}" for kind in made)
    return f"run ( {given} )" if len(made) > 1 else f"run {given}"


@pytest.mark.parametrize("name", ["while", "by_rows", "apart", "real", "every_type", "ring", "ring_rows"])
def test_a_module_gives_the_reference_s_bytes(name: str, tmp_path: Path):
    case = bound.cases()[name]
    before = ["init"] if case.unit.caller_arena else []
    found, said = run(built(case, tmp_path), *before, "*", inference(case), data=case.data)

    assert (found, said) == (case.wanted, [f"MP_QSTR_{'while_model' if name == 'while' else name}"])


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(bound.cases()["while"], tmp_path_factory.mktemp("module"))


def test_an_inference_into_a_buffer_of_the_program_allocates_nothing(digits: Path):
    case = bound.cases()["while"]
    found, said = run(digits, "*", "run <64 >10", data=case.data)

    assert (found, said[1:]) == (case.wanted, ["allocated 0"] * bound.VECTORS)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("run B63", "ValueError: input has 63 bytes, not 64"),
        ("run B65", "ValueError: input has 65 bytes, not 64"),
        ("run f64", "ValueError: input has elements 'f', not 'b'"),
        ("run #7", "ValueError: input is no buffer that can be used"),
        ("run s16", "ValueError: input is no buffer that can be used"),
        ("run ( b64 )", "ValueError: input is no buffer that can be used"),
        ("run b64 <10", "ValueError: out is no buffer that can be used"),
        ("run b64 >9", "ValueError: out has 9 bytes, not 10"),
        ("run b64 h10", "ValueError: out has elements 'h', not 'b'"),
        ("run", "ValueError: wrong number of arguments"),
        ("reset", "ValueError: no such function"),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_the_model_as_it_was(call: str, said: str, digits: Path):
    case = bound.cases()["while"]
    found, words = run(digits, call, "*", "run <64", data=b"\0" * 10 * (call == "run b64 <10") + case.data)

    assert (words[1:], found) == ([said], case.wanted)


def test_a_call_while_another_one_runs_is_refused_and_the_other_one_is_right(digits: Path):
    case = bound.cases()["while"]
    found, said = run(digits, "! run <64", "* run <64", data=case.data)

    assert found == case.wanted
    assert said[1:] == ["RuntimeError: while_model runs already, in another thread or below"]


def test_several_buffers_are_a_tuple_of_as_many(tmp_path: Path):
    case = bound.cases()["real"]
    program = built(case, tmp_path)
    sizes = [end.type.bytes for end in ends(case.unit)]
    both = f"( f{sizes[0]} f{sizes[1]} )"
    calls = ("run f8", "run ( f8 )", f"run ( f{sizes[0]} f8 )", f"run {both} f4", f"run {both} ( f4 f4 )")
    _, said = run(program, *calls)

    assert said[1:] == [
        "ValueError: inputs is no tuple of 2 buffers",
        "ValueError: inputs has 1 buffers, not 2",
        f"ValueError: inputs has 8 bytes, not {sizes[1]}",
        "ValueError: out is no tuple of 2 buffers",
        f"ValueError: out has 4 bytes, not {sizes[2]}",
    ]
    found, _ = run(program, f"* run ( <{sizes[0]} <{sizes[1]} ) ( f{sizes[2]} f{sizes[3]} )", data=case.data)
    assert found == case.wanted


def test_rows_are_counted_from_the_reset_on(tmp_path: Path):
    case = bound.cases()["by_rows"]
    found, said = run(built(case, tmp_path), "push_row b15", "reset", "* push_row <15 >4", data=case.data)

    assert found == case.wanted
    assert said[1:] == ["allocated 0"] * (6 * bound.VECTORS)


def test_states_begin_anew_with_a_reset(tmp_path: Path):
    case = bound.cases()["ring"]
    program = built(case, tmp_path)
    found, _ = run(program, "run b6", "run b6", "reset", "* run <6", data=case.data)
    kept, _ = run(program, "run b6", "run b6", "* run <6", data=case.data)

    assert found[2 * 21 :] == case.wanted != kept[2 * 21 :]


def test_the_caller_s_arena_is_taken_from_the_heap_and_given_back(tmp_path: Path):
    case = bound.cases()["apart"]
    program = built(case, tmp_path)
    found, said = run(program, "run b90", "init", "deinit", "run b90", "init", "init", "* run <90", data=case.data)

    assert found == case.wanted
    assert said[1:] == ["ValueError: apart has no memory: call apart.init() first"] * 2
    sizes = [arena.bytes for arena in case.unit.arenas.values()]
    owned = int(re.search(r"#define OWNED (\d+)", (tmp_path / "apart_module.c").read_text())[1])  # type: ignore[index]
    assert len(sizes) == 2 and owned == sum(-(-size // 16) * 16 for size in sizes)


def test_inputs_outputs_and_classes_are_told(tmp_path: Path, digits: Path):
    _, said = run(digits, "inputs", "outputs")
    assert said[1:] == ["(((1 8 8 1 ) b 0.00392156886 -128 ) )", "(((1 10 ) b 0.00390625 -128 ) )"]
    _, said = run(built(bound.cases()["by_rows"], tmp_path), "class_name #3", "class_name #4")
    assert said[1:] == ['"3\\ü', ""]
    assert set(TYPECODES) == {kind.value for kind in bound.DType}


@pytest.mark.long
@pytest.mark.skipif(not SOURCE, reason="SHOEHORN_MICROPYTHON names no source of MicroPython")
@pytest.mark.skipif(shutil.which("make") is None or shutil.which("gcc") is None, reason="make or gcc is not installed")
def test_micropython_itself_runs_every_module(tmp_path: Path):
    for name, case in cases().items():
        emitted.put(files(case), tmp_path / "modules" / name)
        emitted.put({f"{name}.in": case.data, f"{name}.out": case.wanted}, tmp_path)
    off = ("FFI", "SSL", "BTREE", "THREAD")
    settings = [f"MICROPY_PY_{name}=0" for name in off] + ["MICROPY_SSL_MBEDTLS=0", "FROZEN_MANIFEST="]
    places = [f"USER_C_MODULES={tmp_path / 'modules'}", f"BUILD={tmp_path / 'build'}"]
    made = subprocess.run(
        ["make", "-j2", "-C", f"{SOURCE}/ports/unix", *settings, *places], capture_output=True, text=True, timeout=560
    )
    assert made.returncode == 0, made.stderr[-3000:]
    names = ["while_model" if name == "while" else name for name in cases()]
    script = Path(__file__).parent / "bound_micropython.py"
    done = subprocess.run(
        [tmp_path / "build/micropython", script, tmp_path, *names], capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()

    assert done.stderr == ""
    assert lines[: len(names)] == [f"{name} equal" for name in names]
    assert lines[len(names) :] == list(_words())


def _words() -> Iterator[str]:
    """What bound_micropython.py prints behind the inferences."""
    yield "input has 63 bytes, not 64"
    yield "input has elements 'f', not 'b'"
    yield from ["input is no buffer that can be used"] * 2
    yield "out is no buffer that can be used"
    yield "out has 11 bytes, not 10"
    yield "out has elements 'h', not 'b'"
    yield "inputs is no tuple of 8 buffers"
    yield "inputs has 2 buffers, not 8"
    yield "(((1, 8, 8, 1), 'b', 0.003921568859368563, -128),) (((1, 10), 'b', 0.00390625, -128),)"
    yield "True"
    yield '"3\\ü'
    yield "allocated 0"


def test_the_command_writes_the_same_module_twice(tmp_path: Path):
    done = [gen("library", DIGITS, "--framework", "micropython", "--out", tmp_path / name) for name in "ab"]

    assert [each.exit_code for each in done] == [0, 0]
    made = files_of(tmp_path / "a")
    assert made == files_of(tmp_path / "b")
    wanted = {"micropython.mk", "micropython.cmake", "digits_module.c", "src/digits.c", "src/digits.h", "README.md"}
    assert wanted | {".shoehorn.json"} == set(made)
    assert not [path for path, data in made.items() if re.search(rb"@[A-Z]+@", data)]


def test_what_a_module_cannot_do_is_one_line():
    rows = bound.cases()["out_rows"]
    with pytest.raises(
        TemplateError, match="--framework micropython: the result of a module is whole; leave --stream-ou"
    ):
        files(rows)
    with pytest.raises(TemplateError, match="--framework micropython: a module runs on one core; leave --cores out"):
        binding(bound.several_cores(), {}, "micropython", None)  # type: ignore[arg-type]
