"""Training: what it learns, and that a training which is stopped or killed goes on to the same bytes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[slim]")

from shoehorn_mcu import ops  # noqa: E402
from shoehorn_mcu.ir import Graph  # noqa: E402
from shoehorn_mcu.learn import checkpoint, learner  # noqa: E402
from shoehorn_mcu.learn.augment import augmentation  # noqa: E402
from shoehorn_mcu.learn.by_torch import trained_by  # noqa: E402
from shoehorn_mcu.learn.fixed import generator  # noqa: E402
from shoehorn_mcu.quantisation.exported import as_onnx  # noqa: E402
from shoehorn_mcu.slim.fault import SlimError  # noqa: E402
from shoehorn_mcu.slim.learner import Samples, Schedule, Trained, Watch  # noqa: E402
from shoehorn_mcu.slim.moves import moves  # noqa: E402
from tests.learn_nets import (  # noqa: E402
    SHORT,
    Net,
    apart,
    block_net,
    computed,
    constants,
    images,
    plain_net,
    rich_net,
    short_training,
)

ROOT = Path(__file__).resolve().parents[1]
TRAIN, SEEN, TEST = images(640), images(100, seed=1), images(300, seed=2)
NET = plain_net()


def _accuracy(graph: Graph, samples: Samples = TEST) -> float:
    assert samples.y is not None
    return float((learner().outputs(graph, samples).argmax(1) == samples.y).mean())


def _trained(
    graph: Graph, schedule: Schedule, teacher: Graph | None = None, train: Samples = TRAIN, watch: Watch | None = None
) -> Trained:
    validation = SEEN if train.y is not None else replace(SEEN, y=None)
    return learner().train(graph, (), teacher, train, validation, schedule, watch or Watch())


@pytest.fixture(scope="module")
def taught() -> Graph:
    """A network that has learned the classes."""
    return _trained(NET, Schedule(8, 1e-2, batch=32)).graph


def test_a_training_learns_and_its_graph_computes_what_its_outputs_are(taught: Graph):
    assert _accuracy(NET) < 0.3 and _accuracy(taught) > 0.9
    assert apart(learner().outputs(taught, Samples(TEST.x[:4], None)), computed(taught, TEST.x[:4])) < 1e-4


def test_an_export_of_what_was_trained_agrees_in_onnx_runtime(taught: Graph):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(as_onnx(taught).SerializeToString())
    (name,) = taught.inputs
    found = np.concatenate([session.run(None, {name: each[None]})[0] for each in TEST.x[:20]])

    assert apart(found, learner().outputs(taught, Samples(TEST.x[:20], None))) < 1e-4


def test_digits_are_learned_and_a_shrunk_network_learns_them_again_from_its_original():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    x = ((digits.images - 4.9) / 6).astype(np.float32)[..., None]
    order = np.random.default_rng(0).permutation(len(x))
    parts = [
        Samples(x[at], digits.target[at].astype(np.int64)) for at in (order[:1200], order[1200:1437], order[1437:])
    ]
    train, validation, test = parts
    original = learner().train(block_net(), (), None, train, validation, Schedule(5, 1e-2, batch=32), Watch()).graph
    moved = max(moves(original, ["shrink"], 0.5), key=lambda each: len(each.gone))
    begun = learner().begin(original, moved, train, "least-squares", 1)
    born = tuple(each.layer for each in moved.born)
    unlabelled = [replace(each, y=None) for each in (train, validation)]
    again = learner().train(begun, born, original, *unlabelled, Schedule(4, 2e-3, 5.0, batch=32), Watch()).graph
    accuracies = [_accuracy(each, test) for each in (original, moved.graph, begun, again)]

    assert accuracies[0] > 0.93
    assert accuracies[1] < accuracies[2] and accuracies[3] > accuracies[0] - 0.05, accuracies


def test_distillation_without_labels_makes_a_network_agree_with_its_teacher(taught: Graph):
    """The student sees no label; agreement is counted on samples that neither has seen."""
    train = replace(TRAIN, y=None)
    student = plain_net(seed=5, channels=6)
    said = learner().outputs(taught, TEST).argmax(1)
    before, after = (
        float((learner().outputs(graph, TEST).argmax(1) == said).mean())
        for graph in (student, _trained(student, Schedule(12, 3e-2, batch=32), taught, train).graph)
    )

    assert before < 0.3 and after > 0.85


def test_a_channel_that_never_varies_gets_no_weights():
    """Its batch normalisation would make weights of hundreds of a variance of 0."""
    net = Net(np.random.default_rng(0))
    x = net.conv(net.input(1, 8, 8, 1), 6)
    graph = net.graph(net.classes(net.depthwise(x)))
    wide = next(node for node in graph.nodes() if isinstance(node.op, ops.Conv2d))
    bias = np.where(np.arange(6) == 2, np.float32(-1000), wide.bias.data)  # the rectifier never lets it through
    graph = replace(graph, tensors={**graph.tensors, wide.bias.name: replace(wide.bias, data=bias)})
    made = _trained(graph, Schedule(4, 2e-3)).graph
    (node,) = (node for node in made.nodes() if isinstance(node.op, ops.DepthwiseConv2d))
    assert node.weights.data is not None
    largest = np.abs(node.weights.data).max((0, 1, 2))
    assert largest[2] == 0 and (np.delete(largest, 2) > 0).all() and largest.max() < 20
    assert apart(learner().outputs(made, TEST)[:5], computed(made, TEST.x[:5])) < 1e-4


def test_born_layers_learn_at_the_new_rate():
    """AdamW's first steps have the size of the rate, whatever the gradient."""
    name = NET.ops[1].name
    train = Samples(TRAIN.x[:32], TRAIN.y[:32])
    schedule = Schedule(1, 1e-4, new_rate=20.0, batch=32)
    moved = {}
    for born in ((), (name,)):
        graph = learner().train(NET, born, None, train, SEEN, schedule, Watch()).graph
        for op in graph.ops[:2]:
            weights = [each.tensors[op.inputs[1]].data for each in (NET, graph)]
            moved[born, op.name] = float(np.abs(weights[1] - weights[0]).mean())

    assert moved[(name,), name] > 10 * moved[(), name]
    assert moved[(name,), NET.ops[0].name] == pytest.approx(moved[(), NET.ops[0].name], rel=0.01)


def test_two_trainings_are_equal_to_the_last_bit_and_seeds_count():
    a, b, c = (short_training(Watch(), seed=seed) for seed in (3, 3, 4))

    assert constants(a.graph) == constants(b.graph) != constants(c.graph)
    assert (a.losses, a.validation) == (b.losses, b.validation)


def _stops_after(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is None


def test_a_training_that_is_stopped_at_any_batch_goes_on_to_the_same_bytes(tmp_path: Path):
    whole = short_training(Watch())
    rng = np.random.default_rng(0)
    path, stops = tmp_path / "resume", 0
    while True:
        found = short_training(Watch(stop=_stops_after(int(rng.integers(0, 4))), checkpoint=path))
        if not found.stopped:
            break
        stops += 1
    again = short_training(Watch(checkpoint=path))

    assert stops >= 3
    for each in (found, again):
        assert constants(each.graph) == constants(whole.graph)
        assert (each.losses, each.validation, each.stopped) == (whole.losses, whole.validation, False)


_CHILD = """
import os, sys
from pathlib import Path
from tests.learn_nets import short_training
from shoehorn_mcu.slim.learner import Watch
short_training(Watch(stop=lambda: True))  # loads what the children need
for _ in sys.stdin:  # each line begins the training in a child of its own
    child = os.fork()
    if child == 0:
        short_training(Watch(checkpoint=Path(sys.argv[1])), every=0)
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


def _wait_for_writes(path: Path, child: int, count: int) -> None:
    """Until the checkpoint has been written so many times, or the child is no more."""
    seen = set[tuple[int, int]]()
    with suppress(ProcessLookupError):
        while len(seen) <= count:
            if path.exists():
                found = path.stat()
                seen.add((found.st_ino, found.st_mtime_ns))
            time.sleep(0.002)
            os.kill(child, 0)


def test_a_training_that_is_killed_goes_on_to_the_same_bytes(tmp_path: Path):
    path, rng, kills = tmp_path / "resume", np.random.default_rng(0), 0
    places = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-c", _CHILD, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **places}
    ) as served:
        assert served.stdin is not None and served.stdout is not None
        for _ in range(4):
            served.stdin.write("begin\n")
            served.stdin.flush()
            child = int(served.stdout.readline())
            _wait_for_writes(path, child, int(rng.integers(1, 4)))
            time.sleep(float(rng.uniform(0, 0.01)))
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
                kills += 1
            assert served.stdout.readline() == "ended\n"
        served.stdin.close()
    begun = path.exists()
    found = short_training(Watch(checkpoint=path))

    assert begun and kills >= 2
    assert constants(found.graph) == constants(short_training(Watch()).graph)


@pytest.mark.parametrize("what", ["samples", "rate"])
def test_a_loss_that_is_not_finite_ends_a_training_with_the_graph_from_before(what: str):
    x = TRAIN.x.copy()
    if what == "samples":
        x[5] = np.nan
    schedule = Schedule(2, 1e-3 if what == "samples" else 1e18, batch=32)
    found = _trained(NET, schedule, train=Samples(x, TRAIN.y))

    assert found.diverged and not found.stopped and found.graph is NET


def test_patience_ends_a_training_and_keeps_the_best_epoch():
    """With labels by chance there is nothing to learn but the training samples themselves."""
    rng = np.random.default_rng(0)
    train, validation = (Samples(each.x, rng.integers(0, 10, len(each))) for each in (TRAIN, SEEN))
    found = learner().train(NET, (), None, train, validation, Schedule(40, 2e-2, patience=2, batch=32), Watch())
    best = int(np.argmin(found.validation))
    scores = learner().outputs(found.graph, validation).astype(np.float64)
    chance = np.exp(scores - scores.max(1, keepdims=True))
    loss = -np.log(chance / chance.sum(1, keepdims=True))[np.arange(len(scores)), validation.y].mean()

    assert len(found.losses) == len(found.validation) == best + 3 < 40
    assert loss == pytest.approx(found.validation[best], rel=1e-4)


def test_what_is_done_is_said_with_its_share():
    said: list[tuple[str, float]] = []
    short_training(Watch(say=lambda text, share: said.append((text, share))))
    shares = [share for _, share in said]

    assert said[0][0].startswith("epoch 1 of 2, loss ") and said[-1][0].startswith("epoch 2 of 2, loss ")
    assert shares == sorted(shares) and 0 < shares[0] < 0.5 and shares[-1] == 1 and len(shares) == 12


def _full(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint.os, "fsync", fails)


def test_a_full_disk_is_said_in_one_line_and_the_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, said = tmp_path / "resume", list[str]()
    short_training(Watch(stop=_stops_after(3), checkpoint=path))
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        _full(patched)
        found = short_training(Watch(say=lambda text, _: said.append(text), checkpoint=path), every=0)
        with pytest.raises(SlimError, match="cannot be written: No space left on device") as stopped:
            short_training(Watch(stop=lambda: True, checkpoint=path))

    assert f"{path}: the checkpoint cannot be written: No space left on device" in said
    assert constants(found.graph) == constants(short_training(Watch()).graph)
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
    assert "\n" not in str(stopped.value)


@pytest.mark.parametrize("damage", ["another training", "cut", "empty", "text"])
def test_a_file_that_is_no_checkpoint_of_the_training_is_refused_by_its_name(tmp_path: Path, damage: str):
    path = tmp_path / "resume"
    short_training(Watch(stop=lambda: True, checkpoint=path), seed=8 if damage == "another training" else 3)
    held = path.read_bytes()
    path.write_bytes({"cut": held[: len(held) // 2], "empty": b"", "text": b"hello"}.get(damage, held))

    with pytest.raises(SlimError, match=r"resume: is no checkpoint of this training; remove it to begin anew$"):
        short_training(Watch(checkpoint=path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": replace(TRAIN, y=None)}, "no labels, and there is no teacher"),
        ({"train": Samples(TRAIN.x[:1], TRAIN.y[:1])}, "batches of 2 samples"),
        ({"train": Samples(TRAIN.x[:, :6], TRAIN.y)}, "samples are 6x8x1, the network takes 8x8x1"),
        ({"train": Samples(TRAIN.x, TRAIN.y + 1)}, "labels are from 1 to 10, the network has the classes 0 to 9"),
        ({"train": Samples(TRAIN.x, TRAIN.y[1:])}, "640 samples and 639 labels"),
        ({"born": ("head",)}, "has no layer 'head' with weights"),
        ({"schedule": replace(SHORT, augment=("turn",))}, "'turn' is unknown"),
        ({"teacher": rich_net(), "schedule": replace(SHORT, distil=0.0)}, ""),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(change: dict[str, object], message: str):
    given = {"graph": NET, "born": (), "teacher": None, "train": TRAIN, "validation": SEEN, "schedule": SHORT, **change}
    given["watch"] = Watch(stop=lambda: True)
    if not message:  # a teacher that has no share is not asked
        assert learner().train(**given).stopped
        return
    with pytest.raises(SlimError, match=message) as found:
        learner().train(**given)

    assert "\n" not in str(found.value)


def test_images_are_moved_by_at_most_two_pixels_and_their_edges_repeated():
    x = torch.arange(32.0 * 24).reshape(1, 32, 24, 1).repeat(200, 1, 1, 1)
    moved, _ = augmentation(("shift",), (32, 24, 1), 10)(x, None, generator(1, 0))
    mirrored, _ = augmentation(("flip",), (32, 24, 1), 10)(x, None, generator(1, 0))
    rows, columns = moved[:, 16, 12, 0] // 24 - 16, moved[:, 16, 12, 0] % 24 - 12

    assert {*rows.tolist()} == {*columns.tolist()} == {-2, -1, 0, 1, 2}
    assert moved.min() == 0 and moved.max() == 32 * 24 - 1
    both = {tuple(each[0, :, 0].tolist()) for each in mirrored}
    assert both == {tuple(x[0, 0, :, 0].tolist()), tuple(x[0, 0, :, 0].flip(0).tolist())}


def test_half_of_the_samples_are_mixed_with_others_and_so_are_their_labels():
    x, y = torch.eye(1000), torch.arange(1000)
    mixed, shares = augmentation(("mix",), (1000,), 1000)(x, y, generator(1, 0))

    assert shares is not None and torch.equal(mixed, shares)  # sample i is class i
    assert torch.allclose(mixed.sum(1), torch.ones(1000)) and mixed.min() >= 0
    own, whole = mixed.diagonal(), (mixed == 1).any(1)
    assert 0.45 < whole.float().mean() < 0.55 and torch.equal(whole, own == 1)
    assert ((mixed > 0).sum(1) <= 2).all()
    assert own[~whole].min() < 0.05 and own[~whole].max() > 0.95 and 0.45 < own[~whole].mean() < 0.55
    others = mixed.clone().fill_diagonal_(0).argmax(1)[~whole]
    assert len(others.unique()) == len(others)
    assert augmentation(("mix",), (1000,), 1000)(x, None, generator(1, 0))[1] is None


def test_a_mixed_sample_is_taught_by_the_share_of_its_labels():
    """A network that learns from mixed samples alone learns the classes of whole ones."""
    schedule = Schedule(epochs=15, rate=8e-3, batch=32, augment=("mix",))
    found = learner().train(NET, (), None, TRAIN, SEEN, schedule, Watch())
    right = learner().outputs(found.graph, SEEN).reshape(len(SEEN), -1).argmax(1) == SEEN.y

    assert right.mean() > 0.9


def test_a_loop_of_the_user_s_own_trains_the_module():
    y = torch.from_numpy(TRAIN.y)

    def retrain(module: torch.nn.Module, schedule: Schedule) -> None:
        optimiser = torch.optim.SGD(module.parameters(), lr=schedule.rate, momentum=0.9)
        for _ in range(schedule.epochs):
            for at in torch.arange(len(y)).split(32):
                optimiser.zero_grad()
                module.train()
                torch.nn.functional.cross_entropy(module(torch.from_numpy(TRAIN.x)[at]), y[at]).backward()
                optimiser.step()

    mine = trained_by(retrain)
    found = mine.train(NET, (), None, TRAIN, SEEN, Schedule(8, 5e-2), Watch())
    spoilt = trained_by(lambda module, _: module.layer(NET.ops[0].name).weight.data.fill_(np.nan))

    assert _accuracy(found.graph) > 0.85 and not found.stopped
    assert spoilt.train(NET, (), None, TRAIN, SEEN, SHORT, Watch()).diverged


def test_without_pytorch_a_learner_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("shoehorn_mcu.learn.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("shoehorn_mcu.learn.by_torch")
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(SlimError, match=r"needs PyTorch: `pip install shoehorn-mcu\[slim\]` installs it$"):
        learner()


@pytest.mark.parametrize(("options", "message"), [({"device": "moon"}, "'moon'"), ({"threads": 0}, "at least 1")])
def test_a_device_or_number_of_threads_that_is_not_there_is_refused(options: dict[str, object], message: str):
    with pytest.raises(SlimError, match=message):
        learner(**options)


def test_a_network_of_two_inputs_needs_a_loop_of_its_own():
    net = Net(np.random.default_rng(0))
    graph = net.graph(net.classes(net.plus(net.conv(net.input(1, 8, 8, 1), 4), net.conv(net.input(1, 8, 8, 1), 4))))

    with pytest.raises(SlimError, match="has 2 inputs"):
        learner().train(graph, (), None, TRAIN, SEEN, SHORT, Watch())
