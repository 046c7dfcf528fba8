"""The ops of PyTorch that a foreign file may name: an op that is not in `ops.toml` is refused, whatever it does.

These are the ops of which PyTorch's exporters make ONNX, and those that they take apart first: ATen's that compute
tensors, numbers, lists and texts from others. None of them touches a file, a process, a device, or the state of PyTorch
itself. `tests/test_torch_ops.py` compares them with what the exporters of the installed PyTorch know.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

KNOWN = {
    namespace: frozenset(names.split())
    for namespace, names in tomllib.loads(Path(__file__).with_name("ops.toml").read_text()).items()
}
"""By namespace."""


def is_known(namespace: str, name: str) -> bool:
    """Whether a file may have this op."""
    names = KNOWN.get(namespace, frozenset())
    return name in names or (namespace == "aten" and name.removesuffix("_") in names)
