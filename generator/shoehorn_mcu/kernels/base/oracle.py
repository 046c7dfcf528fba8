"""The oracle of a contract: its plain C, as the reference for readers, for the reference runtime and for tests."""

from __future__ import annotations

from dataclasses import dataclass

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Contract, Values


@dataclass(frozen=True, eq=False)
class Oracle:
    """The plain C of a contract, `<contract>_ref.c`: run by the reference runtime and by tests, never on a board."""

    contract: Contract

    @property
    def function(self) -> str:
        return f"sh_{self.contract.name}_ref"

    @property
    def source(self) -> str:
        """Path below runtime_c."""
        return f"kernels/{self.contract.name}/{self.contract.name}_ref.c"

    def params(self, node: Node) -> Values:
        """Members of the contract's struct."""
        of = node.computed
        return {**self.contract.facts(of), **self.contract.plain(of), **self.contract.steps(node)}
