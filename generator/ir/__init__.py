"""The intermediate representation: plain frozen values over numpy, nothing else."""

from shoehorn_mcu.ir.dump import dump
from shoehorn_mcu.ir.graph import Graph, GraphError, Node, Op, Signature, Tensor, verify
from shoehorn_mcu.ir.types import Array, DType, Quant, TensorType

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
