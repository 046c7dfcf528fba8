"""How the C of runtime_c is read: conditions, definitions, and names that are replaced."""

from __future__ import annotations

import pytest

from shoehorn_mcu.emit.kernels.c_conditions import decided
from shoehorn_mcu.emit.kernels.c_items import Item, _closing, _struct_places, items_of, renamed, tokens

MACROS = {"SH_PIXELS": "2", "SH_HELD": "24", "OTHER": "SH_PIXELS + 1", "SH_EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SH_PIXELS == 2", 1),
        ("SH_PIXELS < 2 || SH_PIXELS > 5", 0),
        ("defined(SH_HELD) && !defined SH_TAPS", 1),
        ("SH_TAPS", 0),
        ("OTHER == 3 && (SH_PIXELS * 3 & 2) == 2", 1),
        ("defined(__clang__)", "defined(__clang__)"),
        ("defined(__clang__) && defined(SH_TAPS)", 0),
        ("defined(SH_TAPS) || defined(__clang__)", "defined(__clang__)"),
        ("defined(SH_HELD) || defined(__clang__)", 1),
        ("defined(__ARM_FP) && (__ARM_FP & 4) != 0 && !defined(SH_TAPS)", "defined(__ARM_FP) && (__ARM_FP & 4) != 0"),
        ("!defined(SH_LATER)", "!defined(SH_LATER)"),
        ("defined(__aarch64__)", 0),
    ],
)
def test_a_condition_is_decided_as_far_as_its_macros_are_known(text: str, value: int | str):
    assert decided(text, MACROS, frozenset({"SH_LATER"}), frozenset({"__aarch64__"})) == value


def test_a_condition_that_is_cut_off_is_refused():
    with pytest.raises((ValueError, IndexError)):
        decided("SH_PIXELS == 2 )", MACROS, frozenset())


HEADER = """// SPDX-License-Identifier: 0BSD
// What the header is about.
#ifndef SH_THING_H
#define SH_THING_H

#include <stdint.h>

// One more.
#define SH_MAKE(name, type)                                                                        \\
    static inline type sh_make_##name(type a)                                                      \\
    {                                                                                              \\
        return a + 1;                                                                              \\
    }
SH_MAKE(int8, int8_t)

#if defined(__GNUC__)
#pragma GCC optimize("something")
#define SH_HINT __attribute__((unused))
static int first(void)
{
    return 1;
}
#else
#define SH_HINT
#endif

#ifdef SH_TAPS
typedef struct {
    int32_t many;
} sh_thing;
#else
typedef struct {
    int32_t rows; // a member
    const int8_t *x[4], y;
} sh_thing;
#endif

enum { SH_ONE, SH_TWO = 2 };

#endif
"""


def items(text: str) -> list[Item]:
    return items_of(text, {"include/sh_thing.h": HEADER}.__getitem__, {}).items


def test_a_file_is_read_as_its_definitions():
    read = items_of('#include "include/sh_thing.h"\n#include "include/sh_thing.h"\n', lambda _: HEADER, {})

    assert [item.names for item in read.items if item.names != ("SH_MAKE",)] == [
        ("sh_make_int8",),
        ("SH_HINT",),
        ("first",),
        ("sh_thing",),
        ("SH_ONE", "SH_TWO"),
    ]
    assert read.titles["include/sh_thing.h"] == "// What the header is about."
    assert list(read.systems) == ["<stdint.h>"]
    assert read.heads == ['#if defined(__GNUC__)\n#pragma GCC optimize("something")\n#endif']
    made, hint, first = (item.text for item in read.items[1:4])
    assert made == "static inline int8_t sh_make_int8(int8_t a)\n{\n    return a + 1;\n}"
    assert hint == "#if defined(__GNUC__)\n#define SH_HINT __attribute__((unused))\n#else\n#define SH_HINT\n#endif"
    assert first == "#if defined(__GNUC__)\nstatic int first(void)\n{\n    return 1;\n}\n#endif"
    assert "rows" in read.items[4].text and "many" not in read.items[4].text


def test_definitions_that_do_not_end_are_refused():
    with pytest.raises(ValueError, match="no definition ends in 'static int f"):
        items("static int f(void)\n{\n")
    with pytest.raises(ValueError, match="a condition has no end"):
        items("#if defined(__GNUC__)\nint a;\n")


def test_members_of_structs_keep_their_names():
    struct = "typedef struct {\n    int rows;\n} pass;\n"
    function = "int f(pass *of)\n{\n    return rows(of->rows) + rows; // rows\n}\n"

    found = renamed(struct + function, {"rows": "rows_2", "pass": "pass_2"})
    assert found.startswith("typedef struct {\n    int rows;\n} pass_2;\n")
    assert found.endswith("int f(pass_2 *of)\n{\n    return rows_2(of->rows) + rows_2; // rows\n}\n")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("static int count = 3;", ("count",)),
        ("extern const int8_t table[4];", ("table",)),
        ("void sh_run(int8_t *x);", ("sh_run",)),
        ("int (*f)(void);", ()),  # no name stands where one is looked for: a type in brackets is none
        ("__attribute__((noinline)) static void g(void) { }", ("g",)),
    ],
)
def test_a_declaration_has_the_name_that_stands_before_its_first_sign(text: str, names: tuple[str, ...]):
    (item,) = items(f"{text}\n")

    assert item.names == names


def test_the_members_of_a_struct_are_names_and_not_types() -> None:
    text = "typedef struct { unsigned char b; const word *c, d[3]; int e : 4; } part; union { int f; } g; int h;"

    assert [tokens(text)[place] for place in sorted(_struct_places(text))] == ["b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("code", "number", "place"),
    [("( a ( b ) ) ;", 0, 5), ("( a ( b ) ) ;", 2, 4), ("{ [ ( ) ] } x", 0, 5), ("x [ 0 ] ;", 1, 3), ("( a", 0, 2)],
)
def test_the_bracket_that_closes_another_one_is_found(code: str, number: int, place: int) -> None:
    """Behind all of the code where none does."""
    assert _closing(code.split(), number) == place
