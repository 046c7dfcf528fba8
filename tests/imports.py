"""The modules of our packages and what each imports, read from the sources once; for the tests of the structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"shoehorn_mcu": ROOT / "generator", "shoehorn_mcu_host": ROOT / "host_tools"}
"""Each package's name, and the folder that it lies in."""


@dataclass(frozen=True)
class Module:
    """One source file, parsed: `imports` names every module that it imports, functions included, ours by full name."""

    name: str
    path: Path
    tree: ast.Module
    imports: frozenset[str]

    @property
    def place(self) -> str:
        """Its path in the repository."""
        return self.path.relative_to(ROOT).as_posix()


def parsed(name: str, path: Path, known: frozenset[str]) -> Module:
    """The module `name` of the file; of `from a import b`, a.b is imported where that is a module, and a where not."""
    tree = ast.parse(path.read_text())
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return Module(name, path, tree, frozenset(_imports(tree, package.split("."), known)))


def _imports(tree: ast.Module, package: Sequence[str], known: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            name = ".".join(filter(None, (base, node.module)))
            yield from (full if (full := f"{name}.{each.name}") in known else name for each in node.names)


@cache
def modules() -> Mapping[str, Module]:
    """All modules of both packages by name."""
    files = {}
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    known = frozenset(files)
    return {name: parsed(name, path, known) for name, path in files.items()}


def ours(module: Module) -> frozenset[str]:
    """The modules of our packages that it imports."""
    return frozenset(name for name in module.imports if name in modules() and name != module.name)
