"""`shoehorn_mcu.sweep`, the function for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from shoehorn_mcu.sweeps.axes import Stage, checked, of_file
from shoehorn_mcu.sweeps.fault import SweepError

Place = str | PathLike[str]


def sweep(
    models: Place | Sequence[Place],
    folder: Place,
    boards: Sequence[str] = (),
    options: Mapping[str, Sequence[str]] | None = None,
    *,
    until: str = Stage.BENCH.word,
    vectors: int = 3,
    client: Any = None,
    workers: int | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Plans, builds, validates and times every combination of models, boards and options, and yields a row for each.

    `models` is the TOML file of a sweep (docs/sweeps.md), which has all axes, or paths of models. `options` has texts
    as on the command line, by names without dashes: {"sram": ["16k", "32k"], "minimize": ["time", "sram"]}. `until`
    is "plan", "firmware", "build", "validate" or "bench"; each firmware gets `vectors` random inputs. `client` is a
    Dask client to run on; without one, `workers` processes of this machine are started, one for each core by default.

    Rows are dictionaries with the columns of docs/sweeps.md, and are in `folder`/rows as soon as they are yielded; what
    is there already is not computed again. A combination that cannot be done is a row with the reason. Raises
    SweepError, a ShoehornError, where an axis, the folder or the extra `shoehorn-mcu[sweep]` is wrong.
    """
    if isinstance(models, str | PathLike):
        if boards or options or Path(models).suffix != ".toml":
            raise ValueError("models is a list of paths, or one .toml file, which has the boards and options as well")
        axes = of_file(Path(models))
    else:
        given = {name: tuple(texts) for name, texts in (options or {}).items()}
        axes = checked([str(Path(each).resolve()) for each in models], tuple(boards), given, until, vectors)
    try:
        from shoehorn_mcu.sweeps import run
    except ImportError as error:
        raise SweepError(f"a sweep needs {error.name}: `pip install 'shoehorn-mcu[sweep]'` brings it") from error
    return run.sweep(axes, Path(folder).resolve(), run.Where(client=client, workers=workers))
