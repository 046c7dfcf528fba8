"""The one base of all errors that a user may see; host_tools, which imports nothing of the generator, defines it."""

from shoehorn_mcu_host.base.errors import MemoryTooSmall as MemoryTooSmall
from shoehorn_mcu_host.base.errors import NotConfined as NotConfined
from shoehorn_mcu_host.base.errors import ShoehornError as ShoehornError
from shoehorn_mcu_host.base.errors import did_you_mean as did_you_mean
from shoehorn_mcu_host.base.errors import first_line as first_line
from shoehorn_mcu_host.base.errors import one_line as one_line
from shoehorn_mcu_host.base.errors import printable as printable
