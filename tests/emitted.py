"""Builds a generated library for this machine and runs it: stdin takes inputs, stdout gives outputs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from compilers import HOST, WARNINGS
from objects import compiled_all
from random_plans import with_rows_again

from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.folder.single_file import single_file
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.planner import make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages


def unit_of(graph: Graph, stream_input: bool = False, stream_output: bool = False) -> Unit:
    """The graph with portable kernels and a plan, without passes."""
    chosen = stages(graph)
    problem = lower(graph, chosen, None, stream_input, stream_output=stream_output)
    return Unit(library_name(graph.name), graph, chosen, make_plan(problem))


def again_unit_of(graph: Graph, stream_input: bool = False) -> Unit:
    """The same with rows computed again at random, which lie elsewhere then."""
    chosen = stages(graph)
    plan = with_rows_again(lower(graph, chosen, None, stream_input), np.random.default_rng(1))
    return Unit(library_name(graph.name), graph, chosen, plan)


def library_of(unit: Unit) -> Bundle:
    return library(unit, constants(unit))


def put(bundle: Bundle, folder: Path) -> Path:
    """Writes the files below `folder`."""
    for path, data in bundle.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def _arena(unit: Unit) -> tuple[str, str]:
    """Definition and hand-over of the arena where it is the caller's."""
    if not unit.caller_arena:
        return "", ""
    alignment, names = f"{unit.upper}_ARENA_ALIGNMENT", [f"memory{i}" for i in range(len(unit.arenas))]
    sizes = (f"{arena.macro}_BYTES" for arena in unit.arenas.values())
    arrays = (
        f"static _Alignas({alignment}) uint8_t {name}[{size}];\n" for name, size in zip(names, sizes, strict=True)
    )
    return "".join(arrays), f"    {unit.name}_init({', '.join(names)});\n"


def _driver(unit: Unit) -> str:
    """A program that runs vector after vector."""
    arena, init = _arena(unit)
    reads = [f"fread({unit.name}_{s}(), {unit.type(t).bytes}, 1, stdin) == 1" for s, t in unit.ends() if "input" in s]
    if unit.streamed:
        return _streaming_driver(unit)
    writes = _writes(unit)
    return (
        f'#include <stdio.h>\n#include "{unit.name}.h"\n{arena}{_on_row(unit)}'
        f"int main(void)\n{{\n{init}    while ({' && '.join(reads)}) {{\n"
        f"        {unit.name}_run();\n        {' '.join(writes)}\n    }}\n    return 0;\n}}\n"
    )


def _writes(unit: Unit) -> list[str]:
    """The statements that write the outputs that are whole."""
    ends = [(s, t) for s, t in unit.whole_ends() if "output" in s]
    return [f"fwrite({unit.name}_{s}(), {unit.type(t).bytes}, 1, stdout);" for s, t in ends]


def _on_row(unit: Unit) -> str:
    """The function that writes rows of an output that is handed out, and sees to their order."""
    if unit.handed_out is None:
        return ""
    name, upper = unit.name, unit.upper
    return f"""#include <stdlib.h>
static int on = 1;
void {name}_on_row(int32_t y, const void *row)
{{
    static int32_t next;
    next = y == 0 ? 0 : next;
    if (y != next++) {{
        abort();
    }}
    if (on) {{
        fwrite(row, {upper}_OUTPUT_ROW_BYTES, 1, stdout);
    }}
}}
"""


def _streaming_driver(unit: Unit) -> str:
    """The same by rows. Every other row is written in place, and the first inference is begun once in vain."""
    name, upper = unit.name, unit.upper
    off, on = ("on = 0;", "on = 1;") if unit.handed_out else ("", "")
    arena, init = _arena(unit)
    return f"""#include <stdio.h>
#include <stdlib.h>
#include "{name}.h"
{arena}{_on_row(unit)}int main(void)
{{
{init}    void *row = calloc(1, {upper}_INPUT_ROW_BYTES);
    {off}
    {name}_push_row(row);
    {name}_reset();
    {on}
    for (long y = 0;; y++) {{
        void *place = y % 2 ? {name}_next_row() : row;
        if (fread(place, {upper}_INPUT_ROW_BYTES, 1, stdin) != 1) {{
            break;
        }}
        {name}_push_row(place);
        if ((y + 1) % {upper}_INPUT_ROWS == 0) {{
            {" ".join(_writes(unit))}
        }}
    }}
    free(row);
    return 0;
}}
"""


def single_file_of(unit: Unit) -> Bundle:
    """The library in one file, where that of a folder has its sources."""
    return {f"src/{path}": text for path, text in single_file(unit, constants(unit)).items()}


def compile_library(
    unit: Unit,
    folder: Path,
    compiler: Sequence[str] = HOST,
    flags: Sequence[str] = ("-O1",),
    files: Callable[[Unit], Bundle] = library_of,
) -> Path:
    """The program of the unit's library, built below `folder`; a compiler's word fails the test."""
    put(files(unit), folder)
    (folder / "driver.c").write_text(_driver(unit))
    command = [*compiler, *WARNINGS, *flags]
    made = compiled_all([*command, f"-I{folder / 'src'}"], sorted(folder.rglob("*.c")), folder)
    program = folder / "program"
    command += [*map(str, made), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return program


def run(unit: Unit, program: Path, vectors: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    """The outputs, by tensor name, of each vector of inputs."""
    data = b"".join(np.ascontiguousarray(v[name]).tobytes() for v in vectors for name in unit.graph.inputs)
    done = subprocess.run([str(program)], input=data, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-4000:]
    found: list[dict[str, Array]] = []
    at = 0
    for _ in vectors:
        outputs: dict[str, Array] = {}
        for name in unit.graph.outputs:
            type_ = unit.type(name)
            part = done.stdout[at : at + type_.bytes]
            outputs[name] = np.frombuffer(part, type_.dtype.numpy).reshape(type_.shape)
            at += type_.bytes
        found.append(outputs)
    assert at == len(done.stdout)
    return found


def expected(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What numpy says: every op's reference, in order."""
    values: dict[str, Array] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values.update(inputs)
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    return {name: values[name] for name in graph.outputs}
