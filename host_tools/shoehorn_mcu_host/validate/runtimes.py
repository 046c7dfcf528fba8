"""Runs a source model in its own runtime, in a process that is locked in: what `answer_run` is asked and answers.

A request (`sandbox.py`) is JSON, the bytes of the model, and the bytes of each input for all vectors, one input after
the other:

{"runtime": key of RUNTIMES, "model_bytes": their number, "count": number of vectors,
 "others": [[name, number of bytes]] of files with constants of the model, whose bytes follow the model's,
 "starts": [vectors at which the model begins anew],
 "inputs": [{"shape", "dtype", "zero": the stored value of zero, "state": null, or the number of the output whose value
             it takes in the next inference: such an input begins with zeros, and no bytes are given for it}]}

The answer is {"version": of the runtime, "" where it says none, "outputs": [{"shape",
"dtype"}]}, and the bytes of each output for all vectors; or {"fault": one line}. Arrays are little endian.
"""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base import sandbox
from shoehorn_mcu_host.base.errors import first_line
from shoehorn_mcu_host.validate.unsaturated import unsaturated

Array = NDArray[Any]
Session = Callable[[Sequence[Array]], Sequence[Array]]
"""One inference: an array per input of the model, in its order, and one per output."""

_ARENA = 256 << 20  # bytes for tensors of TensorFlow Lite Micro, which wants to be told
_LINE = 300  # characters of a runtime's words


@dataclass(frozen=True)
class Runtime:
    """A runtime that the model's author may have used."""

    title: str
    package: str  # the module that it is imported as
    install: str  # what pip is given
    suffixes: tuple[str, ...]  # of the models that it runs
    opened: Callable[[Model], Session]
    exact: bool = False  # integers are Shoehorn's to the byte
    process: str = __name__  # the module whose process runs it
    judged: bool = True  # False: its kernels are not those that Shoehorn computes as, and a difference is no fault


@dataclass(frozen=True)
class Model:
    """A source model."""

    data: bytes
    others: Mapping[str, bytes]  # files with constants of it, by the names that it has for them
    inputs: Sequence[Mapping[str, Any]]  # of the request


def _onnxruntime(model: Model) -> Session:
    """Without its optimisations: each node as ONNX defines it, a quantised one in float32 between integers."""
    import onnxruntime as runtime

    runtime.set_default_logger_severity(4)  # fatal errors only; all others are raised
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    names, contents = [*model.others], [*model.others.values()]
    if names:
        options.add_external_initializers_from_files_in_memory(names, contents, [*map(len, contents)])
    session = runtime.InferenceSession(unsaturated(model.data), options, providers=["CPUExecutionProvider"])
    inputs = [each.name for each in session.get_inputs()]
    outputs = [each.name for each in session.get_outputs()]

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        found: Sequence[Array] = session.run(outputs, dict(zip(inputs, arrays, strict=True)))
        return found

    return run


def _litert(optimised: bool, model: Model) -> Session:
    """LiteRT, with its reference kernels or with those that a phone would use."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.AUTO if optimised else OpResolverType.BUILTIN_REF
    interpreter = Interpreter(model_content=model.data, experimental_op_resolver_type=kind)
    details = interpreter.get_input_details()
    for detail, given in zip(details, model.inputs, strict=True):
        if list(detail["shape"]) != list(given["shape"]):
            interpreter.resize_tensor_input(detail["index"], given["shape"])
    interpreter.allocate_tensors()

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        for detail, array in zip(details, inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [np.array(interpreter.get_tensor(each["index"])) for each in interpreter.get_output_details()]

    return run


def _tflite_micro(model: Model) -> Session:
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(model.data, arena_size=_ARENA)
    count = len(runtime.schema_fb.Model.GetRootAsModel(model.data, 0).Subgraphs(0).OutputsAsNumpy())

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        for place, array in enumerate(inputs):
            interpreter.set_input(array, place)
        interpreter.invoke()
        return [np.array(interpreter.get_output(place)) for place in range(count)]

    return run


def _torch(model: Model) -> Session:
    """A program of torch.export or a TorchScript module: archives that the importer has checked and packed anew."""
    import torch
    import torch.ao.quantization.fx._decomposed  # defines the ops of PT2E
    from torch.utils._pytree import tree_leaves

    if b"models/model.json" in model.data:
        from torch.export.pt2_archive._package import load_pt2

        module = load_pt2(io.BytesIO(model.data)).exported_programs["model"].module()
    else:
        module = torch.jit.load(io.BytesIO(model.data), map_location="cpu")

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        with torch.no_grad():
            found = module(*(torch.from_numpy(each.copy()) for each in inputs))
        return [each.numpy() for each in tree_leaves(found)]

    return run


_LITERT = ("ai_edge_litert", "shoehorn-mcu[tflite]", (".tflite",))
RUNTIMES: Mapping[str, Runtime] = {
    "onnxruntime": Runtime("ONNX Runtime", "onnxruntime", "shoehorn-mcu[onnxruntime]", (".onnx",), _onnxruntime),
    "tflite": Runtime("LiteRT, reference kernels", *_LITERT, partial(_litert, False), exact=True),
    "tflite-optimized": Runtime("LiteRT, optimised kernels", *_LITERT, partial(_litert, True), judged=False),
    "tflite-micro": Runtime(
        "TensorFlow Lite Micro", "tflite_micro", "shoehorn-mcu[tflite-micro]", (".tflite",), _tflite_micro, exact=True
    ),
    "torch": Runtime(
        "PyTorch",
        "torch",
        "shoehorn-mcu[torch]",
        (".pt2", ".pt", ".pth", ".ts"),
        _torch,
        process=f"{__package__}.torch_runtime",
    ),
}
"""By the word that `--against` takes."""


def answer_run(asked: Any, data: bytes) -> sandbox.Answer:
    """What the process that is locked in answers to a request."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            head, arrays = _run(asked, data)
    except Exception as error:  # runtimes have no common class of errors
        return {"fault": first_line(error, _LINE)}, ()
    return head, [np.ascontiguousarray(array).tobytes() for array in arrays]


def _run(wanted: Mapping[str, Any], data: bytes) -> tuple[Mapping[str, Any], Sequence[Array]]:
    """The head of the answer, and the outputs of all vectors."""
    runtime = RUNTIMES[wanted["runtime"]]
    at = wanted["model_bytes"]
    others = {}
    for name, size in wanted["others"]:
        others[name], at = data[at : at + size], at + size
    model = Model(data[: wanted["model_bytes"]], others, wanted["inputs"])
    inputs = []
    for each in wanted["inputs"]:
        shape, dtype = (wanted["count"], *each["shape"]), np.dtype(each["dtype"])
        array = None
        if each["state"] is None:
            array = np.frombuffer(data, dtype, prod(shape), at).reshape(shape)
            at += array.nbytes
        inputs.append(array)
    found: list[Sequence[Array]] = []
    begins = {0, *wanted["starts"]}
    for number in range(wanted["count"]):
        if number in begins:
            session = runtime.opened(model)
            states = [np.full(each["shape"], each["zero"], each["dtype"]) for each in wanted["inputs"]]
        outputs = session([states[i] if array is None else array[number] for i, array in enumerate(inputs)])
        for place, each in enumerate(wanted["inputs"]):
            if each["state"] is not None:
                states[place] = outputs[each["state"]].reshape(states[place].shape)
        found.append(outputs)
    stacked = [np.stack(each) for each in zip(*found, strict=True)]
    version = getattr(importlib.import_module(runtime.package), "__version__", "")
    said = [{"shape": list(each.shape[1:]), "dtype": each.dtype.name} for each in stacked]
    return {"version": str(version), "outputs": said}, stacked
