"""A library in one C file and its header: what it computes, which compilers take it, and how the files are written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import emitted
import numpy as np
import pytest
from compilers import HOST, Compiler, each_compiler
from elftools.elf.elffile import ELFFile
from instances import PREFIX, instances
from samples import random_inputs, sample
from shared import MODELS, needs_shared
from test_cli_project import DIGITS, files_of, gen, refused
from test_cores import THREADS, digits

from shoehorn_mcu.emit.folder.single_file import Kernels, hushed, single_file
from shoehorn_mcu.emit.kernels.amalgam import Amalgam
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.build import Options, plan_model
from shoehorn_mcu.ir import Graph, verify
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import OPS

PEDANTIC = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-O1")
TARGETS = ("zig-host", "gcc-host", "gcc-cortex-m0", "gcc-riscv64", "gcc-riscv32", "gcc-avr", "gcc-xtensa")


def side_by_side(graphs: Sequence[Graph]) -> Graph:
    """One graph of all of them."""
    tensors, ops = {}, []
    for i, graph in enumerate(graphs):
        at = {old: f"{old}_{i}" for old in graph.tensors}
        tensors |= {at[t.name]: replace(t, name=at[t.name]) for t in graph.tensors.values()}
        named = ((op, tuple(at[n] for n in op.inputs), at[op.output]) for op in graph.ops)
        ops += [replace(op, name=f"{op.name}_{i}", inputs=x, output=y) for op, x, y in named]
    ends = ([f"{n}_{i}" for i, g in enumerate(graphs) for n in names(g)] for names in (_inputs, _outputs))
    return verify(Graph("all", tensors, tuple(ops), *map(tuple, ends)))


def _inputs(graph: Graph) -> tuple[str, ...]:
    return graph.inputs


def _outputs(graph: Graph) -> tuple[str, ...]:
    return graph.outputs


@cache
def every_op() -> Unit:
    """A model with two samples of every op, for which many kernels have functions and types of one name."""
    kinds = [op for op in OPS if not op.view]
    return emitted.unit_of(side_by_side([sample(op, np.random.default_rng(s)) for op in kinds for s in (3, 4)]))


@cache
def shipped() -> Unit:
    return plan_model(DIGITS, None, Options(sram_bytes=1500)).unit


def test_all_kernels_in_one_file_compute_what_they_do_each_in_its_own(tmp_path: Path):
    unit = every_op()
    vectors = [random_inputs(unit.graph, np.random.default_rng(seed)) for seed in range(3)]
    one, many = (
        emitted.run(unit, emitted.compile_library(unit, tmp_path / name, files=files), vectors)
        for name, files in (("one", emitted.single_file_of), ("many", emitted.library_of))
    )

    assert len({stage.kernel.name for stage in unit.stages}) > 45
    for a, b, vector in zip(one, many, vectors, strict=True):
        wanted = emitted.expected(unit.graph, vector)
        assert {n: t.tobytes() for n, t in a.items()} == {n: t.tobytes() for n, t in b.items()}
        assert {n: t.tobytes() for n, t in a.items()} == {n: t.tobytes() for n, t in wanted.items()}


@pytest.mark.parametrize(
    "options",
    [
        Options(stream_input=True),
        Options(caller_arena=True, sram_bytes=1500),
        Options(top=3, classes=tuple("0123456789")),
    ],
    ids=["rows in", "caller's arena", "classes"],
)
def test_every_interface_is_that_of_the_folder(options: Options, tmp_path: Path):
    planned = plan_model(DIGITS, None, options)
    unit, rng = planned.unit, np.random.default_rng(5)
    vectors = [{n: rng.integers(-128, 128, unit.type(n).shape, np.int8) for n in unit.graph.inputs} for _ in range(3)]
    one, many = (
        emitted.run(unit, emitted.compile_library(unit, tmp_path / name, files=files), vectors)
        for name, files in (("one", emitted.single_file_of), ("many", emitted.library_of))
    )

    assert [{n: t.tobytes() for n, t in v.items()} for v in one] == [
        {n: t.tobytes() for n, t in v.items()} for v in many
    ]
    files = single_file(unit, planned.constants)
    assert set(files) == {"digits.c", "digits.h"}
    assert b'"sh/' not in b"".join(files.values())


def test_several_cores_need_nothing_but_the_header(tmp_path: Path):
    unit = digits(3)
    hook = THREADS.replace('"sh/cores/sh_cores.h"', '"digits.h"')
    emitted.put({"hook.c": hook.encode()}, tmp_path)
    program = emitted.compile_library(unit, tmp_path, flags=("-O1", "-pthread"), files=emitted.single_file_of)
    rng = np.random.default_rng(0)
    (name,) = unit.graph.inputs
    vector = {name: rng.integers(-128, 128, unit.type(name).shape, np.int8)}

    (found,) = emitted.run(unit, program, [vector])
    assert {n: t.tobytes() for n, t in found.items()} == {
        n: t.tobytes() for n, t in emitted.expected(unit.graph, vector).items()
    }


@each_compiler(*TARGETS)
def test_no_compiler_has_a_word_to_say(compiler: Compiler, tmp_path: Path):
    unit = shipped()
    emitted.put(single_file(unit, constants(unit)), tmp_path)

    compiler.run(*PEDANTIC, sources=[tmp_path / "digits.c"], folder=tmp_path)


@needs_shared
@each_compiler("gcc-cortex-m4")
def test_the_core_that_most_boards_have_is_compiled_as_users_do(compiler: Compiler, tmp_path: Path):
    """With -O2 gcc follows addresses into arrays; what it knows of a layer's constants then is what it warns of."""
    planned = plan_model(MODELS / "mlperf-ic-resnet8-int8.tflite", None, Options(cpu="cortex-m4f"))
    emitted.put(single_file(planned.unit, planned.constants), tmp_path)

    bodies = {stage.kernel.variant.body for stage in planned.unit.stages}
    assert {"simd32_row", "simd32_toom", "simd32_toom_strided"} <= bodies
    compiler.run(*PEDANTIC, "-O2", sources=[*tmp_path.glob("*.c")], folder=tmp_path)


@each_compiler(*TARGETS, long=("zig-host", "gcc-cortex-m0", "gcc-riscv64", "gcc-xtensa"))
def test_no_compiler_has_a_word_to_say_of_all_kernels(compiler: Compiler, tmp_path: Path):
    unit = every_op()
    emitted.put(single_file(unit, constants(unit)), tmp_path)

    if compiler.name == "gcc-avr":
        with pytest.raises(
            AssertionError, match=r"of constants and \d+ of arena, more than the 16-bit addresses of AVR"
        ):
            compiler.run(*PEDANTIC, sources=[tmp_path / "all_model.c"], folder=tmp_path)
    else:
        compiler.run(*PEDANTIC, sources=[tmp_path / "all_model.c"], folder=tmp_path)


ISAS = {
    "gcc-cortex-m4": (Isa.SIMD32, Isa.THUMB, Isa.FPU),
    "zig-cortex-m55": (Isa.MVE, Isa.SIMD32),
    "zig-cortex-a53": (Isa.NEON, Isa.VECTORS),
}


@each_compiler(*ISAS)
def test_kernels_of_every_instruction_set_have_room_in_one_file(compiler: Compiler, tmp_path: Path):
    """All of them at once: no two definitions of a name, and none that nothing uses."""
    listed = [kernel for isa in ISAS[compiler.name] for kernel in instances(isa)]
    amalgam = Amalgam.of(listed, PREFIX, alone=True)
    heads = dict.fromkeys(head for kernel in amalgam.kernels for head in kernel.heads)
    systems = sorted({name for kernel in amalgam.kernels for name in kernel.systems} | {"<stddef.h>", "<stdint.h>"})
    texts = Kernels(amalgam, (), {kernel.symbol: "0" for kernel in amalgam.kernels}).texts()
    users = [f"void use_{k.symbol}(void *f[]) {{ f[0] = (void *)(uintptr_t){k.symbol}; }}" for k in amalgam.kernels]
    includes = [f"#include {name}" for name in systems] + [hushed(amalgam)]
    (tmp_path / "all.c").write_text("\n\n".join([*heads, *includes, *texts, *users]) + "\n")

    least = "-O0" if compiler.name.startswith("gcc") else "-fsyntax-only"  # by which it tells what nothing uses
    compiler.run(*PEDANTIC, least, sources=[tmp_path / "all.c"], folder=tmp_path)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two libraries of one file each in a folder, and their objects."""
    folder = tmp_path_factory.mktemp("two")
    for name, options in (("one", Options()), ("two", Options(sram_bytes=1500))):
        shutil.copy(DIGITS, folder / f"{name}.tflite")
        planned = plan_model(folder / f"{name}.tflite", None, options)
        emitted.put(single_file(planned.unit, planned.constants), folder)
        subprocess.run([*HOST, *PEDANTIC, "-c", f"{name}.c"], cwd=folder, check=True)
    return folder


def test_two_of_them_link_together_and_c_plus_plus_includes_both_headers(two: Path):
    rng = np.random.default_rng(3)
    image = rng.integers(-128, 128, 64, np.int8)
    numbers = ", ".join(map(str, image))
    runs = "".join(
        f"    std::memcpy({name}_input(), image, 64);\n    {name}_run();\n"
        f'    for (int i = 0; i < 10; i++) std::printf("%d ", {name}_output()[i]);\n'
        for name in ("one", "two")
    )
    main = (
        '#include "one.h"\n#include "two.h"\n#include "one.h"\n#include <cstdio>\n#include <cstring>\n'
        f"static const signed char image[64] = {{{numbers}}};\nint main()\n{{\n{runs}}}\n"
    )
    (two / "main.cpp").write_text(main)
    compiler = ("g++",) if HOST == ("gcc",) and shutil.which("g++") else (*HOST[:-1], "c++")
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    command = [*compiler, "-std=c++14", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "main.cpp", "one.o", "two.o"]
    subprocess.run([*command, "-o", "main"], cwd=two, check=True)
    said = subprocess.run([two / "main"], capture_output=True, text=True, check=True).stdout.split()
    graph = shipped().graph
    (wanted,) = emitted.expected(
        graph, {graph.inputs[0]: image.reshape(graph.tensors[graph.inputs[0]].type.shape)}
    ).values()

    assert said[:10] == said[10:] == [str(v) for v in wanted.ravel()]


def test_nothing_but_the_interface_is_global(two: Path):
    for name in ("one", "two"):
        with (two / f"{name}.o").open("rb") as file:
            symbols = list(ELFFile(file).get_section_by_name(".symtab").iter_symbols())
        shown = {s.name for s in symbols if s["st_info"]["bind"] != "STB_LOCAL" and s["st_shndx"] != "SHN_UNDEF"}
        assert shown == {f"{name}_run", f"{name}_input", f"{name}_output"}


def test_the_file_reads_in_order_and_shows_where_tensors_are():
    unit = shipped()
    text = single_file(unit, constants(unit))["digits.c"].decode()
    headings = re.findall(r"^// =+\n// (\d)\. (\w+)", text, re.M)
    bars = re.findall(r"^//   \|([# ]{48})\| (input|op \d+) to (op \d+|output) +t(\d+) '", text, re.M)

    assert headings == [("1", "Interface"), ("2", "Memory"), ("3", "Constants"), ("4", "Kernels"), ("5", "Steps")]
    assert {len(line) for line in text.splitlines() if re.fullmatch(r"// (=+|-+)", line)} == {100}
    assert {int(number) for *_, number in bars} == {unit.number[tensor] for tensor in unit.editions}
    for bar, _, _, number in bars:
        tensor = next(name for name, n in unit.number.items() if n == int(number))
        used = {p.at(y) * 48 // unit.plan.arena_bytes for p in unit.editions[tensor] for y in range(p.rows)}
        assert all(bar[column] == "#" for column in used)


def test_no_compiler_may_contract_floats_anywhere_in_the_file():
    unit = every_op()
    text = single_file(unit, constants(unit))["all_model.c"].decode()

    assert text.count("#pragma STDC FP_CONTRACT OFF") == text.count('#pragma GCC optimize("fp-contract=off")') == 1
    assert text.index("#pragma GCC optimize") < text.index("#include")


def test_the_command_writes_two_files_beside_those_that_are_there(tmp_path: Path):
    (tmp_path / "main.c").write_text("mine")
    done = gen("library", DIGITS, "--single-file", "--sram", "1500", "--out", tmp_path, "--json")

    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert said["plan"]["arena_bytes"] <= 1500
    planned = plan_model(DIGITS, None, Options(sram_bytes=1500))
    assert files_of(tmp_path) == {"main.c": b"mine", **single_file(planned.unit, planned.constants)}
    other = json.loads(gen("library", DIGITS, "--sram", "1500", "--out", tmp_path / "many", "--json").stdout)
    assert said.keys() == other.keys()
    assert said["plan"].keys() == other["plan"].keys()


def test_what_was_changed_is_replaced_only_by_force(tmp_path: Path):
    arguments = ("library", DIGITS, "--single-file", "--out", tmp_path)
    assert gen(*arguments).exit_code == 0
    before = files_of(tmp_path)
    assert gen(*arguments).exit_code == 0
    source = tmp_path / "digits.c"
    source.write_bytes(before["digits.c"].replace(b"Written", b"Changed", 1))

    assert "others changed since: digits.c; nothing was written, --force replaces them" in refused(*arguments)
    assert files_of(tmp_path) == {**before, "digits.c": source.read_bytes()}
    assert gen(*arguments, "--force").exit_code == 0
    assert files_of(tmp_path) == before


PLACES = [
    ("many", "holds a library or a project of many files; name another --out"),
    ("file", "is a file; name a folder with --out"),
    ("taken", "digits.h: is no plain file; name another --out"),
]


@pytest.mark.parametrize(("name", "said"), PLACES)
def test_a_place_for_other_things_is_refused_in_one_line(name: str, said: str, tmp_path: Path):
    if name == "many":
        assert gen("library", DIGITS, "--out", tmp_path / "many").exit_code == 0
    elif name == "taken":
        (tmp_path / "taken" / "digits.h").mkdir(parents=True)
    else:
        (tmp_path / "file").write_text("mine")
    before = files_of(tmp_path)

    assert said in refused("library", DIGITS, "--single-file", "--out", tmp_path / name)
    assert files_of(tmp_path) == before


def test_several_models_are_told_that_their_libraries_link(tmp_path: Path):
    done = gen("library", DIGITS, "--single-file", "--concurrent", "--out", tmp_path / "l")

    assert done.exit_code == 2
    assert "--concurrent belongs to gen firmware, which takes several models; libraries of several" in done.stderr
    assert not (tmp_path / "l").exists()
