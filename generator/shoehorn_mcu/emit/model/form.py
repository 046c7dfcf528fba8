"""What a form of the library's interface says in each of the files that differ by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Lines = Sequence[str]


class Form:
    """Nothing, where a form does not say otherwise."""

    use_more: Lines = ()  # of the README, behind what it says of the calls
    macros: Lines = ()  # of <model>.h
    prototypes: Lines = ()  # the same, with their rules
    includes: Lines = ()  # of <model>.c, below runtime_c
    definitions: Lines = ()  # functions of <model>.c, with what they need
    init: Lines = ()  # statements of <model>_init
    example_head: Lines = ()  # of the README: before the function that runs an inference
    example: Lines = ()  # in it
    functions: Mapping[str, str] = {}  # by suffix of an input or output: what follows the model's name instead of it
    app_functions: Mapping[str, str] = {}  # the same: the whole name of the function that the application calls
    app: Mapping[str, str] = {}  # macros of app_config.h
