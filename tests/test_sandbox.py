"""What a process that reads foreign files can do to the rest of the system: nothing, with each wall alone."""

from __future__ import annotations

import errno
import io
import json
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from conftest import Gen
from onnx import TensorProto, helper

from shoehorn_mcu.importers import plain
from shoehorn_mcu_host.base import sandbox, walls
from shoehorn_mcu_host.base.errors import NotConfined
from shoehorn_mcu_host.validate import decoders

ROOT = Path(__file__).resolve().parents[1]
HARMLESS = {"own signal", "thread", "own source"}
FILES = {"write", "append", "home", "link", "folder", "rename", "remove"}
NETWORK = {"connect", "datagrams", "pair"}
OTHERS = {"run", "fork", "signal"}
DEEDS = HARMLESS | FILES | NETWORK | OTHERS | {"mode", "read"}


@pytest.fixture(autouse=True, scope="module")
def _with_tasks() -> Iterator[None]:
    """The helper process finds the module of the tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))).strip(os.pathsep))
        yield
    sandbox.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("there", "other", "last"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def asked(name: str, head: object = None, data: bytes = b"", **limits: Any) -> tuple[Any, bytearray]:
    return sandbox.answer(f"tests.sandbox_tasks:answer_{name}", head, data, sandbox.Limits(**limits))


def done(walls_there: Sequence[str], folder: Path, port: int) -> set[str]:
    """What a process did that only has these walls; its home is the folder, where nothing of another run is left."""
    command = [sys.executable, "-m", "tests.sandbox_tasks", ",".join(walls_there), str(folder), str(port)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "HOME": str(folder)}
    )
    line, *became = run.stdout.splitlines()
    stand, found = json.loads(line)
    if stand != [*walls_there]:
        pytest.skip(f"this system has no {' and '.join(walls_there)}")
    assert set(found) == DEEDS
    return {name for name, could in found.items() if could} | {"become" for _ in became}


@pytest.mark.parametrize(("answer", "stands"), [(0, True), (-1, False)])
def test_a_process_leaves_the_users_and_the_networks_of_the_system(answer: int, stands: bool) -> None:
    """CLONE_NEWUSER and CLONE_NEWNET of sched.h."""
    asked: list[int] = []
    library = SimpleNamespace(unshare=lambda flags: asked.append(flags) or answer)

    assert walls._namespace(cast(Any, library)) is stands
    assert asked == [0x10000000 + 0x40000000]


def test_what_a_confined_process_may_read_is_named_once_and_never_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = str(Path(sys.prefix) / "lib")
    monkeypatch.setattr(sys, "path", [*sys.path, inner, "/", "relative"])
    found = [*walls._readable()]

    assert Path(sys.prefix) in found or any(parent in found for parent in Path(sys.prefix).parents)
    assert not {Path("/"), Path("relative"), Path(inner)} & {*found}
    assert len(found) == len({*found})
    assert [(a, b) for a in found for b in found if a in b.parents] == []


def test_what_a_confined_process_writes_to_its_standard_files_goes_nowhere() -> None:
    assert asked("ends")[0] == [Path(os.devnull).stat().st_rdev] * 3


def test_without_walls_all_can_be_done(folder: Path, port: int):
    """Otherwise the tests below show nothing."""
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from tests.sandbox_tasks import tried; print(*tried({str(folder)!r}, {port}).items())",
        ],
        *(),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "HOME": str(folder)},
    )
    assert "False" not in run.stdout


def test_a_process_that_reads_foreign_files_can_do_nothing_else(folder: Path, port: int):
    if sys.platform != "linux" or walls.lacking(_stand()):
        pytest.skip("this system cannot lock a process in")
    could = {name for name, could in asked("tried", [str(folder), port])[0].items() if could}

    assert could - {"read"} == HARMLESS
    assert ("read" in could) == ("landlock" not in _stand())
    assert sorted(path.name for path in folder.iterdir()) == ["last", "other", "there"]


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has mapped is read in /proc")
def test_a_limit_of_memory_is_beyond_what_the_process_has_mapped():
    """The same figure of /proc/PID/status in kB, between two readings of the other one."""
    code = "from shoehorn_mcu_host.base import walls; import re\nfrom pathlib import Path\n"
    code += "first, text = walls._mapped(), Path('/proc/self/status').read_text(); last = walls._mapped()\n"
    code += "print(first, 1024 * int(re.search(r'VmSize:\\s+(\\d+) kB', text)[1]), last)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    first, there, last = map(int, said.split())

    assert 1 << 20 < first <= there <= last


def _stand() -> Sequence[str]:
    code = "from shoehorn_mcu_host.base import walls; print(*walls.confine(None, None, walls.landlock_rules()))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_filter_of_calls_holds_without_landlock(folder: Path, port: int):
    assert done(["seccomp"], folder, port) == HARMLESS | {"read"}


def test_landlock_holds_without_the_filter_of_calls(folder: Path, port: int):
    could = done(["landlock"], folder, port)

    assert not could & (FILES | {"read", "run", "become"})
    assert could >= HARMLESS
    if _landlock_version() >= 4:
        assert "connect" not in could
    if _landlock_version() >= 6:
        assert "signal" not in could


def _landlock_version() -> int:
    import ctypes

    return int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint(1)))


@pytest.mark.skipif(sys.platform != "linux", reason="walls are Linux's")
def test_a_wall_that_the_kernel_offers_stands():
    """The tests above are skipped where it does not."""
    stand, filters = _stand(), Path("/proc/sys/kernel/seccomp/actions_avail").exists()

    assert ("landlock" in stand) == (_landlock_version() >= 1)
    assert ("seccomp" in stand) == (filters and platform.machine() in MACHINES)


def test_a_namespace_holds_the_network_back(folder: Path, port: int):
    could = done(["namespace"], folder, port)

    assert "connect" not in could
    assert "become" in could  # so the tests above would see it


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_a_filter_is_a_program_whose_jumps_stay_inside(machine: str):
    program = walls.calls_filter(machine, 1)
    assert program is not None
    steps = np.frombuffer(program, [("code", "<u2"), ("true", "u1"), ("false", "u1"), ("value", "<u4")])
    assert len(steps) < 4096  # the kernel's limit
    for place, step in enumerate(steps):
        assert place + 1 + max(step["true"], step["false"]) < len(steps) or step["code"] == 6
    assert steps[-1]["code"] == 6


CALLS = {
    "x86_64": {"read": 0, "openat": 257, "clone": 56, "execve": 59, "socket": 41, "kill": 62, "prlimit64": 302},
    "aarch64": {"read": 63, "openat": 56, "clone": 220, "execve": 221, "socket": 198, "kill": 129, "prlimit64": 261},
}
CALLS["riscv64"] = CALLS["aarch64"]
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}  # AUDIT_ARCH_... of linux/audit.h
THREAD = 0x10000  # CLONE_THREAD of linux/sched.h
ALLOWED, REFUSED, UNKNOWN, KILLED = 0x7FFF0000, 0x50000 + errno.EPERM, 0x50000 + errno.ENOSYS, 0x80000000


def judged(program: bytes, machine: int, call: int, *arguments: int) -> int:
    """What the program makes of a call; the kernel runs it just so."""
    data = struct.pack("<IIQ6Q", call, machine, 0, *arguments, *(0 for _ in range(6 - len(arguments))))
    steps = list(struct.iter_unpack("=HBBI", program))
    place = held = 0
    while True:
        code, if_so, if_not, value = steps[place]
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        else:
            place += if_so if {0x15: held == value, 0x35: held >= value, 0x45: held & value}[code] else if_not
        place += 1


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_of_each_machine_looks_at_what_a_call_is_for(machine: str):
    own, program = 1234, walls.calls_filter(machine, 1234)
    assert program is not None

    def found(name: str, *arguments: int) -> int:
        return judged(program, MACHINES[machine], CALLS[machine][name], *arguments)

    assert found("read", 3, 0, 100) == ALLOWED
    assert found("execve") == found("socket") == REFUSED
    assert found("openat", 0, 0, os.O_RDONLY) == ALLOWED
    for flag in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC):
        assert found("openat", 0, 0, flag) == REFUSED
    alone = {1 << bit: found("openat", 0, 0, 1 << bit) for bit in range(10)}
    for flags in range(1 << 10):  # also those that are numbers of other calls
        writes = any(flags & bit and answer == REFUSED for bit, answer in alone.items())
        assert found("openat", 0, 0, flags) == (REFUSED if writes else ALLOWED)
    assert (found("clone", THREAD | 17), found("clone", 17)) == (ALLOWED, REFUSED)
    assert (found("kill", own, 0), found("kill", 0), found("kill", own + 1)) == (ALLOWED, REFUSED, REFUSED)
    assert (found("prlimit64", own), found("prlimit64", 0), found("prlimit64", 1)) == (ALLOWED, ALLOWED, REFUSED)
    assert judged(program, MACHINES[machine], 435) == judged(program, MACHINES[machine], 437) == UNKNOWN
    assert judged(program, 1, CALLS[machine]["read"]) == KILLED  # of another machine
    assert judged(program, MACHINES[machine], 0x40000000) == (REFUSED if machine == "x86_64" else ALLOWED)  # x32
    if machine == "x86_64":
        assert (judged(program, MACHINES[machine], 2, 0, 0), judged(program, MACHINES[machine], 2, 0, 1)) == (
            ALLOWED,
            REFUSED,
        )


DANGERS = """socket socketpair connect bind listen accept sendto sendmsg io_uring_setup execve execveat fork vfork
ptrace process_vm_writev pidfd_open pidfd_send_signal tkill rt_sigqueueinfo creat mkdir mkdirat rmdir unlink unlinkat
rename renameat renameat2 link linkat symlink symlinkat mknodat truncate chmod fchmod fchmodat chown fchownat
utimensat setxattr removexattr mount umount2 pivot_root chroot unshare setns bpf perf_event_open userfaultfd keyctl
init_module finit_module kexec_load reboot"""


@pytest.mark.parametrize(
    ("machine", "header"), [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")]
)
def test_the_calls_are_refused_by_the_numbers_of_the_kernel_s_header(machine: str, header: str):
    path, program = Path("/usr/include", header), walls.calls_filter(machine, 1)
    if not path.is_file():
        pytest.skip(f"this system has no {header}")
    numbers = dict(re.findall(r"^#define __NR(?:3264)?_(\w+) (\d+)$", path.read_text(), re.MULTILINE))
    known = {name: int(numbers[name]) for name in DANGERS.split() if name in numbers}

    assert program is not None and len(known) > 40
    assert {name for name, number in known.items() if judged(program, MACHINES[machine], number) != REFUSED} == set()


def test_each_version_of_landlock_is_asked_for_what_it_knows():
    """As linux/landlock.h has them by version; a kernel refuses rules of a later one."""
    files = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16, 8: 16}  # kinds of access to files
    held = {version: walls.landlock_held(version) for version in files}

    assert {version: each[0] for version, each in held.items()} == {v: (1 << bits) - 1 for v, bits in files.items()}
    assert {version: each[1:] for version, each in held.items()} == {
        version: [3] * ((version >= 4) + (version >= 6)) for version in files
    }


def test_a_machine_without_numbers_of_calls_has_no_filter():
    assert walls.calls_filter("pdp11", 1) is None


@pytest.mark.parametrize(
    ("stand", "said"),
    [
        (("landlock", "seccomp"), ""),
        (("seccomp",), ""),
        (("landlock", "namespace"), ""),
        (("landlock",), "can reach the network"),
        (("namespace",), "can write files"),
        ((), "can write files and reach the network"),
    ],
)
def test_what_a_system_lacks_is_said_once(stand: Sequence[str], said: str, monkeypatch: pytest.MonkeyPatch):
    assert walls.lacking(stand) == said
    monkeypatch.setattr(sandbox, "_warned", False)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            sandbox._warn_once(stand)

    assert [warning.category for warning in heard] == [NotConfined] * bool(said)
    assert all(said in str(warning.message) for warning in heard)


def test_the_command_line_says_it_as_one_note(gen: Gen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "net.onnx")
    monkeypatch.setattr(sandbox, "_warned", False)
    monkeypatch.setattr(walls, "lacking", lambda _: "can write files")

    results = [gen("inspect", tmp_path / "net.onnx") for _ in range(2)]

    assert [result.exit_code for result in results] == [0, 0]
    assert [result.stderr.count("note: ") for result in results] == [1, 0]
    assert "in a process of their own, which can write files" in results[0].stderr


def test_memory_time_and_files_are_limited():
    limits = asked("limits", memory=1 << 30, seconds=7)[0]

    assert limits["FSIZE"] == limits["CORE"] == [0, 0]
    assert limits["CPU"] == [8, 8]
    assert 1 << 30 < limits["AS"][0] < 1 << 36
    with pytest.raises(sandbox.Ended, match=r"^needs more than 0\.25 GB of memory$"):
        asked("bytes", 1 << 30, memory=1 << 28)
    assert asked("bytes", 1 << 20, memory=1 << 28)[0] == 1 << 20


def test_the_limits_are_those_that_the_page_promises():
    def said(limits: sandbox.Limits) -> tuple[str, str]:
        return f"{limits.memory / (1 << 30):g} GB", f"{limits.seconds / 60:g} minutes"

    (memory, time), (less, sooner) = said(sandbox.Limits()), said(decoders._LIMITS)
    page = (ROOT / "docs" / "first-model.md").read_text()
    assert f"limits of {memory} and {time} (images and sounds: {less}, {sooner})" in page


def test_a_process_that_takes_too_long_is_ended():
    with pytest.raises(sandbox.Ended, match=r"^took longer than 0\.5 s$"):
        asked("sleeps", seconds=0.5)
    assert asked("echo", "again")[0] == "again"


def test_a_crash_is_an_answer_and_the_next_request_gets_its_own():
    with pytest.raises(sandbox.Ended, match=r"^ended with SIGSEGV$"):
        asked("crash")
    with pytest.raises(sandbox.Failed, match=r"^TypeError: of two lines") as failed:
        asked("fails")
    assert "answer_fails" in failed.value.__notes__[0]
    assert asked("echo", [1, 2.5, "ä"], b"data") == ([1, 2.5, "ä"], b"data")


@pytest.mark.parametrize(
    "data",
    [b"", b"no JSON\n", b"\x80\x04N.\n", b"[" * 100_000 + b"\n", b"[]\n", b'{"answer": 1}\n', b'{"walls": []}\n', b"1"],
)
def test_what_is_no_answer_is_none(data: bytes):
    with pytest.raises(sandbox.Ended, match=r"^ended without an answer$"):
        asked("quits", data=data)
    assert asked("echo", 1)[0] == 1


def test_what_a_library_prints_is_no_part_of_an_answer():
    for _ in range(2):
        assert asked("talk", data=bytes(range(256)), seconds=30) == ("", b"")


def test_large_requests_and_answers_go_through():
    data = np.random.default_rng(0).bytes(3_000_001)

    assert asked("echo", None, data)[1] == data


def test_no_file_of_this_process_is_open_there(tmp_path: Path):
    sandbox.end()
    with (tmp_path / "secret").open("wb") as file:
        os.set_inheritable(file.fileno(), True)

        assert os.fstat(file.fileno()).st_ino not in asked("files")[0]


def test_where_processes_cannot_be_forked_one_answers_them_all(monkeypatch: pytest.MonkeyPatch):
    sandbox.end()
    start = sandbox._START.replace("from", "import shoehorn_mcu_host.base.sandbox as s; s._FORKS = False; from", 1)
    monkeypatch.setattr(sandbox, "_START", start)
    monkeypatch.setattr(sandbox, "_warned", True)
    try:
        for _ in range(2):
            assert asked("echo", 1, bytes(200_000)) == (1, bytes(200_000))
            with pytest.raises(sandbox.Ended, match=r"^ended with SIGSEGV$"):
                asked("crash")
    finally:
        sandbox.end()


def test_plain_values_come_back_as_they_were():
    arrays = {
        "float": np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2],
        "empty": np.zeros((0, 3), np.int8),
        "scalar": np.array(3, np.int64),
        "flags": np.array([True, False]),
        "complex": np.array([1 + 2j], np.complex64),
        "texts": np.array(["a", "ä"], object),
        "bfloat16": np.arange(3).astype(onnx.helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)),
    }
    value = {"numbers": (1, 2.5, float("inf"), None, True, "x"), "type": np.dtype("float16"), "arrays": arrays}
    told, pieces = plain.packed(value)
    made = plain.unpacked(json.loads(json.dumps(told)), bytearray(b"".join(pieces)), ())

    assert made["numbers"] == value["numbers"]
    assert made["type"] == value["type"]
    for name, array in arrays.items():
        assert made["arrays"][name].dtype == array.dtype
        assert made["arrays"][name].shape == array.shape
        assert np.array_equal(made["arrays"][name], array)
    made["arrays"]["float"][0, 0] = 7  # as one may write into the array of a file


def test_only_classes_that_are_named_are_made():
    with pytest.raises(KeyError):
        plain.unpacked({"Path": ["/"]}, bytearray(), ())


@pytest.mark.skipif(sys.platform != "linux", reason="what holds a process is read in /proc")
def test_a_confined_process_gains_no_rights_and_ends_with_its_parent() -> None:
    """Root needs neither for the other walls, so they stand there without."""
    code = "import ctypes, sys; from pathlib import Path; from shoehorn_mcu_host.base import walls\n"
    code += "walls._filter = lambda library: False; walls.confine(None, None, None); end = ctypes.c_int()\n"
    code += "walls._library().prctl(2, ctypes.byref(end), 0, 0, 0)\n"
    code += "print(end.value, *(x.split()[1] for x in open('/proc/self/status') if x.startswith('NoNewPrivs')))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == [str(int(signal.SIGKILL)), "1"]


def test_an_answer_goes_in_pieces_each_behind_its_size() -> None:
    sink = io.BytesIO()
    whole = bytes(range(256)) * (sandbox._PIECE // 256) + b"rest"

    assert sandbox._by_itself(lambda: iter([whole, b"last"]), sink) == 0
    sizes = (sandbox._PIECE, 4, 4)
    parts = (whole[: sandbox._PIECE], b"rest", b"last")
    assert sink.getvalue() == b"".join(sandbox._COUNT.pack(n) + part for n, part in zip(sizes, parts, strict=True))
