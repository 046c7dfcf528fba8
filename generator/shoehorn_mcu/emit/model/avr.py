"""What stops the compiler of AVR in words: a model that its addresses, or its RAM, cannot hold."""

from __future__ import annotations

from shoehorn_mcu.emit.model.weights import Constants
from shoehorn_mcu.emit.unit import Unit

_ARRAY, _BYTES = 32767, 65535  # the largest object, and all that 16 bits address
_IN_RAM = "defined(__AVR__) && (!defined(__AVR_RODATA_IN_RAM__) || __AVR_RODATA_IN_RAM__)"


def refusals(unit: Unit, found: Constants) -> list[str]:
    """Lines for a C file with the constants.

    Kernels read constants as they read rows, by pointers to data. PROGMEM wants other instructions, so on an AVR whose
    flash is not in its data space, the start-up code copies constants to RAM.
    """
    largest = max((data.nbytes for data in found.arrays.values()), default=0)
    arena = max(unit.plan.arenas.values(), default=0)
    words = f"{unit.name} needs {found.bytes} bytes of constants and {arena} of arena"
    if largest > _ARRAY or arena > _ARRAY or found.bytes + arena > _BYTES:
        return [f'#ifdef __AVR__\n#error "{words}, more than the 16-bit addresses of AVR reach"\n#endif']
    cause = "its kernels read constants as data, so they are in RAM and not in PROGMEM"
    return [
        "\n".join(
            (
                f"#if {_IN_RAM}",
                "#include <avr/io.h>",
                f"#if {found.bytes} + {arena} > RAMEND - RAMSTART + 1",
                f'#error "{words}, more than the RAM of this AVR: {cause}"',
                "#endif",
                "#endif",
            )
        )
    ]
