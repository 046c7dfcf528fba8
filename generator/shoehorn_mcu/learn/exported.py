"""A network as PyTorch takes it back: an exported program with inputs and outputs as in the model's file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO

import torch

from shoehorn_mcu.base.errors import printable
from shoehorn_mcu.ir import Ends, Graph
from shoehorn_mcu.learn.twin import Twin
from shoehorn_mcu.slim.fault import SlimError


class _AsInFile(torch.nn.Module):  # type: ignore[misc]
    """A twin whose inputs and outputs have their dimensions in the order of the model's file."""

    def __init__(self, graph: Graph, ends: Ends) -> None:
        super().__init__()
        self.twin = Twin(graph)
        self._into = [ends[name].order if name in ends else None for name in graph.inputs]
        self._back = [ends[name].back if name in ends else None for name in graph.outputs]

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        values = self.twin(*_turned(inputs, self._into))
        found = _turned(values if isinstance(values, tuple) else (values,), self._back)
        return found[0] if len(found) == 1 else found


def _turned(values: Sequence[torch.Tensor], orders: Sequence[tuple[int, ...] | None]) -> tuple[torch.Tensor, ...]:
    return tuple(x if order is None else x.permute(order) for x, order in zip(values, orders, strict=True))


def exported(graph: Graph, ends: Ends) -> Mapping[str, bytes]:
    """Files by what follows the network's name: `.pt2`, torch.export's format for any number of samples, and
    `-state.pt`, the state_dict of its module.

    Both keep the order of dimensions of the model's file. The first dimension of inputs and outputs is that of samples.
    """
    module = _AsInFile(graph, ends).eval()
    shapes = [ends[name].type.shape if name in ends else graph.tensors[name].type.shape for name in graph.inputs]
    examples = tuple(torch.zeros(2, *shape[1:]) for shape in shapes)
    batch = torch.export.Dim("samples")
    free = {"inputs": tuple({0: batch} for _ in examples)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how PyTorch keeps weights that share memory
        try:
            program = torch.export.export(module, examples, dynamic_shapes=free)
        except Exception as error:  # PyTorch raises errors of many kinds for what it cannot export
            said = str(error).strip().split("\n")[0]
            raise SlimError(f"{graph.name}: torch.export cannot export it: {printable(said)}") from error
        return _files(program)


def _files(program: torch.export.ExportedProgram) -> Mapping[str, bytes]:
    files = {}
    for name, save, what in ((".pt2", torch.export.save, program), ("-state.pt", _save, program.state_dict)):
        made = BytesIO()
        save(what, made)
        files[name] = made.getvalue()
    return files


def _save(state: Mapping[str, torch.Tensor], file: BytesIO) -> None:
    torch.save(dict(state), file)
