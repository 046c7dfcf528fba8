"""The C inside the planner as C: warnings, and long walks under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from compilers import GCC, SANITIZERS, WARNINGS, ZIG

from shoehorn_mcu import planner

PLANNER = Path(planner.__file__).parent
WALKS = Path(__file__).parent / "c"
SOURCES = sorted(PLANNER.rglob("*.c"))


@pytest.mark.parametrize("compiler", [GCC, ZIG], ids=["gcc", "zig"])
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(PLANNER)))
def test_it_compiles_without_a_warning(source: Path, compiler: tuple[str, ...], tmp_path: Path):
    if not shutil.which(compiler[0]):
        pytest.skip(f"{compiler[0]} is not installed")
    command = [*compiler, *WARNINGS, "-O2", "-c", str(source), "-o", str(tmp_path / "made.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("placement/allocate", "every placement lay apart\n"),
        ("placement/sweep", "every placement lay apart\n"),
        ("remat", "every undo restored the sums\n"),
        ("order", "no order was below a bound\n"),
    ],
)
def test_a_long_walk_has_no_fault_that_sanitizers_see(folder: str, said: str, tmp_path: Path):
    if not shutil.which(GCC[0]):
        pytest.skip("gcc is not installed")
    program, walk, sources = (
        tmp_path / "walk",
        WALKS / f"{Path(folder).name}_walk.c",
        sorted((PLANNER / folder).glob("*.c")),
    )
    command = [*GCC, *WARNINGS, "-O1", "-g", *SANITIZERS, f"-I{PLANNER / folder}", str(walk), *map(str, sources), "-lm"]
    made = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True, check=False)
    if "cannot find" in made.stderr:
        pytest.skip("gcc's sanitizers are not installed")
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=False)

    assert (ran.returncode, ran.stdout) == (0, said), ran.stderr
