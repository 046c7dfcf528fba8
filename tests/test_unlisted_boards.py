"""Boards that are not in the list, of chips whose families share the start-up code of a listed board's family.

Each is a manifest of a user, as docs/boards.md says: what differs from the board of the nearest family.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Gen

from shoehorn_mcu.base.paths import BOARDS
from shoehorn_mcu.machine.targets import BoardError, load_board
from shoehorn_mcu_host.firmware.elf import functions, loaded
from shoehorn_mcu_host.firmware.flash import flash
from shoehorn_mcu_host.folder.project import Project

FLASH, RAM = 0x08000000, 0x20000000


def _memory(flash_at: int, flash_bytes: int, ram_bytes: int) -> Mapping[str, Any]:
    return {
        "memory": [
            {"name": "flash", "kind": "flash", "origin": flash_at, "bytes": flash_bytes},
            {"name": "ram", "kind": "ram", "origin": RAM, "bytes": ram_bytes},
        ],
        "flash_bytes": flash_bytes,
        "sram_bytes": ram_bytes,
    }


G474 = {
    "family": "stm32g4", "core_hz": 170_000_000, "tick_hz": 170_000_000, "cycles": None,
    **_memory(FLASH, 512 << 10, 96 << 10),
    "defines": {
        "SH_BOARD_FPU": 1, "SH_BOARD_IRQS": 102, "SH_BOARD_UART": "0x40004400", "SH_BOARD_UART_ENR": "0x58",
        "SH_BOARD_UART_ENR_BIT": 17, "SH_BOARD_UART_AF": 7, "SH_BOARD_UART_HZ": 170_000_000,
        "SH_BOARD_UART_GPIO": "0x48000000", "SH_BOARD_UART_GPIO_INDEX": 0,
        "SH_BOARD_UART_TX_PIN": 2, "SH_BOARD_UART_RX_PIN": 3,
    },
    "pyocd_target": "stm32g474retx",
}  # fmt: skip
NRF5340 = {
    "family": "nrf53", "cpu": "cortex-m33", "core_hz": 128_000_000,
    **_memory(0, 1 << 20, 512 << 10),
    "defines": {"SH_BOARD_FPU": 1, "SH_BOARD_IRQS": 70, "SH_BOARD_UART_TX_PIN": 20, "SH_BOARD_UART_RX_PIN": 22},
    "pyocd_target": "nrf5340_app",
}  # fmt: skip
GD32V = {
    "family": "gd32vf103", "core_hz": 96_000_000, "tick_hz": 96_000_000,
    **_memory(FLASH, 128 << 10, 32 << 10),
    "stack_bytes": 4096, "firmware_ram_bytes": 4096,
    "defines": {"SH_BOARD_UART": "0x40013800", "SH_BOARD_UART_HZ": 96_000_000},
    "emulator": {"program": "unicorn"}, "flash_tool": "dfu", "image": "firmware.bin",
}  # fmt: skip
MINE = {
    "g474": ("nucleo-l4r5zi", "stm32g474re", G474),
    "nrf5340": ("nrf52840dk", "nrf5340", NRF5340),
    "gd32v": ("hifive1", "gd32vf103cbt6", GD32V),
}


def _written(name: str, folder: Path, **changes: object) -> Path:
    nearest, mcu, differs = MINE[name]
    manifest = json.loads((BOARDS / f"{nearest}.json").read_text())
    of_its_own = {"mark": None, "run_current": None, "verified": ["build"]}
    block = {**manifest["shoehorn"], **of_its_own, **differs, **changes}
    manifest["shoehorn"] = {key: value for key, value in block.items() if value is not None}
    manifest["build"] = {"mcu": mcu, "f_cpu": f"{block['core_hz']}L"}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(manifest))
    return path


def _firmware(gen: Gen, name: str, folder: Path) -> Path:
    pytest.importorskip("unicorn", reason="needs the emulator unicorn (shoehorn-mcu[boards])")
    made = gen("firmware", "--board", _written(name, folder), "--out", folder / "digits")
    assert made.exit_code == 0, made.output
    checked = gen("validate", folder / "digits", "--emulate", "--count", "2")
    assert checked.exit_code == 0, checked.output
    assert f"digits on {name}: 2 vectors" in checked.output
    assert "every byte of every op equal to the reference" in checked.output
    return folder / "digits"


def test_the_shipped_model_runs_where_a_uart_moves_bytes_to_memory(gen: Gen, tmp_path: Path):
    _firmware(gen, "nrf5340", tmp_path)


def test_a_g474_runs_it_and_its_start_keeps_what_the_chip_needs(gen: Gen, tmp_path: Path):
    """The debugger's access (RM0440, FLASH_ACR bit 18), and a clock that exists: SW of RCC_CFGR is never 0."""
    elf = Project.open(_firmware(gen, "g474", tmp_path)).elf
    import unicorn
    from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_SP, UC_CPU_ARM_CORTEX_M4

    acr, cr, cfgr, pllcfgr, stop = 0x40022000, 0x40021000, 0x40021008, 0x4002100C, FLASH + 0x7F000
    core = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    core.ctl_set_cpu_model(UC_CPU_ARM_CORTEX_M4)
    for first, size in ((FLASH, 512 << 10), (RAM, 96 << 10), (0x40000000, 1 << 18), (0x48000000, 1 << 14)):
        core.mem_map(first, size)
    core.mem_map(0xE0000000, 1 << 20)
    for address, data in loaded(elf)[1]:
        core.mem_write(address, data)
    for register, value in ((acr, 0x40600), (cr, 1 << 25 | 0x500), (cfgr, 0x5)):  # as after a reset; the PLL locks
        core.mem_write(register, value.to_bytes(4, "little"))
    clocks: list[int] = []
    core.hook_add(
        unicorn.UC_HOOK_MEM_WRITE, lambda _, __, ___, ____, value, _____: clocks.append(value), begin=cfgr, end=cfgr
    )
    core.reg_write(UC_ARM_REG_SP, RAM + 0x1000)
    core.reg_write(UC_ARM_REG_LR, stop | 1)
    core.emu_start(functions(elf, ["sh_board_init"])[0] | 1, stop, count=100_000)
    got = {register: int.from_bytes(core.mem_read(register, 4), "little") for register in (acr, cfgr, pllcfgr)}

    assert got[acr] == 0x40704
    assert clocks and all(value & 3 for value in clocks) and got[cfgr] & 0xF3 == 3
    assert got[pllcfgr] == 1 << 24 | 85 << 8 | 3 << 4 | 2


def test_a_gd32v_runs_it_and_may_begin_at_another_address_than_it_is_linked_for(gen: Gen, tmp_path: Path):
    """It begins at 0, where its flash is, too, and the exceptions of its core need an address of 64 bytes."""
    elf = Project.open(_firmware(gen, "gd32v", tmp_path)).elf
    import unicorn
    from unicorn.riscv_const import UC_RISCV_REG_PC, UC_RISCV_REG_SP

    core = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
    entry, parts = loaded(elf)
    for origin in (0, FLASH):
        core.mem_map(origin, 128 << 10)
        for address, data in parts:
            if FLASH <= address < RAM:
                core.mem_write(address - FLASH + origin, data)
    core.emu_start(entry - FLASH, 0xFFFFFFFE, count=10)

    assert FLASH <= core.reg_read(UC_RISCV_REG_PC) < FLASH + (128 << 10)
    assert RAM < core.reg_read(UC_RISCV_REG_SP) <= RAM + (32 << 10)
    assert functions(elf, ["sh_fault_entry"])[0] % 64 == 0
    [_, loader] = flash(Project.open(tmp_path / "digits"), None, None, dry_run=True)
    assert loader.startswith("dfu-util -a 0 -s 0x08000000:leave -D ") and loader.endswith("/firmware.bin")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("g474", {"family": "stm32l4"}, "for stm32g474re; write stm32g4, which has start-up code for stm32g474re"),
        ("nrf5340", {"family": "nrf9"}, "unknown family 'nrf9'; write nrf53, which has start-up code for nrf5340"),
        ("gd32v", {"flash_tool": "emulator", "image": ""}, "needs QEMU, not unicorn; name the tool that writes to"),
        ("gd32v", {"flash_tool": "drive"}, "flash_tool drive needs an image that ends in .hex or .uf2"),
        ("gd32v", {"image": "firmware.hex"}, "flash_tool dfu needs an image that ends in .bin"),
    ],
)
def test_a_wrong_choice_is_told_with_the_right_one(tmp_path: Path, name: str, changes: dict[str, str], message: str):
    with pytest.raises(BoardError, match=message.replace(".", r"\.")):
        load_board(_written(name, tmp_path, **changes))


def test_a_chip_of_no_family_is_told_where_to_read(tmp_path: Path):
    path = _written("g474", tmp_path)
    path.write_text(path.read_text().replace("stm32g474re", "stm32u575zi"))

    with pytest.raises(BoardError, match=r"it is for stm32g431, .*; docs/boards.md says what to do with a chip of no"):
        load_board(path)
