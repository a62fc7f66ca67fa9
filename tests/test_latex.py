r"""Tests of ``C.latex()``: golden text, and parsers of other libraries that accept it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.conftest import Golden
from tests.graphs import matmul, recurrence

n = sl.var("n")
A = sl.placeholder((n,), name="A")
M = sl.placeholder((n, n), name="M")
W1 = sl.placeholder((8, 8), name="W1")
U = sl.placeholder((8,), "uint8", name="U")
P = sl.placeholder((8,), "bool", name="P")


def reduced(op: Any, name: str, **options: Any) -> sl.Tensor:
    k = sl.reduce_axis(n, name="k")
    if "where" in options:
        where = options.pop("where")
        return sl.compute(
            (n,), lambda i: op(M[i, k] - 1, axis=k, where=where(i, k), **options), name=name
        )
    return sl.compute((n,), lambda i: op(M[i, k] - 1, axis=k, **options), name=name)


def softmax() -> sl.Tensor:
    k, r = sl.reduce_axis(n, name="k"), sl.reduce_axis(n, name="k")
    top = sl.compute((n,), lambda i: sl.max(M[i, k], axis=k), name="top")
    e = sl.compute((n, n), lambda i, j: sl.exp(M[i, j] - top[i]), name="e")
    total = sl.compute((n,), lambda i: sl.sum(e[i, r], axis=r), name="total")
    return sl.compute((n, n), lambda i, j: e[i, j] / total[i], name="softmax")


def convolution() -> sl.Tensor:
    X = sl.placeholder((3, 8, 8), name="X")
    F = sl.placeholder((4, 3, 3, 3), name="F")
    padded = sl.pad(X, (0, 1, 1), name="padded")
    c, dy, dx = (sl.reduce_axis(3, name=name) for name in ("c", "dy", "dx"))
    return sl.compute(
        (4, 8, 8), lambda o, y, x: sl.sum(padded[c, y + dy, x + dx] * F[o, c, dy, dx], (c, dy, dx)),
        name="Y",
    )  # fmt: skip


def best_and_value() -> sl.Tensor:
    def better(x: Any, y: Any) -> Any:
        first = (x[1] > y[1]) | ((x[1] == y[1]) & (x[0] < y[0]))
        return sl.select(first, x[0], y[0]), sl.select(first, x[1], y[1])

    best = sl.comm_reducer(
        better, lambda i, v: (sl.const(2**31 - 1, i), sl.const(-np.inf, v)), name="best"
    )
    k = sl.reduce_axis(8, name="k")
    return sl.compute((8,), lambda i: best((sl.cast(k, "int32"), W1[i, k]), axis=k), name="b")[0]


def clipped() -> sl.Tensor:
    def body(i: Any) -> Any:
        low = sl.if_then_else(sl.all(i > 0, i < n - 1), A[i - 1] + A[i], 0.0)
        return sl.select(A[i] > 1, 1.0, sl.select(A[i] < -1, -1.0, low)) * 2

    return sl.compute((n,), body, name="clipped")


CASES: dict[str, Any] = {
    "matmul": lambda: matmul()["C"],
    "recurrence": lambda: recurrence()["out"],
    "softmax": softmax,
    "convolution": convolution,
    "choices": clipped,
    "triangle": lambda: reduced(sl.sum, "s", where=lambda i, k: k <= i, init=3),
    "maximum": lambda: reduced(sl.max, "m", init=0),
    "argmax": lambda: reduced(sl.argmax, "best"),
    "product": lambda: reduced(sl.prod, "p", init=2),
    "custom_reducer_of_two": best_and_value,
    "two_outputs": lambda: sl.compute(
        (n,), lambda i: (A[i] * 2, sl.exp(-A[i]) / (1 + A[i])), name="pair"
    )[0],
    "order_of_operands": lambda: sl.compute(
        (n,), lambda i: -((A[i] - 1) ** 2) - (A[i] - (A[i] + 3)) * -A[i] - 5e-6 * A[i], name="alpha"
    ),
    "integers": lambda: sl.compute(
        (8,), lambda i: ((U[i] >> 2) & 3) + U[7 - i] // 2 % 3 + sl.cast(A[0], "uint8"), name="bits"
    ),
    "logic": lambda: sl.compute((8,), lambda i: (P[i] & ~P[7 - i]) | (U[i] >= 3), name="met"),
    "functions": lambda: sl.compute(
        (n,),
        lambda i: sl.sqrt(sl.abs(A[i])) + sl.floor(A[i]) + sl.rsqrt(A[i]) + sl.erf(A[i])
        + sl.sigmoid(A[i]) + sl.max(A[i], 0.0) + sl.log2(A[i]),
        name="f",
    ),
    "gather": lambda: sl.compute((8,), lambda row: A[U[row]], name="picked"),
    "no_dimensions": lambda: sl.compute((), lambda: A[0] * 2, name="first"),
    "input": lambda: M,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_text(case: str, golden: Golden) -> None:
    golden(CASES[case]().latex())


def equations(text: str) -> list[str]:
    inner = text.replace("\\begin{aligned}\n", "").replace("\n\\end{aligned}", "")
    return [line.replace("&=", "=") for line in re.split(r" \\\\\n", inner)]


@pytest.mark.parametrize("case", CASES)
def test_braces_and_environments_close(case: str) -> None:
    text = CASES[case]().latex()
    bare = text.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert text.count(r"\left") - text.count(r"\leftarrow") == text.count(r"\right")
    for what in ("cases", "aligned"):
        assert text.count(rf"\begin{{{what}}}") == text.count(rf"\end{{{what}}}")


@pytest.mark.parametrize("case", CASES)
def test_matplotlib_draws_it(case: str) -> None:
    mathtext = pytest.importorskip("matplotlib.mathtext")
    parser = mathtext.MathTextParser("path")
    for line in equations(CASES[case]().latex()):
        if "cases" not in line:
            parser.parse(f"${line}$")


def test_sympy_reads_it() -> None:
    pytest.importorskip("lark")
    from sympy.parsing.latex import parse_latex

    x, y = sl.placeholder((), name="x"), sl.placeholder((), name="y")
    made = sl.compute((), lambda: (x[()] + 1) * y[()] - x[()] / (y[()] - 2) ** 3, name="z")
    right = made.latex().split("=")[1]
    found = parse_latex(right, backend="lark")
    for a, b in ((1.0, 3.0), (2.5, -1.0)):
        want = sl.reference(made)(np.float32(a), np.float32(b))
        values = {s: {"x": a, "y": b}[s.name] for s in found.free_symbols}
        assert float(found.subs(values)) == pytest.approx(float(want), rel=1e-6)


def test_ranges_on_request() -> None:
    made = sl.compute((8, n), lambda i, j: M[i, j] * 2, name="C")
    assert made.latex(ranges=True) == (
        r"C_{i,j} = M_{i,j} \cdot 2 \qquad 0 \leq i < 8,\; 0 \leq j < n"
    )


def test_jupyter_shows_the_formula_unless_it_is_too_long() -> None:
    made = sl.compute((n,), lambda i: A[i] + 1, name="B")
    assert made._repr_latex_() == r"$\displaystyle B_{i} = A_{i} + 1$"

    def doubled(i: Any) -> Any:
        value = A[i]
        for _ in range(60):
            value = value * value
        return value

    deep = sl.compute((n,), doubled, name="deep")
    assert len(deep.latex()) < 20_000 and r"\cdots" in deep.latex()
    assert deep._repr_latex_() is None


def test_equal_names_are_told_apart() -> None:
    first = sl.compute((n,), lambda i: A[i] + 1, name="A")
    k = sl.reduce_axis(n, name="i")
    made = sl.compute((n,), lambda i: sl.sum(first[k] * M[i, k], axis=k), name="A")
    text = made.latex()
    lines = equations(text)
    assert len({line.split(" = ")[0] for line in lines}) == 2
    assert r"\sum_{i'=0}^{n - 1}" in text and "M_{i,i'}" in text
