"""The entry point of `gen`: Ctrl-C, a full disk and defects end in one line, even during imports.

This module imports the standard library only, so that Ctrl-C is handled before any slow import begins.
"""

import os
import sys

# `python -m` puts the current directory before all other places of modules; os and sys are loaded before that.
if __name__ == "__main__" and not sys.flags.safe_path and not __file__.startswith(f"{sys.path[0]}{os.sep}shoehorn_mcu"):
    del sys.path[0]

import gc
import signal
import traceback
from pathlib import Path
from types import FrameType

INTERRUPTED = 130  # exit code after Ctrl-C, the same as in shells
_TRACEBACK = "GEN_TRACEBACK"  # environment variable: show the traceback of a defect


def _end_at_once(_signal: int, _frame: FrameType | None) -> None:
    """The handler of Ctrl-C during imports: nothing has been done yet, so there is nothing to clean up."""
    os.write(2, b"gen: interrupted\n")
    os._exit(INTERRUPTED)


def main() -> None:
    """Runs `gen` with the process's arguments and ends the process with its exit code."""
    # A shell starts background jobs with Ctrl-C ignored; keep that setting.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)
    gc.disable()  # until all is imported (cli.py): what imports make stays
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices here are small: threads only wait, and take time
    code = _run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: a late Ctrl-C must not spoil the exit code
    sys.exit(code)


def _run() -> int:
    """The exit code of the command."""
    try:
        from shoehorn_mcu.cli.group import main as command

        command(prog_name="gen")
    except SystemExit as ended:
        return _flushed(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except OSError as error:
        return _failed(_in_words(error))
    except MemoryError:
        return _failed("out of memory; close other programs, or use a smaller model")
    except Exception as error:
        return _failed(_defect(error))
    return _flushed(0)


def _flushed(code: int) -> int:
    """The exit code, or 1 with a line where stdout cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _failed(_in_words(error))
    return code


def _failed(message: str, code: int = 1) -> int:
    """Prints one line and drops buffered stdout, because Python would report its write error at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    print(f"gen: {' '.join(message.split())}", file=sys.stderr)
    return code


def _in_words(error: OSError) -> str:
    """The place and the fault; an error without a file name comes from a write to stdout."""
    place = error.filename if isinstance(error.filename, str) else "stdout"
    return f"{place}: {error.strerror or error}"


def _defect(error: Exception) -> str:
    """One line for an exception that should never have reached a user."""
    if os.environ.get(_TRACEBACK):
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return (
        f"a defect of Shoehorn: {type(error).__name__} in {where}: {error}; please report it with the command "
        f"and the model; {_TRACEBACK}=1 shows the traceback"
    )


if __name__ == "__main__":
    main()
