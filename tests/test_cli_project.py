"""`gen firmware`, `plan`, `boards` and `ops` from outside: what they print, write and refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from shared import MODELS, needs_shared

from shoehorn_mcu.cli.group import main
from shoehorn_mcu.emit.bundle import FolderError, write
from shoehorn_mcu.machine import targets

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "generator" / "shoehorn_mcu" / "models" / "digits.tflite"
REPORT = {
    "model": {"name", "ops", "macs", "weight_bytes", "inputs", "outputs"},
    "board": {"id", "cpu", "isa", "sram_bytes", "flash_bytes", "arena_limit_bytes"},
    "plan": {
        "arena_bytes",
        "arena_bound_bytes",
        "arena_bound_of",
        "proven_optimal",
        "smaller",
        "whole_tensor_bytes",
        "macs",
        "recomputed_macs",
        "steps",
        "transposes",
        "status",
        "solve_seconds",
        "predicted_instructions",
        "predicted_cycles",
        "blocks",
        "reason",
    },
    "flash": {"constant_bytes", "code_bytes", "board_bytes"},
    "ram": {
        "arena_bytes",
        "stack_bytes",
        "load_bytes",
        "link_bytes",
        "application_bytes",
        "board_bytes",
        "predicted_bytes",
        "weights_bytes",
    },
    "firmware": {"ram_bytes", "flash_bytes", "stack_bytes"},
}


def gen(*arguments: str | Path) -> Result:
    """`gen` as a user calls it; a traceback fails the test."""
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(*arguments: str | Path) -> str:
    """The one line of a clear refusal."""
    done = gen(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("gen: ") and done.stderr.count("\n") == 1
    return done.stderr


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder that was just written for the micro:bit."""
    assert gen("firmware", "--board", "microbit", "--out", tmp_path / "d").exit_code == 0
    return tmp_path / "d"


def test_the_report_has_the_contract_s_fields(tmp_path: Path):
    done = gen("firmware", "--board", "rpi-zero", "--out", tmp_path / "d", "--json")
    report: dict[str, Any] = json.loads(done.stdout)

    assert done.exit_code == 0
    assert set(report) == {*REPORT, "passes", "choices", "ops"}
    for section, keys in REPORT.items():
        assert set(report[section]) == keys
    assert {tuple(p) for p in report["passes"]} == {("name", "ops_before", "ops_after", "macs_before", "macs_after")}
    assert {tuple(op) for op in report["ops"]} == {("name", "kernel", "macs", "weight_bytes", "predicted_instructions")}
    assert report["model"]["inputs"] == [{"name": "image", "shape": [1, 8, 8, 1], "dtype": "int8"}]
    assert set(report["firmware"].values()) == {None}
    assert report["plan"]["arena_bound_bytes"] <= report["plan"]["arena_bytes"] <= report["plan"]["whole_tensor_bytes"]
    assert report["plan"]["macs"] == sum(op["macs"] for op in report["ops"]) == report["model"]["macs"]
    by_op = sum(op["predicted_instructions"] for op in report["ops"])
    assert abs(report["plan"]["predicted_instructions"] - by_op) <= len(report["ops"])


def test_the_folder_s_report_is_the_printed_one_without_the_seconds(tmp_path: Path):
    done = gen("firmware", "--board", "rpi-zero", "--out", tmp_path / "d", "--json")
    printed = json.loads(done.stdout)
    written = json.loads((tmp_path / "d" / "report.json").read_text())

    assert printed["plan"].pop("solve_seconds") >= 0
    assert written["plan"].pop("solve_seconds") is None
    assert written == printed


@pytest.mark.parametrize("board", [b.id for b in targets.boards()])
def test_the_shipped_model_is_written_for_every_board(board: str, tmp_path: Path):
    done = gen("firmware", "--board", board, "--out", tmp_path / "d")
    files = files_of(tmp_path / "d")

    assert done.exit_code == 0, done.stderr
    assert {"platformio.ini", "plan.json", "README.md", "src/app_config.h", f"boards/{board}.json"} <= set(files)
    assert {"lib/digits/library.json", "lib/digits/src/digits.c", "lib/board/board_config.h"} <= set(files)
    assert {"reference/graph.json", "reference/constants.bin", "platform/platform.json"} <= set(files)
    here = [str(place).encode() for place in (ROOT, MODELS.parent, tmp_path)]
    assert not [path for path, data in files.items() if any(place in data for place in here)]
    assert not [path for path, data in files.items() if b"@RAM" in data or b"@BOARD@" in data or b"@MODEL@" in data]


def test_the_reference_has_the_contracts_of_the_model_and_what_they_include(digits_project: Path):
    runtime = digits_project / "reference" / "runtime"
    graph = json.loads((digits_project / "reference" / "graph.json").read_text())
    used = {op["function"].removeprefix("sh_") for op in graph["ops"] if "function" in op}

    assert {path.stem for path in runtime.rglob("*.c")} == used
    assert {path.name for path in (runtime / "include").iterdir()} == {"sh_quant.h"}
    assert len(files_of(digits_project)) <= 120


def test_equal_inputs_give_byte_equal_folders_whatever_the_hash_seed_and_place(tmp_path: Path):
    for seed, folder in (("1", tmp_path / "a" / "x"), ("77", tmp_path / "b" / "longer")):
        command = [
            sys.executable,
            "-m",
            "shoehorn_mcu.cli.group",
            "firmware",
            "--board",
            "rpi-zero",
            "--out",
            str(folder),
        ]
        code = f"import sys; sys.argv = {['gen', *command[3:]]!r}; from shoehorn_mcu.__main__ import main; main()"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        folder.parent.mkdir()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=folder.parent, timeout=120)

    assert files_of(tmp_path / "a" / "x") == files_of(tmp_path / "b" / "longer")


def test_the_default_folder_is_named_after_model_and_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    assert gen("firmware", "--board", "microbit").exit_code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["digits-microbit"]


def test_a_folder_of_ours_is_written_again_and_keeps_what_platformio_built(digits: Path):
    (digits / ".pio" / "build").mkdir(parents=True)
    (digits / ".pio" / "build" / "firmware.elf").write_text("built")
    (digits / "platform" / "__pycache__").mkdir()
    (digits / "platform" / "__pycache__" / "platform.pyc").write_text("cached")
    (digits / "report.json").write_text('{"firmware": {"ram_bytes": 1}}')  # as a build leaves it
    done = gen("firmware", "--board", "rpi-zero", "--out", digits)

    assert done.exit_code == 0
    assert (digits / ".pio" / "build" / "firmware.elf").read_text() == "built"
    assert not (digits / "boards" / "microbit.json").exists()
    assert json.loads((digits / "report.json").read_text())["board"]["id"] == "rpi-zero"
    assert [p.name for p in digits.parent.iterdir()] == [digits.name]


@pytest.mark.parametrize("harm", ["changed", "added", "link", "no manifest", "bad manifest", "no report"])
def test_a_folder_that_holds_something_else_is_refused_and_untouched(harm: str, digits: Path):
    harms = {
        "changed": lambda: (digits / "src" / "main.c").write_text("// mine"),
        "added": lambda: (digits / "src" / "mine.c").write_text("// mine"),
        "link": lambda: (digits / "elsewhere").symlink_to(digits.parent),
        "no manifest": lambda: (digits / ".shoehorn.json").unlink(),
        "bad manifest": lambda: (digits / ".shoehorn.json").write_text("[1]"),
        "no report": lambda: (digits / "report.json").unlink(),
    }
    harms[harm]()
    before = files_of(digits)
    said = refused("firmware", "--board", "rpi-zero", "--out", digits)

    assert "nothing was written" in said and str(digits) in said
    assert files_of(digits) == before
    assert [p.name for p in digits.parent.iterdir()] == [digits.name]


def test_a_file_or_a_strangers_folder_in_the_way_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("mine")

    assert "is a file" in refused("firmware", "--board", "rpi-zero", "--out", tmp_path / "file")
    assert "not written by Shoehorn" in refused("firmware", "--board", "rpi-zero", "--out", tmp_path / "folder")
    assert "cannot be written" in refused("firmware", "--board", "rpi-zero", "--out", tmp_path / "file" / "d")
    assert files_of(tmp_path) == {"file": b"mine", "folder/thesis.tex": b"mine"}


def test_a_name_with_brackets_and_colons_is_printed_as_it_is(tmp_path: Path):
    folder = tmp_path / "[/x] [red] :smile:"
    done = gen("firmware", "--board", "native", "--out", folder)

    assert done.exit_code == 0
    assert f"wrote {folder}: " in done.stdout


def test_an_empty_folder_is_filled(tmp_path: Path):
    (tmp_path / "d").mkdir()

    assert gen("firmware", "--board", "microbit", "--out", tmp_path / "d").exit_code == 0
    assert (tmp_path / "d" / "platformio.ini").is_file()


def test_a_write_that_fails_half_way_leaves_no_trace(tmp_path: Path):
    bundle = {"a/b": b"1", "a": b"a file where a folder is"}

    with pytest.raises(FolderError, match="cannot be written"):
        write(bundle, tmp_path / "d")

    assert list(tmp_path.iterdir()) == []


def test_a_rename_that_fails_puts_the_old_folder_back(digits: Path, monkeypatch: pytest.MonkeyPatch):
    before = files_of(digits)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if ".new-" in self.name:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    assert "No space left" in refused("firmware", "--board", "microbit", "--out", digits)
    assert files_of(digits) == before
    assert [p.name for p in digits.parent.iterdir()] == [digits.name]


def test_a_model_that_does_not_fit_is_told_the_peak_and_what_would_help(tmp_path: Path):
    smallest = gen("plan", DIGITS, "--board", "microbit", "--minimize", "sram", "--json")
    least = json.loads(smallest.stdout)["plan"]["arena_bytes"]
    options = ("--sram", str(least - 1), "--recompute", "0", "--out", tmp_path / "d")
    said = refused("firmware", "--board", "microbit", *options)

    for part in (
        "digits on microbit",
        f"{least:,} bytes",
        f"{least - 1:,} are available",
        "the peak is step",
        "where these are alive: '",
        f"--sram {least}",
        "--stream-input never holds the whole input",
    ):
        assert part in said
    assert "--stream-input" not in refused("plan", DIGITS, "--sram", "500", "--recompute", "0", "--stream-input")
    assert not (tmp_path / "d").exists()
    fits = gen("plan", DIGITS, "--board", "microbit", "--sram", str(least), "--recompute", "0")
    assert fits.exit_code == 0


def test_below_the_smallest_arena_macs_are_computed_again_as_far_as_they_may_be():
    def planned(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(gen("plan", DIGITS, *options, "--json").stdout)["plan"]
        return found

    least = planned("--minimize", "sram")
    below = planned("--sram", str(least["arena_bytes"] - 1))
    share = 100 * below["recomputed_macs"] / least["macs"]
    enough = planned("--sram", str(least["arena_bytes"] - 1), "--recompute", str(share + 0.01))

    assert below["arena_bytes"] < least["arena_bytes"]
    assert below["macs"] - below["recomputed_macs"] == least["macs"] and below["recomputed_macs"] > 0
    assert below["blocks"] and set(below["blocks"][0]) == {"block", "chunks", "band_rows"}
    assert 0 < enough["recomputed_macs"] <= below["recomputed_macs"]
    told = gen("plan", DIGITS, "--sram", str(least["arena_bytes"] - 1)).stdout
    assert f"{share:.1f} % of the MACs recomputed" in told
    assert (least["blocks"], least["recomputed_macs"]) == ([], 0)


@needs_shared
@pytest.mark.parametrize(
    ("model", "board", "parts"),
    [
        ("mlperf-ic-resnet8-int8", "stm32vldiscovery", ["bytes in the best plan found", "5,120", "microbit"]),
        ("mlperf-ad-int8", "microbit", ["bytes of flash", "262,144", "nucleo-f401re"]),
        ("facemesh-192-fullint", "netduinoplus2", ["442,368 bytes", "mps2-an386"]),
    ],
)
def test_what_is_too_large_for_a_board_is_told_which_boards_have_room(model: str, board: str, parts: list[str]):
    said = refused("firmware", MODELS / f"{model}.tflite", "--board", board, "--out", "never-written")

    assert all(part in said for part in parts), said
    assert not Path("never-written").exists()


@pytest.mark.usefixtures("full_effort")
@pytest.mark.parametrize(
    ("model", "stream"),
    [
        (DIGITS, []),
        (DIGITS, ["--stream-input"]),
        pytest.param(MODELS / "mlperf-vww96-int8.tflite", ["--stream-input"], marks=(needs_shared, pytest.mark.long)),
        pytest.param(MODELS / "coral-mnv2-tf2-ptq.tflite", [], marks=(needs_shared, pytest.mark.long)),
    ],
    ids=["digits", "digits-streamed", "vww-streamed", "mobilenet"],
)
def test_a_budget_below_the_bound_is_told_the_bound_and_the_step_that_sets_it(
    model: Path, stream: list[str], tmp_path: Path
):
    best = json.loads(gen("plan", model, "--minimize", "sram", *stream, "--json").stdout)["plan"]
    budget, page = best["arena_bound_bytes"] - 1, tmp_path / "plan.html"
    said = refused("plan", model, "--sram", str(budget), "--recompute", "0", *stream, "--html", page)
    least = re.search(r"at least ([\d,]+) bytes", said)

    assert least and budget < int(least[1].replace(",", "")) <= best["arena_bytes"], said
    assert re.search(r"step \d+ \('[^']+'\)|the input", said), said
    assert f"{budget:,} are available" in said
    assert not page.exists()


def test_preserved_tensors_become_outputs_and_passes_can_be_left_out():
    done = gen("plan", DIGITS, "--preserve", "stem", "--disable", "fold-pad", "--json")
    report = json.loads(done.stdout)

    assert "fold-pad" not in [p["name"] for p in report["passes"]]
    assert report["board"] is None
    assert report["plan"]["whole_tensor_bytes"] > 2560  # stem is kept to the end


def test_a_streamed_input_makes_a_plan_of_its_own_and_its_rows_stand_in_the_steps(tmp_path: Path):
    folder = tmp_path / "digits"
    arguments = ("firmware", DIGITS, "--board", "native", "--stream-input", "--json", "--out", folder)
    report = json.loads(gen(*arguments).stdout)
    plan = json.loads((folder / "plan.json").read_text())
    header = (folder / "lib/digits/src/digits.h").read_text()
    arrived = [y for step in plan["steps"] if "input" in step for y in range(*step["rows"])]

    assert report["plan"]["arena_bytes"] == plan["arena_bytes"] <= 2560
    assert (arrived, plan["steps"][0]["input"]) == (list(range(8)), 0)
    assert len(plan["steps"]) == report["plan"]["steps"]
    assert "digits_push_row(const void *row)" in header
    assert "digits_run(" not in header
    assert "digits_input(" not in header


@pytest.mark.parametrize("options", [[], ["--stream-input"]], ids=["whole", "streamed"])
def test_the_folder_s_readme_names_functions_that_the_library_has(options: list[str], tmp_path: Path):
    folder = tmp_path / "d"
    assert gen("firmware", "--board", "microbit", *options, "--out", folder).exit_code == 0
    header = (folder / "lib" / "digits" / "src" / "digits.h").read_text()
    named = set(re.findall(r"\b(digits_\w+)\(", (folder / "README.md").read_text()))
    declared = set(re.findall(r"\b(digits_\w+)\(", header))

    assert named <= declared
    assert {"digits_output", "digits_push_row" if options else "digits_run"} <= named


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--board", "zap"], "unknown board 'zap'"),
        (["--board", "microbit", "--disable", "zap"], "zap"),
        (["--board", "microbit", "--preserve", "zap"], "zap"),
        (["--board", "microbit", "--mlperf", "kws01"], "is not a kws01 model"),
        (["no-such.tflite", "--board", "microbit"], "no-such.tflite: cannot be read"),
        ([str(ROOT / "README.md"), "--board", "microbit"], "unknown kind of model"),
        ([str(ROOT), "--board", "microbit"], "is a folder; name a file that ends in .tflite"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments: list[str], part: str, tmp_path: Path):
    assert part in refused("firmware", *arguments, "--out", tmp_path / "d")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["firmware"],
        ["plan"],
        ["firmware", "--board", "microbit", "--sram", "0"],
        ["firmware", "--board", "microbit", "--sram", "12q"],
        ["firmware", "--board", "microbit", "--minimize", "both"],
        ["firmware", "--board", "microbit", "--mlperf", "zap"],
        ["zap"],
        ["plan", str(DIGITS), "--recompute", "nan"],
        ["plan", str(DIGITS), "--recompute", "inf"],
        ["remat", "g.json", "--budget", "9", "--seconds", "nan"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]):
    assert gen(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("option", "named"),
    [
        (["--sram", "4k"], "--sram"),
        (["--minimize", "time"], "--minimize"),
        (["--stream-input"], "--stream-input"),
        (["--board", "microbit"], "--board"),
        (["--json", "--pareto"], "--pareto"),
    ],
)
@pytest.mark.parametrize("subject", [["--graph", "g.json", "--budget", "9"], ["--buffers", "b.csv"]])
def test_what_is_for_models_is_not_taken_in_silence_for_graphs_and_buffers(
    option: list[str], named: str, subject: list[str]
):
    done = gen("plan", *subject, *option)

    assert (done.exit_code, bool(done.stdout)) == (2, "--json" in option)
    assert done.stderr.splitlines()[-1] == f"Error: {named} belongs to MODEL"


@pytest.mark.parametrize(("size", "arena"), [("3k", True), ("1k", False), ("3000", True), ("1M", True)])
def test_sizes_are_bytes_or_have_a_unit(size: str, arena: bool):
    assert (gen("plan", DIGITS, "--sram", size, "--recompute", "0").exit_code == 0) is arena


def test_whole_tensors_are_kept_within_a_budget_and_rows_are_taken_where_they_cost_next_to_nothing():
    def planned(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(gen("plan", DIGITS, *options, "--json").stdout)["plan"]
        return found

    time, sram, tight = planned("--sram", "2560"), planned("--minimize", "sram"), planned("--sram", "2000")
    default = planned()

    assert time["arena_bytes"] == time["whole_tensor_bytes"] == 2560
    assert sram["arena_bytes"] <= default["arena_bytes"] < 1.07 * sram["arena_bytes"]  # it has the fastest kernels
    assert default["predicted_instructions"] < 1.015 * time["predicted_instructions"]
    assert default["arena_bound_bytes"] == time["arena_bound_bytes"] >= sram["arena_bound_bytes"]  # of their kernels
    assert not time["proven_optimal"]
    assert sram["arena_bytes"] < tight["arena_bytes"] <= 2000
    assert time["steps"] == 16 <= tight["steps"] <= sram["steps"]
    assert {p["recomputed_macs"] for p in (time, sram, tight)} == {0}


def test_boards_lists_every_board_and_how_far_it_is_verified():
    listed = json.loads(gen("boards", "--json").stdout)["boards"]

    assert {row["id"] for row in listed} == {b.id for b in targets.boards()} >= {"native", "rpi-zero", "microbit"}
    assert all(set(row["verified"]) <= {"build", "core", "emulator", "hardware"} for row in listed)
    levels = {row["id"]: (row["level"], (row["emulator"] or {}).get("unit")) for row in listed}
    assert levels["nucleo-h743zi"] == ("core", "instructions")
    assert levels["rpi-pico"] == ("emulator", "cycles")
    assert levels["native"] == ("emulator", "us")
    printed = gen("boards").stdout
    assert all(board.id in printed for board in targets.boards())
    parts, _, machines = printed.partition("emulated machines")
    assert " verified " in parts and machines.startswith(", and this one (verified: emulator)")
    pico = next(row for row in listed if row["id"] == "rpi-pico")
    assert [memory["name"] for memory in pico["memories"]] == ["ram", "scratch_x", "scratch_y"]


def test_a_board_that_is_verified_less_far_than_others_has_it_in_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    manifest = json.loads((targets.BOARDS / "microbit.json").read_text())
    for name, verified in (("mine", ["build"]), ("new", [])):
        manifest["shoehorn"]["verified"] = verified
        (tmp_path / f"{name}.json").write_text(json.dumps(manifest))
    monkeypatch.setenv("SHOEHORN_BOARDS", str(tmp_path))
    rows = {line.split()[0]: line.split() for line in gen("boards").stdout.splitlines() if line.strip()}

    assert [("build" in rows["mine"]), ("no" in rows["new"]), ("emulator" in rows["microbit"])] == [True] * 3
    assert "emulator" not in rows["native"]


def test_ops_lists_the_names_of_the_format():
    listed = json.loads(gen("ops", "--json").stdout)["importers"]

    assert {"CONV_2D", "SOFTMAX", "RESIZE_BILINEAR", "IF"} <= set(listed["tflite"])
    assert {"Conv", "Softmax", "Resize", "If", "Scan"} <= set(listed["onnx"])


def test_ops_says_which_kernels_there_are_for_an_op_in_an_element_type():
    types = json.loads(gen("ops", "--json").stdout)["types"]
    rows = {line.split()[0]: line.split()[1:] for line in gen("ops").stdout.splitlines()}

    assert types["tflite"]["CONV_2D"]["int8"] == ["c", "thumb", "simd32", "mve", "neon", "dot", "i8mm", "riscv"]
    assert rows["CONV_2D"] == ["ctsmndir", "c", "cmvf", "-"] and "other" not in types["tflite"]["CONV_2D"]
    assert rows["QLinearConv"] == ["ctsmndir", "-", "-", "-"]
    assert rows["Identity"] == ["."] * 4 and types["onnx"]["Identity"]["int8"] == []
    assert types["pt2"] == types["onnx"]
    assert len({isa.value[0] for isa in targets.Isa}) == len(targets.Isa), "named by their first letters"


def test_plan_json_numbers_its_ops_as_the_steps_do(digits: Path):
    plan = json.loads((digits / "plan.json").read_text())
    placed = {placement["tensor"]: placement for placement in plan["placements"]}

    assert sorted({step["op"] for step in plan["steps"]}) == list(range(len(plan["ops"])))
    for number, op in enumerate(plan["ops"]):
        computed = [y for step in plan["steps"] if step["op"] == number for y in range(*step["rows"])]
        assert computed == list(range(placed[op["output"]]["rows"]))
    assert len(bytes.fromhex(plan["identity"])) == 8
    assert plan["inputs"][0] | {"scale": 0} == {
        "name": "image",
        "shape": [1, 8, 8, 1],
        "dtype": "int8",
        "bytes": 64,
        "scale": 0,
        "zero_point": -128,
        "source": {**plan["inputs"][0]["source"], "name": "image", "order": [0, 1, 2, 3]},
    }
    identity = (digits / "src" / "app_config.h").read_text().split("SH_APP_IDENTITY")[1].splitlines()[0]
    assert identity.replace("0x", "").replace(", ", "").strip(" {}") == plan["identity"]
