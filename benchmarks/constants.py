"""How much the numbers of the cost model matter to its estimates, by the records that are shipped.

    python -m benchmarks.constants [--only PATTERN]

For each schedule of a work that the package's databases have for a CPU, the estimate is compared
with the time that a search measured. The ``spread`` of a number is the standard deviation of the
logarithm of their ratio: 0 if all estimates are wrong by one factor. A number is decided by the
records if half of it and twice it both have a larger spread. Nothing is timed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from math import log
from statistics import pstdev
from typing import Any
from unittest.mock import patch

from benchmarks import works
from benchmarks.peers.tuned import tensors_of
from schedlang.autotune.best import packaged
from schedlang.autotune.costs.estimate import estimate
from schedlang.autotune.model.problems import JUMPS
from schedlang.autotune.record import Where
from schedlang.autotune.records.replay import replay
from schedlang.errors import SchedlangError
from schedlang.host import USUAL_CACHES
from schedlang.ir.nest import Nest
from schedlang.lowering.lower import lower_state
from schedlang.target import Target

# the modules and names of the numbers; JUMPS is an argument of the estimate
NUMBERS = (
    ("costs.estimate", "LATENCY"), ("costs.estimate", "RATES"), ("costs.estimate", "LAUNCH"),
    ("costs.estimate", "AGAIN"), ("costs.estimate", "OVERLAP"), ("costs.arithmetic", "DIVISION"),
    ("costs.arithmetic", "MATH"), ("costs.footprint", "NEAR"), ("costs.footprint", "STREAMS"),
    ("costs.footprint", "PAGE"), ("model.problems", "JUMPS"),
)  # fmt: skip
FACTORS = (0.5, 1.0, 2.0)
THREADS = 2


@dataclass(frozen=True)
class Timed:
    """The loop nest of a record, its target, and the seconds that a search measured."""

    nest: Nest
    target: Target
    seconds: float

    def error(self, jumps: float) -> float:
        """Return the logarithm of the estimate over the time."""
        found = estimate(self.nest, self.target, THREADS, jumps)
        return log(found.seconds / self.seconds)


def timed() -> Iterator[Timed]:
    """Yield the records of works for CPUs that come with the package."""
    networks = {*(w.name for w in works.NETWORKS), *(w.name for w in works.SMALL)}
    databases = packaged()
    for name, work in works.ALL.items():
        if name in networks:
            continue
        outputs = tensors_of(work)[len(work.inputs) :]
        for size, registers in ((32, 16), (64, 32)):
            target = Target(
                "cpu", vector_bytes=size, vector_registers=registers, caches=USUAL_CACHES
            )
            where = Where.here(outputs, target, {})
            for database in databases:
                for entry in database.ranked(where, outputs):
                    # a rate is the processor's, whichever compiler the code is from
                    same = replace(
                        entry.where, machine=where.machine, versions=where.versions,
                        compiler=where.compiler,
                    )  # fmt: skip
                    if same != where or entry.seconds is None:
                        continue
                    try:
                        s = replay(entry, list(outputs))
                    except SchedlangError:
                        continue
                    yield Timed(lower_state(s.state), target, entry.seconds)


def scaled(value: Any, factor: float) -> Any:
    """Return a number, or each of several numbers, times a factor."""
    if isinstance(value, tuple):
        return tuple(scaled(n, factor) for n in value)
    return type(value)(factor * value)


def spread(records: list[Timed], module: str, name: str, factor: float) -> float:
    """Return the spread of the estimates with one number times ``factor``."""
    place = import_module(f"schedlang.autotune.{module}")
    jumps = JUMPS * factor if name == "JUMPS" else JUMPS
    with patch.object(place, name, scaled(getattr(place, name), factor)):
        return pstdev([record.error(jumps) for record in records])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", default="", help="the names of numbers, a regular expression")
    only = parser.parse_args().only
    records = list(timed())
    print(f"{len(records)} records; the spread at half of a number, as it is, and at twice it")
    for module, name in NUMBERS:
        if not re.search(only, name):
            continue
        half, now, twice = (spread(records, module, name, f) for f in FACTORS)
        verdict = "decided" if now < min(half, twice) else "not decided"
        print(f"{module}.{name:10} {half:.4f}  {now:.4f}  {twice:.4f}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
