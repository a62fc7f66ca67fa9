"""Profiles of CPU kernels: the stamped nest, which loops are measured, how times add up, the page.

How well the times fit is measured, not asserted: other work on the machine changes them.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

import schedlang as sl
from schedlang.errors import CallError
from schedlang.intrinsics.cpu import clock
from schedlang.intrinsics.cpu import ticks as compiled_ticks
from schedlang.machine.loop_tree import loop_tree
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.stamps import WHOLE, slots_of, with_stamps
from schedlang.machine.verify import verify_machine
from schedlang.runtime import cpu_profile, files
from schedlang.runtime.cpu_profile import Stamp, Subject, Tree, choose
from schedlang.runtime.profile import OTHER, WAITING, Part, Profile
from tests.machine_interpreter import interpret_machine

Golden = Callable[[object], None]


def blur(rows: int = 24, columns: int = 32, parallel: bool = True) -> tuple[sl.Schedule, Any]:
    """Return squares added down columns: B is computed in each strip of 6 rows of C."""
    A = sl.placeholder((rows + 2, columns), name="A")
    B = sl.compute((rows + 2, columns), lambda y, x: A[y, x] * A[y, x], name="B")
    C = sl.compute(
        (rows, columns), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C"
    )
    s = sl.schedule(C)
    strip, _ = s[C].split(C.op.axis[0], factor=6)
    s[B].compute_at(s[C], strip)
    for stage in (B, C):
        s[stage].vectorize(s[stage].split(stage.op.axis[1], factor=8)[1])
    if parallel:
        s[C].parallel(strip)
    return s, [A, C]


def blurred(a: np.ndarray) -> np.ndarray:
    b = a * a
    found: np.ndarray = b[:-2] + b[1:-1] + b[2:]
    return found


def all_of(nest: MachineNest) -> tuple[Any, Any]:
    """Return the loops of a nest, and slots for all of them and the parallel iterations."""
    loops = [place.loop for place in loop_tree(nest, {})]
    return loops, slots_of(loops, [loop for loop in loops if loop.parallel])


def test_stamps_around_every_loop(golden: Golden) -> None:
    s, args = blur()
    nest = sl.build(s, args, target=sl.Target("cpu", vector_bytes=32)).machine_nest
    golden(with_stamps(nest, all_of(nest)[1], 2))


@pytest.mark.parametrize("parallel", [True, False])
def test_a_stamped_nest_computes_the_same_and_counts(parallel: bool) -> None:
    s, args = blur(parallel=parallel)
    nest = sl.build(s, args).machine_nest
    loops, slots = all_of(nest)
    made = with_stamps(nest, slots, 1)
    verify_machine(made)
    a = np.random.default_rng(0).random((26, 32), "float32")
    c, times = np.zeros(24 * 32, "float32"), np.zeros((2, slots.width), "int64")
    interpret_machine(made, [a.reshape(-1), c, times.reshape(-1)])
    np.testing.assert_allclose(c.reshape(24, 32), blurred(a), rtol=1e-6)

    def runs(row: int, slot: int) -> int:
        return int(times[row, 2 * slot + 1])

    assert runs(0, WHOLE) == 1 and (times >= 0).all()
    # 4 strips, of each 8 rows of B and 6 of C, each with a loop over vectors
    row = int(parallel)
    found = {(p.stage, p.axis): runs(row, slots.loops[p]) for p in loops if not p.parallel}
    wanted = {("B", "y"): 4, ("B", "x.outer"): 32, ("C", "y.inner"): 4, ("C", "x.outer"): 24}
    assert found == (wanted if parallel else {("C", "y.outer"): 1, **wanted})
    if parallel:
        (strips,) = (loop for loop in loops if loop.parallel)
        assert runs(0, slots.loops[strips]) == 1 and runs(1, slots.bodies[strips]) == 4


def test_functions_of_a_long_kernel_are_measured() -> None:
    A = sl.placeholder((4,), name="A")
    tensors = [A]
    for k in range(30):
        tensors.append(sl.compute((4,), lambda i, t=tensors[-1]: t[i] + 1, name=f"T{k}"))
    s = sl.schedule(tensors[-1])
    f = sl.build(s, [A, tensors[-1]], target="python")
    assert len(f.machine_nest.functions) > 1
    profile = f.profile(np.zeros(4, "float32"), share=1.0)
    assert set(profile.stages) == {f"T{k}" for k in range(30)} and not profile.notes


def test_the_tree_estimates_ranges_of_sizes_and_other_loops() -> None:
    n = sl.var("n")
    A = sl.placeholder((n, n), name="A")
    k = sl.reduce_axis((0, n), name="k")
    B = sl.compute((n, n), lambda i, j: sl.sum(A[i, k] * A[k, j], axis=k), name="B")
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], nparts=4)
    nest = sl.build(s, [A, B], target="python").machine_nest
    (size,) = (p.name for p in nest.entry.parameters[2:])
    found = [(p.loop.axis, p.times, p.iterations) for p in loop_tree(nest, {size: 40})]
    assert found[0] == ("i.outer", 1, 4)
    assert {(axis, times) for axis, times, _ in found if axis in ("j", "k")} == {
        ("j", 40), ("k", 1600),
    }  # fmt: skip


def tree_of(nest: MachineNest, pairs: float, levels: int = 3) -> list[tuple[str, str]]:
    tree = choose(loop_tree(nest, {}), pairs, levels, 2)
    return [(p.loop.stage, p.loop.axis) for p in tree.places]


def test_the_outermost_loops_of_stages_come_first() -> None:
    s, args = blur()
    nest = sl.build(s, args).machine_nest
    places = loop_tree(nest, {})
    every = [("C", "y.outer"), ("B", "y"), ("B", "x.outer"), ("C", "y.inner"), ("C", "x.outer")]
    assert tree_of(nest, 1e9) == every
    assert tree_of(nest, 1e9, levels=1) == [("C", "y.outer"), ("B", "y")]
    assert tree_of(nest, 1e9, levels=2) == every[:4]
    # one loop; 4 iterations on 2 threads; then 4 loops of B on 2 threads: 1 + 2 + 2
    assert tree_of(nest, 5) == [("C", "y.outer"), ("B", "y")]
    tree = choose(places, 2.9, 3, 2)
    assert [p.loop.axis for p in tree.places] == ["y.outer"] and not tree.slots.bodies
    # the others take a fifth of the pairs: 1 + 2 + 2 + 2 are at most 35 / 5
    assert tree_of(nest, 35) == [("C", "y.outer"), ("B", "y"), ("C", "y.inner")]


def subject(nest: Any, machine: MachineNest) -> Subject:
    def never(*_: Any) -> Any:
        raise AssertionError

    return Subject("C", sl.Target(), nest, machine, never, never, [], 2)


def profiled(times: dict[tuple[int, int], tuple[int, int]], tree: Tree, f: Any) -> Profile:
    """Return the profile of ticks and runs by row and slot; a tick is 1 µs, a pair takes 3."""
    array = np.zeros((3, tree.slots.width), "int64")
    for (row, slot), (ticks, runs) in times.items():
        array[row, 2 * slot : 2 * slot + 2] = ticks, runs
    made = subject(f.loop_nest, f.machine_nest)
    return cpu_profile._profile(made, tree, array, Stamp(1e-6, 1.0, 3.0), 1.0, 1)


def test_times_of_threads_by_hand() -> None:
    s, args = blur()
    f = sl.build(s, args)
    tree = choose(loop_tree(f.machine_nest, {}), 45, 2, 2)
    y_outer, y, y_inner = (tree.slots.loops[p.loop] for p in tree.places)
    body = tree.slots.bodies[tree.places[0].loop]
    times = {
        (0, WHOLE): (10_000, 1), (0, y_outer): (9_000, 1),
        # two strips on each thread, of which the second is the slower one
        (1, body): (5_000, 2), (1, y): (3_000, 2), (1, y_inner): (1_500, 2),
        (2, body): (8_014, 2), (2, y): (5_002, 2), (2, y_inner): (2_502, 2),
    }  # fmt: skip
    profile = profiled(times, tree, f)
    # on thread 1: two pairs of the body are 6, those of the loops in it 12
    parts = {(p.stage, p.name): p for p in profile.parts}
    assert parts["B", "y"].seconds == pytest.approx(5_000e-6)
    assert parts["C", "y.inner"].seconds == pytest.approx(2_500e-6)
    outer = parts["C", "y.outer"]
    assert outer.threads == pytest.approx((5_000e-6 - 14e-6, 8_000e-6))
    assert outer.seconds == pytest.approx((9_000 - 1 - 6 - 12) * 1e-6)
    assert outer.own == pytest.approx((8_000 - 5_000 - 2_500) * 1e-6)
    assert [(p.depth, p.times, p.kind) for p in profile.parts] == [
        (0, 1, "parallel"), (1, 2, "serial"), (1, 2, "serial"),
    ]  # fmt: skip
    assert profile["B"] == pytest.approx(5_000e-6) and profile["C"] == pytest.approx(3_000e-6)
    assert profile.waiting == pytest.approx((9_000 - 19 - 8_000) * 1e-6)
    # of the whole: a pair of y.outer, 2 of its iterations, 4 of the loops in it, half of its own
    assert profile.overhead == pytest.approx((3 + 6 + 12 + 1) * 1e-6)
    assert profile.seconds == pytest.approx((10_000 - 22) * 1e-6)
    total = sum(profile.stages.values()) + profile.waiting + profile.other
    assert total == pytest.approx(profile.seconds)


def test_what_is_not_measured_is_named() -> None:
    s, args = blur()
    f = sl.build(s, args)
    tree = choose(loop_tree(f.machine_nest, {}), 1, 3, 2)
    profile = profiled({(0, WHOLE): (100, 1), (0, 1): (90, 1)}, tree, f)
    assert list(profile.stages) == ["C"] and profile.waiting == 0
    assert profile.notes[0].startswith("the time of B is in the time of what is around it: its")
    assert profile.notes[1].startswith("the threads of y.outer are not told apart")
    with pytest.raises(CallError, match="the profile of C has no stage 'B'; it has C"):
        profile["B"]
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    C = sl.compute((64,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    lanes = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], lanes[0])
    s[B].vectorize(B.op.axis[0])
    s[C].vectorize(lanes[1])
    profile = sl.build(s, target="python").profile(np.ones(64, "float32"), share=1.0)
    assert profile.notes == (
        "the time of B is in the time of what is around it: it has no loop in the kernel that runs",
    )


@pytest.mark.parametrize("target", ["cpu", "c", "python"])
def test_a_profile_of_each_cpu_target(target: str) -> None:
    s, args = blur(240, 256)
    f = pickle.loads(pickle.dumps(sl.build(s, args, target=target)))
    a = np.random.default_rng(1).random((242, 256), "float32")
    out = np.zeros((240, 256), "float32")
    profile = f.profile(a, out, repeat=1, share=1.0)
    np.testing.assert_allclose(out, blurred(a), rtol=1e-5)
    assert set(profile.stages) == {"B", "C"} and not profile.notes
    assert profile["B"] > 0
    assert [(p.stage, p.name) for p in profile.parts][:2] == [("C", "y.outer"), ("B", "y")]
    strips = profile.parts[0]
    assert strips.times == 1 and 1 <= len(strips.threads) and strips.seconds > 0
    # the slowest thread has some of the 40 strips, with a loop over B in each
    assert 1 <= profile.parts[1].times <= 40
    assert profile.seconds > 0 and profile.kernel_seconds > 0 and profile.runs >= 1


def test_sizes_are_those_of_the_call() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: B[n - 1 - i] + 1, name="C")
    f = sl.build(sl.schedule(C), [A, C], target="python")
    a = np.arange(50, dtype="float32")
    out = np.zeros(50, "float32")
    profile = f.profile(C=out, A=a)
    np.testing.assert_array_equal(out, (a * 2)[::-1] + 1)
    assert [p.times for p in profile.parts] == [1, 1]
    with pytest.raises(CallError, match="dimension 0"):
        f.profile(a, out[:3])


def test_wrong_options_are_refused() -> None:
    s, args = blur()
    f, a = sl.build(s, args, target="python"), np.ones((26, 32), "float32")
    for name, value in (("repeat", 0), ("repeat", 1.5), ("levels", 0), ("levels", True)):
        with pytest.raises(CallError, match=rf"profile\(\.\.\., {name}=.*an integer, 1 or more"):
            f.profile(a, **{name: value})
    for share in (0, -1, 1.5, "much", float("nan")):
        with pytest.raises(CallError, match=r"share=.*above 0 and up to 1"):
            f.profile(a, share=share)


def example() -> Profile:
    parts = (
        Part("y.outer", "C", "parallel", 0, 9e-3, 1e-3, 1, (8e-3, 7e-3)),
        Part("y", "B", "serial", 1, 5e-3, 5e-3, 4),
        Part("y.inner", "C", "serial", 1, 2e-3, 2e-3, 4),
    )
    stages = {"C": 3e-3, "B": 5e-3}
    return Profile("C", "cpu", 10e-3, 9.5e-3, stages, 1e-3, 1e-3, parts, 1e-4, 5, ("a note",))


def test_a_profile_as_text(golden: Golden) -> None:
    golden(example())
    assert WAITING in str(example()) and OTHER in str(example())


def test_a_profile_as_a_page() -> None:
    html = example()._repr_html_()
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    space = "{http://www.w3.org/2000/svg}" if svg.tag.startswith("{") else ""
    boxes = svg.findall(f"{space}g")
    assert len(boxes) == 4
    widths = {b[0].text: float(b[1].get("width", 0)) + 1 for b in boxes}
    # 960 points are 10 ms
    wanted = {"C: 10 ms": 960, "parallel y.outer of C: 9 ms, 1×": 864,
              "y of B: 5 ms, 4×": 480, "y.inner of C: 2 ms, 4×": 192}  # fmt: skip
    assert widths == pytest.approx(wanted)
    assert example()._repr_mimebundle_() == {"text/html": html, "text/plain": str(example())}
    assert html.count("<svg") == 2 and "thread 1" in html and "a note" in html
    hostile = replace(example(), name="<script>alert(1)</script>", notes=("<b>",))
    page = hostile._repr_html_()
    assert "<script>alert" not in page and "<b>" not in page.replace("<b>y", "")


def test_stamps_are_compiled_for_each_kind_of_clock() -> None:
    """Return ticks that pass, from the counter and from the system's clock; Arm's as text."""

    @intrinsic
    def system_clock(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return clock.read_system_clock(builder, "x86_64-unknown-linux-gnu")

        return types.int64(), codegen

    @njit
    def both() -> Any:
        return compiled_ticks(), system_clock()

    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    first, at = both()
    second, _ = both()
    assert before <= at <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) and second > first
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(clock.COUNT, []), "stamp")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(clock.read_counter(builder, "aarch64-unknown-linux-gnu"))
    assert "mrs $0, cntvct_el0" in str(module) and "readcyclecounter" not in str(module)
    assert clock.has_counter("arm64-apple-darwin") and not clock.has_counter("riscv64-unknown")


def test_the_cost_of_a_stamp_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the measured cost with a clock that advances by 5 at each stamp, 0.1 s in all."""
    from schedlang.intrinsics import twins

    now = iter(range(0, 10**9, 5))
    monkeypatch.setattr(twins, "ticks", lambda: next(now))
    seconds = iter([k * 0.1 for k in range(100)])
    monkeypatch.setattr(cpu_profile, "perf_counter", lambda: next(seconds))
    monkeypatch.setattr(files, "_LOADING", files._LOADING)
    s, args = blur(parallel=False)
    f = sl.build(s, args, target="python", name="fixed_clock")

    def load(nest: MachineNest) -> Any:
        renamed = replace(nest.entry, name="stamps_of_a_fixed_clock")
        return f._start_of(MachineNest((renamed,)))

    stamp = cpu_profile.measure_stamp(load, 100)
    # 100 pairs, and the pair around them: 201 steps of 5 from the first stamp to the last
    assert stamp.inside == pytest.approx(5.0) and stamp.whole == pytest.approx(201 * 5 / 100)
    assert stamp.seconds_per_tick == pytest.approx(0.1 / (201 * 5))
