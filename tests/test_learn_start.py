"""First guesses for layers that moves make: regression is nearest to the old block, on samples that it has not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[slim]")

from shoehorn_mcu.ir import Graph  # noqa: E402
from shoehorn_mcu.learn import learner  # noqa: E402
from shoehorn_mcu.learn.start import FIRSTS, ridge  # noqa: E402
from shoehorn_mcu.ops import LinearOp  # noqa: E402
from shoehorn_mcu.slim.fault import SlimError  # noqa: E402
from shoehorn_mcu.slim.learner import Samples  # noqa: E402
from shoehorn_mcu.slim.moved import Born, Moved, Part  # noqa: E402
from shoehorn_mcu.slim.moves import moves  # noqa: E402
from tests.learn_nets import PLAIN, Net, Reals, apart, computed, constants, images, rich_net  # noqa: E402

OLD = rich_net()
SEEN, UNSEEN = Samples(images(300).x, None), images(16, seed=1).x


def _error(old: Graph, moved: Moved, graph: Graph, x: Reals) -> float:
    """How far the born layers are from what they stand for, relative to how much that varies."""
    errors = []
    for born in moved.born:
        layer = next(op for op in graph.ops if op.name == born.layer)
        begin = 0
        for part in born.parts:
            if part.old is not None:
                mine = computed(graph, x, layer.output)[..., begin : begin + part.channels]
                its = computed(old, x, part.old)[..., part.first : part.first + part.channels]
                errors.append(float(np.square(mine - its).mean() / its.var()))
            begin += part.channels
    return float(np.mean(errors))


def _made(kind: str) -> list[Moved]:
    return [moved for moved in moves(OLD, [kind], 0.5) if any(part.old for born in moved.born for part in born.parts)]


@pytest.mark.parametrize("kind", ["streamline", "shrink", "branch", "unpool", "reduce", "prune"])
def test_regression_is_nearer_to_the_old_block_than_copied_or_random_weights(kind: str):
    made = _made(kind)
    assert made
    for moved in made[:2]:
        found = {first: learner().begin(OLD, moved, SEEN, first, 1) for first in FIRSTS}
        errors = {first: _error(OLD, moved, graph, UNSEEN) for first, graph in found.items()}

        assert errors["least-squares"] < 0.7 * min(errors["copy"], errors["random"]), (moved.name, errors)


def test_the_layers_that_are_not_born_and_the_parts_that_stay_keep_their_weights():
    (moved, *_) = _made("branch")
    (born,) = moved.born
    for first in ("least-squares", "random"):
        graph = learner().begin(OLD, moved, SEEN, first, 1)
        layer = next(op for op in graph.ops if op.name == born.layer)
        before, after = (each.tensors[layer.inputs[1]].data for each in (moved.graph, graph))
        at = 0
        for part in born.parts:
            same = np.array_equal(before[at : at + part.channels], after[at : at + part.channels])
            assert same == (part.old is None and first == "least-squares")
            at += part.channels
        others = [n for n, t in moved.graph.tensors.items() if n not in layer.inputs and t.data is not None]
        assert all(graph.tensors[n].data is moved.graph.tensors[n].data for n in others)


def test_a_random_start_of_all_layers_has_nothing_of_the_old_weights():
    layers = [op for op in OLD.ops if isinstance(op, LinearOp)]
    born = tuple(Born(op.name, (Part(OLD.tensors[op.output].type.shape[-1]),)) for op in layers)
    found = learner().begin(OLD, Moved("anew", "all", OLD, born, ()), SEEN, "random", 1)
    for op in layers:
        old, new = (graph.tensors[op.inputs[1]].data for graph in (OLD, found))
        fan_in = new.size // new.shape[op.channel_axis]
        assert abs(np.corrcoef(old.ravel(), new.ravel())[0, 1]) < 0.5
        assert new.size < 200 or 0.8 < float(np.square(new).mean() * fan_in / 2) < 1.25
        assert not found.tensors[op.inputs[2]].data.any()


def test_two_starts_are_equal_and_seeds_count():
    (moved, *_) = _made("shrink")
    for first in ("least-squares", "random"):
        a, b, c = (constants(learner().begin(OLD, moved, SEEN, first, seed)) for seed in (1, 1, 2))
        assert a == b and (first == "least-squares" or a != c)


def _again(net: Net, graph: Graph, at: int) -> Moved:
    """A move that makes nothing but a layer with other weights for what it computes already."""
    op = graph.ops[at]
    spoilt = {n: replace(graph.tensors[n], data=np.zeros_like(graph.tensors[n].data)) for n in op.inputs[1:]}
    channels = graph.tensors[op.output].type.shape[3]
    part = Part(channels, op.output, 0, (op.name,))
    return Moved("again", op.name, replace(graph, tensors={**graph.tensors, **spoilt}), (Born(op.name, (part,)),), ())


@pytest.mark.parametrize("kind", ["dense", "grouped", "depthwise", "strided", "rectified"])
def test_a_layer_that_can_compute_what_is_wanted_is_found_again(kind: str):
    net = Net(np.random.default_rng(3))
    x = net.input(1, 8, 8, 4)
    layers = {
        "dense": lambda: net.conv(x, 6, 3, PLAIN),
        "grouped": lambda: net.conv(x, 6, 3, PLAIN, groups=2),
        "depthwise": lambda: net.depthwise(x, multiplier=2, clamp=PLAIN),
        "strided": lambda: net.conv(x, 6, 2, PLAIN, stride=(2, 1), dilation=(1, 2)),
        "rectified": lambda: net.conv(x, 6, 3),
    }
    graph = net.graph(net.classes(layers[kind]()))
    samples = np.random.default_rng(0).normal(0, 1, (80, 8, 8, 4)).astype(np.float32)
    found = learner().begin(graph, _again(net, graph, 0), Samples(samples, None), "least-squares", 1)

    assert apart(computed(found, samples[:5]), computed(graph, samples[:5])) < 0.02


def test_ridge_takes_of_the_weights_that_are_there_what_explains_the_goal():
    """With as good as no rows, right weights stay and random ones go to nothing."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(0, 1, (1, 12, 40)))
    right, wrong = (torch.from_numpy(rng.normal(0, 1, (1, 40, 1))) for _ in range(2))
    goal = x @ right
    kept, _ = ridge(x, goal, right, 1.0)
    dropped, _ = ridge(x, goal, wrong, 1.0)

    assert torch.allclose(kept, right)
    assert float((dropped - right).norm()) < float((wrong - right).norm())


@pytest.mark.parametrize(
    ("first", "samples", "message"),
    [
        ("best", SEEN, "only least-squares, copy, random are known"),
        ("least-squares", Samples(SEEN.x[:0], None), "there are no samples"),
        ("least-squares", Samples(SEEN.x * np.float32(np.nan), None), "values that are not finite"),
    ],
)
def test_a_start_that_cannot_be_is_refused_in_one_line(first: str, samples: Samples, message: str):
    with pytest.raises(SlimError, match=message) as found:
        learner().begin(OLD, _made("shrink")[0], samples, first, 1)

    assert "\n" not in str(found.value)
