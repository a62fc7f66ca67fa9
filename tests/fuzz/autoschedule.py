"""``python -m tests.fuzz.autoschedule --cases N``: ``sl.autoschedule`` on random computations.

Each schedule, for a CPU and for a GPU, must come from the tactics, be the same when asked again,
and give the results of the oracle.
"""

from __future__ import annotations

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
from tests.fuzz.tactics import CPU, GPU, check_schedule, command

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
    return command("tests.fuzz.autoschedule", __doc__, run_case, argv)


if __name__ == "__main__":
    sys.exit(main())
