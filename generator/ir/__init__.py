"""The intermediate representation: plain frozen values over numpy, nothing else."""

from generator.ir.dump import dump
from generator.ir.graph import Graph, GraphError, Node, Op, Signature, Tensor, verify
from generator.ir.types import Array, DType, Quant, TensorType

__all__ = [
    "Array",
    "DType",
    "Graph",
    "GraphError",
    "Node",
    "Op",
    "Quant",
    "Signature",
    "Tensor",
    "TensorType",
    "dump",
    "verify",
]
