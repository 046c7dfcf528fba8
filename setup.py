"""Which folder of the repository is which package of the wheel.

The folders keep the names that say what they do; users install and import `shoehorn_mcu`. An editable install
follows the same table, so `import generator` fails in both.
"""

from setuptools import find_packages, setup

FOLDERS = {
    "shoehorn_mcu": "generator",
    "shoehorn_mcu.host_tools": "host_tools",
    "shoehorn_mcu._data.runtime_c": "runtime_c",
    "shoehorn_mcu._data.firmware_templates": "firmware_templates",
    "shoehorn_mcu._data.boards": "boards",
}

packages = [*FOLDERS, *(f"shoehorn_mcu.{name}" for name in find_packages("generator"))]
setup(packages=packages, package_dir=FOLDERS)
