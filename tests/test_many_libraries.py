"""Several libraries in one program: no name is shared, and each runs its own kernels whatever else is linked."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import emitted
import numpy as np
import pytest
from compilers import HOST
from elftools.elf.elffile import ELFFile

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.build import alone
from shoehorn_mcu.firmware.settings import Options

ALTERED = (  # path, text, text of the other version: in a header and in a kernel's body
    ("src/sh/include/sh_quant.h", "high - zero) + zero);", "high - zero) + zero) / 2;"),
    ("src/sh/kernels/dense_s8/dense_s8_c.inc", "op->y_zero", "op->y_zero + 1"),
)
IMAGE = np.random.default_rng(3).integers(-128, 128, 64, np.int8)


@dataclass(frozen=True)
class Library:
    """One of the program's libraries, written to `folder`."""

    unit: Unit
    folder: Path

    @property
    def sources(self) -> list[str]:
        return [str(path) for path in sorted((self.folder / "src").rglob("*.c"))]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Library]:
    """The shipped model three times: whole, streamed, and with a caller's arena by an altered runtime."""
    folder = tmp_path_factory.mktemp("libraries")
    options = {
        "one": Options(),
        "two": Options(stream_input=True),
        "odd": Options(sram_bytes=1500, caller_arena=True),
    }
    made = []
    for name, each in options.items():
        shutil.copy(MODELS / "digits.tflite", folder / f"{name}.tflite")
        planned, files = alone(folder / f"{name}.tflite", each)
        changed = dict(files)
        if name == "odd":
            for path, old, new in ALTERED:
                assert old in changed[path].decode()
                changed[path] = changed[path].decode().replace(old, new).encode()
        made.append(Library(planned.unit, emitted.put(changed, folder / name)))
    return made


def program(libraries: list[Library]) -> str:
    """C that runs each of them on the same image and prints the outputs, one line for each."""
    includes = "".join(f'#include "{lib.unit.name}.h"\n' for lib in libraries)
    owned = [lib.unit for lib in libraries if lib.unit.caller_arena]
    arenas = "".join(f"static _Alignas(16) uint8_t {u.name}_arena[{u.upper}_ARENA_BYTES];\n" for u in owned)
    runs = "".join(run_of(lib.unit) for lib in libraries)
    return (
        f"#include <stdio.h>\n#include <string.h>\n{includes}{arenas}"
        f"static const int8_t image[64] = {{{', '.join(map(str, IMAGE))}}};\n"
        "static void show(const int8_t *likely)\n{\n"
        '    for (int i = 0; i < 10; i++) {\n        printf("%d ", likely[i]);\n    }\n    puts("");\n}\n'
        f"int main(void)\n{{\n{runs}    return 0;\n}}\n"
    )


def run_of(unit: Unit) -> str:
    init = f"    {unit.name}_init({unit.name}_arena);\n" if unit.caller_arena else ""
    if unit.streamed:
        feed = f"    for (int y = 0; y < 8; y++) {{\n        {unit.name}_push_row(image + 8 * y);\n    }}\n"
    else:
        feed = f"    memcpy({unit.name}_input(), image, 64);\n    {unit.name}_run();\n"
    return f"{init}{feed}    show({unit.name}_output());\n"


def command(*words: str, cwd: Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def compiled(libraries: list[Library], folder: Path) -> dict[str, list[str]]:
    """The objects of each library, all of them compiled with every library's `src/` on the include path."""
    paths = [f"-I{lib.folder / 'src'}" for lib in reversed(libraries)]  # the altered one first
    objects: dict[str, list[str]] = {}
    for lib in libraries:
        place = folder / lib.unit.name
        place.mkdir()
        command(*HOST, "-std=c11", "-O1", "-Werror", "-Wall", *paths, "-c", *lib.sources, cwd=place)
        objects[lib.unit.name] = [str(path) for path in sorted(place.glob("*.o"))]
    (folder / "main.c").write_text(program(libraries))
    command(*HOST, "-std=c11", *paths, "-c", "main.c", cwd=folder)
    return objects


def lines(folder: Path) -> list[str]:
    return subprocess.run([folder / "a.out"], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def each_alone(libraries: list[Library], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each library says in a program of its own."""
    said = []
    for lib in libraries:
        folder = tmp_path_factory.mktemp(lib.unit.name)
        objects = compiled([lib], folder)
        command(*HOST, "main.o", *objects[lib.unit.name], "-o", "a.out", cwd=folder)
        said += lines(folder)
    return said


def test_the_altered_runtime_is_altered(libraries: list[Library], each_alone: list[str]):
    graph = libraries[0].unit.graph
    (name,) = graph.inputs
    (right,) = emitted.expected(graph, {name: IMAGE.reshape(1, 8, 8, 1)}).values()
    wanted = " ".join(map(str, right.ravel().tolist()))

    assert [line.strip() for line in each_alone[:2]] == [wanted, wanted]
    assert each_alone[2].strip() != wanted


def test_plain_objects_of_all_link_and_each_gives_its_own_results(
    libraries: list[Library], each_alone: list[str], tmp_path: Path
):
    objects = compiled(libraries, tmp_path)
    command(*HOST, "main.o", *(o for some in objects.values() for o in some), "-o", "a.out", cwd=tmp_path)

    assert lines(tmp_path) == each_alone


@pytest.mark.parametrize("order", [1, -1], ids=["altered last", "altered first"])
def test_whole_archives_of_all_link_and_each_gives_its_own_results(
    order: int, libraries: list[Library], each_alone: list[str], tmp_path: Path
):
    objects = compiled(libraries, tmp_path)
    for name, some in objects.items():
        command("ar", "rcs", f"lib{name}.a", *some, cwd=tmp_path)
    archives = [f"lib{name}.a" for name in list(objects)[::order]]
    whole = ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive"]
    command(*HOST, "main.o", *whole, "-o", "a.out", cwd=tmp_path)

    assert lines(tmp_path) == each_alone


def test_every_global_name_of_a_library_begins_with_the_model_s(libraries: list[Library], tmp_path: Path):
    for name, objects in compiled(libraries, tmp_path).items():
        defined = set()
        for path in objects:
            with Path(path).open("rb") as file:
                symbols = ELFFile(file).get_section_by_name(".symtab").iter_symbols()
                shown = [s for s in symbols if s["st_info"]["bind"] != "STB_LOCAL" and s["st_shndx"] != "SHN_UNDEF"]
                defined |= {symbol.name for symbol in shown}

        assert len(defined) > 10
        assert {symbol for symbol in defined if not symbol.startswith(f"{name}_")} == set()
