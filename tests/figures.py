"""What is known of each kernel and each op before it runs, over fixed samples: the tables figures_*.json.

    python -m tests.figures --write

Plans are made by these figures, and folders have these constants, so none of them changes unnoticed. Whoever means to
change one writes the tables anew and says in the commit what became of which kernel or op. Samples are drawn by numpy's
generator, whose numbers another version of numpy may change, too.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from click import Context
from click.testing import CliRunner
from onnx import ModelProto

sys.path.insert(0, str(Path(__file__).parent))

import figures_of_boards
import figures_of_firmware
import figures_of_onnx
import matrix
import samples
import slide_nets
import slim_nets
from random_graphs import random_graph
from random_onnx import random_model

from shoehorn_mcu import ops, passes
from shoehorn_mcu.base.paths import BOARDS, FIRMWARE_TEMPLATES, MODELS, RUNTIME_C
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.cli.group import main as gen
from shoehorn_mcu.emit import bindings
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.linux.package import linux_package
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir.dump import dump
from shoehorn_mcu.ir.facts import Range
from shoehorn_mcu.ir.graph import Graph, Node, Op
from shoehorn_mcu.kernels import choices
from shoehorn_mcu.kernels.base.contract import Instance, Packed
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Isa, Machine
from shoehorn_mcu.passes.ends import kept_rows
from shoehorn_mcu.passes.ends.slide import slide, windows
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.planner.effort import BUDGET
from shoehorn_mcu.planner.memory_plan import Memory
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest, Scheduled
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import Stage, stages
from shoehorn_mcu.slim.moves import KINDS, moves
from shoehorn_mcu.slim.reading import exact

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
        return f"{fact.dtype}{fact.shape}".encode() + (fact.tobytes() if fact.dtype.kind in "iub" else b"")
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


_IMPORTS = 160
_GRAPHS = 16
SECONDS = 0.1  # of work: for the orders of single rows of a plan
_EMITTED = 16
_SLID = 40
_CORES = ("cortex-m0", "cortex-m4f", "cortex-m55", "rv32imc")
_NETS: Mapping[str, Callable[[], ModelProto]] = {
    "tiny": slim_nets.tiny,
    "digits": slim_nets.digits,
    "googlenet": lambda: slim_nets.googlenet(28, 1),
}
_PASSING = re.compile(r"seconds\": [\d.e-]+|\b\d[\d.]* (s|ms)\b")
_SUM = re.compile(rb"\+m[0-9a-f]{12}")  # of all files, which a wheel's version has
_COMMANDS = (
    *("plan digits", "plan digits --board microbit --json", "plan digits --board microbit --sram 600"),
    *("plan digits --board rpi-zero-2w --cores 2 --stream-input", "plan digits --board nowhere"),
    *("inspect digits", "inspect digits --json", "boards", "boards --json", "ops"),
)
_COPIED = (RUNTIME_C, FIRMWARE_TEMPLATES, BOARDS)
_FOLDERS = {
    "native": ("native", Options()),
    "microbit, smallest": ("microbit", Options(goal=Goal.SRAM)),
    "M4, rows arrive": ("mps2-an386", Options(stream_input=True)),
    "M55, 1 place": ("mps3-an547", Options(top=1, native_io=True)),
    "C6, caller's arena": ("esp32c6-devkit", Options(caller_arena=True, smallest_kernels=True)),
    "Pi Zero, cores": ("rpi-zero-2w", Options(cores=2)),
}
_SLOW = {("googlenet", "tucker")}  # decompositions of large windows


def imports() -> dict[str, Figures]:
    """By random ONNX network: what it is imported as."""
    found: dict[str, dict[str, float]] = {}
    for seed in range(_IMPORTS):
        made = import_model(random_model(seed), "m")
        graph = made.graph
        arrays = [each.data for each in graph.tensors.values() if each.data is not None]
        whole = [each.tobytes() for each in arrays if each.dtype.kind in "iub"]
        found[f"{seed:03}"] = {
            "ops": len(graph.ops),
            "constants": len(arrays),
            "elements": sum(each.size for each in arrays),
            "dump": _checksum(0, [dump(graph).encode(), *whole]),
        }
    return _short(found)


def tflite() -> dict[str, Figures]:
    """By op of TensorFlow Lite: how many of its samples are imported, and as what."""
    from tflite_samples import tflite_samples

    found: dict[str, Counter[str]] = {}
    for sample in tflite_samples():
        row = found.setdefault(sample.code, Counter())
        row["samples"] += 1
        row["refused"] += sample.graph is None
        row["refusals"] = _checksum(row["refusals"], [sample.why.encode()])
        if sample.graph is not None:
            arrays = [each.data for each in sample.graph.tensors.values() if each.data is not None]
            whole = [each.tobytes() for each in arrays if each.dtype.kind in "iub"]
            row["dump"] = _checksum(row["dump"], [dump(sample.graph).encode(), *whole])
    return _short(found)


def roads() -> dict[str, Figures]:
    """By random graph: what the passes make of it, its kernels and plans on a few boards, and its library's text."""
    found: dict[str, dict[str, float]] = {}
    BUDGET.LEAST_SECONDS = BUDGET.MOST_SECONDS = SECONDS
    for seed in range(_GRAPHS):
        graph, notes = passes.run(random_graph(seed))

        chosen = stages(graph, Machine.of(_CORES[seed % len(_CORES)]))
        row = found[f"{seed:02}"] = {
            "passes": _checksum(0, [dump(graph).encode(), repr(notes).encode()]),
            "kernels": _checksum(0, (stage.kernel.name.encode() for stage in chosen)),
        }
        for name, made in _plans(graph, chosen):
            row |= {f"{name} {figure}": value for figure, value in _of_plan(made).items()}
        if seed < _EMITTED:
            unit = Unit("net", made.graph, made.stages, made.plan)
            texts: dict[str, dict[str, float]] = {}
            _add_texts(texts, "text", unit, library(unit, constants(unit)))
            for file, each in texts.items():
                suffix = f"text {Path(file).suffix}"
                row[suffix] = _checksum(row.get(suffix, 0), [repr(each).encode()])
    return _short(found)


def _plans(graph: Graph, chosen: tuple[Stage, ...]) -> Iterator[tuple[str, Scheduled]]:
    """The smallest plan, the fastest one, and others between the two; equal effort gives equal plans."""
    cuts = Cuts(graph, chosen)
    small, fast = (schedule(cuts, PlanRequest(goal)) for goal in (Goal.SRAM, Goal.TIME))
    yield from (("small", small), ("fast", fast))
    least, most = small.plan.arena_bytes, fast.plan.arena_bytes
    yield "within", schedule(cuts, PlanRequest(Goal.TIME, (least + most) // 2, prefer_smaller=True))
    memories = (Memory("sram", least, 0.0, 0.0), Memory("far", most, 1.0, 2.0))
    yield "apart", schedule(cuts, PlanRequest(Goal.TIME, memories=memories))
    yield "cores", schedule(cuts, PlanRequest(Goal.TIME, cores=2))
    if len(graph.inputs) == 1 and len(graph.outputs) == 1:
        yield "streamed", schedule(cuts, PlanRequest(Goal.SRAM, stream_input=True, stream_output=True))


def _of_plan(made: Scheduled) -> Figures:
    plan = made.plan
    text = repr((plan.steps, plan.placements, plan.scratch, plan.cascades, plan.outcome.reason))
    return {
        "arena": plan.arena_bytes,
        "bound": plan.outcome.bound_bytes,
        "whole": plan.outcome.whole_tensor_bytes,
        "time": made.time,
        "plan": _checksum(0, [text.encode()]),
    }


def slides() -> dict[str, Figures]:
    """By random model of windows: what a step of one row computes and keeps, and its graph."""
    found: dict[str, dict[str, float]] = {}
    for seed in range(_SLID):
        given = windows(slide_nets.random_net(seed), 1)
        some = kept_rows.choices(given.shifted)
        row = found[f"{seed:02}"] = {
            "choices": len(some),
            "macs": sum(each.macs for each in some),
            "state bytes": sum(each.state_bytes for each in some),
        }
        for name, each in (("most", some[0]), ("least", some[-1])):
            made = slide(given, each.less)
            row[name] = _checksum(0, [dump(made.graph).encode(), repr(sorted(made.places.items())).encode()])
    return _short(found)


def slim_moves() -> dict[str, Figures]:
    """By network and kind of move: how many there are, and what they make."""
    found: dict[str, Counter[str]] = {}
    for name, make in _NETS.items():
        graph = exact(import_model(make(), "net").graph)
        for move in moves(graph, [kind.name for kind in KINDS if (name, kind.name) not in _SLOW], 0.5):
            row = found.setdefault(f"{name} {move.kind}", Counter())
            row["moves"] += 1
            row["macs"] += move.graph.macs
            said = [move.site, move.born, move.gone, dump(move.graph)]
            row["made"] = _checksum(row["made"], map(_text, said))
    return _short(found)


def folders() -> dict[str, Figures]:
    """By file of the shipped model's folders and libraries: checksums of its text for several boards and options."""
    found: dict[str, dict[str, float]] = {}
    for name, (board, options) in _FOLDERS.items():
        planned, files = build.firmware(MODELS / "digits.tflite", targets.board(board), options)
        _add_texts(found, name, planned.unit, files)
        if board in ("native", "mps2-an386"):
            plain = library(planned.unit, planned.constants)
            _add_texts(found, f"linux, {name}", planned.unit, linux_package(planned.unit, plain).files)
    for framework in bindings.CHOICES:
        planned, files = build.alone(MODELS / "digits.tflite", Options(cpu="cortex-m4f"), framework=framework)
        _add_texts(found, framework, planned.unit, files)
    for framework, board in (
        ("arduino", "arduino-nano33ble"),
        ("stm32cube", "bluepill-f103c8"),
        ("zephyr", "nrf52840dk"),
    ):
        _, files = build.firmware(MODELS / "digits.tflite", targets.board(board), Options(), framework=framework)
        _add_texts(found, framework, planned.unit, files)
    return _short(found)


def _add_texts(found: dict[str, dict[str, float]], name: str, unit: Unit, files: Bundle) -> None:
    """Checksums of the files that are made for the model, not those of kernels and of the application."""
    copied = {path.read_bytes() for folder in _COPIED for path in folder.rglob("*") if path.is_file()}
    for file, data in files.items():
        place = Path(file)
        own = (f"{unit.name}.c", f"{unit.name}_weights.c", "main.c")
        has_kernels = place.suffix in (".c", ".pack") and (place.name not in own or name in bindings.BINDINGS)
        if data not in copied and not has_kernels:
            found.setdefault(file, {})[name] = _checksum(
                0, [_SUM.sub(b"", data.replace(__version__.encode(), b"VERSION"))]
            )


def said() -> dict[str, Figures]:
    """By command: the exit code, and checksums of what it prints, but for the seconds that it took."""
    found: dict[str, dict[str, float]] = {}
    for words in _COMMANDS:
        given = [str(MODELS / "digits.tflite") if word == "digits" else word for word in words.split()]
        done = CliRunner().invoke(gen, given)
        texts = {"out": done.stdout, "err": " ".join(done.stderr.split())}  # notes are as wide as the terminal
        found[words] = {"exit code": done.exit_code, "lines": done.stdout.count("\n")}
        for name, text in texts.items():
            lasting = _PASSING.sub("", text).replace(str(MODELS), "MODELS").replace(__version__, "VERSION")
            found[words][name] = _checksum(0, [lasting.encode()] if lasting else [])
    return _short(found)


def options() -> dict[str, Figures]:
    """By command and option: the least and the most that it takes, its default where that is a number, and a checksum
    of its words.
    """
    found: dict[str, dict[str, float]] = {}
    context = Context(gen)
    for name in gen.list_commands(context):
        command = gen.get_command(context, name)
        for each in command.params if command else ():
            shown = [each.opts, each.secondary_opts, each.nargs, each.required, getattr(each, "multiple", False)]
            row = found[f"{name} {each.opts[0]}"] = {"words": _checksum(0, [repr(shown).encode()])}
            ends = {"least": getattr(each.type, "min", None), "most": getattr(each.type, "max", None)}
            default = each.default if isinstance(each.default, int | float) else None
            row |= {key: end for key, end in {**ends, "default": default}.items() if end is not None}
    return {key: dict(row) for key, row in sorted(found.items())}


TABLES: Mapping[str, Callable[[], Mapping[str, Figures]]] = {
    "kernels": kernels,
    "ops": all_ops,
    "imports": imports,
    "tflite": tflite,
    "roads": roads,
    "slides": slides,
    "moves": slim_moves,
    "folders": folders,
    "commands": said,
    "options": options,
    "quantised": figures_of_onnx.quantised,
    "curves": figures_of_onnx.curves,
    "refusals": figures_of_onnx.refusals,
    "prices": figures_of_onnx.prices,
    "slim_pages": figures_of_onnx.slim_pages,
    **figures_of_firmware.TABLES,
    "boards": figures_of_boards.of_boards,
    "cpus": figures_of_boards.cores,
    "manifests": figures_of_boards.manifests,
}


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
