"""The list of ops that a file may have, against the exporters of the installed PyTorch."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from shoehorn_mcu.importers.torch import ops

_PACKED = r"quantized::(conv|linear)\w*"  # read an object that holds weights, which no file may have
_TRAINING = r"aten::hardtanh_backward"
_OTHERS = r"onnx::Placeholder|onnx_symbolic::.*|prims::resize\b.*"  # of the exporters themselves, or no computation
_IN_PLACE = r"aten::__\w+[a-z]_"  # names that one exporter has by mistake: `__and_` is `__and__`


@pytest.mark.parametrize(
    "name", ["save", "load", "from_file", "_print", "set_data", "wait", "record_stream", "pin_memory"]
)
def test_no_op_is_known_that_touches_more_than_tensors(name: str) -> None:
    assert not any(ops.is_known(space, name) for space in ops.KNOWN)


@pytest.mark.parametrize(
    "kind", ["prim::PythonOp", "prim::fork", "prim::CallMethod", "prim::rpc_sync", "mine::relu", "::"]
)
def test_other_kinds_are_not_known(kind: str) -> None:
    space, _, name = kind.partition("::")
    assert not ops.is_known(space, name)


@pytest.mark.parametrize(
    "name", ["conv2d", "relu_", "_softmax", "__and__", "add", "add_", "_native_batch_norm_legit_no_training"]
)
def test_ops_of_models_are_known(name: str) -> None:
    assert ops.is_known("aten", name)


def test_what_the_exporters_know_is_known() -> None:
    pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[torch]")
    pytest.importorskip("onnxscript", reason="needs the extra shoehorn-mcu[torch]")
    older = importlib.import_module("torch.onnx._internal.torchscript_exporter")
    for each in pkgutil.iter_modules(older.__path__):
        importlib.import_module(f"{older.__name__}.{each.name}")
    registry = importlib.import_module("torch.onnx._internal.torchscript_exporter.registration").registry
    newer = importlib.import_module("torch.onnx._internal.exporter._registration").ONNXRegistry.from_torchlib()
    names = {*registry._registry, *map(str, newer.functions)}
    kinds = {name.partition(".")[0] for name in names if re.fullmatch(r"\w+::\w+(\.\w+)?", name)}
    assert len(kinds) > 500

    unknown = {kind for kind in kinds if not ops.is_known(*kind.split("::"))}
    left_out = "|".join((_PACKED, _TRAINING, _OTHERS, _IN_PLACE))
    assert {kind for kind in unknown if not re.fullmatch(left_out, kind)} == set()
