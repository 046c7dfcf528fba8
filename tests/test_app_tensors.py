"""The application's numbers: what an element of each type is as a real number, and how a real number is stored."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest
from compilers import HOST, WARNINGS
from toy import APP

TYPES = ("int8", "uint8", "float32", "bool", "int16", "uint16", "float16", "int32", "uint32", "int64", "uint64")
"""In the order of sh_app_type."""
CONFIG = """#define SH_APP_OTHER_TYPES 1
#define SH_APP_OPS 1
#define SH_APP_INPUT_TABLE(X) X(first, 4u, SH_APP_INT8, 0.5f, 3) X(second, 8u, SH_APP_FLOAT16, 0.0f, 0)
#define SH_APP_OUTPUT_TABLE(X) X(second, 12u, SH_APP_UINT8, 0.25f, 7)
static inline void *first(void) { return (void *)16; }
static inline void *second(void) { return (void *)32; }
"""
HEADER = """typedef struct { void *data; uint32_t bytes; int type; float scale; int32_t zero_point; } sh_app_tensor;
sh_app_tensor sh_app_input(uint32_t index);
sh_app_tensor sh_app_output(uint32_t index);
uint32_t sh_app_elements(const sh_app_tensor *tensor);
float sh_app_real(const sh_app_tensor *tensor, uint32_t i);
void sh_app_store(const sh_app_tensor *tensor, uint32_t i, float value);
"""


class App:
    """The compiled functions, on numpy's arrays."""

    def __init__(self, path: Path) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(HEADER)
        self.lib: Any = self.ffi.dlopen(str(path))

    def tensor(self, array: np.ndarray, scale: float = 0.0, zero: int = 0) -> Any:
        place = TYPES.index(array.dtype.name)
        data = self.ffi.cast("void *", array.ctypes.data)
        return self.ffi.new("sh_app_tensor *", (data, array.nbytes, place, scale, zero))

    def reals(self, array: np.ndarray, scale: float = 0.0, zero: int = 0) -> np.ndarray:
        made = self.tensor(array, scale, zero)
        assert self.lib.sh_app_elements(made) == array.size
        return np.array([self.lib.sh_app_real(made, i) for i in range(array.size)], np.float32)

    def stored(self, kind: str, values: np.ndarray, scale: float = 0.0, zero: int = 0) -> np.ndarray:
        array = np.zeros(len(values), kind)
        made = self.tensor(array, scale, zero)
        for i, value in enumerate(values):
            self.lib.sh_app_store(made, i, value)
        return array


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> App:
    folder = tmp_path_factory.mktemp("tensors")
    (folder / "app_config.h").write_text(CONFIG)
    words = [*HOST, *WARNINGS, "-O1", "-shared", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    command = [*words, f"-I{folder}", f"-I{APP}", str(APP / "tensors.c"), "-o", str(folder / "tensors.so")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    return App(folder / "tensors.so")


def test_inputs_and_outputs_are_the_rows_of_the_tables(app: App) -> None:
    def told(tensor: Any) -> tuple[object, ...]:
        place = int(app.ffi.cast("uintptr_t", tensor.data))
        return place, tensor.bytes, tensor.type, tensor.scale, tensor.zero_point

    find: tuple[tuple[Callable[[int], Any], int, tuple[object, ...]], ...] = (
        (app.lib.sh_app_input, 0, (16, 4, 0, 0.5, 3)),
        (app.lib.sh_app_input, 1, (32, 8, 6, 0.0, 0)),
        (app.lib.sh_app_input, 2, (0, 0, 0, 0.0, 0)),
        (app.lib.sh_app_output, 0, (32, 12, 1, 0.25, 7)),
        (app.lib.sh_app_output, 1, (0, 0, 0, 0.0, 0)),
    )
    assert [told(function(index)) for function, index, _ in find] == [wanted for *_, wanted in find]


def test_every_float16_is_the_number_that_numpy_reads(app: App) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

    np.testing.assert_array_equal(app.reals(halves), halves.astype(np.float32))


def test_float32_is_stored_as_the_float16_that_numpy_rounds_to(app: App) -> None:
    """Each float16 that is finite, what is halfway to the next one, and what is just below and above that."""
    halves = np.arange(0x7C00, dtype=np.uint16)[::7].view(np.float16).astype(np.float32)
    halves = np.concatenate([halves, np.float32([65504, 65519, 65520, 70000, np.inf])])
    between = (halves[:-1].astype(np.float64) + halves[:-1].astype(np.float64) * 2**-11).astype(np.float32)
    values = np.concatenate([halves, between, np.nextafter(between, np.float32(0)), np.float32([2**-25, 3 * 2**-26])])
    values = np.concatenate([values, -values, np.float32([np.nan])])

    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16)
    np.testing.assert_array_equal(app.stored("float16", values), wanted)


@pytest.mark.parametrize("kind", [name for name in TYPES if "int" in name and name not in ("int8", "uint8")])
def test_numbers_without_a_scale_are_cut_to_whole_ones_within_their_type(kind: str, app: App) -> None:
    limits = np.iinfo(kind)
    ends = np.array([limits.min, limits.min + 1, 0, 1, 7, limits.max - 1, limits.max], kind)
    whole = np.float32([0, 1, 2.5, 200.99, -1, -2.5, 1e30, -1e30, np.inf, -np.inf, np.nan, limits.max, limits.min])
    finite = np.nan_to_num(whole, nan=0.0)  # infinities become the largest numbers
    cut = [min(max(int(value), int(limits.min)), int(limits.max)) for value in finite]

    np.testing.assert_array_equal(app.reals(ends), ends.astype(np.float32))
    assert app.stored(kind, whole).tolist() == cut


def test_bools_are_whatever_is_not_0(app: App) -> None:
    values = np.float32([0, -0.0, 1, 0.25, -3, np.nan])

    assert app.stored("bool", values).tolist() == [False, False, True, True, True, True]
    assert app.reals(np.array([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize(("scale", "zero"), [(0.5, 3), (0.25, 0), (0.0, 0)])
def test_quantised_numbers_are_rounded_half_away_from_zero_and_saturated(
    kind: str, scale: float, zero: int, app: App
) -> None:
    limits = np.iinfo(kind)
    every = np.arange(limits.min, limits.max + 1).astype(kind)
    real = app.reals(every, scale, zero)
    np.testing.assert_array_equal(real, (every.astype(np.float32) - zero) * (scale or 1) if scale else every)

    unit = scale or 1.0
    steps = np.float32([0, 0.49, 0.5, -0.5, 1.5, 2.5, -2.5, 99, 1e9, -1e9, np.inf, -np.inf, np.nan])
    rounded = [0 if np.isnan(s) else int(np.sign(s) * min(np.floor(abs(s) + 0.5), 1e6)) + 0 for s in steps]
    wanted = [min(max(each + zero, limits.min), limits.max) for each in rounded]
    assert app.stored(kind, steps * np.float32(unit), scale, zero).tolist() == wanted


def test_float32_is_stored_as_it_is(app: App) -> None:
    values = np.float32([0, -1.5, 1e30, np.inf])

    assert app.stored("float32", values, 0.5, 3).tolist() == values.tolist()
    assert app.reals(values, 0.5, 3).tolist() == values.tolist()
