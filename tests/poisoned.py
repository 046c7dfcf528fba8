"""The kernel matrix with each kernel called four times, each time with other bytes around its rows.

A kernel gets copies of its rows, its output row and its scratch, 128 bytes apart in an area whose other bytes are
poison, as are the output row (but for what other ops write of it) and the bytes below its stack pointer. Rows are as
badly aligned as rows of such a size can be in the arena. Where the four outputs differ, or a byte was written that is
neither of the output row nor of scratch, one byte of the op's output is spoilt, so that its CRC differs from the
oracle's. Meanwhile a plugin in QEMU watches what is read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matrix import Matrix, Symbol, X, firmware, symbols_of, unit
from runtime import run_reference

from shoehorn_mcu.emit.bundle import Bundle, write
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.kernels.base.contract import Instance
from shoehorn_mcu.machine import targets
from shoehorn_mcu.ops import InsertSlice
from shoehorn_mcu.schedule.stage import Stage
from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.board.cycles import PLUGIN
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Mode
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project

SOURCES = Path(__file__).parent / "c" / "poison"
GAP = 128
MARKS = {"rows": "poison_gets_rows", "runs": "poison_kernel_runs", "ends": "poison_kernel_ends"}


def poisoned(of: Matrix, board: targets.Board) -> Bundle:
    """The project folder's files."""
    files = dict(firmware(of, board))
    chosen = unit(of, board).stages
    kernels = {stage.kernel.name: stage.kernel for stage in chosen}.values()
    folder = "lib/matrix/src/"
    text = files[f"{folder}matrix.c"].decode()
    text, ops = re.subn(r"^(static void op(\d+)\(.*\)\n\{)$", r"\1\n    poison_now = \2;", text, flags=re.MULTILINE)
    assert ops == len(chosen)
    files[f"{folder}matrix.c"] = text.replace(
        '#include "matrix.h"', '#include "matrix.h"\n#include "poison.h"', 1
    ).encode()
    for kernel in kernels:
        path, symbol = f"{folder}{kernel.symbol('matrix')}.c", kernel.symbol("matrix")
        text, count = re.subn(rf"\b{symbol}\(", f"{symbol}_bare(", files[path].decode())
        assert count == 1
        files[path] = text.replace(
            f"void {symbol}_bare(", f"{kernel.contract.struct}_fn {symbol}_bare;\n\nvoid {symbol}_bare("
        ).encode()
    sizes = f"#define POISON_GAP {GAP}\n#define POISON_BYTES {max(map(_bytes, chosen))}\n"
    sizes += f"#define POISON_POINTERS {max(len(_x_bytes(stage)) for stage in chosen)}\n"
    files[f"{folder}poison.h"] = (SOURCES / "poison.h").read_bytes()
    files[f"{folder}poison.c"] = sizes.encode() + (SOURCES / "poison.c").read_bytes()
    files[f"{folder}poison_calls.c"] = "\n".join(["", *_tables(chosen), *map(_call, kernels)]).encode()
    return files


def _x_bytes(stage: Stage) -> list[int]:
    """The size of the row of each pointer in x."""
    return [t.type.row_bytes for t, places in zip(stage.row_inputs, stage.rows[0], strict=True) for _ in places]


def _y_bytes(stage: Stage) -> int:
    """The size of the output row, from where the kernel begins to write."""
    op, kind = stage.node.op, stage.node.output.type
    part = op.row_part(kind)
    return kind.row_bytes - (0 if part is None else part.start * kind.dtype.bytes)


def _bytes(stage: Stage) -> int:
    """The most that the op needs of the area."""
    sizes = (*_x_bytes(stage), stage.node.output.type.row_bytes, stage.scratch_bytes)
    return sum(size + GAP + 4 + 3 + 15 for size in sizes) + GAP


def _tables(chosen: Sequence[Stage]) -> Iterator[str]:
    yield '#include "poison.h"\n\n#include <stddef.h>\n'
    rows = []
    for stage in chosen:
        x = _x_bytes(stage)
        if x:
            yield f"static const int32_t x{stage.index}[] = {{{', '.join(map(str, x))}}};"
        of = f"x{stage.index}" if x else "NULL"
        part = isinstance(stage.node.op, InsertSlice)
        rows.append(f"    {{{len(x)}, {of}, {_y_bytes(stage)}, {int(part)}, {stage.scratch_bytes}}},")
    yield "\n".join((f"const poison_op poison_ops[{len(rows)}] = {{", *rows, "};"))
    yield f"const uint8_t poison_numbers[{len(rows)}] = {{1}};"


def _call(kernel: Instance) -> str:
    """The function that the ops call in the place of a kernel."""
    contract, name = kernel.contract, kernel.symbol("matrix")
    more = ["int32_t row"] * contract.takes_row + ["void *scratch"] * contract.takes_scratch
    given = ["row"] * contract.takes_row + ["poison_scratch"] * contract.takes_scratch
    unused = ["    (void)scratch;"] * contract.takes_scratch
    lines = (
        '#include "matrix_kernels.h"',
        f"{contract.struct}_fn {name}_bare;",
        f"void {name}({', '.join((f'const {contract.struct} *op', 'const int8_t *const x[]', 'int8_t *y', *more))})",
        "{",
        *unused,
        "    for (int32_t turn = 0; turn < POISONS; turn++) {",
        "        poison_before(x, y, turn);",
        f"        {name}_bare({', '.join(('op', 'poison_x', 'poison_y', *given))});",
        "        poison_after(y, turn);",
        "    }",
        "}",
    )
    return "\n".join(lines)


@dataclass(frozen=True)
class Found:
    """Names of kernels."""

    wrong: frozenset[str]  # an output depends on poison or differs from the oracle's, or poison was overwritten
    beyond: frozenset[str]  # read a byte of the area that is no row's
    foreign: Mapping[str, str]  # read a constant of another op, or what is between two: its name


def run(of: Matrix, board: targets.Board, files: Bundle, folder: Path) -> Found:
    """Builds the files of `poisoned` in the folder, and runs one inference."""
    write(files, folder)
    project = Project.open(folder)
    build(project)
    plan = Plan.of(project)
    symbols = symbols_of(project.elf)
    log = folder / "reads"
    at = {name: symbols[symbol].address & ~1 for name, symbol in MARKS.items()}
    area = symbols["poison_area"]
    facts = {"out": log, "area": area.address, "bytes": area.bytes, **at}
    facts |= {"numbers": symbols["poison_numbers"].address, "ops": len(plan.ops)}
    plugin = cbuild.plugin("watch", PLUGIN / "qemu.h", [SOURCES / "watch.c"])
    arguments = ",".join((f"file={plugin}", *(f"{name}={value}" for name, value in facts.items())))
    with emulate(project, arguments=("-plugin", arguments)) as machine, Link(Port(machine.url)) as link:
        found = link.infer([X.tobytes()], [end.bytes for end in plan.outputs], Mode.CRC)
    wanted = plan.op_crcs(run_reference(of.graph, [X]))
    wrong = (k.name for k, board_crc, crc in zip(of.kernels, found.trace, wanted, strict=False) if board_crc != crc)
    lines = [[*map(int, line.split())] for line in log.read_text().splitlines()]
    assert {line[0] for line in lines if len(line) == 4} >= set(range(len(of.kernels) - 1))
    return Found(
        frozenset(wrong),
        frozenset(of.kernels[line[0]].name for line in lines if len(line) == 3),
        _foreign(of, board, symbols, [line for line in lines if len(line) == 4]),
    )


def _foreign(of: Matrix, board: targets.Board, symbols: Mapping[str, Symbol], reads: list[list[int]]) -> dict[str, str]:
    """By kernel: the constant of another op that was read, or the one before the bytes that were read."""
    made = unit(of, board)
    found = constants(made)
    own: dict[int, set[str]] = {stage.index: set() for stage in made.stages}
    for (index, _), name in found.names.items():
        own[index].add(name)
    placed = sorted((symbols[name].address, symbols[name].bytes, name) for name in found.arrays)
    firsts = [first for first, _, _ in placed]
    limit = placed[-1][0] + placed[-1][1]
    blamed: dict[str, str] = {}
    for op, first, end, _ in reads:
        for at in range(max(first, firsts[0]), min(end, limit)):
            start, size, name = placed[bisect_right(firsts, at) - 1]
            if name not in own[op] or at >= start + size:
                blamed[of.kernels[op].name] = name
    return blamed
