"""Many generated models in one program, compiled with sanitizers: the kernels once, each model as one file.

The program reads a model's number and its inputs, runs it and writes the outputs, again and again until its input ends.
"""

from __future__ import annotations

import atexit
import io
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from compilers import HOST, SANITIZERS, WARNINGS
from instances import PREFIX, write_instances
from objects import compiled_all

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.folder.library import kernels
from shoehorn_mcu.emit.kernels.kernel_files import header_name
from shoehorn_mcu.emit.model.header import model_h
from shoehorn_mcu.emit.model.source import model_c
from shoehorn_mcu.emit.model.weights import constants, weights_c, weights_h
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Array

_DRIVER = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void take(void *place, unsigned long bytes);
void give(const void *place, unsigned long bytes);

void take(void *place, unsigned long bytes)
{
    if (fread(place, 1, bytes, stdin) != bytes) {
        exit(1);
    }
}

void give(const void *place, unsigned long bytes)
{
    fwrite(place, 1, bytes, stdout);
}
"""


def _compile(sources: Sequence[Path], folder: Path, optimise: str) -> list[Path]:
    """Objects of the sources; a compiler's word is an AssertionError."""
    flags = (*WARNINGS, optimise, "-g", "-fPIC", "-fno-omit-frame-pointer", *SANITIZERS)
    return compiled_all((*HOST, *flags, f"-I{folder}"), sources, folder)


@cache
def compile_kernels() -> list[Path]:
    """Objects of all portable kernels, with sanitizers, for programs and for libraries."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _compile(write_instances(folder), folder, "-O0")


def _turn(unit: Unit) -> str:
    """One inference as C: inputs from stdin, outputs to stdout."""
    ends = [(kind.startswith("input"), kind, unit.type(tensor).bytes) for kind, tensor in unit.ends()]
    gives = [f"give({unit.name}_{kind}(), {size});" for is_input, kind, size in ends if not is_input]
    if unit.streamed:
        row = f"void *row = {unit.name}_next_row();"
        push = f"take(row, {unit.upper}_INPUT_ROW_BYTES);\n{unit.name}_push_row(row);"
        return "\n".join((f"for (int y = 0; y < {unit.upper}_INPUT_ROWS; y++) {{\n{row}\n{push}\n}}", *gives))
    takes = [f"take({unit.name}_{kind}(), {size});" for is_input, kind, size in ends if is_input]
    return "\n".join((*takes, f"{unit.name}_run();", *gives))


def _write(unit: Unit, folder: Path) -> Path:
    """The model's files; gives the one that includes the others. All call the same kernels, compiled once."""
    unit, found = replace(unit, kernels=PREFIX), constants(unit)
    texts = {".h": model_h(unit), "_weights.h": weights_h(unit, found), "_weights.c": weights_c(unit, found)}
    for end, text in {**texts, ".c": model_c(unit, found)}.items():
        (folder / f"{unit.name}{end}").write_text(text)
    (folder / header_name(unit.name)).write_bytes(kernels(unit)[f"src/{header_name(unit.name)}"])
    top = folder / f"{unit.name}_all.c"
    top.write_text(
        f'#include "{unit.name}_weights.c"\n#include "{unit.name}.c"\n'
        "void take(void *place, unsigned long bytes);\nvoid give(const void *place, unsigned long bytes);\n"
        f"void {unit.name}_turn(void);\nvoid {unit.name}_turn(void)\n{{\n{_turn(unit)}\n}}\n"
    )
    return top


def _main(units: Sequence[Unit]) -> str:
    names = [unit.name for unit in units]
    return "\n".join(
        (
            _DRIVER,
            *(f"void {name}_turn(void);" for name in names),
            f"static void (*const turns[])(void) = {{{', '.join(f'{name}_turn' for name in names)}}};",
            f"static const char *const names[] = {{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}}};",
            "int main(void)\n{\n    uint32_t number;",
            "    while (fread(&number, sizeof number, 1, stdin) == 1) {",
            '        fprintf(stderr, "%s\\n", names[number]);\n        turns[number]();\n    }\n    return 0;\n}\n',
        )
    )


_CORES = """#include "sh/cores/sh_cores.h"

void sh_cores_run(sh_cores_part *part, int32_t step, int32_t cores)
{
    while (cores-- > 0) {
        part(step, cores);
    }
}
"""  # the parts of several cores, the last one first


class ManyModels:
    """The program of some units, whose names differ."""

    def __init__(self, units: Sequence[Unit], kernels: Sequence[Path], folder: Path) -> None:
        self._units = units
        (folder / "sh").symlink_to(RUNTIME_C)
        driver = folder / "driver.c"
        driver.write_text(_main(units) + _CORES)
        objects = _compile([driver, *(_write(unit, folder) for unit in units)], folder, "-O0")
        self._program = folder / "program"
        response = folder / "objects"
        response.write_text("\n".join(map(str, (*objects, *kernels))))
        command = [*HOST, *SANITIZERS, f"@{response}", "-o", str(self._program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]

    def run(self, turns: Sequence[tuple[int, Mapping[str, Array]]], timeout: float = 300) -> list[dict[str, Array]]:
        """The outputs, by name, of each (place of the unit, its inputs); a sanitizer's word is an AssertionError."""
        sent = b"".join(struct.pack("=I", place) + _inputs(self._units[place], inputs) for place, inputs in turns)
        done = subprocess.run([self._program], input=sent, capture_output=True, timeout=timeout, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-4000:]
        stream = io.BytesIO(done.stdout)
        found = [_outputs(self._units[place], stream) for place, _ in turns]
        assert not stream.read(1)
        return found


def _inputs(unit: Unit, inputs: Mapping[str, Array]) -> bytes:
    return b"".join(np.ascontiguousarray(inputs[name]).tobytes() for name in unit.graph.inputs)


def _outputs(unit: Unit, stream: io.BytesIO) -> dict[str, Array]:
    types = {name: unit.type(name) for name in unit.graph.outputs}
    return {n: np.frombuffer(stream.read(t.bytes), t.dtype.numpy).reshape(t.shape) for n, t in types.items()}
