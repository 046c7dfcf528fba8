"""The ops of a model file as the file has them, for `gen inspect` of models that cannot be imported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoehorn_mcu.ir import Ends, Graph, GraphError, Node, Op, Tensor

Shapes = Mapping[str, tuple[int, ...]]
"""What `--shape` gives: by the name of a dimension its one size, or by the name of an input all of its sizes."""


@dataclass(frozen=True)
class SourceTensor:
    """A tensor of the file that an op writes; `shape` is None where the file does not say it.

    A dimension that the file leaves open has a name in place of a size.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: str  # numpy's name where there is one, in lower case
    scale: float | None = None  # of the whole tensor; None: not quantised, or per channel
    zero_point: int | None = None

    @property
    def bytes(self) -> int | None:
        """None where the shape or the size of an element is not known."""
        sizes = [size for size in self.shape or () if isinstance(size, int)]
        try:
            known = self.shape is not None and len(sizes) == len(self.shape)
            return math.prod(sizes) * np.dtype(self.dtype).itemsize if known else None
        except TypeError:
            return None


@dataclass(frozen=True)
class SourceOp:
    """An op of the file, by its number there."""

    index: int
    code: str  # the format's own name of its kind
    reads: tuple[str, ...]  # the tensors that it reads, constants left out
    writes: tuple[SourceTensor, ...]
    weight_bytes: int  # of the constants that it reads
    macs: int | None = None  # None: not known, because it was refused or reads what a refused op writes
    refusal: str | None = None  # why it cannot run, "" where no kernel knows its kind; None: nothing was found
    part: str = ""  # of the file, such as "subgraph 2", that it is in; "": the main one


@dataclass(frozen=True)
class Source:
    """A model as its file has it, with what the import found out about each op."""

    inputs: tuple[SourceTensor, ...]
    outputs: tuple[str, ...]
    ops: tuple[SourceOp, ...]


EMPTY = Source((), (), ())


@dataclass(frozen=True)
class InFloat:
    """An op that is quantised in the file and computes in float32."""

    name: str  # of the tensor that it writes in the file
    kind: str  # the format's own name of the op, such as QLinearConv
    reason: str  # why, as a clause about the op: "its result is not quantised"
    made: tuple[str, ...] = ()  # the graph's ops between conversions, which a pass may make a table; () for linear ops


@dataclass(frozen=True)
class Imported:
    """A model's graph, and its tensors as the file has them, by their names in the graph.

    All inputs and outputs that differ in the file are there, and inner tensors where they are known: for --preserve.
    `in_float` are those of the `quantised_linear` convolutions, dense layers and products of matrices whose weights or
    activations are quantised in the file that nevertheless compute in float32. `others_in_float` are all other ops
    whose operands and results are quantised in the file, and that the importer makes ops on float32 of.
    `others` are the SHA-256 of other files that constants were read from, by the names that the model has for them.
    """

    graph: Graph
    ends: Ends
    folded: int = 0  # ops of the file that do not depend on the inputs: their results are constants of the graph
    in_float: tuple[InFloat, ...] = ()
    quantised_linear: int = 0
    others_in_float: tuple[InFloat, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)


def macs_of(ops: Sequence[Op], tensors: Mapping[str, Tensor]) -> int | None:
    """Multiply-accumulates of ops whose shapes are not verified yet; None where they do not fit."""
    nodes = [Node(op, tuple(tensors[name] for name in op.inputs), tensors[op.output]) for op in ops]
    try:
        fit = all(node.op.infer(node.sig.inputs) == node.output.type.shape for node in nodes)
    except GraphError:
        return None
    return sum(node.op.macs(node.sig) for node in nodes) if fit else None


_SEQUENCE = "convolutions over time, or dense layers with the state as an input and an output of the model"
_AFTER = "nothing: end the model before it, and let the program do it"
_DRAWN = "an input of the model: let the program draw the numbers"
_FRONT_END = "a front end of TensorFlow Lite Micro's signal ops, in place of this part of the model (docs/audio.md)"
_FIXED = "the branch that is taken: export the model with the condition as a constant"

_NORM = "batch normalisation, which costs nothing after a convolution"
_ONNX_NORM = "BatchNormalization, which costs nothing after a convolution"

REPLACEMENTS = {
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "NonMaxSuppression", "NON_MAX_SUPPRESSION_V4"), _AFTER),
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V5", "TFLite_Detection_PostProcess", "TOPK_V2"), _AFTER),
    **dict.fromkeys(("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "GRU", "LSTM", "RNN"), _SEQUENCE),
    **dict.fromkeys(("UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "Scan"), _SEQUENCE),
    **dict.fromkeys(("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _DRAWN),
    **dict.fromkeys(("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"), _FRONT_END),
    **dict.fromkeys(("GroupNormalization", "LayerNormalization"), _ONNX_NORM),
    **dict.fromkeys(("L2_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION"), _NORM),
    **dict.fromkeys(("If", "IF"), _FIXED),
    "CONV_3D": "CONV_2D per slice",
    "CAST": "one element type throughout the model",
    "CUMSUM": "FULLY_CONNECTED with a triangle of ones",
    "DEPTH_TO_SPACE": "RESIZE_NEAREST_NEIGHBOR, then CONV_2D",
    "DIV": "MUL by the reciprocal, where the divisor is a constant",
    "GATHER": "SLICE, where the indices are a range",
    "GridSample": "Resize, or nothing: let the program do it",
    "Loop": "its body, as often as it runs: export the model with the count as a constant",
    "SPACE_TO_DEPTH": "CONV_2D of the same stride",
    "WHILE": "its body, as often as it runs: convert the model with unrolled loops",
}
"""By the format's name of an op: what computes the same or serves the same purpose, for ops that cannot run."""

_FLEX = "TensorFlow Lite's own ops: convert with TFLITE_BUILTINS only"


def replacement(code: str) -> str:
    """What could replace an op of this kind, "" where nothing is known; a custom op is `CUSTOM 'name'`."""
    name = code.removeprefix("CUSTOM ").strip("'")
    return _FLEX if name.startswith("Flex") else REPLACEMENTS.get(name, "")
