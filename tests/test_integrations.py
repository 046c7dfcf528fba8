"""The library builds, without a warning, the way that CMake, Arduino, Zephyr and ESP-IDF projects use it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import emitted
import pytest
from compilers import HOST
from shared import MODELS as MODELS_OF_OTHERS
from shared import needs_shared

from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.firmware.build import alone
from shoehorn_mcu.firmware.settings import Options

WARNINGS = "-Wall -Wextra -Wpedantic -Werror"
CORE = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
CROSS = (
    "-DCMAKE_SYSTEM_NAME=Generic",
    "-DCMAKE_SYSTEM_PROCESSOR=arm",
    "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
    "-DCMAKE_C_COMPILER=arm-none-eabi-gcc",
    "-DCMAKE_CXX_COMPILER=arm-none-eabi-g++",
    f"-DCMAKE_C_FLAGS={WARNINGS} {CORE}",
    f"-DCMAKE_CXX_FLAGS={WARNINGS} {CORE}",
    # The library alone needs no C library but memcpy and memset; start-up code is the user's.
    "-DCMAKE_EXE_LINKER_FLAGS=-nostartfiles --specs=nosys.specs -Wl,-e,main",
)
NATIVE = (f"-DCMAKE_C_COMPILER={HOST[0]}", f"-DCMAKE_C_FLAGS={WARNINGS}", f"-DCMAKE_CXX_FLAGS={WARNINGS}")
CALLER = """
#include "digits.h"
int main(void)
{
    for (int i = 0; i < DIGITS_INPUT_ELEMENTS; i++) {
        digits_input()[i] = DIGITS_INPUT_ZERO_POINT;
    }
    digits_run();
    int likely = digits_output()[0];
    return likely > 127;
}
"""


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


def newlib() -> bool:
    """Whether the cross-compiler has a C library to link against."""
    if shutil.which("arm-none-eabi-gcc") is None:
        return False
    asked = subprocess.run(["arm-none-eabi-gcc", "-print-file-name=nosys.specs"], capture_output=True, text=True)
    return Path(asked.stdout.strip()).is_absolute()


CMAKE_ON = [
    pytest.param(NATIVE, id="host", marks=needs("cmake", HOST[0], "g++")),
    pytest.param(
        CROSS,
        id="cortex-m4",
        marks=[
            needs("cmake", "arm-none-eabi-gcc", "arm-none-eabi-g++"),
            pytest.mark.skipif(not newlib(), reason="newlib for arm-none-eabi is not installed"),
        ],
    ),
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the shipped model for this machine; its portable C builds for a Cortex-M4 as well."""
    _, files = alone(MODELS / "digits.tflite", Options(cpu="host"))
    return emitted.put(files, tmp_path_factory.mktemp("libraries") / "digits")


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def project(folder: Path, cmake: str, files: Mapping[str, str]) -> Path:
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.13)\n{cmake}")
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def built(folder: Path, *options: str) -> Path:
    """The build folder of a CMake project; a warning of CMake or of a compiler fails the test."""
    build = folder / "build"
    said = run("cmake", "-S", folder, "-B", build, "-Wno-dev", "--no-warn-unused-cli", *options, cwd=folder)
    assert "Warning" not in said, said
    run("cmake", "--build", build, cwd=folder)
    return build


@pytest.mark.parametrize("machine", CMAKE_ON)
def test_a_cmake_project_adds_the_folder_and_calls_it_from_c_and_cpp(
    machine: tuple[str, ...], digits: Path, tmp_path: Path
):
    cmake = (
        f"project(app C CXX)\nadd_subdirectory({digits} digits)\n"
        "add_executable(in_c main.c)\ntarget_link_libraries(in_c PRIVATE digits)\n"
        "add_executable(in_cpp main.cpp)\ntarget_link_libraries(in_cpp PRIVATE digits::digits)\n"
        "set_target_properties(in_cpp PROPERTIES LINKER_LANGUAGE C)\n"  # needs no C++ runtime
    )
    build = built(project(tmp_path / "app", cmake, {"main.c": CALLER, "main.cpp": CALLER}), *machine)

    for name in ("in_c", "in_cpp"):
        assert (build / name).is_file()
        if machine is NATIVE:
            run(build / name, cwd=tmp_path)


@pytest.mark.parametrize("machine", CMAKE_ON)
def test_the_folder_builds_alone_and_is_found_where_it_was_installed(
    machine: tuple[str, ...], digits: Path, tmp_path: Path
):
    copy = Path(shutil.copytree(digits, tmp_path / "digits"))
    prefix = tmp_path / "prefix"
    build = built(copy, *machine, f"-DCMAKE_INSTALL_PREFIX={prefix}")
    run("cmake", "--install", build, cwd=tmp_path)
    shutil.rmtree(copy)
    cmake = (
        "project(app C)\nfind_package(digits REQUIRED CONFIG)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE digits::digits)\n"
    )
    user = project(tmp_path / "user", cmake, {"main.c": CALLER})
    found = built(user, *machine, f"-Ddigits_DIR={prefix / 'lib' / 'cmake' / 'digits'}")

    assert (found / "app").is_file()
    assert {p.relative_to(prefix).as_posix() for p in prefix.rglob("*.h")} == {"include/digits/digits.h"}


# What Zephyr's CMake does with a module's CMakeLists.txt: extensions as in cmake/modules/extensions.cmake, and a link
# of all modules' archives as a whole.
ZEPHYR = """
project(app C)
function(zephyr_library_named name)
    set(ZEPHYR_CURRENT_LIBRARY ${{name}} PARENT_SCOPE)
    add_library(${{name}} STATIC "")
    set_property(GLOBAL APPEND PROPERTY ZEPHYR_LIBS ${{name}})
endfunction()
function(zephyr_library_sources)
    target_sources(${{ZEPHYR_CURRENT_LIBRARY}} PRIVATE ${{ARGV}})
endfunction()
function(zephyr_include_directories)
    foreach(path ${{ARGV}})
        get_filename_component(path ${{path}} ABSOLUTE)
        include_directories(${{path}})
        set_property(GLOBAL APPEND PROPERTY ZEPHYR_INCLUDES ${{path}})
    endforeach()
endfunction()
{config}
add_subdirectory({digits} digits)
get_property(libs GLOBAL PROPERTY ZEPHYR_LIBS)
get_property(includes GLOBAL PROPERTY ZEPHYR_INCLUDES)
add_executable(app main.c)
target_include_directories(app PRIVATE ${{includes}})
target_link_libraries(app PRIVATE -Wl,--whole-archive ${{libs}} -Wl,--no-whole-archive)
"""


@pytest.mark.parametrize("on", [True, False])
@needs("cmake", HOST[0])
def test_zephyr_builds_the_module_where_its_switch_is_on(on: bool, digits: Path, tmp_path: Path):
    # Zephyr's sources come from CMAKE_CURRENT_SOURCE_DIR; the stand-in wants absolute paths as well.
    copy = Path(shutil.copytree(digits, tmp_path / "digits"))
    text = ZEPHYR.format(digits=copy, config="set(CONFIG_SHOEHORN_DIGITS y)" if on else "")
    text = "cmake_policy(SET CMP0076 NEW)\n" + text
    user = project(tmp_path / "app", text, {"main.c": CALLER if on else "int main(void) { return 0; }\n"})
    build = built(user, *NATIVE[:2])
    run(build / "app", cwd=tmp_path)

    assert (build / "digits" / "libdigits.a").is_file() is on


def test_zephyr_finds_the_module_s_cmake_and_its_switch(digits: Path):
    module = (digits / "zephyr" / "module.yml").read_text()
    kconfig = (digits / "zephyr" / "Kconfig").read_text()
    paths = dict(re.findall(r"^  (cmake|kconfig): (\S+)$", module, re.M))

    assert (digits / paths["cmake"] / "CMakeLists.txt").is_file()
    assert digits / paths["kconfig"] == digits / "zephyr" / "Kconfig"
    assert re.findall(r'^config (\w+)\n\tbool "', kconfig, re.M) == ["SHOEHORN_DIGITS"]
    assert "CONFIG_SHOEHORN_DIGITS" in (digits / "CMakeLists.txt").read_text()


# What ESP-IDF's CMake does with a component's CMakeLists.txt, once as a script and then in the build
# (tools/cmake/build.cmake and component.cmake): in the script the registration ends it.
IDF = """
function(idf_component_register)
    cmake_parse_arguments(arg "" "" "SRCS;INCLUDE_DIRS;LDFRAGMENTS" ${{ARGN}})
    foreach(path ${{arg_LDFRAGMENTS}})
        file(READ ${{path}} unused)
    endforeach()
    add_library(__idf_digits STATIC ${{arg_SRCS}})
    target_include_directories(__idf_digits PUBLIC ${{arg_INCLUDE_DIRS}})
    set(COMPONENT_LIB __idf_digits PARENT_SCOPE)
endfunction()
set(ESP_PLATFORM 1)
{config}
project(app C)
add_subdirectory(digits)
add_library(app STATIC main.c)
target_link_libraries(app PRIVATE __idf_digits)
"""
SCRIPT = """
set(ESP_PLATFORM 1)
macro(idf_component_register)
    message(STATUS "registered")
    return()
endmacro()
include(digits/CMakeLists.txt)
"""
ESP = {
    "esp32c3": ("riscv64-unknown-elf-gcc", "-march=rv32imc -mabi=ilp32 -ffreestanding"),
    "lx106": ("xtensa-lx106-elf-gcc", "-ffreestanding"),  # in place of the cores of ESP32 and ESP32-S3
}


@pytest.mark.parametrize(
    ("chip", "switched"),
    [
        pytest.param(chip, switched, marks=[needs("cmake", ESP[chip][0]), *([pytest.mark.long] if long else [])])
        for chip, switched, long in (
            ("esp32c3", True, False),
            ("lx106", False, False),
            ("esp32c3", False, True),
            ("lx106", True, True),
        )
    ],
)
def test_esp_idf_builds_the_component_and_places_its_arenas(chip: str, switched: bool, tmp_path: Path):
    cpu = "rv32imc" if chip == "esp32c3" else None
    _, files = alone(MODELS / "digits.tflite", Options(cpu=cpu, sram_bytes={"sram": 600, "psram": 4096}))
    emitted.put(files, tmp_path / "app" / "digits")
    compiler, flags = ESP[chip]
    text = IDF.format(config="set(CONFIG_SHOEHORN_DIGITS_ARENA_IN_PSRAM y)" if switched else "")
    (tmp_path / "app" / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.16)\n{text}")
    (tmp_path / "app" / "main.c").write_text(CALLER.replace("main", "app_main"))
    (tmp_path / "app" / "script.cmake").write_text(SCRIPT)
    said = run("cmake", "-P", "script.cmake", cwd=tmp_path / "app")
    cross = ("-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY")
    build = built(tmp_path / "app", *cross, f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_C_FLAGS={WARNINGS} {flags}")
    (made,) = build.rglob("digits.c.obj")
    placed = run(compiler.replace("-gcc", "-objdump"), "-t", made, cwd=build)

    assert "registered" in said
    assert re.findall(r"(\S+)\s+\w+ arena_psram\n", placed) == [".ext_ram.bss"]
    assert re.findall(r"(\S+)\s+\w+ arena\n", placed) == [".ext_ram.bss" if switched else ".bss"]


def test_esp_idf_s_files_name_the_same_switches(digits: Path):
    switches = re.findall(r"^config (\w+)\n\tbool ", (digits / "Kconfig").read_text(), re.M)

    assert switches == ["SHOEHORN_DIGITS_IN_IRAM", "SHOEHORN_DIGITS_ARENA_IN_PSRAM"]
    assert f"if {switches[0]} = y:" in (digits / "linker.lf").read_text()
    assert f"CONFIG_{switches[1]}" in (digits / "CMakeLists.txt").read_text()


def test_the_component_manager_packs_the_folder(digits: Path, tmp_path: Path):
    pytest.importorskip("idf_component_manager", reason="idf-component-manager is not installed")
    copy = shutil.copytree(digits, tmp_path / "digits")
    command = ("-m", "idf_component_manager", "component", "pack", "--name", "digits", "--dest-dir", tmp_path / "made")
    run(sys.executable, *command, cwd=copy)

    (archive,) = (tmp_path / "made").glob("*.tgz")
    with tarfile.open(archive) as packed:
        names = {name.removeprefix("./") for name in packed.getnames()}
    assert {"idf_component.yml", "CMakeLists.txt", "Kconfig", "linker.lf", "src/digits.c"} <= names


def test_arduino_finds_all_that_a_library_has_to_say(digits: Path):
    lines = (digits / "library.properties").read_text().splitlines()
    said = dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    assert {name for name, value in said.items() if not value} == set()
    assert set(said) >= {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"}
    assert (said["dot_a_linkage"], said["architectures"], said["includes"]) == ("true", "*", "digits.h")
    assert said["url"].startswith("https://")


@needs("arm-none-eabi-gcc", "arm-none-eabi-g++")
@pytest.mark.skipif(not newlib(), reason="newlib for arm-none-eabi is not installed")
def test_an_arduino_build_for_a_cortex_m4_links_a_sketch(digits: Path, tmp_path: Path):
    # The recipes of an Arduino core for Arm: all sources below src/, objects beside each other's paths, one archive.
    core, include = CORE.split(), f"-I{digits / 'src'}"
    common = ["-c", "-Os", "-ffunction-sections", "-fdata-sections", "-nostdlib", *WARNINGS.split(), *core, include]
    objects = []
    for source in sorted((digits / "src").rglob("*.c")):
        target = tmp_path / f"{source.relative_to(digits / 'src')}.o"
        target.parent.mkdir(parents=True, exist_ok=True)
        run("arm-none-eabi-gcc", *common, "-std=gnu11", source, "-o", target, cwd=tmp_path)
        objects.append(target)
    run("arm-none-eabi-ar", "rcs", "digits.a", *objects, cwd=tmp_path)
    (tmp_path / "sketch.cpp").write_text(
        "#include <digits.h>\nvoid setup() {}\nvoid loop()\n{\n    digits_run();\n}\n"
        "int main()\n{\n    setup();\n    loop();\n    return digits_output()[0];\n}\n"
    )
    cpp = ["-std=gnu++17", "-fno-exceptions", "-fno-rtti"]
    run("arm-none-eabi-g++", *common, *cpp, "sketch.cpp", "-o", "sketch.o", cwd=tmp_path)
    link = [
        "-Wl,--gc-sections",
        "-nostdlib",
        "-Wl,-e,main",
        "sketch.o",
        "-Wl,--start-group",
        "digits.a",
        "-lc",
        "-lgcc",
    ]
    run("arm-none-eabi-gcc", *core, *link, "-Wl,--end-group", "-o", "sketch.elf", cwd=tmp_path)

    assert (tmp_path / "sketch.elf").stat().st_size > 10_000


def _built_for_uno(library: Path, folder: Path) -> Path:
    """An Arduino build of a sketch in C for an Uno: all sources below src/, one archive, linked with avr-libc."""
    common = ("avr-gcc", "-mmcu=atmega328p", "-Os", "-ffunction-sections", "-fdata-sections", *WARNINGS.split())
    objects = []
    for source in sorted((library / "src").rglob("*.c")):
        objects.append(folder / f"{source.name}.o")
        run(*common, "-std=gnu11", "-c", source, "-o", objects[-1], cwd=folder)
    run("avr-ar", "rcs", "library.a", *objects, cwd=folder)
    name = library.name
    (folder / "sketch.c").write_text(f"#include <{name}.h>\nint main(void)\n{{\n    {name}_run();\n    return 0;\n}}\n")
    run(*common, f"-I{library / 'src'}", "sketch.c", "-Wl,--gc-sections", "library.a", "-o", "sketch.elf", cwd=folder)
    return folder / "sketch.elf"


@needs_shared
@needs("avr-gcc", "avr-size")
def test_an_arduino_build_for_an_uno_holds_its_constants_and_its_arena_in_ram(tmp_path: Path):
    _, files = alone(MODELS_OF_OTHERS / "tflm-hello-world-int8.tflite", Options())
    library = emitted.put(files, tmp_path / "tflm_hello_world_int8")
    sizes = run("avr-size", "-A", _built_for_uno(library, tmp_path), cwd=tmp_path)
    in_ram = sum(int(size) for size in re.findall(r"^\.(?:data|bss)\s+(\d+)", sizes, re.M))

    assert 481 + 28 < in_ram < 2048


@needs("avr-gcc")
def test_avr_refuses_constants_that_its_ram_cannot_hold_and_says_why(digits: Path, tmp_path: Path):
    command = ["avr-gcc", "-mmcu=atmega2560", "-std=gnu11", "-fsyntax-only", digits / "src" / "digits_weights.c"]
    said = subprocess.run(command, capture_output=True, text=True).stderr
    mapped = subprocess.run([*command, "-D__AVR_RODATA_IN_RAM__=0"], capture_output=True, text=True).stderr

    assert re.search(
        r'#error "digits needs \d+ bytes of constants and \d+ of arena, more than the RAM of this AVR: its', said
    )
    assert mapped == ""
