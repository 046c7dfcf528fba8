"""The deepest stack a firmware can reach, from the frames that the compiler reports and the calls in its objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from shoehorn_mcu_host.firmware.objects import Code, Function, read

# Helpers of the compiler's runtime (64-bit division, soft float) have no frame size; all use less than this.
HELPER_BYTES = 256
# Pushed by a Cortex-M on an interrupt: 8 words, with an FPU 26, plus a word of alignment.
EXCEPTION_BYTES = {False: 36, True: 108}
_INTERRUPT = "sh_isr_"


@dataclass(frozen=True)
class StackBound:
    """`notes` are sentences that say where `bytes` is not a strict bound."""

    bytes: int
    notes: tuple[str, ...]


@dataclass
class _Walk:
    """Depth first, each function once."""

    code: Code
    depth: dict[str, int] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    recursions: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def below(self, name: str) -> int:
        """Bytes of `name` and of the deepest chain that it calls."""
        if name in self.open:
            self.recursions.add(" -> ".join([*self.open[self.open.index(name) :], name]))
            return 0
        if name not in self.depth:
            function = self.code.functions.get(name)
            if function is None or function.frame is None:
                self.unknown.add(name)
            self.depth[name] = self._deepest(name, function)
        return self.depth[name]

    def _deepest(self, name: str, function: Function | None) -> int:
        if function is None:
            return HELPER_BYTES
        targets = function.calls | (self.code.taken if function.calls_pointer else set())
        self.open.append(name)
        deepest = max((self.below(t) for t in sorted(targets)), default=0)
        self.open.pop()
        return deepest + (function.frame if function.frame is not None else HELPER_BYTES)


def bound(objects: list[Path], entry: str, native: bool, fpu: bool) -> StackBound:
    """The bound from `entry` down, plus the deepest interrupt (they do not nest).

    A call through a pointer is assumed to reach every function whose address is taken anywhere.
    """
    code = read(objects)
    code.taken = {name for name in code.taken if not name.startswith(_INTERRUPT)}
    walk = _Walk(code)
    start = entry if entry in code.functions else "main"
    total = walk.below(start)
    interrupts = [f.name for f in code.functions.values() if f.name.startswith(_INTERRUPT) and not f.weak]
    if interrupts:
        total += max(walk.below(name) for name in interrupts) + EXCEPTION_BYTES[fpu]
    return StackBound(total, tuple(_notes(walk, native)))


def _notes(walk: _Walk, native: bool) -> list[str]:
    notes = [f"recursion, counted once: {chain}" for chain in sorted(walk.recursions)]
    if walk.unknown:
        names = ", ".join(sorted(walk.unknown))
        notes.append(f"no frame size for {names}: {HELPER_BYTES} bytes assumed for each")
    pointers = sorted(f.name for f in walk.code.functions.values() if f.calls_pointer and f.name in walk.depth)
    if pointers:
        reached = ", ".join(sorted(walk.code.taken)) or "none"
        notes.append(f"calls through pointers in {', '.join(pointers)}, assumed to reach any of: {reached}")
    if native:
        notes.append("calls through pointers and into the host's libraries are not followed on this machine")
    return notes
