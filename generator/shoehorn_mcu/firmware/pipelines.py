"""Two models as one graph: a front end that makes features of samples, and a model that decides by several of them.

The graph's input is the samples that are new since the inference before. Windows over the samples and over the features
are states, so planner, kernels, checks and host tools see one model with states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import Array, Graph, Op, Quant, State, Tensor, TensorType, verify
from shoehorn_mcu.ir.edit import numbered_name
from shoehorn_mcu.ops import Concat, Relabel, Reshape, Slice, Slide
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu_host.base.words import counted


class PipelineError(ShoehornError):
    """Two models cannot be joined; one line says why."""

    kind = "pipeline"


@dataclass(frozen=True)
class Strides:
    """How windows move; None: the default of `pipeline`."""

    samples: int | None = None  # from the begin of a slice to that of the next
    slices: int | None = None  # new ones in an inference


DEFAULT = Strides()


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The graph of both models, and what was decided, in words."""

    graph: Graph
    notes: tuple[str, ...]


def pipeline(front: Graph, wake: Graph, strides: Strides = DEFAULT, seen: int | None = None) -> Pipeline:
    """The samples go through `front` slice by slice, and its features of the last slices through `wake`.

    `front` maps samples to one vector of features; `wake` takes a whole number of such vectors. A model that keeps
    states is given only new slices, as many as it takes, in an inference; any other one new slice, or `strides.slices`.
    Slices begin `strides.samples` apart, or two thirds of a slice (TFLite Micro's micro_speech: 20 of 30 ms).
    `front` runs once for each new slice; its states go from one run to the next. Before the first samples all samples
    are 0, and all features what `wake`'s input has for 0. Features are given as they are stored where one of both has
    no scale. `seen`: the slices that `wake` decides by, where it keeps rows of the earlier ones. Raises PipelineError.
    """
    samples, features = _ends(front, "front end")
    given, _ = _ends(wake, "model behind it")
    window = samples.type.elements
    if samples.type.shape[-1:] != (window,):
        raise PipelineError(f"{front.name}: its input {_named(samples)} is no vector of samples")
    slices, rest = divmod(given.type.elements, features.type.elements)
    if rest:  # also where there are fewer than one vector has
        raise PipelineError(
            f"{wake.name}: its input {_named(given)} is no whole number of vectors of {features.type.elements} "
            f"features, which {front.name} gives"
        )
    quant, junction = _junction(front, features, wake, given)
    stride = strides.samples or max(1, window * 2 // 3)
    if stride > window:
        raise PipelineError(f"--stride {stride}: a slice of {front.name} has {window} samples; give no more")
    fresh = strides.slices or (slices if wake.states else 1)
    if fresh > slices or (wake.states and fresh != slices):
        why = "keeps what it needs of earlier ones in its states; leave the option out" if wake.states else "at most"
        raise PipelineError(f"--slices {fresh}: {wake.name} takes {slices} slices and {why}")
    net = _Net(f"{front.name}_{wake.name}")
    whole = net.samples(samples, stride, fresh)
    vectors = [
        net.vector(part)
        for part in net.run_often(front, [net.cut(whole, samples.type, i * stride) for i in range(fresh)])
    ]
    new = net.joined(vectors)
    held = replace(given.type, shape=(1, given.type.elements), quant=quant)
    labelled = net.labelled(new, quant)
    row = labelled if fresh == slices else net.window("features", held, labelled)
    outputs = net.run(wake, "", {given.name: net.shaped(row, given.type.shape)})
    net.states += (State(outputs[s.read], outputs[s.write], outputs[s.initial]) for s in wake.states)
    notes = (
        f"each inference takes {net.tensors[net.inputs[0]].type.elements} samples: {counted(fresh, 'new slice')} of "
        f"{window}, {stride} apart, of the {seen or slices} that {wake.name} sees",
        *junction,
    )
    ends = tuple(net.inputs), (outputs[wake.outputs[0]],)
    graph = Graph(net.name, net.tensors, tuple(net.ops), *ends, tuple(net.states))
    return Pipeline(verify(graph), notes)


def _named(tensor: Tensor) -> str:
    return f"{quoted(tensor.name)}, {tensor.type},"


def _ends(graph: Graph, role: str) -> tuple[Tensor, Tensor]:
    """The one input and the one output of a model."""
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise PipelineError(
            f"{graph.name}: has {counted(len(graph.inputs), 'input')} and {counted(len(graph.outputs), 'output')}; "
            f"as the {role} of a pipeline it needs one of each"
        )
    return graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]


def _junction(front: Graph, features: Tensor, wake: Graph, given: Tensor) -> tuple[Quant | None, tuple[str, ...]]:
    """The quantisation that features have, and what the user should know of it."""
    made, taken = features.type, given.type
    if made.dtype is not taken.dtype:
        raise PipelineError(
            f"{wake.name}: its input is {taken.dtype.value}, and the features of {front.name} are {made.dtype.value}"
        )
    if made.quant == taken.quant:
        return taken.quant, ()
    if made.quant is not None and taken.quant is not None:
        ours, theirs = (f"scale {q.scales[0]:.6g} and zero point {q.zero_points[0]}" for q in (made.quant, taken.quant))
        raise PipelineError(
            f"{wake.name}: its input has {theirs}, and the features of {front.name} have {ours}; convert one of both "
            "with the other's scale"
        )
    without = front.name if made.quant is None else wake.name
    return taken.quant, (f"the features are given as they are stored: {without} says no scale for them",)


@dataclass
class _Net:
    """The parts of the joined graph so far."""

    name: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def _add(self, name: str, kind: TensorType, data: Array | None = None) -> str:
        free = numbered_name(self.tensors, name)
        self.tensors[free] = Tensor(free, kind, data)
        return free

    def _emit(self, op: type[Op], name: str, kind: TensorType, *inputs: str, **fields: object) -> str:
        """The output of a new op, both of this name."""
        output = self._add(name, kind)
        self.ops.append(op(name=f"{output}_{op.__name__.lower()}", inputs=inputs, output=output, **fields))
        return output

    def samples(self, slice_: Tensor, stride: int, fresh: int) -> str:
        """All samples that the slices of an inference have; the new ones are the graph's input."""
        count = slice_.type.elements + (fresh - 1) * stride
        given = self._add("samples", replace(slice_.type, shape=(1, fresh * stride)))
        self.inputs.append(given)
        if count == fresh * stride:
            return given
        kind = replace(slice_.type, shape=(1, count))
        return self.window("heard", kind, given)

    def window(self, name: str, kind: TensorType, new: str) -> str:
        """The last elements of a stream in one tensor: those that a state keeps, at first zeros, then the new ones."""
        before = self._add(f"{name}_before", kind)
        first = self._add(f"{name}_at_rest", kind, kind.zeros())
        now = self._emit(Slide, name, kind, before, new)
        self.states.append(State(before, now, first))
        return now

    def cut(self, whole: str, kind: TensorType, begin: int) -> str:
        """The slice that begins with this sample."""
        found = whole
        if self.tensors[whole].type.elements != kind.elements:
            part = replace(kind, shape=(1, kind.elements))
            found = self._emit(Slice, "slice", part, whole, begin=(0, begin), size=(1, kind.elements), step=(1, 1))
        return self.shaped(found, kind.shape)

    def shaped(self, name: str, shape: tuple[int, ...]) -> str:
        """The tensor in this shape."""
        held = self.tensors[name].type
        if held.shape == shape:
            return name
        return self._emit(Reshape, f"{name}_shaped", replace(held, shape=shape), name, shape=shape)

    def vector(self, name: str) -> str:
        """The tensor as one row."""
        return self.shaped(name, (1, self.tensors[name].type.elements))

    def joined(self, rows: list[str]) -> str:
        """Rows one behind the other, as one."""
        if len(rows) == 1:
            return rows[0]
        kind = self.tensors[rows[0]].type
        return self._emit(Concat, "new_features", replace(kind, shape=(1, kind.elements * len(rows))), *rows, axis=1)

    def labelled(self, name: str, quant: Quant | None) -> str:
        """The tensor with this quantisation."""
        kind = self.tensors[name].type
        if kind.quant == quant:
            return name
        return self._emit(Relabel, f"{name}_labelled", replace(kind, quant=quant), name)

    def run_often(self, model: Graph, slices: list[str]) -> Iterator[str]:
        """The output of the model for each slice; its states go from one slice to the next."""
        held: dict[str, str] = {}
        first: dict[str, str] = {}
        for number, part in enumerate(slices):
            suffix = f"_{number}" if len(slices) > 1 else ""
            constants = {name: first[name] for name in first if model.tensors[name].data is not None}
            found = self.run(model, suffix, {model.inputs[0]: part, **held, **constants})
            first = first or found
            held = {state.read: found[state.write] for state in model.states}
            yield found[model.outputs[0]]
        for state in model.states:
            self.states.append(State(first[state.read], held[state.read], first[state.initial]))

    def run(self, model: Graph, suffix: str, given: Mapping[str, str]) -> dict[str, str]:
        """A copy of the model with these tensors in place of its own; by its own names the tensors of the copy."""
        found = dict(given)
        for name, tensor in model.tensors.items():
            if name not in found:
                found[name] = self._add(name + ("" if tensor.data is not None else suffix), tensor.type, tensor.data)
        taken = {op.name for op in self.ops}
        for op in model.ops:
            name = numbered_name(taken, op.name + suffix)
            taken.add(name)
            self.ops.append(replace(op, name=name, inputs=tuple(found[n] for n in op.inputs), output=found[op.output]))
        return found
