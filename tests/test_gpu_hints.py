"""Tests of advice for GPUs: products that an instruction of the threads computes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import schedlang as sl
from tests.test_dot_products import arrays, product

GPU = sl.Target("cuda", arch="sm_90")
KINDS = {("uint8", "int8"): "dp4a", ("int8", "uint8"): "dp4a", ("int8", "int8"): "dp4a_ss",
         ("uint8", "uint8"): "dp4a_uu"}  # fmt: skip


def bound(C: sl.Tensor, shared: bool = False, edge: int = 8, depth: int = 8) -> sl.Schedule:
    """Return a schedule of a product that a person writes first: a thread for each element."""
    s = sl.schedule(C)
    operands = C.op.input_tensors
    L = s.cache_write(C, "local")
    copies = [s.cache_read(tensor, "shared", [L]) for tensor in operands if shared]
    by, bx, ty, tx = s[C].tile(*C.op.axis, edge, edge)
    for axis, thread in zip((by, bx, ty, tx), ("blockIdx.y", "blockIdx.x", "threadIdx.y")):
        s[C].bind(axis, thread)
    s[C].bind(tx, "threadIdx.x")
    s[L].compute_at(s[C], tx)
    if shared:
        outer, inner = s[L].split(s[L].op.reduce_axis[0], factor=depth)
        s[L].reorder(outer, inner, *s[L].op.axis)
        for copy in copies:
            s[copy].compute_at(s[L], outer)
            s[copy].bind(s[copy].op.axis[0], "threadIdx.y")
            s[copy].bind(s[copy].op.axis[1], "threadIdx.x")
    return s


def agrees(s: sl.Schedule, tensors: list[sl.Tensor], transposed: bool) -> None:
    a, b = arrays(tensors)
    exact = a.astype("int64") @ (b.T if transposed else b).astype("int64")
    f = sl.build(s, tensors, target="cuda-emulator")
    np.testing.assert_array_equal(f.check(a, b, order="shuffle"), exact)


CASES = {
    "steps side by side": (("int8", "int8"), True, False),
    "a copy in global memory": (("uint8", "uint8"), False, False),
    "shared copies": (("uint8", "int8"), False, True),
    "shared rows": (("int8", "uint8"), True, True),
}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name == "shared copies" else pytest.mark.slow) for name in CASES
])  # fmt: skip
def test_next_steps(name: str) -> None:
    kinds, transposed, shared = CASES[name]
    tensors = product(16, 24, 32, *kinds, transposed=transposed)
    s = bound(tensors[-1], shared)
    (step,) = sl.next_steps(s, GPU)
    assert (step.primitive, step.stage) == ("tensorize", "C.local")
    assert step.code.endswith(f"sl.instructions.{KINDS[kinds]})")
    agrees(step.schedule, tensors, transposed)
    assert "dp4a." in sl.build(step.schedule, tensors, target=GPU).source
    pasted = s.copy()
    exec(step.code, {"s": pasted, "sl": sl, **{t.name: t for t in tensors}})
    assert str(pasted) == str(step.schedule)


@pytest.mark.parametrize("kinds", [
    pytest.param(kinds, marks=[] if kinds == ("int8", "int8") else pytest.mark.slow)
    for kinds in KINDS
])  # fmt: skip
def test_explain_names_the_dot_product(kinds: tuple[str, str]) -> None:
    C = product(256, 256, 256, *kinds, transposed=True)[-1]
    found = sl.explain(bound(C), target=GPU)
    names = " and ".join(dict.fromkeys(kinds))
    what = f"stage C.local multiplies {names} without the dot product of this GPU, {KINDS[kinds]}"
    assert [advice.text for advice in found.advice] == [what]
    assert "On a GPU, explain looks only for products" in str(found).splitlines()[-1]


def test_a_kernel_with_the_instruction_needs_no_advice() -> None:
    tensors = product(16, 24, 32, "int8", "int8", transposed=True)
    (step,) = sl.next_steps(bound(tensors[-1]), GPU)
    kernel = sl.build(step.schedule, tensors, target=GPU)
    assert sl.explain(kernel).advice == () and sl.next_steps(step.schedule, GPU) == []


@pytest.mark.parametrize("kinds", [("float32", "float32", "float32"), ("int16", "int8", "int32")])
def test_other_products(kinds: tuple[str, str, str]) -> None:
    s = bound(product(16, 16, 16, *kinds)[-1])
    assert sl.next_steps(s, GPU) == [] and sl.explain(s, target=GPU).advice == ()


def test_loops_without_threads_are_refused() -> None:
    s = sl.schedule(product(16, 16, 16, "int8", "int8")[-1])
    for ask in (sl.next_steps, lambda s, target: sl.explain(s, target=target)):
        with pytest.raises(sl.errors.BuildError, match=re.escape("bind")):
            ask(s, GPU)
