"""A board on the desk's other side: the application with a toy model, run as a process, behind a pty."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import termios
import threading
import tty
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from compilers import HOST, WARNINGS
from numpy.typing import NDArray
from objects import compiled_all

from shoehorn_mcu.emit.folder.sound import app, tables
from shoehorn_mcu_host.base.tasks import BY_ID
from shoehorn_mcu_host.board.ports import POLL_SECONDS, Port
from shoehorn_mcu_host.folder.documents import PlannedOp
from shoehorn_mcu_host.folder.plan import End, Plan

ROOT = Path(__file__).resolve().parents[1]
APP = ROOT / "firmware_templates" / "app"
C = ROOT / "tests" / "c"
SCALE, ZERO = 0.125, 3  # of the output
SOUND_SCALE = 0.0037  # of the input with `sound`

_LONGEST = 20.0  # seconds of a ClockedPort
_TRANSFER_SECONDS = 0.005  # of a write, and of a read that finds bytes

Int8 = NDArray[np.int8]


@dataclass(frozen=True)
class Toy:
    """One build of the toy: its tensors, and the macros that app_config.h would hold."""

    rows: int = 5
    row_bytes: int = 61
    outputs: int = 12
    identity: bytes = b"toymodel"
    mlperf: str = "toy"
    buffer: int = 1
    transform: int = 0
    results: int = 0
    frame_bytes: int = 64
    streamed: bool = False  # the input arrives row by row
    energy: int = 0  # SH_APP_ENERGY
    output_rows: int = 0  # in which the output is handed out; 0: it is whole
    sound: bool = False  # the front end of a wake word; the input is its window of features

    @property
    def inputs(self) -> int:
        return self.rows * self.row_bytes

    @property
    def db_bytes(self) -> int:
        if self.streamed and not self.buffer:
            return 0
        return 1024 if self.sound else self.inputs * (4 if self.transform == 2 else 1)

    def hidden(self, x: Int8) -> Int8:
        """Op 0."""
        return (3 * x.astype(np.int32) + 1).astype(np.uint8).view(np.int8)

    def reference(self, x: Int8) -> Int8:
        """The output of one inference on fresh input."""
        hidden = self.hidden(x).astype(np.int64)
        taps = (np.arange(self.inputs)[None, :] + np.arange(self.outputs)[:, None]) % 7 - 3
        return ((taps @ hidden) >> 2).astype(np.uint8).view(np.int8)

    def plan(self) -> Plan:
        """What plan.json says of the toy."""
        image = End("image", (1, self.rows, self.row_bytes, 1), np.dtype(np.int8), self.inputs, 0.0625, -5)
        scores = End("scores/0", (1, self.outputs), np.dtype(np.int8), self.outputs, SCALE, ZERO)
        rows = max(1, self.output_rows)
        ops = (("triple", "sh_triple", "hidden"), ("sum", "sh_sum", "scores/0"))
        return Plan(
            model="toy",
            identity=self.identity.hex(),
            inputs=(image,),
            outputs=(scores,),
            ops=tuple(PlannedOp(name=name, kernel=kernel, output=output) for name, kernel, output in ops),
            steps=((0, 0, 2), (0, 2, self.rows), (1, 0, rows)),
            row_bytes={"image": self.row_bytes, "hidden": self.row_bytes, "scores/0": self.outputs // rows},
            handed_out=self.output_rows > 0,
        )

    def app_config(self) -> str:
        result = "sh_app_no_data" if self.output_rows else "toy_output"
        octets = ", ".join(str(b) for b in self.identity)
        place = "toy_next_row" if self.streamed else "toy_input"
        return f"""#ifndef APP_CONFIG_H
#define APP_CONFIG_H
#include "toy.h"
#include "board_config.h"
#define SH_APP_NAME "toy"
#define SH_APP_IDENTITY {{{octets}}}
#define SH_APP_INPUT_TABLE(X) X({place}, {self.inputs}u, SH_APP_INT8, {self.stored})
#define SH_APP_OUTPUT_TABLE(X) X({result}, {self.outputs}u, SH_APP_INT8, {SCALE}f, {ZERO})
#define SH_APP_OPS 2
#define SH_APP_RUN() {"((void)0)" if self.streamed else "toy_run()"}
#define SH_APP_INPUT_ROWS {self.rows if self.streamed else 0}u
#define SH_APP_INPUT_ROW_BYTES {self.row_bytes if self.streamed else 0}u
#define SH_APP_PUSH_ROW(row) {"toy_push_row(row)" if self.streamed else "((void)(row))"}
#define SH_APP_RESET() {"toy_reset()" if self.streamed else "((void)0)"}
#define SH_APP_MLPERF "{self.mlperf}"
#define SH_APP_DB_BYTES {self.db_bytes}u
#define SH_APP_DB_BUFFER {self.buffer}
#define SH_APP_INPUT_TRANSFORM {3 if self.sound else self.transform}
#define SH_APP_RESULTS {self.results}
#define SH_APP_FRAME_BYTES {self.frame_bytes}
#define SH_APP_ENERGY {self.energy}
{self._rows()}{self._sound()}#endif
"""

    @property
    def stored(self) -> str:
        """Scale and zero point of the input."""
        return f"{SOUND_SCALE}f, -128" if self.sound else "0.0625f, -5"

    def _sound(self) -> str:
        """The macros of the wake word."""
        macros = app(BY_ID["sww01"], self.inputs) if self.sound else {}
        return "".join(f"#define {name} {value}\n" for name, value in macros.items())

    def _rows(self) -> str:
        """The macros of an output that is handed out."""
        if not self.output_rows:
            return ""
        return f"""#define SH_APP_OUTPUT_ROWS {self.output_rows}u
#define SH_APP_OUTPUT_ROW_BYTES {self.outputs // self.output_rows}u
#define SH_APP_ON_ROW_TABLE(X) X(toy_on_row)
"""

    def build(self, folder: Path, compiler: tuple[str, ...] = HOST, *flags: str) -> Path:
        """Compiles application, toy and fake board into `folder`; the path of the program."""
        (folder / "sh").mkdir(parents=True)
        shutil.copytree(ROOT / "runtime_c" / "include", folder / "sh" / "include")
        (folder / "app_config.h").write_text(self.app_config())
        (folder / "board_config.h").write_text("#define SH_BOARD_TICK_HZ 1000000000\n")
        numbers = {"TOY_ROWS": self.rows, "TOY_ROW_BYTES": self.row_bytes, "TOY_OUTPUTS": self.outputs}
        numbers["TOY_OUTPUT_ROWS"] = self.output_rows
        sizes = "".join(f"#define {name} {value}\n" for name, value in numbers.items())
        prototypes = "int8_t *toy_input(void);\nconst int8_t *toy_output(void);\nvoid toy_run(void);\n"
        prototypes += "void *toy_next_row(void);\nvoid toy_push_row(const void *row);\nvoid toy_reset(void);\n"
        prototypes += "void toy_on_row(int32_t y, const void *row);\n"
        (folder / "toy.h").write_text(f"#pragma once\n#include <stdint.h>\n{sizes}{prototypes}")
        sources = [*sorted(APP.glob("*.c")), C / "toy.c", C / "fake_board.c"]
        if self.sound:
            sources.append(ROOT / "firmware_templates" / "sound" / "sound.c")
            (folder / "sound_tables.h").write_text(tables())
        compile_c(sources, folder / "board", compiler, f"-I{folder}", f"-I{APP}", *flags)
        return folder / "board"


def compile_c(sources: list[Path], program: Path, compiler: tuple[str, ...], *flags: str) -> None:
    """Compiles without a warning, or the test fails with what the compiler says."""
    folder = program.with_name(f"{program.name}_objects")
    folder.mkdir()
    objects = compiled_all([*compiler, *WARNINGS, "-O1", "-g", *flags], sources, folder)
    command = [*compiler, "-O1", *flags, *map(str, objects), "-o", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


Fault = Callable[[bytes], list[bytes]]


def no_fault(chunk: bytes) -> list[bytes]:
    return [chunk]


class Bench:
    """The board's process and the wire to it: a pty whose `path` is the serial port.

    `to_board` and `to_host` may change what passes, frame by frame (everything between two 0x00, these included) or,
    where there are no frames, as it comes.
    """

    def __init__(
        self,
        program: Path,
        to_board: Fault = no_fault,
        to_host: Fault = no_fault,
        *,
        powered: bool = True,
        **environment: str,
    ):
        self._program, self._environment = program, {**os.environ, **environment}
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.path = os.ttyname(self._slave)
        self._faults = to_board, to_host
        self._lock = threading.Lock()
        self._wire = threading.Lock()  # held while something is written to the host
        self._closed = False
        self.process: subprocess.Popen[bytes] | None = None
        if powered:
            self.power_on()
        threading.Thread(target=self._host_to_board, daemon=True).start()

    def power_on(self) -> None:
        """The board wakes up; what it says before the port is open is lost."""
        self.process = subprocess.Popen(
            [str(self._program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        threading.Thread(target=self._board_to_host, args=(self.process,), daemon=True).start()

    def _power_off(self) -> None:
        """Ends the board's process and those that it has started."""
        if self.process and self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _host_to_board(self) -> None:
        cutter = Cutter()
        while not self._closed:
            try:
                data = os.read(self._master, 4096)
            except OSError:
                return
            for chunk in cutter.feed(data):
                for piece in self._faults[0](chunk):
                    self.to_board(piece)

    def to_board(self, data: bytes) -> None:
        """Puts bytes on the board's receive line."""
        with self._lock:
            try:
                assert self.process and self.process.stdin
                self.process.stdin.write(data)
                self.process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # the board has just died; so do the bytes

    def _board_to_host(self, process: subprocess.Popen[bytes]) -> None:
        cutter = Cutter()
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), 4096):
            for chunk in cutter.feed(data):
                for piece in self._faults[1](chunk):
                    with self._wire:
                        if self._closed:
                            return  # the number of the descriptor may be another bench's by now
                        os.write(self._master, piece)

    def reset(self) -> None:
        """The board loses power and wakes up again."""
        with self._lock:
            self._power_off()
            self.power_on()

    def unplug(self) -> None:
        """The port vanishes."""
        self._closed = True
        while not self._wire.acquire(timeout=0.05):
            termios.tcflush(self._slave, termios.TCIFLUSH)  # a writer whose bytes wait for room gets it
        self._wire.release()
        os.close(self._slave)
        os.close(self._master)

    def close(self) -> None:
        self._power_off()
        if not self._closed:
            self.unplug()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClockedPort(Port):
    """A port that counts what is asked of it as seconds, so that limits of time are limits of work.

    `clock` is that of a Link. A link that asks without end is an AssertionError.
    """

    seconds = 0.0

    def clock(self) -> float:
        return self.seconds

    def _pass(self, seconds: float) -> None:
        self.seconds += seconds
        assert self.seconds < _LONGEST, "the link does not give up"

    def read(self) -> bytes:
        data = super().read()
        self._pass(_TRANSFER_SECONDS if data else POLL_SECONDS)
        return data

    def write(self, data: bytes) -> None:
        self._pass(_TRANSFER_SECONDS)
        super().write(data)


class Cutter:
    """Cuts a stream into frames with their zeros; text (no frame open) passes at once."""

    def __init__(self) -> None:
        self._open = b""

    def feed(self, data: bytes) -> list[bytes]:
        chunks = []
        self._open += data
        while self._open:
            if self._open[0] != 0:
                text, zero, rest = self._open.partition(b"\0")
                chunks.append(text)
                self._open = zero + rest
            elif (end := self._open.find(b"\0", 1)) > 0:
                chunks.append(self._open[: end + 1])
                self._open = self._open[end + 1 :]
            else:
                break
        return chunks
