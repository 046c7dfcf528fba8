"""Random ONNX networks beside ONNX Runtime: `python -m bench.random_nets [--kind float|qdq] [--count N]`.

`--seed` is the first of their seeds. `--optimised` compares quantised networks with what ONNX Runtime computes after
its own fusions.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # as pytest has it
from tests.random_nets import MOST_STEPS, Result, float_result, quantised_result

_EXAMPLES = 4


def results(kind: str, first: int, count: int, optimised: bool = False) -> Iterator[Result]:
    """Those of so many networks that ONNX Runtime has a result of, from a seed on."""
    seed = first
    while count:
        made = float_result(seed) if kind == "float" else quantised_result(seed, optimised)
        seed += 1
        count -= made.state != "none"
        yield made


def table(kind: str, all_results: Iterable[Result]) -> Iterator[str]:
    """The lines to print."""
    found = list(all_results)
    run = [r for r in found if r.state != "none"]
    states = Counter(r.state for r in run)
    said = ", ".join(f"{states[state]:,} {state}" for state in ("equal", "wrong", "refused"))
    yield f"{len(run):,} {kind} networks: {said}; ONNX Runtime itself refuses {len(found) - len(run):,} more."
    for state in ("wrong", "refused"):
        yield from _causes([(r.seed, r.cause) for r in run if r.state == state], state)
    if kind == "float":
        yield f"Largest difference, of an output's largest value: {max(r.largest for r in run):.2g}."
        return
    steps, total = sum((Counter(r.steps) for r in run), Counter[int]()), sum(sum(r.steps.values()) for r in run)
    shares = [(f"{off} steps" if off < MOST_STEPS else "more", steps[off]) for off in range(MOST_STEPS + 1)]
    yield f"{total:,} values: " + ", ".join(f"{name} {100 * n / max(1, total):.3f} %" for name, n in shares if n)
    yield from _causes([(r.seed, r.why_more) for r in run if r.why_more], "several steps")
    ops: dict[str, Counter[int]] = {}
    for r in run:
        for (op, off), n in r.ops.items():
            ops.setdefault(op, Counter())[off] += n
    for op in sorted((op for op in ops if max(ops[op]) > 0), key=lambda op: -max(ops[op])):
        yield f"  {op}: {', '.join(f'{off} steps {n:,}' for off, n in sorted(ops[op].items()))}"
    reasons = [(r.seed, reason) for r in run for reason in r.in_float]
    yield f"{len(reasons):,} of {sum(r.linear for r in run):,} quantised convolutions and products compute in float32."
    yield from _causes(reasons, "in float32")


def _causes(of: list[tuple[int, str]], state: str) -> Iterator[str]:
    """The causes without names and numbers, with a few seeds of each."""
    kinds: dict[str, list[int]] = {}
    for seed, cause in of:
        plain = re.sub(r"'[^']*'", "'...'", cause)
        kinds.setdefault(re.sub(r"\b\d+(\.\d+)?(e-?\d+)?\b", "N", plain)[:150], []).append(seed)
    for cause, seeds in sorted(kinds.items(), key=lambda item: -len(item[1])):
        yield f"  {state}: {len(seeds):,} {cause} (seeds {', '.join(map(str, seeds[:_EXAMPLES]))})"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("float", "qdq"), default="float")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optimised", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = process_time()
    for line in table(given.kind, results(given.kind, given.seed, given.count, given.optimised)):
        print(line)
    print(f"{process_time() - began:.0f} s.")


if __name__ == "__main__":
    main()
