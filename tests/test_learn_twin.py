"""The torch twin of a graph computes what the graph computes, before a training and after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[slim]")

from shoehorn_mcu import ops  # noqa: E402
from shoehorn_mcu.importers.lowering import maps  # noqa: E402
from shoehorn_mcu.ir import DType, FileTensor, Graph, Tensor  # noqa: E402
from shoehorn_mcu.learn.exported import exported  # noqa: E402
from shoehorn_mcu.learn.fixed import fixed  # noqa: E402
from shoehorn_mcu.learn.formulas import NoGradientError, compiled  # noqa: E402
from shoehorn_mcu.learn.layers import Convolution, Normalised  # noqa: E402
from shoehorn_mcu.learn.twin import Twin, evaluated  # noqa: E402
from shoehorn_mcu.ops import functions as f  # noqa: E402
from shoehorn_mcu.ops.formula import Term, formula, parse  # noqa: E402
from shoehorn_mcu.slim.fault import SlimError  # noqa: E402
from shoehorn_mcu.slim.reading import read  # noqa: E402
from tests.imports import ROOT  # noqa: E402
from tests.learn_nets import PLAIN, RELU, Net, apart, computed, images, plain_net, random_net, rich_net  # noqa: E402
from tests.shared import MODELS, needs_shared  # noqa: E402

NEAR = 1e-4  # of the largest output


@pytest.fixture(autouse=True)
def _one_thread():
    with fixed(1):
        yield


def _samples(graph, count=3, seed=0):
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    return np.random.default_rng(seed).normal(0, 1, (count, *shape)).astype(np.float32)


def _outputs(twin, graph, x):
    return evaluated(twin, x, graph.outputs)[0].numpy()


def _one_step(twin, x):
    """A step of training that changes every weight."""
    twin.train()
    twin(torch.from_numpy(x)).square().sum().backward()
    torch.optim.SGD(twin.parameters(), lr=0.01).step()


@pytest.mark.parametrize("net", [plain_net, rich_net])
def test_a_program_for_pytorch_computes_what_the_graph_computes(net: Callable[[], Graph]):
    graph = net()
    ends = {name: in_channels_first(graph.tensors[name]) for name in graph.inputs}
    files = exported(graph, ends)
    program = torch.export.load(BytesIO(files[".pt2"]))
    x = _samples(graph, 5)
    found = program.module()(torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))))
    first = found[0] if isinstance(found, tuple) else found
    wanted = computed(graph, x)
    assert apart(first.detach().numpy().reshape(len(x), -1), wanted.reshape(len(x), -1)) < NEAR
    state = torch.load(BytesIO(files["-state.pt"]), weights_only=True)
    assert state.keys() == program.state_dict.keys()
    assert all(torch.equal(state[name], value) for name, value in program.state_dict.items())


def in_channels_first(tensor: Tensor) -> FileTensor:
    batch, height, width, channels = tensor.type.shape
    return FileTensor(tensor.name, replace(tensor.type, shape=(batch, channels, height, width)), (0, 2, 3, 1))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_twin_computes_what_the_ops_mean_before_and_after_a_training(seed: int):
    graph = random_net(seed)
    x = _samples(graph)
    wanted, twin = computed(graph, x), Twin(graph)

    assert apart(_outputs(twin, graph, x), wanted) < NEAR
    assert apart(computed(twin.graph(), x), wanted) < NEAR

    twin.settle(torch.from_numpy(x))
    assert apart(_outputs(twin, graph, x), wanted) < NEAR

    _one_step(twin, x)
    trained = twin.graph()
    assert apart(_outputs(twin, graph, x), computed(trained, x)) < NEAR
    assert {n: t.type for n, t in trained.tensors.items()} == {n: t.type for n, t in graph.tensors.items()}


def test_a_convolution_of_one_channel_to_one_column_is_right():
    """oneDNN 3.12 is wrong here where PyTorch takes the image for one whose channels come last."""
    net = Net(np.random.default_rng(0))
    x = net.conv(net.input(1, 7, 5, 1), 4, 5, PLAIN, stride=(1, 2), padding=ops.Padding(2, 2, 0, 0))
    graph = net.graph(x)
    samples = _samples(graph, 8)

    assert apart(_outputs(Twin(graph), graph, samples), computed(graph, samples)) < NEAR


_TRAIN_STRIDED = """
import numpy as np, torch
from shoehorn_mcu.learn.fixed import fixed
from shoehorn_mcu.learn.twin import Twin
from tests.learn_nets import PLAIN, Net
with fixed(1):
    for seed in range(200):
        rng = np.random.default_rng(seed)
        net = Net(rng)
        shape = (1, int(rng.integers(2, 9)), int(rng.integers(2, 99)), int(rng.integers(2, 5)))
        twin = Twin(net.graph(net.conv(net.input(*shape), 4, 1, PLAIN, stride=(int(rng.integers(1, 3)), 2))))
        twin.train()
        twin(torch.ones(3, *shape[1:])).square().sum().backward()
"""


def test_a_training_of_strided_1x1_filters_stays_in_its_memory():
    """oneDNN 3.12 writes beyond their gradients, mostly on processors without AVX-512: glibc aborts such a child."""
    narrow = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    child = subprocess.run([sys.executable, "-c", _TRAIN_STRIDED], env=narrow, cwd=ROOT, capture_output=True)
    assert child.returncode == 0, child.stderr[-400:]


def _onnx_with_lrn(path: Path) -> Path:
    """A model with ONNX's own LRN, a pool and an asymmetric padding."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    shapes = {"a": (12, 3, 3, 3), "a_bias": (12,), "b": (6, 12, 3, 3), "b_bias": (6,), "c": (5, 6), "c_bias": (5,)}
    held = [numpy_helper.from_array(rng.normal(0, 0.3, s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a", "a_bias"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["y"], ["z"]),
        helper.make_node("LRN", ["z"], ["n"], size=5, alpha=0.3, beta=0.75, bias=1.0),
        helper.make_node("MaxPool", ["n"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Conv", ["p", "b", "b_bias"], ["q"], pads=[0, 1, 1, 0], strides=[2, 2]),
        helper.make_node("Elu", ["q"], ["e"], alpha=0.7),
        helper.make_node("GlobalAveragePool", ["e"], ["m"]),
        helper.make_node("Flatten", ["m"], ["l"]),
        helper.make_node("Gemm", ["l", "c", "c_bias"], ["out"], transB=1),
        helper.make_node("Softmax", ["out"], ["s"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 3, 11, 11)), ("s", (1, 5)))]
    graph = helper.make_graph(nodes, "lrn", ends[:1], ends[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_model_with_local_response_normalisation_agrees_with_onnx_runtime(tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = _onnx_with_lrn(tmp_path / "lrn.onnx")
    graph = read(path).graph
    x = _samples(graph, 4)
    session = onnxruntime.InferenceSession(path)
    wanted = np.concatenate([session.run(None, {"x": each.transpose(2, 0, 1)[None]})[0] for each in x])

    assert apart(_outputs(Twin(graph), graph, x), wanted) < NEAR


@needs_shared
@pytest.mark.parametrize(
    "name", ["mlperf-ic-resnet8-f32.tflite", "resnet20-cifar10-f32.onnx", "mnv1-025-128-f32.tflite"]
)
def test_a_real_model_keeps_its_outputs_with_batch_normalisations_of_its_own(name: str):
    graph = read(MODELS / name).graph
    x = _samples(graph, 2)
    twin = Twin(graph)
    before = _outputs(twin, graph, x)
    twin.settle(torch.from_numpy(x))
    folded = twin.graph()

    assert apart(_outputs(twin, graph, x), before) < NEAR
    assert apart(_outputs(Twin(folded), folded, x), before) < NEAR
    if "resnet8" in name:
        assert apart(before[:1], computed(graph, x[:1])) < NEAR


def _elu(x: Term) -> Term:
    return (x < 0.0).select(0.7 * (f.exp(x) - 1.0), x)


_WRITTEN: dict[str, Callable[[Term], Term]] = {
    **{n: write for n, write in maps.UNARY.items() if n not in ("BitwiseNot", "Not", "IsNaN", "Sign")},
    "Elu": _elu,
    "Swish": lambda x: x * f.sigmoid(x * 1.5),
    "Gelu": lambda x: 0.5 * x * (1.0 + f.erf(x * 0.707106781)),
    "Gelu by tanh": lambda x: 0.5 * x * (1.0 + f.tanh((x * x * x * 0.044715 + x) * 0.797884561)),
    "power": lambda x: f.power(x * x + 1.0, x.constant(-0.75)),
    "power by another": lambda x: f.power(abs(x) + 0.5, x),
    "power of a half": lambda x: f.power(abs(x) + 0.5, x.constant(0.5)),
}
_DOMAINS = {
    "Acosh": (1.1, 3),
    "Log": (0.1, 3),
    "Sqrt": (0.1, 3),
    "Acos": (-0.9, 0.9),
    "Asin": (-0.9, 0.9),
    "Atanh": (-0.9, 0.9),
}


@pytest.mark.parametrize("name", _WRITTEN)
def test_a_function_of_bits_has_its_value_and_its_gradient(name: str):
    """A gradient is compared with quotients of differences of the formula itself, in float32."""
    text = formula(_WRITTEN[name], DType.FLOAT32).text
    low, high = _DOMAINS.get(name, (-1.4, 1.4))
    x, step = np.linspace(low, high, 32, dtype=np.float32), np.float32(2e-3)  # none is next to a bend at 0
    given_x = torch.from_numpy(x).requires_grad_()
    y = compiled(text)(given_x)
    y.sum().backward()
    about = (parse(text)(x + step) - parse(text)(x - step)) / (2 * step)

    assert np.allclose(y.detach().numpy(), parse(text)(x), rtol=1e-5, atol=1e-6)
    assert np.allclose(given_x.grad.numpy(), about, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize(
    "write", [f.exp, f.tanh, f.sigmoid, _elu, f.softplus, lambda x: f.power(abs(x) + 1.0, x.constant(0.75))]
)
def test_no_gradient_is_nan_for_large_values(write: Callable[[Term], Term]):
    x = torch.tensor([-300.0, -89.0, 0.5, 86.0, 300.0], requires_grad=True)
    compiled(formula(write, DType.FLOAT32).text)(x).sum().backward()

    assert x.grad.isfinite().all()


@pytest.mark.parametrize("write", [f.floor, f.round_even, f.sign, lambda x: (x < 1.0).select(2.0, x.constant(3.0))])
def test_a_function_that_jumps_has_no_gradient(write: Callable[[Term], Term]):
    with pytest.raises(NoGradientError):
        compiled(formula(lambda x: write(x) * 2.0, DType.FLOAT32).text)


def test_an_op_without_a_gradient_is_refused_by_its_name():
    net = Net(np.random.default_rng(0))
    x = net.map(f.round_even, net.conv(net.input(1, 4, 4, 2), 3))
    graph = net.graph(net.classes(x, 2), name="steps")

    with pytest.raises(SlimError, match=r"^steps: op 'op\d+' \(Map\) .* can be retrained$"):
        Twin(graph)


def test_constants_that_several_layers_read_stay_one():
    net = Net(np.random.default_rng(0))
    shared, bias, other = net.constant(4, 3, 3, 4, scale=0.2), net.constant(4), net.constant(1, 3, 3, 4, scale=0.2)
    pad, x = ops.Padding(1, 1, 1, 1), net.input(1, 6, 6, 4)
    for kind, weights in ((ops.Conv2d, shared), (ops.Conv2d, shared), (ops.DepthwiseConv2d, other)):
        x = net.add(kind, x, weights, bias, clamp=RELU, padding=pad)
    graph = net.graph(net.classes(net.conv(x, 3), 3))
    twin = Twin(graph)
    first, second, third, alone = (twin.layer(op.name) for op in graph.ops[:4])
    samples = _samples(graph, 8)
    _one_step(twin, samples)
    trained = twin.graph()

    assert type(first) is Convolution and type(alone) is Normalised
    assert first.weight is second.weight and first.bias is second.bias is third.bias
    assert [op.inputs for op in trained.ops] == [op.inputs for op in graph.ops]
    assert not np.array_equal(trained.tensors[bias].data, graph.tensors[bias].data)
    assert apart(_outputs(twin, graph, samples), computed(trained, samples)) < NEAR


def test_weights_that_are_read_in_two_ways_are_refused_by_both_names():
    net = Net(np.random.default_rng(0))
    weights = net.constant(1, 3, 3, 1)
    x = net.add(
        ops.Conv2d, net.input(1, 6, 6, 1), weights, net.constant(1), clamp=RELU, padding=ops.Padding(), name="a"
    )
    x = net.add(ops.DepthwiseConv2d, x, weights, net.constant(1), clamp=RELU, padding=ops.Padding(), name="b")
    graph = net.graph(net.classes(x, 2))

    with pytest.raises(SlimError, match="ops 'a' and 'b' read the constant"):
        Twin(graph)


def test_batch_normalisations_have_the_statistics_of_the_samples():
    """A pass of training over the very samples that they were settled by gives what evaluation gives."""
    graph = rich_net()
    x = torch.from_numpy(images(300).x)
    twin = Twin(graph)
    twin.settle(
        x[:256],
    )
    twin.eval()
    with torch.no_grad():
        wanted = twin(x[:256])
        twin.train()
        found = twin(x[:256])

    assert apart(found.numpy(), wanted.numpy()) < 1e-3


def test_a_rate_means_the_same_for_a_network_whose_input_is_scaled():
    """The weights that are trained are those of He et al. whatever the scale of the graph's own."""
    net = Net(np.random.default_rng(0))
    graph = net.graph(net.classes(net.conv(net.input(1, 6, 6, 2), 16), 3))
    name = graph.ops[0].inputs[1]
    larger = {
        **graph.tensors,
        name: type(graph.tensors[name])(name, graph.tensors[name].type, graph.tensors[name].data * 255),
    }
    twins = [Twin(graph), Twin(type(graph)(graph.name, larger, graph.ops, graph.inputs, graph.outputs))]
    a, b = (twin.layer(graph.ops[0].name).weight for twin in twins)

    assert torch.allclose(a, b, rtol=1e-5)
    assert abs(float(a.detach().square().mean()) * 18 / 2 - 1) < 1e-5


def test_ops_that_are_free_are_computed_without_their_bounds():
    net = Net(np.random.default_rng(0))
    inner = net.conv(net.input(1, 6, 6, 2), 4)
    graph = net.graph(net.pool(inner, size=2, padding=ops.Padding()))
    x = _samples(graph)
    twin = Twin(graph)
    bounded, free = (evaluated(twin, x, (inner,), each)[0] for each in ((), (graph.ops[0].name,)))

    assert (bounded == 0).any() and (free < 0).any()
    assert torch.equal(free.clamp(min=0), bounded)


def test_scores_are_what_a_softmax_at_the_end_is_made_of():
    net = Net(np.random.default_rng(0))
    logits = net.classes(net.conv(net.input(1, 6, 6, 2), 4, clamp=PLAIN), 3)
    graph = net.graph(net.add(ops.Softmax, logits, beta=2.0))
    x = torch.from_numpy(_samples(graph))
    twin = Twin(graph).eval()

    assert torch.allclose(torch.softmax(twin.scores(x), 1), twin(x), atol=1e-6)
    assert torch.equal(twin.scores(x), 2 * twin.evaluate((x,), (logits,))[0].flatten(1))


def test_a_twin_of_the_plain_network_has_a_gradient_for_every_parameter():
    twin = Twin(plain_net())
    twin(torch.from_numpy(images(8).x)).square().sum().backward()

    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in twin.parameters())
