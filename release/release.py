"""Makes what is released from the last commit, twice, and checks it; `make release` runs it.

    python release/release.py [FOLDER] [--tag]      with the packages of requirements-release.txt; FOLDER: dist

CHANGELOG.md must have the version with the date of its release.

The wheel and the sdist of two builds, in different folders and at another time zone and hash seed, must be equal
byte for byte, and so must the wheel that is made of the sdist. The wheel is then installed in a fresh virtual
environment from requirements.txt with its hashes, and used there. The SBOM lists that environment, in CycloneDX's form.

At the end the command is printed that makes the version's tag; with --tag the tag is made, annotated and not signed.
Nothing is ever pushed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What may differ between two machines and must not be seen in what is built.
_CLIMATES = (
    {"TZ": "UTC", "PYTHONHASHSEED": "1", "LC_ALL": "C"},
    {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8"},
)


def run(command: Sequence[str | Path], folder: Path, **more: str) -> str:
    """What the command prints; ends the release in one line where it fails."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1", **more}
    done = subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()[-12:]
        sys.exit("\n".join([f"release: `{' '.join(map(str, command))}` failed", *lines]))
    return done.stdout


def repacked(sdist: bytes, epoch: int) -> bytes:
    """The archive with its files in order of name, all of this time, owned by nobody and readable by all."""
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as source,
        gzip.GzipFile("", "wb", 9, made, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda each: each.name):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, epoch
            clean.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            target.addfile(clean, source.extractfile(member) if member.isfile() else None)
    return made.getvalue()


def contents(name: str, data: bytes) -> Mapping[str, tuple[object, bytes]]:
    """What is in a wheel or an sdist, by name, with what is known of each file."""
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(data)) as held:
            return {i.filename: ((i.date_time, i.external_attr), held.read(i)) for i in held.infolist()}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = [member for member in tar.getmembers() if member.isfile()]
        return {m.name: ((m.mtime, m.mode), (tar.extractfile(m) or io.BytesIO()).read()) for m in files}


def differences(name: str, one: bytes, other: bytes) -> Sequence[str]:
    """Which files of two archives differ, or the archive's own name; none where they are equal byte for byte."""
    if one == other:
        return ()
    first, second = contents(name, one), contents(name, other)
    return [each for each in sorted({*first, *second}) if first.get(each) != second.get(each)] or [name]


def require_equal(what: str, one: Mapping[str, bytes], other: Mapping[str, bytes]) -> None:
    """Ends the release where two builds differ."""
    for name in sorted({*one, *other}):
        if found := differences(name, one.get(name, b""), other.get(name, b"")):
            sys.exit(f"release: {what}: {name} differs: {', '.join(found[:5])}")


def built(source: Path, epoch: int, kinds: Sequence[str], climate: int = 0) -> Mapping[str, bytes]:
    """The archives of these kinds (`--wheel`, `--sdist`) that are built of a folder, by name.

    Permissions are made alike, since a builder may copy them into a wheel.
    """
    settings = _CLIMATES[climate]
    for path in source.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(source / "dist"), str(source)]
    before = os.umask(0o022)  # the umask of the builder, whatever that of the user is
    try:
        run(command, source.parent, SOURCE_DATE_EPOCH=str(epoch), **settings)
    finally:
        os.umask(before)
    found = {path.name: path.read_bytes() for path in sorted((source / "dist").iterdir())}
    return {name: repacked(data, epoch) if name.endswith(".tar.gz") else data for name, data in found.items()}


def checked_out(folder: Path) -> Path:
    """The last commit's files in a new folder."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    unpacked(archive, folder)
    return folder


def unpacked(archive: bytes, folder: Path) -> None:
    """Files of an archive of our own making."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def installed(wheel: Path, folder: Path) -> Path:
    """The Python of a fresh environment in which the wheel was installed and used."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    quiet = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
    run([*quiet, "install", "--require-hashes", "--requirement", ROOT / "requirements.txt"], folder)
    run([*quiet, "install", "--no-deps", "--no-index", wheel], folder)
    run([*quiet, "check"], folder)
    gen = [python, "-m", "shoehorn_mcu"]
    run([*gen, "--version"], folder)
    run([*gen, "boards", "--json"], folder)
    run([*gen, "firmware", "--board", "netduinoplus2", "--out", folder / "firmware"], folder)
    return python


def with_version(sbom: str, version: str) -> str:
    """The SBOM with the version of what it is about, which pyproject.toml leaves to the code."""
    found = json.loads(sbom)
    about = found["metadata"]["component"]
    about.update(version=version, purl=f"pkg:pypi/{about['name']}@{version}")
    return json.dumps(found, indent=2) + "\n"


def version_in(source: Path) -> str:
    """The version that the package says it has."""
    text = (source / "generator" / "shoehorn_mcu" / "base" / "version.py").read_text()
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.M)
    if found is None:
        sys.exit("release: base/version.py: __version__ is not three numbers, such as 1.2.3")
    return found[1]


def require_entry(changelog: str, version: str) -> None:
    """Ends the release unless the version is the first one of the changelog, with the date of its release."""
    headings = re.findall(r"^## (.*)$", changelog, re.M)
    if not headings or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", headings[0]):
        first = f"begins with '{headings[0]}'" if headings else "has no heading of a version"
        sys.exit(f"release: CHANGELOG.md {first}; the release needs '## {version} (YEAR-MONTH-DAY)'")


def tag_command(version: str, root: Path) -> Sequence[str]:
    """What makes the tag of the last commit; nothing where it has it already. Ends where another commit has it."""
    name = f"v{version}"
    if run(["git", "tag", "--list", name], root):
        tagged, head = (run(["git", "rev-parse", f"{each}^{{commit}}"], root).strip() for each in (name, "HEAD"))
        if tagged != head:
            sys.exit(
                f"release: the tag {name} is of another commit, {tagged[:12]}; raise the version in base/version.py"
            )
        return ()
    return ["git", "tag", "--annotate", "--no-sign", "--message", f"Shoehorn {version}", name]


def main() -> None:
    """Writes the wheel, the sdist, the SBOM and their SHA-256 sums, and prepares the tag."""
    parser = argparse.ArgumentParser(description="Makes what is released from the last commit.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--tag", action="store_true", help="make the version's tag")
    options = parser.parse_args()
    target = options.folder.resolve()
    if run(["git", "status", "--porcelain", "--untracked-files=no"], ROOT):
        sys.exit("release: there are changes that are not committed; what is released is the last commit")
    version = version_in(ROOT)
    require_entry((ROOT / "CHANGELOG.md").read_text(), version)
    tag = tag_command(version, ROOT)
    epoch = int(run(["git", "log", "-1", "--format=%ct"], ROOT))
    both = ("--wheel", "--sdist")
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        made = built(checked_out(folder / "one"), epoch, both)
        again = built(checked_out(folder / "another" / "deeper"), epoch, both, climate=1)
        require_equal("two builds", made, again)
        (sdist,) = (each for each in made if each.endswith(".tar.gz"))
        unpacked(made[sdist], folder)
        wheels = {each: data for each, data in made.items() if each.endswith(".whl")}
        require_equal("the wheel of the sdist", wheels, built(folder / sdist[: -len(".tar.gz")], epoch, ["--wheel"]))
        target.mkdir(parents=True, exist_ok=True)
        for each, data in made.items():
            (target / each).write_bytes(data)
        (wheel,) = (target / each for each in wheels)
        python = installed(wheel, folder / "fresh")
        sbom = f"{wheel.name.split('-py3')[0]}.cdx.json"
        form = ["--output-format", "JSON", "--output-reproducible", "--validate"]
        command = [sys.executable, "-m", "cyclonedx_py", "environment", *form, "--mc-type", "application"]
        command += ["--pyproject", ROOT / "pyproject.toml", "--output-file", target / sbom, python]
        run(command, folder)
        if wheel.name.split("-")[1] != version:
            sys.exit(f"release: the wheel is {wheel.name}, not of version {version}")
        (target / sbom).write_text(with_version((target / sbom).read_text(), version))
    names = (*made, sbom)
    sums = "".join(f"{hashlib.sha256((target / each).read_bytes()).hexdigest()}  {each}\n" for each in names)
    (target / "SHA256SUMS").write_text(sums)
    print(f"release: two builds of {version} are equal; in {target}:\n{sums}", end="")
    if tag and options.tag:
        run(tag, ROOT)
        print(f"release: made the tag v{version}; it was not pushed")
    elif tag:
        print(f"release: the tag is not made; {shlex.join(tag)}")
    else:
        print(f"release: the last commit has the tag v{version}")


if __name__ == "__main__":
    main()
