"""Damaged model and sound files: each must be read or refused in one line, in bounded time and memory.

    python -m bench.mutants [--count 10000] [--seed 0] [--kinds onnx tflite wav pt2 pt] [--keep DIR]

The seeds are the small models of ONNX's own tests (the light ones are large), the small ones beside the checkout, and
sounds of all formats; for .pt2 and .pt (TorchScript), which need torch, those of tests/torch_models.py. Bytes are
changed, cut out, doubled and exchanged; in .onnx also sizes, attributes and names of the parsed model, and in PyTorch's
archives bytes of members, whose sums stay right, and values of their JSON. Every mutant is imported, and optimised
where it is a model, in a process that is ended after 30 s or at 4 GB. A traceback, a message of several lines, a hang
or a memory error is a fault: its seed is printed, its file kept in DIR. Of each kind an undamaged seed must be read.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import wave
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from shoehorn_mcu import importers, passes
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu_host.validate import samples
from tests.shared import MODELS

PYTORCH = ("pt2", "pt")
LONGEST_S = 30
MOST_BYTES = 4 << 30
LARGEST_SEED = 1 << 16  # bytes of a file that is damaged
EXTREMES = (0, -1, 1, 2, 3, 255, 256, 1 << 16, 1 << 31, (1 << 63) - 1, -(1 << 63))


def seeds(kind: str) -> list[bytes]:
    """The files that are damaged."""
    if kind == "wav":
        return [_sound(rate, width, channels) for rate in (8000, 16000) for width in (1, 2, 3) for channels in (1, 2)]
    if kind in PYTORCH:
        return _of_pytorch(kind)
    folders = [MODELS, *([Path(onnx.__file__).parent / "backend/test/data"] if kind == "onnx" else [])]
    files = sorted(path for folder in folders for path in folder.rglob(f"*.{kind}"))
    found = [p.read_bytes() for p in files if p.stat().st_size <= LARGEST_SEED and p.parent.name != "light"]
    return found or sys.exit(f"no seeds of kind {kind}")


def _of_pytorch(kind: str) -> list[bytes]:
    """Programs of torch.export, or traced modules."""
    import torch

    from tests.torch_models import MODELS as MODULES
    from tests.torch_models import seeded

    made = []
    for module, example in MODULES.values():
        held = BytesIO()
        if kind == "pt2":
            torch.export.save(torch.export.export(seeded(module), example), held)
        else:
            torch.jit.save(torch.jit.trace(seeded(module), example, check_trace=False), held)
        made.append(held.getvalue())
    return made


def _sound(rate: int, width: int, channels: int) -> bytes:
    held = BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(bytes(range(256)) * 6)
    return held.getvalue()


def damaged(data: bytes, kind: str, chance: random.Random) -> bytes:
    """A mutant: some changes of one sort."""
    if kind == "onnx" and chance.random() < 0.5:
        return _other_model(data, chance)
    if kind in PYTORCH and chance.random() < 0.9:
        return _other_members(data, chance)
    changed = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        chance.choice(_CHANGES)(changed, chance)
    return bytes(changed)


def _byte(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))


def _cut(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.choice((1, 2, 4, 64, len(data)))]


def _doubled(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    data[start:start] = data[start : start + chance.randint(1, 64)]


def _exchanged(data: bytearray, chance: random.Random) -> None:
    size = min(8, len(data) // 2)
    a, b = chance.randrange(len(data) - size + 1), chance.randrange(len(data) - size + 1)
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (_byte, _byte, _byte, _cut, _doubled, _exchanged)


def _other_model(data: bytes, chance: random.Random) -> bytes:
    """The model with other sizes, attributes, names or nodes."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(chance.randint(1, 3)):
        chance.choice(_EDITS)(model, chance)
    return bytes(model.SerializeToString())


def _other_members(data: bytes, chance: random.Random) -> bytes:
    """The archive with one member changed."""
    held = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(held, "w") as new:
        names = old.namelist()
        json_names = [name for name in names if name.endswith(".json")]
        hit = chance.choice(json_names) if json_names and chance.random() < 0.7 else chance.choice(names)
        for name in names:
            inner = old.read(name)
            if name == hit and name in json_names and chance.random() < 0.8:
                inner = _other_json(inner, chance)
            elif name == hit:
                changed = bytearray(inner)
                chance.choice(_CHANGES)(changed, chance)
                inner = bytes(changed)
            new.writestr(name, inner)
    return held.getvalue()


def _other_json(data: bytes, chance: random.Random) -> bytes:
    """The JSON with some of its values exchanged, left out or made extreme."""
    root = json.loads(data)
    for _ in range(chance.randint(1, 3)):
        places = list(_places(root))
        if not places:
            break
        holder, key = chance.choice(places)
        other, name = chance.choice(places)
        if chance.random() < 0.2:
            del holder[key]
        elif chance.random() < 0.5:
            holder[key] = chance.choice((*EXTREMES, None, "", [], {}, "relu", True, 0.5))
        else:
            holder[key] = json.loads(json.dumps(other[name]))
    return json.dumps(root).encode()


def _places(root: Any) -> Iterator[tuple[Any, Any]]:
    """(a list or an object, an index or a key in it) of every value, in order."""
    left = [root]
    while left:
        each = left.pop()
        if isinstance(each, list | dict):
            keys = list(each) if isinstance(each, dict) else list(range(len(each)))
            yield from ((each, key) for key in keys)
            left += [each[key] for key in keys]


def _dimension(model: onnx.ModelProto, chance: random.Random) -> None:
    graph = model.graph
    if graph.initializer and chance.random() < 0.5:
        dims = chance.choice(graph.initializer).dims
        if dims:
            dims[chance.randrange(len(dims))] = chance.choice(EXTREMES)
    elif ends := [*graph.input, *graph.output, *graph.value_info]:
        sizes = chance.choice(ends).type.tensor_type.shape.dim
        if sizes:
            chance.choice(sizes).dim_value = chance.choice(EXTREMES)


def _attribute(model: onnx.ModelProto, chance: random.Random) -> None:
    named = [each for node in model.graph.node for each in node.attribute]
    if not named:
        return
    attribute = chance.choice(named)
    if attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(EXTREMES)
    else:
        attribute.i, attribute.f = chance.choice(EXTREMES), chance.choice((0.0, -1.0, 1e38, float("nan")))


def _name(model: onnx.ModelProto, chance: random.Random) -> None:
    if nodes := model.graph.node:
        node = chance.choice(nodes)
        names = chance.choice((node.input, node.output))
        every = [name for each in nodes for name in (*each.input, *each.output)] + ["", "x y\n"]
        if names:
            names[chance.randrange(len(names))] = chance.choice(every)


def _node(model: onnx.ModelProto, chance: random.Random) -> None:
    nodes = model.graph.node
    if nodes:
        place = chance.randrange(len(nodes))
        if chance.random() < 0.5:
            del nodes[place]
        else:
            nodes[place].op_type = chance.choice([node.op_type for node in nodes] + ["Relu", "Conv", "Loop", ""])


def _type(model: onnx.ModelProto, chance: random.Random) -> None:
    kinds = [*model.graph.initializer] or [each.type.tensor_type for each in model.graph.input]
    if kinds:
        kind = chance.choice(kinds)
        setattr(kind, "data_type" if isinstance(kind, onnx.TensorProto) else "elem_type", chance.randrange(26))


_EDITS: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (_dimension, _attribute, _name, _node, _type)


def _read(path: Path) -> None:
    if path.suffix == ".wav":
        samples.sound(path)
    else:
        passes.run(importers.load(path))


def outcome(path: Path) -> str:
    """`read`, or `refused`; any other error but a refusal of one line is raised."""
    try:
        _read(path)
    except ShoehornError as error:
        if "\n" in str(error):
            raise ValueError(f"a message of several lines: {error}") from error
        return "refused"
    return "read"


def _run(folder: Path, kind: str, first: int, number: int) -> tuple[str, int, str]:
    """(kind, seed, outcome) of one mutant."""
    seed = first + number
    chance = random.Random(f"{kind} {seed}")
    path = folder / f"{kind}-{seed}.{kind}"
    path.write_bytes(damaged(chance.choice(_held(kind)), kind, chance))
    signal.alarm(LONGEST_S)
    try:
        found = outcome(path)
    except MemoryError:
        found = "more than 4 GB"
    except TimeoutError:
        found = f"more than {LONGEST_S} s"
    except Exception as error:  # the fault that is looked for
        found = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    signal.alarm(0)
    if found in ("read", "refused"):
        path.unlink()
    return kind, seed, found


def _all_refused(folder: Path, kind: str) -> str:
    """Why no seed is read as it is, damaged ones then showing nothing; empty where one is."""
    path = folder / f"{kind}-undamaged.{kind}"
    why = "there is none"
    for data in _held(kind):
        path.write_bytes(data)
        try:
            _read(path)
            return ""
        except ShoehornError as error:
            why = str(error)
        finally:
            path.unlink()
    return why


_seeds: dict[str, list[bytes]] = {}


def _held(kind: str) -> list[bytes]:
    if kind not in _seeds:
        _seeds[kind] = seeds(kind)
    return _seeds[kind]


def _limit(with_torch: bool) -> None:
    """Limits this process's memory, beyond the libraries that it has mapped.

    What it starts has the same limit, but the libraries of PyTorch alone take gigabytes: its process has one of its
    own (`host_tools/shoehorn_mcu_host/base/sandbox.py`).
    """
    if not with_torch:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGALRM, _late)
    np.seterr(all="ignore")


def _late(signum: int, frame: object) -> None:
    raise TimeoutError


def results(folder: Path, kinds: list[str], count: int, first: int) -> Iterator[tuple[str, int, str]]:
    """The outcome of each mutant, `count` of them over all kinds."""
    with_torch = any(kind in PYTORCH for kind in kinds)
    if with_torch and importlib.util.find_spec("torch") is None:  # the pool would start its processes without end
        sys.exit("mutants of .pt2 and .pt need PyTorch: pip install torch")
    spawned = multiprocessing.get_context("spawn")
    with spawned.Pool(2, initializer=_limit, initargs=(with_torch,), maxtasksperchild=500) as pool:
        for kind in kinds:
            if why := pool.apply(_all_refused, (folder, kind)):
                sys.exit(f"no undamaged seed of kind {kind} is read: {why}")
            yield from pool.imap_unordered(partial(_run, folder, kind, first), range(count // len(kinds)), chunksize=50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=["onnx", "tflite", "wav"])
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        counts: Counter[tuple[str, str]] = Counter()
        for kind, seed, found in results(folder, arguments.kinds, arguments.count, arguments.seed):
            counts[kind, found if found in ("read", "refused") else "fault"] += 1
            if found not in ("read", "refused"):
                print(f"{kind} {seed}: {found}", flush=True)
    for (kind, found), number in sorted(counts.items()):
        print(f"{kind}: {number:,} {found}")
    sys.exit(any(found == "fault" for _, found in counts))


if __name__ == "__main__":
    main()
