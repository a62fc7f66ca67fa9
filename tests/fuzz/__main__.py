"""``python -m tests.fuzz --minutes N --seed S``: random schedules until time is up."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter

from tests.fuzz import coverage
from tests.fuzz.case import Case, run_case
from tests.fuzz.steps import PRIMITIVES

# names of axes and stages, which differ between builds refused for the same reason
_REASON = re.compile(r"\b[A-Za-z]+\d+[\w.]*|\b[ijkl]\b[\w.]*")

# the CPU by both of its compilers, and by C
COMPILED = ("cpu", "numba", "c")


def described(case: Case) -> str:
    return f"--- case {case.key}: {case.outcome}\n{case.snippet}\n{case.failure}\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--cases", type=int, default=None, help="stop after this many cases")
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument("--failures", type=int, default=1, help="stop after this many failures")
    parser.add_argument("--compiled-share", type=float, default=0.05)
    parser.add_argument(
        "--externs", type=float, default=0.0, help="the share of stages that are functions of users"
    )
    parser.add_argument(
        "--scans", type=float, default=0.0, help="the share of stages that are scans"
    )
    parser.add_argument("--interpret-only", action="store_true", help="build no kernels")
    parser.add_argument("--replay", metavar="SEED:INDEX", help="run one case and print it")
    options = parser.parse_args(argv)
    if options.replay:
        seed, index = options.replay.rsplit(":", 1)
        targets = [] if options.interpret_only else ["python", *COMPILED]
        case = run_case(
            seed, int(index), targets, externs=options.externs, scans=options.scans
        )
        print(described(case))
        return int(case.outcome == "failed")
    return fuzz(options)


def fuzz(options: argparse.Namespace) -> int:
    started = time.monotonic()
    outcomes: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    features: Counter[str] = Counter()
    steps: Counter[int] = Counter()
    unbuilt: Counter[str] = Counter()
    index = options.start
    while (options.cases is None or index - options.start < options.cases) and (
        time.monotonic() - started < options.minutes * 60
    ):
        targets = [] if options.interpret_only else ["python"]
        if not options.interpret_only and index % 1000 < 1000 * options.compiled_share:
            targets += COMPILED
        case = run_case(
            options.seed, index, targets, externs=options.externs, scans=options.scans
        )
        index += 1
        outcomes[case.outcome] += 1
        counts.update(case.counts)
        counts["accepted steps"] += len(case.applied)
        features.update(case.features)
        if case.outcome == "not built":
            unbuilt[_REASON.sub("_", case.failure.partition("\n")[0])] += 1
        steps[len(case.applied)] += 1
        seen: dict[str, None] = {}
        found: set[tuple[str, str]] = set()
        for primitive in case.applied:
            found.update((earlier, primitive) for earlier in seen)
            seen.setdefault(primitive)
        pairs.update(found)
        if case.outcome == "failed":
            print(described(case), flush=True)
            if outcomes["failed"] >= options.failures:
                break
    took = time.monotonic() - started
    total = sum(outcomes.values())
    print(
        f"{total} cases in {took:.0f} s: "
        + ", ".join(f"{n} {k}" for k, n in outcomes.most_common())
    )
    print(", ".join(f"{n} {k}" for k, n in counts.items()))
    more = coverage.EXTERNS * (options.externs > 0) + coverage.SCANS * (options.scans > 0)
    print(coverage.report(features, (*coverage.EXPECTED, *more)))
    for reason, n in unbuilt.most_common():
        print(f"not built, {n} times: {reason}")
    print(f"cases with fewer than five steps: {sum(n for k, n in steps.items() if k < 5)}")
    everything = [(a, b) for a in PRIMITIVES for b in PRIMITIVES]
    missing = [p for p in everything if p not in pairs]
    print(
        f"ordered pairs of primitives seen: {len(everything) - len(missing)} of {len(everything)}"
    )
    if missing and len(missing) <= 60:
        print("missing: " + ", ".join(f"{a}>{b}" for a, b in missing))
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
