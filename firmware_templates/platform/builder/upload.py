# SPDX-License-Identifier: 0BSD
"""Writes the image: to a debug probe, a serial port, a USB drive or a boot partition, or boots it in an emulator."""

import os
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

from serial import Serial

_GIVE = "give the mount point: gen flash DIR --mount PLACE"
# By the image's suffix: files that only the board's drive has, and what to do where there is no such drive.
_MARKS = {
    ".hex": (("MICROBIT.HTM", "DETAILS.TXT"), f"connect the board by USB, or {_GIVE}"),
    ".uf2": (
        ("INFO_UF2.TXT",),
        f"hold the button BOOTSEL while you connect the board, or press RESET twice, or {_GIVE}",
    ),
}
BOOT_SECONDS = 30.0
KEPT = ".before-shoehorn"


class UploadError(Exception):
    """A refusal in one line."""


def emulator_command(emulator: dict, elf: Path, serial: list[str], counted: bool = True) -> list[str]:
    """The command that boots the image; `serial` are QEMU's arguments for its serial port.

    With `counted` one instruction is one nanosecond of the board's clock; without, QEMU runs several times faster.
    """
    if emulator["program"] == "native":
        return [str(elf)]
    quiet = ["-display", "none", "-monitor", "none"]
    clock = ["-icount", "shift=0"] if counted else []
    fixed = [emulator["program"], "-machine", emulator["machine"], *quiet, *clock]
    return [*fixed, *emulator.get("arguments", []), *serial, "-kernel", str(elf)]


def commands(spec: dict, build: Path, port: str, dry_run: bool = False) -> list[list[str]]:
    """The exact commands of an upload, in order; UploadError when they cannot work here.

    In a dry run without a mount point, the commands contain <MOUNT> instead.
    """
    if dry_run and not port and spec["flash_tool"] in _ONTO:
        return _ONTO[spec["flash_tool"]](spec, build, Path("<MOUNT>"))
    return _COMMANDS[spec["flash_tool"]](spec, build, port)


def _pyocd(spec: dict, build: Path, port: str) -> list[list[str]]:
    probe = ["--uid", port] if port else []
    target = spec["pyocd_target"]
    return [[sys.executable, "-m", "pyocd", "flash", "-t", target, *probe, str(build / spec["image"])]]


def _esptool(spec: dict, build: Path, port: str) -> list[list[str]]:
    place = ["--port", port] if port else []
    chip = ["--chip", spec["family"]]
    return [[sys.executable, "-m", "esptool", *chip, *place, "write_flash", "0x0", str(build / spec["image"])]]


def _drive(spec: dict, build: Path, port: str) -> list[list[str]]:
    marks, cure = _MARKS[Path(spec["image"]).suffix]
    drive = Path(port) if port else _find_drive(marks[0], cure)
    if not drive.is_dir() or not any((drive / name).exists() for name in marks):
        raise UploadError(f"{drive}: not the board's USB drive (no {', no '.join(marks)}); {cure}")
    return _onto_drive(spec, build, drive)


def _onto_drive(spec: dict, build: Path, drive: Path) -> list[list[str]]:
    return [["cp", str(build / spec["image"]), str(drive / spec["image"])]]


def _find_drive(mark: str, cure: str) -> Path:
    """The one mounted drive with the file `mark`."""
    mounts = Path("/proc/mounts")
    lines = mounts.read_text().splitlines() if mounts.exists() else []
    points = [Path(line.split()[1].replace("\\040", " ")) for line in lines]
    letters = [Path(f"{letter}:/") for letter in "DEFGHIJKLMNOPQRSTUVWXYZ"] if os.name == "nt" else []
    found = [p for p in [*points, *Path("/Volumes").glob("*"), *letters] if (p / mark).exists()]
    if len(found) != 1:
        if found:
            raise UploadError(f"{len(found)} mounted drives with {mark}: {', '.join(map(str, found))}; {_GIVE}")
        raise UploadError(f"no mounted drive with {mark}; {cure}")
    return found[0]


def _teensy(spec: dict, build: Path, port: str) -> list[list[str]]:
    """PJRC's loader, which waits until the button on the board is pressed; it writes to the only board."""
    return [["teensy_loader_cli", f"--mcu={_TEENSIES[spec['family']]}", "-w", "-v", str(build / spec["image"])]]


def _dfu(spec: dict, build: Path, port: str) -> list[list[str]]:
    """The boot ROM of the chip over USB, which puts the image where the flash begins and starts it."""
    flash = next(region["origin"] for region in spec["memory"] if region["kind"] == "flash")
    at = flash if isinstance(flash, str) else f"0x{flash:08x}"
    one = ["-S", port] if port else []
    return [["dfu-util", "-a", "0", *one, "-s", f"{at}:leave", "-D", str(build / spec["image"])]]


def _boot_partition(spec: dict, build: Path, port: str) -> list[list[str]]:
    if not port:
        raise UploadError("the SD card's boot partition is needed: give its mount point")
    card = Path(port)
    if not card.is_dir() or not any(card.glob("start*.elf")):
        raise UploadError(f"{card}: not a Raspberry Pi boot partition (no start.elf there); give its mount point")
    return _onto_card(spec, build, card)


def _onto_card(spec: dict, build: Path, card: Path) -> list[list[str]]:
    """Copies the files to the card; existing files are kept once, under another name."""
    steps = []
    for name in (spec["image"], "config.txt"):
        if (card / name).exists() and not (card / (name + KEPT)).exists():
            steps.append(["mv", str(card / name), str(card / (name + KEPT))])
        steps.append(["cp", str(build / name), str(card / name)])
    return steps


def _emulator(spec: dict, build: Path, port: str) -> list[list[str]]:
    return [emulator_command(spec["emulator"], build / "firmware.elf", ["-serial", "stdio"])]


_ONTO = {"drive": _onto_drive, "boot-partition": _onto_card}
_TEENSIES = {"imxrt1062": "TEENSY41"}
# By the loader: Debian's package of it, and what to ask where it fails.
_LOADERS = {
    "teensy_loader_cli": ("teensy-loader-cli", "is the board connected, and its button pressed?"),
    "dfu-util": ("dfu-util", "is the board connected by USB, and was BOOT0 held while it was reset?"),
}
_COMMANDS = {
    "pyocd": _pyocd,
    "esptool": _esptool,
    "drive": _drive,
    "teensy": _teensy,
    "dfu": _dfu,
    "boot-partition": _boot_partition,
    "emulator": _emulator,
}


def run(spec: dict, build: Path, port: str) -> None:
    """Carries out the upload; UploadError names in one line the missing thing."""
    for command in commands(spec, build, port):
        print(" ".join(command), flush=True)
        if spec["flash_tool"] == "emulator":
            _boot(command)
        elif command[0] == "mv":
            Path(command[1]).replace(command[2])
        elif command[0] == "cp":
            _copy(command[1], command[2])
        elif command[0] in _LOADERS:
            _load(command)
        elif spec["flash_tool"] == "esptool":
            _over_serial(command)
        else:
            _probe(command, spec["pyocd_target"])


def _copy(source: str, target: str) -> None:
    """Copies a file and waits until it is written to the card.

    A board that takes UF2 starts the image as soon as its last block has arrived, and its drive is gone.
    """
    written = False
    try:
        with Path(source).open("rb") as image, Path(target).open("wb") as file:
            shutil.copyfileobj(image, file)
            file.flush()
            written = True
            os.fsync(file.fileno())
    except OSError as error:
        gone = not (Path(target).parent / _MARKS[".uf2"][0][0]).exists()
        if not (written and gone and target.endswith(".uf2")):
            raise UploadError(f"{target}: {error.strerror}") from error


def _probe(command: list[str], target: str) -> None:
    if find_spec("pyocd") is None:
        raise UploadError(f"pyOCD is not installed: {sys.executable} -m pip install pyocd")
    if subprocess.run(command, check=False).returncode != 0:
        cure = f"{sys.executable} -m pyocd pack install {target}"
        raise UploadError(f"pyOCD failed; is the probe connected? If it does not know {target}: {cure}")


def _load(command: list[str]) -> None:
    package, question = _LOADERS[command[0]]
    if shutil.which(command[0]) is None:
        raise UploadError(f"{command[0]} is not installed; on Debian `apt-get install {package}` brings it")
    if subprocess.run(command, check=False).returncode != 0:
        raise UploadError(f"{command[0]} failed; {question}")


def _over_serial(command: list[str]) -> None:
    if find_spec("esptool") is None:
        raise UploadError(f"esptool is not installed: {sys.executable} -m pip install esptool")
    if subprocess.run(command, check=False).returncode != 0:
        raise UploadError("esptool failed; is the board's serial port connected and free? Else hold BOOT, press RESET")


def _boot(command: list[str]) -> None:
    """Boots the emulator until the firmware says m-ready on its console, then ends it."""
    if shutil.which(command[0]) is None:
        raise UploadError(f"{command[0]} is not installed")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as machine:
        try:
            heard = _listen(machine, native=len(command) == 1)
        finally:
            machine.kill()
    print(_text_of(heard).strip())
    if b"m-ready" not in heard:
        raise UploadError(f"the firmware did not report m-ready within {BOOT_SECONDS:.0f} s")
    print("Booted. To talk to it: gen emulate, gen validate --emulate, gen bench --emulate")


def _text_of(data: bytes) -> str:
    """What the board said, as text that controls no terminal."""
    return "".join(chr(b) if 0x20 <= b < 0x7F or b == 0x0A else "?" for b in data if b != 0x0D)


def _listen(machine: subprocess.Popen, native: bool) -> bytes:
    """The console's bytes up to m-ready, the end, or the time limit."""
    heard = bytearray()
    done = threading.Event()

    def read() -> None:
        """In a thread, because not every system can wait for a pipe with a time limit."""
        if native:  # its first line is the path of its console
            with Serial(machine.stdout.readline().decode().strip(), timeout=0.2) as port:
                port.write(b"name%")  # opening the console may have discarded the banner
                while machine.poll() is None and b"m-ready" not in heard:
                    heard.extend(port.read(port.in_waiting or 1))
        else:
            while b"m-ready" not in heard and (some := machine.stdout.read1(4096)):
                heard.extend(some)
        done.set()

    threading.Thread(target=read, daemon=True).start()
    done.wait(BOOT_SECONDS)
    return bytes(heard)
