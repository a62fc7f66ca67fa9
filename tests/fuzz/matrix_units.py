"""Random products by matrix units, pipelined, swizzled and padded, in lockstep and emulated.

``python -m tests.fuzz.matrix_units --cases N --seed S``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import SchedlangError
from tests.matrix_products import NAMES, by_matrix_loads, operands, product

# what a case may do with its tiles in shared memory
LAYOUTS = ("plain", "padded", "swizzled")
AHEAD = ("", "", "double_buffer", "pipeline")


@dataclass(frozen=True)
class Case:
    """A product with its schedule, in words, and whether B has its columns in rows."""

    text: str
    schedule: sl.Schedule
    args: list[sl.Tensor]
    transposed: bool


def random_case(rng: Random) -> Case | str:
    """Return a random product, or why a step of its schedule was refused."""
    name = rng.choice(NAMES)
    short = name in ("mma_f16", "mma_bf16")
    step = int(getattr(sl.instructions, name).operands[0].shape[1])
    tiles, warps = ((rng.choice((1, 1, 2)), rng.choice((1, 2))) for _ in range(2))
    whole = rng.random() < 0.5
    m, n = (
        size if whole else rng.randrange(least, size + 9)
        for size, least in ((16 * tiles[0] * warps[0], 16), (8 * tiles[1] * warps[1], 8))
    )
    steps = rng.randrange(2, 4) * 2 * step
    k = steps if whole else steps - rng.randrange(1, step)
    transposed = rng.random() < 0.5
    # tiles that zeros fill up are computed, which no asynchronous copy does
    layout, ahead = rng.choice(LAYOUTS), rng.choice(AHEAD if whole else AHEAD[:3])
    loads = whole and rng.random() < 0.5
    stages = rng.randrange(2, 5)

    def prepare(tile: Any) -> None:
        itemsize = 4 if name == "mma_tf32" else 2 if short else 1
        each = 16 // itemsize
        if layout == "padded":
            tile.storage_align(tile.op.axis[0], 8 * each, each)
        elif layout == "swizzled":
            tile.transform_layout(
                lambda i, j: (i, j // (2 * each), j // each % 2 ^ i % 2, j % each)
            )
        if ahead == "double_buffer":
            tile.double_buffer()
        elif ahead:
            tile.pipeline(stages)

    words = [name, f"{tiles} tiles", f"{warps} warps", layout, ahead or "in turn"]
    words += [f"{stages} stages"] * (ahead == "pipeline") + ["ldmatrix"] * loads
    try:
        s, args = product(
            m, n, k, name, tiles, warps,
            transposed=transposed, prepare=prepare,
        )  # fmt: skip
        if loads:
            kind = name.removeprefix("mma_")
            right = f"ldmatrix_x2_{'' if transposed else 'trans_'}{kind}"
            # rows of bytes and words run along the terms alone
            by_matrix_loads(s, f"ldmatrix_x4_{kind}", right if transposed or short else "")
    except SchedlangError as error:
        return f"{type(error).__name__} in {', '.join(words)}: {error}"
    sizes = " x ".join(str(size) for size in (*args[2].shape, k))
    return Case(f"{sizes} by {', '.join(words)}", s, args, transposed)


def run(case: Case, rng: Random, emulated: float = 1.0) -> str:
    """Compare a case with NumPy in lockstep, and a share ``emulated``; return what happened.

    Raise AssertionError for a result that no order of its sums explains.
    """
    a, b, expected, magnitude = operands(case.args, case.transposed)
    try:
        f = sl.build(case.schedule, case.args, target="cuda-emulator")
    except SchedlangError as error:
        return f"not built: {error}"
    results = [f.check(a, b, order=rng.choice(("forward", "reverse", "shuffle")))]
    if rng.random() < emulated:
        results.append(f(a, b))
    terms = int(case.args[0].shape[1])
    # float32 rounds each addition, and each product of float32 factors
    bound = 0.0 if "int" in case.args[0].dtype else (terms + 1) * 2.0**-24
    for result in results:
        assert (np.abs(result - expected) <= bound * magnitude).all(), case.text
    return "emulated" if len(results) > 1 else "in lockstep"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.matrix_units", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--emulated", type=float, default=1.0, help="the share that is emulated")
    options = parser.parse_args(argv)
    started, outcomes = time.process_time(), Counter[str]()
    for index in range(options.start, options.start + options.cases):
        rng = Random(f"{options.seed}:{index}")
        case = random_case(rng)
        if isinstance(case, str):
            outcomes[f"refused: {case.splitlines()[0]}"] += 1
            continue
        try:
            outcomes[run(case, rng, options.emulated).splitlines()[0]] += 1
        except Exception as error:
            outcomes["failed"] += 1
            print(f"case {options.seed}:{index}, {case.text}: {error}", flush=True)
    seconds = time.process_time() - started
    print(f"{options.cases} cases, {seconds:.0f} s of processor time")
    for outcome, count in outcomes.most_common():
        print(f"{count:6d} {outcome}")
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
