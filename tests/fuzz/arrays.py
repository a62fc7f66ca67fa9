"""``python -m tests.fuzz.arrays --cases N``: random array expressions, beside NumPy.

Each is compared as an expression by the oracle, and as a function under ``sl.jit``; every tenth
also as a kernel. Each case also has a random program that writes through views (``memory.py``).
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import schedlang as sl
from tests.fuzz.memory import check_memory
from tests.test_array_properties import Pair, assert_same, check, expression, replayed


def check_traced(inputs: list[Pair], found: Pair) -> None:
    """Compare the expression as a function under ``sl.jit`` with NumPy."""
    arrays = [p.array for p in inputs]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        got = np.asarray(sl.jit(lambda *a: replayed(found, inputs, a), target="python")(*arrays))
    assert got.dtype == np.asarray(found.array).dtype
    assert_same(got, found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.arrays", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done = steps = refused = 0

    @seed(options.seed)
    @settings(max_examples=options.cases, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def case(data: st.DataObject) -> None:
        nonlocal done, steps, refused
        done += 1
        inputs, found = expression(data.draw)
        check(inputs, found, None)
        check_traced(inputs, found)
        if done % 10 == 0:
            check(inputs, found, "python")
        taken, left_out = check_memory(data.draw)
        steps, refused = steps + taken, refused + left_out

    try:
        case()
    except Exception:
        traceback.print_exc()
        return 1
    print(f"{done} cases are right; of {steps} steps on views, {refused} were refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
