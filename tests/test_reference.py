"""The reference runtime as a host tool: what it refuses, what it keeps, and every way to compile it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from compilers import GCC, ZIG
from runtime import load_reference, write_reference
from samples import random_inputs, sample

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.ops import Add, Conv2d, Reshape
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.validate import reference_build
from shoehorn_mcu_host.validate.reference import Reference
from shoehorn_mcu_host.validate.reference_build import _Way

CONV = sample(Conv2d, np.random.default_rng(4))
CONV_INPUTS = list(random_inputs(CONV, np.random.default_rng(4)).values())


def conv_output() -> bytes:
    (node,) = CONV.nodes()
    return node.op.reference([CONV_INPUTS[0], *(t.data for t in node.inputs[1:])], node.sig).tobytes()


def test_a_run_gives_every_tensor_and_repeats_itself() -> None:
    reference = load_reference(CONV)

    first, second = reference.run(CONV_INPUTS), reference.run(CONV_INPUTS)

    assert set(first) == {*CONV.inputs, *CONV.outputs}
    assert first["y"].tobytes() == second["y"].tobytes() == conv_output()
    assert first["y"] is not second["y"]


def test_a_view_gives_its_inputs_bytes_in_its_own_shape() -> None:
    graph = sample(Reshape, np.random.default_rng(2))
    inputs = list(random_inputs(graph, np.random.default_rng(2)).values())

    y = load_reference(graph).run(inputs)["y"]

    assert y.shape == graph.tensors["y"].type.shape
    assert y.tobytes() == inputs[0].tobytes()


@pytest.mark.parametrize("api", [True, False], ids=["extension", "library"])
@pytest.mark.parametrize("compiler", [GCC, pytest.param(ZIG, marks=pytest.mark.long)], ids=["gcc", "zig"])
def test_every_way_to_compile_gives_the_same_bytes(
    api: bool, compiler: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which(compiler[0]):
        pytest.skip(f"{compiler[0]} is not installed")
    if api and not any(way.api for way in reference_build._ways()):
        pytest.skip("Python.h is not installed: no extension modules here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(reference_build, "_ways", lambda: iter([_Way(compiler, api)]))
    # The other tests compile all contracts in the first way, so here one of them does.
    quick = compiler == GCC and api
    reference = Reference.load(written(CONV, tmp_path, "conv2d_s8")) if quick else load_reference(CONV)

    assert reference.run(CONV_INPUTS)["y"].tobytes() == conv_output()
    assert len(libraries(tmp_path)) == 1


def test_a_compiler_that_fails_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ways = [_Way(("false",), False), *reference_build._ways()]
    monkeypatch.setattr(reference_build, "_ways", lambda: iter(ways))

    assert Reference.load(written(CONV, tmp_path, "conv2d_s8")).run(CONV_INPUTS)["y"].tobytes() == conv_output()


def test_no_compiler_is_said_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(reference_build, "_ways", lambda: iter([_Way(("no-such-compiler",), False)]))

    with pytest.raises(HostError, match=r"no-such-compiler.*pip install ziglang"):
        load_reference(CONV)


def libraries(tmp_path: Path) -> dict[str, int]:
    """The stamps of the compiled libraries in the cache, by name."""
    kept = (tmp_path / "cache" / "shoehorn").iterdir()
    return {path.name: path.stat().st_mtime_ns for path in kept if path.suffix != ".entry"}


def test_compiled_contracts_are_kept_and_a_changed_one_alone_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    way = next(reference_build._ways())
    monkeypatch.setattr(reference_build, "_ways", lambda: iter([way]))  # what fails is tried once
    folder = written(CONV, tmp_path, "conv2d_s8", "lut_8")
    Reference.load(folder)
    first = libraries(tmp_path)
    assert len(first) == 1

    Reference.load(folder)
    assert libraries(tmp_path) == first

    with (folder / "reference/runtime/kernels/lut_8/lut_8_ref.c").open("a") as file:
        file.write("#error only this contract is compiled\n")
    with pytest.raises(HostError, match="only this contract is compiled"):
        Reference.load(folder)
    shutil.rmtree(folder / "reference/runtime/kernels/lut_8")
    monkeypatch.setattr(reference_build, "_compile", None)  # what is left is there, in another folder's library
    assert Reference.load(folder).run(CONV_INPUTS)["y"].tobytes() == conv_output()


def test_a_header_that_changes_compiles_the_contracts_anew_that_include_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = written(CONV, tmp_path, "conv2d_s8", "lut_8")
    Reference.load(folder)
    header = folder / "reference/runtime/include/sh_quant.h"
    header.write_text(header.read_text().replace("#define SH_QUANT_H\n", "#define SH_QUANT_H\n// changed\n"))
    Reference.load(folder)

    entries = [path.read_text().split()[0] for path in (tmp_path / "cache" / "shoehorn").glob("*.entry")]
    counts = sorted(entries.count(name) for name in libraries(tmp_path))
    assert counts == [1, 2]  # conv2d_s8 alone the second time


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def swap_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("suffix", [".so", ".entry"])
@pytest.mark.parametrize("damage", [cut, swap_a_bit])
def test_what_is_damaged_in_the_cache_is_compiled_again(
    damage: Callable[[Path], object], suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = written(CONV, tmp_path, "conv2d_s8")
    Reference.load(folder)
    (kept,) = (tmp_path / "cache" / "shoehorn").glob(f"*{suffix}")
    text = kept.read_bytes()
    whole = kept.with_name("whole")
    kept.rename(whole)  # the library is still open
    kept.write_bytes(text)
    damage(kept)

    assert Reference.load(folder).run(CONV_INPUTS)["y"].tobytes() == conv_output()
    assert len(kept.read_bytes()) == len(text)


def written(graph: Graph, tmp_path: Path, *contracts: str) -> Path:
    """A written reference whose runtime/ is a copy that may be changed, of these contracts alone."""
    folder = write_reference(graph, tmp_path / "project")
    runtime = folder / "reference/runtime"
    runtime.unlink()
    shutil.copytree(RUNTIME_C / "include", runtime / "include")
    for name in contracts:
        shutil.copytree(RUNTIME_C / "kernels" / name, runtime / "kernels" / name)
    return folder


def test_a_changed_kernel_changes_the_result(tmp_path: Path) -> None:
    folder = written(CONV, tmp_path, "conv2d_s8")
    source = folder / "reference/runtime/kernels/conv2d_s8/conv2d_s8_ref.c"
    kept = source.read_text()
    changed = kept.replace("= op->bias[o];", "= op->bias[o] + 5000;")
    source.write_text(changed)

    assert changed != kept
    assert Reference.load(folder).run(CONV_INPUTS)["y"].tobytes() != conv_output()


def test_standard_output_stays_clean(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    Reference.load(written(CONV, tmp_path, "conv2d_s8")).run(CONV_INPUTS)

    assert capfd.readouterr().out == ""


def test_inputs_of_another_number_shape_or_type_are_refused() -> None:
    reference = load_reference(CONV)

    with pytest.raises(HostError, match="has 1 inputs, not 2"):
        reference.run([*CONV_INPUTS, CONV_INPUTS[0]])
    with pytest.raises(HostError, match=r"input 'x0' is int8.*not float32"):
        reference.run([CONV_INPUTS[0].astype(np.float32)])
    with pytest.raises(HostError, match="input 'x0' is int8"):
        reference.run([CONV_INPUTS[0][0]])


def test_an_input_need_not_be_contiguous() -> None:
    wide = np.repeat(CONV_INPUTS[0], 2, axis=-1)

    assert load_reference(CONV).run([wide[..., ::2]])["y"].tobytes() == conv_output()


def test_a_folder_without_a_reference_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"no reference/graph.json.*gen firmware"):
        Reference.load(tmp_path)


DAMAGES = {
    "no op": lambda g: g.pop("ops"),
    "unknown function": lambda g: g["ops"][0].update(function="sh_nothing_ref"),
    "unknown tensor": lambda g: g["ops"][0].update(output="z"),
    "a row beyond the tensor": lambda g: g["ops"][0]["inputs"][0]["rows"][0].__setitem__(0, 999),
    "a constant beyond the file": lambda g: g["constants"][0].update(offset=1 << 20),
    "a missing parameter": lambda g: g["ops"][0]["params"].pop("b_zero"),
    "a parameter of no size": lambda g: g["ops"][0]["params"].update(width=1 << 40),
    "a tensor of another size": lambda g: g["tensors"]["y"].update(row_bytes=1),
    "a row entry without rows": lambda g: g["ops"][0]["inputs"][0]["rows"].append({}),
    "one row too few": lambda g: g["ops"][0]["inputs"][0]["rows"].pop(),
    "one pointer too few": lambda g: g["ops"][0]["inputs"][0]["rows"][0].pop(),
    "a hundred thousand pointers": lambda g: g["ops"][0]["inputs"][0]["rows"][0].extend([0] * 100_000),
    "a tensor of petabytes": lambda g: g["tensors"]["y"].update(rows=1 << 30, shape=[1 << 30, 1]),
    "a scale that is no number": lambda g: g["tensors"]["y"].update(scales=[float("nan")]),
    "another format": lambda g: g.update(format=99),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_graph_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    constant = next(g for g in (sample(Add, np.random.default_rng(s)) for s in range(99)) if len(g.inputs) == 1)
    folder = write_reference(constant, tmp_path)
    path = folder / "reference/graph.json"
    graph = json.loads(path.read_text())
    DAMAGES[damage](graph)
    path.write_text(json.dumps(graph))

    with pytest.raises(HostError, match=r"graph\.json: .*gen firmware") as caught:
        Reference.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_graph_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    folder = write_reference(CONV, tmp_path)
    (folder / "reference/graph.json").write_text(text)

    with pytest.raises(HostError):
        Reference.load(folder)


def test_equal_graphs_are_written_in_equal_bytes(tmp_path: Path) -> None:
    one, two = (write_reference(CONV, tmp_path / name) / "reference" for name in ("one", "two"))

    for name in ("graph.json", "constants.bin"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_an_included_file_that_is_none_is_left_to_the_compiler(tmp_path: Path):
    """A pipe would be read for ever, and no file's name has a byte 0."""
    folder = tmp_path / "kernels" / "add_s8"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.h")
    (folder / "add_s8.h").write_bytes(b'#include "pipe.h"\n#include "a\0b.h"\n#include "none.h"\n')

    assert len(reference_build._Contract(tmp_path, folder).content) == 32
