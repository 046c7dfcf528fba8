"""Imports PyTorch's models: programs of torch.export, TorchScript modules and modules in memory.

All of them become an ONNX model in memory by PyTorch's own exporters, and `onnx.py` imports that: programs and modules
by the exporter for torch.export, TorchScript by the older one, which knows it, else as a program, too. PyTorch is
imported only here and only when a model is imported; it is the extra `shoehorn-mcu[torch]`.

PyTorch reads files in a process that is locked in (`sandbox.py`): its C++ also ends the process for some that are
damaged. Before TorchScript of a file runs, all of its ops are looked up in `torch/ops.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.onnx import file as onnx_file
from shoehorn_mcu.importers.onnx.importer import import_bytes, import_model
from shoehorn_mcu.importers.source import Imported, Shapes
from shoehorn_mcu.importers.torch import archive as torch_archive
from shoehorn_mcu.importers.torch import ops
from shoehorn_mcu_host.base import sandbox

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 20  # the oldest with Gelu and all that the newer exporter writes
_PRINTED = (1, 2)  # standard output and errors
_INSTALL = "`pip install shoehorn-mcu[torch]`"
_NEEDED = (
    *("torch._export.converter", "torch.ao.quantization.fx._decomposed", "torch.export.pt2_archive._package"),
    *("torch.onnx._internal.exporter._core", "torch.onnx._internal.torchscript_exporter.utils", "onnx"),
)
_EVAL = "call module.eval() before the export"
_TRAINING = ("train", "training")  # arguments of ATen's ops
_MISSING = "No ONNX function found"
_PYTORCH = re.compile(r"[\\/]torch[\\/](nn|ao|jit|export|fx|utils|_\w+|functional\.py)\b")  # in a file's path
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def load_torch(path: Path, shapes: Shapes) -> Imported:
    """The model in a `.pt2` or TorchScript file: its verified graph is named after the file.

    Raises as `torch_model` and `import_model`.
    """
    model, sizes = _read(path, shapes)
    return import_bytes(model, path.stem, sizes)


def torch_model(path: Path, shapes: Shapes) -> tuple[ModelProto, Shapes]:
    """The ONNX model that such a file becomes, and the shapes that its importer is to use.

    A TorchScript file says no shapes unless it was traced; `shapes` then has them. Raises ImportFault, without
    the file's name, if it is damaged or not safe or if PyTorch is not there; and OSError.
    """
    model, sizes = _read(path, shapes)
    return onnx_file.proto_of(model), sizes


def _read(path: Path, shapes: Shapes) -> tuple[bytearray, Shapes]:
    archive = torch_archive.read(path)
    for name, what in (("torch", "PyTorch"), ("onnxscript", "onnxscript, which PyTorch's exporter needs,")):
        if importlib.util.find_spec(name) is None:
            raise ImportFault(f"{what} is not installed: {_INSTALL}")
    is_program = archive.kind is torch_archive.Kind.PROGRAM
    wanted = {"program": is_program, "traced": "traced_inputs.pkl" in archive.members, "shapes": shapes}
    try:
        told, made = sandbox.answer(f"{__name__}:answer", wanted, archive.packed())
    except sandbox.Ended as ended:
        raise ImportFault(f"the process that reads it with PyTorch {ended}; {torch_archive.AGAIN}") from None
    except sandbox.Failed as failed:
        raise ImportFault(f"PyTorch fails over it ({failed}); {torch_archive.AGAIN}") from failed
    if "fault" in told:
        raise ImportFault(told["fault"])
    return made, _sizes(told["shapes"])


# These run in the process that is locked in.


def prepare() -> None:
    """Imports PyTorch and what its exporters would import for each file; it computes with one thread."""
    with contextlib.suppress(ImportFault):
        _library().set_num_threads(1)
        for name in _NEEDED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def answer(wanted: Any, data: bytes) -> sandbox.Answer:
    """The ONNX model of a checked archive, and the shapes that its importer is to use."""
    try:
        model, shapes = _of_file(wanted, io.BytesIO(data))
    except ImportFault as fault:
        return {"fault": str(fault)}, ()
    return {"shapes": shapes}, [model.SerializeToString()]


def _of_file(wanted: Any, data: io.BytesIO) -> tuple[ModelProto, Shapes]:
    """The model of a checked archive, and the shapes that its importer is to use."""
    torch, shapes = _library(), _sizes(wanted["shapes"])
    if wanted["program"]:
        return _model_of_program(_loaded(data)), shapes
    with _converting("PyTorch cannot read it"):
        script = torch.jit.load(data, map_location="cpu", _restore_shapes=wanted["traced"])
        _check_ops(torch, script)
    return _model_of_script(script, shapes, None)


def _check_ops(torch: Any, script: Any) -> None:
    """Raises ImportFault where a method of the module, or what it calls, has an op that no model may have.

    Nothing of it has run so far. A call that cannot be replaced by what it calls is such an op, too.
    """
    for module in script.modules():
        for name in module._c._method_names():
            graph = module._c._get_method(name).graph.copy()
            torch._C._jit_pass_inline(graph)
            _check_nodes(graph)


def _check_nodes(block: Any) -> None:
    for node in block.nodes():
        namespace, _, name = node.kind().partition("::")
        if not ops.is_known(namespace, name):
            raise ImportFault(f"it has the op {node.kind()}, which is none of those that a model may have; remove it")
        for inner in node.blocks():
            _check_nodes(inner)
        for each in node.attributeNames():
            if node.kindOf(each) in ("g", "gs"):
                raise ImportFault(f"its op {node.kind()} holds a graph, as no file has it; {torch_archive.AGAIN}")


def _sizes(shapes: Mapping[str, Sequence[int]]) -> Shapes:
    return {name: tuple(shape) for name, shape in shapes.items()}


def _loaded(data: io.BytesIO) -> Any:
    """The program in a checked archive. torch.export.load calls `load_pt2`, and only logs why it fails."""
    with _converting("PyTorch cannot read it"):
        import torch.ao.quantization.fx._decomposed  # noqa: F401  defines the ops of PT2E
        from torch.export.pt2_archive._package import load_pt2

        return load_pt2(data).exported_programs["model"]


def import_module(module: Any, example: Any, name: str | None, shapes: Shapes) -> Imported:
    """A `torch.nn.Module`, a TorchScript module or an ExportedProgram, of which only the first needs an example.

    `example`: the arguments of a call, a tensor or a tuple of them. Raises ImportFault as `load_torch`.
    """
    torch = _library()
    given = (example,) if isinstance(example, torch.Tensor) else tuple(example or ())
    # As copies: a tensor that is given twice would be one input of the program.
    arguments = tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in given)
    if isinstance(module, torch.export.ExportedProgram):
        return import_model(_model_of_program(module), name or "model", shapes)
    if isinstance(module, torch.jit.ScriptModule):
        model, shapes = _model_of_script(module, shapes, arguments or None)
        return import_model(model, name or module.original_name, shapes)
    if not isinstance(module, torch.nn.Module):
        raise ImportFault(f"{type(module).__name__} is no torch.nn.Module, ScriptModule or ExportedProgram; give one")
    name = name or type(module).__name__
    if not arguments:
        raise ImportFault(f"{name}: an example of its inputs is needed: import_torch(module, example)")
    if module.training:
        raise ImportFault(f"{name}: is in training mode; call module.eval() first")
    with _converting(f"{name}: torch.export cannot export it"):
        program = torch.export.export(module, arguments)
    return import_model(_model_of_program(program), name, shapes)


def _library() -> Any:
    """PyTorch. Raises ImportFault where it is not there."""
    try:
        import onnxscript  # noqa: F401  the exporter's own library of ops
        import torch
        import torch.onnx
    except ModuleNotFoundError as error:
        there = importlib.util.find_spec("torch") is not None
        lacking = f"{error.name}, which PyTorch's exporter needs," if there else "PyTorch"
        raise ImportFault(f"{lacking} is not installed: {_INSTALL}") from error
    except (ImportError, OSError) as error:  # OSError: a library of its own that the system cannot load
        raise ImportFault(
            f"PyTorch cannot be imported here ({_reason(error)}); install it again: {_INSTALL}"
        ) from error
    return torch


@contextlib.contextmanager
def _converting(what: str) -> Iterator[None]:
    """PyTorch without its warnings, logs and prints; its errors, of any class, become ImportFault."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), _silent():
            warnings.simplefilter("ignore")
            yield
    except (ImportFault, MemoryError):
        raise
    except Exception as error:  # PyTorch has no common class for what it finds in a file or a module
        raise ImportFault(f"{what}: {_reason(error)}") from error
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing is printed, not even by C++, which writes graphs that it cannot convert to standard output."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        file = Path(os.devnull).open("wb")  # noqa: SIM115
    except PermissionError:  # locked in: no file is opened to write, and nothing is printed anyway
        yield
        return
    with file as nothing, contextlib.redirect_stdout(io.StringIO()):
        kept = [os.dup(number) for number in _PRINTED]
        for number in _PRINTED:
            os.dup2(nothing.fileno(), number)
        try:
            yield
        finally:
            for number, own in zip(_PRINTED, kept, strict=True):
                os.dup2(own, number)
                os.close(own)


def _reason(error: BaseException) -> str:
    """The line of the first cause that says something."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    for each in reversed(causes):
        for line in str(each).splitlines():
            if line.strip():
                return line.strip()
    return type(error).__name__


def _model_of_program(program: Any, inputs: Sequence[str] | None = None) -> ModelProto:
    """The model of a program; `inputs` are other names than its own."""
    _check_mode(program)
    with _converting("PyTorch cannot export it"):
        program = program.run_decompositions({})
    changed = sorted(program.graph_signature.buffers_to_mutate.values())
    if changed:
        cure = "make it an input and an output of the module, and join them by --state"
        raise ImportFault(f"the module changes its buffer '{changed[0]}' while it runs; {cure}")
    torch = _library()
    try:
        with _converting("PyTorch cannot export it to ONNX"):
            made = torch.onnx.export(program, dynamo=True, verbose=False, opset_version=OPSET, input_names=inputs)
            model: ModelProto = made.model_proto
    except ImportFault as fault:
        raise _diagnosed(fault) from fault.__cause__
    return model


def _check_mode(program: Any) -> None:
    """Raises ImportFault where an op of the program computes as in training."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None:
            continue
        given = dict(zip((each.name for each in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
        if any(given.get(each) is True for each in _TRAINING):
            raise ImportFault(f"op {node.name} ({_where(node)}) was exported in training mode; {_EVAL}")


def _where(node: Any) -> str:
    """The kind of an op, and the line of the module's own code that made it, where that is known."""
    lines = _LINE.findall(node.meta.get("stack_trace") or "")
    own = [each for each in lines if not _PYTORCH.search(each[0])] or lines
    place = "".join(f", {Path(file).name} line {number}" for file, number in own[-1:])
    return f"{str(node.target).removesuffix('.default')}{place}"


def _diagnosed(fault: ImportFault) -> ImportFault:
    """The same fault, with the op and the line of the module where an op is the reason."""
    told, node = [str(fault)], None
    cause = fault.__cause__
    while cause is not None:
        told.append(str(cause))
        node = _failed(cause) or node
        cause = cause.__cause__
    if node is None:
        return fault
    if any(_MISSING in each for each in told):
        return ImportFault(f"PyTorch's exporter has no ONNX form of op {node.name} ({_where(node)}); replace it")
    return ImportFault(f"op {node.name} ({_where(node)}): {fault}")


def _failed(error: BaseException) -> Any:
    """The op that the exporter was at, from the frames of its error: nothing else says it. None if there is none."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        local = frame.f_locals.get("node")
        if getattr(local, "op", None) == "call_function":
            found = local
    return found


def _model_of_script(script: Any, shapes: Shapes, example: Sequence[Any] | None) -> tuple[ModelProto, Shapes]:
    """The model of a TorchScript module, and the shapes that its importer is to use."""
    torch = _library()
    if not hasattr(script, "training"):  # a frozen module has no mode, and PyTorch's exporter asks for it
        script.training = False
    if script.training:
        raise ImportFault(f"the TorchScript module is in training mode; {_EVAL}")
    with _converting("PyTorch cannot read its graph"):
        inputs = {each.debugName().partition(".")[0]: each.type() for each in list(script.graph.inputs())[1:]}
    arguments = example or [_example(torch, each, kind, shapes) for each, kind in inputs.items()]
    unknown = sorted(set(shapes) - set(inputs))
    if unknown:
        raise ImportFault(f"no input is called '{unknown[0]}'; known are {', '.join(inputs)}")
    try:
        with _converting("PyTorch cannot export it to ONNX"):
            return _of_graph(torch, script, arguments, list(inputs)), {}
    except ImportFault as fault:
        program = _program_of(script, arguments)
        if program is None:
            raise fault
        sizes = {each: tuple(x.shape) for each, x in zip(inputs, arguments, strict=True)}
        return _model_of_program(program, list(inputs)), sizes


def _of_graph(torch: Any, script: Any, arguments: Sequence[Any], inputs: Sequence[str]) -> ModelProto:
    """By the exporter for TorchScript, which takes the graph as it is and knows fewer ops."""
    import onnx

    held = io.BytesIO()
    options = {"dynamo": False, "verbose": False, "opset_version": OPSET, "input_names": inputs}
    torch.onnx.export(script, tuple(arguments), held, **options)
    return onnx.load_model_from_string(held.getvalue())


def _program_of(script: Any, arguments: Sequence[Any]) -> Any:
    """The module as a program of torch.export, by PyTorch's converter; None where that fails."""
    try:
        with _converting("PyTorch cannot convert it"):
            from torch._export.converter import TS2EPConverter

            return TS2EPConverter(script, tuple(arguments), {}).convert()
    except ImportFault:
        return None


def _example(torch: Any, name: str, kind: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """A tensor of zeros for an input, whose shape is given or that of the trace."""
    if kind.kind() != "TensorType":
        raise ImportFault(f"input '{name}' is {kind}, no tensor; make it a constant of the module")
    shape = shapes.get(name) or kind.sizes()
    if shape is None or min(shape, default=1) < 1:
        cure = f"--shape {name}=1x3x96x96, with its own sizes"
        raise ImportFault(f"a scripted module does not say the shape of its input '{name}'; give {cure}")
    return torch.zeros(tuple(shape), dtype=kind.dtype() or torch.float32)
