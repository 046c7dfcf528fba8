"""The forms of a library's interface, chosen for one model: the files ask them for all texts that differ by a form."""

from __future__ import annotations

from shoehorn_mcu.emit.model.arenas import CallerArenas, OwnArenas
from shoehorn_mcu.emit.model.classes import Classes
from shoehorn_mcu.emit.model.form import Form
from shoehorn_mcu.emit.model.inputs import RowInput, WholeInputs
from shoehorn_mcu.emit.model.outputs import RowOutput, WholeOutputs
from shoehorn_mcu.emit.model.sliding import Sliding
from shoehorn_mcu.emit.model.states import Stateless, States
from shoehorn_mcu.emit.model.steps import SeveralCores
from shoehorn_mcu.emit.unit import Unit


class Forms:
    """One form of each kind for a unit: of its states, outputs, inputs, arenas, cores, classes and windows.

    No other code decides which form a unit has. All forms of one kind have the same members.
    """

    def __init__(self, unit: Unit) -> None:
        self.states = states = States(unit) if unit.graph.states else Stateless()
        self.outputs = outputs = WholeOutputs(unit) if unit.handed_out is None else RowOutput(unit, unit.handed_out)
        row, taken = unit.streamed, (outputs, states)
        self.inputs = WholeInputs(unit, *taken) if row is None else RowInput(unit, row, *taken)
        init = [*self.inputs.init, *states.init]
        self.arenas = CallerArenas(unit, states, init) if unit.caller_arena else OwnArenas(unit)
        self.cores = SeveralCores(unit) if unit.cores > 1 else Form()
        self.classes = Classes(unit) if unit.classes else Form()
        self.sliding = Sliding(unit, unit.window) if unit.window and unit.sample_hz is None else Form()
