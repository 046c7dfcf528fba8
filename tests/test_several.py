"""Several models in one firmware: they share kernels and memory, and every board answers for each of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from compilers import HOST, SANITIZERS, WARNINGS
from conftest import Gen
from doc_code import c_blocks
from shared import MODELS as SHARED_MODELS
from shared import needs_shared
from test_cli_device import needs_qemu
from test_link import Faults
from test_states import ring
from toy import Bench, C, compile_c

import shoehorn_mcu
from shoehorn_mcu import Imported, PlanOptions, ShoehornError
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.emit.folder.kernels_library import KERNELS
from shoehorn_mcu.estimate.ram import ram
from shoehorn_mcu.firmware import build, several
from shoehorn_mcu.firmware.settings import Options
from shoehorn_mcu.firmware.several import SameName, Together, UnknownModel, firmware_of_several, streamed
from shoehorn_mcu.machine import targets
from shoehorn_mcu.passes.float_mode import FloatMode, FloatModeError
from shoehorn_mcu.planner import DoesNotFit, Goal
from shoehorn_mcu.schedule.stage import kernel_bytes
from shoehorn_mcu_host.base.errors import LinkError
from shoehorn_mcu_host.board import session
from shoehorn_mcu_host.board.frames import Kind
from shoehorn_mcu_host.board.link import Inference, Link, Mode, Timing
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import ensure_built
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project
from shoehorn_mcu_host.validate.reference import Reference

NATIVE = targets.board("native")


def digits(folder: Path, name: str) -> Path:
    """The shipped model under another name."""
    return Path(shutil.copy(MODELS / "digits.tflite", folder / f"{name}.tflite"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models for `native`: one streamed, one with a state, one whole. Built; no test changes it."""
    place = tmp_path_factory.mktemp("several")
    models = [digits(place, "wake"), Imported(ring(), {}), digits(place, "command")]
    made = shoehorn_mcu.generate_together(models, place / "made", PlanOptions(board="native"), stream=["wake.tflite"])
    ensure_built(Project.open(made.folder))
    return made.folder


@pytest.fixture
def link(folder: Path) -> Iterator[Link]:
    project = Project.open(folder)
    with session.connected(project, Plan.of(project), None, True, False) as opened:
        yield opened


def names(folder: Path) -> list[str]:
    return json.loads((folder / "report.json").read_text())["together"]["models"]


def reference(project: Project) -> Reference:
    return Reference.load(project.described, "", project.folder / "reference" / "runtime")


def infer(link: Link, project: Project, vector: vectors.Vector) -> Inference:
    plan = Plan.of(project)
    session.turn(link, project, plan).expect(plan)
    sizes = [end.bytes for end in plan.outputs]
    return link.infer([array.tobytes() for array in vector], sizes, Mode.CRC, row_bytes=plan.streamed_row_bytes)


def test_each_kernel_is_compiled_once_in_a_library_of_its_own(folder: Path):
    libraries = [path.name for path in sorted((folder / "lib").iterdir())]
    kernels = [path.stem for path in (folder / "lib" / KERNELS / "src").glob("*.c")]
    used = {
        op["kernel"] for part in ("", *(f"models/{name}" for name in names(folder)[1:])) for op in _ops(folder / part)
    }

    assert libraries == sorted(["board", KERNELS, *names(folder)])
    assert sorted(kernels) == sorted(f"{KERNELS}_{name.removeprefix('sh_')}" for name in used)
    for name in names(folder):
        sources = {path.name for path in (folder / "lib" / name / "src").rglob("*") if path.suffix in (".c", ".inc")}
        assert sources == {f"{name}.c", f"{name}_weights.c"}


def _ops(place: Path) -> list[dict[str, str]]:
    return json.loads((place / "plan.json").read_text())["ops"]


def _elf_symbols(folder: Path) -> str:
    elf = Project.open(folder).elf
    return subprocess.run(["nm", "-S", str(elf)], capture_output=True, text=True, check=True).stdout


def test_the_firmware_has_one_arena_as_large_as_the_largest(folder: Path):
    together = json.loads((folder / "report.json").read_text())["together"]
    parts = [folder, *(folder / "models" / name for name in names(folder)[1:])]
    arenas = [json.loads((part / "plan.json").read_text())["arena_bytes"] for part in parts]
    sizes = [int(size, 16) for size in re.findall(r"^\w+ (\w+) [bB] arena$", _elf_symbols(folder), re.M)]

    assert min(arenas) < max(arenas)
    assert together["arena_bytes"] == max(arenas) and not together["concurrent"]
    assert max(sizes) == max(arenas)  # the others are the libraries' pointers to it
    assert sum(size > 8 for size in sizes) == 1


def test_one_model_is_written_without_anything_of_several(digits_project: Path):
    config = (digits_project / "src" / "app_config.h").read_text()

    assert not (digits_project / "models").exists() and not (digits_project / "lib" / KERNELS).exists()
    assert not (digits_project / "src" / "models.c").exists()
    assert "together" not in json.loads((digits_project / "report.json").read_text())
    assert "SH_APP_MODEL" not in config and "SH_APP_SELECT" not in config


def test_validate_and_bench_take_the_models_in_turn(gen: Gen, folder: Path):
    for command in (("validate", folder, "--count", 3), ("bench", folder, "--runs", 1)):
        result = gen(*map(str, command), "--emulate", "--json")
        found = json.loads(result.stdout)
        first = {key: value for key, value in found["models"][0].items() if key != "model"}

        assert result.exit_code == 0
        assert [each["model"] for each in found["models"]] == ["wake", "ring", "command"]
        assert {key: value for key, value in found.items() if key != "models"} == first
        assert all(each.get("mismatched_vectors", 0) == 0 for each in found["models"])


def test_one_model_of_several_is_named(gen: Gen, folder: Path):
    result = gen("validate", folder, "--emulate", "--count", 2, "--model", "command")
    unknown = gen("validate", folder, "--emulate", "--model", "hello")
    ambiguous = gen("validate", folder, "--emulate", "--outputs", "z.npz")

    assert result.exit_code == 0 and result.stdout.startswith("command on native: 2 vectors")
    assert unknown.exit_code == 1 and "has no model 'hello'; there are wake, ring, command" in unknown.stderr
    assert ambiguous.exit_code == 2 and "name it with --model" in ambiguous.stderr
    assert shoehorn_mcu.validate(folder, emulate=True, count=2, model="ring").mismatched_vectors == 0


def test_models_in_any_order_on_one_board_compute_what_each_does_alone(folder: Path, link: Link):
    projects = Project.open(folder).models
    references = [reference(each) for each in projects]
    for number in np.random.default_rng(1).integers(0, 3, 40):
        project = projects[number]
        plan = Plan.of(project)
        (vector,) = vectors.random(project.described, plan.inputs, 1, int(number))
        references[number].reset()  # selecting a model gives its state the first value
        link.select(0)
        link.select(1)
        found = infer(link, project, vector)
        wanted = references[number].run(vector)

        assert found.outputs == tuple(wanted[end.name].tobytes() for end in plan.outputs)
        assert list(found.trace) == plan.op_crcs(wanted)


def test_rows_before_another_model_ran_are_discarded(folder: Path, link: Link):
    wake, _, command = Project.open(folder).models
    plan = Plan.of(wake)
    (vector,) = vectors.random(wake.described, plan.inputs, 1, 7)
    data, row = vector[0].tobytes(), plan.streamed_row_bytes
    link._stream(data[: 3 * row], row, Mode.PLAIN, lambda _: None)
    infer(link, command, next(vectors.random(command.described, Plan.of(command).inputs, 1, 8)))
    found = infer(link, wake, vector)

    assert found.outputs == (reference(wake).run(vector)[plan.outputs[0].name].tobytes(),)


def test_a_greeting_selects_the_first_and_tells_how_many_there_are(folder: Path, link: Link):
    wake, ring_, command = (Plan.of(each) for each in Project.open(folder).models)
    greeted = link.hello
    link.select(2)
    selected = link.hello

    assert (greeted.name, greeted.identity, greeted.models) == ("wake", wake.identity, 3)
    assert (selected.name, selected.identity, selected.models) == ("command", command.identity, 3)
    assert selected.ops == len(command.ops) and selected.identity != ring_.identity
    assert link._hello(Kind.HELLO).name == "wake"
    for payload, error in ((b"", 1), (b"\0\0", 1), (b"\3", 3), (b"\xff", 3)):
        with pytest.raises(LinkError, match=f"refuses the choice of a model .error {error}"):
            link._request(Kind.MODEL, payload)


def said(link: Link, words: bytes, last: bytes) -> bytes:
    """What the board answers in text, until it has said this pattern."""
    link._port.write(words)
    heard, deadline = b"", time.monotonic() + 20
    while not re.search(last, heard):
        assert time.monotonic() < deadline, heard
        heard += link._port.read()
    return heard


def test_text_is_about_the_first_model_whatever_frames_selected(folder: Path, link: Link):
    link.select(1)
    zeros = b"00" * 32
    text = said(link, b"\0profile%", b"m-ready")
    text += said(link, b"db load 64%db " + zeros + b"%db " + zeros + b"%infer 1 0%", rb"m-results-\[.*\]")
    wake = Project.open(folder)
    plan = Plan.of(wake)
    wanted = reference(wake).run([np.zeros(plan.inputs[0].shape, np.int8)])[plan.outputs[0].name]
    real = (wanted.astype(np.float64).ravel() - plan.outputs[0].zero_point) * plan.outputs[0].scale

    assert b"m-model-[wake]" in text
    assert b"m-results-[" + ",".join(f"{value:.3f}" for value in real).encode() in text


def test_a_fault_in_one_model_is_found_there_and_nowhere_else(gen: Gen, folder: Path, tmp_path: Path):
    place = tmp_path / "faulty"
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns(".pio"))
    weights = place / "lib" / "command" / "src" / "command_weights.c"
    text = weights.read_text()
    number = re.compile(r"-?\d+").search(text, text.index("{", text.index("op3")))
    assert number
    weights.write_text(f"{text[: number.start()]}{(int(number[0]) + 90) % 127}{text[number.end() :]}")
    result = gen("validate", place, "--emulate", "--count", 2, "--json")
    wake, other, command = json.loads(result.stdout)["models"]

    assert result.exit_code == 1
    assert (wake["mismatched_vectors"], other["mismatched_vectors"], command["mismatched_vectors"]) == (0, 0, 2)
    assert command["first_bad_op"] == _ops(place / "models" / "command")[3]["name"]


def test_a_firmware_with_another_model_is_refused(gen: Gen, folder: Path, tmp_path: Path):
    place = tmp_path / "other"
    shutil.copytree(folder, place)
    path = place / "models" / "command" / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "identity": "0123456789abcdef"}))
    result = gen("bench", place, "--emulate", "--model", "command")

    assert result.exit_code == 1
    assert "the board runs another firmware ('command'" in result.stderr


@pytest.mark.parametrize("listed", [["wake", "../ring"], ["wake", "/etc"], ["wake"]])
def test_a_damaged_list_of_models_is_refused(gen: Gen, folder: Path, listed: Sequence[str], tmp_path: Path):
    place = tmp_path / "damaged"
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns(".pio"))
    report = json.loads((place / "report.json").read_text())
    report["together"]["models"] = listed
    (place / "report.json").write_text(json.dumps(report))
    result = gen("validate", place, "--emulate")

    assert result.exit_code == 1 and "report.json: damaged: together" in result.stderr


def test_concurrent_models_have_bytes_of_their_own(gen: Gen, tmp_path: Path):
    models = [(digits(tmp_path, name), Options()) for name in ("one", "two")]
    together, files = firmware_of_several(models, NATIVE, concurrent=True)
    sizes = [each.unit.plan.arena_bytes for each in together.models]
    config = files["src/app_config.h"].decode()

    assert together.offsets == (0, -(-sizes[0] // 16) * 16)
    assert together.arena_bytes == together.offsets[1] + sizes[1]
    assert f"#define SH_APP_INIT(arena) (one_init((arena)), two_init((arena) + {together.offsets[1]}))" in config
    bundle.write(files, tmp_path / "made")
    assert gen("validate", tmp_path / "made", "--emulate", "--count", 2).exit_code == 0


@needs_shared
def test_concurrent_models_divide_a_small_memory(tmp_path: Path):
    board = targets.board("netduinoplus2")
    kws = SHARED_MODELS / "mlperf-kws-dscnn-int8.tflite"
    paths = [Path(shutil.copy(kws, tmp_path / f"{name}.tflite")) for name in ("one", "two")]

    def arenas(options: Options, concurrent: bool = True) -> list[int]:
        together, _ = firmware_of_several([(path, options) for path in paths], board, concurrent=concurrent)
        assert together.arena_bytes <= (options.sram_bytes or board.arena_limit_bytes)
        return [each.unit.plan.arena_bytes for each in together.models]

    (most, _), (fewest, _) = arenas(Options()), arenas(Options(goal=Goal.SRAM))
    limit = most + fewest + 64
    first, second = arenas(Options(sram_bytes=limit))

    assert 2 * fewest < first + second <= limit < 2 * most
    assert first > second
    with pytest.raises(DoesNotFit, match=r"one and two on netduinoplus2: need at least .* .one [\d,]+, two [\d,]+., "):
        arenas(Options(sram_bytes=2 * fewest - 32))


@pytest.mark.parametrize("smallest", [False, True])
def test_models_divide_the_flash_that_no_kernel_takes(smallest: bool, tmp_path: Path):
    """Each may use its own kernels' bytes and its part of the rest; also where nothing is left."""
    options, board = Options(smallest_kernels=smallest), targets.board("microbit")
    models = [digits(tmp_path, name) for name in ("one", "two")]
    together, _ = firmware_of_several([(model, options) for model in models], board)
    each = [model.unit.stages for model in together.models]
    limits = [stages[0].machine.flash_left or 0 for stages in each]
    spare = sum(limits) - sum(map(kernel_bytes, each))
    left = build.machine_for([build.prepare(model, board, options) for model in models], board).flash_left or 0
    rest = left - kernel_bytes([stage for stages in each for stage in stages])

    assert max(0, rest) - len(models) < spare <= max(0, rest)
    assert (rest < 0) == smallest


def test_every_model_that_does_not_fit_is_named(tmp_path: Path):
    paths = [digits(tmp_path, name) for name in ("one", "two")]
    with pytest.raises(DoesNotFit, match=r"one on native: needs .*; --stream one .*; and two on native: needs "):
        firmware_of_several([(path, Options(sram_bytes=64)) for path in paths], NATIVE)


def test_where_a_system_provides_stacks_the_ram_counts_one_for_each_core(tmp_path: Path):
    (together, _), spec = firmware_of_several([(digits(tmp_path, "one"), Options())], NATIVE), NATIVE.spec

    assert together.ram_bytes == together.arena_bytes + spec.firmware_ram_bytes + spec.stack_bytes
    (one,) = together.models
    steps = tuple(replace(step, cores=3) for step in one.unit.plan.steps)
    shared = replace(one, unit=replace(one.unit, plan=replace(one.unit.plan, steps=steps)))
    for models in ((one, shared), (shared, one)):
        assert replace(together, models=models).ram_bytes == together.ram_bytes + 2 * spec.stack_bytes


def test_where_the_ram_of_a_family_is_known_the_prediction_is_of_that(tmp_path: Path):
    board = targets.board("microbit")
    together, _ = firmware_of_several([(digits(tmp_path, "one"), Options())], board)
    (one,) = together.models

    known = ram(together.arena_bytes, len(one.unit.stages), 0, 1, board)
    assert known is not None and together.ram_bytes == known.bytes
    assert together.ram_bytes != together.arena_bytes + board.spec.firmware_ram_bytes + board.spec.stack_bytes


def test_models_that_do_not_fit_need_as_many_bytes_as_the_largest():
    options = Options(sram_bytes=4)
    small, large = (Imported(ring(), {}), options), (Imported(replace(ring(9), name="large"), {}), options)
    needs = []
    for models in ([small], [large], [small, large], [large, small]):
        with pytest.raises(DoesNotFit) as refused:
            firmware_of_several(models, NATIVE)
        needs.append((refused.value.needed_bytes, refused.value.available_bytes))
        names = [line.split()[0] for line in refused.value.lines if " on native: needs " in line]
        assert names == [model.graph.name for model, _ in models]

    assert needs[0] < needs[1] == needs[2] == needs[3]


@pytest.mark.parametrize("every", [False, True])
def test_a_model_named_by_its_file_or_its_c_name_is_streamed_beside_those_that_are_anyway(every: bool):
    paths = [Path(f"{name}.tflite") for name in ("wake-up", "two", "three")]
    found = streamed(paths, Options(stream_input=every), ["wake_up", "three.tflite"])

    assert [options.stream_input for _, options in found] == [True, every, True]
    with pytest.raises(UnknownModel, match=r"^--stream six: .*; there are wake_up, two, three$"):
        streamed(paths, Options(), ["two", "six", "seven"])


@needs_shared
def test_models_that_exceed_the_flash_together_are_all_named(tmp_path: Path):
    models = [(SHARED_MODELS / f"mlperf-{name}-int8.tflite", Options()) for name in ("ic-resnet8", "ad")]
    with pytest.raises(
        DoesNotFit, match=r"mlperf_ic_resnet8_int8 and mlperf_ad_int8 on microbit: .* flash .*ad_int8 2"
    ):
        firmware_of_several(models, targets.board("microbit"))


def test_models_of_one_name_are_refused_with_both_files(gen: Gen, tmp_path: Path):
    (tmp_path / "other").mkdir()
    paths = [digits(tmp_path, "kws"), digits(tmp_path / "other", "kws")]
    result = gen("firmware", *paths, "--board", "native", "--out", tmp_path / "made")
    header = [(digits(tmp_path, name), Options()) for name in ("kws_weights", "kws")]

    assert result.exit_code == 1 and not (tmp_path / "made").exists()
    assert (
        result.stderr
        == f"gen: {paths[0]} and {paths[1]}: both would have files called kws.h; rename one of the models\n"
    )
    with pytest.raises(SameName, match=r"kws_weights\.h"):
        firmware_of_several(header, NATIVE)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("one.tflite", "--concurrent"), 2, "--concurrent and --stream are for several models"),
        (("one.tflite", "--stream", "one"), 2, "of one, use --stream-input"),
        (
            ("one.tflite", "two.tflite", "--stream", "three"),
            1,
            "--stream three: no model is called so; there are one, two",
        ),
        (("one.tflite", "two.tflite", "--quantize", "x.npz"), 2, "--quantize is for one model"),
        (("one.tflite", "two.tflite", "three.tflite", "--pipeline"), 2, "'three.tflite' is a third"),
    ],
)
def test_wrong_usage_is_refused(gen: Gen, arguments: tuple[str, ...], code: int, words: str, tmp_path: Path):
    for name in ("one", "two", "three"):
        digits(tmp_path, name)
    given = [str(tmp_path / each) if each.endswith(".tflite") else each for each in arguments]
    result = gen("firmware", *given, "--board", "native", "--out", tmp_path / "made")

    assert result.exit_code == code and words in result.stderr.replace(f"{tmp_path}/", "")
    assert not (tmp_path / "made").exists()


def test_the_libraries_of_several_models_are_refreshed(gen: Gen, tmp_path: Path):
    paths, out = [digits(tmp_path, name) for name in ("one", "two")], tmp_path / "made"
    first = gen("firmware", *paths, "--board", "native", "--out", out, "--json")
    (out / "src" / "main.c").write_text("// mine\n")
    again = gen("firmware", *paths, "--board", "native", "--stream", "two", "--library-only", "--out", out)
    single = gen("firmware", paths[0], digits(tmp_path, "three"), "--board", "native", "--library-only", "--out", out)

    assert [each["model"]["name"] for each in json.loads(first.stdout)["models"]] == ["one", "two"]
    assert again.exit_code == 0, again.output
    assert (out / "src" / "main.c").read_text() == "// mine\n"
    assert json.loads((out / "models" / "two" / "plan.json").read_text())["steps"][0]["input"] == 0
    assert gen("firmware", paths[0], "--board", "native", "--library-only", "--out", tmp_path / "none").exit_code == 1
    assert single.exit_code == 1 and "has no lib/three to refresh" in single.stderr


CASCADE = """
#include <stdio.h>

void cascade_init(void);
int cascade_heard(const int8_t *listened, const int8_t *spoken);

int main(void)
{
    static int8_t image[2][64];
    cascade_init();
    while (fread(image, sizeof image, 1, stdin) == 1) {
        printf("%d\\n", cascade_heard(image[0], image[1]));
    }
    return 0;
}
"""


def test_the_cascade_of_the_page_decides_as_its_models_do(gen: Gen, tmp_path: Path):
    (code,) = c_blocks("docs/several.md")
    out = tmp_path / "made"
    paths = [digits(tmp_path, name) for name in ("wake", "command")]
    assert gen("firmware", *paths, "--board", "native", "--out", out).exit_code == 0
    assert code.count("#include") == 1  # boards have no C library
    declared = "void cascade_init(void);\nint cascade_heard(const int8_t *listened, const int8_t *spoken);\n"
    head, _, rest = code.partition("#define SURE")
    (tmp_path / "cascade.c").write_text(f"{head}{declared}#define SURE{rest}".replace("SURE 100", "SURE 0"))
    (tmp_path / "main.c").write_text(f"#include <stdint.h>{CASCADE}")
    (tmp_path / "model.c").write_text('#include "app_config.h"\nuint8_t sh_app_model;\n')
    places = [out / "src", *sorted((out / "lib").glob("*/src")), out / "lib" / "board"]
    own = [str(path) for place in sorted((out / "lib").glob("*/src")) for path in sorted(place.glob("*.c"))]
    program = tmp_path / "cascade"
    sources = [str(tmp_path / f"{name}.c") for name in ("cascade", "main", "model")]
    command = [*HOST, *WARNINGS, *(f"-I{place}" for place in places), *sources, *own, "-o", str(program)]
    subprocess.run(command, check=True, timeout=300)
    images = np.random.default_rng(2).integers(-128, 128, (200, 2, 64), np.int8)
    done = subprocess.run([str(program)], input=images.tobytes(), capture_output=True, check=True, timeout=60)
    model = reference(Project.open(out))
    (output,) = (end.name for end in Plan.of(Project.open(out)).outputs)

    def scores(image: np.ndarray) -> np.ndarray:
        return model.run([image.reshape(1, 8, 8, 1)])[output].ravel()

    wanted = [int(scores(spoken).argmax()) if scores(heard)[1] >= 0 else -1 for heard, spoken in images]
    assert [int(line) for line in done.stdout.split()] == wanted
    assert 0 < wanted.count(-1) < len(wanted)


def test_the_functions_for_programs_refuse_one_model_and_no_board(tmp_path: Path):
    path = digits(tmp_path, "one")
    with pytest.raises(ValueError, match="two models or more"):
        shoehorn_mcu.generate_together([path], tmp_path / "made", PlanOptions(board="native"))
    with pytest.raises(ValueError, match="name a board"):
        shoehorn_mcu.generate_together([path, digits(tmp_path, "two")], tmp_path / "made", PlanOptions())
    with pytest.raises(ShoehornError, match="both would have files"):
        shoehorn_mcu.generate_together([path, path], tmp_path / "made", PlanOptions(board="native"))


@needs_shared
def test_a_float_mode_is_for_the_models_with_float_sums(tmp_path: Path):
    real = SHARED_MODELS / "fmnist-nubificus-f32.tflite"
    options = Options(float_mode=FloatMode.RELAXED)
    board = targets.board("mps2-an386")
    (together, files) = firmware_of_several([(digits(tmp_path, "one"), options), (real, options)], board)
    graphs = [json.loads(files[f"{part}reference/graph.json"]) for part in ("", f"models/{together.names[1]}/")]

    assert [each.unit.float_mode for each in together.models] == ["precise", "relaxed"]
    assert "#define SH_APP_FLUSH_TO_ZERO 1" in files["src/app_config.h"].decode()
    assert [each["flush"] for each in graphs] == [True, True]  # the firmware has one mode for both
    with pytest.raises(FloatModeError, match="has no fused multiply-add"):
        firmware_of_several([(digits(tmp_path, "one"), options), (real, options)], targets.board("microbit"))


def test_a_float_mode_that_no_model_needs_is_refused_for_the_first(tmp_path: Path):
    models = [(digits(tmp_path, name), Options(float_mode=FloatMode.RELAXED)) for name in ("one", "two")]
    with pytest.raises(FloatModeError, match=r"^one: .* no sum here is of float32"):
        firmware_of_several(models, targets.board("mps2-an386"))


def test_a_faulty_wire_never_changes_a_result_of_any_model(folder: Path, tmp_path: Path):
    """Frames are lost while models are selected, too."""
    program = tmp_path / "board"
    sources = [*(folder / "src").glob("*.c"), *(folder / "lib").glob("*/src/*.c"), C / "fake_board.c"]
    places = [folder / "src", folder / "lib" / "board", *(folder / "lib").glob("*/src")]
    compile_c(sources, program, HOST, "-DSH_TRACE", *(f"-I{place}" for place in places), *SANITIZERS)
    wake, _, command = Project.open(folder).models
    models = [(each, Plan.of(each), reference(each)) for each in (wake, command)]  # the other keeps a state
    to_board, to_host, rng = Faults(20), Faults(21), np.random.default_rng(22)
    inferences = selections = 0
    with (
        Bench(program, to_board, to_host) as bench,
        Link(Port(bench.path), Timing(answer=0.05, inference=60.0, tries=40)) as link,
    ):
        while to_board.frames + to_host.frames < 1_500:
            project, plan, known = models[rng.integers(2)]
            (vector,) = vectors.random(project.described, plan.inputs, 1, inferences)
            before = link._model
            link.select(project.number)
            link.expect(plan)
            sizes = [end.bytes for end in plan.outputs]
            found = link.infer([vector[0].tobytes()], sizes, Mode.CRC, row_bytes=plan.streamed_row_bytes)
            wanted = known.run(vector)

            assert found.outputs == tuple(wanted[end.name].tobytes() for end in plan.outputs)
            assert list(found.trace) == plan.op_crcs(wanted)
            inferences, selections = inferences + 1, selections + (link._model != before)
        assert selections > 5 and link.retries > 0


@needs_shared
@needs_qemu
@pytest.mark.parametrize("concurrent", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_wake_word_model_and_a_command_model_take_turns_in_qemu(gen: Gen, concurrent: bool, tmp_path: Path):
    """The wake word model streams and keeps states, which the command model overwrites where they share bytes."""
    paths = [SHARED_MODELS / f"{name}.tflite" for name in ("mww-okay-nabu-v2", "mlperf-kws-dscnn-int8")]
    given = ["--stream", paths[0].name, *(["--concurrent"] if concurrent else [])]
    written = gen("firmware", *paths, *given, "--board", "mps2-an386", "--out", tmp_path / "made")
    result = gen("validate", tmp_path / "made", "--emulate", "--count", 5, "--json")
    together = json.loads((tmp_path / "made" / "report.json").read_text())["together"]

    assert written.exit_code == 0 and result.exit_code == 0, written.output + result.output
    assert [each["mismatched_vectors"] for each in json.loads(result.stdout)["models"]] == [0, 0]
    assert ("call mww_okay_nabu_v2_reset() after" in written.stderr) is not concurrent
    assert together["concurrent"] is concurrent


@needs_shared
@needs_qemu
@pytest.mark.usefixtures("quick_placement")
def test_three_models_of_mlperf_tiny_fit_the_microbit(gen: Gen, tmp_path: Path):
    paths = [SHARED_MODELS / f"mlperf-{name}-int8.tflite" for name in ("vww96", "kws-dscnn", "ic-resnet8")]
    out = tmp_path / "made"
    written = gen("firmware", *paths, "--stream", "mlperf-vww96-int8", "--board", "microbit", "--out", out, "--json")
    result = gen("validate", out, "--emulate", "--count", 1, "--json")
    firmware = json.loads((out / "report.json").read_text())["firmware"]
    estimate = json.loads(written.stdout)["together"]["flash"]

    assert written.exit_code == 0 and result.exit_code == 0
    assert [each["mismatched_vectors"] for each in json.loads(result.stdout)["models"]] == [0, 0, 0]
    assert firmware["ram_bytes"] <= 16384 and firmware["flash_bytes"] <= 262144 and firmware["stack_bytes"] <= 2048
    assert abs(estimate["constant_bytes"] + estimate["code_bytes"] - firmware["flash_bytes"]) < 2560


@pytest.mark.parametrize(
    ("alone", "least", "limit", "found", "plans"),
    [
        ((100, 50), (40, 30), None, [100, 50], 2),
        ((100, 50), (40, 30), 112 + 64, [100, 50], 2),  # each arena begins at a multiple of 16
        ((100, 50), (40, 30), 112 + 64 - 1, [100, 48], 6),
        ((1000, 1000), (40, 30), 48 + 32 + 64, [112, 32], 6),
        ((1000, 50), (40, 32), 100, [64, 32], 6),  # with 68 bytes of its own the first one would end at 80
        ((1000, 50), (40, 32), 80, [48, 32], 6),
        ((1000, 50), (40, 32), 79, None, 4),
    ],
)
def test_concurrent_models_get_what_the_smallest_plans_of_the_others_leave(
    alone: tuple[int, ...],
    least: tuple[int, ...],
    limit: int | None,
    found: list[int] | None,
    plans: int,
    monkeypatch: pytest.MonkeyPatch,
):
    made: list[int] = []

    def one(_: object, i: int, change: Mapping[str, Any]) -> Any:
        most = change.get("sram_bytes", alone[i])
        made.append(least[i] if "goal" in change else min(alone[i], most))
        if most < least[i]:
            raise DoesNotFit("too small", least[i], most)
        return SimpleNamespace(unit=SimpleNamespace(name=f"m{i}", plan=SimpleNamespace(arena_bytes=made[-1])))

    divided = object.__new__(several._Plans)
    limits: Any = SimpleNamespace(capacity_bytes=limit)
    monkeypatch.setattr(several._Plans, "_one", one)
    monkeypatch.setattr(divided, "_ready", [SimpleNamespace(limits=limits)] * len(alone), raising=False)
    monkeypatch.setattr(divided, "_board", targets.board("microbit"), raising=False)
    if found is None:
        with pytest.raises(DoesNotFit, match=r"m0 48, m1 32"):
            divided.beside_each_other()
    else:
        sizes = [each.unit.plan.arena_bytes for each in divided.beside_each_other()]
        assert sizes == found and (limit is None or -(-sizes[0] // 16) * 16 + sizes[1] <= limit)
    assert len(made) == plans


@pytest.mark.parametrize(("states", "concurrent", "more"), [(0, False, 0), (1, False, 1), (0, True, 0), (1, True, 0)])
def test_a_model_that_keeps_values_says_so_where_others_use_its_bytes(states: int, concurrent: bool, more: int) -> None:
    unit = SimpleNamespace(name="ear", graph=SimpleNamespace(states=("a state",) * states))
    kept = (
        "ear: keeps values between inferences in bytes that the other models use; call ear_reset() after one of them "
        "has run, or give each bytes of its own with --concurrent"
    )

    made: Any = SimpleNamespace(unit=unit, notes=("small",))
    assert several._notes(made, concurrent) == ["ear: small", kept][: 1 + more]


def test_the_cores_of_a_firmware_are_those_of_the_model_with_the_most() -> None:
    planned = [SimpleNamespace(unit=SimpleNamespace(cores=count, name=f"m{count}")) for count in (1, 4, 2)]
    whole = Together(cast(Any, planned), (0, 0, 0), 0, False, cast(Any, None), NATIVE)

    assert (whole.cores, whole.names) == (4, ["m1", "m4", "m2"])
