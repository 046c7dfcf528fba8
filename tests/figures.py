"""What is known of each kernel and each op before it runs, over fixed samples: the tables figures_*.json.

    python -m tests.figures --write

Plans are made by these figures, and folders have these constants, so none of them changes unnoticed. Whoever means to
change one writes the tables anew and says in the commit what became of which kernel or op. Samples are drawn by numpy's
generator, whose numbers another version of numpy may change, too.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import matrix
import samples

from shoehorn_mcu import ops
from shoehorn_mcu.ir.dump import dump
from shoehorn_mcu.ir.facts import Range
from shoehorn_mcu.ir.graph import Graph, Node, Op
from shoehorn_mcu.kernels import choices
from shoehorn_mcu.kernels.base.contract import Instance, Packed
from shoehorn_mcu.machine.targets import Isa

Figures = Mapping[str, float]
_LONG = (2, 3)  # rows of one call
_EACH = 3  # the matrix has several cases of each kind
_CASES = 5  # of each op
_APART = (1, 2)


def kernels() -> dict[str, Figures]:
    """By kernel: how many of a third of the matrix's cases it computes, and the totals of its figures over them."""
    found: dict[str, Counter[str]] = {}
    for graph in matrix.cases()[::_EACH]:
        node = next(graph.nodes())
        for kernel in choices(node, tuple(Isa)):
            row = found.setdefault(kernel.key, Counter())
            row.update(_of_kernel(kernel, node))
            row["members"] = _checksum(row["members"], _members(kernel, node))
    return _short(found)


def _of_kernel(kernel: Instance, node: Node) -> Figures:
    rows = node.output.type.rows
    behind, in_place = kernel.behind(node), kernel.in_place(node)
    return {
        "cases": 1,
        **{f"work {name}": count for name, count in kernel.work(node).items()},
        "scratch": kernel.scratch_bytes(node),
        "pixels at once": kernel.pixels_at_once(node),
        "may be behind": behind is not None,
        "bytes behind": behind or 0,
        "may overwrite": in_place is not None,
        "long rows": sum(kernel.for_long_rows(node, n) is not None for n in _LONG if rows % n == 0),
    }


def _members(kernel: Instance, node: Node) -> Iterator[bytes]:
    """Names and values of the members of the kernel's struct."""
    for name, value in sorted(kernel.params(node).items()):
        array = value.data if isinstance(value, Packed) else value
        yield name.encode() + (array.tobytes() if isinstance(array, np.ndarray) else repr(array).encode())


def all_ops() -> dict[str, Figures]:
    """By class of op: over samples of it the totals of its figures, and checksums of its facts and outputs."""
    found: dict[str, Counter[str]] = {}
    for op_class in ops.OPS:
        row = found[op_class.__name__] = Counter()
        makers = [samples.sample, *([samples.real_sample] if op_class in samples.REAL_OPS else [])]
        for maker in makers:
            for case in range(_CASES):
                rng = np.random.default_rng(case)
                graph = maker(op_class, rng)
                (node,) = graph.nodes()
                row["cases"] += 1
                row["macs"] += node.op.macs(node.sig)
                row["facts"] = _checksum(row["facts"], (_text(each) for each in _facts(graph, node)))
                if node.output.type.dtype.numpy.kind in "iu":
                    row["outputs"] = _checksum(row["outputs"], [_output(graph, node, rng)])
    return _short(found)


def _facts(graph: Graph, node: Node) -> Iterator[object]:
    """What passes and the planner ask of an op."""
    op, sig, rows = node.op, node.sig, node.output.type.rows
    yield dump(graph)
    yield from (op.rows(y, sig) for y in range(rows))
    yield from (op.row_start(sig), op.row_part(node.output.type), op.pixelwise(sig), op.per_channel(node))
    yield (op.shares_rows, op.by_rows, op.carries, op.view, op.spaced)
    yield op.channels(node)
    of_integers = all(each.type.dtype.numpy.kind in "iu" for each in (*node.row_inputs, node.output))
    yield op.overflow(node) if of_integers else None
    if of_integers and op.overflow(node) is None:
        yield op.ranges(node, [Range.of_type(each.type) for each in node.row_inputs])
    if node.output.type.nhwc[0] == 1:
        yield from (op.part(range(rows // 3, rows), sig, apart) for apart in _APART)


def _output(graph: Graph, node: Node, rng: samples.Rng) -> bytes:
    inputs = samples.random_inputs(graph, rng)
    arrays = [inputs[each.name] if each.data is None else each.data for each in node.inputs]
    return node.op.reference(arrays, node.sig).tobytes()


def _text(fact: object) -> bytes:
    """A fact with the values of its arrays."""
    if isinstance(fact, np.ndarray):
        return repr(fact.tolist()).encode()
    if isinstance(fact, tuple | list):
        return b",".join(map(_text, fact))
    if callable(fact):
        return str(getattr(fact, "__qualname__", type(fact).__name__)).encode()
    if isinstance(fact, Op):
        return _text([type(fact).__name__, *(value for name, value in sorted(vars(fact).items()))])
    if hasattr(fact, "__dataclass_fields__"):
        return _text([getattr(fact, name) for name in fact.__dataclass_fields__])
    return repr(fact).encode()


def _checksum(before: float, parts: Iterable[bytes]) -> int:
    """A CRC-32 over the parts, behind that of what came before."""
    found = int(before)
    for part in parts:
        found = zlib.crc32(part, found)
    return found


def _short(found: Mapping[str, Mapping[str, float]]) -> dict[str, Figures]:
    """Ten digits, as far as sums of floats are the same on all machines; without zeros."""
    return {
        key: {
            name: int(figure) if figure == int(figure) else float(f"{figure:.10g}")
            for name, figure in row.items()
            if figure
        }
        for key, row in sorted(found.items())
    }


TABLES: Mapping[str, Callable[[], Mapping[str, Figures]]] = {"kernels": kernels, "ops": all_ops}


def path(table: str) -> Path:
    """The file of a table."""
    return Path(__file__).with_name(f"figures_{table}.json")


def main() -> None:
    """Prints the tables, or writes them."""
    for name, make in TABLES.items():
        rows = (f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in make().items())
        text = "{\n" + ",\n".join(rows) + "\n}\n"
        if "--write" in sys.argv:
            path(name).write_text(text)
        else:
            print(text, end="")


if __name__ == "__main__":
    main()
