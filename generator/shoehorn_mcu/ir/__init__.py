"""The intermediate representation: plain frozen values over numpy, nothing else."""

from shoehorn_mcu.ir.dump import dump
from shoehorn_mcu.ir.ends import Ends, FileTensor, Origin
from shoehorn_mcu.ir.facts import Range, Tie
from shoehorn_mcu.ir.graph import (
    Biased,
    Channels,
    Graph,
    GraphError,
    Node,
    Op,
    OpFault,
    OpT,
    Pairwise,
    RowPart,
    Signature,
    State,
    Tensor,
    Weighted,
    is_a,
    too_large,
    verify,
)
from shoehorn_mcu.ir.shared_rows import Part, Parts, output_rows, parts_of, shared_rows
from shoehorn_mcu.ir.types import Array, Bools, DType, Floats, Ints, Quant, TensorType
