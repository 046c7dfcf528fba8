"""The one base of all errors that a user may see; host_tools, which imports nothing of the generator, defines it."""

from shoehorn_mcu.host_tools.errors import MemoryTooSmall as MemoryTooSmall
from shoehorn_mcu.host_tools.errors import NotConfined as NotConfined
from shoehorn_mcu.host_tools.errors import ShoehornError as ShoehornError
from shoehorn_mcu.host_tools.errors import did_you_mean as did_you_mean
from shoehorn_mcu.host_tools.errors import one_line as one_line
from shoehorn_mcu.host_tools.errors import printable as printable
