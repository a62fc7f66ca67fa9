"""``python -m tests.fuzz.autoschedule --cases N``: ``sl.autoschedule`` on random computations.

Each schedule, for a CPU and for a GPU, must come from the tactics, be the same when asked again,
and give the results of the oracle.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from random import Random

import schedlang as sl
from schedlang.autoschedule import choose
from schedlang.compute.graph import variables
from schedlang.ir.verify import verify
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.record import Mismatch
from tests.fuzz.tactics import CPU, GPU, check_schedule

# a database that does not exist: the model decides
NONE = "none.jsonl"


def run_case(seed: str, index: int, counts: Counter[str]) -> str:
    """Run a case and return its failure, or an empty string."""
    rng = Random(f"autoschedule:{seed}:{index}")
    g = random_graph(rng)
    space = build(g)
    outputs = [space[n] for n in g.outputs]
    # every other case plans for the sizes of the call, the others for the assumed ones
    names = [v.name for v in variables(outputs) if v.is_size]
    known = {name: g.sizes[name] for name in names} if index % 2 else {}
    for target in (CPU, GPU):
        s = None
        try:
            found = choose(outputs, target, known, NONE)
            s = found.schedule
            if found.origin != "model":
                raise Mismatch(f"{found.origin}: {found.note}")
            if choose(outputs, target, known, NONE).schedule.to_json() != s.to_json():
                raise Mismatch("the same computation got another schedule")
            nest = sl.lower(s)
            verify(nest)
            check_schedule(rng, g, outputs, target, s, nest, counts)
        except Exception as error:
            steps = "" if s is None else s.as_python()
            trace = "".join(traceback.format_exception(error)[-6:])
            return f"--- {seed}:{index} {target.kind}\n{g.source}\n{steps}\n{trace}"
    return ""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.autoschedule", description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--failures", type=int, default=1)
    options = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    failed = 0
    for index in range(options.start, options.start + options.cases):
        failure = run_case(options.seed, index, counts)
        if failure:
            print(failure, flush=True)
            failed += 1
            if failed >= options.failures:
                break
    for what, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:6} {what}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
