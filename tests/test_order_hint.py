"""The header of a kernel file suggests a better loop order where the innermost loop strides."""

from __future__ import annotations

from typing import Any

import schedlang as sl
from schedlang.diagnostics.order_hint import order_hints

PRODUCT = (
    "Hint for stage C: its innermost loop k accesses B[k, j] 512 elements apart. In the order "
    "i, k, j neighbours follow each other, and LLVM may vectorize j."
)


def product(n: int = 512) -> tuple[sl.Tensor, Any]:
    A, B = sl.placeholder((n, n), name="A"), sl.placeholder((n, n), name="B")
    k = sl.reduce_axis(n, name="k")
    return sl.compute((n, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C"), k


def hints(s: sl.Schedule) -> list[str]:
    return order_hints(sl.lower(s))


def test_the_naive_product_names_its_order_in_the_file() -> None:
    C, _ = product()
    s = sl.schedule(C)
    assert hints(s) == [PRODUCT]
    header = sl.build(s).source.partition("import")[0]
    assert PRODUCT in header.replace("\n# ", " ")


def test_a_followed_hint_is_not_repeated() -> None:
    C, k = product()
    s = sl.schedule(C)
    i, j = C.op.axis
    s[C].reorder(i, k, j)
    assert hints(s) == []
    assert "Hint" not in sl.build(s).source


def test_splits_are_named_as_the_nest_names_them() -> None:
    C, k = product()
    s = sl.schedule(C)
    xo, yo, xi, yi = s[C].tile(*C.op.axis, 32, 32)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(xo, yo, xi, yi, ko, ki)
    (hint,) = hints(s)
    assert "the order i.outer, j.outer, i.inner, k.outer, k.inner, j.inner" in hint


def test_no_hint_where_it_would_not_help() -> None:
    small, _ = product(16)
    assert hints(sl.schedule(small)) == []
    lanes, _ = product()
    s = sl.schedule(lanes)
    s[lanes].vectorize(s[lanes].split(lanes.op.axis[1], factor=8)[1])
    assert hints(s) == []
    A = sl.placeholder((512, 512), name="A")
    turned = sl.compute((512, 512), lambda i, j: A[j, i], name="T")
    assert hints(sl.schedule(turned)) == []


def test_a_loop_with_an_attached_stage_is_not_moved() -> None:
    A, B = sl.placeholder((64, 64), name="A"), sl.placeholder((64, 64), name="B")
    D = sl.compute((64, 64), lambda i, j: A[i, j] + 1, name="D")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(D[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    s[D].compute_at(s[C], C.op.axis[1])
    assert all("stage C" not in hint for hint in hints(s))
    s[D].compute_at(s[C], C.op.axis[0])
    assert any("In the order i, k, j" in hint for hint in hints(s))
