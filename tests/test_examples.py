"""examples/: each program is built or executed as its README says, as far as the tools are here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from compilers import HOST, ZIG_CLANG
from doc_code import ROOT
from objects import compiled_all
from test_integrations import needs
from test_rust import PATH as RUST_PATH
from test_rust import needs as needs_rust

EXAMPLES = ROOT / "examples"
BOARDS = ("arduino", "zephyr", "esp-idf")
CORES = {
    "arduino": ("--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4"),
    "zephyr": ("--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4"),
    "esp-idf": ("--target=riscv32-none-elf", "-march=rv32imc"),
}
"""What compiles for the core that an example's README names."""
SETTLED = {"still": 1.0, "shake": 4.0, "circle": 7.0}
"""Gestures of the always-on example: when a whole second of each has been seen."""
STRICT = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror")

_spec = spec_from_file_location("build_example", EXAMPLES / "build.py")
assert _spec and _spec.loader
build_example = module_from_spec(_spec)
_spec.loader.exec_module(build_example)


def run(*words: str | Path, cwd: Path, given: str = "") -> str:
    done = subprocess.run([str(w) for w in words], cwd=cwd, input=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, beside the generator's folder as in the repository; what git ignores is left out."""
    top = tmp_path_factory.mktemp("tree")
    (top / "generator").symlink_to(ROOT / "generator")
    made = shutil.ignore_patterns("build", ".pio", "lib", "made", "digits", "target", "Cargo.lock", "*.onnx", "*.npz")
    return Path(shutil.copytree(EXAMPLES, top / "examples", ignore=made))


@cache
def prepared(folder: Path) -> Path:
    """The example after the commands of its README that need no tool but Shoehorn."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in build_example.commands((folder / "README.md").read_text()):
        if line.split()[0] in ("python", "gen", "cp"):
            done = subprocess.run(
                line, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
    return folder


@needs("cmake", HOST[0])
def test_the_cmake_program_reads_the_digit(tree: Path):
    done = subprocess.run([sys.executable, tree / "build.py", "cmake"], capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "7"
    wrong = subprocess.run([tree / "cmake" / "build" / "read_digit", "none.txt"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr) == (1, "none.txt: cannot be read as 8 lines of 8 characters\n")


@needs("cmake", HOST[0])
def test_the_gestures_of_a_stream_are_told_each_quarter_of_a_second(tree: Path):
    done = subprocess.run([sys.executable, tree / "build.py", "always-on"], capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    told = [line.split(" s ") for line in done.stdout.splitlines() if re.fullmatch(r"\d\.\d s \w+", line)]
    assert (len(told), told[0][0], told[-1][0]) == (33, "1.2", "8.9")
    settled = {
        name: {said for at, said in told if first <= float(at) <= first + 1.9} for name, first in SETTLED.items()
    }
    assert settled == {name: {name} for name in SETTLED}


@needs("cmake", HOST[0])
def test_an_extra_heart_beat_is_told_as_long_as_it_is_in_the_window(tree: Path):
    done = subprocess.run([sys.executable, tree / "build.py", "heartbeat"], capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(" s ") for line in done.stdout.splitlines() if re.fullmatch(r"\d+\.\d s \w+", line)]
    told = {float(at): kind for at, kind in lines}
    assert (len(told), min(told), max(told)) == (80, 2.2, 18.0)
    changes = [at for at, before in zip([*told][1:], told, strict=False) if told[at] != told[before]]
    assert [told[at] for at in (2.2, *changes)] == ["regular", "extra", "regular", "none"]
    assert changes[0] < 6.0 < changes[1] < 8.1, "the extra beat is in windows that end before 8.1 s"
    assert 12.0 < changes[2] < 14.1


@needs_rust("cargo", "cc")
def test_the_rust_program_reads_the_digit(tree: Path):
    env = {**os.environ, "PATH": RUST_PATH}
    command = [sys.executable, tree / "build.py", "rust"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "7"
    program = tree / "rust" / "target" / "debug" / "read_digit"
    wrong = subprocess.run([program, "none.txt"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr) == (1, "none.txt: cannot be read as 8 lines of 8 characters\n")


@needs("cmake")
@pytest.mark.parametrize("name", ["always-on", "cmake", "heartbeat", "zephyr", "esp-idf"])
def test_cmake_says_that_the_library_is_missing(name: str, tmp_path: Path):
    made = shutil.ignore_patterns("digits", "gesture", "heartbeat")
    folder = Path(shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=made))
    command = ["cmake", "-S", folder, "-B", tmp_path / "build"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "IDF_PATH": str(tmp_path)})

    assert done.returncode == 1
    assert "The library is missing: run `gen library` as README.md says." in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("cmake", "gen"),
        ("rust", "cargo"),
        ("arduino", "arduino-cli"),
        ("zephyr", "west"),
        ("esp-idf", "idf.py"),
    ],
)
def test_a_tool_that_is_missing_is_named_in_one_line_before_anything_is_written(
    name: str,
    program: str,
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    for other in set(build_example.INSTALL) - {program}:
        (tmp_path / other).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / other).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    assert build_example.main(tree / name) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{name}: {program} is not installed; get it by: {build_example.INSTALL[program]}\n")


BUILDER = """
from SCons.Script import Default, DefaultEnvironment

env = DefaultEnvironment()
env.Append(CCFLAGS=["-Werror"])
env.Replace(AR="ar", CC="gcc", CXX="g++", LINK="g++", RANLIB="ranlib", PROGNAME="program")
Default([env.BuildProgram()])
"""


@needs("gcc", "g++")
def test_platformio_builds_the_program_and_it_tells_the_gestures_of_its_samples(tree: Path, tmp_path: Path):
    """PlatformIO itself, offline: a stand-in for its platform `native`, and SCons from PyPI as our platform has it."""
    folder = prepared(tree / "platformio")
    (tmp_path / "builder").mkdir()
    (tmp_path / "builder" / "main.py").write_text(BUILDER)
    (tmp_path / "platform.json").write_text(json.dumps({"name": "native", "title": "Native", "version": "1.0.0"}))
    ours = (ROOT / "firmware_templates" / "platform" / "platform.py").read_text()
    (tmp_path / "platform.py").write_text(ours.replace("ShoehornPlatform", "NativePlatform"))
    settings = (folder / "platformio.ini").read_text()
    assert settings.count("platform = native\n") == 1
    (folder / "platformio.ini").write_text(settings.replace("= native\n", f"= symlink://{tmp_path}\n"))
    quiet = {"PLATFORMIO_CORE_DIR": str(tmp_path / "core"), "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no"}
    command = [sys.executable, "-m", "platformio", "run", "-e", "native", "-d", folder]
    done = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr

    program = folder / ".pio" / "build" / "native" / "program"
    told = run(program, cwd=tmp_path, given=(folder / "samples.csv").read_text())
    assert told.split() == ["still", "shake", "circle"]


@pytest.mark.parametrize("name", BOARDS)
def test_the_model_and_the_decision_compile_for_the_core_of_the_board(name: str, tree: Path, tmp_path: Path):
    folder = prepared(tree / name)
    source = tmp_path / "decide.c"
    source.write_text(
        '#include "decision.h"\nint decide(float x, float y, float z);\n'
        "int decide(float x, float y, float z)\n{\n    return decision_push(x, y, z);\n}\n"
    )
    library = folder / ("components/gesture" if name == "esp-idf" else "gesture") / "src"
    include = (f"-I{library}", f"-I{tree / 'gesture'}")
    made = compiled_all([*ZIG_CLANG, *CORES[name], *STRICT, *include], [source, *library.glob("*.c")], tmp_path)

    assert len(made) > 3


def test_zephyr_s_settings_switch_the_library_on(tree: Path):
    folder = prepared(tree / "zephyr")
    switches = re.findall(r"^config (\w+)$", (folder / "gesture" / "zephyr" / "Kconfig").read_text(), re.M)

    assert [f"CONFIG_{name}=y" for name in switches] == (folder / "prj.conf").read_text().splitlines()[:1]


ARDUINO = """
#pragma once
#include <stdint.h>
enum { LOW, HIGH, OUTPUT, LED_BUILTIN = 13 };
struct Port { void begin(unsigned long); void println(const char *); };
extern Port Serial;
void delay(unsigned long);
unsigned long millis();
void pinMode(uint8_t, uint8_t);
void digitalWrite(uint8_t, uint8_t);
"""
ACCELEROMETER = """
struct Accelerometer {
    int begin();
    int accelerationAvailable();
    int readAcceleration(float &, float &, float &);
};
extern Accelerometer IMU;
"""


@needs("g++")
@pytest.mark.parametrize("source", ["arduino/Gesture/Gesture.ino", "platformio/src/main.cpp"])
def test_a_sketch_has_right_syntax_and_types_for_stand_ins_of_the_sdk(source: str, tree: Path, tmp_path: Path):
    """Not for Arduino's own headers, which are not here."""
    library = prepared(tree / "arduino") / "gesture" / "src"
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    (tmp_path / "Arduino_LSM9DS1.h").write_text(ACCELEROMETER)
    words = ("-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-std=c++17", "-DARDUINO=10819", "-include", "Arduino.h")
    run(
        "g++",
        *words,
        f"-I{tmp_path}",
        f"-I{library}",
        f"-I{tree / 'gesture'}",
        "-x",
        "c++",
        tree / source,
        cwd=tmp_path,
    )


def _builds(name: str, program: str) -> object:
    return pytest.param(name, id=name, marks=needs(program))


@pytest.mark.parametrize(
    "name", [_builds("arduino", "arduino-cli"), _builds("zephyr", "west"), _builds("esp-idf", "idf.py")]
)
def test_an_app_builds_where_its_tools_are(name: str, tree: Path):
    done = subprocess.run([sys.executable, tree / "build.py", name], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def cells(notebook: Path) -> Sequence[str]:
    """The code of a notebook's cells."""
    return [
        "".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="the notebook validates on the board native")
@pytest.mark.skipif(not find_spec("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.skipif(not find_spec("onnxruntime"), reason="ONNX Runtime is not installed")
def test_every_cell_of_the_notebook_runs(tree: Path):
    folder = tree / "notebook"
    code = "\n\n".join(cells(folder / "digits.ipynb"))
    said = run(sys.executable, "-c", f"import matplotlib\n\nmatplotlib.use('agg')\n{code}", cwd=folder)

    assert "0 of 20 inferences differ" in said
    assert (folder / "made" / "pareto.png").read_bytes()[:4] == b"\x89PNG"
    right = int(said.split(" of 120 digits")[0].split()[-1])
    assert right > 100


def test_the_notebook_is_kept_without_results():
    kept = json.loads((EXAMPLES / "notebook" / "digits.ipynb").read_text())["cells"]

    assert [cell for cell in kept if cell.get("outputs") or cell.get("execution_count")] == []


def test_no_generated_code_is_kept_with_the_examples():
    listed = subprocess.run(["git", "ls-files", "examples"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    written = [name for name in listed.stdout.split() if "written by Shoehorn" in (ROOT / name).read_text()]

    assert written == [] and "examples/cmake/main.c" in listed.stdout
