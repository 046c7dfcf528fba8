"""`gen library --framework rust`: the crate builds, is clean, computes the reference's bytes and cannot be misused."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import bound
import emitted
import pytest
import ziglang
from doc_code import ROOT
from elftools.elf.elffile import ELFFile
from test_cli_project import DIGITS, files_of, gen

from shoehorn_mcu.emit.bindings import binding
from shoehorn_mcu.emit.bindings.ends import ends
from shoehorn_mcu.emit.bindings.rust_source import TYPES, _documented, camel
from shoehorn_mcu.emit.templates import TemplateError
from shoehorn_mcu_host.base import cbuild

HOME = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "bin"
PATH = os.pathsep.join([os.environ.get("PATH", ""), str(HOME)])


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name, path=PATH) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


def cargo(*words: str | Path, cwd: Path, fails: bool = False, **environment: str) -> str:
    """What a command of Rust prints."""
    own = {"CARGO_NET_OFFLINE": "true", "CARGO_TERM_COLOR": "never", "CFLAGS": "-O0 -Wall -Wextra -Werror"}
    env = {**os.environ, "PATH": PATH, **own, **environment}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert bool(done.returncode) is fails, f"{done.stdout[-2000:]}{done.stderr[-6000:]}"
    return done.stdout + done.stderr


def files(case: bound.Case, cpu: str | None = None) -> Mapping[str, bytes]:
    return binding(case.unit, case.constants, "rust", cpu)


HEAD = """
use std::io::{Read, Write};
fn bytes<T>(value: &mut T) -> &mut [u8] {
    unsafe { std::slice::from_raw_parts_mut((value as *mut T).cast(), std::mem::size_of::<T>()) }
}
fn fill<T>(value: &mut T) -> bool {
    std::io::stdin().read_exact(bytes(value)).is_ok()
}
fn put<T: Copy>(value: &T) {
    std::io::stdout().write_all(bytes(&mut { *value })).unwrap();
}
"""


def _turn(case: bound.Case) -> str:
    """The function that runs a model for every input on stdin."""
    unit, made = case.unit, ends(case.unit)
    name = "while_model" if unit.name == "while" else unit.name
    writes = " ".join(f"put(outputs.{end.suffix});" for end in made if not end.is_input)
    owned = unit.arenas.values() if unit.caller_arena else ()
    arenas = ["Arena" if arena.is_main else f"Arena{arena.memory.capitalize()}" for arena in owned]
    places = "".join(f"let mut a{i} = {name}::{kind}::new();" for i, kind in enumerate(arenas))
    taken = ", ".join(f"&mut a{i}" for i in range(len(arenas)))
    # A first model is dropped in the middle; the second one begins anew.
    used = "push_row(&[0; N])" if unit.streamed else "run()"
    used = used.replace(")", ", |_, _| ())" if unit.streamed else "|_, _| ())") if unit.handed_out else used
    used = used.replace("N", f"{name}::INPUT_ROW_ELEMENTS")
    first = f"{{ let mut model = {name}::Model::take({taken}).unwrap(); model.{used}; }}"
    body = f"{places} {first} let mut model = {name}::Model::take({taken}).unwrap();"
    sink = "|y: usize, row: &{name}::OutputRow| {{ assert_eq!(y, next % {name}::OUTPUT_ROWS); next += 1; put(row); }}"
    sink = sink.format(name=name)
    body += "let mut next = 0;" if unit.handed_out else ""
    if unit.streamed is None:
        fills = " && ".join(f"fill(model.inputs().{end.suffix})" for end in made if end.is_input)
        run = f"model.run({sink});" if unit.handed_out else f"let outputs = model.run(); {writes}"
        return f"fn {name}() {{ {body} while {fills} {{ {run} }} }}"
    row, first = (f"&row, {sink}", "&row, |_, _| ()") if unit.handed_out else ("&row", "&row")
    last = "let _ = done;" if unit.handed_out else f"if let Some(outputs) = done {{ {writes} }}"
    anew = "restart" if unit.graph.states else "reset"
    return f"""fn {name}() {{ {body}
    let mut row: {name}::InputRow = [0; {name}::INPUT_ROW_ELEMENTS];
    model.push_row({first});
    model.{anew}();
    loop {{
        if !fill(&mut row) {{ break; }}
        let done = model.push_row({row});
        {last}
        if !fill(model.next_row()) {{ break; }}
        let done = model.push_next_row({row.replace("&row, ", "").replace("&row", "")});
        {last}
    }}
}}"""


def _crate(name: str) -> str:
    return f"{name}_model" if name == "while" else name


def _program(cases: Mapping[str, bound.Case]) -> str:
    """A program that runs the model that is its argument."""
    arms = "".join(f'"{name}" => {_crate(name)}(),' for name in cases)
    main = f"fn main() {{ match std::env::args().nth(1).unwrap().as_str() {{ {arms} _ => panic!() }} }}"
    return HEAD + "\n".join(map(_turn, cases.values())) + main


def _runs(program: Path, cases: Mapping[str, bound.Case]) -> None:
    """The program gives the bytes of the reference."""
    for name, case in cases.items():
        done = subprocess.run([program, name], input=case.data, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        assert (name, done.stdout) == (name, case.wanted)


def _workspace(folder: Path, cases: Mapping[str, bound.Case]) -> Path:
    """A workspace of crates, and a program of them."""
    for name, case in cases.items():
        emitted.put(files(case), folder / name)
    depends = "".join(f'{_crate(name)} = {{ path = "../{name}" }}\n' for name in cases)
    members = json.dumps(["app", *cases])
    settings = f'[workspace]\nresolver = "2"\nmembers = {members}\n[profile.dev]\ndebug = false\n'
    package = f'[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n{depends}'
    made = {"Cargo.toml": settings, "app/Cargo.toml": package, "app/src/main.rs": _program(cases)}
    return emitted.put({path: text.encode() for path, text in made.items()}, folder)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two models, so that it is built soon."""
    cases = {name: case for name, case in bound.cases().items() if name in ("while", "all_rows")}
    return _workspace(tmp_path_factory.mktemp("workspace"), cases)


@needs("cargo", "cc")
def test_cargo_builds_two_crates_into_a_program_that_gives_the_reference_s_bytes(workspace: Path):
    cargo("cargo", "build", "--quiet", "-p", "app", cwd=workspace)

    _runs(workspace / "target/debug/app", {name: bound.cases()[name] for name in ("while", "all_rows")})


@needs("rustc", "cc", "ar")
def test_every_interface_computes_the_reference_s_bytes_in_one_program(tmp_path: Path):
    """Without cargo, which takes a second for each crate; a long test below is with it."""
    links: list[str] = []
    for name, case in bound.cases().items():
        emitted.put(files(case), tmp_path / name)
        archive = f"libshoehorn_{name}.a"
        cargo("cc", "-c", "-O0", f"{name}/c/{name}.c", "-o", f"{name}.o", cwd=tmp_path)
        cargo("ar", "crs", archive, f"{name}.o", cwd=tmp_path)
        library = ("--crate-type", "rlib", "--crate-name", _crate(name), f"{name}/src/lib.rs")
        cargo("rustc", "--edition", "2021", "-L.", f"-lstatic=shoehorn_{name}", "-Dwarnings", *library, cwd=tmp_path)
        links += ["--extern", _crate(name)]
    (tmp_path / "main.rs").write_text(_program(bound.cases()))
    cargo("rustc", "--edition", "2021", "-L.", *links, "main.rs", cwd=tmp_path)

    _runs(tmp_path / "main", bound.cases())


@needs("cargo", "cargo-clippy", "cc")
@pytest.mark.long
def test_cargo_builds_every_crate_and_clippy_has_nothing_to_say(tmp_path: Path):
    folder = _workspace(tmp_path, bound.cases())
    cargo("cargo", "build", "--quiet", "-p", "app", cwd=folder)
    _runs(folder / "target/debug/app", bound.cases())
    crates = [word for name in bound.cases() for word in ("-p", _crate(name))]

    cargo("cargo", "clippy", "--quiet", *crates, "--all-targets", "--", "-D", "warnings", cwd=folder)


@needs("clippy-driver")
@pytest.mark.parametrize("name", ["apart", "all_rows"])
def test_clippy_has_nothing_to_say(name: str, tmp_path: Path):
    emitted.put(files(bound.cases()[name]), tmp_path)
    (tmp_path / "clippy.toml").write_text('msrv = "1.63"\n')  # that of Cargo.toml
    checked = ("--edition", "2021", "--emit=metadata", "-Dwarnings", "-Wclippy::all")
    for kind, path in (("lib", "src/lib.rs"), ("bin", "build.rs")):
        words = ("clippy-driver", *checked, "--crate-type", kind, "--out-dir", tmp_path, path)
        cargo(*words, cwd=tmp_path, CLIPPY_CONF_DIR=str(tmp_path))


@needs("rustfmt")
def test_every_file_is_as_rustfmt_writes_it(tmp_path: Path):
    for name, case in bound.cases().items():
        emitted.put(files(case), tmp_path / name)
    sources = sorted(tmp_path.rglob("*.rs"))

    assert len(sources) == 3 * len(bound.cases())
    cargo("rustfmt", "--check", "--edition", "2021", *sources, cwd=tmp_path)


@needs("cargo", "rustdoc", "cc")
def test_its_pages_are_clean_and_the_example_on_them_runs(workspace: Path):
    cargo("cargo", "doc", "--quiet", "--no-deps", "-p", "while_model", cwd=workspace, RUSTDOCFLAGS="-D warnings")
    said = cargo("cargo", "test", "--quiet", "-p", "while_model", "--doc", cwd=workspace)

    assert "1 passed" in said
    assert "while_model::Model::take()" in (workspace / "while" / "README.md").read_text()


MISUSES = {
    "two models": ("let a = M::take(); let b = M::take(); assert!(a.is_some() && b.is_none());", ""),
    "again behind the end": ("drop(M::take()); assert!(M::take().is_some());", ""),
    "an output behind a write": ("let mut m = M::take().unwrap(); let o = m.run(); m.inputs(); o.output[0];", "E0499"),
    "an output of the run before": ("let mut m = M::take().unwrap(); let o = m.run(); m.run(); o.output[0];", "E0499"),
    "an input behind a run": ("let mut m = M::take().unwrap(); let i = m.inputs(); m.run(); i.input[0] = 1;", "E0499"),
    "an output behind the model": ("let o = M::take().unwrap().run(); o.output[0];", "E0716"),
    "two threads": (
        "let m = M::take().unwrap(); std::thread::scope(|s| { s.spawn(|| { let _ = &m; }); });",
        "E0277",
    ),
    "another thread": ("let mut m = M::take().unwrap(); std::thread::spawn(move || { m.run(); }).join().unwrap();", ""),
    "a model of one's own": ("let m = M { _not_sync: std::marker::PhantomData };", "E0451"),
    "an input of another size": ("let mut m = M::take().unwrap(); *m.inputs().input = [0; 63];", "E0308"),
    "an input of another type": ("let mut m = M::take().unwrap(); m.inputs().input[0] = 0.5;", "E0308"),
}


@needs("cargo", "rustc", "cc")
def test_what_would_be_wrong_does_not_compile_and_the_rest_runs(workspace: Path, tmp_path: Path):
    cargo("cargo", "build", "--quiet", "-p", "while_model", cwd=workspace)
    (library,) = (workspace / "target/debug").glob("libwhile_model.rlib")
    archives = sorted((workspace / "target").rglob("libshoehorn_while.a"), key=lambda path: path.stat().st_mtime)
    for name, (body, code) in MISUSES.items():
        source = tmp_path / f"{re.sub(r'[^a-z]', '_', name)}.rs"
        source.write_text(f"#![allow(unused)]\nuse while_model::Model as M;\nfn main() {{ {body} }}\n")
        words = ["rustc", "--edition", "2021", "--extern", f"while_model={library}", source, "-L", archives[-1].parent]
        words += ["--emit=metadata"] if code else ["-o", source.with_suffix("")]
        said = cargo(*words, cwd=tmp_path, fails=bool(code))
        assert re.findall(r"^error\[(E\d+)\]", said, re.M) == ([code] if code else []), f"{name}: {said}"
        if not code:
            subprocess.run([source.with_suffix("")], check=True, timeout=60)


TAKEN = """
mod taken { include!(env!("TAKEN")); }
use std::sync::atomic::{AtomicUsize, Ordering};
static FLAG: taken::Taken = taken::Taken::new();
static HOLDERS: AtomicUsize = AtomicUsize::new(0);
fn main() {
    assert!(FLAG.take() && !FLAG.take());
    FLAG.give();
    assert!(FLAG.take());
    FLAG.give();
    let mut had = 0;
    std::thread::scope(|s| {
        let all: Vec<_> = (0..4).map(|_| s.spawn(|| {
            let mut had = 0;
            for _ in 0..20000 {
                if FLAG.take() {
                    assert_eq!(HOLDERS.fetch_add(1, Ordering::SeqCst), 0);
                    HOLDERS.fetch_sub(1, Ordering::SeqCst);
                    FLAG.give();
                    had += 1;
                }
            }
            had
        })).collect();
        for each in all { had += each.join().unwrap(); }
    });
    assert!(had > 0);
}
"""


@needs("rustc")
def test_the_block_on_the_page_about_libraries_compiles(tmp_path: Path):
    (block,) = re.findall(r"^```rust\n(.*?)^```", (ROOT / "docs" / "library.md").read_text(), re.S | re.M)
    case = bound.cases()["while"]
    emitted.put(binding(replace(case.unit, name="kws"), case.constants, "rust", None), tmp_path)
    checked = ("rustc", "--edition", "2021", "--emit=metadata", "-Dwarnings")
    cargo(*checked, "--crate-name", "kws", "--crate-type", "rlib", "src/lib.rs", cwd=tmp_path)
    (tmp_path / "main.rs").write_text(f"fn main() {{\n{block}assert!(best.is_some());\n}}\n")

    cargo(*checked, "--extern", f"kws={tmp_path / 'libkws.rmeta'}", "main.rs", cwd=tmp_path)


@needs("rustc")
@pytest.mark.parametrize("exchanges", [True, False])
def test_one_at_a_time_has_the_model_also_where_a_core_only_loads_and_stores(exchanges: bool, tmp_path: Path):
    text = (files(bound.cases()["while"])["src/taken.rs"].decode()).replace("//!", "//")
    if not exchanges:
        text = text.replace('cfg(target_has_atomic = "8")', "cfg(any())")
        text = text.replace('cfg(not(target_has_atomic = "8"))', "cfg(all())")
    (tmp_path / "taken.rs").write_text(text)
    (tmp_path / "main.rs").write_text(TAKEN)
    cargo("rustc", "--edition", "2021", "-O", "main.rs", cwd=tmp_path, TAKEN=str(tmp_path / "taken.rs"))

    subprocess.run([tmp_path / "main"], check=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "crate", "module"),
    [
        ("match", "match_model", "match"),
        ("core", "core_model", "core"),
        ("yield", "yield_model", "yield_model"),
        ("lambda", "lambda", "lambda_model"),
        ("machine", "machine", "machine_model"),
        ("kws", "kws", "kws"),
    ],
)
def test_a_name_that_a_language_has_taken_gets_an_ending(name: str, crate: str, module: str):
    case = bound.cases()["ring"]
    unit = replace(case.unit, name=name)
    rust, python = (binding(unit, case.constants, framework, None) for framework in ("rust", "micropython"))

    assert f'name = "{crate}"\n' in rust["Cargo.toml"].decode() and f'links = "{name}"\n' in rust["Cargo.toml"].decode()
    assert f'{crate} = {{ path = "../{name}" }}' in rust["README.md"].decode()
    assert f"MP_REGISTER_MODULE(MP_QSTR_{module}, {name}_user_module);" in python[f"{name}_module.c"].decode()


def test_its_functions_are_exactly_those_of_the_header():
    for name, case in bound.cases().items():
        made = files(case)
        header = re.sub(r"//.*", "", made[f"c/{name}.h"].decode())
        functions = set(re.findall(rf"\b{name}_(\w+)\(", header))
        text = made["src/lib.rs"].decode()
        declared = re.findall(rf'#\[link_name = "{name}_(\w+)"\]\s+pub fn (\w+)\(', text)
        provided = re.findall(rf'export_name = "{name}_(\w+)"', text)

        assert [a for a, b in declared] == [b for a, b in declared]
        assert sorted([*(a for a, _ in declared), *provided]) == sorted(functions), name


def test_its_constants_are_those_of_the_header():
    for name, case in bound.cases().items():
        made = files(case)
        macros = dict(re.findall(rf"#define {name.upper()}_(\w+) (.+)", made[f"c/{name}.h"].decode()))
        found = re.findall(r"pub const (\w+): ([^=]+) = (.+);", made["src/lib.rs"].decode())
        for key, _, value in found:
            if key.endswith("_ROW_ELEMENTS"):
                end = next(end for end in ends(case.unit) if key.startswith(f"{end.suffix.upper()}_ROW"))
                assert int(value) * end.type.dtype.bytes == int(macros[key.replace("ELEMENTS", "BYTES")])
            elif key.endswith("_SCALE"):
                assert float(value) == pytest.approx(float(macros[key].removesuffix("f")), rel=1e-7)
            elif key.endswith("_SHAPE"):
                assert value[1:-1] == macros[key][1:-1]
            else:
                assert value.strip("()") == macros[key].strip("()")
        whole = {f"{end.suffix.upper()}_{what}" for end in ends(case.unit) for what in ("ELEMENTS", "SHAPE")}
        assert whole | {"GENERATOR_VERSION"} <= {key for key, *_ in found}


def test_names_of_classes_are_what_they_were(tmp_path: Path):
    text = files(bound.cases()["by_rows"])["src/lib.rs"].decode()

    assert "pub const CLASSES: [&str; 4] = [" in text
    assert '    "\\u{22}3\\u{5c}\\u{fc}",\n' in text


def test_values_of_eight_bytes_are_bytes_because_an_arena_aligns_to_four():
    text = files(bound.cases()["every_type"])["src/lib.rs"].decode()

    assert {"i8", "u8", "i16", "u32", "f32"} <= set(re.findall(r"pub type \w+ = \[(\w+); ", text))
    assert len(re.findall(r"pub type Output\d* = \[\[u8; 8\]; ", text)) == 2
    assert set(TYPES) == {kind.value for kind in bound.DType}
    assert camel("input_12") == "Input12"


CLANG = f"{cbuild.zig()} clang -nostdinc -isystem {Path(ziglang.__file__).parent}/lib/include"
ZIG = {"CC": CLANG, "AR": f"{cbuild.zig()} ar"}
CROSS = [
    pytest.param("thumbv6m-none-eabi", None, "arm", ZIG, marks=needs("rustc")),
    pytest.param("thumbv7em-none-eabihf", "cortex-m4f", "arm", ZIG, marks=needs("rustc")),
    pytest.param("thumbv7em-none-eabi", "cortex-m4f", "arm", ZIG, marks=(needs("rustc"), pytest.mark.long)),
    pytest.param("thumbv8m.main-none-eabihf", None, "arm", {}, marks=needs("rustc", "arm-none-eabi-gcc")),
    pytest.param("riscv32imc-unknown-none-elf", "rv32imc", "riscv32", ZIG, marks=(needs("rustc"), pytest.mark.long)),
    pytest.param("riscv32imac-unknown-none-elf", None, "riscv32", {}, marks=needs("rustc", "riscv64-unknown-elf-gcc")),
]
MACHINES = {"arm": "EM_ARM", "riscv32": "EM_RISCV"}


@cache
def _compiled(script: bytes) -> Path:
    """The program of a build script; each is compiled once."""
    folder = Path(mkdtemp(prefix="build-script-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "build.rs").write_bytes(script)
    cargo("rustc", "--edition", "2021", "build.rs", "-o", "script", cwd=folder)
    return folder / "script"


def _build_script(
    folder: Path, case: bound.Case, target: str, arch: str, cpu: str | None, fails: bool, **env: str
) -> str:
    """Runs the build script as cargo does for another target."""
    emitted.put(files(case, cpu), folder)
    script = _compiled((folder / "build.rs").read_bytes())
    (folder / "out").mkdir(exist_ok=True)
    system = {"CARGO_CFG_TARGET_ARCH": arch, "CARGO_CFG_TARGET_OS": "none", "OUT_DIR": str(folder / "out")}
    env = {"TARGET": target, "HOST": "x86_64-unknown-linux-gnu", "CFLAGS": "-Wall -Werror", **system, **env}
    return cargo(script, cwd=folder, fails=fails, **env)


@pytest.mark.parametrize(("target", "cpu", "arch", "tools"), CROSS)
def test_the_build_script_compiles_for_the_core_of_a_microcontroller(
    target: str, cpu: str | None, arch: str, tools: dict[str, str], tmp_path: Path
):
    said = _build_script(tmp_path, bound.cases()["while"], target, arch, cpu, fails=False, **tools)

    assert "cargo:rustc-link-lib=static=shoehorn_while" in said
    assert f"cargo:rerun-if-env-changed=CC_{target.replace('-', '_')}" in said
    assert (tmp_path / "out" / "libshoehorn_while.a").read_bytes().startswith(b"!<arch>\n")
    with (tmp_path / "out" / "while.o").open("rb") as file:
        made = ELFFile(file)
        assert (made["e_machine"], made.elfclass) == (MACHINES[arch], 32)


@needs("rustc")
def test_the_compiler_for_the_target_comes_before_those_for_all(tmp_path: Path):
    tools = {**ZIG, "CC_thumbv7m_none_eabi": CLANG, "CC": "no-such-compiler", "TARGET_CC": "no-such-compiler"}
    _build_script(tmp_path, bound.cases()["ring"], "thumbv7m-none-eabi", "arm", None, fails=False, **tools)
    for wrong in ({"TARGET_CC": "no-such-cc"}, {"CC_thumbv7m_none_eabi": "", "CC": "no-such-cc"}):
        said = _build_script(
            tmp_path, bound.cases()["ring"], "thumbv7m-none-eabi", "arm", None, fails=True, **{**ZIG, **wrong}
        )
        assert "ring: no-such-cc cannot be run" in said


@needs("rustc")
@pytest.mark.parametrize(
    ("target", "arch", "cpu", "env", "said"),
    [
        (
            "x86_64-unknown-linux-gnu",
            "x86_64",
            "cortex-m4f",
            {},
            "ring: the kernels of ring are for cortex-m4, and x86_64-unknown-linux-gnu has none; write the crate anew",
        ),
        ("m68k-none", "m68k", None, {}, "ring: no C compiler is known for m68k-none; name one by CC_m68k_none"),
        ("m68k-none", "m68k", None, {"CC": "no-such-cc"}, "ring: no-such-cc cannot be run (No such file or directory"),
        ("m68k-none", "m68k", None, {"CC": "false"}, "ring: false failed (exit status: 1) at c/ring.c"),
    ],
)
def test_what_a_build_script_cannot_do_is_one_line(
    target: str, arch: str, cpu: str | None, env: dict[str, str], said: str, tmp_path: Path
):
    words = _build_script(tmp_path, bound.cases()["ring"], target, arch, cpu, fails=True, **env)

    (line,) = [each for each in words.splitlines() if each.startswith("ring: ")]
    assert line.startswith(said)
    assert "panicked" not in words


def test_the_command_writes_the_same_crate_twice(tmp_path: Path):
    done = [gen("library", DIGITS, "--framework", "rust", "--out", tmp_path / name) for name in "ab"]

    assert [each.exit_code for each in done] == [0, 0]
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert {"Cargo.toml", "build.rs", "src/lib.rs", "src/taken.rs", "c/digits.c", "c/digits.h", "README.md"} < set(
        files_of(tmp_path / "a")
    )
    assert all(b"@NAME@" not in data and b"@CRATE@" not in data for data in files_of(tmp_path / "a").values())


def test_a_crate_that_was_built_is_written_again_and_keeps_what_cargo_made(tmp_path: Path):
    words = ("library", DIGITS, "--framework", "rust", "--out", tmp_path / "l")
    assert gen(*words).exit_code == 0
    emitted.put({"target/debug/made": b"x"}, tmp_path / "l")
    again = gen(*words)

    assert (again.exit_code, again.stderr) == (0, "")
    assert (tmp_path / "l/target/debug/made").read_bytes() == b"x"


@needs("cargo", "cc")
def test_cargo_leaves_its_lock_as_it_was_written(workspace: Path, tmp_path: Path):
    """Also the comments, whose order is Cargo's."""
    folder = shutil.copytree(workspace / "while", tmp_path / "while")
    before = (folder / "Cargo.lock").read_text()
    cargo("cargo", "metadata", "--quiet", "--format-version", "1", cwd=folder)

    assert (folder / "Cargo.lock").read_text() == before
    assert 'name = "while_model"\n' in before


def test_one_tensor_is_not_lent_twice():
    case = bound.cases()["pixels"]
    unit = replace(case.unit, graph=replace(case.unit.graph, inputs=case.unit.graph.inputs * 2))

    with pytest.raises(
        TemplateError, match="--framework rust: two inputs of the model are one tensor, which Rust lends"
    ):
        binding(unit, {}, "rust", None)  # type: ignore[arg-type]


def test_several_cores_have_no_crate(tmp_path: Path):
    with pytest.raises(TemplateError, match="--framework rust: a model of a crate runs on one core; leave --cores out"):
        binding(bound.several_cores(), {}, "rust", None)  # type: ignore[arg-type]
    said = gen("library", DIGITS, "--framework", "rust", "--single-file", "--out", tmp_path / "l")
    assert (said.exit_code, "leave it or --single-file out" in said.stderr) == (2, True)
    assert not (tmp_path / "l").exists()


def test_a_comment_fills_lines_of_the_width_within_a_block() -> None:
    """Of rustfmt's 100 columns, four are the block's."""
    exact, over = "a" * 60 + " " + "b" * 31, "a" * 60 + " " + "b" * 32
    assert _documented(["fn f();"], exact) == [f"/// {exact}", "fn f();"] and len(f"/// {exact}") == 96
    assert _documented(["fn f();"], over) == [f"/// {'a' * 60}", f"/// {'b' * 32}", "fn f();"]
    assert _documented([], "c" * 200) == [f"/// {'c' * 200}"]
