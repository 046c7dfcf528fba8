"""Runs ONNX's own suite of tests: `python -m tests.bench.onnx_suite [--group node] [--part NAME] [-v]`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest has it
from tests import onnx_cases
from tests.onnx_cases import GROUPS, Result


def reason(result: Result) -> str:
    """The cause without names and numbers."""
    text = re.sub(r"'[^']*'", "'...'", result.cause.splitlines()[0] if result.cause else "")
    return re.sub(r"\d+", "N", text)[:150]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", choices=GROUPS, action="append")
    parser.add_argument("--part", default="", help="only tests whose names contain this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("-v", action="store_true", help="every test that did not pass")
    options = parser.parse_args()
    results: list[Result] = []
    slow: list[tuple[float, str]] = []
    for group in options.group or GROUPS:
        for case in onnx_cases.cases(group, options.part):
            begun = process_time()
            result = onnx_cases.run(case)
            slow.append((process_time() - begun, result.name))
            results.append(result)
            if options.v and result.state != "passed":
                print(f"{result.name}: {result.state}: {result.cause[:1000]}")
    for group in dict.fromkeys(result.group for result in results):
        counts = Counter(result.state for result in results if result.group == group)
        special = sum(
            result.group == group and result.state == "passed" and bool(result.constants) for result in results
        )
        print(group, dict(counts), f"passed with constants: {special}")
    for state in ("skipped", "refused", "failed"):
        print(f"\n{state}:")
        for why, count in Counter(reason(r) for r in results if r.state == state).most_common(60):
            names = [r.name for r in results if r.state == state and reason(r) == why]
            print(f"{count:5} {why}   ({', '.join(names[:3])})")
    print("slowest:", sorted(slow, reverse=True)[:5], file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=0))


if __name__ == "__main__":
    main()
