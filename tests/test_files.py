"""Files that others named: devices that never end, values nested without end, more bytes than anybody can hold."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from conftest import Gen

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu_host.base.errors import InputError
from shoehorn_mcu_host.base.files import read_bytes, read_json, read_start


def test_no_more_is_read_than_the_limit(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))

    assert read_bytes(path, 100) == bytes(range(100))
    assert read_start(path, 10) == bytes(range(10))
    assert read_start(path, 1000) == bytes(range(100))
    for large, limit in ((path, 99), (Path("/dev/zero"), 3 << 20)):
        tracemalloc.start()
        with pytest.raises(InputError, match="larger than"):
            read_bytes(large, limit)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
        tracemalloc.stop()


def test_a_small_file_needs_little_memory_under_a_large_limit(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    tracemalloc.start()
    read_bytes(path, 1 << 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 4 << 20


def test_json_without_an_end_of_nesting_is_a_value_error(tmp_path: Path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("plan", MODELS / "digits.tflite", "--html", "/dev/full", "--no-pareto"),
            "/dev/full: exists and was not written",
        ),
        (("pack", "/dev/zero", "--capacity", "100"), "/dev/zero: larger than 64 MB"),
        (("remat", "/dev/zero", "--budget", "100"), "/dev/zero: larger than 256 MB"),
    ],
    ids=("page", "buffers", "graph"),
)
def test_a_device_without_an_end_is_refused_in_a_line(gen: Gen, arguments: tuple[str | Path, ...], message: str):
    result = gen(*arguments)

    assert result.exit_code == 1, result.output
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.output
