# SPDX-License-Identifier: 0BSD
"""Builds firmware.elf and the image that is flashed, with the Clang and the linker of PyPI's ziglang."""

import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from SCons.Script import COMMAND_LINE_TARGETS, AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
board = env.BoardConfig().manifest
project = Path(env.subst("$PROJECT_DIR"))
platform = Path(env.PioPlatform().get_dir())
sys.path.insert(0, str(platform / "builder"))


def fail(message):
    """Ends the build with one line."""
    sys.stderr.write(f"Error: {message}\n")
    env.Exit(1)


if platform.resolve() != (project / "platform").resolve():
    if "PLATFORMIO_CORE_DIR" in os.environ:
        fail(f"PlatformIO used the platform of {platform.parent}; unset PLATFORMIO_CORE_DIR, each folder has its own")
    fail(f"this folder is a copy that still refers to {platform.parent}; delete {project / '.pio'} and build again")
if find_spec("ziglang") is None:
    fail(f"no compiler: {env.subst('$PYTHONEXE')} -m pip install ziglang")

import esp  # noqa: E402
import image  # noqa: E402
import toolchain  # noqa: E402
import upload  # noqa: E402


def compiler_version(target, source, env, for_signature):
    """Part of what SCons remembers of a command, so that another compiler compiles again; no part of the command."""
    return version("ziglang") if for_signature else ""


tools = toolchain.tools(board["shoehorn"]["cpu"])
zig = f'"{toolchain.ZIG}"'
env.Replace(
    COMPILER_VERSION=compiler_version,
    IMPLICIT_COMMAND_DEPENDENCIES=False,  # SCons would hash the compiler in each build: 180 MB
    AR=f"{zig} ar",
    RANLIB=f"{zig} ranlib",
    CC=f"{zig} {tools.compiler} $COMPILER_VERSION",
    AS=f"{zig} {tools.compiler} $COMPILER_VERSION",
    LINK=f"{zig} cc $COMPILER_VERSION",
    ASPPCOM="$CC $CCFLAGS $CPPFLAGS $_CPPDEFFLAGS $_CPPINCFLAGS -c -o $TARGET $SOURCES",
    PROGNAME="firmware",
    PROGSUFFIX=".elf",
)
env.Append(
    CCFLAGS=[*tools.target_flags, *toolchain.OPTIMISE],
    CFLAGS=["-std=c11", *toolchain.WARNINGS],
    CPPDEFINES=["SH_TRACE"],
    # Optimised, or zig makes its sanitizer's runtime first, which takes longer than most firmware and is not used.
    LINKFLAGS=[*tools.link_flags, "-O2", "-Wl,--gc-sections"],
)
if tools.freestanding:
    script = project / "lib" / "board" / "link.ld"
    # Small pages: in larger ones the linker puts the ELF's own header before an image that begins in the middle of one.
    pages = "-Wl,-z,max-page-size=4096"
    env.Append(LINKFLAGS=["-nostartfiles", "-Wl,-e,sh_start", pages, "-T", str(script)])

program = env.File("$BUILD_DIR/firmware.elf") if "nobuild" in COMMAND_LINE_TARGETS else env.BuildProgram()
if tools.freestanding:
    env.Depends(program, env.File(str(script)))  # SCons does not look into the flags


def write_images(target, source, env):
    """Writes the images after linking."""
    try:
        image.write(Path(str(target[0])), board["shoehorn"], project / "lib" / "board")
    except esp.ImageError as error:
        fail(str(error))


env.AddPostAction(program, env.VerboseAction(write_images, "Writing the image"))


def flash(target, source, env):
    """The target `upload`."""
    try:
        upload.run(board["shoehorn"], Path(env.subst("$BUILD_DIR")), env.subst("$UPLOAD_PORT"))
    except upload.UploadError as error:
        fail(str(error))


AlwaysBuild(env.Alias("upload", program, [env.VerboseAction(flash, "Uploading $SOURCE")]))
AlwaysBuild(env.Alias("buildprog", program, program))
Default(program)
