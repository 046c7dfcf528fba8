"""Code that some Cortex-A53, those of a Raspberry Pi 3 among them, may compute wrongly.

Arm's errata notice of the Cortex-A53 MPCore (EPM-048406) has both. 835769: a 64-bit multiply-accumulate right behind
a load or a store; compilers are asked to put an instruction between them, for boards (`MORE_FLAGS` of the platform's
toolchain.py) and for Linux (`fix_cortex_a53_835769` in linux/targets.py). 843419: the address of a load or a store
that an ADRP at the end of a page begins; a linker would have to change it, and `zig cc` passes no such option on, so
code for Linux where it may happen is moved, and a board's build says so.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

_PAGE = 0x1000
_LAST = (0xFF8, 0xFFC)  # places in a page
_BEHIND = 3  # instructions behind the ADRP of which one may use its result


def may_fail(elf: bytes) -> bool:
    """Whether erratum 843419 may happen in the code of a file."""
    file = ELFFile(io.BytesIO(elf))
    if file["e_machine"] != "EM_AARCH64":
        return False
    code = (s for s in file.iter_sections() if s["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)
    return any(_found(struct.unpack(f"<{s['sh_size'] // 4}I", s.data()), s["sh_addr"]) for s in code)


def _found(words: Sequence[int], address: int) -> bool:
    """Whether an ADRP is at the end of a page, and near behind it a load or store with an offset from its result.

    Encodings: Arm Architecture Reference Manual, C4.1 (ADRP; load/store register, unsigned immediate).
    """
    first = (_LAST[0] - address) % _PAGE // 4
    for at in (i for start in range(first, len(words), _PAGE // 4) for i in (start, start + 1) if i < len(words)):
        word = words[at]
        behind = words[at + 1 : at + 1 + _BEHIND]
        if word & 0x9F000000 == 0x90000000 and any(
            each & 0x3B000000 == 0x39000000 and each >> 5 & 31 == word & 31 for each in behind
        ):
            return True
    return False
