"""What other operating systems and other processes do to the host tools: locks, read-only folders, copies, homes."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import Gen

from shoehorn_mcu_host.base import system
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.firmware import build
from shoehorn_mcu_host.folder.project import Project

ROOT = Path(__file__).resolve().parents[1]
FEW = {
    "host_tools/shoehorn_mcu_host/base/system.py",
    # It reads /proc/mounts where that is there; elsewhere it looks at /Volumes and drive letters.
    "firmware_templates/platform/builder/upload.py",
    # How a process is locked in, as far as a system can, and who does it.
    "host_tools/shoehorn_mcu_host/base/sandbox.py",
    "host_tools/shoehorn_mcu_host/base/walls.py",
    # It waits for a socket, which `select` does on every system.
    "host_tools/shoehorn_mcu_host/board/machines/console.py",
}
"""The modules that may call what not all systems have."""
# Names that not all systems have, as a module or as an attribute of one that all have.
MODULES = {
    "fcntl",
    "grp",
    "msvcrt",
    "posix",
    "pty",
    "pwd",
    "resource",
    "select",
    "selectors",
    "termios",
    "tty",
    "winreg",
}
ATTRIBUTES = {
    *("O_NOCTTY", "O_NONBLOCK", "fork", "forkpty", "getgid", "getpgid", "getuid", "geteuid", "killpg", "mkfifo"),
    *("openpty", "pipe2", "posix_spawn", "sched_getaffinity", "setpgid", "setsid", "ttyname", "uname", "wait4"),
    *("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "setitimer", "alarm", "pthread_sigmask"),
    *("preexec_fn", "pass_fds", "start_new_session", "AF_UNIX"),
}


def _sources() -> list[Path]:
    folders = (ROOT / "host_tools", ROOT / "generator", ROOT / "firmware_templates" / "platform")
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def _of_some_systems_only(text: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0]} & MODULES
        elif isinstance(node, ast.Attribute):
            found |= {node.attr} & ATTRIBUTES
        elif isinstance(node, ast.keyword):
            found |= {node.arg or ""} & ATTRIBUTES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"^/(?:dev|proc|sys)/", node.value))
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import fcntl, json", {"fcntl"}),
        ("from termios import tcgetattr", {"termios"}),
        ("os.fork()", {"fork"}),
        ("run(command, preexec_fn=None)", {"preexec_fn"}),
        ("Path('/proc/self')", {"/proc/"}),
        ("import os\nos.getpid()", set()),
    ],
)
def test_a_call_that_not_all_systems_have_is_found(text: str, found: set[str]):
    assert _of_some_systems_only(text) == found


def test_calls_that_not_all_systems_have_are_in_few_modules():
    found = {path.relative_to(ROOT).as_posix(): _of_some_systems_only(path.read_text()) for path in _sources()}

    assert {name: uses for name, uses in found.items() if uses and name not in FEW} == {}


@pytest.mark.parametrize(
    ("name", "native", "emulation"),
    [("linux", True, True), ("darwin", False, True), ("win32", False, False)],
)
def test_a_system_says_in_one_line_what_it_cannot_do(
    name: str, native: bool, emulation: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(system.sys, "platform", name)
    for can, require in ((native, system.require_native), (emulation, system.require_emulation)):
        if can:
            require()
        else:
            with pytest.raises(HostError, match=r"Linux.*--port") as caught:
                require()
            assert "\n" not in str(caught.value)


def test_a_lock_is_held_by_one_and_given_up_by_a_process_that_dies(tmp_path: Path):
    lock = tmp_path / "lock"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom shoehorn_mcu_host.base.system import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE)
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    got = threading.Event()

    def take() -> None:
        with system.locked(lock):
            got.set()

    waiting = threading.Thread(target=take)
    waiting.start()
    assert not got.wait(0.5)
    holder.kill()
    assert got.wait(20)
    waiting.join()
    holder.wait()


@pytest.fixture
def folder(digits_project: Path, tmp_path: Path) -> Path:
    copied = tmp_path / "digits"
    shutil.copytree(digits_project, copied)
    return copied


def test_of_two_that_want_one_folder_built_one_builds(folder: Path, monkeypatch: pytest.MonkeyPatch):
    runs: list[Project] = []

    def pretend(project: Project, *_: str) -> None:
        runs.append(project)
        time.sleep(0.3)  # so that the other one comes meanwhile
        project.elf.parent.mkdir(parents=True)
        project.elf.write_bytes(b"")

    figures = build.BuildResult(1, 2, 3, (), ())
    monkeypatch.setattr(build, "_run_pio", pretend)
    monkeypatch.setattr(build, "measure", lambda _: figures)
    found: list[build.BuildResult | None] = []
    threads = [threading.Thread(target=lambda: found.append(build.ensure_built(Project.open(folder)))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(runs) == 1
    assert sorted(found, key=str) == [build.BuildResult(1, 2, 3, (), ()), None]


def test_a_folder_that_cannot_be_written_is_one_line(gen: Gen, folder: Path):
    (folder / ".pio").write_text("in the way, as a folder without permission would be for others than root")
    result = gen("validate", folder, "--emulate")

    assert result.exit_code == 1
    assert re.fullmatch(
        r"gen: .*\.pio: cannot be written \(.*\); make the folder writable, or build .*\n", result.stderr
    )


def test_a_home_that_cannot_be_written_costs_time_and_nothing_else(tmp_path: Path):
    environment = {**os.environ, "HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)}
    environment.pop("XDG_CACHE_HOME", None)
    code = "from shoehorn_mcu.cli.group import main; main(prog_name='gen')"
    command = [
        sys.executable,
        "-c",
        code,
        "plan",
        str(ROOT / "generator/shoehorn_mcu/models/digits.tflite"),
        "--minimize",
        "sram",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("shoehorn-")] == []


def test_a_built_folder_that_was_copied_and_edited_is_built_anew(gen: Gen, folder: Path, tmp_path: Path):
    assert gen("validate", folder, "--emulate", "--count", 1).exit_code == 0
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied, symlinks=True)
    shutil.rmtree(folder)
    time.sleep(0.01)
    main = copied / "src" / "main.c"
    main.write_text(main.read_text() + "// edited\n")
    result = gen("validate", copied, "--emulate", "--count", 1)

    assert result.exit_code == 0, result.output
    assert str(folder) not in (copied / ".pio" / "build.log").read_text()
