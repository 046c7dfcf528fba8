"""The C files of a library that have its kernels: a header of all, and a file for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.kernels.amalgam import Amalgam, Definition, Kernel, contract_items, is_prototype, shown
from shoehorn_mcu.emit.kernels.c_items import Item
from shoehorn_mcu.kernels import Contract, Instance


def header_name(prefix: str) -> str:
    """The header of a library's kernels."""
    return f"{prefix}_kernels.h"


def kernels_h(
    prefix: str,
    symbols: Mapping[str, Contract],
    systems: Iterable[str] = ("<stddef.h>", "<stdint.h>"),
    more: str = "",
) -> str:
    """The header of kernels: the structs of their parameters, what several of them use, and their functions."""
    listed = sorted({contract.name: contract for contract in symbols.values()}.items())
    lines = [*(f"#include {name}" for name in sorted(systems)), ""]
    for contract, title, items in contract_items(contract for _, contract in listed):
        lines += [c.comment(f"{contract.name}"), "//", title, "", shown(items), ""]
    lines += [f"{symbols[name].struct}_fn {name};" for name in sorted(symbols)]
    remarks = (
        c.comment(f"The kernels of {prefix}: parameters, functions and what several kernels use."),
        "// Files that comments here and in the kernels' files name are Shoehorn's.",
    )
    return c.header(f"SHOEHORN_{prefix.upper()}_KERNELS_H", remarks, [*lines, *(["", more] if more else [])])


def kernel_files(prefix: str, users: Mapping[Instance, str]) -> Bundle:
    """The header and a file for each kernel, with the comment on who uses it."""
    amalgam = Amalgam.of(users, prefix)
    common = amalgam.common
    own = {item for contract, _, items in contract_items(k.contract for k in users) for item in items}
    told = [d for d in common if not own & {*d.items}]
    symbols = {kernel.symbol: kernel.instance.contract for kernel in amalgam.kernels}
    more = "\n\n".join(
        (*_conditional_headers(amalgam, told), *([shown(i for d in told for i in d.items)] if told else []))
    )
    systems = {"<stddef.h>", "<stdint.h>", *(name for kernel in amalgam.kernels for name in kernel.systems)}
    header = kernels_h(prefix, symbols, systems, more)
    files = {header_name(prefix): header}
    for kernel in amalgam.kernels:
        files[f"{kernel.symbol}.c"] = _kernel_c(prefix, kernel, users[kernel.instance], {d.key for d in common}, own)
    return {f"src/{path}": text.encode() for path, text in files.items()}


def _conditional_headers(amalgam: Amalgam, told: Sequence[Definition]) -> Iterable[str]:
    """The headers that only some compilers have, of kernels whose definitions are `told` in the header of all."""
    keys = {each.key for each in told}
    users = (k for k in amalgam.kernels if keys & {each.key for each in k.definitions.values()})
    return dict.fromkeys(head for kernel in users for head in kernel.heads if "#include" in head)


def _kernel_c(prefix: str, kernel: Kernel, users: str, common: set[str], contracts: set[Item]) -> str:
    """The file of a kernel."""
    left = [d for d in dict.fromkeys(kernel.definitions.values()) if d.key not in common]
    items = [
        i for d in left for i in d.items if i not in contracts and not (is_prototype(i) and kernel.symbol in i.names)
    ]
    title = kernel.title(kernel.instance.variant.source)
    remark = c.comment(f"{kernel.instance.name} for {users}. Generated; do not edit.")
    parts = [
        "\n".join((remark, *(f"// {line}" for line in kernel.instance.tile.legend), f"// {c.SPDX}")),
        *([title] if title else []),
        *kernel.heads,
        f'#include "{header_name(prefix)}"',
        shown(items),
    ]
    return "\n\n".join(parts) + "\n"
