"""Every variant and tile on shapes around its tiles, emulated: the oracle's bytes. Planted faults are noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import cffi
import pytest
from board_project import needs_emulator
from compilers import Compiler, each_compiler
from kernel_faults import fault, faults, planted
from matrix import (
    SUBNORMAL,
    backwards,
    cases,
    enough,
    firmware,
    in_parts,
    matrix,
    of_pairs,
    over_rows,
    overwriting,
    small_matrix,
    unit,
    write_for_gcc,
    wrong_kernels,
)

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import CATALOGUE
from shoehorn_mcu.kernels.base.contract import Instance, Variant
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.kernels.linear.toom_cook import CHOICE as TOOM_COOK
from shoehorn_mcu.machine.targets import CPUS, Isa, board
from shoehorn_mcu_host.base.errors import LinkError
from shoehorn_mcu_host.board.link import Timing
from shoehorn_mcu_host.validate.reference_build import declarations

# One board per instruction set and per kind of core that compilers make other code for.
BOARDS = ("mps2-an386", "mps3-an547", "rpi-zero-2w", "virt-rv32")
WITHOUT = {"rpi-zero": SUBNORMAL, "virt-rv32": SUBNORMAL, "microbit": SUBNORMAL}
"""The VFP11 leaves such numbers to an operating system's support code; the start-up makes them 0 instead. On cores
without an FPU ziglang's division gives 0 for such a quotient.
"""
WHERE = {
    "mps2-an386": (Isa.C, Isa.THUMB, Isa.SIMD32, Isa.FPU),
    "mps3-an547": (Isa.MVE,),
    "rpi-zero-2w": (Isa.NEON, Isa.VECTORS),
    "virt-rv32": (Isa.RISCV,),
}
"""Which instruction set is tested on which board, each on one. A Cortex-M4 has that of Armv6-M too."""
ELSEWHERE = (Isa.DOT, Isa.MATRIX)  # which no board has: test_neon_dot.py
LONG = ("rpi-zero", "mps2-an500", "mps2-an505", "microbit", "native")
ALSO = {"mps2-an386": (Isa.THUMB,)}  # a Cortex-M4 has the instructions of Armv6-M, whose own boards are slow to fill
SMALL_PARTS = {"mps2-an386": 3}  # of the small matrix that do not fit into the board's flash at once
BYTES_A_CASE = 4200  # of flash, about, that a kernel on a case takes in a firmware for planted faults


def test_the_matrix_has_every_variant_with_every_tile() -> None:
    wanted = {(v.contract.name, v.suffix, tile.name) for v in CATALOGUE for tile in v.tiles}
    found = Counter((k.contract.name, k.variant.suffix, k.tile.name) for k in matrix(tuple(Isa)).kernels)

    assert set(found) == wanted
    assert min(found.values()) >= 3


def test_a_board_of_the_matrix_runs_every_instruction_set_that_has_variants() -> None:
    run = {isa for name in BOARDS for isa in (*CPUS[board(name).spec.cpu].isas, *ALSO.get(name, ()))}

    assert {variant.isa for variant in CATALOGUE} <= {*run, *ELSEWHERE}


@pytest.mark.parametrize("name", list(WHERE))
def test_every_kernel_of_an_instruction_set_writes_the_bytes_of_its_oracle(name: str, tmp_path: Path) -> None:
    """On the cases that notice every planted fault; and the compiler says nothing."""
    needs_emulator(board(name))
    parts, tried = SMALL_PARTS.get(name, 1), set[Variant]()
    for part in range(parts):
        of = small_matrix(WHERE[name], part, parts)
        write(firmware(of, board(name)), tmp_path / str(part))

        tried |= {kernel.variant for kernel in of.kernels}
        assert wrong_kernels(of, tmp_path / str(part), quick=True) == []
        said = (tmp_path / str(part) / ".pio/build.log").read_text()
        assert "warning:" not in said, said[:4000]
    assert tried == {v for v in CATALOGUE if v.isa in WHERE[name]}


BY_GCC = {
    "gcc-cortex-m55": ("mps3-an547", ()),
    "gcc-cortex-m4": ("mps2-an386", ()),
    # as zig compiles for it: no small data, whose register the start-up code does not set
    "gcc-riscv32": ("virt-rv32", ("-march=rv32imac_zicsr", "-msmall-data-limit=0", "-mno-relax")),
}
"""By compiler: the board that runs its code, and more options."""


@each_compiler(*BY_GCC, long=("gcc-cortex-m4", "gcc-riscv32"))
def test_every_kernel_that_gcc_compiles_writes_the_bytes_of_its_oracle(compiler: Compiler, tmp_path: Path) -> None:
    """Assembly, and intrinsics whose instructions its assembler writes."""
    name, options = BY_GCC[compiler.name]
    needs_emulator(board(name))
    parts = SMALL_PARTS.get(name, 1)
    for part in range(parts):
        of = small_matrix(WHERE[name], part, parts)
        write_for_gcc(firmware(of, board(name)), tmp_path / str(part), [*compiler.command, *options])

        assert wrong_kernels(of, tmp_path / str(part)) == []
        objects = (tmp_path / str(part) / ".pio/build").rglob("matrix_*.o")
        assert all(b"GCC: (" in path.read_bytes() for path in objects)


@each_compiler("gcc-cortex-m0")
def test_gcc_compiles_every_kernel_for_the_short_branches_of_armv6_m(compiler: Compiler, tmp_path: Path) -> None:
    """gcc counts lines of assembly to know how far its branches reach."""
    of = small_matrix((Isa.THUMB,))
    files = library(made := unit(of, replace(board("microbit"), spec=board("mps2-an386").spec)), constants(made))
    write(files, tmp_path)
    kernels = [path for path in (tmp_path / "src").glob("matrix_*.c") if path.name != "matrix_weights.c"]

    assert len(kernels) > 20
    compiler.run("-O2", "-std=c11", "-ffreestanding", "-w", f"-I{tmp_path}/src", sources=kernels, folder=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", [*BOARDS, *LONG])
def test_every_kernel_of_a_board_writes_the_bytes_of_its_oracle(name: str, tmp_path: Path) -> None:
    """On all cases, with all kernels of a board, as its compiler makes them."""
    target = board(name)
    needs_emulator(target)
    isas = (*target.cpu.isas, *ALSO.get(name, ()))
    for part, of in enumerate(in_parts(isas, target, WITHOUT.get(name, ""))):
        write(firmware(of, target), tmp_path / str(part))

        assert wrong_kernels(of, tmp_path / str(part)) == []


PAIRS = ("add_s8", "mul_s8", "maximum_s8", "minimum_s8")  # ops of two operands, element by element
OVERWRITING = {v for v in CATALOGUE if v.behind is not Variant.behind or v.contract.name in PAIRS}
OVER_ROWS = {
    "mps2-an386": (*board("mps2-an386").cpu.isas, Isa.THUMB),
    "virt-rv32": board("virt-rv32").cpu.isas,
    "mps3-an547": (Isa.MVE,),
    "rpi-zero-2w": (Isa.NEON,),
}


def test_every_kernel_that_may_overwrite_a_row_that_it_reads_is_tried_there() -> None:
    assert {variant.isa for variant in OVERWRITING} <= {isa for isas in OVER_ROWS.values() for isa in isas}


@pytest.mark.parametrize("name", OVER_ROWS)
def test_a_kernel_that_may_overwrite_a_row_that_it_reads_writes_the_same_bytes_there(name: str, tmp_path: Path) -> None:
    """Never closer behind the row than it may."""
    needs_emulator(board(name))
    of = overwriting(OVER_ROWS[name])
    files, over = over_rows(of, board(name))
    write(files, tmp_path)

    assert {kernel.variant for kernel in of.kernels} == {v for v in OVERWRITING if v.isa in OVER_ROWS[name]}
    assert min(over[kernel.key] for kernel in of.kernels) >= 3
    assert wrong_kernels(of, tmp_path, quick=True) == []


@pytest.mark.long
@pytest.mark.parametrize("name", BOARDS)
def test_no_kernel_writes_beyond_its_row(name: str, tmp_path: Path) -> None:
    """So several cores may compute neighbouring rows at the same time."""
    target = board(name)
    needs_emulator(target)
    isas = (*target.cpu.isas, *ALSO.get(name, ()))
    for part, of in enumerate(in_parts(isas, target, WITHOUT.get(name, ""))):
        write(backwards(of, target), tmp_path / str(part))

        assert wrong_kernels(of, tmp_path / str(part)) == []


@pytest.mark.long
def test_a_byte_written_beyond_a_row_is_noticed(tmp_path: Path) -> None:
    target = board("rpi-zero-2w")
    needs_emulator(target)
    of = matrix(target.cpu.isas, "lut_8")
    files = backwards(of, target)
    (body,) = (path for path in files if path.endswith("matrix_lut_8_neon.c"))
    head, end, tail = files[body].decode().rpartition("}")
    write({**files, body: f"{head}    *y = 77;\n{end}{tail}".encode()}, tmp_path)

    assert set(wrong_kernels(of, tmp_path)) == {"lut_8_neon"}


def test_a_value_written_beyond_an_array_on_the_stack_is_noticed(tmp_path: Path) -> None:
    target = board("mps2-an386")
    needs_emulator(target)
    (toom,) = (v for v in CATALOGUE if v.contract.name == "conv2d_s8" and v.suffix == "thumb_toom")
    beyond = fault(toom, "beyond", "i < POINTS", "i <= POINTS")
    every = ((graph, kernel) for graph in cases() for kernel in candidates(next(graph.nodes()), (toom.isa,)))
    graph, kernel = next((graph, kernel) for graph, kernel in every if kernel.variant is toom)
    of = of_pairs([(graph, replace(kernel, variant=beyond.variant))])
    write(planted(firmware(of, target), "matrix", [beyond], of.kernels), tmp_path)

    with pytest.raises(LinkError):
        wrong_kernels(of, tmp_path, timing=Timing(answer=0.1, inference=1.0, tries=3))


@pytest.mark.parametrize(
    ("name", "real", "each"),
    [
        ("mps3-an547", False, 6),
        *(pytest.param(name, True, 1, marks=pytest.mark.long) for name in WHERE if name != "virt-rv32"),
        *(pytest.param(name, False, 1, marks=pytest.mark.long) for name in WHERE),
    ],
)
def test_every_planted_fault_is_noticed_and_no_sound_kernel_is_blamed(
    name: str, real: bool, each: int, tmp_path: Path
) -> None:
    """On the cases that are `enough`: they have to find each fault, with one tile.

    `real`: the kernels of float32, else all others; flash holds neither both nor, on most boards, all of one.
    `each`: so many faults of a variant apart are those that are tried; all where it is 1.
    """
    target, isas = board(name), WHERE[name]
    needs_emulator(target)
    changed = {v for v in CATALOGUE if v.isa in isas and v.contract.name.endswith("_f32") is real}
    planned = [fault for variant in CATALOGUE if variant in changed for fault in islice(faults(variant), 0, None, each)]
    every = ((graph, kernel) for graph in cases() for kernel in candidates(next(graph.nodes()), isas))
    sound = [(graph, kernel) for graph, kernel in every if kernel.variant in changed]
    keys = list(dict.fromkeys(kernel.key for _, kernel in sound))
    caught: set[Variant] = set()
    tried: list[list[tuple[Graph, Instance]]] = []
    for key in keys:
        shown = enough([(graph, k) for graph, k in sound if k.key == key])
        wrong = [fault.variant for fault in planned if fault.of is shown[0][1].variant]
        tried += ([(g, replace(k, variant=v)) for g, k in shown] for v in (shown[0][1].variant, *wrong))
    most = min(3000, target.spec.flash_bytes // BYTES_A_CASE)
    for image, pairs in enumerate(_images(tried, most)):
        of = of_pairs(pairs)
        write(planted(firmware(of, target), "matrix", planned, of.kernels), tmp_path / str(image))

        noticed = set(wrong_kernels(of, tmp_path / str(image), quick=each > 1))
        assert noticed.isdisjoint(kernel.name for kernel in of.kernels if kernel.variant in CATALOGUE)
        caught |= {kernel.variant for kernel in of.kernels if kernel.name in noticed}
    assert [_name(fault.variant) for fault in planned if fault.variant not in caught] == []
    assert {fault.of for fault in planned} == changed


def _images(tried: Sequence[Sequence[tuple[Graph, Instance]]], most: int) -> Iterator[list[tuple[Graph, Instance]]]:
    """Kernels on their cases, in order, for as few firmwares as hold `most` cases each."""
    held: list[tuple[Graph, Instance]] = []
    for pairs in tried:
        if held and len(held) + len(pairs) > most:
            yield held
            held = []
        held += pairs
    yield held


def _name(variant: Variant) -> str:
    return f"{variant.contract.name}_{variant.suffix}"


def _has_one_stride(variant: Variant) -> bool:
    return variant.choice == TOOM_COOK or variant.suffix == "simd32_narrow" or _has_one_pixel(variant)


def _has_one_pixel(variant: Variant) -> bool:
    """Whether its rows are a single pixel: none is far from another."""
    return variant.suffix.startswith("thumb_column")


def test_faults_are_planted_in_every_variant_once() -> None:
    assert Counter(isa for isas in (*WHERE.values(), ELSEWHERE) for isa in isas) == Counter({v.isa for v in CATALOGUE})


def test_a_fault_whose_text_is_gone_says_in_which_file_and_what_to_do() -> None:
    (variant,) = (v for v in CATALOGUE if _name(v) == "lut_8_c")

    with pytest.raises(AssertionError) as caught:
        fault(variant, "tail", "x_times_y_of_nothing", "")
    assert f"runtime_c/{variant.source}" in str(caught.value)
    assert "OWN in tests/kernel_faults.py" in str(caught.value)


@pytest.mark.parametrize("variant", CATALOGUE, ids=lambda v: f"{v.contract.name}_{v.suffix}")
def test_faults_are_planted_in_whatever_a_variant_can_get_wrong(variant: Variant) -> None:
    header = RUNTIME_C / variant.contract.header
    ffi = cffi.FFI()
    ffi.cdef(declarations([header], []))
    members = {name for name, _ in ffi.typeof(f"sh_{variant.contract.name}").fields}
    kinds = {fault.kind for fault in faults(variant)}

    assert "tail" in kinds
    assert ("stride" in kinds) == ("stride" in members and not _has_one_stride(variant))
    in_tables = variant.suffix.startswith("channels")  # what they hold is clamped
    assert ("saturation" in kinds) == ("y_max" in members and not in_tables)
    assert ("step" in kinds) == ("y_step" in members and not _has_one_pixel(variant))
