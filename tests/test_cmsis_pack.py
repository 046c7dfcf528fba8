"""`gen library --framework cmsis-pack`: what the schema of packs asks for, the layout of csolution, and the archive."""

from __future__ import annotations

import io
import os
import re
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import bound
import emitted
import pytest
from compilers import COMPILERS
from test_cli_project import DIGITS, files_of, gen, refused

from shoehorn_mcu.emit.bindings import binding
from shoehorn_mcu.emit.bindings.about import About
from shoehorn_mcu.emit.bindings.cmsis_pack import CORES
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.templates import TemplateError
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.build import plan_model
from shoehorn_mcu.firmware.settings import Options

SCHEMA = os.environ.get("SHOEHORN_PACK_XSD", "")
ACME = About.of(["vendor=Acme", "version=2.1.0-rc.1", "url=https://acme.example/packs/"])
# Of PACK.xsd: which elements a package must and may have of those that we write, and what values match.
NEEDED = {"name", "vendor", "description", "url", "releases"}
ALLOWED = {*NEEDED, "licenseSets", "keywords", "conditions", "csolution", "components"}
RESTRICTED = r"[\-_A-Za-z0-9]+"
PART = r"[A-Za-z0-9][A-Za-z0-9_+()'/\-\s\.]{1,31}"
SUB = r"[A-Za-z0-9][A-Za-z0-9_+():/\- \.]{0,31}"
VERSION = r"[0-9]+\.[0-9]+\.[0-9]+(\-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"


def files(name: str = "while", cpu: str | None = None, about: About = ACME) -> Bundle:
    case = bound.cases()[name]
    return binding(case.unit, case.constants, "cmsis-pack", cpu, about)


def package(made: Mapping[str, bytes]) -> ET.Element:
    (path,) = [path for path in made if path.endswith(".pdsc")]
    return ET.fromstring(made[path])


def only(element: ET.Element, path: str) -> ET.Element:
    (found,) = element.findall(path)
    return found


@pytest.mark.parametrize("name", ["while", "by_rows", "apart", "every_type"])
def test_the_description_has_what_the_schema_asks_for(name: str):
    made = files(name)
    root = package(made)
    tags = [child.tag for child in root]

    assert len(tags) == len(set(tags)) and set(tags) >= NEEDED and set(tags) <= ALLOWED
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", root.attrib["schemaVersion"])
    assert (only(root, "vendor").text, only(root, "name").text) == ("Acme", name)
    assert re.fullmatch(RESTRICTED, only(root, "name").text or "")
    assert f"Acme.{name}.pdsc" in made
    release = only(root, "releases/release")
    assert set(release.attrib) == {"version"} and re.fullmatch(VERSION, release.attrib["version"])
    component = only(root, "components/component")
    assert re.fullmatch(PART, component.attrib["Cclass"]) and re.fullmatch(PART, component.attrib["Cgroup"])
    assert re.fullmatch(SUB, component.attrib["Csub"]) and component.attrib["Csub"] == name
    assert component.attrib["Cversion"] == release.attrib["version"] == "2.1.0-rc.1"
    assert [child.tag for child in component] == ["description", "files"]
    licence = only(root, "licenseSets/licenseSet/license")
    assert set(licence.attrib) == {"name", "title", "spdx"} and licence.attrib["spdx"] == "0BSD"


def test_a_long_name_is_cut_where_a_component_s_may_not_be_longer():
    case = bound.cases()["ring"]
    unit = replace(case.unit, name="a_name_of_more_than_thirty_two_letters")
    root = package(binding(unit, case.constants, "cmsis-pack", None, ACME))

    assert only(root, "components/component").attrib["Csub"] == "a_name_of_more_than_thirty_two_l"
    assert only(root, "name").text == "a_name_of_more_than_thirty_two_letters"


def test_every_file_and_condition_that_the_description_names_is_there():
    made = files(cpu="cortex-m3")
    root = package(made)
    listed = {file.attrib["name"]: file.attrib["category"] for file in root.iter("file")}
    known = {condition.attrib["id"] for condition in root.iter("condition")}
    asked = {e.attrib["condition"] for e in root.iter() if "condition" in e.attrib}

    assert listed == {"README.md": "doc", "src/while.h": "header", "src/while.c": "source"}
    assert {*listed, only(root, "licenseSets/licenseSet/license").attrib["name"]} <= set(made)
    assert asked <= known and "library" in asked
    for each in (*root.iter("clayer"), *root.iter("template")):
        assert f"{each.attrib['path']}/{each.attrib['file']}" in made


def _accepted(unit: Unit, cpu: str | None) -> list[dict[str, str]]:
    made = binding(unit, {}, "cmsis-pack", cpu, ACME)  # type: ignore[arg-type]
    return [e.attrib for e in package(made).iter("accept") if "Dcore" in e.attrib]


def test_the_condition_is_that_a_core_has_the_instructions_of_the_kernels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shoehorn_mcu.emit.bindings.cmsis_pack.single_file", lambda unit, found: {})
    by_cpu = {
        cpu: _accepted(plan_model(DIGITS, None, Options(cpu=cpu)).unit, cpu) for cpu in ("cortex-m4f", "cortex-m55")
    }

    assert by_cpu["cortex-m4f"] == [
        {"Dcore": "Cortex-M4"},
        {"Dcore": "Cortex-M7"},
        {"Dcore": "Cortex-M33", "Ddsp": "DSP"},
        {"Dcore": "Cortex-M35P", "Ddsp": "DSP"},
        {"Dcore": "Cortex-M55"},
        {"Dcore": "Cortex-M85"},
    ]
    cores = ("Cortex-M55", "Cortex-M85")
    assert by_cpu["cortex-m55"] == [{"Dcore": core, "Dmve": mve} for core in cores for mve in ("MVE", "FP_MVE")]
    assert _accepted(bound.cases()["while"].unit, None) == []
    assert _accepted(bound.cases()["while"].unit, "cortex-m0") == []  # every core runs what Armv6-M runs
    assert len(CORES) == 11


def test_the_layers_and_projects_name_what_is_there_and_the_component_of_the_description():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    made = files(cpu="cortex-m7")
    read = {path: yaml.safe_load(data) for path, data in made.items() if path.endswith(".yml")}
    solution = read["solution/while.csolution.yml"]["solution"]
    (project,) = [f"solution/{each['project']}" for each in solution["projects"]]
    (layer,) = [f"solution/{each['layer']}" for each in read[project]["project"]["layers"]]
    (main,) = [f"solution/{f['file']}" for group in read[project]["project"]["groups"] for f in group["files"]]
    (component,) = read[layer]["layer"]["components"]
    identity = only(package(made), "components/component").attrib

    assert main in made
    assert {"pack": "Acme::while@2.1.0-rc.1"} in solution["packs"]
    assert read[layer]["layer"]["packs"] == [{"pack": "Acme::while@2.1.0-rc.1"}]
    assert solution["target-types"] == [{"type": "ARMCM7", "device": "ARM::ARMCM7"}]
    assert component["component"] == "{Cvendor}::{Cclass}:{Cgroup}:{Csub}".format(**identity)
    assert component["misc"] == [{"C": ["-ffp-contract=off"]}]


def test_the_archive_holds_the_folder_and_is_the_same_each_time():
    made = dict(files())
    (name,) = [path for path in made if path.endswith(".pack")]
    data = made.pop(name)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        held = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        entries = archive.infolist()
    kinds = {(e.compress_type, e.date_time, e.create_system, e.external_attr >> 16) for e in entries}

    assert name == "Acme.while.2.1.0-rc.1.pack"
    assert held == made and list(held) == sorted(held)
    assert kinds == {(zipfile.ZIP_STORED, (1980, 1, 1, 0, 0, 0), 3, 0o644)}  # 3: Unix, whose rights are 644
    assert files()[name] == data


@pytest.mark.parametrize("name", ["while", "by_rows", "apart", "out_rows", "ring"])
def test_the_program_and_the_library_of_a_pack_compile_for_a_cortex_m(name: str, tmp_path: Path):
    made = emitted.put(files(name), tmp_path / "pack")
    (compiler,) = [each for each in COMPILERS if each.name == "zig-cortex-m0"]
    sources = [made / "solution" / "main.c", made / "src" / f"{name}.c"]
    compiler.run(
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-variable",
        "-Wno-unused-parameter",
        f"-I{made / 'src'}",
        "-O0",
        sources=sources,
        folder=tmp_path,
    )


def test_the_library_in_the_archive_gives_the_reference_s_bytes(tmp_path: Path):
    case = bound.cases()["while"]
    with zipfile.ZipFile(io.BytesIO(files()["Acme.while.2.1.0-rc.1.pack"])) as archive:
        held = {path: archive.read(path) for path in ("src/while.h", "src/while.c")}
    program = emitted.compile_library(case.unit, tmp_path, flags=("-O0",), files=lambda _: held)
    done = subprocess.run([program], input=case.data, capture_output=True, timeout=60)

    assert done.stdout == case.wanted


@pytest.mark.skipif(not SCHEMA, reason="SHOEHORN_PACK_XSD names no schema of packs")
@pytest.mark.parametrize("name", ["while", "by_rows", "apart", "real", "every_type", "ring", "all_rows"])
def test_the_schema_itself_has_nothing_to_say(name: str):
    etree = pytest.importorskip("lxml.etree", reason="lxml is not installed")
    schema = etree.XMLSchema(etree.parse(SCHEMA))
    made = files(name)

    assert schema.validate(etree.fromstring(made[f"Acme.{name}.pdsc"])), schema.error_log


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("vendro=Acme", "--about 'vendro=Acme': give one of vendor=..., url=..., version=..."),
        ("vendor", "--about 'vendor': give one of vendor=..., url=..., version=..."),
        ("vendor=Acme & Sons", "--about 'vendor=Acme & Sons': vendor is 2 to 32 letters, digits and hyphens"),
        ("vendor=A", "vendor is 2 to 32 letters, digits and hyphens"),
        ("version=1.0", "--about 'version=1.0': version is three numbers such as 1.0.2"),
        ("version=01.0.0", "version is three numbers such as 1.0.2"),
        ("version=1.0.0-a b", "version is three numbers such as 1.0.2"),
        ("url=file:///etc", "--about 'url=file:///etc': url is the address of a web page, https://..."),
        ('url=https://a/"><b', "url is the address of a web page, https://..."),
        ("url=https://a\n", "--about 'url=https://a?': url is the address of a web page, https://..."),
    ],
)
def test_what_a_package_cannot_say_of_itself_is_one_line(pair: str, said: str, tmp_path: Path):
    words = ("library", DIGITS, "--framework", "cmsis-pack", "--out", tmp_path / "l", "--about", pair)

    assert said in refused(*words)
    assert not (tmp_path / "l").exists()


def test_a_crate_says_its_version_and_page(tmp_path: Path):
    case = bound.cases()["ring"]
    text = binding(case.unit, case.constants, "rust", None, ACME)["Cargo.toml"].decode()

    assert 'version = "2.1.0-rc.1"\n' in text and 'homepage = "https://acme.example/packs/"\n' in text
    with pytest.raises(TemplateError, match=r"--about 'version=1\.0\.1': version is given twice"):
        About.of(["version=1.0.0", "version=1.0.1"])
    done = gen("library", DIGITS, "--about", "version=1.0.0", "--out", tmp_path / "l")
    assert done.exit_code == 2 and "--about belongs to --framework rust and --framework cmsis-pack" in done.stderr


def test_the_command_writes_the_same_pack_twice(tmp_path: Path):
    words = ("library", DIGITS, "--framework", "cmsis-pack", "--about", "vendor=Acme", "--out")
    done = [gen(*words, tmp_path / name) for name in "ab"]

    assert [each.exit_code for each in done] == [0, 0]
    made = files_of(tmp_path / "a")
    assert made == files_of(tmp_path / "b")
    assert not [path for path, data in made.items() if re.search(rb"@[A-Z]+@", data)]
    assert "cpackget add Acme.digits." in made["README.md"].decode()


@pytest.mark.parametrize("cpu", ["cortex-a53", "rv32imc", "host"])
def test_a_pack_is_for_cortex_m(cpu: str, tmp_path: Path):
    words = ("library", DIGITS, "--framework", "cmsis-pack", "--cpu", cpu, "--out", tmp_path / "l")

    assert f"--framework cmsis-pack: a pack is for Cortex-M, and {cpu} is none; name one by --cpu" in refused(*words)
    assert not (tmp_path / "l").exists()


def test_a_pack_runs_on_one_core():
    with pytest.raises(TemplateError, match="the program of a pack runs on one core; leave --cores out"):
        binding(bound.several_cores(), {}, "cmsis-pack", None)  # type: ignore[arg-type]
