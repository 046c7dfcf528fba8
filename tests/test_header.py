"""What the header tells a caller is true, in C and in C++; the arena is the library's or the caller's."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import emitted
import numpy as np
import pytest
from compilers import HOST, ZIG
from elftools.elf.elffile import ELFFile
from samples import random_inputs

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit.model.header import model_h
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.build import plan_model
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import DType

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")
DIGITS = MODELS / "digits.tflite"


def digits(**options: bool) -> Unit:
    return plan_model(DIGITS, None, Options(**options)).unit  # type: ignore[arg-type]


def printed(unit: Unit, folder: Path) -> dict[str, str]:
    """Every macro of the header without parameters, as a C program expands it."""
    emitted.put(emitted.library_of(unit), folder)
    header = (folder / "src" / f"{unit.name}.h").read_text()
    names = re.findall(rf"^#define ({unit.upper}_\w+) ", header, re.M)
    lines = "".join(f'    puts("{name}=" TEXT({name}));\n' for name in names)
    text = "#define SPELT(...) #__VA_ARGS__\n#define TEXT(...) SPELT(__VA_ARGS__)\n"
    (folder / "show.c").write_text(
        f'#include <stdio.h>\n#include "{unit.name}.h"\n{text}int main(void)\n{{\n{lines}    return 0;\n}}\n'
    )
    command = [*HOST, "-std=c11", *STRICT, f"-I{folder / 'src'}", str(folder / "show.c"), "-o", str(folder / "show")]
    subprocess.run(command, check=True, timeout=120)
    shown = subprocess.run([folder / "show"], capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in shown.splitlines())


@pytest.mark.parametrize("streamed", [False, True])
def test_the_header_says_what_the_graph_says_of_each_end(streamed: bool, tmp_path: Path):
    unit = digits(stream_input=streamed)
    said = printed(unit, tmp_path)

    for suffix, tensor in unit.ends():
        type_, stem = unit.type(tensor), f"DIGITS_{suffix.upper()}"
        shape = [int(n) for n in re.findall(r"\d+", said[f"{stem}_SHAPE"])]
        assert type_.quant is not None
        assert said[f"{stem}_TYPE"] == f"{type_.dtype.value}_t"
        assert (shape, int(said[f"{stem}_RANK"])) == (list(type_.shape), len(type_.shape))
        assert int(said[f"{stem}_ELEMENTS"]) == int(said[f"{stem}_BYTES"]) == int(np.prod(type_.shape))
        assert int(said[f"{stem}_ROWS"]) * int(said[f"{stem}_ROW_BYTES"]) == type_.bytes
        assert np.float32(said[f"{stem}_SCALE"].removesuffix("f")) == np.float32(type_.quant.scale)
        assert int(said[f"{stem}_ZERO_POINT"].strip("()")) == type_.quant.zero_point
    assert int(said["DIGITS_ARENA_BYTES"]) == unit.plan.arena_bytes
    assert int(said["DIGITS_ARENA_ALIGNMENT"]) == 16
    assert json.loads(said["DIGITS_GENERATOR_VERSION"]) == __version__


def test_the_header_names_the_model_file_by_its_hash(tmp_path: Path):
    said = printed(digits(), tmp_path)

    assert json.loads(said["DIGITS_MODEL_SHA256"]) == sha256(DIGITS.read_bytes()).hexdigest()


def test_a_float_output_has_no_scale(tmp_path: Path):
    unit = digits()
    (output,) = unit.graph.outputs
    tensor = unit.graph.tensors[output]
    changed = replace(tensor, type=replace(tensor.type, dtype=DType.FLOAT32, quant=None))
    graph = replace(unit.graph, tensors={**unit.graph.tensors, output: changed})

    text = model_h(replace(unit, graph=graph))
    assert "#define DIGITS_OUTPUT_TYPE float\n" in text
    assert "DIGITS_OUTPUT_SCALE" not in text
    assert "#define DIGITS_OUTPUT_BYTES 40\n" in text


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("options", [{}, {"caller_arena": True}, {"stream_input": True, "caller_arena": True}])
def test_c_and_cpp_callers_compile_without_a_warning(language: str, options: dict[str, bool], tmp_path: Path):
    unit = digits(**options)
    emitted.put(emitted.library_of(unit), tmp_path)
    arena = "_Alignas(DIGITS_ARENA_ALIGNMENT)" if language == "c" else "alignas(DIGITS_ARENA_ALIGNMENT)"
    calls = "digits_push_row(image[0]);" if unit.streamed else "digits_input()[0] = image[0][0]; digits_run();"
    init = f"{arena} static uint8_t memory[DIGITS_ARENA_BYTES];" if unit.caller_arena else ""
    (tmp_path / "user").write_text(
        f'#include "digits.h"\n{init}\n'
        "typedef DIGITS_INPUT_TYPE row[DIGITS_INPUT_ROW_BYTES];\n"
        "static const row image[DIGITS_INPUT_ROWS] = {{DIGITS_INPUT_ZERO_POINT}};\n"
        "static const int32_t shape[DIGITS_INPUT_RANK] = DIGITS_INPUT_SHAPE;\n"
        f"int main(void)\n{{\n    {'digits_init(memory);' if init else ''}\n    {calls}\n"
        "    float real = DIGITS_OUTPUT_SCALE * (float)(digits_output()[0] - DIGITS_OUTPUT_ZERO_POINT);\n"
        "    return real > 2.0f || shape[1] != DIGITS_INPUT_ROWS;\n}\n"
    )
    driver, standard = (ZIG, "-std=c11") if language == "c" else ([ZIG[0], "c++"], "-std=c++17")
    command = [*driver, "-x", language, standard, *STRICT, f"-I{tmp_path / 'src'}", "-c", str(tmp_path / "user")]
    done = subprocess.run([*command, "-o", str(tmp_path / "o")], capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_callers_arena_gives_the_same_bytes_as_a_static_one(streamed: bool, tmp_path: Path):
    unit = digits(stream_input=streamed)
    vectors = [random_inputs(unit.graph, np.random.default_rng(i)) for i in range(3)]
    results = []
    for caller in (False, True):
        made = replace(unit, caller_arena=caller)
        program = emitted.compile_library(made, tmp_path / str(caller))
        results.append(emitted.run(made, program, vectors))

    for static, owned in zip(*results, strict=True):
        assert all(np.array_equal(static[name], owned[name]) for name in static)


def _symbols(path: Path) -> dict[str, tuple[int, str]]:
    """By name: size of a symbol and the section that holds it."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        placed = [s for s in table.iter_symbols() if isinstance(s["st_shndx"], int)]
        return {s.name: (s["st_size"], elf.get_section(s["st_shndx"]).name) for s in placed}


def test_the_arena_goes_into_the_section_that_the_build_names(tmp_path: Path):
    unit = digits()
    emitted.put(emitted.library_of(unit), tmp_path)
    for flags, section in (((), ".bss"), (('-DDIGITS_ARENA_SECTION=".bss.dtcm"',), ".bss.dtcm")):
        source = str(tmp_path / "src" / "digits.c")
        subprocess.run([*HOST, *flags, "-c", source, "-o", str(tmp_path / "o")], check=True, timeout=120)

        assert _symbols(tmp_path / "o")["arena"] == (unit.plan.arena_bytes, section)


def test_with_a_callers_arena_the_library_keeps_one_pointer(tmp_path: Path):
    unit = digits(caller_arena=True)
    emitted.put(emitted.library_of(unit), tmp_path)
    subprocess.run(
        [*HOST, "-c", str(tmp_path / "src" / "digits.c"), "-o", str(tmp_path / "o")], check=True, timeout=120
    )
    written = {name: size for name, (size, section) in _symbols(tmp_path / "o").items() if section in (".bss", ".data")}

    assert {name: size for name, size in written.items() if name and size} == {"arena": 8}
