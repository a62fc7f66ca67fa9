"""The memory plan of a network: places in one arena."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlang.codegen.network_file import place_sources
from schedlang.errors import BuildError
from schedlang.machine.alignment import align_up
from schedlang.networks.memory import Lifetime, MemoryPlan, plan_memory
from tests.conftest import Golden


@st.composite
def tensors(draw: st.DrawFn) -> list[Lifetime]:
    """Return tensors of random lifetimes and sizes, few of them different."""
    found = []
    for k in range(draw(st.integers(0, 25))):
        first = draw(st.integers(0, 12))
        last = first + draw(st.integers(0, 5))
        size = draw(st.sampled_from([0, 1, 64, 100, 640, 4096, 5000]))
        found.append(Lifetime(f"t{k}", size, first, last))
    return found


def checked(plan: MemoryPlan, given: list[Lifetime]) -> None:
    """Check that no two tensors in use at once overlap, but those that take over another one."""
    assert [p.name for p in plan.placed] == [
        t.name for t in sorted(given, key=lambda t: (t.first, t.last, t.name))
    ]
    over = {(p.name, p.in_place_of) for p in plan.placed}
    for a in plan.placed:
        assert a.offset % 64 == 0 and a.offset + a.bytes <= plan.peak
        for b in plan.placed:
            together = a.first <= b.last and b.first <= a.last
            if a is b or not together or (a.name, b.name) in over or (b.name, a.name) in over:
                continue
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert apart or not a.bytes or not b.bytes, (a, b)
    assert plan.bound <= plan.peak <= plan.total


@settings(deadline=None, max_examples=150)
@given(tensors())
def test_no_two_tensors_in_use_at_once_overlap(given: list[Lifetime]) -> None:
    plan = plan_memory(given)
    checked(plan, given)
    assert plan.total == sum(align_up(t.bytes) for t in given)
    calls = max((t.last + 1 for t in given), default=0)
    live = [sum(align_up(t.bytes) for t in given if t.first <= k <= t.last) for k in range(calls)]
    assert plan.bound == max(live, default=0)


@settings(deadline=None, max_examples=100)
@given(tensors())
def test_a_file_plans_as_a_network_does(given: list[Lifetime]) -> None:
    """The planner stands in a file, without tensors that take over the memory of others."""
    names: dict[str, Any] = {"np": np}
    exec("\n\n".join(place_sources()), names)
    size, places = names["_places"]([((t.bytes,), 1, t.first, t.last) for t in given])
    plan = plan_memory(given)
    assert size == max(64, plan.peak)
    starts = [plan.offset(t.name) for t in given]
    assert places.reshape(-1, 2).tolist() == [[s, t.bytes] for s, t in zip(starts, given)]


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(tensors(), st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=40))
def test_tensors_that_take_over_others(given: list[Lifetime], pairs: list) -> None:
    wanted = [(f"t{a}", f"t{b}") for a, b in pairs]
    plan, alone = plan_memory(given, wanted), plan_memory(given)
    checked(plan, given)
    assert plan.peak <= alone.peak
    placed = {p.name: p for p in plan.placed}
    over = [p for p in plan.placed if p.in_place_of is not None]
    # a tensor is taken over once, at its last use
    assert len({p.in_place_of for p in over}) == len(over)
    for p in over:
        assert (p.name, p.in_place_of) in wanted
        before = placed[p.in_place_of]
        assert before.last == p.first > before.first and before.offset == p.offset


def test_a_chain_needs_two_buffers_and_one_in_place() -> None:
    chain = [Lifetime(f"t{k}", 1000, k, k + 1) for k in range(10)]
    assert plan_memory(chain).peak == plan_memory(chain).bound == 2 * 1024
    pairs = [(f"t{k + 1}", f"t{k}") for k in range(9)]
    assert plan_memory(chain, pairs).peak == 1024


def test_a_gap_is_filled_by_what_fits_best() -> None:
    # a and c leave gaps of 128 and 256 bytes; d fits exactly into the smaller one
    given = [Lifetime("a", 128, 0, 1), Lifetime("b", 64, 0, 5), Lifetime("c", 256, 0, 1),
             Lifetime("d", 128, 2, 5), Lifetime("e", 256, 2, 5)]  # fmt: skip
    plan = plan_memory(given)
    checked(plan, given)
    assert plan.peak == plan.bound == 448


def test_a_residual_network_as_a_table(golden: Golden) -> None:
    given = [Lifetime("stem", 40960, 0, 3), Lifetime("conv1", 40960, 1, 2),
             Lifetime("conv2_scratch", 12800, 2, 2), Lifetime("conv2", 40960, 2, 3),
             Lifetime("sum", 40960, 3, 4), Lifetime("pooled", 256, 4, 5)]  # fmt: skip
    plan = plan_memory(given, [("sum", "stem"), ("sum", "conv2")])
    assert plan.offset("sum") == plan.offset("stem")
    golden(plan)


def test_nothing_is_planned() -> None:
    plan = plan_memory([])
    assert (plan.peak, plan.total, plan.bound) == (0, 0, 0)
    assert str(plan) == "memory: no tensor is stored between kernels"


def test_lifetimes_that_cannot_be() -> None:
    with pytest.raises(BuildError, match="two tensors are named 'a'"):
        plan_memory([Lifetime("a", 1, 0, 0), Lifetime("a", 1, 0, 0)])
    with pytest.raises(BuildError, match="a is read by call 1, before call 2 writes it"):
        plan_memory([Lifetime("a", 1, 2, 1)])
