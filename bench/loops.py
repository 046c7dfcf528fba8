"""Inner loops of a firmware's kernels for Armv6 SIMD: instructions and llvm-mca's cycles per multiply-accumulate.

    python -m bench.loops ELF [CPU]

ELF is .pio/build/BOARD/firmware.elf of a written folder, CPU one of cortex-m4 (the default), cortex-m33 and cortex-m7:
LLVM 14 has no timing of Cortex-M0, ARM1176 and of Helium. A loop is a backward branch with no other branch between its
ends, and with multiply-accumulates. The branch itself is left out of the cycles: llvm-mca does not know whether it is
taken. Debian's package `llvm` has both programs that are called.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MACS = {"smlad": 2, "smladx": 2, "smlabb": 1, "smlabt": 1, "smlatb": 1, "smlatt": 1, "mla": 1}
BRANCH = re.compile(r"(b(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|l|x|lx)?|cbn?z|tb[bh])(\.[nw])?")
ITERATIONS = 1000


class Insn(NamedTuple):
    """One line of a disassembly."""

    function: str
    address: int
    name: str
    operands: str

    @property
    def macs(self) -> int:
        return MACS.get(self.name.partition(".")[0], 0)


def disassembled(elf: str, cpu: str) -> Iterator[Insn]:
    command = ["llvm-objdump", "-d", f"--mcpu={cpu}", "--no-show-raw-insn", elf]
    function = ""
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:", line):
            function = head[1]
        elif found := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*([^@<]*)", line):
            yield Insn(function, int(found[1], 16), found[2], found[3].strip())


def loops(insns: list[Insn]) -> Iterator[list[Insn]]:
    """Each loop, its branch last."""
    at = {insn.address: i for i, insn in enumerate(insns)}
    for end, insn in enumerate(insns):
        target = re.search(r"0x([0-9a-f]+)$", insn.operands)
        if not BRANCH.fullmatch(insn.name) or insn.name.startswith(("bl", "bx")) or target is None:
            continue
        begin = at.get(int(target[1], 16), end)
        body = insns[begin:end]
        if any(each.macs for each in body) and not any(BRANCH.fullmatch(each.name) for each in body):
            yield insns[begin : end + 1]


def cycles(body: list[Insn], cpu: str) -> float:
    """Of one iteration, by llvm-mca."""
    text = "\n".join(f"{insn.name} {insn.operands}" for insn in body)
    command = ["llvm-mca", "-mtriple=thumbv7em-none-eabihf", f"-mcpu={cpu}", f"-iterations={ITERATIONS}"]
    said = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Total Cycles:\s+(\d+)", said)
    assert found is not None, said
    return int(found[1]) / ITERATIONS


class Loop(NamedTuple):
    """One inner loop; `cycles` are llvm-mca's of a turn without its branch."""

    kernel: str
    instructions: int
    macs: int
    cycles: float


def measured(elf: str, cpu: str, prefix: str = "") -> list[Loop]:
    """The loops of a firmware; `prefix`, the library's, is left out of the names of its functions."""
    found = []
    for loop in loops(list(disassembled(elf, cpu))):
        macs = sum(insn.macs for insn in loop)
        found.append(Loop(loop[0].function.removeprefix(prefix), len(loop), macs, cycles(loop[:-1], cpu)))
    return found


def table(found: Iterable[Loop]) -> Iterator[str]:
    """Markdown, a row per loop; of those with equal rows one."""
    yield "| kernel | instructions of a turn | multiply-accumulates | instructions per each | cycles, llvm-mca |"
    yield "|---|---:|---:|---:|---:|"
    rows = (
        f"| `{loop.kernel}` | {loop.instructions} | {loop.macs} | {loop.instructions / loop.macs:.3f} "
        f"| {loop.cycles / loop.macs:.3f} |"
        for loop in found
    )
    yield from dict.fromkeys(rows)


def main(elf: str, cpu: str = "cortex-m4") -> None:
    print(*table(measured(elf, cpu)), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
