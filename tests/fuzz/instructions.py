"""``python -m tests.fuzz.instructions --cases N``: random products with instructions."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from math import prod
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
    """A product of an instruction's ``kind``, with so many ``terms``, and its schedule.

    A symbolic number of rows is ``rows``.
    """

    kind: str
    args: tuple[Any, ...]
    output: Any
    schedule: Any
    terms: int
    rows: int = 0

    @property
    def text(self) -> str:
        return f"{self.kind} of {' and '.join(map(str, self.args))}"


def random_case(rng: Random) -> Case:
    """Return a random product with an instruction; a step that does not fit is left out."""
    kind = rng.choice([*FAMILIES, "fused", *ROWS, "gemv"])
    declared = _declared(rng, kind)
    tail = rng.choice(("auto", "cut", "cut"))
    rows = rng.randrange(1, 9)
    m: Any = sl.var("m") if rng.random() < 0.2 else rows
    n, k = (_extent(rng, step, tail) for step in (declared.lanes, _terms(declared)))
    if kind in FAMILIES:
        args = _maybe_packed_here(rng, packed(m, n, k, kind), kind)
    elif kind == "gemv":
        A, B = sl.placeholder((m, k), name="A"), sl.placeholder((n, k), name="B")
        r = sl.reduce_axis(k, name="k")
        args = (A, B, sl.compute((m, n), lambda i, j: sl.sum(A[i, r] * B[j, r], axis=r), name="C"))
    elif kind == "fused":
        inputs = tuple(sl.placeholder((m, n), name=name) for name in "ABD")
        A, B, D = inputs
        args = (*inputs, sl.compute((m, n), lambda i, j: A[i, j] * B[i, j] + D[i, j], name="C"))
    else:
        A, B = sl.placeholder((m, k), name="A"), sl.placeholder((k, n), name="B")
        r = sl.reduce_axis(k, name="k")
        args = (A, B, sl.compute((m, n), lambda i, j: sl.sum(A[i, r] * B[r, j], axis=r), name="C"))
    return replace(_scheduled(rng, args, declared, tail, kind), rows=rows)


def _declared(rng: Random, kind: str) -> sl.Instruction:
    if kind in FAMILIES:
        return getattr(instructions, kind)
    if kind == "gemv":
        size = rng.choice((3, 4, 8)), rng.choice((2, 3, 5))
        return gemv(*size, rng.choice((GEMV, gemv_numba)))
    return fused() if kind == "fused" else scaled_row(kind)


def _terms(declared: sl.Instruction) -> int:
    return prod(int(axis.extent) for axis in declared.op.reduce_axis)


def _extent(rng: Random, step: int, tail: str) -> int:
    """Return an extent with a whole step; without cut tails, each step is whole."""
    if tail == "cut":
        return rng.randrange(step, 3 * step + 20)
    return step * rng.randrange(1, 5)


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


def _scheduled(rng: Random, args: tuple[Any, ...], declared: Any, tail: str, kind: str) -> Case:
    *inputs, C = args
    output = C
    if rng.random() < 0.3:
        output = sl.compute(C.shape, lambda i, j: C[i, j] + C[i, j], name="E")
    s = sl.schedule(output)
    lanes = declared.lanes
    terms = _terms(declared)
    B, packing = inputs[1], None
    if terms > 1 and len(B.shape) == 2 and (not declared.in_memory or rng.random() < 0.4):
        packing = s.cache_read(B, rng.choice(("global", "local")), [C])
        if declared.in_memory:
            s[packing].transform_layout(lambda j, k: (k, j))
        else:
            s[packing].transform_layout(lambda k, j: (j // lanes, k // terms, j % lanes, k % terms))
    stage = C
    if rng.random() < 0.3:
        stage = s.cache_write(C, rng.choice(("global", "local")))
        outer = s[C].tile(*C.op.axis, rng.choice((1, 2, 3)), lanes, tail=tail)[1]
        s[stage].compute_at(s[C], outer)
    i, j = s[stage].op.axis
    before, lane = [i], j
    if rng.random() < 0.8 or stage is C:
        jo, lane = s[stage].split(j, factor=lanes, tail=tail)
        before.append(jo)
    rows: list[Any] = [i]
    if rng.random() < 0.4:
        cut = rng.choice(("auto", "cut"))
        rows = [*s[stage].split(i, factor=rng.choice((2, 3)), tail=cut)]
        before[0:1] = rows
    inside = [lane]
    for axis in s[stage].op.reduce_axis:
        if terms > 1:
            ko, ki = s[stage].split(axis, factor=terms, tail=tail)
            inside.append(ki)
            before.append(ko)
        else:
            before.append(axis)
    rng.shuffle(before)
    # a tail is cut from the outer loop, which stays outside
    for place, axis in zip(sorted(before.index(axis) for axis in rows), rows):
        before[place] = axis
    s[stage].reorder(*before, *inside)
    optional = [
        lambda: s[stage].unroll(rng.choice(before)),
        lambda: s[stage].parallel(before[0]),
        lambda: s[stage].fuse(*before[:2]),
        lambda: s[C].compute_at(s[output], output.op.axis[0]),
        lambda: s[output].vectorize(output.op.axis[1]),
    ]
    if packing is not None:
        optional += [
            lambda: s[packing].compute_at(s[stage], rng.choice(before)),
            lambda: s[packing].vectorize(s[packing].leaf_axes[-1]),
        ]
    s[stage].tensorize(lane, declared)
    for step in rng.sample(optional, rng.randrange(len(optional) + 1)):
        try:
            step()
        except (ScheduleError, ValueError):
            # it is not legal here
            continue
    return Case(kind, (*inputs, output), output, s, prod(a.extent for a in C.op.reduce_axis))


def operands(case: Case, rng: Random) -> list[np.ndarray]:
    """Return random inputs, all integers of a dtype, or floats; half of these are whole numbers."""
    draw, arrays = np.random.default_rng(rng.randrange(2**32)), []
    whole = rng.random() < 0.5
    for tensor in case.args[:-1]:
        dtype = array_dtype(tensor.dtype)
        shape = tuple(e if isinstance(e, int) else case.rows for e in tensor.shape)
        if np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            arrays.append(draw.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        else:
            floats = draw.integers(-99, 100, shape) if whole else draw.standard_normal(shape)
            arrays.append(floats.astype(dtype))
    return arrays


def by_numpy(case: Case, arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return NumPy's result, and how much a kernel may differ from it.

    Floats are computed in float64. A sum of float32 may be rounded at each term, but sums of whole
    numbers are exact.
    """
    n, dtype = case.output.shape[1], case.output.dtype
    wide = np.int64 if dtype == "int32" else np.float64
    a, b, *added = (x.astype(wide) for x in arrays)
    if case.kind == "fused":
        want, sizes = a * b + added[0], np.abs(a * b) + np.abs(added[0])
    else:
        if b.ndim == 4:
            # panels of lanes and terms
            b = b.transpose(0, 3, 1, 2).reshape(b.shape[0] * b.shape[3], -1)[:, :n]
        elif case.kind == "gemv":
            b = b.T
        a, b = a[:, : case.terms], b[: case.terms]
        want, sizes = a @ b, np.abs(a) @ np.abs(b)
    if case.output.name == "E":
        want, sizes = want + want, sizes + sizes
    exact = dtype == "int32" or all(np.all(x == np.rint(x)) for x in (a, b, *added))
    # of each product and of each sum, and of this result
    most = np.zeros(sizes.shape) if exact else 2 * (case.terms + 1) * 2.0**-24 * sizes
    return want.astype(array_dtype(dtype)), most


def run_case(seed: str, number: int, all_targets: bool) -> str:
    """Run one case, and return ``"equal"``, or why its schedule has no instruction.

    Raise an :class:`AssertionError` for a kernel that differs from NumPy.
    """
    rng = Random(f"{seed}:{number}")
    try:
        case = random_case(rng)
        sl.lower(case.schedule, list(case.args))
    except (ScheduleError, LoweringError) as error:
        return re_worded(str(error))
    arrays = operands(case, rng)
    want, most = by_numpy(case, arrays)
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
        _compare(case, name, f(*arrays), want, most)
        uses = any(f"{word}(" in str(f.machine_nest) for word in (*EMITTED, declared.name))
        assert uses == (name != "python"), f"{name}: the instruction is not used"
    return "equal"


def re_worded(message: str) -> str:
    """Return the first line of a refusal without its stage and sizes."""
    line = message.split("\n")[0]
    return "refused: " + " ".join(w for w in line.partition(": ")[2].split() if not w[0].isdigit())


def _compare(case: Case, name: str, result: np.ndarray, want: np.ndarray, most: np.ndarray) -> None:
    shown = f"{case.text} for {name}\n{case.schedule.as_python()}\n{case.schedule}"
    assert result.dtype == want.dtype and result.shape == want.shape, shown
    assert np.all(np.abs(result.astype(np.float64) - want) <= most), shown


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
        except Exception:
            print(f"--- case {options.seed}:{number}", flush=True)
            raise
    print(f"{options.cases} cases in {time.monotonic() - begun:.0f} s")
    for outcome, times in outcomes.most_common():
        print(f"{times} {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
