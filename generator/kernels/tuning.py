"""Measured choices of kernels: a file that says, by contract and facts, which instance to use.

A JSON object of `{"<key of the op>": "<instance>"}`, spelt as Contract.key and Instance.name give them. One file may
serve several models: entries for ops that a model does not have are ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shoehorn_mcu.errors import ShoehornError
from shoehorn_mcu.kernels.catalogue import CATALOGUE, ORACLE


class TuningError(ShoehornError):
    """A tuning file that cannot be read, or that names a contract or kernel not in the catalogue."""

    kind = "bad-tuning"


@dataclass(frozen=True)
class Tuning:
    """The entries of a file, and the first 16 hexadecimal digits of its SHA-256; both empty without a file."""

    kernels: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""


def load(path: Path) -> Tuning:
    """The tuning in a file. Raises TuningError, which names the wrong entry."""
    try:
        content = path.read_bytes()
        found = json.loads(content)
    except OSError as error:
        raise TuningError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TuningError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise TuningError(f"{path}: holds no object; write {{op: kernel}}")
    for key, name in found.items():
        _check(path, key, name)
    return Tuning(found, hashlib.sha256(content).hexdigest()[:16])


def _check(path: Path, key: str, name: object) -> None:
    """Raises TuningError unless the contract exists and the kernel can be an instance of one of its variants."""
    contract = key.partition(" ")[0]
    if contract not in ORACLE:
        raise TuningError(f"{path}: '{key}': no contract '{contract}'; known: {', '.join(ORACLE)}")
    variants = [v for v in CATALOGUE if v.contract.name == contract]
    stems = ["_".join(filter(None, (contract, v.suffix, t.name))) for v in variants for t in v.tiles]
    if not isinstance(name, str) or not any(name == stem or name.startswith(f"{stem}_") for stem in stems):
        raise TuningError(f"{path}: '{key}': no kernel {name!r}; known: {', '.join(stems)}")
