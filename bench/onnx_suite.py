"""Runs ONNX's own suite of tests: `python -m bench.onnx_suite [--group node] [--part NAME] [-v] [--write]`.

`--write` puts the counts of all groups into docs/onnx.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # as pytest has it
from tests import onnx_cases
from tests.onnx_cases import GROUPS, Result

PAGE = Path(__file__).resolve().parents[1] / "docs" / "onnx.md"
BEGIN, END = "<!-- counts: python -m bench.onnx_suite --write -->", "<!-- end of counts -->"
_TITLES = {
    "node": "node: single ops",
    "simple": "simple",
    "pytorch-converted": "pytorch-converted",
    "pytorch-operator": "pytorch-operator",
    "real": "light models",
}
_STATES = ("passed", "folded", "skipped", "refused", "failed")


def reason(result: Result) -> str:
    """The cause without names and numbers."""
    text = re.sub(r"'[^']*'", "'...'", result.cause.splitlines()[0] if result.cause else "")
    return re.sub(r"\d+", "N", text)[:150] if result.state in ("refused", "failed") else text


def counts(results: Sequence[Result]) -> Iterator[str]:
    """The table of groups, and that of causes."""
    yield f"Counted with onnx {onnx.__version__}, {len(results):,} tests."
    yield ""
    yield "| group | tests | passed | of these with inputs as constants | folded | skipped | refused or failed |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for group in (*_TITLES, None):
        own = [r for r in results if group in (r.group, None)]
        state = Counter(r.state for r in own)
        special = sum(r.state == "passed" and bool(r.constants) for r in own)
        row = (
            len(own),
            state["passed"],
            special,
            state["folded"],
            state["skipped"],
            state["refused"] + state["failed"],
        )
        yield f"| {_TITLES[group] if group else 'all'} | {' | '.join(f'{n:,}' for n in row)} |"
    yield ""
    yield "| skipped because of | tests |"
    yield "|---|---:|"
    for why, count in Counter(r.cause for r in results if r.state == "skipped").most_common():
        yield f"| {why} | {count} |"


def write(results: Sequence[Result]) -> None:
    """Replaces the counts of the page."""
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    PAGE.write_text("\n".join([f"{head}{BEGIN}", "", *counts(results), "", END]) + rest.split(END)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", choices=GROUPS, action="append")
    parser.add_argument("--part", default="", help="only tests whose names contain this")
    parser.add_argument("--all", action="store_true", help="also those that are left out")
    parser.add_argument("--write", action="store_true", help="write the counts into docs/onnx.md")
    parser.add_argument("-v", action="store_true", help="every test that did not pass")
    options = parser.parse_args()
    results: list[Result] = []
    slow: list[tuple[float, str]] = []
    for group in options.group or GROUPS:
        for case in onnx_cases.cases(group, options.part):
            begun = process_time()
            result = onnx_cases.run(case, options.all)
            slow.append((process_time() - begun, result.name))
            results.append(result)
            if options.v and result.state != "passed":
                print(f"{result.name}: {result.state}: {result.cause[:1000]}")
    print("\n".join(counts(results)))
    for state in _STATES[3:]:
        for why, count in Counter(reason(r) for r in results if r.state == state).most_common(60):
            names = [r.name for r in results if r.state == state and reason(r) == why]
            print(f"{state} {count:5} {why}   ({', '.join(names[:3])})")
    print("CPU seconds of the slowest:", sorted(slow, reverse=True)[:5], file=sys.stderr)
    if options.write:
        write(results)


if __name__ == "__main__":
    main()
