"""Every model beside the checkout, and ONNX's light ones: arenas, differences from an oracle, time and memory of `gen`.

    python -m bench.all_models [--models NAME ...] [--out DIR] [--write]

Like a user it calls only the command `gen`. The firmware is for the board `native`: this machine, portable kernels.
Its outputs are compared with those of tflite_micro for .tflite, of LiteRT's reference kernels where that does not run
it, and of ONNX Runtime for .onnx, for random inputs;
difference: the largest, in steps of the last stored digit where both are integers, else relative to the largest output.
Writes DIR/models.json after each model, so an interrupted run loses nothing; `--write` makes docs/models.md of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.shared import GEN, MODELS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models.md"
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
LARGEST_NATIVE = 20 << 20  # bytes of a model file whose firmware is built and run here
COLUMNS = (
    ("model", "model"),
    ("MACs", "macs"),
    ("whole tensors", "whole"),
    ("smallest arena", "smallest"),
    ("streamed", "streamed"),
    ("oracle", "oracle"),
    ("difference", "difference"),
    ("CPU s", "cpu_s"),
    ("peak MB", "peak_mb"),
)

Row = dict[str, Any]
Arrays = Mapping[str, Any]


def gen(*words: str) -> tuple[Row, float, int]:
    """As `run`, of the command `gen` of this tree."""
    return run(*GEN, *words)


def run(*command: str) -> tuple[Row, float, int]:
    """The JSON that a `gen` command printed, its CPU seconds, and its largest resident memory in bytes."""
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        said = child.stdout.read()
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0  # it has been waited for
    found = json.loads(said) if said.strip() else {"error": {"message": "no answer"}}
    return found, used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def measure(path: Path, folder: Path) -> Row:
    """The row of one model."""
    row: Row = {"model": path.name}
    runs = path.stat().st_size <= LARGEST_NATIVE and path.parent != LIGHT
    command = (
        ("firmware", str(path), "--board", "native", "--out", str(folder), "--force") if runs else ("plan", str(path))
    )
    report, cpu, peak = gen(*command)
    if "error" in report:
        return row | {"refused": report["error"]["message"]}
    row |= {"macs": report["model"]["macs"], "whole": report["plan"]["whole_tensor_bytes"]}
    row |= {"cpu_s": round(cpu, 1), "peak_mb": peak >> 20}
    for name, words in (("smallest", ()), ("streamed", ("--stream-input",))):
        plan, _, _ = gen("plan", str(path), "--minimize", "sram", *words)
        if "error" not in plan:
            row[name] = plan["plan"]["arena_bytes"]
            row[f"{name}_proven"] = plan["plan"]["proven_optimal"]
    if runs:
        row |= _compared(path, folder)
    else:
        row |= {"oracle": "its stored outputs", "difference": "docs/onnx.md"}
    return row


def _compared(path: Path, folder: Path) -> Row:
    """The oracle and the difference from it, of three vectors."""
    given, wanted = folder / "given.npz", folder / "found.npz"
    try:
        oracle, inputs, outputs = (tflite_oracle if path.suffix == ".tflite" else onnx_oracle)(path)
    except Exception as error:  # whatever another program says of a model that it does not run
        return {"oracle": "none runs it", "why": str(error).splitlines()[0][:120] if str(error) else repr(error)}
    np.savez(given, **inputs)
    said, _, _ = gen("validate", str(folder), "--emulate", "--inputs", str(given), "--outputs", str(wanted))
    if "error" in said:
        return {"oracle": oracle, "difference": said["error"]["message"]}
    if said["mismatched_vectors"]:
        return {"oracle": oracle, "difference": "the board differs from the reference"}
    ours = np.load(wanted)
    differences = [_difference(ours[name], array) for name, array in outputs.items()]
    integers = all(array.dtype.kind in "iub" for array in outputs.values())
    worst = max(differences)
    return {"oracle": oracle, "difference": "equal" if worst == 0 else f"{worst:.0f}" if integers else f"{worst:.1e}"}


def _difference(ours: Any, theirs: Any) -> float:
    a, b = np.asarray(ours, np.float64).reshape(-1), np.asarray(theirs, np.float64).reshape(-1)
    worst = float(np.abs(a - b).max())
    return worst if theirs.dtype.kind in "iub" else worst / max(float(np.abs(b).max()), 1e-30)


def _random(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    rng = np.random.default_rng(1)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(max(limits.min, -(1 << 15)), min(limits.max, (1 << 15) - 1), shape, endpoint=True).astype(
            dtype
        )
    return rng.uniform(0, 1, shape).astype(dtype)


_VECTORS = 3


Run = Callable[[list[Any]], list[Any]]


def tflite_oracle(path: Path, given: Arrays | None = None, is_open: bool = False) -> tuple[str, Arrays, Arrays]:
    """The oracle's name, inputs and outputs by name, a vector in front; LiteRT runs what tflite_micro does not.

    `given`: the inputs in place of random ones. `is_open`: the file has placeholders for sizes, and tflite_micro takes
    them for the sizes.
    """
    from tflite_micro.python.tflite_micro.runtime import schema_fb

    data = path.read_bytes()
    graph, *others = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(data, 0)).subgraphs
    bodies = [tensor.shapeSignature for each in others for tensor in each.tensors]
    open_sizes = is_open or any(sizes is not None and -1 in sizes for sizes in bodies)
    names = [
        [(graph.tensors[i].name or b"tensor_%d" % i).decode() for i in each] for each in (graph.inputs, graph.outputs)
    ]
    try:
        if open_sizes:  # in bodies of loops, in which tflite_micro does not end
            raise RuntimeError
        oracle, details, run = _tflite_micro(data, len(names[0]), len(names[1]))
    except RuntimeError:
        oracle, details, run = _litert(data)
    inputs = given or {
        name: _random((_VECTORS, *detail["shape"]), np.dtype(detail["dtype"]))
        for name, detail in zip(names[0], details, strict=True)
    }
    found = [run([inputs[name][vector] for name in names[0]]) for vector in range(len(inputs[names[0][0]]))]
    return oracle, inputs, {name: np.stack([each[i] for each in found]) for i, name in enumerate(names[1])}


def _tflite_micro(data: bytes, inputs: int, outputs: int) -> tuple[str, list[Any], Run]:
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(data, arena_size=256 << 20)

    def run(given: list[Any]) -> list[Any]:
        for place, array in enumerate(given):
            interpreter.set_input(array, place)
        interpreter.invoke()
        return [np.array(interpreter.get_output(place)) for place in range(outputs)]

    return "tflite_micro", [interpreter.get_input_details(i) for i in range(inputs)], run


def _of_known_versions(data: bytes) -> bytes:
    """The model with TILE in version 1, the only one in the list of reference kernels, though the kernel knows more."""
    import flatbuffers
    from tflite_micro.python.tflite_micro.runtime import schema_fb

    model = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(data, 0))
    tiles = [each for each in model.operatorCodes if each.builtinCode == schema_fb.BuiltinOperator.TILE]
    if all(each.version == 1 for each in tiles):
        return data
    for each in tiles:
        each.version = 1
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _litert(data: bytes) -> tuple[str, list[Any], Run]:
    """With its reference kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=_of_known_versions(data), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    details, ends = interpreter.get_input_details(), interpreter.get_output_details()

    def run(given: list[Any]) -> list[Any]:
        for detail, array in zip(details, given, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [np.array(interpreter.get_tensor(end["index"])) for end in ends]

    return "LiteRT, reference kernels", details, run


def onnx_oracle(path: Path, given: Arrays | None = None) -> tuple[str, Arrays, Arrays]:
    """As `tflite_oracle`, of ONNX Runtime."""
    import onnxruntime

    types = {"float": np.float32, "float16": np.float16, "uint8": np.uint8, "int8": np.int8, "int64": np.int64}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = dict(given or {})
    for each in session.get_inputs() if given is None else ():
        shape = tuple(size if isinstance(size, int) else 1 for size in each.shape)
        inputs[each.name] = _random((_VECTORS, *shape), np.dtype(types[each.type[len("tensor(") : -1]]))
    names = [each.name for each in session.get_outputs()]
    count = len(next(iter(inputs.values())))
    found = [session.run(names, {name: array[i] for name, array in inputs.items()}) for i in range(count)]
    return "ONNX Runtime", inputs, {name: np.stack([each[i] for each in found]) for i, name in enumerate(names)}


def page(rows: list[Row]) -> str:
    """docs/models.md."""
    lines = [
        "# Models",
        "",
        "Written by `python -m bench.all_models --write`: the public models that Shoehorn is developed with,",
        "and ONNX's light ones, which have no trained weights. Arenas are bytes, for portable kernels; **bold**:",
        "proven minimal in the searched space. *Difference*: the largest of three random vectors, 1 being a step of an",
        "integer, or in float32 relative to the largest output. *CPU s* and *peak MB*: of `gen firmware`, its plan",
        "for time, or of `gen plan` for the light ones.",
        "",
        "| " + " | ".join(title for title, _ in COLUMNS) + " |",
        "|---" + "|---:" * 4 + "|---" + "|---:" * 3 + "|",
    ]
    for row in rows:
        if "refused" not in row:
            lines.append("| " + " | ".join(_cell(row, key) for _, key in COLUMNS) + " |")
    refused = [f"- `{row['model']}`: {row['refused']}" for row in rows if "refused" in row]
    return "\n".join([*lines, "", *(["Refused:", "", *refused, ""] if refused else [])])


def _cell(row: Row, key: str) -> str:
    value = row.get(key, "-")
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return f"**{text}**" if row.get(f"{key}_proven") else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="parts of file names; default: all")
    parser.add_argument("--out", type=Path, default=Path("build/models"))
    parser.add_argument("--write", action="store_true", help="write docs/models.md")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    listed = arguments.out / "models.json"
    rows: dict[str, Row] = {r["model"]: r for r in json.loads(listed.read_text())} if listed.exists() else {}
    files = sorted(p for p in MODELS.iterdir() if p.suffix in (".tflite", ".onnx")) + sorted(LIGHT.glob("*.onnx"))
    for path in files:
        if not arguments.models or any(part in path.name for part in arguments.models):
            rows[path.name] = measure(path, arguments.out / path.stem)
            print(rows[path.name], file=sys.stderr, flush=True)
            listed.write_text(json.dumps(list(rows.values()), indent=1) + "\n")
    if arguments.write:
        PAGE.write_text(page([rows[path.name] for path in files if path.name in rows]))


if __name__ == "__main__":
    main()
