"""Objects that are kept by their content (objects.py): equal ones are copied, and all that decides makes another."""

from __future__ import annotations

import sys
from pathlib import Path

import objects
import pytest
from objects import compiled, compiled_all

COMPILER = """import sys
from pathlib import Path
said = {said!r}
source, made = Path(sys.argv[-3]), Path(sys.argv[-1])
made.write_text(source.read_text())
with Path({log!r}).open("a") as log:
    log.write("x")
sys.stderr.write(said)
"""


class Bench:
    """A folder with a source and two headers, and a compiler that counts its runs."""

    def __init__(self, place: Path, said: str = "") -> None:
        self.place, self._log = place, place / "log"
        self._compiler = place / "compiler.py"
        self._compiler.write_text(COMPILER.format(said=said, log=str(self._log)))
        self._log.write_text("")
        for folder in ("one", "other"):
            self.write(folder, "main.c", '#include "near.h"\n#include <stdint.h>\nint x;\n')
            self.write(folder, "near.h", '#  include "far.h"  // more\n')
            self.write(folder, "include/far.h", "int y;\n")

    def write(self, folder: str, name: str, text: str) -> None:
        path = self.place / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, folder: str, *options: str, source: str = "main.c") -> int:
        """Compiles a source in the folder; how often the compiler ran until now."""
        where = self.place / folder
        words = [
            sys.executable,
            str(self._compiler),
            *options,
            f"-I{where / 'include'}",
            "-c",
            source,
            "-o",
            "main.o",
        ]
        assert compiled(words, where)[0] == 0
        assert (where / "main.o").is_file()
        return len(self._log.read_text())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(objects, "KEPT", tmp_path / "kept")
    return Bench(tmp_path)


def test_equal_sources_are_compiled_once_wherever_they_are(bench: Bench) -> None:
    assert [bench.run("one"), bench.run("other"), bench.run("one")] == [1, 1, 1]


@pytest.mark.parametrize("name", ["main.c", "near.h", "include/far.h"])
def test_what_is_included_makes_another_object(bench: Bench, name: str) -> None:
    bench.run("one")
    bench.write("other", name, (bench.place / "other" / name).read_text() + "int z;\n")

    assert bench.run("other") == 2


def test_a_header_in_brackets_is_included_where_the_options_find_it(bench: Bench) -> None:
    bench.run("one")
    bench.write("other", "include/stdint.h", "int z;\n")

    assert bench.run("other") == 2


def test_an_option_makes_another_object(bench: Bench) -> None:
    assert [bench.run("one"), bench.run("one", "-O1"), bench.run("one", "-O1")] == [1, 2, 2]


@pytest.mark.parametrize("line", ["#include NAME", "char *f = __FILE__;"])
def test_what_only_the_compiler_knows_is_compiled_each_time(bench: Bench, line: str) -> None:
    bench.write("one", "near.h", f"{line}\n")

    assert [bench.run("one"), bench.run("one")] == [1, 2]


def test_a_header_that_is_not_there_counts_as_soon_as_it_is(bench: Bench) -> None:
    for folder in ("one", "other"):
        bench.write(folder, "main.c", '#ifdef MORE\n#include "more.h"\n#endif\n')
    assert [bench.run("one"), bench.run("other")] == [1, 1]
    bench.write("other", "more.h", "int z;\n")

    assert bench.run("other") == 2


def test_a_source_that_is_only_read_is_read_once(bench: Bench) -> None:
    """Such a compiler makes no object."""
    (bench.place / "compiler.py").write_text(
        (bench.place / "compiler.py").read_text().replace("made.write_text", "bool")
    )
    words = [sys.executable, str(bench.place / "compiler.py"), "-Iinclude", "-fsyntax-only"]
    words += ["-c", "main.c", "-o", "main.o"]

    assert [compiled(words, bench.place / "one") for _ in range(2)] == [(0, "")] * 2
    assert (bench.place / "log").read_text() == "x"


def test_a_warning_is_said_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "KEPT", tmp_path / "kept")
    noisy = Bench(tmp_path, "warning: x")

    assert [noisy.run("one"), noisy.run("one")] == [1, 2]
    with pytest.raises(AssertionError, match="warning: x"):
        compiled_all([sys.executable, str(tmp_path / "compiler.py")], [Path("main.c")], tmp_path / "one")


CONFIG = """// {name}
#ifndef APP_CONFIG_H
#define APP_CONFIG_H
#include "{name}.h"
#define SIZE {size}
#define CALL() {name}_call()
#define TABLE CALL()
_Static_assert(SIZE < 100,
               "too large");
#endif
"""
MODEL = "#ifndef {upper}_H\n#define {upper}_H\nconst signed char *{name}_call(void);\n#endif\n"


@pytest.fixture
def application(bench: Bench) -> Bench:
    """`one` and `other` are applications with models of another name and size."""
    for folder, name, size in (("one", "here", 8), ("other", "there", 9)):
        bench.write(folder, "near.h", CONFIG.format(name=name, size=size))
        bench.write(folder, f"{name}.h", MODEL.format(name=name, upper=name.upper()))
    return bench


def _source(bench: Bench, name: str, text: str) -> list[int]:
    """How often the compiler ran until after the first application and after the other one."""
    made = []
    for folder in ("one", "other"):
        bench.write(folder, name, text)
        made.append(bench.run(folder, source=name))
    return made


def test_a_source_that_mentions_nothing_of_a_model_is_compiled_once_for_all(application: Bench) -> None:
    assert _source(application, "part.c", '#include "near.h"\nint x;\n') == [1, 1]


@pytest.mark.parametrize(
    "line",
    ["int x = SIZE;", "const signed char *x = CALL();", "#ifdef SIZE", "TABLE", "#define M TABLE\nM", "int S##IZE;"],
)
def test_what_is_mentioned_makes_another_object(application: Bench, line: str) -> None:
    assert _source(application, "part.c", f'#include "near.h"\n{line}\n') == [1, 2]


KERNELS = """#ifndef SHOEHORN_KERNELS_H
#define SHOEHORN_KERNELS_H
#define SH_INLINED static inline
typedef struct {{
    int x; // first

    int y{number};
}} sh_type;

typedef int sh_fn(const sh_type *op,
    int *x);

sh_fn kernel_{number};
static inline int sh_inlined(int x)
{{
#if ONE
    return x + {number};
#endif
}}

SH_INLINED int sh_caller(int x)
{{
    return sh_inlined(x);
}}
#endif
"""


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("int x;", [1, 1]),
        ("sh_type *op;", [1, 2]),
        ("sh_fn *kernel = 0;", [1, 2]),
        ("int x = sh_inlined(1);", [1, 2]),
        ("int x = sh_caller(1);", [1, 2]),
    ],
)
def test_what_a_kernel_does_not_mention_of_the_kernels_header_does_not_count(
    bench: Bench, line: str, runs: list[int]
) -> None:
    for number, folder in enumerate(("one", "other")):
        bench.write(folder, "near.h", KERNELS.format(number=number))

    assert _source(bench, "part.c", f'#include "near.h"\n{line}\n') == runs


def test_what_headers_assert_counts_in_the_main_file(application: Bench) -> None:
    assert _source(application, "main.c", '#include "near.h"\nint x;\n') == [1, 2]


def test_lines_that_are_comments_do_not_count(bench: Bench) -> None:
    for folder, comment in (("one", "// One."), ("other", "  // Another one.")):
        bench.write(folder, "near.h", f'{comment}\n#  include "far.h"\n')

    assert [bench.run("one"), bench.run("other")] == [1, 1]
