"""The C of a library's kernels without runtime_c: what each kernel uses of it, each definition once.

A definition is known by its text and by those of all that it uses. Several kernels with the same one share it; where
kernels have different ones of a name, each is named after its kernel. What no kernel uses is left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.kernels.c_items import Item, Reader, grouped, items_of, renamed, shown_alone
from shoehorn_mcu.kernels import Contract, Instance
from shoehorn_mcu.machine.targets import Isa

_KNOWN: Mapping[Isa, Mapping[str, str | None]] = {
    Isa.MVE: {"__ARM_FEATURE_MVE": "1", "__aarch64__": None},
    Isa.NEON: {"__ARM_NEON": "1", "__ARM_FEATURE_MVE": None},
    Isa.VECTORS: {"__ARM_NEON": "1", "__ARM_FEATURE_MVE": None},
    Isa.DOT: {"__ARM_NEON": "1", "__ARM_FEATURE_DOTPROD": "1", "__ARM_FEATURE_MVE": None},
    Isa.MATRIX: {
        "__ARM_NEON": "1",
        "__ARM_FEATURE_DOTPROD": "1",
        "__ARM_FEATURE_MATMUL_INT8": "1",
        "__ARM_FEATURE_MVE": None,
    },
}
"""What every compiler defines, or does not, for the cores of a kernel."""
_NAMED = "SH_NAME"
_OURS = ("sh_", "memcpy", "memset")
"""What the names begin with that files have in common."""
_SHARED = re.compile(r"SH_SHARED\((\w+)\)")


def known(kernels: Iterable[Instance]) -> Mapping[str, str | None]:
    """The macros of a compiler that can compile these kernels; None: it does not define the name."""
    return {name: value for k in kernels for name, value in _KNOWN.get(k.variant.isa, {}).items()}


def text_of(path: str) -> str:
    """A file of runtime_c."""
    return (RUNTIME_C / path).read_text()


@dataclass(frozen=True, eq=False)
class Definition:
    """Items of a name, or of several that one item defines, in order, and what they use."""

    names: tuple[str, ...]
    items: tuple[Item, ...]
    key: str

    @property
    def file(self) -> str:
        """Where it is from, below runtime_c."""
        return self.items[0].file

    @property
    def is_for_headers(self) -> bool:
        """Whether a file that does not use it may have it: no function but an inline one, and of a name of ours."""
        text = "".join(item.text for item in self.items)
        apart = re.search(r"\bSH_(APART|MERGED)\b|^static (?!inline)", text, re.MULTILINE)
        hint = all(item.text.startswith("#") for item in self.items)
        return all(name.lower().startswith(_OURS) for name in self.names) and (hint or not apart)


class _Code:
    """What a kernel's file sees of runtime_c: the definitions that it uses, its own function the last."""

    def __init__(self, text: str, symbol: str, prefix: str, compiler: Mapping[str, str | None], alone: bool) -> None:
        self.reader, self._symbol = items_of(text, text_of, compiler), symbol
        aliases = {_NAMED: symbol, **({"SH_MERGED": "SH_APART"} if alone else {})}
        self._items = list(_without_aliases(self.reader, prefix, aliases))

    @cached_property
    def definitions(self) -> Mapping[str, Definition]:
        """By name all that the kernel's function uses, in order."""
        groups = _groups(self._items)
        by_name = {name: group for group in groups for name in group[0]}
        made: dict[str, Definition] = {}

        def define(name: str, open_: frozenset[str]) -> Definition:
            names, items = by_name[name]
            if name not in made:
                used = sorted({w for item in items for w in item.words if w in by_name} - {*names} - open_)
                keys = [define(each, open_ | {*names}).key for each in used]
                content = "\0".join((*(item.text for item in items), *keys))
                found = Definition(names, items, hashlib.sha256(content.encode()).hexdigest())
                made.update(dict.fromkeys(names, found))
            return made[name]

        define(self._symbol, frozenset())
        return {name: made[name] for names, _ in groups for name in names if name in made}


@lru_cache(maxsize=256)
def _code(text: str, symbol: str, prefix: str, compiler: tuple[tuple[str, str | None], ...], alone: bool) -> _Code:
    """Models have many kernels in common."""
    return _Code(text, symbol, prefix, dict(compiler), alone)


class Kernel:
    """A kernel of a library; `alone`: all of the library is in one file."""

    def __init__(
        self, number: int, instance: Instance, prefix: str, compiler: Mapping[str, str | None], alone: bool = False
    ) -> None:
        self.number, self.instance, self.symbol = number, instance, instance.symbol(prefix)
        self._code = _code(instance.text(prefix, ""), self.symbol, prefix, tuple(compiler.items()), alone)
        # Lines that stand before all code: pragmas, and headers that only some compilers have.
        self.heads: Sequence[str] = self._code.reader.heads
        self.systems: Collection[str] = self._code.reader.systems.keys()  # headers of the compiler

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """By name all that the kernel's function uses, in order."""
        return self._code.definitions

    def title(self, file: str) -> str:
        """What a file says of itself."""
        return self._code.reader.titles.get(file, "")


def _without_aliases(reader: Reader, prefix: str, aliases: dict[str, str]) -> Iterator[Item]:
    """The items with other names in place of macros: `aliases`, and those of functions that kernels have in common."""
    for name, body in reader.macros.items():
        if part := _SHARED.fullmatch(body):
            aliases[name] = f"{prefix}_part_{part[1]}"
    dropped = {*aliases, "SH_SHARED"}
    for item in reader.items:
        macro = item.text.startswith("#define") or (item.text.startswith("#if") and len(item.names) == 1)
        if not (macro and dropped & {*item.names} and "{" not in item.text):
            yield replace(item, text=renamed(item.text, aliases)) if aliases.keys() & item.words else item


def _groups(items: Sequence[Item]) -> list[tuple[tuple[str, ...], tuple[Item, ...]]]:
    """The items by the names that they define together, in the order of the last one of each."""
    return [(tuple(n), tuple(item for item in items if {*n} & {*item.names})) for n in grouped([items])]


def contract_items(contracts: Iterable[Contract]) -> Iterator[tuple[Contract, str, list[Item]]]:
    """Each contract's header: what it says of itself, and its definitions."""
    for contract in contracts:
        title, items = _header_items(contract.header)
        yield contract, title, items


@lru_cache(maxsize=256)
def _header_items(path: str) -> tuple[str, list[Item]]:
    reader = items_of(f'#include "{path}"\n', text_of, {})
    return reader.titles.get(path, ""), reader.items


def is_prototype(item: Item) -> bool:
    """Whether an item declares a function that another one defines."""
    return item.text.endswith(";") and not re.match(r"#|typedef|enum|struct|union|extern|void \*mem", item.text)


def shown(items: Iterable[Item]) -> str:
    """The text of items: an empty line between two, but for macros of a line without a comment."""
    text, before = "", ""
    for item in items:
        own = shown_alone(item)
        close = before.startswith("#define") and own.startswith("#define") and "\n" not in before + own
        text += ("" if not text else "\n" if close else "\n\n") + own
        before = own
    return text


@dataclass(frozen=True, eq=False)
class Amalgam:
    """The kernels of a library, what they share, and how definitions are named in a file that has all of them."""

    kernels: Sequence[Kernel]
    prefix: str

    @classmethod
    def of(cls, instances: Iterable[Instance], prefix: str, alone: bool = False) -> Amalgam:
        """The kernels of the library of a prefix, in order; `alone`: all are in one file."""
        listed = list(instances)
        compiler = known(listed)
        return cls([Kernel(number, each, prefix, compiler, alone) for number, each in enumerate(listed, 1)], prefix)

    @cached_property
    def users(self) -> Mapping[str, Sequence[Kernel]]:
        """By key of a definition the kernels that use it."""
        keys = ((dict.fromkeys(d.key for d in kernel.definitions.values()), kernel) for kernel in self.kernels)
        return by_key((key, kernel) for own, kernel in keys for key in own)

    @cached_property
    def keys(self) -> Mapping[str, Collection[str]]:
        """By name the keys of all that has it."""
        found: dict[str, dict[str, None]] = {}
        for kernel in self.kernels:
            for name, definition in kernel.definitions.items():
                found.setdefault(name, {})[definition.key] = None
        return {name: keys.keys() for name, keys in found.items()}

    @cached_property
    def common(self) -> Sequence[Definition]:
        """What a header may have for several kernels: there is no other definition of its names, or of what it uses."""
        found: dict[str, Definition] = {}
        for kernel in self.kernels:
            for definition in dict.fromkeys(kernel.definitions.values()):
                own = all(len(self.keys[name]) == 1 for name in definition.names)
                used = (kernel.definitions[w] for i in definition.items for w in i.words if w in kernel.definitions)
                below = all(each is definition or each.key in found for each in used)
                if own and below and definition.is_for_headers and len(self.users[definition.key]) > 1:
                    found.setdefault(definition.key, definition)
        return tuple(found.values())

    def names(self, kernel: Kernel, taken: Collection[str]) -> Mapping[str, str]:
        """By name of a definition of a kernel that has another name where all kernels are in one file: that name.

        Names that are a kernel's own, and those that kernels define differently, end in the number of the first kernel
        that uses the definition. `taken` are names that others have there.
        """
        found: dict[str, str] = {}
        for definition in dict.fromkeys(kernel.definitions.values()):
            first = self.users[definition.key][0].number
            several = any(len(self.keys[name]) > 1 or name in taken for name in definition.names)
            for name in definition.names:
                if several or not name.lower().startswith((*_OURS, f"{self.prefix}_")):
                    found[name] = f"{name}_{first}"
        return found
