"""The wheels in a real CPython with NumPy for other machines, run by QEMU in user mode (bench/linux_systems.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from linux_wheels import told
from test_cli_project import DIGITS
from test_linux import WANTED, digits_expected, digits_vectors

import shoehorn_mcu
from bench.linux_systems import ARMV7, SYSTEMS, NoSystem, System, installed, made, run
from shoehorn_mcu import PlanOptions

SCRIPT = """
import json, os
import numpy
import digits
arrays = numpy.load({arrays!r})
def plain(array):
    return [str(array.dtype), list(array.shape), array.tobytes().hex()]
found = [plain(digits.run(image)) for image in arrays["images"]]
try:
    digits.run(arrays["images"][0].astype("float32"))
except TypeError as error:
    fault = str(error)
status = 0
if digits.cores == 1:  # a child of several threads cannot start threads in QEMU 7.2
    pid = os.fork()
    if pid == 0:
        os._exit(0 if plain(digits.run(arrays["images"][0])) == found[0] else 1)
    status = os.waitpid(pid, 0)[1]
print(json.dumps([found, fault, status, digits.cores]))
"""


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("system", [*SYSTEMS, ARMV7], ids=lambda each: each.name)
def test_the_wheel_runs_in_the_python_of_its_machine(system: System, threads: int, tmp_path: Path):
    try:
        made(system, with_runtime=False)
    except NoSystem as fault:
        pytest.skip(f"no CPython for {system.arch}: {fault}")
    options = PlanOptions(cpu=system.wheel_core, cores=threads)
    written = shoehorn_mcu.generate_for_linux(DIGITS, tmp_path / "d", options)
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, images=np.stack([v["image"] for v in digits_vectors(4)]))

    said = run(system, SCRIPT.format(arrays=str(arrays)), installed(written.wheel, tmp_path / "site"))

    found, fault, child, cores = json.loads(said)
    assert found == [told(each) for each in digits_expected(4)]
    assert (fault, child, cores) == (f"{WANTED}; got float32 with shape (1, 8, 8, 1)", 0, threads)
