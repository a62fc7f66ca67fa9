"""Arrays and lists with known elements that a traced function reads at unknown places."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.tracing import specialization
from tests.test_jit_random_loops import function_of
from tests.test_jit_source import check


@pytest.fixture(autouse=True)
def _without_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    # what is computed does not depend on schedules, which take most of the time
    monkeypatch.setattr(specialization, "schedule_for", lambda out, *_: sl.schedule(out))


TABLE = np.array([3.0, 1, 4, 1, 5])
# the body of a function of integers k from -5 to 4, and floats x
READ = {
    "a table": "return TABLE[k], TABLE[k[0]], TABLE[::-1][k] * 2, TABLE[k % 2, None]",
    "bytes": 'lut = np.arange(256, dtype="uint8")[::-1]\nreturn lut[k.astype("uint8")]',
    "two dimensions": (
        "t = np.arange(15.0).reshape(5, 3)\n"
        "r = t[k], t[k, k % 3], t[k, 1:], t[:, k % 3], t[k[0]], t[k[0], 1], t[..., k[1] % 3]\n"
        "return *r, t[k[0], (0, 2)], t[(0, 1), k[:2] % 3]"
    ),
    "a slice": "return TABLE[k[0] % 3 : k[0] % 3 + 2].sum()",
    "a mask": "return TABLE[x[:5] > 0.5], np.where(k > 0, TABLE[k], 0)",
    "dtypes": "return np.array([1j, 2])[k % 2], np.array([True, False])[k % 2]",
    "an order": "return TABLE[np.argsort(x[:5])], TABLE[x[:5].argmax()]",
    "a nested index": "return TABLE[np.array([4, 0, 2])[k % 3]]",
    "a copy that is written": "t = np.arange(5.0)\ny = t[k]\ny[0] = 9\nreturn y, t",
    "a later write": "t = np.arange(6.0).reshape(3, 2)\nr = t[k[0] % 3]\nt[:] = 7\nreturn r * 1",
    "no place": "c = {'a': [x, x * 2]}\nreturn c['a'][len(c)] + [1.5, 2.5][1]",
    "a map": "y = np.zeros(7)\nfor i in range(7):\n    y[i] = TABLE[i % 5] * x[i]\nreturn y",
    "coefficients": (
        "c = [0.5, 0.25, 1.0, 2.0, 3.0, 0.5]\ny = np.zeros_like(x)\n"
        "for i in range(6):\n    y += c[i] * np.roll(x, i)\nreturn y"
    ),
    "numbers of a list": (
        "c = [1, 2, 3, 4, 5]\nb = (True, False)[k[0] % 2]\n"
        'return c[k[0]] * np.arange(3, dtype="int8"), c[k[1]] + 0, b + 1, b + x'
    ),
    "np.take": (
        "return np.take(TABLE, k), np.take([1.0, 2, 3, 4, 5], k[0]), "
        "np.take(TABLE, [k[0], 1], axis=0)"
    ),
    "a list of places": (
        "y = x * 1\ny[[k[0], k[1]]] = 7\n"
        "return y, x[[k[0], 0]], TABLE[[[k[0]], [k[1]]]], TABLE[[k[0]],]"
    ),
    "sizes": (
        "n = [1, 2, 3, 1, 2, 3]\ny = np.zeros(6)\n"
        "for i in range(6):\n    y[i] = x[: n[i]].sum()\nreturn y"
    ),
    "rows": (
        "t = np.zeros((9, 2))\nfor i in range(9):\n    t[i] = x[i % 5]\n    t[i][1] = i\nreturn t"
    ),
    "functions": (
        "f = [np.negative, np.abs, np.square, np.negative, np.abs]\n"
        "for i in range(5):\n    x = f[i](x)\nreturn x"
    ),
}  # fmt: skip


def function_with(body: str):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return function_of(f"TABLE = np.array([3.0, 1, 4, 1, 5])\ndef program(k, x):\n{lines}\n")


@pytest.mark.parametrize("case", READ)
def test_reads_at_unknown_places(case: str) -> None:
    for seed, dtype in enumerate(("float64", "float32")):
        rng = np.random.default_rng(seed)
        check(function_with(READ[case]), rng.integers(-5, 5, 9), rng.random(7).astype(dtype))


def test_loops_over_tables_stay_loops() -> None:
    function = function_with(
        "t = np.arange(300.0) ** 2\nc = [0.5] * 300\ns = x[0] * 0\n"
        "for i in range(300):\n    s += t[i] * x[i % 5] * c[i]\nreturn s"
    )
    traced = check(function, np.arange(3), np.ones(7))
    assert str(traced.loops).endswith(": a reduction")


def test_a_view_of_a_table_is_not_written() -> None:
    function = function_with("t = np.arange(10.0).reshape(5, 2)\nr = t[k[0]]\nr[0] = 5\nreturn t")
    with pytest.raises(ComputeError, match=r"`r\[0\] = 5`: its array has known elements"):
        sl.jit(function, target="python")(np.arange(3), np.ones(7))


def test_tables_of_no_numbers() -> None:
    function = function_with("return np.array(['a', 'b'])[k]")
    with pytest.raises(ComputeTypeError, match="array of strings"):
        sl.jit(function, target="python")(np.arange(2), np.ones(7))
    function = function_with("return [1, 2.5, 'a'][k[0]]")
    with pytest.raises(ComputeTypeError, match=r"(?s)not all floats.* table = np.array\(\["):
        sl.jit(function, target="python")(np.arange(2), np.ones(7))


def test_sl_trace_has_no_tables() -> None:
    function = function_with("return TABLE[k]")
    with pytest.raises(ComputeError, match="constant|argument"):
        sl.trace(function, np.arange(3), np.ones(7))


LISTS = {
    "operators": lambda x: (x + [1, 2, 3], [1.5, 2, 3] * x, x > [0, 1, 0], x @ [1, 2, 3]),
    "a tuple": lambda x: (x - (1, 2, 3), np.maximum(x, (0, 1, 0))),
    "nested": lambda x: x * [[1], [2]],
    "bools": lambda x: np.where([True, False, True], x, [1.0, 2, 3]),
    "products": lambda x: (np.dot(x, [1, 2, 3]), np.outer(x[0], [1, 2]), np.cross(x, [1, 2, 3])),
    "convolve": lambda x: (np.convolve(x[0], [1, 0, -1]), np.correlate([1.0, 2], x[1], "full")),
    "average": lambda x: np.average(x, axis=1, weights=[1, 2, 3]),
    "clip": lambda x: np.clip(x, [0, 0, 1], [1, 2, 3]),
    "einsum": lambda x: np.einsum("ij,j", x, [1, 2, 3]),
    "einsum of axes": lambda x: np.einsum(x, [0, 1], [1, 0]),
    "select": lambda x: np.select([x > 0, x > -1], [x, [1, 2, 3]], [7, 8, 9]),
    "concatenate": lambda x: (np.concatenate([x[0], [1, 2]]), np.append(x, [1, 2])),
    "an array first": lambda x: (np.append([1, 2], x), np.diff(x, prepend=[[3], [4]])),
    "conditions": lambda x: np.select([x > 0, [True, False, True]], [x, 3], 7),
    "where": lambda x: (
        np.sum(x, where=[True, False, True]),
        np.any(x, 1, where=[True, False, False]),
    ),
    "numbers of the trace": lambda x: (x * [x[0, 0], 2, 3], np.dot([x[0], x[1]], x[0])),
    "isclose": lambda x: (np.isclose(x, [1, 2, 3]), np.array_equal(x[0], [1, 2, 3])),
}


@pytest.mark.parametrize("case", LISTS)
def test_lists_among_operands(case: str) -> None:
    for dtype in ("float32", "int16"):
        check(LISTS[case], np.arange(-2, 4).astype(dtype).reshape(2, 3))


def test_lists_that_numpy_makes_no_numbers_of() -> None:
    with pytest.raises(ComputeTypeError, match="with a list: an operand is an array or a number"):
        sl.jit(lambda x: x * [1, "a", 3], target="python")(np.ones(3))
