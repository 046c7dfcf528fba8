"""Libraries for Linux: the wheel in a real Python, the shared library in a C program, and what is refused."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import emitted
import linux_wheels
import numpy as np
import pytest
from compilers import HOST
from elftools.elf.elffile import ELFFile
from linux_wheels import answer, installed, installed_of, told
from packaging import tags
from samples import as_float32, random_inputs, sample
from test_cli_project import DIGITS
from test_single_file import side_by_side
from test_states import ring

import shoehorn_mcu
from shoehorn_mcu import PlanOptions, ops
from shoehorn_mcu.base.paths import FIRMWARE_TEMPLATES, RUNTIME_C
from shoehorn_mcu.emit.linux import python_files
from shoehorn_mcu.firmware import linux
from shoehorn_mcu.firmware.build import plan_model
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.ir import DType
from shoehorn_mcu_host.base import errata
from shoehorn_mcu_host.base.about import About
from shoehorn_mcu_host.base.errors import BuildError
from shoehorn_mcu_host.linux import compiled, wheel
from shoehorn_mcu_host.linux.targets import target

TEMPLATES = FIRMWARE_TEMPLATES / "linux"
SHAPE = (1, 8, 8, 1)  # of the shipped model's input
THREADS = 3

needs_linux = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"),
    reason="this machine runs no wheel of `--cpu host --os linux`",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> shoehorn_mcu.GeneratedForLinux:
    """The shipped model for this machine, on several threads."""
    folder = tmp_path_factory.mktemp("linux") / "digits"
    return shoehorn_mcu.generate_for_linux(DIGITS, folder, PlanOptions(cpu="host", cores=THREADS))


@pytest.fixture(scope="module")
def site(written: shoehorn_mcu.GeneratedForLinux, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(written.wheel, tmp_path_factory.mktemp("installed") / "site")


def digits_vectors(count: int) -> list[dict[str, np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(3)
    return [{"image": rng.integers(-128, 128, SHAPE, np.int8)} for _ in range(count)]


def digits_expected(count: int) -> list[np.ndarray[Any, Any]]:
    graph = plan_model(DIGITS, None, Options()).unit.graph
    (name,) = graph.inputs
    return [emitted.expected(graph, {name: v["image"]})[graph.outputs[0]] for v in digits_vectors(count)]


@needs_linux
def test_the_wheel_computes_the_reference_on_threads_and_in_forked_children(site: Path):
    script = """
import os
import digits
images, wanted = arrays["images"], arrays["wanted"]
found = [digits.run(image) for image in images]
frozen = images[0].copy()
frozen.flags.writeable = False
before = len(os.listdir("/proc/self/task"))
def child():
    equal = all(digits.run(i).tobytes() == w.tobytes() for i, w in zip(images, wanted))
    os._exit(0 if equal and len(os.listdir("/proc/self/task")) == digits.cores else 1)
pid = os.fork()
if pid == 0:
    child()
say({
    "found": found,
    "frozen": digits.run(frozen),
    "buffer": digits.run(memoryview(images[0])),
    "child": os.waitpid(pid, 0)[1],
    "threads": digits.cores,
    "inputs": [[str(part) for part in each] for each in digits.inputs],
    "outputs": [[str(part) for part in each] for each in digits.outputs],
    "version": digits.__version__,
    "model": digits.model_sha256,
    "stored": digits.inputs[0].stored([-1e9, 0, 1, 2, 1e9]),
    "real": digits.inputs[0].real(numpy.array([-128, -127], "int8")),
})
"""
    images, wanted = digits_vectors(4), digits_expected(4)
    arrays = {"images": np.stack([v["image"] for v in images]), "wanted": np.stack(wanted)}

    said = answer(site, script, arrays)

    assert said["found"] == [told(each) for each in wanted]
    assert said["frozen"] == said["buffer"] == told(wanted[0])
    assert (said["child"], said["threads"]) == (0, THREADS)
    (taken,) = plan_model(DIGITS, None, Options()).unit.graph.inputs
    scale, zero = said["inputs"][0][3:]
    assert said["inputs"] == [[taken, str(SHAPE), "int8", scale, zero]]
    assert [row[1:3] for row in said["outputs"]] == [["(1, 10)", "int8"]]
    assert said["model"] == hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    steps = np.clip(np.rint(np.array([-1e9, 0, 1, 2, 1e9]) / float(scale)) + int(zero), -128, 127).astype(np.int8)
    assert said["stored"] == told(steps)
    assert said["real"] == told(((np.array([-128, -127]) - int(zero)) * float(scale)).astype(np.float32))


WANTED = f"digits.run: image is an array of int8 with shape {SHAPE}"
FAULTS: dict[str, tuple[str, str]] = {  # a call, and the line of its error
    "digits.run(x.astype('float32'))": ("TypeError", f"{WANTED}; got float32 with shape {SHAPE}"),
    "digits.run(x.astype('int16'))": ("TypeError", f"{WANTED}; got int16 with shape {SHAPE}"),
    "digits.run(numpy.zeros((1, 9, 8, 1), 'int8'))": ("ValueError", f"{WANTED}; got shape (1, 9, 8, 1)"),
    "digits.run(x.view('uint8'))": ("TypeError", f"{WANTED}; got uint8 with shape {SHAPE}"),
    "digits.run(x.view('bool'))": ("TypeError", f"{WANTED}; got bool with shape {SHAPE}"),
    "digits.run(x.astype('>i2'))": ("TypeError", f"{WANTED}; got items of format '>h' with shape {SHAPE}"),
    "digits.run(x.astype('complex64'))": ("TypeError", f"{WANTED}; got items of format 'Zf' with shape {SHAPE}"),
    "digits.run(x.astype(object))": ("TypeError", f"{WANTED}; got items of format 'O' with shape {SHAPE}"),
    "digits.run(x[0])": ("ValueError", f"{WANTED}; got shape (8, 8, 1)"),
    "digits.run(x[:, :7])": ("ValueError", f"{WANTED}; got shape (1, 7, 8, 1)"),
    "digits.run(numpy.int8(3))": ("ValueError", f"{WANTED}; got shape ()"),
    "digits.run(x[:, ::-1])": (
        "ValueError",
        f"{WANTED}, one item after the other; this one is not C-contiguous, and numpy.ascontiguousarray makes a copy "
        "that is",
    ),
    "digits.run(x.tolist())": ("TypeError", f"{WANTED}; got <class 'list'>"),
    "digits.run(None)": ("TypeError", f"{WANTED}; got <class 'NoneType'>"),
    "digits.run(x.astype('M8[s]'))": ("TypeError", f"{WANTED}; got <class 'numpy.ndarray'>"),
    "digits.run()": ("TypeError", "digits.run: the model has 1 input, 0 were given"),
    "digits.run(x, x)": ("TypeError", "digits.run: the model has 1 input, 2 were given"),
}


@needs_linux
def test_another_array_is_a_line_that_says_what_was_expected_and_what_came(site: Path):
    script = f"""
import digits
x = numpy.zeros({SHAPE}, "int8")
first = digits.run(x)
said = []
for call in {[*FAULTS]!r}:
    try:
        eval(call)
        said.append(["nothing", ""])
    except Exception as error:
        said.append([type(error).__name__, str(error)])
say([said, first, digits.run(x)])
"""
    said, before, after = answer(site, script)

    assert dict(zip(FAULTS, map(tuple, said), strict=True)) == FAULTS
    assert before == after


@needs_linux
def test_a_second_thread_gets_an_error_and_the_first_its_result(site: Path):
    """While the first thread is in an inference the interpreter runs on, or nobody would see that it is busy."""
    script = """
import threading
import digits
image, wanted = arrays["image"], arrays["wanted"].tobytes()
right, refused, wrong = [], set(), []
def work():
    while not (right and refused) and len(wrong) == 0:
        try:
            (right if digits.run(image).tobytes() == wanted else wrong).append(1)
        except RuntimeError as error:
            refused.add(str(error))
threads = [threading.Thread(target=work) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
say([bool(right), sorted(refused), wrong, digits.run(image)])
"""
    arrays = {"image": digits_vectors(1)[0]["image"], "wanted": digits_expected(1)[0]}
    right, refused_, wrong, last = answer(site, script, arrays)

    line = (
        "digits: another thread is in an inference, and the model has one arena; take a lock around the calls, or one "
        "process for each thread"
    )
    assert (right, refused_, wrong, last) == (True, [line], [], told(arrays["wanted"]))


@needs_linux
def test_a_child_that_is_forked_in_the_midst_of_an_inference_computes(site: Path):
    """Of another thread, which the child has not."""
    script = """
import os, threading
import digits
image, wanted, ended = arrays["image"], arrays["wanted"].tobytes(), []
def work():
    while not ended:
        digits.run(image)
thread = threading.Thread(target=work)
thread.start()
children = []
for _ in range(12):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if digits.run(image).tobytes() == wanted else 1)
    children.append(os.waitpid(pid, 0)[1])
ended.append(True)
thread.join()
say(children)
"""
    arrays = {"image": digits_vectors(1)[0]["image"], "wanted": digits_expected(1)[0]}

    assert answer(site, script, arrays) == [0] * 12


def of_all_types() -> Any:
    """A unit with inputs and outputs of int8, uint8, int16 and float32, several of each end."""
    rng = np.random.default_rng(5)
    graphs = [
        sample(ops.Add, rng),
        as_float32(sample(ops.MaxPool2d, rng), rng),
        sample(ops.Conv2d, np.random.default_rng(1)),
    ]
    return emitted.unit_of(replace(side_by_side(graphs), name="many"))


@needs_linux
def test_several_inputs_and_outputs_have_their_types(tmp_path: Path):
    unit = of_all_types()
    vector = random_inputs(unit.graph, np.random.default_rng(2))
    site = installed_of(unit, tmp_path)
    names = [*unit.graph.inputs]
    arrays = {f"a{i}": vector[name] for i, name in enumerate(names)}
    script = f"""
import many
given = [arrays[f"a{{i}}"] for i in range({len(names)})]
try:
    many.run(*given[:-1])
except TypeError as error:
    few = str(error)
say([many.run(*given), few, [each.scale for each in many.outputs]])
"""
    found, few, scales = answer(site, script, arrays)

    wanted = emitted.expected(unit.graph, vector)
    assert found == [told(wanted[name]) for name in unit.graph.outputs]
    assert {unit.type(name).dtype for name in names} >= {DType.FLOAT32, DType.INT8}
    assert few == f"many.run: the model has {len(names)} inputs, {len(names) - 1} were given"
    assert [scale is None for scale in scales] == [unit.type(n).dtype is DType.FLOAT32 for n in unit.graph.outputs]


@needs_linux
def test_states_are_kept_and_reset(tmp_path: Path):
    unit = emitted.unit_of(ring())
    rows = np.arange(4 * 3, dtype=np.int8).reshape(4, 1, 1, 1, 3)
    script = """
import ring
first = [ring.run(row) for row in arrays["rows"]]
ring.reset()
say([first, [ring.run(row) for row in arrays["rows"]]])
"""
    first, again = answer(installed_of(unit, tmp_path), script, {"rows": rows})

    state, wanted = unit.graph.tensors["first"].data, []
    assert state is not None
    for row in rows:
        wanted.append(np.concatenate((state, row), axis=1))
        state = wanted[-1][:, 1:]
    assert first == again == [told(each) for each in wanted]


@needs_linux
def test_a_streamed_input_is_pushed_row_by_row(tmp_path: Path):
    made = shoehorn_mcu.generate_for_linux(DIGITS, tmp_path / "d", PlanOptions(cpu="host", stream_input=True))
    script = """
import digits
image = arrays["image"][0]
none = [digits.push(row) for row in image[:3]]
digits.reset()
found = [digits.push(row) for _ in range(2) for row in image]
try:
    digits.push(image)
except ValueError as error:
    fault = str(error)
say([none, found, fault, digits.row_shape, hasattr(digits, "run")])
"""
    arrays = {"image": digits_vectors(1)[0]["image"]}
    none, found, fault, shape, has_run = answer(installed(made.wheel, tmp_path / "site"), script, arrays)

    assert (none, found) == ([None] * 3, [*[None] * 7, told(digits_expected(1)[0])] * 2)
    assert fault == "digits.push: image is an array of int8 with shape (8, 1); got shape (8, 8, 1)"
    assert (shape, has_run) == ([8, 1], False)


PROGRAM = """#include <stdio.h>
#include "digits.h"
int main(void)
{
    while (fread(digits_input(), DIGITS_INPUT_BYTES, 1, stdin) == 1) {
        digits_run();
        if (fwrite(digits_output(), DIGITS_OUTPUT_BYTES, 1, stdout) != 1) {
            return 1;
        }
    }
    return 0;
}
"""


def flags_of(folder: Path) -> list[str]:
    """What the file of pkg-config gives to a compiler, by pkg-config where that is here."""
    place = folder / "linux" / "lib" / "pkgconfig"
    if shutil.which("pkg-config"):
        command = ["pkg-config", "--cflags", "--libs", "digits"]
        environment = {**os.environ, "PKG_CONFIG_PATH": str(place)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    values = {"pcfiledir": str(place)}
    fields: dict[str, str] = {}
    for line in (place / "digits.pc").read_text().splitlines():
        name, _, value = line.partition(": " if ": " in line else "=")
        for key, known in values.items():
            value = value.replace(f"${{{key}}}", known)
        (fields if ": " in line else values)[name] = value
    return f"{fields['Cflags']} {fields['Libs']}".split()


def check_program(folder: Path, compiler: list[str], runner: list[str]) -> None:
    """A C program of the shared library, compiled and run, gives the reference's bytes."""
    (folder / "main.c").write_text(PROGRAM)
    program = folder / "program"
    strict = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
    command = [*compiler, *strict, str(folder / "main.c"), "-o", str(program), *flags_of(folder)]
    done = subprocess.run([*command, f"-Wl,-rpath,{folder / 'linux' / 'lib'}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    data = b"".join(v["image"].tobytes() for v in digits_vectors(3))
    ran = subprocess.run([*runner, str(program)], input=data, capture_output=True, timeout=120)

    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == b"".join(each.tobytes() for each in digits_expected(3))


@needs_linux
def test_a_c_program_finds_the_shared_library_by_pkg_config(written: shoehorn_mcu.GeneratedForLinux):
    check_program(written.folder, [*HOST], [])
    library = ELFFile(io.BytesIO(written.library.read_bytes()))
    names = {s.name for s in library.get_section_by_name(".dynsym").iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}
    dynamic = {tag.entry.d_tag: tag for tag in library.get_section_by_name(".dynamic").iter_tags()}

    assert names - {""} == {"digits_input", "digits_output", "digits_run"}
    assert dynamic["DT_SONAME"].soname == "libdigits.so"
    header = (written.folder / "linux" / "include" / "digits.h").read_text()
    assert "The program provides" not in header and "#define DIGITS_CORES 3" in header
    assert "The program provides" in (written.folder / "src" / "digits.h").read_text()


MACHINES = {
    "cortex-a53": ("qemu-aarch64", "cortex-a53", "/usr/aarch64-linux-gnu", "aarch64-linux-gnu.2.17"),
    "arm1176": ("qemu-arm", "cortex-a7", "/usr/arm-linux-gnueabihf", "arm-linux-gnueabihf.2.17"),
    "cortex-a7": ("qemu-arm", "cortex-a7", "/usr/arm-linux-gnueabihf", "arm-linux-gnueabihf.2.17"),
}
ARM_ATTRIBUTES = {  # architecture, floats in registers of the FPU, NEON with fused multiply-add
    "arm1176": (6, 1, None),  # v6
    "cortex-a7": (10, 1, 2),  # v7
}


@pytest.mark.parametrize(
    ("core", "threads"),
    [
        ("cortex-a53", 4),
        ("arm1176", 1),
        ("cortex-a7", 4),
        pytest.param("cortex-a7", 1, marks=pytest.mark.long),
        pytest.param("cortex-a53", 1, marks=pytest.mark.long),
        pytest.param("arm1176", 4, marks=pytest.mark.long),
    ],
)
def test_the_shared_library_runs_in_a_c_program_for_arm(core: str, threads: int, tmp_path: Path):
    qemu, machine, root, triple = MACHINES[core]
    if not shutil.which(qemu) or not (Path(root) / "lib").is_dir():
        pytest.skip(f"{qemu} or {root} is not installed")
    made = shoehorn_mcu.generate_for_linux(DIGITS, tmp_path / "d", PlanOptions(cpu=core, cores=threads))
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", triple, "-O2", "-fno-sanitize=all"]
    check_program(made.folder, zig, [qemu, "-cpu", machine, "-L", root])

    library = ELFFile(io.BytesIO(made.library.read_bytes()))
    assert library["e_machine"] == ("EM_AARCH64" if core == "cortex-a53" else "EM_ARM")
    if core in ARM_ATTRIBUTES:
        attributes = {
            a.tag: a.value
            for section in library.get_section_by_name(".ARM.attributes").iter_subsections()
            for part in section.iter_subsubsections()
            for a in part.iter_attributes()
        }
        tags = ("TAG_CPU_ARCH", "TAG_ABI_VFP_ARGS", "TAG_ADVANCED_SIMD_ARCH")
        assert tuple(map(attributes.get, tags)) == ARM_ATTRIBUTES[core]


def test_the_wheel_is_as_the_specification_says(written: shoehorn_mcu.GeneratedForLinux):
    name, version, *tag = written.wheel.name.removesuffix(".whl").split("-")
    archive = zipfile.ZipFile(written.wheel)
    info = f"{name}-{version}.dist-info"
    files = {each.filename: archive.read(each) for each in archive.infolist()}
    rows = [*csv.reader(io.StringIO(files[f"{info}/RECORD"].decode()))]

    assert [row[0] for row in rows] == archive.namelist() and rows[-1] == [f"{info}/RECORD", "", ""]
    for path, total, size in rows[:-1]:
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).decode().rstrip("=")
        assert (total, int(size)) == (f"sha256={digest}", len(files[path]))
    assert f"Tag: {'-'.join(tag)}\n" in files[f"{info}/WHEEL"].decode()
    assert "Root-Is-Purelib: false\n" in files[f"{info}/WHEEL"].decode()
    head, _, text = files[f"{info}/METADATA"].decode().partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert (fields["Name"], fields["Version"], fields["Requires-Dist"]) == ("digits", version, "numpy")
    assert fields["Requires-Python"] == ">=3.11" and "import digits" in text
    assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert sorted(path for path in files if path.startswith("digits/")) == [
        f"digits/{path}" for path in ("__init__.py", "_native.abi3.so", "_native.pyi", "py.typed")
    ]
    module = ELFFile(io.BytesIO(files["digits/_native.abi3.so"])).get_section_by_name(".dynsym")
    assert [s.name for s in module.iter_symbols() if s.name and s["st_shndx"] != "SHN_UNDEF"] == ["PyInit__native"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("mww-okay_2.1+b", "mww-okay_2.1+b"),
        ('a"b\\c', "a?b?c"),
        ("a\nb\r\0", "a?b??"),
        ("\u00e4\u0661 x", "?? x"),
        ("", ""),
    ],
)
def test_a_name_in_a_docstring_and_in_metadata_has_letters_digits_and_a_few_signs(name: str, shown: str):
    assert python_files.plain(name) == shown


def test_a_wheel_has_no_symbol_of_a_later_glibc_than_its_tag_says(written: shoehorn_mcu.GeneratedForLinux):
    archive = zipfile.ZipFile(written.wheel)
    elf = ELFFile(io.BytesIO(archive.read("digits/_native.abi3.so")))
    needed = [a.name for _, each in elf.get_section_by_name(".gnu.version_r").iter_versions() for a in each]

    assert needed and all(tuple(map(int, n.removeprefix("GLIBC_").split("."))) <= (2, 17) for n in needed)
    libraries = {t.needed for t in elf.get_section_by_name(".dynamic").iter_tags() if t.entry.d_tag == "DT_NEEDED"}
    assert libraries <= {"libc.so.6", "libpthread.so.0"}


@pytest.mark.parametrize(
    ("core", "platform", "bits32", "taken"),
    [
        ("cortex-a53", "linux-aarch64", False, True),
        ("cortex-a72", "linux-aarch64", False, True),
        ("cortex-a76", "linux-aarch64", False, True),
        ("neoverse-v1", "linux-aarch64", False, True),
        ("arm1176", "linux-armv6l", True, True),
        ("arm1176", "linux-armv7l", True, True),
        ("arm1176", "linux-aarch64", True, True),  # 32-bit Python on a 64-bit kernel, as Raspberry Pi OS has it
        ("arm1176", "linux-aarch64", False, False),
        ("cortex-a7", "linux-armv6l", True, False),
        ("cortex-a7", "linux-armv7l", True, True),
        ("cortex-a53-aarch32", "linux-aarch64", True, True),
        ("cortex-a7", "linux-aarch64", False, False),
        ("cortex-a53", "linux-x86_64", False, False),
        ("cortex-a53", "linux-armv7l", True, False),
    ],
)
def test_pip_takes_a_wheel_on_the_machines_of_its_tag(
    core: str, platform: str, bits32: bool, taken: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tags.sysconfig, "get_platform", lambda: platform)
    monkeypatch.setattr(tags._manylinux, "_have_compatible_abi", lambda *_: True)
    monkeypatch.setattr(tags._manylinux, "_get_glibc_version", lambda: (2, 36))
    known = {f"cp311-abi3-{each}" for each in tags._linux_platforms(is_32bit=bits32)}
    name = wheel.file_name(About("kws", "1", "", "", ""), target(core).platforms)
    _, _, python, abi, platforms = name.removesuffix(".whl").split("-")

    assert any(f"{python}-{abi}-{each}" in known for each in platforms.split(".")) == taken


def test_a_library_built_twice_is_byte_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Elsewhere, and without the objects of other tests. Planning twice is in test_cli_project.py."""
    monkeypatch.setattr(compiled, "_ended", linux_wheels._REALLY_ENDED)
    unit = emitted.unit_of(replace(sample(ops.Relu, np.random.default_rng(0)), name="twice"))
    found = []
    for place in ("one", "another/place"):
        (tmp_path / place).mkdir(parents=True)
        monkeypatch.setattr(compiled.tempfile, "tempdir", str(tmp_path / place))
        found.append(linux_wheels.made(unit))

    assert found[0].files == found[1].files and found[0].wheel == found[1].wheel


@pytest.mark.long
def test_a_wheel_is_byte_equal_whatever_the_hash_seed_and_place(tmp_path: Path):
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / f"place{seed}"
        folder.mkdir()
        command = [sys.executable, "-m", "shoehorn_mcu", "library", str(DIGITS), "--cpu", "cortex-a53", "--os", "linux"]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TMPDIR": str(folder)}
        subprocess.run([*command, "--out", "out"], check=True, capture_output=True, cwd=folder, env=environment)
        found.append({p.relative_to(folder): p.read_bytes() for p in (folder / "out").rglob("*") if p.is_file()})

    assert found[0] == found[1]


ADRP, ADD, LOAD = 0x90000008, 0x91000108, 0xF9400109  # adrp x8, 0; add x8, x8, 0; ldr x9, [x8]
NOP = 0xD503201F


@pytest.mark.parametrize(
    ("words", "address", "found"),
    [
        ((ADRP, NOP, LOAD), 0x2FF8, True),
        ((NOP, ADRP, NOP, NOP, LOAD), 0x2FF8, True),
        ((ADRP, NOP, NOP, NOP, LOAD), 0x2FF8, False),  # too far behind
        ((ADRP, NOP, LOAD), 0x2FF4, False),  # not at the end of a page
        ((ADRP, NOP, LOAD), 0x3000, False),
        ((ADRP, ADD, NOP, NOP), 0x2FFC, False),
        ((ADRP, NOP, LOAD + (1 << 5)), 0x2FFC, False),  # from another register
        ((*[NOP] * 1026, ADRP, NOP, LOAD), 0x1FF0, True),  # of a later page
    ],
)
def test_code_at_a_page_s_end_that_an_a53_may_compute_wrongly_is_found(words: list[int], address: int, found: bool):
    assert errata._found(words, address) == found


def test_code_that_an_a53_may_compute_wrongly_is_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two links of the library are refused by the search, and one of the module."""
    answers, seen = [True, True, False, True, False], []

    def may_fail(elf: bytes) -> bool:
        table = ELFFile(io.BytesIO(elf)).get_section_by_name(".text")
        seen.append(table["sh_size"])
        return answers.pop(0)

    monkeypatch.setattr(compiled, "may_fail", may_fail)
    unit = emitted.unit_of(replace(sample(ops.Relu, np.random.default_rng(0)), name="moved"))
    found = linux_wheels.made(unit, "cortex-a53")

    assert seen[1] >= seen[0] + 16 and seen[2] == seen[1] + 16 and seen[4] >= seen[3] + 16
    assert (answers, errata.may_fail(found.files[found.library])) == ([], False)
    monkeypatch.setattr(compiled, "may_fail", lambda _: True)
    monkeypatch.setattr(compiled, "_MOST_MOVED", 2)
    with pytest.raises(BuildError, match=r"libmoved\.so has code that a Cortex-A53 may compute wrongly"):
        linux_wheels.made(unit, "cortex-a53")


PYTHON_H = Path(__import__("sysconfig").get_path("include")) / "Python.h"
STRUCTS = {
    "PyObject": ("ob_refcnt", "ob_type"),
    "PyMethodDef": ("ml_name", "ml_meth", "ml_flags", "ml_doc"),
    "PyModuleDef_Base": ("ob_base", "m_init", "m_index", "m_copy"),
    "PyModuleDef_Slot": ("slot", "value"),
    "PyModuleDef": (
        *("m_base", "m_name", "m_doc", "m_size", "m_methods", "m_slots", "m_traverse", "m_clear", "m_free"),
    ),
    "Py_buffer": (
        *("buf", "obj", "len", "itemsize", "readonly", "ndim", "format", "shape", "strides", "suboffsets", "internal"),
    ),
}
NUMBERS = ("METH_NOARGS", "METH_FASTCALL", "Py_mod_exec", "PyBUF_WRITABLE", "PyBUF_FULL_RO")


@pytest.mark.skipif(not PYTHON_H.is_file() or not shutil.which("gcc"), reason="Python.h or gcc is not here")
def test_what_is_declared_of_python_is_what_python_h_has(tmp_path: Path):
    """The functions are declared behind Python.h in one file; of structs both files give sizes and offsets."""
    head = {"ours": '#include "sh_python.h"', "real": "#define Py_LIMITED_API 0x030b0000\n#include <Python.h>"}
    printed = [f'    printf("{n} %d\\n", (int){n});' for n in NUMBERS]
    for struct, fields in STRUCTS.items():
        printed.append(f'    printf("{struct} %zu\\n", sizeof({struct}));')
        printed += [f'    printf("{struct}.{f} %zu\\n", offsetof({struct}, {f}));' for f in fields]
        printed += [f'    printf("{struct}.{f} %zu\\n", sizeof((({struct} *)0)->{f}));' for f in fields]
    found = {}
    include = [f"-I{TEMPLATES}", f"-I{PYTHON_H.parent}"]
    for name, text in head.items():
        source = tmp_path / f"{name}.c"
        body = "\n".join(printed)
        source.write_text(f"{text}\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{{\n{body}\n}}\n")
        program = tmp_path / name
        subprocess.run(["gcc", *include, str(source), "-o", str(program)], check=True)
        found[name] = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    both = tmp_path / "both.c"
    both.write_text(f'{head["real"]}\n#include "sh_python.h"\n')
    done = subprocess.run(["gcc", *include, "-fsyntax-only", str(both)], capture_output=True, text=True)

    assert found["ours"] == found["real"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("gcc") or sys.platform != "linux", reason="gcc for Linux is not here")
@pytest.mark.parametrize("sanitizer", ["-fsanitize=thread", "-fsanitize=address,undefined"])
def test_the_pool_runs_each_part_once_and_sleeps(sanitizer: str, tmp_path: Path):
    """With all threads, three, and none that the system gives; on one processor, too, where no thread looks."""
    (tmp_path / "sh").symlink_to(RUNTIME_C)
    source, program = Path(__file__).parent / "c" / "linux_pool.c", tmp_path / "pool"
    strict = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-O1", "-pthread")
    include = (f"-I{TEMPLATES}", f"-I{tmp_path}")
    done = subprocess.run(
        ["gcc", *strict, sanitizer, *include, str(source), "-o", str(program)], capture_output=True, text=True
    )
    if "cannot find" in done.stderr:
        pytest.skip(f"gcc has no library for {sanitizer}")
    assert done.returncode == 0, done.stderr
    for given in ("8", "3", "0"):
        for one in ([], ["taskset", "-c", str(min(os.sched_getaffinity(0)))]):
            ran = subprocess.run(
                [*one, str(program), given],
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "TSAN_OPTIONS": "die_after_fork=0"},
            )
            if "unexpected memory mapping" in ran.stderr:
                pytest.skip("the thread sanitizer cannot run with this kernel's address space")
            assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_module_compiles_without_a_warning(tmp_path: Path):
    unit = of_all_types()
    package = linux.linux_package(unit, emitted.library_of(unit))
    emitted.put(package.files, tmp_path)
    strict = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror", "-fsyntax-only")
    include = (f"-I{tmp_path / 'src'}", f"-I{tmp_path / 'linux/src'}")
    done = subprocess.run(
        [*HOST, *strict, *include, str(tmp_path / "linux/src/sh_module.c")], capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_that_of_what_the_wheel_is_made_of(monkeypatch: pytest.MonkeyPatch):
    def version(seed: int) -> str:
        unit = emitted.unit_of(replace(sample(ops.Relu, np.random.default_rng(seed)), name="one"))
        return linux.linux_package(unit, emitted.library_of(unit)).about.version

    before = [version(0), version(0), version(1)]
    monkeypatch.setattr("shoehorn_mcu.emit.linux.package.package", lambda *_: "other Python")

    assert before[0] == before[1] != before[2]
    assert version(0) not in before
    assert all(each.startswith(f"{shoehorn_mcu.__version__}+m") for each in before)


def test_a_docstring_survives_any_name():
    unit = emitted.unit_of(replace(sample(ops.Relu, np.random.default_rng(0)), name='a"""\\\n{b}'))
    package = linux.linux_package(unit, emitted.library_of(unit))
    text = package.files[f"linux/python/{unit.name}/__init__.py"].decode()
    scope: dict[str, object] = {"__name__": unit.name}
    native = SimpleNamespace(run=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, unit.name, SimpleNamespace(_native=native))
        patch.setitem(sys.modules, f"{unit.name}._native", native)
        exec(compile(text, "module", "exec"), scope)

    assert scope["__all__"] == ["Tensor", "cores", "inputs", "model_sha256", "outputs", "run"]
    assert "\n" not in package.about.summary and '"' not in package.about.summary
