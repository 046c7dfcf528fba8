"""The forms of a library's interface: what the files ask for the texts that differ by them."""

from __future__ import annotations

from dataclasses import dataclass

from shoehorn_mcu.emit.model.arenas import CallerArenas, OwnArenas
from shoehorn_mcu.emit.model.classes import Classes
from shoehorn_mcu.emit.model.form import Form
from shoehorn_mcu.emit.model.inputs import Inputs, RowInput, WholeInputs
from shoehorn_mcu.emit.model.outputs import Outputs, RowOutput, WholeOutputs
from shoehorn_mcu.emit.model.states import Stateless, States
from shoehorn_mcu.emit.model.steps import SeveralCores
from shoehorn_mcu.emit.unit import Unit

Arenas = OwnArenas | CallerArenas


@dataclass(frozen=True)
class Forms:
    """One of each kind; the forms of a kind have the same members."""

    arenas: Arenas
    inputs: Inputs
    outputs: Outputs
    states: States | Stateless
    cores: Form
    classes: Form


def forms(unit: Unit) -> Forms:
    """The forms of a unit: chosen here alone."""
    states = States(unit) if unit.graph.states else Stateless()
    outputs = RowOutput(unit, unit.handed_out) if unit.handed_out is not None else WholeOutputs(unit)
    taken = outputs, states
    inputs = RowInput(unit, unit.streamed, *taken) if unit.streamed is not None else WholeInputs(unit, *taken)
    arenas = CallerArenas(unit, states, [*inputs.init, *states.init]) if unit.caller_arena else OwnArenas(unit)
    cores = SeveralCores(unit) if unit.cores > 1 else Form()
    return Forms(arenas, inputs, outputs, states, cores, Classes(unit) if unit.classes else Form())
