"""Shoehorn: turns a model and a board into a folder of static C.

The functions for programs are `plan`, `generate`, `generate_for_linux`, `generate_together`, `validate`, `bench`,
`optimize`, `quantize` and `import_torch`, which `api.py` documents, and `sweep` of `sweeps/face.py`. They are imported
when they are first used, so that `import shoehorn_mcu` is quick.
"""

from shoehorn_mcu.base.version import __version__

# No other module is imported here: `python -m shoehorn_mcu` would take it from the current directory (`__main__.py`).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shoehorn_mcu.api import (
        Generated,
        GeneratedForLinux,
        GeneratedTogether,
        Imported,
        Inputs,
        Optimized,
        PlanOptions,
        PlanResult,
        QuantizeOptions,
        bench,
        generate,
        generate_for_linux,
        generate_together,
        import_torch,
        optimize,
        plan,
        quantize,
        validate,
    )
    from shoehorn_mcu.base.errors import ShoehornError
    from shoehorn_mcu.sweeps.face import sweep

__all__ = [
    "Generated",
    "GeneratedForLinux",
    "GeneratedTogether",
    "Imported",
    "Inputs",
    "Optimized",
    "PlanOptions",
    "PlanResult",
    "QuantizeOptions",
    "ShoehornError",
    "__version__",
    "bench",
    "generate",
    "generate_for_linux",
    "generate_together",
    "import_torch",
    "optimize",
    "plan",
    "quantize",
    "sweep",
    "validate",
]


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'shoehorn_mcu' has no attribute '{name}'")
    if name == "sweep":
        from shoehorn_mcu.sweeps.face import sweep

        return sweep
    from shoehorn_mcu import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
