"""The kernels: contracts, their variants and oracles, and the choice of an instance for each op."""

from shoehorn_mcu.kernels.base.contract import Contract, Instance, Packed, Tile, Value, Values, Variant
from shoehorn_mcu.kernels.catalogue import CATALOGUE, ORACLE, PORTABLE, KernelError, contract_of, oracle
from shoehorn_mcu.kernels.choice import ANY, candidates, choices, choose, row_cost, within_flash
