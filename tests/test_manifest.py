"""A board's manifest is data: what it says cannot become more than it stands for, and what cannot work is refused."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli_device import needs_qemu

from shoehorn_mcu.base.paths import BOARDS, FIRMWARE_TEMPLATES
from shoehorn_mcu.emit.folder.project import board_files
from shoehorn_mcu.emit.templates import fill
from shoehorn_mcu.machine.targets import Board, BoardError, load_board

Json = dict[str, Any]

SHIPPED: Mapping[str, Json] = {path.stem: json.loads(path.read_text()) for path in sorted(BOARDS.glob("*.json"))}
HOSTILE = [
    "\n",
    "\r",
    "\0",
    "\x1b[31m",
    '"',
    "'",
    "`",
    ";",
    "//",
    "/*",
    "*/",
    "#",
    "..",
    "\\",
    "$(",
    "{",
    "}",
    "@",
    "|",
    "<",
    "\u2028",
    "\u202e",
]

# A Nucleo-F401RE as a user would write it: USART2 at PA2 and PA3, 84 MHz. QEMU's F405 has the same registers, and
# USART2 as its second serial port.
F401: Json = {
    "name": "NUCLEO-F401RE",
    "vendor": "ST",
    "url": "https://www.st.com/en/evaluation-tools/nucleo-f401re.html",
    "platforms": ["shoehorn"],
    "build": {"mcu": "stm32f401re", "f_cpu": "84000000L"},
    "upload": {"maximum_ram_size": 98304, "maximum_size": 524288},
    "shoehorn": {
        "family": "stm32f4",
        "cpu": "cortex-m4f",
        "memory": [
            {"name": "flash", "kind": "flash", "origin": "0x08000000", "bytes": 524288},
            {"name": "ram", "kind": "ram", "origin": "0x20000000", "bytes": 98304},
        ],
        "sram_bytes": 98304,
        "flash_bytes": 524288,
        "firmware_ram_bytes": 4096,
        "stack_bytes": 8192,
        "core_hz": 84000000,
        "cycles": {"core": "cortex-m4", "wait_states": 2, "line_bytes": 16, "prefetch": True, "code_lines": 64},
        "tick_hz": 84000000,
        "clock_name": "SysTick",
        "defines": {
            "SH_BOARD_FPU": 1,
            "SH_BOARD_IRQS": 85,
            "SH_BOARD_CRYSTAL_MHZ": 8,
            "SH_BOARD_PLL_N": 336,
            "SH_BOARD_PLL_P": 4,
            "SH_BOARD_RCC_CFGR": "0x1000",
            "SH_BOARD_VOLTAGE_SCALE": 0,
            "SH_BOARD_FLASH_WAITS": 2,
            "SH_BOARD_UART": "0x40004400",
            "SH_BOARD_UART_ENR": "0x40",
            "SH_BOARD_UART_ENR_BIT": 17,
            "SH_BOARD_UART_AF": 7,
            "SH_BOARD_UART_HZ": 42000000,
            "SH_BOARD_UART_GPIO": "0x40020000",
            "SH_BOARD_UART_GPIO_INDEX": 0,
            "SH_BOARD_UART_TX_PIN": 2,
            "SH_BOARD_UART_RX_PIN": 3,
        },
        "emulator": {"program": "qemu-system-arm", "machine": "netduinoplus2", "arguments": ["-serial", "null"]},
        "flash_tool": "pyocd",
        "image": "firmware.hex",
        "pyocd_target": "stm32f401retx",
        "verified": ["build", "emulator"],
    },
}


def _copy(value: Json) -> Json:
    return json.loads(json.dumps(value))


def _load(manifest: Json, folder: Path, name: str = "mine") -> Board:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(manifest))
    return load_board(path)


def _upload() -> Any:
    path = FIRMWARE_TEMPLATES / "platform" / "builder" / "upload.py"
    spec = importlib.util.spec_from_file_location("upload_of_the_templates", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


UPLOAD = _upload()


def _made(board: Board) -> list[str]:
    """All that is made of the texts of a manifest: files but for the copy of itself, and command lines."""
    settings_ = fill(FIRMWARE_TEMPLATES / "platformio.ini.in", {"BOARD": board.id, "MODEL": "demo"})
    spec, build = board.spec.model_dump(), Path("build")
    commands = UPLOAD.commands(spec, build, "", dry_run=True)
    if board.spec.emulator:
        commands.append(UPLOAD.emulator_command(spec["emulator"], build / "firmware.elf", []))
    files = (data.decode() for data in board_files(board).values())
    return [*files, settings_.decode(), *(word for command in commands for word in command), board.name]


def _leaves(value: object, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The places of all texts and all keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from _leaves(inner, *path, key)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, *path, at)
    elif isinstance(value, str):
        yield path


def _changed(manifest: Json, path: tuple[str | int, ...], change: Callable[[str], str], key: bool) -> Json | None:
    """The manifest with one text, or one key, changed; None where that place has none."""
    changed: Any = _copy(manifest)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    last = path[-1]
    if key and isinstance(last, str):
        inner[change(last)] = inner.pop(last)
    elif not key and isinstance(inner[last], str):
        inner[last] = change(inner[last])
    else:
        return None
    return changed


def _hostile_counts(board: Board) -> Counter[str]:
    return Counter({mark: sum(text.count(mark) for text in _made(board)) for mark in (*HOSTILE, " -")})


MANIFESTS = {**SHIPPED, "f401": F401}
PLACES = [(name, path) for name, manifest in MANIFESTS.items() for path in _leaves(manifest)]
TEXTS = st.lists(
    st.sampled_from([*HOSTILE, "a", "1", " ", "-", ".", "/", "_"]) | st.characters(), min_size=1, max_size=6
)


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Counter[str]]:
    """What is hostile in what is made of the manifests as they are."""
    folder = tmp_path_factory.mktemp("as_they_are")
    return {name: _hostile_counts(_load(manifest, folder)) for name, manifest in MANIFESTS.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changed")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.lists(TEXTS.map("".join), min_size=2, max_size=2), st.integers(0, 2), st.booleans())
def test_no_text_of_a_manifest_leaves_its_place(counts, folder, place, texts, how, key):
    """Refused, or what is made of it has as many newlines, quotes, comments, ... as before."""
    name, path = place
    ways = (lambda text: text + texts[0], lambda text: texts[0] + text, lambda text: texts[0])
    manifest = _changed(MANIFESTS[name], path, ways[how], key)
    if manifest is None:
        return
    try:
        board = _load(manifest, folder)
    except BoardError as error:
        assert str(error).isprintable()
        return
    assert _hostile_counts(board) == counts[name]


@pytest.mark.parametrize("mark", HOSTILE)
def test_each_hostile_mark_in_each_text_is_refused_or_stays_in_its_place(counts, folder, mark):
    name = "f401"
    for path in _leaves(MANIFESTS[name]):
        for key in (False, True):
            manifest = _changed(MANIFESTS[name], path, lambda text: f"{text}{mark}", key)
            if manifest is None:
                continue
            try:
                board = _load(manifest, folder)
            except BoardError as error:
                assert str(error).isprintable()
                continue
            assert _hostile_counts(board) == counts[name], (path, key)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-monitor", "stdio"],
        ["-chardev", "file,id=a,path=/tmp/a"],
        ["-drive", "file=/etc/passwd"],
        ["-plugin", "evil.so"],
        ["-serial", "file:/tmp/a"],
        ["-machine", "virt,dumpdtb=/tmp/a"],
        ["-M", "virt,firmware=/tmp/a"],
        ["-accel", "tcg,tb-size=1"],
        ["-global", "nrf51-soc.flash-size=1024,readonly=off"],
        ["-global", "driver=vmgenid,property=guid,value=auto"],
        ["-global", "cfi.pflash01.drive=/tmp/a"],
        ["-cpu", "cortex-m4,a=../b"],
        ["-m", "1G,slots=2"],
        ["-cpu"],
        ["-nographic"],
        ["-kernel", "a.elf"],
        ["cortex-m4"],
    ],
    ids=" ".join,
)
def test_an_emulator_gets_the_machine_s_parts_and_nothing_else(tmp_path, arguments):
    manifest = _copy(F401)
    manifest["shoehorn"]["emulator"]["arguments"] = arguments

    with pytest.raises(
        BoardError, match=r"emulator: arguments: '.*' is refused; a manifest may give -accel, -bios, -cpu, -global, "
    ):
        _load(manifest, tmp_path)


def test_plausible_arguments_of_an_emulator_are_accepted(tmp_path):
    manifest = _copy(F401)
    given_ = ["-cpu", "cortex-m4,vfp=off", "-m", "16M", "-smp", "2", "-M", "virt", "-accel", "tcg,thread=multi"]
    given_ += ["-global", "nrf51-soc.flash-size=1048576"]
    manifest["shoehorn"]["emulator"]["arguments"] = given_

    spec = _load(manifest, tmp_path).spec.model_dump()

    assert [*given_, "-kernel", "a.elf"] == UPLOAD.emulator_command(spec["emulator"], Path("a.elf"), [])[-14:]


def _with(*path: str | int, value: object) -> Callable[[Json], None]:
    def change(manifest: Json) -> None:
        inner: Any = manifest
        for step in path[:-1]:
            inner = inner[step]
        if value is None:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value

    return change


_CCM: Json = {"name": "sram", "kind": "ram", "origin": "0x10000000", "bytes": 4096}


def _define(name: str, value: object) -> Callable[[Json], None]:
    return _with("shoehorn", "defines", f"SH_BOARD_{name}", value=value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with("build", "extra_flags", value="!touch a"), "build.extra_flags: this version knows no such key;"),
        (_with("build", "ldscript", value="a.ld"), "build.ldscript: this version knows no such key"),
        (_with("upload", value=None), "mine.json: upload: this key is needed"),
        (_with("upload", "maximum_size", value=None), "upload.maximum_size: this key is needed"),
        (
            _with("shoehorn", "image", value="../firmware.hex"),
            "image: '../firmware.hex' is refused; write",
        ),
        (_with("shoehorn", "image", value="firmware.elf"), "image: 'firmware.elf' is refused"),
        (_with("shoehorn", "pyocd_target", value="a -u b"), "pyocd_target: 'a -u b' is refused; write one word"),
        (_with("shoehorn", "pyocd_target", value="--help"), "pyocd_target: '--help' is refused"),
        (_with("name", value="a\nb"), r"name: 'a\nb' is refused; write one line of letters"),
        (
            _with("shoehorn", "defines", "A B", value=1),
            "defines.A B.[key]: 'A B' is refused; write a name",
        ),
        (_with("shoehorn", "memory", 1, "name", value="RAM"), "memory.1.name: 'RAM' is refused; write a memory's name"),
        (_with("shoehorn", "memory", 1, "name", value="sram1"), "memory: family stm32f4 needs a memory called ram"),
        (_with("shoehorn", "sram_bytes", value=131072), "sram_bytes: 131072 is more than the 98304 bytes of 'ram'"),
        (_with("shoehorn", "family", value="stm32f9"), "family: unknown family 'stm32f9'; write stm32f4, "),
        (_with("shoehorn", "cpu", value="cortex-m7"), "cpu: family stm32f4 is for cortex-m4f, not cortex-m7"),
        (
            _with("build", "mcu", value="stm32f769"),
            "build.mcu: family stm32f4 has no start-up code for stm32f769",
        ),
        (
            _define("FLASH_WAITS", None),
            "defines: family stm32f4 needs SH_BOARD_FLASH_WAITS (from 0 to 7) too; docs/families.md lists",
        ),
        (
            _with("shoehorn", "memory", value=[*F401["shoehorn"]["memory"], _CCM]),
            "memory: 'sram' means the first ram; give the further memory a name of its own",
        ),
        (_with("shoehorn", "pyocd_target", value=None), "flash_tool pyocd needs pyocd_target"),
        (_define("UART_BAUD", 9600), "defines: family stm32f4 does not know SH_BOARD_UART_BAUD; leave them out"),
        (
            _define("UART_TX_PIN", 16),
            "defines.SH_BOARD_UART_TX_PIN: 16 must be from 0 to 15: pin that sends; docs/families.md",
        ),
        (_define("FPU", 0), "defines.SH_BOARD_FPU: 0 must be 1: 1 where the core has an FPU, else 0;"),
        (
            _define("UART", "0x40004800"),
            "SH_BOARD_UART: 0x40004800 is no UART that stm32f401re has",
        ),
        (_define("UART_ENR", "0x44"), "defines.SH_BOARD_UART_ENR: 0x44 does not belong to USART2; write 0x40"),
        (_define("UART_AF", 8), "defines.SH_BOARD_UART_AF: 8 does not belong to USART2; write 7"),
        (_define("PLL_P", 2), "core_hz: stm32f401re runs at 84000000 Hz at most, not 168000000"),
        (_define("PLL_P", 7), "SH_BOARD_PLL_P: the PLL divides by 2, 4, 6 or 8"),
        (
            _define("PLL_N", 192),
            "core_hz: 84000000 is not the 48000000 Hz that the PLL of SH_BOARD_PLL",
        ),
        (_with("build", "f_cpu", value="16000000L"), "build.f_cpu: 16000000 is not the 84000000 Hz that the PLL of"),
        (_with("shoehorn", "tick_hz", value=1000), "tick_hz: 1000 is not the 84000000 Hz that the PLL of"),
        (_define("RCC_CFGR", 0), "SH_BOARD_RCC_CFGR: APB1 runs at 42000000 Hz at most, not 84000000; divide it"),
        (_define("RCC_CFGR", "0x1001"), "SH_BOARD_RCC_CFGR: only the dividers"),
        (_define("UART_HZ", 84000000), "SH_BOARD_UART_HZ: the UART is on APB1, which runs at 42000000 Hz"),
        (_define("FLASH_WAITS", 1), "SH_BOARD_FLASH_WAITS: at 84000000 Hz the flash needs 2"),
        (_define("FLASH_WAITS", 3), "cycles.wait_states: 2 is not SH_BOARD_FLASH_WAITS; correct one of them"),
        (_define("VOLTAGE_SCALE", 3), "SH_BOARD_VOLTAGE_SCALE: at 84000000 Hz write 0 "),
        (_define("UART_GPIO_INDEX", 1), "SH_BOARD_UART_GPIO_INDEX: port B is at 0x40020400, not 0x40020000"),
        (
            _define("UART_GPIO_INDEX", 5),
            "_INDEX: stm32f401re has no port F, and so no clock for it; its ports are A, B,",
        ),
        (_define("UART_GPIO", "0x40030000"), "GPIO: 0x40030000 must be from 0x40020000 to 0x40022000: the port of"),
    ],
)
def test_what_cannot_work_is_refused_by_its_key(tmp_path, change, message):
    manifest = _copy(F401)
    change(manifest)

    with pytest.raises(BoardError) as caught:
        _load(manifest, tmp_path)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("board", "change", "message"),
    [
        ("microbit", _with("shoehorn", "memory", 0, "kind", value="ram"), "memory: 'flash' must be of kind flash"),
        ("microbit", _define("UART_RX_PIN", 40), "SH_BOARD_UART_RX_PIN: 40 must be from 0 to 31"),
        (
            "microbit",
            _with("shoehorn", "core_hz", value=32000000),
            "core_hz: 32000000 is not the 16000000 Hz that start-up",
        ),
        ("microbit", _with("shoehorn", "tick_hz", value=1), "tick_hz: 1 is not the 16000000 Hz that the timer counts"),
        ("microbit", _with("shoehorn", "cpu", value="cortex-m4f"), "SH_BOARD_FPU: a cortex-m4f has an FPU; write 1"),
        (
            "rpi-pico",
            _with("shoehorn", "memory", 2, "name", value="boot2"),
            "memory: 'boot2' means another part of the",
        ),
        ("rpi-pico", _with("shoehorn", "memory", 2, "name", value="include"), "memory: 'include' means another part"),
        ("rpi-zero", _with("shoehorn", "core_hz", value=1200000000), "runs at 1000000000 Hz at most, not 1200000000"),
        ("native", _with("shoehorn", "emulator", "machine", value="virt"), "program native has neither a machine nor"),
        (
            "microbit",
            _with("shoehorn", "emulator", "machine", value=None),
            "program qemu-system-arm needs a machine, such",
        ),
        (
            "stm32-h405",
            _with("shoehorn", "memory", 2, "name", value="stack"),
            "'stack' means another part of the linker",
        ),
    ],
)
def test_so_it_is_with_other_families(tmp_path, board, change, message):
    manifest = _copy(SHIPPED[board])
    change(manifest)

    with pytest.raises(BoardError) as caught:
        _load(manifest, tmp_path)

    assert message in str(caught.value)


FAST = {"FLASH_WAITS": 3, "VOLTAGE_SCALE": 3}


@pytest.mark.parametrize(
    ("mcu", "hz", "defines"),
    [
        (
            "stm32f411ce",
            100_000_000,
            {"PLL_N": 400, "PLL_P": 4, **FAST, "UART_HZ": 50000000},
        ),
        (
            "stm32f411ce",
            96_000_000,
            {"PLL_N": 192, "PLL_P": 2, **FAST, "UART_HZ": 48000000},
        ),
        ("stm32f446re", 168_000_000, {"PLL_P": 2, "FLASH_WAITS": 5, "RCC_CFGR": "0x9400"}),
        (
            "stm32f407vg",
            168_000_000,
            {"PLL_P": 2, "FLASH_WAITS": 5, "RCC_CFGR": "0x9400", "UART_TX_PIN": 8},
        ),
    ],
)
def test_other_chips_of_the_family_are_accepted(tmp_path, mcu, hz, defines):
    manifest = _copy(F401)
    spec = manifest["shoehorn"]
    spec.update(core_hz=hz, tick_hz=hz, cycles=None)
    manifest["build"] = {"mcu": mcu, "f_cpu": f"{hz}L"}
    spec["defines"].update({f"SH_BOARD_{name}": value for name, value in defines.items()})

    assert _load(manifest, tmp_path).spec.core_hz == hz


def test_a_manifest_of_version_0_1_0_is_refused_in_one_line_and_the_others_are_listed(gen, tmp_path, monkeypatch):
    """Its family took neither the clock nor the UART from the manifest."""
    old = _copy(F401)
    then = (
        "FPU",
        "IRQS",
        "CRYSTAL_MHZ",
        "UART",
        "UART_HZ",
        "UART_GPIO",
        "UART_GPIO_INDEX",
        "UART_TX_PIN",
        "UART_RX_PIN",
    )
    old["shoehorn"]["defines"] = {f"SH_BOARD_{name}": F401["shoehorn"]["defines"][f"SH_BOARD_{name}"] for name in then}
    (tmp_path / "old.json").write_text(json.dumps(old))
    monkeypatch.setenv("SHOEHORN_BOARDS", str(tmp_path))
    listed, named = gen("boards"), gen("firmware", "--board", "old", "--out", tmp_path / "never-written")

    (note,) = listed.stderr.splitlines()
    assert (listed.exit_code, named.exit_code) == (0, 1)
    assert note == f"note: {named.stderr.removeprefix('gen: ').rstrip()}"
    assert "old.json: shoehorn.defines: family stm32f4 needs SH_BOARD_PLL_N (from 192 to 432), SH_BOARD_PLL_P " in note
    assert note.endswith(" and 5 more too; docs/families.md lists what the family needs")
    assert "nucleo-f401re" in listed.stdout and not (tmp_path / "never-written").exists()


@needs_qemu
def test_the_board_of_ten_minutes_boots_with_its_console_on_usart2(gen, tmp_path, monkeypatch):
    """The example of docs/boards.md, as it is there, in a folder of the user."""
    examples = re.findall(r"```json\n(.*?)```", (Path(__file__).parents[1] / "docs" / "boards.md").read_text(), re.S)
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "my-f401.json").write_text(examples[0])
    monkeypatch.setenv("SHOEHORN_BOARDS", str(tmp_path / "boards"))
    out, report = tmp_path / "digits", tmp_path / "report.json"

    assert "My NUCLEO-F401RE" in gen("boards").stdout
    assert gen("firmware", "--board", "my-f401", "--out", out).exit_code == 0
    checked = gen("validate", out, "--emulate", "--report", report)

    assert checked.exit_code == 0, checked.output
    assert "every byte of every op equal to the reference" in checked.output
    assert json.loads(report.read_text())["level"] == "emulator"
