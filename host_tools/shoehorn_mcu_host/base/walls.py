"""What a kernel offers to lock the calling process in: it writes no file, reaches no network and starts no process.

On Linux there are two walls, and each holds without the other. Landlock (since 5.13) lets a process read what Python
and its libraries are made of, and nothing else of the user; it forbids TCP since 6.7, and signals since 6.12. A filter
of system calls (seccomp) forbids to open files for writing and to change them otherwise, sockets of every kind, other
processes, and signals to them. Where there is no filter for a machine, a namespace of its own keeps a process from the
network. What a kernel lacks is left out, and `confine` says which walls stand. Other systems have limits at most.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

if sys.platform != "win32":
    import resource

_NO_NEW_PRIVILEGES, _END_WITH_PARENT, _SECCOMP = 38, 1, 22  # of prctl
_SIGKILL = 9

# Landlock: linux/landlock.h.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_READS_FILE, _READS = 1 << 2, 1 << 2 | 1 << 3
_WRITES_FILE = 1 << 1
_TO_NULL = _READS_FILE | _WRITES_FILE | 1 << 14
_FILES_UP_TO = {1: 13, 2: 14, 3: 15, 5: 16}  # kinds of access to files that a version knows
_NETWORK_SINCE = 4
_NETWORK = 0b11  # to bind and to connect
_SCOPES_SINCE = 6
_SCOPES = 0b11  # abstract sockets and signals
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/urandom", "/dev/zero"),
)

# seccomp: linux/seccomp.h, linux/filter.h, linux/audit.h.
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE = 0, 4  # where a filter finds the call and the machine
_X32 = 0x40000000
_FILTER_MODE = 2
_CLONE_THREAD = 0x10000
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_GENERIC = {"aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
_X86_64 = 0xC000003E

# Calls that are refused, with their numbers on x86-64 and on machines that share Linux's generic table; -1: none.
_REFUSED = {
    "the network": "socket 41 198,socketpair 53 199,connect 42 203,bind 49 200,listen 50 201,accept 43 202,"
    "accept4 288 242,sendto 44 206,sendmsg 46 211,sendmmsg 307 269,io_uring_setup 425 425,io_uring_enter 426 426,"
    "io_uring_register 427 427",
    "processes": "execve 59 221,execveat 322 281,fork 57 -1,vfork 58 -1,ptrace 101 117,process_vm_readv 310 270,"
    "process_vm_writev 311 271,kcmp 312 272,pidfd_open 434 434,pidfd_getfd 438 438,pidfd_send_signal 424 424,"
    "process_madvise 440 440,tkill 200 130,rt_sigqueueinfo 129 138,rt_tgsigqueueinfo 297 240,setpriority 141 140,"
    "ioprio_set 251 30,shmget 29 194,shmat 30 196,msgget 68 186,semget 64 190,mq_open 240 180",
    "files": "creat 85 -1,open_by_handle_at 304 265,mkdir 83 -1,mkdirat 258 34,rmdir 84 -1,unlink 87 -1,"
    "unlinkat 263 35,rename 82 -1,renameat 264 38,renameat2 316 276,link 86 -1,linkat 265 37,symlink 88 -1,"
    "symlinkat 266 36,mknod 133 -1,mknodat 259 33,truncate 76 45,chmod 90 -1,fchmod 91 52,fchmodat 268 53,"
    "fchmodat2 452 452,chown 92 -1,fchown 93 55,lchown 94 -1,fchownat 260 54,utime 132 -1,utimes 235 -1,"
    "futimesat 261 -1,utimensat 280 88,setxattr 188 5,lsetxattr 189 6,fsetxattr 190 7,removexattr 197 14,"
    "lremovexattr 198 15,fremovexattr 199 16,setxattrat 463 463,removexattrat 466 466,file_setattr 469 469",
    "the system": "mount 165 40,umount2 166 39,pivot_root 155 41,chroot 161 51,unshare 272 97,setns 308 268,"
    "open_tree 428 428,move_mount 429 429,fsopen 430 430,fsconfig 431 431,fsmount 432 432,fspick 433 433,"
    "mount_setattr 442 442,bpf 321 280,perf_event_open 298 241,userfaultfd 323 282,keyctl 250 219,add_key 248 217,"
    "request_key 249 218,init_module 175 105,finit_module 313 273,delete_module 176 106,kexec_load 246 104,"
    "reboot 169 142,acct 163 89,settimeofday 164 170,clock_settime 227 112,sethostname 170 161,personality 135 92",
}
_UNKNOWN = "clone3 435 435,openat2 437 437"  # as of an old kernel: their callers then use clone and openat
_OPENS = "open 2 -1 1,openat 257 56 2"  # with the argument that says what for
_CLONE = "clone 56 220"
_TO_ITSELF = "kill 62 129,tgkill 234 131"  # the first argument says to which process
_OF_ITSELF = "prlimit64 302 261"  # 0 is this one, too

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


def confine(memory: int | None, seconds: float | None, rules: int | None) -> tuple[str, ...]:
    """Locks the calling process, which must have one thread, in for good. Answers the walls that stand, by name.

    `memory`, `seconds`: bytes beyond those that it has, and of the processor; None: no limit. `rules`: Landlock's.
    """
    _limit(memory, seconds)
    if sys.platform != "linux":
        return ()
    library = _library()
    library.prctl(_END_WITH_PARENT, _SIGKILL, 0, 0, 0)
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    stand = []
    if rules is not None and library.syscall(_RESTRICT, rules, ctypes.c_uint(0)) == 0:
        stand.append("landlock")
    if _filter(library):
        stand.append("seccomp")
    elif _namespace(library):
        stand.append("namespace")
    return tuple(stand)


def lacking(stand: Sequence[str]) -> str:
    """What a process can do with only these walls, in words; empty where nothing is left open."""
    if "seccomp" in stand or {"landlock", "namespace"} <= {*stand}:
        return ""
    if "landlock" in stand:
        return "can reach the network"
    return "can write files" if "namespace" in stand else "can write files and reach the network"


def _limit(memory: int | None, seconds: float | None) -> None:
    """Limits memory, time and the size of files, of which none may be written; as far as the system can."""
    if sys.platform == "win32":
        return
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0}
    if memory is not None:
        limits[resource.RLIMIT_AS] = _mapped() + memory
    if seconds is not None:
        limits[resource.RLIMIT_CPU] = int(seconds) + 1
    for each, most in limits.items():
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(each)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(each, (most, most))


def _mapped() -> int:
    """The bytes of addresses that this process has: libraries such as PyTorch's take gigabytes of them."""
    if sys.platform == "win32":
        return 0
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def landlock_rules() -> int | None:
    """A file descriptor of Landlock's rules, for this process and its children; None where the kernel has none.

    They are made once for many processes, as this takes longer than all the rest.
    """
    if sys.platform != "linux":
        return None
    library = _library()
    version = int(library.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1)))
    if version < 1:
        return None
    held = landlock_held(version)
    packed = struct.pack(f"={len(held)}Q", *held)
    rules = int(library.syscall(_CREATE, packed, ctypes.c_size_t(len(packed)), ctypes.c_uint(0)))
    if rules < 0:
        return None
    for path, access in (*((path, _READS) for path in _readable()), (Path(os.devnull), _TO_NULL)):
        _allow(library, rules, path, access & held[0])
    return rules


def landlock_held(version: int) -> list[int]:
    """The kinds of access that a version of Landlock can hold back: to files, to the network, and to other processes.

    A version that does not know one of them refuses the rules.
    """
    held = [(1 << max(bits for since, bits in _FILES_UP_TO.items() if since <= version)) - 1]
    if version >= _NETWORK_SINCE:
        held.append(_NETWORK)
    if version >= _SCOPES_SINCE:
        held.append(_SCOPES)
    return held


def _allow(library: ctypes.CDLL, rules: int, path: Path, access: int) -> None:
    """A path that the system does not have, or that cannot be opened, stays closed."""
    try:
        place = os.open(path, os.O_RDONLY | getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return
    try:
        own = access if path.is_dir() else access & ~(_READS & ~_READS_FILE)
        library.syscall(_ADD, rules, ctypes.c_int(1), struct.pack("=Qi", own, place), ctypes.c_uint(0))
    finally:
        os.close(place)


def _readable() -> Iterator[Path]:
    """What Python, its packages and the libraries of both are in, and what C libraries ask the system."""
    own = [vars(module).get("__path__", ()) for module in [*sys.modules.values()] if isinstance(module, ModuleType)]
    packages = [path for paths in own for path in paths]
    places = {*map(Path, (sys.prefix, sys.base_prefix, *filter(os.path.isabs, (*sys.path, *packages)))), *_libraries()}
    seen: set[Path] = {Path("/")}  # never all files
    for place in sorted(places | {*map(Path, _SYSTEM)}):
        if not any(parent in seen for parent in place.parents if parent != Path("/")) and place not in seen:
            seen.add(place)
            yield place


def _libraries() -> Iterator[Path]:
    """The folders of the libraries that are mapped."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            _, _, path = line.partition("/")
            if ".so" in path:
                yield Path(f"/{path}").parent


def _filter(library: ctypes.CDLL) -> bool:
    made = calls_filter(platform.machine(), os.getpid())
    if made is None:
        return False
    held = ctypes.create_string_buffer(made, len(made))
    program = struct.pack("HP", len(made) // 8, ctypes.addressof(held))
    return bool(library.prctl(_SECCOMP, _FILTER_MODE, program, 0, 0) == 0)


def calls_filter(machine: str, process: int) -> bytes | None:
    """The program that the kernel runs for every call of a process; None: the machine's numbers are not known."""
    if machine == "x86_64":
        code, column = _X86_64, 0
    elif machine in _GENERIC:
        code, column = _GENERIC[machine], 1
    else:
        return None
    refused, unknown = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    made = [_step(_LOAD, _MACHINE), _step(_EQUAL, code, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER)]
    if column == 0:
        made += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, refused)]
    for calls, answer in ((",".join(_REFUSED.values()), refused), (_UNKNOWN, unknown)):
        for number, _ in _numbers(calls, column):
            made += [_step(_EQUAL, number, 0, 1), _step(_RETURN, answer)]
    # Of these calls the lower half of an argument decides; a test refuses, or goes on behind itself.
    tests = {
        _OPENS: [_step(_ANY_BIT, _WRITING, 0, 1), _step(_RETURN, refused)],
        _CLONE: [_step(_ANY_BIT, _CLONE_THREAD, 1, 0), _step(_RETURN, refused)],
        _TO_ITSELF: [_step(_EQUAL, process, 1, 0), _step(_RETURN, refused)],
        _OF_ITSELF: [_step(_EQUAL, process, 2, 0), _step(_EQUAL, 0, 1, 0), _step(_RETURN, refused)],
    }
    for calls, test in tests.items():
        for number, argument in _numbers(calls, column):
            body = [_step(_LOAD, 16 + 8 * argument), *test, _step(_RETURN, _ALLOW)]
            made += [_step(_EQUAL, number, 0, len(body)), *body]
    return b"".join((*made, _step(_RETURN, _ALLOW)))


def _step(code: int, operand: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, operand)


def _numbers(calls: str, column: int) -> Iterator[tuple[int, int]]:
    """For each call that a machine has: its number, and the place of the argument to judge (0 where none is named)."""
    for each in calls.split(","):
        words = [*each.split(), "0"]
        if int(words[1 + column]) >= 0:
            yield int(words[1 + column]), int(words[3])


def _namespace(library: ctypes.CDLL) -> bool:
    return bool(library.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0)
