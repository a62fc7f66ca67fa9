"""``python -m tests.fuzz.instructions --cases N``: random products with instructions."""

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
from schedlang import instructions
from schedlang.errors import BuildError, LoweringError, ScheduleError
from schedlang.expr.dtypes import array_dtype
from tests.instructions import (
    FAMILIES,
    GEMV,
    fused,
    gemv,
    gemv_numba,
    packed,
    runs,
    scaled_row,
)

TARGETS: dict[str, dict[str, Any]] = {
    "llvm": {"target": "cpu", "compiler": "llvm"}, "numba": {"target": "cpu", "compiler": "numba"},
    "c": {"target": "c"}, "python": {"target": "python"},
}  # fmt: skip


# forms of one row of a product
ROWS = ("scaled_row", "assembled_row", "written_row")
# what a machine nest calls in place of loops, or the instruction itself
EMITTED = ("instruct", "assemble", "gemv", "gemv_numba")


@dataclass(frozen=True)
class Case:
    """A product, its schedule, and what it is compared with: the oracle of ``output``."""

    text: str
    args: tuple[Any, ...]
    output: Any
    schedule: Any


def random_case(rng: Random) -> Case:
    """Return a random product with an instruction; a step that does not fit is left out."""
    kind = rng.choice([*FAMILIES, "fused", *ROWS, "gemv"])
    m, n, k = rng.randrange(1, 9), rng.randrange(1, 70), rng.randrange(1, 40)
    if kind in FAMILIES:
        args = packed(m, n, k, kind)
        declared = getattr(instructions, kind)
        args = _maybe_packed_here(rng, args, kind)
    elif kind == "gemv":
        size = rng.choice((3, 4, 8)), rng.choice((2, 3, 5))
        declared = gemv(*size, rng.choice((GEMV, gemv_numba)))
        A, B = sl.placeholder((m, k), name="A"), sl.placeholder((n, k), name="B")
        r = sl.reduce_axis(k, name="k")
        args = (A, B, sl.compute((m, n), lambda i, j: sl.sum(A[i, r] * B[j, r], axis=r), name="C"))
    elif kind == "fused":
        declared = fused()
        inputs = tuple(sl.placeholder((m, n), name=name) for name in "ABD")
        A, B, D = inputs
        args = (*inputs, sl.compute((m, n), lambda i, j: A[i, j] * B[i, j] + D[i, j], name="C"))
    else:
        declared = scaled_row(kind)
        A, B = sl.placeholder((m, k), name="A"), sl.placeholder((k, n), name="B")
        r = sl.reduce_axis(k, name="k")
        args = (A, B, sl.compute((m, n), lambda i, j: sl.sum(A[i, r] * B[r, j], axis=r), name="C"))
    return _scheduled(rng, args, declared, f"{kind} {m}x{n}x{k}")


def _maybe_packed_here(rng: Random, args: tuple[Any, ...], family: str) -> tuple[Any, ...]:
    """Return the same product, sometimes of a plain B, which a stage packs."""
    lanes, terms, _, right, result = FAMILIES[family]
    A, _, C = args
    if rng.random() < 0.5:
        return args
    (m, n), (k,) = C.shape, C.op.reduce_axis
    B = sl.placeholder((k.extent, n), right, name="B")
    r = sl.reduce_axis(k.extent, name="k")

    def element(i: Any, j: Any) -> Any:
        return sl.sum(A[i, r].astype(result) * B[r, j].astype(result), axis=r)

    return A, B, sl.compute((m, n), element, name="C")


def _scheduled(rng: Random, args: tuple[Any, ...], declared: Any, text: str) -> Case:
    *inputs, C = args
    output = C
    if rng.random() < 0.3:
        output = sl.compute(C.shape, lambda i, j: C[i, j] + C[i, j], name="E")
    s = sl.schedule(output)
    lanes = declared.lanes
    terms = [int(a.extent) for a in declared.op.reduce_axis if a.extent != 1]
    B = inputs[1]
    if terms and len(B.shape) == 2 and (not declared.in_memory or rng.random() < 0.4):
        q = terms[0]
        P = s.cache_read(B, rng.choice(("global", "local")), [C])
        if declared.in_memory:
            s[P].transform_layout(lambda j, k: (k, j))
        else:
            s[P].transform_layout(lambda k, j: (j // lanes, k // q, j % lanes, k % q))
    stage, tail = C, rng.choice(("auto", "cut", "cut"))
    if rng.random() < 0.3:
        stage = s.cache_write(C, rng.choice(("global", "local")))
        outer = s[C].tile(*C.op.axis, rng.choice((1, 2, 3)), lanes, tail=tail)[1]
        s[stage].compute_at(s[C], outer)
    i, j = s[stage].op.axis
    before, lane = [i], j
    if rng.random() < 0.8 or stage is C:
        jo, lane = s[stage].split(j, factor=lanes, tail=tail)
        before.append(jo)
    if rng.random() < 0.4:
        before[0:1] = s[stage].split(i, factor=rng.choice((2, 3)), tail=rng.choice(("auto", "cut")))
    inside = [lane]
    for axis in s[stage].op.reduce_axis:
        if terms:
            ko, ki = s[stage].split(axis, factor=terms[0], tail=tail)
            inside.append(ki)
            before.append(ko)
        else:
            before.append(axis)
    rng.shuffle(before)
    s[stage].reorder(*before, *inside)
    optional = [
        lambda: s[stage].unroll(rng.choice(before)),
        lambda: s[stage].parallel(before[0]),
        lambda: s[C].compute_at(s[output], output.op.axis[0]),
    ]
    s[stage].tensorize(lane, declared)
    for step in rng.sample(optional, rng.randrange(len(optional) + 1)):
        try:
            step()
        except (ScheduleError, ValueError):
            # it is not legal here
            continue
    return Case(text, (*inputs, output), output, s)


def operands(case: Case, rng: Random) -> list[np.ndarray]:
    draw, arrays = np.random.default_rng(rng.randrange(2**32)), []
    for tensor in case.args[:-1]:
        dtype, shape = array_dtype(tensor.dtype), tuple(tensor.shape)
        if np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            arrays.append(draw.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        else:
            arrays.append(draw.standard_normal(shape).astype(dtype))
    return arrays


def run_case(seed: str, number: int, all_targets: bool) -> str:
    """Run one case, and return ``"passed"``, or why its schedule has no instruction.

    Raise an :class:`AssertionError` for a kernel that differs from the oracle.
    """
    rng = Random(f"{seed}:{number}")
    try:
        case = random_case(rng)
        sl.lower(case.schedule, list(case.args))
    except (ScheduleError, LoweringError) as error:
        return re_worded(str(error))
    arrays = operands(case, rng)
    want = sl.reference(case.output)(*arrays)
    declared = next(v for step in case.schedule.steps for v in step.args.values()
                    if isinstance(v, sl.Instruction))  # fmt: skip
    again = sl.Schedule.from_json(case.schedule.to_json(), case.output, [declared])
    assert str(again) == str(case.schedule), "from_json(to_json()) prints another nest"
    names = list(TARGETS) if all_targets else ["llvm", "python"]
    for name in names:
        if name != "python" and not runs(declared):
            continue
        try:
            f = sl.build(case.schedule, list(case.args), **TARGETS[name])
        except BuildError as error:
            assert name == "c" and "no form for target='c'" in str(error), error
            continue
        result = f(*arrays)
        _compare(case, name, result, want)
        uses = any(f"{word}(" in str(f.machine_nest) for word in (*EMITTED, declared.name))
        assert uses == (name != "python"), f"{name}: the instruction is not used"
    return "passed"


def re_worded(message: str) -> str:
    """Return the first line of a refusal without its stage and sizes."""
    line = message.split("\n")[0]
    return "refused: " + " ".join(w for w in line.partition(": ")[2].split() if not w[0].isdigit())


def _compare(case: Case, name: str, result: np.ndarray, want: np.ndarray) -> None:
    shown = f"{case.text} for {name}\n{case.schedule.as_python()}\n{case.schedule}"
    assert result.dtype == want.dtype and result.shape == want.shape, shown
    if np.issubdtype(want.dtype, np.integer):
        assert np.array_equal(result, want), shown
    else:
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-4, err_msg=shown)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.instructions", description=__doc__)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument(
        "--all-targets-share", type=float, default=0.2,
        help="the share of cases that numba and the C compiler build, too",
    )  # fmt: skip
    options = parser.parse_args(argv)
    outcomes: Counter[str] = Counter()
    begun = time.monotonic()
    for number in range(options.start, options.start + options.cases):
        everything = number % 100 < 100 * options.all_targets_share
        try:
            outcomes[run_case(options.seed, number, everything)] += 1
        except AssertionError as error:
            print(f"--- case {options.seed}:{number}\n{error}", flush=True)
            return 1
    print(f"{options.cases} cases in {time.monotonic() - begun:.0f} s")
    for outcome, times in outcomes.most_common():
        print(f"{times} {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
