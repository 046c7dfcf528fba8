"""`gen firmware --framework`: projects for the vendors' own platforms in PlatformIO."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import ziglang
from conftest import Gen
from elftools.elf.elffile import ELFFile
from platformio.project.config import ProjectConfig

from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.machine.targets import Board, boards, load_board

ON = {"arduino": "nucleo-f401re", "stm32cube": "nucleo-f401re", "zephyr": "nucleo-f401re", "espidf": "esp"}
# As much of each framework as the programs use.
HEADERS = {
    "Arduino.h": """
        struct Port {
            void begin(long);
            void print(const char *);
            void print(unsigned long);
            void println(const char *);
        };
        extern Port Serial;
        extern "C" unsigned long micros(void);
        extern "C" void delay(unsigned long);
    """,
    "stm32f4xx_hal.h": """
        #include <stdint.h>
        int HAL_Init(void);
        void HAL_IncTick(void);
        uint32_t HAL_GetTick(void);
        void SysTick_Handler(void);
    """,
    "zephyr/kernel.h": """
        #include <stdint.h>
        #define K_MSEC(n) (n)
        int64_t k_uptime_get(void);
        int k_sleep(int);
    """,
    "zephyr/sys/printk.h": "void printk(const char *, ...) __attribute__((format(printf, 1, 2)));",
    "esp_timer.h": "#include <stdint.h>\nint64_t esp_timer_get_time(void);",
    "freertos/FreeRTOS.h": "#define pdMS_TO_TICKS(n) (n)",
    "freertos/task.h": "void vTaskDelay(int);",
    "stdio.h": "int printf(const char *, ...) __attribute__((format(printf, 1, 2)));",
}
CLANG = [
    sys.executable,
    "-m",
    "ziglang",
    "clang",
    "--target=thumbv7em-none-eabihf",
    "-mcpu=cortex-m4",
    "-ffreestanding",
]
CLANG += ["-nostdinc", "-isystem", str(Path(ziglang.__file__).parent / "lib" / "include")]


def _board(name: str, folder: Path) -> str | Path:
    """The board, or one that has the framework ESP-IDF."""
    if name != "esp":
        return name
    manifest = json.loads((BOARDS / "nucleo-f401re.json").read_text())
    manifest["shoehorn"]["platformio"] = {"platform": "espressif32", "board": "esp32dev", "frameworks": ["espidf"]}
    (folder / "esp.json").write_text(json.dumps(manifest))
    return folder / "esp.json"


def _wants(path: Path, folder: Path) -> tuple[set[str], set[str]]:
    """The functions that a source file calls, and those that it has."""
    for name, text in HEADERS.items():
        (folder / "stubs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "stubs" / name).write_text(text)
    places = [f"-I{place}" for place in (folder / "stubs", folder / "made/lib/digits/src")]
    made = folder / f"{path.stem}.o"
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-variable"]
    subprocess.run([*CLANG, *places, *warnings, "-c", str(path), "-o", str(made)], check=True, timeout=60)
    with made.open("rb") as file:
        symbols = [s for s in ELFFile(file).get_section_by_name(".symtab").iter_symbols() if s.name]
        wanted = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"}
        return wanted, {s.name for s in symbols} - wanted


@pytest.mark.parametrize("framework", ON)
def test_the_program_of_a_framework_runs_the_model(gen: Gen, tmp_path: Path, framework: str):
    board = _board(ON[framework], tmp_path)
    said = gen("firmware", "--board", board, "--framework", framework, "--out", tmp_path / "made")
    assert said.exit_code == 0, said.stderr
    [main] = (tmp_path / "made/src").glob("main.c*")
    entry, has = _wants(main, tmp_path)
    infer, _ = _wants(tmp_path / "made/src/infer.c", tmp_path)

    assert "infer" in entry and "digits_run" in infer
    assert {"arduino": "_Z4loopv", "espidf": "app_main"}.get(framework, "main") in has
    assert f"next: pio run -d {tmp_path / 'made'}" in said.stdout


@pytest.mark.parametrize("framework", ON)
def test_its_settings_are_the_vendor_s_platform_board_and_framework(gen: Gen, tmp_path: Path, framework: str):
    board = _board(ON[framework], tmp_path)
    gen("firmware", "--board", board, "--framework", framework, "--out", tmp_path / "made")
    found = load_board(board if isinstance(board, Path) else BOARDS / f"{board}.json").spec.platformio
    config = ProjectConfig(str(tmp_path / "made/platformio.ini"))
    [env] = config.envs()
    settings = {name: config.get(f"env:{env}", name) for name in ("platform", "board", "framework")}

    assert config.validate(silent=True)
    assert found and settings == {"platform": found.platform, "board": found.board, "framework": [framework]}
    fpu = ["-mfpu=fpv4-sp-d16", "-mfloat-abi=softfp"] if framework == "stm32cube" else []
    assert " ".join(config.get(f"env:{env}", "build_flags")).split() == ["-O2", "-ffp-contract=off", *fpu]
    assert (config.get(f"env:{env}", "lib_ldf_mode") == "off") == (framework in ("espidf", "zephyr"))
    placeholders = [p for p in (tmp_path / "made").rglob("*") if p.is_file() and "@MODEL@" in p.read_text()]
    assert placeholders == []


def test_framework_none_is_our_firmware(gen: Gen, tmp_path: Path):
    for name, more in (("a", ()), ("b", ("--framework", "none"))):
        gen("firmware", "--board", "microbit", *more, "--out", tmp_path / name)
    one, other = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in ("a", "b")
    )

    assert one == other and Path("platform/platform.py") in one


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--board", "nucleo-f401re", "--framework", "espidf"),
            "PlatformIO's platform ststm32 has no espidf for nucleo-f401re; give --framework arduino or stm32cube or",
        ),
        (("--board", "rpi-pico2", "--framework", "arduino"), "rpi-pico2 has no platform of its own in PlatformIO"),
        (("--board", "rpi-pico", "--cores", 2, "--framework", "arduino"), "runs on one core; leave --cores out"),
        (
            ("--board", "stm32f4-discovery", "--sram", "sram=1500,ccm=60k", "--framework", "arduino"),
            "the linker script of a framework has no place for ccm; give one memory with --sram",
        ),
        (
            ("--board", "microbit", "--library-only", "--framework", "arduino"),
            "--library-only refreshes our own firmware",
        ),
    ],
)
def test_what_a_framework_cannot_do_is_one_line(gen: Gen, tmp_path: Path, arguments: tuple[object, ...], message: str):
    said = gen("firmware", *arguments, "--out", tmp_path / "never")

    assert said.exit_code in (1, 2) and message in said.stderr
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("each", boards(), ids=lambda b: b.id)
def test_a_vendor_s_framework_is_one_that_its_maker_has(each: Board):
    vendor = each.spec.platformio
    if vendor is None:
        return
    makers = {"ststm32": "stm32", "nordicnrf51": "nrf51", "nordicnrf52": "nrf52", "raspberrypi": "rp2"}
    makers |= {"teensy": "imxrt", "renesas-ra": "ra4", "espressif32": "esp32"}

    assert each.mcu.startswith(makers[vendor.platform])
    assert ("stm32cube" in vendor.frameworks) <= (vendor.platform == "ststm32")
    assert ("espidf" in vendor.frameworks) <= (vendor.platform == "espressif32")
