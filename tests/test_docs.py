"""README.md and docs/: true, complete, and easy to read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from compilers import HOST
from conftest import Gen
from doc_code import ROOT, c_blocks
from test_package import tracked

import shoehorn_mcu.cli.group
from shoehorn_mcu.base.paths import MODELS
from shoehorn_mcu.passes import CHOICES, PIPELINE
from shoehorn_mcu_host.base.emulators import EMULATORS, Level
from tests import docs_commands, docs_families

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("README.md")))
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
DOCUMENTS = tuple(path for path in tracked() if path.suffix == ".md")
READ = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
BESIDE_CODE = tuple(path for path in DOCUMENTS if path.name in ("ARCHITECTURE.md", "README.md") and path not in PAGES)
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
MOST_LINES = 250  # of the map of the code: what is longer lies beside the code


def commands(page: Path) -> list[tuple[str, str]]:
    """Each (`gen` command, its line) that a page shows in a code block or between backticks."""
    text = page.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", text)
    return [(m[1], line.split("#")[0]) for line in lines if (m := re.match(r"(?:\$ )?(?:\S*/)?gen ([a-z]+)\b", line))]


@EACH
def test_a_page_shows_only_real_commands_and_options(page: Path):
    group = shoehorn_mcu.cli.group.main
    context = click.Context(group)
    unknown = []
    for name, line in commands(page):
        command = group.get_command(context, name)
        assert command, f"{page.name}: no command `gen {name}`"
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        unknown += [f"gen {name}: {option}" for option in re.findall(r"--[a-z-]+", line) if option not in options]

    assert unknown == []


def test_the_pages_together_show_every_command():
    group = shoehorn_mcu.cli.group.main
    shown = {name for page in PAGES for name, _ in commands(page)}

    assert shown == set(group.list_commands(click.Context(group)))


def test_the_reference_of_commands_is_what_the_code_says():
    assert docs_commands.PAGE.read_text() == docs_commands.page(), "run `python -m tests.docs_commands --write`"


def test_the_readme_counts_the_ops_as_gen_ops_does(gen: Gen):
    counted = re.search(r"^tflite: (\d+) ops$", gen("ops").stdout, re.M)
    assert counted

    assert f"- `.tflite`: {counted[1]} ops." in (ROOT / "README.md").read_text()


def test_the_readme_shows_what_the_demo_prints_of_its_plan(gen: Gen, tmp_path: Path):
    shown = (ROOT / "README.md").read_text().partition("The demo's output ends like this:")[2].split("```")[1]
    printed = gen("firmware", "--board", "rpi-zero", "--out", tmp_path / "demo").stdout
    printed = printed.replace(str(tmp_path / "demo"), "build/demo")

    lines = [line for line in shown.splitlines() if re.match(r"all |arena |\d+ steps|wrote ", line)]
    assert len(lines) == 4
    said = [re.escape(line).replace(r"\.\.\.", ".*") for line in lines]
    assert [line for line in said if not re.search(f"^{line}$", printed, re.M)] == []


def test_the_page_of_plans_has_every_pass_in_order():
    table = (ROOT / "docs" / "planning.md").read_text().partition("## Passes")[2].partition("\n## ")[0]

    names = [*(each.name for each in PIPELINE), "fold-constants", *CHOICES]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.M) == names


def test_the_page_of_boards_has_every_board_as_its_manifest_has_it():
    cells = r" \| ".join([r"^\| `([\w-]+)`", *[r"(.*?)"] * 6, r"(.*?) \|$"])
    listed = {row[0]: row[1:] for row in re.findall(cells, (ROOT / "docs" / "boards.md").read_text(), re.M)}
    manifests = {path.stem: json.loads(path.read_text()) for path in (ROOT / "boards").glob("*.json")}

    assert listed == {
        name: (
            manifest["name"],
            spec["cpu"],
            size(spec["sram_bytes"]),
            size(spec["flash_bytes"]),
            hertz(spec["core_hz"]),
            f"{hertz(spec['tick_hz'])} {spec['clock_name']}",
            ", ".join(proven(level, (spec["emulator"] or {}).get("program")) for level in spec["verified"]),
        )
        for name, manifest in manifests.items()
        for spec in [manifest["shoehorn"]]
    }


def proven(level: str, program: str | None) -> str:
    """A level, and the emulator that proves it in brackets."""
    if level not in ("core", "emulator") or program in (None, "native"):
        return level
    return f"{level} ({'QEMU' if str(program).startswith('qemu') else program})"


def test_the_page_of_boards_has_the_levels_and_what_proves_each():
    page = (ROOT / "docs" / "boards.md").read_text().partition("*verified* is")[2].partition("SRAM is")[0]
    rows = dict(re.findall(r"^\| (build|core|emulator|hardware) \| .*? \| (.*?) \|$", page, re.M))

    assert list(rows) == [level.value for level in Level]
    for name, row in EMULATORS.items():
        assert ("QEMU" if row.is_qemu else name) in rows[row.proves]


def test_the_pages_of_families_are_what_their_schema_says():
    boards = docs_families.BOARDS.read_text()

    assert docs_families.PAGE.read_text() == docs_families.page(), "run `python -m tests.docs_families --write`"
    assert docs_families.table() in boards, "run `python -m tests.docs_families --write`"


def size(count: int) -> str:
    return f"{count // 1024} KB" if count < 1024**2 else f"{count // 1024**2} MB"


def hertz(hz: int | None) -> str:
    if hz is None:
        return ""
    return f"{hz / 1e9:g} GHz" if hz >= 1e9 else f"{hz / 1e6:g} MHz"


@READ
def test_a_link_leads_to_a_file_and_to_a_heading_of_it(document: Path):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        name, _, anchor = target.partition("#")
        other = document.parent / name if name else document
        if "://" in target or (other.exists() and (not anchor or anchor in anchors(other))):
            continue
        broken.append(target)

    assert broken == []


def anchors(page: Path) -> set[str]:
    """What a link may name of a page: its headings as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_lists_every_page_once():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    linked = re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text())

    assert sorted(linked) == sorted(pages)


def test_a_picture_shows_the_bytes_that_its_caption_names():
    page = (ROOT / "docs" / "how-it-works.md").read_text()
    named = re.findall(r"!\[(.*?)\]\((how-[a-z]+\.svg)\)", page)

    assert len(named) == 3
    for caption, name in named:
        drawn = re.findall(r">([\d,]+) bytes", (ROOT / "docs" / name).read_text())
        assert [each for each in re.findall(r"\d[\d,]+\d", caption) if each not in drawn] == []


def test_the_map_of_the_code_is_short():
    assert len(ARCHITECTURE.read_text().splitlines()) <= MOST_LINES


def test_each_invariant_names_a_test_that_there_is():
    named = re.findall(r"`(tests/\w+\.py)::(\w+)`", ARCHITECTURE.read_text())

    assert len(named) >= 12
    assert [f"{file}::{name}" for file, name in named if f"\ndef {name}(" not in (ROOT / file).read_text()] == []


@pytest.mark.parametrize("document", BESIDE_CODE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_about_code_names_files_that_there_are(document: Path):
    """Paths with a folder: a name alone may be that of a file that is written."""
    named = set(re.findall(r"`((?:[\w.]+/)+\w+\.(?:py|c|h|inc|json|md))`", document.read_text()))
    files = {f"/{path.relative_to(ROOT).as_posix()}" for path in tracked()}
    written = ("sh/", "reference/", "src/")  # folders of written ones

    assert [
        each for each in named if not each.startswith(written) and not any(f.endswith(f"/{each}") for f in files)
    ] == []


STATEMENTS = """#include "kws.h"
#include "vww.h"
void read_row(void *row, int bytes);
void example(void);

void example(void)
{
"""
# The options that each C block of docs/library.md is about, in the page's order.
LIBRARY_OPTIONS = ((), ("--stream-input",), ("--caller-arena",), ("--caller-arena",))


@pytest.mark.parametrize("number", range(len(LIBRARY_OPTIONS)))
def test_a_c_block_of_the_library_page_compiles(number: int, gen: Gen, tmp_path: Path):
    blocks = c_blocks("docs/library.md")
    assert len(blocks) == len(LIBRARY_OPTIONS)
    code = blocks[number]
    for name in ("kws", "vww"):
        model = shutil.copy(MODELS / "digits.tflite", tmp_path / f"{name}.tflite")
        written = gen("library", model, *LIBRARY_OPTIONS[number], "--out", tmp_path / name)
        assert written.exit_code == 0, written.output
    source = tmp_path / "example.c"
    source.write_text(code if "#include" in code else f"{STATEMENTS}{code}}}\n")
    headers = (f"-I{tmp_path / name / 'src'}" for name in ("kws", "vww"))
    command = [*HOST, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *headers, source]

    result = subprocess.run(command, capture_output=True, text=True)

    assert result.returncode == 0, result.stderr
