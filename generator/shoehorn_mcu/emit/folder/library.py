"""The model as a plain C library for PlatformIO, Arduino, Zephyr and CMake projects."""

from __future__ import annotations

import json

from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.emit import c
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.readme import library_readme
from shoehorn_mcu.emit.kernels.kernel_files import header_name, kernel_files, kernels_h
from shoehorn_mcu.emit.kernels.runtime_files import included, with_included
from shoehorn_mcu.emit.model.forms import Forms
from shoehorn_mcu.emit.model.header import model_h
from shoehorn_mcu.emit.model.source import model_c
from shoehorn_mcu.emit.model.weights import Constants, weights_c, weights_h
from shoehorn_mcu.emit.unit import Unit

URL = "https://pypi.org/project/shoehorn-mcu/"  # Arduino requires a web page; the package has no other


_PLACE = "sh/"  # of the runtime's files, beside those that include them


def runtime(files: Bundle) -> Bundle:
    """The files of runtime_c that these C files of a library include, and those that they include in turn."""
    first = [path.removeprefix(_PLACE) for text in files.values() for path in included(text) if path.startswith(_PLACE)]
    return {f"src/{_PLACE}{path}": text for path, text in with_included(first).items()}


def kernels(unit: Unit) -> Bundle:
    """The header of the kernels, and the files that compile them, whose names begin with the model's.

    Where another library has the kernels, the header alone.
    """
    used = {stage.kernel.name: stage.kernel for stage in unit.stages}
    if unit.kernels:
        symbols = {unit.symbol(kernel): kernel.contract for kernel in used.values()}
        header = kernels_h(unit.name, symbols.values(), symbols)
        return {f"src/{header_name(unit.name)}": header.encode()}
    ops = {name: ", ".join(str(s.index) for s in unit.stages if s.kernel.name == name) for name in sorted(used)}
    return kernel_files(unit.name, {used[name]: f"{unit.name}, op {ops[name]}" for name in ops})


def _description(unit: Unit) -> str:
    return f"The model {unit.name} as static C: no heap, no interpreter, an arena of {unit.plan.total_bytes} bytes."


def _library_json(unit: Unit) -> str:
    """PlatformIO's manifest."""
    manifest = {
        "name": unit.name,
        "version": __version__,
        "description": _description(unit),
        "license": c.LICENCE,
        "headers": f"{unit.name}.h",
        "frameworks": "*",
        "platforms": "*",
        "build": {"srcDir": "src", "includeDir": "src"},
    }
    return json.dumps(manifest, indent=2) + "\n"


def _library_properties(unit: Unit) -> str:
    """Arduino's manifest."""
    return (
        f"# {c.SPDX}\n"
        f"name={unit.name}\n"
        f"version={__version__}\n"
        "author=Shoehorn\n"
        "maintainer=Shoehorn\n"
        f"sentence={_description(unit)}\n"
        f"paragraph={Forms(unit).inputs.paragraph}\n"
        "category=Data Processing\n"
        f"url={URL}\n"
        "architectures=*\n"
        f"includes={unit.name}.h\n"
        "dot_a_linkage=true\n"
    )


def _cmake(unit: Unit, sources: list[str]) -> str:
    """For `add_subdirectory`, for a build of its own with an install target, and for Zephyr as a module."""
    name, upper = unit.name, unit.upper
    listed = "\n".join(f"    {path}" for path in sources)
    return f"""# {c.SPDX}
# add_subdirectory() this folder and link against the target {name}; or build and install it, then
# find_package({name}) and link against {name}::{name}. In Zephyr, list the folder in ZEPHYR_EXTRA_MODULES.
cmake_minimum_required(VERSION 3.13)
set({upper}_SOURCES
{listed}
)
if(COMMAND zephyr_library_named)
    if(CONFIG_SHOEHORN_{upper})
        zephyr_library_named({name})
        zephyr_library_sources(${{{upper}_SOURCES}})
        zephyr_include_directories(src)
    endif()
    return()
endif()
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    project({name} VERSION {__version__} LANGUAGES C)
else()
    enable_language(C)
endif()
add_library({name} STATIC ${{{upper}_SOURCES}})
add_library({name}::{name} ALIAS {name})
target_include_directories({name} PUBLIC
    $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}/src>
    $<INSTALL_INTERFACE:include/{name}>
)
target_compile_features({name} PRIVATE c_std_11)
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    install(TARGETS {name} EXPORT {name}-config ARCHIVE DESTINATION lib)
    install(FILES src/{name}.h DESTINATION include/{name})
    install(EXPORT {name}-config NAMESPACE {name}:: DESTINATION lib/cmake/{name})
endif()
"""


def _kconfig(unit: Unit) -> str:
    """The Kconfig option that enables the module in Zephyr."""
    return f"""# {c.SPDX}
config SHOEHORN_{unit.upper}
\tbool "The neural network {unit.name}"
\thelp
\t  Builds the library {unit.name}, which Shoehorn wrote.
"""


def _module_yml(unit: Unit) -> str:
    """Zephyr's description of the module."""
    return f"# {c.SPDX}\nname: {unit.name}\nbuild:\n  cmake: .\n  kconfig: zephyr/Kconfig\n"


def library(unit: Unit, found: Constants) -> Bundle:
    """Every file of `lib/<model>`, by path below that folder.

    Where another library has the kernels, only PlatformIO, which builds both, has its manifest.
    """
    texts = {
        f"src/{unit.name}.h": model_h(unit),
        f"src/{unit.name}.c": model_c(unit, found),
        f"src/{unit.name}_weights.h": weights_h(unit, found),
        f"src/{unit.name}_weights.c": weights_c(unit, found),
    }
    files = {path: text.encode() for path, text in texts.items()} | dict(kernels(unit))
    files |= runtime(files)
    sources = sorted(path for path in files if path.endswith(".c"))
    files["library.json"] = _library_json(unit).encode()
    if unit.kernels:
        return files
    files["library.properties"] = _library_properties(unit).encode()
    files["CMakeLists.txt"] = _cmake(unit, sources).encode()
    files["zephyr/module.yml"] = _module_yml(unit).encode()
    files["zephyr/Kconfig"] = _kconfig(unit).encode()
    files["README.md"] = library_readme(unit).encode()
    return files
