"""The C of the runtime as C: warnings, what it calls, what it keeps, rounding, and runs under sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cffi
import numpy as np
import pytest
from compilers import COMPILERS, GCC, HOST, SANITIZERS, WARNINGS, ZIG, Compiler, each_compiler
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from instances import write_instances
from many_models import compile_kernels

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.kernels import CATALOGUE
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import fixed_point

TESTS = Path(__file__).resolve().parent
ORACLES = sorted(RUNTIME_C.glob("kernels/*/*_ref.c"))
BODIES = sorted(RUNTIME_C.glob("kernels/*/*_c.inc"))
FORMULAS = {v.contract.name for v in CATALOGUE if v.is_written}
HEADERS = sorted(RUNTIME_C.rglob("*.h"))
ALIKE = (
    "zig-cortex-a7",
    "zig-cortex-a76",
    "zig-cortex-a710",
    "zig-arm1176",
    "zig-host",
    "zig-cortex-m55",
    "gcc-cortex-m4",
    "gcc-cortex-m55",
    "gcc-cortex-a7",
    "zig-riscv32",
)
"""Compilers that read C as another one does, with the same types."""


@each_compiler(long=(*ALIKE, "gcc-host"))
def test_the_kernels_are_read_without_a_warning(compiler: Compiler, tmp_path: Path) -> None:
    """By a compiler for each machine with other types."""
    compiler.run(*WARNINGS, "-fsyntax-only", sources=[*ORACLES, *write_instances(tmp_path)], folder=tmp_path)


OPTIMISED = "gcc-cortex-m0" if shutil.which("arm-none-eabi-gcc") else "gcc-host"
"""The compiler whose optimiser's words on the portable kernels every run asks for: GCC's are the same on all machines.

On a Cortex-M0 they are compiled in any case, by `test_kernels_call_no_library_and_keep_no_state`.
"""


@each_compiler(long=[each.name for each in COMPILERS if each.name != "gcc-host"])
def test_the_oracles_compile_without_a_warning(compiler: Compiler, tmp_path: Path) -> None:
    compiler.run(*WARNINGS, "-O2", sources=ORACLES, folder=tmp_path)

    assert len(list(tmp_path.glob("*.o"))) == len(ORACLES)


@each_compiler(long=[each.name for each in COMPILERS if each.name == "gcc-cortex-m0" or each.name != OPTIMISED])
def test_the_kernels_compile_without_a_warning(compiler: Compiler, tmp_path: Path) -> None:
    sources = write_instances(tmp_path)
    compiler.run(*WARNINGS, "-O2", sources=sources, folder=tmp_path)

    assert len(list(tmp_path.glob("*.o"))) == len(sources)


VECTORS = {
    "m55": (Isa.MVE,),
    "a53": (Isa.NEON, Isa.VECTORS),
    "a76": (Isa.DOT,),
    "a710": (Isa.MATRIX,),
    "a7": (Isa.NEON, Isa.VECTORS),
    "riscv32": (Isa.RISCV,),
}
"""By the end of a compiler's name."""


def _written_for(compiler: Compiler, folder: Path) -> list[Path]:
    """The instances for the assembly or the vectors that the compiler's core has."""
    isas = VECTORS.get(compiler.name.rpartition("-")[2], (Isa.SIMD32,))
    return [path for isa in isas for path in write_instances(folder, isa)]


IN_MATRIX = ("zig-cortex-m55", "zig-cortex-a53", "zig-riscv32", "zig-cortex-a76", "zig-cortex-a710", "zig-cortex-a7")
"""Compilers that make the kernel matrix without a warning (tests/matrix.py, tests/user_matrix.py)."""

SLOW = ("gcc-cortex-m55", "gcc-cortex-a7")
"""Compilers of vectors that take long for each of their kernels."""


@each_compiler("gcc-cortex-a7")
def test_kernels_with_vectors_are_read_without_a_warning(compiler: Compiler, tmp_path: Path) -> None:
    """What its optimiser says of vectors takes GCC long; those for Helium it compiles in the kernel matrix."""
    compiler.run(*WARNINGS, "-fsyntax-only", sources=_written_for(compiler, tmp_path), folder=tmp_path)


@each_compiler(*("zig-arm1176", "gcc-cortex-m4", "gcc-riscv32", *SLOW, *IN_MATRIX), long=(*SLOW, *IN_MATRIX))
def test_kernels_with_assembly_or_vectors_compile_without_a_warning(compiler: Compiler, tmp_path: Path) -> None:
    sources = _written_for(compiler, tmp_path)
    compiler.run(*WARNINGS, "-O2", sources=sources, folder=tmp_path)

    assert len(list(tmp_path.glob("*.o"))) == len(sources) > 0


@each_compiler(
    *("zig-arm1176", "gcc-cortex-m4", "zig-cortex-m55", "gcc-cortex-m55"),
    *("zig-cortex-a53", "zig-cortex-a76", "zig-cortex-a710", "zig-cortex-a7", "gcc-cortex-a7"),
    *("zig-riscv32", "gcc-riscv32"),
    long=("gcc-cortex-m55", "gcc-cortex-a7"),
)
def test_assembly_does_not_run_out_of_registers_where_nothing_is_optimised(compiler: Compiler, tmp_path: Path) -> None:
    sources = _written_for(compiler, tmp_path)
    compiler.run(*WARNINGS, "-O0", sources=sources, folder=tmp_path)

    assert len(list(tmp_path.glob("*.o"))) == len(sources) > 0


@each_compiler("zig-host", "gcc-host")
def test_a_header_needs_no_other_before_it_and_bears_to_be_read_twice(compiler: Compiler, tmp_path: Path) -> None:
    for number, header in enumerate(HEADERS):
        (tmp_path / f"h{number}.c").write_text(f'#include "{header}"\n#include "{header}"\nextern int unit{number};\n')

    compiler.run(*WARNINGS, "-O2", sources=sorted(tmp_path.glob("h*.c")), folder=tmp_path)


@each_compiler("zig-cortex-m0", "gcc-cortex-m0")
def test_kernels_call_no_library_and_keep_no_state(compiler: Compiler, tmp_path: Path) -> None:
    compiler.run(*WARNINGS, "-O2", "-ffreestanding", sources=write_instances(tmp_path), folder=tmp_path)

    for path in sorted(tmp_path.glob("*.o")):
        with path.open("rb") as file:
            elf = ELFFile(file)
            wanted = {s.name for s in _symbols(elf) if s.name and s["st_shndx"] == "SHN_UNDEF"}
            # __aeabi_* and __gnu_* are the compiler's own arithmetic, for floats and division on a core without them.
            foreign = {n for n in wanted if not re.fullmatch(r"memcpy|memset|__aeabi_\w+|__gnu_\w+", n)}
            state = [s.name for s in elf.iter_sections() if s.name.startswith((".data", ".bss")) and s["sh_size"]]
        assert not foreign, f"{path.stem} calls {foreign}"
        assert [n for n in state if not n.startswith(".data.rel.ro")] == [], f"{path.stem} keeps state"


def _symbols(elf: ELFFile) -> list:
    return [
        s for section in elf.iter_sections() if isinstance(section, SymbolTableSection) for s in section.iter_symbols()
    ]


SHARED = {path.name: path for path in HEADERS if path.parent.name == "include"}
"""The headers that kernels share."""


def _includes(source: Path) -> list[str]:
    return re.findall(r'^#include (["<].*[">])$', source.read_text(), re.MULTILINE)


def _read_with(source: Path) -> set[str]:
    """Names of the shared headers that a file includes, or that these do."""
    names = {name.strip('"').rpartition("/")[2] for name in _includes(source)} & SHARED.keys()
    return names.union(*(_read_with(SHARED[name]) for name in names))


@pytest.mark.parametrize("source", [*ORACLES, *BODIES], ids=lambda p: p.stem)
def test_a_portable_kernel_has_no_conditional_compilation_and_includes_its_contract_first(source: Path) -> None:
    directives = re.findall(r"^#(?!define )(.*)$", source.read_text(), re.MULTILINE)
    includes = _includes(source)
    assert directives == [f"include {name}" for name in includes]

    if ("_f32" in source.stem and "_8" not in source.stem) or source.parent.name in FORMULAS:
        first = SHARED[includes.pop(0).strip('"').rpartition("/")[2]]
        assert "sh_float.h" in {first.name, *_read_with(first)}  # its pragma is for all that follows
    assert includes[0] == f'"{source.parent.name}.h"'
    assert set(includes[1:]) <= {"<stddef.h>", "<stdint.h>", *(f'"../../include/{name}"' for name in SHARED)}


FUNCTIONS = {
    name: body
    for path in SHARED.values()
    if not path.stem.endswith("_ref")  # what oracles alone share
    for name, body in re.findall(
        r"^(?:static inline|SH_INLINED|SH_[A-Z]+) [^;{}]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}",
        path.read_text(),
        re.M | re.S,
    )
}
"""The bodies of the functions in the shared headers."""

_LONG = ("recurrence_ref", "rfft_s16_ref", "softmax_s8_ref", "suppress_f32_ref")
"""Oracles of more than 60 lines."""


@pytest.mark.parametrize("source", ORACLES, ids=lambda p: p.stem)
def test_an_oracle_uses_nothing_that_is_there_for_speed(source: Path) -> None:
    """It is short, all loops are its own, and nothing in it is set by who compiles it."""
    text = source.read_text()
    called = re.findall(r"\b(sh_\w+)\(", text)

    assert [name for name in called if re.search(r"\b(for|while) \(", FUNCTIONS.get(name, ""))] == []
    assert "SH_" not in text.replace("SH_MOST_VALUES", "").replace("SH_INT64", "")
    assert len(text.splitlines()) <= 60 or source.stem in _LONG


@pytest.fixture(scope="module")
def quant(tmp_path_factory: pytest.TempPathFactory) -> tuple[cffi.FFI, object]:
    """sh_quant.h over arrays, compiled by Zig."""
    library = tmp_path_factory.mktemp("quant") / "quant.so"
    command = [*ZIG, *WARNINGS, "-O2", "-fPIC", "-shared"]
    subprocess.run([*command, TESTS / "c/quant_twin.c", "-o", library], check=True, capture_output=True)
    ffi = cffi.FFI()
    text = (TESTS / "c/quant_twin.c").read_text()
    ffi.cdef("\n".join(re.findall(r"^void \w+\([^)]*\);", text, re.MULTILINE)))
    return ffi, ffi.dlopen(str(library))


def _call(quant: tuple[cffi.FFI, object], name: str, *arguments: np.ndarray | int) -> list[int]:
    ffi, lib = quant
    arrays = [np.ascontiguousarray(a, np.int32) if isinstance(a, np.ndarray) else a for a in arguments]
    count = next(a.size for a in arrays if isinstance(a, np.ndarray))
    y = np.zeros(count, np.int32)
    given = [ffi.from_buffer("int32_t[]", a) if isinstance(a, np.ndarray) else a for a in arrays]
    getattr(lib, name)(*given, ffi.from_buffer("int32_t[]", y), count)
    return y.tolist()


def _edges(rng: np.random.Generator, count: int) -> np.ndarray:
    """int32 values of every magnitude, with the extremes, halves and their neighbours among them."""
    special = [0, 1, -1, 2**30, -(2**30), 2**31 - 1, -(2**31) + 1, 2**29 + 1, 3 << 29]
    sizes = rng.integers(1, 32, count)
    values = np.concatenate([special, rng.integers(-(1 << sizes), 1 << sizes)])
    return np.clip(rng.permutation(values)[:count], -(2**31) + 1, 2**31 - 1)


def test_rounding_in_c_is_rounding_in_python(quant: tuple[cffi.FFI, object]) -> None:
    rng = np.random.default_rng(0)
    a, b = _edges(rng, 20000), _edges(rng, 20000)
    exponents = rng.integers(0, 32, a.size)
    multipliers, shifts = rng.integers(1 << 30, 1 << 31, a.size), rng.integers(-31, 31, a.size)

    assert _call(quant, "mul_high", a, b) == fixed_point.high_mul(a, b).tolist()
    assert _call(quant, "shift_right", a, exponents) == fixed_point.divide_by_pot(a, exponents).tolist()
    assert _call(quant, "rescale", a, multipliers, shifts) == fixed_point.rescale(a, multipliers, shifts).tolist()


def test_halves_of_every_shift_are_rounded_away_from_zero(quant: tuple[cffi.FFI, object]) -> None:
    exponents = np.repeat(np.arange(1, 31), 6)
    odds = np.tile([1, -1, 3, -3, 5, -5], 30)
    halves = np.where(exponents < 28, odds << (exponents - 1), np.sign(odds) << (exponents - 1))

    y = _call(quant, "shift_right", halves, exponents)

    exact = halves / 2.0**exponents
    assert y == (np.sign(exact) * np.floor(np.abs(exact) + 0.5)).astype(int).tolist()


def test_requantising_saturates_at_both_ends_for_every_zero_point(quant: tuple[cffi.FFI, object]) -> None:
    rng = np.random.default_rng(1)
    a, zeros = _edges(rng, 5000), rng.integers(-128, 128, 5000)
    multipliers, shifts = rng.integers(1 << 30, 1 << 31, a.size), rng.integers(-31, 1, a.size)
    ffi, lib = quant
    y = np.zeros(a.size, np.int32)
    given = [np.ascontiguousarray(v, np.int32) for v in (a, multipliers, shifts, zeros)]
    lib.requantise(*(ffi.from_buffer("int32_t[]", v) for v in given), -100, 90, ffi.from_buffer("int32_t[]", y), y.size)

    want = np.clip(fixed_point.rescale(a, multipliers, shifts) + zeros, -100, 90)
    assert y.tolist() == want.tolist()


def _library_of_gcc(name: str) -> str:
    """Path of a library that gcc brings; empty where it does not."""
    if not shutil.which("gcc"):
        return ""
    path = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return path if Path(path).is_absolute() else ""


ASAN = _library_of_gcc("libasan.so")
needs_asan = pytest.mark.skipif(
    not ASAN, reason="gcc with libasan is not installed: kernels are not run under sanitizers"
)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The portable variants with AddressSanitizer and UndefinedBehaviorSanitizer in them."""
    library = tmp_path_factory.mktemp("sanitized") / "kernels.so"
    command = [*GCC, *SANITIZERS, "-shared", *map(str, compile_kernels()), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


def _run_sanitized(library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = {
        **os.environ,
        "LD_PRELOAD": ASAN,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": paths,
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(TESTS / "sanitized.py"), str(library), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)


@needs_asan
def test_kernels_stay_within_their_rows_and_within_defined_c(sanitized: Path) -> None:
    result = _run_sanitized(sanitized, "12")

    assert result.returncode == 0, result.stderr[-3000:] + result.stdout
    assert result.stdout == "all samples agree\n"


@needs_asan
def test_one_element_too_many_would_be_noticed(sanitized: Path) -> None:
    result = _run_sanitized(sanitized, "0", "--overrun")

    assert result.returncode != 0
    assert "heap-buffer-overflow" in result.stderr
    assert "sh_lut_8_c" in result.stderr


DAMAGED = """#include "{path}"
#include <stdio.h>
int main(void)
{{
    static const int8_t x[4] = {{1, 2, 3, 4}};
    static const int8_t *const rows[1] = {{x}};
    int8_t y[4];
    const sh_softmax_s8 op = {{1, 4, {multiplier}, {shift}, {diff_min}, 0}};
    sh_softmax_s8_ref(&op, rows, y);
    return printf("%d %d %d %d\\n", y[0], y[1], y[2], y[3]) < 0;
}}
"""


@pytest.mark.parametrize(
    ("constants", "ends"),
    [((1 << 30, 25, -124), True), ((1 << 30, 25, 1), False), ((0, 0, 127), False)],
    ids=["whole", "no-element-counts", "nothing-counts"],
)
def test_softmax_ends_whatever_its_constants_are(constants: tuple[int, int, int], ends: bool, tmp_path: Path) -> None:
    """Its sum is 0 then, which has no leading one to look for."""
    multiplier, shift, diff_min = constants
    source = RUNTIME_C / "kernels" / "softmax_s8" / "softmax_s8_ref.c"
    text = DAMAGED.format(path=source, multiplier=multiplier, shift=shift, diff_min=diff_min)
    (tmp_path / "main.c").write_text(text)
    subprocess.run([*HOST, "-O1", "main.c", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True, timeout=20)

    assert (len(set(done.stdout.split())) > 1) == ends
