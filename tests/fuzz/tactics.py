"""``python -m tests.fuzz.tactics --cases N``: the tuner's tactics on random computations.

Each candidate, for a CPU and for a GPU, must give the results of the oracle. Its steps as JSON and
its decisions must give the same nest.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any
from unittest.mock import patch

import schedlang as sl
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.compute.graph import variables
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.simt import simulate
from schedlang.ir.interpret import cooperative, interpret
from schedlang.target import Cache
from tests.fuzz.case import MOST_ITERATIONS, given_arrays, iterations
from tests.fuzz.compare import compare, expected
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays
from tests.fuzz.record import Mismatch

# vectors of 4 floats, so that small computations have tiles, tails and packed operands, and small
# caches, so that panels do not fit the first one
CPU = sl.Target(
    "cpu", vector_bytes=16, vector_registers=16, caches=(Cache(256, 4), Cache(4096, 8))
)
GPU = sl.Target("cuda")
DRAWS = 4
# thresholds for work in threads, in parts and in blocks of steps; every other case lowers them to
# FEWEST, so that reductions as small as these are split into parts
LEAST_STEPS = tuple(
    f"schedlang.autotune.tactics.cpu.{name}" for name in (
        "nest.LEAST_STEPS", "parallel_reduction.LEAST_STEPS", "step_blocks.LEAST_PANEL"
    )
)  # fmt: skip
FEWEST = 1


def run_case(seed: str, index: int, counts: Counter[str]) -> str:
    """Run a case and return its failure, or an empty string."""
    with ExitStack() as stack:
        for name in LEAST_STEPS if index % 2 else ():
            stack.enter_context(patch(name, FEWEST))
        return _run_case(seed, index, counts)


def _run_case(seed: str, index: int, counts: Counter[str]) -> str:
    rng = Random(f"rules:{seed}:{index}")
    g = random_graph(rng)
    space = build(g)
    outputs = [space[n] for n in g.outputs]
    known = {v: g.sizes[v.name] for v in variables(outputs) if v.name in g.sizes}
    for target in (CPU, GPU):
        made = Space(Problem(tuple(outputs), target, 2, known))
        for _ in range(DRAWS):
            candidate = None
            try:
                candidate = made.draw(rng)
                _check(rng, g, outputs, target, made, candidate, counts)
            except Rejected as refused:
                counts[f"{target.kind}: {str(refused)[:60]}"] += 1
            except Exception as error:
                steps = candidate.schedule.as_python() if candidate is not None else ""
                trace = "".join(traceback.format_exception(error)[-6:])
                return f"--- {seed}:{index} {target.kind}\n{g.source}\n{steps}\n{trace}"
    return ""


def _check(
    rng: Random, g: Any, outputs: list[Any], target: sl.Target, made: Space, found: Candidate,
    counts: Counter[str],
) -> None:  # fmt: skip
    nest = found.nest
    again = made.draw(None, found.decisions)
    if str(again.nest) != str(nest):
        raise Mismatch("the same decisions make another nest")
    check_schedule(rng, g, outputs, target, found.schedule, nest, counts)


def check_schedule(
    rng: Random, g: Any, outputs: list[Any], target: sl.Target, s: sl.Schedule, nest: Any,
    counts: Counter[str],
) -> None:  # fmt: skip
    """Raise :class:`Mismatch` unless a schedule replays, and gives the results of the oracle."""
    replayed = sl.Schedule.from_json(s.to_json(), outputs)
    if str(sl.lower(replayed)) != str(nest):
        raise Mismatch("the steps as JSON make another nest")
    counts[f"{target.kind}: valid"] += 1
    if iterations(nest, g.sizes) > MOST_ITERATIONS:
        counts["too large to run"] += 1
        return
    values = arrays(g, rng.randrange(2**31), g.sizes)
    wanted = expected(outputs, values, g.sizes)
    given = given_arrays(nest, values, g.sizes)
    if target.is_gpu:
        known = {v: g.sizes[v.name] for v in nest.sizes}
        program = device_program(nest, target)
        run: Any = simulate(program, given, known, rng.choice(("forward", "reverse")), 0)
    elif cooperative(nest):
        return
    else:
        run = interpret(nest, given, rng.choice(("forward", "reverse")), 0)
    compare(nest, run.outputs, wanted, g.terms, f"{target.kind}")
    counts[f"{target.kind}: right"] += 1


def command(
    name: str, description: str | None, run: Callable[[str, int, Counter[str]], str],
    argv: list[str] | None = None,
) -> int:  # fmt: skip
    """Run cases as a command asks, print failures and counts, and return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=description)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--failures", type=int, default=1)
    options = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    failed = 0
    for index in range(options.start, options.start + options.cases):
        failure = run(options.seed, index, counts)
        if failure:
            print(failure, flush=True)
            failed += 1
            if failed >= options.failures:
                break
    for what, count in sorted(counts.items(), key=lambda item: -item[1])[:40]:
        print(f"{count:6} {what}")
    return int(failed > 0)


def main(argv: list[str] | None = None) -> int:
    return command("tests.fuzz.tactics", __doc__, run_case, argv)


if __name__ == "__main__":
    sys.exit(main())
