"""What can be seen in a model's file whose import ends with one fault: its inputs, outputs and ops, unconverted.

Nothing here decides whether an op can run. Each function raises ImportFault, or another error of the library that
reads the format, where the file cannot be read at all; `seen_in` answers None then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoehorn_mcu.importers.content import content
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.source import Source, SourceOp, SourceTensor
from shoehorn_mcu.importers.tflite.file import read
from shoehorn_mcu.importers.tflite.importer import source_of
from shoehorn_mcu_host.base.errors import printable

_MOST_OPS = 100_000
_CALL = re.compile(r"\b(?:torch|ops\.\w+)\.(\w+)\(")
_FORWARD = re.compile(r"def forward\(self: [^,)]+,?([^)]*)\) ->")


def seen_in(path: Path) -> Source | None:
    """What is in the file; None where it cannot be read."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        return None
    try:
        found = reader(path)
    except Exception:  # libraries have no common class for what they find in a damaged file
        return None
    return found if found.ops else None


def _onnx(path: Path) -> Source:
    """The nodes of the main graph; dimensions that the file leaves open have their names."""
    from shoehorn_mcu.importers.onnx import apart

    return apart.seen(path)


def _torch(path: Path) -> Source:
    """The calls of a program of torch.export, or of TorchScript's text, by PyTorch's names of the ops."""
    from shoehorn_mcu.importers.torch import archive as torch_archive

    archive = torch_archive.read(path)
    if archive.kind is torch_archive.Kind.PROGRAM:
        return _program(json.loads(archive.members["models/model.json"])["graph_module"])
    texts = [data.decode() for name, data in sorted(archive.members.items()) if name.endswith(".py")]
    codes = [found[1] for text in texts for found in _CALL.finditer(text)][:_MOST_OPS]
    forward = next((found[1] for text in texts if (found := _FORWARD.search(text))), "")
    names = [part.partition(":")[0].strip() for part in forward.split(",") if part.strip()]
    ops = tuple(SourceOp(index, code, (), (), 0) for index, code in enumerate(codes))
    return Source(tuple(SourceTensor(name, None, "") for name in names), (), ops)


def _program(module: Mapping[str, Any]) -> Source:
    graph = module["graph"]
    shapes = {name: _torch_tensor(name, meta) for name, meta in graph["tensor_values"].items()}
    specs = module["signature"]["input_specs"]
    given = [spec["user_input"]["arg"]["as_tensor"]["name"] for spec in specs if "user_input" in spec]
    held = {each["as_tensor"]["name"] for each in graph["inputs"] if "as_tensor" in each} - set(given)
    ops = []
    for index, node in enumerate(graph["nodes"][:_MOST_OPS]):
        reads = [name for each in node["inputs"] for name in _names(each["arg"]) if name not in held]
        writes = [shapes[name] for each in node["outputs"] for name in _names(each)]
        code = printable(str(node["target"])).removeprefix("torch.ops.").removesuffix(".default")
        ops.append(SourceOp(index, code, tuple(map(printable, reads)), tuple(writes), 0))
    results = tuple(printable(name) for each in graph["outputs"] for name in _names(each))
    return Source(tuple(shapes[name] for name in given), results, tuple(ops))


def _names(argument: Mapping[str, Any]) -> Sequence[str]:
    """The tensors of an argument."""
    if "as_tensor" in argument:
        return (argument["as_tensor"]["name"],)
    return [each["name"] for each in argument.get("as_tensors", ())]


def _torch_tensor(name: str, meta: Mapping[str, Any]) -> SourceTensor:
    sizes = [each.get("as_int", "?") for each in meta["sizes"]]
    return SourceTensor(printable(name), tuple(sizes), _TORCH_TYPES.get(meta["dtype"], ""))


_TORCH_TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
                12: "bool", 13: "bfloat16"}  # fmt: skip
"""By the number that torch.export's schema has for an element type."""

_READERS: Mapping[str, Callable[[Path], Source]] = {
    ".tflite": lambda path: source_of(read(content(path))),
    ".onnx": _onnx,
    **dict.fromkeys((".pt2", ".pt", ".pth", ".ts"), _torch),
}

_PLACE = re.compile(r"\bop \d+ .*?writing '([^']*)'")


def at_fault(found: Source, fault: ImportFault) -> Source:
    """The source, with the fault at the op whose result it names."""
    place = _PLACE.search(str(fault))
    if place is None:
        return found
    reason = str(fault)[place.end() :].partition(": ")[2]
    ops = tuple(
        replace(op, refusal=reason) if not op.part and any(tensor.name == place[1] for tensor in op.writes) else op
        for op in found.ops
    )
    return replace(found, ops=ops)
