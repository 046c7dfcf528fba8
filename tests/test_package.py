"""What is shipped: the wheel, the pins, the documents and the model."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import jedi
import numpy as np
import pytest

from shoehorn_mcu.base.paths import MODELS

ROOT = Path(__file__).resolve().parents[1]
DATA_FOLDERS = ("runtime_c", "firmware_templates", "boards")
GENERATED = {".git", ".hypothesis", ".venv", "build", "dist", ".pio", "__pycache__"}
LARGEST_FILE_BYTES = 128 << 10  # the largest are the hashes of pinned packages
README = (ROOT / "README.md").read_text()


def script(name: str) -> ModuleType:
    """A script of the folder `release`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "release" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pins, release = script("pins"), script("release")


def tracked() -> list[Path]:
    """The project's files: git's list, or in an unpacked archive all that are not made by tools."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True) if shutil.which("git") else None
    if listed and listed.returncode == 0 and listed.stdout:
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    files = (each for each in ROOT.rglob("*") if each.is_file())
    return [f for f in files if not any(p in GENERATED or p.endswith("_cache") for p in f.relative_to(ROOT).parts)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # From a copy of the tracked files: whatever else lies in this checkout is not shipped.
    copy = folder / "source"
    for path in tracked():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", "-qq", *options, str(copy)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def installed_gen(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line from the wheel's files at `site`, away from the checkout."""
    code = f"import shoehorn_mcu.__main__ as c; assert c.__file__.startswith({str(site)!r}), c.__file__; c.main()"
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)  # what pip does with a wheel of Python files
    return folder


def test_the_wheel_holds_every_data_file(wheel: Path):
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"shoehorn_mcu/_data/{path.relative_to(ROOT).as_posix()}"
        for path in tracked()
        if path.relative_to(ROOT).parts[0] in DATA_FOLDERS
    }

    assert wanted
    assert wanted - held == set()
    assert {"shoehorn_mcu/models/digits.tflite", "shoehorn_mcu/cli/group.py", "shoehorn_mcu_host/board/link.py"} <= held


def test_the_wheel_holds_nothing_that_tools_made(wheel: Path):
    held = zipfile.ZipFile(wheel).namelist()

    assert [name for name in held if GENERATED & set(Path(name).parts) or name.endswith((".o", ".elf", ".pyc"))] == []
    assert {name.split("/")[0] for name in held if ".dist-info" not in name} == {"shoehorn_mcu", "shoehorn_mcu_host"}


@pytest.mark.parametrize("folder", ["generator", "host_tools", "runtime_c", "boards"])
def test_the_names_of_our_folders_cannot_be_imported_from_an_installed_wheel(site: Path, folder: str):
    # -S and -P: neither this environment's packages nor the current folder.
    code = f"import sys; sys.path.append({str(site)!r}); import shoehorn_mcu; import {folder}"
    result = subprocess.run([sys.executable, "-S", "-P", "-c", code], cwd=site, capture_output=True, text=True)

    assert result.returncode == 1
    assert f"ModuleNotFoundError: No module named '{folder}'" in result.stderr


def test_an_editable_install_offers_the_same_names_only(tmp_path: Path):
    code = "import shoehorn_mcu_host.board.link, shoehorn_mcu.firmware.build; import generator"
    result = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)

    assert "ModuleNotFoundError: No module named 'generator'" in result.stderr


def test_an_editor_finds_definitions_without_configuration(tmp_path: Path):
    """In a clone whose `.venv` has the editable install, as `make` writes it; jedi is what many editors ask."""
    code = "from shoehorn_mcu.planner.make_plan import make_plan\nfrom shoehorn_mcu_host.board.link import Link\n"
    script = jedi.Script(code, path=ROOT / "generator" / "shoehorn_mcu" / "cli" / "new.py", project=jedi.Project(ROOT))
    found = [script.goto(line, column, follow_imports=True) for line, column in ((1, 50), (2, 43))]

    assert [(each[0].name, each[0].module_path.relative_to(ROOT).as_posix(), each[0].line > 1) for each in found] == [
        ("make_plan", "generator/shoehorn_mcu/planner/make_plan.py", True),
        ("Link", "host_tools/shoehorn_mcu_host/board/link.py", True),
    ]


def test_an_installed_wheel_lists_its_boards(site: Path):
    version = installed_gen(site, "--version")
    boards = installed_gen(site, "boards", "--json")

    assert (version.returncode, version.stdout.split()[0]) == (0, "gen,"), version.stderr
    assert boards.returncode == 0, boards.stderr
    assert "rpi-zero" in json.dumps(json.loads(boards.stdout))


def test_an_installed_wheel_plans_for_a_program(site: Path):
    code = (
        "import sys, shoehorn_mcu as s; from pathlib import Path; assert 'shoehorn_mcu.api' not in sys.modules\n"
        "model = Path(s.__file__).parent / 'models' / 'digits.tflite'\n"
        "print(s.plan(model, s.PlanOptions(cpu='cortex-m4', minimize='sram')).arena_bytes)"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-P", "-c", code]
    result = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=120)

    assert (result.returncode, int(result.stdout or 0) < 2560) == (0, True), result.stderr


def test_an_installed_wheel_writes_the_same_project_as_the_checkout(site: Path, digits_project: Path, tmp_path: Path):
    result = installed_gen(site, "firmware", "--board", "native", "--out", str(tmp_path / "project"))

    assert result.returncode == 0, result.stderr
    assert read_tree(tmp_path / "project") == read_tree(digits_project)


def read_tree(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def names(lines: list[str]) -> dict[str, str]:
    """Distribution names as PyPI compares them -> their version specifier."""
    found = (re.match(r"([A-Za-z0-9._-]+)(?:\[.*?\])?(.*)", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", m[1]).lower(): m[2] for m in found if m}


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = names((ROOT / "requirements.txt").read_text().splitlines())
    dev = names((ROOT / "requirements-dev.txt").read_text().splitlines())

    assert set(names(project["dependencies"])) - set(run) == set()
    assert set(names(project["optional-dependencies"]["test"])) - set(dev) == set()
    assert {name: pin for name, pin in {**run, **dev}.items() if not pin.startswith("==")} == {}


def test_every_pin_has_hashes():
    """Of the sdist and of wheels for other machines too: more than one of each package that has compiled code."""
    texts = {name: (ROOT / name).read_text() for name in pins.FILES}
    for text in texts.values():
        known = pins.hashes(text)

        assert known.keys() == pins.pins(text).keys()
        assert [name for name, each in known.items() if not each] == []
        assert text == pins.written(text, known)
    compiled = pins.hashes(texts["requirements.txt"])
    assert min(len(compiled[name]) for name in ("cffi", "numpy", "onnx", "ortools", "pydantic-core", "ziglang")) > 5


def test_pins_read_what_pip_tools_writes():
    text = "# why\nb.c==1 \\\n    --hash=sha256:" + 64 * "1" + " \\\n    --hash=sha256:" + 64 * "0" + "\nA_d==2\n"
    found = pins.hashes(text)

    assert found == {"b-c": [f"sha256:{64 * '0'}", f"sha256:{64 * '1'}"], "a-d": []}
    assert pins.pins(text) == {"b-c": "b.c==1", "a-d": "A_d==2"}
    made = pins.written("# why\nA_d==2\nb.c==1\n", {**found, "a-d": [f"sha256:{64 * '2'}"]})
    assert made.startswith(f"# why\nA_d==2 \\\n    --hash=sha256:{64 * '2'}\nb.c==1 \\\n    --hash=sha256:000")


def archive(folder: Path, stamp: int, mode: int, names: tuple[str, ...] = ("b.txt", "a.txt")) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name in names:
            (folder / name).write_text(name)
            (folder / name).chmod(mode)
            os.utime(folder / name, (stamp, stamp))
            tar.add(folder / name, f"demo/{name}")
    return made.getvalue()


def test_an_sdist_has_one_form_wherever_it_is_made(tmp_path: Path):
    one, other = archive(tmp_path, 10**9, 0o644), archive(tmp_path, 10**9 + 7, 0o664, ("a.txt", "b.txt"))
    made = release.repacked(one, 1_700_000_000)

    assert one != other
    assert made == release.repacked(other, 1_700_000_000)
    assert list(release.contents("a.tar.gz", made)) == ["demo/a.txt", "demo/b.txt"]
    assert release.differences("a.tar.gz", one, other) == ["demo/a.txt", "demo/b.txt"]
    assert release.differences("a.tar.gz", made, release.repacked(other, 1_700_000_001)) != ()


def test_an_sbom_names_the_version_that_it_is_about():
    made = json.loads(release.with_version('{"metadata": {"component": {"name": "shoehorn-mcu"}}}', "1.2"))

    about = {"name": "shoehorn-mcu", "version": "1.2", "purl": "pkg:pypi/shoehorn-mcu@1.2"}
    assert made == {"metadata": {"component": about}}


def test_a_release_has_its_version_and_date_in_the_changelog():
    release.require_entry("# Changelog\n\n## 1.2.3 (2026-01-31)\n\n## 1.2.2 (2025-01-01)\n", "1.2.3")

    for text in ("## Unreleased\n\n## 1.2.3 (2026-01-31)\n", "## 1.2.3\n", "## 1.2.30 (2026-01-31)\n", "nothing\n"):
        with pytest.raises(SystemExit, match=r"release: CHANGELOG\.md .*; the release needs '## 1\.2\.3 \("):
            release.require_entry(text, "1.2.3")


def test_a_tag_is_made_once_and_never_moved(tmp_path: Path):
    def git(*words: str) -> str:
        made = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
        return subprocess.run(made, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "--message", "one")
    command = release.tag_command("1.2.3", tmp_path)
    assert command[:2] == ["git", "tag"] and "push" not in command
    git(*command[1:])

    assert git("tag", "--list", "--format=%(objecttype) %(subject)") == "tag Shoehorn 1.2.3\n"
    assert release.tag_command("1.2.3", tmp_path) == ()
    git("commit", "-q", "--allow-empty", "--message", "two")
    with pytest.raises(SystemExit, match=r"the tag v1\.2\.3 is of another commit"):
        release.tag_command("1.2.3", tmp_path)


def test_builds_that_differ_end_a_release_with_the_names_of_files(tmp_path: Path):
    one, other = (archive(tmp_path, 10**9, mode) for mode in (0o644, 0o755))

    with pytest.raises(SystemExit, match=r"release: two builds: a\.tar\.gz differs: demo/a\.txt, demo/b\.txt"):
        release.require_equal("two builds", {"a.tar.gz": one}, {"a.tar.gz": other})


def test_the_shipped_model_is_as_accurate_as_its_page_says():
    from tflite_micro import runtime

    claim = re.search(r"(\d+) of (\d+) held-back samples \(([\d.]+) %\)", (MODELS / "README.md").read_text())
    assert claim
    samples = np.load(MODELS / "digits_test.npz")
    interpreter = runtime.Interpreter.from_file(str(MODELS / "digits.tflite"))
    right = 0
    for x, y in zip(samples["x"], samples["y"], strict=True):
        interpreter.set_input(x[None], 0)
        interpreter.invoke()
        right += int(interpreter.get_output(0).argmax() == y)

    assert (right, len(samples["y"])) == (int(claim[1]), int(claim[2]))
    assert f"{100 * right / len(samples['y']):.1f}" == claim[3]
    assert f"{claim[1]} of {claim[2]}" in README


def test_no_file_names_a_place_on_somebodys_machine():
    place = re.compile(rb"(?<![\w.$}])/(?:work|home|root|Users|opt)/\w")
    found = {
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tracked()
        if path != Path(__file__).resolve() and (match := place.search(path.read_bytes()))
    }

    assert found == set()


def test_no_file_is_large():
    assert {p.name: p.stat().st_size for p in tracked() if p.stat().st_size > LARGEST_FILE_BYTES} == {}


def test_the_readme_names_only_real_make_targets():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))

    assert {"demo", "test"} <= set(re.findall(r"\bmake ([a-z-]+)`", README)) <= targets
