"""Mutation tests of the fuzzer: it catches each planted bug within 2,000 cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from schedlang.expr.nodes import Binary, Const
from schedlang.index.linear import ZERO, Lin, to_expr
from schedlang.intrinsics import twins
from schedlang.ir.nodes import For
from schedlang.lowering import (
    allocation,
    build,
    extern,
    hoist,
    instantiate,
    lower,
    region,
    resolve,
    sliding_windows,
    statement,
)
from schedlang.lowering.tails import Cut
from schedlang.machine.loops import conditions, strips
from schedlang.machine.select import expressions, stores
from schedlang.runtime import kernel
from schedlang.state import placement, plan
from schedlang.state.primitives import dataflow
from tests.fuzz.case import Case, run_case
from tests.marks import slow_but

MOST_CASES = 2000
Patch = Callable[[Any, str, Any], None]


def caught(seed: str, targets: Sequence[str] = (), externs: float = 0.0) -> Case | None:
    """Return the first case that fails a check, or ``None``; a crash does not count."""
    for index in range(MOST_CASES):
        case = run_case(seed, index, targets, texts=False, externs=externs)
        if case.outcome == "failed" and found_wrong(case):
            return case
        # a planted bug that no longer fits the code only crashes
        assert ".wrong() " not in case.failure, case.failure
    return None


def found_wrong(case: Case) -> bool:
    """Return whether the case failed by the verifier, by a bound, or by a wrong result."""
    raised = [line.partition(":")[0] for line in case.failure.splitlines() if line[:1].strip()]
    names = {name.rpartition(".")[2] for name in raised}
    return bool(names & {"VerifyError", "OutOfBoundsError", "BoundsError", "Mismatch"})


def dropped_guard(patch: Patch) -> None:
    patch(plan, "_guard", lambda *args, **more: None)


def dropped_domain_guard(patch: Patch) -> None:
    patch(plan, "_domain_guards", lambda *args, **more: None)


def off_by_one_box(patch: Patch) -> None:
    right = region.largest_extent

    def wrong(lo: Lin, hi: Lin, ranges: Any) -> Lin | None:
        found = right(lo, hi, ranges)
        return found - 1 if found is not None and (found.const or 0) > 1 else found

    patch(region, "largest_extent", wrong)


def union_forgets_one_reader(patch: Patch) -> None:
    patch(region, "union", lambda a, b, ranges: a)


def lost_init(patch: Patch) -> None:
    right = build.statement
    patch(build, "statement", lambda n, scope: ([], {}) if n.init else right(n, scope))


def dropped_where(patch: Patch) -> None:
    right = build.statement

    def wrong(n: Any, scope: Any) -> Any:
        bare = replace(n.stage.op, where=None)
        return right(replace(n, stage=n.stage.with_(op=bare)), scope)

    patch(build, "statement", wrong)


def wrong_stride(patch: Patch) -> None:
    right = allocation._strides

    def wrong(stage: Any, shape: Any) -> Any:
        found = right(stage, shape)
        return found and tuple(max(1, s - 1) for s in found)

    patch(allocation, "_strides", wrong)


def wrong_origin(patch: Patch) -> None:
    right = resolve.Place.index

    def wrong(self: Any, at: Any, ranges: Any) -> Any:
        moved = tuple(o - (k == 0) for k, o in enumerate(self.origin))
        return right(replace(self, origin=moved), at, ranges)

    patch(resolve.Place, "index", wrong)


def rfactor_guard_lost(patch: Patch) -> None:
    right = dataflow.make_plan
    patch(dataflow, "make_plan", lambda *args: replace(right(*args), guards=()))


def rfactor_keeps_init(patch: Patch) -> None:
    right = dataflow._factor

    def wrong(state: Any, stage: Any, op: Any, axis: Any, place: int) -> Any:
        defines = dataflow.new_operation

        def keeping(name: str, axes: Any, body: Any, **more: Any) -> Any:
            extra = {"init": (Const(op.init[0].value, op.init[0].dtype),)} if (
                op.init and isinstance(op.init[0], Const) and more) else {}  # fmt: skip
            return defines(name, axes, body, **more, **extra)

        patch(dataflow, "new_operation", keeping)
        try:
            return right(state, stage, op, axis, place)
        finally:
            patch(dataflow, "new_operation", defines)

    patch(dataflow, "_factor", wrong)


def cut_tail_skipped(patch: Patch) -> None:
    right = build.cut_at

    def wrong(stage: Any, made: Any, peel: Any, leaf: Any, axis: Any, children: Any) -> Any:
        cut = right(stage, made, peel, leaf, axis, children)
        if not isinstance(cut, Cut):
            return cut
        return replace(cut, tail=cut.tail.with_({axis: ZERO}, {}))

    def none(n: Any, depth: int, axis: Any, scope: Any) -> Any:
        if dict(n.peel.extents).get(axis) == ZERO:
            return [], {}
        return (yield from part(n, depth, axis, scope))

    part = build._part
    patch(build, "_part", none)
    patch(build, "cut_at", wrong)


def late_guard_of_a_tail_lost(patch: Patch) -> None:
    patch(build, "_part", lambda n, depth, axis, scope: build._loop(n, depth, axis, scope))


def hoisted_too_far(patch: Patch) -> None:
    patch(hoist, "_movable", lambda loop, body: len(body) == 1 and isinstance(body[0], hoist.If))


def inlined_at_wrong_index(patch: Patch) -> None:
    right = placement.place

    def wrong(state: Any, given: Any = ()) -> Any:
        found = right(state, given)
        turned = {t: replace(op, axis=op.axis[::-1]) for t, op in found.inline.items()}
        return replace(found, inline=turned)

    patch(lower, "place", wrong)


def folded_wrong(patch: Patch) -> None:
    right = instantiate._compare

    def wrong(node: Any, ranges: Any) -> Any:
        made = right(node, ranges)
        return Const(True, "bool") if made is node and node.op == "<" else made

    patch(instantiate, "_compare", wrong)


def slides_past_a_row(patch: Patch) -> None:
    right = sliding_windows._above
    patch(sliding_windows, "_above", lambda at, bound: right(at, bound + 1))


def storage_outside_parallel_loops(patch: Patch) -> None:
    patch(placement, "_store_refusal", lambda *args: None)


def reduction_axis_ignores_its_start(patch: Patch) -> None:
    right = statement.to_lin
    patch(statement, "to_lin", lambda value, *more: ZERO if value == 1 else right(value, *more))


def slides_over_rows_it_skips(patch: Patch) -> None:
    """Slide by single rows, so that rows between two windows keep stale values."""
    patch(sliding_windows, "step", lambda bound, var: 1)


def hoisted_guard_lost(patch: Patch) -> None:
    right = hoist._rebuilt

    def wrong(outer: Any, stmts: Any) -> Any:
        made = right(outer, stmts)
        lost = isinstance(outer, For) and isinstance(made[0], hoist.If)
        return list(made[0].body.stmts) if lost else made

    patch(hoist, "_rebuilt", wrong)


def empty_reduction_writes_nothing(patch: Patch) -> None:
    right = build._level

    def wrong(n: Any, depth: int, scope: Any) -> Any:
        drafts, pending = yield right(n, depth, scope)
        first = next((k for k, a in enumerate(n.leaf) if a.is_reduce), None)
        if n.init or first != depth:
            return drafts, pending
        extent = n.plan.extents[n.leaf[depth]]
        if extent.const is not None:
            return (drafts if extent.const else []), pending
        some = Binary("<", to_expr(ZERO), to_expr(extent), "bool")
        return [hoist.If(some, drafts.block(drafts))], pending

    patch(build, "_level", wrong)


def masks_lost(patch: Patch) -> None:
    right = stores.Stores._store_one

    def wrong(self: Any, store: Any, buffer: Any, value: Any, context: Any) -> Any:
        return right(self, store, buffer, value, context._replace(mask=None))

    patch(stores.Stores, "_store_one", wrong)


def later_lanes_start_over(patch: Patch) -> None:
    right = strips._lanes
    patch(strips, "_lanes", lambda axis, first, count, body: right(axis, 0, count, body))


def open_tests_taken_to_hold(patch: Patch) -> None:
    right = conditions._comparison

    def wrong(node: Any, place: Any) -> bool:
        found = right(node, place)
        return True if found is None else found

    patch(conditions, "_comparison", wrong)


def kernel_keeps_its_first_sizes(patch: Patch) -> None:
    right = kernel.Kernel._launch

    def wrong(self: Any, arrays: Any, sizes: Any) -> None:
        right(self, arrays, self.__dict__.setdefault("first", sizes))

    patch(kernel.Kernel, "_launch", wrong)


def what_was_read_before_is_taken_to_be_under_a_mask(patch: Patch) -> None:
    right = expressions.Evaluation._masked_sides

    def wrong(self: Any, node: Any, cond: Any) -> Any:
        before = self.done.get(id(node.a))
        if before is not None and before.type.lanes and self._reads_or_is_zero(node):
            return before
        return right(self, node, cond)

    patch(expressions.Evaluation, "_masked_sides", wrong)


def maximum_forgets_nan(patch: Patch) -> None:
    patch(twins, "maximum", np.fmax)


def call_leaves_the_tensor(patch: Patch) -> None:
    patch(extern, "_clipped", lambda dim, ranges: extern._unclipped(dim))


def call_reads_the_next_rows(patch: Patch) -> None:
    right = extern._spans

    def wrong(ends: Any, values: Any) -> Any:
        return tuple((lo + 1, end + 1) for lo, end in right(ends, values))

    patch(extern, "_spans", wrong)


EXTERN_BUGS = [call_leaves_the_tensor, call_reads_the_next_rows]
BUGS = [
    dropped_guard, dropped_domain_guard, off_by_one_box, union_forgets_one_reader, lost_init,
    dropped_where, wrong_stride, wrong_origin, rfactor_guard_lost, rfactor_keeps_init,
    cut_tail_skipped, late_guard_of_a_tail_lost, hoisted_too_far,
    inlined_at_wrong_index, folded_wrong, slides_past_a_row, storage_outside_parallel_loops,
    reduction_axis_ignores_its_start, slides_over_rows_it_skips, hoisted_guard_lost,
    empty_reduction_writes_nothing,
]  # fmt: skip
KERNEL_BUGS = [
    masks_lost, later_lanes_start_over, open_tests_taken_to_hold, kernel_keeps_its_first_sizes,
    what_was_read_before_is_taken_to_be_under_a_mask, maximum_forgets_nan,
]  # fmt: skip


# each of these takes the fuzzer many cases, or seconds
MANY_CASES = (
    open_tests_taken_to_hold,
    late_guard_of_a_tail_lost, dropped_domain_guard, rfactor_guard_lost, rfactor_keeps_init,
    wrong_stride, empty_reduction_writes_nothing, storage_outside_parallel_loops,
    maximum_forgets_nan, masks_lost,
    what_was_read_before_is_taken_to_be_under_a_mask, inlined_at_wrong_index, slides_past_a_row,
    cut_tail_skipped, reduction_axis_ignores_its_start, slides_over_rows_it_skips,
    call_leaves_the_tensor,
)  # fmt: skip


def bugs(some: Sequence[Callable[[Patch], None]]) -> list[Any]:
    """Return the bugs as parameters; mark those that need many cases as slow."""
    quick = [bug.__name__ for bug in some if bug not in MANY_CASES]
    return slow_but(quick, some, lambda bug: bug.__name__)


@pytest.mark.parametrize("bug", bugs(BUGS))
def test_each_bug_is_caught(bug: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch.setattr)
    case = caught("bugs")
    assert case is not None, f"{bug.__name__} was not caught in {MOST_CASES} cases"


@pytest.mark.parametrize("bug", bugs(KERNEL_BUGS))
def test_each_bug_in_a_kernel_is_caught(
    bug: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch.setattr)
    # use another seed: a kernel file that is already loaded keeps the intrinsics it imported
    case = caught(bug.__name__, ["python"])
    assert case is not None, f"{bug.__name__} was not caught in {MOST_CASES} cases"


@pytest.mark.parametrize("bug", bugs(EXTERN_BUGS))
def test_each_bug_of_a_call_is_caught(
    bug: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch.setattr)
    assert caught("externs", externs=0.4), f"{bug.__name__} was not caught"


def test_without_bugs_cases_with_calls_pass() -> None:
    cases = [run_case("externs", index, ["python"], externs=0.4) for index in range(4)]
    for case in cases:
        assert case.outcome != "failed", case.snippet + case.failure


def test_without_bugs_the_same_cases_pass() -> None:
    found = [
        case
        for case in (run_case("bugs", index) for index in range(10))
        if case.outcome == "failed"
    ]
    assert not found, found[0].snippet + found[0].failure
